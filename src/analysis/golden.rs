//! Compares the sections with the output of nsys-llm-explainer on its fixture, and checks invariants on real
//! torch traces.

use crate::analysis::context::Context;
use crate::analysis::section::Sections;
use crate::analysis::sections::explain;
use crate::analysis::testing::{figure, fixture, read_json, rows, torch};
use crate::rules::PhaseMap;
use crate::trace::{OpKind, Trace};
use serde_json::Value;

/// Asserts that the rows equal those of the original in these columns, which are separated by spaces.
fn assert_same_rows(sections: &Sections, section: &str, theirs: &Value, columns: &str) {
    let ours = &sections[section].rows;
    let theirs = theirs.as_array().unwrap();
    assert!(!theirs.is_empty(), "{section}");
    assert_eq!(ours.len(), theirs.len(), "{section}");
    for (ours, theirs) in ours.iter().zip(theirs) {
        for column in columns.split(' ') {
            let (our, their) = (ours.get(column).unwrap(), &theirs[column]);
            match their.as_f64() {
                Some(their) => {
                    assert!((our.number().unwrap() - their).abs() < 1e-9, "{section} {column}: {our:?} {their}")
                }
                None => assert_eq!(our.text(), their.as_str(), "{section} {column}"),
            }
        }
    }
}

