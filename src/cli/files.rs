//! Reads input files and writes output files.
//!
//! SQLite exports are read in place. Any other file is read by two threads: one reads and decompresses, the other parses. The
//! channels between them are bounded, so the buffers need a few MiB for a file of any size.

use super::database::{self, Database};
pub(super) use super::file_io::label;
use super::file_io::{CHUNK_BYTES, Progress, read_full};
use super::{nsys, print_error};
use crate::analysis::results::{Run, Severity};
use crate::digits::grouped;
use crate::input::folder::Entry;
use crate::input::{Imported, Reader, Unpacker, file_sets};
use crate::report::Report;
use crate::session::{self, Opened, UserFile};
use crate::trace::{ProblemKind, Trace};
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The maximum number of full buffers that wait for the parser.
const MAX_WAITING_BUFFERS: usize = 4;

/// Reads one file and detects what it contains. A folder is an error.
pub(super) fn open(path: &Path) -> Result<Opened> {
    let label = label(path);
    if path.is_dir() {
        return open_folder(path, &label);
    }
    session::open(&label, import(path, &label, Reader::new(&label))?)
}

/// Reads the one run in a folder: the tables of rocprofv3, or the trace of torch_npu.
fn open_folder(path: &Path, label: &str) -> Result<Opened> {
    let entries = entries(path)?;
    let names: Vec<String> = entries.iter().map(|entry| entry.path.clone()).collect();
    match file_sets::in_folder(&names) {
        Some(set) => {
            open_set(&set.iter().filter_map(|index| names.get(*index)).map(|name| path.join(name)).collect::<Vec<_>>())
        }
        None => {
            let why = "a folder without a single run of rocprofv3 or torch_npu: give the trace in it (`gpuprism ranks` and `gpuprism \
                       triage` accept other folders)";
            Err(Error::refused(label, why))
        }
    }
}

/// Reads the files of one run as one trace.
pub(super) fn open_set(paths: &[PathBuf]) -> Result<Opened> {
    let Some(first) = paths.first() else { return Err(Error::usage("FILE", "no file given")) };
    if paths.len() == 1 {
        return open(first);
    }
    let label = label(first);
    session::open(&label, import_set(paths, &label)?)
}

/// Reads the tables one after the other. A line end after each ends a table that was cut.
fn import_set(paths: &[PathBuf], label: &str) -> Result<Imported> {
    let mut reader = Reader::new(label);
    for path in paths {
        let failed = |error: std::io::Error| Error::io(path.display().to_string(), &error);
        let mut file = File::open(path).map_err(failed)?;
        let mut buffer = vec![0; CHUNK_BYTES];
        loop {
            let read = read_full(&mut file, &mut buffer).map_err(failed)?;
            if read == 0 {
                break;
            }
            reader.feed(buffer.get(..read).unwrap_or_default())?;
        }
        reader.feed(b"\n")?;
    }
    reader.finish(None)
}

/// Returns the files of each run, in the order of their first files.
pub(super) fn by_run(paths: &[PathBuf]) -> Vec<Vec<PathBuf>> {
    let names: Vec<String> = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let set = |indices: Vec<usize>| indices.into_iter().filter_map(|index| paths.get(index).cloned()).collect();
    file_sets::by_run(&names).into_iter().map(set).collect()
}

/// A trace, which contains one run to analyze, or an earlier report, which contains analyzed runs.
pub(super) enum RunSource {
    Trace(Box<Trace>),
    Report(Report),
}

/// Reads a trace or a report. An `.nsys-rep` is exported with `nsys` first. Any other file is an error.
pub(super) fn read(path: &Path) -> Result<RunSource> {
    run_source(path, open)
}

pub(super) fn run_source(path: &Path, open: fn(&Path) -> Result<Opened>) -> Result<RunSource> {
    let path = &nsys::exported(path, "nsys")?;
    match open(path)? {
        Opened::Trace(trace) => Ok(RunSource::Trace(trace)),
        Opened::Report(report) => Ok(RunSource::Report(report)),
        Opened::Rules(_) | Opened::Phases(_) | Opened::ModelConfig(_) | Opened::Server(_) => Err(Error::refused(
            label(path),
            "neither a trace nor a gpuprism report: give a torch.profiler JSON, an Nsight Systems export or a report",
        )),
    }
}

