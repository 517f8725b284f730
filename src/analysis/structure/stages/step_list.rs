//! The steps of the engine that a trace holds, each once: the device's twin of an annotation stands for the host's, and of
//! annotations one inside another the innermost is the step.

use crate::analysis::index;
use crate::analysis::index::Inside;
use crate::analysis::structure::stages::windows::Windows;
use crate::analysis::structure::stages::{Form, Stage, StepInfo, infos};
use crate::ordering::StableSort;
use crate::trace::{Annotation, CallId, Code, DeviceId, GpuOp, NONE, NameId, Ns, ProcessId, Span, Trace};
use std::cmp::Reverse;
use std::ops::Range;

/// One step on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// What its annotation says; what it leaves out is taken from the one around it, where that holds no other step.
    pub info: StepInfo,
    /// The text, in [`Code::annotation_names`], or in the names of the ranges.
    pub name: NameId,
    /// When it began.
    pub start: Ns,
    /// When it ended.
    pub end: Ns,
    /// The device; `None` where it is not known.
    pub device: Option<DeviceId>,
    /// What its times are from.
    pub basis: Basis,
    /// The process of its annotation.
    pub process: ProcessId,
    /// When its annotation began and ended, on the host or the device.
    pub annotation_range: (Ns, Ns),
}

/// What the times of a step are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// The device's annotation.
    Device,
    /// First start and last end of the GPU ops that the host launched within its annotation.
    Launches,
    /// The host's annotation: nothing is known to be launched in it.
    Host,
}

/// An annotation of a step, with its place among those that hold it.
#[derive(Debug, Clone, Copy)]
struct Mark {
    info: StepInfo,
    name: NameId,
    id: u32,
    start: Ns,
    end: Ns,
    device: Option<DeviceId>,
    process: ProcessId,
    /// The place of the innermost mark that holds this one.
    parent: Option<usize>,
    /// Marks directly inside.
    children: u32,
}

/// All steps, those of the devices first, by start.
pub fn steps(trace: &Trace) -> Vec<Step> {
    let Some(code) = &trace.code else { return Vec::new() };
    let infos = infos(&code.annotation_names);
    let mut steps = Vec::new();
    let (device, host) = marks(code, &infos);
    for is_profiler in [false, true] {
        let wanted = |mark: &&Mark| (mark.info.form == Form::Profiler) == is_profiler;
        let device = nested(device.iter().filter(wanted).copied().collect());
        let host = nested(host.iter().filter(wanted).copied().collect());
        let on_device = device.iter().filter(is_step).map(|mark| mark.step(&device, Basis::Device));
        steps.extend(on_device);
        launched(trace, None, &host, &device, &mut steps);
    }
    steps.order_by_key(|step| (step.basis == Basis::Host, step.start));
    steps
}

/// The steps that ranges of the host tell, which every trace keeps, by start; [`Step::name`] is a name of the ranges. They
/// are of the most exact form alone that the trace holds: a profiler's step around those of the engine is no second one.
pub fn steps_from_ranges(trace: &Trace, inside: Option<&Inside>) -> Vec<Step> {
    let host = host_marks(trace);
    let mut steps = Vec::new();
    launched(trace, inside, &host, &[], &mut steps);
    steps.order_by_key(|step| step.start);
    steps
}

/// A step of the host, as [`steps_by_op`] numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostStep {
    /// Its number in its process, from 1 on: ranks of one run number the same steps alike.
    pub number: u32,
    /// What its range says.
    pub stage: Stage,
}

/// The steps that launched GPU ops, as [`steps_from_ranges`] knows them, and for each op the place of its step: the one whose
/// range holds the op's launch; [`NONE`] where there is no such step.
pub fn steps_by_op(trace: &Trace) -> (Vec<HostStep>, Vec<u32>) {
    let host = host_marks(trace);
    let alone: Vec<&Mark> = host.iter().filter(is_step).collect();
    let windows = windows_of(trace, &alone);
    let ops = trace.gpu_ops.iter().zip(trace.gpu_ops.launches());
    let mut of_ops: Vec<u32> = ops.map(|(op, launch)| window_of(trace, &windows, op, launch).unwrap_or(NONE)).collect();
    let mut place = vec![NONE; alone.len()];
    for window in &of_ops {
        place.get_mut(*window as usize).into_iter().for_each(|place| *place = 0);
    }
    let (mut steps, mut process, mut number): (Vec<HostStep>, _, _) = (Vec::new(), None, 0);
    // Marks come process by process, by start.
    for (mark, place) in alone.iter().zip(&mut place).filter(|(_, place)| **place != NONE) {
        number = if process == Some(mark.process) { number + 1 } else { 1 };
        process = Some(mark.process);
        *place = u32::try_from(steps.len()).unwrap_or(NONE);
        steps.push(HostStep { number, stage: mark.info.stage });
    }
    for window in &mut of_ops {
        *window = place.get(*window as usize).copied().unwrap_or(NONE);
    }
    (steps, of_ops)
}

