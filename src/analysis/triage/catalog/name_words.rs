//! Words of the catalog and how they match names of kernels, CPU ops and functions.

use crate::rules::needle::{Haystack, Needle};
use serde::Deserialize;

/// Words to search in names; in JSON a list or a single string.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(from = "OneOrMore")]
pub(super) struct Words(Vec<Word>);

/// A word, or several words that must all occur (`add_rmsnorm_quant_kernel+true_false_true`).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Word {
    text: String,
    parts: Vec<Needle>,
}

/// One element of a sequence of kernels.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "OneOrMore")]
pub(super) struct ChainPart {
    pub(super) matches: PartMatch,
    pub(super) is_optional: bool,
    /// True if the family joins this kernel; otherwise it must only be present.
    pub(super) is_joined: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PartMatch {
    Name(Words),
    Category(String),
}

impl ChainPart {
    /// A kernel of this category that the family joins.
    pub(super) fn of_category(category: &str) -> Self {
        Self { matches: PartMatch::Category(category.to_owned()), is_optional: false, is_joined: true }
    }
}

/// `(gemm)` is a category that must be present but is not joined; `word?` is optional.
impl From<OneOrMore> for ChainPart {
    fn from(texts: OneOrMore) -> Self {
        let named =
            |texts, is_optional| Self { matches: PartMatch::Name(Words::from(texts)), is_optional, is_joined: true };
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
    /// The length of the longest word that occurs in the name.
    pub(super) fn longest_in(&self, name: &Haystack) -> Option<usize> {
        self.0.iter().filter(|word| word.is_in(name)).map(|word| word.text.len()).max()
    }

    pub(super) fn any_in(&self, name: &Haystack) -> bool {
        self.0.iter().any(|word| word.is_in(name))
    }

    /// The length of the word that equals the whole function name. `forward_with_allreduce_fusion`, which may run the unfused
    /// path, does not match `allreduce_fusion`.
    pub(super) fn whole_name(&self, function: &str) -> Option<usize> {
        let function = function.trim_matches('_');
        let is_equal = |word: &&Word| word.text.trim_matches('_').eq_ignore_ascii_case(function);
        self.0.iter().find(is_equal).map(|word| word.text.len())
    }

    /// True if the name shares enough words with one of these; see [`NearMatch`].
    pub(super) fn is_near(&self, name: &str, near: &NearMatch) -> bool {
        let of_name = words(name);
        self.0.iter().any(|word| {
            let of_word = words(&word.text);
            let shared = of_word.iter().filter(|word| of_name.contains(word)).count();
            shared >= near.words && 100 * shared >= near.pct * of_word.len()
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The distinct words of a name in lower case.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NearMatch {
    pub(super) words: usize,
    /// Minimum share of the common words in the words of the catalog, in percent.
    pub(super) pct: usize,
}
