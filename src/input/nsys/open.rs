//! Opens an export on disk, read-only.

use super::describe::database_info;
use super::{HEADER_BYTES, is_cut, read, schema};
use crate::trace::{DatabaseInfo, ProblemKind, Trace};
use crate::{Error, Result};
use rusqlite::{Connection, OpenFlags};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Offset of the write version in the header, and its value in WAL mode.
const WRITE_VERSION_OFFSET: usize = 18;
const WAL_VERSION: u8 = 2;

/// Reads the export at `path`.
///
/// # Errors
/// If the file cannot be read, if a part of it is still in its write-ahead log, and those of [`read`].
pub fn open(path: &Path, label: &str) -> Result<Trace> {
    open_with(path, label, &mut |_| {}, || false)
}

/// Reads the export at `path`. `progress` is called from time to time with the number of rows read so far. Reading ends early once
/// `is_cancelled` returns true.
///
/// # Errors
/// Those of [`open`], and if reading was cancelled.
pub fn open_with(
    path: &Path,
    label: &str,
    progress: &mut dyn FnMut(u64),
    is_cancelled: impl Fn() -> bool + Clone + Send + 'static,
) -> Result<Trace> {
    let (mut connection, header, bytes) = connect(path, label)?;
    end_when(&mut connection, is_cancelled.clone()).map_err(|error| schema::unreadable(label, &error))?;
    let read = read(&connection, label, progress);
    // To the reader, the rest of a cancelled database looks damaged.
    if is_cancelled() {
        return Err(Error::refused(label, "reading was cancelled"));
    }
    let mut trace = read?;
    if is_cut(&header, bytes) && !trace.problems.has(ProblemKind::Truncated) {
        trace.problems.add(ProblemKind::Truncated, 1, bytes);
    }
    Ok(trace)
}

/// Describes the tables of the export at `path`. Reads each table once, to count its rows.
///
/// # Errors
/// Those of [`open`].
pub fn describe(path: &Path, label: &str) -> Result<DatabaseInfo> {
    database_info(&connect(path, label)?.0, label)
}

/// Lets every statement fail once `is_cancelled` returns true.
fn end_when(connection: &mut Connection, is_cancelled: impl FnMut() -> bool + Send + 'static) -> rusqlite::Result<()> {
    /// SQLite runs this many instructions in a few milliseconds.
    const INSTRUCTIONS_PER_CHECK: i32 = 200_000;
    connection.progress_handler(INSTRUCTIONS_PER_CHECK, Some(is_cancelled))
}

/// Opens a database. Also returns the first bytes of the file and its size in bytes.
fn connect(path: &Path, label: &str) -> Result<(Connection, Vec<u8>, u64)> {
    let failed = |error: std::io::Error| Error::io(path.display().to_string(), &error);
    // SQLite does not take an absolute path for a URI or a special name such as `:memory:`.
    let path = &path.canonicalize().map_err(failed)?;
    let (header, bytes) = header(path).map_err(failed)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = if header.get(WRITE_VERSION_OFFSET) == Some(&WAL_VERSION) {
        check_log(path, label)?;
        // Without a log the file is complete, but SQLite reads it without one only if it is immutable.
        let uri = format!("file:{}?immutable=1", escaped(path));
        Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
    } else {
        Connection::open_with_flags(path, flags)
    };
    Ok((opened.map_err(|error| schema::unreadable(label, &error))?, header, bytes))
}

/// Opens the database at `path` read-only.
///
/// # Errors
/// If it cannot be opened, or a part of it is still in its write-ahead log.
pub(crate) fn connection(path: &Path, label: &str) -> Result<Connection> {
    let (connection, ..) = connect(path, label)?;
    // A view or a function of the file's schema must not run.
    connection.execute_batch("PRAGMA trusted_schema=OFF").map_err(|error| schema::unreadable(label, &error))?;
    Ok(connection)
}

fn header(path: &Path) -> std::io::Result<(Vec<u8>, u64)> {
    let (mut file, mut header) = (File::open(path)?, Vec::new());
    file.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut header)?;
    Ok((header, file.metadata()?.len()))
}

fn check_log(path: &Path, label: &str) -> Result<()> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if std::fs::metadata(PathBuf::from(log)).is_ok_and(|log| log.len() > 0) {
        let why = "an SQLite database with unsaved changes in its -wal file: close the program that writes it, or run \
                   `sqlite3 FILE 'PRAGMA journal_mode=DELETE'`, and open it again";
        return Err(Error::refused(label, why));
    }
    Ok(())
}

/// Percent-encodes a path for a URI.
fn escaped(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', "/");
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b':' => char::from(byte).to_string(),
        other => format!("%{other:02x}"),
    };
    let rooted = if text.starts_with('/') { "" } else { "/" };
    rooted.chars().map(String::from).chain(text.bytes().map(byte)).collect()
}
