//! Reads input files: a trace, an earlier report, or the files of one run together.
//!
//! The path `-` stands for standard input. SQLite exports are read in place. Any other file is read by two threads: one reads and decompresses, the other parses. The
//! channels between them are bounded, so the buffers need a few MiB for a file of any size.

use super::database::{self, Database};
use super::entries::{entries, traces_in};
use super::graph_captures;
use super::io::{CHUNK_BYTES, is_standard_input, label, read_full};
use super::nsys;
use super::parquet_folder;
use super::watch::{self, Done, Progress, Quiet, Watch};
use crate::analysis::results::Run;
use crate::input::known_formats::{self, Other, not_read};
use crate::input::{Imported, Reader, Unpacker, file_sets};
use crate::report::Report;
use crate::report::brief::shell_word;
use crate::session::{self, Opened, UserFile};
use crate::trace::{Format, ProblemKind, Trace};
use crate::{Error, Result};
use std::fs::File;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The maximum number of full buffers that wait for the parser.
const MAX_WAITING_BUFFERS: usize = 4;

/// Reads one file and detects what it contains. A folder is an error.
pub(crate) fn open(path: &Path, watch: &dyn Watch) -> Result<Opened> {
    let label = label(path);
    if path.is_dir() {
        return open_folder(path, &label, watch);
    }
    session::open(&label, import(path, &label, Reader::new(&label), watch)?)
}

/// The one trace in a folder, beside which there may be captures of graphs and files that are no traces. The path itself if it is no folder,
/// or a folder whose files belong together, or one with several traces.
pub(crate) fn trace_in(path: &Path) -> PathBuf {
    if !path.is_dir() {
        return path.to_owned();
    }
    // Whoever opens the folder warns of what is left out.
    one_trace(path, &Quiet).unwrap_or_else(|| path.to_owned())
}

fn one_trace(folder: &Path, watch: &dyn Watch) -> Option<PathBuf> {
    if let Some(run) = graph_captures::run_beside(folder, watch) {
        return Some(run);
    }
    if parquet_folder::tables_of(folder, watch).is_some() {
        return None;
    }
    let names = names_in(folder, watch).ok()?;
    if file_sets::in_folder(&names).is_some() {
        return None;
    }
    match traces_in(&names).as_slice() {
        [one] => Some(folder.join(one)),
        // The export of an .nsys-rep is the same run.
        [one, other] if is_export(other, one) || is_export(one, other) => {
            Some(folder.join(if nsys::is_report(Path::new(one)) { one } else { other }))
        }
        _ => None,
    }
}

/// Whether the first file is the export of the second one.
fn is_export(file: &str, report: &str) -> bool {
    let (file, report) = (Path::new(file), Path::new(report));
    nsys::is_report(report) && file == report.with_extension("sqlite")
}

fn names_in(folder: &Path, watch: &dyn Watch) -> Result<Vec<String>> {
    Ok(entries(folder, None, watch)?.into_iter().map(|entry| entry.path).collect())
}

/// The error for a folder with several traces: the commands that read it.
fn several_traces(label: &str, folder: &Path, names: &[&str]) -> Error {
    let word = |path: &Path| shell_word(&path.display().to_string());
    let (count, place) = (names.len(), word(folder));
    let one = names.first().map_or_else(String::new, |name| word(&folder.join(name)));
    let why = format!(
        "a folder of {count} traces: give one of them, for example {one}, or use `gpuprism triage {place}`, which takes one of each stage, \
         `gpuprism ranks {place}`, which compares the ranks of a job, or `gpuprism facts {place} --out DIR`, which takes all"
    );
    Error::refused(label, why)
}

