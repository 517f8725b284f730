//! The steps of the serving engine with their times: how long each device worked in a step, and how long it waited for the
//! host. One sweep over the GPU work, and a binary search per step for late launches; O(n + s log g) for `n` ops, `s` steps
//! and `g` gaps.
//!
//! A step lasts until the next step of its process on its device starts, so that the host work between two steps counts. Time in which
//! the device executes work that the trace does not contain, and time in which a serving engine has no request, are left out. See
//! [`timed`].
//!
//! Steps that begin while their process starts ([`StartUp`](crate::trace::StartUp)) say nothing about its usual steps.
//! They are kept apart, if a step of the process follows.

use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::host::idle_cause::IdleTimes;
use crate::analysis::structure::stages::{Basis, Step, TimedStep, time_between, timed};
use crate::analysis::time::work::PrefixSums;
use crate::analysis::time::work::{Work, each_work};
use crate::ordering::{self, VecMap};
use crate::rules::signals::CallKind;
use crate::trace::{Ns, OpKind, ProcessId, StartUps, Trace};

/// One step on one device, with its times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MeasuredStep {
    /// Its number in the list of all steps, from 1.
    pub(crate) number: usize,
    pub(crate) step: Step,
    /// See [`TimedStep::until`].
    pub(crate) until: Ns,
    /// See [`TimedStep::reaches_next`].
    pub(crate) reaches_next: bool,
    /// See [`TimedStep::time`].
    pub(crate) time: Ns,
    /// The part of `time` in which the device works; zero for a step without a device, as the following.
    pub(crate) busy: Ns,
    /// The part in which the device waits for a late launch, also after a blocking call.
    pub(crate) host_late: Ns,
    /// The idle time before the next step: from the last op of the step to the first one of the next. Zero if it reaches no next one.
    pub(crate) between: Ns,
    /// Kernels that start in the step.
    pub(crate) kernels: u64,
    /// Launches of graphs whose first op starts in the step.
    pub(crate) graph_launches: u64,
}

impl MeasuredStep {
    /// From its start to the start of the next step of its process on its device; `None` if there is none.
    pub(crate) fn interval(&self) -> Option<Ns> {
        self.reaches_next.then_some(self.time)
    }

    /// Idle time that is not the host's.
    pub(crate) fn other_idle(&self) -> Ns {
        self.time.since(self.busy).since(self.host_late).max(Ns::ZERO)
    }
}

/// The steps of a trace or window, sorted by start.
#[derive(Debug, Default)]
pub(crate) struct MeasuredSteps {
    pub(crate) steps: Vec<MeasuredStep>,
    /// Steps that begin while their process starts, and others follow. They are not in `steps`.
    pub(crate) starting: Vec<MeasuredStep>,
    /// Steps that the window cut. They are not in `steps`.
    pub(crate) cut_by_window: usize,
    /// Steps without work, while others have work. They are not in `steps`.
    pub(crate) without_work: usize,
    /// Whether the shapes of matrix products told the tokens of a step.
    pub(crate) has_tokens_by_shapes: bool,
}

