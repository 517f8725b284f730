//! Idle GPU time caused by blocking calls: time in which a thread is blocked and no device works. One merge
//! of the blocked intervals with the busy intervals, both sorted by start. Blocked time while a device works
//! is not counted.

use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::time::busy::Intersection;
use crate::analysis::time::work::each_work;
use crate::trace::Ns;

/// Computes the time in which a thread is blocked and no device works, between the first start and the last
/// end of all work. `blocked` are the intervals in which any thread is blocked, `unseen` those in which a device
/// executes work that the trace does not contain, sorted by start; a device works in them.
pub(crate) fn idle_while_blocked(classified: &ClassifiedTrace, blocked: &[(Ns, Ns)], unseen: &[(Ns, Ns)]) -> Ns {
    if blocked.is_empty() {
        return Ns::ZERO;
    }
    let mut busy_and_blocked = Intersection::with(blocked);
    let mut extent: Option<(Ns, Ns)> = None;
    let mut add_busy = |start: Ns, end: Ns| {
        let (first, busy_until) = extent.unwrap_or((start, start));
        busy_and_blocked.add(busy_until.max(start), end);
        extent = Some((first, busy_until.max(end)));
    };
    let mut unseen = unseen.iter().copied().peekable();
    let mut add = |start: Ns, end: Ns| {
        while let Some((start, end)) = unseen.next_if(|interval| interval.0 <= start) {
            add_busy(start, end);
        }
        add_busy(start, end);
    };
    if classified.trace.graph_replays.is_empty() {
        // Reads fewer columns than `each_work`.
        classified.trace.gpu_ops.times().for_each(|(start, duration)| add(start, start.after(duration)));
    } else {
        each_work(classified, &mut |work| add(work.start, work.end));
    }
    let Some((first, last)) = extent else { return Ns::ZERO };
    let clipped = |(start, end): &(Ns, Ns)| (*end).min(last).since((*start).max(first)).max(Ns::ZERO);
    blocked.iter().map(clipped).fold(Ns::ZERO, |sum, time| sum + time).since(busy_and_blocked.length)
}

#[cfg(test)]
mod tests {
    use crate::analysis::context::Context;
    use crate::trace::testing::TestTrace;
    use crate::trace::{Ns, Trace};
    use proptest::prelude::*;

    fn trace(ops: &[(i64, i64)], calls: &[(i64, i64)]) -> Trace {
        let mut trace = TestTrace::nsys();
        for &(start, duration) in ops {
            trace.device(start.rem_euclid(2)).kernel("k", start..start + duration);
        }
        for &(start, duration) in calls {
            trace.call("cudaStreamSynchronize", start..start + duration);
        }
        trace.finish()
    }

    proptest! {
        #[test]
        fn idle_while_blocked_equals_a_count_of_every_nanosecond(
            ops in prop::collection::vec((0_i64..60, 0_i64..20), 1..8),
            calls in prop::collection::vec((-5_i64..70, 0_i64..25), 0..8),
        ) {
            let trace = trace(&ops, &calls);
            let within = |spans: &[(i64, i64)], now: i64| spans.iter().any(|span| span.0 <= now && now < span.0 + span.1);
            let first = ops.iter().map(|op| op.0).min().unwrap();
            let last = ops.iter().map(|op| op.0 + op.1).max().unwrap();
            let expected = (first..last).filter(|&now| within(&calls, now) && !within(&ops, now)).count();
            prop_assert_eq!(Context::new(&trace, 1).survey().idle_while_blocked, Ns(expected as i64));
        }
    }
}
