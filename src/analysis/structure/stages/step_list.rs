//! The steps of the serving engine in a trace, each once. O(a log a + n) for `a` annotations and `n` GPU ops.
//!
//! The times of a step are those of the ops launched in its host annotation. If the trace does not link the ops, or only some
//! of them, they are those of the device annotation.
//!
//! If annotations are nested, the innermost names the step. The step begins and ends with the outermost annotation of the same
//! stage that contains no other step: SGLang writes `execute_16_context_0_generation_16` around `step[DECODE bs=16]`, and the
//! ops that prepare the batch are launched between the two.

use super::extents::{Extent, launched_extents};
use super::launch_labels::{LaunchLabels, timelines_by_process};
use super::step::{Basis, Step};
use super::word_ranges::processes_with_steps;
use super::{Form, Stage, StepInfo, TokenSums, parse_steps, phase_ends};
use crate::ordering::{self, VecMap};
use crate::trace::{Annotation, DeviceId, HostCode, NONE, NameId, Ns, ProcessId, Span, ThreadId, Trace};
use std::cmp::Reverse;

/// The profiler writes annotations and ops with different rounding.
const ROUNDING: Ns = Ns(1_000);

/// The name of a step without an annotation.
pub(crate) const NO_NAME: NameId = NameId(u32::MAX);

/// An annotation of a step in the tree of nested annotations.
#[derive(Debug, Clone, Copy)]
struct StepNode {
    info: StepInfo,
    name: NameId,
    id: u32,
    start: Ns,
    end: Ns,
    device: Option<DeviceId>,
    process: ProcessId,
    /// Index of the innermost node that contains this one, in the list of [`link_parents`].
    parent: Option<usize>,
    children: u32,
}

/// All steps, sorted by start; steps with host times come last.
pub fn steps(trace: &Trace) -> Vec<Step> {
    let Some(code) = &trace.code else { return Vec::new() };
    let infos = parse_steps(&code.annotation_names);
    let mut steps = Vec::new();
    let mut has_dropped = false;
    let (device, host) = annotation_nodes(code, &infos);
    for is_profiler in [false, true] {
        let step_nodes = |nodes: &[StepNode]| {
            let of_form = nodes.iter().filter(|node| (node.info.form == Form::Profiler) == is_profiler);
            step_nodes(of_form.copied().collect())
        };
        let (mut device, mut host) = (step_nodes(&device), step_nodes(&host));
        drop_plain_names(trace, &mut host, &mut device);
        let extents = launched_extents(trace, &timelines_by_process(trace, ranges(&host)));
        has_dropped |= drop_short_annotations(&mut device, &host, &extents);
        steps.extend(device.iter().map(|node| node.step(Basis::Device)));
        add_host_steps(&host, &extents, &DeviceKeys::new(trace, &device), &mut steps);
    }
    if has_dropped {
        drop_parts(&mut steps);
    }
    ordering::sort_by_key(&mut steps, |step| (step.basis == Basis::Host, step.start));
    phase_ends::mark(trace, &mut steps);
    steps
}

/// Drops annotations with plain names that are no steps: numbered ones beside others, and those of processes in which the host
/// annotations contain only a part of the launches.
fn drop_plain_names(trace: &Trace, host: &mut Vec<StepNode>, device: &mut Vec<StepNode>) {
    if !host.iter().any(|node| node.info.form.is_plain()) {
        return;
    }
    let has_words = host.iter().any(|node| node.info.form == Form::Word);
    let is_step = |node: &StepNode| node.info.form != Form::Numbered || !has_words;
    host.retain(is_step);
    let is_covered = is_covered(trace, host);
    host.retain(&is_covered);
    device.retain(|node| is_step(node) && is_covered(node));
}

/// Whether the host ranges of the process of a node contain most of its launches. The ranges are those of `nodes`.
fn is_covered(trace: &Trace, nodes: &[StepNode]) -> impl Fn(&StepNode) -> bool + use<> {
    let are_steps = processes_with_steps(trace, || ranges(nodes));
    move |node| are_steps.get(node.process.0 as usize).is_some_and(|are_steps| *are_steps)
}

