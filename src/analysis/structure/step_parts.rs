//! The parts of a training step on the GPU: data loading, forward, recomputation, backward, communication of gradients, optimizer. From what the
//! launching threads ran at each launch; one sweep over the ops and a few binary searches per op, O(n log n), and only for a trace that
//! shows a training.
//!
//! CPU ops, or else ranges, tell when a thread computes gradients, changes weights or waits for a batch
//! ([`TrainingCode`](crate::trace::TrainingCode)). What is launched before the backward pass of a step is its forward pass. Without
//! either only kernels that no other part runs tell the optimizer. Each moment of a step counts once: ops that run side by side count
//! for the one that started first, and idle time for the part of the op that ends it, except while the loader hands over a batch. So
//! the parts add up to the step, to the nanosecond.

use super::measured_steps::MeasuredStep;
use super::stages::{Basis, Stage, StepInfo, representative, time_between};
use crate::analysis::classified::KernelKind;
use crate::analysis::context::Context;
use crate::analysis::section::{Answer, MeanCount, Ms, Pct, TypedSection, section, words};
use crate::ordering::VecMap;
use crate::rules::{TrainingPart, is_optimizer_kernel, training_part_of_code, training_part_of_range};
use crate::trace::{
    CallId, DeviceId, GpuOp, HostInterval, HostTimes, HostTimesCursor, NameId, Ns, OpKind, ProcessId, ThreadId, Trace,
};

section! {
    /// The time of each part of a training step.
    pub(crate) struct StepParts("step_parts", "Parts of a training step");
    row StepPartRow {
        stage: Stage,
        part: Part,
        steps: usize,
        ops: MeanCount = "GPU ops",
        mean_ms: Ms,
        /// Time that no op with an earlier start covers.
        busy_ms: Ms,
        idle_ms: Ms,
        /// The sum of the durations of its ops.
        op_time_ms: Ms = "Duration of its ops",
        share_of_step_pct: Pct = "Of the step",
        found_by: String,
    }
}

/// A part of a training step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Part {
    /// Copies to the GPU, and idle time while the loader hands over a batch.
    Loading,
    Forward,
    /// The forward pass again, within the backward pass.
    Recomputation,
    Backward,
    /// Nothing tells the two apart.
    ForwardAndBackward,
    /// Reductions of gradients over the ranks.
    Gradients,
    Optimizer,
    #[default]
    Other,
    /// Idle time before the next step.
    Between,
}

words! {
    Part:
    Loading = "data loading",
    Forward = "forward",
    Recomputation = "recomputation",
    Backward = "backward",
    ForwardAndBackward = "forward and backward",
    Gradients = "gradient communication",
    Optimizer = "optimizer",
    Other = "other",
    Between = "between steps",
}

const PARTS: [Part; 9] = [
    Part::Loading,
    Part::Forward,
    Part::Recomputation,
    Part::Backward,
    Part::ForwardAndBackward,
    Part::Gradients,
    Part::Optimizer,
    Part::Other,
    Part::Between,
];

/// One row per stage and part. `None` if the trace shows no training, or no steps on a device.
pub(crate) fn step_parts(context: &Context) -> Option<Answer<StepParts>> {
    let code = Code::of(context)?;
    let steps: Vec<&MeasuredStep> =
        context.measured_steps().steps.iter().filter(|step| step.step.device.is_some()).collect();
    let of_stage = |stage| steps.iter().copied().filter(move |step| step.step.info.stage == stage).collect::<Vec<_>>();
    let mut sweep = Sweep::new(context, &code);
    for stage in Stage::ALL {
        sweep.add_stage(stage, representative(&of_stage(stage), |step| step.reaches_next).copied());
    }
    sweep.run();
    let rows: Vec<StepPartRow> = sweep.stages.iter().flat_map(|(stage, sums)| sums.rows(*stage, &code)).collect();
    if rows.is_empty() {
        return None;
    }
    let answer = StepParts::answer("the steps, and what the launching threads ran at the launches of their GPU ops")
        .limit(
            "Means over the steps of the stage, so that the parts add up to the step; without the last step of each device if there are \
             two others. Ops that run at the same time count for the one that started first.",
        )
        .limit("Idle time counts for the part of the op that ends it. While the loader of the data hands over a batch it counts as data loading.")
        .limit("The forward pass is what is launched before the backward pass of the step. Where activations are recomputed in the backward pass, \
             this is a part of its own if CPU ops show it.");
    Some(answer.with_rows(rows))
}

