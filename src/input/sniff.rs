//! Detects the format of a file from its first bytes. The name counts only for binary files without a magic number.

#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
use super::known_formats;
use super::known_formats::{Other, not_read, not_read_by_first_bytes, not_read_by_text};
use super::streams::{self, StreamFormat};
use crate::{Error, Result};
use memchr::memmem;
use std::path::Path;

#[derive(Debug, Clone, Copy)]
#[cfg_attr(test, derive(PartialEq))]
pub(super) enum Guess {
    Json,
    /// Lines of text: the CSV of `nsys stats -r cuda_gpu_trace`, perhaps after console output.
    GpuTraceCsv,
    /// The `nvlink_timeseries.csv` of nsys-llm-explainer, or the tree of Proton.
    Document,
    /// Another format that is read as a stream.
    #[cfg_attr(
        all(target_arch = "wasm32", not(feature = "full")),
        allow(dead_code, reason = "the page's first module recognizes these formats and does not read them")
    )]
    Stream(&'static StreamFormat),
}

/// The first bytes of the `nvlink_timeseries.csv` of nsys-llm-explainer.
pub const NVLINK_SERIES_HEADER: &str = "metric_source_id,metric_name,timestamp_ns,";

/// The limit of the bytes looked at. The schema of a database, which identifies the tool, is near its start.
const MAX_BYTES: usize = 1 << 20;

/// The first bytes of every SQLite database.
pub(super) const SQLITE: &[u8] = b"SQLite format 3\0";

/// Returns the reader for a file that starts with `bytes`; `None` if more bytes are needed. `is_complete` says that the file
/// has no more bytes.
///
/// # Errors
/// If gpuprism does not read files of this kind.
pub(super) fn guess(label: &str, bytes: &[u8], is_complete: bool) -> Result<Option<Guess>> {
    // Never look at more than these bytes: the decision must not depend on where a chunk ends.
    let (bytes, is_complete) = match bytes.get(..MAX_BYTES) {
        Some(first) => (first, true),
        None => (bytes, is_complete),
    };
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    if bytes.starts_with(SQLITE) {
        return if is_complete { Err(database_error(label, bytes)) } else { Ok(None) };
    }
    if let Some(head) = bytes.get(..HEAD_BYTES).or(is_complete.then_some(bytes))
        && let Some(error) = not_read_by_first_bytes(label, head)
    {
        return Err(error);
    }
    if bytes.first() == Some(&PROTOBUF_FIRST_FIELD) {
        let Some(head) = bytes.get(..PROTOBUF_HEAD_BYTES).or(is_complete.then_some(bytes)) else { return Ok(None) };
        if memmem::find(head, REPLACED).is_some_and(|at| at < MAX_FIRST_NUMBERS) {
            return Err(not_read(label, Other::ConvertedBinary));
        }
        #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
        if let Some(format) = streams::of_protobuf(head) {
            return Ok(Some(Guess::Stream(format)));
        }
        #[cfg(all(target_arch = "wasm32", not(feature = "full")))]
        if is_binary(head) {
            return Err(not_read(label, Other::Binary));
        }
    }
    let is_json = matches!(text.first(), Some(b'{' | b'['));
    if let (true, Some(head)) = (is_json, text.get(..JSON_HEAD_BYTES).or(is_complete.then_some(text))) {
        if streams::is_proton_tree(head) {
            return Ok(Some(Guess::Document));
        }
        #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
        if let Some(error) = not_read_json(label, head) {
            return Err(error);
        }
        if let Some(format) = streams::of_json(head) {
            return Ok(Some(Guess::Stream(format)));
        }
    } else if is_json {
        return Ok(None);
    }
    match text.split_first() {
        Some((b'{', _)) => return Ok(Some(Guess::Json)),
        Some((b'[', rest)) => match rest.trim_ascii_start().first() {
            Some(b'{' | b']') => return Ok(Some(Guess::Json)),
            None if is_complete => return Ok(Some(Guess::Json)),
            None => return Ok(None),
            Some(_) => {}
        },
        Some((b'<', _)) => return Err(not_read(label, Other::WebPage)),
        Some(_) => {}
        None if is_complete => return Err(not_read(label, Other::Empty)),
        None => return Ok(None),
    }
    let Some(head) = bytes.get(..HEAD_BYTES).or(is_complete.then_some(bytes)) else { return Ok(None) };
    if is_binary(head) {
        return Err(binary_error(label, head));
    }
    if let Some(error) = not_read_by_text(label, head) {
        return Err(error);
    }
    if let Some(format) = streams::of_text(text.get(..HEAD_BYTES).unwrap_or(text)) {
        return Ok(Some(Guess::Stream(format)));
    }
    Ok(Some(if bytes.starts_with(NVLINK_SERIES_HEADER.as_bytes()) { Guess::Document } else { Guess::GpuTraceCsv }))
}

/// The error for JSON with this beginning that another tool wrote and that is not read.
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
fn not_read_json(label: &str, head: &[u8]) -> Option<Error> {
    let other = || streams::is_onetrace(head).then(|| not_read(label, Other::Onetrace));
    known_formats::not_read_by_json(label, head).or_else(other)
}

/// The dialect of JSON is recognized by this many bytes: long enough for some events with long names.
const JSON_HEAD_BYTES: usize = 16 << 10;
/// Text and binary files are distinguished by this many bytes.
const HEAD_BYTES: usize = 4096;
/// Text may have one control byte per this many bytes: names in tables can contain some.
const TEXT_BYTES_PER_CONTROL_BYTE: usize = 64;