/// Reads the one run in a folder: the tables of rocprofv3, the trace of torch_npu, or the Parquet tables of Nsight Systems.
fn open_folder(path: &Path, label: &str, watch: &dyn Watch) -> Result<Opened> {
    if let Some(tables) = parquet_folder::tables_of(path, watch) {
        let trace = parquet_folder::read(&tables, label, watch)?;
        return session::open(label, Imported::Trace(trace));
    }
    let names = names_in(path, watch)?;
    if let Some(set) = file_sets::in_folder(&names) {
        let files = set.iter().filter_map(|index| names.get(*index)).map(|name| path.join(name));
        return open_set(&files.collect::<Vec<_>>(), watch);
    }
    match traces_in(&names).as_slice() {
        [] => Err(not_read(label, Other::ManyRuns)),
        [one] => open(&path.join(one), watch),
        several => Err(several_traces(label, path, several)),
    }
}

/// Reads the files of one run as one trace.
pub(crate) fn open_set(paths: &[PathBuf], watch: &dyn Watch) -> Result<Opened> {
    let Some(first) = paths.first() else { return Err(Error::usage("FILE", "no file given")) };
    if paths.len() == 1 {
        return open(first, watch);
    }
    let label = label(first);
    session::open(&label, import_set(paths, &label, watch)?)
}

/// Reads the tables one after the other, each gzipped or not. A line end after each ends a table that was cut.
fn import_set(paths: &[PathBuf], label: &str, watch: &dyn Watch) -> Result<Imported> {
    let mut reader = Reader::new(label);
    let mut damage = None;
    for path in paths {
        let failed = |error: std::io::Error| Error::io(path.display().to_string(), &error);
        let mut file = File::open(path).map_err(failed)?;
        let mut buffer = vec![0; CHUNK_BYTES];
        let mut unpacker = Unpacker::default();
        loop {
            let read = read_full(&mut file, &mut buffer).map_err(failed)?;
            if read == 0 {
                break;
            }
            watch::check(watch, label)?;
            unpacker.push(buffer.get(..read).unwrap_or_default(), &mut |plain| reader.feed(plain))?;
        }
        damage = damage.or(unpacker.finish(&mut |plain| reader.feed(plain))?);
        reader.feed(b"\n")?;
    }
    reader.finish(damage)
}

/// Returns the files of each run, in the order of their first files.
pub fn by_run(paths: &[PathBuf]) -> Vec<Vec<PathBuf>> {
    let names: Vec<String> = paths.iter().map(|path| path.to_string_lossy().into_owned()).collect();
    let set = |indices: Vec<usize>| indices.into_iter().filter_map(|index| paths.get(index).cloned()).collect();
    file_sets::by_run(&names).into_iter().map(set).collect()
}

/// A trace, which contains one run to analyze, or an earlier report, which contains analyzed runs.
#[derive(Debug)]
pub enum RunSource {
    /// A trace.
    Trace(Box<Trace>),
    /// An earlier report.
    Report(Report),
}

/// Reads a trace or a report. An `.nsys-rep` is exported with `nsys` first. Any other file is an error.
pub(crate) fn read(path: &Path, watch: &dyn Watch) -> Result<RunSource> {
    let path = &nsys::exported(&trace_in(path), "nsys")?;
    match read_without_captures(path, watch)? {
        RunSource::Trace(trace) => Ok(RunSource::Trace(with_captures(trace, path, watch)?)),
        report => Ok(report),
    }
}

/// The same without the captures of graphs beside the trace.
pub(crate) fn read_without_captures(path: &Path, watch: &dyn Watch) -> Result<RunSource> {
    let path = &nsys::exported(path, "nsys")?;
    match open(path, watch)? {
        Opened::Trace(trace) => Ok(RunSource::Trace(trace)),
        Opened::Report(report) => Ok(RunSource::Report(report)),
        Opened::Rules(_) | Opened::Phases(_) | Opened::ModelConfig(_) | Opened::Server(_) => {
            Err(known_formats::no_trace(&label(path)))
        }
    }
}

