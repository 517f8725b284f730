//! The GPU time window of the work that each host range launched. One pass over the ops, with a binary search
//! per op.

use crate::trace::{Ns, Span, Trace, Window};
use std::ops::Range;

/// Returns for each range the time from the first start to the last end of the GPU ops that its thread
/// launched inside it; `None` if it launched no ops.
///
/// All ranges that are open at a call are checked, so few of them should overlap. Memory does not grow with
/// the number of calls, which may be millions.
pub fn launched_windows(trace: &Trace, ranges: &[Span]) -> Vec<Option<Window>> {
    let segments = segments(trace, ranges);
    let mut windows = vec![None; ranges.len()];
    for (op, launch) in trace.gpu_ops.iter().zip(trace.gpu_ops.launches()) {
        let Some(row) = launch.map(|call| call.0 as usize) else { continue };
        let next = segments.partition_point(|segment| segment.first_call <= row);
        let Some(segment) = next.checked_sub(1).and_then(|last| segments.get(last)) else { continue };
        if segment.open_ranges.is_empty() {
            continue;
        }
        let Some(call) = trace.calls.get(row) else { continue };
        for &range in &segment.open_ranges {
            if let (Some(range), Some(window)) = (ranges.get(range), windows.get_mut(range))
                && (range.thread, true) == (call.thread, range.end() >= call.end())
            {
                *window = Some(extended(*window, Window { start: op.start, end: op.end() }));
            }
        }
    }
    windows
}

/// Consecutive calls that start in the same ranges.
struct Segment {
    /// The row of the first call. The segment ends where the next one starts.
    first_call: usize,
    /// Indices of the open ranges, of all threads.
    open_ranges: Vec<usize>,
}

fn segments(trace: &Trace, ranges: &[Span]) -> Vec<Segment> {
    let count_starting_before = |time: Ns| trace.calls.count_starting_before(time);
    let calls: Vec<Range<usize>> = ranges
        .iter()
        .map(|range| count_starting_before(range.start)..count_starting_before(range.end() + Ns(1)))
        .collect();
    let mut boundaries: Vec<usize> = calls.iter().flat_map(|calls| [calls.start, calls.end]).collect();
    boundaries.sort_unstable();
    boundaries.dedup();
    let open_ranges =
        |call: usize| (0..).zip(&calls).filter(|(_, calls)| calls.contains(&call)).map(|(range, _)| range).collect();
    boundaries.into_iter().map(|call| Segment { first_call: call, open_ranges: open_ranges(call) }).collect()
}

/// Returns the smallest window that contains both.
fn extended(window: Option<Window>, other: Window) -> Window {
    let (start, end): (Ns, Ns) = window.map_or((other.start, other.end), |window| (window.start, window.end));
    Window { start: start.min(other.start), end: end.max(other.end) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::TestTrace;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_range_owns_the_work_of_the_calls_of_its_thread_inside_it(
            calls in prop::collection::vec((1_i64..60, 0_i64..8, 0_i64..2), 0..20),
            ranges in prop::collection::vec((1_i64..60, 0_i64..30, 0_i64..2), 0..8),
        ) {
            let mut trace = TestTrace::new();
            for (index, &(start, duration, thread)) in (0..).zip(&calls) {
                let op_start = 100 + 7 * index % 50;
                trace.thread(thread).launch(start..start + duration).launches("k", op_start..op_start + 3);
            }
            for &(start, duration, thread) in &ranges {
                trace.thread(thread).range("range", start..start + duration);
            }
            let trace = trace.finish();
            let ranges: Vec<Span> = trace.ranges.iter().collect();
            let found = launched_windows(&trace, &ranges);
            prop_assert_eq!(found.len(), ranges.len());
            for (range, found) in ranges.iter().zip(found) {
                let works = trace.gpu_ops.iter().zip(trace.gpu_ops.launches()).filter(|(_, launch)| {
                    let call = launch.and_then(|call| trace.calls.get(call.0 as usize)).unwrap();
                    call.thread == range.thread && call.start >= range.start && call.end() <= range.end()
                });
                let times: Vec<(Ns, Ns)> = works.map(|(op, _)| (op.start, op.end())).collect();
                let first = times.iter().map(|(start, _)| *start).min();
                let last = times.iter().map(|(_, end)| *end).max();
                prop_assert_eq!(found.map(|window| (window.start, window.end)), first.zip(last));
            }
        }
    }
}
