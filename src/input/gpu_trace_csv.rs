//! Reader of the CSV of `nsys stats -r cuda_gpu_trace`: one row per kernel, copy or set.
//!
//! Headers differ between versions of nsys (`Throughput (MBps)` or `(MB/s)`, with or without `GreenCtx`), so columns are found
//! by title. Console lines may precede the header. The header names the unit of the times.

mod launch_configs;

use super::known_formats::{Other, not_read, not_read_by_text};
use crate::trace::{Format, GpuOp, Ns, OpKind, ProblemKind, Trace, TraceBuilder, is_plausible};
use crate::{Error, Result};
use csv_core::{ReadRecordResult, Reader};
use launch_configs::LaunchColumns;
use memchr::memmem;

/// Limits of the console output before the header.
const MAX_BYTES_BEFORE_HEADER: usize = 1 << 20;
const MAX_LINES_BEFORE_HEADER: u64 = 10_000;

/// Reads the table chunk by chunk.
#[derive(Debug)]
pub(super) struct GpuTraceReader {
    label: String,
    builder: TraceBuilder,
    /// Text before the header, as long as the header is not found.
    before: Vec<u8>,
    columns: Option<Columns>,
    record: Record,
    row: u64,
}

#[derive(Debug, Clone, Copy)]
struct Columns {
    /// Index, and the unit of the times as a power of ten in ns.
    start: (usize, u32),
    duration: (usize, u32),
    name: usize,
    device: Option<usize>,
    stream: Option<usize>,
    launch: Option<LaunchColumns>,
    /// Number of columns. A row with another number belongs to another table or has lost a quote.
    count: usize,
}

impl GpuTraceReader {
    pub(super) fn new(label: &str) -> Self {
        Self {
            label: label.to_owned(),
            builder: TraceBuilder::new(label, Format::NsysGpuTraceCsv),
            before: Vec::new(),
            columns: None,
            record: Record::new(),
            row: 0,
        }
    }

    /// Returns the number of GPU ops read so far.
    pub(super) fn gpu_ops(&self) -> usize {
        self.builder.trace.gpu_ops.len()
    }

    pub(super) fn feed(&mut self, chunk: &[u8]) -> Result<()> {
        if self.columns.is_some() {
            self.rows(chunk);
            return Ok(());
        }
        self.before.extend_from_slice(chunk);
        self.find_header(false)
    }

    pub(super) fn finish(mut self) -> Result<Trace> {
        if self.columns.is_none() {
            self.before.push(b'\n');
            self.find_header(true)?;
        }
        if self.record.is_open() {
            self.problem(ProblemKind::OpenLastRow, 1, self.row + 1);
        }
        // Ends a last row without a line end. If it is still open, its closing quote is lost.
        self.rows(b"\n");
        if self.record.is_open() {
            self.problem(ProblemKind::UnreadableRow, 1, self.row + 1);
        }
        Ok(self.builder.finish())
    }

    pub(super) fn problem(&mut self, kind: ProblemKind, count: u64, at: u64) {
        self.builder.trace.problems.add(kind, count, at);
    }

