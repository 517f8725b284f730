//! The steps of a training in which a program called `profiler.step()` once for several of them: each ends with a call of the
//! optimizer that PyTorch marks (`Optimizer.step#Adam.step`). O(ops log calls).
//!
//! An op belongs to the step in which it was launched: after the end of the call before. What is launched after the last call is in no
//! step. A program with two optimizers calls each once a step, so the calls prove steps only if all parts between them but the first run the
//! same kernels; `passes.rs` compares them.

use super::inferred_steps::InferredStep;
use crate::analysis::structure::stages::{Form, HostStep, Stage};
use crate::ordering::VecMap;
use crate::rules::{TrainingPart, training_part_of_code};
use crate::trace::{CODE_IS_BUILT, DeviceId, NONE, Ns, ProcessId, Span, Trace};

/// The steps, device by device; empty if the profiler's steps hold less than two calls of the optimizer on average.
pub(super) fn optimizer_steps(trace: &Trace, steps: &[HostStep], step_of_op: &[u32]) -> Vec<InferredStep> {
    if !CODE_IS_BUILT || !steps.iter().all(|step| step.form == Form::Profiler) {
        return Vec::new();
    }
    let ends = ends_of_calls(trace);
    if ends.iter().map(|(_, ends)| ends.len()).sum::<usize>() < 2 * steps.len() {
        return Vec::new();
    }
    let mut rows: VecMap<(DeviceId, ProcessId, usize), Vec<u32>> = VecMap::new();
    for ((op, step), row) in trace.gpu_ops.iter().zip(step_of_op).zip(0_u32..) {
        let launch = trace.gpu_ops.launch(row as usize).and_then(|call| trace.calls.start(call.0 as usize));
        let (Some(launch), Some(ends)) = (launch, ends.get(&op.process)) else { continue };
        let part = ends.partition_point(|end| *end <= launch);
        // A window may have cut the first part.
        if *step != NONE && part < ends.len() && (part > 0 || trace.cut.is_none()) {
            rows.update((op.device, op.process, part), Vec::new(), |rows| rows.push(row));
        }
    }
    let step = |rows| InferredStep { stage: Stage::All, form: Form::Optimizer, rows };
    rows.into_vec().into_iter().map(|(_, rows)| step(rows)).collect()
}

/// The ends of the calls of the optimizer in each process, sorted.
fn ends_of_calls(trace: &Trace) -> VecMap<ProcessId, Vec<Ns>> {
    let is_optimizer = |name: &str| training_part_of_code(name) == Some(TrainingPart::Optimizer);
    let are_optimizer: Vec<bool> = trace.ranges.names.iter().map(is_optimizer).collect();
    let calls = trace.ranges.iter().filter(|range| are_optimizer.get(range.name.0 as usize) == Some(&true));
    let end = |call: Span| Some((trace.threads.get(call.thread.0 as usize)?.process, call.end()));
    let mut sorted: Vec<(ProcessId, Ns)> = calls.filter_map(end).collect();
    sorted.sort_unstable();
    let mut ends: VecMap<ProcessId, Vec<Ns>> = VecMap::new();
    for (process, end) in sorted {
        ends.update(process, Vec::new(), |ends| ends.push(end));
    }
    ends
}
