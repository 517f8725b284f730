//! The texts that `gpuprism explain` prints: the summary of a run, one line for each of six sections, and the tables of an
//! export. Linear in rows.

use super::{figure, rows};
use crate::analysis::results::Run;
use crate::analysis::section::{Record, Value};
use crate::report::format::clean;
use crate::trace::DatabaseInfo;

/// The summary of a run in the format of nsys-llm-explainer.
pub fn summary(run: &Run) -> String {
    let lines = [kernel(run), barrier(run), collective(run), storm(run), idle(run), nvlink(run)];
    lines.into_iter().flatten().map(|line| clean(&line) + "\n").collect()
}

fn kernel(run: &Run) -> Option<String> {
    let row = rows(run, "kernels").first()?;
    let share = row.number("pct_total_kernel_time");
    let share = share.map_or_else(String::new, |share| format!("{share:.1}% of kernel time, "));
    let (ms, calls) = (row.amount("total_time_ms"), row.amount("call_count"));
    Some(format!("Top kernel: {} ({share}{ms:.1} ms, {calls} calls)", row.text("kernel_name")))
}

fn barrier(run: &Run) -> Option<String> {
    let row = rows(run, "barriers").first()?;
    let (name, kind) = (row.text("api_name"), row.text("barrier_kind"));
    let (ms, count) = (row.amount("total_time_ms"), row.amount("count"));
    Some(format!("Top barrier: {name} [{kind}] ({ms:.1} ms, {count} events)"))
}

fn collective(run: &Run) -> Option<String> {
    let Some(row) = rows(run, "nccl_ops").first() else { return Some("Top NCCL op: none detected".to_owned()) };
    let (total, longest) = (row.amount("total_time_ms"), row.amount("max_duration_ms"));
    let (name, overlap) = (row.text("op_name"), row.amount("compute_overlap_pct"));
    Some(format!("Top NCCL op: {name} ({total:.1} ms total, {longest:.1} ms max, overlap {overlap:.1}%)"))
}

fn storm(run: &Run) -> Option<String> {
    let value = |key: &str| figure(run, "launch_storm", key).and_then(Value::number);
    let (launches, window_s) = (value("total_launches")?, value("window_s")?);
    let (rate, median_us) = (value("launches_per_s")?, value("median_kernel_us")?);
    Some(format!(
        "Launch storm: {launches} launches over {window_s:.3} s = {rate:.1} launches/s; median kernel {median_us:.2} us"
    ))
}

/// The device with the largest idle share of its window.
fn idle(run: &Run) -> Option<String> {
    let share = |row: &&Record| row.amount("idle_pct_of_window");
    let worst = rows(run, "gpu_idle").iter().reduce(|a, b| if share(&b) > share(&a) { b } else { a })?;
    let device = match worst.get("device_id")? {
        Value::Text(id) => id.clone(),
        id => id.number().map_or_else(String::new, |id| id.to_string()),
    };
    let (idle, window) = (worst.amount("idle_ms"), worst.amount("window_ms"));
    let share = share(&worst);
    Some(format!("GPU idle estimate: GPU {device}: {share:.1}% idle ({idle:.1} ms / {window:.1} ms window)"))
}

fn nvlink(run: &Run) -> Option<String> {
    let Some(row) = rows(run, "nvlink_during_nccl").first() else {
        return Some("NVLink counters not found".to_owned());
    };
    let (during, outside) = (row.amount("avg_metric_during_nccl"), row.amount("avg_metric_outside_nccl"));
    let correlation = row.amount("nccl_activity_correlation");
    let names = row.text("metric_names");
    Some(format!(
        "NVLink during NCCL: {names} (during {during:.2}, outside {outside:.2}, correlation {correlation:.3})"
    ))
}

/// The tables and columns of an export, for `--print-schema`.
pub fn schema(export: &DatabaseInfo) -> String {
    let mut lines = String::new();
    for (role, table) in &export.roles {
        let words = role.replace('_', " ");
        lines += &(clean(&format!("Detected {words}: {}", table.as_deref().unwrap_or("none"))) + "\n");
    }
    for table in &export.tables {
        let rows = table.rows.map(|rows| format!("rows={rows}"));
        let range = table.range.map(|(start, end)| format!("t=[{start},{end}]"));
        let details: Vec<String> = rows.into_iter().chain(range).collect();
        let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
        let columns: Vec<String> = table.columns.iter().map(|(name, kind)| format!("{name}:{kind}")).collect();
        lines += &(clean(&format!("- {}{details}: {}", table.name, columns.join(", "))) + "\n");
    }
    lines
}
