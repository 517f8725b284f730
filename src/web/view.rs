//! What the page shows, as strings ready for `textContent`.

use crate::report::format::{Shown, grouped, headings, shown, shown_totals};
use crate::report::table::{Kind, Table};
use crate::report::{Report, Request, TABLES, arrange, facts, legend, palette, severity, table as find_table, verdict};
use serde::Serialize;

/// See `Overview` in DESIGN.md.
#[derive(Debug, Serialize)]
pub(super) struct Overview {
    verdict: String,
    runs: Vec<RunView>,
    categories: Vec<CategoryView>,
    tables: Vec<TabView>,
}

#[derive(Debug, Serialize)]
struct RunView {
    label: String,
    rules: String,
    engine: Option<String>,
    facts: String,
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
    class: String,
}

#[derive(Debug, Serialize)]
struct TabView {
    id: &'static str,
    title: &'static str,
    rows: String,
}

pub(super) fn overview(report: &Report) -> Overview {
    let runs = report.labels().into_iter().zip(&report.runs).map(|(label, run)| RunView {
        label,
        rules: run.rules.clone(),
        engine: run.engine.clone(),
        facts: facts(run),
        notices: run
            .notices
            .iter()
            .map(|notice| NoticeView {
                severity: severity(notice.severity),
                code: notice.code.clone(),
                message: notice.message.clone(),
                count: grouped(notice.count),
                advice: notice.advice.clone(),
            })
            .collect(),
    });
    let rows = |id| find_table(report, id, None).map_or(0, |table| table.rows.len());
    Overview {
        verdict: verdict(report),
        runs: runs.collect(),
        categories: legend(report)
            .into_iter()
            .map(|name| CategoryView { class: palette::class(&name), name })
            .collect(),
        tables: TABLES.map(|(id, title)| TabView { id, title, rows: grouped(rows(id) as u64) }).into(),
    }
}

/// See `TableView` in DESIGN.md.
#[derive(Debug, Serialize)]
pub(super) struct TableView {
    id: &'static str,
    title: String,
    note: String,
    shown: String,
    columns: Vec<ColumnView>,
    rows: Vec<Vec<CellView>>,
    totals: Option<Vec<CellView>>,
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
}

pub(super) fn table(report: &Report, request: &Request) -> Option<TableView> {
    let whole = find_table(report, &request.id, request.run)?;
    let all = whole.rows.len();
    let mut table = arrange(whole, request);
    if request.run.is_some() || report.runs.len() == 1 {
        table = table.without_run();
    }
    let shown_rows = match table.rows.len() {
        1 if all == 1 => "1 row".to_owned(),
        kept if kept == all => format!("{} rows", grouped(all as u64)),
        kept => format!("{} of {} rows", grouped(kept as u64), grouped(all as u64)),
    };
    let cells = |row: Vec<Shown>| {
        row.into_iter().zip(&table.columns).map(|(cell, column)| cell_view(cell, column.kind)).collect()
    };
    Some(TableView {
        id: table.id,
        title: table.title.clone(),
        note: table.note.clone(),
        shown: shown_rows,
        columns: columns(&table, request),
        rows: shown(&table).into_iter().map(cells).collect(),
        totals: shown_totals(&table).map(cells),
    })
}

fn columns(table: &Table, request: &Request) -> Vec<ColumnView> {
    let sort = |key: &str| match (request.sort.as_deref() == Some(key), request.descending) {
        (false, _) => "none",
        (true, false) => "ascending",
        (true, true) => "descending",
    };
    let columns = headings(table).into_iter().zip(&table.columns);
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
    CellView { text: cell.text, title: cell.title, class }
}
