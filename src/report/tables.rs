//! Builds the five built-in tables (kernels, pivot, categories, devices, notices) and the bars of the chart from the
//! results of the runs; linear in rows.

use super::Report;
use super::chart::{Bar, Segment};
use super::table::{Cell, Column, Kind, Table};
use super::{palette, sections};
use crate::analysis::pivot::by_category::pivot;
use crate::analysis::rest;
use crate::analysis::results::{Attribution, Category, Device, Kernel, Notice, Run, Severity, WallSource};
use crate::analysis::structure::shifted_durations::WITHHELD;
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
    let of_work = match id {
        "kernels" => kernels(&chosen, usize::MAX),
        "pivot" => report_pivot(report, &labels),
        "categories" => categories(&chosen),
        "devices" => devices(&chosen),
        "notices" => return Some(notices(&chosen)),
        section => return sections::table(section, &chosen),
    };
    Some(if chosen.iter().any(|(_, run)| run.has_work()) { of_work } else { without_work(of_work, &chosen) })
}

/// The first rows of the table of kernels of one run. A trace may have very many kernels.
pub(super) fn first_kernels(report: &Report, run: usize, limit: usize) -> Option<Table> {
    let label = report.labels().into_iter().nth(run)?;
    Some(kernels(&[(label.as_str(), report.runs.get(run)?)], limit))
}

/// A table of GPU work for runs without any: the reason and the command that captures it, as in the table of idle time.
fn without_work(table: Table, runs: &[(&str, &Run)]) -> Table {
    let gaps = sections::table("gpu_idle", runs).map_or_else(Vec::new, |idle| idle.gaps);
    if gaps.is_empty() { table } else { Table { rows: Vec::new(), totals: None, gaps, ..table } }
}

const BUILTIN_TABLES: [&str; 5] = ["kernels", "pivot", "categories", "devices", "notices"];

/// Whether this is one of the tables that every report has; all others come from sections.
pub fn is_builtin_table(id: &str) -> bool {
    BUILTIN_TABLES.contains(&id)
}

/// Key, title and type of a column, and its cell in the row of an item.
type ColumnSpec<T> = (&'static str, &'static str, Kind, fn(&T) -> Cell);

/// A table with these columns after a column with the label of the run, and one row per item of each run.
fn table_of<T>(
    (id, title): (&str, &str),
    note: String,
    specs: &[ColumnSpec<T>],
    runs: &[(&str, &Run)],
    (items, limit): (fn(&Run) -> &[T], usize),
) -> Table {
    let columns = specs.iter().map(|(key, title, kind, _)| column(key, title, *kind));
    let rows =
        runs.iter().flat_map(|(label, run)| items(run).iter().take(limit).map(move |item| row(label, item, specs)));
    Table {
        id: id.to_owned(),
        title: title.to_owned(),
        note,
        columns: [column("run", "Run", Kind::Text)].into_iter().chain(columns).collect(),
        rows: rows.collect(),
        ..Table::default()
    }
}

fn row<T>(label: &str, item: &T, specs: &[ColumnSpec<T>]) -> Vec<Cell> {
    [text(label)].into_iter().chain(specs.iter().map(|(.., cell)| cell(item))).collect()
}

fn column(key: &str, title: &str, kind: Kind) -> Column {
    Column { key: key.to_owned(), title: title.to_owned(), kind }
}

fn text(text: &str) -> Cell {
    Cell::Text(text.to_owned())
}

fn share(share: Option<f64>) -> Cell {
    share.map_or(Cell::Empty, Cell::Share)
}