/// When the threads of each process ran which part.
struct Code<'a> {
    trace: &'a Trace,
    /// Whether CPU ops tell the backward pass. Ranges of a process hold for all of its threads, because another one computes gradients.
    has_ops: bool,
    backward: HostTimesCursor,
    recomputed: HostTimesCursor,
    optimizer: HostTimesCursor,
    zero_grad: HostTimesCursor,
    /// By process instead of thread.
    loading: HostTimes,
    /// By process: the starts of functions of autograd, and of the optimizer, sorted.
    starts: Vec<[Vec<Ns>; 2]>,
    /// By thread: whether it only computes gradients. What it launches between two functions of autograd adds gradients.
    is_autograd: Vec<bool>,
    /// By name of kernels.
    is_optimizer: Vec<bool>,
    reduces: Vec<bool>,
    copies_to_gpu: Vec<bool>,
    /// By process: start and end of the host ranges of its steps, sorted.
    steps: Vec<Vec<(Ns, Ns)>>,
}

impl<'a> Code<'a> {
    /// `None` if nothing shows a training.
    fn of(context: &Context<'a>) -> Option<Self> {
        let trace = context.trace;
        let known = &*trace.training;
        let [mut backward, mut optimizer, mut zero_grad, mut loading] =
            [&known.backward, &known.optimizer, &known.zero_grad, &known.loading]
                .map(|times| times.iter().copied().collect());
        let has_ops = !known.backward.is_empty();
        for (part, time) in ranges_of_parts(trace) {
            let times: &mut Vec<HostInterval> = match part {
                TrainingPart::Backward if has_ops => continue,
                TrainingPart::Backward => &mut backward,
                TrainingPart::Optimizer => &mut optimizer,
                TrainingPart::ZeroGrad => &mut zero_grad,
                TrainingPart::Loading => &mut loading,
            };
            times.push(time);
        }
        let is_optimizer: Vec<bool> = trace.names.iter().map(is_optimizer_kernel).collect();
        let is_shown = has_ops || !backward.is_empty() && !optimizer.is_empty() || is_optimizer.contains(&true);
        if !is_shown {
            return None;
        }
        let by_process = |times: Vec<HostInterval>| {
            HostTimes::union_of(
                times.into_iter().map(|time| HostInterval { thread: of_process(trace, time.thread), ..time }).collect(),
            )
        };
        let starts = starts(trace, [&backward, &optimizer]);
        let backward = if has_ops { HostTimes::union_of(backward) } else { by_process(backward) }.into_cursor();
        let reduces = |kind: &KernelKind| matches!(kind, KernelKind::Communication(operation) if ["allreduce", "reducescatter"].contains(&operation.as_str()));
        let kinds = (0..).map(NameId).take(trace.names.len()).map(|name| context.kernel_kind(name));
        let to_gpu = |name: &str| ["HtoD", "Host-to-Device", "Host to Device"].iter().any(|word| name.contains(word));
        let [optimizer, zero_grad] = [optimizer, zero_grad].map(|times| HostTimes::union_of(times).into_cursor());
        Some(Self {
            trace,
            has_ops,
            is_autograd: autograd_threads(trace, &backward, [&optimizer.times, &zero_grad.times, &known.loading]),
            backward,
            recomputed: known.recomputed.clone().into_cursor(),
            optimizer,
            zero_grad,
            loading: by_process(loading),
            starts,
            is_optimizer,
            reduces: kinds.map(reduces).collect(),
            copies_to_gpu: trace.names.iter().map(to_gpu).collect(),
            steps: host_ranges(context),
        })
    }

    fn part(&self, row: usize, op: GpuOp) -> Part {
        let has = |names: &[bool]| names.get(op.name.0 as usize) == Some(&true);
        if has(&self.is_optimizer) {
            return Part::Optimizer;
        }
        let copies = op.kind == OpKind::Copy && has(&self.copies_to_gpu);
        let launch = self.trace.gpu_ops.launch(row).and_then(|CallId(call)| self.trace.calls.get(call as usize));
        let unknown = if self.has_backward() { Part::Other } else { Part::ForwardAndBackward };
        let part = launch.map_or(unknown, |call| self.part_of_launch(call.thread, call.start, op.process));
        match part {
            Part::Backward | Part::Other if has(&self.reduces) && self.has_backward() => Part::Gradients,
            Part::Forward | Part::ForwardAndBackward | Part::Other if copies => Part::Loading,
            part => part,
        }
    }

