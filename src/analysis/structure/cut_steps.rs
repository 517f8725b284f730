//! Steps that the end of the capture cut: the last step of a process on a device, if its kernels are the first ones of another step
//! and it lacks kernels that the other one goes on with. Compares the names of the ops per stream; O(k) for the k ops of the steps.
//!
//! A last step whose ops are those of another whole step is whole, so the last of several short steps before a long one stays.

use crate::analysis::structure::stages::Step;
use crate::ordering::VecMap;
use crate::trace::{DeviceId, GpuOp, NameId, Ns, ProcessId, Trace};
use std::collections::{BTreeMap, BTreeSet};

/// The indices of the steps that the end of the capture cut. `steps` are sorted by start.
pub(super) fn cut_at_end(steps: &[Step], trace: &Trace) -> BTreeSet<usize> {
    let mut lanes: VecMap<(ProcessId, DeviceId), Vec<usize>> = VecMap::new();
    for (index, step) in steps.iter().enumerate() {
        let Some(device) = step.device else { continue };
        lanes.update((step.process, device), Vec::new(), |lane| lane.push(index));
    }
    lanes
        .iter()
        .filter_map(|(_, lane)| lane.split_last().filter(|split| is_cut(*split, steps, trace)))
        .map(|(last, _)| *last)
        .collect()
}

/// Whether the last step of a lane is the beginning of another one, and none of the others is the same.
fn is_cut((last, others): (&usize, &[usize]), steps: &[Step], trace: &Trace) -> bool {
    let Some(last) = steps.get(*last) else { return false };
    let last = OpNames::of(last, trace);
    let mut has_longer = false;
    for other in others.iter().filter_map(|other| steps.get(*other)) {
        match last.beginning_of(other, trace) {
            Match::Same => return false,
            Match::Beginning => has_longer = true,
            Match::None => {}
        }
    }
    has_longer
}

/// How the ops of the last step compare with those of another one.
enum Match {
    /// The other step has the same ops.
    Same,
    /// The other step begins with them and goes on with kernels of other names.
    Beginning,
    None,
}

/// The names of the ops of a step in their order, by stream.
struct OpNames {
    by_stream: BTreeMap<i64, Vec<NameId>>,
    all: BTreeSet<NameId>,
}

impl OpNames {
    fn of(step: &Step, trace: &Trace) -> Self {
        let mut names = Self { by_stream: BTreeMap::new(), all: BTreeSet::new() };
        for op in ops_in(step, trace) {
            names.by_stream.entry(op.stream).or_default().push(op.name);
            names.all.insert(op.name);
        }
        names
    }

    fn beginning_of(&self, other: &Step, trace: &Trace) -> Match {
        let mut seen: BTreeMap<i64, usize> = BTreeMap::new();
        let (mut is_same, mut has_other_names) = (true, false);
        for op in ops_in(other, trace) {
            let position = seen.entry(op.stream).or_default();
            match self.by_stream.get(&op.stream).and_then(|names| names.get(*position)) {
                Some(name) if *name == op.name => {}
                Some(_) => return Match::None,
                None => {
                    is_same = false;
                    has_other_names |= !self.all.contains(&op.name);
                }
            }
            *position += 1;
        }
        let is_complete =
            self.by_stream.iter().all(|(stream, names)| seen.get(stream).is_some_and(|seen| *seen >= names.len()));
        match (is_complete, is_same, has_other_names) {
            (true, true, _) => Match::Same,
            (true, false, true) => Match::Beginning,
            _ => Match::None,
        }
    }
}

/// The ops of the process and device of a step that start in it.
fn ops_in<'a>(step: &Step, trace: &'a Trace) -> impl Iterator<Item = GpuOp> + use<'a> {
    let ops = &trace.gpu_ops;
    let lane = (step.process, step.device);
    let rows = ops.count_starting_before(step.start)..ops.count_starting_before(step.end.max(step.start + Ns(1)));
    rows.filter_map(|row| ops.get(row)).filter(move |op| (op.process, Some(op.device)) == lane)
}
