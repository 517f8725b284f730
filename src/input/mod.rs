//! Readers for all input formats: bytes in chunks of any size go in, a [`Trace`] comes out.
//!
//! Time is linear in the file size, memory linear in the stored rows. The bytes of a stream are not kept, except an event (or a
//! CSV row) that a chunk boundary cuts. The result does not depend on the chunk boundaries; fuzzing checks that.
//!
//! [`Unpacker`] decompresses gzip. [`Reader`] detects the format from the content (`sniff`) and reads it; natively it parses the
//! events of a torch trace on a thread of its own (`reader_thread`). [`Importer`] runs both in turn; the command line runs them on
//! two threads instead. The formats:
//!
//! - `torch`: torch.profiler JSON. The crate `gpuprism-scan` splits the stream into events and parses their members.
//! - `gpu_trace_csv`: the CSV of `nsys stats -r cuda_gpu_trace`.
//! - `nsys`: the SQLite export of an Nsight Systems report. A database is read by offset and not as a stream: in the page
//!   through `block_vfs`, natively from the file. Those of other profilers (`database`) come the same way. Callers check
//!   [`Reader::needs_another_reader`].
//! - `streams` lists all other formats that are read as a stream: those of rocprof, rocprofv3 and rocmProfileData (`rocm`), of
//!   torch_npu (`ascend_csv`), Chrome traces of other profilers (`chrome`), the profiles of XLA (`xla`) and the traces of
//!   Perfetto (`perfetto`). The page's first module only recognizes them; it refuses all binary files, so that the second one
//!   reads them.
//! - Any other JSON object, and a CSV file of nsys-llm-explainer, is returned as [`Imported::Document`]: the caller decides
//!   whether it is a rule file or a report.
//! - All other files are refused with an error that says what they are, what is read, and how to record it (`known_formats`).
//!
//! Damage is contained: input that cannot be used is counted in [`Trace::problems`], with the place of the first occurrence,
//! and reading goes on. A file is refused only if nothing can be read. `folder` selects the files of a profile folder.
//!
//! # Adding a format
//!
//! 1. Add a variant to [`crate::trace::Format`], with its name in JSON, title and profiler (`src/trace/format.rs`), and an entry
//!    in `patterns/formats.json`: the README, `gpuprism formats` and the page's help come from it (tests say what to update).
//! 2. Add a module with a `stream_reader::StreamReader` that fills a [`crate::trace::TraceBuilder`], and one line in the list of
//!    `streams` with a function that recognizes the first bytes. A Chrome trace needs only a `chrome::Dialect`; a protobuf
//!    starts with `protobuf::MessageSplitter`; a database
//!    one line in `database_readers::reader`. Convert times to integer nanoseconds ([`crate::trace::Ns::from_decimal`]), check
//!    them ([`crate::trace::is_plausible`]), and count unusable rows in `builder.trace.problems`. Leave tables empty that the
//!    format does not record: the sections say what is missing.
//! 3. A new profiler also needs its advice: `src/analysis/recapture.rs`, `notices.rs` and `patterns/doctor.json`. Files that
//!    belong together: `file_sets`.
//! 4. If it needs new kinds of problems: `src/trace/import_problems.rs`, and their sentences in `src/analysis/notices.rs`.
//! 5. Test intact, cut and damaged files (`tests/formats.rs`), with facts from a separate program
//!    (`tests/oracle/formats.py`), and add seeds to `fuzz/seeds/dialects_never_panic`.

#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
mod ascend_csv;
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
mod ascend_db;
#[cfg(any(test, all(target_arch = "wasm32", feature = "full")))]
pub(crate) mod block_vfs;
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
mod chrome;
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
mod csv_lines;
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
mod database;
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
mod database_readers;
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
mod elements;
pub mod file_sets;
pub mod folder;
mod gpu_trace_csv;
mod gunzip;
mod id_table;
pub(crate) mod known_formats;
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
mod machines;
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
pub mod nsys;
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
pub(crate) mod perfetto;
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
pub(crate) mod protobuf;
#[cfg(not(target_arch = "wasm32"))]
mod reader_thread;
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
mod rocm;
mod slices;
mod sniff;
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
mod stream_reader;
mod streams;
mod torch;
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
mod unitrace;
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
mod xla;

pub use gunzip::Unpacker;
#[cfg(all(target_arch = "wasm32", feature = "full"))]
pub(crate) use sniff::too_large_to_gunzip;
pub use sniff::{NVLINK_SERIES_HEADER, nsys_rep_error};
pub(crate) use streams::is_proton_tree;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) use xla::is_xspace;

