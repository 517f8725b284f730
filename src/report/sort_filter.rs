//! Sorts and filters a table for the page: O(rows) to filter, O(rows log rows) to sort.
//!
//! It is done here and not in JavaScript, so that rows are compared by their exact values, not by the formatted text.

use super::format::{exact, ns};
use super::table::{Cell, Kind, Table};
use crate::json::from_json;
use crate::ordering;
use crate::rules::names;
use foldhash::fast::RandomState;
use std::cmp::Ordering;
use std::collections::HashMap;

/// Which rows of a table to show, and in which order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TableRequest {
    /// The table's id.
    pub id: String,
    /// Index of the only run to show; `None` for all runs.
    pub run: Option<usize>,
    /// The key of the column to sort by; `None` keeps the order of the table.
    pub sort: Option<String>,
    /// Largest first.
    pub descending: bool,
    /// Words separated by blanks. A row is kept if each word occurs in one of its text cells; ASCII case is ignored.
    pub filter: String,
    /// Rows of these categories are left out.
    pub hidden_categories: Vec<String>,
    /// Index of the first row to show, after sorting and filtering.
    pub from: usize,
    /// The maximum number of rows to show; `None` for all.
    pub count: Option<usize>,
    /// Only the main columns.
    pub short: bool,
    /// How many characters of the name of a kernel or run have room; `None` for the short names of the report.
    pub name_chars: Option<usize>,
    /// A row to look for: keys of columns and its values in them, as in exports. Keys that the table lacks are ignored.
    pub find: Vec<RowValue>,
}
from_json!(TableRequest { ; id, run, sort, descending, filter, hidden_categories, from, count, short, name_chars, find });

/// The value of a row in a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowValue {
    /// The key of the column.
    pub key: String,
    /// The value, as in exports.
    pub value: String,
}
from_json!(RowValue { key, value });

impl TableRequest {
    /// Whether both requests select the same sorted and filtered table. The range of rows may differ.
    pub fn selects_same_table(&self, other: &Self) -> bool {
        let whole = |request: &Self| Self { from: 0, count: None, find: Vec::new(), ..request.clone() };
        whole(self) == whole(other)
    }

    /// The index of the row that the request looks for.
    pub fn found(&self, table: &Table) -> Option<usize> {
        let index = |wanted: &RowValue| table.columns.iter().position(|column| column.key == wanted.key);
        let wanted: Vec<(usize, &str)> =
            self.find.iter().filter_map(|wanted| Some((index(wanted)?, wanted.value.as_str()))).collect();
        let is_it =
            |row: &Vec<Cell>| wanted.iter().all(|(index, value)| row.get(*index).map(exact).as_deref() == Some(value));
        table.rows.iter().position(is_it).filter(|_| !wanted.is_empty())
    }
}

/// Names of runs have no more room than this in a narrow table: they stand in each row.
const RUN_CHARS: usize = 20;

/// Gives the kernels and runs of a table short names for narrow columns, which tell them apart within this table.
pub fn narrow_names(table: &mut Table, max_chars: usize) {
    narrow(table.rows.iter_mut().flatten(), max_chars, |_| 0);
    let Some(index) = table.columns.iter().position(|column| column.key == "run") else { return };
    let runs = table.rows.iter_mut().filter_map(|row| row.get_mut(index)).filter_map(|cell| {
        let Cell::Text(label) = cell else { return None };
        let full = std::mem::take(label);
        *cell = Cell::Kernel { short: String::new(), full };
        Some(cell)
    });
    let room = max_chars.min(RUN_CHARS);
    let needs_room = |names: &[&str]| names.iter().any(|name| name.chars().count() > room);
    narrow(runs, room, |names| if needs_room(names) { common_ending(names) } else { 0 });
}

/// The length of what several file names have from the first dot on, if it is the same: of `rank0.pt.trace.json.gz` and
/// `rank1.pt.trace.json.gz` that of `.pt.trace.json.gz`.
fn common_ending(names: &[&str]) -> usize {
    let ending = names.first().and_then(|first| first.get(first.find('.')?..)).unwrap_or_default();
    let is_shared = names.len() > 1 && names.iter().all(|name| name.len() > ending.len() && name.ends_with(ending));
    if is_shared { ending.len() } else { 0 }
}