    fn find_header(&mut self, is_complete: bool) -> Result<()> {
        let before = std::mem::take(&mut self.before);
        let mut rest = &before[..];
        while let Some(end) = memchr::memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end + 1);
            self.row += 1;
            if self.row > MAX_LINES_BEFORE_HEADER {
                return Err(not_read(&self.label, Other::Text));
            }
            if let Some(columns) = header(&self.label, line)? {
                self.columns = Some(columns);
                self.rows(after);
                return Ok(());
            }
            rest = after;
        }
        if is_complete || rest.len() > MAX_BYTES_BEFORE_HEADER {
            return Err(not_read(&self.label, Other::Text));
        }
        self.before = rest.to_vec();
        Ok(())
    }

    fn rows(&mut self, chunk: &[u8]) {
        let mut record = std::mem::replace(&mut self.record, Record::new());
        record.read(chunk, |fields| self.take_row(fields));
        self.record = record;
    }

    fn take_row(&mut self, fields: &Fields<'_>) {
        self.row += 1;
        let Some(columns) = self.columns else { return };
        let time = |(column, digits): (usize, u32)| Ns::from_decimal(fields.get(column)?.trim_ascii(), digits);
        let (Some(start), Some(duration), Some(name)) =
            (time(columns.start), time(columns.duration), fields.get(columns.name))
        else {
            return self.problem(ProblemKind::UnreadableRow, 1, self.row);
        };
        if fields.ends.len() != columns.count || name.contains(&b'\n') {
            return self.problem(ProblemKind::UnreadableRow, 1, self.row);
        }
        if !is_plausible(start, duration) {
            return self.problem(ProblemKind::ImpossibleDuration, 1, self.row);
        }
        let name = String::from_utf8_lossy(name);
        let text = |column: Option<usize>| column.and_then(|column| fields.get(column)).map(String::from_utf8_lossy);
        let device = text(columns.device).unwrap_or_default();
        let (id, product) = device_id(device.trim());
        let op = GpuOp {
            start,
            duration,
            name: self.builder.trace.names.intern(&name),
            device: self.builder.device(id, product),
            stream: text(columns.stream).and_then(|stream| stream.trim().parse().ok()).unwrap_or(-1),
            process: self.builder.process(-1, ""),
            kind: kind(&name),
        };
        self.builder.trace.gpu_ops.push(op, None);
        if let Some(config) = columns.launch.and_then(|launch| launch.config(fields)) {
            self.builder.set_launch_config_of_last_op(config);
        }
    }
}

/// Returns the kind of an op by its name: nsys puts the names of copies and sets in brackets.
fn kind(name: &str) -> OpKind {
    match name.strip_prefix("[CUDA ") {
        Some(rest) if rest.contains("memset") => OpKind::Set,
        Some(_) => OpKind::Copy,
        None => OpKind::Kernel,
    }
}

/// Splits a device into id and product name: `NVIDIA H100 (0)` is device 0; any other text is an id.
fn device_id(device: &str) -> (&str, &str) {
    let numbered = device.strip_suffix(')').and_then(|rest| rest.rsplit_once(" ("));
    match numbered {
        Some((name, id)) if !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()) => (id, name),
        _ if device.is_empty() => ("0", ""),
        _ => (device, ""),
    }
}

/// Returns the columns if `line` is the header of a GPU trace, and `None` for any other line.
///
/// # Errors
/// If `line` is the header of another table of nsys.
fn header(label: &str, line: &[u8]) -> Result<Option<Columns>> {
    if ["Start", "Total Time"].iter().all(|word| memmem::find(line, word.as_bytes()).is_none()) {
        return Ok(None);
    }
    let mut titles: Vec<String> = Vec::new();
    let mut record = Record::new();
    let mut collect = |fields: &Fields<'_>| {
        titles.extend(fields.iter().map(|field| String::from_utf8_lossy(field).trim().to_owned()))
    };
    record.read(line, &mut collect);
    let at = |wanted: &str| titles.iter().position(|title| title == wanted);
    if let Some(error) = not_read_by_text(label, line) {
        return Err(error);
    }
    let (Some(start), Some(duration), Some(name)) =
        (time_column(label, &titles, "Start")?, time_column(label, &titles, "Duration")?, at("Name"))
    else {
        return Ok(None);
    };
    let (device, stream) = (at("Device"), at("Strm"));
    if device.is_none() && stream.is_none() {
        return Err(not_read(label, Other::HostTable));
    }
    let launch = LaunchColumns::find(&titles);
    Ok(Some(Columns { start, duration, name, device, stream, launch, count: titles.len() }))
}

