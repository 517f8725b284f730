//! Readers of Chrome trace events that other profilers than torch.profiler write: one module per dialect.
//!
//! A dialect gets each event with its members parsed and adds it to the trace. `gpuprism_scan` splits the stream and contains
//! damage. One pass, O(bytes).

pub(super) mod ascend;
mod flows;
pub(super) mod nsys;
pub(super) mod proton;
pub(super) mod rocprof_v1;
pub(super) mod rpd;
pub(super) mod unitrace;

use super::Detail;
use super::slices::OpenSlices;
use super::stream_reader::StreamReader;
use super::torch::is_empty_object;
use crate::trace::{Format, Ns, ProblemKind, ProcessId, Trace, TraceBuilder, is_plausible};
use crate::{Error, Result};
use gpuprism_scan::json::{Cursor, Step, Value, unescape};
use gpuprism_scan::split::{End, Sink, Splitter};
use std::borrow::Cow;

/// Times are microseconds: a power of ten in ns.
const MICROSECONDS: u32 = 3;

/// What one profiler's events mean.
pub(super) trait Dialect: std::fmt::Debug + Send {
    /// Adds one event.
    fn event(&mut self, out: &mut Output, event: &Event<'_>);
    /// Takes a member of the file beside the events; a list or an object has its brackets.
    fn member(&mut self, _key: &[u8], _value: &[u8]) {}
    /// Adds what is known only at the end.
    fn finish(&mut self, _out: &mut Output) {}
}

/// The trace that a dialect fills.
#[derive(Debug)]
pub(super) struct Output {
    pub(super) builder: TraceBuilder,
    pub(super) is_gpu_only: bool,
    /// Offset of the current event.
    at: u64,
    events: u64,
}

impl Output {
    pub(super) fn problem(&mut self, kind: ProblemKind) {
        self.builder.trace.problems.add(kind, 1, self.at);
    }

    /// Offset of the current event.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The times of a GPU op; counts an op without usable ones.
    pub(super) fn op_times(&mut self, event: &Event<'_>) -> Option<(Ns, Ns)> {
        let times = event.start().zip(event.duration());
        if times.is_none() {
            self.problem(ProblemKind::OpWithoutTime);
        }
        let times = times?;
        if !is_plausible(times.0, times.1) {
            self.problem(ProblemKind::ImpossibleDuration);
            return None;
        }
        Some(times)
    }

    /// The times of a call or range; counts one without usable ones, and any if only GPU ops are wanted.
    pub(super) fn host_times(&mut self, event: &Event<'_>) -> Option<(Ns, Ns)> {
        let times = event.start().zip(event.duration()).filter(|(start, duration)| is_plausible(*start, *duration));
        if times.is_none() {
            self.problem(ProblemKind::HostRowWithoutTime);
        } else if self.is_gpu_only {
            self.problem(ProblemKind::LeftOut);
            return None;
        }
        times
    }

    /// Adds a range that the program marked.
    pub(super) fn range(&mut self, event: &Event<'_>, name: &str, times: (Ns, Ns)) {
        let process = self.builder.process(event.pid_number(), "");
        self.range_in(process, event, name, times);
    }

    pub(super) fn range_in(&mut self, process: ProcessId, event: &Event<'_>, name: &str, (start, duration): (Ns, Ns)) {
        let thread = self.builder.thread(process, event.tid_number().unwrap_or(-1));
        self.builder.add_range(name, (thread, start, duration));
    }
}

/// One event.
#[derive(Debug, Default)]
pub(super) struct Event<'a> {
    pub(super) phase: &'a [u8],
    pub(super) category: &'a [u8],
    pub(super) raw_name: &'a [u8],
    pub(super) pid: &'a [u8],
    pub(super) tid: &'a [u8],
    /// Microseconds as text.
    pub(super) start: Option<&'a [u8]>,
    pub(super) duration: Option<&'a [u8]>,
    pub(super) id: &'a [u8],
    args: &'a [u8],
}

