//! The column table of GPU ops: one vector per field, so that a pass over starts reads only starts.
//!
//! An op takes 24 bytes. Device, stream, process and kind repeat in many ops; each combination is stored once, as a [`Lane`].

use super::columns::{Durations, KeptRows, first_reaching, index, order_by_start, renumber, reorder, reorder_times};
use super::{CallId, DeviceId, NameId, Ns, OpRows, ProcessId, Window};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::ops::Range;

/// The kind of a GPU op.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// A kernel.
    Kernel,
    /// A memory copy.
    Copy,
    /// A memory set.
    Set,
}

/// One row of [`GpuOps`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuOp {
    /// Start on the clock of the trace.
    pub start: Ns,
    /// Duration; may be zero.
    pub duration: Ns,
    /// Name, in [`super::Trace::names`].
    pub name: NameId,
    /// The device it ran on.
    pub device: DeviceId,
    /// The stream of its device; -1 if the trace does not record streams.
    pub stream: i64,
    /// The process that launched it.
    pub process: ProcessId,
    /// Kernel, copy or set.
    pub kind: OpKind,
}

impl GpuOp {
    /// Returns the end time.
    pub fn end(&self) -> Ns {
        self.start.after(self.duration)
    }
}

/// An op and its group; see [`GpuOps::for_each_grouped`].
#[derive(Debug, Clone, Copy)]
pub struct GroupedOp {
    /// Row of the op in [`GpuOps`].
    pub row: usize,
    /// Number of its group.
    pub group: u32,
    /// The op.
    pub op: GpuOp,
}

/// Returns false for a negative duration and for times so large that differences of two times could overflow 64 bits.
pub fn is_plausible(start: Ns, duration: Ns) -> bool {
    const FAR: i64 = 1 << 62;
    (-FAR / 2..FAR).contains(&start.0) && (0..FAR / 2).contains(&duration.0)
}

/// The fields that all ops of one kind, stream and process share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Lane {
    device: DeviceId,
    stream: i64,
    process: ProcessId,
    kind: OpKind,
}

/// The columns of all GPU ops. A finished trace has them sorted by start; equal starts keep the order of the file.
#[derive(Debug, Clone, Default)]
pub struct GpuOps {
    start: Vec<Ns>,
    duration: Durations,
    name: Vec<NameId>,
    /// Index into `lanes`.
    lane: Vec<u32>,
    /// While the trace is read: the correlation id. In a finished trace: the index of the call that launched the op.
    link: Vec<u32>,
    lanes: Vec<Lane>,
    lane_ids: HashMap<Lane, u32, RandomState>,
}

fn slice<'a, T>(column: &'a [T], rows: &Range<usize>) -> &'a [T] {
    column.get(rows.clone()).unwrap_or_default()
}

/// The link of an op whose launch is unknown.
pub(super) const UNLINKED: u32 = u32::MAX;

impl PartialEq for GpuOps {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter()) && self.link == other.link
    }
}

impl GpuOps {
    /// Reserves memory for exactly this many additional ops.
    pub fn reserve(&mut self, additional: usize) {
        self.start.reserve_exact(additional);
        self.duration.reserve(additional);
        self.name.reserve_exact(additional);
        self.lane.reserve_exact(additional);
        self.link.reserve_exact(additional);
    }

    /// Appends an op. Its launch is the call of the same process with the same correlation id.
    pub fn push(&mut self, op: GpuOp, correlation: Option<u32>) {
        let lane = self.lane(Lane { device: op.device, stream: op.stream, process: op.process, kind: op.kind });
        self.start.push(op.start);
        self.duration.push(op.duration);
        self.name.push(op.name);
        self.lane.push(lane);
        self.link.push(correlation.unwrap_or(UNLINKED));
    }

    fn lane(&mut self, lane: Lane) -> u32 {
        if let Some(&last) = self.lane.last()
            && self.lanes.get(last as usize) == Some(&lane)
        {
            return last;
        }
        *self.lane_ids.entry(lane).or_insert_with(|| {
            self.lanes.push(lane);
            index(self.lanes.len() - 1)
        })
    }

