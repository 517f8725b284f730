//! Names of hosts and users that a trace tells, found in any of its texts, if all their words are public, as in `host-secret-17`; of
//! others the private words are replaced anyway. Signs between the words do not matter, because names of kernels have `_` where
//! names of hosts have `-`. Linear in the text.

use super::super::vocabulary::is_public;
use super::super::words::tokens;
use std::collections::BTreeMap;
use std::ops::Range;

/// Shorter names occur by chance.
const MIN_LETTERS: usize = 4;

/// The names, as words in lower case, by their first word; the longest first.
#[derive(Debug, Default)]
pub(super) struct Names(BTreeMap<String, Vec<Vec<String>>>);

impl Names {
    /// Adds a name, and the first part of one with a domain. A name of one public word, such as `kernel`, would be found in every
    /// trace.
    pub(super) fn learn(&mut self, name: &str) {
        let host = name.split('.').next().filter(|host| *host != name);
        for name in [Some(name), host].into_iter().flatten() {
            let words: Vec<String> = tokens(name).map(str::to_ascii_lowercase).collect();
            let letters = name.chars().filter(|letter| letter.is_ascii_alphabetic()).count();
            let is_distinct = words.len() > 1 || name.contains(|letter: char| letter.is_ascii_digit());
            let (Some(first), true) = (words.first(), letters >= MIN_LETTERS && is_distinct && is_public(name)) else {
                continue;
            };
            let known = self.0.entry(first.clone()).or_default();
            if !known.contains(&words) {
                known.push(words);
                known.sort_by_key(|words| std::cmp::Reverse(words.len()));
            }
        }
    }

    /// The places of all names in the text. Of names that overlap, the first.
    pub(super) fn all_in(&self, text: &str) -> Vec<Range<usize>> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let words: Vec<(usize, &str)> = places(text).collect();
        let (mut found, mut last_end): (Vec<Range<usize>>, usize) = (Vec::new(), 0);
        for (at, (start, first)) in words.iter().enumerate() {
            let known = self.0.get(&first.to_ascii_lowercase()).filter(|_| *start >= last_end);
            let rest = words.get(at..).unwrap_or_default();
            if let Some(end) = known.and_then(|known| known.iter().find_map(|name| end_of(name, rest))) {
                found.push(*start..end);
                last_end = end;
            }
        }
        found
    }
}

/// The words of a text and their places.
fn places(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut from = 0;
    tokens(text).filter_map(move |word| {
        let start = from + text.get(from..)?.find(word)?;
        from = start + word.len();
        Some((start, word))
    })
}

/// The end of a name whose words these are, with one sign between two words.
fn end_of(name: &[String], words: &[(usize, &str)]) -> Option<usize> {
    let words = words.get(..name.len())?;
    let is_name = name.iter().zip(words).all(|(name, (_, word))| name.eq_ignore_ascii_case(word));
    let is_joined =
        words.windows(2).all(|pair| matches!(pair, [(start, word), (next, _)] if start + word.len() + 1 == *next));
    let (start, last) = words.last()?;
    (is_name && is_joined).then_some(start + last.len())
}
