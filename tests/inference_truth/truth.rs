//! What a recording contains, as the sections of a report should state it. Computed from the events themselves, without
//! the rules of gpuprism.

use super::capture::Captured;
use super::config::{Capture, Config, Loads};
use super::engine::Stage;
use super::machine::{GpuOp, HostEvent, MAIN_STREAM, Place, Recording};
use std::collections::{BTreeMap, BTreeSet};

/// Counts of roles.
pub(crate) type Roles = BTreeMap<String, usize>;

/// The truth about one trace.
#[derive(Debug)]
pub(crate) struct Truth {
    /// The steps of which the capture has at least one op.
    pub(crate) steps: Vec<Step>,
    /// The layers of each stage of which the capture has at least a part of a step.
    pub(crate) layers: BTreeMap<Stage, Layers>,
    /// Nanoseconds in which the GPU waited for the host, by innermost Python function.
    pub(crate) blame: BTreeMap<String, i64>,
    /// The part of them between the last op of a step and the first op of the next one.
    pub(crate) between: BTreeMap<String, i64>,
    /// The start of the process.
    pub(crate) start: Option<Start>,
    /// Whether the capture has a part of a start.
    pub(crate) has_part_of_start: bool,
    /// The graph replays of each stage, if the capture has annotations and all ops.
    pub(crate) graphs: BTreeMap<Stage, Graphs>,
    /// The complete rounds of draft and verify steps, under the same condition.
    pub(crate) rounds: Vec<Round>,
}

/// How the steps of a stage were launched.
#[derive(Debug, Default)]
pub(crate) struct Graphs {
    pub(crate) steps: u64,
    ops: u64,
    replayed_ops: u64,
    time: i64,
    replayed_time: i64,
    /// By step.
    launches: Vec<u64>,
}

impl Graphs {
    pub(crate) fn replayed_ops_pct(&self) -> f64 {
        100.0 * self.replayed_ops as f64 / self.ops as f64
    }

    pub(crate) fn replayed_time_pct(&self) -> f64 {
        100.0 * self.replayed_time as f64 / self.time as f64
    }

    /// The number of graph launches, which is the same in all steps of a stage.
    pub(crate) fn launches_per_step(&self) -> u64 {
        assert!(self.launches.iter().all(|launches| *launches == self.launches[0]), "{self:?}");
        self.launches[0]
    }
}

/// From the first op of a verify step to the first op of the next one. In nanoseconds.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) time: i64,
    pub(crate) verify: i64,
    pub(crate) draft: i64,
    pub(crate) drafts: u64,
}

/// The start of a process.
#[derive(Debug)]
pub(crate) struct Start {
    /// The end of the last load of code.
    pub(crate) steady_from: i64,
    /// From the first event of the process to that time.
    pub(crate) length: i64,
    /// The steps that begin before that time.
    pub(crate) steps: usize,
}

#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) stage: Stage,
    /// The start of the first op, and of the first op on the main stream. Engines launch some ops of a step on another stream
    /// while the step before still runs.
    pub(crate) first_start: i64,
    pub(crate) start: i64,
    /// The start of the first op whose launch the capture contains.
    pub(crate) launched_start: i64,
    /// When the step begins: with its first op on the main stream, or with an earlier one on another stream, as far as the step before
    /// has ended.
    pub(crate) begin: i64,
    /// The end of the last op.
    pub(crate) end: i64,
    /// Whether the capture contains the whole step.
    pub(crate) is_whole: bool,
    /// If the capture has the next step as a whole, too.
    pub(crate) time: Option<StepTime>,
}

/// The time of a step until the next one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StepTime {
    pub(crate) length: i64,
    pub(crate) busy: i64,
}

#[derive(Debug)]
pub(crate) struct Layers {
    /// The number of whole steps.
    pub(crate) steps: usize,
    /// The kind of each layer, as far as names tell: layers with the same attention and expert kernels are of one kind.
    /// Kinds are numbered by their first layer.
    pub(crate) order: Vec<usize>,
    /// By kind: the roles of its last layer.
    pub(crate) roles: Vec<Roles>,
}

