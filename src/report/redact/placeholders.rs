//! Assigns placeholders: equal texts get equal ones, numbered by first appearance, above the numbers that the report
//! already contains.

use super::Redaction;
use super::rules::RULES;
use crate::ordering;
use std::collections::BTreeMap;

/// The noun of a placeholder: the kind of text that it replaces.
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
    Category,
    Name,
}

impl Noun {
    const ALL: [Self; 10] = [
        Self::Secret,
        Self::Run,
        Self::Path,
        Self::Host,
        Self::User,
        Self::Model,
        Self::Value,
        Self::Kernel,
        Self::Category,
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
            Self::Category => "category",
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
            Self::Category | Self::Name => Redaction::Names,
        }
    }
}

/// The placeholders assigned so far.
#[derive(Debug)]
pub(super) struct Placeholders {
    by_text: BTreeMap<(Noun, String), String>,
    /// Replaced texts in the order of first appearance.
    pub(super) order: Vec<(Noun, String)>,
    /// The last number of each noun.
    last: BTreeMap<Noun, u64>,
}

impl Placeholders {
    /// `report` is the JSON to redact; it may contain placeholders of an earlier redaction.
    pub(super) fn new(report: &str) -> Self {
        let last = Noun::ALL.into_iter().map(|noun| (noun, highest(noun, report))).collect();
        Self { by_text: BTreeMap::new(), order: Vec::new(), last }
    }

    /// The placeholder of a text, new if necessary.
    pub(super) fn assign(&mut self, noun: Noun, text: &str) -> String {
        if let Some(placeholder) = self.by_text.get(&(noun, text.to_owned())) {
            return placeholder.clone();
        }
        let last = self.last.entry(noun).or_default();
        *last += 1;
        let mut placeholder = format!("{} {last}", noun.word());
        if noun == Noun::Run {
            placeholder += &rank_and_stage(text);
        }
        self.by_text.insert((noun, text.to_owned()), placeholder.clone());
        self.order.push((noun, text.to_owned()));
        placeholder
    }

    /// `within` with the placeholder of the text that it contains.
    pub(super) fn replaced(&mut self, noun: Noun, text: &str, within: &str) -> String {
        let placeholder = self.assign(noun, text);
        within.replacen(text, &placeholder, 1)
    }

    /// The placeholder of a text, if one is assigned.
    pub(super) fn get(&self, noun: Noun, text: &str) -> Option<String> {
        self.by_text.get(&(noun, text.to_owned())).cloned()
    }

    /// Assigns an existing placeholder to another text.
    pub(super) fn alias(&mut self, noun: Noun, text: &str, placeholder: &str) {
        self.by_text.entry((noun, text.to_owned())).or_insert_with(|| placeholder.to_owned());
    }

    /// All texts with their placeholders, longest text first.
    pub(super) fn longest_first(&self) -> Vec<(String, String)> {
        let mut all: Vec<(String, String)> =
            self.by_text.iter().map(|((_, text), placeholder)| (text.clone(), placeholder.clone())).collect();
        ordering::sort_by_key(&mut all, |(text, _)| std::cmp::Reverse(text.len()));
        all
    }
}

/// Whether the text is a placeholder.
pub(super) fn is_placeholder(text: &str) -> bool {
    Noun::ALL.into_iter().any(|noun| {
        let Some(number) = text.strip_prefix(noun.word()).and_then(|rest| rest.strip_prefix(' ')) else { return false };
        let rest = number.trim_start_matches(|digit: char| digit.is_ascii_digit());
        rest.len() < number.len() && (rest.is_empty() || (noun == Noun::Run && rest == rank_and_stage(rest)))
    })
}

/// The highest number of the placeholders with this noun in a text.
fn highest(noun: Noun, text: &str) -> u64 {
    const MAX_DIGITS: usize = 9;
    let before = format!("{} ", noun.word());
    let parts = text.split(before.as_str()).skip(1);
    let digits = |part: &str| part.len() - part.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
    let numbers = parts.filter_map(|part| part.get(..digits(part).min(MAX_DIGITS))?.parse().ok());
    numbers.max().unwrap_or(0)
}

/// The rank and stage in a label, such as ` TP0 DECODE`. They are not private, and comparisons need them.
pub(crate) fn rank_and_stage(label: &str) -> String {
    let mut found = String::new();
    let is_rank = |word: &str| RULES.label_ranks.iter().any(|rank| rank.eq_ignore_ascii_case(word));
    let mut words =
        label.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).peekable();
    while let Some(word) = words.next() {
        let letters = word.trim_end_matches(|digit: char| digit.is_ascii_digit());
        let is_number = |word: &&str| word.bytes().all(|byte| byte.is_ascii_digit());
        let has_number = letters.len() < word.len();
        if RULES.label_words.iter().any(|listed| listed.eq_ignore_ascii_case(word)) || (has_number && is_rank(letters))
        {
            found += &format!(" {word}");
        } else if is_rank(word)
            && let Some(number) = words.next_if(is_number)
        {
            found += &format!(" {word}{number}");
        }
    }
    found
}
