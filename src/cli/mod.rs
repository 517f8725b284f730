//! The command line: flags, files and exit codes.
//!
//! Exit codes: 0 success, 1 a file that cannot be read, 2 wrong usage. `diff` also uses 3 and 4, `trend` 3, `doctor` 5. An error is one
//! sentence on standard error.

mod brief;
mod bundle;
mod capture;
mod completions;
mod diff;
mod doctor;
mod explain;
#[cfg(feature = "facts")]
mod facts;
mod files;
mod formats;
mod graph;
mod man;
mod mcp;
mod model;
mod pivot;
mod ranks;
mod redaction;
mod report;
mod rules;
mod scrub;
mod serve;
mod suggestion;
#[cfg(feature = "facts")]
mod trend;
mod triage;
mod view;
mod what_if;

use crate::Error;
use crate::files::{analyze, database, nsys};
use crate::report::terminal;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Shows where the GPU time of an LLM server went, from torch.profiler and Nsight Systems traces.
#[derive(Debug, Parser)]
#[command(name = "gpuprism", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Report(report::Args),
    Model(model::Args),
    WhatIf(what_if::Args),
    Graph(graph::Args),
    Explain(explain::Args),
    Triage(triage::Args),
    Diff(diff::Args),
    Pivot(pivot::Args),
    Ranks(ranks::Args),
    Rules(rules::Args),
    Bundle(bundle::Args),
    Scrub(scrub::Args),
    Brief(brief::BriefArgs),
    Show(brief::ShowArgs),
    Capture(capture::Args),
    Doctor(doctor::Args),
    #[cfg(feature = "facts")]
    Facts(facts::Args),
    #[cfg(feature = "facts")]
    Trend(trend::Args),
    Formats(formats::Args),
    Completions(completions::Args),
    Man(man::Args),
    Serve(serve::Args),
    /// One analysis of `serve`, in a process of its own.
    #[command(name = "serve-worker", hide = true)]
    ServeWorker,
    View(view::Args),
    Mcp(mcp::Args),
}

/// The output formats of `diff`, `pivot` and `ranks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Csv,
    Json,
    Markdown,
}

/// The number of columns that the user set in the environment.
fn columns_of_environment() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.trim().parse().ok().filter(|columns| *columns > 0)
}

/// The size of the terminal in columns.
fn columns_of_terminal() -> Option<usize> {
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}

/// The width of the terminal in columns: `COLUMNS` if it is set, or the size of the terminal.
fn width() -> usize {
    columns_of_environment().or_else(columns_of_terminal).unwrap_or(terminal::DEFAULT_WIDTH)
}

/// The width that the lines of standard output must fit; `None` if that is a file or a pipe, where lines are not wrapped, so that a program
/// finds a sentence or a row in one line.
fn columns() -> Option<usize> {
    let of_terminal = || std::io::stdout().is_terminal().then(columns_of_terminal).flatten();
    columns_of_environment().or_else(of_terminal)
}

/// The same for output that may go to a file instead.
fn columns_of(file: &Option<PathBuf>) -> Option<usize> {
    if file.is_some() { None } else { columns() }
}

/// The width of standard error, as [`columns`].
fn columns_of_errors() -> Option<usize> {
    let of_terminal = || std::io::stderr().is_terminal().then(columns_of_terminal).flatten();
    columns_of_environment().or_else(of_terminal)
}

/// The definition of all commands; their help fits the terminal.
fn command() -> clap::Command {
    /// The width of help if the terminal does not tell its own.
    const DEFAULT_HELP_WIDTH: usize = 80;
    let width = columns_of_environment().or_else(columns_of_terminal).unwrap_or(DEFAULT_HELP_WIDTH);
    Cli::command().term_width(width)
}

/// Parses a number of rows. A number that exceeds `usize` means all rows.
fn rows(text: &str) -> Result<usize, &'static str> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(usize::MAX)).ok_or("not a number of rows: give a whole number, 0 or more")
}

