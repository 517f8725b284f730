//! The error type of the crate. A message says what was wrong, where, and what to do.

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

impl Error {
    /// An input that gpuprism does not read. `why` says what it is and what to do.
    pub fn refused(file: impl Into<String>, why: impl Into<String>) -> Self {
        Self { place: file.into(), kind: Kind::Refused(why.into()) }
    }

    /// An invalid rule file. `place` names the file and, if known, engine, model and rule.
    pub fn rules(place: impl Into<String>, why: impl Into<String>) -> Self {
        Self { place: place.into(), kind: Kind::Rules(why.into()) }
    }

    /// A wrong option: an unknown engine, a malformed `--in_file`.
    pub fn usage(place: impl Into<String>, why: impl Into<String>) -> Self {
        Self { place: place.into(), kind: Kind::Usage(why.into()) }
    }

    /// A file that could not be read or written.
    pub fn io(file: impl Into<String>, error: &std::io::Error) -> Self {
        Self { place: file.into(), kind: Kind::Io(error.to_string()) }
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
