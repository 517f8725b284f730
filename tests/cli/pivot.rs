//! `gpuprism pivot`: layouts, formats, errors, and sums over real traces.

use crate::cli::example::write_events;
use crate::common::{directory, gpuprism, printed, shared};
use serde_json::Value;
use std::path::Path;

/// Adds an SGLang step that starts at `at` us. It launches a gemm and, at half of its time, a norm on another stream.
fn step(events: &mut Vec<String>, name: &str, at: u32, us: u32) {
    events.push(format!(
        r#"{{"ph": "X", "cat": "user_annotation", "name": "{name}", "pid": 9, "tid": 9, "ts": {at}, "dur": 50, "args": {{}}}}"#
    ));
    for (kernel, stream, start, dur) in [("nvjet_tst_64x8", 7, at, us), ("rms_norm_kernel", 9, at + us / 2, us)] {
        let id = events.len();
        events.push(format!(
            r#"{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": {at}, "dur": 1, "args": {{"correlation": {id}}}}}"#
        ));
        events.push(format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "{kernel}", "pid": 0, "tid": {stream}, "ts": {start}, "dur": {dur}, "args": {{"device": 0, "stream": {stream}, "correlation": {id}}}}}"#
        ));
    }
}

fn example(test: &str) -> std::path::PathBuf {
    let folder = directory(test);
    let mut events = Vec::new();
    step(&mut events, "step[EXTEND bs=1 toks=8]", 1_000, 40);
    step(&mut events, "step[DECODE bs=1]", 2_000, 20);
    write_events(&folder, "a.json", &events);
    folder
}

#[test]
fn a_csv_has_exact_values_with_row_and_column_totals() {
    let folder = example("pivot_csv");
    let csv = |args: &[&str]| printed(&folder, [&["pivot", "a.json", "--format", "csv"], args].concat());
    assert_eq!(
        csv(&["--columns", "stage"]),
        "category,extend/prefill,decode,total\ngemm,30000,15000,45000\nnorm,30000,15000,45000\ntotal,60000,30000,90000\n"
    );
    assert_eq!(
        csv(&["--rows", "step", "--values", "mean"]),
        "step,total\nstep 1 extend/prefill,40000\nstep 2 decode,20000\ntotal,30000\n"
    );
    assert_eq!(
        csv(&["--rows", "stream", "--columns", "stage", "--values", "exclusive", "--percent", "row"]),
        "stream,extend/prefill,decode,total\nstream 7,0.6666666666666666,0.3333333333333333,1\n\
         stream 9,0.6666666666666666,0.3333333333333333,1\ntotal,0.6666666666666666,0.3333333333333333,1\n"
    );
}

#[test]
fn json_markdown_and_text_name_the_measure() {
    let folder = example("pivot_formats");
    let say = |format: &str| printed(&folder, ["pivot", "a.json", "--columns", "stage", "--format", format]);
    let json: Value = serde_json::from_str(&say("json")).unwrap();
    assert_eq!((&json["schema"], &json["totals"][3]), (&"gpuprism-pivot/1".into(), &90_000.into()));
    assert_eq!(json["rows"][0], serde_json::json!(["gemm", 30_000, 15_000, 45_000]));
    for text in [say("text"), say("markdown")] {
        let text = text.replace("\n  ", " ");
        assert!(text.contains("Elapsed time by category and stage"), "{text}");
        assert!(text.contains("An op belongs to the step whose range contains its launch."), "{text}");
    }
}

#[test]
fn a_saved_report_is_listed_as_lacking_axes_that_it_does_not_contain() {
    let folder = example("pivot_report");
    std::fs::write(folder.join("r.json"), printed(&folder, ["report", "a.json", "--format", "json"])).unwrap();
    let json = |columns: &str| -> Value {
        let output =
            printed(&folder, ["pivot", "r.json", "--rows", "kernel", "--columns", columns, "--format", "json"]);
        serde_json::from_str(&output).unwrap()
    };
    assert_eq!(json("stream")["lacking"], serde_json::json!(["a.json"]));
    assert_eq!(json("run")["lacking"], serde_json::json!([]));
}

#[test]
fn meaningless_combinations_are_usage_errors() {
    let folder = example("pivot_usage");
    for args in [["--columns", "category"].as_slice(), &["--values", "mean", "--percent", "all"], &["--rows", "colour"]]
    {
        let output = gpuprism(&folder, [&["pivot", "a.json"], args].concat());
        assert_eq!(output.status, 2, "{args:?}: {}", output.stderr);
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn sums_over_every_axis_equal_the_totals_of_the_report() {
    const ATTRIBUTIONS: [&str; 3] = ["first-come", "fair", "exclusive"];
    let traces = shared("traces/torch");
    for (trace, name) in ["vllm_mi300_piecewise_graph", "h100_nvl_small.pt"].into_iter().enumerate() {
        let path = traces.join(format!("{name}.trace.json.gz"));
        let file = path.to_str().unwrap();
        let json = |args: &[&str]| -> Value { serde_json::from_str(&printed(Path::new("."), args)).unwrap() };
        let total = |attribution| {
            let report = json(&["report", file, "--format", "json", "--attribution", attribution]);
            report["runs"][0]["totals"]["elapsed_ns"].clone()
        };
        let totals = ATTRIBUTIONS.map(total);
        // Each axis with one attribution, another one in each trace: all combinations would take minutes.
        for (axis, rows) in ["kernel", "stage", "step", "device", "stream", "process"].into_iter().enumerate() {
            let choice = (axis + trace) % ATTRIBUTIONS.len();
            let attribution = ATTRIBUTIONS[choice];
            let pivot = json(&["pivot", file, "--format", "json", "--attribution", attribution, "--rows", rows]);
            assert_eq!(pivot["totals"][1], totals[choice], "{name}, {attribution}, {rows}");
        }
    }
}
