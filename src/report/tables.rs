//! Builds the five built-in tables (kernels, pivot, categories, devices, notices) and the bars of the chart from the
//! results of the runs; linear in rows.

use super::Report;
use super::chart::{Bar, Segment};
use super::table::{Cell, Column, Kind, Table};
use super::{palette, sections};
use crate::analysis::pivot::by_category::pivot;
use crate::analysis::results::{Attribution, Run, Severity, WallSource};
use crate::analysis::{CPU, SHARED};

/// Returns the table with this id, for all runs or for one; `None` if the id is unknown or no run has the section.
///
/// Every table except the pivot starts with the column `run`, the label of the run.
pub fn table(report: &Report, id: &str, run: Option<usize>) -> Option<Table> {
    let labels = report.labels();
    let chosen: Vec<(&str, &Run)> = labels
        .iter()
        .zip(&report.runs)
        .enumerate()
        .filter(|(index, _)| run.is_none_or(|run| run == *index))
        .map(|(_, (label, run))| (label.as_str(), run))
        .collect();
    match id {
        "kernels" => Some(kernels(&chosen)),
        "pivot" => Some(report_pivot(report, &labels)),
        "categories" => Some(categories(&chosen)),
        "devices" => Some(devices(&chosen)),
        "notices" => Some(notices(&chosen)),
        section => sections::table(section, &chosen),
    }
}

const BUILTIN_TABLES: [&str; 5] = ["kernels", "pivot", "categories", "devices", "notices"];

/// Whether this is one of the tables that every report has; all others come from sections.
pub fn is_builtin_table(id: &str) -> bool {
    BUILTIN_TABLES.contains(&id)
}

fn columns(columns: &[(&str, &str, Kind)]) -> Vec<Column> {
    let column = |(key, title, kind): &(&str, &str, Kind)| Column {
        key: (*key).to_owned(),
        title: (*title).to_owned(),
        kind: *kind,
    };
    columns.iter().map(column).collect()
}

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

/// Explains elapsed time under the attribution of these runs, for the note below a heading.
pub(super) fn attribution_note(runs: &[(&str, &Run)]) -> String {
    let mut attributions = runs.iter().map(|(_, run)| run.attribution);
    let first = attributions.next();
    if attributions.any(|attribution| Some(attribution) != first) {
        return "These runs use different attributions, so their elapsed times cannot be compared.".to_owned();
    }
    let meaning = match first {
        None | Some(Attribution::FirstCome) => {
            "Elapsed: the part of the busy time attributed to the op; an overlap counts for the op that started first."
        }
        Some(Attribution::Fair) => {
            "Elapsed: the part of the busy time attributed to the op; an overlap is split evenly among the running ops."
        }
        Some(Attribution::Exclusive) => "Elapsed: the time in which the op is the only one running.",
    };
    format!("{meaning} Shares are of elapsed time.")
}

fn kernels(runs: &[(&str, &Run)]) -> Table {
    let columns = columns(&[
        ("run", "Run", Kind::Text),
        ("name", "Kernel", Kind::Kernel),
        ("category", "Category", Kind::Category),
        ("count", "Count", Kind::Count),
        ("duration_ns", "Total", Kind::Time),
        ("elapsed_ns", "Elapsed", Kind::Time),
        ("elapsed_share", "Share", Kind::Share),
        ("mean_ns", "Mean", Kind::Time),
        ("min_ns", "Min", Kind::Time),
        ("max_ns", "Max", Kind::Time),
        ("exclusive_ns", "Exclusive", Kind::Time),
        ("fair_ns", "Fair", Kind::Time),
    ]);
    let row = |label: &str, kernel: &crate::analysis::results::Kernel| {
        vec![
            text(label),
            Cell::Kernel { short: kernel.short_name.clone(), full: kernel.name.clone() },
            text(&kernel.category),
            Cell::Count(kernel.count),
            Cell::Ns(kernel.duration_ns),
            Cell::Ns(kernel.elapsed_ns),
            Cell::Share(kernel.elapsed_share),
            Cell::MeanNs(kernel.mean_ns),
            Cell::Ns(kernel.min_ns),
            Cell::Ns(kernel.max_ns),
            Cell::Ns(kernel.exclusive_ns),
            Cell::Ns(kernel.fair_ns),
        ]
    };
    let rows = runs.iter().flat_map(|(label, run)| run.kernels.iter().map(|kernel| row(label, kernel))).collect();
    let totals = match runs {
        [(_, run)] => Some(kernel_totals(run)),
        _ => None,
    };
    Table {
        id: "kernels".to_owned(),
        title: "Kernels".to_owned(),
        note: attribution_note(runs),
        columns,
        rows,
        totals,
        ..Table::default()
    }
}