    /// Returns the number of ops.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Returns true if there are no GPU ops.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// Iterates over all ops in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = GpuOp> + Clone {
        let columns = self.times().zip(&self.lane).zip(&self.name);
        columns.map(|((times, &lane), &name)| self.op(times, lane, name))
    }

    /// Returns the rows of all ops.
    pub fn all_rows(&self) -> OpRows {
        (0..self.len()).into()
    }

    /// Iterates over the ops in `rows`, with their rows.
    pub fn iter_in(&self, rows: &OpRows) -> impl Iterator<Item = (usize, GpuOp)> {
        self.iter_with_lanes(rows).map(|(row, _, op)| (row, op))
    }

    fn iter_with_lanes(&self, rows: &OpRows) -> impl Iterator<Item = (usize, u32, GpuOp)> {
        let within = self.clamped(rows.range());
        let (start, lane, name) = (slice(&self.start, &within), slice(&self.lane, &within), slice(&self.name, &within));
        let columns = within.zip(start).zip(lane).zip(name);
        let ops = columns.map(|(((row, &start), &lane), &name)| {
            let times = (start, self.duration.get(row));
            (row, lane, self.op(times, lane, name))
        });
        ops.filter(|(row, _, op)| rows.contains(*row, op.device))
    }

    fn clamped(&self, rows: Range<usize>) -> Range<usize> {
        let end = rows.end.min(self.len());
        rows.start.min(end)..end
    }

    /// Returns the op in this row.
    pub fn get(&self, row: usize) -> Option<GpuOp> {
        let (start, lane, name) = (*self.start.get(row)?, *self.lane.get(row)?, *self.name.get(row)?);
        Some(self.op((start, self.duration.get(row)), lane, name))
    }

    /// Device and stream by [`GpuOps::stream_index`]. Several may be equal, and in a part of a trace some may have no ops.
    pub fn streams(&self) -> impl Iterator<Item = (DeviceId, i64)> {
        self.lanes.iter().map(|lane| (lane.device, lane.stream))
    }

    /// Device and process of each lane; see [`GpuOps::streams`].
    pub fn owners(&self) -> impl Iterator<Item = (DeviceId, ProcessId)> {
        self.lanes.iter().map(|lane| (lane.device, lane.process))
    }

    /// The position of the op's device and stream in [`GpuOps::streams`].
    pub fn stream_index(&self, row: usize) -> Option<usize> {
        self.lane.get(row).map(|&lane| lane as usize)
    }

    /// Iterates over start and duration of all ops, for passes that need no other column.
    pub fn times(&self) -> impl ExactSizeIterator<Item = (Ns, Ns)> + Clone {
        self.start.iter().enumerate().map(|(row, &start)| (start, self.duration.get(row)))
    }

    /// Calls `visit` for each op in `rows`, in order, with the number of its group. Ops of the same name, device, stream,
    /// process and kind form a group. Groups are numbered in the order of their first ops. `names` exceeds every name id.
    pub fn for_each_grouped(&self, names: usize, rows: &OpRows, mut visit: impl FnMut(GroupedOp)) {
        /// A table with a slot for each name and lane is used up to this size (4 MiB), a hash map beyond it.
        const MAX_SLOTS: usize = 1 << 20;
        let slots = names.checked_mul(self.lanes.len()).filter(|slots| *slots <= MAX_SLOTS);
        let mut table = vec![u32::MAX; slots.unwrap_or(0)];
        let mut others: HashMap<u64, u32, RandomState> = HashMap::default();
        let mut groups = 0;
        for (row, lane, op) in self.iter_with_lanes(rows) {
            let name = op.name.0;
            let slot = table.get_mut(lane as usize * names + name as usize);
            let group =
                slot.unwrap_or_else(|| others.entry(u64::from(lane) << 32 | u64::from(name)).or_insert(u32::MAX));
            if *group == u32::MAX {
                *group = groups;
                groups += 1;
            }
            visit(GroupedOp { row, group: *group, op });
        }
    }

    /// Iterates over the calls that launched the ops, in the order of [`GpuOps::iter`]; `None` for an unknown launch.
    pub fn launches(&self) -> impl ExactSizeIterator<Item = Option<CallId>> + Clone {
        self.link.iter().map(|&link| (link != UNLINKED).then_some(CallId(link)))
    }

    /// Returns the call that launched the op in this row, if known.
    pub fn launch(&self, row: usize) -> Option<CallId> {
        self.link.get(row).filter(|&&link| link != UNLINKED).map(|&link| CallId(link))
    }

    #[inline]
    #[allow(clippy::indexing_slicing, reason = "`push` adds the lane of every op")]
    fn op(&self, (start, duration): (Ns, Ns), lane: u32, name: NameId) -> GpuOp {
        let Lane { device, stream, process, kind } = self.lanes[lane as usize];
        GpuOp { start, duration, name, device, stream, process, kind }
    }

    /// Makes all ops earlier.
    pub(super) fn move_back(&mut self, by: Ns) {
        self.start.iter_mut().for_each(|start| *start = *start - by);
    }

    pub(super) fn renumber_devices(&mut self, new_ids: &[DeviceId]) {
        for lane in &mut self.lanes {
            lane.device = new_ids.get(lane.device.0 as usize).copied().unwrap_or(lane.device);
        }
        self.lane_ids = HashMap::default();
    }

    /// Replaces each name id `n` by `new_ids[n]`.
    pub fn rename(&mut self, new_ids: &[NameId]) {
        renumber(&mut self.name, new_ids);
    }

    /// Returns the number of ops that start before `time`: also the row of the first op that does not.
    pub fn count_starting_before(&self, time: Ns) -> usize {
        self.start.partition_point(|start| *start < time)
    }

    /// Returns the number of ops that start in the window.
    pub fn count_starting_in(&self, window: Window) -> usize {
        self.count_starting_before(window.end) - self.count_starting_before(window.start)
    }

    /// Returns a row such that all earlier ops end before `time`. Not always the last such row.
    pub fn first_reaching(&self, time: Ns) -> usize {
        first_reaching(&self.start, self.duration.longest, time)
    }

    /// Returns the latest end of all ops; `None` if there are no ops.
    pub(super) fn last_end(&self) -> Option<Ns> {
        let first = self.first_reaching(*self.start.last()?);
        self.start.iter().enumerate().skip(first).map(|(row, start)| start.after(self.duration.get(row))).max()
    }

    /// Returns the ops that overlap the window. Ops that start before it are to be cut at its start.
    pub(super) fn rows_to_clip(&self, window: Window) -> KeptRows {
        let mut rows = KeptRows::overlapping(window, &self.start, &self.duration);
        std::mem::swap(&mut rows.before, &mut rows.cut);
        rows
    }

    /// Returns the ops in these rows, clipped to the window, and the number of clipped ops.
    pub(super) fn part(&self, rows: &KeptRows, window: Window) -> (Self, u64) {
        let mut part = Self {
            start: rows.take(&self.start),
            duration: self.duration.take(rows),
            name: rows.take(&self.name),
            lane: rows.take(&self.lane),
            link: rows.take(&self.link),
            lanes: self.lanes.clone(),
            lane_ids: HashMap::default(),
        };
        let cut = rows.clip_times(&mut part.start, &mut part.duration, window, &|_| false);
        (part, cut)
    }

    pub(super) fn names_and_links(&mut self) -> (&mut [NameId], &mut [u32]) {
        (&mut self.name, &mut self.link)
    }

    /// Returns the indices of the calls that launched the ops in these rows; ops with an unknown launch are skipped.
    pub(super) fn links_of(&self, rows: &KeptRows) -> Vec<u32> {
        let mut links = rows.take(&self.link);
        links.retain(|link| *link != UNLINKED);
        links
    }

    /// While the trace is read: the correlation id of each op, or [`UNLINKED`].
    pub(super) fn correlations(&self) -> Vec<u32> {
        self.link.clone()
    }

    /// Keeps only the ops in these rows, which ascend.
    pub(super) fn select(&mut self, rows: &[u32]) {
        reorder(&mut self.start, rows);
        self.duration.reorder(rows);
        reorder(&mut self.name, rows);
        reorder(&mut self.lane, rows);
        reorder(&mut self.link, rows);
    }

    /// Replaces each op's correlation id by the index of the launching call. `call_of` maps process, correlation id and start to it.
    pub(super) fn link(&mut self, mut call_of: impl FnMut(ProcessId, u32, Ns) -> u32) {
        for ((link, lane), start) in self.link.iter_mut().zip(&self.lane).zip(&self.start) {
            if let (Some(lane), true) = (self.lanes.get(*lane as usize), *link != UNLINKED) {
                *link = call_of(lane.process, *link, *start);
            }
        }
    }

    /// While the trace is read: the op in this row with its correlation id, or [`UNLINKED`].
    pub(super) fn with_id(&self, row: usize) -> Option<(GpuOp, u32)> {
        Some((self.get(row)?, *self.link.get(row)?))
    }

    /// While the trace is read: all ops with their correlation id, or [`UNLINKED`].
    pub(super) fn with_ids(&self) -> impl Iterator<Item = (GpuOp, u32)> {
        self.iter().zip(self.link.iter().copied())
    }

    /// Replaces devices and processes. `place` maps the device so far to both; `processes` are those of the ops, if they may
    /// differ from that.
    pub(super) fn place(&mut self, place: impl Fn(DeviceId) -> (DeviceId, ProcessId), processes: Option<&[ProcessId]>) {
        let lanes = std::mem::take(&mut self.lanes);
        self.lane_ids = HashMap::default();
        let mut rows = std::mem::take(&mut self.lane);
        // One lane after the other: consecutive ops are mostly of one.
        let mut new_ids = vec![(ProcessId(u32::MAX), u32::MAX); lanes.len()];
        for (row, lane) in rows.iter_mut().enumerate() {
            let (Some(old), Some(known)) = (lanes.get(*lane as usize), new_ids.get_mut(*lane as usize)) else {
                continue;
            };
            let (device, owner) = place(old.device);
            let process = processes.and_then(|processes| processes.get(row)).copied().unwrap_or(owner);
            if *known != (process, known.1) || known.1 == u32::MAX {
                *known = (process, self.lane(Lane { device, process, ..*old }));
            }
            *lane = known.1;
        }
        self.lane = rows;
    }

    /// While the trace is read: process and correlation id of the ops that have one.
    pub(super) fn correlated(&self) -> impl Iterator<Item = (ProcessId, u32)> {
        let with_id = self.link.iter().zip(&self.lane).filter(|(link, _)| **link != UNLINKED);
        with_id.filter_map(|(link, lane)| Some((self.lanes.get(*lane as usize)?.process, *link)))
    }

    pub(super) fn sort_by_start(&mut self) -> Option<Vec<u32>> {
        let order = order_by_start(&self.start)?;
        reorder_times(&mut self.start, &order);
        self.duration.reorder(&order);
        reorder(&mut self.name, &order);
        reorder(&mut self.lane, &order);
        reorder(&mut self.link, &order);
        Some(order)
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::testing::TestTrace;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn table_and_hash_map_number_groups_alike(
            ops in prop::collection::vec((prop::sample::select(vec!["a", "b", "c", "Memcpy"]), 0_i64..3), 0..60),
        ) {
            let mut trace = TestTrace::new();
            for (name, stream) in &ops {
                trace.stream(*stream).kernel(name, 0..1);
            }
            let columns = trace.finish().gpu_ops;
            let mut groups = Vec::new();
            let mut group = |op| {
                let known = groups.iter().position(|group| *group == op);
                known.unwrap_or_else(|| {
                    groups.push(op);
                    groups.len() - 1
                }) as u32
            };
            let expected: Vec<u32> = ops.iter().map(&mut group).collect();
            for names in [4, 1 << 21] {
                let mut found = Vec::new();
                columns.for_each_grouped(names, &columns.all_rows(), |op| found.push(op.group));
                prop_assert_eq!(&found, &expected);
            }
        }
    }
}
