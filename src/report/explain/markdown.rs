//! Writes `report.md`: the sections in the order of nsys-llm-explainer, each with its source and limits.

use super::critical_path::critical_path;
use super::{by_pid, rows};
use crate::analysis::results::{Run, Severity};
use crate::analysis::section::{Record, Section, Value};
use crate::digits::grouped;
use crate::report::findings::of_run;
use crate::report::markdown::escape;

/// Maximum number of rows of the critical path suspects.
const CRITICAL_PATH_ROWS: usize = 10;

/// Heading, section, maximum number of rows.
const SECTIONS: [(&str, &str, usize); 18] = [
    ("Top NCCL ops", "nccl_ops", 20),
    ("NCCL rank skew", "nccl_rank_skew", 20),
    ("NVLink during NCCL", "nvlink_during_nccl", 20),
    // Its rows are limited by the user.
    ("Global: top CUDA kernels (by total time)", "kernels", usize::MAX),
    ("Per-process breakdown", "kernels_by_pid", 30),
    ("Top CPU-GPU barriers", "barriers", 30),
    ("Launch storm per PID (best-effort)", "launch_storm_by_pid", 30),
    ("Sync indicators per PID", "sync_by_pid", 30),
    ("Global: launch storm", "launch_storm", 10),
    ("Launch latency", "launch_latency_rows", 10),
    ("Global: CPU-GPU synchronization", "sync", 50),
    ("GPU idle estimate (from kernel timeline)", "gpu_idle", 20),
    ("Longest idle gaps", "gpu_idle_gaps", 20),
    ("Overlap of compute, communication and copies", "stream_overlap", 20),
    ("NVTX ranges", "nvtx_ranges", 30),
    ("NVTX ranges: phases", "phase_split", 30),
    ("NVTX ranges: attributed kernel time", "nvtx_kernel_time", 30),
    ("NVTX per PID (best-effort)", "nvtx_by_pid", 60),
];

/// The contents of `report.md`.
pub fn markdown(run: &Run) -> String {
    let mut text = format!(
        "# GPU trace report\n\n- Trace: {}\n- Tool: gpuprism {}\n",
        escape(&run.label),
        env!("CARGO_PKG_VERSION")
    );
    let mut warnings = run.notices.iter().filter(|notice| notice.severity > Severity::Info).peekable();
    if warnings.peek().is_some() {
        text += "\n## Warnings\n\n";
        warnings.for_each(|notice| text += &format!("- {}. {}\n", escape(&notice.message), escape(&notice.advice)));
    }
    text += &next_steps(run);
    text += "\n## Global critical path suspects\n\n";
    text += &body(&critical_path(run), CRITICAL_PATH_ROWS);
    for (heading, name, limit) in SECTIONS {
        text += &format!("\n## {heading}\n\n");
        match run.sections.get(name) {
            Some(section) => text += &body(section, limit),
            None => text += "The trace has no data for this section.\n",
        }
        if name == "kernels_by_pid" {
            text += &top_processes(run);
        }
    }
    text + &derivation(run)
}

fn next_steps(run: &Run) -> String {
    let mut text = "\n## What to do next\n".to_owned();
    if rows(run, "findings").is_empty() {
        return text + "\nNo findings: no value exceeds its threshold.\n";
    }
    for finding in of_run(run) {
        let cost = if finding.cost.is_empty() { String::new() } else { format!(", {}", escape(&finding.cost)) };
        text += &format!("\n- **{}** ({}{cost})\n", escape(finding.title), finding.severity.word());
        finding.evidence.iter().for_each(|line| text += &format!("  - {}\n", escape(line)));
        finding.action.iter().for_each(|line| text += &format!("  - Do: {}\n", escape(line)));
    }
    text
}

fn body(section: &Section, limit: usize) -> String {
    let mut text = String::new();
    if let Some(missing) = &section.missing {
        text += &format!("{}\n", escape(&missing.why));
        if !missing.recapture.is_empty() {
            text += &format!("\nCapture it with:\n\n```\n{}\n```\n", missing.recapture.replace("```", ""));
        }
        return text;
    }
    if !section.derived_from.is_empty() {
        text += &format!("Derived from: {}\n\n", escape(&section.derived_from));
    }
    if !section.limits.is_empty() {
        text += &format!("Limitations: {}\n\n", escape(&section.limits.join(" ")));
    }
    for (key, value) in &section.summary.0 {
        text += &format!("- {key}: {}\n", escape(&cell(key, value)));
    }
    if section.rows.is_empty() {
        return text + if section.summary.0.is_empty() { "No rows.\n" } else { "" };
    }
    if !section.summary.0.is_empty() {
        text.push('\n');
    }
    text += &table(&section.columns, section.rows.iter().take(limit));
    let more = section.rows_in_all.saturating_sub(section.rows.len().min(limit) as u64);
    if more > 0 {
        text += &format!("\n{} more rows\n", grouped(more));
    }
    text
}

fn table<'a>(columns: &[String], rows: impl Iterator<Item = &'a Record>) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut text = line(columns.to_vec());
    text += &line(columns.iter().map(|_| "---".to_owned()).collect());
    for row in rows {
        let value = |column: &String| row.get(column).map(|value| escape(&cell(column, value))).unwrap_or_default();
        text += &line(columns.iter().map(value).collect());
    }
    text
}

/// A value in the format of nsys-llm-explainer; the name of the column decides the number of decimals.
fn cell(column: &str, value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(value) => value.to_string(),
        Value::Int(value) => value.to_string(),
        Value::Text(text) => text.clone(),
        Value::Float(value) => {
            let decimals = match column {
                share if share.contains("pct") => 1,
                us if us.ends_with("_us") => 2,
                seconds if seconds.ends_with("_s") && !seconds.ends_with("_per_s") && *value < 0.01 => 6,
                _ => 3,
            };
            format!("{value:.decimals$}")
        }
    }
}

fn top_processes(run: &Run) -> String {
    let groups = by_pid(run, "kernels_by_pid");
    if groups.len() < 2 {
        return String::new();
    }
    let mut text = "\n### Top PIDs by GPU kernel time\n\n".to_owned();
    text += "| pid | total_kernel_time_ms | pct_of_total_kernel_time |\n| --- | --- | --- |\n";
    for (pid, rows) in &groups {
        let first = |key: &str| rows.first().map_or(0.0, |row| row.amount(key));
        let (ms, share) = (first("pid_total_kernel_time_ms"), first("pid_pct_of_total_kernel_time"));
        text += &format!("| {pid} | {ms:.3} | {share:.1} |\n");
    }
    text
}

fn derivation(run: &Run) -> String {
    let mut text = "\n## Derivation & assumptions\n\n".to_owned();
    text += "- Times are nanoseconds on the trace's clock; overlap and idle time are computed per device.\n";
    text += "- Launches and kernels are matched within their process.\n";
    for (name, section) in run.sections.iter().filter(|(_, section)| !section.derived_from.is_empty()) {
        text += &format!("- {}: {}\n", escape(name), escape(&section.derived_from));
    }
    text
}
