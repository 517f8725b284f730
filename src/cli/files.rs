//! Reads input files for commands, with progress and warnings on standard error, and writes output files.

use super::{print_error, redaction};
use crate::analysis::results::{Run, Severity};
use crate::digits::grouped;
use crate::files::{self, Done, Progress, Watch};
pub(super) use crate::files::{RunSource, by_run, entries, label, read_text, rules};
use crate::report::format::clean;
use crate::report::{is_builtin_table, section_name};
use crate::session::Opened;
use crate::trace::Trace;
use crate::{Error, Result};
use std::io::{IsTerminal, Write};
use std::path::Path;

/// Prints warnings on standard error. If that is a terminal, a line shows how much of a large file has been read.
pub(super) struct StandardError;

/// Smaller files get no line.
const MIN_SHOWN_BYTES: u64 = 8 << 20;
/// Bytes between two updates of the line.
const SHOWN_STEP_BYTES: u64 = 8 << 20;

impl Watch for StandardError {
    fn warn(&self, sentence: &str) {
        warn(sentence);
    }

    fn progress(&self, progress: &Progress) {
        let &Progress { label, length, done } = progress;
        let mut stderr = std::io::stderr();
        if length <= MIN_SHOWN_BYTES || !stderr.is_terminal() {
            return;
        }
        let label = clean(&redaction::sentence(label));
        let _ = match done {
            // Chunks are smaller than the step.
            Done::Bytes(bytes) if bytes % SHOWN_STEP_BYTES >= files::CHUNK_BYTES as u64 => Ok(()),
            Done::Bytes(bytes) => {
                let percent = bytes.saturating_mul(100) / length.max(1);
                write!(stderr, "\rreading {label}: {percent} %")
            }
            Done::Rows(rows) => write!(stderr, "\rreading {label}: {rows} rows"),
            Done::All => write!(stderr, "\r\x1b[2K"),
        };
    }
}

/// Reads a trace or a report. An `.nsys-rep` is exported with `nsys` first. Any other file is an error.
pub(super) fn read(path: &Path) -> Result<RunSource> {
    files::read(path, &StandardError)
}

/// Reads a trace. Any other file is an error.
pub(super) fn open_trace(path: &Path) -> Result<Box<Trace>> {
    files::open_trace(path, &StandardError)
}

/// Reads one file for the triage. Unlike [`open`], it keeps the CPU ops and Python frames of a trace.
pub(super) fn open_with_code(path: &Path, label: &str) -> Result<Opened> {
    files::open_with_code(path, label, &StandardError)
}

/// Writes a file. An error message contains the path.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| Error::io(path.display().to_string(), &error))
}

/// Prints the warnings of these runs to standard error. For output formats without notices.
pub(super) fn print_warnings(runs: &[Run]) {
    for run in runs {
        print_notices(run, Severity::Warning);
    }
}

/// Prints the notices of a run that have at least this severity to standard error.
pub(super) fn print_notices(run: &Run, min_severity: Severity) {
    for notice in run.notices.iter().filter(|notice| notice.severity >= min_severity) {
        warn(&format!("{}: {}. {}", run.label, notice.message, notice.advice));
    }
}

/// Warns about each run whose table was cut to its first rows. The builtin tables, as that of all kernels, have all rows.
pub(super) fn warn_of_missing_rows(runs: &[Run], table: &str) {
    if is_builtin_table(table) {
        return;
    }
    for (run, section) in runs.iter().filter_map(|run| Some((run, run.sections.get(section_name(table))?))) {
        let (rows, all) = (section.rows.len() as u64, section.rows_in_all);
        if rows < all {
            warn(&format!("{}: {table}: the table has only {} of {} rows", run.label, grouped(rows), grouped(all)));
        }
    }
}

/// Prints a warning to standard error.
pub(super) fn warn(text: &str) {
    print_error(&format!("gpuprism: {text}"));
}
