//! `gpuprism what-if`: its changes, and the simulated run that it writes.

use crate::cli::brief::write_late_steps;
use crate::cli::example::write_events;
use crate::common::{directory, gpuprism, printed, shared};
use serde_json::Value;
use std::path::{Path, PathBuf};

fn late_steps(test: &str) -> PathBuf {
    let folder = directory(test);
    write_late_steps(&folder, "a.json", "zorblax_gemm");
    folder
}

/// The rows of a section of the only run.
fn rows(folder: &Path, arguments: &[&str], section: &str) -> Vec<Value> {
    let report: Value = serde_json::from_str(&printed(folder, arguments)).unwrap();
    report["runs"][0]["sections"][section]["rows"].as_array().unwrap().clone()
}

fn kernels(folder: &Path, file: &str) -> Vec<(String, Value, Value)> {
    let report: Value = serde_json::from_str(&printed(folder, ["report", file, "--format", "json"])).unwrap();
    let kernels = report["runs"][0]["kernels"].as_array().unwrap();
    kernels
        .iter()
        .map(|row| (row["name"].as_str().unwrap().to_owned(), row["count"].clone(), row["duration_ns"].clone()))
        .collect()
}

#[test]
fn a_run_without_changes_is_read_back_with_the_same_kernels_and_steps() {
    let folder = late_steps("what_if_same");
    printed(&folder, ["what-if", "a.json", "--trace", "b.json"]);
    printed(&folder, ["what-if", "a.json", "--trace", "b.json.gz"]);
    assert_eq!(std::fs::read(folder.join("b.json.gz")).unwrap()[..2], [0x1f, 0x8b]);
    for copy in ["b.json", "b.json.gz"] {
        assert_eq!(kernels(&folder, copy), kernels(&folder, "a.json"), "{copy}");
        for section in ["steps", "what_if", "replay_trust"] {
            let of = |file| rows(&folder, &["report", file, "--format", "json"], section);
            assert_eq!(of(copy), of("a.json"), "{copy} {section}");
        }
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn a_recorded_trace_is_read_back_with_the_same_kernels() {
    let folder = directory("what_if_recorded");
    for file in ["sglang_qwen3_30b_b300_decode", "vllm_mi300_decode_full_graph"] {
        let path = shared(&format!("traces/torch/{file}.trace.json.gz")).display().to_string();
        printed(&folder, ["what-if", &path, "--trace", "again.json.gz"]);
        assert_eq!(kernels(&folder, "again.json.gz"), kernels(&folder, &path), "{file}");
    }
}

/// Ten decode steps of four kernels of 99 us, 1 us between them, that the host launches long before.
fn write_busy_steps(folder: &Path, name: &str) {
    let mut events = Vec::new();
    for step in 0..10 {
        let from = 10_000 + step * 40;
        events.push(format!(
            r#"{{"ph": "X", "cat": "user_annotation", "name": "step[DECODE bs=4]", "pid": 9, "tid": 9, "ts": {from}, "dur": 30, "args": {{}}}}"#
        ));
        for kernel in 0..4 {
            let (id, launch, start) = (step * 4 + kernel, from + 1 + kernel * 5, 10_010 + (step * 4 + kernel) * 100);
            events.push(format!(
                r#"{{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 9, "ts": {launch}, "dur": 2, "args": {{"correlation": {id}}}}}"#
            ));
            events.push(format!(
                r#"{{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": {start}, "dur": 99, "args": {{"device": 0, "stream": 7, "correlation": {id}}}}}"#
            ));
        }
    }
    write_events(folder, name, &events);
}

/// The step time, the saving of a step at least and at most by the table, and the step time of the simulated run, in ms.
fn simulated(folder: &Path, changes: &[&str]) -> [f64; 4] {
    let arguments = [&["what-if", "a.json", "--format", "json", "--trace", "b.json"], changes].concat();
    let row = rows(folder, &arguments, "what_if").remove(0);
    assert_eq!(row["id"], "together");
    let of = |file| {
        let path = rows(folder, &["report", file, "--format", "json"], "critical_path");
        path.iter().map(|row| row["per_step_ms"].as_f64().unwrap()).sum::<f64>()
    };
    let saved = |key: &str| row[key].as_f64().unwrap();
    [of("a.json"), saved("per_step_low_ms"), saved("per_step_high_ms"), of("b.json")]
}

#[test]
fn a_run_with_changes_has_the_step_time_of_the_table() {
    let folder = directory("what_if_changed");
    write_busy_steps(&folder, "a.json");
    let [before, _, high, after] = simulated(&folder, &["--speed", "gemm=2"]);
    // Four kernels of 99 us become half as long.
    assert!((high - 0.198).abs() < 0.001 && (before - high - after).abs() < 1e-6, "{before} {high} {after}");
}

#[test]
fn a_run_of_a_host_that_may_work_or_wait_is_within_the_range_of_the_table() {
    let folder = late_steps("what_if_open");
    let [before, low, high, after] = simulated(&folder, &["--speed", "gemm=2"]);
    let saved = before - after;
    assert!(low - 1e-6 <= saved && saved <= high + 1e-6 && low < high, "{low} {saved} {high}");
}

#[test]
fn redaction_holds_for_the_tables_and_the_file() {
    let folder = late_steps("what_if_redact");
    let text = printed(&folder, ["what-if", "a.json", "--redact", "--trace", "b.json"]);
    let file = std::fs::read_to_string(folder.join("b.json")).unwrap();
    for text in [&text, &file] {
        assert!(!text.contains("zorblax") && text.contains("kernel 1"), "{text}");
    }
    assert!(printed(&folder, ["what-if", "a.json"]).contains("zorblax"));
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_or_with_its_reason() {
    let folder = late_steps("what_if_refused");
    std::fs::write(folder.join("report.json"), printed(&folder, ["report", "a.json", "--format", "json"])).unwrap();
    let before = std::fs::read(folder.join("a.json")).unwrap();
    for (arguments, status, words) in [
        (&["a.json", "--trace", "./a.json"][..], 2, "would replace the trace"),
        (&["a.json", "a.json", "--trace", "b.json"], 2, "needs one run"),
        (&["report.json", "--trace", "b.json"], 1, "give the trace"),
        (&["a.json", "--trace", "missing/b.json"], 1, "missing/b.json: "),
        (&["a.json", "--without", "nonsense", "--trace", "b.json"], 2, "its ids are "),
    ] {
        let output = gpuprism(&folder, [&["what-if"], arguments].concat());
        assert_eq!(output.status, status, "{arguments:?}: {}", output.stderr);
        assert!(output.stderr.contains(words), "{arguments:?}: {}", output.stderr);
        assert!(!folder.join("b.json").exists(), "{arguments:?}");
    }
    assert_eq!(std::fs::read(folder.join("a.json")).unwrap(), before);
}

#[test]
fn show_has_the_rows_of_a_change_by_its_id() {
    let folder = late_steps("what_if_show");
    let text = printed(&folder, ["show", "a.json", "between_calls"]);
    assert!(text.contains("without code between calls") && !text.contains("twice as fast"), "{text}");
    let rows = rows(&folder, &["what-if", "a.json", "--format", "json"], "what_if");
    for row in rows {
        assert!(printed(&folder, ["show", "a.json", row["id"].as_str().unwrap()]).contains("decode"), "{row}");
    }
    let error = gpuprism(&folder, ["show", "a.json", "nonsense"]).stderr;
    assert!(error.contains("host-late") && error.contains("an id of the table what_if"), "{error}");
}
