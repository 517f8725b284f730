//! `gpuprism facts`: the facts of many runs as Parquet files. See [`crate::facts`].

use super::files::StandardError;
use super::redaction::Redaction;
use super::{print, printable};
use crate::Result;
use crate::facts::{FactsFolder, Limits, Outcome, traces};
use crate::files::{by_run, label};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write the results of many traces as Parquet files, for DuckDB, Spark or pandas.
///
/// A run that the folder already has is left out, so that the command can be stopped and run again. A run that cannot be read is a row of
/// the table `runs` with the reason; the others are written, and the exit code is 1.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Traces, exports, earlier reports, or folders of them.
    #[arg(required = true, value_name = "FILE|DIR")]
    inputs: Vec<PathBuf>,

    /// The folder of the Parquet files: table=NAME/run=ID/facts.parquet.
    #[arg(long, value_name = "DIR")]
    out: PathBuf,

    /// The number of traces that are read at the same time [default: the number of processors].
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,

    /// The largest size of a run's files. Larger runs are not read and are rows with that reason.
    #[arg(long, value_name = "N")]
    max_bytes: Option<u64>,

    /// A fact about all these runs, such as commit=1a2b3c, in the column `tags`. May be given several times.
    #[arg(long = "tag", value_name = "KEY=VALUE", value_parser = tag)]
    tags: Vec<(String, String)>,

    #[command(flatten)]
    redaction: Redaction,
}

fn tag(text: &str) -> std::result::Result<(String, String), &'static str> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("give KEY=VALUE, for example commit=1a2b3c"),
    }
}

/// The exit code if a run cannot be read. The facts of all others are written.
const SOME_FAILED: u8 = 1;

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let is_redacted = args.redaction.begin(&args.inputs);
    let folder = FactsFolder::open(&args.out, &args.tags)?
        .with_limits(Limits { max_bytes: args.max_bytes, ..Limits::default() })
        .redacted(is_redacted);
    let runs = by_run(&traces(&args.inputs, &StandardError)?);
    let jobs = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let report = |path: &Path, outcome: &Outcome, seconds: f64| {
        let words = match outcome {
            Outcome::Written => format!("written in {seconds:.2} s"),
            Outcome::Present => "already there".to_owned(),
            Outcome::Failed(reason) => format!("failed: {reason}"),
        };
        super::print_error(&format!("{}: {words}", label(path)));
    };
    let counts = folder.add_all(&runs, jobs, &StandardError, &report)?;
    print(&printable(&format!("{}\n", counts.text())))?;
    Ok(if counts.failed > 0 { ExitCode::from(SOME_FAILED) } else { ExitCode::SUCCESS })
}