impl Truth {
    pub(crate) fn of(config: &Config, recording: &Recording, captured: &Captured) -> Self {
        let steps = steps(config, recording, captured);
        let mut layers = BTreeMap::new();
        for (number, step) in recording.steps.iter().enumerate() {
            let ops: Vec<&GpuOp> = recording.ops.iter().filter(|op| op.step == number).collect();
            layers.entry(step.stage).or_insert_with(|| Layers::of(&ops));
        }
        for (stage, layers) in &mut layers {
            layers.steps = steps.iter().filter(|step| step.is_whole && step.stage == *stage).count();
        }
        layers.retain(|stage, _| steps.iter().any(|step| step.stage == *stage));
        let blamed = |is: fn(&GpuOp, &GpuOp) -> bool| match config.capture.has_frames() {
            true => blame(recording, is),
            false => BTreeMap::new(),
        };
        let (blame, between) = (blamed(|_, _| true), blamed(|before, next| before.step != next.step));
        let is_known = config.capture == Capture::Annotated && captured.has_op.iter().all(|has| *has);
        let graphs = if is_known { graphs(recording) } else { BTreeMap::new() };
        let rounds = if is_known { rounds(&steps) } else { Vec::new() };
        let is_starting = config.loads == Loads::AtStart;
        let start = if is_starting && !config.faults.is_cut { start(config, recording) } else { None };
        let mut loads = recording.loads.iter().map(|(_, call)| recording.calls[*call].end);
        let has_part_of_start = is_starting && loads.any(|end| captured.window.contains(&end));
        Self { steps, layers, blame, between, start, has_part_of_start, graphs, rounds }
    }

    /// The steps of several processes in one file. `works` are the times of all ops if the file calls the GPUs of the processes one.
    pub(crate) fn merged(ranks: Vec<Self>, works: Option<&[(i64, i64)]>) -> Self {
        let mut steps: Vec<Step> = ranks.into_iter().flat_map(|truth| truth.steps).collect();
        steps.sort_by_key(|step| step.start);
        for step in &mut steps {
            if let (Some(time), Some(works)) = (&mut step.time, works) {
                time.busy = busy(works, step.begin, step.begin + time.length);
            }
        }
        let (layers, graphs, rounds) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        let (blame, between) = (BTreeMap::new(), BTreeMap::new());
        Self { steps, layers, blame, between, start: None, has_part_of_start: false, graphs, rounds }
    }
}

/// A process starts until it has loaded its code. The steps that load, and those before, begin before that. A CSV of ops shows no loads.
fn start(config: &Config, recording: &Recording) -> Option<Start> {
    let (step, call) = recording.loads.last().filter(|_| config.capture != Capture::Names)?;
    let steady_from = recording.calls[*call].end;
    let calls = recording.calls.iter().map(|call| call.start);
    let annotations = recording.steps.iter().map(|step| step.annotation.start);
    let first = calls.chain(annotations.filter(|_| config.capture.has_annotations())).min()?;
    Some(Start { steady_from, length: steady_from - first, steps: step + 1 })
}

/// Ops of a graph are those whose call launched one.
fn graphs(recording: &Recording) -> BTreeMap<Stage, Graphs> {
    let mut graphs: BTreeMap<Stage, Graphs> = BTreeMap::new();
    for (number, step) in recording.steps.iter().enumerate() {
        let of_stage = graphs.entry(step.stage).or_default();
        let mut calls = BTreeSet::new();
        for op in recording.ops.iter().filter(|op| op.step == number) {
            let is_replayed = recording.calls[op.correlation].name.ends_with("GraphLaunch");
            calls.extend(is_replayed.then_some(op.correlation));
            of_stage.ops += 1;
            of_stage.replayed_ops += u64::from(is_replayed);
            of_stage.time += op.duration;
            of_stage.replayed_time += if is_replayed { op.duration } else { 0 };
        }
        of_stage.steps += 1;
        of_stage.launches.push(calls.len() as u64);
    }
    graphs
}

/// Steps are sorted by start. The last round has no end.
fn rounds(steps: &[Step]) -> Vec<Round> {
    let verify: Vec<usize> = (0..steps.len()).filter(|number| steps[*number].stage == Stage::Verify).collect();
    let round = |pair: &[usize]| {
        let [first, last] = [&steps[pair[0]], &steps[pair[1]]];
        let draft = &steps[pair[0] + 1];
        let [time, verify] = [last, draft].map(|step| step.begin - first.begin);
        Round { time, verify, draft: time - verify, drafts: (pair[1] - pair[0] - 1) as u64 }
    };
    verify.windows(2).map(round).collect()
}

