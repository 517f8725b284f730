//! Cells for people: one unit a time column, three significant digits, the exact value beside it.

use super::chart::Unit;
use super::table::{Cell, Kind, Table};
use crate::digits::grouped;

/// A cell as people see it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shown {
    /// The text in the cell.
    pub text: String,
    /// The exact value or the full name; empty where the text already is that.
    pub title: String,
}

/// The largest unit in which this many nanoseconds are at least one. Means need not be whole, but no unit begins
/// between two whole numbers.
fn unit(ns: f64) -> Unit {
    Unit::of(ns as i64)
}

/// The headings of a table, with units: `Elapsed (ms)`, `Share (%)`.
pub fn headings(table: &Table) -> Vec<String> {
    headings_in(table, &units(table))
}

/// [`headings`], where the table's [`units`] are known.
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

/// All rows as people see them.
pub fn shown(table: &Table) -> Vec<Vec<Shown>> {
    shown_in(table, &units(table), &table.rows)
}

/// Some of the table's rows as people see them, in the [`units`] of the whole table.
pub fn shown_in(table: &Table, units: &[Unit], rows: &[Vec<Cell>]) -> Vec<Vec<Shown>> {
    rows.iter().map(|row| shown_row(row, table, units)).collect()
}

/// The row of sums, if there is one.
pub fn shown_totals(table: &Table) -> Option<Vec<Shown>> {
    let units = units(table);
    table.totals.as_ref().map(|row| shown_row(row, table, &units))
}

/// The unit of each column, which hangs on all its rows.
pub fn units(table: &Table) -> Vec<Unit> {
    (0..table.columns.len()).map(|index| column_unit(table, index)).collect()
}

/// The columns of a pivot are compared with each other, so they share the unit of the largest run; sums do not count. So
/// are a baseline's times with the run's.
fn column_unit(table: &Table, index: usize) -> Unit {
    let sums = if table.columns.len() > 2 { table.columns.len() - 1 } else { usize::MAX };
    let measure = |at: usize| table.columns.get(at).map(|column| without_side(&column.key));
    let own = measure(index);
    let compared =
        |other: usize| if table.id == "pivot" { other != sums } else { other == index || measure(other) == own };
    let columns = table.columns.iter().enumerate().filter(|(other, _)| compared(*other));
    let cells = columns.flat_map(|(other, _)| table.rows.iter().filter_map(move |row| row.get(other)));
    let largest = cells.filter_map(ns).fold(0.0_f64, |largest, ns| largest.max(ns.abs()));
    unit(largest)
}

/// What a column measures, whichever side of a comparison it is of.
fn without_side(key: &str) -> &str {
    key.strip_prefix("baseline_").or_else(|| key.strip_prefix("compared_")).unwrap_or(key)
}

/// A time, in nanoseconds.
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
            Kind::Timestamp => instant(cell),
            _ if column.is_change() => signed(cell, *unit),
            _ => shown_cell(cell, *unit),
        })
        .collect()
}

/// A change: what grew has a plus before it.
fn signed(cell: &Cell, unit: Unit) -> Shown {
    let mut shown = shown_cell(cell, unit);
    let grew = match cell {
        Cell::Percent(value) | Cell::Number(value) => *value > 0.0,
        Cell::Count(count) => *count > 0,
        Cell::Int(value) => *value > 0,
        _ => ns(cell).is_some_and(|ns| ns > 0.0),
    };
    if grew {
        shown.text.insert(0, '+');
    }
    shown
}

/// A point in time, to the microsecond.
fn instant(cell: &Cell) -> Shown {
    let Some(ns) = ns(cell) else { return Shown::default() };
    let us = (ns.abs() / 1e3).round() as u64;
    let sign = if ns < 0.0 { "-" } else { "" };
    Shown { text: format!("{sign}{}.{:03}", grouped(us / 1000), us % 1000), title: with_unit(cell) }
}

/// A single figure, with its unit: `31.9 ms`.
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
        Cell::Time(_, unit) => format!("{} {}", exact(cell), unit.name()),
        Cell::Percent(_) => format!("{} %", exact(cell)),
        _ => format!("{} ns", exact(cell)),
    }
}

fn shown_cell(cell: &Cell, unit: Unit) -> Shown {
    let plain = |text: String| Shown { text, title: String::new() };
    match cell {
        Cell::Empty => plain(String::new()),
        // A text of several lines is a list.
        Cell::Text(text) => plain(text.replace(".\n", ". ").replace('\n', "; ")),
        Cell::Kernel { short, full } => Shown { text: short.clone(), title: full.clone() },
        Cell::Count(count) => Shown { text: grouped(*count), title: exact(cell) },
        Cell::Ns(_) | Cell::Timestamp { .. } | Cell::MeanNs(_) | Cell::Time(..) => {
            let ns = ns(cell).unwrap_or_default();
            Shown { text: in_unit(ns, unit), title: with_unit(cell) }
        }
        Cell::Share(share) => Shown { text: digits(share * 100.0), title: format!("{} %", share * 100.0) },
        Cell::Percent(value) => Shown { text: digits(*value), title: with_unit(cell) },
        Cell::Int(value) => plain(value.to_string()),
        Cell::Number(value) => Shown { text: measure(*value), title: exact(cell) },
    }
}