/// Reads a trace. Any other file is an error.
pub(super) fn open_trace(path: &Path) -> Result<Box<Trace>> {
    match open(path)? {
        Opened::Trace(trace) => Ok(trace),
        _ => Err(Error::refused(label(path), "not a trace: use `gpuprism report` for an earlier report")),
    }
}

/// Reads one file for the triage. Unlike [`open`], it keeps the CPU ops and Python frames of a trace.
pub(super) fn open_with_code(path: &Path, label: &str) -> Result<Opened> {
    session::open(label, import(path, label, Reader::with_code(label))?)
}

/// Reads the table of NVLink samples that nsys-llm-explainer writes next to its `report.json`. `None` if `path` is another file
/// or there is no such table; an unreadable table is a warning.
pub(super) fn nvlink_samples_of_report(path: &Path) -> Option<Run> {
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

/// Lists all files of a folder and its subfolders, sorted by path.
pub(super) fn entries(root: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let mut visited = BTreeSet::new();
    walk(root, "", &mut visited, &mut entries)?;
    entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(entries)
}

/// Adds the files of `folder` to `entries`. `path` is its path relative to the root. Visits every folder once, even if links form
/// a cycle.
fn walk(folder: &Path, path: &str, visited: &mut BTreeSet<PathBuf>, entries: &mut Vec<Entry>) -> Result<()> {
    // A profile folder has hundreds of files; the user probably named the wrong folder if there are far more.
    const MAX_FILES: usize = 100_000;
    let failed = |error: std::io::Error| Error::io(folder.display().to_string(), &error);
    if !visited.insert(folder.canonicalize().map_err(failed)?) {
        return Ok(());
    }
    for file in std::fs::read_dir(folder).map_err(failed)? {
        let file = file.map_err(failed)?;
        let name = file.file_name().to_string_lossy().into_owned();
        let relative = if path.is_empty() { name } else { format!("{path}/{name}") };
        // Broken links are skipped.
        let Ok(metadata) = std::fs::metadata(file.path()) else { continue };
        if metadata.is_dir() {
            walk(&file.path(), &relative, visited, entries)?;
        } else {
            entries.push(session::folder_entry(&relative, metadata.len(), modified_ms(&metadata)));
        }
        if entries.len() > MAX_FILES {
            return Err(Error::refused(
                folder.display().to_string(),
                "more than 100,000 files: give the folder of the profile itself",
            ));
        }
    }
    Ok(())
}

/// The modification time in milliseconds since 1970, 0 if unknown.
fn modified_ms(metadata: &std::fs::Metadata) -> i64 {
    let since = metadata.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    since.and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or(0)
}

/// Reads rule files with [`read_text`].
pub(super) fn rules(paths: &[PathBuf]) -> Result<Vec<UserFile>> {
    paths.iter().map(|path| read_text(path)).collect()
}

/// Reads a rule file, phase map, log or `server_args.json` as text.
pub(super) fn read_text(path: &Path) -> Result<UserFile> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| Error::io(&file, &error))?;
    Ok(UserFile { file, text })
}

fn import(path: &Path, label: &str, reader: Reader) -> Result<Imported> {
    let failed = |error: std::io::Error| Error::io(path.display().to_string(), &error);
    let mut file = File::open(path).map_err(failed)?;
    match database::detect(&mut file).map_err(failed)? {
        Database::None => stream(file, path, label, reader),
        Database::Plain => database::read(path, label).map(Imported::Trace),
        Database::Gzipped => database::unpack_and_read(file, path, label).map(Imported::Trace),
    }
}

