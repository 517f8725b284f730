//! GPU ops as columns: one vector a field, so that a pass over starts touches starts alone.
//!
//! 24 bytes an op: what many ops share (device, stream, process, kind) is one number, a [`Lane`]'s.

use super::columns::{Durations, KeptRows, first_reaching, index, order_by_start, renumber, reorder, reorder_times};
use super::{CallId, DeviceId, NameId, Ns, Places, ProcessId, Window};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::ops::Range;

/// What a GPU op does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OpKind {
    /// A kernel.
    Kernel,
    /// A memory copy.
    Copy,
    /// A memory set.
    Set,
}

/// One GPU op, as readers hand it over and analyses read it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuOp {
    /// When it began, on the trace's clock.
    pub start: Ns,
    /// How long it ran; zero is legal.
    pub duration: Ns,
    /// Its name.
    pub name: NameId,
    /// Where it ran.
    pub device: DeviceId,
    /// The stream on its device; -1 where the trace does not tell.
    pub stream: i64,
    /// The process that launched it.
    pub process: ProcessId,
    /// Kernel, copy or set.
    pub kind: OpKind,
}

impl GpuOp {
    /// When it ended.
    pub fn end(&self) -> Ns {
        self.start.after(self.duration)
    }
}

/// An op and the group that [`GpuOps::for_each_grouped`] puts it in.
#[derive(Debug, Clone, Copy)]
pub struct GroupedOp {
    /// The op's place.
    pub at: usize,
    /// The number of its group.
    pub group: u32,
    /// When it began.
    pub start: Ns,
    /// How long it ran.
    pub duration: Ns,
}

/// False for times that no profiler means: a negative duration, or one that does not fit with others in 64 bits.
pub fn is_plausible(start: Ns, duration: Ns) -> bool {
    const FAR: i64 = 1 << 62;
    (-FAR / 2..FAR).contains(&start.0) && (0..FAR / 2).contains(&duration.0)
}

/// What the ops of one stream, of one kind and from one process, share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Lane {
    device: DeviceId,
    stream: i64,
    process: ProcessId,
    kind: OpKind,
}

/// Columns of GPU ops; in a finished trace sorted by start, then by place in the file.
#[derive(Debug, Clone, Default)]
pub struct GpuOps {
    start: Vec<Ns>,
    duration: Durations,
    name: Vec<NameId>,
    lane: Vec<u32>,
    /// While the trace is read the correlation id, in a finished trace the index of the call that launched the op.
    link: Vec<u32>,
    lanes: Vec<Lane>,
    lane_ids: HashMap<Lane, u32, RandomState>,
}

/// Of a column what stands at these places.
fn at<'a, T>(column: &'a [T], places: &Range<usize>) -> &'a [T] {
    column.get(places.clone()).unwrap_or_default()
}

/// No launch is known.
pub(super) const UNLINKED: u32 = u32::MAX;

impl PartialEq for GpuOps {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter()) && self.link == other.link
    }
}

impl GpuOps {
    /// Makes room for so many more, exactly.
    pub fn reserve(&mut self, more: usize) {
        self.start.reserve_exact(more);
        self.duration.reserve(more);
        self.name.reserve_exact(more);
        self.lane.reserve_exact(more);
        self.link.reserve_exact(more);
    }

    /// Adds one op at the end. The call of the same process and correlation id launched it.
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

