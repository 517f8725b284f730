//! Writes a trace in Chrome's trace event format, for Perfetto and chrome://tracing. One track per device and
//! stream for GPU ops, one per thread for calls and ranges. Linear in the number of events.

use super::chrome_events::{Event, Events, category, device_pid, tracks};
use crate::trace::{Ns, Span, Spans, Trace};
use crate::{Error, Result};
use std::io;

/// With more events, two copies of the text would not fit into a browser tab.
const MAX_EVENTS: usize = 1_500_000;

/// The trace as JSON in Chrome's trace event format, with times in microseconds from its first event.
///
/// # Errors
/// The trace has more than 1.5 million events.
pub fn chrome_trace(trace: &Trace) -> Result<Vec<u8>> {
    let events = trace.gpu_ops.len() + trace.calls.len() + trace.ranges.len();
    if events > MAX_EVENTS {
        let why = format!("too many events to export ({events}): choose a window with at most {MAX_EVENTS} events");
        return Err(Error::refused(&trace.label, why));
    }
    let mut text = Vec::new();
    write(trace, &mut text).map_err(|error| Error::io(&trace.label, &error))?;
    Ok(text)
}

fn write(trace: &Trace, out: &mut Vec<u8>) -> io::Result<()> {
    let mut events = Events::begin(out)?;
    tracks(trace).try_for_each(|track| events.name(&track))?;
    let origin = origin(trace);
    write_ops(&mut events, trace, origin)?;
    write_spans(&mut events, trace, &trace.calls, "cuda_runtime", origin)?;
    write_spans(&mut events, trace, &trace.ranges, "user_annotation", origin)?;
    events.finish()
}

/// The earliest start of any event, so that no time is negative.
fn origin(trace: &Trace) -> Ns {
    let first = |spans: &Spans| spans.get(0).map(|span| span.start);
    let op = trace.gpu_ops.get(0).map(|op| op.start);
    [op, first(&trace.calls), first(&trace.ranges)].into_iter().flatten().min().unwrap_or(Ns::ZERO)
}

fn write_ops(events: &mut Events, trace: &Trace, origin: Ns) -> io::Result<()> {
    for (op, launch) in trace.gpu_ops.iter().zip(trace.gpu_ops.launches()) {
        let launch = launch.map_or(String::new(), |call| format!(", \"correlation\": {}", call.0));
        events.complete(&Event {
            category: category(op.kind),
            name: trace.names.get(op.name),
            start: op.start.since(origin),
            duration: op.duration,
            process: device_pid(op.device.0 as usize),
            thread: op.stream,
            args: &format!("\"stream\": {}{launch}", op.stream),
        })?;
    }
    Ok(())
}

fn write_spans(events: &mut Events, trace: &Trace, spans: &Spans, category: &str, origin: Ns) -> io::Result<()> {
    for (index, span) in spans.iter().enumerate() {
        let Span { start, duration, name, thread } = span;
        let correlation = if category == "cuda_runtime" { format!("\"correlation\": {index}") } else { String::new() };
        events.complete(&Event {
            category,
            name: spans.names.get(name),
            start: start.since(origin),
            duration,
            process: trace.threads.get(thread.0 as usize).map_or(0, |thread| u64::from(thread.process.0)),
            thread: i64::from(thread.0),
            args: &correlation,
        })?;
    }
    Ok(())
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

    fn read(text: &[u8]) -> Trace {
        import(Importer::new("t"), text)
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
        let json: serde_json::Value = serde_json::from_slice(&chrome_trace(&whole).unwrap()).unwrap();
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
        assert!(serde_json::from_slice::<serde_json::Value>(&text).is_ok());
    }
}
