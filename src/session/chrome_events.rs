//! Writes events in Chrome's trace event format, one after the other, for Perfetto and chrome://tracing. Keeps the text of one event.

use crate::json;
use crate::trace::{Ns, OpKind, Trace};
use std::fmt::Write as _;
use std::io::{Result, Write};

/// The process number of the first device; far above the process numbers of the host.
const FIRST_DEVICE_PID: u64 = 1_000_000_000;

/// A complete event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event<'a> {
    pub(super) category: &'a str,
    pub(super) name: &'a str,
    /// From the first moment of the file.
    pub(super) start: Ns,
    pub(super) duration: Ns,
    pub(super) process: u64,
    pub(super) thread: i64,
    /// The members of `args` as JSON; none if empty.
    pub(super) args: &'a str,
}

/// The list of events.
pub(super) struct Events<'a> {
    out: &'a mut dyn Write,
    /// The event being written.
    line: String,
    is_empty: bool,
}

impl<'a> Events<'a> {
    pub(super) fn begin(out: &'a mut dyn Write) -> Result<Self> {
        out.write_all(b"{\"traceEvents\": [")?;
        Ok(Self { out, line: String::new(), is_empty: true })
    }

    pub(super) fn finish(self) -> Result<()> {
        self.out.write_all(b"\n]}\n")
    }

    /// Names a process, or a thread of it.
    pub(super) fn name(&mut self, track: &Track) -> Result<()> {
        let Track { process, thread, name } = track;
        let (kind, tid) =
            thread.map_or(("process_name", String::new()), |tid| ("thread_name", format!(", \"tid\": {tid}")));
        let name = json::write(name);
        let _ = write!(self.line, "{{\"ph\": \"M\", \"name\": \"{kind}\", \"pid\": {process}{tid}");
        let _ = write!(self.line, ", \"args\": {{\"name\": {name}}}}}");
        self.end()
    }

    pub(super) fn complete(&mut self, event: &Event) -> Result<()> {
        let Event { category, name, start, duration, process, thread, args } = *event;
        let (name, start, duration) = (json::write(&name), micros(start), micros(duration));
        let _ = write!(self.line, "{{\"ph\": \"X\", \"cat\": \"{category}\", \"name\": {name}, \"ts\": {start}");
        let _ = write!(self.line, ", \"dur\": {duration}, \"pid\": {process}, \"tid\": {thread}");
        if !args.is_empty() {
            let _ = write!(self.line, ", \"args\": {{{args}}}");
        }
        self.line.push('}');
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.out.write_all(if self.is_empty { b"\n" } else { b",\n" })?;
        self.out.write_all(self.line.as_bytes())?;
        self.line.clear();
        self.is_empty = false;
        Ok(())
    }
}

/// Microseconds with three decimals.
fn micros(time: Ns) -> String {
    format!("{}.{:03}", time.0 / 1_000, time.0 % 1_000)
}

/// The category of a GPU op.
pub(super) fn category(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Kernel => "kernel",
        OpKind::Copy => "gpu_memcpy",
        OpKind::Set => "gpu_memset",
    }
}

/// The process number of a device.
pub(super) fn device_pid(index: usize) -> u64 {
    FIRST_DEVICE_PID + index as u64
}

/// The name of a process or thread of the file.
#[derive(Debug)]
pub(super) struct Track {
    pub(super) process: u64,
    /// `None` for the process itself.
    pub(super) thread: Option<i64>,
    pub(super) name: String,
}

/// The names of the devices, processes and threads of a trace.
pub(super) fn tracks(trace: &Trace) -> impl Iterator<Item = Track> {
    let devices = trace.devices.iter().enumerate().map(|(index, device)| {
        let name = format!("GPU {} {}", device.id, device.name).trim().to_owned();
        Track { process: device_pid(index), thread: None, name }
    });
    let processes = trace.processes.iter().zip(0_u64..).map(|(process, index)| {
        let name = format!("process {} {}", process.pid, process.name);
        Track { process: index, thread: None, name }
    });
    let threads = trace.threads.iter().zip(0_i64..).map(|(thread, index)| {
        let name = format!("thread {}", thread.tid);
        Track { process: u64::from(thread.process.0), thread: Some(index), name }
    });
    devices.chain(processes).chain(threads)
}