/// Drops the device annotations that are not longer than the ops launched in the host annotation of the same step. The
/// profiler attaches a device annotation to some ops only, for example not to those of a graph replay. Returns whether there
/// were any.
fn drop_short_annotations(device: &mut Vec<StepNode>, host: &[StepNode], extents: &[Extent]) -> bool {
    let launched = |extent: &Extent| {
        let node = host.get(extent.label as usize)?;
        Some(((node.process, node.name, node.id, Some(extent.device)), extent.end.since(extent.start)))
    };
    let mut launched: Vec<(StepKey, Ns)> = extents.iter().filter_map(launched).collect();
    ordering::sort_by_key(&mut launched, |(key, _)| *key);
    let count = device.len();
    device.retain(|node| {
        let key = (node.process, node.name, node.id, node.device);
        let found = launched.binary_search_by_key(&key, |(key, _)| *key).ok().and_then(|index| launched.get(index));
        found.is_none_or(|(_, length)| node.end.since(node.start) > *length + ROUNDING)
    });
    device.len() < count
}

/// Process, name, id and device of an annotation.
type StepKey = (ProcessId, NameId, u32, Option<DeviceId>);

/// Drops steps from device annotations that cover less than half of a step whose times are those of its launches.
fn drop_parts(steps: &mut Vec<Step>) {
    let lane = |step: &Step| (step.process, step.device, step.info.form == Form::Profiler);
    let mut launched: Vec<Step> = steps.iter().filter(|step| step.basis == Basis::Launches).copied().collect();
    ordering::sort_by_key(&mut launched, |step| (lane(step), step.start));
    let is_part = |step: &Step| {
        let after = launched.partition_point(|whole| (lane(whole), whole.start) <= (lane(step), step.start));
        let whole =
            after.checked_sub(1).and_then(|index| launched.get(index)).filter(|whole| lane(whole) == lane(step));
        whole.is_some_and(|whole| {
            let length = step.end.since(step.start).0;
            step.end <= whole.end && length.saturating_mul(2) < whole.end.since(whole.start).0
        })
    };
    steps.retain(|step| step.basis != Basis::Device || !is_part(step));
}

/// The steps from host ranges, sorted by start. Every trace has its ranges, even if it was read without its code.
/// [`Step::name`] is a name of the ranges. Only the most exact [`Form`] in the trace counts, so a profiler step around engine
/// steps is not an additional step.
pub fn steps_from_ranges(trace: &Trace) -> Vec<Step> {
    let host = range_nodes(trace);
    let mut steps = Vec::new();
    let extents = launched_extents(trace, &timelines_by_process(trace, ranges(&host)));
    add_host_steps(&host, &extents, &DeviceKeys::new(trace, &[]), &mut steps);
    ordering::sort_by_key(&mut steps, |step| step.start);
    phase_ends::mark(trace, &mut steps);
    steps
}

/// A step that [`steps_by_op`] numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostStep {
    /// Its number within its process, from 1. Ranks of one run number their steps in the same way.
    pub number: u32,
    /// See [`Step::name`].
    pub name: NameId,
    /// The stage of its range.
    pub stage: Stage,
    /// Number of requests in the batch, if its range states it.
    pub batch_size: Option<u64>,
    /// Number of query tokens in the batch, if its range states it.
    pub tokens: Option<u64>,
    /// See [`StepInfo::unpadded_batch`].
    pub unpadded_batch: Option<u64>,
    /// What marks it.
    pub form: Form,
    /// The process of its range, and the start of the range.
    pub range_start: (ProcessId, Ns),
    /// Sums over the requests in prefill, if its range states them.
    pub context: Option<TokenSums>,
    /// Sums over the requests in decode, if its range states them.
    pub generation: Option<TokenSums>,
}

impl HostStep {
    /// What its range states.
    pub(crate) fn info(&self) -> StepInfo {
        let Self { stage, form, batch_size, unpadded_batch, tokens, context, generation, .. } = *self;
        StepInfo { stage, form, batch_size, unpadded_batch, tokens, context, generation }
    }

    /// A step that what runs in it shows: only its stage is known.
    pub(crate) fn inferred(number: u32, stage: Stage, form: Form) -> Self {
        let range_start = (ProcessId(0), Ns::ZERO);
        Self {
            number,
            name: NO_NAME,
            stage,
            batch_size: None,
            unpadded_batch: None,
            tokens: None,
            form,
            range_start,
            context: None,
            generation: None,
        }
    }
}

