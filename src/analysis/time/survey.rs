//! How each device spent its time: overlap of work classes, idle gaps by cause, hidden communication, the
//! longest ops and gaps. One sweep over the work sorted by start; the results of consecutive segments can be
//! merged.

use super::activity::{Activity, ActivitySweep, Hidden};
use super::gaps::{Busy, Gap, GapSweep};
use super::work::{Class, Intervals, Work};
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::communication::operations::Operations;
use crate::analysis::host::blocked;
use crate::analysis::host::idle_cause::{IdleCause, launched};
use crate::analysis::index::{IdMap, Merge};
use crate::analysis::measure::longest::{EventKind, Longest};
use crate::trace::{Cut, Ns};

/// Gaps that [`IdleSums::longest`] keeps.
pub(crate) const GAPS_KEPT: usize = 50;
/// Ops that [`Survey::longest_ops`] keeps.
pub(crate) const OPS_KEPT: usize = 50;

/// Idle gaps: sums by cause, and the longest.
#[derive(Debug)]
pub(crate) struct IdleSums {
    /// By device and [`IdleCause`].
    pub(crate) times: Vec<[Ns; IdleCause::ALL.len()]>,
    pub(crate) longest: Longest,
}

impl IdleSums {
    fn new(devices: usize) -> Self {
        Self { times: vec![[Ns::ZERO; IdleCause::ALL.len()]; devices], longest: Longest::new(GAPS_KEPT) }
    }

    /// `launched` is the launch time of the work after the gap, see [`launched`].
    fn add(&mut self, gap: &Gap, launched: Option<Ns>) {
        for (cause, length) in IdleCause::parts(gap, launched) {
            let time = self.times.get_mut(gap.device).and_then(|times| times.get_mut(cause as usize));
            time.into_iter().for_each(|time| *time += length);
        }
        self.longest.offer(gap.length(), gap.start, EventKind::Gap, gap.next_row);
    }

    fn merge(&mut self, later: &Self, ids: &IdMap) {
        for (sum, more) in self.times.iter_mut().flatten().zip(later.times.iter().flatten()) {
            *sum += *more;
        }
        self.longest.merge(&later.longest, &|row| ids.row(row));
    }
}

/// The busy time of one device in some rows of ops.
#[derive(Debug, Clone, Copy)]
struct DeviceTimes {
    busy: Busy,
    /// [`Work::row`] of the first work, which ends the gap before it.
    first_row: usize,
    /// The launch time of this work, see [`launched`]; `None` if the call is unknown.
    first_launched: Option<Ns>,
}

/// The mergeable part of [`Survey`], for some rows of ops.
#[derive(Debug)]
pub(crate) struct DeviceWork {
    activities: Vec<Activity>,
    /// By operation; operations without communication are left out.
    hidden: Vec<(String, Hidden)>,
    /// By device; `None` for a device without work.
    devices: Vec<Option<DeviceTimes>>,
    /// Gaps between the first and the last work.
    idle: IdleSums,
    longest_ops: Longest,
}

impl Merge for DeviceWork {
    fn merge(&mut self, later: &Self, ids: &IdMap) {
        self.activities.iter_mut().zip(&later.activities).for_each(|(sum, more)| sum.merge(more));
        for (operation, hidden) in &later.hidden {
            match self.hidden.iter_mut().find(|(name, _)| name == operation) {
                Some((_, sum)) => sum.merge(hidden),
                None => self.hidden.push((operation.clone(), *hidden)),
            }
        }
        for (device, (sum, more)) in self.devices.iter_mut().zip(&later.devices).enumerate() {
            let Some(more) = more else { continue };
            let Some(sum) = sum else {
                *sum = Some(DeviceTimes { first_row: ids.row(more.first_row), ..*more });
                continue;
            };
            let gap = Gap { device, start: sum.busy.last, end: more.busy.first, next_row: ids.row(more.first_row) };
            if gap.end > gap.start {
                self.idle.add(&gap, more.first_launched);
            }
            sum.busy.last = sum.busy.last.max(more.busy.last);
            sum.busy.busy += more.busy.busy;
        }
        self.idle.merge(&later.idle, ids);
        self.longest_ops.merge(&later.longest_ops, &|row| ids.row(row));
    }
}

/// The sweep that computes [`DeviceWork`]; work must arrive sorted by start.
pub(crate) struct WorkSweep<'a> {
    classified: &'a ClassifiedTrace<'a>,
    operations: &'a Operations<'a>,
    activity: ActivitySweep,
    gaps: GapSweep,
    /// By device: the row of its first work.
    first_rows: Vec<usize>,
    idle: IdleSums,
    longest_ops: Longest,
}

