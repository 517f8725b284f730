//! `gpuprism what-if`: the critical path of a step, and what it would take if something were different. From the same report as
//! `gpuprism report`; `--trace` also writes the simulated run.

use super::analyze;
use super::files::{StandardError, by_run};
use super::model::{Format, show};
use super::redaction::Redaction;
use super::report::{ChoiceArgs, choices, report_with, seconds};
use crate::analysis::replay::asked::Asked;
use crate::files::{self, RunSource, read_run};
use crate::report::Report;
use crate::report::model::Part;
use crate::report::redact::{Redactions, Redactor};
use crate::session::{self, Choices, check_found};
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Show what a step is made of (its critical path), and replay it without a cause: what it would take then.
///
/// With --without, --speed and --graph the first row of what_if has all of these changes together.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// Traces or exports; - reads standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Replay without the cause of this row of what_if, for example all_blocking. May be given several times.
    #[arg(long, value_name = "ID")]
    without: Vec<String>,
    /// Replay with faster kernels: a regular expression for their names, and a factor. May be given several times.
    #[arg(long, value_name = "REGEX=FACTOR")]
    speed: Vec<String>,
    /// Replay with graph launches in the steps of this stage, for example decode. May be given several times.
    #[arg(long, value_name = "STAGE")]
    graph: Vec<String>,
    /// Also write the simulated run with these changes, for Perfetto, chrome://tracing and gpuprism: the run that saves most. Needs the
    /// trace of one run. Gzipped if the name ends in .gz.
    #[arg(long, value_name = "OUT")]
    trace: Option<PathBuf>,
    /// Output format; csv prints the table what_if.
    #[arg(long, value_enum, default_value_t = Format::Terminal)]
    format: Format,
    /// Maximum rows of each table in the format terminal; 0 shows all rows.
    #[arg(long, default_value_t = 30, value_parser = super::rows, allow_negative_numbers = true, value_name = "N")]
    limit: usize,
    /// The nsys program that exports an .nsys-rep.
    #[arg(long = "nsys_cmd", alias = "nsys-cmd", default_value = "nsys", value_name = "CMD")]
    nsys_cmd: String,
    #[command(flatten)]
    redaction: Redaction,
    #[command(flatten)]
    choices: ChoiceArgs,
}

pub(super) fn run(args: &Args) -> Result<()> {
    args.redaction.begin(&args.files);
    let asked = Asked::names(&args.without, &args.speed, &args.graph)?;
    let report = match &args.trace {
        Some(out) => report_and_trace(args, &asked, out)?,
        None => {
            let report = report_with(&args.files, &args.nsys_cmd, &args.choices, &asked)?;
            check_found(&report.runs, &asked)?;
            args.redaction.of(report)
        }
    };
    show(&report, &[Part::WhatIf], args.format, args.limit)
}

/// The report of one run; writes its simulated run.
fn report_and_trace(args: &Args, asked: &[String], out: &Path) -> Result<Report> {
    let sets = by_run(&args.files);
    let [set] = sets.as_slice() else {
        return Err(Error::usage("--trace", format!("needs one run, and these files are {}: give one", sets.len())));
    };
    let path = set.first().ok_or_else(|| Error::usage("--trace", "needs the trace of a run"))?;
    check_not_input(set, out)?;
    let choices =
        Choices { what_if: asked.to_vec(), wall_seconds: seconds(&args.choices, 0), ..choices(&args.choices)? };
    let source = read_run(set, &args.nsys_cmd, &StandardError)?;
    let trace = match &source {
        RunSource::Trace(trace) => trace,
        RunSource::Report(report) => {
            let why = format!("{}, so there are no events to write: give the trace", report.kind());
            return Err(Error::refused(files::label(path), why));
        }
    };
    let report = Report::new(analyze::runs_of(&source, path, &choices, &StandardError)?);
    check_found(&report.runs, asked)?;
    let simulated = session::simulate(trace, &choices)?;
    if !args.redaction.is_wanted() {
        files::write_simulated(&simulated, None, out)?;
        return Ok(report);
    }
    let (report, mut redactor) = Redactor::redact(&report, &Redactions::all());
    files::write_simulated(&simulated, Some(&mut redactor), out)?;
    Ok(report)
}

/// An error if the file that is written would replace one that is read.
fn check_not_input(inputs: &[PathBuf], out: &Path) -> Result<()> {
    let is_out =
        |input: &PathBuf| input.canonicalize().is_ok_and(|input| out.canonicalize().is_ok_and(|out| out == input));
    match inputs.iter().any(is_out) {
        true => Err(Error::usage("--trace", "the simulated run would replace the trace: give another name")),
        false => Ok(()),
    }
}