fn steps(config: &Config, recording: &Recording, captured: &Captured) -> Vec<Step> {
    let window = &captured.window;
    let mut steps = Vec::new();
    for (number, step) in recording.steps.iter().enumerate() {
        let ops = || recording.ops.iter().zip(&captured.has_op).filter(|(op, _)| op.step == number);
        let seen = || ops().filter(|(_, has)| **has).map(|(op, _)| op);
        let on_main = || seen().filter(|op| op.stream == MAIN_STREAM);
        let Some(first_start) = seen().map(|op| op.start).min() else { continue };
        let start = on_main().map(|op| op.start).min().unwrap_or(first_start);
        let end = seen().map(GpuOp::end).max().unwrap();
        // The frames of a step show it as far as its launches are in the capture.
        let is_launched = |op: &&GpuOp| window.start <= recording.calls[op.correlation].start;
        let launched_start = seen().filter(is_launched).map(|op| op.start).min().unwrap_or(end);
        let has_launches = !config.capture.has_frames() || launched_start == first_start;
        let annotation = &step.annotation;
        let has_annotation = window.start <= annotation.start && annotation.end <= window.end;
        let has_ops = ops().all(|(op, _)| window.start <= op.start && op.end() <= window.end);
        let is_whole = has_ops && has_launches && (has_annotation || !config.capture.has_annotations());
        let end_before = steps.last().map_or(i64::MIN, |step: &Step| step.end);
        let begin = first_start.max(start.min(end_before));
        let stage = step.stage;
        steps.push(Step { stage, first_start, launched_start, start, begin, end, is_whole, time: None });
    }
    let works = works(&[(recording, captured)]);
    for index in 1..steps.len() {
        let (start, end) = (steps[index - 1].begin, steps[index].begin);
        if steps[index - 1].is_whole && steps[index].is_whole {
            steps[index - 1].time = Some(StepTime { length: end - start, busy: busy(&works, start, end) });
        }
    }
    steps
}

/// The times of the ops that captures have, sorted.
pub(crate) fn works(captures: &[(&Recording, &Captured)]) -> Vec<(i64, i64)> {
    let ops = captures.iter().flat_map(|(recording, captured)| recording.ops.iter().zip(&captured.has_op));
    let mut works: Vec<(i64, i64)> = ops.filter(|(_, has)| **has).map(|(op, _)| (op.start, op.end())).collect();
    works.sort_unstable();
    works
}

/// The time between two times in which at least one of the ops runs, which are sorted by start.
fn busy(works: &[(i64, i64)], start: i64, end: i64) -> i64 {
    let (mut until, mut sum) = (start, 0);
    for (from, to) in works.iter().take_while(|work| work.0 < end) {
        sum += (*to.min(&end) - *from.max(&until)).max(0);
        until = until.max(*to);
    }
    sum
}

impl Layers {
    fn of(ops: &[&GpuOp]) -> Self {
        let (mut marks, mut order, mut roles) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0.. {
            let is_in = |op: &&&GpuOp| op.place == Place::Layer(number) && op.stream == MAIN_STREAM;
            let layer: Vec<&GpuOp> = ops.iter().filter(is_in).copied().collect();
            if layer.is_empty() {
                break;
            }
            let is_mark = |op: &&&GpuOp| op.role.starts_with("attention") || op.role.starts_with("experts");
            let mut names: Vec<&str> = layer.iter().filter(is_mark).map(|op| op.name.as_str()).collect();
            names.sort_unstable();
            let kind = marks.iter().position(|other| *other == names).unwrap_or_else(|| {
                marks.push(names);
                roles.push(Roles::new());
                marks.len() - 1
            });
            order.push(kind);
            let mut of_layer = Roles::new();
            layer.iter().for_each(|op| *of_layer.entry(op.role.clone()).or_default() += 1);
            roles[kind] = of_layer;
        }
        Self { steps: 0, order, roles }
    }
}

/// The time of each gap of the GPU until the launch of the next op returned, by the innermost frame of the host. Of the gaps between
/// two ops for which `is` holds.
fn blame(recording: &Recording, is: fn(&GpuOp, &GpuOp) -> bool) -> BTreeMap<String, i64> {
    let mut ops: Vec<&GpuOp> = recording.ops.iter().collect();
    ops.sort_by_key(|op| op.start);
    let mut blame = BTreeMap::new();
    let mut until = ops[0].end();
    for pair in ops.windows(2) {
        let (before, next) = (pair[0], pair[1]);
        let end = recording.calls[next.correlation].end.min(next.start);
        if until < end && before.correlation != next.correlation && is(before, next) {
            add_code(recording, until, end, &mut blame);
        }
        until = until.max(next.end());
    }
    blame
}

/// Adds the time from `start` to `end` to the innermost function at each moment. Frames do not overlap unless nested.
fn add_code(recording: &Recording, start: i64, end: i64, blame: &mut BTreeMap<String, i64>) {
    let inside = |frame: &&HostEvent| frame.start < end && start < frame.end;
    let frames: Vec<_> = recording.frames.iter().filter(inside).collect();
    let mut times: Vec<i64> = frames.iter().flat_map(|frame| [frame.start, frame.end]).collect();
    times.extend([start, end]);
    times.retain(|time| (start..=end).contains(time));
    times.sort_unstable();
    for pair in times.windows(2) {
        let covers = |frame: &&&HostEvent| frame.start <= pair[0] && pair[1] <= frame.end;
        let innermost = frames.iter().filter(covers).min_by_key(|frame| frame.end - frame.start);
        if let Some(frame) = innermost {
            *blame.entry(frame.name.clone()).or_default() += pair[1] - pair[0];
        }
    }
}
