//! `gpuprism diff`: compares runs with a baseline, on a terminal or in CI. The exit code reports a regression.

use super::files::StandardError;
use super::redaction::Redaction;
use super::{Format, analyze, files, print, printable};
use crate::analysis::compare::{ComparedRun, Comparison, compare};
use crate::analysis::results::Run;
use crate::report::{Report, compare as words, csv};
use crate::session::Choices;
use crate::{Error, Result};
use std::path::PathBuf;
use std::process::ExitCode;

/// Compare runs with a baseline: how much slower or faster, in which categories and kernels.
///
/// Exit code:
///   0  success
///   1  a file cannot be read
///   2  wrong usage
///   3  a run is slower than --exit-on-regression allows
///   4  no run can be compared with the baseline, for example because of another stage, or because the runs did
///      different work and have no unit of work in common;
///      with --exit-on-regression: at least one run cannot be compared or ran on another GPU
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// Traces, exports or earlier reports; - reads standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The baseline run: its number, starting from 1, or its label.
    #[arg(long, default_value = "1", allow_negative_numbers = true, value_name = "N|LABEL")]
    baseline: String,
    /// Exit with code 3 if a run is slower than the baseline by more than PCT percent and by more than the noise; exit with
    /// code 4 if a run cannot be compared or ran on another GPU.
    #[arg(long, allow_negative_numbers = true, value_name = "PCT")]
    exit_on_regression: Option<f64>,
    /// Output format; csv prints one table, see --table.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// The table that csv prints: all kernels, or for example compare_roles, the parts of a layer.
    #[arg(long, value_parser = words::TABLES, default_value = "compare_kernels", value_name = "NAME")]
    table: String,
    /// Write the output to this file instead of standard output.
    #[arg(short, long = "out", value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    redaction: Redaction,
}

/// Exit code: a run is slower than allowed.
const REGRESSED: u8 = 3;
/// Exit code: no run could be compared; with `--exit-on-regression`, at least one run could not, or ran on another GPU.
const NOT_COMPARABLE: u8 = 4;

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    args.redaction.begin(&args.files);
    if let Some(pct) = args.exit_on_regression.filter(|pct| !(pct.is_finite() && *pct >= 0.0)) {
        return Err(Error::usage(format!("--exit-on-regression {pct}"), "not a percentage: give a number, 0 or more"));
    }
    let runs_by_file = args.files.iter().map(|path| analyze::runs(path, &Choices::default(), &StandardError));
    let runs_by_file = runs_by_file.collect::<Result<_>>()?;
    let report = Report::new(analyze::with_distinct_labels(runs_by_file, &args.files));
    // The user names the baseline by its own label.
    let baseline = baseline(&args.baseline, &report.labels());
    let report = args.redaction.of(report);
    let labels = report.labels();
    if args.format == Format::Csv {
        files::print_warnings(&report.runs);
    }
    if labels.len() < 2 {
        return Err(Error::usage("diff", "needs at least two runs: a baseline and a run to compare with it"));
    }
    let runs: Vec<(&str, &Run)> = labels.iter().map(String::as_str).zip(&report.runs).collect();
    let comparison = compare(&runs, baseline?);
    let text = render(&comparison, args);
    match &args.out {
        Some(path) => files::write(path, &text)?,
        None => print(&text)?,
    }
    Ok(status(&comparison, args))
}

/// The index of the baseline run. A label takes precedence over a number.
fn baseline(name: &str, labels: &[String]) -> Result<usize> {
    let by_number = || name.parse::<usize>().ok()?.checked_sub(1).filter(|index| *index < labels.len());
    labels.iter().position(|label| label == name).or_else(by_number).ok_or_else(|| {
        let why = format!("no such run; the runs are 1 to {}: {}", labels.len(), labels.join(", "));
        Error::usage(format!("--baseline {name}"), why)
    })
}

fn render(comparison: &Comparison, args: &Args) -> String {
    match args.format {
        Format::Text => printable(&words::text(comparison, super::columns_of(&args.out))),
        Format::Markdown => words::markdown(comparison),
        Format::Json => words::json(comparison),
        Format::Csv => csv(&words::full_table(comparison, &args.table).unwrap_or_default()),
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
            files::warn(&format!("a run is more than {pct} % slower than the baseline"));
            ExitCode::from(REGRESSED)
        }
        // A run that cannot be compared does not pass the regression check, and neither does one on another GPU.
        Some(_) if has_other_gpu(comparison) || comparison.runs.iter().any(|run| !run.reasons.is_empty()) => {
            ExitCode::from(NOT_COMPARABLE)
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Names each compared run on another GPU than the baseline: its difference is no regression of the software.
fn has_other_gpu(comparison: &Comparison) -> bool {
    let others = comparison.runs.iter().filter(|run| run.change.is_some() && run.other_gpus.is_some());
    let warn = |run: &ComparedRun| {
        files::warn(&format!("{} ran on another GPU than the baseline: this is no check for a regression", run.label));
    };
    others.map(warn).count() > 0
}
