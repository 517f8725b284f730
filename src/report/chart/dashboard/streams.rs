//! Panel: time of each kind of work, and the part that overlaps another kind.

use super::rows::{self, Measure, Row};
use super::{COMMUNICATION, PanelResult, View, WORK, exact, hidden_note, outline, percent, time};
use crate::analysis::dashboard::{matching_row, number};
use crate::analysis::section::Record;
use crate::report::format::duration;
use crate::report::palette;

/// The label of the row with communication.
const NCCL: &str = "NCCL";

pub(super) fn draw(view: &View) -> PanelResult {
    let section = view.section("stream_overlap")?;
    let other = view.baseline_section("stream_overlap");
    let is_shown = |row: &&Record| view.options.communication || row.text("label") != NCCL;
    let switched_on: Vec<&Record> = section.rows.iter().filter(is_shown).collect();
    let is_hidden = |row: &Record| category_of(row.text("label")).is_some_and(|kind| view.is_kind_hidden(kind));
    let shown = switched_on.iter().filter(|row| !is_hidden(row));
    let rows: Vec<Row> = shown.filter_map(|row| bar(row, matching_row(other, row, &["label"]))).collect();
    let hidden = switched_on.iter().filter(|row| is_hidden(row)).count();
    let hidden = hidden_note(hidden, "kind of work", "kinds of work");
    let note = format!("{}{}{hidden}{}", overlaps(view, &section.summary), switched_off(view), view.baseline_note());
    rows::panel(view, "Work at the same time", note, &rows, Measure::Time, "Time, summed over devices")
}

fn switched_off(view: &View) -> &'static str {
    if view.options.communication {
        ""
    } else {
        " Communication is switched off; the hatched part of compute and copies may still overlap it."
    }
}

/// The category of all work in the row with this label. Compute has several.
fn category_of(label: &str) -> Option<&'static str> {
    match label {
        NCCL => Some(COMMUNICATION),
        "Memcpy" | "Memset" => Some("memory"),
        _ => None,
    }
}

fn bar(row: &Record, other: Option<&Record>) -> Option<Row> {
    let total = time(row, "total_time_ms")?;
    let label = row.text("label");
    let share = number(row, "overlap_pct").unwrap_or(0.0).clamp(0.0, 100.0);
    let (baseline_text, baseline) = outline(label, other, "total_time_ms");
    let class = category_of(label).map_or_else(|| WORK.to_owned(), |kind| format!("seg {}", palette::class(kind)));
    Some(Row {
        label: label.to_owned(),
        class,
        value: total.ns,
        hatched: Some(total.ns * share / 100.0),
        value_text: format!("{}, {} overlapped", total.text, percent(row, "overlap_pct").unwrap_or_default()),
        tooltip: format!("{label}: {}, {} % overlapped{baseline_text}", total.exact, exact(row, "overlap_pct")),
        baseline,
        ..Row::default()
    })
}

/// Sentences about the overlap of each pair of kinds, from the figures of the section.
fn overlaps(view: &View, figures: &Record) -> String {
    let pairs = [
        ("compute_nccl_overlap_ms", "compute and communication", true),
        ("compute_memcpy_overlap_ms", "compute and copies", false),
        ("nccl_memcpy_overlap_ms", "communication and copies", true),
    ];
    let parts: Vec<String> = pairs
        .iter()
        .filter(|(_, _, is_communication)| view.options.communication || !is_communication)
        .filter_map(|(key, what, _)| Some((number(figures, key)?, what)))
        .map(|(ms, what)| format!("{what} {}", duration((ms * 1e6).round() as i64)))
        .collect();
    let max_ops =
        number(figures, "max_concurrent_gpu_ops").map(|max| format!("; at most {max} GPU ops at once on a device"));
    let pairs = if parts.is_empty() {
        String::new()
    } else {
        format!(" Overlap: {}{}.", parts.join(", "), max_ops.unwrap_or_default())
    };
    format!("Hatched: overlaps another kind of work on the same device.{pairs}")
}
