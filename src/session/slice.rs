//! A trace as the JSON that Perfetto and chrome://tracing open: GPU ops by device and stream, calls and ranges by thread.

use crate::trace::{Ns, OpKind, Span, Spans, Trace};
use crate::{Error, Result};
use std::fmt::Write;

/// More events than this are no slice any more: the text would not fit a browser tab twice.
const EVENTS: usize = 1_500_000;
/// Numbers of processes for devices, out of the way of the operating system's.
const DEVICES_FROM: u64 = 1_000_000_000;

/// The trace in Chrome's trace format, whatever it was read from; times in microseconds from its first event.
///
/// # Errors
/// A trace of too many events: a window of it is to be picked first.
pub fn chrome_trace(trace: &Trace) -> Result<String> {
    let events = trace.gpu_ops.len() + trace.calls.len() + trace.ranges.len();
    if events > EVENTS {
        let why = format!("{events} events are too many to hand over at once: pick a window of at most {EVENTS}");
        return Err(Error::refused(&trace.label, why));
    }
    let mut text = String::from("{\"traceEvents\": [");
    name_tracks(&mut text, trace);
    let origin = origin(trace);
    for (at, op) in trace.gpu_ops.iter().enumerate() {
        let kind = match op.kind {
            OpKind::Kernel => "kernel",
            OpKind::Copy => "gpu_memcpy",
            OpKind::Set => "gpu_memset",
        };
        let (pid, tid) = (DEVICES_FROM + u64::from(op.device.0), op.stream);
        let launch = trace.gpu_ops.launch(at).map_or(String::new(), |call| format!(", \"correlation\": {}", call.0));
        complete(&mut text, kind, trace.names.get(op.name), (op.start.since(origin), op.duration));
        let _ = write!(text, ", \"pid\": {pid}, \"tid\": {tid}, \"args\": {{\"stream\": {tid}{launch}}}}}");
    }
    spans(&mut text, trace, &trace.calls, "cuda_runtime", origin, true);
    spans(&mut text, trace, &trace.ranges, "user_annotation", origin, false);
    if text.ends_with(',') {
        text.pop();
    }
    text += "\n]}\n";
    Ok(text)
}

/// The earliest start of anything, so that no time is below zero.
fn origin(trace: &Trace) -> Ns {
    let first = |spans: &Spans| spans.get(0).map(|span| span.start);
    let op = trace.gpu_ops.get(0).map(|op| op.start);
    [op, first(&trace.calls), first(&trace.ranges)].into_iter().flatten().min().unwrap_or(Ns::ZERO)
}

fn name_tracks(text: &mut String, trace: &Trace) {
    for (device, at) in trace.devices.iter().zip(0_u64..) {
        let name = format!("GPU {} {}", device.id, device.name);
        metadata(text, "process_name", DEVICES_FROM + at, None, name.trim());
    }
    for (process, at) in trace.processes.iter().zip(0_u64..) {
        metadata(text, "process_name", at, None, &format!("process {} {}", process.pid, process.name));
    }
    for (thread, at) in trace.threads.iter().zip(0_i64..) {
        metadata(text, "thread_name", u64::from(thread.process.0), Some(at), &format!("thread {}", thread.tid));
    }
}

fn metadata(text: &mut String, what: &str, pid: u64, tid: Option<i64>, name: &str) {
    let tid = tid.map_or(String::new(), |tid| format!(", \"tid\": {tid}"));
    let _ = write!(text, "\n{{\"ph\": \"M\", \"name\": \"{what}\", \"pid\": {pid}{tid}, \"args\": {{\"name\": ");
    quoted(text, name);
    text.push_str("}},");
}

fn spans(text: &mut String, trace: &Trace, spans: &Spans, category: &str, origin: Ns, are_calls: bool) {
    for (span, at) in spans.iter().zip(0_u32..) {
        let Span { start, duration, name, thread } = span;
        let process = trace.threads.get(thread.0 as usize).map_or(0, |thread| thread.process.0);
        complete(text, category, spans.names.get(name), (start.since(origin), duration));
        let args = if are_calls { format!(", \"args\": {{\"correlation\": {at}}}") } else { String::new() };
        let _ = write!(text, ", \"pid\": {process}, \"tid\": {}{args}}}", thread.0);
        text.push(',');
    }
}