use crate::trace::{ProblemKind, Trace};
use crate::{Error, Result};
use gpu_trace_csv::GpuTraceReader;
use gpuprism_scan::split::{End, Sink, Splitter};
use known_formats::{Other, not_read};
use sniff::Guess;
use torch::TorchReader;

/// The content of a file.
#[derive(Debug)]
pub enum Imported {
    /// A trace, complete or cut.
    Trace(Box<Trace>),
    /// The text of a JSON object that is not a trace, or of a CSV file that belongs to another tool's report.
    Document(String),
}

/// Reads the uncompressed bytes of one file.
#[derive(Debug)]
pub struct Reader {
    label: String,
    detail: Detail,
    format: FormatReader,
}

/// The tables to fill; each level includes those before it but for the compressed code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    GpuOps,
    /// API calls and ranges of the host. The compressed code has no events and states that.
    Calls,
    /// API calls and ranges of the host, and [`Trace::packed_code`].
    Host,
    /// CPU ops, Python frames and external ids, instead of the compressed code: [`crate::trace::HostCode`].
    Code,
}

#[derive(Debug)]
enum FormatReader {
    /// Not detected yet; has the bytes so far.
    Unknown(Vec<u8>),
    Json(Box<JsonReader>),
    GpuTraceCsv(Box<GpuTraceReader>),
    /// A CSV of NVLink counters by nsys-llm-explainer, or the tree of Proton; has its text so far.
    Document(Vec<u8>),
    /// One of the formats of [`streams`].
    #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
    Stream(Box<dyn stream_reader::StreamReader>),
    /// One of the formats of [`streams`], in a build without their readers.
    #[cfg(all(target_arch = "wasm32", not(feature = "full")))]
    NeedsFullModule,
}

impl Reader {
    /// Creates a reader. `label` is the base name of the file, for errors and reports.
    pub fn new(label: &str) -> Self {
        Self { label: label.to_owned(), detail: Detail::Host, format: FormatReader::Unknown(Vec::new()) }
    }

    /// Creates a reader that also fills [`crate::trace::HostCode`], if the format records it.
    pub fn with_code(label: &str) -> Self {
        Self { detail: Detail::Code, ..Self::new(label) }
    }

    /// Creates a reader that keeps no CPU ops and Python functions, to save memory. Results that need them are missing.
    pub fn without_code(label: &str) -> Self {
        Self { detail: Detail::Calls, ..Self::new(label) }
    }

    /// Creates a reader that counts API calls and ranges but does not store them, to save memory.
    pub fn gpu_ops_only(label: &str) -> Self {
        Self { detail: Detail::GpuOps, ..Self::new(label) }
    }

