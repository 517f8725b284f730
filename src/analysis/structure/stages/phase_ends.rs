//! Steps that end with a phase of their program: a range that contains several steps ends, and the program launches other work before the
//! next step. Reinforcement learning generates, then trains, then generates: the training belongs to no step of the generation. A sweep
//! over ranges and steps, and over the ops between phases: O((r + s) log s + n) for `r` ranges, `s` steps and `n` ops.

use super::step::{Basis, Step};
use crate::ordering::{self, VecMap};
use crate::trace::{DeviceId, Ns, ProcessId, Trace};
use std::cmp::Reverse;

/// A range with several steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Phase {
    process: ProcessId,
    start: Ns,
    end: Ns,
}

/// Steps of a lane follow each other.
type Lane = (ProcessId, Option<DeviceId>);

/// Sets [`Step::ends_phase`]. `steps` are sorted by start.
pub(super) fn mark(trace: &Trace, steps: &mut [Step]) {
    let phases = phases_of(trace, steps);
    if phases.iter().all(Option::is_none) {
        return;
    }
    let mut next_of_lane: VecMap<Lane, Option<(Step, Option<Phase>)>> = VecMap::new();
    for (step, phase) in steps.iter_mut().zip(phases).rev() {
        let next = next_of_lane.update((step.process, step.device), None, |next| next.replace((*step, phase)));
        if let (Some((next, next_phase)), Some(phase)) = (next, phase) {
            step.ends_phase = next_phase != Some(phase) && launches_between(trace, step, phase.end, &next);
        }
    }
}

/// The innermost range with several steps around the host code of each step.
fn phases_of(trace: &Trace, steps: &[Step]) -> Vec<Option<Phase>> {
    let mut begins: Vec<(ProcessId, Ns, usize)> = Vec::new();
    for (index, step) in steps.iter().enumerate().filter(|(_, step)| step.basis == Basis::Launches) {
        begins.push((step.process, step.annotation_range.0, index));
    }
    if begins.len() < 2 {
        return vec![None; steps.len()];
    }
    begins.sort_unstable();
    let count_before =
        |process: ProcessId, time: Ns| begins.partition_point(|(of, begin, _)| (*of, *begin) < (process, time));
    let phase = |range: crate::trace::Span| {
        let process = trace.threads.get(range.thread.0 as usize)?.process;
        let (start, end) = (range.start, range.end());
        (count_before(process, end) - count_before(process, start) > 1).then_some(Phase { process, start, end })
    };
    let mut phases: Vec<Phase> = trace.ranges.iter().filter_map(phase).collect();
    ordering::sort_by_key(&mut phases, |phase| (phase.process, phase.start, Reverse(phase.end)));
    let mut of_step = vec![None; steps.len()];
    let (mut later, mut open) = (phases.into_iter().peekable(), Vec::<Phase>::new());
    for (process, begin, index) in begins {
        while let Some(phase) = later.next_if(|phase| (phase.process, phase.start) <= (process, begin)) {
            open.push(phase);
        }
        while open.pop_if(|phase| (phase.process, phase.end) <= (process, begin)).is_some() {}
        let around = open.last().filter(|phase| phase.process == process).copied();
        of_step.get_mut(index).into_iter().for_each(|of_step| *of_step = around);
    }
    of_step
}

/// Whether the process launches work for the device of a step after its phase, and before the next step.
fn launches_between(trace: &Trace, step: &Step, phase_end: Ns, next: &Step) -> bool {
    let rows = trace.gpu_ops.count_starting_before(step.end)..trace.gpu_ops.count_starting_before(next.start);
    let is_of_lane = |row: &usize| {
        let op = trace.gpu_ops.get(*row);
        op.is_some_and(|op| (op.process, Some(op.device)) == (step.process, step.device))
    };
    let calls = rows.filter(is_of_lane).filter_map(|row| trace.gpu_ops.launch(row));
    let mut starts = calls.filter_map(|call| trace.calls.get(call.0 as usize)).map(|call| call.start);
    starts.any(|start| start >= phase_end && start < next.annotation_range.0)
}

#[cfg(test)]
mod tests {
    use crate::analysis::testing::{analyze, rows_of};
    use crate::trace::testing::TestTrace;

    /// Two rounds of three decode steps in a range, and `other` us of work after each round.
    fn rounds(range: &str, other: i64) -> TestTrace {
        let mut trace = TestTrace::new();
        trace.in_us();
        for round in [0, 10_000] {
            trace.range(range, round..round + 300);
            for start in [0, 100, 200].map(|start| round + start) {
                trace.range("step[DECODE bs=2]", start..start + 50);
                trace.launch(start..start + 5).launches("decode_kernel", start + 10..start + 100);
            }
            if other > 0 {
                trace.range("update_actor", round + 300..round + 9_000);
                trace.launch(round + 310..round + 315).launches("train_kernel", round + 320..round + 320 + other);
            }
        }
        trace
    }

    fn longest_ns(trace: &mut TestTrace) -> String {
        rows_of(&analyze(&trace.finish()).sections["steps"], &["max_ns"]).join(" ")
    }

    #[test]
    fn other_work_between_two_phases_belongs_to_no_step() {
        assert_eq!(longest_ns(&mut rounds("generate_sequences", 5_000)), "100000");
        let outside = &analyze(&rounds("generate_sequences", 5_000).finish()).sections["steps"];
        assert!(outside.summary.amount("busy_outside_ns") > 0.0, "{:?}", outside.summary);
    }

    #[test]
    fn a_pause_between_two_phases_counts_as_any_pause() {
        assert_eq!(longest_ns(&mut rounds("generate_sequences", 0)), "9800000");
    }
}
