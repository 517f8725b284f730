//! Words and thresholds for grouping ranks (`patterns/ranks.json`).

use crate::json::{self, embedded, from_json};
use std::sync::LazyLock;

#[derive(Debug)]
pub(super) struct Rules {
    /// Words before a rank number in a file name, each with its spelling in labels; the outermost parallelism first.
    pub(super) kinds: Vec<Vec<String>>,
    /// Words before a number at the end of a name that is not a rank number.
    pub(super) counter_words: Vec<String>,
    /// Operations in which all ranks contribute equally sized messages.
    pub(super) equal_size_operations: Vec<String>,
    /// Operations with a root, which a rank may leave before the other ranks have received its data.
    pub(super) rooted_operations: Vec<String>,
    /// A rank is a straggler if the other ranks spend this share of their time in collectives waiting for it.
    pub(super) straggler_share: f64,
    /// Ranks cover the same time if the shortest extent is shorter than the longest by no more than this share of it.
    pub(super) max_extent_difference: f64,
}
from_json!(Rules {
    kinds,
    counter_words,
    equal_size_operations,
    rooted_operations,
    straggler_share,
    max_extent_difference
});

pub(super) static RULES: LazyLock<Rules> =
    LazyLock::new(|| embedded(json::read(include_str!("../../../../patterns/ranks.json"))));

impl Rules {
    /// The index of the kind with this word.
    pub(super) fn kind(&self, word: &str) -> Option<usize> {
        self.kinds.iter().position(|kind| kind.first().is_some_and(|first| first.eq_ignore_ascii_case(word)))
    }

    /// The spelling of a kind in labels; `rank` for a bare number.
    pub(super) fn kind_label(&self, kind: usize) -> &str {
        self.kinds.get(kind).and_then(|kind| kind.get(1)).map_or("rank", String::as_str)
    }
}