    /// Takes the next uncompressed bytes.
    ///
    /// # Errors
    /// If gpuprism does not read files of this kind. The error says what the file is and what to do.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.format {
            FormatReader::Unknown(first_bytes) => {
                first_bytes.extend_from_slice(bytes);
                self.detect_format(false)
            }
            FormatReader::Json(json) => {
                json.feed(bytes);
                Ok(())
            }
            FormatReader::GpuTraceCsv(table) => table.feed(bytes),
            #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
            FormatReader::Stream(reader) => reader.feed(bytes),
            #[cfg(all(target_arch = "wasm32", not(feature = "full")))]
            FormatReader::NeedsFullModule => Ok(()),
            FormatReader::Document(text) if text.len() > MAX_DOCUMENT_BYTES => {
                let limit_mib = MAX_DOCUMENT_BYTES >> 20;
                Err(Error::refused(&self.label, format!("tables or totals of more than {limit_mib} MiB")))
            }
            FormatReader::Document(text) => {
                text.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Returns the number of GPU ops read so far.
    pub fn gpu_ops(&self) -> usize {
        match &self.format {
            FormatReader::Unknown(_) | FormatReader::Document(_) => 0,
            FormatReader::Json(json) => json.events.gpu_ops(),
            FormatReader::GpuTraceCsv(table) => table.gpu_ops(),
            #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
            FormatReader::Stream(reader) => reader.gpu_ops(),
            #[cfg(all(target_arch = "wasm32", not(feature = "full")))]
            FormatReader::NeedsFullModule => 0,
        }
    }

    /// Returns true if the file starts like an SQLite database, which has to be read by offset: use [`nsys`] instead. In a build
    /// without the readers of [`streams`], also true for their formats: the full build reads them.
    pub fn needs_another_reader(&self) -> bool {
        match &self.format {
            FormatReader::Unknown(first_bytes) if first_bytes.starts_with(sniff::SQLITE) => true,
            // A short file is recognized at its end only, so it is asked for as if it ended here.
            #[cfg(all(target_arch = "wasm32", not(feature = "full")))]
            FormatReader::Unknown(first_bytes) => {
                matches!(sniff::guess(&self.label, first_bytes, true), Ok(Some(sniff::Guess::Stream(_))))
            }
            #[cfg(all(target_arch = "wasm32", not(feature = "full")))]
            FormatReader::NeedsFullModule => true,
            _ => false,
        }
    }

    /// Ends the file. `gzip_problem` is the result of [`Unpacker::finish`].
    ///
    /// # Errors
    /// If the file is not a trace, or ends before its first event.
    pub fn finish(mut self, gzip_problem: Option<(ProblemKind, u64)>) -> Result<Imported> {
        if matches!(self.format, FormatReader::Unknown(_)) {
            self.detect_format(true)?;
        }
        match self.format {
            FormatReader::Unknown(_) => Err(not_read(&self.label, Other::Empty)),
            FormatReader::Json(json) => json.finish(&self.label, gzip_problem),
            FormatReader::Document(text) => Ok(Imported::Document(text_of(text))),
            FormatReader::GpuTraceCsv(mut table) => {
                if let Some((kind, at)) = gzip_problem {
                    table.problem(kind, 1, at);
                }
                Ok(Imported::Trace(Box::new(table.finish()?)))
            }
            #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
            FormatReader::Stream(reader) => {
                let mut trace = reader.finish()?;
                if let Some((kind, at)) = gzip_problem
                    && !trace.problems.has(kind)
                {
                    trace.problems.add(kind, 1, at);
                }
                Ok(Imported::Trace(Box::new(trace)))
            }
            #[cfg(all(target_arch = "wasm32", not(feature = "full")))]
            FormatReader::NeedsFullModule => Err(Error::refused(&self.label, "read by the other module")),
        }
    }

    /// Detects the format from the first bytes, unless more bytes are needed and `is_complete` is false.
    fn detect_format(&mut self, is_complete: bool) -> Result<()> {
        let FormatReader::Unknown(first_bytes) = &mut self.format else { return Ok(()) };
        let Some(guess) = sniff::guess(&self.label, first_bytes, is_complete)? else { return Ok(()) };
        let first_bytes = std::mem::take(first_bytes);
        self.format = match guess {
            Guess::Json => FormatReader::Json(Box::new(JsonReader::new(&self.label, self.detail))),
            Guess::Document => FormatReader::Document(Vec::new()),
            Guess::GpuTraceCsv => FormatReader::GpuTraceCsv(Box::new(GpuTraceReader::new(&self.label))),
            #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
            Guess::Stream(format) => FormatReader::Stream((format.reader)(&self.label, self.detail)),
            #[cfg(all(target_arch = "wasm32", not(feature = "full")))]
            Guess::Stream(_) => FormatReader::NeedsFullModule,
        };
        self.feed(&first_bytes)
    }
}

/// Reads JSON. It is a trace if it has an event list; until that is found its text is kept, because it may be a document.
#[derive(Debug)]
struct JsonReader {
    splitter: Splitter,
    events: EventReader,
    text: Vec<u8>,
    is_too_long: bool,
}

/// Parses events on this thread or on a second one.
#[derive(Debug)]
enum EventReader {
    Inline(Box<TorchReader>),
    #[cfg(not(target_arch = "wasm32"))]
    Threaded(reader_thread::ReaderThread),
}

impl EventReader {
    fn new(label: &str, detail: Detail) -> Self {
        #[cfg(not(target_arch = "wasm32"))]
        if detail != Detail::GpuOps
            && let Ok(reader) = reader_thread::ReaderThread::start(label, detail)
        {
            return Self::Threaded(reader);
        }
        Self::Inline(Box::new(TorchReader::new(label, detail)))
    }

    fn sink(&mut self) -> &mut dyn Sink {
        match self {
            Self::Inline(reader) => reader.as_mut(),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Threaded(reader) => reader,
        }
    }

    /// Returns the number of GPU ops read so far; 0 if they are read on a second thread.
    fn gpu_ops(&self) -> usize {
        match self {
            Self::Inline(reader) => reader.gpu_ops(),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Threaded(_) => 0,
        }
    }

