//! `gpuprism diff`: verdict, tables and exit codes.

use crate::cli::example::{op, write_events};
use crate::common::{Output, csv_rows, directory, file_name, files, gpuprism, printed, shared};
use serde_json::Value;
use std::path::{Path, PathBuf};

const GEMM: &str = "nvjet_tst_64x8";
const FLASH: &str = "flash_fwd_kernel";

/// Adds an SGLang step that starts at `at` us and launches these kernels (name, us) one after the other. Returns its end.
fn step(events: &mut Vec<String>, at: u32, name: &str, kernels: &[(&str, u32)]) -> u32 {
    let length: u32 = kernels.iter().map(|kernel| kernel.1).sum();
    events.push(format!(
        r#"{{"ph": "X", "cat": "user_annotation", "name": "{name}", "pid": 9, "tid": 9, "ts": {at}, "dur": {length}, "args": {{}}}}"#
    ));
    let mut at = at;
    for (kernel, us) in kernels {
        let id = events.len();
        events.push(format!(
            r#"{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": {at}, "dur": 1, "args": {{"correlation": {id}}}}}"#
        ));
        events.push(format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "{kernel}", "pid": 0, "tid": 7, "ts": {at}, "dur": {us}, "args": {{"device": 0, "stream": 7, "correlation": {id}}}}}"#
        ));
        at += us;
    }
    at
}

/// Writes a trace of decode steps with these kernels. The first kernel is 1 us longer in every second step.
fn decoding(folder: &Path, name: &str, steps: u32, kernels: &[(&str, u32)]) {
    let (mut events, mut at) = (Vec::new(), 1_000);
    for number in 0..steps {
        let mut kernels = kernels.to_vec();
        kernels[0].1 += number % 2;
        at = step(&mut events, at, "step[DECODE bs=16]", &kernels);
    }
    write_events(folder, name, &events);
}

/// Writes a trace with 100 us per step, one with 107 us per step and three times as many steps, and one as fast as the first.
fn example(test: &str) -> PathBuf {
    let folder = directory(test);
    decoding(&folder, "a.json", 10, &[(FLASH, 40), (GEMM, 60)]);
    decoding(&folder, "b.json", 30, &[(FLASH, 52), (GEMM, 55)]);
    decoding(&folder, "c.json", 20, &[(FLASH, 40), (GEMM, 60)]);
    folder
}

fn diff(folder: &Path, args: &[&str]) -> Output {
    gpuprism(folder, [&["diff"], args].concat())
}

fn json(folder: &Path, args: &[&str]) -> Value {
    serde_json::from_str(&printed(folder, [&["diff", "--format", "json"], args].concat())).unwrap()
}

#[test]
fn the_verdict_comes_first_and_names_the_changed_categories_and_kernels() {
    let folder = example("diff_verdict");
    let output = printed(&folder, ["diff", "a.json", "b.json"]);
    let verdict = output.split("\n\n").next().unwrap().replace("\n  ", " ");
    let words = "b.json is 7.0 % slower than a.json per decode step: +7.00 us on 100 us";
    assert!(verdict.starts_with(words), "{verdict}");
    assert!(verdict.contains("+12.0 us in attention, -5.00 us in gemm."), "{verdict}");
    assert!(verdict.contains("+12.0 us in flash_fwd_kernel (longer launches)"), "{verdict}");
    for words in ["attention   +12.0 us", "|########################\n", "-5.00 us                ##########|\n"] {
        assert!(output.contains(words), "{words:?} is not in {output}");
    }
}

#[test]
fn kernels_with_equal_function_names_keep_their_tile_sizes() {
    let folder = directory("diff_tiles");
    let (small, large) = ("void attention_gemm<64, 64>(float*)", "void attention_gemm<128, 64>(float*)");
    decoding(&folder, "a.json", 10, &[(small, 40), (large, 60)]);
    decoding(&folder, "b.json", 10, &[(small, 40), (large, 90)]);
    let output = printed(&folder, ["diff", "a.json", "b.json"]);
    let verdict = output.split("\n\n").next().unwrap().replace("\n  ", " ");
    assert!(verdict.contains("+30.0 us in attention_gemm<128> (longer launches)"), "{verdict}");
}