/// Decompresses the file in one thread and parses it in another.
fn stream(file: File, path: &Path, label: &str, reader: Reader) -> Result<Imported> {
    let failed = |error: std::io::Error| Error::io(path.display().to_string(), &error);
    let length = file.metadata().map_err(failed)?.len();
    std::thread::scope(|scope| {
        let (full_sender, full_buffers) = sync_channel(MAX_WAITING_BUFFERS);
        // One more buffer is being filled, and one is being parsed.
        let (empty_sender, empty_buffers) = sync_channel(MAX_WAITING_BUFFERS + 2);
        let unpacker = scope.spawn(move || unpack(file, &full_sender, &empty_buffers, &Progress::new(label, length)));
        let parsed = parse(reader, &full_buffers, &empty_sender);
        // Closing the channel stops the unpacker after a parse error.
        drop(full_buffers);
        let unpacking = unpacker.join().unwrap_or_else(|_| Err(std::io::Error::other("the reading thread failed")));
        parsed?.finish(unpacking.map_err(failed)?)
    })
}

fn parse(mut reader: Reader, full_buffers: &Receiver<Vec<u8>>, empty_sender: &SyncSender<Vec<u8>>) -> Result<Reader> {
    for buffer in full_buffers {
        reader.feed(&buffer)?;
        // The buffer is reused, or freed if the unpacker has ended.
        let _ = empty_sender.try_send(buffer);
    }
    Ok(reader)
}

/// The error of sending a buffer after the parser failed and closed the channel.
#[derive(Debug)]
struct ParserFailed;

/// Sends the decompressed file to the parser. Returns the result of [`Unpacker::finish`], or `None` if the parser failed.
fn unpack(
    mut file: File,
    full_sender: &SyncSender<Vec<u8>>,
    empty_buffers: &Receiver<Vec<u8>>,
    progress: &Progress,
) -> std::io::Result<Option<(ProblemKind, u64)>> {
    let mut unpacker = Unpacker::default();
    let mut read_bytes = 0;
    let send = |buffer: Vec<u8>| full_sender.send(buffer).map_err(|_| ParserFailed);
    let mut send_copy = |plain: &[u8]| {
        let mut buffer = empty_buffers.try_recv().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(plain);
        send(buffer)
    };
    loop {
        let mut buffer = empty_buffers.try_recv().unwrap_or_default();
        buffer.resize(CHUNK_BYTES, 0);
        let read = read_full(&mut file, &mut buffer)?;
        if read == 0 {
            break;
        }
        buffer.truncate(read);
        read_bytes += read as u64;
        progress.show(read_bytes);
        // Uncompressed data is sent without a copy.
        let sent = if unpacker.is_plain() { send(buffer) } else { unpacker.push(&buffer, &mut send_copy) };
        if sent.is_err() {
            return Ok(None);
        }
    }
    progress.clear();
    Ok(unpacker.finish(&mut send_copy).unwrap_or(None))
}

/// Writes a file. An error message contains the path.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| Error::io(path.display().to_string(), &error))
}

/// Prints the warnings of these runs to standard error. For output formats without notices.
pub(super) fn print_warnings(runs: &[Run]) {
    for run in runs {
        print_notices(run, Severity::Warning);
    }
}

/// Prints the notices of a run that have at least this severity to standard error.
pub(super) fn print_notices(run: &Run, min_severity: Severity) {
    for notice in run.notices.iter().filter(|notice| notice.severity >= min_severity) {
        warn(&format!("{}: {}. {}", run.label, notice.message, notice.advice));
    }
}

/// Warns about each run whose table was cut to its first rows.
pub(super) fn warn_of_missing_rows(runs: &[Run], table: &str) {
    for (run, section) in runs.iter().filter_map(|run| Some((run, run.sections.get(table)?))) {
        let (rows, all) = (section.rows.len() as u64, section.rows_in_all);
        if rows < all {
            warn(&format!("{}: {table}: the table has only {} of {} rows", run.label, grouped(rows), grouped(all)));
        }
    }
}

/// Prints a warning to standard error.
pub(super) fn warn(text: &str) {
    print_error(&format!("gpuprism: {text}"));
}
