//! Small helpers to read files: labels and chunks.

use std::io::Read;
use std::path::Path;

/// The size of a chunk: large enough that passing chunks between threads costs nothing, small compared with a trace.
pub(crate) const CHUNK_BYTES: usize = 1 << 18;

/// Whether a path stands for standard input. A file of this name is `./-`.
pub(crate) fn is_standard_input(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// The file name without folders: reports contain no paths.
pub fn label(path: &Path) -> String {
    if is_standard_input(path) {
        return "standard input".to_owned();
    }
    path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// Reads until the chunk is full or the file ends; returns the number of bytes read.
pub(super) fn read_full(file: &mut impl Read, chunk: &mut [u8]) -> std::io::Result<usize> {
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
