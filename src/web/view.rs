//! Converts results into the strings that the page shows. The page sets them as `textContent`.

use crate::analysis::results::{Run, Severity};
use crate::analysis::section::TypedSection;
use crate::analysis::trust::{Trust, TrustId};
use crate::digits::grouped;
use crate::report::chart::Unit;
use crate::report::format::figure;
use crate::report::format::{Shown, headings_in, shown_in, units};
use crate::report::source_links::{SourceLink, source_link};
use crate::report::table::{Cell, Figure, Gap, Kind, Table};
use crate::report::{
    Clause, ExampleLink, Finding, Report, RowCases, Tab, TableChoice, TableRequest, clauses, displayed,
    facts_without_rules, hiding_categories, is_builtin_table, legend, merged_findings, narrow_names, palette, severity,
    shortened, sort_and_filter, table as find_table, tabs,
};
use serde::Serialize;

/// Everything the page shows above and next to the tables; see "The interface" in docs/page.md.
#[derive(Debug, Serialize)]
pub(super) struct Overview<'a> {
    verdict: Vec<Clause>,
    runs: Vec<RunView>,
    findings: Vec<Finding<'a>>,
    categories: Vec<CategoryView>,
    tabs: Vec<TabView>,
    /// False if no run has GPU work.
    has_work: bool,
}

#[derive(Debug, Serialize)]
struct RunView {
    label: String,
    rules: String,
    engine: Option<String>,
    facts: String,
    /// The key figures. Empty for reports without them.
    figures: Vec<FigureView>,
    notices: Vec<NoticeView>,
}

#[derive(Debug, Serialize)]
struct NoticeView {
    severity: &'static str,
    code: String,
    message: String,
    count: String,
    advice: String,
}

#[derive(Debug, Serialize)]
struct CategoryView {
    name: String,
    title: String,
    class: String,
}

#[derive(Debug, Serialize)]
struct TabView {
    id: String,
    title: String,
    /// The number of rows of its first table; empty for a tab of different tables.
    rows: String,
    names: Vec<String>,
    tables: Vec<String>,
    in_short: String,
    folded: Option<FoldedView>,
    one_of: Vec<TableChoice>,
    is_more: bool,
}

/// Tables that are shown on demand.
#[derive(Debug, Serialize)]
struct FoldedView {
    id: String,
    title: String,
    tables: Vec<String>,
}

pub(super) fn overview(report: &Report) -> Overview<'_> {
    let runs = report.labels().into_iter().zip(&report.runs).enumerate().map(|(index, (label, run))| RunView {
        label,
        figures: key_figures(report, index),
        rules: run.rules.clone(),
        engine: run.engine.clone(),
        facts: facts_without_rules(run),
        notices: notices(run),
    });
    let tabs = tabs(report).into_iter().map(|tab| tab_view(report, tab));
    Overview {
        verdict: clauses(report),
        runs: runs.collect(),
        findings: merged_findings(report),
        categories: legend(report)
            .into_iter()
            .map(|name| CategoryView { class: palette::class(&name), title: palette::title(&name).to_owned(), name })
            .collect(),
        tabs: tabs.collect(),
        has_work: report.runs.iter().any(Run::has_work),
    }
}

fn tab_view(report: &Report, tab: Tab) -> TabView {
    let is_one_table = tab.is_more || !tab.one_of.is_empty();
    let first = tab.tables.first().filter(|_| is_one_table).and_then(|id| find_table(report, id, None));
    let rows = first.filter(|table| table.gaps.is_empty()).map(|table| grouped(table.rows.len() as u64));
    TabView {
        id: tab.id,
        title: tab.title,
        rows: rows.unwrap_or_default(),
        names: tab.names,
        tables: tab.tables,
        in_short: tab.in_short,
        folded: tab.folded.map(|group| FoldedView { id: group.id, title: group.title, tables: group.tables }),
        one_of: tab.one_of,
        is_more: tab.is_more,
    }
}

/// The notices of a run, and the limits of its trace.
fn notices(run: &Run) -> Vec<NoticeView> {
    let notices = run.notices.iter().map(|notice| NoticeView {
        severity: severity(notice.severity),
        code: notice.code.clone(),
        message: notice.message.clone(),
        count: grouped(notice.count),
        advice: notice.advice.clone(),
    });
    notices.chain(limits(run)).collect()
}

