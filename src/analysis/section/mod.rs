//! The sections of a report: title, source, limits, single figures and rows. Analyses declare and fill typed sections
//! ([`typed`], [`units`]); this file has the form that JSON and tables use.
//!
//! Keys of figures and columns follow the tables of nsys-llm-explainer and end in their unit: `_ns`, `_us`, `_ms`,
//! `_s`, `_pct` (0 to 100), `_fraction` (0 to 1). If a trace lacks the data for a section, [`Missing`] names the data
//! and the command that captures it.

pub mod typed;
pub mod units;

pub use typed::{Answer, ColumnSpec, Fields, SectionSpec, TypedSection};
pub(crate) use typed::{fields, first_op, section};
pub(crate) use units::words;
pub use units::*;

use crate::json::{FromJson, Json, JsonError, JsonResult, Members, from_json};
use crate::trace::{Ns, Trace};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// All sections of a report, by name.
pub type Sections = BTreeMap<String, Section>;

/// One table of a report with its single figures, source and limits.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Section {
    /// The heading.
    pub title: String,
    /// The data that the section is computed from, as a phrase.
    pub derived_from: String,
    /// Limits of the results, one sentence each.
    pub limits: Vec<String>,
    /// Why the section is empty and how to capture the data; `None` if it is filled.
    pub missing: Option<Missing>,
    /// Single figures by name, with the unit at the end of the name.
    pub summary: Record,
    /// The number of rows before the table was cut to its limit.
    pub rows_in_all: u64,
    /// The keys of every row, in order, with the unit at the end; also present if there are no rows.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Record>,
}
from_json!(Section { title, derived_from, limits, missing, summary, rows_in_all, columns, rows });

/// The data that a trace lacks for a section.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The missing data, in one sentence.
    pub why: String,
    /// The command that captures the data; empty if there is none.
    pub recapture: String,
}
from_json!(Missing { why, recapture });

/// A value of a row or figure.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Value {
    /// Unknown or not applicable.
    #[default]
    Null,
    /// True or false.
    Bool(bool),
    /// A count, an id or a time in whole nanoseconds.
    Int(i64),
    /// A number in the unit of its column; never NaN or infinite.
    Float(f64),
    /// Text.
    Text(String),
}

/// Named values in order. Names of declared columns take no memory of their own: a table may have many rows.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Record(pub Vec<(Cow<'static, str>, Value)>);

/// The name of the figure with the start of the first GPU op. Points in time are displayed relative to it.
pub const FIRST_OP: &str = "first_op_ns";

impl Section {
    /// A section without rows.
    pub fn new(title: &str, derived_from: &str, columns: &[&str]) -> Self {
        let columns = columns.iter().map(|column| (*column).to_owned()).collect();
        Self { title: title.to_owned(), derived_from: derived_from.to_owned(), columns, ..Self::default() }
    }

    /// A section that the trace cannot fill.
    pub fn missing(title: &str, columns: &[&str], why: &str, recapture: &str) -> Self {
        let missing = Missing { why: why.to_owned(), recapture: recapture.to_owned() };
        Self { missing: Some(missing), ..Self::new(title, "", columns) }
    }

    /// Adds a limit.
    pub fn limit(mut self, sentence: impl Into<String>) -> Self {
        self.limits.push(sentence.into());
        self
    }

    /// Adds the figure [`FIRST_OP`]. Text outputs display points in time relative to it; JSON keeps the trace's clock.
    pub fn from_first_op(mut self, trace: &Trace) -> Self {
        if let Some(beginning) = trace.beginning() {
            self.figure(FIRST_OP, beginning);
        }
        self
    }

    /// Adds a single figure.
    pub fn figure(&mut self, name: &str, value: impl Into<Value>) {
        self.push_figure(name, value.into());
    }

    // Not generic, so that it is compiled once.
    fn push_figure(&mut self, name: &str, value: Value) {
        self.summary.0.push((name.to_owned().into(), value));
    }

    /// Adds a row with a value for each column, in order.
    pub fn row<const N: usize>(&mut self, values: [Value; N]) {
        self.push_row(Vec::from(values));
    }