/// Shortens the names in these cells. `ending` is the length of what all of them end with and need not show.
fn narrow<'a>(cells: impl Iterator<Item = &'a mut Cell>, max_chars: usize, ending: impl Fn(&[&str]) -> usize) {
    let names = cells.filter_map(|cell| match cell {
        Cell::Kernel { short, full } => Some((short, full.as_str())),
        _ => None,
    });
    let (short, full): (Vec<&mut String>, Vec<&str>) = names.unzip();
    let mut distinct = full.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let ending = ending(&distinct);
    let stem = |name: &'a str| name.get(..name.len().saturating_sub(ending)).unwrap_or(name);
    let demangled: Vec<_> = distinct.iter().map(|name| names::demangle(stem(name))).collect();
    let narrowed = names::distinct_within(&demangled, max_chars);
    let by_name: HashMap<&str, &String, RandomState> = distinct.into_iter().zip(&narrowed).collect();
    for (short, full) in short.into_iter().zip(full) {
        if let Some(narrow) = by_name.get(full) {
            short.clone_from(narrow);
        }
    }
}

/// Sorts and filters the table; `from` and `count` are left to the caller. If rows are removed, the totals are
/// removed too, because they are sums over all rows.
pub fn sort_and_filter(mut table: Table, request: &TableRequest) -> Table {
    let all = table.rows.len();
    let category = category_column(&table);
    let is_hidden = |row: &Vec<Cell>| {
        let name = category.and_then(|index| row.get(index)).and_then(category_name);
        name.is_some_and(|name| request.hidden_categories.iter().any(|hidden| hidden == name))
    };
    let words = filter_words(request);
    table.rows.retain(|row| !is_hidden(row) && contains_all(row, &words));
    if table.rows.len() < all {
        table.totals = None;
    }
    let sort_column = request.sort.as_ref().and_then(|key| table.columns.iter().position(|column| column.key == *key));
    if let Some(index) = sort_column {
        ordering::sort_by(&mut table.rows, |a, b| compare(a.get(index), b.get(index), request.descending));
    }
    table
}

/// The hidden categories that leave out rows which pass the filter, in the order of these rows.
pub fn hiding_categories<'a>(table: &Table, request: &'a TableRequest) -> Vec<&'a str> {
    let words = filter_words(request);
    let category = category_column(table);
    let mut hiding: Vec<&str> = Vec::new();
    for row in &table.rows {
        let name = category.and_then(|index| row.get(index)).and_then(category_name);
        let hidden = name.and_then(|name| request.hidden_categories.iter().find(|hidden| *hidden == name));
        if let Some(hidden) = hidden.filter(|hidden| !hiding.contains(&hidden.as_str()) && contains_all(row, &words)) {
            hiding.push(hidden);
        }
    }
    hiding
}

fn category_column(table: &Table) -> Option<usize> {
    table.columns.iter().position(|column| column.kind == Kind::Category)
}

fn category_name(cell: &Cell) -> Option<&str> {
    match cell {
        Cell::Text(name) | Cell::Category { name, .. } => Some(name),
        _ => None,
    }
}

fn filter_words(request: &TableRequest) -> Vec<String> {
    request.filter.split_ascii_whitespace().map(str::to_ascii_lowercase).collect()
}

fn contains_all(row: &[Cell], words: &[String]) -> bool {
    let contains =
        |word: &String| row.iter().any(|cell| texts(cell).any(|text| text.to_ascii_lowercase().contains(word)));
    words.iter().all(contains)
}

/// The searchable texts of a cell: for a kernel both names, for a number none.
fn texts(cell: &Cell) -> impl Iterator<Item = String> {
    let short = if let Cell::Kernel { short, .. } = cell { Some(short.clone()) } else { None };
    let full = matches!(cell, Cell::Text(_) | Cell::Category { .. } | Cell::Kernel { .. }).then(|| exact(cell));
    short.into_iter().chain(full)
}

/// Empty cells come last in both directions.
fn compare(a: Option<&Cell>, b: Option<&Cell>, descending: bool) -> Ordering {
    let is_empty = |cell: Option<&Cell>| matches!(cell, None | Some(Cell::Empty));
    match (is_empty(a), is_empty(b)) {
        (false, false) => {}
        (a, b) => return a.cmp(&b),
    }
    let ordering = match (a, b) {
        (Some(Cell::Count(a)), Some(Cell::Count(b))) => a.cmp(b),
        (Some(Cell::Ns(a)), Some(Cell::Ns(b))) => a.cmp(b),
        (Some(Cell::Int(a)), Some(Cell::Int(b))) => a.cmp(b),
        (Some(Cell::Kernel { short: a, .. }), Some(Cell::Kernel { short: b, .. })) => a.cmp(b),
        (Some(a), Some(b)) => match (number(a), number(b)) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            _ => exact(a).cmp(&exact(b)),
        },
        _ => Ordering::Equal,
    };
    if descending { ordering.reverse() } else { ordering }
}

