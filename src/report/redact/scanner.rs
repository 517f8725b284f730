//! Finds and replaces private parts inside texts: secrets, addresses, paths, process ids, words that are not public. One regex
//! search per kind, linear in the text.

use super::placeholders::{Noun, Placeholders};
use super::rules::{PATTERNS, RULES};
use super::vocabulary::is_public;
use super::{Redaction, Redactions};
use regex::Regex;
use std::collections::BTreeMap;

/// Replaces private parts of the given kinds.
#[derive(Debug)]
pub(super) struct Scanner {
    pub(super) kinds: Redactions,
    pub(super) placeholders: Placeholders,
    /// New numbers of process and thread ids, in order of first appearance.
    pub(super) processes: BTreeMap<i64, i64>,
}

impl Scanner {
    /// Replaces secrets.
    pub(super) fn without_secrets(&mut self, text: &str) -> String {
        if !self.kinds.has(Redaction::Secrets) {
            return text.to_owned();
        }
        let placeholders = &mut self.placeholders;
        let mut assign = |secret: &str| Some(placeholders.assign(Noun::Secret, secret));
        // A secret may be a part of a name (`kernel_hf_...`), and a name of public words is none (`load_hf_attention`).
        let mut assign_secret = |secret: &str| if is_public(secret) { None } else { assign(secret) };
        let mut text = replace_matches(&PATTERNS.secrets, Boundaries::PARTS, text, &mut assign_secret);
        if text.len() >= 32 {
            let mut assign_key = |digits: &str| if is_key(digits) { assign(digits) } else { None };
            text = replace_matches(&PATTERNS.long_hex, Boundaries::PARTS, &text, &mut assign_key);
        }
        replace_groups(&PATTERNS.secret_values, &text, &mut |value| {
            let is_number = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            if is_number || value.starts_with("secret") { None } else { assign(value) }
        })
    }

    /// Replaces secrets, addresses, paths and process ids.
    pub(super) fn scanned(&mut self, text: &str) -> String {
        let mut text = self.without_secrets(text);
        if self.kinds.has(Redaction::Machines) {
            let placeholders = &mut self.placeholders;
            text = replace_matches(&PATTERNS.machines, Boundaries::WORDS, &text, &mut |found| {
                Some(placeholders.assign(Noun::Host, found.trim_end_matches(['.', ',', '/'])))
            });
        }
        if self.kinds.has(Redaction::Files) && text.contains(['/', '\\', '.']) {
            let placeholders = &mut self.placeholders;
            text = replace_matches(&PATTERNS.paths, Boundaries::WORDS, &text, &mut |path| match public_part(path) {
                Some(part) if part.len() == path.len() => None,
                Some(part) => Some(part.to_owned()),
                None => Some(placeholders.assign(Noun::Path, path)),
            });
        }
        if self.kinds.has(Redaction::Processes) {
            let processes = &mut self.processes;
            text = replace_groups(&PATTERNS.processes, &text, &mut |number| {
                Some(number_of(processes, number.parse().ok()?).to_string())
            });
        }
        text
    }

    /// Assigns placeholders to the users in paths of home folders, so that their names are replaced elsewhere too.
    pub(super) fn learn_users(&mut self, text: &str) {
        if !self.kinds.has(Redaction::Machines) {
            return;
        }
        for captures in PATTERNS.home.captures_iter(text) {
            if let Some(user) = captures.get(1).filter(|user| user.len() > 2 && !is_public(user.as_str())) {
                self.placeholders.assign(Noun::User, user.as_str());
            }
        }
    }

    /// Replaces each word between blanks that is not public, such as `my_kernel`, without the signs around it.
    pub(super) fn without_private_words(&mut self, text: &str) -> String {
        if !self.kinds.has(Redaction::Names) || is_public(text) {
            return text.to_owned();
        }
        let replace = |part: &str| {
            let word = part.trim_matches(|letter| !is_word(letter));
            if is_public(word) { part.to_owned() } else { self.placeholders.replaced(Noun::Name, word, part) }
        };
        text.split_inclusive(char::is_whitespace).map(replace).collect()
    }
}

/// The new number of a process or thread id.
pub(super) fn number_of(processes: &mut BTreeMap<i64, i64>, id: i64) -> i64 {
    let next = i64::try_from(processes.len()).unwrap_or(i64::MAX - 1) + 1;
    *processes.entry(id).or_insert(next)
}