/// Reads the files of one run, as [`by_run`] groups them. An `.nsys-rep` is exported with the program `nsys` first.
///
/// # Errors
/// A file cannot be read, or is neither a trace nor a report.
pub fn read_run(paths: &[PathBuf], nsys: &str, watch: &dyn Watch) -> Result<RunSource> {
    let exported = |path: &PathBuf| nsys::exported(&trace_in(path), nsys);
    let paths: Vec<PathBuf> = paths.iter().map(exported).collect::<Result<_>>()?;
    let why = match open_set(&paths, watch)? {
        Opened::Trace(trace) => {
            let path = paths.first().map(PathBuf::as_path).unwrap_or(Path::new(""));
            return Ok(RunSource::Trace(with_captures(trace, path, watch)?));
        }
        Opened::Report(report) => return Ok(RunSource::Report(report)),
        Opened::Rules(_) => "a rule file, not a trace: use `--rules` for it",
        Opened::Server(_) => "server arguments, not a trace",
        Opened::ModelConfig(_) => "the config of a model, not a trace: use `--config` for it",
        Opened::Phases(_) => "a phase map, not a trace: use `--phase-map` for it",
    };
    Err(Error::refused(paths.first().map(|path| label(path)).unwrap_or_default(), why))
}

/// Joins the graph replays of a trace with the traces of their captures beside it.
fn with_captures(mut trace: Box<Trace>, path: &Path, watch: &dyn Watch) -> Result<Box<Trace>> {
    graph_captures::attach(&mut trace, path, watch)?;
    Ok(trace)
}

/// Reads a trace. Any other file is an error.
pub(crate) fn open_trace(path: &Path, watch: &dyn Watch) -> Result<Box<Trace>> {
    let path = &trace_in(path);
    match open(path, watch)? {
        Opened::Trace(trace) => with_captures(trace, path, watch),
        Opened::Report(report) => Err(Error::refused(
            label(path),
            format!("{}; give a trace here, or use `gpuprism report` for this file", report.kind()),
        )),
        _ => Err(known_formats::no_trace(&label(path))),
    }
}

/// Checks that the file at `path` is what a profiler wrote: a trace, or the tree of Proton. Errors name `label`.
pub(super) fn check_trace(path: &Path, label: &str, watch: &dyn Watch) -> Result<()> {
    match session::open(label, import(path, label, Reader::new(label), watch)?)? {
        Opened::Trace(_) => Ok(()),
        Opened::Report(report) if report.runs.iter().all(|run| run.format == Format::ProtonTree) => Ok(()),
        _ => Err(Error::refused(
            label,
            "not a trace: `gpuprism report --redact` prints an earlier report without private text",
        )),
    }
}

/// Reads one file for the triage. Unlike [`open`], it keeps the CPU ops and Python frames of a trace.
pub(crate) fn open_with_code(path: &Path, label: &str, watch: &dyn Watch) -> Result<Opened> {
    match session::open(label, import(path, label, Reader::with_code(label), watch)?)? {
        Opened::Trace(trace) => with_captures(trace, path, watch).map(Opened::Trace),
        other => Ok(other),
    }
}

/// Reads the table of NVLink samples that nsys-llm-explainer writes next to its `report.json`. `None` if `path` is another file
/// or there is no such table, or it is empty, as `gpuprism explain` writes a table without rows; an unreadable table is a warning.
pub(super) fn nvlink_samples_of_report(path: &Path, watch: &dyn Watch) -> Option<Run> {
    let file = path.with_file_name("tables").join("nvlink_timeseries.csv");
    let has_rows = std::fs::metadata(&file).is_ok_and(|file| file.is_file() && file.len() > 0);
    if label(path) != "report.json" || !has_rows {
        return None;
    }
    match open(&file, watch) {
        Ok(Opened::Report(report)) => report.runs.into_iter().next(),
        Ok(_) => None,
        Err(error) => {
            watch.warn(&error.to_string());
            None
        }
    }
}

