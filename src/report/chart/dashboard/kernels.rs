//! Panel: the kernels with the most time, above a threshold.

use super::rows::{self, Measure, Row};
use super::{PanelResult, View, exact, no_data, outline, time};
use crate::analysis::dashboard::{BaselineRow, KernelBar, select_kernels};
use crate::analysis::structure::shifted_durations::WITHHELD;
use crate::digits::grouped;
use crate::report::format::counted;
use crate::report::palette;

const MAX_BARS: usize = 20;

pub(super) fn draw(view: &View) -> PanelResult {
    let section = view.section("kernels")?;
    let options = view.options;
    let selected =
        select_kernels(view.run, view.baseline, options.threshold_ms, options.communication, &options.hidden, MAX_BARS);
    let device = |index: usize| section.rows.get(index).and_then(|row| row.get("device_id"));
    let several_devices = (1..section.rows.len()).any(|index| device(index) != device(0));
    let rows: Vec<Row> = selected.bars.iter().filter_map(|bar| row(view, bar, several_devices)).collect();
    let left_out = [
        (selected.below_threshold, "below the threshold"),
        (selected.communication, "communication kernels (switched off)"),
        (selected.hidden, "of hidden categories"),
        (selected.more, "more"),
    ];
    let left_out: Vec<String> = left_out
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", grouped(*count as u64)))
        .collect();
    let threshold = if options.threshold_ms > 0.0 {
        format!("Kernels with a total time of at least {} ms.", options.threshold_ms)
    } else {
        "No threshold.".to_owned()
    };
    let left_out = if left_out.is_empty() { String::new() } else { format!(" Left out: {}.", left_out.join(", ")) };
    let are_doubtful = section.limits.iter().any(|limit| limit == WITHHELD);
    let doubt = if are_doubtful { format!(" {WITHHELD}") } else { String::new() };
    let note = format!("{threshold}{left_out}{doubt}{}", baseline_note(view, &rows));
    if rows.is_empty() {
        return Err(no_data(format!("No kernel to show. {note}")));
    }
    rows::panel(view, "Kernels with the most time", note, &rows, Measure::Time, "Total time of all launches")
}

/// Sentences about the baseline, and the number of bars that have one.
fn baseline_note(view: &View, rows: &[Row]) -> String {
    let note = view.baseline_note();
    if note.is_empty() {
        return note;
    }
    let matched = rows.iter().filter(|row| row.baseline.is_some()).count();
    format!(
        "{note} {} kernels are shown; {matched} have a baseline. Times are totals of the traces; the Compare tab shows \
         times per step if there are steps.",
        rows.len()
    )
}

fn row(view: &View, bar: &KernelBar, several_devices: bool) -> Option<Row> {
    let name = bar.row.text("kernel_name");
    let device = exact(bar.row, "device_id");
    let total = time(bar.row, "total_time_ms")?;
    let on = if several_devices { format!(" on device {device}") } else { String::new() };
    let launches = counted(&exact(bar.row, "call_count"), "launch", "launches");
    let (baseline_text, baseline) = baseline(bar);
    Some(Row {
        label: format!("{}{on}", view.short_names.short(name)),
        class: format!("seg {}", palette::class(bar.category)),
        value: total.ns,
        value_text: format!("{} {}", total.text, bar.category),
        tooltip: format!("{name}{on}: {} in {launches}, {}{baseline_text}", total.exact, bar.category),
        baseline,
        kernel: Some(name.to_owned()),
        ..Row::default()
    })
}

/// Tooltip text about the baseline, and the value and tooltip of its outline.
fn baseline(bar: &KernelBar) -> (String, Option<(f64, String)>) {
    match bar.baseline {
        BaselineRow::NoBaseline => (String::new(), None),
        BaselineRow::New => ("; not in the baseline".to_owned(), None),
        BaselineRow::TooShort => ("; in the baseline, but too short for a row".to_owned(), None),
        BaselineRow::Row(other) => outline(other.text("kernel_name"), Some(other), "total_time_ms"),
    }
}
