//! One pass over the ops of each device: how long each runs alone, how long beside another stream, and beside what.
//!
//! Totals grow with time (one a stream for the time in which only it works), and an op takes the difference between its
//! end and its start, so that an op costs the same however many run beside it. Two kernels of one stream may run at the
//! same time (a programmatic dependent launch starts before the kernel ahead of it has ended): neither hides the other.

use super::rules::{Class, Rules};
use crate::analysis::triage::times::Times;
use crate::analysis::triage::{Stage, View};
use crate::ordering::VecMap;
use crate::trace::{NameId, Names, Ns, ProcessId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// All ops of one canonical name in one stage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) stage: Stage,
    /// In [`Swept::names`].
    pub(super) name: NameId,
    /// In the names of the trace: that of its first op.
    pub(super) first: NameId,
    pub(super) class: Class,
    /// True where its ops are copies or sets, which need no cores of the GPU.
    pub(super) moves_memory: bool,
    pub(super) launches: u64,
    pub(super) duration_ns: i64,
    /// Time of its ops in which no other stream of their device works; the rest is hidden.
    pub(super) exclusive_ns: i64,
    /// The same, where two kernels of one stream run at once counted for the one that ends first: sums over rows never
    /// exceed the busy time.
    pub(super) exposed_ns: i64,
    pub(super) hidden_by_compute_ns: i64,
    /// Hidden beside nothing but copies and sets, which leave the cores of the GPU to it.
    pub(super) beside_copies_ns: i64,
    /// Time on other streams than the one on which its device works most.
    pub(super) beside_main_ns: i64,
    /// What hides it, by name; of several the weightiest, then the longest.
    pub(super) hidden_by: VecMap<NameId, i64>,
}

impl Row {
    pub(super) fn hidden_ns(&self) -> i64 {
        self.duration_ns.saturating_sub(self.exclusive_ns)
    }

    /// The name beside which it is hidden longest.
    pub(super) fn mostly_beside(&self) -> Option<NameId> {
        self.hidden_by.0.iter().max_by_key(|(name, time)| (*time, Reverse(*name))).map(|(name, _)| *name)
    }
}

/// One op on its way through the sweep.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    /// Its place among the ops of the trace.
    pub(super) at: usize,
    pub(super) start: Ns,
    pub(super) end: Ns,
    /// When the ops ahead of it on its stream have ended.
    free: Ns,
    pub(super) row: usize,
    pub(super) lane: usize,
}

/// A stream of a device.
#[derive(Debug, Clone, Default)]
struct Lane {
    device: usize,
    work_ns: i64,
    reach: Option<Ns>,
    running: u32,
    computing: u32,
    /// Time in which nothing but this stream works.
    alone_ns: i64,
    /// Time in which nothing but this stream computes.
    alone_computing_ns: i64,
}

/// What the sweep found.
#[derive(Debug)]
pub(super) struct Swept {
    pub(super) pieces: Vec<Piece>,
    pub(super) rows: Vec<Row>,
    /// Canonical names.
    pub(super) names: Names,
    /// How long the stages take.
    pub(super) times: Times,
    /// Time by which kernels began before those ahead of them on their stream had ended.
    pub(super) same_stream: Ns,
    /// The most streams of one device.
    pub(super) streams: usize,
    /// Time in which two streams or more of one device work.
    pub(super) overlapped_ns: i64,
}

impl Swept {
    /// Time with at least one op of the stage, per device.
    pub(super) fn busy_ns(&self, stage: Stage) -> i64 {
        self.times.of_stage(stage).busy.0
    }
}

/// Sweeps all ops of the view.
pub(super) fn sweep(view: &View, rules: &Rules) -> Swept {
    let mut table = Table::default();
    let mut same_stream = Ns::ZERO;
    for (at, stage, op) in view.ops() {
        let Some(row) = table.row(view, rules, stage, op.name, op.kind != crate::trace::OpKind::Kernel) else {
            continue;
        };
        let lane = table.lane(op.device.0, op.process, op.stream);
        let piece = Piece { at, start: op.start, end: op.end(), free: op.start, row, lane };
        same_stream += table.add(piece);
    }
    table.count_beside_main(view.trace.devices.len());
    let overlapped_ns = Passing::sweep(&mut table, view.trace.devices.len());
    let streams = table.most_streams(view.trace.devices.len());
    let (times, Table { pieces, rows, names, .. }) = (view.times().clone(), table);
    Swept { pieces, rows, names, times, same_stream, streams, overlapped_ns }
}

/// Rows and streams while they are numbered.
#[derive(Default)]
struct Table {
    pieces: Vec<Piece>,
    rows: Vec<Row>,
    names: Names,
    /// By name in the trace: the canonical one, once it was looked up.
    canonical: Vec<Option<NameId>>,
    /// By canonical name and stage.
    row_of: Vec<Option<usize>>,
    lanes: Vec<Lane>,
    lane_of: VecMap<(u32, ProcessId, i64), usize>,
}

