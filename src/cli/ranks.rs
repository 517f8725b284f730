//! `gpuprism ranks`: ranks of one job side by side, from a folder of traces or from several GPUs in one export.

use super::files::{self, Readable};
use super::{Format, print, printable};
use crate::analysis::ranks::{self, RankLog};
use crate::input::folder;
use crate::report::{csv, ranks as words};
use crate::{Error, Result};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;

/// Which rank holds the others up: bars a rank, waiting against transfer in collectives.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Traces and exports of the ranks of a job, or folders of them; one export of several GPUs will do.
    #[arg(required = true, value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
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
    let logs = logs(&found)?;
    let logs: Vec<&RankLog> = logs.iter().collect();
    let ranks = ranks::ranks(&logs);
    if ranks.jobs.is_empty() || args.format == Format::Csv {
        words::aside(&ranks).iter().for_each(|sentence| files::warn(sentence));
    }
    if ranks.jobs.is_empty() {
        return Err(Error::usage("ranks", "no two ranks of one job are among these files"));
    }
    let text = match args.format {
        Format::Text => printable(&words::text(&ranks)),
        Format::Markdown => words::markdown(&ranks),
        Format::Json => words::json(&ranks),
        Format::Csv => words::whole_table(&ranks, &args.table).map(|table| csv(&table)).unwrap_or_default(),
    };
    match &args.out {
        Some(path) => files::write(path, &text),
        None => print(&text),
    }
}

/// A file, and whether the person named it: what lies in a folder may be something else.
struct Found {
    path: PathBuf,
    /// What to call it: below a folder its whole path, which may tell the rank.
    name: String,
    is_named: bool,
}

fn paths(asked: &[PathBuf]) -> Result<Vec<Found>> {
    let mut found = Vec::new();
    for path in asked {
        if path.is_dir() {
            let entries = files::entries(path)?;
            let below =
                |entry: folder::Entry| Found { path: path.join(&entry.path), name: entry.path, is_named: false };
            found.extend(entries.into_iter().map(below));
        } else {
            found.push(Found { path: path.clone(), name: files::label(path), is_named: true });
        }
    }
    Ok(found)
}

/// Reads all files side by side and keeps their logs, in the order of the files.
fn logs(found: &[Found]) -> Result<Vec<RankLog>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (next, (made, taken)) = (AtomicUsize::new(0), channel());
    std::thread::scope(|scope| {
        for _ in 0..cores.min(AT_ONCE).min(found.len()) {
            let (next, made) = (&next, made.clone());
            scope.spawn(move || {
                while let Some((at, file)) =
                    Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, found.get(at)?)))
                {
                    let _ = made.send((at, log(file)));
                }
            });
        }
    });
    drop(made);
    let mut read: Vec<Option<Result<RankLog>>> = found.iter().map(|_| None).collect();
    for (at, log) in taken {
        read.get_mut(at).into_iter().for_each(|slot| *slot = Some(log.clone()));
    }
    let mut logs = Vec::new();
    for (file, log) in found.iter().zip(read.into_iter().flatten()) {
        match log {
            Ok(log) => logs.push(log),
            Err(error) if file.is_named => return Err(error),
            Err(error) => files::warn(&format!("{error}; left out")),
        }
    }
    Ok(logs)
}

fn log(file: &Found) -> Result<RankLog> {
    match files::read(&file.path)? {
        Readable::Trace(trace) => Ok(RankLog { file: file.name.clone(), ..ranks::log(&trace) }),
        Readable::Report(_) => {
            Err(Error::refused(&file.name, "a report, which no longer holds single calls: give the trace"))
        }
    }
}
