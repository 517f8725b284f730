//! The forward passes of a trace with their ops: the engine steps that annotations mark, or else those that the order of the
//! kernels shows. An op belongs to the annotated step in which it was launched. One pass over the ops.

use super::inferred_steps::{InferredStep, inferred_steps};
use super::kernel_roles::{NameRoles, role_of_name};
use super::optimizer_steps::optimizer_steps;
use super::periods::periodic_steps;
use super::stage_by_kernels::AttentionStages;
use super::unnamed_stages::name_kinds;
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::structure::stages::{
    Basis, Form, HostStep, NO_NAME, Stage, Step, StepInfo, has_marked_steps, of_ops, steps_by_op, steps_from_ranges,
};
use crate::ordering::{self, VecMap};
use crate::trace::{DeviceId, GpuOp, NONE, Trace};
use std::borrow::Borrow;
use std::ops::Range;

/// The ops of one step on one device.
#[derive(Debug, Clone)]
pub(crate) struct Pass {
    /// The step that launched the ops.
    pub(crate) step: HostStep,
    rows: Range<usize>,
}

/// All forward passes, in the order of their steps.
#[derive(Debug, Default)]
pub(crate) struct Passes {
    passes: Vec<Pass>,
    /// The rows of the ops of all passes, grouped by pass and sorted.
    rows: Vec<u32>,
    /// The steps, if no annotation marks them. A step of graphs that were traced as a whole has no pass.
    inferred: Vec<Step>,
}

/// The steps that launched GPU ops, and for each op the index of its step, or [`NONE`].
#[derive(Debug, Default)]
pub(crate) struct StepsOfOps {
    pub(crate) steps: Vec<HostStep>,
    /// Parallel to the ops of the trace.
    pub(crate) step_of_op: Vec<u32>,
    /// If no annotation marks the steps, these on their devices, parallel to `steps`.
    inferred: Vec<Step>,
}

impl StepsOfOps {
    /// The steps of annotations, or else those that the order of the kernels shows. Empty if there are neither.
    pub(crate) fn of(classified: &ClassifiedTrace, roles: &NameRoles) -> Self {
        Self::by_launch(classified.trace).completed(classified, || roles)
    }

    /// The steps of host ranges and Python functions.
    fn by_launch(trace: &Trace) -> Self {
        let (steps, step_of_op) = steps_by_op(trace);
        Self { steps, step_of_op, ..Self::default() }
    }

    /// Adds what only the kernels show: all steps, or the stages of Python functions. Steps of engine annotations need no roles.
    fn completed<R: Borrow<NameRoles>>(mut self, classified: &ClassifiedTrace, roles: impl FnOnce() -> R) -> Self {
        if self.steps.is_empty() {
            let roles = roles();
            let by_order = inferred_steps(classified, roles.borrow());
            let steps = if by_order.is_empty() { periodic_steps(classified, roles.borrow()) } else { by_order };
            return Self::inferred(classified, steps);
        }
        if self.steps.iter().any(|step| step.form == Form::Frame) {
            self.set_stages_by_kernels(classified, roles().borrow());
        } else if self.steps.iter().all(|step| step.form.is_plain()) {
            // Ranges of layers contain most launches too, but several of them are one step.
            let inferred = Self::inferred(classified, inferred_steps(classified, roles().borrow()));
            if !inferred.steps.is_empty() && inferred.steps.len() <= self.steps.len() / 2 {
                return inferred;
            }
        }
        let parts = optimizer_steps(classified.trace, &self.steps, &self.step_of_op);
        if !parts.is_empty() {
            let divided = Self::inferred(classified, parts);
            if divided.are_alike() {
                return divided;
            }
        }
        name_kinds(classified.trace, &mut self.steps, &self.step_of_op);
        self
    }

    /// Whether all steps but the first of each device, which may load and initialise, are of one kind.
    fn are_alike(&self) -> bool {
        let mut stages = self.steps.iter().filter(|step| step.number > 1).map(|step| step.stage);
        stages.next().is_some_and(|first| stages.all(|stage| stage == first))
    }

