//! The compute time of the marked steps of each rank, for the log of a trace. O(n log n) in the number of GPU ops.

use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::measure::union::added_to_union;
use crate::analysis::structure::stages::{has_marked_steps, steps_by_op};
use crate::analysis::time::work::Class;
use crate::trace::{NONE, Names, Ns};
use std::collections::BTreeMap;

/// Numbers per row in [`RankLog::steps`](super::RankLog::steps): rank, name, number of steps of this name, and the compute time of the kernels that
/// were launched in them.
pub const STEP_COLUMNS: usize = 4;

/// A log keeps this many rows of steps.
const MAX_STEP_ROWS: usize = 10_000;

/// The names of the marked steps and the rows of their compute times.
pub(super) fn step_times(context: &ClassifiedTrace, rank_of_device: &[Option<usize>]) -> (Vec<String>, Vec<i64>) {
    let trace = context.trace;
    if !has_marked_steps(trace) {
        return Default::default();
    }
    let (steps, step_of_op) = steps_by_op(trace);
    // By rank and step: the end of its compute so far, and the time of its compute.
    let mut times: BTreeMap<(usize, u32), (Option<Ns>, Ns)> = BTreeMap::new();
    for (op, step) in trace.gpu_ops.iter().zip(step_of_op).filter(|(_, step)| *step != NONE) {
        let Some(rank) = rank_of_device.get(op.device.0 as usize).copied().flatten() else { continue };
        let (reach, time) = times.entry((rank, step)).or_default();
        if Class::of(context, &op) == Class::Compute {
            *time += added_to_union(reach, op.start, op.end());
        }
    }
    let mut sums: BTreeMap<(usize, &str), (i64, i64)> = BTreeMap::new();
    for ((rank, step), (_, time)) in times {
        let Some(step) = steps.get(step as usize) else { continue };
        let (count, sum) = sums.entry((rank, trace.ranges.names.get(step.name))).or_default();
        (*count, *sum) = (*count + 1, sum.saturating_add(time.0));
    }
    let (mut names, mut rows) = (Names::default(), Vec::new());
    for ((rank, name), (count, time)) in sums.into_iter().take(MAX_STEP_ROWS) {
        rows.extend([rank as i64, i64::from(names.intern(name).0), count, time]);
    }
    (names.iter().map(str::to_owned).collect(), rows)
}
