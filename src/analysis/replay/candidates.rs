//! The changes that are worth a replay: the largest causes of each kind on the critical path. O(parts of the path + calls + ops).

use super::changes::{Change, Changes, Site};
use super::ids::Call;
use super::path::{PathPart, Waits};
use crate::trace::Ns;

impl Changes<'_> {
    /// The changes that are tried: the largest causes of each kind on the path.
    pub(super) fn candidates(&self, path: &[(PathPart, Ns)]) -> Vec<Change> {
        const MAX_FUNCTIONS: usize = 10;
        const MAX_OTHERS: usize = 5;
        self.largest(path, MAX_FUNCTIONS, MAX_OTHERS)
    }

    /// All changes that have an id.
    pub(super) fn all(&self, path: &[(PathPart, Ns)]) -> Vec<Change> {
        self.largest(path, usize::MAX, usize::MAX)
    }

    fn largest(&self, path: &[(PathPart, Ns)], max_functions: usize, max_others: usize) -> Vec<Change> {
        let host = path.iter().filter_map(|(part, _)| match part {
            PathPart::Host(function, waits) => Some(Change::WithoutCode(*function, *waits)),
            PathPart::BeforeFirstOp(function) => Some(Change::WithoutCode(*function, Waits::No)),
            PathPart::Unrecorded => Some(Change::WithoutCode(None, Waits::No)),
            _ => None,
        });
        let mut changes: Vec<Change> = Vec::new();
        for change in host {
            if changes.len() < max_functions && !changes.contains(&change) {
                changes.push(change);
            }
        }
        changes.extend(self.largest_sites().into_iter().take(max_others).map(Change::WithoutBlockingAt));
        changes.extend(self.largest_groups().into_iter().take(max_others).map(Change::KernelsTwiceAsFast));
        changes.extend([
            Change::WithoutHost,
            Change::WithoutCodeBetweenCalls,
            Change::WithoutBlocking,
            Change::OneGraphLaunch,
            Change::WithoutGpuWork,
            Change::WithoutCommunication,
            Change::Fused,
            Change::PinnedCopies,
            Change::FreeAllocations,
            Change::WarmedUp,
            Change::WithoutTurnaround,
            Change::WithoutProfiler,
        ]);
        changes.retain(|change| self.applies(change));
        changes
    }

    /// The code of blocking calls, those that waited most first.
    fn largest_sites(&self) -> Vec<Site> {
        let of_call = |(call, site): (&Call, &Site)| {
            let waited = self.parts.recorded.call(*call).duration().since(self.parts.waits.at(*call).own);
            (*site, waited)
        };
        largest(self.sites.iter().map(of_call).filter(|(_, waited)| *waited > Ns::ZERO))
    }

    /// The groups of kernels with most time in the window.
    fn largest_groups(&self) -> Vec<u32> {
        let ops = self.parts.recorded.ops.values().iter();
        let in_window = ops.filter(|op| op.is_kernel() && op.end > self.steady.start && op.end <= self.steady.end);
        largest(in_window.filter_map(|op| Some((*self.groups.get(op.name.0 as usize)?, op.duration()))))
    }
}

fn largest<K: Ord + Copy>(items: impl Iterator<Item = (K, Ns)>) -> Vec<K> {
    let mut sums: std::collections::BTreeMap<K, Ns> = std::collections::BTreeMap::new();
    for (key, time) in items {
        *sums.entry(key).or_default() += time;
    }
    let mut sums: Vec<(K, Ns)> = sums.into_iter().collect();
    crate::ordering::sort_by_key(&mut sums, |(_, time)| std::cmp::Reverse(*time));
    sums.into_iter().map(|(key, _)| key).collect()
}
