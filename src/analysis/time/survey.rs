//! How each device spent its time: overlap of work classes, idle gaps by cause, hidden communication, the
//! longest ops and gaps. One sweep over the work sorted by start; the results of consecutive segments can be
//! merged.

use super::activity::{Activity, ActivitySweep, Hidden};
use super::gaps::{Busy, Gap, GapSweep};
use super::work::{Class, Work};
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::communication::operations::Operations;
use crate::analysis::host::blocking_calls::BlockingCalls;
use crate::analysis::host::idle_cause::{CauseRules, IdleCause, IdleTimes};
use crate::analysis::index::{IdMap, Merge};
use crate::analysis::measure::longest::{EventKind, Longest};
use crate::ordering::VecMap;
use crate::trace::{Names, Ns, SiteId, Trace};
use std::collections::HashSet;

/// Gaps that [`Survey::longest_gaps`] keeps.
pub(crate) const GAPS_KEPT: usize = 50;
/// Ops that [`Survey::longest_ops`] keeps.
pub(crate) const OPS_KEPT: usize = 50;

/// The work of one device in some rows of ops, and the gaps between the first and the last work.
#[derive(Debug, Clone)]
struct DeviceRun {
    busy: Busy,
    /// [`Work::row`] of the first work, which ends the gap before it.
    first_row: usize,
    /// [`Work::row`] of the work that ended last.
    last_row: usize,
    idle: IdleTimes,
}

impl DeviceRun {
    fn mapped(&self, ids: &IdMap) -> Self {
        Self {
            first_row: ids.row(self.first_row),
            last_row: ids.row(self.last_row),
            idle: self.idle.mapped(&|row| ids.row(row), &|name| ids.call_name(name)),
            ..*self
        }
    }
}

/// The mergeable part of [`Survey`], for some rows of ops.
#[derive(Debug)]
pub(crate) struct DeviceWork {
    activities: Vec<Activity>,
    /// By operation; operations without communication are left out.
    hidden: VecMap<String, Hidden>,
    /// By device: its runs in order. The gaps between them are added by [`Survey::of`].
    devices: Vec<Vec<DeviceRun>>,
    /// The longest gaps within the runs; the tag is the [`IdleCause`].
    longest_gaps: Longest,
    longest_ops: Longest,
}

impl Merge for DeviceWork {
    fn merge(&mut self, later: &Self, ids: &IdMap) {
        self.activities.iter_mut().zip(&later.activities).for_each(|(sum, more)| sum.merge(more));
        for (operation, hidden) in later.hidden.iter() {
            self.hidden.update(operation.clone(), Hidden::default(), |sum| sum.merge(hidden));
        }
        for (runs, more) in self.devices.iter_mut().zip(&later.devices) {
            runs.extend(more.iter().map(|run| run.mapped(ids)));
        }
        self.longest_gaps.merge(&later.longest_gaps, &|row| ids.row(row));
        self.longest_ops.merge(&later.longest_ops, &|row| ids.row(row));
    }
}

/// The sweep that computes [`DeviceWork`]; work must arrive sorted by start.
pub(crate) struct WorkSweep<'a> {
    classified: &'a ClassifiedTrace<'a>,
    rules: CauseRules<'a>,
    operations: &'a Operations<'a>,
    activity: ActivitySweep,
    gaps: GapSweep,
    /// By device: the row of its first work.
    first_rows: Vec<usize>,
    /// By device.
    idle: Vec<IdleTimes>,
    longest_gaps: Longest,
    longest_ops: Longest,
}

impl<'a> WorkSweep<'a> {
    pub(crate) fn new(
        classified: &'a ClassifiedTrace<'a>,
        blocking: &'a BlockingCalls,
        operations: &'a Operations<'a>,
    ) -> Self {
        let trace = classified.trace;
        Self {
            classified,
            rules: CauseRules::new(classified, blocking),
            operations,
            activity: ActivitySweep::new(trace, operations.names().len()),
            gaps: GapSweep::new(trace),
            first_rows: vec![0; trace.devices.len()],
            idle: vec![IdleTimes::new(); trace.devices.len()],
            longest_gaps: Longest::new(GAPS_KEPT),
            longest_ops: Longest::new(OPS_KEPT),
        }
    }

