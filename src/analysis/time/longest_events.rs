//! The longest kernels, copies, blocking calls and idle gaps in one table. Merges lists of the k longest that
//! earlier passes computed.

use crate::analysis::context::Context;
use crate::analysis::host::idle::gap_before;
use crate::analysis::host::idle_cause::IdleCause;
use crate::analysis::labels;
use crate::analysis::measure::longest::{Event, EventKind};
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Answer, At, AtMs, KernelName, Ms, Stated, TypedSection, Value, first_op, section};
use crate::analysis::time::work::Class;
use crate::rules::names;
use crate::rules::signals::CallKind;
use crate::trace::{Format, Ns};
use crate::words;

section! {
    /// The longest kernels, copies, blocking calls and idle gaps.
    pub(crate) struct LongestEvents("timeline_events", "Longest events");
    row LongestEventRow {
        event_name: KernelName = "Event",
        event_class: String = "Class",
        lane: String,
        pid: Value,
        stream_id: Value = "Stream",
        start_ns: At,
        end_ns: At,
        duration_ns: Ns,
        duration_ms: Ms,
        start_ms: AtMs,
        end_ms: AtMs,
    }
    figures LongestEventFigures {
        first_op_ns: Stated<At>,
        t0_ns: At,
        total_gpu_time_ms: Ms,
        total_cpu_time_ms: Ms,
    }
}

struct TableRow {
    name: String,
    class: &'static str,
    lane: String,
    pid: Value,
    stream: Value,
    start: Ns,
    end: Ns,
}

/// The longest kernels, copies, blocking calls and idle gaps.
pub(crate) fn timeline_events(context: &Context) -> Answer<LongestEvents> {
    let trace = context.trace;
    let (survey, host) = (context.survey(), context.host());
    let mut longest = survey.longest_ops.clone();
    longest.merge(&survey.longest_gaps, &|row| row);
    longest.merge(&host.longest, &|row| row);
    if longest.offered == 0 {
        return context.lacks("The trace contains neither GPU ops nor blocking calls.", MissingData::Kernels);
    }
    let event_count = longest.offered;
    let rows: Vec<TableRow> = longest.ranked().filter_map(|event| table_row(context, &event)).collect();
    let origin = rows.iter().map(|row| row.start).min().unwrap_or(Ns::ZERO);
    let mut answer = LongestEvents::answer("kernels, copies, blocking calls and idle gaps of each GPU")
        .limit("The time of API calls is summed over all threads. It is not wall time.")
        .with_figures(LongestEventFigures {
            first_op_ns: first_op(trace),
            t0_ns: At(origin),
            total_gpu_time_ms: context.kernels().total().into(),
            total_cpu_time_ms: host.total.into(),
        })
        .with_rows(rows.into_iter().map(|row| row.row(origin)));
    if trace.format == Format::TorchProfiler {
        answer = answer.limit(
            "Only calls that launch, copy, set, wait or allocate memory are read; queries, for example, are not.",
        );
    }
    answer.rows_in_all = event_count;
    answer
}

impl TableRow {
    fn row(self, origin: Ns) -> LongestEventRow {
        let duration = self.end.since(self.start);
        let ms = |time: Ns| AtMs(time.since(origin).0 as f64 / 1e6);
        LongestEventRow {
            event_name: self.name.into(),
            event_class: self.class.to_owned(),
            lane: self.lane,
            pid: self.pid,
            stream_id: self.stream,
            start_ns: At(self.start),
            end_ns: At(self.end),
            duration_ns: duration,
            duration_ms: duration.into(),
            start_ms: ms(self.start),
            end_ms: ms(self.end),
        }
    }
}

fn table_row(context: &Context, event: &Event) -> Option<TableRow> {
    match event.kind() {
        EventKind::Op => op_row(context, event.row()),
        EventKind::Call => call_row(context, event.row()),
        EventKind::Gap => gap_row(context, event),
    }
}

fn op_row(context: &Context, row: usize) -> Option<TableRow> {
    let (trace, op) = (context.trace, context.trace.gpu_ops.get(row)?);
    let name = names::demangle(trace.names.get(op.name)).into_owned();
    let (class, head) = match Class::of(context, &op) {
        Class::Communication => ("nccl", "GPU"),
        Class::Compute => (if moves_memory(context, &name) { "memory_kernel" } else { "cuda_kernel" }, "GPU"),
        Class::Copy | Class::Set | Class::Replay => ("memcpy", "Copy"),
    };
    let (pid, stream, lane) = (labels::pid(trace, op.process), labels::stream(&op), labels::lane(trace, head, &op));
    Some(TableRow { name, class, lane, pid, stream, start: op.start, end: op.end() })
}

