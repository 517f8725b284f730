//! The longest single things of a trace, from both sides of the bus.

use crate::analysis::context::Context;
use crate::analysis::host::idle::gap_before;
use crate::analysis::host::idle_cause::IdleCause;
use crate::analysis::labels;
use crate::analysis::measure::longest::{Event as LongEvent, EventKind};
use crate::analysis::recapture;
use crate::analysis::recapture::Lacks;
use crate::analysis::section::{Section, Value};
use crate::analysis::time::work::Class;
use crate::rules::names;
use crate::rules::signals::CallKind;
use crate::trace::{Format, Ns};

const TITLE: &str = "Longest events";
const COLUMNS: [&str; 11] = [
    "event_name",
    "event_class",
    "lane",
    "pid",
    "stream_id",
    "start_ns",
    "end_ns",
    "duration_ns",
    "duration_ms",
    "start_ms",
    "end_ms",
];

/// One of the longest, in the words of the table.
struct Event {
    name: String,
    class: &'static str,
    lane: String,
    pid: Value,
    stream: Value,
    start: Ns,
    end: Ns,
}

/// The longest kernels, copies, blocking calls and idle gaps.
pub(crate) fn timeline_events(context: &Context) -> Section {
    let trace = context.trace;
    let (survey, host) = (context.survey(), context.host());
    let mut longest = survey.longest_ops.clone();
    longest.merge(&survey.longest_gaps, &|row| row);
    longest.merge(&host.longest, &|row| row);
    if longest.offered == 0 {
        let recapture = recapture::command(trace.format, Lacks::Kernels);
        return Section::missing(TITLE, &COLUMNS, "The trace holds neither GPU ops nor blocking calls.", &recapture);
    }
    let seen = longest.offered;
    let mut events: Vec<Event> = longest.ranked().filter_map(|long| event(context, &long)).collect();
    let origin = events.iter().map(|event| event.start).min().unwrap_or(Ns::ZERO);
    let mut section = Section::new(TITLE, "kernels, copies, blocking calls and idle gaps of each GPU", &COLUMNS)
        .from_first_op(trace)
        .limit("The time of API calls is a sum over all threads: it is no wall time.");
    if trace.format == Format::TorchProfiler {
        section = section.limit(
            "Calls that launch, copy, set, wait or hand out memory are read; others, such as queries, are in no sum.",
        );
    }
    section.figure("t0_ns", origin);
    section.figure("total_gpu_time_ms", Value::ms(context.kernels().total()));
    section.figure("total_cpu_time_ms", Value::ms(host.total));
    for event in events.drain(..) {
        let duration = event.end.since(event.start);
        section.row([
            event.name.into(),
            event.class.into(),
            event.lane.into(),
            event.pid,
            event.stream,
            event.start.into(),
            event.end.into(),
            duration.into(),
            Value::ms(duration),
            Value::ms(event.start.since(origin)),
            Value::ms(event.end.since(origin)),
        ]);
    }
    section.rows_in_all = seen;
    section
}

fn event(context: &Context, long: &LongEvent) -> Option<Event> {
    match long.kind() {
        EventKind::Op => op(context, long.row()),
        EventKind::Call => call(context, long.row()),
        EventKind::Gap => gap(context, long),
    }
}

fn op(context: &Context, at: usize) -> Option<Event> {
    let (trace, op) = (context.trace, context.trace.gpu_ops.get(at)?);
    let name = names::demangle(trace.names.get(op.name)).into_owned();
    let (class, head) = match Class::of(context, &op) {
        Class::Communication => ("nccl", "GPU"),
        Class::Compute => (if moves_memory(context, &name) { "memory_kernel" } else { "cuda_kernel" }, "GPU"),
        Class::Copy | Class::Set | Class::Replay => ("memcpy", "Copy"),
    };
    let (pid, stream, lane) = (labels::pid(trace, op.process), labels::stream(&op), labels::lane(trace, head, &op));
    Some(Event { name, class, lane, pid, stream, start: op.start, end: op.end() })
}

/// By the kernel's own name: template arguments speak of loads in every other kernel.
fn moves_memory(context: &Context, demangled: &str) -> bool {
    let short = names::short(demangled).to_ascii_lowercase();
    let own = short.split('<').next().unwrap_or_default();
    context.signals.memory_kernels.iter().any(|word| own.contains(word.as_str()))
}