impl<'a> Event<'a> {
    fn read(text: &'a [u8]) -> Option<Self> {
        let mut event = Self::default();
        let mut cursor = Cursor::new(text);
        if !cursor.enter() {
            return None;
        }
        loop {
            let key = match cursor.key() {
                Step::Key(key) => key,
                Step::End => return Some(event),
                Step::Damaged => return None,
            };
            let value = cursor.value()?;
            let scalar = value.scalar().unwrap_or_default();
            match key {
                b"ph" => event.phase = scalar,
                b"cat" => event.category = scalar,
                b"name" => event.raw_name = scalar,
                b"pid" => event.pid = scalar,
                b"tid" => event.tid = scalar,
                b"ts" => event.start = value.scalar(),
                b"dur" => event.duration = value.scalar(),
                b"id" => event.id = scalar,
                b"args" => {
                    if let Value::Container(args) = value {
                        event.args = args;
                    }
                }
                _ => {}
            }
        }
    }

    pub(super) fn name(&self) -> Cow<'a, str> {
        unescape(self.raw_name)
    }

    pub(super) fn start(&self) -> Option<Ns> {
        Ns::from_decimal(self.start?.trim_ascii(), MICROSECONDS)
    }

    fn duration(&self) -> Option<Ns> {
        Ns::from_decimal(self.duration?.trim_ascii(), MICROSECONDS)
    }

    fn arg_value(&self, name: &str) -> Option<Value<'a>> {
        let mut cursor = Cursor::new(self.args);
        if !cursor.enter() {
            return None;
        }
        while let Step::Key(key) = cursor.key() {
            let value = cursor.value()?;
            if key == name.as_bytes() {
                return Some(value);
            }
        }
        None
    }

    /// Calls `each` with the name and the value of each argument.
    pub(super) fn each_arg(&self, each: &mut dyn FnMut(&'a [u8], Value<'a>)) {
        let mut cursor = Cursor::new(self.args);
        if !cursor.enter() {
            return;
        }
        while let Step::Key(key) = cursor.key() {
            let Some(value) = cursor.value() else { return };
            each(key, value);
        }
    }

    /// The value of an argument.
    pub(super) fn arg(&self, name: &str) -> Option<Cow<'a, str>> {
        self.arg_value(name)?.scalar().map(unescape)
    }

    /// The text of an argument that is an array or object, with its brackets.
    pub(super) fn container_arg(&self, name: &str) -> Option<&'a [u8]> {
        if let Value::Container(text) = self.arg_value(name)? { Some(text) } else { None }
    }

    pub(super) fn int_arg(&self, name: &str) -> Option<i64> {
        self.arg(name)?.trim().parse().ok()
    }

    pub(super) fn pid_number(&self) -> i64 {
        number(self.pid).unwrap_or(-1)
    }

    pub(super) fn tid_number(&self) -> Option<i64> {
        number(self.tid)
    }
}

/// The last number in a text: `7`, `Stream 7`, `NVTX Thread 12`.
pub(super) fn number(text: &[u8]) -> Option<i64> {
    let end = text.iter().rposition(u8::is_ascii_digit)? + 1;
    let digits = text.get(..end)?.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(text.get(end - digits..end)?).ok()?.parse().ok()
}

/// Reads one dialect.
#[derive(Debug)]
pub(super) struct ChromeReader<D> {
    label: String,
    sink: EventSink<D>,
    splitter: Splitter,
    /// Each line is a list of its own.
    is_by_line: bool,
    has_bytes_in_line: bool,
    line_length: u64,
}

#[derive(Debug)]
struct EventSink<D> {
    dialect: D,
    out: Output,
    /// Offset of the current line in the file.
    base: u64,
    slices: OpenSlices,
}

impl<D: Dialect> EventSink<D> {
    /// Takes a beginning or an end of a slice.
    fn slice(&mut self, text: &[u8]) {
        if !self.slices.take(text, self.out.at) {
            return self.out.problem(ProblemKind::UnreadableEvent);
        }
        self.out.events += 1;
        self.take_whole_slices();
    }

    fn take_whole_slices(&mut self) {
        while let Some((whole, at)) = self.slices.next_whole() {
            self.out.at = at;
            if let Some(event) = Event::read(&whole) {
                self.dialect.event(&mut self.out, &event);
            }
        }
    }
}