fn kernel_totals(run: &Run) -> Vec<Cell> {
    let mut totals = vec![Cell::Empty, text("total"), Cell::Empty, Cell::Count(run.totals.gpu_ops)];
    totals.extend([Cell::Ns(run.totals.duration_ns), Cell::Ns(run.totals.elapsed_ns)]);
    totals.resize(12, Cell::Empty);
    totals
}

fn report_pivot(report: &Report, labels: &[String]) -> Table {
    let pivot = pivot(&report.runs);
    let several = labels.len() > 1;
    let mut columns = columns(&[("category", "Category", Kind::Category)]);
    columns.extend(labels.iter().map(|label| Column { key: label.clone(), title: label.clone(), kind: Kind::Time }));
    columns.extend(several.then(|| Column { key: "total".to_owned(), title: "All runs".to_owned(), kind: Kind::Time }));
    let cell = |ns: &Option<i64>| ns.map_or(Cell::Empty, Cell::Ns);
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for row in &pivot.rows {
        let mut cells = vec![text(&row.category)];
        cells.extend(row.elapsed_ns.iter().map(cell));
        cells.extend(several.then_some(Cell::Ns(row.total_ns)));
        rows.push(cells);
    }
    let mut totals = vec![text("total")];
    totals.extend(pivot.totals_ns.iter().map(|ns| Cell::Ns(*ns)));
    totals.extend(several.then_some(Cell::Ns(pivot.total_ns)));
    let note = "Elapsed time by category and run. A column adds up to the bar of its run.".to_owned();
    Table {
        id: "pivot".to_owned(),
        title: "Pivot".to_owned(),
        note,
        columns,
        rows,
        totals: Some(totals),
        ..Table::default()
    }
}

fn categories(runs: &[(&str, &Run)]) -> Table {
    let columns = columns(&[
        ("run", "Run", Kind::Text),
        ("category", "Category", Kind::Category),
        ("count", "Count", Kind::Count),
        ("duration_ns", "Total", Kind::Time),
        ("elapsed_ns", "Elapsed", Kind::Time),
        ("elapsed_share", "Of elapsed", Kind::Share),
        ("bar_share", "Of wall", Kind::Share),
        ("exclusive_ns", "Exclusive", Kind::Time),
        ("fair_ns", "Fair", Kind::Time),
    ]);
    let mut rows = Vec::new();
    for (label, run) in runs {
        rows.extend(run.categories.iter().map(|category| {
            vec![
                text(label),
                text(&category.category),
                Cell::Count(category.count),
                Cell::Ns(category.duration_ns),
                Cell::Ns(category.elapsed_ns),
                Cell::Share(category.elapsed_share),
                Cell::Share(category.bar_share),
                Cell::Ns(category.exclusive_ns),
                Cell::Ns(category.fair_ns),
            ]
        }));
        rows.extend(unowned(run).map(|(name, ns, share)| {
            let mut cells =
                vec![text(label), text(name), Cell::Empty, Cell::Empty, Cell::Ns(ns), Cell::Empty, Cell::Share(share)];
            cells.resize(9, Cell::Empty);
            cells
        }));
    }
    Table {
        id: "categories".to_owned(),
        title: "Categories".to_owned(),
        note: attribution_note(runs),
        columns,
        rows,
        totals: None,
        ..Table::default()
    }
}

/// The parts of a bar that belong to no category: name, nanoseconds, share of the bar.
fn unowned(run: &Run) -> impl Iterator<Item = (&'static str, i64, f64)> {
    let shared =
        (run.attribution == Attribution::Exclusive).then_some((SHARED, run.wall.shared_ns, run.wall.shared_share));
    shared.into_iter().chain([(CPU, run.wall.cpu_ns, run.wall.cpu_share)])
}

