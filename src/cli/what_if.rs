//! `gpuprism what-if`: the critical path of a step, and what it would take if something were different. From the same report as
//! `gpuprism report`.

use super::model::{Format, show};
use super::report::{ChoiceArgs, report_with};
use crate::analysis::replay::asked::Asked;
use crate::analysis::replay::sections::{TOGETHER, WhatIf};
use crate::analysis::section::TypedSection;
use crate::report::Report;
use crate::report::model::Part;
use crate::{Error, Result};
use std::path::PathBuf;

/// Show what a step is made of (its critical path), and replay it without a cause: what it would take then.
///
/// With --without, --speed and --graph the first row of what_if has all of these changes together.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(super) struct Args {
    /// Traces or exports.
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
    choices: ChoiceArgs,
}

pub(super) fn run(args: &Args) -> Result<()> {
    let asked = asked(args)?;
    let report = report_with(&args.files, &args.nsys_cmd, &args.choices, &asked)?;
    if !asked.is_empty() {
        check_found(&report, &asked)?;
    }
    show(&report, &[Part::WhatIf], args.format, args.limit)
}

/// What is asked for, in the format of [`Asked::parse`]. Checks it before any trace is read.
fn asked(args: &Args) -> Result<Vec<String>> {
    let speeds = args.speed.iter().map(|text| Asked::speed(text));
    let graphs = args.graph.iter().map(|stage| Asked::graph(stage));
    let changes = speeds.chain(graphs).map(|asked| Ok(asked?.name())).collect::<Result<Vec<_>>>()?;
    Ok(args.without.iter().cloned().chain(changes).collect())
}

/// An error if no run has anything to change.
fn check_found(report: &Report, asked: &[String]) -> Result<()> {
    let rows = report.runs.iter().flat_map(|run| WhatIf::rows(&run.sections));
    let ids: Vec<String> = rows.map(|row| row.id).collect();
    if ids.iter().any(|id| id == TOGETHER) {
        return Ok(());
    }
    let known = if ids.is_empty() {
        "the trace cannot be replayed".to_owned()
    } else {
        format!("its ids are {}", ids.join(", "))
    };
    Err(Error::usage(asked.join(", "), format!("nothing in this trace to change; {known}")))
}