    fn set_stages_by_kernels(&mut self, classified: &ClassifiedTrace, roles: &NameRoles) {
        let mut rows: Vec<Vec<u32>> = vec![Vec::new(); self.steps.len()];
        for (step, row) in self.step_of_op.iter().zip(0..) {
            rows.get_mut(*step as usize).into_iter().for_each(|rows| rows.push(row));
        }
        let stages = AttentionStages::of(classified.trace, roles);
        for (step, rows) in self.steps.iter_mut().zip(&rows) {
            step.stage = stages.of_step(classified, rows);
        }
    }

    /// The same for a trace whose roles are not needed otherwise.
    pub(crate) fn of_trace(trace: &Trace) -> Self {
        Self::by_launch(trace).completed(&ClassifiedTrace::new(trace), || NameRoles::of(trace))
    }

    fn inferred(classified: &ClassifiedTrace, steps: Vec<InferredStep>) -> Self {
        let ops = &classified.trace.gpu_ops;
        let mut found = Self { step_of_op: vec![NONE; ops.len()], ..Self::default() };
        let (mut device, mut number) = (None, 0);
        for step in steps {
            let Some(on_device) = step_on_device(classified.trace, &step) else { continue };
            // Each device counts its own steps.
            number = if on_device.device == device { number + 1 } else { 1 };
            device = on_device.device;
            let index = u32::try_from(found.steps.len()).unwrap_or(NONE);
            found.steps.push(HostStep::inferred(number, step.stage, step.form));
            found.inferred.push(on_device);
            for row in step.rows {
                found.step_of_op.get_mut(row as usize).into_iter().for_each(|slot| *slot = index);
            }
        }
        name_kinds(classified.trace, &mut found.steps, &found.step_of_op);
        for (on_device, step) in found.inferred.iter_mut().zip(&found.steps) {
            on_device.info.stage = step.stage;
        }
        found
    }
}

/// A step that no annotation marks, from the first start to the last end of its ops and graphs.
fn step_on_device(trace: &Trace, step: &InferredStep) -> Option<Step> {
    let work = |row: &u32| match trace.gpu_ops.get(*row as usize) {
        Some(op) => Some((op.device, op.process, op.start, op.end())),
        None => {
            let replay = trace.graph_replays.get((*row as usize).checked_sub(trace.gpu_ops.len())?)?;
            Some((replay.device, replay.process, replay.start, replay.end()))
        }
    };
    let (device, process, start, _) = work(step.rows.first()?)?;
    let end = step.rows.iter().filter_map(work).map(|(.., end)| end).max()?;
    Some(Step {
        info: StepInfo::of_stage(step.stage, step.form),
        name: NO_NAME,
        start,
        end,
        device: Some(device),
        basis: Basis::Kernels,
        process,
        annotation_range: (start, end),
        ends_phase: false,
    })
}

/// The stage of every GPU op: as [`of_ops`] finds it, or if that finds none, as the order of the kernels shows it.
pub(crate) fn stages_of_ops(trace: &Trace, file_stage: Stage) -> Vec<Stage> {
    let stages = of_ops(trace, file_stage);
    if stages.iter().any(|stage| *stage != Stage::All) {
        return stages;
    }
    let found = StepsOfOps::of_trace(trace);
    // The first step of a training loads and initialises: its kernels are no stage of their own.
    let step = |index: &u32| found.steps.get(*index as usize).filter(|step| step.form != Form::Optimizer);
    let stage = |index: &u32| step(index).map_or(Stage::All, |step| step.stage);
    found.step_of_op.iter().map(stage).collect()
}

/// The steps of a trace on its devices: those of host ranges, or else those that the order of the kernels shows.
pub(crate) fn steps_on_devices(trace: &Trace) -> Vec<Step> {
    let passes = || Passes::of(&ClassifiedTrace::new(trace), &NameRoles::of(trace));
    let steps = steps_from_ranges(trace);
    let is_complete = steps.first().is_some_and(|step| step.info.form == Form::Engine);
    if is_complete { steps } else { passes().complete(steps) }
}

