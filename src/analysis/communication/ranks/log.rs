//! What one trace tells of the ranks in it: who they are, how each spent its time, and every message between GPUs. It is
//! made where the trace is, and goes to whoever groups ranks as a JSON text; numbers stand in columns, not in objects, so
//! that it stays small.
//!
//! A log is of the whole trace, because messages are matched by their order. Of a window there is a part beside it: how each
//! rank spent that time.

use crate::analysis::communication::collectives::{PAIRS, each_call};
use crate::analysis::context::Context;
use crate::analysis::structure::launch_ranges::{NONE, around_calls};
use crate::analysis::time::intervals::{Class, Gaps, Hidden, Sweep, Work, each_work};
use crate::json::from_json;
use crate::trace::{NameId, Names, Ns, OpKind, Trace, Window};
use serde::Serialize;
use std::collections::BTreeMap;

/// Numbers of a rank in [`RankLog::times`]: window (first start to last end), busy, compute, compute beside communication,
/// time in which nothing but communication runs, and durations of communication kernels summed; in nanoseconds.
pub const TIMES: usize = 6;

/// Numbers of a call in [`RankLog::calls`]: rank, operation, group, bytes (-1: not told), start on the trace's clock,
/// duration and the part of it in which nothing but communication runs.
pub const CALL: usize = 7;

/// Numbers of a row in [`RankLog::counts`]: rank, operation, group, and how many calls the trace holds, kept or not.
pub const COUNT: usize = 4;

/// More messages than this are left out, the last ones of the trace: five megabytes of text.
const CALLS_KEPT: usize = 100_000;

/// See the module's head. A rank is a device that runs kernels; processes that share one count as one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RankLog {
    /// The file's base name.
    pub file: String,
    /// The number of the rank that wrote the file, as the file tells it; -1 where it does not.
    pub rank: i64,
    /// How many ranks the file says there are; -1 where it does not.
    pub world_size: i64,
    /// What moves messages: `nccl`; empty where the trace does not tell.
    pub backend: String,
    /// Of each rank in the file its device: `0`, or `[TP00] 0` in a file of merged ranks.
    pub devices: Vec<String>,
    /// Of each rank the product name of its GPU; empty where the trace does not tell.
    pub gpus: Vec<String>,
    /// First start and last end of all GPU ops on the trace's clock; nothing where there are none.
    pub span: Vec<i64>,
    /// [`TIMES`] numbers a rank.
    pub times: Vec<i64>,
    /// What messages do: `allreduce`, ...
    pub operations: Vec<String>,
    /// Process groups or communicators; an empty name where the trace does not tell.
    pub groups: Vec<String>,
    /// Of each group the numbers of its ranks, blank-separated; empty where the trace does not tell.
    pub group_ranks: Vec<String>,
    /// [`CALL`] numbers a call, by start.
    pub calls: Vec<i64>,
    /// [`COUNT`] numbers for each rank, operation and group of which there are calls.
    pub counts: Vec<i64>,
    /// Calls beyond those that are kept.
    pub left_out: i64,
    /// Graphs that were traced as a whole, in which messages may hide.
    pub replays: i64,
    /// A part of the file is missing, nobody knows which.
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
    counts,
    left_out,
    replays,
    is_cut_short
});

/// How the ranks of a trace spent a window of it, beside the trace's log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RankPart {
    /// Where the window begins on the trace's clock, in nanoseconds.
    pub from_ns: i64,
    /// Where it ends.
    pub to_ns: i64,
    /// As in the log; a rank's window is this one.
    pub times: Vec<i64>,
    /// Of each call in the log the part in which nothing but communication runs, as far as it lies in the window.
    pub exposed: Vec<i64>,
}
from_json!(RankPart { from_ns, to_ns, times, exposed });

impl RankLog {
    /// First start to last end of all GPU ops; `None` where there are none.
    pub fn span(&self) -> Option<Window> {
        let &[start, end] = self.span.as_slice() else { return None };
        Some(Window { start: Ns(start), end: Ns(end) })
    }
}

impl RankPart {
    /// The window.
    pub fn window(&self) -> Window {
        Window { start: Ns(self.from_ns), end: Ns(self.to_ns) }
    }
}

