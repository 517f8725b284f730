//! The kernels with the most time, above a threshold.

use super::rows::{self, Measure, Row};
use super::{Drawn, Time, View, exact, first_few, short, time};
use crate::analysis::dashboard::{Beside, KernelBar, waterfall};
use crate::digits::grouped;
use crate::report::format::counted;
use crate::report::palette;
use crate::rules::names;

const MOST: usize = 20;

pub(super) fn draw(view: &View) -> Drawn {
    let section = view.section("kernels")?;
    let options = view.options;
    let found = waterfall(view.run, view.baseline, options.threshold_ms, options.communication, MOST);
    let device = |at: usize| section.rows.get(at).and_then(|row| row.get("device_id"));
    let several_devices = (1..section.rows.len()).any(|at| device(at) != device(0));
    let rows: Vec<Row> = found.bars.iter().filter_map(|bar| row(bar, several_devices)).collect();
    let left_out = [
        (found.below_threshold, "below the threshold"),
        (found.communication, "communication, switched off"),
        (found.more, "more in the table"),
    ];
    let left_out: Vec<String> = left_out
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", grouped(*count as u64)))
        .collect();
    let threshold = if options.threshold_ms > 0.0 {
        format!("Kernels of at least {} ms in all.", options.threshold_ms)
    } else {
        "No threshold: kernels however short.".to_owned()
    };
    let left_out = if left_out.is_empty() { String::new() } else { format!(" Left out: {}.", left_out.join(", ")) };
    let note = format!("{threshold}{left_out}{}", outlined(view, &rows));
    if rows.is_empty() {
        return Err((format!("No kernel has a bar. {note}"), String::new()));
    }
    let told: Vec<String> = rows.iter().map(|row| format!("{} {}", short(&row.label), row.told)).collect();
    let summary = format!("Kernels with the most time: {}.", first_few(&told));
    Ok((note, rows::chart(&rows, Measure::Time, "Time in all launches", summary, options.width)))
}

/// What stands behind the bars, and behind how many of them.
fn outlined(view: &View, rows: &[Row]) -> String {
    let outlined = view.outlined();
    if outlined.is_empty() {
        return outlined;
    }
    let both = rows.iter().filter(|row| row.baseline.is_some()).count();
    format!(
        "{outlined} Of {} kernels {both} have a row there. Both are totals of their traces; the tab Compare divides by \
         steps where there are some.",
        rows.len()
    )
}

fn row(bar: &KernelBar, several_devices: bool) -> Option<Row> {
    let name = bar.row.text("kernel_name");
    let device = exact(bar.row, "device_id");
    let total = time(bar.row, "total_time_ms")?;
    let on = if several_devices { format!(" on device {device}") } else { String::new() };
    let launches = counted(&exact(bar.row, "call_count"), "launch", "launches");
    let (beside, baseline) = beside(bar);
    Some(Row {
        label: format!("{}{on}", names::short(name)),
        class: format!("seg {}", palette::class(bar.category)),
        value: total.ns,
        told: format!("{} {}", total.told, bar.category),
        title: format!("{name}{on}: {} in {launches}, {}{beside}", total.exact, bar.category),
        baseline,
        kernel: Some(name.to_owned()),
        part: None,
    })
}

/// What the tooltip says of the baseline, and the bar behind.
fn beside(bar: &KernelBar) -> (String, Option<(f64, String)>) {
    match bar.beside {
        Beside::Unasked => (String::new(), None),
        Beside::New => ("; not in the baseline".to_owned(), None),
        Beside::BelowItsRows => ("; in the baseline too brief for a row of its own".to_owned(), None),
        Beside::Row(other) => {
            let Some(Time { ns, exact, .. }) = time(other, "total_time_ms") else { return (String::new(), None) };
            let title = format!("Baseline: {}: {exact}", other.text("kernel_name"));
            (format!("; baseline {exact}"), Some((ns, title)))
        }
    }
}