    /// How many ops there are.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// True for a trace without GPU ops.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// All ops in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = GpuOp> + Clone {
        let columns = self.times().zip(&self.lane).zip(&self.name);
        columns.map(|((times, &lane), &name)| self.op(times, lane, name))
    }

    /// The places of all ops.
    pub fn places(&self) -> Places {
        (0..self.len()).into()
    }

    /// The ops at these places, with their places.
    pub fn iter_in(&self, places: &Places) -> impl Iterator<Item = (usize, GpuOp)> {
        let within = self.known(places.within());
        let (start, lane, name) = (at(&self.start, &within), at(&self.lane, &within), at(&self.name, &within));
        let columns = within.zip(start).zip(lane).zip(name);
        let ops =
            columns.map(|(((at, &start), &lane), &name)| (at, self.op((start, self.duration.get(at)), lane, name)));
        ops.filter(|(at, op)| places.hold(*at, op.device))
    }

    /// As far as there are ops at these places.
    fn known(&self, places: Range<usize>) -> Range<usize> {
        let end = places.end.min(self.len());
        places.start.min(end)..end
    }

    /// The op at this place.
    pub fn get(&self, at: usize) -> Option<GpuOp> {
        let (start, lane, name) = (*self.start.get(at)?, *self.lane.get(at)?, *self.name.get(at)?);
        Some(self.op((start, self.duration.get(at)), lane, name))
    }

    /// Start and duration of all ops in order, for passes that need nothing else.
    pub fn times(&self) -> impl ExactSizeIterator<Item = (Ns, Ns)> + Clone {
        self.start.iter().enumerate().map(|(at, &start)| (start, self.duration.get(at)))
    }

    /// The same from this place on.
    pub fn times_from(&self, first: usize) -> impl Iterator<Item = (Ns, Ns)> {
        self.start.iter().enumerate().skip(first).map(|(at, &start)| (start, self.duration.get(at)))
    }

    /// Visits the ops at these places in order, each with the number of its group: a group are the ops of one name, stream, process
    /// and kind, and groups count up in the order of their first ops. Names are below `names`.
    pub fn for_each_grouped(&self, names: usize, places: &Places, mut visit: impl FnMut(GroupedOp)) {
        /// More slots than this are not worth their memory.
        const SLOTS: usize = 1 << 20;
        let slots = names.checked_mul(self.lanes.len()).filter(|slots| *slots <= SLOTS);
        let mut table = vec![u32::MAX; slots.unwrap_or(0)];
        let mut others: HashMap<u64, u32, RandomState> = HashMap::default();
        let mut groups = 0;
        let within = self.known(places.within());
        let (start, lane, name) = (at(&self.start, &within), at(&self.lane, &within), at(&self.name, &within));
        let device = |lane: u32| self.lanes.get(lane as usize).map_or(DeviceId(u32::MAX), |lane| lane.device);
        for (((at, &start), &lane), &name) in within.zip(start).zip(lane).zip(name) {
            if !places.is_whole() && !places.hold(at, device(lane)) {
                continue;
            }
            let duration = self.duration.get(at);
            let slot = table.get_mut(lane as usize * names + name.0 as usize);
            let group =
                slot.unwrap_or_else(|| others.entry(u64::from(lane) << 32 | u64::from(name.0)).or_insert(u32::MAX));
            if *group == u32::MAX {
                *group = groups;
                groups += 1;
            }
            visit(GroupedOp { at, group: *group, start, duration });
        }
    }

    /// The calls that launched the ops, in the order of [`GpuOps::iter`].
    pub fn launches(&self) -> impl ExactSizeIterator<Item = Option<CallId>> + Clone {
        self.link.iter().map(|&link| (link != UNLINKED).then_some(CallId(link)))
    }

    /// The call that launched the op at this place.
    pub fn launch(&self, at: usize) -> Option<CallId> {
        self.link.get(at).filter(|&&link| link != UNLINKED).map(|&link| CallId(link))
    }

    #[inline]
    #[allow(clippy::indexing_slicing, reason = "push keeps lanes known")]
    fn op(&self, (start, duration): (Ns, Ns), lane: u32, name: NameId) -> GpuOp {
        let Lane { device, stream, process, kind } = self.lanes[lane as usize];
        GpuOp { start, duration, name, device, stream, process, kind }
    }

    pub(super) fn renumber_devices(&mut self, rank: &[DeviceId]) {
        for lane in &mut self.lanes {
            lane.device = rank.get(lane.device.0 as usize).copied().unwrap_or(lane.device);
        }
        self.lane_ids = HashMap::default();
    }

    /// Gives every op the name that stands at its name's place in `now`.
    pub fn rename(&mut self, now: &[NameId]) {
        renumber(&mut self.name, now);
    }

    /// How many begin before this time.
    pub fn count_starting_before(&self, time: Ns) -> usize {
        self.start.partition_point(|start| *start < time)
    }

    /// How many begin in this window.
    pub fn count_starting_in(&self, window: Window) -> usize {
        self.count_starting_before(window.end) - self.count_starting_before(window.start)
    }

    /// The place of the first op that may end as late as this: those before it all end earlier.
    pub fn first_reaching(&self, time: Ns) -> usize {
        first_reaching(&self.start, self.duration.longest(), time)
    }

    /// When the last op ends; `None` where there is none.
    pub(super) fn last_end(&self) -> Option<Ns> {
        let first = self.first_reaching(*self.start.last()?);
        self.start.iter().enumerate().skip(first).map(|(at, start)| start.after(self.duration.get(at))).max()
    }

    /// Those of which something lies in the window; what began before it is to be cut.
    pub(super) fn rows_to_clip(&self, window: Window) -> KeptRows {
        let mut rows = KeptRows::overlapping(window, &self.start, &self.duration);
        std::mem::swap(&mut rows.before, &mut rows.cut);
        rows
    }

    /// The ops of these rows, cut at the window's ends, and how many were.
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

    /// Names and links to calls, to be changed.
    pub(super) fn names_and_links(&mut self) -> (&mut [NameId], &mut [u32]) {
        (&mut self.name, &mut self.link)
    }

    /// The places of the calls that launched ops of these rows, those without one left out.
    pub(super) fn links_of(&self, rows: &KeptRows) -> Vec<u32> {
        let mut links = rows.take(&self.link);
        links.retain(|link| *link != UNLINKED);
        links
    }

    /// Puts the index of the launching call in the place of each op's correlation id.
    pub(super) fn link(&mut self, call_of: impl Fn(ProcessId, u32) -> u32) {
        for (link, lane) in self.link.iter_mut().zip(&self.lane) {
            if let (Some(lane), true) = (self.lanes.get(*lane as usize), *link != UNLINKED) {
                *link = call_of(lane.process, *link);
            }
        }
    }

    /// Sorts by start, equal starts in the order of the file, and tells the order it took.
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
    use super::*;
    use proptest::prelude::*;

    fn op((name, stream, is_copy): (u32, i64, bool)) -> GpuOp {
        let kind = if is_copy { OpKind::Copy } else { OpKind::Kernel };
        GpuOp {
            start: Ns(0),
            duration: Ns(1),
            name: NameId(name),
            device: DeviceId(0),
            stream,
            process: ProcessId(0),
            kind,
        }
    }

    proptest! {
        #[test]
        fn groups_are_the_same_whether_a_table_holds_them_or_there_are_too_many_names_for_one(
            ops in prop::collection::vec((0_u32..6, 0_i64..3, any::<bool>()), 0..60),
        ) {
            let mut columns = GpuOps::default();
            ops.iter().for_each(|it| columns.push(op(*it), None));
            let mut seen = Vec::new();
            let wanted: Vec<u32> = ops
                .iter()
                .map(|it| {
                    let at = seen.iter().position(|known| known == it);
                    at.unwrap_or_else(|| {
                        seen.push(*it);
                        seen.len() - 1
                    }) as u32
                })
                .collect();
            for names in [6, 1 << 21] {
                let mut found = Vec::new();
                columns.for_each_grouped(names, &columns.places(), |op| found.push(op.group));
                prop_assert_eq!(&found, &wanted);
            }
        }
    }
}