/// Reads rule files with [`read_text`].
///
/// # Errors
/// Those of [`read_text`].
pub fn rules(paths: &[PathBuf]) -> Result<Vec<UserFile>> {
    paths.iter().map(|path| read_text(path)).collect()
}

/// Reads a rule file, phase map, log or `server_args.json` as text.
///
/// # Errors
/// The file cannot be read or is not UTF-8.
pub fn read_text(path: &Path) -> Result<UserFile> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| Error::io(&file, &error))?;
    Ok(UserFile { file, text })
}

fn import(path: &Path, label: &str, reader: Reader, watch: &dyn Watch) -> Result<Imported> {
    if is_standard_input(path) {
        return import_standard_input(label, reader, watch);
    }
    let failed = |error: std::io::Error| Error::io(path.display().to_string(), &error);
    let mut file = File::open(path).map_err(failed)?;
    match database::detect(&mut file).map_err(failed)? {
        Database::None => {
            let length = file.metadata().map_err(failed)?.len();
            stream(file, length, &failed, label, reader, watch)
        }
        Database::Plain => database::read(path, label, watch).map(Imported::Trace),
        Database::Gzipped => database::unpack_and_read(file, path, label, watch).map(Imported::Trace),
    }
}

/// Reads standard input. Its length is not known, so no progress is shown. A database cannot be read there: the reader refuses it.
fn import_standard_input(label: &str, reader: Reader, watch: &dyn Watch) -> Result<Imported> {
    let input = std::io::stdin();
    if input.is_terminal() {
        let why =
            "nothing is piped into it: give a file, or for example `ssh host cat trace.json.gz | gpuprism report -`";
        return Err(Error::usage(label, why));
    }
    stream(input, 0, &|error| Error::io(label, &error), label, reader, watch)
}

/// Decompresses the input of `length` bytes in one thread and parses it in another.
fn stream(
    input: impl Read + Send,
    length: u64,
    failed: &dyn Fn(std::io::Error) -> Error,
    label: &str,
    reader: Reader,
    watch: &dyn Watch,
) -> Result<Imported> {
    std::thread::scope(|scope| {
        let (full_sender, full_buffers) = sync_channel(MAX_WAITING_BUFFERS);
        // One more buffer is being filled, and one is being parsed.
        let (empty_sender, empty_buffers) = sync_channel(MAX_WAITING_BUFFERS + 2);
        let show = move |done: Done| watch.progress(&Progress { label, length, done });
        let unpacker = scope.spawn(move || unpack(input, &full_sender, &empty_buffers, &show));
        let check = || watch::check(watch, label);
        let parsed = parse(reader, &full_buffers, &empty_sender, &check);
        // Closing the channel stops the unpacker after a parse error.
        drop(full_buffers);
        let unpacking = unpacker.join().unwrap_or_else(|_| Err(std::io::Error::other("the reading thread failed")));
        parsed?.finish(unpacking.map_err(failed)?)
    })
}

fn parse(
    mut reader: Reader,
    full_buffers: &Receiver<Vec<u8>>,
    empty_sender: &SyncSender<Vec<u8>>,
    check: &dyn Fn() -> Result<()>,
) -> Result<Reader> {
    for buffer in full_buffers {
        check()?;
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
    mut input: impl Read,
    full_sender: &SyncSender<Vec<u8>>,
    empty_buffers: &Receiver<Vec<u8>>,
    show: &dyn Fn(Done),
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
        let read = read_full(&mut input, &mut buffer)?;
        if read == 0 {
            break;
        }
        buffer.truncate(read);
        read_bytes += read as u64;
        show(Done::Bytes(read_bytes));
        // Uncompressed data is sent without a copy.
        let sent = if unpacker.is_plain() { send(buffer) } else { unpacker.push(&buffer, &mut send_copy) };
        if sent.is_err() {
            return Ok(None);
        }
    }
    show(Done::All);
    Ok(unpacker.finish(&mut send_copy).unwrap_or(None))
}
