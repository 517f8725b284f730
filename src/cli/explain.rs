//! `gpuprism explain`: the files that nsys-llm-explainer writes, of an Nsight Systems export or a torch trace.

use super::{database, files, nsys, print, printable, redacted};
use crate::analysis::results::Severity;
use crate::report::{Report, explain};
use crate::session::{self, Choices, Opened};
use crate::trace::DatabaseInfo;
use crate::{Error, Result};
use std::path::PathBuf;

/// Write report.md, report.json and tables/*.csv: kernels, launches, communication, idle time, ranges, findings.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// An SQLite export of Nsight Systems or the .nsys-rep it comes from, or torch.profiler JSON.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The folder that the files go to; made where it is not there.
    #[arg(long, value_name = "DIR", required_unless_present = "print_schema")]
    out: Option<PathBuf>,
    /// Phases of your own: a JSON object, phase to text or list; a text is looked for in range names, `re:` begins a regex.
    #[arg(long = "phase-map", alias = "phases-json", value_name = "FILE")]
    phase_map: Option<PathBuf>,
    /// Rows of the table of top kernels.
    #[arg(
        long = "kernel-limit",
        alias = "top-kernels",
        default_value_t = 30,
        value_parser = super::rows,
        allow_negative_numbers = true,
        value_name = "N",
    )]
    kernel_limit: usize,
    /// Print the tables and columns that the export has.
    #[arg(long = "print-schema")]
    print_schema: bool,
    /// The nsys program that exports an .nsys-rep.
    #[arg(long = "nsys_cmd", alias = "nsys-cmd", default_value = "nsys", value_name = "CMD")]
    nsys_cmd: String,
    /// Replace what tells who and where by placeholders: paths, hosts, models, private kernels and annotations, secrets.
    #[arg(long)]
    redact: bool,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let path = nsys::exported(&args.trace, &args.nsys_cmd)?;
    let capture = database::describe(&path)?.unwrap_or_default();
    if args.print_schema {
        let schema = explain::schema(&capture);
        let none = "No database: the trace has no tables to list.\n".to_owned();
        print(&if schema.is_empty() { none } else { printable(&schema) })?;
    }
    let Some(out) = &args.out else { return Ok(()) };
    let phase_map = args.phase_map.as_ref().map(|path| files::aid(path)).transpose()?;
    let choices = Choices { kernel_limit: Some(args.kernel_limit), phase_map, ..Choices::default() };
    let Opened::Trace(trace) = files::open(&path)? else {
        return Err(Error::refused(files::label(&path), "no trace; `gpuprism report` shows earlier reports"));
    };
    let report = redacted(Report::new(vec![session::run(&trace, &choices)?]), args.redact);
    let Some(run) = report.runs.into_iter().next() else { return Ok(()) };
    // Tables of a database may be anyone's; the report does without them.
    let capture = if args.redact { DatabaseInfo::default() } else { capture };
    let tables = out.join("tables");
    std::fs::create_dir_all(&tables).map_err(|error| Error::io(tables.display().to_string(), &error))?;
    files::write(&out.join("report.md"), &explain::markdown(&run))?;
    files::write(&out.join("report.json"), &explain::json(&run, &capture))?;
    for (name, text) in explain::tables(&run) {
        files::write(&tables.join(name), &text)?;
    }
    files::warn_from(&run, Severity::Info);
    print(&format!("Wrote report to: {}\n{}", out.display(), printable(&explain::summary(&run))))
}
