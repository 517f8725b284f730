//! What a program learns while its files are read: problems that do not stop the work, progress, and whether to stop.

use crate::{Error, Result};
pub use gpuprism_capture::Cancel;

/// A program that reads files: the command line or the Python package.
pub trait Watch: Sync {
    /// Takes a problem that does not stop the work, as a sentence.
    fn warn(&self, sentence: &str);

    /// Takes how much of a file has been read.
    fn progress(&self, progress: &Progress) {
        let _ = progress;
    }

    /// Ends the reading when it is cancelled: of a file that is streamed at the next chunk, of a database within milliseconds.
    fn cancel(&self) -> Cancel {
        Cancel::default()
    }
}

/// Drops all warnings, for a look at files that are read with another [`Watch`].
pub(crate) struct Quiet;

impl Watch for Quiet {
    fn warn(&self, _: &str) {}
}

/// How much of a file has been read.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// The label of the file.
    pub label: &'a str,
    /// The size of the file in bytes.
    pub length: u64,
    /// What has been read.
    pub done: Done,
}

/// What has been read of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Done {
    /// So many bytes.
    Bytes(u64),
    /// So many rows of a database.
    Rows(u64),
    /// Everything.
    All,
}

/// # Errors
/// The program wants to stop.
pub(super) fn check(watch: &dyn Watch, label: &str) -> Result<()> {
    if watch.cancel().is_cancelled() { Err(Error::refused(label, "reading was cancelled")) } else { Ok(()) }
}
