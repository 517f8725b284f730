//! Finds the capture of each graph launch by the batch of its step, and joins its ops.

use super::GraphCaptures;
use super::capture::{Capture, Graph, Work};
use super::matching::{IndexedGraph, ReplayedOp};
use crate::analysis::structure::stages::{HostStep, Stage, steps_by_op};
use crate::analysis::triage::frames::canonical;
use crate::ordering::{self, VecMap};
use crate::rules::signals::{CallKind, Signals};
use crate::trace::{
    CallId, CaptureOutcome, CaptureProof, CapturedGraphs, CapturedOp, JoinedCapture, NONE, NameId, Names, OpKind,
    Trace, Unjoined, UnjoinedReplays,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Kernels with which AMD's runtime sets and copies memory. In a capture they are calls that set and copy.
const SETTING_KERNEL: &str = "__amd_rocclr_fillBuffer";
const COPYING_KERNEL: &str = "__amd_rocclr_copyBuffer";

/// One graph launch with its ops.
#[derive(Debug)]
struct Replay {
    launch: CallId,
    /// Index of its step, or [`NONE`].
    step: u32,
    /// In the order of their start.
    ops: Vec<ReplayedOp>,
}

/// Whether a trace has calls that launch graphs.
pub(crate) fn replays_graphs(trace: &Trace) -> bool {
    let signals = Signals::embedded();
    trace.calls.names.iter().any(|name| signals.call(name) == CallKind::GraphLaunch)
}

/// The sizes of the steps that replay graphs, sorted: only captures of these sizes need to be read.
pub(crate) fn sizes_of_replays(trace: &Trace) -> Vec<u64> {
    let (steps, replays) = replays(trace, &Names::default());
    let of_step = |replay: &Replay| steps.get(replay.step as usize).and_then(|step| size(trace, step));
    let mut sizes: Vec<u64> = replays.iter().filter_map(of_step).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The size of a step by which its graph is chosen: tokens for vLLM, and requests where a request has several tokens that SGLang
/// drafts or verifies. In decode steps both are the same.
fn size(trace: &Trace, step: &HostStep) -> Option<u64> {
    // A padded batch is that of the graph.
    let by_requests = matches!(step.stage, Stage::Draft | Stage::Verify) || step.unpadded_batch.is_some();
    let of_requests = step.batch_size.filter(|_| by_requests || step.tokens.is_none());
    let stated = of_requests.or(step.tokens).or_else(|| size_in_label(trace.ranges.names.get(step.name)));
    stated.filter(|size| *size > 0)
}

/// The padded batch in the label of ATOM, 128 in `decode[bs=117/128 tok=117]`, or else its requests.
fn size_in_label(label: &str) -> Option<u64> {
    let (_, rest) = label.split_once("[bs=")?;
    let number = |text: &str| text.split(|end: char| !end.is_ascii_digit()).next()?.parse().ok();
    match rest.split_once('/') {
        Some((requests, padded)) if requests.bytes().all(|byte| byte.is_ascii_digit()) => number(padded),
        _ => number(rest),
    }
}

/// The steps, and the graph launches by step in the order of their calls. `kernels` are the names in the captures.
fn replays(trace: &Trace, kernels: &Names) -> (Vec<HostStep>, Vec<Replay>) {
    let signals = Signals::embedded();
    let names = trace.calls.names.iter();
    let is_replay: Vec<bool> = names.map(|name| signals.call(name) == CallKind::GraphLaunch).collect();
    if !is_replay.contains(&true) {
        return (Vec::new(), Vec::new());
    }
    let is_replay = |call: &CallId| {
        let name = trace.calls.name(call.0 as usize);
        name.is_some_and(|name| is_replay.get(name.0 as usize) == Some(&true))
    };
    let launches = (0_u32..).zip(trace.gpu_ops.launches());
    let mut rows: Vec<(CallId, u32)> =
        launches.filter_map(|(row, call)| Some((call.filter(is_replay)?, row))).collect();
    rows.sort_unstable();
    let (steps, step_of_op) = steps_by_op(trace);
    let work = works(trace, kernels);
    let op = |row: u32| {
        let op = trace.gpu_ops.get(row as usize)?;
        let work = match op.kind {
            OpKind::Kernel => work.get(op.name.0 as usize).copied()?,
            OpKind::Copy => Work::Copy,
            OpKind::Set => Work::Set,
        };
        Some(ReplayedOp { row, work, stream: op.stream })
    };
    let replay = |ops: &[(CallId, u32)]| {
        let (launch, first) = *ops.first()?;
        let step = step_of_op.get(first as usize).copied().unwrap_or(NONE);
        Some(Replay { launch, step, ops: ops.iter().filter_map(|(_, row)| op(*row)).collect() })
    };
    let mut replays: Vec<Replay> = rows.chunk_by(|a, b| a.0 == b.0).filter_map(replay).collect();
    ordering::sort_by_key(&mut replays, |replay| (replay.step, replay.launch));
    (steps, replays)
}

/// By name of the trace: the work of a kernel with this name.
fn works(trace: &Trace, kernels: &Names) -> Vec<Work> {
    let work = |name: &str| match canonical(name) {
        name if name.starts_with(SETTING_KERNEL) => Work::Set,
        name if name.starts_with(COPYING_KERNEL) => Work::Copy,
        // A kernel that no capture has: a number that none of them has.
        name => Work::Kernel(Some(kernels.find(&name).unwrap_or(NameId(NONE)))),
    };
    trace.names.iter().map(work).collect()
}

/// Fills [`Trace::captured_graphs`].
pub(super) fn join(captures: GraphCaptures, trace: &mut Trace) {
    let GraphCaptures { captures, kernels, mut content, .. } = captures;
    let (steps, replays) = replays(trace, &kernels);
    let mut joined = Joined::of(&captures, &content.ops);
    for of_step in replays.chunk_by(|a, b| a.step == b.step) {
        let step = of_step.first().and_then(|replay| steps.get(replay.step as usize));
        joined.add_step(step.and_then(|step| size(trace, step)), of_step);
    }
    let Joined { mut rows, outcome, .. } = joined;
    rows.sort_unstable();
    outcome.write(&captures, &mut content.outcome);
    trace.captured_graphs = CapturedGraphs { captured: Some(Arc::new(content)), rows };
}

/// The join so far.
struct Joined<'a> {
    /// By capture: its graphs.
    graphs: Vec<Vec<IndexedGraph<'a>>>,
    /// The captures by number of graphs and size of the batch.
    by_size: BTreeMap<(usize, u64), usize>,
    largest: u64,
    rows: Vec<(u32, u32)>,
    outcome: Outcome,
}

impl<'a> Joined<'a> {
    fn of(captures: &'a [Capture], ops: &[CapturedOp]) -> Self {
        let proof = |graph: &Graph| graph.first().and_then(|call| ops.get(call.op as usize)).map(|op| op.proof);
        let indexed = |graph: &'a Graph| IndexedGraph::of(graph, proof(graph).unwrap_or(CaptureProof::Order));
        let graphs = captures.iter().map(|capture| capture.graphs.iter().map(indexed).collect()).collect();
        let mut by_size = BTreeMap::new();
        for (index, capture) in captures.iter().enumerate() {
            // Of several, the last one: names end in the time, so that it is the newest.
            by_size.insert((capture.graphs.len(), capture.batch_size), index);
        }
        let largest = captures.iter().map(|capture| capture.batch_size).max().unwrap_or_default();
        Self { graphs, by_size, largest, rows: Vec::new(), outcome: Outcome::default() }
    }

    /// Joins the graph launches of a step.
    fn add_step(&mut self, size: Option<u64>, replays: &[Replay]) {
        let chosen = size.ok_or(Unjoined::NoSize).and_then(|size| Ok((size, self.capture(size, replays.len())?)));
        for (number, replay) in replays.iter().enumerate() {
            let ops = replay.ops.len() as u64;
            match chosen.and_then(|(size, index)| Ok((size, index, self.add(index, number, replay)?))) {
                Ok((size, index, (proof, joined))) => self.outcome.add(index, size, proof, [ops, joined]),
                Err(why) => self.outcome.unjoined.update(why, [0; 2], |[launches, sum]| {
                    (*launches, *sum) = (*launches + 1, *sum + ops);
                }),
            }
        }
    }

    /// The capture of a step of this size: of the smallest batch that is not smaller, with as many graphs as the step launches or
    /// with one for all of them.
    fn capture(&self, size: u64, launches: usize) -> Result<usize, Unjoined> {
        let with =
            |graphs: usize| self.by_size.range((graphs, size)..=(graphs, u64::MAX)).next().map(|(_, index)| *index);
        let missing = if self.largest >= size { Unjoined::LaunchesDiffer } else { Unjoined::NoCapture };
        with(launches).or_else(|| with(1)).ok_or(missing)
    }

    /// Joins the ops of one launch. Returns what the join rests on, and the number of joined ops.
    fn add(&mut self, index: usize, number: usize, replay: &Replay) -> Result<(CaptureProof, u64), Unjoined> {
        let graphs = self.graphs.get(index).map_or(&[][..], Vec::as_slice);
        let graph = graphs.get(if graphs.len() == 1 { 0 } else { number }).ok_or(Unjoined::LaunchesDiffer)?;
        let matches = graph.matches(&replay.ops)?;
        let before = self.rows.len();
        let matched = replay.ops.iter().zip(&matches);
        let matched = matched.filter_map(|(op, call)| Some((op.row, graph.calls.get((*call)?)?.op)));
        self.rows.extend(matched);
        Ok((graph.proof(), (self.rows.len() - before) as u64))
    }
}

/// What was joined of each capture, by its index, and what was not.
#[derive(Default)]
struct Outcome {
    joined: VecMap<usize, CaptureSums>,
    /// Launches and ops.
    unjoined: VecMap<Unjoined, [u64; 2]>,
}

#[derive(Debug, Clone, Copy)]
struct CaptureSums {
    step_sizes: (u64, u64),
    launches: u64,
    ops: u64,
    joined_ops: u64,
    proof: CaptureProof,
}

impl Outcome {
    fn add(&mut self, capture: usize, size: u64, proof: CaptureProof, [ops, joined_ops]: [u64; 2]) {
        let none = CaptureSums { step_sizes: (size, size), launches: 0, ops: 0, joined_ops: 0, proof };
        self.joined.update(capture, none, |sums| {
            sums.step_sizes = (sums.step_sizes.0.min(size), sums.step_sizes.1.max(size));
            sums.launches += 1;
            sums.ops += ops;
            sums.joined_ops += joined_ops;
            sums.proof = sums.proof.max(proof);
        });
    }

    fn write(self, captures: &[Capture], outcome: &mut CaptureOutcome) {
        for (index, CaptureSums { step_sizes, launches, ops, joined_ops, proof }) in self.joined.into_vec() {
            let Some(Capture { file, batch_size, .. }) = captures.get(index) else { continue };
            let (file, batch_size) = (file.clone(), *batch_size);
            outcome.joined.push(JoinedCapture { file, batch_size, step_sizes, launches, ops, joined_ops, proof });
        }
        ordering::sort_by_key(&mut outcome.joined, |joined| joined.batch_size);
        let unjoined = self.unjoined.into_vec().into_iter();
        outcome.unjoined = unjoined.map(|(why, [launches, ops])| UnjoinedReplays { why, launches, ops }).collect();
        ordering::sort_by_key(&mut outcome.unjoined, |unjoined| unjoined.why);
    }
}

#[cfg(test)]
mod tests {
    use super::size_in_label;

    #[test]
    fn the_padded_batch_of_a_label_is_that_of_the_graph() {
        assert_eq!(size_in_label("decode[bs=117/128 tok=117 p=2 d=115]"), Some(128));
        assert_eq!(size_in_label("prefill[bs=6 tok=17408 ctx=[4096, 4096]...+3]"), Some(6));
        assert_eq!(size_in_label("eager_decode[bs=3]"), Some(3));
        for text in ["decode", "decode[bs=]", "step[DECODE bs=3]", "decode[bs=99999999999999999999]"] {
            assert_eq!(size_in_label(text), None, "{text}");
        }
    }
}
