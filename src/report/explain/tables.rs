//! Writes `tables/*.csv` with CRLF line ends: the columns of nsys-llm-explainer first, then gpuprism's own.

use crate::analysis::results::Run;
use crate::analysis::section::{Section, Value};
use crate::report::csv_field;
use crate::report::foreign::TABLES;

/// File name and contents of every table. A table without rows is an empty file, except `nvtx_by_pid.csv`, which is left
/// out.
pub fn tables(run: &Run) -> Vec<(String, String)> {
    let files = TABLES.iter().filter(|table| table.file).map(|table| {
        let section = run.sections.get(&table.section);
        (format!("{}.csv", table.section), section.map(|section| csv(&table.columns, section)).unwrap_or_default())
    });
    files.filter(|(name, text)| !(name == "nvtx_by_pid.csv" && text.is_empty())).collect()
}

fn csv(first_columns: &[String], section: &Section) -> String {
    if section.rows.is_empty() {
        return String::new();
    }
    let own_columns = section.columns.iter().filter(|column| !first_columns.contains(column));
    let columns: Vec<&String> = first_columns.iter().chain(own_columns).collect();
    let mut text = line(columns.iter().map(|column| csv_field(column)));
    for row in &section.rows {
        text += &line(columns.iter().map(|column| row.get(column).map(field).unwrap_or_default()));
    }
    text
}

fn line(fields: impl Iterator<Item = String>) -> String {
    fields.collect::<Vec<String>>().join(",") + "\r\n"
}

fn field(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Int(value) => value.to_string(),
        // `2.0`, as Python writes it.
        Value::Float(value) => format!("{value:?}"),
        Value::Text(text) => csv_field(text),
    }
}