impl MeasuredSteps {
    /// `idle` has the idle time of each device of the trace.
    pub(crate) fn of(classified: &ClassifiedTrace, steps: &[Step], idle: &[IdleTimes]) -> Self {
        let mut steps = steps.to_vec();
        // If other steps launched work, a step without work is the last one, cut short by the end of the profile, or the
        // profiler did not record its work.
        let marked = steps.len();
        if steps.iter().any(|step| step.basis != Basis::Host) {
            steps.retain(|step| step.basis != Basis::Host);
        }
        // A window may leave out their work, and a graph that was traced as a whole is not linked to its step.
        let is_known = classified.trace.cut.is_none() && classified.trace.graph_replays.is_empty();
        let without_work = if is_known { marked - steps.len() } else { 0 };
        let found = steps.len();
        steps.retain(|step| is_whole(step, classified.trace));
        let cut = found - steps.len();
        if steps.is_empty() {
            return Self { cut_by_window: cut, without_work, ..Self::default() };
        }
        let left_out: Vec<Vec<(Ns, Ns)>> = idle.iter().map(IdleTimes::of_no_step).collect();
        let late: Vec<PrefixSums> = idle.iter().map(|idle| PrefixSums::of(&idle.late)).collect();
        let timed = timed(steps.iter(), &left_out);
        let work = work_in_steps(&timed, classified);
        let measured = timed.iter().zip(work).zip(1..).map(|((timed, work), number)| {
            let late = timed.step.device.and_then(|device| late.get(device.0 as usize));
            MeasuredStep {
                number,
                step: *timed.step,
                until: timed.until,
                reaches_next: timed.reaches_next,
                time: timed.time,
                busy: work.busy,
                host_late: late.map_or(Ns::ZERO, |late| late.between(timed.step.start, timed.until)),
                between: between_steps(timed, &work, &left_out),
                kernels: work.kernels,
                graph_launches: work.graph_launches,
            }
        });
        Self { steps: measured.collect(), cut_by_window: cut, without_work, ..Self::default() }
    }

    /// Moves the steps that begin while their process starts to `starting`, if a step of the process follows.
    pub(crate) fn leave_out_starts(&mut self, trace: &Trace) {
        let is_starting = starting_steps(trace, &mut self.steps.iter().map(|measured| &measured.step));
        self.starting = self.steps.extract_if(.., |measured| is_starting(&measured.step)).collect();
    }

    /// All steps in the order of their numbers.
    pub(crate) fn all(&self) -> Vec<MeasuredStep> {
        let mut all = [&self.starting[..], &self.steps].concat();
        ordering::sort_by_key(&mut all, |measured| measured.number);
        all
    }

    /// The steps of each process that are left out because they begin while it starts, and the whole steps that begin later.
    pub(crate) fn counts_around_starts(&self, starts: &StartUps) -> VecMap<ProcessId, (usize, usize)> {
        let mut counts = VecMap::new();
        for measured in &self.starting {
            counts.update(measured.step.process, (0, 0), |(left_out, _)| *left_out += 1);
        }
        for step in self.steps.iter().map(|measured| &measured.step) {
            let is_later = starts.of(step.process).is_some_and(|start| begins(step) >= start.steady_from);
            counts.update(step.process, (0, 0), |(_, later)| *later += usize::from(is_later));
        }
        counts
    }
}

/// When the host or the device begins a step. Loads before its first op are part of its code.
fn begins(step: &Step) -> Ns {
    step.annotation_range.0.min(step.start)
}

/// Whether a step begins while its process starts, and one of these steps of the process follows the start.
pub(crate) fn starting_steps(trace: &Trace, steps: &mut dyn Iterator<Item = &Step>) -> impl Fn(&Step) -> bool + use<> {
    let mut ends: VecMap<ProcessId, Ns> = VecMap::new();
    if let Some(starts) = trace.starts() {
        for step in steps {
            if let Some(start) = starts.of(step.process).filter(|start| begins(step) >= start.steady_from) {
                ends.update(step.process, start.steady_from, |_| ());
            }
        }
    }
    move |step| ends.get(&step.process).is_some_and(|end| begins(step) < *end)
}

/// The idle time from the last op of a step to the first of the next, without the time that belongs to no step.
fn between_steps(timed: &TimedStep, work: &StepWork, left_out: &[Vec<(Ns, Ns)>]) -> Ns {
    if !timed.reaches_next {
        return Ns::ZERO;
    }
    let idle = work.idle_at_end;
    let left_out = timed.step.device.and_then(|device| left_out.get(device.0 as usize)).map_or(&[][..], Vec::as_slice);
    let left_out = time_between(left_out, Ns(timed.until.0.saturating_sub(idle.0)), timed.until);
    idle.since(left_out).max(Ns::ZERO)
}