fn assert_same_figures(sections: &Sections, section: &str, theirs: &Value, names: &str) {
    for name in names.split(' ') {
        let (our, their) = (figure(sections, section, name), theirs[name].as_f64().unwrap());
        assert!((our - their).abs() < 1e-9, "{section} {name}: {our} {their}");
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn tables_of_the_fixture_match_the_original() {
    let (trace, _) = fixture();
    let run = read_json("spec/data/golden/nsys_v010_run.expected.json");
    let sections = explain(&Context::new(&trace, 30));
    let run = &run["metrics"];
    let table = |section: &str, theirs: &Value, columns: &str| assert_same_rows(&sections, section, theirs, columns);
    table(
        "kernels",
        &run["top_kernels"]["kernels"],
        "kernel_name device_id call_count total_time_ns total_time_ms avg_duration_us min_duration_us max_duration_us \
         p50_duration_us p90_duration_us pct_total_kernel_time",
    );
    table(
        "kernels_by_pid",
        &run["by_pid"]["kernels"]["kernels"],
        "pid pid_total_kernel_time_ms pid_pct_of_total_kernel_time kernel_name device_id call_count total_time_ms \
         avg_duration_us pct_of_pid_kernel_time pct_of_total_kernel_time",
    );
    table("sync", &run["sync"]["sync_calls"], "api_name call_count total_time_ms avg_duration_us");
    table("sync_by_pid", &run["by_pid"]["sync"]["sync_calls"], "pid api_name call_count total_time_ms avg_duration_us");
    table("nvtx_ranges", &run["nvtx"]["ranges"], "range_name count total_time_ms avg_duration_us");
    table(
        "nvtx_kernel_time",
        &run["nvtx_kernel_time"]["ranges"],
        "range_name kernel_count total_kernel_time_ns total_kernel_time_ms avg_kernel_duration_us pct_of_total_kernel_time",
    );
    // Without coverage: the original leaves it empty for ranges without kernels, and here each row has that of
    // its process.
    table(
        "nvtx_by_pid",
        &run["by_pid"]["nvtx"]["ranges"],
        "pid range_name nvtx_count nvtx_total_time_ms attributed_kernel_time_ms attributed_kernel_count",
    );
    assert_same_figures(
        &sections,
        "launch_storm",
        &run["launch_storm"],
        "total_launches window_s launches_per_s median_kernel_us p50_kernel_us p90_kernel_us p99_kernel_us \
         pct_under_5us pct_under_10us pct_under_20us tiny_kernel_us",
    );
    assert_eq!(sections["launch_storm"].summary.get("is_launch_storm"), Some(&false.into()));
    assert_same_figures(
        &sections,
        "nvtx_kernel_time",
        &run["nvtx_kernel_time"],
        "total_kernel_time_ns mapped_kernel_time_ns coverage_fraction coverage_pct mapped_kernel_count",
    );
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn barriers_and_phases_of_the_fixture_match_the_current_original() {
    let (trace, expected) = fixture();
    let sections = explain(&Context::new(&trace, 30));
    let mut theirs: Vec<String> = Vec::new();
    for row in expected["barriers_unsorted"].as_array().unwrap() {
        let (kind, api) = (row["kind"].as_str().unwrap(), row["api"].as_str().unwrap());
        theirs.push(format!("{kind} {api} {} {}", row["total_ms"].as_f64().unwrap(), row["count"]));
    }
    // Each process launches from one thread, so gaps by thread equal gaps by process.
    theirs.sort_by_key(|row| row.contains("launcher").then_some(0).or(Some(1)));
    assert_eq!(rows(&sections, "barriers", &["barrier_kind", "api_name", "total_time_ms", "count"]), theirs);
    assert_eq!(rows(&sections, "barriers", &["max_duration_us"])[0], "980");
    let split = rows(&sections, "phase_split", &["phase", "total_time_ms", "pct_of_total"]);
    assert_eq!(split, ["prefill 4 65.574", "decode 2.1 34.426", "unclassified 0 0"]);
    let storms = rows(&sections, "launch_storm_by_pid", &["pid", "total_launches", "window_s", "launches_per_s"]);
    assert_eq!(storms, ["111 3 0.003 1000", "222 2 0.002 1333.333"]);
    // The original uses the nearest rank per process and interpolates for the whole trace; gpuprism always
    // interpolates.
    assert_eq!(rows(&sections, "launch_storm_by_pid", &["median_kernel_us"]), ["1000", "1050"]);
}

/// Count and total time of the kernels whose launch call is inside a range of its thread, by testing all ranges.
fn mapped_by_brute_force(trace: &Trace) -> (u64, i64) {
    let ops = trace.gpu_ops.iter().zip(trace.gpu_ops.launches());
    let is_in_range = |call: crate::trace::Span| {
        trace
            .ranges
            .iter()
            .any(|range| range.thread == call.thread && range.start <= call.start && range.end() >= call.end())
    };
    let mapped = ops.filter(|(op, call)| {
        op.kind == OpKind::Kernel && call.and_then(|call| trace.calls.get(call.0 as usize)).is_some_and(is_in_range)
    });
    mapped.fold((0, 0), |(count, time), (op, _)| (count + 1, time + op.duration.0))
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn kernels_in_ranges_match_a_brute_force_search_on_torch_traces() {
    for file in [
        "sglang_qwen3_30b_b300_decode.trace.json.gz",
        "sglang_qwen3_8b_mi300_extend.trace.json.gz",
        "vllm_b200_eager_prefill.trace.json.gz",
        "vllm_mi300_piecewise_graph.trace.json.gz",
        "nccl_metadata_a100.trace.json.gz",
        "h100_nvl_small.pt.trace.json.gz",
    ] {
        let trace = torch(file);
        let sections = explain(&Context::new(&trace, 30));
        let figure = |name: &str| figure(&sections, "nvtx_kernel_time", name);
        let (count, time) = mapped_by_brute_force(&trace);
        assert_eq!(
            (figure("mapped_kernel_count"), figure("mapped_kernel_time_ns")),
            (count as f64, time as f64),
            "{file}"
        );
        let kernels = trace.gpu_ops.iter().filter(|op| op.kind == OpKind::Kernel).count() as f64;
        assert_eq!(count as f64 + figure("kernels_outside_ranges") + figure("kernels_without_call"), kernels, "{file}");
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn kernels_of_a_serving_step_have_the_phase_of_the_step() {
    for (file, phase) in [
        ("sglang_qwen3_30b_b300_decode.trace.json.gz", "decode"),
        ("sglang_qwen3_30b_mi300_decode.trace.json.gz", "decode"),
        ("sglang_qwen3_8b_mi300_extend.trace.json.gz", "prefill"),
        ("vllm_b200_eager_prefill.trace.json.gz", "prefill"),
        ("vllm_mi300_decode_full_graph.trace.json.gz", "decode"),
    ] {
        let trace = torch(file);
        let map = PhaseMap::parse("m", r#"{"step": "re:(?i)step|execute_"}"#).unwrap();
        let sections = explain(&Context::new(&trace, 30).with_phase_map(Some(&map)));
        let split = rows(&sections, "phase_split", &["phase"]);
        assert_eq!(split, [phase, "unclassified"], "{file}");
        let share = sections["phase_split"].rows[0].get("pct_of_total").unwrap().number().unwrap();
        println!("{file}: {phase} {share:.1} %");
        assert!(share > 90.0, "{file}: {share}");
        assert_eq!(rows(&sections, "nvtx_kernel_phases", &["phase"]), ["step", "unmapped"], "{file}");
    }
}
