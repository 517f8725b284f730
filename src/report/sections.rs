//! Explaining sections as tables: which there are, in which group, and what a column is by its key.
//!
//! Words and groups are in `patterns/sections.json`. A key ends with its unit: `_ns`, `_us`, `_ms`, `_s` make a time,
//! `pct` a part of a hundred, `fraction` a part of one.

use super::chart::Unit;
use super::format::grouped;
use super::table::{Cell, Column, Figure, Gap, Kind, Table};
use super::{FIXED, Report, table as find_table};
use crate::analysis::results::Run;
use crate::analysis::section::{Section, Value};
use crate::rules::names;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Tables that stand one below the other.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Group {
    /// Stable name.
    pub id: String,
    /// Heading for people.
    pub title: String,
    /// Ids of its tables.
    pub tables: Vec<String>,
}

#[derive(Deserialize)]
struct Words {
    groups: Vec<Group>,
    columns: BTreeMap<String, String>,
    words: BTreeMap<String, String>,
    names: Vec<String>,
    instants: Vec<String>,
}

static WORDS: LazyLock<Words> = LazyLock::new(|| {
    #[allow(clippy::expect_used, reason = "a file of this crate, read by the test below")]
    serde_json::from_str(include_str!("../../patterns/sections.json")).expect("patterns/sections.json")
});

/// The section of this name has a table of another id: `kernels` is the table of all op names.
const RENAMED: (&str, &str) = ("kernels", "top_kernels");

fn table_id(section: &str) -> &str {
    if section == RENAMED.0 { RENAMED.1 } else { section }
}

fn section_name(table: &str) -> &str {
    if table == RENAMED.1 { RENAMED.0 } else { table }
}

/// The ids of all tables that a report can have.
pub fn known_tables() -> impl Iterator<Item = &'static str> {
    WORDS.groups.iter().flat_map(|group| &group.tables).map(String::as_str)
}

/// The groups of tables that this report has, in the order in which people want them. A section that has no group stands
/// in the one of the notices.
pub fn groups(report: &Report) -> Vec<Group> {
    let present = |id: &String| {
        FIXED.contains(&id.as_str()) || report.runs.iter().any(|run| run.sections.contains_key(section_name(id)))
    };
    let mut groups = WORDS.groups.clone();
    groups.iter_mut().for_each(|group| group.tables.retain(present));
    let sections = report.runs.iter().flat_map(|run| run.sections.keys());
    let mut others: Vec<String> =
        sections.map(|name| table_id(name).to_owned()).filter(|id| !known_tables().any(|known| known == id)).collect();
    others.sort();
    others.dedup();
    if let Some(last) = groups.last_mut() {
        last.tables.extend(others);
    }
    groups.retain(|group| !group.tables.is_empty());
    groups
}

/// All tables of a report: what costs most, then group by group.
pub fn all_tables(report: &Report) -> Vec<Table> {
    let mut ids: Vec<String> = groups(report).into_iter().flat_map(|group| group.tables).collect();
    ids.sort_by_key(|id| id != "critical_path");
    ids.iter().filter_map(|id| find_table(report, id, None)).collect()
}

/// The section of this table in these runs; none of them has it: `None`.
pub(super) fn table(id: &str, runs: &[(&str, &Run)]) -> Option<Table> {
    let name = section_name(id);
    let having: Vec<(&str, &Section)> =
        runs.iter().filter_map(|(label, run)| Some((*label, run.sections.get(name)?))).collect();
    let (_, first) = having.iter().find(|(_, section)| section.missing.is_none()).or(having.first())?;
    let keys = keys(&having);
    let mut columns = vec![Column { key: "run".to_owned(), title: "Run".to_owned(), kind: Kind::Text }];
    columns.extend(keys.iter().map(|key| column(key, &having)));
    let mut rows = Vec::new();
    for (label, section) in &having {
        rows.extend(section.rows.iter().map(|record| {
            let cells = columns.iter().skip(1).map(|column| cell(&column.key, column.kind, record.get(&column.key)));
            [Cell::Text((*label).to_owned())].into_iter().chain(cells).collect::<Vec<Cell>>()
        }));
    }
    Some(Table {
        id: id.to_owned(),
        title: first.title.clone(),
        note: note(&having),
        figures: having.iter().flat_map(|(label, section)| figures(label, section)).collect(),
        gaps: having.iter().filter_map(|(label, section)| gap(label, section)).collect(),
        columns,
        rows,
        totals: None,
    })
}

