//! Writes `report.json` with the keys of nsys-llm-explainer, but without its creation time, so that equal traces give
//! equal bytes, and without its SQL queries. One more member has the exact sums, for [`crate::report::foreign`]: the tables alone
//! lack copies, categories and unrecorded time.

use super::critical_path::critical_path;
use super::{by_pid, figure, notes, rows};
use crate::analysis::results::{Run, Severity};
use crate::analysis::section::{Record, Value};
use crate::report::findings::of_run;
use crate::report::foreign::{OWN_TOTALS, TABLES, Table};
use crate::rules::signals::Signals;
use crate::trace::DatabaseInfo;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;

/// The keys that every `report.json` of nsys-llm-explainer has, by metric, separated by blanks. Keys without a value are
/// null.
const KEYS: [(&str, &str); 23] = [
    ("top_kernels", "table kernels total_kernel_time_ns notes"),
    ("launch_storm", "storm_thresholds tiny_kernel_us tiny_kernels notes"),
    ("sync", "table sync_calls notes"),
    ("barriers", "present barriers barriers_by_pid pids launcher_gap_threshold_us notes"),
    ("gpu_idle", "table devices gaps notes"),
    ("nccl", "present source ops rank_rows pids event_count windows notes"),
    ("nvlink_during_nccl", "present missing_counters rows timeseries notes capture_instructions"),
    ("timeline", "present events t0_ns total_gpu_time_ms total_cpu_time_ms notes"),
    ("copy_engine", "present events notes"),
    ("launch_latency", "present summary histogram rows notes"),
    ("stream_overlap", "present summary pairwise notes"),
    ("phase_split", "present rows source notes"),
    ("roofline", "present rows notes"),
    ("nvtx", "table ranges instances notes"),
    ("nvtx_phases", "present nvtx_total_time_ms phases"),
    (
        "nvtx_kernel_time",
        "present kernel_table runtime_table nvtx_table ranges total_kernel_time_ns mapped_kernel_time_ns \
         mapped_kernel_time_ms coverage_fraction coverage_pct mapped_kernel_count notes",
    ),
    ("nvtx_kernel_phases", "present attributed_kernel_time_ms phases"),
    ("per_pid", "present pid_source top_pids pids notes"),
    (
        "pid_attribution",
        "kernel_pid_source runtime_pid_source nvtx_pid_source kernel_pid_count runtime_pid_count \
         nvtx_pid_count kernel_pids_sample runtime_pids_sample nvtx_pids_sample",
    ),
    ("by_pid", "kernels sync nvtx nvtx_kernel_phases"),
    ("by_pid/kernels", "present kernel_table pid_source pid_quality pids kernels notes"),
    ("by_pid/sync", "present runtime_table pid_source pids sync_calls notes"),
    ("by_pid/nvtx", "present nvtx_table pid_source ranges kernel_time_by_pid notes"),
];

/// The contents of `report.json`.
pub fn json(run: &Run, capture: &DatabaseInfo) -> String {
    let notices = run.notices.iter().filter(|notice| notice.severity > Severity::Info);
    let warnings: Vec<String> = notices.map(|notice| format!("{}. {}", notice.message, notice.advice)).collect();
    let report = json!({
        OWN_TOTALS: run.without_sections(),
        "tool": {"name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")},
        "trace": {"path": run.label},
        "warnings": warnings,
        "schema": schema(run, capture),
        "metrics": metrics(run, capture),
        "findings": of_run(run).zip(rows(run, "findings")).map(|(finding, row)| json!({
            "severity": finding.severity,
            "title": finding.title,
            "cost_ms": row.get("cost_ms"),
            "evidence": finding.evidence,
            "recommendation": finding.action,
        })).collect::<Vec<Json>>(),
    });
    ascii(&report)
}

/// JSON indented by two blanks, with all non-ASCII characters escaped, as Python writes it.
fn ascii(report: &Json) -> String {
    // Serialising strings, numbers and lists under string keys cannot fail.
    let text = serde_json::to_string_pretty(report).unwrap_or_default() + "\n";
    let mut ascii = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' | ' '..='~' => ascii.push(character),
            // Such characters occur only in strings.
            _ => character.encode_utf16(&mut [0; 2]).iter().for_each(|unit| ascii += &format!("\\u{unit:04x}")),
        }
    }
    ascii
}