/// Ranges of the most exact form of step that the trace holds.
fn host_marks(trace: &Trace) -> Vec<Mark> {
    let infos = infos(&trace.ranges.names);
    let has = |form: &Form| infos.iter().flatten().any(|info| info.form == *form);
    let Some(form) = [Form::Engine, Form::Profiler, Form::Word].into_iter().find(has) else { return Vec::new() };
    let mark = |range: Span| {
        let info = (*infos.get(range.name.0 as usize)?).filter(|info| info.form == form)?;
        let (name, start, end) = (range.name, range.start, range.end());
        let process = trace.threads.get(range.thread.0 as usize)?.process;
        Some(Mark { info, name, id: NONE, start, end, device: None, process, parent: None, children: 0 })
    };
    nested(trace.ranges.iter().filter_map(mark).collect())
}

/// Annotations of steps: the device's with all streams of one device together, and the host's.
fn marks(code: &Code, infos: &[Option<StepInfo>]) -> (Vec<Mark>, Vec<Mark>) {
    let mark = |annotation: &Annotation| {
        let info = (*infos.get(annotation.name.0 as usize)?)?;
        let &Annotation { start, name, id, device, process, .. } = annotation;
        Some(Mark { info, name, id, start, end: annotation.end(), device, process, parent: None, children: 0 })
    };
    let (mut device, host): (Vec<Mark>, Vec<Mark>) =
        code.annotations.iter().filter_map(mark).partition(|mark| mark.device.is_some());
    device.order_by_key(|mark| (mark.id, mark.name, mark.device, mark.start));
    device.dedup_by(|next, kept| {
        let is_same = kept.id != NONE && (kept.id, kept.name, kept.device) == (next.id, next.name, next.device);
        kept.end = if is_same { kept.end.max(next.end) } else { kept.end };
        is_same
    });
    (device, host)
}

/// Marks of all lanes (each device, the host of each process) by lane and start, each with its parent.
///
/// One sweep a lane keeps a stack; its ends decrease towards the top, because a newer mark that ends no earlier holds
/// every later one that an older mark holds.
fn nested(mut marks: Vec<Mark>) -> Vec<Mark> {
    marks.order_by_key(|mark| (mark.lane(), mark.start, Reverse(mark.end), mark.id));
    let mut open: Vec<(usize, Ns)> = Vec::new();
    let mut lane = None;
    for at in 0..marks.len() {
        let Some((own, end)) = marks.get(at).map(|mark| (mark.lane(), mark.end)) else { continue };
        if lane != Some(own) {
            (lane, open) = (Some(own), Vec::new());
        }
        while open.pop_if(|(_, open_end)| *open_end < end).is_some() {}
        let parent = open.last().map(|(parent, _)| *parent);
        if let Some(mark) = marks.get_mut(at) {
            mark.parent = parent;
        }
        if let Some(parent) = parent.and_then(|parent| marks.get_mut(parent)) {
            parent.children += 1;
        }
        open.push((at, end));
    }
    marks
}

/// Of an engine's marks the innermost is a step. Of plain words it is the outermost: those inside name its parts.
fn is_step(mark: &&Mark) -> bool {
    match mark.info.form {
        Form::Engine => mark.children == 0,
        Form::Word | Form::Profiler => mark.parent.is_none(),
    }
}

impl Mark {
    /// Where marks lie inside one another.
    fn lane(&self) -> (Option<DeviceId>, ProcessId) {
        (self.device, self.process)
    }

    fn step(&self, all: &[Self], basis: Basis) -> Step {
        let (mut info, mut around) = (self.info, self.parent.and_then(|parent| all.get(parent)));
        while let Some(outer) = around
            && (outer.children, outer.info.stage) == (1, info.stage)
        {
            info.batch_size = info.batch_size.or(outer.info.batch_size);
            info.tokens = info.tokens.or(outer.info.tokens);
            info.context = info.context.or(outer.info.context);
            info.generation = info.generation.or(outer.info.generation);
            around = outer.parent.and_then(|parent| all.get(parent));
        }
        let &Self { name, start, end, device, process, .. } = self;
        Step { info, name, start, end, device, basis, process, annotation_range: (start, end) }
    }
}