/// Checks the value of `--window`. A window may start with `-`, but not with `--`, which starts the next flag.
fn window(text: &str) -> Result<String, &'static str> {
    if text.starts_with("--") {
        Err("the value is missing: give FROM-TO in seconds, for example 1.25-1.75")
    } else {
        Ok(text.to_owned())
    }
}

/// Prints the help or what is wrong with the arguments; a line that is wider than the terminal is wrapped.
fn refuse_arguments(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    let columns =
        columns_of_errors().filter(|columns| error.use_stderr() && text.lines().any(|line| line.len() > *columns));
    // Write errors are ignored.
    let _ = match columns {
        Some(columns) => write!(std::io::stderr(), "{}", terminal::fit(&text, columns)),
        None => error.print(),
    };
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    let done = |()| ExitCode::SUCCESS;
    let arguments = match command().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return refuse_arguments(&error),
    };
    let result = match arguments.command {
        Command::Report(args) => report::run(&args).map(done),
        Command::Model(args) => model::run(&args).map(done),
        Command::WhatIf(args) => what_if::run(&args).map(done),
        Command::Graph(args) => graph::run(&args).map(done),
        Command::Explain(args) => explain::run(&args).map(done),
        Command::Triage(args) => triage::run(&args).map(done),
        Command::Diff(args) => diff::run(&args),
        Command::Pivot(args) => pivot::run(&args).map(done),
        Command::Ranks(args) => ranks::run(&args).map(done),
        Command::Rules(args) => rules::run(&args).map(done),
        Command::Scrub(args) => scrub::run(&args).map(done),
        Command::Bundle(args) => bundle::run(&args).map(done),
        Command::Brief(args) => brief::run_brief(&args).map(done),
        Command::Show(args) => brief::run_show(&args).map(done),
        Command::Capture(args) => capture::run(&args).map(done),
        Command::Doctor(args) => doctor::run(&args),
        #[cfg(feature = "facts")]
        Command::Facts(args) => facts::run(&args),
        #[cfg(feature = "facts")]
        Command::Trend(args) => trend::run(&args),
        Command::Formats(args) => formats::run(&args).map(done),
        Command::Completions(args) => completions::run(&args).map(done),
        Command::Man(args) => man::run(&args).map(done),
        Command::Serve(args) => serve::run(&args).map(done),
        Command::ServeWorker => serve::work().map(ExitCode::from),
        Command::View(args) => view::run(&args).map(done),
        Command::Mcp(args) => mcp::run(&args).map(done),
    };
    match result {
        Ok(status) => status,
        Err(error) => {
            print_error(&format!("gpuprism: {error}"));
            ExitCode::from(if error.is_usage() { 2 } else { 1 })
        }
    }
}

/// Writes one line to standard error, without control characters from file names, and with `--redact` without private words. A terminal gets
/// it wrapped. Write errors are ignored.
fn print_error(line: &str) {
    let line = crate::report::format::clean(&redaction::sentence(line));
    let line = columns_of_errors().map_or_else(|| line.to_string(), |columns| terminal::fit(&line, columns));
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Writes a line with a command to standard error. It is not wrapped, so that it can be copied.
fn print_command(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", crate::report::format::clean(&redaction::sentence(line)));
}

/// Prints a text for people: a terminal gets it wrapped at words.
fn print_text(text: &str) -> crate::Result<()> {
    match columns() {
        Some(columns) => print(&terminal::fit(text, columns)),
        None => print(text),
    }
}

/// Writes text to standard output. A closed pipe (`| head`) is not an error.
fn print(text: &str) -> crate::Result<()> {
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(Error::io("standard output", &error)),
        _ => Ok(()),
    }
}

/// Removes control characters, which names in a trace may contain and which could control the terminal.
fn printable(lines: &str) -> String {
    lines.lines().map(|line| crate::report::format::clean(line) + "\n").collect()
}
