//! Compares the kernel table row by row with the original triage tool, on real traces and on the tool's golden pair.
//!
//! Traces and expected output are outside of the project, in `../shared`.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

use crate::common;
use common::{directory, file_name, files, import_with_code, read_json, shared};
use gpuprism::analysis::section::{Record, Section};
use gpuprism::analysis::triage::{Options, Request, ServerArgs, Stage, triage};
use gpuprism::trace::Trace;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A row as the original tool prints it, without the category, which follows other rules.
#[derive(Debug, Clone, PartialEq, PartialOrd)]
struct Row {
    stage: String,
    kernel: String,
    time: String,
    share: String,
    launches: String,
    location: String,
    op: String,
}

/// Parses the kernel table from the output of the original tool.
fn printed_rows(text: &str) -> Vec<Row> {
    let table = text.split("Kernel Table\n").nth(1).unwrap().split("\nOverlap Opportunity Table").next().unwrap();
    let mut stage = "all".to_owned();
    let mut rows = Vec::new();
    for line in table.lines() {
        if let Some(heading) = line.strip_prefix("##### ") {
            stage = heading.to_owned();
        }
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [kernel, _, time, share, launches, location, op] = cells[..] else { continue };
        if kernel == "Kernel" || kernel == "---" {
            continue;
        }
        let [kernel, time, share, launches, location, op] =
            [kernel, time, share, launches, location, op].map(|cell| cell.replace("\\|", "|"));
        rows.push(Row { stage: stage.clone(), kernel, time, share, launches, location, op });
    }
    rows
}

/// The rows of a section in the format of the original tool.
fn our_rows(section: &Section) -> Vec<Row> {
    let text = |row: &Record, column: &str| row.text(column).to_owned();
    let lines = |row: &Record, column: &str| row.text(column).replace('\n', "<br>");
    let number = |row: &Record, column: &str| row.number(column).unwrap();
    let row = |row: &Record| Row {
        stage: text(row, "stage"),
        kernel: text(row, "kernel_name"),
        time: format!("{:.2} ms", number(row, "duration_ns") / 1e6),
        share: format!("{:.1}%", number(row, "share_pct")),
        launches: format!("{}", number(row, "launches")),
        location: lines(row, "python_location"),
        op: Some(lines(row, "cpu_op")).filter(|op| !op.is_empty()).unwrap_or("-".to_owned()),
    };
    section.rows.iter().map(row).collect()
}

fn kernel_table(trace: &Trace, mapping: &[&Trace], file_stage: Stage, options: &Options) -> Section {
    let server = ServerArgs::default();
    let request = Request { trace, path: "", file_stage, mapping, server: &server, framework: None, options };
    triage(&request).remove("triage_kernels").unwrap()
}

/// An intended difference from the original tool in one cell.
#[derive(Debug, Deserialize)]
struct Difference {
    trace: String,
    kernel: String,
    column: String,
    original: String,
    ours: String,
    /// One of [`Differences::reasons`].
    why: String,
}

/// A trace whose stage intentionally differs from the original tool.
#[derive(Debug, Deserialize)]
struct OtherStage {
    trace: String,
    original: String,
    ours: String,
    why: String,
}

#[derive(Debug, Deserialize)]
struct Differences {
    reasons: BTreeMap<String, String>,
    differences: Vec<Difference>,
    stages: Vec<OtherStage>,
}

/// The rows of the original tool with the intended stage.
fn with_intended_stage(mut rows: Vec<Row>, trace: &str, differences: &Differences) -> Vec<Row> {
    for stage in differences.stages.iter().filter(|stage| stage.trace == trace) {
        assert!(differences.reasons.contains_key(&stage.why), "{stage:?}");
        for row in &mut rows {
            assert_eq!(row.stage, stage.original, "{trace}");
            row.stage.clone_from(&stage.ours);
        }
    }
    rows
}

