//! The error of the crate: one sentence that says what was wrong and what to do.

use std::fmt;

/// The result of the crate's fallible functions.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a capture failed, as one sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    message: String,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Failed,
    Usage,
    Cancelled,
}

/// A longer message would only repeat what a server said.
const MAX_CHARS: usize = 4000;

fn bounded(message: &str) -> String {
    crate::text::clean(message, MAX_CHARS)
}

impl Error {
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self { message: bounded(&message.into()), kind: Kind::Failed }
    }

    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: bounded(&message.into()), kind: Kind::Usage }
    }

    pub(crate) fn cancelled() -> Self {
        Self { message: "interrupted".to_owned(), kind: Kind::Cancelled }
    }

    pub(crate) fn file(path: &std::path::Path, error: &std::io::Error) -> Self {
        Self::failed(format!("{}: {error}", path.display()))
    }

    /// The same error with a further remark, such as that the profiler still runs.
    pub(crate) fn and(mut self, remark: &str) -> Self {
        self.message = format!("{}; {remark}", self.message);
        self
    }

    /// Returns true if the options are wrong and nothing was sent to the server.
    pub fn is_usage(&self) -> bool {
        self.kind == Kind::Usage
    }

    /// Returns true if [`Cancel`](crate::Cancel) ended the capture.
    pub fn is_cancelled(&self) -> bool {
        self.kind == Kind::Cancelled
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
