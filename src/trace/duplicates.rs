//! Events that a file has twice, as merged captures may: they are counted once. Only an event with a correlation id can be told from
//! another one that looks alike. One pass over a table sorted by start, with a set for the rows of equal start.

use super::ops::UNLINKED;
use super::{GpuOps, Ns, Spans};
use foldhash::fast::RandomState;
use std::collections::HashSet;
use std::hash::Hash;

/// The rows of a table that are no repetition of an earlier one; `None` if no row is. `start` and `key` are those of a row; equal keys are
/// one event if they start together. A row without a key is kept.
fn distinct<K: Hash + Eq>(
    rows: usize,
    start: impl Fn(usize) -> Option<Ns>,
    key: impl Fn(usize) -> Option<K>,
) -> Option<Vec<u32>> {
    let mut repeated: Vec<u32> = Vec::new();
    let mut known: HashSet<K, RandomState> = HashSet::default();
    for row in 0..rows {
        let follows = row.checked_sub(1).is_some_and(|before| start(before) == start(row));
        let precedes = start(row + 1) == start(row);
        if !follows {
            known.clear();
        }
        if (follows || precedes)
            && let Some(key) = key(row)
            && !known.insert(key)
        {
            repeated.push(row as u32);
        }
    }
    if repeated.is_empty() {
        return None;
    }
    Some((0..rows as u32).filter(|row| repeated.binary_search(row).is_err()).collect())
}

/// The id of a row, if it has one: profilers write 0 where there is none.
fn correlation(correlations: &[u32], row: usize) -> Option<u32> {
    correlations.get(row).copied().filter(|id| !matches!(*id, 0 | UNLINKED))
}

/// The rows of ops that are no repetition: two ops of a stream cannot run at the same time. The ops are not linked to calls yet.
pub(super) fn distinct_ops(ops: &GpuOps, correlations: &[u32]) -> Option<Vec<u32>> {
    let key = |row: usize| {
        let op = ops.get(row).filter(|op| op.duration > Ns::ZERO)?;
        Some((op.duration, op.name, ops.stream_index(row), correlation(correlations, row)?))
    };
    distinct(ops.len(), |row| ops.get(row).map(|op| op.start), key)
}

/// The rows of calls that are no repetition.
pub(super) fn distinct_calls(calls: &Spans, correlations: &[u32]) -> Option<Vec<u32>> {
    let key = |row: usize| {
        let call = calls.get(row).filter(|call| call.duration > Ns::ZERO)?;
        Some((call.duration, call.name, call.thread, correlation(correlations, row)?))
    };
    distinct(calls.len(), |row| calls.start(row), key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::ProblemKind;
    use crate::trace::testing::TestTrace;

    #[test]
    fn an_event_that_the_file_has_twice_counts_once() {
        let mut trace = TestTrace::new();
        for _ in 0..2 {
            trace.call_with_id("cudaLaunchKernel", 0..5, 1).kernel_with_id("k", 10..20, 1);
        }
        let trace = trace.finish();
        assert_eq!((trace.calls.len(), trace.gpu_ops.len()), (1, 1));
        assert!(trace.gpu_ops.launch(0).is_some());
        assert_eq!(trace.problems.count(ProblemKind::RepeatedEvent), 2);
    }

    #[test]
    fn events_that_differ_in_anything_are_kept() {
        let mut trace = TestTrace::new();
        trace.call_with_id("cudaLaunchKernel", 0..5, 1).kernel_with_id("k", 10..20, 1);
        trace.thread(2).call_with_id("cudaLaunchKernel", 0..5, 2).stream(8).kernel_with_id("k", 10..20, 2);
        trace.kernel_with_id("other", 10..20, 2).kernel_with_id("k", 10..21, 2);
        let trace = trace.finish();
        assert_eq!((trace.calls.len(), trace.gpu_ops.len()), (2, 4));
        assert_eq!(trace.problems.count(ProblemKind::RepeatedEvent), 0);
    }

    #[test]
    fn events_without_a_correlation_id_are_kept() {
        let mut trace = TestTrace::new();
        trace.kernel("k", 10..20).kernel("k", 10..20).call("cudaFree", 0..5).call("cudaFree", 0..5);
        let trace = trace.finish();
        assert_eq!((trace.calls.len(), trace.gpu_ops.len()), (2, 2));
    }

    #[test]
    fn of_three_equal_rows_the_first_stays() {
        let starts = [1, 5, 5, 5, 5, 9];
        let keys = [0, 0, 1, 0, 0, 0];
        let start = |row: usize| starts.get(row).map(|start| Ns(*start));
        assert_eq!(distinct(6, start, |row| keys.get(row)), Some(vec![0, 1, 2, 5]));
    }
}
