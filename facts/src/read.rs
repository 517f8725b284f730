//! Reads columns of a Parquet file by name. The values are in memory; cost O(values of these columns).

use crate::{Column, Values};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::Type;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

/// The type of a column that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 64-bit integers.
    Int,
    /// Floating-point numbers of 64 bits.
    Float,
    /// UTF-8 texts.
    Text,
}

/// Reads these columns. A column that the file does not have, and a value of another type, is null.
///
/// # Errors
/// A sentence on what could not be read.
pub fn read(path: &Path, wanted: &[(&str, Kind)]) -> Result<Vec<Column>, String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", path.display());
    let file = File::open(path).map_err(|error| failed(&error))?;
    // The decoders check less than a stranger's file can contain.
    let read = std::panic::catch_unwind(|| read_from(file, wanted));
    read.map_err(|_| failed(&"a damaged Parquet file"))?.map_err(|error| failed(&error))
}

fn read_from(file: File, wanted: &[(&str, Kind)]) -> parquet::errors::Result<Vec<Column>> {
    let reader = SerializedFileReader::new(file)?;
    let schema = reader.metadata().file_metadata().schema();
    let is_wanted = |field: &&Arc<Type>| wanted.iter().any(|(name, _)| *name == field.name());
    let fields: Vec<Arc<Type>> = schema.get_fields().iter().filter(is_wanted).cloned().collect();
    let projection = Type::group_type_builder(schema.name()).with_fields(fields).build()?;
    let mut columns: Vec<Column> = wanted.iter().map(|(name, kind)| empty(name, *kind)).collect();
    for row in reader.get_row_iter(Some(projection))? {
        let row = row?;
        for column in &mut columns {
            let value = row.get_column_iter().find(|(name, _)| **name == column.name).map(|(_, value)| value);
            push(&mut column.values, value);
        }
    }
    Ok(columns)
}

fn empty(name: &str, kind: Kind) -> Column {
    let values = match kind {
        Kind::Int => Values::Int(Vec::new()),
        Kind::Float => Values::Float(Vec::new()),
        Kind::Text => Values::Text(Vec::new()),
    };
    Column { name: name.to_owned(), values }
}

/// Other programs that rewrite the files choose smaller types for integers.
fn push(values: &mut Values, value: Option<&Field>) {
    match values {
        Values::Int(values) => values.push(match value {
            Some(Field::Long(number)) => Some(*number),
            Some(Field::Int(number)) => Some(i64::from(*number)),
            _ => None,
        }),
        Values::Float(values) => values.push(match value {
            Some(Field::Double(number)) => Some(*number),
            Some(Field::Float(number)) => Some(f64::from(*number)),
            _ => None,
        }),
        Values::Text(values) => values.push(match value {
            Some(Field::Str(text)) => Some(text.clone()),
            _ => None,
        }),
    }
}
