//! One causal model of a trace: the dependency graph of host and GPU, its critical path, and what a step would take if something were
//! different.
//!
//! Way of the data: when the file is read, `code` keeps which code runs when on the launching threads ([`CodeTimelines`]), for the
//! part that is replayed (`part`). For a report, `recorded` takes the calls and ops of that part; `usual`, `streams`,
//! `queue`, `blocking`, `cross_stream`, `handoffs` and `unrecorded` find the dependencies that the trace does not record; `graph` joins
//! them; `start_up` and `steady` choose the window of steady steps; `path` walks the critical path and `changes` replays
//! changed weights. `sections` shows the result: `critical_path`, `what_if` and `replay_trust`; `simulated` gives the
//! times of one replay for a file. `costs` reads these sections for the verdict and the findings, so that a cost is a replayed saving.
//!
//! The unchanged replay gives every measured time again, and the parts of the path add up to the window, both to the nanosecond.
//! Costs O(n log n) for `n` ops and calls of the part, bounded by the part.
//!
//! After Daydream (Zhu et al., ATC'20), Lumos (Liang et al., MLSys'25) and the critical path analysis of HTA.
//!
//! [`CodeTimelines`]: crate::trace::CodeTimelines

pub mod asked;
mod blocking;
mod candidates;
pub(crate) mod cause;
mod changes;
pub(crate) mod code;
pub(crate) mod costs;
mod cross_stream;
mod faster_kernels;
mod gap_code;
mod graph;
mod graph_launches;
mod handoffs;
mod ids;
mod maybe_waits;
mod part;
mod path;
mod pinnable;
mod pinned;
mod queue;
mod recorded;
pub(crate) mod sections;
#[cfg(not(target_arch = "wasm32"))]
pub(crate) mod simulated;
mod start_up;
mod steady;
mod streams;
#[cfg(test)]
mod tests;
mod transfers;
mod unfused;
mod unrecorded;
#[cfg(test)]
mod unusual_traces_tests;
mod usual;
mod words;

use crate::analysis::communication::operations::Collectives;
use crate::analysis::context::Context;
use crate::analysis::structure::measured_steps::MeasuredStep;
use crate::analysis::structure::stages::Basis;
use crate::rules::signals::Thresholds;
use crate::trace::{CodeTimelines, Ns, ProcessId};
use changes::Changes;
use cross_stream::CrossStream;
use gap_code::GapCode;
use graph::{Graph, Parts};
use part::Part;
use path::CriticalPath;
use queue::Queues;
use recorded::Recorded;
use start_up::FirstUses;
use steady::{HostStep, Steady};
use transfers::Transfers;
use unfused::Unfused;
use unrecorded::Unrecorded;
use usual::Usual;

/// Why a trace is not replayed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoReplay {
    /// It has no GPU op.
    NoOps,
    /// It has no launch call, or no op is linked to one.
    NoLaunches,
    /// Its clocks contradict each other.
    Circle,
    /// No time is left to explain.
    NoWindow,
}

impl NoReplay {
    /// In one sentence.
    pub(crate) fn why(self) -> &'static str {
        match self {
            Self::NoOps => "The trace has no GPU ops.",
            Self::NoLaunches => "No GPU op is linked to a launch call of the host.",
            Self::Circle => "Times of host and GPU contradict each other, so that no op can be first.",
            Self::NoWindow => "The trace has no time with GPU work after its start.",
        }
    }
}

/// What is replayed, as the sections and tests read it.
pub(super) struct Replay<'a> {
    parts: Parts<'a>,
    graph: Graph,
    first_uses: FirstUses,
    steady: Steady,
    unfused: Unfused,
    thresholds: &'a Thresholds,
    path: CriticalPath,
    /// The group of each kernel name.
    groups: Vec<u32>,
    process: ProcessId,
    /// The part of the trace is not the whole.
    is_cut: bool,
}

/// Builds the graph and calls `read` with the replay.
fn with_replay<R>(context: &Context, read: impl FnOnce(&Replay) -> R) -> Result<R, NoReplay> {
    let part = Part::of(context.trace).ok_or(NoReplay::NoOps)?;
    let recorded = Recorded::of(context, &part);
    if recorded.ops.len() == 0 {
        return Err(NoReplay::NoOps);
    }
    if recorded.calls.len() == 0 || recorded.ops.values().iter().all(|op| op.call.is_none()) {
        return Err(NoReplay::NoLaunches);
    }
    let host_steps = host_steps(context, &part, &recorded);
    let first_call = recorded.calls.values().first().map(|call| call.start);
    let first_op = recorded.ops.values().first().map(|op| op.start);
    let first_step = host_steps.first().map(|step| step.start);
    let beginning = first_call.into_iter().chain(first_op).chain(first_step).min().unwrap_or_default();
    let usual = Usual::of(&recorded);
    let follows = streams::followed(&recorded);
    let queues = Queues::of(&recorded, &usual);
    let waits = blocking::waits(&recorded, &usual);
    let groups = groups(context);
    let cross = CrossStream::of(&recorded, &follows, &waits, &groups);
    let timelines: Option<&CodeTimelines> = context.trace.code_timelines.as_deref();
    let handoffs = handoffs::handoffs(&recorded, timelines, beginning);
    let gap_code = GapCode {
        recorded: &recorded,
        handoffs: &handoffs,
        timelines,
        pauses: &context.trace.profiler_pauses,
        beginning,
    };
    let unrecorded = Unrecorded::of(&gap_code, range_names(context));
    let transfers = Transfers::of(context, &recorded);
    let parts = Parts {
        recorded: &recorded,
        usual: &usual,
        follows: &follows,
        queues: &queues,
        waits: &waits,
        cross: &cross,
        handoffs: &handoffs,
        gap_code: &gap_code,
        unrecorded: &unrecorded,
        transfers: &transfers,
        sends_only: context.collectives().is_some_and(Collectives::sends_only),
        beginning,
    };
    let graph = Graph::of(&parts).ok_or(NoReplay::Circle)?;
    let first_uses = FirstUses::of(context.trace, &part, &parts, &graph);
    let steady = Steady::of(&recorded, &graph, &first_uses, &host_steps, beginning).ok_or(NoReplay::NoWindow)?;
    let path = CriticalPath::of(&parts, &graph, &first_uses, &steady);
    let thresholds = &context.signals.thresholds;
    let unfused = Unfused::of(&context.trace.names, &recorded, &steady, thresholds.medium_severity_share);
    let (process, is_cut) = (part.process, part.is_cut);
    Ok(read(&Replay { parts, graph, first_uses, steady, unfused, thresholds, path, groups, process, is_cut }))
}

