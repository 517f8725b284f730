//! What stands in the middle of other words: secrets, addresses, paths, process numbers, names of code.

use super::placeholders::{Noun, Placeholders};
use super::rules::{PATTERNS, RULES, is_listed, is_public};
use super::{Redaction, Redactions};
use regex::Regex;
use std::collections::BTreeMap;

/// Replaces what a text holds of the kinds asked for.
#[derive(Debug)]
pub(super) struct Scanner {
    pub(super) what: Redactions,
    pub(super) names: Placeholders,
    /// Numbers of processes and threads, by first appearance.
    pub(super) processes: BTreeMap<i64, i64>,
}

impl Scanner {
    /// The text without secrets alone.
    pub(super) fn without_secrets(&mut self, text: &str) -> String {
        if !self.what.has(Redaction::Secrets) {
            return text.to_owned();
        }
        let names = &mut self.names;
        let mut give = |secret: &str| Some(names.give(Noun::Secret, secret));
        let mut text = replaced(&PATTERNS.secrets, text, &mut give);
        if text.len() >= 32 {
            text = replaced(&PATTERNS.long_hex, &text, &mut |digits| is_key(digits).then(|| give(digits)).flatten());
        }
        replaced_groups(&PATTERNS.secret_values, &text, &mut |value| {
            let is_number = value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
            if is_number || value.starts_with("secret") { None } else { give(value) }
        })
    }

    /// The text without secrets, addresses, paths and process numbers.
    pub(super) fn scanned(&mut self, text: &str) -> String {
        let mut text = self.without_secrets(text);
        if self.what.has(Redaction::Machines) {
            let names = &mut self.names;
            text = replaced(&PATTERNS.machines, &text, &mut |found| {
                (!is_listed(found)).then(|| names.give(Noun::Host, found.trim_end_matches(['.', ',', '/'])))
            });
        }
        if self.what.has(Redaction::Files) && text.contains(['/', '\\', '.']) {
            let names = &mut self.names;
            text = replaced(&PATTERNS.paths, &text, &mut |path| match public_part(path) {
                Some(part) if part.len() == path.len() => None,
                Some(part) => Some(part.to_owned()),
                None => Some(names.give(Noun::Path, path)),
            });
        }
        if self.what.has(Redaction::Processes) {
            let processes = &mut self.processes;
            text = replaced_groups(&PATTERNS.processes, &text, &mut |number| {
                Some(number_of(processes, number.parse().ok()?).to_string())
            });
        }
        text
    }

    /// The users whose folders a text names: they stand by themselves elsewhere.
    pub(super) fn learn_users(&mut self, text: &str) {
        if !self.what.has(Redaction::Machines) {
            return;
        }
        for captures in PATTERNS.home.captures_iter(text) {
            if let Some(user) = captures.get(1).filter(|user| user.len() > 2 && !is_public(user.as_str())) {
                self.names.give(Noun::User, user.as_str());
            }
        }
    }

    /// Names of code in the middle of words, `my_kernel` or `ns::kernel`, that are not public.
    pub(super) fn without_identifiers(&mut self, text: &str) -> String {
        if !self.what.has(Redaction::Names) || !text.contains(['_', ':']) {
            return text.to_owned();
        }
        let is_part = |letter: char| letter.is_alphanumeric() || ['_', ':', '\u{2026}'].contains(&letter);
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find(is_part) {
            let (before, from) = rest.split_at(at);
            let (token, after) = from.split_at(from.find(|letter| !is_part(letter)).unwrap_or(from.len()));
            let name = token.trim_matches(':');
            let is_code = name.contains('_') || name.contains("::");
            out += before;
            if is_code && !is_public(name) && !is_listed(name) && self.names.known(Noun::Kernel, name).is_none() {
                out += &token.replace(name, &self.names.give(Noun::Name, name));
            } else {
                out += token;
            }
            rest = after;
        }
        out + rest
    }
}

/// The number that stands for a process or thread from now on.
pub(super) fn number_of(processes: &mut BTreeMap<i64, i64>, id: i64) -> i64 {
    let next = i64::try_from(processes.len()).unwrap_or(i64::MAX - 1) + 1;
    *processes.entry(id).or_insert(next)
}

/// Is this run of hexadecimal digits a key? Triton's signatures (`0d1d2de3`) are written in some of the digits only.
fn is_key(digits: &str) -> bool {
    digits.contains(['a', 'b', 'f', 'A', 'B', 'F']) && digits.contains(|digit: char| digit.is_ascii_digit())
}

/// What may stay of a path: all of one that gpuprism's catalogues have or whose words are public, as long as it does not
/// begin at a root; and the part inside of a public package.
pub(super) fn public_part(path: &str) -> Option<&str> {
    let is_absolute = path.starts_with(['/', '~', '$', '\\']) || path.get(1..2) == Some(":");
    if !is_absolute && (is_public(path) || is_listed(path)) {
        return Some(path);
    }
    let installed =
        RULES.package_folders.iter().filter_map(|folder| Some(path.rfind(folder.as_str())? + folder.len())).max();
    match installed.and_then(|at| path.get(at..)) {
        Some(inside) => {
            let folders: Vec<&str> = inside.split(['/', '\\']).collect();
            let is_package = folders.first().is_some_and(|first| RULES.packages.iter().any(|known| known == first));
            let may_be_private = folders.iter().any(|folder| RULES.private_folders.iter().any(|known| known == folder));
            (is_package && (!may_be_private || is_public(inside))).then_some(inside)
        }
        None => {
            let starts = RULES.packages.iter().filter_map(|package| path.rfind(&format!("/{package}/")));
            let inside = starts.max().and_then(|at| path.get(at + 1..))?;
            is_public(inside).then_some(inside)
        }
    }
}

/// Replaces matches that begin where a word begins.
fn replaced(pattern: &Regex, text: &str, with: &mut dyn FnMut(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let (mut done, mut from) = (0, 0);
    while let Some(found) = pattern.find_at(text, from) {
        let before = text.get(..found.start()).and_then(|before| before.chars().next_back());
        let after = text.get(found.end()..).and_then(|after| after.chars().next());
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let begins = !before.is_some_and(|letter| is_word(letter) || letter == '-');
        let ends = !after.is_some_and(is_word) || found.as_str().ends_with(['/', '\\']);
        match (begins && ends && !found.is_empty()).then(|| with(found.as_str())).flatten() {
            Some(placeholder) => {
                out += text.get(done..found.start()).unwrap_or_default();
                out += &placeholder;
                (done, from) = (found.end(), found.end());
            }
            // What was kept is passed over as a whole; what began in the middle of a word is tried from its next letter.
            None if begins && ends => from = found.end().max(found.start() + 1),
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

/// Replaces the first group of every match.
fn replaced_groups(pattern: &Regex, text: &str, with: &mut dyn FnMut(&str) -> Option<String>) -> String {
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
