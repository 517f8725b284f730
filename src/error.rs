//! The error type of the crate. A message says what was wrong, where, and what to do.

use crate::plain::is_plain;
use std::fmt;

/// The result of the crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;

/// A refused input, an invalid rule file, a wrong option or a failed read, as one sentence for people.
///
/// The kind is private: callers show the message and do not branch on it, except by [`Error::is_usage`].
///
/// ```
/// let error = gpuprism::Error::refused("x.nvvp", "an nvprof .nvvp database, which gpuprism does not read");
/// assert_eq!(error.to_string(), "x.nvvp: an nvprof .nvvp database, which gpuprism does not read");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    place: String,
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Refused(String),
    Rules(String),
    Usage(String),
    Io(String),
}

/// The most characters of a place, such as a path, and of an explanation. Both may repeat what a stranger sent; longer
/// ones are cut in their middle.
const MAX_PLACE_CHARS: usize = 500;
const MAX_WHY_CHARS: usize = 6000;

/// The text without characters that control a terminal or begin a line, which a file name may contain, and not longer
/// than this.
pub(crate) fn bounded(text: impl Into<String>, max_chars: usize) -> String {
    let mut text = text.into();
    if !text.chars().all(is_plain) {
        text = text.chars().map(|character| if is_plain(character) { character } else { '\u{fffd}' }).collect();
    }
    // No text has more characters than bytes.
    if text.len() <= max_chars || text.chars().count() <= max_chars {
        return text;
    }
    let part = max_chars / 2;
    let first: String = text.chars().take(part).collect();
    let mut last: Vec<char> = text.chars().rev().take(part).collect();
    last.reverse();
    format!("{first}…{}", String::from_iter(last))
}

impl Error {
    fn new(place: impl Into<String>, kind: fn(String) -> Kind, why: impl Into<String>) -> Self {
        Self { place: bounded(place, MAX_PLACE_CHARS), kind: kind(bounded(why, MAX_WHY_CHARS)) }
    }

    /// An input that gpuprism does not read. `why` says what it is and what to do.
    pub fn refused(file: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(file, Kind::Refused, why)
    }

    /// An invalid rule file. `place` names the file and, if known, engine, model and rule.
    pub fn rules(place: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(place, Kind::Rules, why)
    }

    /// A wrong option: an unknown engine, a malformed `--in_file`.
    pub fn usage(place: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(place, Kind::Usage, why)
    }

    /// A file that could not be read or written.
    pub fn io(file: impl Into<String>, error: &std::io::Error) -> Self {
        Self::new(file, Kind::Io, error.to_string())
    }

    /// Returns true if the command is wrong and not the file (exit status 2).
    pub fn is_usage(&self) -> bool {
        matches!(self.kind, Kind::Usage(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Kind::Refused(why) | Kind::Rules(why) | Kind::Usage(why) | Kind::Io(why)) = &self.kind;
        write!(f, "{}: {}", self.place, why)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_does_not_repeat_a_text_of_any_length() {
        let long = format!("start{}end", "é".repeat(1_000_000));
        for error in [Error::refused(&long, &long), Error::usage(&long, &long), Error::rules(&long, &long)] {
            let message = error.to_string();
            assert!(message.chars().count() < 7000, "{}", message.len());
            assert!(message.starts_with("start") && message.ends_with("end"));
        }
        let hostile = Error::refused("a\n\u{1b}[31m\u{202e}.json", "b\nc").to_string();
        assert_eq!(hostile, "a\u{fffd}\u{fffd}[31m\u{fffd}.json: b\u{fffd}c");
        let file = Error::refused("a".repeat(MAX_PLACE_CHARS), "why").to_string();
        assert_eq!(file.len(), MAX_PLACE_CHARS + ": why".len());
    }
}
