//! The simulated run of the changes that are asked for, as a trace in Chrome's trace event format. One replay, and one pass over the
//! events, which are at most those of the replayed part.

use super::chrome_events::{Event, Events, Track, category, device_pid, tracks};
use super::{Choices, options, part};
use crate::analysis::context::Reused;
use crate::analysis::context_of;
use crate::analysis::replay::cause::{Cause, CauseId};
use crate::analysis::replay::sections::WhatIf;
use crate::analysis::replay::simulated::{SimulatedOp, SimulatedRun, simulated_run};
use crate::analysis::results::Run;
use crate::analysis::section::TypedSection;
use crate::report::redact::Redactor;
use crate::trace::{Ns, OpKind, Span, Spans, Trace};
use crate::{Error, Result};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// The track of graphs that were traced as a whole, which have no stream.
const GRAPHS: i64 = -2;

/// A trace and its simulated run.
pub struct Simulated<'a> {
    trace: Cow<'a, Trace>,
    run: SimulatedRun,
}

/// Replays the trace with the changes of [`Choices::what_if`] in the chosen window.
///
/// # Errors
/// Those of [`super::run`], and that the trace cannot be replayed.
pub fn simulate<'a>(trace: &'a Trace, choices: &Choices) -> Result<Simulated<'a>> {
    let trace = part(trace, choices)?.map_or(Cow::Borrowed(trace), Cow::Owned);
    let options = options(&trace, choices)?;
    let run = simulated_run(&context_of(&trace, &options, Reused::default())).map_err(|why| {
        let why = format!("cannot be replayed: {} `gpuprism doctor` says what to record", why.why());
        Error::refused(&trace.label, why)
    })?;
    Ok(Simulated { trace, run })
}

/// An error if the runs have nothing to change of what is asked for.
///
/// # Errors
/// No run has a row of all changes together.
pub fn check_found(runs: &[Run], asked: &[String]) -> Result<()> {
    let ids: Vec<CauseId> = runs.iter().flat_map(|run| WhatIf::rows(&run.sections)).map(|row| row.id).collect();
    if asked.is_empty() || ids.iter().any(|id| id.cause == Cause::Together) {
        return Ok(());
    }
    let known = if ids.is_empty() {
        "the trace cannot be replayed".to_owned()
    } else {
        format!("its ids are {}", ids.iter().map(CauseId::to_string).collect::<Vec<_>>().join(", "))
    };
    Err(Error::usage(asked.join(", "), format!("nothing in this trace to change; {known}")))
}

