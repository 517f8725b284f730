//! Writes a trace in Chrome's trace event format, for Perfetto and chrome://tracing. One track per device and
//! stream for GPU ops, one per thread for calls and ranges. Linear in the number of events.

use crate::json;
use crate::trace::{Ns, OpKind, Span, Spans, Trace};
use crate::{Error, Result};
use std::fmt::Write;

/// With more events, two copies of the text would not fit into a browser tab.
const MAX_EVENTS: usize = 1_500_000;
/// The process number of the first device; far above the process numbers of the host.
const FIRST_DEVICE_PID: u64 = 1_000_000_000;

/// The trace as JSON in Chrome's trace event format, with times in microseconds from its first event.
///
/// # Errors
/// The trace has more than 1.5 million events.
pub fn chrome_trace(trace: &Trace) -> Result<String> {
    let events = trace.gpu_ops.len() + trace.calls.len() + trace.ranges.len();
    if events > MAX_EVENTS {
        let why = format!("too many events to export ({events}): choose a window with at most {MAX_EVENTS} events");
        return Err(Error::refused(&trace.label, why));
    }
    let mut text = String::from("{\"traceEvents\": [");
    name_tracks(&mut text, trace);
    let origin = origin(trace);
    for (index, op) in trace.gpu_ops.iter().enumerate() {
        let kind = match op.kind {
            OpKind::Kernel => "kernel",
            OpKind::Copy => "gpu_memcpy",
            OpKind::Set => "gpu_memset",
        };
        let (pid, tid) = (FIRST_DEVICE_PID + u64::from(op.device.0), op.stream);
        let launch = trace.gpu_ops.launch(index).map_or(String::new(), |call| format!(", \"correlation\": {}", call.0));
        begin_event(&mut text, kind, trace.names.get(op.name), (op.start.since(origin), op.duration));
        let _ = write!(text, ", \"pid\": {pid}, \"tid\": {tid}, \"args\": {{\"stream\": {tid}{launch}}}}}");
    }
    write_spans(&mut text, trace, &trace.calls, "cuda_runtime", origin, true);
    write_spans(&mut text, trace, &trace.ranges, "user_annotation", origin, false);
    if text.ends_with(',') {
        text.pop();
    }
    text += "\n]}\n";
    Ok(text)
}

/// The earliest start of any event, so that no time is negative.
fn origin(trace: &Trace) -> Ns {
    let first = |spans: &Spans| spans.get(0).map(|span| span.start);
    let op = trace.gpu_ops.get(0).map(|op| op.start);
    [op, first(&trace.calls), first(&trace.ranges)].into_iter().flatten().min().unwrap_or(Ns::ZERO)
}

fn name_tracks(text: &mut String, trace: &Trace) {
    for (device, index) in trace.devices.iter().zip(0_u64..) {
        let name = format!("GPU {} {}", device.id, device.name);
        metadata(text, "process_name", FIRST_DEVICE_PID + index, None, name.trim());
    }
    for (process, index) in trace.processes.iter().zip(0_u64..) {
        metadata(text, "process_name", index, None, &format!("process {} {}", process.pid, process.name));
    }
    for (thread, index) in trace.threads.iter().zip(0_i64..) {
        metadata(text, "thread_name", u64::from(thread.process.0), Some(index), &format!("thread {}", thread.tid));
    }
}

fn metadata(text: &mut String, kind: &str, pid: u64, tid: Option<i64>, name: &str) {
    let tid = tid.map_or(String::new(), |tid| format!(", \"tid\": {tid}"));
    let _ = write!(text, "\n{{\"ph\": \"M\", \"name\": \"{kind}\", \"pid\": {pid}{tid}, \"args\": {{\"name\": ");
    quoted(text, name);
    text.push_str("}},");
}

fn write_spans(text: &mut String, trace: &Trace, spans: &Spans, category: &str, origin: Ns, are_calls: bool) {
    for (span, index) in spans.iter().zip(0_u32..) {
        let Span { start, duration, name, thread } = span;
        let process = trace.threads.get(thread.0 as usize).map_or(0, |thread| thread.process.0);
        begin_event(text, category, spans.names.get(name), (start.since(origin), duration));
        let args = if are_calls { format!(", \"args\": {{\"correlation\": {index}}}") } else { String::new() };
        let _ = write!(text, ", \"pid\": {process}, \"tid\": {}{args}}}", thread.0);
        text.push(',');
    }
}

/// Writes the start of a complete event (`"ph": "X"`) up to its times, which are in microseconds with three decimals.
fn begin_event(text: &mut String, category: &str, name: &str, (start, duration): (Ns, Ns)) {
    if text.ends_with('}') {
        text.push(',');
    }
    let _ = write!(text, "\n{{\"ph\": \"X\", \"cat\": \"{category}\", \"name\": ");
    quoted(text, name);
    let micros = |time: Ns| format!("{}.{:03}", time.0 / 1_000, time.0 % 1_000);
    let _ = write!(text, ", \"ts\": {}, \"dur\": {}", micros(start), micros(duration));
}

fn quoted(text: &mut String, name: &str) {
    text.push_str(&json::write(&name));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::import;
    use crate::input::Importer;
    use crate::trace::Window;
    use crate::trace::testing::TestTrace;

    fn trace() -> Trace {
        let mut trace = TestTrace::nsys();
        trace.named_device(0, "NVIDIA \"H200\"").process(77).thread(78);
        for (start, id) in [1_700_000_000_000_000_123, 1_700_000_000_000_050_000].into_iter().zip(0..) {
            trace
                .call("cudaLaunchKernel", start - 5_000..start - 4_000)
                .launches(&format!("kernel \"{id}\" <\\>\u{1}"), start..start + 1_999);
        }
        trace.finish()
    }

    fn read(text: &str) -> Trace {
        import(Importer::new("t"), text.as_bytes())
    }

    #[test]
    fn an_exported_trace_reads_back_with_the_same_ops_names_times_and_launches() {
        let whole = trace();
        let again = read(&chrome_trace(&whole).unwrap());
        assert_eq!(again.problems.iter().count(), 0);
        let ops = |trace: &Trace| -> Vec<(String, i64, i64, i64, Option<i64>)> {
            let first = trace.gpu_ops.get(0).unwrap().start;
            let ops = trace.gpu_ops.iter().zip(trace.gpu_ops.launches());
            let described = ops.map(|(op, launch)| {
                let call = launch.and_then(|call| trace.calls.get(call.0 as usize));
                let delay = call.map(|call| op.start.since(call.start).0);
                (trace.names.get(op.name).to_owned(), op.start.since(first).0, op.duration.0, op.stream, delay)
            });
            described.collect()
        };
        assert_eq!(ops(&again), ops(&whole));
        let json: serde_json::Value = serde_json::from_str(&chrome_trace(&whole).unwrap()).unwrap();
        assert_eq!(json["traceEvents"][0]["args"]["name"], "GPU 0 NVIDIA \"H200\"");
    }

    #[test]
    fn a_window_exports_only_its_own_ops_and_an_empty_trace_is_valid_json() {
        let whole = trace();
        let start = whole.gpu_ops.get(1).unwrap().start;
        let part = whole.within(Window { start, end: start + Ns(10_000) });
        assert_eq!(read(&chrome_trace(&part).unwrap()).gpu_ops.len(), 1);
        let empty = TestTrace::new().finish();
        let text = chrome_trace(&empty).unwrap();
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
    }
}
