//! The files that the client asked about, and the text of each tool's answer.

use super::capture::{self, Captures};
use super::root::Root;
use crate::analysis::compare::compare;
use crate::analysis::results::Run;
use crate::cli::brief::{Described, describe};
use crate::cli::{doctor, printable, ranks};
use crate::digits::grouped;
use crate::files::{Watch, analyze};
use crate::report::brief::{self, Subject};
use crate::report::format::clean;
use crate::report::{Report, TableRequest, all_tables, compare as words, facts, findings, sort_and_filter, table};
use crate::session::{Choices, check_found};
use crate::{Error, Result};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// The number of analyzed files that are kept for later questions.
pub(super) const MAX_FILES: usize = 4;
/// The longest answer, in bytes: about 6,000 tokens.
const MAX_BYTES: usize = 18_000;

/// An analyzed file. It is read again if its length or time of modification changes.
struct Stored {
    path: PathBuf,
    version: (u64, Option<SystemTime>),
    described: Arc<Described>,
}

/// The analyzed files, the latest last.
pub(super) struct Session {
    root: Root,
    captures: Captures,
    files: VecDeque<Stored>,
}

impl Session {
    pub(super) fn new(root: Root, captures: Captures) -> Self {
        Self { root, captures, files: VecDeque::new() }
    }

    /// The results of a file: those in memory if the file is unchanged.
    fn described(&mut self, path: &str) -> Result<Arc<Described>> {
        let real = self.root.file(path)?;
        let metadata = std::fs::metadata(&real).map_err(|error| Error::io(path, &error))?;
        let version = (metadata.len(), metadata.modified().ok());
        let known = self.files.iter().position(|stored| stored.path == real && stored.version == version);
        let stored = match known.and_then(|index| self.files.remove(index)) {
            Some(stored) => stored,
            None => {
                let described = Arc::new(self.analyzed(&real, &Choices::default())?);
                Stored { path: real.clone(), version, described }
            }
        };
        let described = Arc::clone(&stored.described);
        self.files.retain(|other| other.path != real);
        self.files.push_back(stored);
        while self.files.len() > MAX_FILES {
            self.files.pop_front();
        }
        Ok(described)
    }

    fn analyzed(&self, real: &Path, choices: &Choices) -> Result<Described> {
        let described = describe(real, choices, Some(self.root.folder()))?;
        Ok(Described { path: self.root.shown(real), ..described })
    }

    pub(super) fn open(&mut self, path: &str) -> Result<String> {
        let described = self.described(path)?;
        let bytes = std::fs::metadata(self.root.file(path)?).map_or(0, |metadata| metadata.len());
        let kind = if described.is_trace { "trace" } else { "earlier report" };
        let runs = &described.report.runs;
        let mut text = format!("{}: {kind}, {} bytes\n", clean(&described.path), grouped(bytes));
        for (label, run) in described.report.labels().iter().zip(runs) {
            let names: Vec<&str> = run.devices.iter().map(|device| device.name.as_str()).collect();
            text += &format!("- {}: {}; GPUs: {}\n", clean(label), clean(&facts(run)), clean(&names.join(", ")));
        }
        let ids: Vec<&str> = findings(&described.report).iter().map(|finding| finding.id.word()).collect();
        text += &format!("Findings: {}\n", if ids.is_empty() { "none".to_owned() } else { ids.join(", ") });
        Ok(bounded(text, MAX_BYTES))
    }

    pub(super) fn brief(&mut self, paths: &[String], budget: usize) -> Result<String> {
        if paths.is_empty() || paths.len() > MAX_FILES {
            return Err(Error::usage("brief", format!("give 1 to {MAX_FILES} files")));
        }
        let budget = budget.clamp(MIN_BRIEF_TOKENS, brief::DEFAULT_TOKENS);
        let described: Vec<Arc<Described>> = paths.iter().map(|path| self.described(path)).collect::<Result<_>>()?;
        let subjects: Vec<Subject> = described.iter().map(|described| described.subject()).collect();
        Ok(bounded(brief::brief(&subjects, budget), MAX_BYTES))
    }

    pub(super) fn show(&mut self, path: &str, id: &str) -> Result<String> {
        Ok(bounded(self.described(path)?.show(id)?, MAX_BYTES))
    }

    /// Some rows of a table, and the keys to sort it by.
    pub(super) fn table(&mut self, path: &str, request: &TableRequest) -> Result<String> {
        let described = self.described(path)?;
        let report = &described.report;
        let table = table(report, &request.id, None).ok_or_else(|| {
            let known: Vec<String> = all_tables(report).into_iter().map(|table| table.id).collect();
            Error::usage(&request.id, format!("this file has no such table: give one of {}", known.join(", ")))
        })?;
        let keys: Vec<String> = table.columns.iter().map(|column| column.key.clone()).collect();
        if let Some(sort) = request.sort.as_ref().filter(|sort| !keys.contains(sort)) {
            return Err(Error::usage(sort, format!("no column of this table: sort by one of {}", keys.join(", "))));
        }
        let text = brief::limited_table(sort_and_filter(table, request));
        Ok(bounded(format!("{text}\nColumns to sort by: {}\n", keys.join(", ")), MAX_BYTES))
    }

