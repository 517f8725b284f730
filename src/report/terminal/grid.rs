//! Lays out columns of text within a width. Columns of text shrink, those with numbers do not; a cell that does not fit
//! continues on the next line or is shortened in the middle. Linear in the text.

use super::shorten_to;
use crate::report::format::clean;
use unicode_width::UnicodeWidthStr;

/// The space between two columns.
const GAP: usize = 2;
/// Columns of text do not shrink below this width.
const MIN_WIDTH: usize = 8;

/// What happens to a cell that is wider than its column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::report) enum Fit {
    /// The column does not shrink; its cells are aligned right.
    Number,
    /// It is shortened in the middle.
    Shorten,
    /// It continues on the next line.
    Wrap,
    /// It continues on the next line; the column has at most this width.
    WrapAt(usize),
}

/// A column: its heading and how it fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::report) struct Heading {
    pub(in crate::report) title: String,
    pub(in crate::report) fit: Fit,
}

/// The lines of a table that is at most `width` columns wide, each after `indent` blanks.
pub(in crate::report) fn lines(headings: &[Heading], rows: &[Vec<String>], indent: usize, width: usize) -> Vec<String> {
    let titles: Vec<String> = headings.iter().map(|heading| heading.title.clone()).collect();
    let rows: Vec<Vec<String>> = std::iter::once(&titles).chain(rows).map(|row| cells(row, headings.len())).collect();
    let widths = widths(headings, &rows, width.saturating_sub(indent));
    let mut lines = Vec::new();
    for row in &rows {
        let parts: Vec<Vec<String>> = row
            .iter()
            .zip(headings)
            .zip(&widths)
            .map(|((cell, heading), width)| fit(cell, heading.fit, *width))
            .collect();
        for line in 0..parts.iter().map(Vec::len).max().unwrap_or(0) {
            let mut text = " ".repeat(indent);
            for ((part, heading), width) in parts.iter().zip(headings).zip(&widths) {
                let cell = part.get(line).map_or("", String::as_str);
                let blanks = " ".repeat(width.saturating_sub(cell.width()));
                match heading.fit {
                    Fit::Number => text += &format!("{blanks}{cell}"),
                    Fit::Shorten | Fit::Wrap | Fit::WrapAt(_) => text += &format!("{cell}{blanks}"),
                }
                text += &" ".repeat(GAP);
            }
            lines.push(text.trim_end().to_owned());
        }
    }
    lines
}

/// The cells of a row without control characters; the lines of a cell stay separate.
fn cells(row: &[String], columns: usize) -> Vec<String> {
    let mut cells: Vec<String> =
        row.iter().map(|cell| cell.split('\n').map(clean).collect::<Vec<_>>().join("\n")).collect();
    cells.resize(columns, String::new());
    cells
}

/// Shrinks the widest columns of text until the table fits.
fn widths(headings: &[Heading], rows: &[Vec<String>], room: usize) -> Vec<usize> {
    let widest = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).flat_map(|cell| cell.split('\n'));
        cells.map(UnicodeWidthStr::width).max().unwrap_or(0)
    };
    let wanted = |(column, heading): (usize, &Heading)| match heading.fit {
        Fit::WrapAt(max) => widest(column).min(max),
        Fit::Number | Fit::Shorten | Fit::Wrap => widest(column),
    };
    let mut widths: Vec<usize> = headings.iter().enumerate().map(wanted).collect();
    let room = room.saturating_sub(GAP * headings.len().saturating_sub(1));
    loop {
        let excess = widths.iter().sum::<usize>().saturating_sub(room);
        let flexible = || widths.iter().zip(headings).filter(|(_, heading)| heading.fit != Fit::Number);
        let widest = flexible().map(|(width, _)| *width).max().unwrap_or(0);
        if excess == 0 || widest <= MIN_WIDTH {
            return widths;
        }
        let at_widest = flexible().filter(|(width, _)| **width == widest).count();
        let next =
            flexible().map(|(width, _)| *width).filter(|width| *width < widest).max().unwrap_or(0).max(MIN_WIDTH);
        let step = (widest - next).min(excess.div_ceil(at_widest.max(1)));
        for (width, heading) in widths.iter_mut().zip(headings) {
            if heading.fit != Fit::Number && *width == widest {
                *width -= step;
            }
        }
    }
}

fn fit(cell: &str, fit: Fit, width: usize) -> Vec<String> {
    match fit {
        Fit::Number => vec![cell.to_owned()],
        Fit::Shorten => vec![shorten_to(&cell.replace('\n', "; "), width)],
        Fit::Wrap | Fit::WrapAt(_) => cell.split('\n').flat_map(|line| wrap(line, width)).collect(),
    }
}

