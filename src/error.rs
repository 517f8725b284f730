//! The one error type: what was wrong, where, and what to do about it.

use std::fmt;

/// What every fallible function of the crate returns.
pub type Result<T> = std::result::Result<T, Error>;

/// A refused input, a bad rule file or a failed read, as one sentence for a person.
///
/// The kind is private: callers show the message, they do not branch on it.
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
    /// An input that is not a trace gpuprism reads; `why` says what it is and the remedy.
    pub fn refused(file: impl Into<String>, why: impl Into<String>) -> Self {
        Self { place: file.into(), kind: Kind::Refused(why.into()) }
    }

    /// A rule file that cannot be used; `place` names file, engine, model and rule as far as known.
    pub fn rules(place: impl Into<String>, why: impl Into<String>) -> Self {
        Self { place: place.into(), kind: Kind::Rules(why.into()) }
    }

    /// An option that does not fit: an unknown engine, a malformed `--in_file`.
    pub fn usage(place: impl Into<String>, why: impl Into<String>) -> Self {
        Self { place: place.into(), kind: Kind::Usage(why.into()) }
    }

    /// A file that could not be read or written.
    pub fn io(file: impl Into<String>, error: &std::io::Error) -> Self {
        Self { place: file.into(), kind: Kind::Io(error.to_string()) }
    }

    /// True where the person's command, not their file, is at fault (exit status 2).
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