    pub(crate) fn add(&mut self, work: &Work) {
        let operation = if work.class == Class::Communication { self.operation(work.row) } else { 0 };
        self.activity.add(work, operation);
        if let (Some(None), Some(first)) = (self.gaps.devices.get(work.device), self.first_rows.get_mut(work.device)) {
            *first = work.row;
        }
        if let Some(gap) = self.gaps.add(work)
            && let Some(idle) = self.idle.get_mut(work.device)
            && let Some(parts) = idle.add(&self.rules, &gap)
        {
            offer_gap(&mut self.longest_gaps, &gap, parts.main());
        }
        if let Some(idle) = self.idle.get_mut(work.device) {
            idle.add_work(&self.rules, work);
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
        let Self { operations, activity, gaps, first_rows, idle, longest_gaps, longest_ops, .. } = self;
        let (activities, hidden) = activity.finish();
        let mut by_operation = VecMap::new();
        let used = operations.names().iter().zip(hidden).filter(|(_, hidden)| *hidden != Hidden::default());
        used.for_each(|(operation, hidden)| by_operation.update(operation.to_owned(), hidden, |_| ()));
        let devices = first_rows.into_iter().zip(idle).enumerate().map(|(device, (first_row, idle))| {
            let busy = gaps.devices.get(device).copied().flatten();
            let run = busy.map(|busy| DeviceRun { busy, first_row, last_row: gaps.last_row(device), idle });
            run.into_iter().collect()
        });
        DeviceWork { activities, hidden: by_operation, devices: devices.collect(), longest_gaps, longest_ops }
    }
}

fn offer_gap(longest: &mut Longest, gap: &Gap, cause: IdleCause) {
    longest.offer_tagged(gap.length(), gap.start, EventKind::Gap, gap.next_row, cause as u8);
}

/// How each device spent its time, in the whole trace or a window.
#[derive(Debug)]
pub(crate) struct Survey {
    /// By device.
    pub(crate) activities: Vec<Activity>,
    hidden: VecMap<String, Hidden>,
    /// By device; `None` for a device without work. A window counts from its start to its end; without one, a
    /// device counts from its first op to its last.
    pub(crate) busy: Vec<Option<Busy>>,
    /// By device: idle time by cause.
    pub(crate) idle: Vec<IdleTimes>,
    /// The longest gaps; the tag is the [`IdleCause`].
    pub(crate) longest_gaps: Longest,
    /// The longest kernels and copies.
    pub(crate) longest_ops: Longest,
}

impl Survey {
    /// `blocking` are the blocking calls of the trace.
    pub(crate) fn of(classified: &ClassifiedTrace, work: DeviceWork, blocking: &BlockingCalls) -> Self {
        let trace = classified.trace;
        let rules = CauseRules::new(classified, blocking);
        let DeviceWork { activities, hidden, devices, mut longest_gaps, longest_ops } = work;
        // A trace may have very many devices: their times are not held twice.
        let (mut busy, mut idle) = (Vec::with_capacity(devices.len()), Vec::with_capacity(devices.len()));
        for (device, runs) in devices.into_iter().enumerate() {
            let (busy_time, idle_times) = joined(trace, &rules, device, runs, &mut longest_gaps);
            busy.push(busy_time);
            idle.push(idle_times);
        }
        Self { activities, hidden, busy, idle, longest_gaps, longest_ops }
    }