/// The rows of the section `trust` as notices, without those that a notice with the same code already states.
fn limits(run: &Run) -> impl Iterator<Item = NoticeView> {
    // These leave the measured times as they are; the others make some of them wrong.
    const REMARKS: [TrustId; 3] = [TrustId::CaptureOverhead, TrustId::SingleStep, TrustId::OneRankOfMany];
    Trust::rows(&run.sections).into_iter().filter_map(|row| {
        let code = row.id.word().replace('-', "_");
        let is_new = !run.notices.iter().any(|notice| notice.code == code);
        is_new.then(|| NoticeView {
            severity: severity(if REMARKS.contains(&row.id) { Severity::Info } else { Severity::Warning }),
            code,
            message: row.text,
            count: grouped(1),
            advice: format!("Affects {}.", row.affects),
        })
    })
}

fn key_figures(report: &Report, run: usize) -> Vec<FigureView> {
    let figures = find_table(report, "key_figures", Some(run)).map(|table| table.figures).unwrap_or_default();
    self::figures(&figures).figures
}

/// The rows of a table that the page requested, sorted and filtered, with finished text in every cell.
#[derive(Debug, Serialize)]
pub(super) struct TableView {
    id: String,
    title: String,
    note: String,
    figures: Vec<FiguresView>,
    gaps: Vec<Gap>,
    /// False for a section that has figures but never rows.
    grid: bool,
    is_short: bool,
    shown: String,
    /// Why rows are missing: `memory is hidden`. Empty if no row is left out for its category.
    hidden: String,
    /// The number of rows that can be requested.
    row_count: usize,
    /// The index of the row that the request looks for, if the table has it.
    found: Option<usize>,
    columns: Vec<ColumnView>,
    rows: Vec<Vec<CellView>>,
    totals: Option<Vec<CellView>>,
}

/// The single figures of one run.
#[derive(Debug, Serialize)]
struct FiguresView {
    run: String,
    figures: Vec<FigureView>,
}

#[derive(Debug, Serialize)]
struct FigureView {
    title: String,
    text: String,
    exact: String,
}

#[derive(Debug, Serialize)]
struct ColumnView {
    key: String,
    title: String,
    kind: Kind,
    sort: &'static str,
}

#[derive(Debug, Serialize)]
struct CellView {
    text: String,
    title: String,
    class: String,
    /// A point in time as nanoseconds since the first GPU op, which leads to the timeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    since_first_op_ns: Option<f64>,
    /// A case of what the cell is about, which leads to the timeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    example: Option<ExampleLink>,
    /// For each line of a place in the code, where its source is on the web; null for code of no known package.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    sources: Vec<Option<SourceLink>>,
}

/// Browsers limit the height of an element to about 17 million pixels. The CSV has all rows.
const MAX_ROWS: usize = 500_000;

/// A sorted and filtered table. The page requests the rows of long tables in parts.
#[derive(Debug)]
pub(super) struct PagedTable {
    request: TableRequest,
    /// The number of rows before filtering.
    all: usize,
    /// The hidden categories that leave out rows, in words.
    hidden: String,
    table: Table,
    units: Vec<Unit>,
    /// `None` for a table that is not of a report.
    cases: Option<RowCases>,
}

impl PagedTable {
    pub(super) fn of(report: &Report, request: &TableRequest) -> Option<Self> {
        let whole = displayed(find_table(report, &request.id, request.run)?);
        let paged = Self::new(whole, request, request.run.is_some() || report.runs.len() == 1);
        Some(paged.with_cases(RowCases::of(report, &request.id, request.run)))
    }

    /// Sorts and filters the table. With `one_run`, the column of runs is left out.
    pub(super) fn new(whole: Table, request: &TableRequest, one_run: bool) -> Self {
        let all = whole.rows.len();
        let mut whole = whole;
        // Before rows are filtered, so that a filter changes no name.
        if let Some(chars) = request.name_chars {
            narrow_names(&mut whole, chars);
        }
        let hidden = hidden_words(&hiding_categories(&whole, request));
        let mut table = match &request.sort {
            // Else the few rows would be those of the first run.
            None if request.short && !one_run => sort_and_filter(whole, &largest_first(request)),
            _ => sort_and_filter(whole, request),
        };
        table.rows.truncate(MAX_ROWS);
        if one_run {
            table = table.without_run();
        }
        if request.short {
            table = shortened(table);
        }
        Self { request: request.clone(), all, hidden, units: units(&table), table, cases: None }
    }

    /// With links to the timeline.
    pub(super) fn with_cases(self, cases: RowCases) -> Self {
        Self { cases: Some(cases), ..self }
    }

    pub(super) fn answers(&self, request: &TableRequest) -> bool {
        self.request.selects_same_table(request)
    }

