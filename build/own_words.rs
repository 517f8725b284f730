//! The words that gpuprism itself can say: those of the string literals of its code, of the keys that its macros declare, and of
//! the data in `patterns/`. Tests do not count, because they contain examples of private text. Linear in the source.

use crate::words::{each_word, tokens};
use std::collections::BTreeSet;
use std::path::Path;
use std::{fs, io};

/// Macros whose identifiers are keys of the report.
const DECLARING: [&str; 3] = ["from_json", "section", "fields"];

/// Contains the patterns of private text.
const PATTERNS_OF_PRIVATE_TEXT: &str = "redaction.json";

/// All words, sorted, separated by blanks.
pub(crate) fn of(package: &Path) -> io::Result<String> {
    let mut words = BTreeSet::new();
    for folder in ["src", "capture/src"] {
        each_file(&package.join(folder), &mut |path, text| {
            if path.ends_with(".rs") && !is_test(path) {
                add_source(text, &mut words);
            }
        })?;
    }
    each_file(&package.join("patterns"), &mut |path, text| {
        if path.ends_with(".json") && !path.ends_with(PATTERNS_OF_PRIVATE_TEXT) {
            // The `b` of a regex's `\b` and the `n` of `\n` are not letters of a word.
            add(&text.replace("\\\\b", " ").replace("\\n", " "), &mut words);
        }
    })?;
    Ok(words.into_iter().collect::<Vec<String>>().join(" "))
}

fn each_file(folder: &Path, visit: &mut dyn FnMut(&str, &str)) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            each_file(&path, visit)?;
        } else if let (Some(name), Ok(text)) = (path.to_str(), fs::read_to_string(&path)) {
            visit(name, &text);
        }
    }
    Ok(())
}

/// Whether a file is only compiled for tests: `tests.rs`, `testing.rs`, `cases_tests.rs`, `tests/windows.rs`.
fn is_test(path: &str) -> bool {
    path.split(['/', '\\', '.', '_']).any(|part| matches!(part, "test" | "tests" | "testing"))
}

fn add(text: &str, words: &mut BTreeSet<String>) {
    for token in tokens(text) {
        each_word(token, &mut |word| {
            words.insert(word.to_owned());
            true
        });
    }
}

/// Adds the words of the literals of a source file, up to its tests, and of the identifiers in declaring macros.
fn add_source(text: &str, words: &mut BTreeSet<String>) {
    let mut rest = without_tests(text);
    // The number of open brackets of the declaring macro that the position is in.
    let mut open = 0_usize;
    while let Some(first) = rest.chars().next() {
        let taken = match first {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '"' => literal(rest, words),
            'r' if rest.starts_with("r\"") || rest.starts_with("r#\"") => raw_literal(rest, words),
            '\'' => character(rest, words),
            _ if first.is_ascii_alphabetic() || first == '_' => identifier(rest, &mut open, words),
            _ => {
                open = match first {
                    '{' | '(' | '[' if open > 0 => open + 1,
                    '}' | ')' | ']' => open.saturating_sub(1),
                    _ => open,
                };
                first.len_utf8()
            }
        };
        rest = rest.get(taken.max(1)..).unwrap_or_default();
    }
}

/// The text before the first module that is only compiled for tests.
fn without_tests(text: &str) -> &str {
    let is_module = |after: &str| after.lines().next().is_some_and(|line| line.contains("mod ") && line.ends_with('{'));
    let mark = "\n#[cfg(test)]\n";
    let mut modules = text.match_indices(mark).filter(|(at, _)| text.get(at + mark.len()..).is_some_and(is_module));
    modules.next().map_or(text, |(at, _)| text.get(..at).unwrap_or_default())
}

/// Takes a string literal, and returns its length.
fn literal(text: &str, words: &mut BTreeSet<String>) -> usize {
    let mut is_escaped = false;
    let end = text.char_indices().skip(1).find(|(_, letter)| {
        let ends = *letter == '"' && !is_escaped;
        is_escaped = *letter == '\\' && !is_escaped;
        ends
    });
    let end = end.map_or(text.len(), |(at, _)| at);
    add(&unescaped(text.get(1..end).unwrap_or_default()), words);
    end + 1
}

fn raw_literal(text: &str, words: &mut BTreeSet<String>) -> usize {
    let (start, close) = if text.starts_with("r#") { (3, "\"#") } else { (2, "\"") };
    let body = text.get(start..).unwrap_or_default();
    let length = body.find(close).unwrap_or(body.len());
    add(body.get(..length).unwrap_or_default(), words);
    start + length + close.len()
}

/// Takes a character literal or the quote of a lifetime.
fn character(text: &str, words: &mut BTreeSet<String>) -> usize {
    let mut letters = text.char_indices().skip(1);
    match letters.next() {
        Some((_, '\\')) => text.get(2..).and_then(|rest| rest.get(1..)?.find('\'')).map_or(2, |at| at + 4),
        Some((_, letter)) => match letters.next() {
            Some((at, '\'')) => {
                add(&letter.to_string(), words);
                at + 1
            }
            _ => 1,
        },
        None => 1,
    }
}

/// Takes an identifier; counts the bracket that opens a declaring macro.
fn identifier(text: &str, open: &mut usize, words: &mut BTreeSet<String>) -> usize {
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_').unwrap_or(text.len());
    let (name, after) = text.split_at(end);
    if *open > 0 {
        add(name, words);
    }
    let opens_macro = DECLARING.contains(&name) && after.starts_with('!');
    if !opens_macro || *open > 0 {
        return end;
    }
    *open = 1;
    end + after.find(['{', '(', '[']).map_or(after.len(), |at| at + 1)
}

/// The text of a literal with blanks for its escapes, but for the letters of `\u{b5}`.
fn unescaped(text: &str) -> String {
    let mut out = String::new();
    let mut parts = text.split('\\');
    out += parts.next().unwrap_or_default();
    for part in parts {
        let code = part.strip_prefix("u{").and_then(|rest| rest.split_once('}'));
        match code.and_then(|(digits, rest)| Some((char::from_u32(u32::from_str_radix(digits, 16).ok()?)?, rest))) {
            Some((letter, rest)) => {
                out.push(letter);
                out += rest;
            }
            None => {
                out.push(' ');
                out += part.get(1..).unwrap_or_default();
            }
        }
    }
    out
}
