//! Sections as Arrow data: one record batch, handed over without a copy by the PyCapsule interface.

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator, StringArray};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use gpuprism::analysis::section::{Section, Value};
use std::sync::Arc;

/// Units at the end of a key whose values are whole numbers, and those whose values are not. They give the type of a column without
/// values.
const WHOLE_UNITS: [&str; 1] = ["ns"];
const FRACTIONAL_UNITS: [&str; 6] = ["us", "ms", "s", "pct", "share", "fraction"];

/// The rows as a stream of one batch.
pub(crate) fn stream(section: &Section) -> Result<FFI_ArrowArrayStream, ArrowError> {
    let batch = batch(section)?;
    let schema = batch.schema();
    Ok(FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(batch)], schema))))
}

/// The schema of [`stream`].
pub(crate) fn schema(section: &Section) -> Result<FFI_ArrowSchema, ArrowError> {
    FFI_ArrowSchema::try_from(&fields(section))
}

fn fields(section: &Section) -> Schema {
    let columns = section.columns.iter().enumerate();
    let field = |(index, key): (usize, &String)| Field::new(key, data_type(key, values(section, index, key)), true);
    Schema::new(columns.map(field).collect::<Vec<_>>())
}

fn batch(section: &Section) -> Result<RecordBatch, ArrowError> {
    let schema = fields(section);
    let columns = section.columns.iter().enumerate().zip(schema.fields());
    let array =
        |((index, key), field): ((usize, &String), &Arc<Field>)| array(field.data_type(), values(section, index, key));
    let arrays = columns.map(array).collect::<Result<Vec<_>, _>>()?;
    let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(section.rows.len()));
    RecordBatch::try_new_with_options(Arc::new(schema), arrays, &options)
}

/// The values of a column. Rows normally have all keys in the order of the columns.
fn values<'a>(section: &'a Section, index: usize, key: &'a str) -> impl Iterator<Item = &'a Value> + Clone {
    section.rows.iter().map(move |row| match row.0.get(index) {
        Some((found, value)) if found == key => value,
        _ => row.get(key).unwrap_or(&Value::Null),
    })
}

/// The type of a column: that of its values. Whole and fractional numbers together are float64; numbers and texts together are text.
fn data_type<'a>(key: &str, values: impl Iterator<Item = &'a Value>) -> DataType {
    let mut found: Option<DataType> = None;
    for value in values {
        let kind = match value {
            Value::Null => continue,
            Value::Bool(_) => DataType::Boolean,
            Value::Int(_) => DataType::Int64,
            Value::Float(_) => DataType::Float64,
            Value::Text(_) => return DataType::Utf8,
        };
        found = Some(match (found, kind) {
            (None, kind) => kind,
            (Some(before), kind) if before == kind => kind,
            (Some(DataType::Int64 | DataType::Float64), DataType::Int64 | DataType::Float64) => DataType::Float64,
            _ => return DataType::Utf8,
        });
    }
    found.unwrap_or_else(|| type_of_unit(key))
}

fn type_of_unit(key: &str) -> DataType {
    match key.rsplit('_').next() {
        Some(unit) if WHOLE_UNITS.contains(&unit) => DataType::Int64,
        Some(unit) if FRACTIONAL_UNITS.contains(&unit) => DataType::Float64,
        _ => DataType::Utf8,
    }
}

fn array<'a>(kind: &DataType, values: impl Iterator<Item = &'a Value> + Clone) -> Result<ArrayRef, ArrowError> {
    Ok(match kind {
        DataType::Boolean => Arc::new(values.map(as_bool).collect::<BooleanArray>()),
        DataType::Int64 => Arc::new(values.map(as_int).collect::<Int64Array>()),
        DataType::Float64 => Arc::new(values.map(Value::number).collect::<Float64Array>()),
        _ => {
            // Offsets are 32 bits; the collector panics beyond them.
            let bytes: usize = values.clone().filter_map(Value::text).map(str::len).sum();
            if i32::try_from(bytes).is_err() {
                return Err(ArrowError::MemoryError("a column of more than 2 GiB of text".to_owned()));
            }
            Arc::new(values.map(as_text).collect::<StringArray>())
        }
    })
}

fn as_bool(value: &Value) -> Option<bool> {
    if let Value::Bool(value) = value { Some(*value) } else { None }
}

fn as_int(value: &Value) -> Option<i64> {
    if let Value::Int(value) = value { Some(*value) } else { None }
}

/// Ids are numbers in one row and texts in another of some tables.
fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Bool(value) => Some(value.to_string()),
        Value::Int(value) => Some(value.to_string()),
        Value::Float(value) => Some(value.to_string()),
        Value::Text(text) => Some(text.clone()),
    }
}
