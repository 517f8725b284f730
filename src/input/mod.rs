//! GPU trace formats to [`Trace`]: bytes come in, in chunks of any size, and a trace comes out.
//!
//! [`Unpacker`] undoes gzip, [`Reader`] recognises the format by content and reads it; [`Importer`] is both in a row.
//! They are apart so that the command line can run them on two cores. The kinds of input:
//!
//! - torch.profiler JSON: the crate `gpuprism-scan` cuts events out of the stream and reads members, `torch` builds the trace
//! - the CSV of `nsys stats -r cuda_gpu_trace`: `gpu_trace_csv`
//! - the SQLite export of an Nsight Systems report, which is a file and no stream: `nsys`
//! - any other JSON object is handed back as a [`Imported::Document`]: a rule file or an earlier report
//! - everything else is refused by what it is: `sniff`
//!
//! Which files of a folder are worth reading, `folder` says.

#[cfg(any(test, all(target_arch = "wasm32", feature = "full")))]
pub(crate) mod block_vfs;
pub mod folder;
mod gpu_trace_csv;
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
pub mod nsys;
#[cfg(not(target_arch = "wasm32"))]
mod reader_thread;
mod sniff;
mod torch;
mod unpack;

#[cfg(all(target_arch = "wasm32", feature = "full"))]
pub(crate) use sniff::too_large_to_unpack;
pub use sniff::{SERIES_HEAD, nsys_rep};
pub use unpack::Unpacker;

use crate::trace::{ProblemKind, Trace};
use crate::{Error, Result};
use gpu_trace_csv::GpuTraceReader;
use gpuprism_scan::split::{End, Sink, Splitter};
use sniff::Guess;
use torch::TorchReader;

/// What a file turned out to be.
#[derive(Debug)]
pub enum Imported {
    /// A trace, complete or cut.
    Trace(Box<Trace>),
    /// A JSON object that is no trace, or a table that belongs to another tool's report.
    Document(String),
}

/// Reads the plain bytes of one file.
#[derive(Debug)]
pub struct Reader {
    label: String,
    detail: Detail,
    format: FormatReader,
}

/// How much of a torch trace is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Detail {
    /// GPU ops alone.
    GpuOps,
    /// The calls and ranges on the host, too.
    Host,
    /// And the code that launched the work.
    Code,
}

#[derive(Debug)]
enum FormatReader {
    Unknown(Vec<u8>),
    Json(Box<JsonReader>),
    Table(Box<GpuTraceReader>),
    Series(Vec<u8>),
}

impl Reader {
    /// `label` is the file's base name: errors and the run carry it.
    pub fn new(label: &str) -> Self {
        Self { label: label.to_owned(), detail: Detail::Host, format: FormatReader::Unknown(Vec::new()) }
    }

    /// One that also reads which code launched what, where the format tells: [`crate::trace::Code`].
    pub fn with_code(label: &str) -> Self {
        Self { detail: Detail::Code, ..Self::new(label) }
    }

    /// One that leaves calls and ranges of a torch trace out and counts them, where memory is short.
    pub fn gpu_ops_only(label: &str) -> Self {
        Self { detail: Detail::GpuOps, ..Self::new(label) }
    }

