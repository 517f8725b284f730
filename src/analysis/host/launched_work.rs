//! The GPU work that ranges of the host launched, as times on the GPU.

use crate::trace::{Ns, Span, Trace, Window};
use std::ops::Range;

/// Of each of these ranges the time from the first start to the last end of the GPU ops that its thread launched in it;
/// `None` where it launched none.
///
/// One pass over the ops. The ranges around a call are looked through, so they should be few; nothing is kept for each call,
/// of which there may be millions.
pub fn launched_in(trace: &Trace, ranges: &[Span]) -> Vec<Option<Window>> {
    let stretches = stretches(trace, ranges);
    let mut found = vec![None; ranges.len()];
    for (op, launch) in trace.gpu_ops.iter().zip(trace.gpu_ops.launches()) {
        let Some(at) = launch.map(|call| call.0 as usize) else { continue };
        let behind = stretches.partition_point(|stretch| stretch.from <= at);
        let Some(stretch) = behind.checked_sub(1).and_then(|last| stretches.get(last)) else { continue };
        if stretch.around.is_empty() {
            continue;
        }
        let Some(call) = trace.calls.get(at) else { continue };
        for &range in &stretch.around {
            if let (Some(range), Some(found)) = (ranges.get(range), found.get_mut(range))
                && (range.thread, true) == (call.thread, range.end() >= call.end())
            {
                *found = Some(around(*found, Window { start: op.start, end: op.end() }));
            }
        }
    }
    found
}

/// Calls that begin in the same ranges.
struct Stretch {
    /// The place of the first; the last is the one before the next stretch.
    from: usize,
    /// The places of the ranges.
    around: Vec<usize>,
}

fn stretches(trace: &Trace, ranges: &[Span]) -> Vec<Stretch> {
    let count_starting_before = |time: Ns| trace.calls.count_starting_before(time);
    let calls: Vec<Range<usize>> = ranges
        .iter()
        .map(|range| count_starting_before(range.start)..count_starting_before(range.end() + Ns(1)))
        .collect();
    let mut edges: Vec<usize> = calls.iter().flat_map(|calls| [calls.start, calls.end]).collect();
    edges.sort();
    edges.dedup();
    let around = |from: usize| (0..).zip(&calls).filter(|(_, calls)| calls.contains(&from)).map(|(at, _)| at).collect();
    edges.into_iter().map(|from| Stretch { from, around: around(from) }).collect()
}

fn around(one: Option<Window>, other: Window) -> Window {
    let (start, end): (Ns, Ns) = one.map_or((other.start, other.end), |one| (one.start, one.end));
    Window { start: start.min(other.start), end: end.max(other.end) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{DeviceId, Format, GpuOp, OpKind, TraceBuilder};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_range_has_the_work_of_the_calls_of_its_thread_that_lie_in_it(
            calls in prop::collection::vec((0_i64..60, 0_i64..8, 0_i64..2), 0..20),
            ranges in prop::collection::vec((0_i64..60, 0_i64..30, 0_i64..2), 0..8),
        ) {
            let mut builder = TraceBuilder::new("t", Format::TorchProfiler);
            let (device, process) = (DeviceId(0), builder.process(1, ""));
            builder.device("0", "");
            let threads = [builder.thread(process, 1), builder.thread(process, 2)];
            let (call_name, kernel) = (builder.trace.calls.names.intern("cudaLaunchKernel"), builder.trace.names.intern("k"));
            for (&(start, duration, thread), id) in calls.iter().zip(0_u32..) {
                let thread = threads[thread as usize];
                builder.add_call(Span { start: Ns(start), duration: Ns(duration), name: call_name, thread }, Some(id));
                let start = Ns(100 + 7 * i64::from(id) % 50);
                let op = GpuOp { start, duration: Ns(3), name: kernel, device, stream: 7, process, kind: OpKind::Kernel };
                builder.trace.gpu_ops.push(op, Some(id));
            }
            let trace = builder.finish();
            let ranges: Vec<Span> = ranges
                .iter()
                .map(|&(start, duration, thread)| Span { start: Ns(start), duration: Ns(duration), name: call_name, thread: threads[thread as usize] })
                .collect();
            let found = launched_in(&trace, &ranges);
            for (range, found) in ranges.iter().zip(found) {
                let works = trace.gpu_ops.iter().zip(trace.gpu_ops.launches()).filter(|(_, launch)| {
                    let call = launch.and_then(|call| trace.calls.get(call.0 as usize)).unwrap();
                    call.thread == range.thread && call.start >= range.start && call.end() <= range.end()
                });
                let times: Vec<(Ns, Ns)> = works.map(|(op, _)| (op.start, op.end())).collect();
                let first = times.iter().map(|(start, _)| *start).min();
                let last = times.iter().map(|(_, end)| *end).max();
                prop_assert_eq!(found.map(|it| (it.start, it.end)), first.zip(last));
            }
        }
    }
}
