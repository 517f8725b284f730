//! The log of one trace: its ranks, how each spent its time, and every communication call, from one pass over the GPU ops.
//!
//! The log is built by the worker that loaded the trace and sent as JSON text. Numbers are stored in flat columns instead of
//! objects to keep the text small. A log covers the whole trace, because calls are matched by their order; a [`RankWindow`] adds
//! the times within a window.

use super::step_log::step_times;
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::communication::operations::{SEND_RECEIVE, each_call};
use crate::analysis::structure::call_ranges::{NONE, names_around_calls};
use crate::analysis::time::activity::{ActivitySweep, Hidden};
use crate::analysis::time::gaps::GapSweep;
use crate::analysis::time::work::{Class, Work, each_work};
use crate::json::from_json;
use crate::ordering;
use crate::trace::{DeviceId, NameId, Names, Ns, OpKind, Trace, Window};
use serde::Serialize;
use std::collections::BTreeMap;

/// Numbers per rank in [`RankLog::times`], in nanoseconds: wall time (first start to last end), busy, compute, compute and
/// communication at the same time, communication without other kernels, and the sum of the durations of communication kernels.
pub const TIME_COLUMNS: usize = 6;

/// Numbers per call in [`RankLog::calls`]: rank, operation, group, bytes (-1 if unknown), start on the trace's clock, duration,
/// and the part of the duration in which no other kernel runs.
pub const CALL_COLUMNS: usize = 7;

/// Numbers per call in [`RankLog::before`], in nanoseconds: how the GPU spent the time since the previous communication call.
/// Idle before the next op was launched, other idle time, and time with at least one op.
pub const BEFORE_COLUMNS: usize = 3;

/// Numbers per row in [`RankLog::kernel_times`]: rank, kernel, number of launches, and sum of durations.
pub const KERNEL_COLUMNS: usize = 4;

/// A log keeps this many compute kernels of each rank, those with the most time.
const MAX_KERNELS: usize = 100;

/// Numbers per row in [`RankLog::counts`]: rank, operation, group, and the number of calls in the trace, kept or not.
pub const COUNT_COLUMNS: usize = 4;

/// A log keeps this many calls, which are about 5 MB of text, and drops later ones.
const MAX_CALLS: usize = 100_000;

/// The log of a trace. A rank is a device that runs kernels; processes that share a device count as one rank.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RankLog {
    /// The file's base name.
    pub file: String,
    /// The number of the rank that wrote the file according to its `distributedInfo`; -1 if unknown or if the file has several.
    pub rank: i64,
    /// The number of ranks according to `distributedInfo`; -1 if unknown.
    pub world_size: i64,
    /// The communication backend, such as `nccl`; empty if unknown.
    pub backend: String,
    /// The device id of each rank in the file: `0`, or `[TP00] 0` or `[1000] 0` in a file of merged ranks.
    pub devices: Vec<String>,
    /// The product name of each rank's GPU; empty if unknown.
    pub gpus: Vec<String>,
    /// First start and last end of all GPU ops on the trace's clock; empty if there are none.
    pub span: Vec<i64>,
    /// [`TIME_COLUMNS`] numbers per rank.
    pub times: Vec<i64>,
    /// Names of operations: `allreduce`, ...
    pub operations: Vec<String>,
    /// Names of process groups or communicators; an empty name if unknown.
    pub groups: Vec<String>,
    /// The rank numbers of each group, separated by spaces; empty if unknown.
    pub group_ranks: Vec<String>,
    /// [`CALL_COLUMNS`] numbers per call, sorted by start.
    pub calls: Vec<i64>,
    /// The number of each call among the collectives of its group, the same on all ranks; -1 if unknown. Empty if no call has one.
    pub sequences: Vec<i64>,
    /// [`BEFORE_COLUMNS`] numbers per call.
    pub before: Vec<i64>,
    /// Names of compute kernels.
    pub kernels: Vec<String>,
    /// [`KERNEL_COLUMNS`] numbers per rank and compute kernel.
    pub kernel_times: Vec<i64>,
    /// Names of steps; empty for a step without a name.
    pub step_names: Vec<String>,
    /// [`STEP_COLUMNS`](super::STEP_COLUMNS) numbers per rank and name of steps.
    pub steps: Vec<i64>,
    /// [`COUNT_COLUMNS`] numbers per combination of rank, operation and group that has calls.
    pub counts: Vec<i64>,
    /// The number of calls that were dropped.
    pub left_out: i64,
    /// The number of graphs traced as a whole; communication inside them is not visible.
    pub replays: i64,
    /// True if part of the file is missing or damaged.
    pub is_cut_short: bool,
}
from_json!(RankLog {
    file,
    rank,
    world_size,
    backend,
    devices,
    gpus,
    span,
    times,
    operations,
    groups,
    group_ranks,
    calls,
    sequences,
    before,
    kernels,
    kernel_times,
    step_names,
    steps,
    counts,
    left_out,
    replays,
    is_cut_short
});