    /// The tables of `gpuprism what-if` on what is saved, with these changes together. With changes the file is read again.
    pub(super) fn what_if(&mut self, path: &str, asked: &[String]) -> Result<String> {
        let described = match asked {
            [] => self.described(path)?,
            _ => {
                let choices = Choices { what_if: asked.to_vec(), ..Choices::default() };
                Arc::new(self.analyzed(&self.root.file(path)?, &choices)?)
            }
        };
        if !asked.is_empty() && !described.is_trace {
            return Err(Error::refused(path, "an earlier report, which cannot be replayed: give the trace"));
        }
        check_found(&described.report.runs, asked)?;
        let tables = ["what_if", "replay_trust"].into_iter().filter_map(|id| table(&described.report, id, None));
        Ok(bounded(tables.map(brief::limited_table).collect::<Vec<_>>().join("\n"), MAX_BYTES))
    }

    /// What `gpuprism diff` prints about the second file, with the first as baseline.
    pub(super) fn diff(&mut self, before: &str, after: &str) -> Result<String> {
        let described = [self.described(before)?, self.described(after)?];
        let runs = described.iter().map(|described| described.report.runs.clone()).collect();
        let paths: Vec<PathBuf> = described.iter().map(|described| PathBuf::from(&described.path)).collect();
        let report = Report::new(analyze::with_distinct_labels(runs, &paths));
        let labels = report.labels();
        let runs: Vec<(&str, &Run)> = labels.iter().map(String::as_str).zip(&report.runs).collect();
        Ok(bounded(printable(&words::text(&compare(&runs, 0), None)), MAX_BYTES))
    }

    /// What `gpuprism ranks` prints, and what of a folder was left out.
    pub(super) fn ranks(&mut self, paths: &[String]) -> Result<String> {
        let place = |path: &String| {
            let real = self.root.resolve(path)?;
            if real.is_dir() { Ok(real) } else { self.root.file(path) }
        };
        let paths: Vec<PathBuf> = paths.iter().map(place).collect::<Result<_>>()?;
        let notes = Notes::default();
        let files = ranks::input_files(&paths, Some(self.root.folder()), &notes)?;
        let result = ranks::text(&files, &notes);
        let notes = notes.list(&self.root);
        match result {
            Ok(text) if notes.is_empty() => Ok(bounded(text, MAX_BYTES)),
            Ok(text) => Ok(bounded(format!("{text}\nNotes:\n- {}\n", notes.join("\n- ")), MAX_BYTES)),
            Err(error) if notes.is_empty() => Err(error),
            Err(error) => Err(Error::refused("ranks", format!("{error}. Notes: {}", notes.join("; ")))),
        }
    }

    pub(super) fn doctor(&mut self, path: &str) -> Result<String> {
        let described = self.described(path)?;
        Ok(bounded(doctor::text(&described)?, MAX_BYTES))
    }

    /// The files of a new capture, and the brief of the first.
    pub(super) fn capture(&mut self, request: &capture::Request) -> Result<String> {
        let (text, first) = self.captures.run(&self.root, request)?;
        let brief = self.brief(&[first], brief::DEFAULT_TOKENS)?;
        Ok(bounded(format!("{text}\n{brief}"), MAX_BYTES))
    }
}

/// The warnings of one call, which its answer tells.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Watch for Notes {
    fn warn(&self, sentence: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(sentence.to_owned());
    }
}

impl Notes {
    /// The sentences, with paths relative to the root.
    fn list(self, root: &Root) -> Vec<String> {
        let sentences = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let folder = root.folder().display().to_string();
        let relative = |text: String| text.replace(&format!("{folder}/"), "").replace(&folder, ".");
        sentences.into_iter().map(|sentence| clean(&relative(sentence))).collect()
    }
}

/// A shorter brief would not contain a verdict and the next commands.
const MIN_BRIEF_TOKENS: usize = 300;

/// The text up to the last whole line within `max_bytes`, with a line that says so.
fn bounded(mut text: String, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text;
    }
    let end = text.get(..text.floor_char_boundary(max_bytes)).and_then(|start| start.rfind('\n')).unwrap_or(0);
    let rest = text.len() - end;
    text.truncate(end);
    text + &format!("\nCut off: {} more bytes; ask for one table with a filter.\n", grouped(rest as u64))
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_long_answer_is_cut_at_a_line_and_says_so() {
        let text = super::bounded("first\nsecond\nthird\n".to_owned(), 14);
        assert_eq!(text, "first\nsecond\nCut off: 7 more bytes; ask for one table with a filter.\n");
        assert_eq!(super::bounded("short\n".to_owned(), 14), "short\n");
    }
}