/// Checks the kernel's name without template arguments, because words such as `Load` occur in the arguments
/// of many kernels.
fn moves_memory(context: &Context, demangled: &str) -> bool {
    let short = names::short(demangled).to_ascii_lowercase();
    let base = short.split('<').next().unwrap_or_default();
    context.signals.memory_kernels.iter().any(|word| base.contains(word.as_str()))
}

fn call_row(context: &Context, row: usize) -> Option<TableRow> {
    let (trace, call) = (context.trace, context.trace.in_window(context.trace.calls.get(row)?)?);
    let thread = trace.threads.get(call.thread.0 as usize)?;
    let process = trace.processes.get(thread.process.0 as usize)?;
    let class = match context.call_kind(call.name) {
        CallKind::CopyBlocking => "blocking_memcpy",
        _ => "sync_api",
    };
    Some(TableRow {
        name: trace.calls.names.get(call.name).to_owned(),
        class,
        lane: words::labels::thread(process.pid, thread.tid),
        pid: labels::pid(trace, thread.process),
        stream: Value::Null,
        start: call.start,
        end: call.end(),
    })
}

fn gap_row(context: &Context, event: &Event) -> Option<TableRow> {
    let gap = gap_before(context.trace, event.start(), event.row())?;
    let device = context.trace.devices.get(gap.device)?;
    Some(TableRow {
        name: words::labels::idle(IdleCause::of_tag(event.tag()).word()),
        class: "gpu_idle",
        lane: words::labels::gpu(&device.id),
        pid: Value::Null,
        stream: Value::Null,
        start: gap.start,
        end: gap.end,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::*;
    use crate::trace::testing::TestTrace;

    #[test]
    fn the_longest_events_of_all_kinds_are_in_one_table() {
        let mut trace = TestTrace::nsys();
        trace.kernel("gemm", 1_000..1_900).kernel("void vectorized_gather_kernel<16, long>(char*)", 1_900..2_700);
        trace.kernel("void elementwise_kernel<LoadWithCast>(int)", 2_700..3_250);
        trace.stream(9).kernel(KINDS[ALLREDUCE], 1_000..1_700);
        trace.stream(8).kernel("[CUDA memcpy Host-to-Device]", 3_850..4_350);
        trace.call("cudaStreamSynchronize", 500..900).call("cudaMemcpy", 500..800);
        trace.call("cudaStreamWaitEvent", 0..9_000).call("cudaEventQuery", 0..9_000);
        let section = trace.section(timeline_events);
        let expected = [
            "cuda_kernel GPU stream 7 900",
            "memory_kernel GPU stream 7 800",
            "nccl GPU stream 9 700",
            "gpu_idle GPU 0 600",
            "cuda_kernel GPU stream 7 550",
            "memcpy Copy stream 8 500",
            "sync_api CPU pid 1 tid 1 400",
            "blocking_memcpy CPU pid 1 tid 1 300",
        ];
        assert_eq!(rows_of(&section, &["event_class", "lane", "duration_ns"]), expected);
        assert_eq!(number(&section.summary, "t0_ns"), 500.0);
        assert!((number(&section.rows[0], "start_ms") - 0.0005).abs() < 1e-15);
    }

    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn totals_of_the_fixture_match_the_expected_ones() {
        let (trace, expected) = fixture();
        let (section, expected) = (timeline_events(&Context::new(&trace, 30)).section(), &expected["timeline"]);
        close(number(&section.summary, "total_gpu_time_ms"), &expected["total_gpu_time_ms"]);
        close(number(&section.summary, "total_cpu_time_ms"), &expected["total_cpu_time_ms"]);
        // nsys-llm-explainer lists 13: 5 kernels, 3 stalls, 2 windows of collectives, 1 gap, 2 copies. The
        // windows repeat kernels, so they are left out here. Copies count as work here, which splits the gap
        // in two.
        assert_eq!(section.rows.len(), 5 + 3 + 2 + 2);
    }

    #[test]
    fn the_fifty_longest_are_shown_and_the_total_is_stated() {
        let mut trace = TestTrace::nsys();
        for i in 0..200 {
            trace.kernel("k", 1_000 * i..1_000 * i + 600 + (i * 37) % 200);
        }
        let section = trace.section(timeline_events);
        assert_eq!((section.rows.len(), section.rows_in_all), (crate::analysis::time::survey::OPS_KEPT, 200 + 199));
        let durations: Vec<f64> = section.rows.iter().map(|row| number(row, "duration_ns")).collect();
        let expected: Vec<f64> = (150..200).rev().map(|extra| f64::from(600 + extra)).collect();
        assert_eq!(durations, expected);
    }
}
