//! Facts without private text: the runs as in a redacted report, and placeholders for their paths.
//!
//! `gpuprism trend` finds the ranks of one capture by their paths. So a placeholder keeps the rank and the stage of its path, and paths that
//! differ only in the rank get the same number. O(n log n) in the number of runs.

use crate::analysis::results::Run;
use crate::analysis::section::Value;
use crate::input::folder::name_without_rank;
use crate::report::Report;
use crate::report::redact::{Redactions, Redactor, rank_and_stage, redact};
use std::collections::BTreeMap;

/// A placeholder for each path: `path 2/run TP0 DECODE`.
pub(super) fn places(paths: impl Iterator<Item = String>) -> Vec<String> {
    let mut numbers = BTreeMap::new();
    let mut place = |path: String| {
        let rank = name_without_rank(&path);
        let key = rank.map_or_else(|| (path.clone(), String::new()), |name| (name.folder.to_owned(), name.rest));
        let next = numbers.len() + 1;
        let number = *numbers.entry(key).or_insert(next);
        let base = path.rsplit(['/', '\\']).next().unwrap_or_default();
        format!("path {number}/run{}", rank_and_stage(base))
    };
    paths.map(&mut place).collect()
}

/// The runs without private text and without the name of the model.
pub(super) fn runs(runs: Vec<Run>) -> Vec<Run> {
    let mut runs = redact(&Report::new(runs), &Redactions::all()).0.runs;
    for capture in runs.iter_mut().filter_map(|run| run.sections.get_mut("capture")) {
        capture.summary.0.iter_mut().filter(|(key, _)| key == "model").for_each(|(_, value)| *value = Value::Null);
    }
    runs
}

/// A reason without private words.
pub(super) fn sentence(text: &str) -> String {
    Redactor::empty(&Redactions::all()).sentence(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_differ_in_the_rank_alone_have_one_number() {
        let paths = ["/home/x/a-TP-0-DECODE.json", "/home/x/a-TP-1-DECODE.json", "/home/y/a-TP-0.json", "b.json"];
        let found = places(paths.into_iter().map(str::to_owned));
        assert_eq!(found, ["path 1/run TP0 DECODE", "path 1/run TP1 DECODE", "path 2/run TP0", "path 3/run"]);
    }
}
