//! The triage's kernel table against the tool it replaces, on real traces and on that tool's golden pair, row by row.
//!
//! Traces and numbers lie outside the project, in `../shared`; a test whose files are missing says so and passes.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

mod common;

use common::{file_name, files, shared};
use gpuprism::analysis::section::{Record, Section};
use gpuprism::analysis::triage::{Options, Request, ServerArgs, Stage, triage};
use gpuprism::input::{Imported, Importer};
use gpuprism::trace::Trace;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// One row as the original prints it, without its category, which is by other rules than ours.
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

/// The rows of a printed triage's kernel table.
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

/// Our rows as the original would print them.
fn our_rows(section: &Section) -> Vec<Row> {
    let text = |row: &Record, column: &str| row.get(column).unwrap().text().unwrap().to_owned();
    let lines = |row: &Record, column: &str| text(row, column).replace('\n', "<br>");
    let number = |row: &Record, column: &str| row.get(column).unwrap().number().unwrap();
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

fn import(path: &Path) -> Trace {
    let mut importer = Importer::with_code(file_name(path));
    importer.feed(&std::fs::read(path).unwrap()).unwrap();
    let Imported::Trace(trace) = importer.finish().unwrap() else { panic!("{} is no trace", path.display()) };
    *trace
}

fn kernel_table(trace: &Trace, mapping: &[&Trace], file_stage: Stage, options: &Options) -> Section {
    let server = ServerArgs::default();
    let request = Request { trace, file_stage, mapping, server: &server, framework: None, options };
    triage(&request).remove("triage_kernels").unwrap()
}

/// A cell that differs from the original's, and why it should.
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

#[derive(Debug, Deserialize)]
struct Differences {
    reasons: BTreeMap<String, String>,
    differences: Vec<Difference>,
}

/// The original's rows as they should be: with the cells that differ for a reason.
fn corrected(mut rows: Vec<Row>, trace: &str, differences: &Differences) -> Vec<Row> {
    for difference in differences.differences.iter().filter(|difference| difference.trace == trace) {
        assert!(differences.reasons.contains_key(&difference.why), "{difference:?}");
        let is_it = |row: &&mut Row| row.kernel == difference.kernel || row.kernel == difference.original;
        let row = rows.iter_mut().find(is_it).unwrap_or_else(|| panic!("no such row: {difference:?}"));
        let cell = match difference.column.as_str() {
            "kernel_name" => &mut row.kernel,
            "python_location" => &mut row.location,
            "cpu_op" => &mut row.op,
            other => panic!("{other}: times, shares and launches never differ"),
        };
        assert_eq!(*cell, difference.original, "{trace}");
        cell.clone_from(&difference.ours);
    }
    rows
}

#[test]
fn the_kernel_table_is_the_originals_but_for_what_is_listed() {
    let (Some(oracles), Some(traces)) = (shared("oracles/triage"), shared("traces/torch")) else { return };
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
        let trace = import(&traces.join(format!("{name}.trace.json.gz")));
        let ours = our_rows(&kernel_table(&trace, &[], file_stage, &Options::default()));
        all += original.len();
        equal += original.iter().zip(&ours).filter(|(original, ours)| original == ours).count();
        let wanted = corrected(original, name, &differences);
        for (ours, wanted) in ours.iter().zip(&wanted) {
            assert_eq!(ours, wanted, "{name}");
        }
        assert_eq!(ours.len(), wanted.len(), "{name}");
    }
    println!("{equal} of {all} rows equal the original's, {} cells differ for a reason", differences.differences.len());
    assert_eq!(all - equal, differences.differences.len());
}

#[test]
#[ignore = "needs the stages of ops by annotations"]
fn the_golden_pair_and_its_mapping_trace_alone_give_the_originals_rows() {
    let Some(golden) = shared("spec/data/golden") else { return };
    let [mapping, formal] =
        ["triage_mapping", "triage_formal"].map(|name| import(&golden.join(format!("{name}.trace.json"))));
    let original = |name: &str| printed_rows(&std::fs::read_to_string(golden.join(name)).unwrap());
    // The original leaves out all devices but one, and with them a kernel of 5 us (defect 8).
    let options = Options { pid_substring: Some("0".to_owned()), ..Options::default() };
    let alone = kernel_table(&mapping, &[], Stage::All, &options);
    assert_eq!(our_rows(&alone), original("triage_single.expected.txt"));
    let pair = kernel_table(&formal, &[&mapping], Stage::All, &options);
    assert_eq!(our_rows(&pair), original("triage_pair.expected.txt"));
    for (section, wanted) in [(alone, "exact"), (pair, "borrowed, exact name")] {
        assert!(section.rows.iter().all(|row| row.get("found").unwrap().text() == Some(wanted)), "{section:?}");
    }
}

#[test]
fn a_captured_graphs_launches_tell_where_its_replays_kernels_come_from() {
    let Some(traces) = shared("traces/torch") else { return };
    let capture = import(&traces.join("vllm_mi300_graph_capture.pt.trace.json.gz"));
    for name in ["vllm_mi300_decode_full_graph", "vllm_mi300_piecewise_graph"] {
        let formal = import(&traces.join(format!("{name}.trace.json.gz")));
        let t = std::time::Instant::now();
        let s = kernel_table(&formal, &[&capture], Stage::Decode, &Options::default());
        println!("{name} {:?}", t.elapsed());
        for r in &s.rows {
            println!(
                "{:?}",
                ["kernel_name", "share_pct", "launches", "python_location", "cpu_op", "found"].map(|c| format!(
                    "{:?}",
                    r.get(c).unwrap()
                )
                .chars()
                .take(230)
                .collect::<String>())
            );
        }
        println!("{:?} {:?}", s.summary, s.limits);
    }
}
