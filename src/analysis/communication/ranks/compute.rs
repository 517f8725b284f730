//! Compares the compute time of ranks over the same work. Traces of one job begin and end at different moments, so a rank may
//! have kernels of a step that the other traces do not contain. O(n log n) in the number of GPU ops.

use super::jobs::JobGroup;
use super::log::RankLog;
use super::rules::Rules;
use super::step_log::STEP_COLUMNS;
use super::{ComputeBasis, Rank, RankInput, WindowSelection};
use crate::analysis::communication::skews_pct;
use std::collections::BTreeMap;

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
    for (rank, (time, skew_pct)) in ranks.iter_mut().zip(times.iter().zip(skews_pct(&times))) {
        (rank.compared_ns, rank.skew_pct) = (*time, Some(skew_pct));
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
        // By name: the rank, its number of steps and its compute time, for each rank that has such steps.
        let mut by_name: BTreeMap<&str, Vec<(usize, i64, i64)>> = BTreeMap::new();
        for (log, rank_of) in &group.ranks_by_log() {
            let RankLog { steps, step_names, .. } = inputs.get(*log)?.log;
            for row in steps.chunks_exact(STEP_COLUMNS) {
                let &[device, name, count, time] = row else { continue };
                let name = usize::try_from(name).ok().and_then(|name| step_names.get(name));
                if let (Some(name), Some(rank)) = (name, rank_of.get(&device)) {
                    by_name.entry(name).or_default().push((*rank, count, time.max(0)));
                }
            }
        }
        by_name.values_mut().for_each(|rows| rows.sort_by_key(|(rank, ..)| *rank));
        let ranks = group.members.len();
        let has_all = |rows: &[(usize, i64, i64)]| {
            rows.len() == ranks && rows.iter().all(|(_, count, _)| rows.first().is_some_and(|first| first.1 == *count))
        };
        by_name.retain(|_, rows| has_all(rows));
        let mut found = Self { count: 0, compute_ns: vec![0; ranks] };
        for rows in by_name.values() {
            let count = rows.first().and_then(|(_, count, _)| u64::try_from(*count).ok()).unwrap_or(0);
            found.count = found.count.saturating_add(count);
            found.compute_ns.iter_mut().zip(rows).for_each(|(sum, (.., time))| *sum = sum.saturating_add(*time));
        }
        (found.count > 0).then_some(found)
    }
}
