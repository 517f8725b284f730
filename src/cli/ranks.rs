//! `gpuprism ranks`: ranks of one job side by side, from a folder of traces or from several GPUs in one export.

use super::files::{self, Readable};
use super::{Format, nsys, print, printable};
use crate::analysis::communication::ranks;
use crate::analysis::communication::ranks::{RankInput, RankLog, RankWindow};
use crate::input::folder;
use crate::report::{csv, ranks as words};
use crate::session::window_in;
use crate::trace::{Trace, Window};
use crate::{Error, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

/// Which rank holds the others up: bars a rank, waiting against transfer in collectives.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Traces and exports of the ranks of a job, or folders of them; one export of several GPUs will do.
    #[arg(required = true, value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
    /// Only this part, in seconds from the first GPU op of a job's first rank: 1.25-1.75, 1.25- or -1.75. In the other ranks'
    /// traces it is the time between the same collectives. Files are read twice.
    #[arg(long, value_name = "FROM-TO", allow_hyphen_values = true, value_parser = super::window)]
    window: Option<String>,
    /// What to print; csv is one table.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The table of a csv.
    #[arg(long, default_value = "ranks", value_parser = words::TABLES)]
    table: String,
    /// Write it to this file instead of standard output.
    #[arg(short, long = "out", value_name = "FILE")]
    out: Option<PathBuf>,
}

/// As many files are read at a time: each takes a core, and a trace its size in memory until its log is made.
const AT_ONCE: usize = 8;

pub(super) fn run(args: &Args) -> Result<()> {
    let found = paths(&args.files)?;
    let read = logs(&found)?;
    let parts = match &args.window {
        Some(window) => parts(&read, window)?,
        None => vec![None; read.len()],
    };
    let seen = read.iter().zip(&parts).map(|((_, log), part)| RankInput { log, window: part.as_ref() });
    let ranks = ranks::ranks(&seen.collect::<Vec<_>>());
    if ranks.jobs.is_empty() || args.format == Format::Csv {
        words::ungrouped(&ranks).iter().for_each(|sentence| files::warn(sentence));
    }
    if ranks.jobs.is_empty() {
        return Err(Error::usage("ranks", "no two ranks of one job are among these files"));
    }
    let text = match args.format {
        Format::Text => printable(&words::text(&ranks)),
        Format::Markdown => words::markdown(&ranks),
        Format::Json => words::json(&ranks),
        Format::Csv => words::full_table(&ranks, &args.table).map(|table| csv(&table)).unwrap_or_default(),
    };
    match &args.out {
        Some(path) => files::write(path, &text),
        None => print(&text),
    }
}

/// A file, and whether the person named it: what lies in a folder may be something else.
struct Found {
    path: PathBuf,
    /// What to call it: below a folder its whole path, which may tell the rank, and with it the folder where there are several.
    name: String,
    is_named: bool,
}

fn paths(asked: &[PathBuf]) -> Result<Vec<Found>> {
    let folders: Vec<&PathBuf> = asked.iter().filter(|path| path.is_dir()).collect();
    let mut found = Vec::new();
    for path in asked {
        if path.is_dir() {
            let entries = once_each(files::entries(path)?);
            let prefix = if folders.len() > 1 { format!("{}/", told_apart(path, &folders)) } else { String::new() };
            let below = |entry: folder::Entry| Found {
                path: path.join(&entry.path),
                name: format!("{prefix}{}", entry.path),
                is_named: false,
            };
            found.extend(entries.into_iter().map(below));
        } else {
            found.push(Found { path: path.clone(), name: files::label(path), is_named: true });
        }
    }
    Ok(found)
}

/// The folder's own name, or where another has the same, its path.
fn told_apart(folder: &Path, folders: &[&PathBuf]) -> String {
    let name = files::label(folder);
    let is_only = folders.iter().filter(|other| files::label(other) == name).count() == 1;
    if is_only { name } else { folder.display().to_string().trim_end_matches('/').to_owned() }
}

/// A report of Nsight Systems is read through the export beside it, which is no other run.
fn once_each(entries: Vec<folder::Entry>) -> Vec<folder::Entry> {
    let exports: BTreeSet<PathBuf> = entries
        .iter()
        .map(|entry| Path::new(&entry.path))
        .filter(|path| nsys::is_report(path))
        .map(|path| path.with_extension("sqlite"))
        .collect();
    entries.into_iter().filter(|entry| !exports.contains(Path::new(&entry.path))).collect()
}

/// The logs of all files that have one, in the order of the files.
fn logs(found: &[Found]) -> Result<Vec<(&Found, RankLog)>> {
    let read = side_by_side(found, &|file: &Found| {
        trace(file).map(|trace| RankLog { file: file.name.clone(), ..ranks::log(&trace) })
    });
    let mut logs = Vec::new();
    for (file, log) in found.iter().zip(read) {
        match log {
            Ok(log) => logs.push((file, log)),
            Err(error) if file.is_named => return Err(error),
            Err(error) => files::warn(&format!("{error}; left out")),
        }
    }
    Ok(logs)
}