/// The rows of the original tool with the intended cells.
fn with_intended_cells(mut rows: Vec<Row>, trace: &str, differences: &Differences) -> Vec<Row> {
    for difference in differences.differences.iter().filter(|difference| difference.trace == trace) {
        assert!(differences.reasons.contains_key(&difference.why), "{difference:?}");
        let matches = |row: &&mut Row| row.kernel == difference.kernel || row.kernel == difference.original;
        let row = rows.iter_mut().find(matches).unwrap_or_else(|| panic!("no such row: {difference:?}"));
        let cell = match difference.column.as_str() {
            "kernel_name" => &mut row.kernel,
            "python_location" => &mut row.location,
            "cpu_op" => &mut row.op,
            other => panic!("{other}: no difference is intended in times, shares and launches"),
        };
        assert_eq!(*cell, difference.original, "{trace}");
        cell.clone_from(&difference.ours);
    }
    rows
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_kernel_table_equals_the_original_except_for_listed_differences() {
    let (oracles, traces) = (shared("oracles/triage"), shared("traces/torch"));
    let differences: Differences = serde_json::from_str(include_str!("data/triage_kernel_differences.json")).unwrap();
    let (mut equal, mut all) = (0, 0);
    for oracle in files(&oracles, ".txt") {
        let name = file_name(&oracle).trim_end_matches(".txt");
        let original = printed_rows(&std::fs::read_to_string(&oracle).unwrap());
        let file_stage = match original.first().unwrap().stage.as_str() {
            "decode" => Stage::Decode,
            "extend/prefill" => Stage::Prefill,
            _ => Stage::All,
        };
        let trace = import_with_code(&traces.join(format!("{name}.trace.json.gz")));
        // The original hides rows by their share of the summed durations.
        let options = Options { min_share_pct: 0.0, ..Options::default() };
        let mut table = kernel_table(&trace, &[], file_stage, &options);
        table.rows.retain(|row| row.amount("share_pct") >= Options::default().min_share_pct);
        let ours = our_rows(&table);
        let original = with_intended_stage(original, name, &differences);
        all += original.len();
        equal += original.iter().zip(&ours).filter(|(original, ours)| original == ours).count();
        let expected = with_intended_cells(original, name, &differences);
        for (ours, expected) in ours.iter().zip(&expected) {
            assert_eq!(ours, expected, "{name}");
        }
        assert_eq!(ours.len(), expected.len(), "{name}");
    }
    println!("{equal} of {all} rows equal the original, {} cells differ intentionally", differences.differences.len());
    let of_row = |difference: &Difference| (difference.trace.clone(), difference.kernel.clone());
    let rows: BTreeSet<_> = differences.differences.iter().map(of_row).collect();
    assert_eq!(all - equal, rows.len());
}

/// Gives each launch its own correlation id. The golden trace uses one id twice, which no profiler does.
fn with_distinct_launches(path: &Path) -> PathBuf {
    let mut trace = read_json(path);
    let late = |event: &&mut Value| event["ts"].as_f64().is_some_and(|ts| ts > 100_000.0);
    for event in trace["traceEvents"].as_array_mut().unwrap().iter_mut().filter(late) {
        if event["args"]["correlation"] == 5000 {
            event["args"]["correlation"] = 4999.into();
        }
    }
    let distinct = directory("triage_kernels").join("formal.trace.json");
    std::fs::write(&distinct, trace.to_string()).unwrap();
    distinct
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_golden_pair_and_its_mapping_trace_alone_equal_the_original() {
    let golden = shared("spec/data/golden");
    let mapping = import_with_code(&golden.join("triage_mapping.trace.json"));
    let formal = import_with_code(&with_distinct_launches(&golden.join("triage_formal.trace.json")));
    let original = |name: &str| printed_rows(&std::fs::read_to_string(golden.join(name)).unwrap());
    // The original tool ignores all devices but one, including a kernel of 5 us (defect 8).
    let options = Options { pid_substring: Some("0".to_owned()), ..Options::default() };
    let alone = kernel_table(&mapping, &[], Stage::All, &options);
    assert_eq!(our_rows(&alone), original("triage_single.expected.txt"));
    let pair = kernel_table(&formal, &[&mapping], Stage::All, &options);
    assert_eq!(our_rows(&pair), original("triage_pair.expected.txt"));
    for (section, found) in [(alone, "exact"), (pair, "borrowed, exact name")] {
        assert!(section.rows.iter().all(|row| row.text("found") == found), "{section:?}");
    }
}

/// Expected call sites, computed by an independent script from the spans around each launch in the JSON of the capture.
const CAPTURED: [(&str, &str, &str); 5] = [
    (
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu",
        "vllm/model_executor/layers/fused_moe/gpt_oss_triton_kernels_moe.py:269 triton_kernel_fused_experts",
        "vllm::moe_forward",
    ),
    (
        "kernel_unified_attention_3d",
        "vllm/v1/attention/backends/rocm_aiter_unified_attn.py:107 forward",
        "vllm::unified_attention_with_output",
    ),
    (
        "_ZN7ck_tile6kentryILi1ENS_12Rmsnorm2dFwd",
        "vllm/_aiter_ops.py:529 _rocm_aiter_rmsnorm2d_fwd_with_add_impl",
        "aiter::rmsnorm2d_fwd_with_add_ck",
    ),
    (
        "void vllm::reshape_and_cache_flash_kernel<",
        "vllm/_custom_ops.py:2519 reshape_and_cache_flash",
        "_C_cache_ops::reshape_and_cache_flash",
    ),
    ("_topk_forward", "vllm/model_executor/layers/fused_moe/gpt_oss_triton_kernels_moe.py:145 legacy_routing", "TopK"),
];

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn kernels_of_graph_replays_borrow_call_sites_from_the_capture() {
    let traces = shared("traces/torch");
    let capture = import_with_code(&traces.join("vllm_mi300_graph_capture.pt.trace.json.gz"));
    let replay = import_with_code(&traces.join("vllm_mi300_decode_full_graph.trace.json.gz"));
    let section = kernel_table(&replay, &[&capture], Stage::Decode, &Options::default());
    let rows = our_rows(&section);
    for (kernel, location, op) in CAPTURED {
        let row = rows.iter().find(|row| row.kernel.starts_with(kernel)).unwrap();
        assert_eq!((row.location.as_str(), row.op.as_str()), (location, op), "{kernel}");
    }
    let found = |row: &Record| row.text("found").to_owned();
    let not_borrowed: Vec<_> = section.rows.iter().map(found).filter(|found| found != "borrowed, exact name").collect();
    assert_eq!(not_borrowed, ["exact"], "only the last GEMM runs outside of the graph");
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn kernels_borrow_from_the_capture_of_another_graph_by_exact_or_similar_name() {
    let traces = shared("traces/torch");
    let capture = import_with_code(&traces.join("vllm_mi300_graph_capture.pt.trace.json.gz"));
    let replay = import_with_code(&traces.join("vllm_mi300_piecewise_graph.trace.json.gz"));
    let section = kernel_table(&replay, &[&capture], Stage::Prefill, &Options::default());
    let found = |kernel: &str| {
        let has_name = |row: &&Record| row.text("kernel_name").starts_with(kernel);
        section.rows.iter().find(has_name).unwrap().text("found")
    };
    assert_eq!(found("_matmul_ogs_NNT_bf16xbf16xmxfp4_128x128x128x1_swiglu"), "borrowed, similar", "another tile");
    assert_eq!(found("_finalize_matmul_scatter_bf16"), "borrowed, exact name");
    assert_eq!(found("kernel_unified_attention_2d"), "exact", "it runs between the graphs");
}