/// The note below the heading of a table: what elapsed time means under the attribution of these runs.
pub(super) fn attribution_note(runs: &[(&str, &Run)]) -> String {
    let mut attributions = runs.iter().map(|(_, run)| run.attribution);
    let first = attributions.next();
    if attributions.any(|attribution| Some(attribution) != first) {
        return "These runs use different attributions, so their elapsed times cannot be compared.".to_owned();
    }
    let meaning = match first {
        Some(Attribution::FirstCome) => {
            "Elapsed: the part of the busy time attributed to the op; an overlap counts for the op that started first. \
             Shares are of busy time."
        }
        None | Some(Attribution::Fair) => {
            "Elapsed: the part of the busy time attributed to the op; an overlap is split evenly among the running ops. \
             Shares are of busy time."
        }
        Some(Attribution::Exclusive) => {
            "Elapsed: the time in which the op is the only one running. Shares are of the sum of these times."
        }
    };
    with_missing_shares(meaning, runs.iter().map(|(_, run)| *run))
}

/// Adds the reason why shares are missing, if some are.
fn with_missing_shares<'a>(note: &str, mut runs: impl Iterator<Item = &'a Run>) -> String {
    let are_missing = runs.any(|run| run.kernels.iter().any(|kernel| kernel.elapsed_share.is_none()));
    if are_missing { format!("{note} {WITHHELD}") } else { note.to_owned() }
}

fn kernels(runs: &[(&str, &Run)], limit: usize) -> Table {
    let columns: [ColumnSpec<Kernel>; 11] = [
        ("name", "Kernel", Kind::Kernel, |kernel| Cell::Kernel {
            short: kernel.short_name.clone(),
            full: kernel.name.clone(),
        }),
        ("category", "Category", Kind::Category, |kernel| Cell::Category {
            name: kernel.category.clone(),
            source: kernel.category_source.phrase().to_owned(),
        }),
        ("count", "Count", Kind::Count, |kernel| Cell::Count(kernel.count)),
        ("duration_ns", "Total", Kind::Time, |kernel| Cell::Ns(kernel.duration_ns)),
        ("elapsed_ns", "Elapsed", Kind::Time, |kernel| Cell::Ns(kernel.elapsed_ns)),
        ("elapsed_share", "Of busy time", Kind::Share, |kernel| share(kernel.elapsed_share)),
        ("mean_ns", "Mean", Kind::Time, |kernel| Cell::MeanNs(kernel.mean_ns)),
        ("min_ns", "Min", Kind::Time, |kernel| kernel.min_ns.map_or(Cell::Empty, Cell::Ns)),
        ("max_ns", "Max", Kind::Time, |kernel| kernel.max_ns.map_or(Cell::Empty, Cell::Ns)),
        ("exclusive_ns", "Exclusive", Kind::Time, |kernel| Cell::Ns(kernel.exclusive_ns)),
        ("fair_ns", "Fair", Kind::Time, |kernel| Cell::Ns(kernel.fair_ns)),
    ];
    let table = table_of(("kernels", "Kernels"), attribution_note(runs), &columns, runs, (|run| &run.kernels, limit));
    let totals = match runs {
        [(_, run)] => Some(kernel_totals(run, table.columns.len())),
        _ => None,
    };
    Table { totals, ..table }
}

fn kernel_totals(run: &Run, columns: usize) -> Vec<Cell> {
    let mut totals = vec![Cell::Empty, text("total"), Cell::Empty, Cell::Count(run.totals.gpu_ops)];
    totals.extend([Cell::Ns(run.totals.duration_ns), Cell::Ns(run.totals.elapsed_ns)]);
    totals.resize(columns, Cell::Empty);
    totals
}