    fn has_backward(&self) -> bool {
        !self.backward.times.is_empty()
    }

    fn part_of_launch(&self, thread: ThreadId, time: Ns, process: ProcessId) -> Part {
        if self.recomputed.contains(thread, time) {
            return Part::Recomputation;
        }
        if self.has_ops && self.is_autograd.get(thread.0 as usize) == Some(&true) {
            return Part::Backward;
        }
        if self.optimizer.contains(thread, time) || self.zero_grad.contains(thread, time) {
            return Part::Optimizer;
        }
        let backward_thread = if self.has_ops { thread } else { ThreadId(process.0) };
        if self.backward.contains(backward_thread, time) {
            return Part::Backward;
        }
        if !self.has_backward() {
            return Part::ForwardAndBackward;
        }
        let next = |starts: &[Ns]| starts.get(starts.partition_point(|start| *start <= time)).copied();
        let Some([backward, optimizer]) = self.starts.get(process.0 as usize) else { return Part::Other };
        let ends = self.end_of_step(process, time);
        let is_before =
            |backward: &Ns| *backward < ends && next(optimizer).is_none_or(|optimizer| *backward < optimizer);
        next(backward).filter(is_before).map_or(Part::Other, |_| Part::Forward)
    }

    /// When the host ends the step in which it is at this time.
    fn end_of_step(&self, process: ProcessId, time: Ns) -> Ns {
        let steps = self.steps.get(process.0 as usize).map_or(&[][..], Vec::as_slice);
        let last = steps.partition_point(|(start, _)| *start <= time).checked_sub(1).and_then(|last| steps.get(last));
        last.filter(|(_, end)| time <= *end).map_or(Ns(i64::MAX), |(_, end)| *end)
    }

    fn loading_in(&self, process: ProcessId, start: Ns, end: Ns) -> Ns {
        self.loading.time_in(HostInterval { thread: ThreadId(process.0), start, end })
    }

    fn evidence(&self, part: Part) -> &'static str {
        let loads = !self.loading.is_empty();
        match part {
            Part::Loading if loads => "data loader, and copies to the GPU",
            Part::Loading => "copies to the GPU",
            Part::Forward => "launched before the backward pass",
            Part::Recomputation => "forward ops in functions of autograd",
            Part::Backward if self.has_ops => "functions of autograd",
            Part::Backward => "ranges",
            Part::Gradients => "reductions from the backward pass on",
            Part::Optimizer if self.optimizer.times.is_empty() => "names of kernels",
            Part::Optimizer => "ranges of the optimizer",
            Part::ForwardAndBackward | Part::Other => "the rest",
            Part::Between => "after the last op",
        }
    }
}

/// The threads that launch most of their work in functions of autograd, and run neither another part nor ranges.
fn autograd_threads(trace: &Trace, backward: &HostTimesCursor, others: [&HostTimes; 3]) -> Vec<bool> {
    // By thread: launches in functions of autograd, and all.
    let mut launches = vec![(0_u64, 0_u64); trace.threads.len()];
    for call in trace.gpu_ops.launches().flatten().filter_map(|CallId(call)| trace.calls.get(call as usize)) {
        if let Some((inside, all)) = launches.get_mut(call.thread.0 as usize) {
            *inside += u64::from(backward.contains(call.thread, call.start));
            *all += 1;
        }
    }
    let others = others.into_iter().flat_map(HostTimes::iter).map(|time| time.thread);
    let is_step = |name: &str| StepInfo::parse(name).is_some();
    let steps: Vec<bool> = trace.ranges.names.iter().map(is_step).collect();
    let of_steps = trace.ranges.iter().filter(|range| steps.get(range.name.0 as usize) == Some(&true));
    for thread in others.chain(of_steps.map(|range| range.thread)) {
        launches.get_mut(thread.0 as usize).into_iter().for_each(|launches| *launches = (0, 0));
    }
    launches.into_iter().map(|(inside, all)| 2 * inside > all).collect()
}

