//! What limits a run: one section a question, each a pure function of the trace, a file per family of questions.
//!
//! Every pass is a sweep over tables sorted by start, n log n at most; nothing joins tables by nested loops. Overlap and
//! idle time are per device, launches are joined within their process, and collectives are kernels, whatever ranges say.

mod context;
mod findings;

pub use context::{Context, NameKind};

use super::section::Section;
use std::collections::BTreeMap;

/// All sections of a report, by name.
pub type Sections = BTreeMap<String, Section>;

/// Answers every question about one trace that its data allow.
pub fn explain(context: &Context) -> Sections {
    let answers: [(&str, Section); 0] = [];
    let mut sections: Sections = answers.into_iter().map(|(name, section)| (name.to_owned(), section)).collect();
    let (critical_path, findings) = (findings::critical_path(&sections), findings::findings(context, &sections));
    sections.insert("critical_path".to_owned(), critical_path);
    sections.insert("findings".to_owned(), findings);
    sections
}