/// Of each file what its ranks did in the window that is this one in the first rank of its job.
fn parts(read: &[(&Found, RankLog)], text: &str) -> Result<Vec<Option<RankWindow>>> {
    let logs: Vec<&RankLog> = read.iter().map(|(_, log)| log).collect();
    let mut windows: Vec<Option<Window>> = vec![None; logs.len()];
    let mut refused = None;
    let jobs = ranks::JobClocks::new(&logs);
    for first in jobs.first_logs() {
        let Some(log) = logs.get(first) else { continue };
        let window = match window_in(log.span(), text) {
            Ok(Some(window)) => window,
            Ok(None) => continue,
            Err(error) => {
                files::warn(&format!("{}: {error}", log.file));
                refused = Some(error);
                continue;
            }
        };
        for (at, found) in jobs.windows(first, window) {
            if found.is_none() {
                let file = logs.get(at).map_or("", |log| log.file.as_str());
                files::warn(&format!(
                    "{file}: nothing tells where the window of {} lies in it, or it holds nothing of that time: whole traces of \
                     the job are compared",
                    log.file
                ));
            }
            windows.get_mut(at).into_iter().for_each(|own| *own = found);
        }
    }
    if let Some(error) = refused.filter(|_| windows.iter().all(Option::is_none)) {
        return Err(error);
    }
    let wanted: Vec<(&Found, Window)> =
        read.iter().zip(&windows).filter_map(|((file, _), window)| Some((*file, (*window)?))).collect();
    let mut parts = side_by_side(&wanted, &|(file, window)| Ok(ranks::window_log(&*trace(file)?, *window))).into_iter();
    windows.into_iter().map(|window| window.and_then(|_| parts.next()).transpose()).collect()
}

/// What is made of each of these, in their order, as many at a time as there are cores.
fn side_by_side<T: Sync, M: Send>(these: &[T], make: &(dyn Fn(&T) -> Result<M> + Sync)) -> Vec<Result<M>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, (made, taken)) = (AtomicUsize::new(0), channel());
    std::thread::scope(|scope| {
        for _ in 0..cores.min(AT_ONCE).min(these.len()) {
            let (next, made) = (&next, made.clone());
            scope.spawn(move || {
                while let Some((at, one)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, these.get(at)?)))
                {
                    let _ = made.send((at, make(one)));
                }
            });
        }
    });
    drop(made);
    let mut all: Vec<Option<Result<M>>> = these.iter().map(|_| None).collect();
    for (at, one) in taken {
        if let Some(slot) = all.get_mut(at) {
            *slot = Some(one);
        }
    }
    all.into_iter().flatten().collect()
}

fn trace(file: &Found) -> Result<Box<Trace>> {
    match files::read(&file.path)? {
        Readable::Trace(trace) => Ok(trace),
        Readable::Report(_) => {
            Err(Error::refused(&file.name, "a report, which no longer holds single calls: give the trace"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path, asked: &[&str]) -> Vec<String> {
        let asked: Vec<PathBuf> = asked.iter().map(|path| folder.join(path)).collect();
        paths(&asked).unwrap().into_iter().map(|found| found.name).collect()
    }

    #[test]
    fn files_of_several_folders_of_ranks_have_names_of_their_own_and_a_run_is_read_once() {
        let folder = std::env::temp_dir().join(format!("gpuprism-ranks-paths-{}", std::process::id()));
        for file in ["a/run/rank0.json", "b/run/rank0.json", "c/x.nsys-rep", "c/x.sqlite", "c/d/x.sqlite", "c/y.sqlite"]
        {
            let path = folder.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        assert_eq!(names(&folder, &["a"]), ["run/rank0.json"]);
        assert_eq!(names(&folder, &["a", "b/"]), ["a/run/rank0.json", "b/run/rank0.json"]);
        let same = names(&folder, &["a/run", "b/run/"]);
        let path = |file: &str| folder.join(file).display().to_string();
        assert_eq!(same, [path("a/run/rank0.json"), path("b/run/rank0.json")]);
        // The export is that of the report, those elsewhere or of another name are not.
        assert_eq!(names(&folder, &["c"]), ["d/x.sqlite", "x.nsys-rep", "y.sqlite"]);
        assert_eq!(
            names(&folder, &["c/x.nsys-rep", "c/x.sqlite"]),
            ["x.nsys-rep", "x.sqlite"],
            "as a person named them"
        );
        std::fs::remove_dir_all(folder).unwrap();
    }
}