fn schema(run: &Run, capture: &DatabaseInfo) -> Json {
    const SECOND_NS: i64 = 1_000_000_000;
    const MILLISECOND_NS: i64 = 1_000_000;
    // The unit is always nanoseconds. nsys-llm-explainer guesses it from the length of the capture, and programs that
    // read its reports expect these keys.
    let (guess, basis) = match run.totals.window_ns {
        SECOND_NS.. => ("ns", "kernel_window_ns_ge_1s"),
        MILLISECOND_NS.. => ("ns_likely", "kernel_window_ns_ge_1ms"),
        _ => ("unknown", "kernel_window_below_1ms"),
    };
    let tables = capture.tables.iter().map(|table| {
        let columns = table.columns.iter().map(|(name, kind)| json!({"name": name, "type": kind}));
        let range = table.range.map(|(start, end)| [start, end]);
        json!({"name": table.name, "rows": table.rows, "time_range": range, "columns": columns.collect::<Vec<_>>()})
    });
    let capabilities = run.sections.iter().map(|(name, section)| (name.clone(), section.missing.is_none().into()));
    let mut schema = Map::from_iter([
        ("path".to_owned(), json!(run.label)),
        ("sqlite_version".to_owned(), json!(Some(&capture.sqlite_version).filter(|version| !version.is_empty()))),
        ("sync_table".to_owned(), json!(capture.table("runtime_table"))),
        ("timestamp_unit_assumed".to_owned(), json!("ns")),
        ("timestamp_unit_guess".to_owned(), json!(guess)),
        ("timestamp_unit_guess_basis".to_owned(), json!(basis)),
        ("capabilities".to_owned(), Json::Object(capabilities.collect())),
        ("tables".to_owned(), json!(tables.collect::<Vec<_>>())),
    ]);
    for key in ["string", "kernel", "runtime", "nvtx", "gpu_metrics", "target_info_gpu_metrics", "cuda_graph"] {
        let role = format!("{key}_table");
        let table = json!(capture.table(&role));
        schema.insert(role, table);
    }
    for source in ["kernel_pid_source", "runtime_pid_source", "nvtx_pid_source"] {
        schema.insert(source.to_owned(), Json::Null);
    }
    Json::Object(schema)
}

/// Objects by the path of their metric, with `/` between levels.
type Metrics = BTreeMap<String, Map<String, Json>>;

fn metrics(run: &Run, capture: &DatabaseInfo) -> Json {
    let mut metrics = Metrics::new();
    for (metric, keys) in KEYS {
        object(&mut metrics, metric).extend(keys.split(' ').map(|key| (key.to_owned(), Json::Null)));
    }
    for table in TABLES.iter() {
        fill(object(&mut metrics, &table.metric), table, run);
    }
    for (metric, key, role) in [
        ("top_kernels", "table", "kernel_table"),
        ("sync", "table", "runtime_table"),
        ("gpu_idle", "table", "kernel_table"),
        ("nvtx", "table", "nvtx_table"),
        ("nvtx_kernel_time", "kernel_table", "kernel_table"),
        ("nvtx_kernel_time", "runtime_table", "runtime_table"),
        ("nvtx_kernel_time", "nvtx_table", "nvtx_table"),
        ("by_pid/kernels", "kernel_table", "kernel_table"),
        ("by_pid/sync", "runtime_table", "runtime_table"),
        ("by_pid/nvtx", "nvtx_table", "nvtx_table"),
    ] {
        object(&mut metrics, metric).insert(key.to_owned(), json!(capture.table(role)));
    }
    add_figures(&mut metrics, run);
    add_processes(&mut metrics, run);
    let mut metrics = nested(metrics);
    metrics.insert("nvtx_coverage_warn_threshold".to_owned(), json!(Signals::embedded().thresholds.nvtx_coverage));
    metrics.insert("critical_path".to_owned(), json!(critical_path(run).rows));
    Json::Object(metrics)
}

/// The object of a metric, created if necessary.
fn object<'a>(metrics: &'a mut Metrics, metric: &str) -> &'a mut Map<String, Json> {
    metrics.entry(metric.to_owned()).or_default()
}

/// `by_pid/kernels` becomes a member of `by_pid`.
fn nested(metrics: Metrics) -> Map<String, Json> {
    let (inner, outer): (Metrics, Metrics) = metrics.into_iter().partition(|(metric, _)| metric.contains('/'));
    let mut outer = outer;
    for (metric, object) in inner {
        if let Some((group, member)) = metric.split_once('/') {
            self::object(&mut outer, group).insert(member.to_owned(), Json::Object(object));
        }
    }
    outer.into_iter().map(|(metric, object)| (metric, Json::Object(object))).collect()
}

