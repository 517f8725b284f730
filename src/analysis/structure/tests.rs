//! Property tests: ranges around launches and self times, compared with a linear search through all ranges.

use super::call_ranges::CallRanges;
use super::kernel_time::KernelTimeByRange;
use super::phase_names::PhaseNames;
use super::range_times::self_times;
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::measure::tally::key;
use crate::trace::testing::TestTrace;
use crate::trace::{NameId, Ns, Span, ThreadId, Trace, Window};
use proptest::prelude::*;

/// Returns the innermost matching range of a thread: the latest start, then the shortest, then the last in
/// the file.
fn innermost(ranges: &[Span], thread: ThreadId, contains: impl Fn(&Span) -> bool) -> Option<NameId> {
    let candidates = ranges.iter().enumerate().filter(|(_, range)| range.thread == thread && contains(range));
    candidates.max_by_key(|(index, range)| (range.start, -range.duration.0, *index)).map(|(_, range)| range.name)
}

/// Thread, start, length and name of ranges or calls, which may nest, overlap, be equal or be disjoint.
fn spans(max_count: usize) -> impl Strategy<Value = Vec<(i64, i64, i64, usize)>> {
    // Zero without a length is no time.
    proptest::collection::vec((0_i64..2, 1_i64..24, 0_i64..16, 0_usize..5), 0..max_count)
}

fn kernel_time(trace: &Trace, ranges: &CallRanges, phases: usize) -> KernelTimeByRange {
    let classified = ClassifiedTrace::new(trace);
    let mut sums = KernelTimeByRange::new(&classified, phases);
    for (row, op) in trace.gpu_ops.iter().enumerate() {
        sums.add(&classified, &ranges.view(), row, &op);
    }
    sums
}

fn trace(ranges: &[(i64, i64, i64, usize)], calls: &[(i64, i64, i64, usize)]) -> Trace {
    // Kernel lengths are distinct powers of two, so a sum identifies the kernels that were added.
    let kernels: Vec<(i64, i64)> = (0..calls.len()).map(|id| (100, 1 << id)).collect();
    trace_of(ranges, calls, &kernels)
}

/// `kernels` have start and length, one for each call.
fn trace_of(ranges: &[(i64, i64, i64, usize)], calls: &[(i64, i64, i64, usize)], kernels: &[(i64, i64)]) -> Trace {
    const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
    let mut trace = TestTrace::nsys();
    for name in NAMES {
        trace.builder.trace.ranges.names.intern(name);
    }
    for &(thread, start, length, name) in ranges {
        trace.thread(thread).range(NAMES[name], start..start + length);
    }
    for (&(thread, start, length, _), &(kernel_start, duration)) in calls.iter().zip(kernels) {
        trace.thread(thread).launch(start..start + length).launches("k", kernel_start..kernel_start + duration);
    }
    trace.kernel("k", 90..91).finish()
}