/// The columns of all these sections, without those that say the same in another unit.
fn keys(having: &[(&str, &Section)]) -> Vec<String> {
    let mut keys: Vec<String> = Vec::new();
    for key in having.iter().flat_map(|(_, section)| &section.columns) {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    let all = keys.clone();
    let has = |stem: &str, unit: &str| all.contains(&format!("{stem}_{unit}"));
    keys.retain(|key| match Unit::at_end_of(key) {
        // Milliseconds from the beginning read better than the clock's nanoseconds.
        Some((stem, unit)) if WORDS.instants.iter().any(|instant| instant == stem) => {
            unit.name() != "ns" || !has(stem, "ms")
        }
        Some((stem, unit)) => unit.name() == "ns" || !has(stem, "ns"),
        None => true,
    });
    keys
}

fn note(having: &[(&str, &Section)]) -> String {
    let mut sentences: Vec<String> = Vec::new();
    let mut say = |sentence: &str| {
        let ended = sentence.trim_end();
        let sentence = if ended.ends_with(['.', '?', '!', ':']) { ended.to_owned() } else { format!("{ended}.") };
        if !ended.is_empty() && !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    };
    for (_, section) in having {
        if !section.derived_from.is_empty() {
            say(&format!("From {}", section.derived_from));
        }
        section.limits.iter().for_each(|limit| say(limit));
    }
    let kept: u64 = having.iter().map(|(_, section)| section.rows.len() as u64).sum();
    let all = having.iter().fold(0_u64, |all, (_, section)| all.saturating_add(section.rows_in_all));
    if all > kept {
        say(&format!("{} of {} rows are kept", grouped(kept), grouped(all)));
    }
    sentences.join(" ")
}

fn figures(label: &str, section: &Section) -> Vec<Figure> {
    let values = section.summary.0.iter();
    values
        .map(|(key, value)| {
            let kind = kind(key, &[value]);
            Figure { run: label.to_owned(), key: key.clone(), title: title(key), cell: cell(key, kind, Some(value)) }
        })
        .collect()
}

fn gap(label: &str, section: &Section) -> Option<Gap> {
    let missing = section.missing.as_ref()?;
    Some(Gap { run: label.to_owned(), why: missing.why.clone(), recapture: missing.recapture.clone() })
}

fn column(key: &str, having: &[(&str, &Section)]) -> Column {
    let rows = having.iter().flat_map(|(_, section)| &section.rows);
    let values: Vec<&Value> = rows.filter_map(|record| record.get(key)).collect();
    Column { key: key.to_owned(), title: title(key), kind: kind(key, &values) }
}

/// What a column holds, by its key, and where that says nothing by its values.
fn kind(key: &str, values: &[&Value]) -> Kind {
    let is = |test: fn(&Value) -> bool| values.iter().any(|value| test(value));
    if is(|value| matches!(value, Value::Text(_) | Value::Bool(_))) {
        let words = &WORDS.names;
        return match key {
            "category" => Kind::Category,
            name if words.iter().any(|word| word == name) => Kind::Kernel,
            _ => Kind::Text,
        };
    }
    match Unit::at_end_of(key) {
        _ if has_word(key, "pct") || has_word(key, "fraction") => Kind::Share,
        Some((stem, _)) if WORDS.instants.iter().any(|instant| instant == stem) => Kind::Instant,
        Some(_) => Kind::Time,
        None if is_id(key) => Kind::Text,
        None if is(|value| matches!(value, Value::Float(_) | Value::Int(i64::MIN..0))) => Kind::Number,
        None if values.iter().all(|value| **value == Value::Null) => Kind::Text,
        None => Kind::Count,
    }
}

fn has_word(key: &str, word: &str) -> bool {
    key.split('_').any(|part| part == word)
}

fn is_id(key: &str) -> bool {
    key.ends_with("_id") || key == "pid" || key == "tid"
}

fn cell(key: &str, kind: Kind, value: Option<&Value>) -> Cell {
    let Some(value) = value else { return Cell::Empty };
    match (value, kind) {
        (Value::Null, _) => Cell::Empty,
        (Value::Bool(value), _) => Cell::Text(if *value { "yes" } else { "no" }.to_owned()),
        (Value::Text(full), Kind::Kernel) => {
            Cell::Kernel { short: names::short(&names::demangle(full)), full: full.clone() }
        }
        (Value::Text(text), _) => Cell::Text(text.clone()),
        (Value::Int(value), Kind::Count) => u64::try_from(*value).map_or(Cell::Int(*value), Cell::Count),
        (Value::Int(value), _) if is_id(key) => Cell::Int(*value),
        (Value::Int(_) | Value::Float(_), _) => measure(key, value),
    }
}

fn measure(key: &str, value: &Value) -> Cell {
    let number = value.number().unwrap_or_default();
    match Unit::at_end_of(key) {
        _ if has_word(key, "pct") => Cell::Percent(number),
        _ if has_word(key, "fraction") => Cell::Share(number),
        Some((_, unit)) => match value {
            Value::Int(ns) if unit.ns() == 1 => Cell::Ns(*ns),
            _ => Cell::Time(number, unit),
        },
        None => Cell::Number(number),
    }
}

/// Words for a key, without its unit.
pub(super) fn title(key: &str) -> String {
    let stem = Unit::at_end_of(key).map_or(key, |(stem, _)| stem);
    let listed = WORDS.columns.get(key).or_else(|| WORDS.columns.get(stem));
    if let Some(words) = listed {
        return words.clone();
    }
    let percent = has_word(stem, "pct") || has_word(stem, "fraction");
    let parts = stem.split('_').filter(|part| !(percent && ["pct", "fraction"].contains(part)));
    let words: Vec<&str> = parts.map(|part| WORDS.words.get(part).map_or(part, String::as_str)).collect();
    let words = words.join(" ");
    let mut letters = words.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