/// The log of a whole trace, whatever window of it a person looks at.
pub fn log(trace: &Trace) -> RankLog {
    let context = Context::new(trace, 0);
    let rank_of_device = rank_of_device(trace);
    let mut found = empty(trace);
    for (device, _) in trace.devices.iter().zip(&rank_of_device).filter(|(_, rank)| rank.is_some()) {
        found.devices.push(device.id.clone());
        found.gpus.push(device.name.clone());
    }
    calls(&context, &rank_of_device, &mut found);
    let Spent { times, exposed } = spent(&context, &rank_of_device, None);
    for (call, exposed) in found.calls.chunks_exact_mut(CALL).zip(exposed) {
        call.last_mut().into_iter().for_each(|last| *last = exposed.exposed_ns);
    }
    RankLog { times, ..found }
}

/// What the ranks of the trace did in a window of it.
pub fn part(trace: &Trace, window: Window) -> RankPart {
    let context = Context::new(trace, 0);
    let Spent { times, mut exposed } = spent(&context, &rank_of_device(trace), Some(window));
    // The last row is that of calls which are not in the log.
    exposed.pop();
    let exposed = exposed.into_iter().map(|hidden| hidden.exposed_ns).collect();
    RankPart { from_ns: window.start.0, to_ns: window.end.0, times, exposed }
}

/// The place of each device among those that run kernels; none of one that runs no kernel.
fn rank_of_device(trace: &Trace) -> Vec<Option<usize>> {
    let mut ranks = vec![None; trace.devices.len()];
    let kernels = trace.gpu_ops.iter().filter(|op| op.kind == OpKind::Kernel);
    kernels.for_each(|op| ranks.get_mut(op.device.0 as usize).into_iter().for_each(|rank| *rank = Some(0)));
    ranks.iter_mut().flatten().zip(0..).for_each(|(rank, place)| *rank = place);
    ranks
}

fn empty(trace: &Trace) -> RankLog {
    let job = trace.job.as_deref();
    RankLog {
        file: trace.label.clone(),
        rank: job.map_or(-1, |job| i64::from(job.rank)),
        world_size: job.map_or(-1, |job| i64::from(job.world_size)),
        backend: job.map_or_else(String::new, |job| job.backend.clone()),
        devices: Vec::new(),
        gpus: Vec::new(),
        span: trace.span().map_or_else(Vec::new, |span| vec![span.start.0, span.end.0]),
        times: Vec::new(),
        operations: Vec::new(),
        groups: Vec::new(),
        group_ranks: Vec::new(),
        calls: Vec::new(),
        counts: Vec::new(),
        left_out: 0,
        replays: trace.graph_replays.len() as i64,
        is_cut_short: trace.problems.is_cut_short(),
    }
}

/// Writes the calls down.
fn calls(context: &Context, rank_of_device: &[Option<usize>], found: &mut RankLog) {
    let trace = context.trace;
    let (mut operations, mut groups) = (Names::default(), Names::default());
    let mut kept = 0;
    let mut counts: BTreeMap<[i64; 3], i64> = BTreeMap::new();
    let told = TellingRanges::new(context);
    each_call(context, &mut |call| {
        let Some(rank) = rank_of_device.get(call.op.device.0 as usize).copied().flatten() else { return };
        let by_range = if call.operation == PAIRS && call.message.is_none() { told.operation(call.at) } else { None };
        let operation = operations.intern(by_range.unwrap_or(call.operation));
        let group = groups.intern(call.message.map_or("", |message| message.communicator.as_str()));
        let stream = [rank as i64, i64::from(operation.0), i64::from(group.0)];
        *counts.entry(stream).or_default() += 1;
        if kept == CALLS_KEPT {
            found.left_out += 1;
            return;
        }
        kept += 1;
        let bytes = call.bytes.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(-1);
        let (start, duration) = (call.op.start.0, call.op.duration.0);
        found.calls.extend(stream);
        found.calls.extend([bytes, start, duration, 0]);
    });
    found.counts =
        counts.into_iter().flat_map(|([rank, operation, group], count)| [rank, operation, group, count]).collect();
    found.operations = operations.iter().map(str::to_owned).collect();
    found.groups = groups.iter().map(str::to_owned).collect();
    found.group_ranks = found.groups.iter().map(|name| ranks_of(trace, name)).collect();
}

