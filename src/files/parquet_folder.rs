//! Reads what `nsys export --type parquetdir` writes: a folder with a Parquet file for each table of the SQLite export. The tables are
//! copied to a temporary database, which the reader of exports reads: O(rows), and disk space as for the SQLite export. Values of types
//! that SQLite has not are missing there; their columns are counted.

#[cfg(feature = "facts")]
pub(super) use tables::read;

use super::entries::Aside;
use super::io::label;
use super::watch::Watch;
use std::path::{Path, PathBuf};

const PARQUET: &str = "parquet";
/// Beginnings of the names of tables that only Nsight Systems writes.
const TABLES: [&str; 4] = ["CUPTI_ACTIVITY_KIND_", "TARGET_INFO_", "StringIds", "NVTX_EVENTS"];

/// The files of the tables in a folder, sorted; `None` if it is no such folder.
pub(super) fn tables_of(folder: &Path, watch: &dyn Watch) -> Option<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let tables = entries.filter(|path| path.extension().is_some_and(|end| end == PARQUET));
    let (mut files, others): (Vec<PathBuf>, Vec<PathBuf>) = tables.partition(|path| path.is_file());
    files.sort();
    let is_known = |path: &PathBuf| TABLES.iter().any(|start| name(path).starts_with(start));
    if !files.iter().any(is_known) {
        return None;
    }
    let mut aside = Aside::default();
    others.iter().filter(|path| !path.is_dir()).for_each(|path| aside.add_special(label(path)));
    aside.tell(folder, watch);
    Some(files)
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
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    /// Reads the tables in these files. A file that cannot be read to its end is counted, with a warning.
    pub(in crate::files) fn read(files: &[PathBuf], label: &str, watch: &dyn Watch) -> Result<Box<Trace>> {
        let temporary = TemporaryFile::new().map_err(|error| Error::io("the folder for temporary files", &error))?;
        let failed = |error: rusqlite::Error| {
            let why = format!("its tables cannot be copied to {}: {error}", temporary.path.display());
            Error::refused(label, why)
        };
        let (mut damaged, mut unread_columns) = (0, 0);
        let connection = Connection::open(&temporary.path).map_err(failed)?;
        connection.execute_batch("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN").map_err(failed)?;
        for file in files {
            if watch.cancel().is_cancelled() {
                return Err(Error::refused(label, "reading was cancelled"));
            }
            let copied = copy(&connection, file, watch).map_err(failed)?;
            if let Some(why) = copied.damage {
                damaged += 1;
                watch.warn(&format!("{why}; its rows after that are missing"));
            }
            if !copied.unread_columns.is_empty() {
                unread_columns += copied.unread_columns.len() as u64;
                let columns = Vec::from_iter(copied.unread_columns).join(", ");
                watch.warn(&format!(
                    "the table {} has lists, decimals or groups, which are not read: {columns}",
                    name(file)
                ));
            }
        }
        connection.execute_batch("COMMIT").map_err(failed)?;
        drop(connection);
        let mut trace = database::read(&temporary.path, label, watch)?;
        for (kind, count) in [(ProblemKind::DamagedTable, damaged), (ProblemKind::UnreadColumn, unread_columns)] {
            if count > 0 {
                trace.problems.add(kind, count, 0);
            }
        }
        Ok(trace)
    }

    /// What of a table was not copied.
    #[derive(Default)]
    struct Copied {
        /// Why its rows from some place on are missing.
        damage: Option<String>,
        /// Names of the columns with values that no database has.
        unread_columns: BTreeSet<String>,
    }

    fn columns_of(file: &Path) -> std::result::Result<Vec<String>, String> {
        let mut columns = Vec::new();
        let mut header = |names: &[&str]| {
            columns = names.iter().map(|name| (*name).to_owned()).collect();
            false
        };
        each_row(file, &mut header, &mut |_| false).map(|()| columns)
    }

    /// Copies one table.
    fn copy(connection: &Connection, file: &Path, watch: &dyn Watch) -> rusqlite::Result<Copied> {
        let columns = match columns_of(file) {
            Ok(columns) if !columns.is_empty() => columns,
            other => return Ok(Copied { damage: other.err(), ..Copied::default() }),
        };
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let (table, names) = (quoted(&name(file)), columns.iter().map(|name| quoted(name)));
        connection.execute_batch(&format!("CREATE TABLE {table} ({})", names.collect::<Vec<_>>().join(", ")))?;
        let places = vec!["?"; columns.len()].join(", ");
        let mut statement = connection.prepare(&format!("INSERT INTO {table} VALUES ({places})"))?;
        let (mut failed, mut copied, cancel) = (None, Copied::default(), watch.cancel());
        let read = each_row(file, &mut |_| true, &mut |cells| {
            let unread = cells.iter().zip(&columns).filter(|(cell, _)| **cell == Cell::Other);
            for (_, column) in unread {
                if !copied.unread_columns.contains(column) {
                    copied.unread_columns.insert(column.clone());
                }
            }
            failed = statement.execute(params_from_iter(cells.iter().map(value))).err();
            failed.is_none() && !cancel.is_cancelled()
        });
        copied.damage = read.err();
        failed.map_or(Ok(copied), Err)
    }

    fn value(cell: &Cell<'_>) -> Value {
        match cell {
            Cell::Null | Cell::Other => Value::Null,
            Cell::Int(number) => Value::Integer(*number),
            Cell::Float(number) => Value::Real(*number),
            Cell::Text(text) => Value::Text((*text).to_owned()),
            Cell::Bytes(bytes) => Value::Blob(bytes.to_vec()),
        }
    }
}
