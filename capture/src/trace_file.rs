//! Is a file a complete torch.profiler trace, and does it contain GPU kernels?
//!
//! The whole file is unpacked and searched once, in pieces of 1 MiB: about 1 s for 300 MB of JSON. A file that is still being
//! written ends in the middle of the JSON or of the gzip stream.

use crate::{Cancel, Error, Result};
use flate2::bufread::MultiGzDecoder;
use memchr::memmem;
use std::fs::File;
use std::io::{BufReader, Read, Seek};
use std::path::Path;

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Content {
    NotATrace,
    /// A trace, or the start of any JSON, that is not complete.
    Unfinished,
    Trace {
        has_kernels: bool,
    },
}

const CHUNK_BYTES: usize = 1 << 20;
/// The part of the file in which a trace must show one of its own members.
const HEAD_BYTES: usize = 64 << 10;
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The category of a kernel, as torch.profiler writes it, and without the blank.
const KERNEL: [&[u8]; 2] = [b"\"cat\": \"kernel\"", b"\"cat\":\"kernel\""];

/// Reads a file. An error is one of the disk; a broken gzip stream is [`Content::Unfinished`].
pub(crate) fn examine(path: &Path, cancel: &Cancel) -> Result<Content> {
    let failed = |error: std::io::Error| Error::file(path, &error);
    let mut file = File::open(path).map_err(failed)?;
    let mut magic = Vec::new();
    (&mut file).take(GZIP_MAGIC.len() as u64).read_to_end(&mut magic).map_err(failed)?;
    file.rewind().map_err(failed)?;
    if magic == GZIP_MAGIC {
        // A stream that is still being written fails at its end.
        scan(MultiGzDecoder::new(BufReader::new(file)), cancel).map_or_else(
            |failure| if cancel.is_cancelled() { Err(Error::cancelled()) } else { Ok(failure.content) },
            Ok,
        )
    } else {
        scan(file, cancel).map_err(
            |failure| {
                if cancel.is_cancelled() { Error::cancelled() } else { failed(failure.error) }
            },
        )
    }
}

/// A read error, and what the file is if the error is the end of a broken gzip stream.
struct ScanFailure {
    error: std::io::Error,
    content: Content,
}

fn scan(mut reader: impl Read, cancel: &Cancel) -> std::result::Result<Content, ScanFailure> {
    let finders = KERNEL.map(memmem::Finder::new);
    let overlap = KERNEL.iter().map(|word| word.len() - 1).max().unwrap_or(0);
    let mut buffer: Vec<u8> = Vec::with_capacity(CHUNK_BYTES + overlap);
    let (mut has_kernels, mut last, mut is_first) = (false, None, true);
    loop {
        let kept = buffer.len();
        let read = (&mut reader).take((CHUNK_BYTES - kept.min(overlap)) as u64).read_to_end(&mut buffer);
        let read = match read {
            _ if cancel.is_cancelled() => Err(std::io::Error::other("interrupted")),
            read => read,
        };
        let count = read.map_err(|error| ScanFailure { error, content: Content::Unfinished })?;
        if is_first && count > 0 && !is_head_of_trace(buffer.get(..HEAD_BYTES).unwrap_or(&buffer)) {
            return Ok(if count < HEAD_BYTES { short(&buffer) } else { Content::NotATrace });
        }
        is_first = false;
        if count == 0 {
            let is_complete = matches!(last, Some(b'}' | b']'));
            return Ok(if is_complete { Content::Trace { has_kernels } } else { Content::Unfinished });
        }
        let new = buffer.get(kept..).unwrap_or_default();
        last = new.iter().rev().find(|byte| !byte.is_ascii_whitespace()).copied().or(last);
        has_kernels = has_kernels || finders.iter().any(|finder| finder.find(&buffer).is_some());
        buffer.drain(..buffer.len().saturating_sub(overlap));
    }
}

/// A short file without a member of a trace: JSON that may still grow, or something else.
fn short(text: &[u8]) -> Content {
    let text = text.trim_ascii();
    match (text.first(), text.last()) {
        (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']')) => Content::NotATrace,
        (Some(b'{' | b'['), _) | (None, _) => Content::Unfinished,
        _ => Content::NotATrace,
    }
}

/// Returns true for the start of a torch.profiler trace or of another list of trace events.
fn is_head_of_trace(head: &[u8]) -> bool {
    let has = |word: &str| memmem::find(head, word.as_bytes()).is_some();
    match head.trim_ascii_start().first() {
        Some(b'{') => ["\"traceEvents\"", "\"schemaVersion\"", "\"deviceProperties\""].iter().any(|word| has(word)),
        Some(b'[') => has("\"ph\""),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn examined(name: &str, bytes: &[u8]) -> Content {
        let path = std::env::temp_dir().join(format!("gpuprism-capture-{}-{name}", std::process::id()));
        std::fs::write(&path, bytes).unwrap();
        let content = examine(&path, &Cancel::default()).unwrap();
        std::fs::remove_file(&path).unwrap();
        content
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    const KERNELS: &str = r#"{"schemaVersion": 1, "traceEvents": [{"ph": "X", "cat": "kernel", "name": "k"}]}"#;

    #[test]
    fn traces_with_and_without_kernels_are_told_apart() {
        let cpu = KERNELS.replace("kernel", "cpu_op");
        assert_eq!(examined("kernels", KERNELS.as_bytes()), Content::Trace { has_kernels: true });
        assert_eq!(examined("cpu", cpu.as_bytes()), Content::Trace { has_kernels: false });
        assert_eq!(examined("gzip", &gzip(KERNELS.as_bytes())), Content::Trace { has_kernels: true });
        assert_eq!(examined("list", br#"[{"ph":"X","cat":"kernel"}]"#), Content::Trace { has_kernels: true });
    }

    #[test]
    fn every_prefix_of_a_trace_is_unfinished() {
        for end in 0..KERNELS.len() {
            let content = examined("prefix", &KERNELS.as_bytes()[..end]);
            // A prefix may end with the bracket of an inner object.
            let ends_like_json = KERNELS[..end].ends_with(['}', ']']);
            assert!(content == Content::Unfinished || ends_like_json, "{end}: {content:?}");
        }
        let packed = gzip(KERNELS.as_bytes());
        for end in 2..packed.len() {
            assert_eq!(examined("gzip-prefix", &packed[..end]), Content::Unfinished, "{end} of {}", packed.len());
        }
    }

    #[test]
    fn other_files_are_no_traces() {
        let others = ["{\"model_type\": \"llama\"}", "[1, 2]", "kernel,time\n", "<html>", "\u{0}\u{1}"];
        for other in others {
            assert_eq!(examined("other", other.as_bytes()), Content::NotATrace, "{other}");
        }
    }

    #[test]
    fn a_kernel_is_found_wherever_pieces_end() {
        for padding in [CHUNK_BYTES - 60, CHUNK_BYTES - 40, CHUNK_BYTES - 30, 2 * CHUNK_BYTES - 50] {
            let text = format!(r#"{{"traceEvents": ["{}", {{"cat": "kernel"}}]}}"#, "x".repeat(padding));
            assert_eq!(examined("pieces", text.as_bytes()), Content::Trace { has_kernels: true }, "{padding}");
        }
    }
}
