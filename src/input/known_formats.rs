//! What gpuprism reads and what people confuse with it, from `patterns/formats.json`: the table of `gpuprism formats`, and the
//! errors for all other files. An error says what the file is, what is read, and how to record a file that is read.
//!
//! The page's first module has no texts: the second one reads a file again that the first one refuses.

#[cfg(all(target_arch = "wasm32", not(feature = "full")))]
use crate::Error;

/// Lists the files that are not read, each with its id in `patterns/formats.json`, once for the type, the ids and the test.
macro_rules! others {
    ($($(#[$condition:meta])* $name:ident = $id:literal,)*) => {
        /// Files that are not read.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Other {
            $($(#[$condition])* $name,)*
        }

        #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
        impl Other {
            #[cfg(test)]
            const ALL: &[Self] = &[$($(#[$condition])* Self::$name,)*];

            fn id(self) -> &'static str {
                match self {
                    $($(#[$condition])* Self::$name => $id,)*
                }
            }
        }
    };
}

others! {
    WebPage = "web_page",
    Empty = "empty",
    Perfetto = "perfetto",
    Binary = "binary",
    ConvertedBinary = "converted_binary",
    Text = "text",
    KernelSummary = "kernel_summary",
    NsysSummary = "nsys_summary",
    HostTable = "host_table",
    NsysTable = "nsys_table",
    Document = "document",
    JsonList = "json_list",
    EmptyList = "empty_list",
    XlaTrace = "xla_trace",
    Unitrace = "unitrace",
    Nvprof = "nvprof",
    Database = "database",
    // A database of rocprofv3 or rocmProfileData that lacks the tables that count.
    #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
    RocmWithoutOps = "rocm_without_ops",
    #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
    AscendTable = "ascend_table",
    #[cfg(all(not(target_arch = "wasm32"), feature = "facts"))]
    NoTraces = "no_traces",
    #[cfg(not(target_arch = "wasm32"))]
    ManyRuns = "many_runs",
}

#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
pub(crate) use texts::*;

#[cfg(all(target_arch = "wasm32", not(feature = "full")))]
pub(crate) fn not_read(label: &str, _: Other) -> Error {
    Error::refused(label, "not read")
}

#[cfg(all(target_arch = "wasm32", not(feature = "full")))]
pub(crate) fn not_read_by_first_bytes(_: &str, _: &[u8]) -> Option<Error> {
    None
}

#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
mod texts {
    use super::Other;
    use crate::Error;
    use crate::json::{self, embedded, from_json};
    use std::sync::LazyLock;

    /// The content of `patterns/formats.json`.
    #[derive(Debug)]
    pub(crate) struct KnownFormats {
        pub(crate) formats: Vec<Described>,
        others: Vec<DescribedOther>,
    }
    from_json!(KnownFormats { formats, others });

    /// A format that is read.
    #[derive(Debug)]
    #[cfg_attr(
        any(target_arch = "wasm32", not(feature = "facts")),
        allow(dead_code, reason = "only the command line prints the table, and only facts search in folders")
    )]
    pub(crate) struct Described {
        pub(crate) id: String,
        pub(crate) title: String,
        pub(crate) files: String,
        /// The ends of the names of its files.
        pub(crate) endings: Vec<String>,
        pub(crate) from: String,
        pub(crate) lacks: String,
        pub(crate) capture: String,
    }
    from_json!(strict Described { id, title, files, endings, from, lacks, capture });

    /// A kind of file that is not read.
    #[derive(Debug)]
    struct DescribedOther {
        id: String,
        /// The first bytes in hexadecimal, if they tell.
        starts: Option<String>,
        what: String,
        /// The format to record instead; none if the file only has to be unpacked or found.
        record: Option<String>,
    }
    from_json!(strict DescribedOther { id, what; starts, record });

    pub(crate) static KNOWN: LazyLock<KnownFormats> =
        LazyLock::new(|| embedded(json::read(include_str!("../../patterns/formats.json"))));

    /// The error for a file that is not read.
    pub(crate) fn not_read(label: &str, other: Other) -> Error {
        let described = KNOWN.others.iter().find(|known| known.id == other.id());
        described.map_or_else(|| Error::refused(label, other.id()), |known| known.error(label))
    }

    /// The error for a file whose first bytes tell that it is not read.
    pub(crate) fn not_read_by_first_bytes(label: &str, bytes: &[u8]) -> Option<Error> {
        let starts = |other: &&DescribedOther| other.starts.as_deref().is_some_and(|start| starts_with(bytes, start));
        KNOWN.others.iter().find(starts).map(|other| other.error(label))
    }

    /// What is read, as the sentence of an error: the titles of all formats.
    pub(crate) fn read_formats() -> String {
        let titles: Vec<&str> = KNOWN.formats.iter().map(|format| format.title.as_str()).collect();
        format!("gpuprism reads {}", crate::listed(&titles))
    }

    /// The titles of the formats whose files have one of these endings.
    #[cfg(all(not(target_arch = "wasm32"), feature = "cli"))]
    pub(crate) fn titles_of(endings: &[&str]) -> String {
        let has_one = |format: &&Described| format.endings.iter().any(|end| endings.contains(&end.as_str()));
        let titles: Vec<&str> = KNOWN.formats.iter().filter(has_one).map(|format| format.title.as_str()).collect();
        crate::listed(&titles)
    }

    /// The error for a file that gpuprism knows and that is no trace, such as a rule file.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn no_trace(label: &str) -> Error {
        Error::refused(label, format!("neither a trace nor a gpuprism report. {}", read_formats()))
    }

    impl DescribedOther {
        fn error(&self, label: &str) -> Error {
            let end = if self.what.ends_with('?') { "" } else { "." };
            let format = self.record.as_ref().and_then(|id| KNOWN.formats.iter().find(|format| format.id == *id));
            let record =
                format.map(|format| format!(" To record {}: {}.", format.title, format.capture.trim_end_matches('.')));
            let why = format!("{}{end} {}.{}", self.what, read_formats(), record.unwrap_or_default());
            Error::refused(label, why)
        }
    }

    /// Whether the bytes start with those that two digits each describe.
    fn starts_with(bytes: &[u8], hexadecimal: &str) -> bool {
        let digit = |index: usize| u8::try_from(char::from(*hexadecimal.as_bytes().get(index)?).to_digit(16)?).ok();
        let wanted = |index: usize| Some(digit(2 * index)? << 4 | digit(2 * index + 1)?);
        (0..hexadecimal.len() / 2)
            .all(|index| bytes.get(index).copied().is_some_and(|byte| wanted(index) == Some(byte)))
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::trace::Format;

        #[test]
        fn every_format_is_described_under_its_own_name_and_title() {
            let described: Vec<(String, &str)> =
                KNOWN.formats.iter().map(|format| (format.id.clone(), format.title.as_str())).collect();
            let name = |format: Format| serde_json::to_value(format).unwrap().as_str().unwrap().to_owned();
            let known: Vec<(String, &str)> = Format::ALL.iter().map(|format| (name(*format), format.title())).collect();
            assert_eq!(described, known);
        }

        #[test]
        fn every_refusal_names_the_formats_and_how_to_record_one() {
            for other in &KNOWN.others {
                let message = other.error("x").to_string();
                assert!(message.starts_with(&format!("x: {}", other.what)), "{message}");
                assert!(KNOWN.formats.iter().all(|format| message.contains(&format.title)), "{message}");
                let recorded =
                    other.record.as_ref().map(|id| KNOWN.formats.iter().find(|format| format.id == *id).unwrap());
                assert!(
                    recorded.is_none_or(|format| message.contains(format.capture.trim_end_matches('.'))),
                    "{message}"
                );
                let hexadecimal = other.starts.as_deref().unwrap_or("00");
                assert!(
                    hexadecimal.len().is_multiple_of(2) && hexadecimal.bytes().all(|byte| byte.is_ascii_hexdigit())
                );
            }
        }

        /// The first bytes are those that the formats prescribe.
        #[test]
        fn the_first_bytes_of_a_file_tell_its_kind_and_what_to_do() {
            let nsys = "To record Nsight Systems export:";
            let torch = "To record torch.profiler:";
            for (bytes, kind, remedy) in [
                (&b"PK\x03\x04"[..], "a zip archive:", "unpack it and open the trace inside"),
                (b"\x28\xb5\x2f\xfd", "compressed with zstd:", "`zstd -d`"),
                (b"BZh91AY&SY", "compressed with bzip2:", "`bunzip2`"),
                (b"\xfd7zXZ\0", "compressed with xz:", "`unxz`"),
                (b"\x1f\x8b\x08\0", "gzipped twice:", "`gunzip`"),
                (b"PAR1", "a Parquet file:", nsys),
                (b"\x89HDF\r\n\x1a\n", "an HDF5 file:", nsys),
                (b"ARROW1\0\0", "an Arrow file:", nsys),
                (b"\xff\xff\xff\xff", "perhaps an Arrow stream:", nsys),
                (b"NVR\0", "an Nsight Compute report", nsys),
                (b"\x80\x04", "a Python pickle,", torch),
                (b"\x7fELF", "a program,", torch),
                (b"%PDF-1.7", "a PDF,", torch),
                (b"\x89PNG\r\n\x1a\n", "a picture,", torch),
            ] {
                let message = not_read_by_first_bytes("x", bytes).unwrap().to_string();
                assert!(message.starts_with(&format!("x: {kind}")) && message.contains(remedy), "{kind} {message}");
            }
            assert!(not_read_by_first_bytes("x", b"{\"traceEvents\"").is_none());
        }

        #[test]
        #[cfg(feature = "facts")]
        fn every_kind_of_other_file_is_described() {
            let ids: Vec<&str> =
                KNOWN.others.iter().filter(|other| other.starts.is_none()).map(|other| other.id.as_str()).collect();
            assert!(Other::ALL.iter().all(|other| ids.contains(&other.id())));
            assert_eq!(ids.len(), Other::ALL.len());
        }
    }
}
