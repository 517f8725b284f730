//! How long kernels ran, by process, device and name: sums, and the durations themselves for exact percentiles.

use crate::analysis::context::Context;
use crate::analysis::index::{Inside, Part, Piece, parts};
use crate::analysis::kernels::groups::{Group, Groups};
use crate::analysis::measure::percentiles::Numbers;
use crate::analysis::measure::tally::Tally;
use crate::ordering::order;
use crate::trace::{DeviceId, NameId, Ns, OpKind, Places, ProcessId, Trace};
use foldhash::fast::RandomState;
use std::borrow::Cow;
use std::collections::HashMap;

/// The kernels of one name, process and device.
#[derive(Debug)]
pub(crate) struct Cell {
    pub(crate) process: ProcessId,
    pub(crate) device: DeviceId,
    pub(crate) name: NameId,
    /// Its key says nothing.
    pub(crate) tally: Tally,
    /// First start and last end.
    pub(crate) window: (Ns, Ns),
    /// Its place among the cells.
    at: usize,
}

/// All kernels of a trace.
#[derive(Debug)]
pub(crate) struct KernelTimes {
    /// Process by process.
    pub(crate) cells: Vec<Cell>,
}

impl KernelTimes {
    pub(crate) fn of(trace: &Trace, groups: Option<&Groups>) -> Self {
        let cells = match groups {
            Some(known) => cells(&known.groups),
            None => cells(&Groups::of(trace, None).groups),
        };
        Self { cells }
    }

    /// Sum of all durations.
    pub(crate) fn total(&self) -> Ns {
        self.cells.iter().fold(Ns::ZERO, |sum, cell| sum + cell.tally.total)
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.cells.iter().map(|cell| cell.tally.count).sum()
    }
}

/// The limits that `pct_under_5us` and its neighbours speak of.
const UNDER_NS: [i64; 3] = [5_000, 10_000, 20_000];

/// Kernels that are short.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Short {
    /// How many are shorter than each of [`UNDER_NS`].
    pub(crate) under: [u64; 3],
    /// How many are tiny, and their time.
    pub(crate) tiny: (u64, Ns),
}

impl Short {
    fn of(durations: &Numbers, tiny_ns: i64) -> Self {
        let mut short = Self::default();
        for duration in durations.iter() {
            short.under.iter_mut().zip(UNDER_NS).for_each(|(count, limit)| *count += u64::from(duration < limit));
            if duration <= tiny_ns {
                short.tiny.0 += 1;
                short.tiny.1 += Ns(duration);
            }
        }
        short
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.under.iter_mut().zip(more.under).for_each(|(sum, more)| *sum += more);
        self.tiny = (self.tiny.0 + more.tiny.0, self.tiny.1 + more.tiny.1);
    }
}

/// How long each of some kernels ran: four bytes each, so whoever needs them of all does not keep them.
#[derive(Debug)]
pub struct Ran {
    /// By group of these ops.
    groups: Vec<(Numbers, Short)>,
    /// Of each process all of them, of a piece alone.
    processes: Vec<(ProcessId, Numbers)>,
}

impl Ran {
    /// Of the ops at these places, of which these are all the groups.
    fn of(context: &Context, places: &Places, groups: &Groups) -> Self {
        let is_kernel = |group: &Group| group.kind == OpKind::Kernel;
        let room = |group: &Group| Numbers::with_room(if is_kernel(group) { group.count as usize } else { 0 });
        let mut durations: Vec<Numbers> = groups.groups.iter().map(room).collect();
        context.trace.gpu_ops.for_each_grouped(context.trace.names.len(), places, |op| {
            let of_group = groups.groups.get(op.group as usize).filter(|group| is_kernel(group));
            let durations = of_group.and_then(|_| durations.get_mut(op.group as usize));
            durations.into_iter().for_each(|durations| durations.push(op.duration.0));
        });
        let tiny_ns = (context.signals.thresholds.tiny_kernel_us * 1e3) as i64;
        let groups = durations.into_iter().map(|durations| {
            let short = Short::of(&durations, tiny_ns);
            (durations, short)
        });
        Self { groups: groups.collect(), processes: Vec::new() }
    }

    /// The same of a piece, which is asked for again and again.
    pub(crate) fn of_piece(context: &Context, places: &Places, groups: &Groups) -> Self {
        let mut ran = Self::of(context, places, groups);
        for (group, (durations, _)) in groups.groups.iter().zip(&mut ran.groups) {
            let known = ran.processes.iter().position(|(process, _)| *process == group.process);
            let at = known.unwrap_or_else(|| {
                ran.processes.push((group.process, Numbers::default()));
                ran.processes.len() - 1
            });
            if let Some((_, all)) = ran.processes.get_mut(at) {
                durations.iter().for_each(|duration| all.push(duration));
            }
            durations.sort();
        }
        ran.processes.iter_mut().for_each(|(_, all)| all.sort());
        ran
    }
}

/// The ops at these places, with their groups: those of a whole trace are mostly known, and what is asked for once need not be sorted.
fn measured<'a>(context: &Context<'a>, places: &Places) -> (Cow<'a, Groups>, Ran) {
    let is_whole = context.inside().is_none();
    let known = context.groups.filter(|_| is_whole);
    let groups = known.map_or_else(|| Cow::Owned(Groups::at(context.trace, places)), Cow::Borrowed);
    let ran = if is_whole { Ran::of(context, places, &groups) } else { Ran::of_piece(context, places, &groups) };
    (groups, ran)
}

