//! The command line: flags, files, exit codes. Status 1 and one sentence for an input that is refused, 2 for wrong usage;
//! 3 and 4 are `diff`'s.

mod bundle;
mod database;
mod diff;
mod explain;
mod file_io;
mod files;
mod graph;
mod nsys;
mod pivot;
mod ranks;
mod report;
mod rules;
mod triage;

use crate::Error;
use clap::{Parser, Subcommand};
use std::io::Write;
use std::process::ExitCode;

/// Where did the GPU time of an LLM server go?
#[derive(Debug, Parser)]
#[command(name = "gpuprism", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Report(report::Args),
    Graph(graph::Args),
    Explain(explain::Args),
    Triage(triage::Args),
    Diff(diff::Args),
    Pivot(pivot::Args),
    Ranks(ranks::Args),
    Rules(rules::Args),
    Bundle(bundle::Args),
}

/// What commands of one table or a few print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Csv,
    Json,
    Markdown,
}

/// How many rows a flag asks for.
fn rows(text: &str) -> Result<usize, &'static str> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // More than can be counted are all there are.
    is_number.then(|| text.parse().unwrap_or(usize::MAX)).ok_or("rows are counted by whole numbers from 0 on")
}

/// What a flag calls a window; it may begin with `-`, but the next flag is none.
fn window(text: &str) -> Result<String, &'static str> {
    if text.starts_with("--") {
        Err("the window is missing: FROM-TO in seconds, as 1.25-1.75")
    } else {
        Ok(text.to_owned())
    }
}

/// Runs the program on the process's own arguments.
pub fn main() -> ExitCode {
    let done = |()| ExitCode::SUCCESS;
    let result = match Cli::parse().command {
        Command::Report(args) => report::run(&args).map(done),
        Command::Graph(args) => graph::run(&args).map(done),
        Command::Explain(args) => explain::run(&args).map(done),
        Command::Triage(args) => triage::run(&args).map(done),
        Command::Diff(args) => diff::run(&args),
        Command::Pivot(args) => pivot::run(&args).map(done),
        Command::Ranks(args) => ranks::run(&args).map(done),
        Command::Rules(args) => rules::run(&args).map(done),
        Command::Bundle(args) => bundle::run(&args).map(done),
    };
    match result {
        Ok(status) => status,
        Err(error) => {
            say(&format!("gpuprism: {error}"));
            ExitCode::from(if error.is_usage() { 2 } else { 1 })
        }
    }
}

/// The report as it is printed: with `--redact`, ready to be shown to others.
fn redacted(report: crate::report::Report, wanted: bool) -> crate::report::Report {
    use crate::report::redact::{Redactions, redact};
    if wanted { redact(&report, &Redactions::all()).0 } else { report }
}

/// A line on standard error, one whatever a file is called; a closed one is nobody's loss.
fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", crate::report::format::clean(line));
}

/// Text on standard output. A reader that stops early (`| head`) is no error.
fn print(text: &str) -> crate::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::io("standard output", &error)),
        _ => Ok(()),
    }
}

/// Names of a trace come along: no line of them commands a terminal.
fn printable(lines: &str) -> String {
    lines.lines().map(|line| crate::report::format::clean(line) + "\n").collect()
}
