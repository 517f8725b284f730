//! Scrubs a SQLite export: writes a new database with the same tables and rows, so that no page of the old one remains. Numbers
//! stay; texts lose their private words; binary values, views, triggers and indices are left out, because no reader needs them.
//!
//! Tables are written in the order of their rows. Tables with texts are read twice: first for the names of hosts and users. Needs the
//! memory of one row.

use super::json::scrubbed_text;
use super::removal::{Removal, is_environment, kind_of_key, kind_of_setting, kind_of_table};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Result, Row, Transaction, params_from_iter};

/// Writes the scrubbed tables of `source` to the empty database `copy`.
pub(super) fn scrub(source: &Connection, copy: &mut Connection, removal: &mut Removal) -> Result<()> {
    copy.execute_batch("PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF")?;
    let tables = tables(source)?;
    for table in &tables {
        learn(source, table, removal)?;
    }
    removal.end_learning();
    let transaction = copy.transaction()?;
    for table in &tables {
        scrub_table(source, &transaction, table, removal)?;
    }
    transaction.commit()
}

/// Learns the names of hosts and users in the texts of a table.
fn learn(source: &Connection, table: &str, removal: &mut Removal) -> Result<()> {
    let columns = columns(source, table, removal)?;
    let texts: Vec<&Column> = columns.iter().filter(|column| column.may_have_text).collect();
    if texts.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = texts.iter().map(|column| quoted(&column.name)).collect();
    let mut statement = source.prepare(&format!("SELECT {} FROM main.{}", names.join(", "), quoted(table)))?;
    let mut rows = statement.query([])?;
    let is_of_settings = kind_of_table(table).is_some();
    while let Some(row) = rows.next()? {
        let cells = (0..texts.len()).map(|index| text_of(row, index)).collect::<Result<Vec<String>>>()?;
        for (column, cell) in texts.iter().zip(&cells) {
            removal.learn(&column.name, cell);
            scrubbed_text(cell, removal);
        }
        if is_of_settings {
            let cells: Vec<String> = cells.into_iter().filter(|cell| !cell.is_empty()).collect();
            removal.learn_setting(&cells);
        }
    }
    Ok(())
}

fn tables(source: &Connection) -> Result<Vec<String>> {
    let query = "SELECT name FROM main.sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid";
    source.prepare(query)?.query_map([], |row| text_of(row, 0))?.collect()
}

/// A column, and what of its values is kept.
struct Column {
    name: String,
    /// By its type.
    may_have_text: bool,
    /// Its definition in the copy.
    definition: String,
    removed: Option<&'static str>,
}

fn columns(source: &Connection, table: &str, removal: &mut Removal) -> Result<Vec<Column>> {
    let mut statement = source.prepare(&format!("PRAGMA main.table_info({})", quoted(table)))?;
    let mut rows = statement.query([])?;
    let (mut columns, mut keys) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let (name, kind, key) = (text_of(row, 1)?, text_of(row, 2)?, row.get::<_, i64>(5)?);
        keys += i64::from(key > 0);
        let key = if key > 0 { " PRIMARY KEY" } else { "" };
        let kind: String = kind.chars().filter(|letter| letter.is_ascii_alphabetic() || *letter == ' ').collect();
        let definition = format!("{} {}{key}", quoted(&removal.text(&name)), removal.text(&kind));
        let may_have_text =
            !["INT", "REAL", "FLOA", "DOUB"].iter().any(|number| kind.to_ascii_uppercase().contains(number));
        columns.push(Column { may_have_text, definition, removed: kind_of_key(&name), name });
    }
    if keys > 1 {
        columns.iter_mut().for_each(|column| column.definition = column.definition.replace(" PRIMARY KEY", ""));
    }
    Ok(columns)
}

fn scrub_table(source: &Connection, copy: &Transaction<'_>, table: &str, removal: &mut Removal) -> Result<()> {
    let columns = columns(source, table, removal)?;
    if columns.is_empty() {
        return Ok(());
    }
    let name = quoted(&removal.text(table));
    let definitions: Vec<&str> = columns.iter().map(|column| column.definition.as_str()).collect();
    copy.execute_batch(&format!("CREATE TABLE {name} ({})", definitions.join(", ")))?;
    let mut statement = source.prepare(&format!("SELECT * FROM main.{} NOT INDEXED", quoted(table)))?;
    let mut rows = statement.query([])?;
    let places = vec!["?"; columns.len()].join(", ");
    let mut insert = copy.prepare(&format!("INSERT INTO {name} VALUES ({places})"))?;
    let kind = kind_of_table(table);
    while let Some(row) = rows.next()? {
        if let Some(kind) = kind {
            removal.add(kind_of_setting(&text_of(row, 0)?).unwrap_or(kind), 1);
            continue;
        }
        let values = columns.iter().enumerate().map(|(index, column)| scrubbed(row.get_ref(index)?, column, removal));
        insert.execute(params_from_iter(values.collect::<Result<Vec<Value>>>()?))?;
    }
    Ok(())
}

fn scrubbed(value: ValueRef<'_>, column: &Column, removal: &mut Removal) -> Result<Value> {
    Ok(match (value, column.removed) {
        (ValueRef::Null, _) => Value::Null,
        (ValueRef::Integer(number), _) => Value::Integer(number),
        (ValueRef::Real(number), _) => Value::Real(number),
        (ValueRef::Text(text), Some(kind)) => {
            removal.add(kind, if is_environment(kind) { members(text) } else { 1 });
            Value::Text(String::new())
        }
        (ValueRef::Text(text), None) => Value::Text(scrubbed_text(&String::from_utf8_lossy(text), removal)),
        (ValueRef::Blob(_), _) => {
            removal.add("binary values", 1);
            Value::Null
        }
    })
}

/// The number of members of a JSON object; 1 for another text.
fn members(text: &[u8]) -> u64 {
    match serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(text) {
        Ok(members) => members.len() as u64,
        Err(_) => 1,
    }
}

/// The text of a cell; empty for other values.
fn text_of(row: &Row<'_>, index: usize) -> Result<String> {
    Ok(match row.get_ref(index)? {
        ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
        _ => String::new(),
    })
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
