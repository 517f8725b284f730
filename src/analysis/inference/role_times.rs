//! Accounts for every nanosecond of one pass: each op gets the idle time before it and the time from there to its end in
//! which no earlier op still runs. The sum over all ops is the time from the first start to the last end, without time in
//! which the device executes work that the trace does not contain. O(ops).

use crate::analysis::structure::stages::time_between;
use crate::trace::{GpuOp, Ns};

/// The part of a pass that one op accounts for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct OpTime {
    /// Time without any op, before this op.
    pub(super) idle: Ns,
    /// Time of this op that no op with an earlier start covers.
    pub(super) busy: Ns,
}

/// The times of ops that are sorted by start. `unseen` are the intervals of work that the trace does not contain, sorted.
pub(super) fn op_times(ops: &[GpuOp], unseen: &[(Ns, Ns)]) -> Vec<OpTime> {
    let mut covered_until = ops.first().map_or(Ns::ZERO, |op| op.start);
    let time = |op: &GpuOp| {
        let gap = op.start.since(covered_until).max(Ns::ZERO);
        let idle = if gap > Ns::ZERO { gap.since(time_between(unseen, covered_until, op.start)) } else { gap };
        let busy = op.end().since(covered_until.max(op.start)).max(Ns::ZERO);
        covered_until = covered_until.max(op.end());
        OpTime { idle, busy }
    };
    ops.iter().map(time).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::TestTrace;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_times_of_all_ops_add_up_to_the_span(times in prop::collection::vec((0_i64..1_000, 0_i64..80), 1..40)) {
            let mut trace = TestTrace::new();
            times.iter().for_each(|(start, length)| {
                trace.kernel("k", *start..start + length);
            });
            let ops: Vec<GpuOp> = trace.finish().gpu_ops.iter().collect();
            let sum: i64 = op_times(&ops, &[]).iter().map(|time| time.idle.0 + time.busy.0).sum();
            let first = ops.iter().map(|op| op.start.0).min().unwrap();
            prop_assert_eq!(sum, ops.iter().map(|op| op.end().0).max().unwrap() - first);
        }
    }
}
