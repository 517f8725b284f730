//! Panel: time of collectives by operation, and the part hidden by compute.

use super::rows::{self, Measure, Row};
use super::{PanelResult, View, exact, first_few, percent, time};
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
        let base = matching_row(other, row, &["op_name"]).and_then(|row| time(row, "total_time_ms"));
        let baseline_text = match (&base, other) {
            (Some(base), _) => format!("; baseline {}", base.exact),
            (None, Some(_)) => "; not in the baseline".to_owned(),
            (None, None) => String::new(),
        };
        let title = format!(
            "{name}: {} in {}, {} % of it hidden by compute ({}){baseline_text}",
            total.exact,
            counted(&exact(row, "count"), "launch", "launches"),
            exact(row, "compute_overlap_pct"),
            hidden.as_ref().map_or("", |time| time.exact.as_str()),
        );
        Some(Row {
            label: name.to_owned(),
            class: format!("seg {}", palette::class("communication")),
            value: total.ns,
            hatched: hidden.map(|time| time.ns.min(total.ns)),
            value_text: format!("{}, {share} hidden", total.text),
            tooltip: title,
            baseline: base.map(|base| (base.ns, format!("Baseline: {name}: {}", base.exact))),
            kernel: None,
        })
    };
    let rows: Vec<Row> = section.rows.iter().filter_map(row).collect();
    let parts: Vec<String> =
        rows.iter().map(|row| format!("{} {}", super::short(&row.label), row.value_text)).collect();
    let summary = format!("Collectives: {}.", first_few(&parts));
    let note = format!(
        "Time of communication kernels by operation, summed over devices. Hatched: hidden by compute on the same device.{}",
        view.baseline_note()
    );
    Ok((note, rows::chart(&rows, Measure::Time, "Time in all launches", summary, view.options.width)))
}
