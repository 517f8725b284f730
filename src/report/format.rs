//! Formats cells for display: one unit per time column, three significant digits, the exact value in the tooltip.

use super::palette;
use super::table::{Cell, Kind, Table};
use crate::analysis::structure::stages::Stage;
use crate::digits::{grouped, grouped_text};
use crate::plain::{REPLACEMENT, is_plain};
pub(in crate::report) use crate::words::numbers::digits;
pub use crate::words::numbers::percent;
pub use crate::words::phrases::counted_text as counted;
use crate::words::times::Unit;
pub use crate::words::times::{change, duration, range, time_like};

/// A formatted cell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shown {
    /// The displayed text.
    pub text: String,
    /// The tooltip: the exact value or the full name; empty if the text is exact.
    pub title: String,
}

/// The largest unit that is not longer than this duration. Truncation is safe, because units are whole nanoseconds.
fn unit(ns: f64) -> Unit {
    Unit::of(ns as i64)
}

/// The headings of a table, with units: `Elapsed (ms)`, `Share (%)`.
pub fn headings(table: &Table) -> Vec<String> {
    headings_in(table, &units(table))
}

/// Like [`headings`], for given [`units`].
pub fn headings_in(table: &Table, units: &[Unit]) -> Vec<String> {
    let columns = table.columns.iter().zip(units);
    columns
        .map(|(column, unit)| match column.kind {
            Kind::Time => format!("{} ({})", column.title, unit.name()),
            Kind::Timestamp => format!("{} (ms)", column.title),
            Kind::Share => format!("{} (%)", column.title),
            Kind::Text | Kind::Kernel | Kind::Category | Kind::CodeLocation | Kind::Count | Kind::Number => {
                column.title.clone()
            }
        })
        .collect()
}

/// All rows, formatted.
pub fn shown(table: &Table) -> Vec<Vec<Shown>> {
    shown_in(table, &units(table), &table.rows)
}

/// Some rows of the table, formatted in the [`units`] of the whole table.
pub fn shown_in(table: &Table, units: &[Unit], rows: &[Vec<Cell>]) -> Vec<Vec<Shown>> {
    rows.iter().map(|row| shown_row(row, table, units)).collect()
}

/// The row of totals, formatted.
pub fn shown_totals(table: &Table) -> Option<Vec<Shown>> {
    let units = units(table);
    table.totals.as_ref().map(|row| shown_row(row, table, &units))
}

/// The unit of each column: that of its largest value.
pub fn units(table: &Table) -> Vec<Unit> {
    (0..table.columns.len()).map(|index| column_unit(table, index)).collect()
}

/// Columns that a reader compares share a unit: all columns of a pivot except the sums, and the baseline's value with
/// that of the run.
fn column_unit(table: &Table, index: usize) -> Unit {
    let sum_column = if table.columns.len() > 2 { table.columns.len() - 1 } else { usize::MAX };
    let measure = |column: usize| table.columns.get(column).map(|column| without_side(&column.key));
    let shares_unit = |other: usize| match table.id.as_str() {
        "pivot" => other != sum_column,
        _ => other == index || measure(other) == measure(index),
    };
    let columns = table.columns.iter().enumerate().filter(|(other, _)| shares_unit(*other));
    let cells = columns.flat_map(|(other, _)| table.rows.iter().filter_map(move |row| row.get(other)));
    let largest = cells.filter_map(ns).fold(0.0_f64, |largest, ns| largest.max(ns.abs()));
    unit(largest)
}

/// The key without the prefix for the side of a comparison.
fn without_side(key: &str) -> &str {
    key.strip_prefix("baseline_").or_else(|| key.strip_prefix("compared_")).unwrap_or(key)
}

/// A time in nanoseconds; `None` for other cells.
pub(super) fn ns(cell: &Cell) -> Option<f64> {
    match cell {
        Cell::Ns(ns) => Some(*ns as f64),
        Cell::Timestamp { clock_ns, first_op_ns } => Some(clock_ns.saturating_sub(*first_op_ns) as f64),
        Cell::MeanNs(ns) => Some(*ns),
        Cell::Time(value, unit) => Some(value * unit.ns() as f64),
        _ => None,
    }
}

fn shown_row(row: &[Cell], table: &Table, units: &[Unit]) -> Vec<Shown> {
    let cells = row.iter().zip(&table.columns).zip(units);
    cells
        .map(|((cell, column), unit)| match column.kind {
            Kind::Timestamp => timestamp(cell),
            Kind::Category => titled(shown_cell(cell, *unit)),
            Kind::Text => worded((&table.id, &column.key), shown_cell(cell, *unit)),
            _ if column.is_change() => signed(cell, *unit),
            _ => shown_cell(cell, *unit),
        })
        .collect()
}

/// A category as people read it.
fn titled(shown: Shown) -> Shown {
    Shown { text: palette::title(&shown.text).to_owned(), ..shown }
}