/// False if [`steps_on_devices`] finds no steps: nothing marks steps, no kernel is attention, and none repeats as steps do.
pub(crate) fn may_have_steps(trace: &Trace) -> bool {
    let repeats = || !periodic_steps(&ClassifiedTrace::new(trace), &NameRoles::of(trace)).is_empty();
    has_marked_steps(trace) || trace.names.iter().any(|name| role_of_name(name).is_attention()) || repeats()
}

impl Passes {
    /// The passes of the steps. Empty if there are no steps.
    pub(crate) fn of(classified: &ClassifiedTrace, roles: &NameRoles) -> Self {
        let (trace, found) = (classified.trace, StepsOfOps::of(classified, roles));
        let StepsOfOps { steps, step_of_op, .. } = &found;
        // By step: the devices and the numbers of their ops. A step mostly has one device.
        let mut counts: Vec<VecMap<DeviceId, usize>> = vec![VecMap::new(); steps.len()];
        for (op, step) in trace.gpu_ops.iter().zip(step_of_op) {
            let devices = counts.get_mut(*step as usize);
            devices.into_iter().for_each(|devices| devices.update(op.device, 0, |count| *count += 1));
        }
        let mut passes = Vec::with_capacity(steps.len());
        // By step and device: the next free slot in `rows`.
        let mut next: Vec<VecMap<DeviceId, usize>> = Vec::with_capacity(steps.len());
        let mut end = 0;
        for (step, devices) in steps.iter().zip(&counts) {
            let mut slots = VecMap::new();
            for (device, count) in devices.iter() {
                passes.push(Pass { step: *step, rows: end..end + count });
                slots.update(*device, end, |_| ());
                end += count;
            }
            next.push(slots);
        }
        let mut rows = vec![0; end];
        for ((op, step), row) in trace.gpu_ops.iter().zip(step_of_op).zip(0_u32..) {
            let Some(slots) = next.get_mut(*step as usize) else { continue };
            let slot = slots.update(op.device, 0, |slot| std::mem::replace(slot, *slot + 1));
            rows.get_mut(slot).into_iter().for_each(|entry| *entry = row);
        }
        let mut inferred = found.inferred;
        ordering::sort_by_key(&mut inferred, |step| step.start);
        Self { passes, rows, inferred }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.passes.is_empty()
    }

    /// Adds what the kernels show to steps of host ranges: their stages if the ranges state none, or if they mark no steps, all.
    pub(crate) fn complete(&self, mut steps: Vec<Step>) -> Vec<Step> {
        if steps.is_empty() || !self.inferred.is_empty() {
            return self.inferred.clone();
        }
        for step in steps.iter_mut().filter(|step| step.info.stage == Stage::All) {
            // Passes are sorted by process and start of their ranges.
            let range_start = (step.process, step.annotation_range.0);
            let index = self.passes.partition_point(|pass| pass.step.range_start < range_start);
            let pass = self.passes.get(index).filter(|pass| pass.step.range_start == range_start);
            step.info.stage = pass.map_or(Stage::All, |pass| pass.step.stage);
        }
        steps
    }

    /// The passes of a stage, in order.
    pub(crate) fn of_stage(&self, stage: Stage) -> impl Iterator<Item = &Pass> + Clone {
        self.passes.iter().filter(move |pass| pass.step.stage == stage)
    }

    /// The stages that occur, in the order of tables.
    pub(crate) fn stages(&self) -> impl Iterator<Item = Stage> {
        Stage::ALL.into_iter().filter(|stage| self.of_stage(*stage).next().is_some())
    }

    /// The rows of the ops of a pass, sorted.
    pub(crate) fn rows(&self, pass: &Pass) -> &[u32] {
        self.rows.get(pass.rows.clone()).unwrap_or_default()
    }