fn call(context: &Context, at: usize) -> Option<Event> {
    let (trace, call) = (context.trace, context.trace.in_window(context.trace.calls.get(at)?)?);
    let thread = trace.threads.get(call.thread.0 as usize)?;
    let process = trace.processes.get(thread.process.0 as usize)?;
    let class = match context.call_kind(call.name) {
        CallKind::CopyBlocking => "blocking_memcpy",
        _ => "sync_api",
    };
    Some(Event {
        name: trace.calls.names.get(call.name).to_owned(),
        class,
        lane: format!("CPU pid {} tid {}", process.pid, thread.tid),
        pid: labels::pid(trace, thread.process),
        stream: Value::Null,
        start: call.start,
        end: call.end(),
    })
}

fn gap(context: &Context, long: &LongEvent) -> Option<Event> {
    let gap = gap_before(context.trace, long.start(), long.row())?;
    let device = context.trace.devices.get(gap.device)?;
    Some(Event {
        name: format!("GPU idle ({})", IdleCause::of(context, &gap).word()),
        class: "gpu_idle",
        lane: format!("GPU {}", device.id),
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

    #[test]
    fn the_longest_of_every_sort_stand_in_one_table() {
        let mut small = Small::new();
        let process = small.process(1);
        small.op_of(process, 0, 7, "gemm", 1_000, 1_900, None);
        small.op_of(process, 0, 7, "void vectorized_gather_kernel<16, long>(char*)", 1_900, 2_700, None);
        small.op_of(process, 0, 7, "void elementwise_kernel<LoadWithCast>(int)", 2_700, 3_250, None);
        small.op_of(process, 0, 9, KINDS[ALLREDUCE], 1_000, 1_700, None);
        small.op_of(process, 0, 8, "[CUDA memcpy Host-to-Device]", 3_850, 4_350, None);
        small.call(process, "cudaStreamSynchronize", 500, 900, None);
        small.call(process, "cudaMemcpy", 500, 800, None);
        small.call(process, "cudaStreamWaitEvent", 0, 9_000, None);
        small.call(process, "cudaEventQuery", 0, 9_000, None);
        let section = small.section(timeline_events);
        let rows: Vec<(&str, &str, f64)> = section
            .rows
            .iter()
            .map(|row| (words(row, "event_class"), words(row, "lane"), number(row, "duration_ns")))
            .collect();
        let want = [
            ("cuda_kernel", "GPU stream 7", 900.0),
            ("memory_kernel", "GPU stream 7", 800.0),
            ("nccl", "GPU stream 9", 700.0),
            ("gpu_idle", "GPU 0", 600.0),
            ("cuda_kernel", "GPU stream 7", 550.0),
            ("memcpy", "Copy stream 8", 500.0),
            ("sync_api", "CPU pid 1 tid 9", 400.0),
            ("blocking_memcpy", "CPU pid 1 tid 9", 300.0),
        ];
        assert_eq!(rows, want);
        assert_eq!(number(&section.summary, "t0_ns"), 500.0);
        assert!((number(&section.rows[0], "start_ms") - 0.0005).abs() < 1e-15);
    }

    #[test]
    fn the_fixture_has_its_totals() {
        let Some((trace, expected)) = fixture() else { return };
        let (section, expected) = (timeline_events(&Context::new(&trace, 30)), &expected["timeline"]);
        close(number(&section.summary, "total_gpu_time_ms"), &expected["total_gpu_time_ms"]);
        close(number(&section.summary, "total_cpu_time_ms"), &expected["total_cpu_time_ms"]);
        // The original's 13: 5 kernels, 3 stalls, 2 windows of collectives, 1 gap, 2 copies. Windows repeat the kernels;
        // the gap is two where copies count as work.
        assert_eq!(section.rows.len(), 5 + 3 + 2 + 2);
    }

    #[test]
    fn fifty_of_many_are_shown_in_order_and_the_rest_is_counted() {
        let mut small = Small::new();
        (0..200).for_each(|at| small.op(0, "k", 1_000 * at, 1_000 * at + 600 + (at * 37) % 200));
        let section = small.section(timeline_events);
        assert_eq!((section.rows.len(), section.rows_in_all), (crate::analysis::time::survey::OPS_KEPT, 200 + 199));
        let durations: Vec<f64> = section.rows.iter().map(|row| number(row, "duration_ns")).collect();
        let want: Vec<f64> = (150..200).rev().map(|long| f64::from(600 + long)).collect();
        assert_eq!(durations, want);
    }
}