impl<D: Dialect> Sink for EventSink<D> {
    fn event(&mut self, text: &[u8], at: u64) {
        self.out.at = self.base + at;
        match Event::read(text) {
            Some(event) if matches!(event.phase, b"B" | b"E") => self.slice(text),
            Some(event) if !event.phase.is_empty() => {
                self.out.events += 1;
                self.dialect.event(&mut self.out, &event);
            }
            // The empty object before the first comma.
            Some(_) if is_empty_object(text) => {}
            _ => self.out.problem(ProblemKind::UnreadableEvent),
        }
    }

    fn member(&mut self, key: &[u8], value: &[u8]) {
        self.dialect.member(key, value);
    }

    fn unreadable(&mut self, at: u64) {
        self.out.builder.trace.problems.add(ProblemKind::UnreadableEvent, 1, self.base + at);
    }

    fn too_large(&mut self, at: u64) {
        self.out.builder.trace.problems.add(ProblemKind::EventTooLarge, 1, self.base + at);
    }
}

impl<D: Dialect> ChromeReader<D> {
    pub(super) fn new(label: &str, detail: Detail, format: Format, dialect: D) -> Self {
        let out = Output {
            builder: TraceBuilder::new(label, format),
            is_gpu_only: detail == Detail::GpuOps,
            at: 0,
            events: 0,
        };
        Self {
            label: label.to_owned(),
            sink: EventSink { dialect, out, base: 0, slices: OpenSlices::default() },
            splitter: Splitter::default(),
            is_by_line: false,
            has_bytes_in_line: false,
            line_length: 0,
        }
    }

    /// Each line of the file is a list of events.
    pub(super) fn by_line(self) -> Self {
        Self { is_by_line: true, ..self }
    }

    fn end_list(&mut self) {
        let end = std::mem::take(&mut self.splitter).finish(&mut self.sink);
        let problems = &mut self.sink.out.builder.trace.problems;
        let base = self.sink.base;
        match end {
            End::Complete { trailing: 0 } => {}
            End::Complete { trailing } => problems.add(ProblemKind::TrailingData, trailing, base),
            End::Unclosed { at } => problems.add(ProblemKind::Unclosed, 1, base + at),
            End::InLargeEvent => {}
            End::CutShort { at } => problems.add(ProblemKind::Truncated, 1, base + at),
        }
    }
}

impl<D: Dialect> StreamReader for ChromeReader<D> {
    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        while self.is_by_line
            && let Some(end) = memchr::memchr(b'\n', rest)
        {
            let (line, after) = rest.split_at(end + 1);
            self.splitter.feed(line, &mut self.sink);
            self.line_length += line.len() as u64;
            if self.has_bytes_in_line || !line.trim_ascii().is_empty() {
                self.end_list();
            }
            self.has_bytes_in_line = false;
            self.sink.base += self.line_length;
            self.line_length = 0;
            rest = after;
        }
        self.line_length += rest.len() as u64;
        self.has_bytes_in_line |= !rest.trim_ascii().is_empty();
        self.splitter.feed(rest, &mut self.sink);
        Ok(())
    }

    fn gpu_ops(&self) -> usize {
        self.sink.out.builder.trace.gpu_ops.len()
    }

    fn finish(mut self: Box<Self>) -> Result<Trace> {
        if !self.is_by_line || self.has_bytes_in_line {
            self.end_list();
        }
        if self.sink.out.events == 0 {
            let trace = &self.sink.out.builder.trace;
            let format = trace.format.title();
            let why = match trace.problems.too_large_event() {
                Some(too_large) => format!("a {format} without an event that can be read: {too_large}"),
                None => format!("a {format} that is cut short before its first event; copy or capture it again"),
            };
            return Err(Error::refused(&self.label, why));
        }
        self.sink.slices.end();
        self.sink.take_whole_slices();
        if let Some((count, at)) = self.sink.slices.left() {
            self.sink.out.builder.trace.problems.add(ProblemKind::UnpairedSlice, count, at);
        }
        self.sink.dialect.finish(&mut self.sink.out);
        Ok(self.sink.out.builder.finish())
    }
}
