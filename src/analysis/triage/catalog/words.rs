//! Words of the catalog, to be looked for in names of kernels, CPU ops and functions.

use crate::rules::needle::{Haystack, Needle};
use serde::Deserialize;

/// Words to look for in names: a list, or one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(from = "OneOrMore")]
pub(super) struct Words(Vec<Word>);

/// One word, or several that must all be there (`add_rmsnorm_quant_kernel+true_false_true`).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    parts: Vec<Needle>,
}

/// One place in a row of kernels.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "OneOrMore")]
pub(super) struct Part {
    pub(super) is: PartIs,
    /// The row may do without it.
    pub(super) is_optional: bool,
    /// Does the family join it? What must stand there all the same takes no part.
    pub(super) is_joined: bool,
}

/// What stands at a place in a row of kernels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PartIs {
    Named(Words),
    OfCategory(String),
}

impl Part {
    /// A kernel of this category, which is joined.
    pub(super) fn of_category(category: &str) -> Self {
        Self { is: PartIs::OfCategory(category.to_owned()), is_optional: false, is_joined: true }
    }
}

/// `(gemm)` is a category that must stand there and is not joined; `word?` may be missing.
impl From<OneOrMore> for Part {
    fn from(texts: OneOrMore) -> Self {
        let named = |texts, is_optional| Self { is: PartIs::Named(Words::from(texts)), is_optional, is_joined: true };
        let OneOrMore::One(text) = texts else { return named(texts, false) };
        if let Some(category) = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) {
            return Self { is_joined: false, ..Self::of_category(category) };
        }
        match text.strip_suffix('?') {
            Some(word) => named(OneOrMore::One(word.to_owned()), true),
            None => named(OneOrMore::One(text), false),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl From<OneOrMore> for Words {
    fn from(texts: OneOrMore) -> Self {
        let texts = match texts {
            OneOrMore::One(text) => vec![text],
            OneOrMore::More(texts) => texts,
        };
        let parts = |text: &str| text.split('+').filter_map(Needle::new).collect();
        Self(texts.into_iter().map(|text| Word { parts: parts(&text), text }).collect())
    }
}

impl Word {
    fn is_in(&self, name: &Haystack) -> bool {
        !self.parts.is_empty() && self.parts.iter().all(|part| part.is_in(name))
    }
}

impl Words {
    /// The length of the longest word that the name holds.
    pub(super) fn longest_in(&self, name: &Haystack) -> Option<usize> {
        self.0.iter().filter(|word| word.is_in(name)).map(|word| word.text.len()).max()
    }

    /// Does the name hold any?
    pub(super) fn any_in(&self, name: &Haystack) -> bool {
        self.0.iter().any(|word| word.is_in(name))
    }

    /// The length of the word that is this function's whole name: `forward_with_allreduce_fusion`, which may run the
    /// plain path, is not `allreduce_fusion`.
    pub(super) fn whole(&self, function: &str) -> Option<usize> {
        let function = function.trim_matches('_');
        let is_it = |word: &&Word| word.text.trim_matches('_').eq_ignore_ascii_case(function);
        self.0.iter().find(is_it).map(|word| word.text.len())
    }

    /// Does the name have so many words of one of these, at least this part of a hundred?
    pub(super) fn near(&self, name: &str, near: &Near) -> bool {
        let of_name = words(name);
        self.0.iter().any(|word| {
            let of_word = words(&word.text);
            let shared = of_word.iter().filter(|word| of_name.contains(word)).count();
            shared >= near.words && 100 * shared >= near.pct * of_word.len()
        })
    }

    /// True where there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The words of a name in lower case, each once.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let parts = name.split(|char: char| !char.is_ascii_alphanumeric()).filter(|part| !part.is_empty());
    for part in parts.map(str::to_ascii_lowercase) {
        if !words.contains(&part) {
            words.push(part);
        }
    }
    words
}

/// When a name is much like another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Near {
    /// So many words in common,
    pub(super) words: usize,
    /// and of the other's words this part of a hundred.
    pub(super) pct: usize,
}
