//! Placeholders: one text always has the same one, numbered by first appearance, and none that the report already had.

use super::Redaction;
use super::rules::RULES;
use std::collections::BTreeMap;

/// What a placeholder calls the text that it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Noun {
    Secret,
    Run,
    Path,
    Host,
    User,
    Model,
    Value,
    Kernel,
    Name,
}

impl Noun {
    const ALL: [Self; 9] = [
        Self::Secret,
        Self::Run,
        Self::Path,
        Self::Host,
        Self::User,
        Self::Model,
        Self::Value,
        Self::Kernel,
        Self::Name,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Secret => "secret",
            Self::Run => "run",
            Self::Path => "path",
            Self::Host => "host",
            Self::User => "user",
            Self::Model => "model",
            Self::Value => "value",
            Self::Kernel => "private kernel",
            Self::Name => "name",
        }
    }

    pub(super) fn redaction(self) -> Redaction {
        match self {
            Self::Secret => Redaction::Secrets,
            Self::Run | Self::Path => Redaction::Files,
            Self::Host | Self::User => Redaction::Machines,
            Self::Model | Self::Value => Redaction::Models,
            Self::Kernel => Redaction::Kernels,
            Self::Name => Redaction::Names,
        }
    }
}

/// What was replaced by what.
#[derive(Debug)]
pub(super) struct Placeholders {
    given: BTreeMap<(Noun, String), String>,
    /// In the order of their first appearance.
    pub(super) order: Vec<(Noun, String)>,
    /// The last number of each noun.
    last: BTreeMap<Noun, u64>,
}

impl Placeholders {
    /// `report` is the text to be redacted: it may hold placeholders of an earlier redaction.
    pub(super) fn new(report: &str) -> Self {
        let last = Noun::ALL.into_iter().map(|noun| (noun, highest(noun, report))).collect();
        Self { given: BTreeMap::new(), order: Vec::new(), last }
    }

    pub(super) fn give(&mut self, noun: Noun, text: &str) -> String {
        if let Some(placeholder) = self.given.get(&(noun, text.to_owned())) {
            return placeholder.clone();
        }
        let last = self.last.entry(noun).or_default();
        *last += 1;
        let mut placeholder = format!("{} {last}", noun.word());
        if noun == Noun::Run {
            placeholder += &hints(text);
        }
        self.given.insert((noun, text.to_owned()), placeholder.clone());
        self.order.push((noun, text.to_owned()));
        placeholder
    }

    /// The placeholder that this text has, if it has one.
    pub(super) fn known(&self, noun: Noun, text: &str) -> Option<String> {
        self.given.get(&(noun, text.to_owned())).cloned()
    }

    /// Another text for what stands behind this placeholder.
    pub(super) fn alias(&mut self, noun: Noun, text: &str, placeholder: &str) {
        self.given.entry((noun, text.to_owned())).or_insert_with(|| placeholder.to_owned());
    }

    /// Every text with its placeholder, the longest first.
    pub(super) fn longest_first(&self) -> Vec<(String, String)> {
        use crate::ordering::StableSort;
        let mut all: Vec<(String, String)> =
            self.given.iter().map(|((_, text), placeholder)| (text.clone(), placeholder.clone())).collect();
        all.order_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        all
    }
}

/// Is this text a placeholder of an earlier redaction?
pub(super) fn is_placeholder(text: &str) -> bool {
    Noun::ALL.into_iter().any(|noun| {
        let Some(number) = text.strip_prefix(noun.word()).and_then(|rest| rest.strip_prefix(' ')) else { return false };
        let rest = number.trim_start_matches(|digit: char| digit.is_ascii_digit());
        rest.len() < number.len() && (rest.is_empty() || (noun == Noun::Run && rest == hints(rest)))
    })
}

/// The highest number behind this noun in a text.
fn highest(noun: Noun, text: &str) -> u64 {
    const MOST_DIGITS: usize = 9;
    let before = format!("{} ", noun.word());
    let pieces = text.split(before.as_str()).skip(1);
    let digits = |piece: &str| piece.len() - piece.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
    let numbers = pieces.filter_map(|piece| piece.get(..digits(piece).min(MOST_DIGITS))?.parse().ok());
    numbers.max().unwrap_or(0)
}

/// What a label says of rank and stage: ` TP0 DECODE`. It tells nobody apart, and comparisons need it.
fn hints(label: &str) -> String {
    let mut hints = String::new();
    let is_rank = |word: &str| RULES.label_ranks.iter().any(|rank| rank.eq_ignore_ascii_case(word));
    let mut pieces =
        label.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|piece| !piece.is_empty()).peekable();
    while let Some(piece) = pieces.next() {
        let letters = piece.trim_end_matches(|digit: char| digit.is_ascii_digit());
        let is_number = |piece: &&str| piece.bytes().all(|byte| byte.is_ascii_digit());
        let has_number = letters.len() < piece.len();
        if RULES.label_words.iter().any(|word| word.eq_ignore_ascii_case(piece)) || (has_number && is_rank(letters)) {
            hints += &format!(" {piece}");
        } else if is_rank(piece)
            && let Some(number) = pieces.next_if(is_number)
        {
            hints += &format!(" {piece}{number}");
        }
    }
    hints
}
