//! The table "Global critical path suspects" of nsys-llm-explainer: the kernel, the collective, the barrier and the idle
//! device with the most time. Quotes the first rows of other sections. gpuprism's own reports do not have it, because
//! the time of an op is not the time that it delays.

use crate::analysis::results::Run;
use crate::analysis::section::{Record, Section, Value};

/// One row per suspect, sorted by total time.
pub(super) fn critical_path(run: &Run) -> Section {
    let first_row = |name: &str| run.sections.get(name).and_then(|section| section.rows.first());
    let suspect = |kind: &'static str, row: &Record, name: &str, count: &str, details: String| {
        let count = row.get(count).cloned().unwrap_or(Value::Null);
        (kind, row.words(name), row.amount("total_time_ms"), count, details)
    };
    let kernel = first_row("kernels").map(|row| {
        let share = row.number("pct_total_kernel_time");
        let details = share.map_or_else(String::new, |share| format!("{share:.1} % of kernel time"));
        suspect("kernel", row, "kernel_name", "call_count", details)
    });
    let collective = first_row("nccl_ops").map(|row| {
        let details = format!("{:.1} % of it overlaps compute", row.amount("compute_overlap_pct"));
        suspect("collective", row, "op_name", "count", details)
    });
    let barrier =
        first_row("barriers").map(|row| suspect("barrier", row, "api_name", "count", row.words("barrier_kind")));
    let devices = run.sections.get("gpu_idle").map_or(&[][..], |section| &section.rows);
    let idle = devices.iter().max_by(|a, b| a.amount("idle_ms").total_cmp(&b.amount("idle_ms"))).map(|row| {
        let details = format!("{:.1} % of its window", row.amount("idle_pct_of_window"));
        ("idle", format!("GPU {} idle", row.words("device_id")), row.amount("idle_ms"), Value::Null, details)
    });
    let mut suspects: Vec<_> = [kernel, collective, barrier, idle].into_iter().flatten().collect();
    suspects.sort_by(|a, b| b.2.total_cmp(&a.2));
    let columns = &["kind", "name", "total_ms", "count", "details"];
    let mut section = Section::new("Critical path suspects", "the first rows of the other sections", columns)
        .limit("Ranked by total time, not a traced critical path: work that overlaps other work may cost no time.");
    for (kind, name, total_ms, count, details) in suspects {
        section.row([kind.into(), name.into(), total_ms.into(), count, details.into()]);
    }
    section
}