fn report_pivot(report: &Report, labels: &[String]) -> Table {
    let pivot = pivot(&report.runs);
    let has_several_runs = labels.len() > 1;
    let mut columns = vec![column("category", "Category", Kind::Category)];
    columns.extend(labels.iter().map(|label| column(label, label, Kind::Time)));
    columns.extend(has_several_runs.then(|| column("total", "All runs", Kind::Time)));
    let cell = |ns: &Option<i64>| ns.map_or(Cell::Empty, Cell::Ns);
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    for row in &pivot.rows {
        let mut cells = vec![text(&row.category)];
        cells.extend(row.elapsed_ns.iter().map(cell));
        cells.extend(has_several_runs.then_some(Cell::Ns(row.total_ns)));
        rows.push(cells);
    }
    let mut totals = vec![text("total")];
    totals.extend(pivot.totals_ns.iter().map(|ns| Cell::Ns(*ns)));
    totals.extend(has_several_runs.then_some(Cell::Ns(pivot.total_ns)));
    let note = "Elapsed time by category and run. A column adds up to the bar of its run.";
    let note = with_missing_shares(note, report.runs.iter());
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
    let columns: [ColumnSpec<Category>; 8] = [
        ("category", "Category", Kind::Category, |category| text(&category.category)),
        ("count", "Count", Kind::Count, |category| Cell::Count(category.count)),
        ("duration_ns", "Total", Kind::Time, |category| Cell::Ns(category.duration_ns)),
        ("elapsed_ns", "Elapsed", Kind::Time, |category| Cell::Ns(category.elapsed_ns)),
        ("elapsed_share", "Of busy time", Kind::Share, |category| share(category.elapsed_share)),
        ("bar_share", "Of wall time", Kind::Share, |category| share(category.bar_share)),
        ("exclusive_ns", "Exclusive", Kind::Time, |category| Cell::Ns(category.exclusive_ns)),
        ("fair_ns", "Fair", Kind::Time, |category| Cell::Ns(category.fair_ns)),
    ];
    // Rows are added below, because the unowned time of a run follows its categories.
    let mut table = table_of(("categories", "Categories"), attribution_note(runs), &columns, &[], (|_| &[], 0));
    for (label, run) in runs {
        table.rows.extend(run.categories.iter().map(|category| row(label, category, &columns)));
        table.rows.extend(unowned_time(run).map(|(name, ns, share)| {
            let mut cells =
                vec![text(label), text(name), Cell::Empty, Cell::Empty, Cell::Ns(ns), Cell::Empty, Cell::Share(share)];
            cells.resize(table.columns.len(), Cell::Empty);
            cells
        }));
    }
    table
}

/// The parts of a bar that belong to no category: name, nanoseconds, share of the bar.
fn unowned_time(run: &Run) -> impl Iterator<Item = (&'static str, i64, f64)> {
    let shared =
        (run.attribution == Attribution::Exclusive).then_some((SHARED, run.wall.shared_ns, run.wall.shared_share));
    shared.into_iter().chain([(CPU, run.wall.cpu_ns, run.wall.cpu_share)])
}

/// The segment of a bar with all categories that have no share: name, nanoseconds, share of the bar.
fn uncertain_time(run: &Run) -> Option<(&'static str, i64, f64)> {
    rest::without_shares(run).map(|(ns, share)| ("category uncertain", ns, share))
}

fn devices(runs: &[(&str, &Run)]) -> Table {
    let columns: [ColumnSpec<Device>; 8] = [
        ("id", "Device", Kind::Text, |device| text(&device.id)),
        ("name", "Name", Kind::Text, |device| text(&device.name)),
        ("gpu_ops", "GPU ops", Kind::Count, |device| Cell::Count(device.gpu_ops)),
        ("duration_ns", "Total", Kind::Time, |device| Cell::Ns(device.duration_ns)),
        ("union_ns", "Busy", Kind::Time, |device| Cell::Ns(device.union_ns)),
        ("idle_ns", "Idle", Kind::Time, |device| Cell::Ns(device.idle_ns)),
        ("busy_share", "Busy", Kind::Share, |device| Cell::Share(device.busy_share)),
        ("window_ns", "First to last op", Kind::Time, |device| Cell::Ns(device.window_ns)),
    ];
    let note =
        "Busy: time with at least one op or graph running. Idle: wall time minus busy time. Shares are of wall time.";
    table_of(("devices", "Devices"), note.to_owned(), &columns, runs, (|run| &run.devices, usize::MAX))
}

