//! `gpuprism ranks`: compares the ranks of a job, from a folder of traces or from one export with several GPUs.

use super::files::{self, RunSource, StandardError};
use super::redaction::Redaction;
use super::{Format, nsys, print, printable};
use crate::analysis::communication::ranks;
use crate::analysis::communication::ranks::RankLog;
use crate::files::Watch;
use crate::files::ranks::compare_ranks;
use crate::input::folder;
use crate::report::{csv, ranks as words};
use crate::trace::{Trace, Window};
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

/// Show which rank delays the others: time bars per rank, waiting and transfer time in collectives.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Traces or exports of the ranks of a job, or folders with them. One export with several GPUs is enough.
    #[arg(required = true, value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
    /// Analyze only this time range, in seconds from the first GPU op of the first rank of a job: 1.25-1.75, 1.25- or -1.75.
    /// For the other ranks, this is the time between the same collectives. Reads every file twice.
    #[arg(long, value_name = "FROM-TO", allow_hyphen_values = true, value_parser = super::window)]
    window: Option<String>,
    /// Output format; csv prints the table chosen with --table.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The table that csv prints.
    #[arg(long, default_value = "ranks", value_parser = words::TABLES)]
    table: String,
    /// Write the output to this file instead of standard output.
    #[arg(short, long = "out", value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    redaction: Redaction,
}

/// The maximum number of files read in parallel. Each needs a core, and memory for its trace until its log is made.
const MAX_PARALLEL_FILES: usize = 8;

pub(super) fn run(args: &Args) -> Result<()> {
    args.redaction.begin(&args.files);
    let files = input_files(&args.files, None, &StandardError)?;
    let (sources, logs) = logs(&files, &StandardError)?;
    let window_logs = |windows: &[(usize, Window)]| {
        let of_file = |(index, window): &(usize, Window)| match sources.get(*index) {
            Some(file) => read_trace(file, &StandardError).map(|trace| ranks::window_log(&trace, *window)),
            None => Err(Error::usage("--window", "no such file")),
        };
        map_in_parallel(windows, &of_file)
    };
    let ranks = compare_ranks(&logs, args.window.as_deref(), &window_logs, &StandardError)?;
    let ranks = if args.redaction.is_wanted() { words::redacted(ranks) } else { ranks };
    if args.format == Format::Csv {
        words::ungrouped(&ranks).iter().for_each(|sentence| files::warn(sentence));
    }
    let text = match args.format {
        Format::Text => printable(&words::text(&ranks, super::columns_of(&args.out))),
        Format::Markdown => words::markdown(&ranks),
        Format::Json => words::json(&ranks),
        Format::Csv => words::full_table(&ranks, &args.table).map(|table| csv(&table)).unwrap_or_default(),
    };
    match &args.out {
        Some(path) => files::write(path, &text),
        None => print(&text),
    }
}

/// What `ranks` prints about whole traces.
pub(super) fn text(files: &[InputFile], watch: &dyn Watch) -> Result<String> {
    let (_, logs) = logs(files, watch)?;
    let ranks = compare_ranks(&logs, None, &|_| Vec::new(), watch)?;
    Ok(printable(&words::text(&ranks, None)))
}

/// An input file.
pub(super) struct InputFile {
    pub(super) path: PathBuf,
    /// The label in the report. For a file of a folder, its path in the folder, which may contain the rank; with several
    /// folders, also the folder.
    name: String,
    /// False for a file of a folder, which may be anything else than a trace.
    is_named: bool,
}

/// The files that are named, and those of the folders that are named. With `root`, none outside of it, and no
/// `.nsys-rep` of a folder, whose export would write a file.
pub(super) fn input_files(paths: &[PathBuf], root: Option<&Path>, watch: &dyn Watch) -> Result<Vec<InputFile>> {
    let folders: Vec<&PathBuf> = paths.iter().filter(|path| path.is_dir()).collect();
    let mut inputs = Vec::new();
    for path in paths {
        if path.is_dir() {
            let mut entries = files::entries(path, root, watch)?;
            // A capture of graphs ran nothing: it is no rank.
            let copies = folder::trace_viewer_copies(entries.iter().map(|entry| entry.path.as_str()));
            entries.retain(|entry| !folder::is_graph_capture(&entry.path) && !copies.contains(&entry.path));
            match root {
                Some(_) => skip_reports(&mut entries, watch),
                None => entries = without_duplicate_exports(entries),
            }
            let prefix = if folders.len() > 1 { format!("{}/", distinct_name(path, &folders)) } else { String::new() };
            let input = |entry: folder::Entry| InputFile {
                path: path.join(&entry.path),
                name: format!("{prefix}{}", entry.path),
                is_named: false,
            };
            inputs.extend(entries.into_iter().map(input));
        } else {
            inputs.push(InputFile { path: path.clone(), name: files::label(path), is_named: true });
        }
    }
    Ok(inputs)
}

fn skip_reports(entries: &mut Vec<folder::Entry>, watch: &dyn Watch) {
    entries.retain(|entry| {
        let is_report = nsys::is_report(Path::new(&entry.path));
        if is_report {
            watch.warn(&format!("{}: skipped: run `nsys export --type sqlite` on it for the .sqlite", entry.path));
        }
        !is_report
    });
}