    /// The requested rows, with headings, totals and notes.
    pub(super) fn view(&self, request: &TableRequest) -> TableView {
        let Self { table, all, units, .. } = self;
        let cells = |row: Vec<Shown>| {
            row.into_iter().zip(&table.columns).map(|(cell, column)| cell_view(cell, column.kind)).collect()
        };
        let wanted = request.count.unwrap_or(usize::MAX);
        let part = table.rows.get(request.from..).unwrap_or_default();
        let part = part.get(..wanted).unwrap_or(part);
        let mut rows: Vec<Vec<CellView>> = shown_in(table, units, part).into_iter().map(cells).collect();
        // The page shows lists with one line per item.
        let kinds = table.columns.iter().map(|column| column.kind).cycle();
        for ((view, cell), kind) in rows.iter_mut().flatten().zip(part.iter().flatten()).zip(kinds) {
            match cell {
                Cell::Text(text) if kind == Kind::CodeLocation => {
                    view.text.clone_from(text);
                    view.sources = text.lines().map(source_link).collect();
                }
                Cell::Text(text) if text.contains('\n') => view.text.clone_from(text),
                Cell::Timestamp { clock_ns, first_op_ns } => {
                    view.since_first_op_ns = Some(clock_ns.saturating_sub(*first_op_ns) as f64);
                }
                _ => {}
            }
        }
        if let Some(cases) = &self.cases {
            for (views, cells) in rows.iter_mut().zip(part) {
                let of_row = cases.of_row(table, cells);
                views.iter_mut().zip(of_row).for_each(|(view, example)| view.example = example);
            }
        }
        TableView {
            id: table.id.clone(),
            title: table.title.clone(),
            note: table.note.clone(),
            figures: table.figures_by_run().map(figures).collect(),
            gaps: table.gaps.clone(),
            grid: *all > 0 || is_builtin_table(&table.id) && table.gaps.is_empty(),
            is_short: request.short,
            shown: if request.short { first_of(rows.len(), *all) } else { rows_of(table.rows.len(), *all) },
            hidden: self.hidden.clone(),
            row_count: if request.short { rows.len() } else { table.rows.len() },
            found: request.found(table),
            columns: columns(table, units, request),
            rows,
            totals: shown_in(table, units, table.totals.as_slice()).pop().map(cells),
        }
    }
}

/// The request for the same rows, those that take the most GPU time first.
fn largest_first(request: &TableRequest) -> TableRequest {
    TableRequest { sort: Some("elapsed_ns".to_owned()), descending: true, ..request.clone() }
}

fn rows_of(kept: usize, all: usize) -> String {
    match kept {
        1 if all == 1 => "1 row".to_owned(),
        kept if kept == all => format!("{} rows", grouped(all as u64)),
        kept => format!("{} of {} rows", grouped(kept as u64), grouped(all as u64)),
    }
}

/// `gemm and memory are hidden`.
fn hidden_words(categories: &[&str]) -> String {
    let verb = if categories.len() == 1 { "is" } else { "are" };
    if categories.is_empty() { String::new() } else { format!("{} {verb} hidden", crate::words::listed(categories)) }
}

fn first_of(shown: usize, all: usize) -> String {
    if shown == all {
        return rows_of(shown, all);
    }
    format!("{} of {}", grouped(shown as u64), grouped(all as u64))
}

fn figures(figures: &[Figure]) -> FiguresView {
    let view = |one: &Figure| {
        let shown = figure(&one.cell);
        FigureView { title: one.title.clone(), text: shown.text, exact: shown.title }
    };
    let run = figures.first().map(|figure| figure.run.clone()).unwrap_or_default();
    FiguresView { run, figures: figures.iter().map(view).collect() }
}

fn columns(table: &Table, units: &[Unit], request: &TableRequest) -> Vec<ColumnView> {
    let sort = |key: &str| match (request.sort.as_deref() == Some(key), request.descending) {
        (false, _) => "none",
        (true, false) => "ascending",
        (true, true) => "descending",
    };
    let columns = headings_in(table, units).into_iter().zip(&table.columns);
    columns
        .map(|(title, column)| ColumnView {
            key: column.key.clone(),
            title,
            kind: column.kind,
            sort: sort(&column.key),
        })
        .collect()
}

fn cell_view(cell: Shown, kind: Kind) -> CellView {
    let class =
        if kind == Kind::Category && !cell.text.is_empty() { palette::class(&cell.text) } else { String::new() };
    CellView { text: cell.text, title: cell.title, class, since_first_op_ns: None, example: None, sources: Vec::new() }
}
