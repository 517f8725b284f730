//! `--redact`: the flag, and what it does to reports and to standard error.
//!
//! A line on standard error can name a file, a kernel or a model, too. With the flag, one redactor replaces the private words of all
//! lines, so that equal words have equal placeholders. Its numbers are not those of the report.

use crate::report::Report;
use crate::report::redact::{Redactions, Redactor, redact};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The flag of all commands that have it.
#[derive(Debug, clap::Args)]
pub(super) struct Redaction {
    /// Replace identifying text with placeholders, also on standard error: paths, host names, model names, private kernel names and
    /// annotations, secrets.
    #[arg(long)]
    redact: bool,
}

impl Redaction {
    /// Whether the flag was given. If so, later lines on standard error are redacted.
    pub(super) fn begin(&self) -> bool {
        if self.redact {
            let _ = OF_ERRORS.set(Mutex::new(Redactor::empty(&Redactions::all())));
        }
        self.redact
    }

    /// Whether the flag was given.
    pub(super) fn is_wanted(&self) -> bool {
        self.redact
    }

    /// The report, redacted if the flag was given.
    pub(super) fn of(&self, report: Report) -> Report {
        if self.redact { redact(&report, &Redactions::all()).0 } else { report }
    }
}

/// Replaces private words of lines on standard error, if the flag was given.
static OF_ERRORS: OnceLock<Mutex<Redactor>> = OnceLock::new();

/// A sentence beside the results, redacted if the flag was given.
pub(super) fn sentence(text: &str) -> String {
    match OF_ERRORS.get() {
        Some(redactor) => redactor.lock().unwrap_or_else(PoisonError::into_inner).sentence(text),
        None => text.to_owned(),
    }
}
