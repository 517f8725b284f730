//! How long kernels ran, by process, device and name: sums, and the durations themselves for exact percentiles.

use super::select::percentiles;
use super::stats::Tally;
use crate::analysis::groups::{Group, Groups};
use crate::ordering::{InOrder, order};
use crate::trace::{DeviceId, NameId, Ns, OpKind, ProcessId, Trace};
use std::ops::Range;

/// The kernels of one name, process and device.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) process: ProcessId,
    pub(super) device: DeviceId,
    pub(super) name: NameId,
    /// Its key says nothing.
    pub(super) tally: Tally,
    /// First start and last end.
    pub(super) window: (Ns, Ns),
    /// Where its durations stand.
    durations: Range<usize>,
}

/// All kernels of a trace.
#[derive(Debug)]
pub(super) struct KernelTimes {
    /// Process by process.
    pub(super) cells: Vec<Cell>,
}

/// Durations of kernels: four bytes each, so whoever needs them does not keep them.
#[derive(Debug)]
pub(super) struct Durations {
    /// Cell by cell, [`LONG`] for one that does not fit.
    short: Vec<u32>,
    /// Place in `short` and duration of those.
    long: Vec<(usize, i64)>,
}

const LONG: u32 = u32::MAX;

impl KernelTimes {
    /// What they sum up to, and the group of ops that each cell was made of, by group.
    fn with_cells(trace: &Trace, groups: Option<&Groups>) -> (Self, Vec<usize>) {
        let (mut cells, cell_of_group) = match groups {
            Some(known) => cells(&known.groups),
            None => cells(&Groups::of(trace, None).groups),
        };
        let mut all = 0;
        for cell in &mut cells {
            cell.durations = all..all + cell.tally.count as usize;
            all = cell.durations.end;
        }
        (Self { cells }, cell_of_group)
    }

    pub(super) fn of(trace: &Trace, groups: Option<&Groups>) -> Self {
        Self::with_cells(trace, groups).0
    }

    /// The same, and the durations themselves.
    pub(super) fn with_durations(trace: &Trace, groups: Option<&Groups>) -> (Self, Durations) {
        let (times, cell_of_group) = Self::with_cells(trace, groups);
        let durations = Durations::of(trace, &times.cells, &cell_of_group);
        (times, durations)
    }

    /// Sum of all durations.
    pub(super) fn total(&self) -> Ns {
        self.cells.iter().fold(Ns::ZERO, |sum, cell| sum + cell.tally.total)
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.cells.iter().map(|cell| cell.tally.count).sum()
    }
}

impl Durations {
    fn of(trace: &Trace, cells: &[Cell], cell_of_group: &[usize]) -> Self {
        let mut next: Vec<usize> = cells.iter().map(|cell| cell.durations.start).collect();
        let all = cells.last().map_or(0, |cell| cell.durations.end);
        let (mut durations, mut long) = (vec![0; all], Vec::new());
        trace.gpu_ops.each_grouped(trace.names.len(), 0..trace.gpu_ops.len(), |op| {
            let cell = cell_of_group.get(op.group as usize).copied().unwrap_or(usize::MAX);
            let Some(at) = next.get_mut(cell) else { return };
            let short = u32::try_from(op.duration.0).ok().filter(|short| *short != LONG);
            if short.is_none() {
                long.push((*at, op.duration.0));
            }
            durations.get_mut(*at).into_iter().for_each(|slot| *slot = short.unwrap_or(LONG));
            *at += 1;
        });
        long.order_by_key(|(at, _)| *at);
        Self { short: durations, long }
    }

    /// The durations of a cell's kernels, [`LONG`] for those of more than four seconds.
    pub(super) fn of_cell(&self, cell: &Cell) -> &[u32] {
        self.short.get(cell.durations.clone()).unwrap_or_default()
    }

    /// Median and 90th and 99th percentile of the durations of these cells, in nanoseconds; `None` of none.
    pub(super) fn percentiles_ns(&self, cells: &mut dyn Iterator<Item = &Cell>) -> [Option<f64>; 3] {
        let (mut pieces, mut long) = (Vec::new(), Vec::new());
        for cell in cells {
            pieces.push(self.of_cell(cell));
            let first = self.long.partition_point(|(at, _)| *at < cell.durations.start);
            let of_cell = self.long.iter().skip(first).take_while(|(at, _)| *at < cell.durations.end);
            long.extend(of_cell.map(|(_, long)| *long));
        }
        let shorts = pieces.iter().map(|piece| piece.len()).sum::<usize>() - long.len();
        let found = percentiles(&pieces, shorts, long, &[50, 90, 99]);
        [0, 1, 2].map(|at| found.get(at).copied().flatten())
    }
}

/// The cells of all kernels, process by process, and the cell of each group.
fn cells(groups: &[Group]) -> (Vec<Cell>, Vec<usize>) {
    let key = |at: usize| groups.get(at).map(|group| (group.process, group.device, group.name));
    let places = order(groups.len(), &|a, b| key(a).cmp(&key(b)));
    let mut cells: Vec<Cell> = Vec::new();
    let mut cell_of_group = vec![usize::MAX; groups.len()];
    for at in places {
        let Some(group) = groups.get(at).filter(|group| group.kind == OpKind::Kernel) else { continue };
        let &Group { process, device, name, .. } = group;
        if cells.last().is_none_or(|last| (last.process, last.device, last.name) != (process, device, name)) {
            let window = (group.first, group.last);
            cells.push(Cell { process, device, name, tally: Tally::default(), window, durations: 0..0 });
        }
        cell_of_group.get_mut(at).into_iter().for_each(|cell| *cell = cells.len() - 1);
        if let Some(cell) = cells.last_mut() {
            cell.tally.merge(&tally(group));
            cell.window = (cell.window.0.min(group.first), cell.window.1.max(group.last));
        }
    }
    (cells, cell_of_group)
}

fn tally(group: &Group) -> Tally {
    let &Group { count, total, shortest, longest, .. } = group;
    Tally { count, total, shortest, longest, ..Tally::default() }
}