/// A time in the unit of its column; what is so small beside the others that no two digits would be left has a unit of its own.
fn in_unit(ns: f64, column: Unit) -> String {
    const LEAST: f64 = 0.01;
    let value = ns / column.ns() as f64;
    let own = unit(ns.abs());
    if value == 0.0 || value.abs() >= LEAST || own == column {
        return digits(value);
    }
    format!("{} {}", digits(ns / own.ns() as f64), own.name())
}

/// The text without the control characters by which a hostile name could command a terminal, break a line or turn the
/// direction of what follows.
pub fn clean(text: &str) -> String {
    let turns = |character| matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let clean = |character: char| if character.is_control() || turns(character) { '\u{fffd}' } else { character };
    text.chars().map(clean).collect()
}

/// A cell for machines: integer nanoseconds, shares as parts of one, full names.
pub fn exact(cell: &Cell) -> String {
    match cell {
        Cell::Empty => String::new(),
        Cell::Text(text) => text.clone(),
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

/// A length of time by itself: `31.9 ms`.
///
/// ```
/// use gpuprism::report::format::duration;
/// assert_eq!(duration(31_905_483), "31.9 ms");
/// assert_eq!(duration(0), "0 ns");
/// assert_eq!(duration(7_200_000_000_000), "7200 s");
/// ```
pub fn duration(ns: i64) -> String {
    let unit = unit(ns as f64);
    format!("{} {}", digits(ns as f64 / unit.ns() as f64), unit.name())
}

/// A change of a length of time: `+31.9 ms`.
///
/// ```
/// use gpuprism::report::format::change;
/// assert_eq!((change(12_000_000), change(-500), change(0)), ("+12.0 ms".into(), "-500 ns".into(), "0 ns".into()));
/// ```
pub fn change(ns: i64) -> String {
    let sign = match ns {
        ..0 => "-",
        0 => "",
        1.. => "+",
    };
    format!("{sign}{}", duration(ns.saturating_abs()))
}

/// A part of one as per cent: `61.2 %`.
///
/// ```
/// use gpuprism::report::format::percent;
/// assert_eq!((percent(0.61234), percent(1.0), percent(0.0)), ("61.2 %".into(), "100 %".into(), "0 %".into()));
/// ```
pub fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

/// Three significant digits, whole digits never dropped, nothing below a thousandth: `1234`, `12.3`, `0.012`, `<0.001`.
fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.0005 => "<0.001".to_owned(),
        size if size < 0.9995 => format!("{value:.3}"),
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// Three digits, thousands apart where there are some.
pub(in crate::report) fn measure(value: f64) -> String {
    let size = value.abs();
    if size < 999.5 {
        return digits(value);
    }
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", grouped(size.round() as u64))
}

/// A count that is told already, and what it counts: `1 launch`, `2,000 launches`.
pub fn counted(count: &str, one: &str, many: &str) -> String {
    format!("{count} {}", if count == "1" { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::Column;

    #[test]
    fn three_digits_and_no_whole_digit_lost() {
        for (value, want) in [
            (0.0, "0"),
            (0.0001, "<0.001"),
            (0.0123, "0.012"),
            (0.9996, "1.00"),
            (1.234, "1.23"),
            (9.996, "10.0"),
            (12.34, "12.3"),
            (99.96, "100"),
            (123.4, "123"),
            (98_765.4, "98765"),
            (-12.34, "-12.3"),
        ] {
            assert_eq!(digits(value), want, "{value}");
        }
    }

    #[test]
    fn a_time_column_has_one_unit_and_keeps_the_exact_value() {
        let column = Column { key: "elapsed_ns".into(), title: "Elapsed".into(), kind: Kind::Time };
        let rows = vec![vec![Cell::Ns(31_905_483)], vec![Cell::Ns(2_368)], vec![Cell::Empty]];
        let table = Table { columns: vec![column], rows, ..Table::default() };
        assert_eq!(headings(&table), ["Elapsed (ms)"]);
        let shown = shown(&table);
        assert_eq!((shown[0][0].text.as_str(), shown[0][0].title.as_str()), ("31.9", "31905483 ns"));
        assert_eq!((shown[1][0].text.as_str(), shown[1][0].title.as_str()), ("2.37 us", "2368 ns"));
        assert_eq!(shown[2][0], Shown::default());
    }
}