/// How the ranks of a trace spent a window of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RankWindow {
    /// Start of the window on the trace's clock, in nanoseconds.
    pub from_ns: i64,
    /// End of the window.
    pub to_ns: i64,
    /// As in [`RankLog::times`]; the wall time is the length of the window.
    pub times: Vec<i64>,
    /// For each call of the log, the time within the window in which no other kernel runs.
    pub exposed: Vec<i64>,
}
from_json!(RankWindow { from_ns, to_ns, times, exposed });

impl RankLog {
    /// First start to last end of all GPU ops; `None` if there are none.
    pub fn span(&self) -> Option<Window> {
        let &[start, end] = self.span.as_slice() else { return None };
        Some(Window { start: Ns(start), end: Ns(end) })
    }
}

impl RankWindow {
    /// The window as a type.
    pub fn window(&self) -> Window {
        Window { start: Ns(self.from_ns), end: Ns(self.to_ns) }
    }
}

/// Builds the log of a whole trace.
pub fn log(trace: &Trace) -> RankLog {
    let context = ClassifiedTrace::new(trace);
    let rank_of_device = rank_of_device(trace);
    let mut log = empty(trace);
    for (device, _) in trace.devices.iter().zip(&rank_of_device).filter(|(_, rank)| rank.is_some()) {
        log.devices.push(device.id.clone());
        log.gpus.push(device.name.clone());
    }
    add_calls(&context, &rank_of_device, &mut log);
    log.before = times_before_calls(&context);
    add_kernels(trace, &context, &rank_of_device, &mut log);
    (log.step_names, log.steps) = step_times(&context, &rank_of_device);
    let TimeSums { times, hidden } = time_sums(&context, &rank_of_device, None);
    for (call, hidden) in log.calls.chunks_exact_mut(CALL_COLUMNS).zip(hidden) {
        call.last_mut().into_iter().for_each(|exposed_ns| *exposed_ns = hidden.exposed_ns);
    }
    RankLog { times, ..log }
}

/// Computes the times of the ranks of a trace within a window.
pub fn window_log(trace: &Trace, window: Window) -> RankWindow {
    let context = ClassifiedTrace::new(trace);
    let TimeSums { times, mut hidden } = time_sums(&context, &rank_of_device(trace), Some(window));
    // The last row belongs to the calls that the log drops.
    hidden.pop();
    let exposed = hidden.into_iter().map(|hidden| hidden.exposed_ns).collect();
    RankWindow { from_ns: window.start.0, to_ns: window.end.0, times, exposed }
}

/// The index of each device among the devices that run kernels; `None` for the others.
fn rank_of_device(trace: &Trace) -> Vec<Option<usize>> {
    let mut ranks = vec![None; trace.devices.len()];
    let kernels = trace.gpu_ops.iter().filter(|op| op.kind == OpKind::Kernel);
    kernels.for_each(|op| ranks.get_mut(op.device.0 as usize).into_iter().for_each(|rank| *rank = Some(0)));
    ranks.iter_mut().flatten().zip(0..).for_each(|(rank, index)| *rank = index);
    ranks
}

fn empty(trace: &Trace) -> RankLog {
    let job = trace.job.as_deref();
    RankLog {
        file: trace.label.clone(),
        // A file of merged ranks has the information of one of them.
        rank: job.filter(|_| trace.merged_ranks() <= 1).map_or(-1, |job| i64::from(job.rank)),
        world_size: job.map_or(-1, |job| i64::from(job.world_size)),
        backend: job.map(|job| job.backend.clone()).unwrap_or_default(),
        span: trace.span().map(|span| vec![span.start.0, span.end.0]).unwrap_or_default(),
        replays: trace.graph_replays.len() as i64,
        is_cut_short: trace.problems.is_cut_short(),
        ..RankLog::default()
    }
}

