//! How long each kind of work runs, and how much of that beside another kind.

use super::rows::{self, Measure, Row};
use super::{Drawn, View, WORK, exact, first_few, percent, time};
use crate::analysis::dashboard::{number, same};
use crate::analysis::section::Record;
use crate::report::format::duration;
use crate::report::palette;

/// The row of messages between GPUs.
const COMMUNICATION: &str = "NCCL";

pub(super) fn draw(view: &View) -> Drawn {
    let section = view.section("stream_overlap")?;
    let other = view.of_baseline("stream_overlap");
    let is_shown = |row: &&Record| view.options.communication || row.text("label") != COMMUNICATION;
    let rows: Vec<Row> =
        section.rows.iter().filter(is_shown).filter_map(|row| bar(row, same(other, row, &["label"]))).collect();
    let told: Vec<String> = rows.iter().map(|row| format!("{} {}", super::short(&row.label), row.told)).collect();
    let summary = format!("Work at the same time: {}.", first_few(&told));
    let note = format!("{}{}{}", beside(view, &section.summary), switched_off(view), view.outlined());
    Ok((note, rows::chart(&rows, Measure::Time, "Time, summed over devices", summary, view.options.width)))
}

fn switched_off(view: &View) -> &'static str {
    if view.options.communication {
        ""
    } else {
        " Communication is switched off; the hatched part of compute and copies may still lie beside it."
    }
}

fn bar(row: &Record, other: Option<&Record>) -> Option<Row> {
    let total = time(row, "total_time_ms")?;
    let label = row.text("label");
    let share = number(row, "overlap_pct").unwrap_or(0.0).clamp(0.0, 100.0);
    let base = other.and_then(|row| time(row, "total_time_ms"));
    let beside = base.as_ref().map(|base| format!("; baseline {}", base.exact)).unwrap_or_default();
    let class = match label {
        COMMUNICATION => format!("seg {}", palette::class("communication")),
        "Memcpy" | "Memset" => format!("seg {}", palette::class("memory")),
        _ => WORK.to_owned(),
    };
    Some(Row {
        label: label.to_owned(),
        class,
        value: total.ns,
        part: Some(total.ns * share / 100.0),
        told: format!("{}, {} overlapped", total.told, percent(row, "overlap_pct").unwrap_or_default()),
        title: format!("{label}: {}, {} % of it beside other work{beside}", total.exact, exact(row, "overlap_pct")),
        baseline: base.map(|base| (base.ns, format!("Baseline: {label}: {}", base.exact))),
        kernel: None,
    })
}

/// What runs beside what, as the section's figures say.
fn beside(view: &View, figures: &Record) -> String {
    let pairs = [
        ("compute_nccl_overlap_ms", "compute and communication", true),
        ("compute_memcpy_overlap_ms", "compute and copies", false),
        ("nccl_memcpy_overlap_ms", "communication and copies", true),
    ];
    let told: Vec<String> = pairs
        .iter()
        .filter(|(_, _, communicates)| view.options.communication || !communicates)
        .filter_map(|(key, what, _)| Some((number(figures, key)?, what)))
        .map(|(ms, what)| format!("{what} {}", duration((ms * 1e6).round() as i64)))
        .collect();
    let most =
        number(figures, "max_concurrent_gpu_ops").map(|most| format!("; at most {most} GPU ops at once on a device"));
    let pairs = if told.is_empty() {
        String::new()
    } else {
        format!(" Together: {}{}.", told.join(", "), most.unwrap_or_default())
    };
    format!("Hatched: beside another kind of work on the same device.{pairs}")
}
