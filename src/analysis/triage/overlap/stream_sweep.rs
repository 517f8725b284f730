//! Sweep line over the streams of each device: per canonical name and stage, the time in which no other stream works (exclusive),
//! the rest (hidden), and the names of the ops that hide it. O(n log n), independent of the number of concurrent ops.
//!
//! Running totals grow with time, such as the time in which only a given stream works. An op adds the difference between the totals
//! at its end and at its start. Two kernels of one stream may run at the same time (a programmatic dependent launch starts before
//! the previous kernel ends); they do not hide each other.

use super::rules::{Class, Rules};
use crate::analysis::triage::times::Times;
use crate::analysis::triage::{Stage, View};
use crate::ordering::VecMap;
use crate::trace::{NameId, Names, Ns, OpKind, ProcessId};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// All ops of one canonical name in one stage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct SweepRow {
    pub(super) stage: Stage,
    /// Canonical name, an index of [`Sweep::names`].
    pub(super) name: NameId,
    /// Name of its first op, an index of the names of the trace.
    pub(super) first: NameId,
    pub(super) class: Class,
    /// True if its ops are copies or sets, which do not occupy the SMs.
    pub(super) moves_memory: bool,
    pub(super) launches: u64,
    pub(super) duration_ns: i64,
    /// See [`View::elapsed`].
    pub(super) elapsed_ns: i64,
    /// Time of its ops in which no other stream of the device works.
    pub(super) exclusive_ns: i64,
    /// Like `exclusive_ns`, but concurrent kernels of one stream count only for the one that started first, so that the sum
    /// over rows never exceeds the busy time.
    pub(super) exposed_ns: i64,
    /// Time in which another stream runs a compute kernel.
    pub(super) hidden_by_compute_ns: i64,
    /// Time hidden only by copies and sets, which do not occupy the SMs.
    pub(super) hidden_by_copies_ns: i64,
    /// Time on streams other than the main one, the stream of the device with the most work except communication.
    pub(super) off_main_stream_ns: i64,
    /// Hidden time by the name of the op that hides it; of several concurrent ops the heaviest class, then the longest op.
    pub(super) hidden_by: VecMap<NameId, i64>,
}

impl SweepRow {
    pub(super) fn hidden_ns(&self) -> i64 {
        self.duration_ns.saturating_sub(self.exclusive_ns)
    }