/// A kind of barrier or event, a cause of idle time, or the stage of steps without one, as people read it in a column of a table:
/// exports have a name of a fixed set. Other texts do not change.
fn worded((table, key): (&str, &str), shown: Shown) -> Shown {
    let words = match (key, shown.text.as_str()) {
        // The rows of a triage are ops of a file, which may have no steps.
        ("stage", stage) if stage == Stage::All.label() && !table.starts_with("triage") => Stage::All.title(),
        ("barrier_kind" | "event_class", "sync_api") => "synchronizing call",
        ("barrier_kind" | "event_class", "blocking_memcpy") => "blocking copy",
        ("barrier_kind", "host_wait") => "host wait",
        ("barrier_kind" | "api_name", "cpu_launcher_gap") => "launcher gap",
        ("event_class", "gpu_idle") => "idle gap",
        ("event_class", "memcpy") => "copy",
        ("event_class", "nccl") => "communication",
        ("event_class", "cuda_kernel") => "kernel",
        ("event_class", "memory_kernel") => "memory kernel",
        ("cause" | "class", "host_late") => "host late",
        ("cause" | "class", "other_stream") => "other stream",
        _ => return shown,
    };
    Shown { text: words.to_owned(), ..shown }
}

/// A difference: positive values get a plus sign.
fn signed(cell: &Cell, unit: Unit) -> Shown {
    let mut shown = shown_cell(cell, unit);
    let is_positive = match cell {
        Cell::Percent(value) | Cell::Number(value) => *value > 0.0,
        Cell::Count(count) => *count > 0,
        Cell::Int(value) => *value > 0,
        _ => ns(cell).is_some_and(|ns| ns > 0.0),
    };
    if is_positive {
        shown.text.insert(0, '+');
    }
    shown
}

/// A point in time in milliseconds, with microsecond digits.
fn timestamp(cell: &Cell) -> Shown {
    let Some(ns) = ns(cell) else { return Shown::default() };
    let us = (ns.abs() / 1e3).round() as u64;
    let sign = if ns < 0.0 { "-" } else { "" };
    Shown { text: format!("{sign}{}.{:03}", grouped(us / 1000), us % 1000), title: with_unit(cell) }
}

/// A single value with its unit: `31.9 ms`.
pub fn figure(cell: &Cell) -> Shown {
    let unit = unit(ns(cell).map_or(1.0, f64::abs));
    let mut shown = shown_cell(cell, unit);
    match cell {
        Cell::Ns(_) | Cell::MeanNs(_) | Cell::Time(..) => shown.text = format!("{} {}", shown.text, unit.name()),
        Cell::Share(_) | Cell::Percent(_) => shown.text += " %",
        _ => {}
    }
    shown
}

fn with_unit(cell: &Cell) -> String {
    match cell {
        Cell::Time(_, unit) => format!("{} {}", exact_in_words(cell), unit.name()),
        Cell::Percent(_) => format!("{} %", exact_in_words(cell)),
        _ => format!("{} ns", exact_in_words(cell)),
    }
}

fn shown_cell(cell: &Cell, unit: Unit) -> Shown {
    let plain = |text: String| Shown { text, title: String::new() };
    match cell {
        Cell::Empty => plain(String::new()),
        // Lines are the items of a list.
        Cell::Text(text) => plain(text.replace(".\n", ". ").replace('\n', "; ")),
        Cell::Category { name, source } => Shown { text: name.clone(), title: source.clone() },
        Cell::Kernel { short, full } => Shown { text: short.clone(), title: full.clone() },
        Cell::Count(count) => Shown { text: grouped(*count), title: exact_in_words(cell) },
        Cell::Ns(_) | Cell::Timestamp { .. } | Cell::MeanNs(_) | Cell::Time(..) => {
            let ns = ns(cell).unwrap_or_default();
            Shown { text: in_unit(ns, unit), title: with_unit(cell) }
        }
        Cell::Share(share) => {
            Shown { text: digits(share * 100.0), title: format!("{} %", grouped_text(&(share * 100.0).to_string())) }
        }
        Cell::Percent(value) => Shown { text: digits(*value), title: with_unit(cell) },
        Cell::Int(value) => plain(value.to_string()),
        Cell::Number(value) => Shown { text: digits(*value), title: exact_in_words(cell) },
    }
}

/// A time in the unit of its column, which the heading has. Below 0.01 it has three significant digits, or its row would lose them.
fn in_unit(ns: f64, column_unit: Unit) -> String {
    let value = ns / column_unit.ns() as f64;
    match value.abs() {
        size if size == 0.0 || size >= 0.01 => digits(value),
        size if size >= 0.001 => format!("{value:.5}"),
        size if size >= 0.000_1 => format!("{value:.6}"),
        _ => "<0.0001".to_owned(),
    }
}