/// Finds the column `WORD (unit)` or `WORD:..._unit`. Returns its index, and its unit as a power of ten in ns.
fn time_column(label: &str, titles: &[String], word: &str) -> Result<Option<(usize, u32)>> {
    for (column, title) in titles.iter().enumerate() {
        let Some(rest) = title.strip_prefix(word) else { continue };
        let unit = match rest.trim_start().strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
            Some(unit) => unit,
            None if rest.starts_with(':') => rest.rsplit(['_', ':']).next().unwrap_or_default(),
            None => continue,
        };
        let digits = match unit.trim() {
            "ns" | "nsec" => 0,
            "us" | "usec" | "\u{b5}s" | "\u{3bc}s" => 3,
            "ms" | "msec" => 6,
            "s" | "sec" => 9,
            other => {
                let why = format!(
                    "times in an unknown unit, in the column `{word} ({other})`: run nsys stats with `--timeunit nsec`"
                );
                return Err(Error::refused(label, why));
            }
        };
        return Ok(Some((column, digits)));
    }
    Ok(None)
}

/// The CSV parser and the row it is reading.
#[derive(Debug)]
struct Record {
    reader: Box<Reader>,
    /// Unescaped bytes of all fields; `written` of them are valid.
    bytes: Vec<u8>,
    written: usize,
    /// End of each field in `bytes`; `ended` of them are valid.
    ends: Vec<usize>,
    ended: usize,
    /// The row was not kept.
    is_too_large: bool,
}

struct Fields<'a> {
    bytes: &'a [u8],
    ends: &'a [usize],
}

impl<'a> Fields<'a> {
    fn get(&self, column: usize) -> Option<&'a [u8]> {
        let start = match column.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.bytes.get(start..*self.ends.get(column)?)
    }

    fn iter(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        (0..self.ends.len()).filter_map(|column| self.get(column))
    }
}

/// A longer row, or one with more fields, is not kept: a quote is lost, or the file is no table.
const MAX_ROW_BYTES: usize = 16 << 20;
const MAX_FIELDS: usize = 1 << 16;

impl Record {
    fn new() -> Self {
        Self {
            reader: Box::new(Reader::new()),
            bytes: vec![0; 1024],
            written: 0,
            ends: vec![0; 32],
            ended: 0,
            is_too_large: false,
        }
    }

    /// Parses the next bytes and calls `each` for each complete row. csv_core takes empty input for the end of the file, so an
    /// empty chunk is not passed on.
    fn read(&mut self, chunk: &[u8], mut each: impl FnMut(&Fields<'_>)) {
        let mut rest = chunk;
        while !rest.is_empty() {
            let (bytes, ends) = (self.bytes.get_mut(self.written..), self.ends.get_mut(self.ended..));
            let (result, read, written, ended) =
                self.reader.read_record(rest, bytes.unwrap_or_default(), ends.unwrap_or_default());
            rest = rest.get(read..).unwrap_or_default();
            self.written += written;
            self.ended += ended;
            match result {
                ReadRecordResult::InputEmpty | ReadRecordResult::End => return,
                ReadRecordResult::OutputFull if self.bytes.len() < MAX_ROW_BYTES => {
                    self.bytes.resize(self.bytes.len() * 2, 0);
                }
                ReadRecordResult::OutputEndsFull if self.ends.len() < MAX_FIELDS => {
                    self.ends.resize(self.ends.len() * 2, 0);
                }
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    (self.written, self.ended, self.is_too_large) = (0, 0, true);
                }
                ReadRecordResult::Record => {
                    let ended = if std::mem::take(&mut self.is_too_large) { 0 } else { self.ended };
                    let ends = self.ends.get(..ended).unwrap_or_default();
                    each(&Fields { bytes: &self.bytes, ends });
                    self.written = 0;
                    self.ended = 0;
                }
            }
        }
    }

    fn is_open(&self) -> bool {
        self.written > 0 || self.ended > 0 || self.is_too_large
    }
}
