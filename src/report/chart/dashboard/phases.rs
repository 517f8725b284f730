//! Panel: time by phase (prefill, decode, sampling).

use super::rows::{self, Measure, Row};
use super::{PanelResult, View, WORK, exact, outline, percent, time};
use crate::analysis::dashboard::matching_row;
use crate::analysis::section::Record;
use crate::report::palette;

pub(super) fn draw(view: &View) -> PanelResult {
    let section = view.section("phase_split")?;
    let other = view.baseline_section("phase_split");
    let rows: Vec<Row> =
        section.rows.iter().filter_map(|row| bar(row, view, matching_row(other, row, &["phase"]))).collect();
    let derived_from = &section.derived_from;
    let what = if derived_from.is_empty() { "time by phase" } else { derived_from };
    let off =
        if view.options.communication { "" } else { " Communication is switched off: its kernel time is left out." };
    let note = format!("From {what}.{off}{}", view.baseline_note());
    rows::panel(view, "Phases", note, &rows, Measure::Time, "Time")
}

fn bar(row: &Record, view: &View, other: Option<&Record>) -> Option<Row> {
    let phase = row.text("phase");
    let key = if view.options.communication { "total_time_ms" } else { "without_communication_ms" };
    let key = if row.get(key).is_some_and(|value| value.number().is_some()) { key } else { "total_time_ms" };
    let total = time(row, key)?;
    let (baseline_text, baseline) = outline(phase, other, key);
    let is_rest = ["unclassified", "unmapped"].contains(&phase);
    let share = if key == "total_time_ms" { percent(row, "pct_of_total") } else { None };
    let of_total =
        if share.is_some() { format!(", {} % of the total", exact(row, "pct_of_total")) } else { String::new() };
    Some(Row {
        label: phase.to_owned(),
        class: if is_rest { format!("seg {}", palette::class(crate::analysis::CPU)) } else { WORK.to_owned() },
        value: total.ns,
        value_text: share.map_or_else(|| total.text.clone(), |share| format!("{}, {share}", total.text)),
        tooltip: format!("{phase}: {}{of_total}{baseline_text}", total.exact),
        baseline,
        ..Row::default()
    })
}
