//! Reads all rows of any Parquet file in turn. Memory is bounded by a row group.

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use std::fs::File;
use std::panic::AssertUnwindSafe;
use std::path::Path;

/// A value of any column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell<'a> {
    /// No value.
    Null,
    /// A value of a type that is not here: a decimal, a list, a map, a group.
    Other,
    /// A whole number. Larger ones than fit keep their bits.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// Calls `header` with the names of the columns, and then `each` with each row. Ends when one of them returns false.
///
/// # Errors
/// A sentence on what could not be read. The rows before that were passed on.
pub fn each_row(
    path: &Path,
    header: &mut dyn FnMut(&[&str]) -> bool,
    each: &mut dyn FnMut(&[Cell<'_>]) -> bool,
) -> Result<(), String> {
    let failed = |error: &dyn std::fmt::Display| format!("cannot read {}: {error}", path.display());
    let file = File::open(path).map_err(|error| failed(&error))?;
    // The decoders check less than a stranger's file can contain.
    let read = std::panic::catch_unwind(AssertUnwindSafe(|| read_from(file, header, each)));
    read.map_err(|_| failed(&"a damaged Parquet file"))?.map_err(|error| failed(&error))
}

fn read_from(
    file: File,
    header: &mut dyn FnMut(&[&str]) -> bool,
    each: &mut dyn FnMut(&[Cell<'_>]) -> bool,
) -> parquet::errors::Result<()> {
    let reader = SerializedFileReader::new(file)?;
    let names: Vec<&str> =
        reader.metadata().file_metadata().schema().get_fields().iter().map(|field| field.name()).collect();
    if !header(&names) {
        return Ok(());
    }
    for row in reader.get_row_iter(None)? {
        let row = row?;
        let cells: Vec<Cell> = row.get_column_iter().map(|(_, field)| cell(field)).collect();
        if !each(&cells) {
            return Ok(());
        }
    }
    Ok(())
}

fn cell(field: &Field) -> Cell<'_> {
    match field {
        Field::Bool(value) => Cell::Int((*value).into()),
        Field::Byte(value) => Cell::Int((*value).into()),
        Field::Short(value) => Cell::Int((*value).into()),
        Field::Int(value) | Field::Date(value) | Field::TimeMillis(value) => Cell::Int((*value).into()),
        Field::Long(value)
        | Field::TimeMicros(value)
        | Field::TimestampMillis(value)
        | Field::TimestampMicros(value) => Cell::Int(*value),
        Field::UByte(value) => Cell::Int((*value).into()),
        Field::UShort(value) => Cell::Int((*value).into()),
        Field::UInt(value) => Cell::Int((*value).into()),
        Field::ULong(value) => Cell::Int(value.cast_signed()),
        Field::Float16(value) => Cell::Float(value.to_f64()),
        Field::Float(value) => Cell::Float((*value).into()),
        Field::Double(value) => Cell::Float(*value),
        Field::Str(text) => Cell::Text(text),
        Field::Bytes(bytes) => Cell::Bytes(bytes.data()),
        Field::Null => Cell::Null,
        Field::Decimal(_) | Field::Group(_) | Field::ListInternal(_) | Field::MapInternal(_) => Cell::Other,
    }
}