#[test]
fn json_and_csv_contain_exact_numbers_that_add_up() {
    let folder = example("diff_json");
    let output = json(&folder, &["a.json", "b.json", "c.json"]);
    assert_eq!((&output["schema"], &output["baseline"]), (&"gpuprism-comparison/1".into(), &"a.json".into()));
    assert_eq!((&output["basis"], &output["comparable"]), (&"step".into(), &true.into()));
    let outcomes: Vec<&str> =
        output["runs"].as_array().unwrap().iter().map(|r| r["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["baseline", "slower", "within noise"]);
    assert_eq!(output["runs"][1]["delta_ns"], 7_000);
    let csv = gpuprism(&folder, ["diff", "a.json", "b.json", "--format", "csv"]);
    // Warnings have no place in a csv.
    assert!(csv.stderr.starts_with("gpuprism: At least one trace does not name its GPU"), "{csv:?}");
    let rows = csv_rows(&csv.stdout);
    let delta = rows[0].iter().position(|key| key == "delta_ns").unwrap();
    let sum: i64 = rows.iter().skip(1).map(|row| row[delta].parse::<i64>().unwrap()).sum();
    assert_eq!(sum, 7_000);
    let sections: Vec<&str> = output["sections"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        sections,
        ["compare_categories", "compare_kernels", "compare_paths", "compare_steps", "compare_summary"]
    );
}

#[test]
fn a_regression_exits_with_code_3_and_noise_does_not() {
    let folder = example("diff_regression");
    let output = diff(&folder, &["a.json", "b.json", "--exit-on-regression", "5"]);
    assert_eq!(
        (output.status, output.stderr.as_str()),
        (3, "gpuprism: a run is more than 5 % slower than the baseline\n")
    );
    assert!(output.stdout.contains("7.0 % slower"));
    for args in [
        &["a.json", "b.json", "--exit-on-regression", "10"] as &[&str],
        &["a.json", "b.json", "--baseline", "2", "--exit-on-regression", "0"],
        &["a.json", "b.json", "--baseline", "b.json", "--exit-on-regression", "0"],
        &["a.json", "c.json", "--exit-on-regression", "0"],
        &["a.json", "b.json"],
    ] {
        let output = diff(&folder, args);
        assert_eq!((output.status, output.stderr.as_str()), (0, ""), "{args:?}: {output:?}");
    }
}

#[test]
fn runs_that_cannot_be_compared_exit_with_code_4_and_a_reason() {
    let folder = example("diff_not_comparable");
    let mut events = Vec::new();
    step(&mut events, 0, "step[EXTEND bs=1 toks=10]", &[(FLASH, 40), (GEMM, 60)]);
    write_events(&folder, "prefill.json", &events);
    write_events(&folder, "empty.json", &[]);
    for (other, words) in [("prefill.json", "different stages"), ("empty.json", "no GPU op")] {
        let output = diff(&folder, &["a.json", other, "--exit-on-regression", "5"]);
        assert_eq!(output.status, 4, "{output:?}");
        assert!(output.stderr.contains(words) && output.stderr.lines().count() == 1, "{output:?}");
        assert!(output.stdout.contains("cannot be compared with a.json"), "{output:?}");
    }
    let output = diff(&folder, &["a.json", "prefill.json", "c.json", "--exit-on-regression", "5"]);
    assert_eq!(output.status, 4, "a run that cannot be compared does not pass the regression check: {output:?}");
    let output = diff(&folder, &["a.json", "prefill.json", "c.json"]);
    assert!(
        output.status == 0 && output.stderr.contains("different stages"),
        "one of two could be compared: {output:?}"
    );
}

/// The truncated file lacks some events of its last step.
#[test]
fn a_truncated_file_cannot_be_compared_and_reports_of_one_trace_are_labeled_with_their_files() {
    let folder = example("diff_cut");
    let text = std::fs::read_to_string(folder.join("a.json")).unwrap();
    std::fs::write(folder.join("cut.json"), &text[..text.len() * 3 / 4]).unwrap();
    let output = diff(&folder, &["a.json", "cut.json", "--exit-on-regression", "5"]);
    assert!(output.status == 4 && output.stderr.contains("cut.json is cut short or damaged"), "{output:?}");
    let report = printed(&folder, ["report", "a.json", "--format", "json"]);
    for name in ["main.json", "branch.json"] {
        std::fs::write(folder.join(name), &report).unwrap();
    }
    let output = json(&folder, &["main.json", "branch.json", "--baseline", "branch.json"]);
    assert_eq!((&output["baseline"], &output["runs"][0]["label"]), (&"branch.json".into(), &"main.json".into()));
}

#[test]
fn a_trace_equals_itself_and_its_report() {
    let folder = example("diff_same");
    std::fs::write(folder.join("r.json"), printed(&folder, ["report", "a.json", "--format", "json"])).unwrap();
    for other in ["a.json", "r.json"] {
        let output = json(&folder, &["a.json", other]);
        assert_eq!((&output["runs"][1]["delta_ns"], &output["runs"][1]["outcome"]), (&0.into(), &"same".into()));
    }
    let of_reports = |args: &[&str]| printed(&folder, [&["diff"], args].concat());
    std::fs::write(folder.join("both.json"), printed(&folder, ["report", "a.json", "b.json", "--format", "json"]))
        .unwrap();
    assert_eq!(
        of_reports(&["both.json"]),
        of_reports(&["a.json", "b.json"]),
        "reports give the same result as their traces"
    );
}

#[test]
fn refused_inputs_and_wrong_usage_have_their_own_exit_codes() {
    let folder = example("diff_refused");
    std::fs::write(folder.join("rules.json"), r#"{"e": {"m": {"gemm": "gemm"}}}"#).unwrap();
    for (args, status, words) in [
        (&["a.json", "missing.json"] as &[&str], 1, "missing.json"),
        (&["a.json", "rules.json"], 1, "neither a trace nor a gpuprism report"),
        (&["a.json"], 2, "at least two runs"),
        (&["a.json", "b.json", "--baseline", "3"], 2, "1 to 2"),
        (&["a.json", "b.json", "--baseline", "nope"], 2, "nope"),
        (&["a.json", "b.json", "--exit-on-regression", "NaN"], 2, "not a percentage"),
        (&["a.json", "b.json", "--format", "pdf"], 2, "pdf"),
        (&[], 2, "FILE"),
    ] {
        let output = diff(&folder, args);
        assert_eq!((output.status, output.stdout.as_str()), (status, ""), "{args:?}: {output:?}");
        assert!(output.stderr.contains(words), "{output:?}");
    }
}

#[test]
fn the_output_file_has_the_same_text_as_standard_output() {
    let folder = example("diff_markdown");
    let text = printed(&folder, ["diff", "a.json", "b.json", "--format", "markdown"]);
    assert!(text.starts_with("# Comparison\n\n- **b.json is 7.0 % slower than a.json per decode step"), "{text}");
    assert!(text.contains("| +12.0 |"), "{text}");
    assert_eq!(printed(&folder, ["diff", "a.json", "b.json", "--format", "markdown", "-o", "out.md"]), "");
    assert_eq!(std::fs::read_to_string(folder.join("out.md")).unwrap(), text);
}

#[test]
fn a_trace_with_uniformly_longer_ops_is_slower_by_the_same_percentage() {
    let folder = directory("diff_scaled");
    for (name, pct) in [("plain.json", 100), ("scaled.json", 107)] {
        let ops = [(10_000_u32, 1_000), (11_000, 3_000), (15_000, 5_000)];
        let ops = ops.map(|(start, us)| op("kernel", GEMM, 0, 7, start * pct / 100, us * pct / 100));
        write_events(&folder, name, &ops);
    }
    let output = json(&folder, &["plain.json", "scaled.json"]);
    assert_eq!(output["runs"][1]["delta_pct"], 7.0);
    assert_eq!(output["basis"], "total");
    let warnings = output["runs"][1]["warnings"].to_string();
    assert!(warnings.contains("assumes that both did the same work"), "{warnings}");
}

/// Writes a trace without steps: `units` times these kernels (name, us), then one more kernel that ends at 10 ms.
fn fixed_time(folder: &Path, name: &str, units: u32, kernels: &[(&str, u32)]) {
    let (mut events, mut at) = (Vec::new(), 0);
    for (kernel, us) in (0..units).flat_map(|_| kernels) {
        events.push(op("kernel", kernel, 0, 7, at, *us));
        at += us;
    }
    events.push(op("kernel", "last", 0, 7, 9_999, 1));
    write_events(folder, name, &events);
}

#[test]
fn captures_of_fixed_time_are_compared_per_launch_or_refused() {
    let folder = directory("diff_fixed_time");
    fixed_time(&folder, "slow.json", 50, &[(GEMM, 100), (FLASH, 90)]);
    fixed_time(&folder, "fast.json", 100, &[(GEMM, 50), (FLASH, 45)]);
    // As many GEMMs as the fast run, but half of the attention.
    fixed_time(&folder, "mixed.json", 50, &[(GEMM, 50), (GEMM, 50), (FLASH, 90)]);
    let output = json(&folder, &["slow.json", "fast.json"]);
    let run = &output["runs"][1];
    assert_eq!((&output["basis"], &run["outcome"], &run["units"]), (&"launches".into(), &"faster".into(), &2.0.into()));
    assert_eq!((&run["baseline_ns"], &run["compared_ns"]), (&10_000_000.into(), &5_000_000.into()));
    assert_eq!(output["trust"][0]["id"], "fixed-time-window");
    let verdict = run["verdict"].as_str().unwrap();
    assert!(verdict.starts_with("fast.json is 50.0 % faster than slow.json for the same work: 5.00 ms"), "{verdict}");
    assert!(verdict.ends_with("fast.json launched the kernels of both runs 2.00 times as often."), "{verdict}");
    let slower = diff(&folder, &["fast.json", "slow.json", "--exit-on-regression", "5"]);
    assert!(slower.status == 3 && slower.stdout.contains("cover a fixed time"), "{slower:?}");
    let refused = diff(&folder, &["slow.json", "mixed.json"]);
    assert_eq!(refused.status, 4, "{refused:?}");
    assert!(refused.stderr.contains("no unit of work is certain") && refused.stderr.contains("Mark each step"));
    let equal = json(&folder, &["slow.json", "slow.json"]);
    assert_eq!((&equal["basis"], &equal["trust"]), (&"total".into(), &serde_json::json!([])));
}

/// Compares every real trace with itself, and pairs of traces that an engineer would not compare.
#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn real_traces_equal_themselves_and_are_compared_across_gpus_but_not_across_stages() {
    let folder = shared("traces/torch");
    let without_gpu_ops = ["cpu_only.pt", "cupti_range_profiler_no_kernels", "mtia_no_gpu_kernels"];
    let mut paths = files(&folder, ".json.gz");
    // Larger ones would take most of the time of these tests.
    paths.retain(|path| path.metadata().unwrap().len() < 300_000);
    for path in paths {
        let name = file_name(&path);
        let output = gpuprism(&folder, ["diff", name, name, "--exit-on-regression", "0"]);
        let is_refused = without_gpu_ops.contains(&name.trim_end_matches(".trace.json.gz"));
        assert_eq!(output.status, if is_refused { 4 } else { 0 }, "{name}: {output:?}");
        let (words, text) =
            if is_refused { ("no GPU op", &output.stderr) } else { ("takes exactly as long as", &output.stdout) };
        assert!(text.contains(words), "{name}: {output:?}");
    }
    for (a, b, words) in [
        ("sglang_qwen3_8b_mi300_decode", "sglang_qwen3_8b_mi300_extend", "different stages"),
        ("vllm_mi300_decode_full_graph", "vllm_mi300_piecewise_graph", "different stages"),
        ("sglang_qwen3_30b_mi300_decode", "sglang_qwen3_8b_mi300_decode", "same load"),
    ] {
        let output = gpuprism(&folder, ["diff", &format!("{a}.trace.json.gz"), &format!("{b}.trace.json.gz")]);
        assert!(output.status == 4 && output.stderr.contains(words), "{a}, {b}: {output:?}");
    }
    for (a, b, gpus) in [
        ("hf_qwen1.5_0.5b_h100", "hf_qwen1.5_0.5b_mi300", ["H100 80GB HBM3", "MI300X VF"]),
        ("sglang_qwen3_30b_b300_decode", "sglang_qwen3_30b_mi300_decode", ["B300 SXM6 AC", "MI300X"]),
    ] {
        let files = [a, b].map(|name| format!("{name}.trace.json.gz"));
        let output = gpuprism(&folder, ["diff", &files[0], &files[1]]);
        let has_gpus = gpus.iter().all(|gpu| output.stdout.contains(gpu));
        assert!(output.status == 0 && has_gpus && !output.stdout.contains("Largest kernel"), "{output:?}");
        let output = gpuprism(&folder, ["diff", &files[0], &files[1], "--exit-on-regression", "5"]);
        assert!(output.status == 4 && output.stderr.contains("on another GPU"), "{output:?}");
    }
}