impl Replay<'_> {
    fn changes(&self) -> Changes<'_> {
        let Self { parts, graph, first_uses, steady, unfused, groups, thresholds, .. } = self;
        Changes::new(parts, graph, first_uses, steady, unfused, groups, thresholds)
    }

    /// The largest difference of a replayed time from the measured one. Zero by construction.
    fn exactness(&self) -> Ns {
        let weights: Vec<Ns> = self.graph.edges.values().iter().map(|edge| edge.weight).collect();
        let times = self.graph.replay(&weights, self.steady.start, None);
        let in_window = self.graph.times.iter().filter(|(_, time)| **time > self.steady.start);
        let difference = in_window.map(|(node, time)| Ns(times.at(node).since(*time).0.abs()));
        difference.max().unwrap_or_default()
    }

    /// The share of the ops whose launch call is recorded.
    fn linked(&self) -> f64 {
        let ops = self.parts.recorded.ops.values();
        ops.iter().filter(|op| op.call.is_some()).count() as f64 / ops.len().max(1) as f64
    }

    /// The part of the path without a known cause.
    fn unexplained(&self) -> Ns {
        self.path.sum(path::PathPart::is_unexplained)
    }
}

/// By name of host code, whether it is the name of a range.
fn range_names(context: &Context) -> Vec<bool> {
    let Some(timelines) = context.trace.code_timelines.as_deref() else { return Vec::new() };
    let ranges: std::collections::HashSet<&str> = context.trace.ranges.names.iter().map(code::without_number).collect();
    timelines.names.iter().map(|name| ranges.contains(name)).collect()
}

/// The group of each kernel name: those that differ only in types and template arguments are one.
fn groups(context: &Context) -> Vec<u32> {
    let short: Vec<String> = context.trace.names.iter().map(crate::rules::names::unabridged).collect();
    cross_stream::groups(&short)
}

/// The steps of the process on its device with most work, as far as the part contains them, and when the host begins each.
fn host_steps(context: &Context, part: &Part, recorded: &Recorded) -> Vec<HostStep> {
    let measured = &context.measured_steps().steps;
    let of_process = || measured.iter().filter(|measured| measured.step.process == part.process);
    let mut times: crate::ordering::VecMap<_, Ns> = crate::ordering::VecMap::new();
    for measured in of_process() {
        times.update(measured.step.device, Ns::ZERO, |time| *time += measured.time);
    }
    let most = times.into_vec().into_iter().max_by_key(|(device, time)| (*time, std::cmp::Reverse(*device)));
    let Some((device, _)) = most else { return Vec::new() };
    let of_device = of_process().filter(|measured| measured.step.device == device);
    let mut steps: Vec<HostStep> = of_device.filter_map(|measured| host_step(context, recorded, measured)).collect();
    steps.retain(|step| step.start >= part.host.start && step.end <= part.host.end);
    crate::ordering::sort_by_key(&mut steps, |step| step.start);
    steps.dedup_by_key(|step| step.start);
    steps
}

/// When the host begins and ends a step: its range on the host, or from the launch of its first op.
fn host_step(context: &Context, recorded: &Recorded, measured: &MeasuredStep) -> Option<HostStep> {
    let step = &measured.step;
    let stage = step.info.stage;
    let idle = step.device.and_then(|device| context.survey().idle.get(device.0 as usize));
    let ends_run = idle.is_some_and(|idle| {
        let next = idle.no_requests.partition_point(|(_, until)| *until <= step.start);
        idle.no_requests.get(next).is_some_and(|(from, _)| *from < measured.until)
    });
    if matches!(step.basis, Basis::Launches | Basis::Host) {
        let (start, end) = step.annotation_range;
        return Some(HostStep { start, end, ends_run, stage });
    }
    let launch = recorded.call(steady::first_launch(recorded, step.start)?);
    let ranges = &context.trace.ranges;
    let before = ranges.count_starting_before(launch.start + Ns(1));
    let around = (0..before)
        .rev()
        .take(1_000)
        .filter_map(|row| ranges.get(row))
        .find(|range| range.name == step.name && range.thread == launch.thread && range.end() >= launch.start);
    let (start, end) = around.map_or_else(
        || {
            let last = steady::last_launch_end(recorded, (step.start, step.end));
            (launch.start, last.unwrap_or(launch.end).max(launch.end))
        },
        |range| (range.start, range.end()),
    );
    Some(HostStep { start, end, ends_run, stage })
}
