//! Panel: time of collectives by operation, and the part hidden by compute.

use super::rows::{self, Measure, Row};
use super::{COMMUNICATION, PanelResult, View, exact, outline, percent, time};
use crate::analysis::dashboard::matching_row;
use crate::analysis::section::Record;
use crate::report::format::counted;
use crate::report::palette;

pub(super) fn draw(view: &View) -> PanelResult {
    let section = view.section("nccl_ops")?;
    view.require_communication()?;
    let other = view.baseline_section("nccl_ops");
    let row = |row: &Record| {
        let total = time(row, "total_time_ms")?;
        let hidden = time(row, "compute_overlap_ms");
        let share = percent(row, "compute_overlap_pct").unwrap_or_default();
        let name = row.text("op_name");
        let (mut baseline_text, baseline) = outline(name, matching_row(other, row, &["op_name"]), "total_time_ms");
        if baseline.is_none() && other.is_some() {
            baseline_text += "; not in the baseline";
        }
        let tooltip = format!(
            "{name}: {} in {}, {} % of it hidden by compute ({}){baseline_text}",
            total.exact,
            counted(&exact(row, "count"), "launch", "launches"),
            exact(row, "compute_overlap_pct"),
            hidden.as_ref().map_or("", |time| time.exact.as_str()),
        );
        Some(Row {
            label: name.to_owned(),
            class: format!("seg {}", palette::class(COMMUNICATION)),
            value: total.ns,
            hatched: hidden.map(|time| time.ns.min(total.ns)),
            value_text: format!("{}, {share} hidden", total.text),
            tooltip,
            baseline,
            ..Row::default()
        })
    };
    let rows: Vec<Row> = section.rows.iter().filter_map(row).collect();
    let note = format!(
        "Time of communication kernels by operation, summed over devices. Hatched: hidden by compute on the same device.{}",
        view.baseline_note()
    );
    rows::panel(view, "Collectives", note, &rows, Measure::Time, "Total time of all launches")
}