/// The units of figures. The page has the same rule in `dom.js`.
const UNITS: [&str; 17] =
    ["%", "s", "ms", "us", "ns", "B", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB", "GPU", "GPUs", "W"];

/// The words of a text, a figure with its unit as one: `99.3 %`.
pub(super) fn unbreakable(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some((word, after)) = first_word(rest) {
        words.push(word);
        rest = after;
    }
    words.push(rest);
    words
}

/// The text up to a blank that is not between a figure and its unit, and the text after it.
fn first_word(text: &str) -> Option<(&str, &str)> {
    let blanks = text.match_indices(' ').map(|(index, _)| index);
    let mut splits = blanks.filter_map(|index| Some((text.get(..index)?, text.get(index + 1..)?)));
    splits.find(|(before, after)| !(ends_with_figure(before) && begins_with_unit(after)))
}

fn ends_with_figure(text: &str) -> bool {
    let digits = text.trim_end_matches(['.', ',']);
    digits.ends_with(|last: char| last.is_ascii_digit())
}

fn begins_with_unit(text: &str) -> bool {
    let is_unit = |unit: &&str| {
        let after = text.strip_prefix(*unit);
        after.is_some_and(|after| !after.starts_with(|next: char| next.is_ascii_alphabetic()))
    };
    UNITS.iter().any(is_unit)
}

/// Wraps a text at blanks, but not between a figure and its unit if both fit a line; a word that is too long is broken, paths after a slash.
pub(in crate::report) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    for word in unbreakable(text).into_iter().flat_map(|word| fitting_words(word, width)) {
        let separator = usize::from(!line.is_empty());
        if line.width() + separator + word.width() <= width {
            line += &" ".repeat(separator);
            line += word;
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        for part in broken(word, width.max(1)) {
            if !line.is_empty() {
                lines.push(std::mem::take(&mut line));
            }
            line = part;
        }
    }
    lines.push(line);
    lines
}

/// A figure and its unit as two words if they do not fit a line.
fn fitting_words(word: &str, width: usize) -> Vec<&str> {
    if word.width() > width { word.split(' ').collect() } else { vec![word] }
}

/// Whether a text is wider than this. Reads no more of it than fits: the rest of a long word would be read for each of
/// its lines.
fn is_wider(text: &str, width: usize) -> bool {
    super::fitting(text.chars(), width).len() < text.len()
}

/// Breaks a word into parts that fit, if possible after a slash, an underscore or a comma in their second half.
fn broken(word: &str, width: usize) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = word;
    while is_wider(rest, width) {
        let head = super::fitting(rest.chars(), width);
        let length = head.len().max(rest.chars().next().map_or(1, char::len_utf8));
        let head = rest.get(..length).unwrap_or(rest);
        let cut = head.rfind(['/', '_', ',', '<']).map(|index| index + 1).filter(|index| *index > length / 2);
        let (part, after) = rest.split_at_checked(cut.unwrap_or(length)).unwrap_or((rest, ""));
        parts.push(part.to_owned());
        rest = after;
    }
    parts.push(rest.to_owned());
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_table_fits_its_width_and_wraps_or_shortens_its_text() {
        let heading = |title: &str, fit| Heading { title: title.to_owned(), fit };
        let headings = [heading("Kernel", Fit::Shorten), heading("ms", Fit::Number), heading("Why", Fit::Wrap)];
        let rows = [vec!["a_long_name_of_a_kernel".to_owned(), "12.5".to_owned(), "one two three\nfour".to_owned()]];
        let want = [
            "  Kernel        ms  Why",
            "  a_long…nel  12.5  one two",
            "                    three",
            "                    four",
        ];
        assert_eq!(lines(&headings, &rows, 2, 30), want);
    }

    #[test]
    fn a_figure_is_not_split_from_its_unit() {
        assert_eq!(wrap("GPU busy 99.3 %; idle 1,024 us", 14), ["GPU busy", "99.3 %; idle", "1,024 us"]);
        // A digit before other words, and a line too narrow for both.
        assert_eq!(wrap("rank 3 sends 7 GPUs", 12), ["rank 3 sends", "7 GPUs"]);
        assert_eq!(wrap("on rank 3 slow", 9), ["on rank 3", "slow"]);
        assert_eq!(wrap("1,024 us", 6), ["1,024", "us"]);
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_table_may_be(
            rows in proptest::collection::vec(proptest::collection::vec(r"[a-c/_ \n\u{6f22}]{0,60}", 3), 0..5),
            width in 40_usize..120,
        ) {
            let headings = [Fit::Wrap, Fit::Shorten, Fit::Wrap].map(|fit| Heading { title: "T".to_owned(), fit });
            for line in lines(&headings, &rows, 2, width) {
                prop_assert!(line.width() <= width, "{line:?}");
            }
        }
    }
}
