//! Opens SQLite exports. SQLite needs random access, so a gzipped export is first decompressed to a temporary file, which is
//! deleted after reading.

use super::io::{is_standard_input, label, read_full};
use super::watch::{Done, Progress, Watch};
use crate::input::{Unpacker, nsys};
use crate::trace::{DatabaseInfo, ProblemKind, Trace};
use crate::{Error, Result};
use std::fs::File;
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

pub(super) const MAGIC: &[u8] = b"SQLite format 3\0";
/// Enough compressed bytes to decompress the magic number of a database.
const HEAD_BYTES: usize = 4096;
const BUFFER_BYTES: usize = 1 << 20;

/// Whether a file is a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Database {
    /// Not a database, or not a regular file (a pipe cannot be read twice).
    None,
    Plain,
    Gzipped,
}

/// Detects a database by its first bytes and rewinds the file.
pub(super) fn detect(file: &mut File) -> std::io::Result<Database> {
    if !file.metadata()?.is_file() {
        return Ok(Database::None);
    }
    let mut head = vec![0; HEAD_BYTES];
    let read = read_full(file, &mut head)?;
    head.truncate(read);
    file.rewind()?;
    let mut plain = Vec::new();
    let mut unpacker = Unpacker::default();
    // Errors of the decompression are reported when the whole file is read.
    let _: std::result::Result<(), ()> = unpacker.push(&head, &mut |bytes| {
        plain.extend_from_slice(bytes);
        Ok(())
    });
    Ok(match (plain.starts_with(MAGIC), unpacker.is_plain()) {
        (false, _) => Database::None,
        (true, true) => Database::Plain,
        (true, false) => Database::Gzipped,
    })
}

/// Reads the export at `path`, until it is cancelled.
pub(super) fn read(path: &Path, label: &str, watch: &dyn Watch) -> Result<Box<Trace>> {
    let length = std::fs::metadata(path).map_or(0, |file| file.len());
    let show = |done: Done| watch.progress(&Progress { label, length, done });
    let cancel = watch.cancel();
    let trace = nsys::open_with(path, label, &mut |rows| show(Done::Rows(rows)), move || cancel.is_cancelled());
    show(Done::All);
    trace.map(Box::new)
}

/// Lists the tables of the export at `path`. `None` if the file is not an uncompressed database.
pub(crate) fn describe(path: &Path) -> Result<Option<DatabaseInfo>> {
    if is_standard_input(path) {
        return Ok(None);
    }
    let failed = |error: std::io::Error| Error::io(path.display().to_string(), &error);
    let mut file = File::open(path).map_err(failed)?;
    if detect(&mut file).map_err(failed)? != Database::Plain {
        return Ok(None);
    }
    nsys::describe(path, &label(path)).map(Some)
}

/// Decompresses the export to a temporary file and reads that file, until it is cancelled.
pub(super) fn unpack_and_read(file: File, path: &Path, label: &str, watch: &dyn Watch) -> Result<Box<Trace>> {
    let mut temporary = TemporaryFile::new().map_err(|error| Error::io("the folder for temporary files", &error))?;
    let failed = |error: std::io::Error| {
        Error::io(format!("{}, decompressed to {}", path.display(), temporary.path.display()), &error)
    };
    let damage = unpack(file, &mut temporary.file, watch).map_err(failed)?;
    let mut trace = read(&temporary.path, label, watch)?;
    if let Some((kind, offset)) = damage
        && !trace.problems.has(kind)
    {
        trace.problems.add(kind, 1, offset);
    }
    Ok(trace)
}

fn unpack(mut packed: File, out: &mut Option<File>, watch: &dyn Watch) -> std::io::Result<Option<(ProblemKind, u64)>> {
    let Some(mut out) = out.take() else { return Ok(None) };
    let mut unpacker = Unpacker::default();
    let mut write = |bytes: &[u8]| out.write_all(bytes);
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        if watch.cancel().is_cancelled() {
            return Err(std::io::Error::other("reading was cancelled"));
        }
        let read = read_full(&mut packed, &mut buffer)?;
        if read == 0 {
            return unpacker.finish(&mut write);
        }
        unpacker.push(buffer.get(..read).unwrap_or_default(), &mut write)?;
    }
}

/// A temporary file, deleted on drop.
pub(super) struct TemporaryFile {
    pub(super) path: PathBuf,
    file: Option<File>,
}

impl TemporaryFile {
    /// Creates a new file. Never overwrites an existing one.
    pub(super) fn new() -> std::io::Result<Self> {
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

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