    /// The ops that belong to no pass, with their rows, sorted by start.
    pub(crate) fn outside<'a>(&self, trace: &'a Trace) -> impl Iterator<Item = (usize, GpuOp)> + 'a {
        let mut is_inside = vec![false; trace.gpu_ops.len()];
        for row in &self.rows {
            is_inside.get_mut(*row as usize).into_iter().for_each(|inside| *inside = true);
        }
        trace.gpu_ops.iter().enumerate().zip(is_inside).filter(|(_, inside)| !inside).map(|(op, _)| op)
    }

    /// The ops of a pass with their rows, sorted by start.
    pub(crate) fn ops<'a>(&'a self, trace: &'a Trace, pass: &Pass) -> impl Iterator<Item = (usize, GpuOp)> + 'a {
        self.rows(pass).iter().filter_map(|row| Some((*row as usize, trace.gpu_ops.get(*row as usize)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::{import, shared, torch};
    use crate::input::Importer;
    use crate::trace::Ns;
    use crate::trace::testing::TestTrace;
    use std::io::Read;

    #[test]
    fn an_op_belongs_to_the_step_that_launched_it_on_its_device() {
        let mut trace = TestTrace::new();
        trace.range("step[DECODE bs=2]", 0..10).launch(1..2).launches("a", 100..110);
        trace.device(1).launch(3..4).launches("b", 90..95).device(0);
        trace.launch(12..13).launches("between", 111..112);
        trace.range("step[EXTEND bs=1 toks=9]", 20..30).launch(21..22).launches("c", 120..130);
        trace.launch(23..24).launches("a", 130..131);
        let trace = trace.finish();
        let passes = Passes::of(&ClassifiedTrace::new(&trace), &NameRoles::of(&trace));
        let name = |(_, op): (usize, GpuOp)| trace.names.get(op.name).to_owned();
        let names = |stage| {
            let passes_of_stage = passes.of_stage(stage);
            passes_of_stage.map(|pass| passes.ops(&trace, pass).map(name).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        assert_eq!(names(Stage::Decode), [["a"], ["b"]], "one pass per device");
        assert_eq!(names(Stage::Prefill), [["c", "a"]]);
        assert_eq!(passes.outside(&trace).map(name).collect::<Vec<_>>(), ["between"]);
        assert_eq!(passes.stages().collect::<Vec<_>>(), [Stage::Prefill, Stage::Decode]);
        let other = TestTrace::new().kernel("a", 0..1).finish();
        assert!(Passes::of(&ClassifiedTrace::new(&other), &NameRoles::of(&other)).is_empty());
    }

    /// Each call of the function is a step until the next call, also if it contains another such function.
    #[test]
    fn functions_of_the_engine_are_steps_if_no_annotation_marks_them() {
        let mut trace = TestTrace::new();
        let attention = ["BatchPrefillWithRaggedKVCacheKernel", "paged_attention", "paged_attention"];
        for (start, attention) in (0..).step_by(100).zip(attention) {
            trace.step_frame("x/scheduler.py(1): run_batch", start..start + 50);
            trace.step_frame("x/model_runner.py(2): forward", start + 10..start + 40);
            trace.launch(start + 20..start + 21).launches(attention, start + 30..start + 60);
            trace.launch(start + 60..start + 61).launches("argmax", start + 70..start + 75);
        }
        // A call without ops, and one on a thread that launches little.
        trace.step_frame("x/scheduler.py(1): run_batch", 400..410);
        trace
            .thread(2)
            .step_frame("x/scheduler.py(1): run_batch", 30..150)
            .launch(140..141)
            .launches("other", 190..191);
        let trace = trace.finish();
        let steps = steps_on_devices(&trace);
        let found: Vec<(Stage, Form, i64)> =
            steps.iter().map(|step| (step.info.stage, step.info.form, step.start.0)).collect();
        assert_eq!(
            found,
            [(Stage::Prefill, Form::Frame, 30), (Stage::Decode, Form::Frame, 130), (Stage::Decode, Form::Frame, 230)]
        );
        let ops = StepsOfOps::of_trace(&trace).step_of_op;
        assert_eq!(ops, [0, 0, 1, 1, 1, 2, 2], "the last op of a step is launched after the function returned");
        let part = trace.within(crate::trace::Window { start: Ns(100), end: Ns(200) });
        assert_eq!(steps_on_devices(&part).len(), 1);
    }

    /// A program that calls `profiler.step()` once for six steps of its training.
    #[test]
    fn a_profiler_step_with_several_optimizer_steps_is_divided() {
        let mut trace = TestTrace::new();
        trace.range("ProfilerStep#2", 0..1_000);
        for start in (0..6).map(|step| 100 * step) {
            let names = ["gemm", "loss", "gemm_back", "gemm_wgrad", "multi_tensor_apply_kernel"];
            for (name, at) in names.into_iter().zip((start..).step_by(10)) {
                trace.launch(at..at + 1).launches(name, at + 2..at + 8);
            }
            trace.range("Optimizer.step#Adam.step", start + 40..start + 50);
        }
        let starts = |trace: &Trace| -> Vec<(i64, Form)> {
            steps_on_devices(trace).iter().map(|step| (step.start.0, step.info.form)).collect()
        };
        let expected = [2, 102, 202, 302, 402, 502].map(|start| (start, Form::Optimizer));
        assert_eq!(starts(&trace.finish()), expected);
        // Two optimizers, which train two networks in turn: which calls end a step cannot be told.
        let mut two = TestTrace::new();
        two.range("ProfilerStep#2", 0..1_000);
        for (start, kernel) in (0..).step_by(100).zip(["generator", "discriminator"].repeat(3)) {
            two.launch(start..start + 1).launches(kernel, start + 2..start + 8);
            two.range("Optimizer.step#Adam.step", start + 40..start + 50);
        }
        assert_eq!(starts(&two.finish()), [(2, Form::Profiler)]);
    }

    /// The frames of a real trace without its annotations show the same step.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn a_shared_trace_has_the_same_steps_by_frames_as_by_annotations() {
        for name in ["sglang_qwen3_30b_b300_decode", "sglang_qwen3_30b_mi300_decode", "vllm_b200_eager_prefill"] {
            let path = shared(&format!("traces/torch/{name}.trace.json.gz"));
            let annotated = torch(&format!("{name}.trace.json.gz"));
            let mut text = String::new();
            flate2::read::GzDecoder::new(std::fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
            let text = text.replace("\"user_annotation\"", "\"other\"");
            let by_frames = import(Importer::new("t.json"), text.as_bytes());
            let found = |trace: &Trace| -> Vec<(Stage, i64)> {
                steps_on_devices(trace).iter().map(|step| (step.info.stage, step.end.since(step.start).0)).collect()
            };
            let (expected, found) = (found(&annotated), found(&by_frames));
            assert_eq!(found.len(), expected.len(), "{name}");
            for ((stage, length), (expected_stage, expected_length)) in found.iter().zip(&expected) {
                assert!([*expected_stage, Stage::All].contains(stage), "{name}: {stage:?}");
                assert!(
                    length.abs_diff(*expected_length) * 50 < *expected_length as u64,
                    "{name}: {length} {expected_length}"
                );
            }
        }
    }

    /// Four steps of eight layers on each of two devices, without annotations.
    #[test]
    fn without_annotations_each_op_has_the_stage_and_step_that_the_kernels_show() {
        let layer = ["rms_norm", "gemm_qkv", "paged_attention", "gemm_o", "silu", "gemm_down"];
        let step = [&["embedding"][..], &layer.repeat(8), &["rms_norm", "gemm_head", "argmax"]].concat();
        let mut trace = TestTrace::new();
        for device in [0, 1] {
            trace.device(device);
            for (name, start) in step.repeat(4).iter().zip((0..).step_by(10)) {
                trace.kernel(name, start..start + 5);
            }
        }
        let trace = trace.finish();
        let found = StepsOfOps::of_trace(&trace);
        assert_eq!(found.inferred.len(), found.steps.len());
        let numbers: Vec<u32> = found.steps.iter().map(|step| step.number).collect();
        assert_eq!(numbers, [1, 2, 3, 4, 1, 2, 3, 4]);
        assert!(found.step_of_op.iter().all(|step| *step != NONE));
        assert_eq!(stages_of_ops(&trace, Stage::All), vec![Stage::Decode; step.len() * 8]);
        assert_eq!(stages_of_ops(&trace, Stage::Prefill), vec![Stage::Prefill; step.len() * 8], "the file says more");
        assert_eq!(steps_on_devices(&trace).len(), 8);
    }
}
