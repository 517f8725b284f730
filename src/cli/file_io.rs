//! Small helpers to read files: labels, chunks, a progress line.

use crate::report::format::clean;
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::path::Path;

/// The size of a chunk: large enough that passing chunks between threads costs nothing, small compared with a trace.
pub(super) const CHUNK_BYTES: usize = 1 << 18;

/// The file name without folders: reports contain no paths.
pub(super) fn label(path: &Path) -> String {
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Reads until the chunk is full or the file ends; returns the number of bytes read.
pub(super) fn read_full(file: &mut File, chunk: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = chunk.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// A line on standard error that shows how much of a file has been read, if standard error is a terminal.
pub(super) struct Progress<'a> {
    label: &'a str,
    length: u64,
    is_visible: bool,
}

impl<'a> Progress<'a> {
    /// Small files get no line.
    pub(super) fn new(label: &'a str, length: u64) -> Self {
        const MIN_BYTES: u64 = 8 << 20;
        Self { label, length, is_visible: length > MIN_BYTES && std::io::stderr().is_terminal() }
    }

    pub(super) fn show(&self, done: u64) {
        // Updates the line about every 8 MiB.
        if self.is_visible && done % (8 << 20) < CHUNK_BYTES as u64 {
            let percent = done.saturating_mul(100) / self.length.max(1);
            let _ = write!(std::io::stderr(), "\rreading {}: {percent} %", clean(self.label));
        }
    }

    pub(super) fn show_rows(&self, rows: u64) {
        if self.is_visible {
            let _ = write!(std::io::stderr(), "\rreading {}: {rows} rows", clean(self.label));
        }
    }

    pub(super) fn clear(&self) {
        if self.is_visible {
            let _ = write!(std::io::stderr(), "\r\x1b[2K");
        }
    }
}
