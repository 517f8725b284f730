//! The time of the matrix products of experts on each rank. With expert parallelism each rank has other experts, so the rank
//! with the most work sets the time of all: the largest time over the mean is the imbalance. Linear in the kernels of the logs.

use super::jobs::JobGroup;
use super::log::KERNEL_COLUMNS;
use super::{ExpertTime, Rank, RankInput};
use crate::analysis::communication::percent;
use crate::analysis::inference::kernel_roles::{self, NameRole};
use std::collections::BTreeMap;

/// Sets the time of the experts on each rank, if all ranks launch their products equally often. A log lists the kernels with
/// the most time only, so other counts may be cut off.
pub(super) fn set_expert_times(ranks: &mut [Rank], group: &JobGroup, inputs: &[RankInput]) {
    let mut sums = vec![(0_i64, 0_i64); group.members.len()];
    for (log, rank_of) in &group.ranks_by_log() {
        let Some(input) = inputs.get(*log) else { return };
        add_experts(input, rank_of, &mut sums);
    }
    let launches = sums.first().map_or(0, |(launches, _)| *launches);
    if launches <= 0 || sums.len() != ranks.len() || sums.iter().any(|(other, _)| *other != launches) {
        return;
    }
    let total = sums.iter().fold(0.0, |total, (_, time_ns)| total + *time_ns as f64);
    let mean = total / sums.len() as f64;
    for (rank, (_, time_ns)) in ranks.iter_mut().zip(sums) {
        rank.experts = Some(ExpertTime { time_ns, of_mean_pct: percent(time_ns as f64, mean) });
    }
}

/// Adds launches and time of the products of experts to those of the ranks of a log.
fn add_experts(RankInput { log, .. }: &RankInput, rank_of: &BTreeMap<i64, usize>, sums: &mut [(i64, i64)]) {
    let is_expert = |name: &String| kernel_roles::role_of_name(name) == NameRole::Experts;
    let are_experts: Vec<bool> = log.kernels.iter().map(is_expert).collect();
    for row in log.kernel_times.chunks_exact(KERNEL_COLUMNS) {
        let &[device, kernel, count, time] = row else { continue };
        let is_expert = usize::try_from(kernel).ok().and_then(|kernel| are_experts.get(kernel)) == Some(&true);
        let sum = rank_of.get(&device).filter(|_| is_expert).and_then(|rank| sums.get_mut(*rank));
        if let Some((launches, time_ns)) = sum {
            *launches = launches.saturating_add(count.max(0));
            *time_ns = time_ns.saturating_add(time.max(0));
        }
    }
}
