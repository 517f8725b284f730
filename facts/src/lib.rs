//! Writes a table as a Parquet file with zstd compression, and reads columns of one, or all rows of any. The table is in memory; cost O(values).
//!
//! A file appears under its name only when it is complete: it is written under another name in the same folder first. So a
//! reader never sees half a file, and a program that was killed leaves nothing that looks finished.

mod read;
mod rows;

pub use read::{Kind, read};
pub use rows::{Cell, each_row};

use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// A column and its values, one for each row of the table. `None` is a null.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Its values.
    pub values: Values,
}

/// The values of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// 64-bit integers.
    Int(Vec<Option<i64>>),
    /// Floating-point numbers of 64 bits.
    Float(Vec<Option<f64>>),
    /// UTF-8 texts.
    Text(Vec<Option<String>>),
}

impl Values {
    fn physical(&self) -> (PhysicalType, Option<LogicalType>) {
        match self {
            Self::Int(_) => (PhysicalType::INT64, None),
            Self::Float(_) => (PhysicalType::DOUBLE, None),
            Self::Text(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        }
    }
}

/// Writes the columns, which all have the same length, to this file. The folder must exist.
///
/// # Errors
/// A sentence on what could not be written.
pub fn write(path: &Path, columns: Vec<Column>) -> std::result::Result<(), String> {
    // Two programs that write the same file, perhaps on two machines, do not share a name. Engines that read whole folders leave out
    // names with a dot: a program that is killed leaves this file.
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let partial = path.with_file_name(format!(".partial-{}-{}", std::process::id(), since.as_nanos()));
    let failed = |error: &dyn std::fmt::Display| format!("cannot write {}: {error}", path.display());
    let written = File::create(&partial)
        .map_err(|error| failed(&error))
        .and_then(|file| write_to(file, columns).map_err(|error| failed(&error)))
        .and_then(|()| std::fs::rename(&partial, path).map_err(|error| failed(&error)));
    if written.is_err() {
        // What is left of a failed attempt is of no use, and may be absent.
        let _ = std::fs::remove_file(&partial);
    }
    written
}

fn write_to(file: File, columns: Vec<Column>) -> Result<()> {
    let fields = columns.iter().map(|column| {
        let (physical, logical) = column.values.physical();
        let field = Type::primitive_type_builder(&column.name, physical).with_logical_type(logical);
        field.with_repetition(Repetition::OPTIONAL).build().map(Arc::new)
    });
    let schema = Type::group_type_builder("table").with_fields(fields.collect::<Result<_>>()?).build()?;
    let properties = WriterProperties::builder().set_compression(Compression::ZSTD(Default::default())).build();
    let mut writer = SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))?;
    let mut rows = writer.next_row_group()?;
    for column in columns {
        let Some(target) = rows.next_column()? else {
            return Err(ParquetError::General("a column is missing in the schema".to_owned()));
        };
        match column.values {
            Values::Int(values) => write_values::<Int64Type>(target, values)?,
            Values::Float(values) => write_values::<DoubleType>(target, values)?,
            Values::Text(texts) => {
                let bytes = texts.into_iter().map(|text| text.map(|text| ByteArray::from(text.into_bytes())));
                write_values::<ByteArrayType>(target, bytes.collect())?;
            }
        }
    }
    rows.close()?;
    writer.close()?;
    Ok(())
}

fn write_values<T: DataType>(mut target: SerializedColumnWriter<'_>, values: Vec<Option<T::T>>) -> Result<()> {
    // A definition level of 1 is a value, 0 a null.
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<T::T> = values.into_iter().flatten().collect();
    target.typed::<T>().write_batch(&values, Some(&levels), None)?;
    target.close()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::RowAccessor;

    fn folder(name: &str) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("gpuprism-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn column(name: &str, values: Values) -> Column {
        Column { name: name.to_owned(), values }
    }

    #[test]
    fn values_and_nulls_read_back() {
        let path = folder("facts_round_trip").join("facts.parquet");
        let columns = vec![
            column("ns", Values::Int(vec![Some(i64::MIN), None, Some(3)])),
            column("share", Values::Float(vec![None, Some(0.1), Some(f64::NAN)])),
            column("name", Values::Text(vec![Some("gemm \u{2126}".to_owned()), Some(String::new()), None])),
        ];
        write(&path, columns).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let rows: Vec<_> = reader.get_row_iter(None).unwrap().map(Result::unwrap).collect();
        assert_eq!(rows.len(), 3);
        assert_eq!(
            (rows[0].get_long(0).unwrap(), rows[0].get_string(2).unwrap().as_str()),
            (i64::MIN, "gemm \u{2126}")
        );
        assert!(rows[1].get_long(0).is_err() && rows[0].get_double(1).is_err() && rows[2].get_string(2).is_err());
        assert_eq!((rows[1].get_double(1).unwrap(), rows[1].get_string(2).unwrap().as_str()), (0.1, ""));
    }

    #[test]
    fn a_table_without_rows_is_a_file_with_its_columns() {
        let path = folder("facts_empty").join("facts.parquet");
        write(&path, vec![column("name", Values::Text(Vec::new()))]).unwrap();
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let schema = reader.metadata().file_metadata().schema_descr();
        assert_eq!((schema.num_columns(), schema.column(0).name()), (1, "name"));
        assert_eq!(reader.get_row_iter(None).unwrap().count(), 0);
    }

    #[test]
    fn columns_are_read_by_name_and_type() {
        let path = folder("facts_read").join("facts.parquet");
        let written = vec![
            column("ns", Values::Int(vec![Some(7), None])),
            column("share", Values::Float(vec![None, Some(0.5)])),
            column("name", Values::Text(vec![Some("gemm".to_owned()), None])),
        ];
        write(&path, written.clone()).unwrap();
        let found = crate::read(&path, &[("name", Kind::Text), ("ns", Kind::Int), ("share", Kind::Float)]).unwrap();
        assert_eq!(found, [written[2].clone(), written[0].clone(), written[1].clone()]);
        // A file of an older version lacks a column; a strange one has another type.
        let found = crate::read(&path, &[("absent", Kind::Int), ("name", Kind::Int)]).unwrap();
        assert_eq!(found, [column("absent", Values::Int(vec![None; 2])), column("name", Values::Int(vec![None; 2]))]);
    }

    /// Each byte of a file is changed in turn, and the file is cut at each place.
    #[test]
    fn a_damaged_file_is_an_error_or_other_values_and_never_a_panic() {
        let path = folder("facts_damaged").join("facts.parquet");
        write(&path, vec![column("name", Values::Text(vec![Some("gemm".to_owned()), None]))]).unwrap();
        let whole = std::fs::read(&path).unwrap();
        let wanted = [("name", Kind::Text)];
        for place in 0..whole.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[place] ^= change;
                std::fs::write(&path, bytes).unwrap();
                let _ = crate::read(&path, &wanted);
            }
            std::fs::write(&path, &whole[..place]).unwrap();
            assert!(crate::read(&path, &wanted).unwrap_err().contains("facts.parquet"));
        }
    }

    #[test]
    fn a_failed_attempt_leaves_nothing() {
        let folder = folder("facts_failed");
        let unequal = vec![column("a", Values::Int(vec![Some(1)])), column("b", Values::Int(Vec::new()))];
        let error = write(&folder.join("facts.parquet"), unequal).unwrap_err();
        assert!(error.starts_with("cannot write"), "{error}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        let error = write(&folder.join("absent").join("facts.parquet"), Vec::new()).unwrap_err();
        assert!(error.contains("absent"), "{error}");
    }
}