/// Steps that only the host's annotations tell: on each device from the first to the last op launched in them.
fn launched(trace: &Trace, inside: Option<&Inside>, host: &[Mark], device: &[Mark], steps: &mut Vec<Step>) {
    let twins = Twins::of(device);
    let alone: Vec<&Mark> = host.iter().filter(is_step).filter(|mark| !twins.has(mark)).collect();
    let windows = windows_of(trace, &alone);
    let reach = reach_of_launches(trace, inside, &windows);
    for (mark, label) in alone.into_iter().zip(0..) {
        let first = reach.partition_point(|reach| reach.window < label);
        let before = steps.len();
        for reach in reach.iter().skip(first).take_while(|reach| reach.window == label) {
            let &Reach { start, end, device, .. } = reach;
            steps.push(Step { start, end, device: Some(device), ..mark.step(host, Basis::Launches) });
        }
        // A step inside another that launches nothing is none of its own.
        if steps.len() == before && mark.parent.is_none() {
            steps.push(mark.step(host, Basis::Host));
        }
    }
}

/// When each of these steps is the innermost, by process.
fn windows_of(trace: &Trace, steps: &[&Mark]) -> Vec<Windows> {
    let windows = |process| {
        let own = steps.iter().zip(0..).filter(|(mark, _)| mark.process == process);
        Windows::new(own.map(|(mark, label)| (mark.start, mark.end, label)).collect())
    };
    (0..).map(ProcessId).take(trace.processes.len()).map(windows).collect()
}

/// The window that holds the launch of an op.
fn window_of(trace: &Trace, windows: &[Windows], op: GpuOp, launch: Option<CallId>) -> Option<u32> {
    let call = launch.and_then(|call| trace.calls.get(call.0 as usize))?;
    windows.get(op.process.0 as usize)?.at(call.start)
}

/// The device's marks by process, name and id.
struct Twins(Vec<(ProcessId, NameId, u32)>);

impl Twins {
    fn of(device: &[Mark]) -> Self {
        let mut twins: Vec<_> = device.iter().map(|mark| (mark.process, mark.name, mark.id)).collect();
        twins.order_by_key(|twin| *twin);
        Self(twins)
    }

    /// Does a device have a mark of the host too? Without an id the name tells.
    fn has(&self, mark: &Mark) -> bool {
        let from = |id: u32| {
            let wanted = (mark.process, mark.name, id);
            self.0.get(self.0.partition_point(|twin| *twin < wanted))
        };
        let is = |id: u32| from(id) == Some(&(mark.process, mark.name, id));
        let has_name = || from(0).is_some_and(|twin| (twin.0, twin.1) == (mark.process, mark.name));
        is(mark.id) || is(NONE) || (mark.id == NONE && has_name())
    }
}

/// The ops that one device ran of what was launched in one window.
#[derive(Debug, Clone, Copy)]
struct Reach {
    window: u32,
    device: DeviceId,
    start: Ns,
    end: Ns,
}

/// First start and last end of the ops launched in each window, by window and device; `windows` are those of each process.
fn reach_of_launches(trace: &Trace, inside: Option<&Inside>, windows: &[Windows]) -> Vec<Reach> {
    if windows.iter().all(Windows::is_empty) {
        return Vec::new();
    }
    let (running, last) = (vec![usize::MAX; trace.devices.len()], vec![(Ns::ZERO, Ns::ZERO, 0); windows.len()]);
    let mut reaches = Reaches { found: Vec::new(), running, last };
    let mut from = 0;
    if let Some(inside) = index::known(inside) {
        for (stretch, places) in inside.stretches() {
            reaches.see(trace, windows, from..places.start);
            if !reaches.add(stretch, windows) {
                reaches.see(trace, windows, places.clone());
            }
            from = places.end;
        }
    }
    reaches.see(trace, windows, from..trace.gpu_ops.len());
    let mut found = reaches.found;
    found.order_by_key(|reach| (reach.window, reach.device));
    found.dedup_by(|next, kept| {
        let is_same = (kept.window, kept.device) == (next.window, next.device);
        if is_same {
            (kept.start, kept.end) = (kept.start.min(next.start), kept.end.max(next.end));
        }
        is_same
    });
    found
}

/// Reaches on the way through the ops.
struct Reaches {
    found: Vec<Reach>,
    /// Of each device the place of the window whose ops it runs: ops of one window come in a row, or nearly.
    running: Vec<usize>,
    /// Of each process the piece of the launch before: the next one is mostly in it too.
    last: Vec<(Ns, Ns, u32)>,
}

