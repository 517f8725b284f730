//! What gpuprism reads and what people confuse with it, from `patterns/formats.json`: the table of `gpuprism formats`, and the
//! errors for all other files. An error says in one sentence what the file is and what to do, with a tool of the same maker.
//!
//! Most of these files are recognized by the table itself, from their first bytes; the readers recognize the others. Each check
//! looks at the beginning of a file once per entry of the table.
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
    HostTable = "host_table",
    Document = "document",
    JsonList = "json_list",
    EmptyList = "empty_list",
    XlaTrace = "xla_trace",
    Unitrace = "unitrace",
    #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
    Onetrace = "onetrace",
    #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
    Qdstrm = "qdstrm",
    #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
    RocprofCounters = "rocprof_counters",
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

#[cfg(all(target_arch = "wasm32", not(feature = "full")))]
pub(crate) fn not_read_by_text(_: &str, _: &[u8]) -> Option<Error> {
    None
}

#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
mod texts {
    use super::Other;
    use crate::Error;
    use crate::json::{self, embedded, from_json};
    use memchr::memmem::find;
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
        target_arch = "wasm32",
        allow(dead_code, reason = "only the command line prints the table and searches in folders")
    )]
    pub(crate) struct Described {
        #[cfg_attr(not(test), allow(dead_code, reason = "a test compares it with the names of the formats"))]
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

    /// A kind of file that is not read. Kinds without `starts`, `words`, `titles` and `json` are recognized by the readers.
    #[derive(Debug)]
    struct DescribedOther {
        id: String,
        /// The bytes at the offset `at`, in hexadecimal: one of these.
        starts: Vec<String>,
        at: Option<usize>,
        /// What the beginning contains, all of it.
        words: Vec<String>,
        /// What titles of columns start with: all of one of these lists, in one line.
        titles: Vec<Vec<String>>,
        /// What the beginning of a JSON object contains: all of one of these lists.
        json: Vec<Vec<String>>,
        what: String,
        instead: String,
    }
    from_json!(strict DescribedOther { id, what, instead; starts, at, words, titles, json });

    pub(crate) static KNOWN: LazyLock<KnownFormats> =
        LazyLock::new(|| embedded(json::read(include_str!("../../patterns/formats.json"))));

    /// The error for a file that is not read.
    pub(crate) fn not_read(label: &str, other: Other) -> Error {
        let described = KNOWN.others.iter().find(|known| known.id == other.id());
        described.map_or_else(|| Error::refused(label, other.id()), |known| known.error(label))
    }

    /// The error for a file whose first bytes tell that it is not read.
    pub(crate) fn not_read_by_first_bytes(label: &str, head: &[u8]) -> Option<Error> {
        let is_this = |other: &&DescribedOther| {
            let at = head.get(other.at.unwrap_or(0)..).unwrap_or_default();
            other.starts.iter().any(|start| starts_with(at, start)) && has_all(head, &other.words)
        };
        error(label, &is_this)
    }

    /// The error for a text that is not read: a table with other columns, or with words that only another tool writes.
    pub(crate) fn not_read_by_text(label: &str, head: &[u8]) -> Option<Error> {
        /// Console lines may precede the header.
        const MAX_LINES: usize = 64;
        let lines: Vec<Vec<&[u8]>> = head.split(|byte| *byte == b'\n').take(MAX_LINES).map(titles).collect();
        let has_titles = |wanted: &Vec<String>| {
            let has =
                |titles: &Vec<&[u8]>, start: &String| titles.iter().any(|title| title.starts_with(start.as_bytes()));
            lines.iter().any(|titles| wanted.iter().all(|start| has(titles, start)))
        };
        let is_this = |other: &&DescribedOther| {
            let by_words = other.starts.is_empty() && !other.words.is_empty() && has_all(head, &other.words);
            by_words || other.titles.iter().any(has_titles)
        };
        error(label, &is_this)
    }

    /// The error for a JSON object that is not read and has no trace events at its beginning.
    pub(crate) fn not_read_by_json(label: &str, head: &[u8]) -> Option<Error> {
        if !head.starts_with(b"{") || find(head, b"\"traceEvents\"").is_some() {
            return None;
        }
        error(label, &|other| other.json.iter().any(|words| has_all(head, words)))
    }

    fn error(label: &str, is_this: &dyn Fn(&&DescribedOther) -> bool) -> Option<Error> {
        KNOWN.others.iter().find(is_this).map(|other| other.error(label))
    }

    fn has_all(head: &[u8], words: &[String]) -> bool {
        words.iter().all(|word| find(head, word.as_bytes()).is_some())
    }

    /// The fields of a line, without their quotes.
    fn titles(line: &[u8]) -> Vec<&[u8]> {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        line.split(|byte| *byte == b',').map(|field| unquoted(field.trim_ascii())).collect()
    }

    fn unquoted(field: &[u8]) -> &[u8] {
        field.strip_prefix(b"\"").unwrap_or(field).trim_ascii_start()
    }

    /// Names of files beside traces that are no traces.
    #[cfg(not(target_arch = "wasm32"))]
    const NEIGHBOURS: [&str; 4] = ["capture.json", "server_args.json", "config.json", "facts.json"];

    /// Whether a file with this name, without its folder, is taken for a trace when a folder is searched.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn is_trace_name(name: &str) -> bool {
        let mut endings = KNOWN.formats.iter().flat_map(|format| &format.endings);
        !NEIGHBOURS.contains(&name) && endings.any(|end| name.ends_with(end.as_str()))
    }

    /// The titles of the formats whose files have one of these endings.
    #[cfg(all(not(target_arch = "wasm32"), feature = "cli"))]
    pub(crate) fn titles_of(endings: &[&str]) -> String {
        let has_one = |format: &&Described| format.endings.iter().any(|end| endings.contains(&end.as_str()));
        let titles: Vec<&str> = KNOWN.formats.iter().filter(has_one).map(|format| format.title.as_str()).collect();
        crate::words::listed(&titles)
    }

    /// The error for a file that gpuprism knows and that is no trace, such as a rule file.
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn no_trace(label: &str) -> Error {
        Error::refused(label, "neither a trace nor a gpuprism report: give the trace that it belongs to")
    }

    impl DescribedOther {
        fn error(&self, label: &str) -> Error {
            Error::refused(label, format!("{}: {}", self.what, self.instead))
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
        fn every_refusal_is_one_sentence_without_a_list_of_formats() {
            for other in &KNOWN.others {
                let message = other.error("x").to_string();
                assert!(message.starts_with(&format!("x: {}: ", other.what)), "{message}");
                let is_one = message.split(". ").skip(1).all(|rest| !rest.starts_with(char::is_uppercase));
                assert!(!other.what.contains(": ") && is_one && !message.ends_with('.'), "{message}");
                assert!(!message.contains("gpuprism reads") && message.len() < 400, "{message}");
                for hexadecimal in &other.starts {
                    let is_digits = hexadecimal.bytes().all(|byte| byte.is_ascii_hexdigit());
                    assert!(hexadecimal.len().is_multiple_of(2) && is_digits, "{hexadecimal}");
                }
            }
        }

        /// The first bytes are those that the formats prescribe.
        #[test]
        fn the_first_bytes_of_a_file_tell_its_kind_and_what_to_do() {
            let tar = [&[b'n'; 257][..], b"ustar\x0000"].concat();
            let utf16: Vec<u8> = "{\"traceEvents\"".encode_utf16().flat_map(u16::to_le_bytes).collect();
            for (bytes, kind, remedy) in [
                (&b"PK\x03\x04"[..], "a zip archive:", "unpack it and open the trace inside"),
                (b"7z\xbc\xaf\x27\x1c\0\x04", "a 7z archive:", "`7z x`"),
                (&tar, "a tar archive:", "`tar -xf`"),
                (b"\x28\xb5\x2f\xfd", "compressed with zstd:", "`zstd -d`"),
                (b"BZh91AY&SY", "compressed with bzip2:", "`bunzip2`"),
                (b"\xfd7zXZ\0", "compressed with xz:", "`unxz`"),
                (b"\x1f\x8b\x08\0", "gzipped twice:", "`gunzip`"),
                (b"PAR1", "a Parquet file:", "parquetdir"),
                (b"\x89HDF\r\n\x1a\n", "an HDF5 file:", "nsys export --type sqlite"),
                (b"ARROW1\0\0", "an Arrow file:", "nsys export --type sqlite"),
                (b"\xff\xff\xff\xff", "perhaps an Arrow stream:", "nsys export --type sqlite"),
                (b"NVR\0", "a report of Nsight Compute", "nsys profile"),
                (b"\x80\x04\x95>\0}\x8c\x08segments\x8c\rdevice_traces", "a memory snapshot of torch", "memory_viz"),
                (b"\x80\x02}q\0(X\x08\0\0\0segmentsX\r\0\0\0device_traces", "a memory snapshot of torch", "memory_viz"),
                (b"\x80\x04", "a Python pickle,", "export_chrome_trace"),
                (b"\x92\x83\xa5frame\x82\xa8children\x90", "a tree of Proton in MessagePack", "hatchet"),
                (&utf16, "text in UTF-16:", "iconv -f UTF-16"),
                (b"\xfe\xff\0{", "text in UTF-16:", "iconv"),
                (b"\xff\xfe\0\0{\0\0\0", "text in UTF-32:", "iconv -f UTF-32"),
                (b"\x7fELF", "a program", "rocprofv3"),
                (b"%PDF-1.7", "a PDF", "open the trace"),
                (b"\x89PNG\r\n\x1a\n", "a picture", "open the trace"),
                (b"QDSTRM\0\x01", "an unfinished capture of Nsight Systems", "QdstrmImporter"),
            ] {
                let message = not_read_by_first_bytes("x", bytes).unwrap().to_string();
                assert!(message.starts_with(&format!("x: {kind}")) && message.contains(remedy), "{kind} {message}");
            }
            assert!(not_read_by_first_bytes("x", b"{\"traceEvents\"").is_none());
        }

        #[test]
        fn the_header_of_a_table_tells_its_kind_and_what_to_do() {
            for (text, kind, remedy) in [
                ("version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS", "git lfs pull"),
                (
                    "==PROF== Connected\n\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Value\"\n",
                    "a table of Nsight Compute",
                    "nsys profile",
                ),
                ("Time (%),Total Time (ns),Instances,Avg (ns),Name\n", "a cuda_gpu_kern_sum table", "cuda_gpu_trace"),
                (
                    "Time (%),Total Time (ns),Instances,Avg (ns),Style,Range\n",
                    "a table of `nsys stats` with the totals of ranges",
                    "cuda_gpu_trace",
                ),
                (
                    "Time (%),Total Time (ns),Count,Avg (ns),Operation\n",
                    "a table of `nsys stats` with the totals of copies",
                    "cuda_gpu_trace",
                ),
                ("Time (%),Total Time (ns),Num Calls,Name\n", "a summary table of `nsys stats`", "cuda_gpu_trace"),
                (
                    "\"Name\",\"Calls\",\"TotalDurationNs\",\"AverageNs\",\"Percentage\"\n",
                    "a table of rocprof with the totals",
                    "rocprofv3",
                ),
                (
                    "Dispatch_ID,GPU_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Wave_Size,Kernel_Name,Correlation_ID,SQ_CYCLES\n",
                    "a table of counters by rocprof-compute",
                    "rocprofv3",
                ),
                (
                    "Device_id,Step,Computing,Communication(Not Overlapped),Overlapped,Communication,Free\n",
                    "a table of an Ascend profiler with the sums of each step",
                    "trace_view.json",
                ),
                (
                    "Device_id,OP Type,Core Type,Count,Total Time(us),Min Time(us)\n",
                    "a table of an Ascend profiler with the totals of ops",
                    "kernel_details.csv",
                ),
                (
                    "Device_id,Level,API Name,Time(us),Count,Avg(us)\n",
                    "a table of an Ascend profiler with the totals of calls",
                    "trace_view.json",
                ),
                ("\n=== Device Timing Summary ===\n", "text of unitrace", "--chrome-kernel-logging"),
                ("host:1:1 [0] NCCL INFO Bootstrap\n", "a log of NCCL", "torch.profiler"),
            ] {
                let message =
                    not_read_by_text("x", text.as_bytes()).map_or_else(String::new, |error| error.to_string());
                assert!(message.starts_with(&format!("x: {kind}")) && message.contains(remedy), "{text} {message}");
            }
            for read in [
                "Start (ns),Duration (ns),CorrId,Device,Strm,Name\n",
                "\"Kind\",\"Agent_Id\",\"Kernel_Name\",\"Start_Timestamp\",\"End_Timestamp\"\n",
                "Index,KernelName,gpu-id,BeginNs,EndNs\n",
                "Dispatch_ID,GPU_ID,Queue_ID,PID,TID,Grid_Size,Kernel_Name,Start_Timestamp,End_Timestamp\n",
                "Step Id,Name,Type,Start Time(us),Duration(us)\n",
            ] {
                assert_eq!(not_read_by_text("x", read.as_bytes()).map(|error| error.to_string()), None, "{read}");
            }
        }

        #[test]
        fn the_beginning_of_a_json_object_tells_its_kind_and_what_to_do() {
            for (text, kind, remedy) in [
                (
                    r#"{"header":{"rank":0,"n_ranks":8},"coll_perf":{"coll":"AllReduce"}}"#,
                    "a log of the NCCL inspector",
                    "torch.profiler",
                ),
                (
                    r#"{"schema": "1.1.1-chakra.0.0.4", "nodes": [{"id": 1, "ctrl_deps": 1}]}"#,
                    "an execution trace (Chakra)",
                    "export_chrome_trace",
                ),
                (
                    r#"{"step1": {"collective": {"hcom_allReduce__1": {"Communication Time Info": {}}}}}"#,
                    "the communication.json",
                    "trace_view.json",
                ),
                (
                    r#"{"$schema":"https://www.speedscope.app/file-format-schema.json"}"#,
                    "a profile of the CPU",
                    "torch.profiler",
                ),
                ("{\"ph\": \"X\", \"pid\": 1, \"ts\": 1}\n", "trace events as one JSON object a line", "jq -s"),
            ] {
                let message =
                    not_read_by_json("x", text.as_bytes()).map_or_else(String::new, |error| error.to_string());
                assert!(message.starts_with(&format!("x: {kind}")) && message.contains(remedy), "{text} {message}");
            }
            for read in [
                r#"{"schemaVersion": 1, "traceEvents": [{"ph": "X", "pid": 1, "ts": 1}]}"#,
                r#"[{"ph": "X", "pid": 1, "ts": 1}]"#,
            ] {
                assert!(not_read_by_json("x", read.as_bytes()).is_none());
            }
        }

        #[test]
        #[cfg(feature = "facts")]
        fn every_kind_of_other_file_is_described() {
            let of_reader = |other: &&DescribedOther| {
                other.starts.is_empty() && other.words.is_empty() && other.titles.is_empty() && other.json.is_empty()
            };
            let ids: Vec<&str> = KNOWN.others.iter().map(|other| other.id.as_str()).collect();
            assert!(Other::ALL.iter().all(|other| ids.contains(&other.id())));
            let by_readers: Vec<&str> = KNOWN.others.iter().filter(of_reader).map(|other| other.id.as_str()).collect();
            assert!(by_readers.iter().all(|id| Other::ALL.iter().any(|other| other.id() == *id)), "{by_readers:?}");
        }
    }
}