impl Table {
    fn row(&mut self, view: &View, rules: &Rules, stage: Stage, name: NameId, moves_memory: bool) -> Option<usize> {
        self.canonical.resize(view.names.len(), None);
        let known = view.name(name)?;
        let names = &mut self.names;
        let canonical = *self.canonical.get_mut(name.0 as usize)?.get_or_insert_with(|| names.intern(&known.canonical));
        self.row_of.resize(self.names.len() * Stage::ALL.len(), None);
        let rows = &mut self.rows;
        let place = self.row_of.get_mut(canonical.0 as usize * Stage::ALL.len() + stage as usize)?;
        Some(*place.get_or_insert_with(|| {
            rows.push(Row {
                stage,
                name: canonical,
                first: name,
                class: rules.class(&known.category),
                moves_memory,
                launches: 0,
                duration_ns: 0,
                exclusive_ns: 0,
                exposed_ns: 0,
                hidden_by_compute_ns: 0,
                beside_copies_ns: 0,
                beside_main_ns: 0,
                hidden_by: VecMap::new(),
            });
            rows.len() - 1
        }))
    }

    fn lane(&mut self, device: u32, process: ProcessId, stream: i64) -> usize {
        let lanes = &mut self.lanes;
        let lane = self.lane_of.update((device, process, stream), usize::MAX, |lane| {
            if *lane == usize::MAX {
                *lane = lanes.len();
            }
            *lane
        });
        if lane == lanes.len() {
            lanes.push(Lane { device: device as usize, ..Lane::default() });
        }
        lane
    }

    /// Adds an op and tells for how long its stream was still busy when it began.
    fn add(&mut self, mut piece: Piece) -> Ns {
        let duration = piece.end.since(piece.start);
        let Some(lane) = self.lanes.get_mut(piece.lane) else { return Ns::ZERO };
        piece.free = lane.reach.map_or(piece.start, |reach| reach.max(piece.start)).min(piece.end);
        lane.reach = lane.reach.max(Some(piece.end));
        lane.work_ns = lane.work_ns.saturating_add(duration.0);
        if let Some(row) = self.rows.get_mut(piece.row) {
            row.launches += 1;
            row.duration_ns = row.duration_ns.saturating_add(duration.0);
        }
        self.pieces.push(piece);
        piece.free.since(piece.start)
    }

    fn count_beside_main(&mut self, devices: usize) {
        let mut main = vec![None; devices];
        for (at, lane) in self.lanes.iter().enumerate() {
            let Some(main) = main.get_mut(lane.device) else { continue };
            if main.is_none_or(|(most, _)| lane.work_ns > most) {
                *main = Some((lane.work_ns, at));
            }
        }
        for piece in &self.pieces {
            let device = self.lanes.get(piece.lane).map_or(0, |lane| lane.device);
            let is_main = main.get(device).is_some_and(|main| main.is_some_and(|(_, at)| at == piece.lane));
            if let Some(row) = self.rows.get_mut(piece.row).filter(|_| !is_main) {
                row.beside_main_ns = row.beside_main_ns.saturating_add(piece.end.since(piece.start).0);
            }
        }
    }

    fn most_streams(&self, devices: usize) -> usize {
        let mut streams = vec![0; devices];
        for lane in &self.lanes {
            if let Some(streams) = streams.get_mut(lane.device) {
                *streams += 1;
            }
        }
        streams.into_iter().max().unwrap_or(0)
    }
}

/// So many ops at once are looked at to tell which of them hides which; real traces have one or two a stream.
const LOOKED_AT: usize = 32;

/// The passing of time on one device.
#[derive(Default)]
struct Passing {
    now: Ns,
    /// When the running ops end, and when those that began early have their stream for themselves, the first on top;
    /// twice the place among the pieces, the odd ones for the latter.
    marks: BinaryHeap<Reverse<(Ns, usize)>>,
    /// How many streams work, and the sum of their places: of one stream, its place.
    working: (usize, usize),
    computing: (usize, usize),
    computing_ns: i64,
    overlapped_ns: i64,
    running: Vec<usize>,
}

impl Passing {
    /// Tells rows what they own and returns the time in which streams overlap.
    fn sweep(table: &mut Table, devices: usize) -> i64 {
        let mut passing: Vec<Self> = (0..devices).map(|_| Self::default()).collect();
        for at in 0..table.pieces.len() {
            let Some(piece) = table.pieces.get(at).copied().filter(|piece| piece.end > piece.start) else { continue };
            let device = table.lanes.get(piece.lane).map_or(0, |lane| lane.device);
            if let Some(passing) = passing.get_mut(device) {
                passing.start(table, at, piece);
            }
        }
        passing.iter_mut().for_each(|passing| passing.until(table, Ns(i64::MAX)));
        passing.iter().fold(0, |sum, passing| sum.saturating_add(passing.overlapped_ns))
    }