/// The steps of [`steps_from_ranges`] that launched GPU ops, and for each op the index of the step whose range contains its
/// launch, or [`NONE`].
pub fn steps_by_op(trace: &Trace) -> (Vec<HostStep>, Vec<u32>) {
    let nodes = range_nodes(trace);
    let timelines = timelines_by_process(trace, ranges(&nodes));
    let mut labels = LaunchLabels::new(trace, &timelines);
    let ops = trace.gpu_ops.iter().enumerate();
    let mut by_op: Vec<u32> = ops.map(|(row, op)| labels.of_op(row, op.process).unwrap_or(NONE)).collect();
    // The index of each node among the steps that launched ops, or `NONE`.
    let mut step_of_node = vec![NONE; nodes.len()];
    for node in &by_op {
        step_of_node.get_mut(*node as usize).into_iter().for_each(|step| *step = 0);
    }
    let (mut steps, mut process, mut number): (Vec<HostStep>, _, _) = (Vec::new(), None, 0);
    // Nodes are sorted by process, then by start.
    for (node, step) in nodes.iter().zip(&mut step_of_node).filter(|(_, step)| **step != NONE) {
        number = if process == Some(node.process) { number + 1 } else { 1 };
        process = Some(node.process);
        *step = u32::try_from(steps.len()).unwrap_or(NONE);
        let StepInfo { stage, form, batch_size, unpadded_batch, tokens, context, generation } = node.info;
        steps.push(HostStep {
            number,
            name: node.name,
            stage,
            batch_size,
            unpadded_batch,
            tokens,
            form,
            range_start: (node.process, node.start),
            context,
            generation,
        });
    }
    for slot in &mut by_op {
        *slot = step_of_node.get(*slot as usize).copied().unwrap_or(NONE);
    }
    (steps, by_op)
}

/// Whether ranges or Python functions may mark steps, by their names.
pub(crate) fn has_marked_steps(trace: &Trace) -> bool {
    !trace.step_frames.is_empty() || parse_steps(&trace.ranges.names).iter().any(Option::is_some)
}

/// The ranges that are steps, of the most exact form of step in the trace.
fn range_nodes(trace: &Trace) -> Vec<StepNode> {
    let infos = parse_steps(&trace.ranges.names);
    let has = |form: &Form| infos.iter().flatten().any(|info| info.form == *form);
    if let (false, false) = (has(&Form::Engine), trace.step_frames.is_empty()) {
        return frame_nodes(trace);
    }
    let forms = [Form::Engine, Form::Profiler, Form::Word, Form::Numbered].into_iter().filter(has);
    forms.map(|form| nodes_of_form(trace, &infos, form)).find(|nodes| !nodes.is_empty()).unwrap_or_default()
}

fn nodes_of_form(trace: &Trace, infos: &[Option<StepInfo>], form: Form) -> Vec<StepNode> {
    // A thread that launches nothing numbers something else, such as the batches that it loads.
    let launches = if form == Form::Numbered { launches_by_thread(trace) } else { Vec::new() };
    let node = |range: Span| {
        let info = (*infos.get(range.name.0 as usize)?).filter(|info| info.form == form)?;
        let (name, start, end) = (range.name, range.start, range.end());
        let process = trace.threads.get(range.thread.0 as usize)?.process;
        let may_be_step = form != Form::Numbered || *launches.get(range.thread.0 as usize)? > 0;
        may_be_step.then_some(StepNode {
            info,
            name,
            id: NONE,
            start,
            end,
            device: None,
            process,
            parent: None,
            children: 0,
        })
    };
    let mut nodes = step_nodes(trace.ranges.iter().filter_map(node).collect());
    if form.is_plain() {
        let is_covered = is_covered(trace, &nodes);
        nodes.retain(is_covered);
    }
    nodes
}

/// The ops that each thread launched.
fn launches_by_thread(trace: &Trace) -> Vec<u64> {
    let mut launches = vec![0_u64; trace.threads.len()];
    for call in trace.gpu_ops.launches().flatten().filter_map(|call| trace.calls.get(call.0 as usize)) {
        launches.get_mut(call.thread.0 as usize).into_iter().for_each(|count| *count += 1);
    }
    launches
}

