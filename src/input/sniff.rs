//! What is this file? Told by its first bytes, never by its name, except among binary files that all look alike.

use crate::{Error, Result};
use memchr::memmem;
use std::path::Path;

/// The readers to choose from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Guess {
    /// A JSON object or array.
    Json,
    /// Lines of text: a table, perhaps after some console output.
    Table,
    /// A table that belongs to another tool's report.
    Series,
}

/// How the `nvlink_timeseries.csv` of nsys-llm-explainer begins.
pub const SERIES_HEAD: &str = "metric_source_id,metric_name,timestamp_ns,";

/// No more than this is looked at. A database tells within it whose it is: its schema stands near the front.
const SCHEMA_BYTES: usize = 1 << 20;

/// How every SQLite database begins.
pub(super) const SQLITE: &[u8] = b"SQLite format 3\0";

/// Binary formats that people confuse with traces: first bytes, what it is, what to do.
const REFUSED: &[(&[u8], &str)] = &[
    (b"PK\x03\x04", "a zip archive: unpack it and open the trace inside"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd: run `zstd -d` on it first"),
    (b"BZh", "compressed with bzip2: run `bunzip2` on it first"),
    (b"\xfd7zXZ\0", "compressed with xz: run `unxz` on it first"),
    (b"PAR1", "a Parquet file, not a trace: export with `nsys export --type sqlite`"),
    (b"NVR\0", "a Nsight Compute report (.ncu-rep), which profiles single kernels and has no timeline"),
    (b"\x1f\x8b", "gzipped twice: run `gunzip` on it once"),
    (b"\x80\x04", "a Python pickle, perhaps a torch memory snapshot, not a trace"),
    (b"\x7fELF", "a program, not a trace"),
    (b"%PDF", "a PDF, not a trace"),
    (b"\x89PNG", "a picture, not a trace"),
];

/// Picks the reader for a file that begins with `bytes`; `None` where more of it is needed.
pub(super) fn guess(label: &str, bytes: &[u8], complete: bool) -> Result<Option<Guess>> {
    // The same bytes decide wherever the first chunk ended.
    let (bytes, complete) = match bytes.get(..SCHEMA_BYTES) {
        Some(first) => (first, true),
        None => (bytes, complete),
    };
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii_start();
    if bytes.starts_with(SQLITE) {
        return if complete { Err(database(label, bytes)) } else { Ok(None) };
    }
    if let Some((_, what)) = REFUSED.iter().find(|(magic, _)| bytes.starts_with(magic)) {
        return Err(Error::refused(label, *what));
    }
    match text.split_first() {
        Some((b'{', _)) => return Ok(Some(Guess::Json)),
        Some((b'[', rest)) => match rest.trim_ascii_start().first() {
            Some(b'{' | b']') => return Ok(Some(Guess::Json)),
            None if complete => return Ok(Some(Guess::Json)),
            None => return Ok(None),
            Some(_) => {}
        },
        Some((b'<', _)) => {
            return Err(Error::refused(label, "a web page or XML, not a trace: was the download a login page?"));
        }
        Some(_) => {}
        None if complete => {
            return Err(Error::refused(label, "empty: the profiler wrote nothing, or the copy was interrupted"));
        }
        None => return Ok(None),
    }
    let Some(head) = bytes.get(..HEAD_BYTES).or(complete.then_some(bytes)) else { return Ok(None) };
    let control = head.iter().filter(|byte| **byte < b' ' && !byte.is_ascii_whitespace() && **byte != 0x1b).count();
    if head.contains(&0) || control > head.len() / STRAY_BYTES {
        return Err(binary(label, head));
    }
    Ok(Some(if bytes.starts_with(SERIES_HEAD.as_bytes()) { Guess::Series } else { Guess::Table }))
}

/// So much of a file tells text from binary.
const HEAD_BYTES: usize = 4096;
/// Text may hold one stray control byte in so many; a name in a table can bring one along.
const STRAY_BYTES: usize = 64;

fn binary(label: &str, bytes: &[u8]) -> Error {
    let lower = label.to_ascii_lowercase();
    let lower = lower.strip_suffix(".gz").unwrap_or(&lower);
    if [".nsys-rep", ".qdrep", ".qdstrm"].iter().any(|end| lower.ends_with(end))
        || memmem::find(bytes, b"QuadD").is_some()
    {
        return nsys_rep(label);
    }
    if [".pftrace", ".perfetto-trace"].iter().any(|end| lower.ends_with(end)) {
        return Error::refused(
            label,
            "a Perfetto protobuf trace, which gpuprism does not read: open the profiler's own JSON",
        );
    }
    Error::refused(
        label,
        "a binary file of a kind gpuprism does not know; it reads torch.profiler JSON and Nsight Systems exports",
    )
}

/// The refusal of an Nsight Systems report, with the commands that make it readable.
pub fn nsys_rep(label: &str) -> Error {
    let beside = |extension: &str| shell_word(&Path::new(label).with_extension(extension).to_string_lossy());
    let why = format!(
        "an .nsys-rep, which only Nsight Systems itself can read: run `nsys export --type sqlite --output {} \
         --force-overwrite=true --lazy=false {report}` and open the export; \
         `nsys stats -r cuda_gpu_trace --format csv -o {} {report}` makes a table with the GPU's part of it",
        beside("sqlite"),
        beside(""),
        report = shell_word(label),
    );
    Error::refused(label, why)
}

/// The refusal of a ROCm database.
pub(super) const ROCM_RPD: &str = "a ROCm .rpd database, which gpuprism does not read: use torch.profiler's JSON";
/// The refusal of nvprof's database.
pub(super) const NVPROF: &str =
    "an nvprof .nvvp database, which gpuprism does not read: capture again with Nsight Systems";
/// The refusal of any other database.
pub(super) const OTHER_DATABASE: &str = "an SQLite database that is no Nsight Systems export";

/// A database cannot be read as a stream; its schema still tells whose it is.
fn database(label: &str, bytes: &[u8]) -> Error {
    let has = |needle: &str| memmem::find(bytes, needle.as_bytes()).is_some();
    let why = if has("rocpd_") {
        ROCM_RPD
    } else if has("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL") || (has("CUPTI_ACTIVITY_KIND_") && has("_id_ INTEGER")) {
        NVPROF
    } else if has("CUPTI_ACTIVITY_KIND_") || has("TARGET_INFO_") || has("StringIds") {
        "an Nsight Systems SQLite export, which is read as a file and not as a stream: save it, and give its path to \
         `gpuprism report`"
    } else {
        OTHER_DATABASE
    };
    Error::refused(label, why)
}

/// The refusal of a gzipped database that would have to be held whole.
#[cfg(all(target_arch = "wasm32", feature = "full"))]
pub(crate) fn too_large_to_unpack(label: &str, bound_bytes: u64) -> Error {
    let why = format!(
        "a gzipped database of more than {} MiB, which the page would have to hold whole; unpacked, it reads one of any \
         size: run `gunzip {}` and open what that leaves",
        bound_bytes >> 20,
        shell_word(label)
    );
    Error::refused(label, why)
}

/// Quoted for a shell where it has to be: the sentence holds a command to copy.
fn shell_word(text: &str) -> String {
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-+/:@%".contains(&byte));
    if plain && !text.starts_with('-') { text.to_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(label: &str, bytes: &[u8]) -> String {
        guess(label, bytes, true).unwrap_err().to_string()
    }

    #[test]
    fn text_is_told_apart_by_content() {
        for (bytes, want) in [
            (&b"\xef\xbb\xbf \n{\"a\": 1}"[..], Guess::Json),
            (b"\n\n[\n {\"ph\"", Guess::Json),
            (b"[", Guess::Json),
            (b"[1/3] Executing 'cuda_gpu_trace' stats report", Guess::Table),
            (b"Start (ns),Duration (ns)", Guess::Table),
        ] {
            assert_eq!(guess("trace.bin", bytes, true), Ok(Some(want)));
        }
    }

    #[test]
    fn look_alikes_are_refused_by_what_they_are() {
        let database = |schema: &str| [b"SQLite format 3\0", schema.as_bytes()].concat();
        for (label, bytes, want) in [
            ("x.nsys-rep", b"\x00\x01\x02binary".to_vec(), "nsys stats -r cuda_gpu_trace"),
            (
                "x.nsys-rep",
                b"\x00\x01\x02binary".to_vec(),
                "`nsys export --type sqlite --output x.sqlite --force-overwrite=true --lazy=false x.nsys-rep`",
            ),
            ("x.json", database("CREATE TABLE rocpd_op"), "ROCm .rpd"),
            ("x", database("CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (_id_ INTEGER"), "nvprof .nvvp"),
            ("x", database("CREATE TABLE StringIds"), "read as a file and not as a stream"),
            ("x", database("CREATE TABLE songs"), "no Nsight Systems export"),
            ("x.gz", b"PK\x03\x04....".to_vec(), "zip"),
            ("x", b"  \n".to_vec(), "empty"),
            ("x", b"".to_vec(), "empty"),
        ] {
            let message = refusal(label, &bytes);
            assert!(message.contains(want) && message.starts_with(label), "{message}");
        }
        assert!(refusal("it's.nsys-rep", b"\0\0").contains(r"'it'\''s.nsys-rep'"));
    }
}