/// Adds the communication calls and their counts to the log.
fn add_calls(context: &ClassifiedTrace, rank_of_device: &[Option<usize>], log: &mut RankLog) {
    let trace = context.trace;
    let (mut operations, mut groups) = (Names::default(), Names::default());
    let mut kept_calls = 0;
    let mut counts: BTreeMap<[i64; 3], i64> = BTreeMap::new();
    let ranges = OperationRanges::new(context);
    each_call(context, &mut |call| {
        let Some(rank) = rank_of_device.get(call.op.device.0 as usize).copied().flatten() else { return };
        let is_unclear = call.operation == SEND_RECEIVE && call.message.is_none();
        let by_range = if is_unclear { ranges.operation(call.row) } else { None };
        let operation = operations.intern(by_range.unwrap_or(call.operation));
        let group = groups.intern(call.message.map_or("", |message| message.communicator.as_str()));
        let key = [rank as i64, i64::from(operation.0), i64::from(group.0)];
        *counts.entry(key).or_default() += 1;
        if kept_calls == MAX_CALLS {
            log.left_out += 1;
            return;
        }
        kept_calls += 1;
        let bytes = call.bytes.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(-1);
        let (start, duration) = (call.op.start.0, call.op.duration.0);
        log.calls.extend(key);
        log.calls.extend([bytes, start, duration, 0]);
        let sequence = call.message.and_then(|message| message.sequence);
        log.sequences.push(sequence.and_then(|sequence| i64::try_from(sequence).ok()).unwrap_or(-1));
    });
    if log.sequences.iter().all(|sequence| *sequence < 0) {
        log.sequences = Vec::new();
    }
    log.counts =
        counts.into_iter().flat_map(|([rank, operation, group], count)| [rank, operation, group, count]).collect();
    log.operations = operations.iter().map(str::to_owned).collect();
    log.groups = groups.iter().map(str::to_owned).collect();
    log.group_ranks = log.groups.iter().map(|name| ranks_of_group(trace, name)).collect();
}

/// The state of one device in [`times_before_calls`].
#[derive(Clone, Copy)]
struct BeforeCall {
    /// The time until which ops of the device are visited.
    busy_until: Ns,
    /// The end of the last communication call, or the start of the first op.
    since: Ns,
    host_late: Ns,
    idle: Ns,
}

/// [`BEFORE_COLUMNS`] numbers for each call in the log. One pass over the work.
fn times_before_calls(context: &ClassifiedTrace) -> Vec<i64> {
    let trace = context.trace;
    let mut devices: Vec<Option<BeforeCall>> = vec![None; trace.devices.len()];
    let mut before = Vec::new();
    each_work(context, &mut |work| {
        let Some(device) = devices.get_mut(work.device) else { return };
        let (start, end) = (work.start, work.end);
        let device =
            device.get_or_insert(BeforeCall { busy_until: start, since: start, host_late: Ns::ZERO, idle: Ns::ZERO });
        if start > device.busy_until {
            device.idle += start.since(device.busy_until);
            // A launch counts as late as far as the clocks prove it, as in the causes of idle time.
            let offset = trace.clock_offset(DeviceId(work.device as u32));
            if let Some(launched) = launched(trace, work.row).map(|time| time - offset - offset) {
                device.host_late += launched.clamp(device.busy_until, start).since(device.busy_until);
            }
        }
        if work.class == Class::Communication {
            let length = start.max(device.since).since(device.since);
            let (idle, host_late) = (device.idle.min(length), device.host_late.min(length));
            if before.len() < MAX_CALLS * BEFORE_COLUMNS {
                before.extend([host_late.0, idle.0 - host_late.0, length.0 - idle.0]);
            }
            *device = BeforeCall {
                since: device.since.max(end),
                host_late: Ns::ZERO,
                idle: Ns::ZERO,
                busy_until: device.busy_until,
            };
        }
        device.busy_until = device.busy_until.max(end);
    });
    before
}

/// The time at which an op was launched; `None` if the call is unknown. A copy may wait inside its call.
fn launched(trace: &Trace, row: usize) -> Option<Ns> {
    let call = trace.gpu_ops.launch(row).and_then(|call| trace.calls.get(call.0 as usize))?;
    let is_kernel = trace.gpu_ops.get(row).is_some_and(|op| op.kind == OpKind::Kernel);
    Some(if is_kernel { call.end() } else { call.start })
}

/// Adds the compute kernels with the most time of each rank.
fn add_kernels(trace: &Trace, context: &ClassifiedTrace, rank_of_device: &[Option<usize>], log: &mut RankLog) {
    let mut sums: BTreeMap<(usize, NameId), (i64, i64)> = BTreeMap::new();
    for op in trace.gpu_ops.iter().filter(|op| Class::of(context, op) == Class::Compute) {
        let Some(rank) = rank_of_device.get(op.device.0 as usize).copied().flatten() else { continue };
        let (count, time) = sums.entry((rank, op.name)).or_default();
        (*count, *time) = (*count + 1, time.saturating_add(op.duration.0));
    }
    let mut rows: Vec<((usize, NameId), (i64, i64))> = sums.into_iter().collect();
    ordering::sort_by_key(&mut rows, |((rank, name), (_, time))| (*rank, std::cmp::Reverse(*time), name.0));
    let mut names = Names::default();
    for of_rank in rows.chunk_by(|a, b| a.0.0 == b.0.0) {
        for ((rank, name), (count, time)) in of_rank.iter().take(MAX_KERNELS) {
            let name = names.intern(trace.names.get(*name));
            log.kernel_times.extend([*rank as i64, i64::from(name.0), *count, *time]);
        }
    }
    log.kernels = names.iter().map(str::to_owned).collect();
}