/// The durations of a trace's kernels.
#[derive(Debug)]
pub(crate) struct Durations<'a> {
    edges: Vec<(Cow<'a, Groups>, Ran)>,
    pieces: Vec<(&'a Piece, &'a Inside<'a>)>,
    /// Of each cell the places of its groups, among these and in one of them.
    groups: Vec<Vec<(u32, u32)>>,
    short: Vec<Short>,
}

impl<'a> Durations<'a> {
    pub(crate) fn of(context: &Context<'a>, cells: &[Cell]) -> Self {
        let parts = parts(context.trace, context.inside());
        let mut durations = Self {
            edges: parts.iter().filter_map(Part::edge).map(|places| measured(context, places)).collect(),
            pieces: parts.iter().filter_map(Part::piece).collect(),
            groups: vec![Vec::new(); cells.len()],
            short: vec![Short::default(); cells.len()],
        };
        durations.sort_into(cells);
        durations
    }

    /// Tells the cells their groups.
    fn sort_into(&mut self, cells: &[Cell]) {
        let key = |cell: &Cell| (cell.process, cell.device, cell.name);
        let known: HashMap<_, usize, RandomState> = cells.iter().map(|cell| (key(cell), cell.at)).collect();
        let edges = self.edges.iter().map(|(groups, ran)| (&**groups, ran, None));
        let pieces = self.pieces.iter().map(|(piece, inside)| (&piece.groups, &piece.ran, Some(*inside)));
        for (at, (groups, ran, inside)) in (0..).zip(edges.chain(pieces)) {
            for ((group, (_, short)), place) in groups.groups.iter().zip(&ran.groups).zip(0..) {
                let name = inside.map_or(group.name, |inside| inside.name(group.name));
                let is_kernel = group.kind == OpKind::Kernel;
                let cell = known.get(&(group.process, group.device, name)).filter(|_| is_kernel);
                let Some(cell) = cell.copied() else { continue };
                self.short.get_mut(cell).into_iter().for_each(|sum| sum.add(*short));
                self.groups.get_mut(cell).into_iter().for_each(|groups| groups.push((at, place)));
            }
        }
    }

    /// What of the cell's kernels is short.
    pub(crate) fn short(&self, cell: &Cell) -> Short {
        self.short.get(cell.at).copied().unwrap_or_default()
    }

    fn all(&self) -> impl Iterator<Item = &Ran> {
        self.edges.iter().map(|(_, ran)| ran).chain(self.pieces.iter().map(|(piece, _)| &piece.ran))
    }

    /// Median and 90th and 99th percentile of the durations of these cells, in nanoseconds; `None` of none.
    pub(crate) fn percentiles_ns(&self, cells: &mut dyn Iterator<Item = &Cell>) -> Percentiles {
        let all: Vec<&Ran> = self.all().collect();
        let places = cells.filter_map(|cell| self.groups.get(cell.at)).flatten();
        let of_group = |(ran, group): &(u32, u32)| Some(&all.get(*ran as usize)?.groups.get(*group as usize)?.0);
        let found: Vec<&Numbers> = places.filter_map(of_group).collect();
        percentiles(&found)
    }

    /// The same of all kernels of a process, or of all; `cells` are all there are.
    pub(crate) fn percentiles_of_process_ns(&self, cells: &[Cell], process: Option<ProcessId>) -> Percentiles {
        let is_wanted = |of: ProcessId| process.is_none_or(|process| of == process);
        if self.pieces.is_empty() {
            return self.percentiles_ns(&mut cells.iter().filter(|cell| is_wanted(cell.process)));
        }
        let of_processes = self.all().flat_map(|ran| &ran.processes).filter(|(of, _)| is_wanted(*of));
        percentiles(&of_processes.map(|(_, durations)| durations).collect::<Vec<_>>())
    }
}

/// Median and 90th and 99th percentile of durations in nanoseconds.
pub(crate) type Percentiles = [Option<f64>; 3];

fn percentiles(all: &[&Numbers]) -> Percentiles {
    let found = Numbers::percentiles(all, &[50, 90, 99]);
    [0, 1, 2].map(|at| found.get(at).copied().flatten())
}

/// The cells of all kernels, process by process.
fn cells(groups: &[Group]) -> Vec<Cell> {
    let key = |at: usize| groups.get(at).map(|group| (group.process, group.device, group.name));
    let places = order(groups.len(), &|a, b| key(a).cmp(&key(b)));
    let mut cells: Vec<Cell> = Vec::new();
    for at in places {
        let Some(group) = groups.get(at).filter(|group| group.kind == OpKind::Kernel) else { continue };
        let &Group { process, device, name, .. } = group;
        if cells.last().is_none_or(|last| (last.process, last.device, last.name) != (process, device, name)) {
            let window = (group.first, group.last);
            cells.push(Cell { process, device, name, tally: Tally::default(), window, at: cells.len() });
        }
        if let Some(cell) = cells.last_mut() {
            cell.tally.merge(&tally(group));
            cell.window = (cell.window.0.min(group.first), cell.window.1.max(group.last));
        }
    }
    cells
}

fn tally(group: &Group) -> Tally {
    let &Group { count, total, shortest, longest, .. } = group;
    Tally { count, total, shortest, longest, ..Tally::default() }
}