    /// The name that hides it for the longest time.
    pub(super) fn mostly_hidden_by(&self) -> Option<NameId> {
        self.hidden_by.iter().max_by_key(|(name, time)| (*time, Reverse(*name))).map(|(name, _)| *name)
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct OpInterval {
    pub(super) index: usize,
    pub(super) start: Ns,
    pub(super) end: Ns,
    /// When the previous ops on its stream have ended; between `start` and `end`.
    stream_free: Ns,
    pub(super) row: usize,
    pub(super) stream: usize,
}

/// A stream of a device during the sweep.
#[derive(Debug, Clone, Default)]
struct StreamState {
    device: usize,
    work_ns: i64,
    /// The latest end of its ops so far.
    max_end: Option<Ns>,
    running: u32,
    computing: u32,
    /// Time in which only this stream works.
    alone_ns: i64,
    /// Time in which only this stream computes.
    alone_computing_ns: i64,
}

#[derive(Debug)]
pub(super) struct Sweep {
    /// All ops, sorted by start.
    pub(super) ops: Vec<OpInterval>,
    pub(super) rows: Vec<SweepRow>,
    pub(super) names: Names,
    /// Busy and wall times of the stages.
    pub(super) times: Times,
    /// Time by which kernels started before the previous ones on their stream had ended.
    pub(super) same_stream_overlap: Ns,
    /// The largest number of streams of one device.
    pub(super) streams: usize,
    /// Time in which at least two streams of a device work.
    pub(super) overlapped_ns: i64,
}

impl Sweep {
    /// Time with at least one op of the stage, per device.
    pub(super) fn busy_ns(&self, stage: Stage) -> i64 {
        self.times.of_stage(stage).busy.0
    }
}

pub(super) fn sweep(view: &View, rules: &Rules) -> Sweep {
    let devices = view.trace.devices.len();
    let mut table = Table::default();
    let mut same_stream_overlap = Ns::ZERO;
    for (index, stage, op) in view.ops() {
        let Some(row) = table.row(view, rules, stage, op.name, op.kind != OpKind::Kernel) else {
            continue;
        };
        let stream = table.stream(op.device.0, op.process, op.stream);
        let op = OpInterval { index, start: op.start, end: op.end(), stream_free: op.start, row, stream };
        same_stream_overlap += table.add(op, view.elapsed(index));
    }
    table.sum_off_main_stream(devices);
    let overlapped_ns = DeviceSweep::run(&mut table, devices);
    let streams = table.max_streams();
    let (times, Table { ops, rows, names, .. }) = (view.times().clone(), table);
    Sweep { ops, rows, names, times, same_stream_overlap, streams, overlapped_ns }
}

/// Rows, streams and ops during the sweep.
#[derive(Default)]
struct Table {
    ops: Vec<OpInterval>,
    rows: Vec<SweepRow>,
    names: Names,
    /// Canonical name by name of the trace, filled on first use.
    canonical: Vec<Option<NameId>>,
    /// Row by canonical name and stage.
    row_of: Vec<Option<usize>>,
    streams: Vec<StreamState>,
    stream_of: VecMap<(u32, ProcessId, i64), usize>,
}

impl Table {
    fn row(&mut self, view: &View, rules: &Rules, stage: Stage, name: NameId, moves_memory: bool) -> Option<usize> {
        self.canonical.resize(view.names.len(), None);
        let info = view.name(name)?;
        let names = &mut self.names;
        let canonical = *self.canonical.get_mut(name.0 as usize)?.get_or_insert_with(|| names.intern(&info.canonical));
        self.row_of.resize(self.names.len() * Stage::ALL.len(), None);
        let rows = &mut self.rows;
        let row = self.row_of.get_mut(canonical.0 as usize * Stage::ALL.len() + stage as usize)?;
        Some(*row.get_or_insert_with(|| {
            rows.push(SweepRow {
                stage,
                name: canonical,
                first: name,
                class: rules.class(&info.category),
                moves_memory,
                launches: 0,
                duration_ns: 0,
                elapsed_ns: 0,
                exclusive_ns: 0,
                exposed_ns: 0,
                hidden_by_compute_ns: 0,
                hidden_by_copies_ns: 0,
                off_main_stream_ns: 0,
                hidden_by: VecMap::new(),
            });
            rows.len() - 1
        }))
    }

    fn stream(&mut self, device: u32, process: ProcessId, stream: i64) -> usize {
        let next = self.streams.len();
        let index = self.stream_of.update((device, process, stream), next, |index| *index);
        if index == next {
            self.streams.push(StreamState { device: device as usize, ..StreamState::default() });
        }
        index
    }

    /// Adds an op with its part of the busy time; returns for how long its stream was still busy after its start.
    fn add(&mut self, mut op: OpInterval, elapsed: Ns) -> Ns {
        let duration = op.end.since(op.start);
        let Some(stream) = self.streams.get_mut(op.stream) else { return Ns::ZERO };
        op.stream_free = stream.max_end.map_or(op.start, |end| end.max(op.start)).min(op.end);
        stream.max_end = stream.max_end.max(Some(op.end));
        if let Some(row) = self.rows.get_mut(op.row) {
            // Communication does not make a stream the main one: long collectives often wait.
            if row.class != Class::Communication {
                stream.work_ns = stream.work_ns.saturating_add(duration.0);
            }
            row.launches += 1;
            row.duration_ns = row.duration_ns.saturating_add(duration.0);
            row.elapsed_ns = row.elapsed_ns.saturating_add(elapsed.0);
        }
        self.ops.push(op);
        op.stream_free.since(op.start)
    }

    fn sum_off_main_stream(&mut self, devices: usize) {
        let mut main_streams = vec![None; devices];
        for (index, stream) in self.streams.iter().enumerate() {
            let Some(main) = main_streams.get_mut(stream.device) else { continue };
            if main.is_none_or(|(max_ns, _)| stream.work_ns > max_ns) {
                *main = Some((stream.work_ns, index));
            }
        }
        for op in &self.ops {
            let device = self.streams.get(op.stream).map_or(0, |stream| stream.device);
            let main = main_streams.get(device).copied().flatten();
            let is_on_main = main.is_some_and(|(_, index)| index == op.stream);
            if let Some(row) = self.rows.get_mut(op.row).filter(|_| !is_on_main) {
                row.off_main_stream_ns = row.off_main_stream_ns.saturating_add(op.end.since(op.start).0);
            }
        }
    }

    /// The largest number of streams of one device.
    fn max_streams(&self) -> usize {
        let mut devices: Vec<usize> = self.streams.iter().map(|stream| stream.device).collect();
        devices.sort_unstable();
        devices.chunk_by(|a, b| a == b).map(<[_]>::len).max().unwrap_or(0)
    }
}

/// At most this many concurrent ops are considered as hiding others. Real traces have one or two per stream.
const MAX_TRACKED_OPS: usize = 32;

/// The state of the sweep on one device.
#[derive(Default)]
struct DeviceSweep {
    now: Ns,
    /// Future events, earliest first. `2 * op` is the end of an op, `2 * op + 1` the time at which the previous ops on its
    /// stream have ended.
    events: BinaryHeap<Reverse<(Ns, usize)>>,
    working: ActiveStreams,
    computing: ActiveStreams,
    computing_ns: i64,
    overlapped_ns: i64,
    /// Indices of at most `MAX_TRACKED_OPS` running ops.
    running: Vec<usize>,
}

/// The streams that are currently active.
#[derive(Clone, Copy, Default)]
struct ActiveStreams {
    count: usize,
    /// The sum of their indices: if only one is active, its index.
    index_sum: usize,
}

impl DeviceSweep {
    /// Adds the times to the rows of the table; returns the time in which streams overlap.
    fn run(table: &mut Table, devices: usize) -> i64 {
        let mut sweeps: Vec<Self> = (0..devices).map(|_| Self::default()).collect();
        for index in 0..table.ops.len() {
            let Some(op) = table.ops.get(index).copied().filter(|op| op.end > op.start) else { continue };
            let device = table.streams.get(op.stream).map_or(0, |stream| stream.device);
            if let Some(sweep) = sweeps.get_mut(device) {
                sweep.start_op(table, index, op);
            }
        }
        sweeps.iter_mut().for_each(|sweep| sweep.process_events(table, Ns(i64::MAX)));
        sweeps.iter().fold(0, |sum, sweep| sum.saturating_add(sweep.overlapped_ns))
    }

    fn start_op(&mut self, table: &mut Table, index: usize, op: OpInterval) {
        self.process_events(table, op.start);
        self.advance(table, op.start);
        self.add_totals(table, op, -1);
        self.events.push(Reverse((op.end, 2 * index)));
        if op.stream_free == op.start {
            add_exposed(table, op, -1);
        } else if op.stream_free < op.end {
            self.events.push(Reverse((op.stream_free, 2 * index + 1)));
        }
        self.count(table, op, true);
        if self.running.len() < MAX_TRACKED_OPS {
            self.running.push(index);
        }
    }

    /// Processes all events up to `time`. Ops that end at a time are removed before others start at the same time.
    fn process_events(&mut self, table: &mut Table, time: Ns) {
        while let Some(&Reverse((event_time, event))) = self.events.peek()
            && event_time <= time
        {
            self.advance(table, event_time);
            self.events.pop();
            let index = event / 2;
            let Some(op) = table.ops.get(index).copied() else { continue };
            if event % 2 == 1 {
                add_exposed(table, op, -1);
                continue;
            }
            if op.stream_free < op.end {
                add_exposed(table, op, 1);
            }
            self.add_totals(table, op, 1);
            self.count(table, op, false);
            self.running.retain(|running| *running != index);
        }
    }

    /// Advances the clock and adds the elapsed time to the running totals.
    fn advance(&mut self, table: &mut Table, time: Ns) {
        let elapsed_ns = time.since(self.now).0;
        self.now = time;
        if elapsed_ns == 0 || self.working.count == 0 {
            return;
        }
        if self.working.count > 1 {
            self.overlapped_ns = self.overlapped_ns.saturating_add(elapsed_ns);
            self.add_hidden(table, elapsed_ns);
        } else if let Some(stream) = table.streams.get_mut(self.working.index_sum) {
            stream.alone_ns = stream.alone_ns.wrapping_add(elapsed_ns);
        }
        if self.computing.count > 0 {
            self.computing_ns = self.computing_ns.wrapping_add(elapsed_ns);
        }
        if let (1, Some(stream)) = (self.computing.count, table.streams.get_mut(self.computing.index_sum)) {
            stream.alone_computing_ns = stream.alone_computing_ns.wrapping_add(elapsed_ns);
        }
    }

    /// Adds the running totals at the end of an op to its row (`sign` 1), or subtracts those at its start (`sign` -1).
    fn add_totals(&self, table: &mut Table, op: OpInterval, sign: i64) {
        let (Some(stream), Some(row)) = (table.streams.get(op.stream), table.rows.get_mut(op.row)) else { return };
        let others_computing_ns = self.computing_ns.wrapping_sub(stream.alone_computing_ns);
        row.exclusive_ns = row.exclusive_ns.wrapping_add(sign.wrapping_mul(stream.alone_ns));
        row.hidden_by_compute_ns = row.hidden_by_compute_ns.wrapping_add(sign.wrapping_mul(others_computing_ns));
    }

    /// Counts an op that starts or ends.
    fn count(&mut self, table: &mut Table, op: OpInterval, is_start: bool) {
        let is_compute = table.rows.get(op.row).is_some_and(|row| row.class == Class::Compute);
        let Some(stream) = table.streams.get_mut(op.stream) else { return };
        self.working.count_op(&mut stream.running, op.stream, is_start);
        if is_compute {
            self.computing.count_op(&mut stream.computing, op.stream, is_start);
        }
    }

    /// Adds hidden time to the rows of all running ops. Each op is hidden by the heaviest op of the other streams: the heaviest
    /// of all, or for ops on the stream of that one, the heaviest of the remaining streams.
    fn add_hidden(&self, table: &mut Table, elapsed_ns: i64) {
        let weight = |index: &usize| {
            let op = table.ops.get(*index)?;
            let row = table.rows.get(op.row)?;
            let length = op.end.since(op.start);
            Some((row.class, length, Reverse(*index), op.stream, op.row, row.name, row.moves_memory))
        };
        let heaviest = |excluded_stream: Option<usize>| {
            self.running.iter().filter_map(weight).filter(|weight| Some(weight.3) != excluded_stream).max()
        };
        let Some(first) = heaviest(None) else { return };
        let second = heaviest(Some(first.3));
        let running: Vec<_> = self.running.iter().filter_map(weight).collect();
        for (_, _, _, stream, row, ..) in running {
            let hiding = if stream == first.3 { second } else { Some(first) };
            if let (Some((.., name, is_copy)), Some(row)) = (hiding, table.rows.get_mut(row)) {
                row.hidden_by.update(name, 0, |time| *time = time.saturating_add(elapsed_ns));
                let by_copies_ns = if is_copy { elapsed_ns } else { 0 };
                row.hidden_by_copies_ns = row.hidden_by_copies_ns.saturating_add(by_copies_ns);
            }
        }
    }
}

/// Adds the total of the op's stream to the exposed time of its row, or subtracts it.
fn add_exposed(table: &mut Table, op: OpInterval, sign: i64) {
    if let (Some(stream), Some(row)) = (table.streams.get(op.stream), table.rows.get_mut(op.row)) {
        row.exposed_ns = row.exposed_ns.wrapping_add(sign.wrapping_mul(stream.alone_ns));
    }
}

impl ActiveStreams {
    /// Updates the number of active ops of a stream; the stream is active while it has any.
    fn count_op(&mut self, active_ops: &mut u32, stream: usize, is_start: bool) {
        if is_start {
            if *active_ops == 0 {
                self.count += 1;
                self.index_sum += stream;
            }
            *active_ops += 1;
        } else {
            *active_ops -= 1;
            if *active_ops == 0 {
                self.count -= 1;
                self.index_sum -= stream;
            }
        }
    }
}