impl Simulated<'_> {
    /// Writes the run as JSON, with times in microseconds from the first moment of the replayed part. With a redactor, private names are
    /// replaced as in the report.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write(&self, redactor: Option<&mut Redactor>, out: &mut dyn Write) -> io::Result<()> {
        let (mut names, mut events) = (Names { redactor }, Events::begin(out)?);
        self.write_tracks(&mut names, &mut events)?;
        self.run.ops.iter().try_for_each(|op| self.write_op(op, &mut names, &mut events))?;
        let Simulated { trace, run } = self;
        self.write_spans(&run.calls, &trace.calls, "cuda_runtime", &mut names, &mut events)?;
        self.write_spans(&run.ranges, &trace.ranges, "user_annotation", &mut names, &mut events)?;
        events.finish()
    }

    /// Names the devices, processes and threads that have events.
    fn write_tracks(&self, names: &mut Names, events: &mut Events) -> io::Result<()> {
        let used: BTreeSet<(u64, i64)> = self.run.ops.iter().map(|op| self.track_of(op)).collect();
        let threads: BTreeSet<(u64, i64)> = self.run.calls.iter().map(|call| self.track_of_thread(call)).collect();
        let is_used = |track: &Track| match track.thread {
            None => used.iter().chain(&threads).any(|(process, _)| *process == track.process),
            Some(thread) => threads.contains(&(track.process, thread)),
        };
        for track in tracks(&self.trace).filter(is_used) {
            let name = names.label(&track.name).into_owned();
            events.name(&Track { name, ..track })?;
        }
        for (process, stream) in used {
            let name = if stream == GRAPHS { "graphs".to_owned() } else { format!("stream {stream}") };
            events.name(&Track { process, thread: Some(stream), name })?;
        }
        Ok(())
    }

    fn track_of(&self, op: &SimulatedOp) -> (u64, i64) {
        let stream = self.trace.gpu_ops.get(op.row).map_or(GRAPHS, |op| op.stream);
        (device_pid(op.device.0 as usize), stream)
    }

    fn track_of_thread(&self, span: &Span) -> (u64, i64) {
        let process = self.trace.threads.get(span.thread.0 as usize).map_or(0, |thread| u64::from(thread.process.0));
        (process, i64::from(span.thread.0))
    }

    fn write_op(&self, op: &SimulatedOp, names: &mut Names, events: &mut Events) -> io::Result<()> {
        let measured = self.trace.gpu_ops.get(op.row);
        let name = measured.map_or(Cow::Borrowed("graph"), |op| names.kernel(self.trace.names.get(op.name)));
        let (process, thread) = self.track_of(op);
        events.complete(&Event {
            category: measured.map_or("graph", |op| category(op.kind)),
            name: &name,
            start: self.since_beginning(op.start),
            duration: op.duration,
            process,
            thread,
            args: &self.args_of(op, measured.map(|op| op.kind)),
        })
    }

    /// The members of `args` that a reader of the file needs: device, stream, launch, and the bytes of a copy.
    fn args_of(&self, op: &SimulatedOp, kind: Option<OpKind>) -> String {
        let device = self.trace.devices.get(op.device.0 as usize).and_then(|device| device.id.parse::<u32>().ok());
        let (_, stream) = self.track_of(op);
        let members = [
            device.map(|device| format!("\"device\": {device}")),
            kind.map(|_| format!("\"stream\": {stream}")),
            op.call.map(|call| format!("\"correlation\": {call}")),
            (op.bytes > 0).then(|| format!("\"bytes\": {}", op.bytes)),
        ];
        members.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    fn write_spans(
        &self,
        spans: &[Span],
        named: &Spans,
        category: &str,
        names: &mut Names,
        events: &mut Events,
    ) -> io::Result<()> {
        for (index, span) in spans.iter().enumerate() {
            let (process, thread) = self.track_of_thread(span);
            let correlation =
                if category == "cuda_runtime" { format!("\"correlation\": {index}") } else { String::new() };
            events.complete(&Event {
                category,
                name: &names.name(named.names.get(span.name)),
                start: self.since_beginning(span.start),
                duration: span.duration,
                process,
                thread,
                args: &correlation,
            })?;
        }
        Ok(())
    }

    fn since_beginning(&self, time: Ns) -> Ns {
        time.since(self.run.beginning).max(Ns::ZERO)
    }
}

/// Names as they are written: redacted if that is wanted.
struct Names<'a> {
    redactor: Option<&'a mut Redactor>,
}

