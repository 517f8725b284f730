//! Words and thresholds of ranks (`patterns/ranks.json`).

use crate::json::{self, from_json};
use std::sync::LazyLock;

/// See the module's head.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Words before a rank's number in a file's name, and how people write them; the outermost kind first.
    pub(crate) kinds: Vec<Vec<String>>,
    /// Words whose number is no rank although it ends a name.
    pub(crate) counts: Vec<String>,
    /// Operations in which every rank puts in as much.
    pub(crate) same_size: Vec<String>,
    /// Operations that a rank may leave before the others have what it sends.
    pub(crate) one_way: Vec<String>,
    /// A rank that the others wait for in this part of their time in collectives holds them up.
    pub(crate) held_up_share: f64,
}
from_json!(Rules { kinds, counts, same_size, one_way, held_up_share });

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    #[allow(clippy::expect_used, reason = "a file of this crate, read by the tests of names")]
    json::read(include_str!("../../../../patterns/ranks.json")).expect("patterns/ranks.json")
});

impl Rules {
    /// The file of this crate.
    pub(crate) fn embedded() -> &'static Self {
        &RULES
    }

    /// The place of a word among the kinds.
    pub(crate) fn kind(&self, word: &str) -> Option<usize> {
        self.kinds.iter().position(|kind| kind.first().is_some_and(|known| known.eq_ignore_ascii_case(word)))
    }

    /// How people write a kind; a bare number is a rank's.
    pub(crate) fn kind_word(&self, kind: usize) -> &str {
        self.kinds.get(kind).and_then(|kind| kind.get(1)).map_or("rank", String::as_str)
    }
}
