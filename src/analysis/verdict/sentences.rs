//! What the verdict is about, and its clauses so far.

use super::times::Times;
use crate::analysis::results::{Run, Verdict, VerdictClause};
use crate::rules::signals::VerdictThresholds;

/// A run with the times that are compared.
#[derive(Debug)]
pub(super) struct Subject<'a> {
    pub(super) run: &'a Run,
    pub(super) thresholds: &'a VerdictThresholds,
    pub(super) times: Times,
}

impl<'a> Subject<'a> {
    pub(super) fn of(run: &'a Run, thresholds: &'a VerdictThresholds) -> Self {
        Self { run, thresholds, times: Times::of(run, thresholds) }
    }
}

/// The section of the numbers of a clause, and their row.
pub(super) type Source<'a> = Option<(&'a str, Option<usize>)>;

/// The clauses so far.
#[derive(Debug, Default)]
pub(super) struct Sentences {
    clauses: Vec<VerdictClause>,
}

impl Sentences {
    /// Adds words, with the source of their numbers. Words without a source join the previous ones without.
    pub(super) fn push(&mut self, text: impl Into<String>, source: Source) {
        let text = text.into();
        match self.clauses.last_mut().filter(|last| last.section.is_none() && source.is_none()) {
            Some(last) => last.text += &text,
            None => self.clauses.push(VerdictClause {
                text,
                section: source.map(|(section, _)| section.to_owned()),
                row: source.and_then(|(_, row)| row).map(|row| row as u64),
            }),
        }
    }

    /// Whether the last clause has its numbers from this section.
    pub(super) fn ends_with(&self, section: &str) -> bool {
        self.clauses.last().is_some_and(|last| last.section.as_deref() == Some(section))
    }

    pub(super) fn finish(self) -> Verdict {
        Verdict { text: self.clauses.iter().map(|clause| clause.text.as_str()).collect(), clauses: self.clauses }
    }
}