impl Names<'_> {
    fn kernel<'n>(&mut self, name: &'n str) -> Cow<'n, str> {
        self.redactor.as_mut().map_or(Cow::Borrowed(name), |redactor| redactor.redact_kernel(name).into())
    }

    fn name<'n>(&mut self, name: &'n str) -> Cow<'n, str> {
        self.redactor.as_mut().map_or(Cow::Borrowed(name), |redactor| redactor.redact_name(name).into())
    }

    fn label<'n>(&mut self, label: &'n str) -> Cow<'n, str> {
        self.redactor.as_mut().map_or(Cow::Borrowed(label), |redactor| redactor.redact_label(label).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::replay::sections::ReplayTrust;
    use crate::analysis::testing::import;
    use crate::input::Importer;
    use crate::report::Report;
    use crate::report::redact::Redactions;
    use crate::session::run;
    use crate::trace::testing::TestTrace;

    fn asked(what_if: &[&str]) -> Choices {
        Choices { what_if: what_if.iter().map(|id| (*id).to_owned()).collect(), ..Choices::default() }
    }

    fn text(trace: &Trace, what_if: &[&str], redactor: Option<&mut Redactor>) -> String {
        let mut text = Vec::new();
        simulate(trace, &asked(what_if)).unwrap().write(redactor, &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    fn again(trace: &Trace, what_if: &[&str]) -> Trace {
        let again = import(Importer::new("t"), text(trace, what_if, None).as_bytes());
        assert_eq!(again.problems.iter().count(), 0);
        again
    }

    /// Two streams of two devices, a copy, a blocking call and a range, in times that end in every digit.
    fn mixed() -> Trace {
        let mut trace = TestTrace::new();
        trace.process(77).thread(78).named_device(1, "NVIDIA \"H200\"");
        let mut now = 1_700_000_000_000_000_123;
        for index in 0..12_i64 {
            trace.range("step[DECODE bs=4]", now - 1_003..now + 70_001);
            trace.stream(7).launch(now..now + 4_001).launches("gemm \"<\\>\u{1}", now + 9_007..now + 30_019);
            trace.call("cudaMemcpyAsync", now + 5_003..now + 8_017);
            trace
                .stream(20 + index % 2)
                .launches("Memcpy DtoH (Device -> Pinned)", now + 31_013..now + 40_109)
                .bytes(64);
            trace.call("cudaStreamSynchronize", now + 9_001..now + 41_987);
            now += 90_011 + index;
        }
        trace.finish()
    }

    /// Name, device, stream, start from the first op, duration, and how long after the start of its call it starts.
    type Op = (String, String, i64, i64, i64, Option<i64>);

    fn ops(trace: &Trace) -> Vec<Op> {
        let first = trace.gpu_ops.get(0).unwrap().start;
        let ops = trace.gpu_ops.iter().zip(trace.gpu_ops.launches());
        let described = ops.map(|(op, launch)| {
            let call = launch.and_then(|call| trace.calls.get(call.0 as usize));
            let device = trace.devices[op.device.0 as usize].id.clone();
            let (start, delay) = (op.start.since(first).0, call.map(|call| op.start.since(call.start).0));
            (trace.names.get(op.name).to_owned(), device, op.stream, start, op.duration.0, delay)
        });
        described.collect()
    }

    /// Name, start from the first op, and duration.
    fn spans(trace: &Trace, spans: &Spans) -> Vec<(String, i64, i64)> {
        let first = trace.gpu_ops.get(0).unwrap().start;
        let described = spans
            .iter()
            .map(|span| (spans.names.get(span.name).to_owned(), span.start.since(first).0, span.duration.0));
        described.collect()
    }

    #[test]
    fn without_changes_the_file_reads_back_with_the_ops_calls_and_ranges_of_the_trace() {
        let trace = mixed();
        let again = again(&trace, &[]);
        assert_eq!(ops(&again), ops(&trace));
        assert_eq!(spans(&again, &again.calls), spans(&trace, &trace.calls));
        assert_eq!(spans(&again, &again.ranges), spans(&trace, &trace.ranges));
        assert_eq!(again.bytes.iter().map(|(_, bytes)| *bytes).sum::<u64>(), 12 * 64);
    }

    /// Kernels of 99 us one after the other, launched long before.
    fn busy() -> Trace {
        let mut trace = TestTrace::new();
        trace.in_us();
        for index in 0..50 {
            let (call, kernel) = (index * 10, 20 + index * 100);
            trace.launch(call..call + 5).launches("gemm", kernel..kernel + 99);
        }
        trace.finish()
    }

    #[test]
    fn with_a_change_the_file_is_shorter_by_what_the_table_says_at_most() {
        let trace = busy();
        let run = run(&trace, &asked(&["speed:gemm=2"])).unwrap();
        let row = WhatIf::rows(&run.sections).into_iter().find(|row| row.id.cause == Cause::Together).unwrap();
        let window = ReplayTrust::rows(&run.sections)[0].window_ms.0;
        let again = again(&trace, &["speed:gemm=2"]);
        let end = again.gpu_ops.get(49).unwrap().end().since(again.calls.get(0).unwrap().start);
        assert!((end.0 as f64 / 1e6 - (window - row.saving_high_ms.0)).abs() < 1e-9, "{end:?} {window} {row:?}");
        // The delay of 1 us between two kernels stays.
        let lasts: Vec<i64> = again.gpu_ops.iter().map(|op| op.duration.0).collect();
        assert_eq!((lasts, end.0), (vec![49_500; 50], 20_000 + 50 * 49_500 + 49 * 1_000));
    }

    #[test]
    fn a_faster_host_moves_its_ranges_with_its_calls() {
        let mut trace = TestTrace::new();
        trace.in_us();
        for start in (0..10_000).step_by(1_000) {
            trace.range("step[DECODE bs=4]", start..start + 500);
            trace.launch(start + 100..start + 110).launches("gemm", start + 120..start + 220);
        }
        let again = again(&trace.finish(), &["between_calls"]);
        let ranges: Vec<(i64, i64)> = again.ranges.iter().map(|range| (range.start.0, range.end().0)).collect();
        for (range, call) in ranges.iter().zip(again.calls.iter()) {
            assert!(range.0 <= call.start.0 && range.1 >= call.end().0, "{range:?} {call:?}");
        }
        assert!(ranges.is_sorted() && ranges[8].1 < 1_000_000, "{ranges:?}");
    }

    #[test]
    fn a_redacted_file_has_no_private_names_of_ops_ranges_and_processes() {
        let mut trace = TestTrace::new();
        trace.in_us().named_process(4711, "/home/joe/zorblax.py").thread(4712).named_device(0, "NVIDIA H200");
        for start in (0..1_000).step_by(100) {
            trace.range("zorblax_phase", start..start + 20);
            trace.launch(start + 1..start + 5).launches("zorblax_gemm", start + 10..start + 90);
        }
        let trace = trace.finish();
        let report = Report::new(vec![run(&trace, &Choices::default()).unwrap()]);
        let (_, mut redactor) = Redactor::redact(&report, &Redactions::all());
        let redacted = text(&trace, &[], Some(&mut redactor));
        for private in ["zorblax", "joe", "4711", "4712"] {
            assert!(text(&trace, &[], None).contains(private), "{private}");
            assert!(!redacted.contains(private), "{private}: {redacted}");
        }
        assert!(redacted.contains("cudaLaunchKernel") && redacted.contains("H200") && redacted.contains("kernel 1"));
    }

    #[test]
    fn a_trace_without_launches_is_refused_with_a_remedy() {
        let trace = TestTrace::nsys().in_us().kernel("k", 0..10).kernel("k", 20..30).finish();
        let error = simulate(&trace, &asked(&[])).err().unwrap().to_string();
        assert!(error.contains("launch call") && error.contains("gpuprism doctor"), "{error}");
    }

    #[test]
    fn a_graph_that_was_traced_as_a_whole_has_a_track_of_its_own() {
        let mut trace = TestTrace::nsys();
        trace.in_us();
        for start in (0..1_000).step_by(100) {
            trace.call("cudaGraphLaunch", start..start + 5).launches_replay(start + 10..start + 60);
            trace.launch(start + 6..start + 9).launches("gemm", start + 60..start + 90);
        }
        let text = text(&trace.finish(), &[], None);
        assert!(text.contains(r#""cat": "graph", "name": "graph", "ts": 10.000, "dur": 50.000"#), "{text}");
        assert!(text.contains(r#""name": "graphs""#), "{text}");
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    }
}