fn devices(runs: &[(&str, &Run)]) -> Table {
    let columns = columns(&[
        ("run", "Run", Kind::Text),
        ("id", "Device", Kind::Text),
        ("name", "Name", Kind::Text),
        ("gpu_ops", "GPU ops", Kind::Count),
        ("duration_ns", "Total", Kind::Time),
        ("union_ns", "Busy", Kind::Time),
        ("idle_ns", "Idle", Kind::Time),
        ("busy_share", "Busy", Kind::Share),
        ("window_ns", "First to last op", Kind::Time),
    ]);
    let row = |label: &str, device: &crate::analysis::results::Device| {
        vec![
            text(label),
            text(&device.id),
            text(&device.name),
            Cell::Count(device.gpu_ops),
            Cell::Ns(device.duration_ns),
            Cell::Ns(device.union_ns),
            Cell::Ns(device.idle_ns),
            Cell::Share(device.busy_share),
            Cell::Ns(device.window_ns),
        ]
    };
    let rows = runs.iter().flat_map(|(label, run)| run.devices.iter().map(|device| row(label, device))).collect();
    let note =
        "Busy: time with at least one op running. Idle: wall time minus busy time. Shares are of wall time.".to_owned();
    Table {
        id: "devices".to_owned(),
        title: "Devices".to_owned(),
        note,
        columns,
        rows,
        totals: None,
        ..Table::default()
    }
}

fn notices(runs: &[(&str, &Run)]) -> Table {
    let columns = columns(&[
        ("run", "Run", Kind::Text),
        ("severity", "Severity", Kind::Text),
        ("code", "Code", Kind::Text),
        ("count", "Count", Kind::Count),
        ("message", "Message", Kind::Text),
        ("advice", "What to do", Kind::Text),
    ]);
    let row = |label: &str, notice: &crate::analysis::results::Notice| {
        vec![
            text(label),
            text(severity(notice.severity)),
            text(&notice.code),
            Cell::Count(notice.count),
            text(&notice.message),
            text(&notice.advice),
        ]
    };
    let rows = runs.iter().flat_map(|(label, run)| run.notices.iter().map(|notice| row(label, notice))).collect();
    let note = "Problems and remarks from reading and analysing the trace.".to_owned();
    Table {
        id: "notices".to_owned(),
        title: "Notices".to_owned(),
        note,
        columns,
        rows,
        totals: None,
        ..Table::default()
    }
}

/// The displayed word for a severity.
pub fn severity(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

/// The bars of all runs, for the chart.
pub fn bars(report: &Report) -> Vec<Bar> {
    let bar = |(label, run): (String, &Run)| {
        let owned = run.categories.iter().map(|c| segment(&c.category, c.elapsed_ns, c.bar_share));
        let segments = owned.chain(unowned(run).map(|(name, ns, share)| segment(name, ns, share))).collect();
        Bar { label, segments, note: bar_note(run) }
    };
    report.labels().into_iter().zip(&report.runs).map(bar).collect()
}

fn segment(category: &str, elapsed_ns: i64, share: f64) -> Segment {
    Segment { category: category.to_owned(), elapsed_ns, share }
}

fn bar_note(run: &Run) -> String {
    let wall = match run.wall.source {
        WallSource::Window if run.window.is_some() => "selected window",
        WallSource::Window => "trace window",
        WallSource::Given => "given wall time",
        WallSource::RaisedToBusy => "busy time",
    };
    match run.devices.len() {
        devices if devices > 1 && !run.devices_merged => format!("{wall}, sum of {devices} devices"),
        devices if devices > 1 => format!("{wall}, {devices} devices merged"),
        _ => wall.to_owned(),
    }
}

/// The categories of all runs in the order of the palette, used for stacking bars and for the legend.
pub fn legend(report: &Report) -> Vec<String> {
    let categories =
        report.runs.iter().flat_map(|run| run.categories.iter().map(|category| category.category.as_str()));
    let unowned = report.runs.iter().flat_map(|run| unowned(run).map(|(name, ..)| name));
    palette::order(categories.chain(unowned)).into_iter().map(str::to_owned).collect()
}
