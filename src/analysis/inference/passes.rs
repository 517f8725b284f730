//! The forward passes of a trace with their ops: the engine steps that annotations mark, or else those that the order of the
//! kernels shows. An op belongs to the annotated step in which it was launched. One pass over the ops.

use super::inferred_steps::inferred_steps;
use super::kernel_roles::NameRoles;
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::structure::stages::{Basis, Form, HostStep, Stage, Step, StepInfo, steps_by_op};
use crate::ordering::{self, VecMap};
use crate::trace::{DeviceId, GpuOp, NameId, Trace};
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
    /// Whether no annotation marks the passes.
    is_inferred: bool,
}

impl Passes {
    /// The passes of the annotated steps, or else those that the order of the kernels shows. Empty if there are neither.
    pub(crate) fn of(classified: &ClassifiedTrace, roles: &NameRoles) -> Self {
        let trace = classified.trace;
        let (steps, step_of_op) = steps_by_op(trace);
        if steps.is_empty() { Self::inferred(classified, roles) } else { Self::annotated(trace, &steps, &step_of_op) }
    }

    fn inferred(classified: &ClassifiedTrace, roles: &NameRoles) -> Self {
        let mut found = Self { is_inferred: true, ..Self::default() };
        for (step, number) in inferred_steps(classified, roles).into_iter().zip(1_u32..) {
            let start = found.rows.len();
            found.rows.extend(step.rows);
            let step = HostStep::of_stage(number, step.stage);
            found.passes.push(Pass { step, rows: start..found.rows.len() });
        }
        found
    }

    fn annotated(trace: &Trace, steps: &[HostStep], step_of_op: &[u32]) -> Self {
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
            for (device, count) in &devices.0 {
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
        Self { passes, rows, is_inferred: false }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.passes.is_empty()
    }

    /// The passes as steps, if no annotation marks them; sorted by start.
    pub(crate) fn inferred_steps(&self, trace: &Trace) -> Vec<Step> {
        let passes = self.passes.iter().filter(|_| self.is_inferred);
        let mut steps: Vec<Step> = passes.filter_map(|pass| self.inferred_step(trace, pass)).collect();
        ordering::sort_by_key(&mut steps, |step| step.start);
        steps
    }

    fn inferred_step(&self, trace: &Trace, pass: &Pass) -> Option<Step> {
        let first = trace.gpu_ops.get(*self.rows(pass).first()? as usize)?;
        let end = self.ops(trace, pass).map(|(_, op)| op.end()).max()?;
        let (start, process) = (first.start, first.process);
        Some(Step {
            info: StepInfo::of_stage(pass.step.stage, Form::Inferred),
            name: NameId(u32::MAX),
            start,
            end,
            device: Some(first.device),
            basis: Basis::Kernels,
            process,
            annotation_range: (start, end),
        })
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
    use crate::trace::testing::TestTrace;

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
}