    /// Takes the next plain bytes.
    ///
    /// # Errors
    /// As soon as it is known that gpuprism does not read this file, with what it is and what to do.
    pub fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.format {
            FormatReader::Unknown(seen) => {
                seen.extend_from_slice(bytes);
                self.decide(false)
            }
            FormatReader::Json(json) => {
                json.feed(bytes);
                Ok(())
            }
            FormatReader::Table(table) => table.feed(bytes),
            FormatReader::Series(text) if text.len() > DOCUMENT_LIMIT => Err(Error::refused(&self.label, "too long")),
            FormatReader::Series(text) => {
                text.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// How many GPU ops were read so far.
    pub fn gpu_ops(&self) -> usize {
        match &self.format {
            FormatReader::Unknown(_) | FormatReader::Series(_) => 0,
            FormatReader::Json(json) => json.torch.gpu_ops(),
            FormatReader::Table(table) => table.gpu_ops(),
        }
    }

    /// True where the file begins as a database does, which is read by offset and not as a stream: [`nsys`].
    pub fn is_database(&self) -> bool {
        matches!(&self.format, FormatReader::Unknown(seen) if seen.starts_with(sniff::SQLITE))
    }

    /// Ends the file; `unpacking` is what [`Unpacker::finish`] found wrong.
    ///
    /// # Errors
    /// Where the file is no trace, or ends before its first event.
    pub fn finish(mut self, unpacking: Option<(ProblemKind, u64)>) -> Result<Imported> {
        if matches!(self.format, FormatReader::Unknown(_)) {
            self.decide(true)?;
        }
        match self.format {
            FormatReader::Unknown(_) => Err(Error::refused(&self.label, "empty")),
            FormatReader::Json(json) => json.finish(&self.label, unpacking),
            FormatReader::Series(text) => Ok(Imported::Document(String::from_utf8_lossy(&text).into_owned())),
            FormatReader::Table(mut table) => {
                if let Some((kind, at)) = unpacking {
                    table.problem(kind, 1, at);
                }
                Ok(Imported::Trace(Box::new(table.finish()?)))
            }
        }
    }

    fn decide(&mut self, complete: bool) -> Result<()> {
        let FormatReader::Unknown(seen) = &mut self.format else { return Ok(()) };
        let Some(guess) = sniff::guess(&self.label, seen, complete)? else { return Ok(()) };
        let seen = std::mem::take(seen);
        self.format = match guess {
            Guess::Json => FormatReader::Json(Box::new(JsonReader::new(&self.label, self.detail))),
            Guess::Series => FormatReader::Series(Vec::new()),
            Guess::Table => FormatReader::Table(Box::new(GpuTraceReader::new(&self.label))),
        };
        self.feed(&seen)
    }
}

/// JSON: a trace as soon as its event list begins, until then a document whose text is kept.
#[derive(Debug)]
struct JsonReader {
    splitter: Splitter,
    torch: Torch,
    text: Vec<u8>,
    too_long: bool,
}

/// What reads the events, on this thread or on one of its own.
#[derive(Debug)]
enum Torch {
    Here(Box<TorchReader>),
    #[cfg(not(target_arch = "wasm32"))]
    Threaded(reader_thread::ReaderThread),
}

impl Torch {
    fn new(label: &str, detail: Detail) -> Self {
        #[cfg(not(target_arch = "wasm32"))]
        if detail == Detail::Code
            && let Ok(reader) = reader_thread::ReaderThread::start(label, detail)
        {
            return Self::Threaded(reader);
        }
        Self::Here(Box::new(TorchReader::new(label, detail)))
    }

    fn sink(&mut self) -> &mut dyn Sink {
        match self {
            Self::Here(torch) => torch.as_mut(),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Threaded(reader) => reader,
        }
    }

    /// So far; a thread of its own does not tell before its end.
    fn gpu_ops(&self) -> usize {
        match self {
            Self::Here(torch) => torch.gpu_ops(),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Threaded(_) => 0,
        }
    }

    /// The reader, once it has read everything; `None` where its thread failed.
    fn join(self) -> Option<TorchReader> {
        match self {
            Self::Here(torch) => Some(*torch),
            #[cfg(not(target_arch = "wasm32"))]
            Self::Threaded(reader) => reader.join(),
        }
    }
}

/// A rule file or report is smaller than this; beyond it the text is not kept.
const DOCUMENT_LIMIT: usize = 256 << 20;

impl JsonReader {
    fn new(label: &str, detail: Detail) -> Self {
        Self { splitter: Splitter::default(), torch: Torch::new(label, detail), text: Vec::new(), too_long: false }
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.splitter.feed(bytes, self.torch.sink());
        self.too_long |= self.text.len() > DOCUMENT_LIMIT;
        if self.splitter.found_events() || self.too_long {
            self.text = Vec::new();
        } else {
            self.text.extend_from_slice(bytes);
        }
    }

    fn finish(mut self, label: &str, unpacking: Option<(ProblemKind, u64)>) -> Result<Imported> {
        let end = self.splitter.finish(self.torch.sink());
        if !self.splitter.found_events() {
            return match end {
                _ if self.too_long => {
                    let why = format!(
                        "JSON without trace events, and too long for a report: more than {} MiB",
                        DOCUMENT_LIMIT >> 20
                    );
                    Err(Error::refused(label, why))
                }
                End::Complete { .. } => Ok(Imported::Document(String::from_utf8_lossy(&self.text).into_owned())),
                _ => Err(Error::refused(
                    label,
                    "JSON that is damaged or cut short before its first trace event; copy or capture it again",
                )),
            };
        }
        let Some(mut torch) = self.torch.join() else {
            return Err(Error::refused(label, "the thread that reads its events failed"));
        };
        match end {
            End::Complete { trailing: 0 } => {}
            End::Complete { trailing } => torch.problem(ProblemKind::TrailingData, trailing, 0),
            End::Unclosed { at } => torch.problem(ProblemKind::Unclosed, 1, at),
            End::CutShort { at } => torch.problem(ProblemKind::Truncated, 1, at),
        }
        let (events, complete) = (torch.events(), matches!(end, End::Complete { .. }));
        let mut trace = torch.finish();
        if let Some((kind, at)) = unpacking
            && !trace.problems.has(kind)
        {
            trace.problems.add(kind, 1, at);
        }
        if events == 0 && !complete {
            return Err(Error::refused(
                label,
                "a trace that is cut short before its first complete event; copy or capture it again",
            ));
        }
        if events == 0 && !self.splitter.is_nested() && !trace.problems.has(ProblemKind::UnreadableEvent) {
            return Err(Error::refused(label, "an empty JSON list, not a trace"));
        }
        if events == 0 && trace.problems.has(ProblemKind::UnreadableEvent) {
            return Err(Error::refused(label, "a JSON list, but not of trace events: none of its elements has a `ph`"));
        }
        Ok(Imported::Trace(Box::new(trace)))
    }
}

/// Reads the bytes of one file, packed or plain, on one thread.
#[derive(Debug)]
pub struct Importer {
    unpacker: Unpacker,
    reader: Reader,
}

impl Importer {
    /// `label` is the file's base name.
    pub fn new(label: &str) -> Self {
        Self { unpacker: Unpacker::default(), reader: Reader::new(label) }
    }

    /// Like [`Reader::with_code`].
    pub fn with_code(label: &str) -> Self {
        Self { unpacker: Unpacker::default(), reader: Reader::with_code(label) }
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

    /// How many GPU ops were read so far.
    pub fn gpu_ops(&self) -> usize {
        self.reader.gpu_ops()
    }

    /// True where the file, unpacked, is a database: see [`Reader::is_database`].
    pub fn is_database(&self) -> bool {
        self.reader.is_database()
    }

    /// Ends the file.
    ///
    /// # Errors
    /// Those of [`Reader::finish`].
    pub fn finish(mut self) -> Result<Imported> {
        let reader = &mut self.reader;
        let unpacking = self.unpacker.finish(&mut |plain| reader.feed(plain))?;
        self.reader.finish(unpacking)
    }
}

#[cfg(test)]
mod tests;
