//! Reader of CSV tables whose rows have no line ends within quotes, so that a lost quote damages one row only. What the rows mean is
//! that of one profiler ([`Rows`]). One pass, no allocation per line.

use super::stream_reader::StreamReader;
use crate::Result;
use crate::trace::{ProblemKind, Trace, TraceBuilder};
use memchr::memchr;
use std::borrow::Cow;

/// What the lines of one profiler's tables mean.
pub(super) trait Rows: std::fmt::Debug + Send {
    /// Takes a header or a row.
    fn line(&mut self, out: &mut Output, line: &Line<'_>);
    /// The number of ops that wait for the end of the file.
    fn waiting_ops(&self) -> usize {
        0
    }
    /// Ends the tables.
    fn finish(self, label: &str, builder: TraceBuilder) -> Result<Trace>;
}

/// The trace that the rows fill.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) builder: TraceBuilder,
    row: u64,
}

impl Output {
    /// Counts a problem of the current row.
    pub(super) fn problem(&mut self, kind: ProblemKind) {
        self.builder.trace.problems.add(kind, 1, self.row);
    }
}

/// A line that is not empty.
#[derive(Debug)]
pub(super) struct Line<'a> {
    pub(super) text: &'a [u8],
    fields: &'a [(usize, usize)],
    /// Whether all quotes are closed.
    pub(super) is_intact: bool,
}

impl<'a> Line<'a> {
    /// The number of fields.
    pub(super) fn count(&self) -> usize {
        self.fields.len()
    }

    /// The text of a field without its quotes.
    #[inline]
    pub(super) fn field(&self, column: usize) -> Option<Cow<'a, [u8]>> {
        self.fields.get(column).map(|field| field_text(self.text, *field))
    }

    /// The texts of all fields.
    pub(super) fn titles(&self) -> Vec<Cow<'a, [u8]>> {
        self.fields.iter().map(|field| field_text(self.text, *field)).collect()
    }
}

/// Reads tables chunk by chunk.
#[derive(Debug)]
pub(super) struct CsvReader<R> {
    label: String,
    lines: Lines,
    sink: LineSink<R>,
}

/// Takes whole lines.
#[derive(Debug)]
struct LineSink<R> {
    rows: R,
    out: Output,
    fields: Vec<(usize, usize)>,
}

impl<R: Rows> CsvReader<R> {
    pub(super) fn new(builder: TraceBuilder, rows: R) -> Self {
        let label = builder.trace.label.clone();
        let sink = LineSink { rows, out: Output { builder, row: 0 }, fields: Vec::new() };
        Self { label, lines: Lines::default(), sink }
    }
}

impl<R: Rows> LineSink<R> {
    /// Takes a line; `None` is one that is too long.
    fn line(&mut self, line: Option<&[u8]>) {
        self.out.row += 1;
        let Some(text) = line else { return self.out.problem(ProblemKind::UnreadableRow) };
        let text = text.strip_suffix(b"\r").unwrap_or(text);
        let text = if self.out.row == 1 { text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text) } else { text };
        if text.trim_ascii().is_empty() {
            return;
        }
        let is_intact = split(text, &mut self.fields);
        self.rows.line(&mut self.out, &Line { text, fields: &self.fields, is_intact });
    }
}

impl<R: Rows> StreamReader for CsvReader<R> {
    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        let Self { lines, sink, .. } = self;
        lines.feed(bytes, &mut |line| sink.line(line));
        Ok(())
    }

    fn gpu_ops(&self) -> usize {
        self.sink.out.builder.trace.gpu_ops.len() + self.sink.rows.waiting_ops()
    }

    fn finish(self: Box<Self>) -> Result<Trace> {
        let Self { label, mut lines, mut sink } = *self;
        if lines.finish(&mut |line| sink.line(line)) {
            sink.out.problem(ProblemKind::OpenLastRow);
        }
        sink.rows.finish(&label, sink.out.builder)
    }
}

/// Longer lines are damaged.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Cuts a stream into lines. Keeps only the unfinished one.
#[derive(Debug, Default)]
struct Lines {
    unfinished: Vec<u8>,
    /// The current line is too long; the rest of it is skipped.
    is_too_long: bool,
}

impl Lines {
    /// Takes the next bytes. `each` gets each line without its end; `None` for one that is too long.
    fn feed(&mut self, bytes: &[u8], each: &mut dyn FnMut(Option<&[u8]>)) {
        let mut rest = bytes;
        while let Some(end) = memchr(b'\n', rest) {
            let line = rest.get(..end).unwrap_or_default();
            rest = rest.get(end + 1..).unwrap_or_default();
            if self.unfinished.is_empty() && !self.is_too_long && end <= MAX_LINE_BYTES {
                each(Some(line));
            } else {
                self.extend(line);
                self.end_line(each);
            }
        }
        self.extend(rest);
    }

    /// Ends the stream. Returns true if the last line has no end.
    fn finish(&mut self, each: &mut dyn FnMut(Option<&[u8]>)) -> bool {
        let is_open = !self.unfinished.is_empty() || self.is_too_long;
        if is_open {
            self.end_line(each);
        }
        is_open
    }

    fn extend(&mut self, part: &[u8]) {
        self.is_too_long |= self.unfinished.len() + part.len() > MAX_LINE_BYTES;
        if self.is_too_long {
            self.unfinished.clear();
        } else {
            self.unfinished.extend_from_slice(part);
        }
    }

    fn end_line(&mut self, each: &mut dyn FnMut(Option<&[u8]>)) {
        let is_too_long = std::mem::take(&mut self.is_too_long);
        each((!is_too_long).then_some(&self.unfinished));
        self.unfinished.clear();
    }
}

/// Splits a line into fields: start and end of each, quotes included. Returns false if a quote is not closed.
fn split(line: &[u8], fields: &mut Vec<(usize, usize)>) -> bool {
    fields.clear();
    let mut at = 0;
    loop {
        let start = at;
        if line.get(at) == Some(&b'"') {
            at += 1;
            loop {
                let Some(quote) = memchr(b'"', line.get(at..).unwrap_or_default()) else { return false };
                at += quote + 1;
                if line.get(at) != Some(&b'"') {
                    break;
                }
                at += 1;
            }
            fields.push((start, at));
            match line.get(at) {
                None => return true,
                Some(b',') => at += 1,
                Some(_) => return false,
            }
        } else {
            match memchr(b',', line.get(at..).unwrap_or_default()) {
                None => {
                    fields.push((start, line.len()));
                    return true;
                }
                Some(comma) => {
                    fields.push((start, at + comma));
                    at += comma + 1;
                }
            }
        }
    }
}

/// Returns the text of a field without its quotes.
#[inline]
fn field_text(line: &[u8], (start, end): (usize, usize)) -> Cow<'_, [u8]> {
    let field = line.get(start..end).unwrap_or_default();
    let Some(inner) = field.strip_prefix(b"\"").and_then(|inner| inner.strip_suffix(b"\"")) else {
        return Cow::Borrowed(field.trim_ascii());
    };
    if memchr(b'"', inner).is_none() {
        return Cow::Borrowed(inner);
    }
    let text = String::from_utf8_lossy(inner).replace("\"\"", "\"");
    Cow::Owned(text.into_bytes())
}
