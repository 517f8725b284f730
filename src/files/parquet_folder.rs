//! Reads what `nsys export --type parquetdir` writes: a folder with a Parquet file for each table of the SQLite export. The tables are
//! copied to a temporary database, which the reader of exports reads: O(rows), and disk space as for the SQLite export.

#[cfg(feature = "facts")]
pub(super) use tables::read;

use std::path::{Path, PathBuf};

const PARQUET: &str = "parquet";
/// Beginnings of the names of tables that only Nsight Systems writes.
const TABLES: [&str; 4] = ["CUPTI_ACTIVITY_KIND_", "TARGET_INFO_", "StringIds", "NVTX_EVENTS"];

/// The files of the tables in a folder, sorted; `None` if it is no such folder.
pub(super) fn tables_of(folder: &Path) -> Option<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> = entries.filter(|path| path.extension().is_some_and(|end| end == PARQUET)).collect();
    files.sort();
    let is_known = |path: &PathBuf| TABLES.iter().any(|start| name(path).starts_with(start));
    files.iter().any(is_known).then_some(files)
}

/// The name of the table in a file.
fn name(path: &Path) -> String {
    path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Refuses the folder, because the program is built without the reader of Parquet.
#[cfg(not(feature = "facts"))]
pub(super) fn read(_: &[PathBuf], label: &str, _: &dyn super::Watch) -> crate::Result<Box<crate::trace::Trace>> {
    let why = "an `nsys export --type parquetdir` folder, which this build does not read (it lacks the feature `facts`): export with \
               `nsys export --type sqlite`";
    Err(crate::Error::refused(label, why))
}

#[cfg(feature = "facts")]
mod tables {
    use super::name;
    use crate::files::Watch;
    use crate::files::database::{self, TemporaryFile};
    use crate::trace::{ProblemKind, Trace};
    use crate::{Error, Result};
    use gpuprism_facts::{Cell, each_row};
    use rusqlite::types::Value;
    use rusqlite::{Connection, params_from_iter};
    use std::path::{Path, PathBuf};

    /// Reads the tables in these files. A file that cannot be read to its end is counted, with a warning.
    pub(in crate::files) fn read(files: &[PathBuf], label: &str, watch: &dyn Watch) -> Result<Box<Trace>> {
        let temporary = TemporaryFile::new().map_err(|error| Error::io("the folder for temporary files", &error))?;
        let failed = |error: rusqlite::Error| {
            let why = format!("its tables cannot be copied to {}: {error}", temporary.path.display());
            Error::refused(label, why)
        };
        let mut damaged = 0;
        let connection = Connection::open(&temporary.path).map_err(failed)?;
        connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN").map_err(failed)?;
        for file in files {
            if watch.cancel().is_cancelled() {
                return Err(Error::refused(label, "reading was cancelled"));
            }
            match copy(&connection, file, watch) {
                Ok(Ok(())) => {}
                Ok(Err(why)) => {
                    damaged += 1;
                    watch.warn(&format!("{why}; its rows after that are missing"));
                }
                Err(error) => return Err(failed(error)),
            }
        }
        connection.execute_batch("COMMIT").map_err(failed)?;
        drop(connection);
        let mut trace = database::read(&temporary.path, label, watch)?;
        if damaged > 0 {
            trace.problems.add(ProblemKind::DamagedTable, damaged, 0);
        }
        Ok(trace)
    }

    /// Copies one table. The inner error is one of the Parquet file, the outer one of the database.
    fn copy(
        connection: &Connection,
        file: &Path,
        watch: &dyn Watch,
    ) -> rusqlite::Result<std::result::Result<(), String>> {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let table = quoted(&name(file));
        let mut failed = None;
        let cancel = watch.cancel();
        let mut columns = Vec::new();
        let read = each_row(
            file,
            &mut |names| {
                columns = names.iter().map(|name| quoted(name)).collect();
                false
            },
            &mut |_| false,
        );
        if read.is_err() || columns.is_empty() {
            return Ok(read);
        }
        connection.execute_batch(&format!("CREATE TABLE {table} ({})", columns.join(", ")))?;
        let places = vec!["?"; columns.len()].join(", ");
        let mut statement = connection.prepare(&format!("INSERT INTO {table} VALUES ({places})"))?;
        let read = each_row(file, &mut |_| true, &mut |cells| {
            failed = statement.execute(params_from_iter(cells.iter().map(value))).err();
            failed.is_none() && !cancel.is_cancelled()
        });
        failed.map_or(Ok(read), Err)
    }

    fn value(cell: &Cell<'_>) -> Value {
        match cell {
            Cell::Null => Value::Null,
            Cell::Int(number) => Value::Integer(*number),
            Cell::Float(number) => Value::Real(*number),
            Cell::Text(text) => Value::Text((*text).to_owned()),
            Cell::Bytes(bytes) => Value::Blob(bytes.to_vec()),
        }
    }
}
