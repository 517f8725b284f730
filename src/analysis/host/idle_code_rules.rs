//! What can be done about a Python function for which a GPU waits (`patterns/idle_code.json`): whether the engine can run it
//! while the GPU works, whether it must stay before the launch, or whether another thread can do it.

use crate::analysis::section::words;
use crate::json::{self, embedded, from_json};
use std::sync::LazyLock;

/// What can be done about a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Kind {
    Overlaps,
    #[default]
    Stays,
    Moves,
}

words!(Kind: Overlaps = "can overlap", Stays = "must stay", Moves = "can move");

/// One entry of the list.
#[derive(Debug)]
pub(super) struct Rule {
    /// The end of a path; a folder if it ends in a slash.
    file: String,
    /// All functions of the file if empty.
    functions: Vec<String>,
    pub(super) kind: Kind,
    /// The mode of the engine, or what makes the function shorter.
    pub(super) change: String,
    #[cfg_attr(not(test), allow(dead_code, reason = "for readers of the file; a test requires it"))]
    source: String,
}
from_json!(strict Rule { file, functions, kind, change, source });

from_json!(Kind = "overlaps" => Overlaps, "stays" => Stays, "moves" => Moves);

/// One entry of the list of CPU ops.
#[derive(Debug)]
pub(super) struct OpRule {
    /// The begin of the name.
    op: String,
    pub(super) kind: Kind,
    pub(super) change: String,
    #[cfg_attr(not(test), allow(dead_code, reason = "for readers of the file; a test requires it"))]
    source: String,
}
from_json!(strict OpRule { op, kind, change, source });

#[derive(Debug)]
struct Rules {
    rules: Vec<Rule>,
    ops: Vec<OpRule>,
    /// Parts of the names of functions that run only if the engine prepares a step while the GPU works on another.
    overlapping_loops: Vec<String>,
}
from_json!(Rules { rules, ops, overlapping_loops });

static RULES: LazyLock<Rules> =
    LazyLock::new(|| embedded(json::read(include_str!("../../../patterns/idle_code.json"))));

impl Rule {
    fn matches(&self, file: &str, function: &str) -> bool {
        let is_file = if self.file.ends_with('/') {
            file.find(&self.file).is_some_and(|at| is_start_of_name(file, at))
        } else {
            file.strip_suffix(&self.file).is_some_and(|folder| is_start_of_name(file, folder.len()))
        };
        is_file && (self.functions.is_empty() || self.functions.iter().any(|known| known == function))
    }
}

/// Whether a name of a folder or file begins at this byte of a path.
fn is_start_of_name(path: &str, at: usize) -> bool {
    path.get(..at).is_some_and(|before| before.is_empty() || before.ends_with(['/', '\\']))
}

/// The first rule that matches; `None` if nothing is known of the function. O(rules).
pub(super) fn rule(file: &str, function: &str) -> Option<&'static Rule> {
    RULES.rules.iter().find(|rule| rule.matches(file, function))
}

/// What can be done about a Python function or a CPU op on the launching thread; `None` if nothing is known of it.
pub(crate) fn change_of(file: &str, function: &str) -> Option<(Kind, &'static str)> {
    let of_function = rule(file, function).map(|rule| (rule.kind, rule.change.as_str()));
    of_function.or_else(|| op_rule(function))
}

/// Parts of the names of functions that run only if the engine prepares a step while the GPU works on another.
pub(crate) fn overlapping_loops() -> &'static [String] {
    &RULES.overlapping_loops
}

/// The kind and the change of the first rule for a CPU op in which the host was without a Python function.
pub(super) fn op_rule(op: &str) -> Option<(Kind, &'static str)> {
    RULES.ops.iter().find(|rule| op.starts_with(&rule.op)).map(|rule| (rule.kind, rule.change.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_names_a_change_and_a_source_and_can_be_reached() {
        for (index, rule) in RULES.rules.iter().enumerate() {
            assert!(rule.change.ends_with('.') && rule.source.len() > 20, "{rule:?}");
            let file = if rule.file.ends_with('/') { format!("{}x.py", rule.file) } else { rule.file.clone() };
            let function = rule.functions.first().map_or("anything", String::as_str);
            let first = RULES.rules.iter().position(|other| other.matches(&file, function));
            assert_eq!(first, Some(index), "an earlier rule hides {rule:?}");
        }
    }

    #[test]
    fn a_data_loader_without_workers_is_told_to_use_them() {
        let change = |op: &str| op_rule(op).map(|(kind, change)| (kind, change.contains("num_workers above 0")));
        let iterator = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__";
        assert_eq!(change(iterator), Some((Kind::Moves, true)));
        assert_eq!(change(&iterator.replace("SingleProcess", "MultiProcessing")), Some((Kind::Moves, false)));
        assert_eq!(change("aten::copy_"), None);
        assert!(RULES.ops.iter().all(|rule| rule.change.ends_with('.') && rule.source.len() > 20));
    }

    #[test]
    fn files_match_by_whole_names() {
        let kind = |file: &str, function: &str| rule(file, function).map(|rule| rule.kind);
        assert_eq!(kind("python/sglang/srt/managers/scheduler.py", "get_next_batch_to_run"), Some(Kind::Overlaps));
        assert_eq!(kind("my_sglang/srt/managers/scheduler.py", "get_next_batch_to_run"), None);
        assert_eq!(kind("sglang/srt/managers/scheduler.py", "handle_a_new_thing"), None);
        assert_eq!(kind("vllm/v1/core/sched/scheduler.py", "schedule"), Some(Kind::Overlaps));
        assert_eq!(kind("myvllm/v1/core/sched/scheduler.py", "schedule"), None);
        let backend = "sglang/srt/layers/attention/aiter_backend.py";
        assert!(rule(backend, "init_forward_metadata").unwrap().change.contains("--attention-backend"));
        assert!(rule(backend, "forward").unwrap().change.contains("CUDA graph"));
    }
}