/// Adds rows, figures, notes and presence of one table.
fn fill(metric: &mut Map<String, Json>, table: &Table, run: &Run) {
    let Some(section) = run.sections.get(&table.section) else {
        metric.insert(table.list.clone(), json!(critical_path(run).rows));
        return;
    };
    metric.insert(table.list.clone(), json!(section.rows));
    // Some metrics keep their figures in an object of their own.
    let figures_key = match table.metric.as_str() {
        "launch_latency" => Some("summary"),
        "stream_overlap" => Some("pairwise"),
        _ => None,
    };
    let figures = section.summary.0.iter().map(|(key, value)| (key.to_string(), json!(value)));
    match figures_key {
        Some(key) if !section.summary.0.is_empty() => {
            metric.insert(key.to_owned(), Json::Object(figures.collect()));
        }
        Some(_) => {}
        None => metric.extend(figures),
    }
    // Notes and presence of a metric are those of its first table.
    if TABLES.iter().find(|first| first.metric == table.metric) == Some(table) {
        metric.insert("notes".to_owned(), json!(notes(section)));
        if metric.contains_key("present") {
            metric.insert("present".to_owned(), json!(section.missing.is_none() && !section.rows.is_empty()));
        }
        if metric.contains_key("missing_counters") {
            let recapture = section.missing.as_ref().map(|missing| missing.recapture.clone());
            metric.insert("missing_counters".to_owned(), json!(section.missing.is_some()));
            metric.insert("capture_instructions".to_owned(), json!(Vec::from_iter(recapture)));
        }
    }
}

/// Adds the figures that no section has under the expected key.
fn add_figures(metrics: &mut Metrics, run: &Run) {
    let thresholds = Signals::embedded().thresholds;
    object(metrics, "top_kernels").insert("total_kernel_time_ns".to_owned(), json!(run.totals.kernel_duration_ns));
    let mut storm = Map::new();
    for (number, threshold) in (1..).zip(&thresholds.launch_storm) {
        storm.insert(format!("launches_per_s_threshold_{number}"), json!(threshold.launches_per_s));
        storm.insert(format!("p50_kernel_us_threshold_{number}"), json!(threshold.median_us));
    }
    let launches = object(metrics, "launch_storm");
    launches.insert("storm_thresholds".to_owned(), Json::Object(storm));
    launches.insert("tiny_kernel_us".to_owned(), json!(thresholds.tiny_kernel_us));
    if let Some(count) = figure(run, "nccl_ops", "count") {
        object(metrics, "nccl").insert("event_count".to_owned(), json!(count));
    }
    let source = rows(run, "nccl_ops").first().and_then(|row| row.get("source"));
    object(metrics, "nccl").insert("source".to_owned(), json!(source));
}

/// Adds `per_pid`, `pid_attribution` and the processes of `by_pid/kernels`.
fn add_processes(metrics: &mut Metrics, run: &Run) {
    let kernels = by_pid(run, "kernels_by_pid");
    let rows_of = |section: &str, pid: i64| -> Vec<&Record> {
        rows(run, section).iter().filter(|row| row.amount("pid") as i64 == pid).collect()
    };
    let process = |(pid, rows): &(i64, Vec<&Record>)| {
        json!({"pid": pid, "top_kernels": rows, "launch_storm": rows_of("launch_storm_by_pid", *pid).first(),
            "sync": rows_of("sync_by_pid", *pid), "nvtx": rows_of("nvtx_by_pid", *pid)})
    };
    let total = |(pid, rows): &(i64, Vec<&Record>)| {
        let first = |key: &str| rows.first().and_then(|row| row.get(key)).cloned().unwrap_or(Value::Null);
        json!({"pid": pid, "total_kernel_time_ms": first("pid_total_kernel_time_ms"),
            "pct_of_total_kernel_time": first("pid_pct_of_total_kernel_time")})
    };
    let top: Vec<Json> = kernels.iter().map(total).collect();
    object(metrics, "by_pid/kernels").insert("pids".to_owned(), json!(top));
    let per_pid = object(metrics, "per_pid");
    per_pid.insert("present".to_owned(), json!(!kernels.is_empty()));
    per_pid.insert("top_pids".to_owned(), json!(top));
    per_pid.insert("pids".to_owned(), json!(kernels.iter().map(process).collect::<Vec<Json>>()));
    let attribution = object(metrics, "pid_attribution");
    for (kind, section) in [("kernel", "kernels_by_pid"), ("runtime", "sync_by_pid"), ("nvtx", "nvtx_by_pid")] {
        let pids: Vec<i64> = by_pid(run, section).into_iter().map(|(pid, _)| pid).collect();
        // The rows of kernels may be cut off; the figure counts all processes.
        let count = if kind == "kernel" {
            figure(run, section, "processes").map_or(json!(pids.len()), |n| json!(n))
        } else {
            json!(pids.len())
        };
        attribution.insert(format!("{kind}_pid_count"), count);
        attribution.insert(format!("{kind}_pids_sample"), json!(pids));
    }
}