impl Reaches {
    fn see(&mut self, trace: &Trace, windows: &[Windows], places: Range<usize>) {
        for (at, op) in trace.gpu_ops.iter_in(&places.into()) {
            let call = trace.gpu_ops.launch(at).and_then(|call| trace.calls.start(call.0 as usize));
            let (Some(time), Some(windows)) = (call, windows.get(op.process.0 as usize)) else { continue };
            let Some(last) = self.last.get_mut(op.process.0 as usize) else { continue };
            if !(last.0..last.1).contains(&time) {
                *last = windows.piece(time).unwrap_or_default();
            }
            let is_in_it = (last.0..last.1).contains(&time);
            let window = if is_in_it { Some(last.2) } else { windows.at(time) };
            window.into_iter().for_each(|window| self.reach(window, op.device, (op.start, op.end())));
        }
    }

    fn reach(&mut self, window: u32, device: DeviceId, (start, end): (Ns, Ns)) {
        let Some(running) = self.running.get_mut(device.0 as usize) else { return };
        match self.found.get_mut(*running) {
            Some(reach) if reach.window == window => reach.end = reach.end.max(end),
            _ => {
                *running = self.found.len();
                self.found.push(Reach { window, device, start, end });
            }
        }
    }

    /// The same of a stretch of which each process launched all in one piece of its windows; of others nothing.
    fn add(&mut self, stretch: &Stretch, windows: &[Windows]) -> bool {
        let window = |launched: &Launched| {
            let piece = windows.get(launched.process.0 as usize)?.piece(launched.calls.0)?;
            (launched.calls.1 < piece.1).then_some(piece.2)
        };
        let is_known = stretch.launched.iter().all(|launched| window(launched).is_some());
        for launched in stretch.launched.iter().filter(|_| is_known) {
            window(launched).into_iter().for_each(|window| self.reach(window, launched.device, launched.ops));
        }
        is_known
    }
}

/// A few ops in a row, and when what was launched: mostly all of it in one step, whatever steps are.
#[derive(Debug)]
pub struct Stretch {
    /// Their places.
    ops: Range<usize>,
    launched: Vec<Launched>,
}

/// What one process launched for one device.
#[derive(Debug)]
struct Launched {
    process: ProcessId,
    device: DeviceId,
    /// First and last start of the calls.
    calls: (Ns, Ns),
    /// First start and last end of the ops.
    ops: (Ns, Ns),
}

impl Stretch {
    /// All ops, a few at a time.
    pub(crate) fn all(trace: &Trace) -> Vec<Self> {
        const OPS: usize = 64;
        let end = trace.gpu_ops.len();
        (0..end).step_by(OPS).map(|from| Self::of(trace, from..(from + OPS).min(end))).collect()
    }

    /// Places of its ops.
    pub(crate) fn ops(&self) -> Range<usize> {
        self.ops.clone()
    }

    /// The last end of what was launched.
    pub(crate) fn end(&self) -> Ns {
        self.launched.iter().map(|launched| launched.ops.1).max().unwrap_or(Ns(i64::MIN))
    }

    fn of(trace: &Trace, ops: Range<usize>) -> Self {
        let mut launched: Vec<Launched> = Vec::new();
        for (at, op) in trace.gpu_ops.iter_in(&ops.clone().into()) {
            let call = trace.gpu_ops.launch(at).and_then(|call| trace.calls.start(call.0 as usize));
            let Some(call) = call else { continue };
            let known = launched.iter_mut().find(|known| (known.process, known.device) == (op.process, op.device));
            match known {
                Some(known) => {
                    known.calls = (known.calls.0.min(call), known.calls.1.max(call));
                    known.ops.1 = known.ops.1.max(op.end());
                }
                None => {
                    let &GpuOp { process, device, start, .. } = &op;
                    launched.push(Launched { process, device, calls: (call, call), ops: (start, op.end()) });
                }
            }
        }
        Self { ops, launched }
    }
}

/// How many steps an engine's own annotations tell, and how many of them the stage of the file's name cannot hold.
pub fn count_stage_conflicts(steps: &[Step], file_stage: Stage) -> (usize, usize) {
    let told = || steps.iter().filter(|step| step.info.form == Form::Engine);
    // A profiler that splits by stage files chunked prefill under prefill and verifying under decode; drafts are in both.
    let cannot_hold = |step: &&Step| match file_stage {
        Stage::Prefill => matches!(step.info.stage, Stage::Decode | Stage::Verify),
        Stage::Decode => matches!(step.info.stage, Stage::Prefill | Stage::Mixed),
        _ => false,
    };
    (told().filter(cannot_hold).count(), told().count())
}
