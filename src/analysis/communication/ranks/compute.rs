//! Compares the compute time of ranks over the same work. Traces of one job begin and end at different moments, so a rank may
//! have kernels of a step that the other traces do not contain. O(n log n) in the number of GPU ops.

use super::jobs::JobGroup;
use super::log::RankLog;
use super::rules::Rules;
use super::{ComputeBasis, Rank, RankInput, WindowSelection};
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::communication::skew_pct;
use crate::analysis::measure::union::added_to_union;
use crate::analysis::structure::stages::{has_marked_steps, steps_by_op};
use crate::analysis::time::work::Class;
use crate::trace::{NONE, Names, Ns};
use std::collections::BTreeMap;

/// Numbers per row in [`RankLog::steps`]: rank, name, number of steps of this name, and the compute time of the kernels that
/// were launched in them.
pub const STEP_COLUMNS: usize = 4;

/// A log keeps this many rows of steps.
const MAX_STEP_ROWS: usize = 10_000;

/// Adds the compute time of the marked steps to the log.
pub(super) fn add_steps(context: &ClassifiedTrace, rank_of_device: &[Option<usize>], log: &mut RankLog) {
    let trace = context.trace;
    if !has_marked_steps(trace) {
        return;
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
    let mut names = Names::default();
    for ((rank, name), (count, time)) in sums.into_iter().take(MAX_STEP_ROWS) {
        log.steps.extend([rank as i64, i64::from(names.intern(name).0), count, time]);
    }
    log.step_names = names.iter().map(str::to_owned).collect();
}

/// Sets the compute time of each rank that is comparable with those of the others. Returns what is compared.
pub(super) fn compare(
    ranks: &mut [Rank],
    group: &JobGroup,
    windows: WindowSelection,
    inputs: &[RankInput],
    rules: &Rules,
) -> ComputeBasis {
    let common = if windows == WindowSelection::All { None } else { CommonSteps::of(group, inputs) };
    let (basis, times) = match common {
        Some(CommonSteps { count, compute_ns }) => (ComputeBasis::Steps(count), compute_ns),
        None if windows == WindowSelection::All || cover_equal_times(ranks, group, rules) => {
            (ComputeBasis::All, ranks.iter().map(|rank| rank.compute_ns).collect())
        }
        None => return ComputeBasis::None,
    };
    for (index, (rank, time)) in ranks.iter_mut().zip(&times).enumerate() {
        (rank.compared_ns, rank.skew_pct) = (*time, Some(skew_pct(&times, index)));
    }
    basis
}

/// True if no rank can have much work of moments that the others do not cover.
fn cover_equal_times(ranks: &[Rank], group: &JobGroup, rules: &Rules) -> bool {
    let one_file = group.members.iter().zip(group.members.iter().skip(1)).all(|(a, b)| a.log == b.log);
    let walls = || ranks.iter().map(|rank| rank.wall_ns);
    let (shortest, longest) = (walls().min().unwrap_or(0), walls().max().unwrap_or(0));
    one_file || (longest - shortest) as f64 <= rules.max_extent_difference * longest as f64
}

/// Steps of names of which all ranks have equally many.
struct CommonSteps {
    count: u64,
    /// By rank.
    compute_ns: Vec<i64>,
}

impl CommonSteps {
    /// `None` if there are none.
    fn of(group: &JobGroup, inputs: &[RankInput]) -> Option<Self> {
        // By name: the number of steps and the compute time of each rank that has such steps.
        let mut by_name: BTreeMap<&str, Vec<(i64, i64)>> = BTreeMap::new();
        for member in &group.members {
            let RankLog { steps, step_names, .. } = inputs.get(member.log)?.log;
            for row in steps.chunks_exact(STEP_COLUMNS) {
                let &[rank, name, count, time] = row else { continue };
                let name = usize::try_from(name).ok().and_then(|name| step_names.get(name));
                if let (Some(name), Ok(rank)) = (name, usize::try_from(rank))
                    && rank == member.device
                {
                    by_name.entry(name).or_default().push((count, time.max(0)));
                }
            }
        }
        let ranks = group.members.len();
        let has_all = |rows: &[(i64, i64)]| {
            rows.len() == ranks && rows.iter().all(|(count, _)| rows.first().is_some_and(|first| first.0 == *count))
        };
        by_name.retain(|_, rows| has_all(rows));
        let mut found = Self { count: 0, compute_ns: vec![0; ranks] };
        for rows in by_name.values() {
            let count = rows.first().and_then(|(count, _)| u64::try_from(*count).ok()).unwrap_or(0);
            found.count = found.count.saturating_add(count);
            found.compute_ns.iter_mut().zip(rows).for_each(|(sum, (_, time))| *sum = sum.saturating_add(*time));
        }
        (found.count > 0).then_some(found)
    }
}
