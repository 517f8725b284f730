//! Writes tables as CSV (RFC 4180, LF line ends) with exact values: integer nanoseconds, full names, fractions.

use super::format::exact;
use super::table::{Cell, Kind, Table};

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

/// A text as one CSV field, quoted if necessary. A text that a spreadsheet would run as a formula gets a leading
/// apostrophe.
///
/// ```
/// use gpuprism::report::csv_field;
/// assert_eq!(csv_field("add<4, 2>"), "\"add<4, 2>\"");
/// assert_eq!(csv_field("=cmd|' /C calc'!A0"), "'=cmd|' /C calc'!A0");
/// ```
pub fn field(text: &str) -> String {
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    let safe = if is_formula { format!("'{text}") } else { text.to_owned() };
    if safe.contains([',', '"', '\n', '\r']) { format!("\"{}\"", safe.replace('"', "\"\"")) } else { safe }
}
