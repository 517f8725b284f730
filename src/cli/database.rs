//! Opens SQLite exports, which are files and no streams: where they lie, or unpacked for as long as they are read.

use super::file_io::{Progress, label, read_full};
use crate::input::{Unpacker, nsys};
use crate::trace::{DatabaseInfo, ProblemKind, Trace};
use crate::{Error, Result};
use std::fs::File;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

const MAGIC: &[u8] = b"SQLite format 3\0";
/// Packed, the first bytes of a database stand somewhere within these.
const HEAD_BYTES: usize = 4096;
const PIECE_BYTES: usize = 1 << 20;

/// How a file holds a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Database {
    /// Not at all, or it is no file that could be read twice.
    None,
    Plain,
    /// Gzipped.
    Packed,
}

/// Looks at the first bytes, and goes back to them.
pub(super) fn find(file: &mut File) -> std::io::Result<Database> {
    if !file.metadata()?.is_file() {
        return Ok(Database::None);
    }
    let mut head = vec![0; HEAD_BYTES];
    let read = read_full(file, &mut head)?;
    head.truncate(read);
    file.rewind()?;
    let mut plain = Vec::new();
    let mut unpacker = Unpacker::default();
    // What cannot be unpacked is told where the whole file is.
    let _: std::result::Result<(), ()> = unpacker.push(&head, &mut |bytes| {
        plain.extend_from_slice(bytes);
        Ok(())
    });
    Ok(match (plain.starts_with(MAGIC), unpacker.is_plain()) {
        (false, _) => Database::None,
        (true, true) => Database::Plain,
        (true, false) => Database::Packed,
    })
}

/// Reads the export at `path`.
pub(super) fn read(path: &Path, label: &str) -> Result<Box<Trace>> {
    let progress = Progress::new(label, std::fs::metadata(path).map_or(0, |file| file.len()));
    let trace = nsys::open_with(path, label, &mut |rows| progress.show_rows(rows));
    progress.clear();
    trace.map(Box::new)
}

/// What tables the export at `path` has; none where it is no database, or a packed one.
pub(super) fn describe(path: &Path) -> Result<Option<DatabaseInfo>> {
    let failed = |error: std::io::Error| Error::io(path.display().to_string(), &error);
    let mut file = File::open(path).map_err(failed)?;
    if find(&mut file).map_err(failed)? != Database::Plain {
        return Ok(None);
    }
    nsys::describe(path, &label(path)).map(Some)
}

/// Unpacks the export into a file that is gone afterwards, and reads that.
pub(super) fn unpack_and_read(file: File, path: &Path, label: &str) -> Result<Box<Trace>> {
    let mut unpacked = Unpacked::new().map_err(|error| Error::io("the folder for temporary files", &error))?;
    let failed = |error: std::io::Error| {
        Error::io(format!("{}, unpacked to {}", path.display(), unpacked.path.display()), &error)
    };
    let damage = unpack(file, &mut unpacked.file).map_err(failed)?;
    let mut trace = read(&unpacked.path, label)?;
    if let Some((kind, at)) = damage
        && !trace.problems.has(kind)
    {
        trace.problems.add(kind, 1, at);
    }
    Ok(trace)
}

fn unpack(mut packed: File, out: &mut Option<File>) -> std::io::Result<Option<(ProblemKind, u64)>> {
    let Some(mut out) = out.take() else { return Ok(None) };
    let mut unpacker = Unpacker::default();
    let mut write = |bytes: &[u8]| out.write_all(bytes);
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let read = read_full(&mut packed, &mut piece)?;
        if read == 0 {
            return unpacker.finish(&mut write);
        }
        unpacker.push(piece.get(..read).unwrap_or_default(), &mut write)?;
    }
}

/// A file among the temporary ones, removed when this is dropped.
struct Unpacked {
    path: PathBuf,
    file: Option<File>,
}

impl Unpacked {
    /// A new file: one that lies there already is never written to.
    fn new() -> std::io::Result<Self> {
        let folder = std::env::temp_dir();
        for number in 0..u32::MAX {
            let path = folder.join(format!("gpuprism-{}-{number}.sqlite", std::process::id()));
            match File::options().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Self { path, file: Some(file) }),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(std::io::ErrorKind::AlreadyExists.into())
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
