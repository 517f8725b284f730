//! `gpuprism trend`: the history of step times in folders of facts. The exit code reports a run that became slower.

use super::files;
use super::redaction::Redaction;
use super::{Format, print, printable};
use crate::analysis::history::series;
use crate::digits::grouped;
use crate::facts::history::{self, History};
use crate::report::format::counted;
use crate::report::{csv, trend as words};
use crate::{Error, Result, date};
use std::path::PathBuf;
use std::process::ExitCode;

/// Show the history of step times by model, GPU, framework and stage, and the first run that left the noise of the runs before it.
///
/// The runs come from folders that `gpuprism facts` wrote.
///
/// Exit code:
///   0  no series is slower than its noise band now, or there are too few runs to tell
///   1  a folder cannot be read
///   2  wrong usage
///   3  the newest run of a series is slower than its noise band
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// Folders of facts. A run that is in several of them counts once.
    #[arg(required = true, value_name = "DIR")]
    folders: Vec<PathBuf>,
    /// Leave out runs before this date (UTC), for example after a change that was meant: 2026-01-31 or 2026-01-31T09:05.
    #[arg(long, value_name = "DATE")]
    since: Option<String>,
    /// Output format; csv prints a row per run and stage.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write the output to this file instead of standard output.
    #[arg(short, long = "out", value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    redaction: Redaction,
}

/// Exit code: a series is slower than its noise band.
const SLOWER: u8 = 3;

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    args.redaction.begin(&args.folders);
    let since = args.since.as_deref().map(|text| {
        let why = "not a date: give YYYY-MM-DD or YYYY-MM-DDTHH:MM, in UTC";
        date::parse(text).ok_or_else(|| Error::usage(format!("--since {text}"), why))
    });
    let history = history::read(&args.folders, since.transpose()?, &files::StandardError)?;
    let notes = notes(&history);
    let points = history.points;
    let all = series(if args.redaction.is_wanted() { words::redacted(points) } else { points });
    let text = match args.format {
        Format::Text => printable(&words::text(&all, &notes, super::columns_of(&args.out))),
        Format::Markdown => words::markdown(&all, &notes),
        Format::Json => words::json(&all, &notes),
        Format::Csv => csv(&words::full_table(&all)),
    };
    match &args.out {
        Some(path) => files::write(path, &text)?,
        None => print(&text)?,
    }
    let slower: Vec<String> = all.iter().filter(|series| series.first_slower().is_some()).map(words::verdict).collect();
    slower.iter().for_each(|sentence| files::warn(sentence));
    Ok(if slower.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(SLOWER) })
}

/// What the runs of the folders are, and which of them have no place in the history.
fn notes(history: &History) -> Vec<String> {
    let runs = |count: usize| counted(&grouped(count as u64), "trace", "traces");
    let mut notes = vec![format!("{} with steps.", runs(history.runs - history.without_steps))];
    let mut add = |count: usize, what: &str| notes.extend((count > 0).then(|| format!("{} {what}.", runs(count))));
    add(history.without_steps, "without a step time");
    add(history.failed, "could not be read when the facts were written");
    add(history.too_old, "left out by --since");
    notes
}
