//! `gpuprism doctor`: what a capture or a running server lacks, and the flag or command that changes it.
//!
//! Exit code 5 if the trace is not fit for a report and a triage, or if the server cannot be captured.

use super::brief::{Described, describe};
use super::{capture, print, print_text, printable};
use crate::analysis::doctor::{Check, Level, checks_of_totals, is_fit};
use crate::session::Choices;
use crate::{Error, Result};
use clap::ValueEnum;
use gpuprism_capture::Line;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// How it is called, below the help.
const EXAMPLES: &str = "Examples:
  gpuprism doctor trace.json.gz
  gpuprism doctor --server http://127.0.0.1:30000";

/// Say what a capture cannot answer, or what to change on a running server before a capture, with the flag or command.
///
/// Nothing on the server changes. Exit code 5 if the trace is not fit for a report, or if the server cannot be captured.
#[derive(Debug, clap::Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(super) struct Args {
    /// A trace or export; - reads standard input.
    #[arg(value_name = "FILE", required_unless_present = "server", conflicts_with = "server")]
    file: Option<PathBuf>,
    /// Check this running server instead: its URL, such as http://127.0.0.1:30000.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The key that the server asks for. Better: set GPUPRISM_API_KEY, which other users of the machine do not see.
    #[arg(long, value_name = "KEY", requires = "server")]
    api_key: Option<String>,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// The exit code of a trace that is not fit for a report, and of a server that cannot be captured.
const NOT_FIT: u8 = 5;

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    match (&args.server, &args.file) {
        (Some(server), _) => check_server(server, args),
        (None, Some(file)) => check_file(file, args.format),
        (None, None) => Err(Error::usage("doctor", "give a trace, or a server with --server")),
    }
}

fn check_file(file: &Path, format: Format) -> Result<ExitCode> {
    let described = describe(file, &Choices::default(), None)?;
    let checks = checks(&described)?;
    match format {
        Format::Text => print_text(&text(&described)?)?,
        Format::Json => print(&(crate::json::write(&checks) + "\n"))?,
    }
    Ok(exit_code(is_fit(&checks)))
}

/// The checks of a trace or of the tree of Proton. An earlier report does not say how its trace was captured.
fn checks(described: &Described) -> Result<Cow<'_, [Check]>> {
    match described.report.runs.as_slice() {
        _ if described.is_trace => Ok(Cow::Borrowed(&described.checks)),
        [tree] if tree.format == crate::trace::Format::ProtonTree => Ok(Cow::Owned(checks_of_totals(tree))),
        _ => Err(Error::refused(
            &described.path,
            format!("{}, which does not contain the capture: give the trace", described.report.kind()),
        )),
    }
}

/// A line per check, and a line with its remedy.
pub(super) fn text(described: &Described) -> Result<String> {
    let checks = checks(described)?;
    let lines: String = checks.iter().map(check_lines).collect();
    Ok(printable(&(lines + if is_fit(&checks) { "Fit for a report.\n" } else { "Not fit for a report.\n" })))
}

fn check_server(server: &str, args: &Args) -> Result<ExitCode> {
    let key = capture::key(args.api_key.as_deref());
    let lines = gpuprism_capture::doctor(server, key.as_deref(), &gpuprism_capture::Cancel::default())
        .map_err(|error| capture::converted(&error))?;
    let is_fit = lines.iter().all(|line| line.level != Level::Problem);
    match args.format {
        Format::Text => print_text(&printable(&lines.iter().map(server_lines).collect::<String>()))?,
        Format::Json => print(&(crate::json::write(&lines) + "\n"))?,
    }
    Ok(exit_code(is_fit))
}

fn exit_code(is_fit: bool) -> ExitCode {
    if is_fit { ExitCode::SUCCESS } else { ExitCode::from(NOT_FIT) }
}

fn check_lines(check: &Check) -> String {
    lines(check.level, &format!("{}: {}", check.id, check.text), &check.remedy)
}

fn server_lines(line: &Line) -> String {
    lines(line.level, &line.text, line.remedy.as_deref().unwrap_or_default())
}

/// The level and what was found, and on a second line what to do.
fn lines(level: Level, text: &str, remedy: &str) -> String {
    let remedy = if remedy.is_empty() { String::new() } else { format!("         {remedy}\n") };
    format!("{:<8} {text}\n{remedy}", level.word())
}
