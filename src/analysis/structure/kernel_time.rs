//! Kernel time by the innermost range around the launch, and by phase. One pass over the kernels, O(n).

use super::call_ranges::CallRangesView;
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::index::{IdMap, Merge};
use crate::analysis::measure::tally::{Tallies, Tally, key};
use crate::trace::{GpuOp, NameId, Ns, OpKind};

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PhaseTime {
    pub(crate) time: Ns,
    /// The part of it in which kernels communicate.
    pub(crate) communication: Ns,
}

/// Kernel time by process and range, and the kernel time outside all ranges. Sums of durations.
#[derive(Debug, Default)]
pub(crate) struct KernelTimeByRange {
    /// Under [`key`] of process and range name.
    pub(crate) by_range: Tallies,
    /// By phase of the nearest range that names one.
    pub(crate) by_phase: Vec<PhaseTime>,
    /// Kernels launched by a call outside all ranges of its thread.
    pub(crate) outside: Tally,
    /// Kernels whose launch call is unknown.
    pub(crate) without_call: Tally,
    /// Time of all kernels that communicate.
    pub(crate) communication: Ns,
}

impl KernelTimeByRange {
    /// Empty sums for this number of phases.
    pub(crate) fn new(classified: &ClassifiedTrace, phases: usize) -> Self {
        let trace = classified.trace;
        let by_range = Tallies::with_table(trace.processes.len(), trace.ranges.names.len());
        Self { by_range, by_phase: vec![PhaseTime::default(); phases], ..Self::default() }
    }

    /// Adds one op; ops other than kernels are ignored.
    pub(crate) fn add(&mut self, classified: &ClassifiedTrace, ranges: &CallRangesView, row: usize, op: &GpuOp) {
        if op.kind != OpKind::Kernel {
            return;
        }
        let trace = classified.trace;
        let communication = if classified.is_communication(op.name) { op.duration } else { Ns::ZERO };
        self.communication += communication;
        let Some(call) = trace.gpu_ops.launch(row) else {
            self.without_call.add(op.duration);
            return;
        };
        let (range, phase) = ranges.range_and_phase(call.0);
        match range.and_then(|range| trace.ranges.name(range)) {
            None => self.outside.add(op.duration),
            Some(range) => self.by_range.add(key(op.process.0, range.0), op.duration),
        }
        if let Some(sum) = phase.and_then(|phase| self.by_phase.get_mut(phase)) {
            sum.time += op.duration;
            sum.communication += communication;
        }
    }

    /// Sum over the kernels launched inside any range.
    pub(crate) fn inside(&self) -> Tally {
        let mut inside = Tally::default();
        self.by_range.iter().for_each(|tally| inside.merge(tally));
        inside
    }

    pub(crate) fn all(&self) -> Tally {
        let mut all = self.inside();
        [self.outside, self.without_call].iter().for_each(|tally| all.merge(tally));
        all
    }

    /// Kernel time by range name, summed over processes.
    pub(crate) fn by_name(&self) -> Tallies {
        self.by_range.summed_by_low_number()
    }
}

impl Merge for KernelTimeByRange {
    fn merge(&mut self, later: &Self, ids: &IdMap) {
        for tally in later.by_range.iter() {
            let range = ids.range_name(NameId(tally.member()));
            self.by_range.merge(&Tally { key: key(tally.group(), range.0), ..*tally });
        }
        for (sum, more) in self.by_phase.iter_mut().zip(&later.by_phase) {
            sum.time += more.time;
            sum.communication += more.communication;
        }
        self.outside.merge(&later.outside);
        self.without_call.merge(&later.without_call);
        self.communication += later.communication;
    }
}