/// The numbers of a group's ranks, as the job tells them.
fn ranks_of(trace: &Trace, name: &str) -> String {
    let groups = trace.job.as_deref().map_or(&[][..], |job| &job.groups);
    let mut text = String::new();
    for rank in groups.iter().find(|group| group.name == name).map_or(&[][..], |group| &group.ranks) {
        if !text.is_empty() {
            text.push(' ');
        }
        text += &rank.to_string();
    }
    text
}

/// Ranges that name what a kernel of sends and receives does: torch marks an all-to-all `nccl:all_to_all`, which the
/// kernel's name does not tell from a message between two ranks.
struct TellingRanges<'a> {
    context: &'a Context<'a>,
    of_calls: Vec<u32>,
}

impl<'a> TellingRanges<'a> {
    fn new(context: &'a Context<'a>) -> Self {
        let trace = context.trace;
        let ranges = trace.ranges.names.iter();
        let tells: Vec<bool> =
            ranges.map(|name| name.starts_with("nccl") && context.signals.collective(name).is_some()).collect();
        let of_calls = if tells.contains(&true) {
            around_calls(trace, &trace.ranges, &|name| tells.get(name.0 as usize) == Some(&true))
        } else {
            Vec::new()
        };
        Self { context, of_calls }
    }

    fn operation(&self, op: usize) -> Option<&str> {
        let call = self.context.trace.gpu_ops.launch(op)?;
        let range = self.of_calls.get(call.0 as usize).copied().filter(|range| *range != NONE)?;
        self.context.signals.collective(self.context.trace.ranges.names.get(NameId(range)))
    }
}

/// How each rank spent its time.
struct Spent {
    /// [`TIMES`] numbers a rank.
    times: Vec<i64>,
    /// Of each call of the log, in its order; those that are left out share one more.
    exposed: Vec<Hidden>,
}

fn spent(context: &Context, rank_of_device: &[Option<usize>], window: Option<Window>) -> Spent {
    let trace = context.trace;
    let messages = trace.gpu_ops.iter().filter(|op| Class::of(context, op) == Class::Communication).count();
    let rows = messages.min(CALLS_KEPT) + 1;
    let (mut sweep, mut gaps) = (Sweep::new(context, rows), Gaps::new(context));
    let (mut calls, mut communication) = (0, vec![Ns::ZERO; trace.devices.len()]);
    each_work(context, &mut |work| {
        let row = calls.min(rows - 1);
        calls += usize::from(work.class == Class::Communication);
        let Some(work) = shown(work, window) else { return };
        if let (Class::Communication, Some(sum)) = (work.class, communication.get_mut(work.device)) {
            *sum += work.end.since(work.start);
        }
        sweep.see(&work, row);
        gaps.see(&work);
    });
    let (devices, exposed) = sweep.finish();
    let (compute, both) = (Class::Compute.bit(), Class::Compute.bit() | Class::Communication.bit());
    let mut times = Vec::new();
    let columns = devices.iter().zip(gaps.devices).zip(communication).zip(rank_of_device);
    for (((device, busy), sum), _) in columns.filter(|(_, rank)| rank.is_some()) {
        let own = busy.map(|busy| Window { start: busy.first, end: busy.last });
        let (wall, busy) =
            (window.or(own).map_or(Ns::ZERO, |window| window.length()), busy.map_or(Ns::ZERO, |busy| busy.busy));
        times.extend([wall.0, busy.0, device.with_all(compute), device.with_all(both), device.exposed(), sum.0]);
    }
    Spent { times, exposed }
}

/// The part of the work that lies in the window, if there is one.
fn shown(work: Work, window: Option<Window>) -> Option<Work> {
    let Some(window) = window else { return Some(work) };
    let (start, length) = window.cut(work.start, work.end)?;
    Some(Work { start, end: start + length, ..work })
}
