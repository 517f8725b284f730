//! Writes the files of `gpuprism explain` with the names, keys and columns of nsys-llm-explainer.
//!
//! All values are those of the run's sections. [`super::foreign`] maps sections to tables and reads the files back.

mod answer;
mod critical_path;
mod json;
mod markdown;
mod summary;
mod tables;

pub use answer::answer;
pub use json::json;
pub use markdown::markdown;
pub use summary::{schema, summary};
pub use tables::tables;

use crate::analysis::results::Run;
use crate::analysis::section::{Record, Section, Value};
use crate::digits::grouped;

/// The rows of a section; empty if the run does not have it.
fn rows<'a>(run: &'a Run, section: &str) -> &'a [Record] {
    run.sections.get(section).map_or(&[], |section| &section.rows)
}

/// A single figure of a section.
fn figure<'a>(run: &'a Run, section: &str, key: &str) -> Option<&'a Value> {
    run.sections.get(section)?.summary.get(key)
}

/// Missing data, the source of the data and its limits, one sentence each.
fn notes(section: &Section) -> Vec<String> {
    let derived = (!section.derived_from.is_empty()).then(|| format!("Derived from {}.", section.derived_from));
    let kept = section.rows.len() as u64;
    let truncated = (section.rows_in_all > kept)
        .then(|| format!("{} of {} rows are kept.", grouped(kept), grouped(section.rows_in_all)));
    let missing = section.missing.as_ref().map(|missing| missing.why.clone());
    missing.into_iter().chain(derived).chain(section.limits.iter().cloned()).chain(truncated).collect()
}

/// The rows of a section grouped by process, in order of first appearance.
fn by_pid<'a>(run: &'a Run, section: &str) -> Vec<(i64, Vec<&'a Record>)> {
    let mut groups: Vec<(i64, Vec<&Record>)> = Vec::new();
    for row in rows(run, section) {
        let pid = row.amount("pid") as i64;
        match groups.iter_mut().find(|(other, _)| *other == pid) {
            Some((_, group)) => group.push(row),
            None => groups.push((pid, vec![row])),
        }
    }
    groups
}
