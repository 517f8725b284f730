//! `--redact`: the flag, and what it does to reports and to standard error.
//!
//! A line on standard error can name a file, a kernel or a model, too. With the flag, one redactor replaces the private words of all
//! lines, so that equal words have equal placeholders. Its numbers are not those of the report. The names of the input files are replaced
//! even if each of their words is public.

use crate::files::{Quiet, entries, label};
use crate::report::Report;
use crate::report::redact::{Redactions, Redactor, redact};
use std::path::PathBuf;
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
    /// Whether the flag was given. If so, later lines on standard error are redacted, and do not name these files and folders, or files in
    /// these folders.
    pub(super) fn begin(&self, inputs: &[PathBuf]) -> bool {
        if self.redact {
            let _ = OF_ERRORS.set(Mutex::new(Redactor::empty(&Redactions::all())));
            let _ = INPUTS.set(placeholders(inputs));
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

/// Names of inputs and what stands for them, the longest first.
static INPUTS: OnceLock<Vec<(String, String)>> = OnceLock::new();

/// A sentence beside the results, redacted if the flag was given.
pub(super) fn sentence(text: &str) -> String {
    match OF_ERRORS.get() {
        Some(redactor) => {
            let text = without_names(text, INPUTS.get().map_or(&[], Vec::as_slice));
            redactor.lock().unwrap_or_else(PoisonError::into_inner).sentence(&text)
        }
        None => text.to_owned(),
    }
}

/// The names by which a sentence may call each of these files, the longest first, and what stands for them.
fn placeholders(inputs: &[PathBuf]) -> Vec<(String, String)> {
    let mut names = Vec::new();
    let mut number = 0;
    let mut add = |noun: &str, called: Vec<String>| {
        number += 1;
        names.extend(called.into_iter().filter(|name| is_name(name)).map(|name| (name, format!("{noun} {number}"))));
    };
    for input in inputs {
        let shown = input.display().to_string();
        if !input.is_dir() {
            add("file", vec![shown, label(input)]);
            continue;
        }
        for entry in entries(input, None, &Quiet).unwrap_or_default() {
            let path = input.join(&entry.path);
            add("file", vec![path.display().to_string(), label(&path), entry.path]);
        }
        add("folder", vec![shown, label(input)]);
    }
    names.sort_by(|(one, _), (other, _)| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
    names.dedup_by(|(one, _), (other, _)| one == other);
    names
}

/// Whether a text is a name and no word that a sentence may contain, too.
fn is_name(text: &str) -> bool {
    text.chars().any(|character| !character.is_ascii_alphabetic()) && text != "-" && text != "." && text != ".."
}

/// The text with placeholders for these names, where they are no parts of other names.
fn without_names(text: &str, names: &[(String, String)]) -> String {
    let mut text = text.to_owned();
    for (name, placeholder) in names {
        if text.contains(name.as_str()) {
            text = replaced(&text, name, placeholder);
        }
    }
    text
}

fn replaced(text: &str, name: &str, placeholder: &str) -> String {
    let belongs = |next: Option<char>| next.is_some_and(|next| next.is_alphanumeric() || next == '_');
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once(name) {
        let is_part = belongs(before.chars().next_back()) || belongs(after.chars().next());
        out += before;
        out += if is_part { name } else { placeholder };
        rest = after;
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_placeholder_under_each_of_its_names_though_its_words_are_public() {
        let names = placeholders(&["/traces/host-17_trace.json".into(), "kernel.json".into()]);
        let text = "/traces/host-17_trace.json: cut; host-17_trace.json: kernel.json: my_kernel.json, a kernel";
        let want = "file 1: cut; file 1: file 2: my_kernel.json, a kernel";
        assert_eq!(without_names(text, &names), want);
    }
}