impl<'a> WorkSweep<'a> {
    pub(crate) fn new(classified: &'a ClassifiedTrace<'a>, operations: &'a Operations<'a>) -> Self {
        let trace = classified.trace;
        Self {
            classified,
            operations,
            activity: ActivitySweep::new(trace, operations.names().len()),
            gaps: GapSweep::new(trace),
            first_rows: vec![0; trace.devices.len()],
            idle: IdleSums::new(trace.devices.len()),
            longest_ops: Longest::new(OPS_KEPT),
        }
    }

    pub(crate) fn add(&mut self, work: &Work) {
        let operation = if work.class == Class::Communication { self.operation(work.row) } else { 0 };
        self.activity.add(work, operation);
        if let (Some(None), Some(first)) = (self.gaps.devices.get(work.device), self.first_rows.get_mut(work.device)) {
            *first = work.row;
        }
        if let Some(gap) = self.gaps.add(work) {
            self.idle.add(&gap, launched(self.classified, gap.next_row));
        }
        if !matches!(work.class, Class::Set | Class::Replay) {
            self.longest_ops.offer(work.end.since(work.start), work.start, EventKind::Op, work.row);
        }
    }

    fn operation(&self, row: usize) -> usize {
        let name = self.classified.trace.gpu_ops.get(row).map(|op| op.name);
        name.and_then(|name| self.operations.of(row, name)).map_or(0, |(operation, _)| operation.0 as usize)
    }

    pub(crate) fn finish(self) -> DeviceWork {
        let Self { classified, operations, activity, gaps, first_rows, idle, longest_ops } = self;
        let (activities, hidden) = activity.finish();
        let hidden = operations.names().iter().map(str::to_owned).zip(hidden);
        let devices = gaps.devices.into_iter().zip(first_rows).map(|(busy, first_row)| {
            Some(DeviceTimes { busy: busy?, first_row, first_launched: launched(classified, first_row) })
        });
        DeviceWork {
            activities,
            hidden: hidden.filter(|(_, hidden)| *hidden != Hidden::default()).collect(),
            devices: devices.collect(),
            idle,
            longest_ops,
        }
    }
}

/// How each device spent its time, in the whole trace or a window.
#[derive(Debug)]
pub(crate) struct Survey {
    /// By device.
    pub(crate) activities: Vec<Activity>,
    hidden: Vec<(String, Hidden)>,
    /// By device; `None` for a device without work. A window counts from its start to its end; without one, a
    /// device counts from its first op to its last.
    pub(crate) busy: Vec<Option<Busy>>,
    pub(crate) idle: IdleSums,
    /// The longest kernels and copies.
    pub(crate) longest_ops: Longest,
    /// Time in which a thread was blocked and no device worked.
    pub(crate) idle_while_blocked: Ns,
}

impl Survey {
    /// `blocked` are the intervals in which any host thread is blocked.
    pub(crate) fn of(classified: &ClassifiedTrace, work: &DeviceWork, blocked: &Intervals) -> Self {
        let trace = classified.trace;
        let mut idle = IdleSums::new(trace.devices.len());
        idle.merge(&work.idle, &IdMap::default());
        let times = work.devices.iter().enumerate().map(|(device, times)| match &trace.cut {
            None => times.map(|times| times.busy),
            Some(cut) => Some(add_window_ends(device, *times, cut, &mut idle, Gap::first_window_end(trace))),
        });
        let busy = times.collect();
        Self {
            activities: work.activities.clone(),
            hidden: work.hidden.clone(),
            busy,
            idle,
            longest_ops: work.longest_ops.clone(),
            idle_while_blocked: blocked::idle_while_blocked(classified, blocked),
        }
    }

    /// Hidden and exposed time of one communication operation.
    pub(crate) fn hidden_of(&self, operation: &str) -> Hidden {
        self.hidden.iter().find(|(name, _)| name == operation).map(|(_, hidden)| *hidden).unwrap_or_default()
    }

    /// Hidden and exposed time of every communication operation.
    pub(crate) fn hidden(&self) -> impl Iterator<Item = &Hidden> {
        self.hidden.iter().map(|(_, hidden)| hidden)
    }
}

/// Adds the gaps from the start of the window to the first work of a device, and from its last work to the
/// end of the window. The cause of the second is unknown, because the work that ends it is outside the
/// window. Returns the busy time of the device.
fn add_window_ends(
    device: usize,
    times: Option<DeviceTimes>,
    cut: &Cut,
    idle: &mut IdleSums,
    window_end: usize,
) -> Busy {
    let (start, end) = (cut.window.start, cut.window.end);
    let mut busy = times.map_or(Busy { first: start, last: start, busy: Ns::ZERO }, |times| times.busy);
    if let Some(DeviceTimes { busy, first_row, first_launched }) = times {
        let gap = Gap { device, start, end: busy.first, next_row: first_row };
        if gap.end > gap.start {
            idle.add(&gap, first_launched);
        }
    }
    let gap = Gap { device, start: busy.last, end, next_row: window_end + device };
    if gap.end > gap.start {
        idle.add(&gap, None);
    }
    busy.first = start;
    busy.last = busy.last.max(end);
    busy
}
