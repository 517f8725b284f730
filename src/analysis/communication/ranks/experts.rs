//! The time of the matrix products of experts on each rank. With expert parallelism each rank has other experts, so the rank
//! with the most work sets the time of all: the largest time over the mean is the imbalance. Linear in the kernels of the logs.

use super::jobs::{JobGroup, Member};
use super::log::KERNEL_COLUMNS;
use super::{ExpertTime, Rank, RankInput};
use crate::analysis::communication::percent;
use crate::analysis::inference::kernel_roles::{self, NameRole};

/// Sets the time of the experts on each rank, if all ranks launch their products equally often. A log lists the kernels with
/// the most time only, so other counts may be cut off.
pub(super) fn set_expert_times(ranks: &mut [Rank], group: &JobGroup, inputs: &[RankInput]) {
    let sums = group.members.iter().map(|member| inputs.get(member.log).map(|input| sum(member, input)));
    let Some(sums) = sums.collect::<Option<Vec<(i64, i64)>>>() else { return };
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

/// Launches and time of the products of experts on a rank.
fn sum(member: &Member, RankInput { log, .. }: &RankInput) -> (i64, i64) {
    let is_expert = |name: &String| kernel_roles::role_of_name(name) == NameRole::Experts;
    let are_experts: Vec<bool> = log.kernels.iter().map(is_expert).collect();
    let (mut launches, mut time_ns) = (0_i64, 0_i64);
    for row in log.kernel_times.chunks_exact(KERNEL_COLUMNS) {
        let &[device, kernel, count, time] = row else { continue };
        let is_expert = usize::try_from(kernel).ok().and_then(|kernel| are_experts.get(kernel)) == Some(&true);
        if is_expert && usize::try_from(device) == Ok(member.device) {
            launches = launches.saturating_add(count.max(0));
            time_ns = time_ns.saturating_add(time.max(0));
        }
    }
    (launches, time_ns)
}