    /// Waits until all events are read and returns the reader; `None` if its thread panicked.
    fn join(self) -> Option<TorchReader> {
        match self {
            Self::Inline(reader) => Some(*reader),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Threaded(reader) => reader.join(),
        }
    }
}

/// Longer text is not a rule file or report and is not kept.
const MAX_DOCUMENT_BYTES: usize = 128 << 20;

impl JsonReader {
    fn new(label: &str, detail: Detail) -> Self {
        let events = EventReader::new(label, detail);
        Self { splitter: Splitter::default(), events, text: Vec::new(), is_too_long: false }
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.splitter.feed(bytes, self.events.sink());
        self.is_too_long |= self.text.len() + bytes.len() > MAX_DOCUMENT_BYTES;
        if self.splitter.found_events() || self.is_too_long {
            self.text = Vec::new();
        } else {
            self.text.extend_from_slice(bytes);
        }
    }

    fn finish(mut self, label: &str, gzip_problem: Option<(ProblemKind, u64)>) -> Result<Imported> {
        let refused = |why: &str| Err(Error::refused(label, why));
        let end = self.splitter.finish(self.events.sink());
        if !self.splitter.found_events() {
            return match end {
                _ if self.is_too_long => {
                    let limit_mib = MAX_DOCUMENT_BYTES >> 20;
                    refused(&format!(
                        "JSON without trace events, and longer than {limit_mib} MiB, so it is not a report either"
                    ))
                }
                End::Complete { .. } => Ok(Imported::Document(text_of(self.text))),
                _ => {
                    refused("JSON that is damaged or cut short before its first trace event; copy or capture it again")
                }
            };
        }
        let Some(mut torch) = self.events.join() else {
            return refused("the thread that reads its events panicked; please report this bug");
        };
        match end {
            End::Complete { trailing: 0 } => {}
            End::Complete { trailing } => torch.problem(ProblemKind::TrailingData, trailing, 0),
            End::Unclosed { at } => torch.problem(ProblemKind::Unclosed, 1, at),
            End::InLargeEvent => {}
            End::CutShort { at } => torch.problem(ProblemKind::Truncated, 1, at),
        }
        torch.end_slices();
        if let Some(other) = torch.foreign() {
            return Err(not_read(label, other));
        }
        let (events, is_complete) = (torch.events, matches!(end, End::Complete { .. }));
        let mut trace = torch.finish();
        if let Some((kind, at)) = gzip_problem
            && !trace.problems.has(kind)
        {
            trace.problems.add(kind, 1, at);
        }
        let too_large = trace.problems.too_large_event();
        match trace.problems.has(ProblemKind::UnreadableEvent) {
            _ if events > 0 => Ok(Imported::Trace(Box::new(trace))),
            _ if let Some(too_large) = too_large => {
                refused(&format!("a trace without an event that can be read: {too_large}"))
            }
            _ if !is_complete => {
                refused("a trace that is cut short before its first complete event; copy or capture it again")
            }
            true => Err(not_read(label, Other::JsonList)),
            false if !self.splitter.is_nested() => Err(not_read(label, Other::EmptyList)),
            false => Ok(Imported::Trace(Box::new(trace))),
        }
    }
}

/// The bytes as text, which is copied only to replace invalid UTF-8.
fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Reads the bytes of one file, gzipped or not.
#[derive(Debug)]
pub struct Importer {
    unpacker: Unpacker,
    reader: Reader,
}

impl Importer {
    /// Like [`Reader::new`].
    pub fn new(label: &str) -> Self {
        Self { unpacker: Unpacker::default(), reader: Reader::new(label) }
    }

    /// Like [`Reader::with_code`].
    pub fn with_code(label: &str) -> Self {
        Self { unpacker: Unpacker::default(), reader: Reader::with_code(label) }
    }

    /// Like [`Reader::without_code`].
    pub fn without_code(label: &str) -> Self {
        Self { unpacker: Unpacker::default(), reader: Reader::without_code(label) }
    }

    /// Like [`Reader::gpu_ops_only`].
    pub fn gpu_ops_only(label: &str) -> Self {
        Self { unpacker: Unpacker::default(), reader: Reader::gpu_ops_only(label) }
    }

    /// Takes the next bytes of the file.
    ///
    /// # Errors
    /// Those of [`Reader::feed`].
    pub fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        let reader = &mut self.reader;
        self.unpacker.push(bytes, &mut |plain| reader.feed(plain))
    }

    /// Returns the number of GPU ops read so far.
    pub fn gpu_ops(&self) -> usize {
        self.reader.gpu_ops()
    }

    /// See [`Reader::needs_another_reader`].
    pub fn needs_another_reader(&self) -> bool {
        self.reader.needs_another_reader()
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Those of [`Reader::finish`].
    pub fn finish(mut self) -> Result<Imported> {
        let reader = &mut self.reader;
        let gzip_problem = self.unpacker.finish(&mut |plain| reader.feed(plain))?;
        self.reader.finish(gzip_problem)
    }
}

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod tests;
