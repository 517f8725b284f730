//! Counts and sums of GPU ops by name, device, stream, process and kind, in one pass. Most tables of sums are made from these, so
//! that they need no pass over the ops of their own.

use crate::analysis::index::{IdMap, Merge};
use crate::ordering;
use crate::trace::{DeviceId, GpuOp, GroupedOp, NameId, Ns, OpKind, OpRows, ProcessId, Trace};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// The ops of one name on one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) name: NameId,
    pub(crate) device: DeviceId,
    pub(crate) process: ProcessId,
    /// The stream; -1 if unknown.
    pub(crate) stream: i64,
    pub(crate) kind: OpKind,
    pub(crate) count: u64,
    pub(crate) total: Ns,
    pub(crate) shortest: Ns,
    pub(crate) longest: Ns,
    first_row: usize,
    /// The first start.
    pub(crate) first: Ns,
    /// The last end.
    pub(crate) last: Ns,
}

type Key = (NameId, DeviceId, ProcessId, i64, OpKind);

impl Group {
    /// A group that does not count its first op yet.
    fn of_first(row: usize, op: &GpuOp) -> Self {
        Self {
            name: op.name,
            device: op.device,
            process: op.process,
            stream: op.stream,
            kind: op.kind,
            count: 0,
            total: Ns::ZERO,
            shortest: op.duration,
            longest: op.duration,
            first_row: row,
            first: op.start,
            last: op.end(),
        }
    }

    fn key(&self) -> Key {
        (self.name, self.device, self.process, self.stream, self.kind)
    }

    fn add(&mut self, op: &GpuOp) {
        self.count += 1;
        self.total += op.duration;
        self.shortest = self.shortest.min(op.duration);
        self.longest = self.longest.max(op.duration);
        self.last = self.last.max(op.end());
    }

    /// Adds later ops of the same group.
    fn merge(&mut self, later: &Self) {
        self.count += later.count;
        self.total += later.total;
        self.shortest = self.shortest.min(later.shortest);
        self.longest = self.longest.max(later.longest);
        self.last = self.last.max(later.last);
    }
}

/// All groups of some ops, in the order of their first ops.
#[derive(Debug, Clone, Default)]
pub struct Groups {
    groups: Vec<Group>,
    /// Ops that start before the previous op of the same stream has ended.
    pub(crate) overlapping: u64,
    /// The position of each group, for merging; filled by the first merge.
    positions: HashMap<Key, usize, RandomState>,
}

impl Groups {
    pub(crate) fn of_all(trace: &Trace) -> Self {
        Self::of_rows(trace, &trace.gpu_ops.all_rows())
    }

    /// The groups of the ops in these rows.
    pub(crate) fn of_rows(trace: &Trace, rows: &OpRows) -> Self {
        let mut sums = GroupSweep::default();
        trace.gpu_ops.for_each_grouped(trace.names.len(), rows, |op| sums.add(&op));
        sums.groups
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Group> {
        self.groups.iter()
    }

    pub(crate) fn as_slice(&self) -> &[Group] {
        &self.groups
    }

    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }
}

impl Merge for Groups {
    fn merge(&mut self, later: &Self, ids: &IdMap) {
        if self.positions.is_empty() {
            self.positions = self.groups.iter().map(Group::key).zip(0..).collect();
        }
        self.overlapping += later.overlapping;
        let mut is_sorted = true;
        for group in &later.groups {
            let group = Group { name: ids.name(group.name), first_row: ids.row(group.first_row), ..*group };
            let position = *self.positions.entry(group.key()).or_insert(self.groups.len());
            match self.groups.get_mut(position) {
                Some(known) => known.merge(&group),
                None => {
                    is_sorted &= self.groups.last().is_none_or(|last| last.first_row < group.first_row);
                    self.groups.push(group);
                }
            }
        }
        // Where devices are cut at different rows, a later segment may start before an earlier one ends.
        if !is_sorted {
            ordering::sort_by_key(&mut self.groups, |group| group.first_row);
            self.positions = self.groups.iter().map(Group::key).zip(0..).collect();
        }
    }
}

#[derive(Default)]
pub(crate) struct GroupSweep {
    pub(crate) groups: Groups,
    /// The latest end of the ops of each stream.
    reach: Vec<Ns>,
    stream_ids: HashMap<(DeviceId, ProcessId, i64), usize, RandomState>,
    /// By group; `usize::MAX` if the stream is unknown.
    stream_of_group: Vec<usize>,
}

impl GroupSweep {
    pub(crate) fn add(&mut self, GroupedOp { row, group, op }: &GroupedOp) {
        if *group as usize == self.groups.groups.len() {
            self.groups.groups.push(Group::of_first(*row, op));
            let stream = self.stream_of(op);
            self.stream_of_group.push(stream);
        }
        self.groups.groups.get_mut(*group as usize).into_iter().for_each(|sums| sums.add(op));
        let stream = self.stream_of_group.get(*group as usize).copied();
        if let Some(reach) = stream.and_then(|stream| self.reach.get_mut(stream)) {
            self.groups.overlapping += u64::from(op.start < *reach);
            *reach = op.end().max(*reach);
        }
    }

    fn stream_of(&mut self, op: &GpuOp) -> usize {
        if op.stream < 0 {
            return usize::MAX;
        }
        let stream = (op.device, op.process, op.stream);
        *self.stream_ids.entry(stream).or_insert_with(|| {
            self.reach.push(Ns(i64::MIN));
            self.reach.len() - 1
        })
    }
}