/// The rank numbers of a process group according to the job, separated by spaces.
fn ranks_of_group(trace: &Trace, name: &str) -> String {
    let groups = trace.job.as_deref().map_or(&[][..], |job| &job.groups);
    let ranks = groups.iter().find(|group| group.name == name).map_or(&[][..], |group| &group.ranks);
    ranks.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

/// Ranges that name the operation of a send/receive kernel.
///
/// NCCL runs an all-to-all as sends and receives, so the kernel name does not distinguish it from a message between two ranks.
/// torch marks it with the range `nccl:all_to_all` around the launch.
struct OperationRanges<'a> {
    context: &'a ClassifiedTrace<'a>,
    /// The name of the innermost such range around each API call, or `NONE`.
    range_of_call: Vec<u32>,
}

impl<'a> OperationRanges<'a> {
    fn new(context: &'a ClassifiedTrace<'a>) -> Self {
        let trace = context.trace;
        let ranges = trace.ranges.names.iter();
        let is_operation: Vec<bool> =
            ranges.map(|name| name.starts_with("nccl") && context.signals.collective(name).is_some()).collect();
        let range_of_call = if is_operation.contains(&true) {
            names_around_calls(trace, &trace.ranges, &|name| is_operation.get(name.0 as usize) == Some(&true))
        } else {
            Vec::new()
        };
        Self { context, range_of_call }
    }

    fn operation(&self, op: usize) -> Option<&str> {
        let call = self.context.trace.gpu_ops.launch(op)?;
        let range = self.range_of_call.get(call.0 as usize).copied().filter(|range| *range != NONE)?;
        self.context.signals.collective(self.context.trace.ranges.names.get(NameId(range)))
    }
}

struct TimeSums {
    /// [`TIME_COLUMNS`] numbers per rank.
    times: Vec<i64>,
    /// How much of each call in the log is hidden by other work; the last row is for all dropped calls together.
    hidden: Vec<Hidden>,
}

fn time_sums(context: &ClassifiedTrace, rank_of_device: &[Option<usize>], window: Option<Window>) -> TimeSums {
    let trace = context.trace;
    let messages = trace.gpu_ops.iter().filter(|op| Class::of(context, op) == Class::Communication).count();
    let rows = messages.min(MAX_CALLS) + 1;
    let (mut sweep, mut gaps) = (ActivitySweep::new(trace, rows), GapSweep::new(trace));
    let (mut calls, mut communication) = (0, vec![Ns::ZERO; trace.devices.len()]);
    each_work(context, &mut |work| {
        let row = calls.min(rows - 1);
        calls += usize::from(work.class == Class::Communication);
        let Some(work) = clip(work, window) else { return };
        if let (Class::Communication, Some(sum)) = (work.class, communication.get_mut(work.device)) {
            *sum += work.end.since(work.start);
        }
        sweep.add(&work, row);
        gaps.add(&work);
    });
    let (devices, hidden) = sweep.finish();
    let (compute, both) = (Class::Compute.bit(), Class::Compute.bit() | Class::Communication.bit());
    let mut times = Vec::new();
    let columns = devices.iter().zip(gaps.devices).zip(communication).zip(rank_of_device);
    for (((device, busy), sum), _) in columns.filter(|(_, rank)| rank.is_some()) {
        let span = busy.map(|busy| Window { start: busy.first, end: busy.last });
        let wall = window.or(span).map_or(Ns::ZERO, |window| window.length());
        let busy = busy.map_or(Ns::ZERO, |busy| busy.busy);
        times.extend([wall.0, busy.0, device.with_all(compute), device.with_all(both), device.exposed(), sum.0]);
    }
    TimeSums { times, hidden }
}

/// Clips the work to the window, if there is one.
fn clip(work: Work, window: Option<Window>) -> Option<Work> {
    let Some(window) = window else { return Some(work) };
    let (start, length) = window.clip(work.start, work.end)?;
    Some(Work { start, end: start + length, ..work })
}
