//! How long kernels ran, by process, device and name: sums, and the durations themselves for exact percentiles.

use super::select::Numbers;
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
    /// Durations cell by cell, four bytes a kernel: [`LONG`] for one that does not fit.
    durations: Vec<u32>,
    /// Place in `durations` and duration of those.
    long: Vec<(usize, i64)>,
}

const LONG: u32 = u32::MAX;

impl KernelTimes {
    pub(super) fn of(trace: &Trace) -> Self {
        let Groups { groups, of_op } = Groups::of(trace);
        let (mut cells, cell_of_group) = cells(&groups);
        let mut next = Vec::with_capacity(cells.len());
        let mut all = 0;
        for cell in &mut cells {
            next.push(all);
            cell.durations = all..all + cell.tally.count as usize;
            all = cell.durations.end;
        }
        let (mut durations, mut long) = (vec![0; all], Vec::new());
        for ((_, duration), group) in trace.gpu_ops.times().zip(of_op) {
            let cell = cell_of_group.get(group as usize).copied().unwrap_or(usize::MAX);
            let Some(at) = next.get_mut(cell) else { continue };
            let short = u32::try_from(duration.0).ok().filter(|short| *short != LONG);
            if short.is_none() {
                long.push((*at, duration.0));
            }
            durations.get_mut(*at).into_iter().for_each(|slot| *slot = short.unwrap_or(LONG));
            *at += 1;
        }
        long.order_by_key(|(at, _)| *at);
        Self { cells, durations, long }
    }

    /// Sum of all durations.
    pub(super) fn total(&self) -> Ns {
        self.cells.iter().fold(Ns::ZERO, |sum, cell| sum + cell.tally.total)
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.cells.iter().map(|cell| cell.tally.count).sum()
    }

    /// The durations of a cell's kernels, [`LONG`] for those of more than four seconds.
    pub(super) fn durations(&self, cell: &Cell) -> &[u32] {
        self.durations.get(cell.durations.clone()).unwrap_or_default()
    }

    /// Median and 90th and 99th percentile of the durations of all cells that are meant, in nanoseconds; `None` of none.
    pub(super) fn percentiles_ns(&self, is_meant: &dyn Fn(&Cell) -> bool) -> [Option<f64>; 3] {
        let mut numbers = Numbers::default();
        for cell in self.cells.iter().filter(|cell| is_meant(cell)) {
            numbers.short.extend_from_slice(self.durations(cell));
            let first = self.long.partition_point(|(at, _)| *at < cell.durations.start);
            let long = self.long.iter().skip(first).take_while(|(at, _)| *at < cell.durations.end);
            numbers.long.extend(long.map(|(_, long)| *long));
        }
        if !numbers.long.is_empty() {
            numbers.short.retain(|short| *short != LONG);
        }
        let found = numbers.percentiles(&[50, 90, 99]);
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