/// The Python functions that run a step, on the thread of each process that launches most. A step lasts until the function
/// is called again, so that sampling after its return counts.
fn frame_nodes(trace: &Trace) -> Vec<StepNode> {
    let launches = launches_by_thread(trace);
    let launches = |thread: ThreadId| launches.get(thread.0 as usize).copied().unwrap_or_default();
    let process = |thread: ThreadId| trace.threads.get(thread.0 as usize).map(|thread| thread.process);
    let mut busiest: VecMap<ProcessId, ThreadId> = VecMap::new();
    for frame in trace.step_frames.iter() {
        let Some(process) = process(frame.thread) else { continue };
        busiest.update(process, frame.thread, |thread| {
            *thread = if launches(frame.thread) > launches(*thread) { frame.thread } else { *thread };
        });
    }
    let node = |frame: Span| {
        let (start, end, process) = (frame.start, frame.end(), process(frame.thread)?);
        let (info, name) = (StepInfo::of_stage(Stage::All, Form::Frame), NO_NAME);
        let node = StepNode { info, name, id: NONE, start, end, device: None, process, parent: None, children: 0 };
        (busiest.get(&process) == Some(&frame.thread)).then_some(node)
    };
    let mut nodes = step_nodes(trace.step_frames.iter().filter_map(node).collect());
    let next: Vec<(ProcessId, Ns)> = nodes.iter().skip(1).map(|node| (node.process, node.start)).collect();
    for (node, (_, next)) in nodes.iter_mut().zip(next).filter(|(node, next)| node.process == next.0) {
        node.end = next;
    }
    nodes
}

/// The step annotations of the devices and of the host. The copies of an annotation on several streams of a device are
/// merged.
fn annotation_nodes(code: &HostCode, infos: &[Option<StepInfo>]) -> (Vec<StepNode>, Vec<StepNode>) {
    let node = |annotation: &Annotation| {
        let info = (*infos.get(annotation.name.0 as usize)?)?;
        let &Annotation { start, name, id, device, process, .. } = annotation;
        Some(StepNode { info, name, id, start, end: annotation.end(), device, process, parent: None, children: 0 })
    };
    let (mut device, host): (Vec<StepNode>, Vec<StepNode>) =
        code.annotations.iter().filter_map(node).partition(|node| node.device.is_some());
    ordering::sort_by_key(&mut device, |node| (node.id, node.name, node.device, node.start));
    device.dedup_by(|next, kept| {
        // Without ids, annotations of one name that overlap are copies too.
        let is_copy = kept.id != NONE || next.start < kept.end;
        let is_same = is_copy && (kept.id, kept.name, kept.device) == (next.id, next.name, next.device);
        kept.end = if is_same { kept.end.max(next.end) } else { kept.end };
        is_same
    });
    (device, host)
}

/// Sorts nodes by track and start, and sets their parents and child counts.
///
/// One sweep per track keeps a stack of open nodes whose ends decrease towards the top. An open node that ends before the new
/// node does is dropped, because the new node contains every later node that the open one contains.
fn link_parents(mut nodes: Vec<StepNode>) -> Vec<StepNode> {
    ordering::sort_by_key(&mut nodes, |node| (node.track(), node.start, Reverse(node.end), node.id));
    let mut open: Vec<(usize, Ns)> = Vec::new();
    let mut open_track = None;
    for index in 0..nodes.len() {
        let Some((track, end)) = nodes.get(index).map(|node| (node.track(), node.end)) else { continue };
        if open_track != Some(track) {
            (open_track, open) = (Some(track), Vec::new());
        }
        while open.pop_if(|(_, open_end)| *open_end < end).is_some() {}
        let parent = open.last().map(|(parent, _)| *parent);
        if let Some(node) = nodes.get_mut(index) {
            node.parent = parent;
        }
        if let Some(parent) = parent.and_then(|parent| nodes.get_mut(parent)) {
            parent.children += 1;
        }
        open.push((index, end));
    }
    (0..nodes.len()).for_each(|index| widen(&mut nodes, index));
    nodes
}

/// Extends an engine step to the outermost annotation of the same stage that contains no other step, and takes the values
/// that its own text does not have from there.
fn widen(nodes: &mut [StepNode], index: usize) {
    let Some(&(mut step)) = nodes.get(index).filter(|node| node.info.form == Form::Engine && node.children == 0) else {
        return;
    };
    while let Some(outer) = step.parent.and_then(|parent| nodes.get(parent))
        && (outer.children, outer.info.stage) == (1, step.info.stage)
    {
        step.info.batch_size = step.info.batch_size.or(outer.info.batch_size);
        step.info.tokens = step.info.tokens.or(outer.info.tokens);
        step.info.context = step.info.context.or(outer.info.context);
        step.info.generation = step.info.generation.or(outer.info.generation);
        (step.start, step.end, step.parent) = (outer.start, outer.end, outer.parent);
    }
    nodes.get_mut(index).into_iter().for_each(|node| *node = step);
}

