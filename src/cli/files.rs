//! Reads a file: a database where it lies, anything else on two cores, one reading and unpacking, the other parsing.

use super::database::{self, Database};
pub(super) use super::file_io::label;
use super::file_io::{CHUNK_BYTES, Progress, read_full};
use super::{nsys, say};
use crate::analysis::results::{Run, Severity};
use crate::digits::grouped;
use crate::input::folder::Entry;
use crate::input::{Imported, Reader, Unpacker};
use crate::ordering::StableSort;
use crate::report::Report;
use crate::session::{self, Opened, RuleFile};
use crate::trace::{ProblemKind, Trace};
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Pieces that wait at most; memory stays bounded whichever side is slower.
const PIECES_WAITING: usize = 4;

/// Reads one file and says what it is.
pub(super) fn open(path: &Path) -> Result<Opened> {
    let label = label(path);
    if path.is_dir() {
        let why = "a folder: `gpuprism ranks` and `gpuprism triage` take folders, all else the trace in it";
        return Err(Error::refused(label, why));
    }
    session::open(&label, import(path, &label, Reader::new(&label))?)
}

/// What runs can be had from.
pub(super) enum Readable {
    /// A trace, to be analysed.
    Trace(Box<Trace>),
    /// An earlier report.
    Report(Report),
}

/// Reads one file, which is exported first where it is an `.nsys-rep`, and refuses what holds no run.
pub(super) fn read(path: &Path) -> Result<Readable> {
    let path = &nsys::exported(path, "nsys")?;
    match open(path)? {
        Opened::Trace(trace) => Ok(Readable::Trace(trace)),
        Opened::Report(report) => Ok(Readable::Report(report)),
        Opened::Rules(_) | Opened::Phases(_) | Opened::Server(_) => {
            Err(Error::refused(label(path), "neither a trace nor a report of one"))
        }
    }
}

/// Reads one file with the code that launched its work, and says what it is.
pub(super) fn open_with_code(path: &Path, label: &str) -> Result<Opened> {
    session::open(label, import(path, label, Reader::with_code(label))?)
}

/// The samples that nsys-llm-explainer keeps in a file beside its report, where `path` is such a report.
pub(super) fn series_beside(path: &Path) -> Option<Run> {
    let file = path.with_file_name("tables").join("nvlink_timeseries.csv");
    if label(path) != "report.json" || !file.is_file() {
        return None;
    }
    match open(&file) {
        Ok(Opened::Report(report)) => report.runs.into_iter().next(),
        Ok(_) => None,
        Err(error) => {
            warn(&error.to_string());
            None
        }
    }
}

/// Every file of a folder and its subfolders, by path.
pub(super) fn entries(root: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut seen = BTreeSet::new();
    walk(root, "", &mut seen, &mut entries)?;
    entries.order_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

/// Adds the files of `folder`, whose path below the root is `path`; a folder that a link leads back to is not entered twice.
fn walk(folder: &Path, path: &str, seen: &mut BTreeSet<PathBuf>, entries: &mut Vec<Entry>) -> Result<()> {
    // A profile has hundreds of files; a home folder was not meant.
    const MOST: usize = 100_000;
    let failed = |error: std::io::Error| Error::io(folder.display().to_string(), &error);
    if !seen.insert(folder.canonicalize().map_err(failed)?) {
        return Ok(());
    }
    for file in std::fs::read_dir(folder).map_err(failed)? {
        let file = file.map_err(failed)?;
        let name = file.file_name().to_string_lossy().into_owned();
        let own = if path.is_empty() { name } else { format!("{path}/{name}") };
        // A link that leads nowhere is no file.
        let Ok(about) = std::fs::metadata(file.path()) else { continue };
        if about.is_dir() {
            walk(&file.path(), &own, seen, entries)?;
        } else {
            entries.push(session::folder_entry(&own, about.len(), written_ms(&about)));
        }
        if entries.len() > MOST {
            return Err(Error::refused(
                folder.display().to_string(),
                "more than 100,000 files: name the profile's own folder",
            ));
        }
    }
    Ok(())
}

/// When a file was last written, in milliseconds since 1970; 0 where that is not known.
fn written_ms(about: &std::fs::Metadata) -> i64 {
    let since = about.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(0)
}

/// Rule files, as text.
pub(super) fn rules(paths: &[std::path::PathBuf]) -> Result<Vec<RuleFile>> {
    paths.iter().map(|path| aid(path)).collect()
}

/// A rule file or a phase map.
pub(super) fn aid(path: &Path) -> Result<RuleFile> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| Error::io(&file, &error))?;
    Ok(RuleFile { file, text })
}