/// Checks whether the window contains everything that the step launched. True if there is no window.
fn is_whole(step: &Step, trace: &Trace) -> bool {
    let (Some(cut), Some(kept)) = (&trace.cut, &trace.kept) else { return true };
    let (start, end) = step.annotation_range;
    if step.basis == Basis::Host {
        return start >= cut.window.start && end <= cut.window.end;
    }
    !kept.neighbours().iter().any(|other| {
        let is_same_device = (other.process, Some(other.device)) == (step.process, step.device);
        is_same_device && (start..end).contains(&other.time)
    })
}

/// What a device did in a step.
#[derive(Debug, Clone, Copy, Default)]
struct StepWork {
    busy: Ns,
    kernels: u64,
    graph_launches: u64,
    /// How long the device was idle when the step ended.
    idle_at_end: Ns,
}

/// The sweep over one device. Each step gets the sums at its end minus those at its start.
#[derive(Debug, Default)]
struct WorkSweep {
    /// Starts and ends of steps: time, index of the step, true for an end. Sorted from last to first.
    boundaries: Vec<(Ns, usize, bool)>,
    sums: StepWork,
    busy_until: Ns,
    /// The latest launch of a graph. Launches are numbered in the order of time.
    last_graph_launch: Option<u32>,
}

impl WorkSweep {
    fn add_until(&mut self, time: Ns, steps: &mut [StepWork]) {
        while let Some((at, index, is_end)) = self.boundaries.pop_if(|boundary| boundary.0 <= time) {
            // The work so far may reach beyond the boundary.
            let busy = self.sums.busy.since(self.busy_until.since(at).max(Ns::ZERO));
            let Some(step) = steps.get_mut(index) else { continue };
            *step = if is_end {
                StepWork {
                    busy: step.busy + busy,
                    kernels: self.sums.kernels.saturating_sub(step.kernels),
                    graph_launches: self.sums.graph_launches.saturating_sub(step.graph_launches),
                    idle_at_end: at.since(self.busy_until).max(Ns::ZERO),
                }
            } else {
                StepWork { busy: Ns::ZERO.since(busy), ..self.sums }
            };
        }
    }

    fn add(&mut self, work: &Work, classified: &ClassifiedTrace) {
        self.sums.busy += work.end.since(work.start.max(self.busy_until)).max(Ns::ZERO);
        self.busy_until = self.busy_until.max(work.end);
        let trace = classified.trace;
        self.sums.kernels += u64::from(trace.gpu_ops.get(work.row).is_some_and(|op| op.kind == OpKind::Kernel));
        let Some(launch) = trace.gpu_ops.launch(work.row) else { return };
        if self.last_graph_launch.is_some_and(|last| launch.0 <= last) {
            return;
        }
        let name = trace.calls.name(launch.0 as usize);
        if name.is_some_and(|name| classified.call_kind(name) == CallKind::GraphLaunch) {
            self.last_graph_launch = Some(launch.0);
            self.sums.graph_launches += 1;
        }
    }
}

/// The work of the device of each step; nothing for steps without a device.
fn work_in_steps(steps: &[TimedStep], classified: &ClassifiedTrace) -> Vec<StepWork> {
    let mut lanes: Vec<WorkSweep> = classified.trace.devices.iter().map(|_| WorkSweep::default()).collect();
    for (index, &TimedStep { step, until, .. }) in steps.iter().enumerate() {
        let Some(lane) = step.device.and_then(|device| lanes.get_mut(device.0 as usize)) else { continue };
        lane.boundaries.extend([(step.start, index, false), (until, index, true)]);
    }
    lanes.iter_mut().for_each(|lane| ordering::sort_by(&mut lane.boundaries, |a, b| b.cmp(a)));
    let mut found = vec![StepWork::default(); steps.len()];
    each_work(classified, &mut |work| {
        let Some(lane) = lanes.get_mut(work.device) else { return };
        lane.add_until(work.start, &mut found);
        lane.add(&work, classified);
    });
    lanes.iter_mut().for_each(|lane| lane.add_until(Ns(i64::MAX), &mut found));
    found
}