    /// Idle time directly after calls of this name that had waited until the device was empty, on the device where it is
    /// longest.
    pub(crate) fn idle_after(&self, call: &str, calls: &Names) -> Ns {
        let of_call = |idle: &IdleTimes| {
            let times = idle.drained_by.iter().filter(|(site, _)| calls.get(site.name) == call);
            times.fold(Ns::ZERO, |sum, (_, drained)| sum + drained.direct)
        };
        self.idle.iter().map(of_call).max().unwrap_or(Ns::ZERO)
    }

    /// The code that made the calls of this name with the most idle time after them, if it is known.
    pub(crate) fn costliest_site(&self, call: &str, calls: &Names) -> Option<SiteId> {
        let all = self.idle.iter().flat_map(|idle| &idle.drained_by);
        let sites = all.filter(|(site, _)| calls.get(site.name) == call);
        let times = sites.filter_map(|(site, drained)| Some((drained.direct, site.site?)));
        times.max_by_key(|(time, _)| *time).map(|(_, site)| site)
    }

    /// Hidden and exposed time of one communication operation.
    pub(crate) fn hidden_of(&self, operation: &str) -> Hidden {
        self.hidden.get(operation).copied().unwrap_or_default()
    }

    /// Hidden and exposed time of every communication operation.
    pub(crate) fn hidden(&self) -> impl Iterator<Item = &Hidden> {
        self.hidden.iter().map(|(_, hidden)| hidden)
    }
}

/// Joins the runs of one device, and drops each, because a run can have a million intervals: adds the gaps between them and, in a window, the gaps at its ends. The cause of the
/// last gap of a window is unknown, because the work that ends it is outside the window.
fn joined(
    trace: &Trace,
    rules: &CauseRules,
    device: usize,
    runs: Vec<DeviceRun>,
    longest: &mut Longest,
) -> (Option<Busy>, IdleTimes) {
    let (mut idle, mut drained_rows) = (IdleTimes::new(), HashSet::new());
    let window = trace.cut.map(|cut| cut.window);
    let mut busy = window.map(|window| Busy { first: window.start, last: window.start, busy: Ns::ZERO });
    let mut previous_row = None;
    for run in runs {
        let sum = busy.get_or_insert(Busy { first: run.busy.first, last: run.busy.first, busy: Ns::ZERO });
        let (start, end) = (sum.last, run.busy.first);
        if previous_row.is_some() || end > start {
            let gap = Gap { device, start, end, previous_row, next_row: run.first_row };
            let parts = idle.add(rules, &gap);
            parts.into_iter().for_each(|parts| offer_gap(longest, &gap, parts.main()));
        }
        idle.append(rules, &run.idle, &mut |row| _ = drained_rows.insert(row));
        if run.busy.last >= sum.last {
            (sum.last, previous_row) = (run.busy.last, Some(run.last_row));
        }
        sum.busy += run.busy.busy;
    }
    if let (Some(window), Some(busy)) = (window, &mut busy) {
        let next_row = Gap::first_window_end(trace) + device;
        let gap = Gap { device, start: busy.last, end: window.end, previous_row, next_row };
        if gap.end > gap.start {
            idle.add_unknown(gap.length());
            offer_gap(longest, &gap, IdleCause::Unknown);
        }
        busy.last = busy.last.max(window.end);
    }
    if !drained_rows.is_empty() {
        let late = IdleCause::HostLate as u8;
        let is_drained = |row: usize, tag: u8| tag == late && drained_rows.contains(&row);
        longest.retag(&|row, tag| if is_drained(row, tag) { IdleCause::Drained as u8 } else { tag });
    }
    if idle.settle() {
        let device_of = |row: usize| match trace.gpu_ops.get(row) {
            Some(op) => Some(op.device),
            None => trace.graph_replays.get(row - trace.gpu_ops.len()).map(|replay| replay.device),
        };
        let is_drained = |row: usize, tag: u8| {
            tag == IdleCause::Drained as u8 && device_of(row).is_some_and(|found| found.0 as usize == device)
        };
        longest.retag(&|row, tag| if is_drained(row, tag) { IdleCause::HostLate as u8 } else { tag });
    }
    (busy, idle)
}