/// Whether hexadecimal digits look like a key. Triton's signatures (`0d1d2de3`) use only some of the digits.
pub(super) fn is_key(digits: &str) -> bool {
    digits.contains(['a', 'b', 'f', 'A', 'B', 'F']) && digits.contains(|digit: char| digit.is_ascii_digit())
}

/// The public part of a path: a whole relative path with public words, or the part inside a public package.
pub(super) fn public_part(path: &str) -> Option<&str> {
    if !is_absolute(path) && is_public(path) {
        return Some(path);
    }
    part_in_package(path).filter(|inside| is_public(inside))
}

/// Whether a path begins at a root, a home folder or a variable.
pub(super) fn is_absolute(path: &str) -> bool {
    path.starts_with(['/', '~', '$', '\\']) || path.get(1..2) == Some(":")
}

/// The part of an absolute path that is inside a public package.
pub(super) fn part_in_package(path: &str) -> Option<&str> {
    let in_folder = RULES.package_folders.iter().filter_map(|folder| Some(path.rfind(folder.as_str())? + folder.len()));
    let of_package = RULES.packages.iter().filter_map(|package| Some(path.rfind(&format!("/{package}/"))? + 1));
    let inside = path.get(in_folder.max().or_else(|| of_package.max())?..)?;
    is_in_package(inside).then_some(inside)
}

/// Whether a relative path begins with a public package.
pub(super) fn is_in_package(path: &str) -> bool {
    let package = path.split(['/', '\\']).next();
    RULES.packages.iter().any(|name| Some(name.as_str()) == package)
}

pub(super) fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Which letters before and after a match make it a part of a longer word.
#[derive(Clone, Copy)]
pub(super) struct Boundaries {
    pub(super) before: fn(char) -> bool,
    pub(super) after: fn(char) -> bool,
}

impl Boundaries {
    /// Letters, digits, `_` and, before the match, `-`.
    pub(super) const WORDS: Self = Self { before: |letter| is_word(letter) || letter == '-', after: is_word };
    /// The same, but `_` divides words.
    pub(super) const PARTS: Self =
        Self { before: |letter| letter.is_alphanumeric() || letter == '-', after: char::is_alphanumeric };
}

/// Replaces the matches that start and end at boundaries of words. `None` from `with` keeps a match.
pub(super) fn replace_matches(
    pattern: &Regex,
    within: Boundaries,
    text: &str,
    with: &mut dyn FnMut(&str) -> Option<String>,
) -> String {
    let mut out = String::new();
    let (mut done, mut from) = (0, 0);
    while let Some(found) = pattern.find_at(text, from) {
        let before = text.get(..found.start()).and_then(|before| before.chars().next_back());
        let after = text.get(found.end()..).and_then(|after| after.chars().next());
        let starts_word = !before.is_some_and(within.before);
        let ends_word = !after.is_some_and(within.after) || found.as_str().ends_with(['/', '\\']);
        match (starts_word && ends_word && !found.is_empty()).then(|| with(found.as_str())).flatten() {
            Some(placeholder) => {
                out += text.get(done..found.start()).unwrap_or_default();
                out += &placeholder;
                (done, from) = (found.end(), found.end());
            }
            // A kept match is skipped; a match inside a word is retried from its next letter.
            None if starts_word && ends_word => from = found.end().max(found.start() + 1),
            None => {
                from = found.start()
                    + text.get(found.start()..).and_then(|rest| rest.chars().next()).map_or(1, char::len_utf8)
            }
        }
        if from > text.len() || !text.is_char_boundary(from) {
            break;
        }
    }
    out + text.get(done..).unwrap_or_default()
}

/// Replaces the first group of every match. `None` from `with` keeps it.
pub(super) fn replace_groups(pattern: &Regex, text: &str, with: &mut dyn FnMut(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut done = 0;
    for captures in pattern.captures_iter(text) {
        let Some(group) = captures.get(1) else { continue };
        let Some(placeholder) = with(group.as_str()) else { continue };
        out += text.get(done..group.start()).unwrap_or_default();
        out += &placeholder;
        done = group.end();
    }
    out + text.get(done..).unwrap_or_default()
}