fn notices(runs: &[(&str, &Run)]) -> Table {
    let columns: [ColumnSpec<Notice>; 5] = [
        ("severity", "Severity", Kind::Text, |notice| text(severity(notice.severity))),
        ("code", "Code", Kind::Text, |notice| text(&notice.code)),
        ("count", "Count", Kind::Count, |notice| Cell::Count(notice.count)),
        ("message", "Message", Kind::Text, |notice| text(&notice.message)),
        ("advice", "What to do", Kind::Text, |notice| text(&notice.advice)),
    ];
    let note = "Problems and remarks from reading and analyzing the trace.";
    table_of(("notices", "Notices"), note.to_owned(), &columns, runs, (|run| &run.notices, usize::MAX))
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
        let categories = run.categories.iter().filter_map(|c| Some(segment(&c.category, c.elapsed_ns, c.bar_share?)));
        let other = unowned_time(run).chain(uncertain_time(run));
        let segments = categories.chain(other.map(|(name, ns, share)| segment(name, ns, share))).collect();
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
    // First what makes the bar longer than the trace: the chart cuts the end of a long note.
    let devices = match run.devices.len() {
        devices if devices > 1 && !run.devices_merged => format!("sum of {devices} devices"),
        devices if devices > 1 => format!("{devices} devices merged"),
        _ => return wall.to_owned(),
    };
    let is_whole_trace = matches!(run.wall.source, WallSource::Window) && run.window.is_none();
    if is_whole_trace { devices } else { format!("{devices}, {wall}") }
}