    fn push_row(&mut self, values: Vec<Value>) {
        debug_assert_eq!(values.len(), self.columns.len(), "{}", self.title);
        self.rows.push(Record(self.columns.iter().map(|key| key.clone().into()).zip(values).collect()));
        self.rows_in_all = self.rows_in_all.max(self.rows.len() as u64);
    }

    /// Keeps the first rows and remembers the number of all rows.
    pub fn truncate(&mut self, rows: usize) {
        self.rows_in_all = self.rows_in_all.max(self.rows.len() as u64);
        self.rows.truncate(rows);
    }
}

impl Record {
    /// Returns the value with this name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// Returns the value with this name if it is a number.
    pub fn number(&self, name: &str) -> Option<f64> {
        self.get(name).and_then(Value::number)
    }

    /// Returns the number with this name, or zero if there is none.
    pub fn amount(&self, name: &str) -> f64 {
        self.number(name).unwrap_or(0.0)
    }

    /// Returns the text with this name, or an empty text if there is none.
    pub fn text(&self, name: &str) -> &str {
        self.get(name).and_then(Value::text).unwrap_or_default()
    }

    /// Returns a value of any type as text. Some ids are numbers in one trace and texts in another.
    pub fn words(&self, name: &str) -> String {
        self.get(name).map_or_else(String::new, Value::words)
    }
}

impl Value {
    /// A time in milliseconds.
    pub fn ms(time: Ns) -> Self {
        Self::Float(time.0 as f64 / 1e6)
    }

    /// A time in microseconds.
    pub fn us(time: Ns) -> Self {
        Self::Float(time.0 as f64 / 1e3)
    }

    /// `part / whole` in per cent; zero if `whole` is zero.
    pub fn pct(part: Ns, whole: Ns) -> Self {
        Self::Float(if whole == Ns::ZERO { 0.0 } else { 100.0 * part.0 as f64 / whole.0 as f64 })
    }

    /// Returns the value if it is a number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Int(value) => Some(*value as f64),
            Self::Float(value) => Some(*value),
            Self::Null | Self::Bool(_) | Self::Text(_) => None,
        }
    }

    /// Returns a value of any type as text; empty if it is null.
    pub fn words(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Bool(value) => if *value { "yes" } else { "no" }.to_owned(),
            Self::Null => String::new(),
        }
    }

    /// Returns the value if it is a text.
    pub fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<usize> for Value {
    fn from(value: usize) -> Self {
        Self::from(value as u64)
    }
}

impl From<Ns> for Value {
    fn from(value: Ns) -> Self {
        Self::Int(value.0)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        if value.is_finite() { Self::Float(value) } else { Self::Null }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

impl<T: Into<Self>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
        }
    }
}

impl Serialize for Record {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl FromJson for Value {
    fn from_json(json: Json<'_>) -> JsonResult<Self> {
        Ok(match json {
            Json::Null => Self::Null,
            Json::Bool(value) => Self::Bool(value),
            Json::Int(value) => Self::Int(value),
            Json::Large(value) => value.into(),
            Json::Float(value) => value.into(),
            Json::String(text) => Self::Text(text.unescaped().into_owned()),
            Json::Array(_) | Json::Object(_) => return Err(JsonError::expected("a plain value", json)),
        })
    }
}

impl FromJson for Record {
    fn from_json(json: Json<'_>) -> JsonResult<Self> {
        let members = Members::of(json)?;
        let mut record = Self(Vec::with_capacity(members.len()));
        members.for_each(&mut |key, value| {
            record.0.push((key.into(), Value::from_json(value)?));
            Ok(())
        })?;
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_is_equal_after_writing_and_reading_it_as_json() {
        let mut section = Section::new("T", "kernels", &["z_name", "a_ns", "m_pct", "flag"]).limit("None.");
        section.row(["x\u{1f600}\"".into(), i64::MIN.into(), 33.300_000_000_000_004.into(), Value::Null]);
        section.row(["y".into(), i64::MAX.into(), 18.0.into(), true.into()]);
        section.figure("coverage_pct", 12.5);
        section.truncate(1);
        let text = serde_json::to_string(&section).unwrap();
        assert_eq!(crate::json::read::<Section>(&text).unwrap(), section);
        assert!(text.contains(r#""rows_in_all":2"#), "{text}");
        assert_eq!(Value::from(f64::NAN), Value::Null, "JSON has no NaN");
    }
}
