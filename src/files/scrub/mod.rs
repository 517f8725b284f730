//! Writes a copy of a trace without what is private: variables of the environment, arguments of the command line, names of hosts
//! and users, paths, and all other words that are not public (`report::redact`). Times, ids and counts stay, and public words stay
//! in their places, so a report of the copy has the same numbers.
//!
//! The trace is read twice: first for the names of hosts and users, which may stand in texts before the member that tells them. The
//! copy appears under its name only after it was written and read as a trace. Streams need the memory of one text, or of one outermost
//! message.

mod database;
mod forms;
mod json;
mod lines;
mod protobuf;
mod removal;

use super::database::{Database, MAGIC, detect};
use super::io::{CHUNK_BYTES, is_standard_input, label, read_full};
use super::open::check_trace;
use super::{Watch, watch};
use crate::input::{Unpacker, nsys};
use crate::{Error, Result};
use flate2::{Compression, write::GzEncoder};
use json::JsonScrubber;
use lines::LineScrubber;
use protobuf::ProtobufScrubber;
use removal::Removal;
use std::fs::File;
use std::io::{BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

/// What was removed: title and count.
#[derive(Debug, Default)]
pub(crate) struct Scrubbed {
    /// By kind.
    pub(crate) removed: Vec<(String, u64)>,
    /// Whether the file is damaged, so that the copy contains only a part.
    pub(crate) is_damaged: bool,
}

/// Writes a scrubbed copy of the trace at `path` to `copy`.
///
/// # Errors
/// The file cannot be read or is no trace that can be scrubbed, or the copy cannot be written.
pub(crate) fn scrub(path: &Path, copy: &Path, watch: &dyn Watch) -> Result<Scrubbed> {
    let name = label(path);
    if path.is_dir() {
        return Err(Error::refused(name, "a folder, which gpuprism cannot scrub: give its files one by one"));
    }
    if path.canonicalize().ok().is_some_and(|path| copy.canonicalize().is_ok_and(|copy| copy == path)) {
        return Err(Error::usage("--out", "the copy would replace the trace: give another name"));
    }
    let unfinished = Unfinished::beside(copy);
    if is_standard_input(path) {
        let kept = Unfinished::beside(&copy.with_extension("in"));
        let mut file = kept.filled_from(&mut std::io::stdin())?;
        let scrubbed = scrub_stream(&mut file, path, &unfinished.path, watch)?;
        return finished(scrubbed, unfinished, copy, &name, watch);
    }
    let failed = |error: std::io::Error| Error::io(path.display().to_string(), &error);
    let mut file = File::open(path).map_err(failed)?;
    let scrubbed = match detect(&mut file).map_err(failed)? {
        Database::None => scrub_stream(&mut file, path, &unfinished.path, watch)?,
        Database::Plain => scrub_database(path, &unfinished.path)?,
        Database::Gzipped => {
            return Err(Error::refused(
                name,
                "a packed database, which gpuprism cannot scrub: unpack it with `gunzip`",
            ));
        }
    };
    finished(scrubbed, unfinished, copy, &name, watch)
}

/// Keeps the copy. What cannot be read as a trace is not kept, and the reader says what it is.
fn finished(
    scrubbed: Scrubbed,
    unfinished: Unfinished,
    copy: &Path,
    name: &str,
    watch: &dyn Watch,
) -> Result<Scrubbed> {
    check_trace(&unfinished.path, name, watch)?;
    unfinished.keep(copy)?;
    Ok(scrubbed)
}

/// The copy before it is complete; deleted on drop.
struct Unfinished {
    path: PathBuf,
}

impl Unfinished {
    /// In the folder of the copy, so that renaming it does not copy it. The end of the name tells some formats.
    fn beside(copy: &Path) -> Self {
        let name = format!("gpuprism-unfinished-{}-{}", std::process::id(), label(copy));
        Self { path: copy.with_file_name(name) }
    }

    /// A file with all bytes of the input, to be read twice. Its name is removed at once where the system allows it, so that nothing
    /// private stays when the program is killed.
    fn filled_from(&self, input: &mut dyn Read) -> Result<File> {
        let failed = |error: std::io::Error| Error::io(self.path.display().to_string(), &error);
        let options = || File::options().read(true).write(true).create_new(true).open(&self.path);
        let mut file = options().map_err(failed)?;
        let _ = std::fs::remove_file(&self.path);
        std::io::copy(input, &mut file).map_err(failed)?;
        file.rewind().map_err(failed)?;
        Ok(file)
    }

    fn keep(self, copy: &Path) -> Result<()> {
        std::fs::rename(&self.path, copy).map_err(|error| Error::io(copy.display().to_string(), &error))
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn scrub_database(path: &Path, copy: &Path) -> Result<Scrubbed> {
    let name = label(path);
    let unreadable = |error: rusqlite::Error| Error::refused(&name, format!("cannot be scrubbed: {error}"));
    let source = nsys::connection(path, &name)?;
    let mut removal = Removal::default();
    let mut target = rusqlite::Connection::open(copy).map_err(unreadable)?;
    database::scrub(&source, &mut target, &mut removal).map_err(unreadable)?;
    target.close().map_err(|(_, error)| unreadable(error))?;
    Ok(Scrubbed { removed: removal.counts(), is_damaged: false })
}

/// The scrubber of a format that is a stream.
enum Scrubber {
    Json(JsonScrubber),
    Lines(LineScrubber),
    Protobuf(ProtobufScrubber),
}

impl Scrubber {
    /// The scrubber of a file that begins with these bytes.
    fn of(name: &str, first_bytes: &[u8]) -> Result<Self> {
        let text = first_bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(first_bytes).trim_ascii_start();
        if first_bytes.starts_with(MAGIC) {
            let why = "a database, which cannot be scrubbed as a stream: save it as a file and give its path";
            return Err(Error::refused(name, why));
        }
        if let Some(protobuf) = ProtobufScrubber::of(first_bytes) {
            return Ok(Self::Protobuf(protobuf));
        }
        if first_bytes.contains(&0) {
            let why = "a format that gpuprism cannot scrub: it scrubs JSON, CSV, SQLite databases, XLA profiles and Perfetto traces; \
                       share `gpuprism report --redact` instead";
            return Err(Error::refused(name, why));
        }
        Ok(match text.first() {
            Some(b'{' | b'[') => Self::Json(JsonScrubber::default()),
            _ => Self::Lines(LineScrubber::default()),
        })
    }

    fn push(&mut self, bytes: &[u8], removal: &mut Removal, out: &mut Vec<u8>) {
        match self {
            Self::Json(json) => json.push(bytes, removal, out),
            Self::Lines(lines) => lines.push(bytes, removal, out),
            Self::Protobuf(protobuf) => protobuf.push(bytes, removal, out),
        }
    }

    /// Scrubs what is left at the end of the file. Returns whether the file is damaged or cut, as far as this scrubber must know it.
    fn finish(&mut self, removal: &mut Removal, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Json(json) => json.finish(removal, out),
            Self::Lines(lines) => lines.finish(removal, out),
            Self::Protobuf(protobuf) => return protobuf.finish(out),
        }
        false
    }
}

/// Scrubs the unpacked bytes of a stream, and packs them again as they were.
fn scrub_stream(input: &mut File, path: &Path, copy: &Path, watch: &dyn Watch) -> Result<Scrubbed> {
    let failed = |error: std::io::Error| Error::io(path.display().to_string(), &error);
    let mut magic = [0; 2];
    read_full(input, &mut magic).map_err(failed)?;
    let mut removal = Removal::default();
    input.rewind().map_err(failed)?;
    push_all(input, path, &mut removal, watch, &mut |scrubbed| {
        scrubbed.clear();
        Ok(())
    })?;
    removal.end_learning();
    input.rewind().map_err(failed)?;
    let mut output = Output::create(copy, magic == [0x1f, 0x8b])?;
    let is_damaged = push_all(input, path, &mut removal, watch, &mut |scrubbed| output.write(scrubbed))?;
    output.finish()?;
    Ok(Scrubbed { removed: removal.counts(), is_damaged })
}

/// Gives all unpacked bytes to a scrubber, and what it writes to `take`, which empties it. Returns whether the file is damaged.
fn push_all(
    input: &mut File,
    path: &Path,
    removal: &mut Removal,
    watch: &dyn Watch,
    take: &mut dyn FnMut(&mut Vec<u8>) -> Result<()>,
) -> Result<bool> {
    let name = label(path);
    let (mut unpacker, mut buffer, mut scrubbed) = (Unpacker::default(), vec![0; CHUNK_BYTES], Vec::new());
    let mut scrubber = None;
    let mut push = |plain: &[u8]| -> Result<()> {
        let scrubber = match &mut scrubber {
            Some(scrubber) => scrubber,
            none => none.insert(Scrubber::of(&name, plain)?),
        };
        scrubber.push(plain, removal, &mut scrubbed);
        take(&mut scrubbed)
    };
    loop {
        let read = read_full(input, &mut buffer).map_err(|error| Error::io(path.display().to_string(), &error))?;
        if read == 0 {
            break;
        }
        watch::check(watch, &name)?;
        unpacker.push(buffer.get(..read).unwrap_or_default(), &mut push)?;
    }
    let damage = unpacker.finish(&mut push)?;
    let is_damaged = scrubber.is_some_and(|mut scrubber| scrubber.finish(removal, &mut scrubbed));
    take(&mut scrubbed)?;
    Ok(is_damaged || damage.is_some())
}

/// The file that is written, packed or not.
struct Output {
    path: PathBuf,
    plain: Option<BufWriter<File>>,
    packed: Option<GzEncoder<BufWriter<File>>>,
}

impl Output {
    fn create(path: &Path, is_packed: bool) -> Result<Self> {
        let file = File::create(path).map_err(|error| Error::io(path.display().to_string(), &error))?;
        let (mut plain, mut packed) = (Some(BufWriter::new(file)), None);
        if is_packed {
            packed = plain.take().map(|writer| GzEncoder::new(writer, Compression::default()));
        }
        Ok(Self { path: path.to_owned(), plain, packed })
    }

    /// Writes and removes the bytes.
    fn write(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        let plain = self.plain.as_mut().map_or(Ok(()), |plain| plain.write_all(bytes));
        let packed = self.packed.as_mut().map_or(Ok(()), |packed| packed.write_all(bytes));
        bytes.clear();
        plain.and(packed).map_err(|error| Error::io(self.path.display().to_string(), &error))
    }

    fn finish(self) -> Result<()> {
        let packed = self.packed.map(GzEncoder::finish).transpose();
        let flushed = packed.and_then(|packed| packed.or(self.plain).map_or(Ok(()), |mut plain| plain.flush()));
        flushed.map_err(|error| Error::io(self.path.display().to_string(), &error))
    }
}
