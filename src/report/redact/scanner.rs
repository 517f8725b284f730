//! Finds and replaces private parts inside texts: secrets, addresses, paths, process ids, identifiers of code. One regex
//! search per kind, linear in the text.

use super::placeholders::{Noun, Placeholders};
use super::rules::{PATTERNS, RULES, is_in_catalogues, is_public};
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
        let mut text = replace_matches(&PATTERNS.secrets, text, &mut assign);
        if text.len() >= 32 {
            let mut assign_key = |digits: &str| if is_key(digits) { assign(digits) } else { None };
            text = replace_matches(&PATTERNS.long_hex, &text, &mut assign_key);
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
            text = replace_matches(&PATTERNS.machines, &text, &mut |found| {
                let host = found.trim_end_matches(['.', ',', '/']);
                (!is_in_catalogues(found)).then(|| placeholders.assign(Noun::Host, host))
            });
        }
        if self.kinds.has(Redaction::Files) && text.contains(['/', '\\', '.']) {
            let placeholders = &mut self.placeholders;
            text = replace_matches(&PATTERNS.paths, &text, &mut |path| match public_part(path) {
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

    /// Replaces private identifiers of code, such as `my_kernel` or `ns::kernel`.
    pub(super) fn without_identifiers(&mut self, text: &str) -> String {
        if !self.kinds.has(Redaction::Names) || !text.contains(['_', ':']) {
            return text.to_owned();
        }
        let is_identifier = |letter: char| letter.is_alphanumeric() || ['_', ':', '\u{2026}'].contains(&letter);
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(is_identifier) {
            let (before, from) = rest.split_at(start);
            let (token, after) = from.split_at(from.find(|letter| !is_identifier(letter)).unwrap_or(from.len()));
            let name = token.trim_matches(':');
            let is_code = name.contains('_') || name.contains("::");
            out += before;
            let is_kernel = self.placeholders.get(Noun::Kernel, name).is_some();
            if is_code && !is_public(name) && !is_in_catalogues(name) && !is_kernel {
                out += &token.replace(name, &self.placeholders.assign(Noun::Name, name));
            } else {
                out += token;
            }
            rest = after;
        }
        out + rest
    }
}

/// The new number of a process or thread id.
pub(super) fn number_of(processes: &mut BTreeMap<i64, i64>, id: i64) -> i64 {
    let next = i64::try_from(processes.len()).unwrap_or(i64::MAX - 1) + 1;
    *processes.entry(id).or_insert(next)
}

/// Whether hexadecimal digits look like a key. Triton's signatures (`0d1d2de3`) use only some of the digits.
fn is_key(digits: &str) -> bool {
    digits.contains(['a', 'b', 'f', 'A', 'B', 'F']) && digits.contains(|digit: char| digit.is_ascii_digit())
}

/// The public part of a path: a whole relative path with public words or from gpuprism's catalogues, or the part inside a
/// public package.
pub(super) fn public_part(path: &str) -> Option<&str> {
    let is_absolute = path.starts_with(['/', '~', '$', '\\']) || path.get(1..2) == Some(":");
    if !is_absolute && (is_public(path) || is_in_catalogues(path)) {
        return Some(path);
    }
    let package_start =
        RULES.package_folders.iter().filter_map(|folder| Some(path.rfind(folder.as_str())? + folder.len())).max();
    match package_start.and_then(|start| path.get(start..)) {
        Some(inside) => {
            let folders: Vec<&str> = inside.split(['/', '\\']).collect();
            let is_package = folders.first().is_some_and(|first| RULES.packages.iter().any(|name| name == first));
            let may_be_private = folders.iter().any(|folder| RULES.private_folders.iter().any(|name| name == folder));
            (is_package && (!may_be_private || is_public(inside))).then_some(inside)
        }
        None => {
            let starts = RULES.packages.iter().filter_map(|package| path.rfind(&format!("/{package}/")));
            let inside = starts.max().and_then(|start| path.get(start + 1..))?;
            is_public(inside).then_some(inside)
        }
    }
}

/// Replaces the matches that start and end at word boundaries. `None` from `with` keeps a match.
fn replace_matches(pattern: &Regex, text: &str, with: &mut dyn FnMut(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let (mut done, mut from) = (0, 0);
    while let Some(found) = pattern.find_at(text, from) {
        let before = text.get(..found.start()).and_then(|before| before.chars().next_back());
        let after = text.get(found.end()..).and_then(|after| after.chars().next());
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let starts_word = !before.is_some_and(|letter| is_word(letter) || letter == '-');
        let ends_word = !after.is_some_and(is_word) || found.as_str().ends_with(['/', '\\']);
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
fn replace_groups(pattern: &Regex, text: &str, with: &mut dyn FnMut(&str) -> Option<String>) -> String {
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
