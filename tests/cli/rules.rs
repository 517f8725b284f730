//! `gpuprism rules`: a hand-computed case of shadowing, and sums over all rules of real traces.

use crate::cli::example::write_events;
use crate::common::{directory, gpuprism, printed, shared};
use serde_json::Value;
use std::path::Path;

/// 2 x 100 us of a fused gemm, 50 us of a plain gemm, 30 us of an unknown kernel.
fn example(test: &str) -> std::path::PathBuf {
    let folder = directory(test);
    let event = |(at, (name, dur)): (usize, (&str, u32))| {
        let ts = at * 1000;
        format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "{name}", "pid": 0, "tid": 7, "ts": {ts}, "dur": {dur}, "args": {{"device": 0, "stream": 7, "correlation": {at}}}}}"#
        )
    };
    let ops = [("fused_gemm", 100), ("fused_gemm", 100), ("gemm", 50), ("zorblax", 30)];
    write_events(&folder, "a.json", &ops.into_iter().enumerate().map(event).collect::<Vec<_>>());
    let rules = r#"{"e": {"m": {"gemm": "gemm", "fused_gemm": "moe", "norm": "norm"}}}"#;
    std::fs::write(folder.join("r.json"), rules).unwrap();
    folder
}

fn json(folder: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&printed(folder, [&["rules"], args, &["--format", "json"]].concat())).unwrap()
}

#[test]
fn a_rule_after_a_broader_rule_is_shadowed_and_names_that_rule() {
    let folder = example("rules_shadowed");
    let output = json(&folder, &["a.json", "--rules", "r.json"]);
    let rows = output["rules_in_force"]["rows"].as_array().unwrap();
    let keys =
        ["category", "rule_state", "rule_names", "launches", "elapsed_ns", "shadowed_ns", "shadowed_by", "rule_file"];
    let cells: Vec<Vec<String>> =
        rows.iter().map(|row| keys.iter().map(|key| row[key].to_string().replace('"', "")).collect()).collect();
    assert_eq!(
        cells,
        [
            ["gemm", "in use", "2", "3", "250000", "0", "", "r.json"],
            ["moe", "shadowed", "0", "0", "0", "200000", "rule 1 (gemm): 1 name", "r.json"],
            ["norm", "never hit", "0", "0", "0", "0", "", "r.json"],
        ]
    );
    let misc = &output["rules_misc"];
    assert_eq!((&misc["rows"][0]["kernel_name"], &misc["rows"][0]["taken_by"]), (&"zorblax".into(), &Value::Null));
    assert_eq!(misc["summary"]["elapsed_ns"], 30_000);
    let text = printed(&folder, ["rules", "a.json", "--rules", "r.json"]);
    assert!(text.contains("Active rules") && text.contains("Kernels in misc") && text.contains("shadowed"), "{text}");
}

#[test]
fn an_invalid_rule_is_reported_with_file_engine_model_and_regex() {
    let folder = example("rules_broken");
    std::fs::write(folder.join("bad.json"), r#"{"e": {"m": {"ge(mm": "x"}}}"#).unwrap();
    let output = gpuprism(&folder, ["rules", "a.json", "--rules", "bad.json"]);
    assert!(output.stderr.contains("bad.json: e / m / ge(mm: unusable regex"), "{}", output.stderr);
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn every_op_of_real_traces_is_counted_for_exactly_one_rule_or_as_unmatched() {
    for name in ["train_a100_rank3of8.trace.json.gz", "sglang_qwen3_30b_b300_decode.trace.json.gz"] {
        let path = shared(&format!("traces/torch/{name}"));
        let folder = directory("rules_real");
        let file = path.to_str().unwrap();
        let report = serde_json::from_str::<Value>(&printed(&folder, ["report", file, "--format", "json"])).unwrap();
        for set in [&[][..], &["--engine", "sglang", "--model", "llama"][..]] {
            let output = json(&folder, &[&[file], set].concat());
            let unmatched =
                output["rules_misc"]["rows"].as_array().unwrap().iter().filter(|row| row["taken_by"].is_null());
            let rows: Vec<&Value> =
                output["rules_in_force"]["rows"].as_array().unwrap().iter().chain(unmatched).collect();
            let sum = |key: &str| rows.iter().map(|row| row[key].as_i64().unwrap()).sum::<i64>();
            assert_eq!(sum("launches"), report["runs"][0]["totals"]["gpu_ops"].as_i64().unwrap(), "{name}");
            assert_eq!(sum("elapsed_ns"), report["runs"][0]["totals"]["elapsed_ns"].as_i64().unwrap(), "{name}");
        }
    }
}
