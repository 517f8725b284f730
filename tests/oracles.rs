//! Compares results for real traces with those of other programs: a slow reference implementation, gputrc2graph and TraceLens.
//!
//! The traces and reference results are in `../shared`, outside the project.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, clippy::print_stdout, reason = "tests")]

use crate::common;
use common::{csv_rows, directory, file_name, files, gpuprism, import, json_runs, read_json, seconds_to_ns, shared};
use gpuprism::analysis::results::{Attribution, Kernel, Run};
use gpuprism::input::nsys;
use gpuprism::session::{self, Choices};
use gpuprism::trace::{ImportProblems, Trace};
use rusqlite::types::ValueRef;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The maximum share of the time of an LLM server that the default rules may leave in the category misc.
const MISC_LIMIT: f64 = 0.03;

/// TraceLens omits the 510 ops of this trace that were launched before the recording started. gpuprism counts them.
const WITHOUT_LAUNCHES: &str = "hf_qwen1.5_0.5b_h100";

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn torch_traces_match_the_reference_to_the_nanosecond() {
    let (facts, traces) = (shared("oracles/facts"), shared("traces/torch"));
    let traces: Vec<PathBuf> =
        [files(&traces, ".json.gz"), files(&traces.join("dlrm_v100_8ranks"), ".json.gz")].concat();
    let (first, second) = traces.split_at(traces.len() / 2);
    std::thread::scope(|scope| {
        for half in [first, second] {
            scope.spawn(|| half.iter().for_each(|path| check_facts(&import(path), &facts, &torch_facts(path))));
        }
    });
    assert!(traces.len() > 20, "{} traces", traces.len());
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn nsys_exports_match_the_reference_to_the_nanosecond() {
    let (facts, exports) = (shared("oracles/facts"), shared("traces/nsys"));
    let exports = files(&exports, ".sqlite");
    for export in &exports {
        let trace = nsys::open(export, file_name(export)).unwrap();
        check_facts(&trace, &facts, &format!("{}.json", file_name(export)));
        assert_eq!(trace.problems, ImportProblems::default(), "{}", file_name(export));
    }
    assert!(exports.len() >= 9, "{} exports", exports.len());
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn csv_tables_of_nsys_exports_match_the_reference_to_the_nanosecond() {
    let (facts, exports) = (shared("oracles/facts"), shared("traces/nsys"));
    let folder = directory("facts_of_nsys");
    for export in files(&exports, ".sqlite") {
        let Some(csv) = gpu_trace_csv(&export, &folder) else { continue };
        check_facts(&import(&csv), &facts, &format!("{}.json", file_name(&export)));
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn categories_match_gputrc2graph_to_the_nanosecond() {
    for_each_of_gputrc2graph("report_as_gputrc2graph", |case| {
        let args = ["--attribution", "first-come", "--merge-devices", "--engine", &case.engine, "--model", &case.model];
        let files = [case.csv.as_ref(), Some(&case.export)];
        let runs = files.into_iter().flatten().map(|file| [&[file.to_str().unwrap()], &args[..]].concat());
        runs.for_each(|args| check_categories(case, &json_runs(&case.folder, &args)[0]));
    });
}

/// Checks a report with merged devices.
fn check_categories(case: &Case, run: &Value) {
    let by_category = |key: &str| -> BTreeMap<String, i64> {
        let categories = run["categories"].as_array().unwrap().iter();
        categories.map(|c| (c["category"].as_str().unwrap().to_owned(), c[key].as_i64().unwrap())).collect()
    };
    assert_eq!(by_category("elapsed_ns"), case.ns("elapsed_sec_by_category"));
    assert_eq!(by_category("duration_ns"), case.ns("total_sec_by_category"));
    assert_eq!(by_category("count"), case.counts("instances_by_category"));
    assert_eq!(run["totals"]["union_all_ns"], ns(&case.expected["union_sec"]));
    assert_eq!(run["totals"]["elapsed_ns"], ns(&case.expected["union_sec"]));
    // The reference does not distinguish copies of pageable memory.
    let names = || run["kernels"].as_array().unwrap().iter().map(|kernel| kernel["name"].as_str().unwrap());
    let extra = names().filter(|name| {
        let plain = ["(Pageable -> Device)", "(Device -> Pageable)"].iter().find_map(|kinds| name.strip_suffix(kinds));
        name.starts_with("[CUDA memcpy ") && plain.is_some_and(|plain| names().any(|other| other == plain.trim_end()))
    });
    let reference_names = run["totals"]["distinct_names"].as_u64().unwrap() - extra.count() as u64;
    assert_eq!(reference_names, case.expected["kernel_names"].as_u64().unwrap());
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn result_csv_of_graph_matches_gputrc2graph_to_the_nanosecond() {
    for_each_of_gputrc2graph("graph_as_gputrc2graph", |case| {
        let csv = case.csv.as_ref().unwrap_or(&case.export);
        let input = format!("{},{},{},0", csv.display(), case.engine, case.model);
        let output = gpuprism(&case.folder, ["graph", "--in_file", &input, "--out_dir", "out"]);
        assert_eq!(output.status, 0, "{output:?}");
        let rows = csv_rows(&std::fs::read_to_string(case.folder.join("out/result.csv")).unwrap());
        let kernels: Vec<&Vec<String>> = rows[1..].iter().filter(|row| row[1] != "CPU(non-GPU)").collect();
        let (mut elapsed, mut counts) = (BTreeMap::new(), BTreeMap::new());
        for row in &kernels {
            *elapsed.entry(row[1].clone()).or_default() += seconds_to_ns(&row[4]);
            *counts.entry(row[1].clone()).or_default() += row[2].parse::<i64>().unwrap();
        }
        assert_eq!(elapsed.values().sum::<i64>(), ns(&case.expected["union_sec"]));
        assert_eq!((elapsed, counts), (case.ns("elapsed_sec_by_category"), case.counts("instances_by_category")));
        assert_eq!(json!(kernels.len()), case.expected["kernel_names"]);
    });
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_golden_fixture_in_code_equals_its_json_description() {
    let golden = shared("spec/data/golden");
    let connection = common::nsys::golden(true);
    for (name, table) in read_json(&golden.join("nsys_fixture.json"))["tables"].as_object().unwrap() {
        let columns: Vec<&str> =
            table["ddl"].as_str().unwrap().split(',').map(|column| column.split_whitespace().next().unwrap()).collect();
        let query = format!("SELECT {} FROM {name}", columns.join(", "));
        let mut statement = connection.prepare(&query).unwrap();
        let row = |row: &rusqlite::Row<'_>| (0..columns.len()).map(|index| cell(row, index)).collect::<Vec<_>>();
        let found: Vec<String> = statement.query_map([], |found| Ok(row(found).join(","))).unwrap().flatten().collect();
        let rows = table["rows"].as_array().unwrap().iter();
        let expected: Vec<String> =
            rows.map(|row| row.as_array().unwrap().iter().map(plain).collect::<Vec<_>>().join(",")).collect();
        let (mut found, mut expected) = (found, expected);
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "{name}");
    }
}

fn cell(row: &rusqlite::Row<'_>, index: usize) -> String {
    match row.get_ref(index).unwrap() {
        ValueRef::Null => "null".to_owned(),
        ValueRef::Integer(value) => value.to_string(),
        ValueRef::Real(value) => value.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        ValueRef::Blob(_) => panic!("no table has blobs"),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap().to_string(),
        other => other.to_string(),
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn busy_time_matches_tracelens() {
    let (timelines, traces) = (shared("oracles/timeline"), shared("traces/torch"));
    for timeline in files(&timelines, ".json") {
        let name = file_name(&timeline).strip_suffix(".json").unwrap();
        if name == WITHOUT_LAUNCHES {
            continue;
        }
        let run = run(&import(&traces.join(format!("{name}.trace.json.gz"))), false);
        let busy_ms = read_json(&timeline)["busy_time"].as_f64().unwrap();
        // TraceLens uses doubles for microseconds since the epoch, with a resolution of an eighth of a microsecond.
        let apart = (run.totals.union_all_ns as f64 / 1e6 - busy_ms).abs();
        assert!(apart < 125e-6, "{name}: {} ns, not {busy_ms} ms", run.totals.union_all_ns);
    }
}

#[test]
#[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
fn the_default_rules_categorize_nearly_all_time_of_llm_servers() {
    let traces = shared("traces/torch");
    for path in files(&traces, ".json.gz") {
        if !["sglang_", "vllm_", "hf_"].iter().any(|engine| file_name(&path).starts_with(engine)) {
            continue;
        }
        let run = run(&import(&path), false);
        let misc = run.categories.iter().find(|category| category.category == "misc");
        let share = misc.map_or(0.0, |misc| misc.elapsed_share.unwrap());
        assert!(share < MISC_LIMIT, "{}: {share} of the elapsed time is misc", file_name(&path));
    }
}

fn run(trace: &Trace, merge_devices: bool) -> Run {
    session::run(trace, &Choices { attribution: Attribution::FirstCome, merge_devices, ..Choices::default() }).unwrap()
}

/// The name of the reference file of a torch trace.
fn torch_facts(path: &Path) -> String {
    let name = file_name(path).trim_end_matches(".json.gz").trim_end_matches(".trace").trim_end_matches(".pt");
    let set = if name.starts_with("rank") { "dlrm_v100_" } else { "" };
    format!("{set}{name}.json")
}

/// The separate program has no facts of this export.
const WITHOUT_FACTS: &str = "cuda_graph_level_s2025.5.sqlite.json";

/// Compares a trace with the facts that a separate program found.
fn check_facts(trace: &Trace, facts: &Path, name: &str) {
    if name == WITHOUT_FACTS {
        return;
    }
    let facts = read_json(&facts.join(name));
    let (run, merged) = (run(trace, false), run(trace, true));
    let totals = &run.totals;
    let names = by_name(&run, &merged);
    let devices: serde_json::Map<String, Value> = run
        .devices
        .iter()
        .map(|d| (d.id.clone(), json!({"gpu_ops": d.gpu_ops, "union_ns": d.union_ns, "window_ns": d.window_ns})))
        .collect();
    let found = json!({
        "gpu_ops": totals.gpu_ops,
        "kernels": totals.kernels,
        "distinct_names": names.len(),
        "duration_ns": totals.duration_ns,
        "kernel_duration_ns": totals.kernel_duration_ns,
        "union_all_ns": totals.union_all_ns,
        "devices": devices,
        "by_name": facts["by_name"].as_array().unwrap().iter().map(|kernel| found_name(kernel, &names)).collect::<Vec<_>>(),
    });
    assert_eq!(found, facts, "{name}");
    assert_eq!(totals.union_ns, run.devices.iter().map(|device| device.union_ns).sum::<i64>(), "{name}");
    assert_eq!((totals.elapsed_ns, merged.totals.elapsed_ns), (totals.union_ns, totals.union_all_ns), "{name}");
    assert_eq!(merged.devices.iter().map(|d| d.union_ns).sum::<i64>(), totals.union_ns, "{name}, merged");
}

/// Count, duration, and elapsed time with separate and with merged devices, by name.
type ByName = BTreeMap<String, [i64; 4]>;

fn by_name(run: &Run, merged: &Run) -> ByName {
    let mut names = ByName::new();
    let mut add =
        |kernel: &Kernel, column: usize, ns: i64| names.entry(reference_name(&kernel.name)).or_default()[column] += ns;
    for kernel in &run.kernels {
        add(kernel, 0, i64::try_from(kernel.count).unwrap());
        add(kernel, 1, kernel.duration_ns);
        add(kernel, 2, kernel.elapsed_ns);
    }
    merged.kernels.iter().for_each(|kernel| add(kernel, 3, kernel.elapsed_ns));
    names
}

/// The reference does not distinguish the directions of copies in an export.
fn reference_name(name: &str) -> String {
    if name.starts_with("[CUDA memcpy ") { "[CUDA memcpy]".to_owned() } else { name.to_owned() }
}

fn found_name(expected: &Value, names: &ByName) -> Value {
    let name = expected["name"].as_str().unwrap();
    let [count, duration_ns, per_device_ns, over_all_ns] = names.get(name).copied().unwrap_or_default();
    json!({
        "name": name,
        "count": count,
        "duration_ns": duration_ns,
        "first_come_per_device_ns": per_device_ns,
        "first_come_ns": over_all_ns,
    })
}

/// The CSV table that nsys would print for an export. `None` if Python is missing.
fn gpu_trace_csv(export: &Path, folder: &Path) -> Option<PathBuf> {
    let program = shared("tools/gpu_trace_csv.py");
    let output = match Command::new("python3").arg(program).arg(export).output() {
        Ok(output) => output,
        Err(error) => {
            println!("skipped: {}, because python3 does not run: {error}", export.display());
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let path = folder.join(format!("{}.csv", file_name(export)));
    std::fs::write(&path, output.stdout).unwrap();
    Some(path)
}

/// One export, one rule set, and the result of gputrc2graph for them.
struct Case {
    folder: PathBuf,
    export: PathBuf,
    /// The CSV table that nsys would print for it, if Python is available.
    csv: Option<PathBuf>,
    engine: String,
    model: String,
    expected: Value,
}

impl Case {
    fn ns(&self, key: &str) -> BTreeMap<String, i64> {
        self.by_category(key, ns)
    }

    fn counts(&self, key: &str) -> BTreeMap<String, i64> {
        self.by_category(key, |count| count.as_i64().unwrap())
    }

    fn by_category(&self, key: &str, number: impl Fn(&Value) -> i64) -> BTreeMap<String, i64> {
        self.expected[key].as_object().unwrap().iter().map(|(name, value)| (name.clone(), number(value))).collect()
    }
}

/// A double represents seconds below 10^6 with an error of less than half a nanosecond.
fn ns(seconds: &Value) -> i64 {
    (seconds.as_f64().unwrap() * 1e9).round() as i64
}

fn for_each_of_gputrc2graph(folder: &str, check: impl Fn(&Case)) {
    let (oracles, exports) = (shared("oracles/gputrc2graph"), shared("traces/nsys"));
    let folder = directory(folder);
    for oracle in files(&oracles, ".json") {
        let name = file_name(&oracle).strip_suffix(".json").unwrap();
        let [model, engine, export] = name.rsplitn(3, '.').collect::<Vec<_>>()[..] else { panic!("{name}") };
        let export = exports.join(format!("{export}.sqlite"));
        let csv = gpu_trace_csv(&export, &folder);
        let (engine, model) = (engine.to_owned(), model.to_owned());
        check(&Case { folder: folder.clone(), export, csv, engine, model, expected: read_json(&oracle) });
    }
}
