//! Opens an export on disk, to read and nothing else.

use super::describe::capture;
use super::{HEADER_BYTES, is_cut, read, schema};
use crate::trace::{DatabaseInfo, ProblemKind, Trace};
use crate::{Error, Result};
use rusqlite::{Connection, OpenFlags};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Where the header says how the file is journaled, and what it says for a write-ahead log.
const JOURNAL_BYTE: usize = 18;
const WRITE_AHEAD_LOG: u8 = 2;

/// Reads the export at `path`.
///
/// # Errors
/// Where there is no such file, where a part of it still lies in a write-ahead log beside it, and those of [`read`].
pub fn open(path: &Path, label: &str) -> Result<Trace> {
    open_with(path, label, &mut |_| {})
}

/// Reads the export at `path`; `progress` hears how many rows were read so far.
///
/// # Errors
/// Those of [`open`].
pub fn open_with(path: &Path, label: &str, progress: &mut dyn FnMut(u64)) -> Result<Trace> {
    let failed = |error: std::io::Error| Error::io(path.display().to_string(), &error);
    // An absolute path means no URI and no special database.
    let path = path.canonicalize().map_err(failed)?;
    let (header, bytes) = header(&path).map_err(failed)?;
    let mut trace = read(&connect(&path, &header, label)?, label, progress)?;
    if is_cut(&header, bytes) && !trace.problems.has(ProblemKind::Truncated) {
        trace.problems.add(ProblemKind::Truncated, 1, bytes);
    }
    Ok(trace)
}

/// What tables the export at `path` has; counting their rows reads each once.
///
/// # Errors
/// Those of [`open`].
pub fn describe(path: &Path, label: &str) -> Result<DatabaseInfo> {
    let failed = |error: std::io::Error| Error::io(path.display().to_string(), &error);
    let path = path.canonicalize().map_err(failed)?;
    let (header, _) = header(&path).map_err(failed)?;
    capture(&connect(&path, &header, label)?, label)
}

fn header(path: &Path) -> std::io::Result<(Vec<u8>, u64)> {
    let (mut file, mut header) = (File::open(path)?, Vec::new());
    file.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut header)?;
    Ok((header, file.metadata()?.len()))
}

fn connect(path: &Path, header: &[u8], label: &str) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let opened = if header.get(JOURNAL_BYTE) == Some(&WRITE_AHEAD_LOG) {
        check_log(path, label)?;
        // Without a log the file is complete, but only as one that never changes can it be read without one.
        let uri = format!("file:{}?immutable=1", escaped(path));
        Connection::open_with_flags(uri, flags | OpenFlags::SQLITE_OPEN_URI)
    } else {
        Connection::open_with_flags(path, flags)
    };
    opened.map_err(|error| schema::unreadable(label, &error))
}

fn check_log(path: &Path, label: &str) -> Result<()> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    if std::fs::metadata(PathBuf::from(log)).is_ok_and(|log| log.len() > 0) {
        let why = "an SQLite database of which a part still lies in the -wal file beside it: close the program that \
                   writes it, or run `sqlite3 FILE 'PRAGMA journal_mode=DELETE'`, and open it again";
        return Err(Error::refused(label, why));
    }
    Ok(())
}

/// The path as a part of a URI.
fn escaped(path: &Path) -> String {
    let text = path.to_string_lossy().replace('\\', "/");
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b':' => char::from(byte).to_string(),
        other => format!("%{other:02x}"),
    };
    let rooted = if text.starts_with('/') { "" } else { "/" };
    rooted.chars().map(String::from).chain(text.bytes().map(byte)).collect()
}