/// The first byte of a protobuf whose first field is a message; in a text it ends an empty line.
const PROTOBUF_FIRST_FIELD: u8 = b'\n';
/// Protobufs are recognized by this many bytes.
const PROTOBUF_HEAD_BYTES: usize = 4096;
/// What a conversion to text puts in the place of bytes that are no text: U+FFFD.
const REPLACED: &[u8] = b"\xef\xbf\xbd";
/// The lengths at the beginning of a protobuf, whose large bytes are no text.
const MAX_FIRST_NUMBERS: usize = 8;

fn is_binary(head: &[u8]) -> bool {
    let control = head.iter().filter(|byte| **byte < b' ' && !byte.is_ascii_whitespace() && **byte != 0x1b).count();
    head.contains(&0) || control > head.len() / TEXT_BYTES_PER_CONTROL_BYTE
}

fn binary_error(label: &str, bytes: &[u8]) -> Error {
    let lower = label.to_ascii_lowercase();
    let lower = lower.strip_suffix(".gz").unwrap_or(&lower);
    #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
    if lower.ends_with(".qdstrm") {
        return not_read(label, Other::Qdstrm);
    }
    if [".nsys-rep", ".qdrep"].iter().any(|end| lower.ends_with(end)) || memmem::find(bytes, b"QuadD").is_some() {
        return nsys_rep_error(label);
    }
    if [".pftrace", ".perfetto-trace"].iter().any(|end| lower.ends_with(end)) {
        return not_read(label, Other::Perfetto);
    }
    not_read(label, Other::Binary)
}

/// The error for an Nsight Systems report, with the commands that convert it.
pub fn nsys_rep_error(label: &str) -> Error {
    let output = |extension: &str| shell_word(&Path::new(label).with_extension(extension).to_string_lossy());
    let kind = if label.ends_with(".qdrep") { "a report of an old Nsight Systems (.qdrep)" } else { "an .nsys-rep" };
    let why = format!(
        "{kind}, which only Nsight Systems itself can read: run `nsys export --type sqlite --output {} \
         --force-overwrite=true --lazy=false {report}` and open the export; \
         or run `nsys stats -r cuda_gpu_trace --format csv -o {} {report}`, which writes the GPU ops alone",
        output("sqlite"),
        output(""),
        report = shell_word(label),
    );
    Error::refused(label, why)
}

const ROCM_STREAM: &str = "a database of a ROCm profiler, which cannot be read as a stream: save it as a file and give its path to `gpuprism report`";

/// The error for a database that came as a stream. The table names in its first bytes identify the tool.
fn database_error(label: &str, bytes: &[u8]) -> Error {
    let has = |needle: &str| memmem::find(bytes, needle.as_bytes()).is_some();
    let why = if has("rocpd_") {
        ROCM_STREAM
    } else if has("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL") || (has("CUPTI_ACTIVITY_KIND_") && has("_id_ INTEGER")) {
        return not_read(label, Other::Nvprof);
    } else if has("CUPTI_ACTIVITY_KIND_") || has("TARGET_INFO_") || has("StringIds") {
        "an Nsight Systems SQLite export, which cannot be read as a stream: save it as a file and give its path to \
         `gpuprism report`"
    } else {
        return not_read(label, Other::Database);
    };
    Error::refused(label, why)
}

/// The error for a gzipped database that is too large to decompress into memory.
#[cfg(all(target_arch = "wasm32", feature = "full"))]
pub(crate) fn too_large_to_gunzip(label: &str, bound_bytes: u64) -> Error {
    let why = format!(
        "a gzipped database of more than {} MiB, which the page would have to decompress into memory: run `gunzip {}` and \
         open the result, which may have any size",
        bound_bytes >> 20,
        shell_word(label)
    );
    Error::refused(label, why)
}

/// Quotes a word for a shell if necessary, so that people can copy the command.
fn shell_word(text: &str) -> String {
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-+/:@%".contains(&byte));
    if plain && !text.starts_with('-') { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_formats_are_detected_by_content() {
        for (bytes, want) in [
            (&b"\xef\xbb\xbf \n{\"a\": 1}"[..], Guess::Json),
            (b"\n\n[\n {\"ph\"", Guess::Json),
            (b"[", Guess::Json),
            (b"[1/3] Executing 'cuda_gpu_trace' stats report", Guess::GpuTraceCsv),
            (b"Start (ns),Duration (ns)", Guess::GpuTraceCsv),
        ] {
            assert_eq!(guess("trace.bin", bytes, true), Ok(Some(want)));
        }
    }

    #[test]
    fn errors_name_the_kind_of_file() {
        let database = |schema: &str| [b"SQLite format 3\0", schema.as_bytes()].concat();
        for (label, bytes, want) in [
            ("x.nsys-rep", b"\x00\x01\x02binary".to_vec(), "nsys stats -r cuda_gpu_trace"),
            ("x.nsys-rep", b"\0".to_vec(), "`nsys export --type sqlite --output x.sqlite --force-overwrite=true"),
            ("it's.nsys-rep", b"\0".to_vec(), r" --lazy=false 'it'\''s.nsys-rep'`"),
            ("x.json", database("CREATE TABLE rocpd_op"), "ROCm profiler"),
            ("x", database("CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (_id_ INTEGER"), "nvprof .nvvp"),
            ("x", database("CREATE TABLE StringIds"), "cannot be read as a stream"),
            ("x", database("CREATE TABLE songs"), "not an Nsight Systems export"),
            ("x.gz", b"PK\x03\x04....".to_vec(), "zip"),
            ("x", b"  \n".to_vec(), "empty"),
            ("x", b"".to_vec(), "empty"),
        ] {
            let message = guess(label, &bytes, true).unwrap_err().to_string();
            assert!(message.contains(want) && message.starts_with(label), "{message}");
        }
    }
}