fn import(path: &Path, label: &str, reader: Reader) -> Result<Imported> {
    let failed = |error: std::io::Error| Error::io(path.display().to_string(), &error);
    let mut file = File::open(path).map_err(failed)?;
    match database::find(&mut file).map_err(failed)? {
        Database::None => stream(file, path, label, reader),
        Database::Plain => database::read(path, label).map(Imported::Trace),
        Database::Packed => database::unpack_and_read(file, path, label).map(Imported::Trace),
    }
}

fn stream(file: File, path: &Path, label: &str, reader: Reader) -> Result<Imported> {
    let failed = |error: std::io::Error| Error::io(path.display().to_string(), &error);
    let length = file.metadata().map_err(failed)?.len();
    std::thread::scope(|scope| {
        let (pieces, unpacked) = sync_channel(PIECES_WAITING);
        let (used, empties) = sync_channel(PIECES_WAITING + 2);
        let unpacker = scope.spawn(move || unpack(file, &pieces, &empties, &Progress::new(label, length)));
        let parsed = parse(reader, &unpacked, &used);
        // The unpacker stops when nobody takes its pieces any more.
        drop(unpacked);
        let unpacking = unpacker.join().unwrap_or_else(|_| Err(std::io::Error::other("the reading thread failed")));
        parsed?.finish(unpacking.map_err(failed)?)
    })
}

fn parse(mut reader: Reader, unpacked: &Receiver<Vec<u8>>, used: &SyncSender<Vec<u8>>) -> Result<Reader> {
    for piece in unpacked {
        reader.feed(&piece)?;
        let _ = used.try_send(piece);
    }
    Ok(reader)
}

/// The parser has hung up: it refused the file.
#[derive(Debug)]
struct HungUp;

fn unpack(
    mut file: File,
    pieces: &SyncSender<Vec<u8>>,
    empties: &Receiver<Vec<u8>>,
    progress: &Progress,
) -> std::io::Result<Option<(ProblemKind, u64)>> {
    let mut unpacker = Unpacker::default();
    let mut done = 0;
    let send = |piece: Vec<u8>| pieces.send(piece).map_err(|_| HungUp);
    let mut hand_over = |plain: &[u8]| {
        let mut piece = empties.try_recv().unwrap_or_default();
        piece.clear();
        piece.extend_from_slice(plain);
        send(piece)
    };
    loop {
        let mut piece = empties.try_recv().unwrap_or_default();
        piece.resize(CHUNK_BYTES, 0);
        let read = read_full(&mut file, &mut piece)?;
        if read == 0 {
            break;
        }
        piece.truncate(read);
        done += read as u64;
        progress.show(done);
        // Plain bytes go on as they were read, without a copy.
        let sent = if unpacker.is_plain() { send(piece) } else { unpacker.push(&piece, &mut hand_over) };
        if sent.is_err() {
            return Ok(None);
        }
    }
    progress.clear();
    Ok(unpacker.finish(&mut hand_over).unwrap_or(None))
}

/// Writes a file, or says which could not be written.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| Error::io(path.display().to_string(), &error))
}

/// What weakens the numbers of these runs, where what is printed does not hold it.
pub(super) fn warn_of(runs: &[Run]) {
    for run in runs {
        warn_from(run, Severity::Warning);
    }
}

/// The notices of a run from this severity on.
pub(super) fn warn_from(run: &Run, least: Severity) {
    for notice in run.notices.iter().filter(|notice| notice.severity >= least) {
        warn(&format!("{}: {}. {}", run.label, notice.message, notice.advice));
    }
}

/// A table that holds the first of many rows.
pub(super) fn warn_of_rows(runs: &[Run], table: &str) {
    for (run, section) in runs.iter().filter_map(|run| Some((run, run.sections.get(table)?))) {
        let (kept, all) = (section.rows.len() as u64, section.rows_in_all);
        if kept < all {
            warn(&format!("{}: {table}: {} of {} rows are kept", run.label, grouped(kept), grouped(all)));
        }
    }
}

/// A warning that does not stop the work.
pub(super) fn warn(text: &str) {
    say(&format!("gpuprism: {text}"));
}
