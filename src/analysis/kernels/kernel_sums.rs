//! Counts and sums of kernels by process, device and name, from the [`Groups`].

use super::groups::{Group, Groups};
use crate::analysis::measure::tally::Tally;
use crate::ordering;
use crate::trace::{DeviceId, NameId, Ns, OpKind, ProcessId};

/// What a row of kernels is keyed by.
pub(crate) type KernelKey = (ProcessId, DeviceId, NameId);

/// The kernels of one name, process and device.
#[derive(Debug)]
pub(crate) struct KernelSum {
    pub(crate) process: ProcessId,
    pub(crate) device: DeviceId,
    pub(crate) name: NameId,
    /// Its own key is unused.
    pub(crate) tally: Tally,
    /// First start and last end.
    pub(crate) window: (Ns, Ns),
}

impl KernelSum {
    pub(crate) fn key(&self) -> KernelKey {
        (self.process, self.device, self.name)
    }
}

/// All kernels of a trace, sorted by [`KernelKey`].
#[derive(Debug)]
pub(crate) struct KernelSums {
    pub(crate) sums: Vec<KernelSum>,
}

impl KernelSums {
    pub(crate) fn of(groups: &Groups) -> Self {
        let mut kernels: Vec<&Group> = groups.iter().filter(|group| group.kind == OpKind::Kernel).collect();
        ordering::sort_by_key(&mut kernels, |group| key(group));
        let mut sums: Vec<KernelSum> = Vec::new();
        for group in kernels {
            if sums.last().is_none_or(|last| last.key() != key(group)) {
                let &Group { process, device, name, first, last, .. } = group;
                sums.push(KernelSum { process, device, name, tally: Tally::default(), window: (first, last) });
            }
            if let Some(sum) = sums.last_mut() {
                sum.tally.merge(&tally(group));
                sum.window = (sum.window.0.min(group.first), sum.window.1.max(group.last));
            }
        }
        Self { sums }
    }

    pub(crate) fn total(&self) -> Ns {
        self.sums.iter().fold(Ns::ZERO, |sum, kernel| sum + kernel.tally.total)
    }

    pub(crate) fn count(&self) -> u64 {
        self.sums.iter().map(|kernel| kernel.tally.count).sum()
    }
}

pub(super) fn key(group: &Group) -> KernelKey {
    (group.process, group.device, group.name)
}

fn tally(group: &Group) -> Tally {
    let &Group { count, total, shortest, longest, .. } = group;
    Tally { count, total, shortest, longest, ..Tally::default() }
}
