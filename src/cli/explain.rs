//! `gpuprism explain`: writes the files of nsys-llm-explainer for an Nsight Systems export or a torch.profiler trace.

use super::files::StandardError;
use super::redaction::{self, Redaction};
use super::{analyze, database, files, nsys, print_text, printable};
use crate::analysis::results::{Format, Run, Severity};
use crate::files::{Neighbours, RunSource, read_run, trace_in};
use crate::report::{Report, explain};
use crate::session::Choices;
use crate::trace::DatabaseInfo;
use crate::{Error, Result};
use std::path::{Path, PathBuf};

/// Write report.md, report.json and tables/*.csv about kernels, launches, communication, idle time, ranges and findings.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A trace in any format that `gpuprism formats` lists, a folder with one trace or the files of one run, or an earlier report of one run; -
    /// reads standard input.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The output folder; created if it does not exist.
    #[arg(long, value_name = "DIR", required_unless_present = "print_schema")]
    out: Option<PathBuf>,
    /// A phase map: a JSON object from phase to pattern or list of patterns. A pattern is a substring of range names, or a
    /// regex after `re:`.
    #[arg(long, alias = "phases-json", value_name = "FILE")]
    phase_map: Option<PathBuf>,
    /// Maximum rows of the table of top kernels; 0 shows all rows.
    #[arg(
        long,
        alias = "top-kernels",
        default_value_t = 30,
        value_parser = super::rows,
        allow_negative_numbers = true,
        value_name = "N",
    )]
    kernel_limit: usize,
    /// Print the tables and columns of the SQLite export.
    #[arg(long)]
    print_schema: bool,
    /// The nsys program that exports an .nsys-rep.
    #[arg(long = "nsys_cmd", alias = "nsys-cmd", default_value = "nsys", value_name = "CMD")]
    nsys_cmd: String,
    #[command(flatten)]
    redaction: Redaction,
}

pub(super) fn run(args: &Args) -> Result<()> {
    args.redaction.begin(std::slice::from_ref(&args.trace));
    let path = nsys::exported(&trace_in(&args.trace), &args.nsys_cmd)?;
    let capture = database::describe(&path)?.unwrap_or_default();
    if args.print_schema {
        let schema = redaction::sentence(&explain::schema(&capture));
        let no_tables = "The file is not a SQLite database: there are no tables to list.\n".to_owned();
        print_text(&if schema.is_empty() { no_tables } else { printable(&schema) })?;
    }
    let Some(out) = &args.out else { return Ok(()) };
    let phase_map = args.phase_map.as_ref().map(|path| files::read_text(path)).transpose()?;
    let kernel_limit = if args.kernel_limit == 0 { usize::MAX } else { args.kernel_limit };
    let choices = Choices { kernel_limit: Some(kernel_limit), phase_map, ..Choices::default() };
    let source = read_run(std::slice::from_ref(&path), &args.nsys_cmd, &StandardError)?;
    let report = args.redaction.of(Report::new(vec![run_of(source, &path, &choices)?]));
    let Some(run) = report.runs.into_iter().next() else { return Ok(()) };
    // Table names of a database may be private, so a redacted report leaves them out.
    let capture = if args.redaction.is_wanted() { DatabaseInfo::default() } else { capture };
    let tables = out.join("tables");
    std::fs::create_dir_all(&tables).map_err(|error| Error::io(tables.display().to_string(), &error))?;
    files::write(&out.join("report.md"), &explain::markdown(&run))?;
    files::write(&out.join("report.json"), &explain::json(&run, &capture))?;
    for (name, text) in explain::tables(&run) {
        files::write(&tables.join(name), &text)?;
    }
    files::print_notices(&run, Severity::Info);
    let place = redaction::sentence(&out.display().to_string());
    print_text(&format!("Wrote report to: {place}\n{}", printable(&explain::summary(&run))))
}

/// The run of a trace, or the one of an earlier report.
fn run_of(source: RunSource, path: &Path, choices: &Choices) -> Result<Run> {
    let report = match source {
        RunSource::Trace(trace) => return analyze::run(&trace, choices, &Neighbours::of(path, None, &StandardError)),
        RunSource::Report(report) => report,
    };
    let refused = |why: String| Err(Error::refused(files::label(path), why));
    let kind = report.kind();
    let mut runs = report.runs;
    match (runs.pop(), runs.is_empty()) {
        (Some(run), true) if run.format == Format::NsysLlmExplainer => {
            refused(format!("{kind} already: give the trace, or read it with `gpuprism report`"))
        }
        (Some(run), true) => Ok(run),
        _ => refused(format!("{kind} of several runs: give the trace of one of them")),
    }
}
