//! What one trace tells of the ranks in it: who they are, how each spent its time, and every message between GPUs. It is
//! made where the trace is, and goes to whoever groups ranks as a JSON text; numbers stand in columns, not in objects, so
//! that it stays small.

use crate::analysis::explain::Context;
use crate::analysis::explain::attribution::{NONE, around_calls};
use crate::analysis::explain::collectives::{PAIRS, each_call};
use crate::analysis::explain::intervals::{Class, Gaps, Sweep, each_work};
use crate::json::from_json;
use crate::trace::{NameId, Names, OpKind, Trace};
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
}
from_json!(RankLog {
    file,
    rank,
    world_size,
    backend,
    devices,
    gpus,
    times,
    operations,
    groups,
    group_ranks,
    calls,
    counts,
    left_out,
    replays
});

/// The log of a whole trace, whatever window of it a person looks at: messages are matched by their order.
pub fn log(trace: &Trace) -> RankLog {
    let context = Context::new(trace, 0);
    let mut rank_of_device = vec![-1; trace.devices.len()];
    let kernels = trace.gpu_ops.iter().filter(|op| op.kind == OpKind::Kernel);
    kernels.for_each(|op| rank_of_device.get_mut(op.device.0 as usize).into_iter().for_each(|rank| *rank = 0));
    let mut found = empty(trace);
    for (rank, device) in rank_of_device.iter_mut().zip(&trace.devices).filter(|(rank, _)| **rank == 0) {
        *rank = found.devices.len() as i64;
        found.devices.push(device.id.clone());
        found.gpus.push(device.name.clone());
    }
    let sums = calls(&context, &rank_of_device, &mut found);
    times(&context, &rank_of_device, &sums, &mut found);
    found
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
        times: Vec::new(),
        operations: Vec::new(),
        groups: Vec::new(),
        group_ranks: Vec::new(),
        calls: Vec::new(),
        counts: Vec::new(),
        left_out: 0,
        replays: trace.graph_replays.len() as i64,
    }
}

/// Writes the calls down and gives the sum of their durations by rank.
fn calls(context: &Context, rank_of_device: &[i64], found: &mut RankLog) -> Vec<i64> {
    let trace = context.trace;
    let (mut operations, mut groups) = (Names::default(), Names::default());
    let (mut sums, mut kept) = (vec![0_i64; found.devices.len()], 0);
    let mut counts: BTreeMap<[i64; 3], i64> = BTreeMap::new();
    let told = TellingRanges::new(context);
    each_call(context, &mut |call| {
        let rank = rank_of_device.get(call.op.device.0 as usize).copied().unwrap_or(-1);
        let Some(sum) = usize::try_from(rank).ok().and_then(|rank| sums.get_mut(rank)) else { return };
        *sum = sum.saturating_add(call.op.duration.0);
        let by_range = if call.operation == PAIRS && call.message.is_none() { told.operation(call.at) } else { None };
        let operation = operations.intern(by_range.unwrap_or(call.operation));
        let group = groups.intern(call.message.map_or("", |message| message.communicator.as_str()));
        let stream = [rank, i64::from(operation.0), i64::from(group.0)];
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
    sums
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

/// How each rank spent its time, and of each call that is kept how much of it nothing hides.
fn times(context: &Context, rank_of_device: &[i64], sums: &[i64], found: &mut RankLog) {
    let mut calls = 0;
    let rows = found.calls.len() / CALL + 1;
    // Calls come in the order in which they were written down; those that were left out share the last row.
    let (mut sweep, mut gaps) = (Sweep::new(context, rows), Gaps::new(context));
    each_work(context, &mut |work| {
        sweep.see(&work, calls.min(rows - 1));
        calls += usize::from(work.class == Class::Communication);
        gaps.see(&work);
    });
    let (devices, exposed) = sweep.finish();
    for (call, exposed) in found.calls.chunks_exact_mut(CALL).zip(exposed) {
        call.last_mut().into_iter().for_each(|last| *last = exposed.exposed_ns);
    }
    let (compute, both) = (Class::Compute.bit(), Class::Compute.bit() | Class::Communication.bit());
    for ((device, window), rank) in devices.iter().zip(gaps.devices).zip(rank_of_device) {
        let (Some(window), Some(sum)) = (window, usize::try_from(*rank).ok().and_then(|rank| sums.get(rank))) else {
            continue;
        };
        let (wall, busy) = (window.last.since(window.first).0, window.busy.0);
        found.times.extend([wall, busy, device.with_all(compute), device.with_all(both), device.exposed(), *sum]);
    }
}
