//! The tables of a run with fixed columns and types, from `patterns/facts.json`. A value of another type than its column is a null:
//! the tables of different runs must fit together.

use crate::analysis::results::Run;
use crate::analysis::section::{Section, Value};
use crate::json::{self, FromJson, Json, JsonError, JsonResult, embedded, from_json};
use crate::report::{Report, records};
use gpuprism_facts::{Column, Values};
use std::sync::LazyLock;

#[derive(Debug)]
struct Catalog {
    schema: u64,
    tables: Vec<Table>,
}
from_json!(Catalog { schema, tables });

/// A table of a run.
#[derive(Debug)]
struct Table {
    name: String,
    /// The id of the table of the report.
    source: String,
    #[cfg_attr(not(test), allow(dead_code, reason = "documentation"))]
    about: String,
    columns: Vec<Kept>,
}
from_json!(strict Table { name, source, about, columns });

/// A column of the source that is kept.
#[derive(Debug)]
struct Kept {
    key: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int,
    Float,
    Text,
}

impl FromJson for Kept {
    fn from_json(json: Json<'_>) -> JsonResult<Self> {
        let text = String::from_json(json)?;
        let (key, kind) = text.split_once(' ').ok_or_else(|| JsonError::new("a column without a type"))?;
        let kind = match kind {
            "int" => Kind::Int,
            "float" => Kind::Float,
            "text" => Kind::Text,
            _ => return Err(JsonError::new("an unknown type of a column")),
        };
        Ok(Self { key: key.to_owned(), kind })
    }
}

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| embedded(json::read(include_str!("../../patterns/facts.json"))));

/// The number of the schema.
pub(super) fn schema() -> u64 {
    CATALOG.schema
}

/// The names of the columns of a table.
#[cfg(test)]
pub(super) fn columns_of(name: &str) -> Vec<&'static str> {
    let tables = CATALOG.tables.iter().filter(|table| table.name == name);
    tables.flat_map(|table| &table.columns).map(|kept| kept.key.as_str()).collect()
}

/// The tables that have rows, with their columns.
pub(super) fn of_run(run: &Run) -> Vec<(&'static str, Vec<Column>)> {
    let report = Report::new(vec![run.clone()]);
    let filled = CATALOG.tables.iter().filter_map(|table| {
        let section = records(&report, &table.source).filter(|section| !section.rows.is_empty())?;
        Some((table.name.as_str(), table.columns.iter().map(|kept| column(&section, kept)).collect()))
    });
    filled.collect()
}

fn column(section: &Section, kept: &Kept) -> Column {
    let values = section.rows.iter().map(|row| row.get(&kept.key));
    let values = match kept.kind {
        Kind::Int => Values::Int(values.map(int).collect()),
        Kind::Float => Values::Float(values.map(|value| value.and_then(Value::number)).collect()),
        Kind::Text => Values::Text(values.map(text).collect()),
    };
    Column { name: kept.key.clone(), values }
}

fn int(value: Option<&Value>) -> Option<i64> {
    match value? {
        Value::Int(number) => Some(*number),
        // Only whole numbers that a float has exactly.
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 9e15 => Some(*number as i64),
        _ => None,
    }
}

/// Ids of devices are numbers or texts, by format.
fn text(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::Null => None,
        Value::Text(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        Value::Bool(is_true) => Some(is_true.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::torch;
    use crate::report::record_tables;
    use crate::session::{Choices, look_up_code, run};
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_each_table_is_described() {
        let mut names = BTreeSet::new();
        for table in &CATALOG.tables {
            assert!(names.insert(&table.name) && table.about.ends_with('.'), "{}", table.name);
            let keys: BTreeSet<&String> = table.columns.iter().map(|kept| &kept.key).collect();
            assert_eq!(keys.len(), table.columns.len(), "{}", table.name);
        }
        assert!(!names.contains(&"runs".to_owned()));
    }

    /// A misspelt key would be a column of nulls, and a wrong type would lose values.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn the_columns_exist_and_their_types_lose_no_value_of_shared_traces() {
        let mut tables = BTreeSet::new();
        for file in [
            "sglang_qwen3_30b_b300_decode.trace.json.gz",
            "vllm_b200_eager_prefill.trace.json.gz",
            "nccl_metadata_a100.trace.json.gz",
        ] {
            let mut trace = torch(file);
            look_up_code(&mut trace);
            let report = Report::new(vec![run(&trace, &Choices::default()).unwrap()]);
            let known = record_tables(&report);
            for table in &CATALOG.tables {
                assert!(known.contains(&table.source), "{}", table.source);
                let section = records(&report, &table.source).unwrap();
                tables.extend((!section.rows.is_empty()).then_some(&table.name));
                for kept in &table.columns {
                    assert!(section.columns.contains(&kept.key), "{} {}", table.source, kept.key);
                    let filled =
                        section.rows.iter().filter(|row| !matches!(row.get(&kept.key), None | Some(Value::Null)));
                    let written = match column(&section, kept).values {
                        Values::Int(values) => values.iter().flatten().count(),
                        Values::Float(values) => values.iter().flatten().count(),
                        Values::Text(values) => values.iter().flatten().count(),
                    };
                    assert_eq!(written, filled.count(), "{file}: {} {}", table.source, kept.key);
                }
            }
        }
        // No shared trace has a floor without a config.
        assert!(tables.len() + 1 >= CATALOG.tables.len(), "{tables:?}");
    }
}