    fn start(&mut self, table: &mut Table, at: usize, piece: Piece) {
        self.until(table, piece.start);
        self.pass_to(table, piece.start);
        self.credit(table, piece, -1);
        self.marks.push(Reverse((piece.end, 2 * at)));
        if piece.free == piece.start {
            expose(table, piece, -1);
        } else if piece.free < piece.end {
            self.marks.push(Reverse((piece.free, 2 * at + 1)));
        }
        self.count(table, piece, true);
        if self.running.len() < LOOKED_AT {
            self.running.push(at);
        }
    }

    /// What ends at a moment is gone before something else starts in it.
    fn until(&mut self, table: &mut Table, time: Ns) {
        while let Some(&Reverse((mark, twice))) = self.marks.peek()
            && mark <= time
        {
            self.pass_to(table, mark);
            self.marks.pop();
            let Some(piece) = table.pieces.get(twice / 2).copied() else { continue };
            if twice % 2 == 1 {
                expose(table, piece, -1);
                continue;
            }
            if piece.free < piece.end {
                expose(table, piece, 1);
            }
            self.credit(table, piece, 1);
            self.count(table, piece, false);
            self.running.retain(|running| *running != twice / 2);
        }
    }

    fn pass_to(&mut self, table: &mut Table, time: Ns) {
        let passed = time.since(self.now).0;
        self.now = time;
        if passed == 0 || self.working.0 == 0 {
            return;
        }
        if self.working.0 > 1 {
            self.overlapped_ns = self.overlapped_ns.saturating_add(passed);
            self.tell_what_hides(table, passed);
        } else if let Some(lane) = table.lanes.get_mut(self.working.1) {
            lane.alone_ns = lane.alone_ns.wrapping_add(passed);
        }
        if self.computing.0 > 0 {
            self.computing_ns = self.computing_ns.wrapping_add(passed);
        }
        if let (1, Some(lane)) = (self.computing.0, table.lanes.get_mut(self.computing.1)) {
            lane.alone_computing_ns = lane.alone_computing_ns.wrapping_add(passed);
        }
    }

    /// The running totals at the end of an op less those at its start are what passed in between.
    fn credit(&self, table: &mut Table, piece: Piece, sign: i64) {
        let (Some(lane), Some(row)) = (table.lanes.get(piece.lane), table.rows.get_mut(piece.row)) else { return };
        let beside_compute = self.computing_ns.wrapping_sub(lane.alone_computing_ns);
        row.exclusive_ns = row.exclusive_ns.wrapping_add(sign.wrapping_mul(lane.alone_ns));
        row.hidden_by_compute_ns = row.hidden_by_compute_ns.wrapping_add(sign.wrapping_mul(beside_compute));
    }

    fn count(&mut self, table: &mut Table, piece: Piece, begins: bool) {
        let computes = table.rows.get(piece.row).is_some_and(|row| row.class == Class::Compute);
        let Some(lane) = table.lanes.get_mut(piece.lane) else { return };
        change(&mut lane.running, &mut self.working, piece.lane, begins);
        if computes {
            change(&mut lane.computing, &mut self.computing, piece.lane, begins);
        }
    }

    /// Every running op is hidden by the weightiest of another stream: that is the weightiest of all, but for the ops
    /// of its own stream, which the weightiest of the others hides.
    fn tell_what_hides(&self, table: &mut Table, passed: i64) {
        let weight = |at: &usize| {
            let piece = table.pieces.get(*at)?;
            let row = table.rows.get(piece.row)?;
            let length = piece.end.since(piece.start);
            Some((row.class, length, Reverse(*at), piece.lane, piece.row, row.name, row.moves_memory))
        };
        let most = |not_on: Option<usize>| {
            self.running.iter().filter_map(weight).filter(|weight| Some(weight.3) != not_on).max()
        };
        let Some(first) = most(None) else { return };
        let second = most(Some(first.3));
        let running: Vec<_> = self.running.iter().filter_map(weight).collect();
        for (_, _, _, lane, row, ..) in running {
            let hides = if lane == first.3 { second } else { Some(first) };
            if let (Some((.., name, is_copy)), Some(row)) = (hides, table.rows.get_mut(row)) {
                row.hidden_by.update(name, 0, |time| *time = time.saturating_add(passed));
                let beside_copies_ns = if is_copy { passed } else { 0 };
                row.beside_copies_ns = row.beside_copies_ns.saturating_add(beside_copies_ns);
            }
        }
    }
}

fn expose(table: &mut Table, piece: Piece, sign: i64) {
    if let (Some(lane), Some(row)) = (table.lanes.get(piece.lane), table.rows.get_mut(piece.row)) {
        row.exposed_ns = row.exposed_ns.wrapping_add(sign.wrapping_mul(lane.alone_ns));
    }
}

/// Counts an op in or out of its stream, and the stream in or out of those with any.
fn change(ops: &mut u32, streams: &mut (usize, usize), lane: usize, begins: bool) {
    if !begins {
        *ops -= 1;
    }
    if *ops == 0 {
        *streams = if begins { (streams.0 + 1, streams.1 + lane) } else { (streams.0 - 1, streams.1 - lane) };
    }
    if begins {
        *ops += 1;
    }
}