proptest! {
    #[test]
    fn kernels_belong_to_the_innermost_range_that_contains_their_launch(
        ranges in spans(16), calls in spans(12), selected in proptest::collection::vec(any::<bool>(), 5),
    ) {
        let trace = trace(&ranges, &calls);
        let phase = |name: NameId| selected[name.0 as usize].then_some(name.0 as usize);
        let found = kernel_time(&trace, &CallRanges::of(&trace, &PhaseNames::by(&trace, &phase)), 5);
        let ranges: Vec<Span> = trace.ranges.iter().collect();
        let of_selected: Vec<Span> = ranges.iter().filter(|range| selected[range.name.0 as usize]).copied().collect();
        let (mut expected, mut nearest, mut outside) = ([0_i64; 5], [0_i64; 5], 0_i64);
        for (op, call) in trace.gpu_ops.iter().zip(trace.gpu_ops.launches()) {
            let Some(call) = call.and_then(|call| trace.calls.get(call.0 as usize)) else { continue };
            let contains = |range: &Span| range.start <= call.start && range.end() >= call.end();
            match innermost(&ranges, call.thread, contains) {
                Some(name) => expected[name.0 as usize] += op.duration.0,
                None => outside += op.duration.0,
            }
            if let Some(name) = innermost(&of_selected, call.thread, contains) {
                nearest[name.0 as usize] += op.duration.0;
            }
        }
        prop_assert_eq!(found.by_phase.iter().map(|phase| phase.time.0).collect::<Vec<_>>(), nearest);
        let by_range = found.by_name();
        for name in 0..5_u32 {
            let time = by_range.get(key(0, name)).map_or(0, |tally| tally.total.0);
            prop_assert_eq!(time, expected[name as usize], "{}", name);
        }
        prop_assert_eq!((found.outside.total.0, found.without_call.count), (outside, 1));
        prop_assert_eq!(found.all().count, trace.gpu_ops.len() as u64);
        prop_assert_eq!(found.all().total, trace.gpu_ops.iter().fold(Ns::ZERO, |sum, op| sum + op.duration));
    }

    #[test]
    fn a_window_has_the_same_ranges_around_its_launches_as_the_whole_trace(
        ranges in spans(16), calls in spans(12), starts in proptest::collection::vec(0_i64..40, 12),
        selected in proptest::collection::vec(any::<bool>(), 5), from in 0_i64..40, length in 1_i64..30,
    ) {
        let kernels: Vec<(i64, i64)> = starts.iter().map(|start| (*start, 3)).take(calls.len()).collect();
        let whole = trace_of(&ranges, &calls, &kernels);
        let part = whole.within(Window { start: Ns(from), end: Ns(from + length) });
        let phase = |trace: &Trace, name: NameId| {
            let name = trace.ranges.names.get(name).as_bytes()[0] - b'a';
            selected[usize::from(name)].then_some(usize::from(name))
        };
        let of_whole = CallRanges::of(&whole, &PhaseNames::by(&whole, &|name| phase(&whole, name)));
        let reused = of_whole.view_of_window(part.kept.as_ref().unwrap());
        let computed = CallRanges::of(&part, &PhaseNames::by(&part, &|name| phase(&part, name)));
        let [reused, computed] = [reused, computed.view()].map(|ranges| {
            let launches = part.gpu_ops.launches().flatten();
            launches.map(|call| ranges.range_and_phase(call.0)).collect::<Vec<_>>()
        });
        prop_assert_eq!(reused, computed);
    }

    #[test]
    fn self_time_belongs_to_the_innermost_selected_range(
        ranges in spans(16), selected in proptest::collection::vec(any::<bool>(), 5),
    ) {
        let trace = trace(&ranges, &[]);
        let times = self_times(&trace, &|name| selected[name.0 as usize]);
        let ranges: Vec<Span> = trace.ranges.iter().filter(|range| selected[range.name.0 as usize]).collect();
        let mut expected = [0_i64; 5];
        for (thread, now) in (0..2).flat_map(|thread| (0..60).map(move |now| (ThreadId(thread), Ns(now)))) {
            let contains = |range: &Span| range.start <= now && now < range.end();
            if let Some(name) = innermost(&ranges, thread, contains) {
                expected[name.0 as usize] += 1;
            }
        }
        prop_assert_eq!(times.iter().map(|time| time.0).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_correlation_id_joins_only_within_its_process() {
    let mut trace = TestTrace::nsys();
    trace.process(1).range("a", 0..10).call_with_id("cudaLaunchKernel", 1..2, 5).launches("k", 30..34);
    trace.process(2).range("b", 0..10).call_with_id("cudaLaunchKernel", 1..2, 5).launches("k", 20..23);
    let trace = trace.finish();
    let found = kernel_time(&trace, &CallRanges::of(&trace, &PhaseNames::by(&trace, &|_| None)), 0);
    let times = found.by_range.iter().map(|tally| (trace.ranges.names.get(NameId(tally.member())), tally.total.0));
    assert_eq!(times.collect::<Vec<_>>(), [("b", 3), ("a", 4)]);
}
