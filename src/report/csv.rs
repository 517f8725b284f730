//! Writes tables as CSV (RFC 4180, LF line ends) with exact values: integer nanoseconds, full names, fractions.
//! Only control characters and direction marks in names are replaced, because the text may be printed on a terminal.

use super::format::exact;
use super::table::{Cell, Kind, Table};
use crate::plain::{REPLACEMENT, is_plain};

/// The table as CSV; headers are the keys of the columns. A kernel column becomes two, `name` and `short_name`. A table
/// that has only figures becomes one line per figure.
pub fn csv(table: &Table) -> String {
    if table.columns.iter().all(|column| column.key == "run") && !table.figures.is_empty() {
        return figures(table);
    }
    let mut text = String::new();
    let headers = table.columns.iter().flat_map(|column| match column.kind {
        Kind::Kernel if column.key == "name" => vec![column.key.clone(), "short_name".to_owned()],
        Kind::Kernel => vec![column.key.clone(), format!("short_{}", column.key)],
        _ => vec![column.key.clone()],
    });
    text += &line(headers.map(|header| field(&header)));
    for row in &table.rows {
        text += &line(row.iter().zip(&table.columns).flat_map(|(value, column)| {
            let mut fields = cell(value);
            fields.resize(if column.kind == Kind::Kernel { 2 } else { 1 }, String::new());
            fields
        }));
    }
    text
}

fn figures(table: &Table) -> String {
    let mut text = "run,figure,value\n".to_owned();
    for figure in &table.figures {
        let value = cell(&figure.cell).into_iter().take(1);
        text += &line([field(&figure.run), field(&figure.key)].into_iter().chain(value));
    }
    text
}

fn cell(cell: &Cell) -> Vec<String> {
    match cell {
        Cell::Kernel { short, full } => vec![field(full), field(short)],
        Cell::Text(text) | Cell::Category { name: text, .. } => vec![field(text)],
        number => vec![exact(number)],
    }
}

fn line(fields: impl Iterator<Item = String>) -> String {
    fields.collect::<Vec<String>>().join(",") + "\n"
}

/// A text as one CSV field, quoted if necessary, without other control characters and direction marks. A text that a
/// spreadsheet would run as a formula gets a leading
/// apostrophe.
///
/// ```
/// use gpuprism::report::csv_field;
/// assert_eq!(csv_field("add<4, 2>"), "\"add<4, 2>\"");
/// assert_eq!(csv_field("=cmd|' /C calc'!A0"), "'=cmd|' /C calc'!A0");
/// ```
pub fn field(text: &str) -> String {
    let text = printable(text);
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let safe = if is_formula { format!("'{text}") } else { text };
    if safe.contains([',', '"', '\n', '\r']) { format!("\"{}\"", safe.replace('"', "\"\"")) } else { safe }
}

/// Replaces what would control a terminal. Line ends and tabs stay: in quotes they are a part of the field.
fn printable(text: &str) -> String {
    let mut characters = text.chars().peekable();
    let mut printable = String::with_capacity(text.len());
    while let Some(character) = characters.next() {
        let is_kept = match character {
            '\n' | '\t' => true,
            // Alone it would go back to the start of the line.
            '\r' => characters.peek() == Some(&'\n'),
            other => is_plain(other),
        };
        printable.push(if is_kept { character } else { REPLACEMENT });
    }
    printable
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn a_field_controls_no_terminal_and_keeps_its_line_ends() {
        let hostile = "a\u{1b}[31m\u{7}\u{9b}32m\u{202e}b\u{200f}\u{2028}\rc";
        assert_eq!(field(hostile), "a\u{fffd}[31m\u{fffd}\u{fffd}32m\u{fffd}b\u{fffd}\u{fffd}\u{fffd}c");
        assert_eq!(field("a\r\nb\n\tc 字"), "\"a\r\nb\n\tc 字\"");
        assert_eq!(field("\r\n=1"), "\"'\r\n=1\"");
    }
}
