//! The lines of a table: as wide as its cells if that fits the terminal, else with narrower columns of text, else in several parts
//! below each other. Each part begins with the columns that name the row. Linear in the cells.

use super::grid::{self, Fit, Heading};
use crate::report::table::Kind;
use unicode_width::UnicodeWidthStr;

/// The blanks before each line, and between two columns.
const INDENT: usize = 2;
const GAP: usize = 2;
/// Columns of text shrink to this width before the table is divided.
const MIN_TEXT_WIDTH: usize = 16;

/// The lines of a table whose first row has the headings. Without a width no column is narrower than its cells.
pub(super) fn lines(kinds: &[Kind], rows: &[Vec<String>], width: Option<usize>) -> String {
    let widths = widths(kinds.len(), rows);
    let (Some(width), [titles, rows @ ..]) = (width.filter(|width| total(&widths) > *width), rows) else {
        return aligned(kinds, rows, &widths);
    };
    let headings = titles.iter().zip(kinds).map(|(title, kind)| Heading { title: title.clone(), fit: fit(*kind) });
    divided(&headings.collect::<Vec<_>>(), rows, width).into_iter().map(|line| line + "\n").collect()
}

/// Names of kernels are shortened in the middle, other texts continue on the next line.
fn fit(kind: Kind) -> Fit {
    match kind {
        kind if kind.is_number() => Fit::Number,
        Kind::Kernel => Fit::Shorten,
        _ => Fit::Wrap,
    }
}

/// The lines of a table that is at most `width` columns wide: in several parts, if there is no room for all columns beside each other. A
/// blank line stands between two parts.
pub(in crate::report) fn divided(headings: &[Heading], rows: &[Vec<String>], width: usize) -> Vec<String> {
    let titles: Vec<String> = headings.iter().map(|heading| heading.title.clone()).collect();
    let all: Vec<Vec<String>> = std::iter::once(titles).chain(rows.iter().cloned()).collect();
    let widths = widths(headings.len(), &all);
    let mut lines = Vec::new();
    for part in parts(headings, &widths, width) {
        if !lines.is_empty() {
            lines.push(String::new());
        }
        let headings: Vec<Heading> = part.iter().filter_map(|column| headings.get(*column).cloned()).collect();
        let cells = |row: &Vec<String>| -> Vec<String> {
            part.iter().map(|column| row.get(*column).cloned().unwrap_or_default()).collect()
        };
        let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
        lines.extend(grid::lines(&headings, &rows, INDENT, width));
    }
    lines
}

/// The width of the widest cell of each column.
fn widths(columns: usize, rows: &[Vec<String>]) -> Vec<usize> {
    let widest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.width()).max();
    (0..columns).map(|column| widest(column).unwrap_or(0)).collect()
}

/// The width of a line with columns of these widths.
fn total(widths: &[usize]) -> usize {
    INDENT + widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

fn aligned(kinds: &[Kind], rows: &[Vec<String>], widths: &[usize]) -> String {
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(kinds).zip(widths).map(|((cell, kind), width)| {
            let blanks = " ".repeat(width.saturating_sub(cell.width()));
            if kind.is_number() { format!("{blanks}{cell}") } else { format!("{cell}{blanks}") }
        });
        let line = cells.collect::<Vec<String>>().join(&" ".repeat(GAP));
        format!("{}{}\n", " ".repeat(INDENT), line.trim_end())
    };
    rows.iter().map(line).collect()
}

/// The columns of each part: those that name the row, and at least one more.
fn parts(headings: &[Heading], widths: &[usize], width: usize) -> Vec<Vec<usize>> {
    let is_number = |column: usize| headings.get(column).is_some_and(|heading| heading.fit == Fit::Number);
    let least = |column: usize| {
        let width = widths.get(column).copied().unwrap_or(0);
        if is_number(column) { width } else { width.min(MIN_TEXT_WIDTH) }
    };
    let needed = |columns: &[usize]| total(&columns.iter().map(|column| least(*column)).collect::<Vec<_>>());
    // The columns of text at the beginning, as far as they leave half of the line to others.
    let mut names = vec![0];
    names.extend((1..headings.len()).take_while(|column| !is_number(*column)));
    while names.len() > 1 && needed(&names) > width / 2 {
        names.pop();
    }
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for column in names.len()..headings.len() {
        let with_column = |part: &Vec<usize>| part.iter().copied().chain([column]).collect::<Vec<usize>>();
        match parts.last_mut().filter(|part| needed(&with_column(part)) <= width) {
            Some(part) => part.push(column),
            None => parts.push(with_column(&names)),
        }
    }
    if parts.is_empty() { vec![names] } else { parts }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect()
    }

    #[test]
    fn a_table_that_is_too_wide_continues_below_with_the_names_of_its_rows() {
        let rows =
            rows(&[&["Name", "First (us)", "Second (us)", "Third (us)"], &["a", "1", "2", "3"], &["b", "4", "5", "6"]]);
        let kinds = [Kind::Text, Kind::Count, Kind::Count, Kind::Count];
        let want = "  Name  First (us)  Second (us)\n  a              1            2\n  b              4            5\n\n  \
                    Name  Third (us)\n  a              3\n  b              6\n";
        assert_eq!(lines(&kinds, &rows, Some(36)), want);
        let one_line = lines(&kinds, &rows, None);
        assert_eq!(one_line.lines().next(), Some("  Name  First (us)  Second (us)  Third (us)"));
        assert_eq!(one_line, lines(&kinds, &rows, Some(43)));
    }

    #[test]
    fn columns_of_text_shrink_before_a_table_is_divided() {
        let long = "one two three four five six seven eight nine ten";
        let rows = rows(&[&["Name", "Why", "Count"], &["a", long, "1"]]);
        let lines = lines(&[Kind::Text, Kind::Text, Kind::Count], &rows, Some(40));
        assert!(lines.lines().all(|line| line.width() <= 40) && !lines.contains("\n\n"), "{lines}");
        assert_eq!(lines.split_whitespace().filter(|word| long.contains(*word)).count(), 10, "{lines}");
    }
}