/// Replaces control characters, direction marks and line separators by U+FFFD: a name from a trace could otherwise send
/// escape sequences
/// to the terminal, break a line or reverse the text.
pub fn clean(text: &str) -> String {
    text.chars().map(|character| if is_plain(character) { character } else { REPLACEMENT }).collect()
}

/// A cell for exports: integer nanoseconds, fractions, full names.
pub fn exact(cell: &Cell) -> String {
    match cell {
        Cell::Empty => String::new(),
        Cell::Text(text) | Cell::Category { name: text, .. } => text.clone(),
        Cell::Kernel { full, .. } => full.clone(),
        Cell::Count(count) => count.to_string(),
        Cell::Ns(ns) | Cell::Timestamp { clock_ns: ns, .. } => ns.to_string(),
        Cell::Int(value) => value.to_string(),
        Cell::MeanNs(value)
        | Cell::Share(value)
        | Cell::Percent(value)
        | Cell::Time(value, _)
        | Cell::Number(value) => value.to_string(),
    }
}

/// The exact number of a cell for people: its digits are grouped. Exports have [`exact`].
fn exact_in_words(cell: &Cell) -> String {
    grouped_text(&exact(cell))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::Column;

    #[test]
    fn a_time_column_has_one_unit_and_exact_values_in_tooltips() {
        let column = Column { key: "elapsed_ns".into(), title: "Elapsed".into(), kind: Kind::Time };
        let rows = [Cell::Ns(31_905_483), Cell::Ns(2_368), Cell::Empty, Cell::Ns(494), Cell::Ns(7), Cell::Ns(0)];
        let rows = rows.into_iter().map(|cell| vec![cell]).collect();
        let table = Table { columns: vec![column], rows, ..Table::default() };
        assert_eq!(headings(&table), ["Elapsed (ms)"]);
        let shown = shown(&table);
        assert_eq!((shown[0][0].text.as_str(), shown[0][0].title.as_str()), ("31.9", "31,905,483 ns"));
        assert_eq!((shown[1][0].text.as_str(), shown[1][0].title.as_str()), ("0.00237", "2,368 ns"));
        assert_eq!(shown[2][0], Shown::default());
        assert_eq!((shown[3][0].text.as_str(), shown[4][0].text.as_str()), ("0.000494", "<0.0001"));
        assert_eq!((shown[4][0].title.as_str(), shown[5][0].text.as_str()), ("7 ns", "0"));
    }

    #[test]
    fn kinds_of_barriers_are_words_and_stay_names_in_exports() {
        let column = Column { key: "barrier_kind".into(), title: "Kind".into(), kind: Kind::Text };
        let rows = ["host_wait", "cpu_launcher_gap", "something else"].map(|kind| vec![Cell::Text(kind.into())]);
        let table = Table { columns: vec![column], rows: rows.into(), ..Table::default() };
        let texts: Vec<String> = shown(&table).into_iter().map(|row| row[0].text.clone()).collect();
        assert_eq!(texts, ["host wait", "launcher gap", "something else"]);
        let shown = |key: &str, text: &str| worded(("", key), Shown { text: text.into(), ..Shown::default() }).text;
        assert_eq!(shown("cause", "host_late"), "host late");
        assert_eq!(shown("name", "host_late"), "host_late", "a name from the trace");
        assert_eq!(exact(&table.rows[0][0]), "host_wait");
    }

    #[test]
    fn a_step_without_a_stage_is_called_step_and_stays_all_in_exports() {
        let column = Column { key: "stage".into(), title: "Stage".into(), kind: Kind::Text };
        let rows = ["decode", "all"].map(|stage| vec![Cell::Text(stage.into())]);
        let steps = Table { id: "step_stages".into(), columns: vec![column], rows: rows.into(), ..Table::default() };
        let texts = |table: &Table| shown(table).into_iter().map(|row| row[0].text.clone()).collect::<Vec<_>>();
        assert_eq!(texts(&steps), ["decode", "step"]);
        assert_eq!(exact(&steps.rows[1][0]), "all");
        let ops = Table { id: "triage_kernels".into(), ..steps };
        assert_eq!(texts(&ops), ["decode", "all"], "ops of a file without steps");
    }

    #[test]
    fn exact_values_are_grouped_in_tooltips_and_plain_in_exports() {
        for (cell, title) in [
            (Cell::Count(1_234), "1,234"),
            (Cell::MeanNs(-1234.5), "-1,234.5 ns"),
            (Cell::Percent(12_345.0), "12,345 %"),
            (Cell::Share(12.5), "1,250 %"),
            (Cell::Ns(i64::MIN), "-9,223,372,036,854,775,808 ns"),
        ] {
            assert_eq!(figure(&cell).title, title);
            assert!(!exact(&cell).contains(','), "{cell:?}");
        }
    }
}
