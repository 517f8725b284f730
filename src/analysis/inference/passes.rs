//! The forward passes of a trace with their ops: the engine steps that annotations mark. An op belongs to the step in which
//! it was launched. One pass over the ops.

use crate::analysis::structure::stages::{HostStep, Stage, steps_by_op};
use crate::ordering::VecMap;
use crate::trace::{DeviceId, GpuOp, Trace};
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
}

impl Passes {
    /// The passes of the annotated steps. Empty if the trace has none, or does not link ops to their launches.
    pub(crate) fn of(trace: &Trace) -> Self {
        let (steps, step_of_op) = steps_by_op(trace);
        if steps.is_empty() {
            return Self::default();
        }
        // By step: the devices and the numbers of their ops. A step mostly has one device.
        let mut counts: Vec<VecMap<DeviceId, usize>> = vec![VecMap::new(); steps.len()];
        for (op, step) in trace.gpu_ops.iter().zip(&step_of_op) {
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
        for ((op, step), row) in trace.gpu_ops.iter().zip(&step_of_op).zip(0_u32..) {
            let Some(slots) = next.get_mut(*step as usize) else { continue };
            let slot = slots.update(op.device, 0, |slot| std::mem::replace(slot, *slot + 1));
            rows.get_mut(slot).into_iter().for_each(|entry| *entry = row);
        }
        Self { passes, rows }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.passes.is_empty()
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
        let passes = Passes::of(&trace);
        let name = |(_, op): (usize, GpuOp)| trace.names.get(op.name).to_owned();
        let names = |stage| {
            let passes_of_stage = passes.of_stage(stage);
            passes_of_stage.map(|pass| passes.ops(&trace, pass).map(name).collect::<Vec<_>>()).collect::<Vec<_>>()
        };
        assert_eq!(names(Stage::Decode), [["a"], ["b"]], "one pass per device");
        assert_eq!(names(Stage::Prefill), [["c", "a"]]);
        assert_eq!(passes.stages().collect::<Vec<_>>(), [Stage::Prefill, Stage::Decode]);
        assert!(Passes::of(&TestTrace::new().kernel("a", 0..1).finish()).is_empty());
    }
}