/// The value as one scale per kind: shares in per cent, times in nanoseconds.
fn number(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Share(value) => Some(*value * 100.0),
        Cell::Percent(value) | Cell::Number(value) => Some(*value),
        Cell::Int(value) => Some(*value as f64),
        Cell::Count(value) => Some(*value as f64),
        other => ns(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::format::shown;
    use crate::report::table::Column;

    #[test]
    fn names_of_runs_that_have_no_room_drop_the_ending_that_all_share() {
        let shown_for = |runs: &[&str]| {
            let columns = vec![Column { key: "run".into(), title: "Run".into(), kind: Kind::Text }];
            let rows = runs.iter().map(|run| vec![Cell::Text((*run).into())]).collect();
            let mut table = Table { columns, rows, ..Table::default() };
            narrow_names(&mut table, 40);
            shown(&table).into_iter().map(|row| row[0].clone()).collect::<Vec<_>>()
        };
        let ranks = shown_for(&["rank0.pt.trace.json.gz", "rank11.pt.trace.json.gz"]);
        assert_eq!(ranks.iter().map(|run| run.text.as_str()).collect::<Vec<_>>(), ["rank0", "rank11"]);
        assert_eq!(ranks[0].title, "rank0.pt.trace.json.gz", "the whole name is the tooltip");
        let short = shown_for(&["a.json", "b.json"]);
        assert_eq!(short.iter().map(|run| run.text.as_str()).collect::<Vec<_>>(), ["a.json", "b.json"]);
        for odd in
            [&["x.json"; 2][..], &["one.a.run.with.a.long.name"], &["", ".json"], &["é.json.gz.é.json.gz.é.json", "é"]]
        {
            assert!(shown_for(odd).iter().all(|run| run.text.is_empty() == run.title.is_empty()), "{odd:?}");
        }
    }

    fn table() -> Table {
        let column = |key: &str, kind| Column { key: key.into(), title: key.into(), kind };
        let row = |name: &str, category: &str, ns: Option<i64>| {
            vec![Cell::Text(name.into()), Cell::Text(category.into()), ns.map_or(Cell::Empty, Cell::Ns)]
        };
        Table {
            id: "t".into(),
            columns: vec![column("name", Kind::Text), column("category", Kind::Category), column("ns", Kind::Time)],
            rows: vec![
                row("Alpha one", "gemm", Some(2)),
                row("beta", "norm", None),
                row("gamma one", "gemm", Some(10)),
            ],
            totals: Some(vec![Cell::Empty, Cell::Empty, Cell::Ns(12)]),
            ..Table::default()
        }
    }

    fn names(table: &Table) -> Vec<String> {
        table.rows.iter().map(|row| exact(&row[0])).collect()
    }

    #[test]
    fn numbers_sort_by_value_and_empty_cells_come_last() {
        for (descending, want) in
            [(false, ["Alpha one", "gamma one", "beta"]), (true, ["gamma one", "Alpha one", "beta"])]
        {
            let request = TableRequest { sort: Some("ns".into()), descending, ..TableRequest::default() };
            assert_eq!(names(&sort_and_filter(table(), &request)), want);
        }
    }

    #[test]
    fn a_hidden_category_is_named_if_rows_that_pass_the_filter_are_left_out_for_it() {
        let hiding = |filter: &str, hidden: &[&str]| {
            let hidden_categories = hidden.iter().map(|&name| name.to_owned()).collect();
            let request = TableRequest { filter: filter.into(), hidden_categories, ..TableRequest::default() };
            hiding_categories(&table(), &request).join(" ")
        };
        assert_eq!(hiding("", &["norm", "gemm", "copy"]), "gemm norm");
        assert_eq!((hiding("BETA", &["norm", "gemm"]), hiding("alpha", &["norm"])), ("norm".into(), String::new()));
        assert_eq!(hiding("", &[]), "");
    }

    #[test]
    fn a_row_is_found_by_its_values_in_the_order_of_the_request() {
        let value = |key: &str, value: &str| RowValue { key: key.into(), value: value.into() };
        let found = |find: Vec<RowValue>| {
            let request = TableRequest { sort: Some("ns".into()), descending: true, find, ..TableRequest::default() };
            request.found(&sort_and_filter(table(), &request))
        };
        assert_eq!(found(vec![value("name", "beta")]), Some(2));
        assert_eq!(
            found(vec![value("category", "gemm"), value("ns", "2"), value("run", "not in this table")]),
            Some(1)
        );
        assert_eq!((found(vec![value("name", "none")]), found(Vec::new())), (None, None));
    }

    #[test]
    fn filtering_removes_the_totals() {
        let request = TableRequest { filter: "ONE gem".into(), ..TableRequest::default() };
        let filtered = sort_and_filter(table(), &request);
        assert_eq!(names(&filtered), ["Alpha one", "gamma one"]);
        assert_eq!(filtered.totals, None);
        let request = TableRequest { hidden_categories: vec!["gemm".into()], ..TableRequest::default() };
        assert_eq!(names(&sort_and_filter(table(), &request)), ["beta"]);
        assert!(sort_and_filter(table(), &TableRequest::default()).totals.is_some());
    }
}