/// Process, start and end of each node.
fn ranges(nodes: &[StepNode]) -> impl Iterator<Item = (ProcessId, Ns, Ns)> {
    nodes.iter().map(|node| (node.process, node.start, node.end))
}

/// The nodes that are steps.
fn step_nodes(nodes: Vec<StepNode>) -> Vec<StepNode> {
    let mut nodes = link_parents(nodes);
    nodes.retain(is_step);
    nodes
}

/// Whether a node is a step. For engine annotations it is the innermost. For plain words, numbers and profiler steps it is the
/// outermost, because words inside of it name parts of the step.
fn is_step(node: &StepNode) -> bool {
    match node.info.form {
        Form::Engine => node.children == 0,
        _ => node.parent.is_none(),
    }
}

impl StepNode {
    /// Only nodes of one track contain each other: a device, or the host side of a process.
    fn track(&self) -> (Option<DeviceId>, ProcessId) {
        (self.device, self.process)
    }

    fn step(&self, basis: Basis) -> Step {
        let &Self { info, name, start, end, device, process, .. } = self;
        Step { info, name, start, end, device, basis, process, annotation_range: (start, end), ends_phase: false }
    }
}

/// Adds the steps that have no device annotation. Their times are those of the ops launched in them, per device. `extents`
/// are those of the ops launched in `host`, sorted by label.
fn add_host_steps(host: &[StepNode], extents: &[Extent], device_keys: &DeviceKeys, steps: &mut Vec<Step>) {
    for (node, label) in host.iter().zip(0..) {
        let first = extents.partition_point(|extent| extent.label < label);
        let own = || extents.iter().skip(first).take_while(|extent| extent.label == label);
        for &Extent { start, end, device, .. } in own().filter(|extent| !device_keys.contains(node, extent.device)) {
            steps.push(Step { start, end, device: Some(device), ..node.step(Basis::Launches) });
        }
        // A nested annotation without launches is not a step, and neither is such a function.
        let is_alone = node.parent.is_none() && node.info.form != Form::Frame;
        if own().next().is_none() && is_alone && !device_keys.contains_any(node) {
            steps.push(node.step(Basis::Host));
        }
    }
}

/// The keys of all device annotations, sorted by device before id.
struct DeviceKeys {
    keys: Vec<(ProcessId, NameId, DeviceId, u32)>,
    devices: u32,
}

impl DeviceKeys {
    fn new(trace: &Trace, device: &[StepNode]) -> Self {
        let key = |node: &StepNode| Some((node.process, node.name, node.device?, node.id));
        let mut keys: Vec<_> = device.iter().filter_map(key).collect();
        ordering::sort_by_key(&mut keys, |key| *key);
        Self { keys, devices: u32::try_from(trace.devices.len()).unwrap_or(u32::MAX) }
    }

    /// Whether a host annotation has an annotation on a device. If one of them has no id, the name decides.
    fn contains(&self, node: &StepNode, device: DeviceId) -> bool {
        let lower_bound = |id: u32| {
            let key = (node.process, node.name, device, id);
            self.keys.get(self.keys.partition_point(|other| *other < key))
        };
        let has_id = |id: u32| lower_bound(id) == Some(&(node.process, node.name, device, id));
        let has_name = || lower_bound(0).is_some_and(|key| (key.0, key.1, key.2) == (node.process, node.name, device));
        has_id(node.id) || has_id(NONE) || (node.id == NONE && has_name())
    }

    /// The same for any device.
    fn contains_any(&self, node: &StepNode) -> bool {
        !self.keys.is_empty() && (0..self.devices).any(|device| self.contains(node, DeviceId(device)))
    }
}

/// Counts the steps from engine annotations whose stage contradicts the stage in the file name, and all steps from engine
/// annotations.
pub fn count_stage_conflicts(steps: &[Step], file_stage: Stage) -> (usize, usize) {
    let engine_steps = || steps.iter().filter(|step| step.info.form == Form::Engine);
    // A profiler that writes one file per stage counts mixed steps (chunked prefill) as prefill and verify steps as decode.
    // Draft steps occur in both files.
    let is_conflict = |step: &&Step| match file_stage {
        Stage::Prefill => matches!(step.info.stage, Stage::Decode | Stage::Verify),
        Stage::Decode => matches!(step.info.stage, Stage::Prefill | Stage::Mixed),
        _ => false,
    };
    (engine_steps().filter(is_conflict).count(), engine_steps().count())
}