/// The parts that ranges tell, with their times.
fn ranges_of_parts(trace: &Trace) -> impl Iterator<Item = (TrainingPart, HostInterval)> {
    let part = |name: &str| training_part_of_code(name).or_else(|| training_part_of_range(name));
    let parts: Vec<Option<TrainingPart>> = trace.ranges.names.iter().map(part).collect();
    trace.ranges.iter().filter_map(move |range| {
        let part = parts.get(range.name.0 as usize).copied().flatten()?;
        Some((part, HostInterval { thread: range.thread, start: range.start, end: range.end() }))
    })
}

/// The number of the process of a thread, in the place of a thread.
fn of_process(trace: &Trace, thread: ThreadId) -> ThreadId {
    ThreadId(trace.threads.get(thread.0 as usize).map_or(0, |thread| thread.process.0))
}

fn starts(trace: &Trace, times: [&[HostInterval]; 2]) -> Vec<[Vec<Ns>; 2]> {
    let mut starts = vec![[Vec::new(), Vec::new()]; trace.processes.len()];
    for (index, times) in times.into_iter().enumerate() {
        for time in times {
            let own = starts.get_mut(of_process(trace, time.thread).0 as usize).and_then(|own| own.get_mut(index));
            own.into_iter().for_each(|own: &mut Vec<Ns>| own.push(time.start));
        }
    }
    starts.iter_mut().flatten().for_each(|starts| starts.sort_unstable());
    starts
}

fn host_ranges(context: &Context) -> Vec<Vec<(Ns, Ns)>> {
    let mut ranges = vec![Vec::new(); context.trace.processes.len()];
    for step in context.steps().iter().filter(|step| step.basis == Basis::Launches) {
        ranges
            .get_mut(step.process.0 as usize)
            .into_iter()
            .for_each(|own: &mut Vec<(Ns, Ns)>| own.push(step.annotation_range));
    }
    ranges.iter_mut().for_each(|own| own.sort_unstable());
    ranges
}

/// The times of the parts of one stage.
#[derive(Debug, Clone, Default)]
struct Sums {
    steps: usize,
    parts: [PartTimes; PARTS.len()],
}

/// The times of one part.
#[derive(Debug, Clone, Copy, Default)]
struct PartTimes {
    ops: u64,
    busy: Ns,
    idle: Ns,
    durations: Ns,
}

impl Sums {
    fn add(&mut self, part: Part, times: PartTimes) {
        if let Some(own) = self.parts.get_mut(part as usize) {
            own.ops += times.ops;
            own.busy += times.busy;
            own.idle += times.idle;
            own.durations += times.durations;
        }
    }

    fn rows(&self, stage: Stage, code: &Code) -> Vec<StepPartRow> {
        let whole = self.parts.iter().fold(Ns::ZERO, |sum, times| sum + times.busy + times.idle);
        let is_filled = |times: &PartTimes| times.ops > 0 || times.busy + times.idle > Ns::ZERO;
        let filled = PARTS.into_iter().zip(self.parts).filter(|(_, times)| is_filled(times));
        let mean = |time: Ns| Ms(time.0 as f64 / 1e6 / self.steps.max(1) as f64);
        let row = |(part, times): (Part, PartTimes)| StepPartRow {
            stage,
            part,
            steps: self.steps,
            ops: MeanCount(times.ops as f64 / self.steps.max(1) as f64),
            mean_ms: mean(times.busy + times.idle),
            busy_ms: mean(times.busy),
            idle_ms: mean(times.idle),
            op_time_ms: mean(times.durations),
            share_of_step_pct: Pct::of(times.busy + times.idle, whole),
            found_by: code.evidence(part).to_owned(),
        };
        filled.map(row).collect()
    }
}

/// The steps of one process on one device that are still to be filled, and how far the first is.
#[derive(Debug, Default)]
struct Lane {
    /// Index of the stage in [`Sweep::stages`], start and end, sorted by start.
    steps: Vec<(usize, Ns, Ns)>,
    next: usize,
    /// Until when its time is divided, and the part of the op that runs until then.
    covered: Ns,
    last_part: Part,
}

