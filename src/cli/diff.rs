//! `gpuprism diff`: runs beside a baseline on a terminal or in CI, with an exit status that tells a regression.

use super::files::{self, Readable};
use super::{Format, print, printable};
use crate::analysis::compare::{Comparison, compare};
use crate::analysis::results::Run;
use crate::report::{Report, compare as words, csv};
use crate::session::{self, Choices};
use crate::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Compare runs with a baseline: how much slower or faster per step, in which categories and kernels.
///
/// Exit status: 0 done, 1 a file that cannot be read or is refused, 2 wrong usage, 3 a regression (with
/// --exit-on-regression), 4 no comparison could be made: another GPU, another stage, other work; with
/// --exit-on-regression also where one of several runs cannot be compared.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// Traces, exports or earlier reports; the first run is the baseline unless --baseline says otherwise.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The run that the others are compared with: its number, from 1, or its label.
    #[arg(long, default_value = "1", allow_negative_numbers = true, value_name = "N|LABEL")]
    baseline: String,
    /// Exit with 3 where a run is slower than the baseline, beyond noise, by more than so many per cent; with 4 where one cannot be
    /// compared.
    #[arg(long = "exit-on-regression", allow_negative_numbers = true, value_name = "PCT")]
    exit_on_regression: Option<f64>,
    /// What to print; csv is the table of all kernels.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Write it to this file instead of standard output.
    #[arg(short, long = "out", value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A run is slower than was allowed.
const REGRESSED: u8 = 3;
/// No run could be compared; with `--exit-on-regression`, some run could not.
const NOT_COMPARABLE: u8 = 4;

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    if let Some(pct) = args.exit_on_regression.filter(|pct| !(pct.is_finite() && *pct >= 0.0)) {
        return Err(Error::usage(format!("--exit-on-regression {pct}"), "per cent are a number from 0 on"));
    }
    let mut read = Vec::new();
    for path in &args.files {
        read.push(self::read(path)?);
    }
    let report = Report::new(told_apart(read, &args.files));
    let labels = report.labels();
    if args.format == Format::Csv {
        files::warn_of(&report.runs);
    }
    if labels.len() < 2 {
        return Err(Error::usage("diff", "needs two runs or more: a baseline, and what to compare with it"));
    }
    let runs: Vec<(&str, &Run)> = labels.iter().map(String::as_str).zip(&report.runs).collect();
    let comparison = compare(&runs, baseline(&args.baseline, &labels)?);
    let text = render(&comparison, args.format);
    match &args.out {
        Some(path) => files::write(path, &text)?,
        None => print(&text)?,
    }
    Ok(status(&comparison, args))
}

fn read(path: &Path) -> Result<Vec<Run>> {
    match files::read(path)? {
        Readable::Trace(trace) => Ok(vec![session::run(&trace, &Choices::default())?]),
        Readable::Report(report) => Ok(report.runs),
    }
}

/// Reports of one trace have one label; the files that a person gave tell them apart.
fn told_apart(read: Vec<Vec<Run>>, paths: &[PathBuf]) -> Vec<Run> {
    let labels: Vec<String> = read.iter().flatten().map(|run| run.label.clone()).collect();
    let is_only = |label: &str| labels.iter().filter(|other| *other == label).count() == 1;
    let of_file = |(runs, path): (Vec<Run>, &PathBuf)| {
        let is_one = runs.len() == 1;
        let own = move |run: Run| {
            if is_one && !is_only(&run.label) { Run { label: files::label(path), ..run } } else { run }
        };
        runs.into_iter().map(own).collect::<Vec<_>>()
    };
    read.into_iter().zip(paths).flat_map(of_file).collect()
}

/// The place of the baseline: a label counts before a number.
fn baseline(asked: &str, labels: &[String]) -> Result<usize> {
    let by_number = || asked.parse::<usize>().ok()?.checked_sub(1).filter(|at| *at < labels.len());
    labels.iter().position(|label| label == asked).or_else(by_number).ok_or_else(|| {
        let why = format!("no such run; there are 1 to {}: {}", labels.len(), labels.join(", "));
        Error::usage(format!("--baseline {asked}"), why)
    })
}

fn render(comparison: &Comparison, format: Format) -> String {
    match format {
        Format::Text => printable(&words::text(comparison)),
        Format::Markdown => words::markdown(comparison),
        Format::Json => words::json(comparison),
        Format::Csv => csv(&words::kernels(comparison)),
    }
}

fn status(comparison: &Comparison, args: &Args) -> ExitCode {
    for run in &comparison.runs {
        run.reasons.iter().for_each(|reason| files::warn(reason));
        if args.format == Format::Csv {
            run.warnings.iter().for_each(|warning| files::warn(warning));
        }
    }
    if !comparison.is_possible() {
        return ExitCode::from(NOT_COMPARABLE);
    }
    match args.exit_on_regression {
        Some(pct) if comparison.has_regressed(pct) => {
            files::warn(&format!("a regression of more than {pct} %"));
            ExitCode::from(REGRESSED)
        }
        // A gate is not passed by a run that nothing is known of.
        Some(_) if comparison.runs.iter().any(|run| !run.reasons.is_empty()) => ExitCode::from(NOT_COMPARABLE),
        _ => ExitCode::SUCCESS,
    }
}