/// The name of the folder, or its path if another folder has the same name.
fn distinct_name(folder: &Path, folders: &[&PathBuf]) -> String {
    let name = files::label(folder);
    let is_unique = folders.iter().filter(|other| files::label(other) == name).count() == 1;
    if is_unique { name } else { folder.display().to_string().trim_end_matches('/').to_owned() }
}

/// Removes the SQLite export of each `.nsys-rep`. It is the same run and is read when the `.nsys-rep` is read.
fn without_duplicate_exports(entries: Vec<folder::Entry>) -> Vec<folder::Entry> {
    let exports: BTreeSet<PathBuf> = entries
        .iter()
        .map(|entry| Path::new(&entry.path))
        .filter(|path| nsys::is_report(path))
        .map(|path| path.with_extension("sqlite"))
        .collect();
    entries.into_iter().filter(|entry| !exports.contains(Path::new(&entry.path))).collect()
}

/// All readable files in input order, and their rank logs. A file of a folder that cannot be read is skipped with a warning.
fn logs<'a>(inputs: &'a [InputFile], watch: &dyn Watch) -> Result<(Vec<&'a InputFile>, Vec<RankLog>)> {
    let results = map_in_parallel(inputs, &|file: &InputFile| {
        read_trace(file, watch).map(|trace| RankLog { file: file.name.clone(), ..ranks::log(&trace) })
    });
    let (mut files, mut logs) = (Vec::new(), Vec::new());
    for (file, log) in inputs.iter().zip(results) {
        match log {
            Ok(log) => {
                files.push(file);
                logs.push(log);
            }
            Err(error) if file.is_named => return Err(error),
            Err(error) => watch.warn(&format!("{error}; file skipped")),
        }
    }
    Ok((files, logs))
}

/// Applies `map` to all items, one thread per core, and returns the results in the order of the items.
fn map_in_parallel<T: Sync, R: Send>(items: &[T], map: &(dyn Fn(&T) -> Result<R> + Sync)) -> Vec<Result<R>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, (sender, receiver)) = (AtomicUsize::new(0), channel());
    std::thread::scope(|scope| {
        for _ in 0..cores.min(MAX_PARALLEL_FILES).min(items.len()) {
            let (next, sender) = (&next, sender.clone());
            scope.spawn(move || {
                while let Some((index, item)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|index| Some((index, items.get(index)?)))
                {
                    let _ = sender.send((index, map(item)));
                }
            });
        }
    });
    drop(sender);
    let mut results: Vec<Option<Result<R>>> = items.iter().map(|_| None).collect();
    for (index, result) in receiver {
        if let Some(slot) = results.get_mut(index) {
            *slot = Some(result);
        }
    }
    results.into_iter().flatten().collect()
}

fn read_trace(file: &InputFile, watch: &dyn Watch) -> Result<Box<Trace>> {
    // The comparison of ranks has no use for shapes.
    match crate::files::read_without_captures(&file.path, watch)? {
        RunSource::Trace(trace) => Ok(trace),
        RunSource::Report(report) => {
            let why = format!("{}; it contains no individual collective calls: give the trace", report.kind());
            Err(Error::refused(&file.name, why))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path, paths: &[&str]) -> Vec<String> {
        let paths: Vec<PathBuf> = paths.iter().map(|path| folder.join(path)).collect();
        input_files(&paths, None, &StandardError).unwrap().into_iter().map(|input| input.name).collect()
    }

    #[test]
    fn files_of_several_folders_have_distinct_names_and_each_run_is_read_once() {
        let folder = std::env::temp_dir().join(format!("gpuprism-ranks-paths-{}", std::process::id()));
        let jax = ["jax/one.trace.json", "jax/two.trace.json.gz", "jax/two.xplane.pb", "jax/perfetto_trace.json.gz"];
        let others =
            ["a/run/rank0.json", "b/run/rank0.json", "c/x.nsys-rep", "c/x.sqlite", "c/d/x.sqlite", "c/y.sqlite"];
        for file in others.into_iter().chain(jax) {
            let path = folder.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        assert_eq!(names(&folder, &["a"]), ["run/rank0.json"]);
        assert_eq!(names(&folder, &["a", "b/"]), ["a/run/rank0.json", "b/run/rank0.json"]);
        let same = names(&folder, &["a/run", "b/run/"]);
        let path = |file: &str| folder.join(file).display().to_string();
        assert_eq!(same, [path("a/run/rank0.json"), path("b/run/rank0.json")]);
        assert_eq!(
            names(&folder, &["jax"]),
            ["one.trace.json", "two.xplane.pb"],
            "the JSON of the second host is a copy"
        );
        // Only c/x.sqlite is the export of c/x.nsys-rep.
        assert_eq!(names(&folder, &["c"]), ["d/x.sqlite", "x.nsys-rep", "y.sqlite"]);
        assert_eq!(
            names(&folder, &["c/x.nsys-rep", "c/x.sqlite"]),
            ["x.nsys-rep", "x.sqlite"],
            "files given by name are all kept"
        );
        std::fs::remove_dir_all(folder).unwrap();
    }
}