/// The categories and unowned times of all runs in the order of the palette, for stacked bars and the legend.
pub fn legend(report: &Report) -> Vec<String> {
    let categories = report.runs.iter().flat_map(|run| &run.categories).filter(|category| category.bar_share.is_some());
    let categories = categories.map(|category| category.category.as_str());
    let unowned =
        report.runs.iter().flat_map(|run| unowned_time(run).chain(uncertain_time(run)).map(|(name, ..)| name));
    palette::order(categories.chain(unowned)).into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::pivot::cells::Axis;
    use crate::analysis::pivot::layout::{Measure, PercentBase, PivotLayout, Source};
    use crate::analysis::testing::replay_of_layers;
    use crate::report::{csv, html_page, markdown, pivot_table, terminal};
    use crate::trace::testing::TestTrace;

    fn report(lost_at: usize) -> Report {
        let mut trace = replay_of_layers(lost_at);
        trace.launch(5_000..5_002).launches("vectorized_gather_kernel", 5_010..5_110);
        Report::new(vec![trace.run()])
    }

    /// Name and share of each row.
    fn share_cells(report: &Report, id: &str, key: &str) -> Vec<(String, bool)> {
        let table = table(report, id, None).unwrap();
        let column = table.columns.iter().position(|column| column.key == key).unwrap();
        table.rows.iter().map(|row| (crate::report::format::exact(&row[1]), row[column] != Cell::Empty)).collect()
    }

    #[test]
    fn a_run_without_gpu_work_says_so_and_what_captures_it_instead_of_sums_of_zero() {
        let mut trace = TestTrace::new();
        trace.in_us().cpu_op("aten::mm", 10..20, 1);
        let empty = Report::new(vec![trace.run()]);
        for id in ["kernels", "pivot", "categories", "devices"] {
            let table = table(&empty, id, None).unwrap();
            assert!(table.rows.is_empty() && table.totals.is_none(), "{id}");
            assert_eq!(table.gaps[0].why, "The trace contains no GPU ops.", "{id}");
            assert!(table.gaps[0].recapture.contains("ProfilerActivity.CUDA"), "{id}");
        }
        assert!(crate::report::facts(&empty.runs[0]).starts_with("no GPU ops; torch.profiler; "));
        let mixed = Report::new(vec![trace.run(), replay_of_layers(usize::MAX).run()]);
        assert!(table(&mixed, "kernels", None).unwrap().gaps.is_empty());
    }

    #[test]
    fn all_outputs_leave_out_shares_of_kernels_with_shifted_durations() {
        let (shifted, intact) = (report(30), report(usize::MAX));
        for (name, has_share) in share_cells(&shifted, "kernels", "elapsed_share") {
            assert_eq!(has_share, name == "vectorized_gather_kernel", "{name}");
        }
        for (name, has_share) in share_cells(&shifted, "categories", "bar_share") {
            assert_eq!(has_share, matches!(name.as_str(), "memory" | CPU), "{name}");
        }
        let cells = share_cells(&intact, "kernels", "elapsed_share");
        assert!(cells.len() > 5 && cells.iter().all(|(_, has_share)| *has_share));
        let csv = csv::csv(&table(&shifted, "kernels", None).unwrap());
        assert!(csv.lines().any(|line| line.contains("gemm_kernel,gemm,10,") && line.contains(",,")), "{csv}");
        let markdown = markdown::markdown(&shifted);
        assert!(markdown.contains(WITHHELD) && !markdown.contains("NaN") && !markdown.contains("null"), "{markdown}");
        assert!(html_page(&shifted, "t").contains(WITHHELD));
        let screen = terminal::screen(&shifted, None, 120);
        assert!(screen.contains("durations belong to neighbouring kernels"), "{screen}");
        for id in ["kernels", "categories", "pivot", "top_kernels"] {
            assert!(table(&shifted, id, None).unwrap().note.contains(WITHHELD), "{id}");
            assert!(!table(&intact, id, None).unwrap().note.contains(WITHHELD), "{id}");
        }
        let text = shifted.json();
        assert!(text.contains("\"elapsed_share\": null"));
        assert_eq!(Report::read("r.json", &text).unwrap().json(), text);
    }

    #[test]
    fn a_pivot_has_no_shares_of_kernels_with_shifted_durations() {
        let empty_cells = |lost_at: usize, rows: Axis, values: Measure| {
            let report = report(lost_at);
            let sources = [Source { label: "r", run: &report.runs[0], cells: None }];
            let layout = PivotLayout { rows, columns: None, values, percent: Some(PercentBase::Column), top: 0 };
            let table = pivot_table(&sources, layout).unwrap();
            let empty = table.rows.iter().filter(|row| row[1] == Cell::Empty).count();
            assert_eq!(table.note.contains(WITHHELD), empty > 0);
            (empty, table.rows.len())
        };
        assert_eq!(empty_cells(30, Axis::Kernel, Measure::Elapsed), (6, 6));
        assert_eq!(empty_cells(30, Axis::Kernel, Measure::Count), (0, 6));
        assert_eq!(empty_cells(usize::MAX, Axis::Kernel, Measure::Elapsed), (0, 6));
        assert!(matches!(empty_cells(30, Axis::Category, Measure::Duration), (empty, rows) if empty == rows));
    }

    #[test]
    fn categories_without_a_share_are_one_segment_of_the_bar() {
        let shifted = report(30);
        let bar = bars(&shifted).remove(0);
        let names: Vec<&str> = bar.segments.iter().map(|segment| segment.category.as_str()).collect();
        assert_eq!(names, ["memory", CPU, "category uncertain"]);
        let length: i64 = bar.segments.iter().map(|segment| segment.elapsed_ns).sum();
        assert_eq!(length, shifted.runs[0].wall.bar_ns);
        let share: f64 = bar.segments.iter().map(|segment| segment.share).sum();
        assert!((share - 1.0).abs() < 1e-9);
        assert_eq!(legend(&shifted), palette::order(names));
        assert!(!legend(&report(usize::MAX)).iter().any(|name| name == "category uncertain"));
    }
}
