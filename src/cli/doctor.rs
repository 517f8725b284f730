//! `gpuprism doctor`: what a capture cannot answer, and the flag or command that changes it.
//!
//! Exit code 5 if the trace is not fit for a report and a triage.

use super::brief::describe;
use super::print;
use crate::Result;
use crate::analysis::doctor::{Check, Level, is_fit};
use crate::report::format::clean;
use crate::session::Choices;
use clap::ValueEnum;
use std::path::PathBuf;
use std::process::ExitCode;

/// Say what a capture cannot answer, and which flag or command changes that. Exit code 5 if it is not fit for a report.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// A trace or export.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Output format.
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Text,
    Json,
}

/// The exit code of a trace that is not fit for a report.
const NOT_FIT: u8 = 5;

pub(super) fn run(args: &Args) -> Result<ExitCode> {
    let checks = describe(&args.file, &Choices::default())?.checks;
    print(&match args.format {
        Format::Text => text(&checks),
        Format::Json => crate::json::write(&checks) + "\n",
    })?;
    Ok(if is_fit(&checks) { ExitCode::SUCCESS } else { ExitCode::from(NOT_FIT) })
}

/// A line per check, and a line with its remedy.
fn text(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        let level = match check.level {
            Level::Ok => "ok     ",
            Level::Warning => "warning",
            Level::Problem => "PROBLEM",
        };
        text += &format!("{level}  {}: {}\n", check.id, clean(&check.text));
        if !check.remedy.is_empty() {
            text += &format!("         -> {}\n", check.remedy);
        }
    }
    text + if is_fit(checks) { "Fit for a report.\n" } else { "Not fit for a report.\n" }
}