struct Sweep<'a> {
    context: &'a Context<'a>,
    code: &'a Code<'a>,
    lanes: VecMap<(DeviceId, ProcessId), Lane>,
    /// In the order of [`Stage::ALL`].
    stages: Vec<(Stage, Sums)>,
}

impl<'a> Sweep<'a> {
    fn new(context: &'a Context<'a>, code: &'a Code<'a>) -> Self {
        Self { context, code, lanes: VecMap::new(), stages: Vec::new() }
    }

    fn add_stage<'s>(&mut self, stage: Stage, steps: impl Iterator<Item = &'s MeasuredStep>) {
        self.stages.push((stage, Sums::default()));
        steps.for_each(|step| self.add_step(self.stages.len() - 1, step));
    }

    fn add_step(&mut self, stage: usize, step: &MeasuredStep) {
        let Some(device) = step.step.device else { return };
        self.stages.get_mut(stage).into_iter().for_each(|(_, sums)| sums.steps += 1);
        let times = (stage, step.step.start, step.until);
        self.lanes.update((device, step.step.process), Lane::default(), |lane| lane.steps.push(times));
    }

    fn run(&mut self) {
        let mut lanes = std::mem::take(&mut self.lanes).into_vec();
        lanes.iter_mut().for_each(|(_, lane)| lane.steps.sort_unstable_by_key(|(_, start, _)| *start));
        let trace = self.context.trace;
        for (row, op) in trace.gpu_ops.iter().enumerate() {
            let lane = lanes.binary_search_by_key(&(op.device, op.process), |(lane, _)| *lane).ok();
            if let Some((lane, state)) = lane.and_then(|index| lanes.get_mut(index)) {
                self.add_op(*lane, state, row, op);
            }
        }
        for (lane, mut state) in lanes {
            while self.ends_step(lane, &mut state, Ns(i64::MAX)) {}
        }
    }

    /// Adds an op, which no op starts before that is not added yet.
    fn add_op(&mut self, lane: (DeviceId, ProcessId), state: &mut Lane, row: usize, op: GpuOp) {
        while self.ends_step(lane, state, op.start) {}
        let part = self.code.part(row, op);
        if let Some((stage, start, until)) =
            state.steps.get(state.next).copied().filter(|(_, start, _)| *start <= op.start)
        {
            self.enter(state, stage, start, until);
            self.add_idle(lane, stage, (state.covered, op.start), part);
            let busy = op.end().min(until).since(state.covered.max(op.start)).max(Ns::ZERO);
            self.add(stage, part, PartTimes { ops: 1, busy, durations: op.duration, idle: Ns::ZERO });
        }
        if op.end() > state.covered {
            (state.covered, state.last_part) = (op.end(), part);
        }
    }

    /// Begins a step: what still runs of the time before it counts for it.
    fn enter(&mut self, state: &mut Lane, stage: usize, start: Ns, until: Ns) {
        let Some((_, entered, _)) = state.steps.get_mut(state.next) else { return };
        if *entered == Ns(i64::MIN) {
            return;
        }
        *entered = Ns(i64::MIN);
        let running = state.covered.min(until).since(start).max(Ns::ZERO);
        self.add(stage, state.last_part, PartTimes { busy: running, ..PartTimes::default() });
        state.covered = state.covered.max(start);
    }

    /// Ends the current step if it ends by this time. Returns whether it did.
    fn ends_step(&mut self, lane: (DeviceId, ProcessId), state: &mut Lane, time: Ns) -> bool {
        let Some((stage, start, until)) = state.steps.get(state.next).copied().filter(|(.., until)| *until <= time)
        else {
            return false;
        };
        if start != Ns(i64::MIN) {
            self.enter(state, stage, start, until);
        }
        self.add_idle(lane, stage, (state.covered, until), Part::Between);
        state.next += 1;
        true
    }

    fn add_idle(&mut self, (device, process): (DeviceId, ProcessId), stage: usize, (from, to): (Ns, Ns), part: Part) {
        if to <= from {
            return;
        }
        let idle = self.context.survey().idle.get(device.0 as usize);
        let left_out = |intervals: &[(Ns, Ns)]| time_between(intervals, from, to);
        let left_out = idle.map_or(Ns::ZERO, |idle| left_out(&idle.of_before) + left_out(&idle.no_requests));
        let idle = to.since(from).since(left_out);
        let loading = self.code.loading_in(process, from, to).min(idle);
        if loading > Ns::ZERO {
            self.add(stage, Part::Loading, PartTimes { idle: loading, ..PartTimes::default() });
        }
        self.add(stage, part, PartTimes { idle: idle.since(loading), ..PartTimes::default() });
    }

    fn add(&mut self, stage: usize, part: Part, times: PartTimes) {
        self.stages.get_mut(stage).into_iter().for_each(|(_, sums)| sums.add(part, times));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::section::Record;
    use crate::analysis::testing::{rows, torch};
    use crate::session::look_up_code;
    use crate::trace::testing::TestTrace;

    /// Steps of 100 us. The thread of autograd launches the backward pass; the loader hands over a batch at the end.
    fn training(steps: i64) -> TestTrace {
        let mut trace = TestTrace::new();
        trace.in_us();
        for (number, at) in (0..steps).map(|step| (step, step * 100)) {
            trace.range(&format!("ProfilerStep#{number}"), at..at + 100);
            trace.launch(at + 1..at + 2).launches("Memcpy HtoD (Pinned -> Device)", at + 2..at + 4);
            trace.launch(at + 5..at + 6).launches("gemm", at + 6..at + 16);
            trace.range("Optimizer.zero_grad#SGD.zero_grad", at + 7..at + 10);
            trace.launch(at + 8..at + 9).launches("fill", at + 16..at + 18);
            trace.thread(2).range("backward", at + 20..at + 45);
            trace.launch(at + 21..at + 22).launches("gemm", at + 22..at + 42);
            trace.launch(at + 23..at + 24).launches("ncclDevKernel_AllReduce_Sum_f32", at + 42..at + 52);
            trace.thread(1).range("Optimizer.step#SGD.step", at + 50..at + 60);
            trace.launch(at + 51..at + 52).launches("add", at + 54..at + 58);
            trace.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", at + 70..at + 95);
        }
        trace
    }

    #[test]
    fn the_parts_of_a_step_are_told_by_what_its_threads_run_and_add_up_to_it() {
        let mut trace = training(4);
        let sections = trace.sections();
        let found = rows(&sections, "step_parts", &["part", "steps", "ops", "mean_ms", "busy_ms", "idle_ms"]);
        // Three steps reach the next, from 2 to 102: 42 us idle at the end, 25 of them while the loader works, and 1 within.
        assert_eq!(
            found,
            [
                "data loading 3 1 0.027 0.002 0.025",
                "forward 3 1 0.012 0.01 0.002",
                "backward 3 1 0.024 0.02 0.004",
                "gradient communication 3 1 0.01 0.01 0",
                "optimizer 3 2 0.008 0.006 0.002",
                "between steps 3 0 0.019 0 0.019",
            ]
        );
    }

    /// Steps that only the optimizer shows: without host code the passes before it are one part.
    #[test]
    fn a_trace_without_host_code_tells_the_optimizer_from_the_rest() {
        let mut trace = TestTrace::nsys();
        trace.in_us();
        for at in (0..4).map(|step| step * 100) {
            for (index, name) in
                ["gemm_a", "relu", "gemm_b", "loss", "gemm_c", "relu_back", "gemm_d"].iter().enumerate()
            {
                let start = at + 10 * index as i64;
                trace.kernel(name, start..start + 8);
            }
            trace.kernel("multi_tensor_apply_kernel<FusedAdamMathFunctor<float>>", at + 70..at + 80);
        }
        let found = rows(&trace.sections(), "step_parts", &["part", "steps", "mean_ms", "busy_ms", "found_by"]);
        assert_eq!(
            found,
            [
                "forward and backward 3 0.068 0.056 the rest",
                "optimizer 3 0.012 0.01 names of kernels",
                "between steps 3 0.02 0 after the last op",
            ]
        );
    }

    #[test]
    fn a_trace_of_a_server_has_no_parts_of_a_training() {
        let mut trace = TestTrace::new();
        trace.range("step[DECODE bs=2]", 0..100).launch(1..2).launches("multi_tensor_apply_kernel<Copy<float>>", 5..9);
        assert!(!trace.sections().contains_key("step_parts"));
    }

    /// Ops and durations (in ms, means over the steps that reach the next) of shared traces, from a program that reads their events:
    /// an op belongs to the code on the thread of its launch, and on a thread of autograd to the backward pass, which also copies buckets
    /// of gradients between its functions.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn recorded_trainings_have_the_parts_that_their_events_show() {
        for (name, expected) in LABELS {
            let mut trace = torch(&format!("{name}.trace.json.gz"));
            look_up_code(&mut trace);
            let context = Context::new(&trace, 30);
            let section = step_parts(&context).unwrap().section();
            let row = |part: &str| -> Option<&Record> { section.rows.iter().find(|row| row.words("part") == part) };
            for (part, ops, op_time_ms) in expected.iter() {
                let row = row(part).unwrap_or_else(|| panic!("{name}: {part}"));
                assert_eq!(row.amount("ops"), *ops, "{name}: {part}");
                assert!(
                    (row.amount("op_time_ms") - op_time_ms).abs() < 0.0006,
                    "{name}: {part} {}",
                    row.amount("op_time_ms")
                );
            }
            let stage = section.rows.first().map(|row| row.words("stage")).unwrap_or_default();
            let of_stage = section.rows.iter().filter(|row| row.words("stage") == stage);
            let times: f64 = of_stage.map(|row| row.amount("mean_ms")).sum();
            let steps = context.measured_steps().steps.iter();
            let steps = steps.filter(|step| step.step.info.stage.label() == stage).collect::<Vec<_>>();
            let steps: Vec<f64> =
                representative(&steps, |step| step.reaches_next).map(|step| step.time.0 as f64 / 1e6).collect();
            let mean = steps.iter().sum::<f64>() / steps.len() as f64;
            assert!((times - mean).abs() < 1e-6, "{name}: {times} {mean}");
        }
    }

    /// A part, its operations a step and their time in milliseconds.
    type Label = (&'static str, f64, f64);
    const LABELS: &[(&str, &[Label])] = &[
        (
            "train_a100_rank3of8",
            &[
                ("backward", 1018.0, 35.4704),
                ("data loading", 25.0, 8.3996),
                ("forward", 482.0, 31.5626),
                ("gradient communication", 3.0, 5.4906),
                ("optimizer", 8.0, 1.2752),
                ("other", 39.0, 0.591),
            ],
        ),
        (
            "train_v100_216k_events",
            &[
                ("backward", 2311.0, 82.329),
                ("forward", 935.0, 39.1808),
                ("gradient communication", 404.0, 59.5685),
                ("optimizer", 808.0, 7.186),
            ],
        ),
        (
            "nccl_metadata_a100",
            &[
                ("backward", 786.0, 25.7453),
                ("forward", 458.0, 12.9452),
                ("gradient communication", 5.0, 12.1059),
                ("optimizer", 9.0, 0.6926),
            ],
        ),
        (
            "h100_nvl_small.pt",
            &[
                // Of the ten training steps in its ProfilerStep the first one loads and initialises, and the last reaches no next one.
                ("forward", 18.0, 0.0711),
                ("backward", 16.0, 0.0573),
                ("optimizer", 7.0, 0.0804),
            ],
        ),
        (
            "mi250_minitoy",
            &[
                ("backward", 7.0, 0.0485),
                ("data loading", 2.0, 0.0382),
                ("forward", 6.0, 0.0539),
                ("optimizer", 1.0, 0.0085),
            ],
        ),
        (
            "resnet50_v100_torch1.9.pt",
            &[
                ("backward", 590.0, 64.398),
                ("data loading", 2.0, 1.718),
                ("forward", 280.0, 32.7618),
                ("optimizer", 644.0, 1.4828),
            ],
        ),
        (
            "dlrm_v100_8ranks/rank0.pt",
            &[
                ("backward", 104.0, 1.022),
                ("data loading", 11.0, 0.012),
                ("forward", 79.0, 3.809),
                ("gradient communication", 3.0, 1.799),
                ("optimizer", 64.0, 0.209),
            ],
        ),
        (
            "../../more/torch/gpt_training_rtx3060_graphs",
            &[("backward", 162.0, 113.824), ("forward", 77.0, 54.7272), ("optimizer", 3.0, 1.8179)],
        ),
    ];
}