/// A complete event up to its times, in microseconds with all digits of a nanosecond.
fn complete(text: &mut String, category: &str, name: &str, (start, duration): (Ns, Ns)) {
    if text.ends_with('}') {
        text.push(',');
    }
    let _ = write!(text, "\n{{\"ph\": \"X\", \"cat\": \"{category}\", \"name\": ");
    quoted(text, name);
    let micros = |time: Ns| format!("{}.{:03}", time.0 / 1_000, time.0 % 1_000);
    let _ = write!(text, ", \"ts\": {}, \"dur\": {}", micros(start), micros(duration));
}

fn quoted(text: &mut String, name: &str) {
    // A string always serialises.
    text.push_str(&serde_json::to_string(name).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::{Imported, Importer};
    use crate::trace::{DeviceId, Format, GpuOp, ProcessId, TraceBuilder, Window};

    fn trace() -> Trace {
        let mut builder = TraceBuilder::new("t", Format::NsysSqlite);
        builder.device("0", "NVIDIA \"H200\"");
        let process = builder.process(77, "python");
        let thread = builder.thread(process, 78);
        let launch = builder.trace.calls.names.intern("cudaLaunchKernel");
        for (start, id) in [1_700_000_000_000_000_123, 1_700_000_000_000_050_000].map(Ns).into_iter().zip(0..) {
            let name = builder.trace.names.intern(&format!("kernel \"{id}\" <\\>\u{1}"));
            let (device, duration) = (DeviceId(0), Ns(1_999));
            let op = GpuOp { start, duration, name, device, stream: 7, process: ProcessId(0), kind: OpKind::Kernel };
            builder.trace.gpu_ops.push(op, Some(id));
            builder.call(Span { start: start - Ns(5_000), duration: Ns(1_000), name: launch, thread }, Some(id));
        }
        builder.finish()
    }

    fn read(text: &str) -> Trace {
        let mut importer = Importer::new("t");
        importer.feed(text.as_bytes()).unwrap();
        match importer.finish().unwrap() {
            Imported::Trace(trace) => *trace,
            Imported::Document(_) => panic!("no trace"),
        }
    }

    #[test]
    fn a_slice_reads_back_with_the_same_ops_names_times_and_launches() {
        let whole = trace();
        let again = read(&chrome_trace(&whole).unwrap());
        assert_eq!(again.problems.iter().count(), 0);
        let told = |trace: &Trace| -> Vec<(String, i64, i64, i64, Option<i64>)> {
            let first = trace.gpu_ops.get(0).unwrap().start;
            let launch = |at: usize| trace.gpu_ops.launch(at).and_then(|call| trace.calls.get(call.0 as usize));
            trace
                .gpu_ops
                .iter()
                .enumerate()
                .map(|(at, op)| {
                    let launched = launch(at).map(|call| op.start.since(call.start).0);
                    let name = trace.names.get(op.name).to_owned();
                    (name, op.start.since(first).0, op.duration.0, op.stream, launched)
                })
                .collect()
        };
        assert_eq!(told(&again), told(&whole));
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&chrome_trace(&whole).unwrap()).unwrap()["traceEvents"][0]["args"]
                ["name"],
            "GPU 0 NVIDIA \"H200\""
        );
    }

    #[test]
    fn the_slice_of_a_window_holds_its_ops_alone_and_an_empty_trace_is_sound_json() {
        let whole = trace();
        let start = whole.gpu_ops.get(1).unwrap().start;
        let part = whole.within(Window { start, end: start + Ns(10_000) });
        assert_eq!(read(&chrome_trace(&part).unwrap()).gpu_ops.len(), 1);
        let empty = TraceBuilder::new("t", Format::TorchProfiler).finish();
        let text = chrome_trace(&empty).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
    }
}
