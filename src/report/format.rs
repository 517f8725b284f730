//! Formats cells for display: one unit per time column, three significant digits, the exact value in the tooltip.

use super::chart::Unit;
use super::palette;
use super::table::{Cell, Kind, Table};
use crate::analysis::structure::stages::Stage;
use crate::digits::{grouped, grouped_text};
use crate::plain::{REPLACEMENT, is_plain};

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

/// A time in the unit of its column. A value below 0.01 is shown in its own unit, or it would lose its digits.
fn in_unit(ns: f64, column_unit: Unit) -> String {
    const MIN_IN_COLUMN_UNIT: f64 = 0.01;
    let value = ns / column_unit.ns() as f64;
    let own_unit = unit(ns.abs());
    if value == 0.0 || value.abs() >= MIN_IN_COLUMN_UNIT || own_unit == column_unit {
        return digits(value);
    }
    format!("{} {}", digits(ns / own_unit.ns() as f64), own_unit.name())
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

/// A duration with its unit: `31.9 ms`.
///
/// ```
/// use gpuprism::report::format::duration;
/// assert_eq!(duration(31_905_483), "31.9 ms");
/// assert_eq!(duration(0), "0 ns");
/// assert_eq!(duration(7_200_000_000_000), "7,200 s");
/// ```
pub fn duration(ns: i64) -> String {
    let unit = unit(ns as f64);
    format!("{} {}", digits(ns as f64 / unit.ns() as f64), unit.name())
}

/// A time range, in the unit of its length and with three digits of it: a short range late in a trace has two different ends.
///
/// ```
/// use gpuprism::report::format::range;
/// assert_eq!(range(1_203_457_120, 1_203_857_120), "1,203,457 to 1,203,857 us");
/// assert_eq!(range(0, 2_500_000_000), "0 to 2.50 s");
/// ```
pub fn range(from_ns: i64, to_ns: i64) -> String {
    let length = to_ns.saturating_sub(from_ns);
    format!("{} to {} {}", digits_like(from_ns, length), digits_like(to_ns, length), Unit::of(length).name())
}

/// A time with the digits that a difference of this length has: `1,203,457 us` for 400 us.
pub fn time_like(ns: i64, length_ns: i64) -> String {
    format!("{} {}", digits_like(ns, length_ns), Unit::of(length_ns).name())
}

/// The digits of a time in the unit of a length, as many after the point as give the length three digits.
fn digits_like(ns: i64, length_ns: i64) -> String {
    let unit = Unit::of(length_ns);
    let step_ns = match length_ns / unit.ns() {
        ..10 => unit.ns() / 100,
        10..100 => unit.ns() / 10,
        _ => unit.ns(),
    };
    if ns == 0 { "0".to_owned() } else { unit.number(ns, step_ns.max(1)) }
}

/// A difference of durations with its sign: `+31.9 ms`.
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

/// A fraction in per cent: `61.2 %`.
///
/// ```
/// use gpuprism::report::format::percent;
/// assert_eq!((percent(0.61234), percent(1.0), percent(0.0)), ("61.2 %".into(), "100 %".into(), "0 %".into()));
/// ```
pub fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

/// Three significant digits, at most three decimals, all integer digits in groups of three: `1,234`, `12.3`, `0.012`,
/// `<0.001`.
pub(in crate::report) fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.0005 => "<0.001".to_owned(),
        size if size < 0.9995 => format!("{value:.3}"),
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        size if size < 999.5 => format!("{value:.0}"),
        size => format!("{}{}", if value < 0.0 { "-" } else { "" }, grouped(size.round() as u64)),
    }
}

/// A formatted count and its noun: `1 launch`, `2,000 launches`.
pub fn counted(count: &str, one: &str, many: &str) -> String {
    format!("{count} {}", if count == "1" { one } else { many })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::table::Column;

    #[test]
    fn the_ends_of_a_range_have_three_digits_of_its_length() {
        for (from, to, want) in [
            (70_000, 110_000, "70.0 to 110.0 us"),
            (-500, 400, "-500 to 400 ns"),
            (999_996, 1_000_005, "999,996 to 1,000,005 ns"),
            (-1_500_000, 7_000_000, "-1.50 to 7.00 ms"),
            (3_600_000_000_000, 3_600_000_040_000, "3,600,000,000.0 to 3,600,000,040.0 us"),
            (i64::MIN, i64::MAX, "-9,223,372,036 to 9,223,372,036 s"),
            (5, 5, "5 to 5 ns"),
        ] {
            assert_eq!(range(from, to), want);
        }
        assert_eq!(time_like(70_004, 5_000), "70.00 us");
    }

    #[test]
    fn digits_keeps_three_significant_digits_and_all_integer_digits() {
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
            (98_765.4, "98,765"),
            (-1234.0, "-1,234"),
            (-12.34, "-12.3"),
        ] {
            assert_eq!(digits(value), want, "{value}");
        }
    }

    #[test]
    fn a_time_column_has_one_unit_and_exact_values_in_tooltips() {
        let column = Column { key: "elapsed_ns".into(), title: "Elapsed".into(), kind: Kind::Time };
        let rows = vec![vec![Cell::Ns(31_905_483)], vec![Cell::Ns(2_368)], vec![Cell::Empty]];
        let table = Table { columns: vec![column], rows, ..Table::default() };
        assert_eq!(headings(&table), ["Elapsed (ms)"]);
        let shown = shown(&table);
        assert_eq!((shown[0][0].text.as_str(), shown[0][0].title.as_str()), ("31.9", "31,905,483 ns"));
        assert_eq!((shown[1][0].text.as_str(), shown[1][0].title.as_str()), ("2.37 us", "2,368 ns"));
        assert_eq!(shown[2][0], Shown::default());
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
