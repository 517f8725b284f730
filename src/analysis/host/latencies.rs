//! Launch latency: the time from the return of a launch call to the start of its kernel. One pass over the
//! kernels, O(n).
//!
//! A graph launch has one latency, that of its first kernel, because the other kernels wait for each other.

use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::index::{IdMap, Merge};
use crate::analysis::measure::longest::{EventKind, Longest};
use crate::analysis::measure::percentiles::Samples;
use crate::rules::signals::CallKind;
use crate::trace::{GpuOp, Ns, OpKind, OpRows};

/// Kernels that [`LaunchLatencies::longest`] keeps.
pub(crate) const LONGEST_KEPT: usize = 100;

/// Number of kernels whose latency is not measured, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Unmeasured {
    /// The kernel, or another one of its graph launch, started before the window.
    pub(crate) started_before_window: u64,
    /// The launch call is unknown.
    pub(crate) no_call: u64,
    /// The call is not a launch, for example a copy.
    pub(crate) other_call: u64,
    /// Not the first kernel of its graph launch.
    pub(crate) later_in_graph: u64,
}

impl Unmeasured {
    fn merge(&mut self, more: Self) {
        self.started_before_window += more.started_before_window;
        self.no_call += more.no_call;
        self.other_call += more.other_call;
        self.later_in_graph += more.later_in_graph;
    }

    pub(crate) fn count(&self) -> u64 {
        self.started_before_window + self.no_call + self.other_call + self.later_in_graph
    }
}

/// The latencies of the kernels in some rows. To be merged exactly, the rows must contain all kernels of a
/// launch call or none.
#[derive(Debug)]
pub(crate) struct LaunchLatencies {
    pub(crate) longest: Longest,
    /// Latencies of kernels that do not communicate, in nanoseconds.
    pub(crate) computing: Samples,
    /// Latencies of kernels that communicate, in nanoseconds.
    pub(crate) communicating: Samples,
    pub(crate) unmeasured: Unmeasured,
    /// Measured kernels that started before their launch returned: their latency counts as zero.
    pub(crate) started_early: u64,
    pub(crate) sum_ns: i128,
}

impl Merge for LaunchLatencies {
    fn merge(&mut self, later: &Self, ids: &IdMap) {
        self.longest.merge(&later.longest, &|row| ids.row(row));
        self.computing.append(&later.computing);
        self.communicating.append(&later.communicating);
        self.unmeasured.merge(later.unmeasured);
        self.started_early += later.started_early;
        self.sum_ns += later.sum_ns;
    }
}

pub(crate) struct LatencySweep<'a> {
    classified: &'a ClassifiedTrace<'a>,
    latencies: LaunchLatencies,
    /// One bit per call: set if a kernel of this graph launch was visited.
    visited_graphs: Vec<u64>,
}

impl<'a> LatencySweep<'a> {
    /// A sweep for the ops in these rows.
    pub(crate) fn new(classified: &'a ClassifiedTrace<'a>, rows: &OpRows) -> Self {
        let trace = classified.trace;
        // An upper bound: reserving it avoids reallocations with millions of samples.
        let launched = rows.range().filter(|row| trace.gpu_ops.launch(*row).is_some()).count();
        let latencies = LaunchLatencies {
            longest: Longest::new(LONGEST_KEPT),
            computing: Samples::with_capacity(launched),
            communicating: Samples::default(),
            unmeasured: Unmeasured::default(),
            started_early: 0,
            sum_ns: 0,
        };
        Self { classified, latencies, visited_graphs: vec![0; trace.calls.len() / 64 + 1] }
    }

    pub(crate) fn add(&mut self, row: usize, op: &GpuOp) {
        if op.kind != OpKind::Kernel {
            return;
        }
        let trace = self.classified.trace;
        let unmeasured = &mut self.latencies.unmeasured;
        let call = trace.gpu_ops.launch(row).map(|call| call.0 as usize);
        let call = call.and_then(|call| Some((call, trace.calls.name(call)?, trace.calls.end(call)?)));
        let Some((call, name, returned)) = call else {
            unmeasured.no_call += 1;
            return;
        };
        let kind = self.classified.call_kind(name);
        if !matches!(kind, CallKind::Launch | CallKind::GraphLaunch) {
            unmeasured.other_call += 1;
        } else if trace.kept.as_ref().is_some_and(|kept| kept.launched_before_window(call)) {
            unmeasured.started_before_window += 1;
        } else if kind == CallKind::GraphLaunch && self.mark_visited(call) {
            self.latencies.unmeasured.later_in_graph += 1;
        } else {
            self.measure(row, op, returned);
        }
    }

    /// Marks this graph launch as visited. Returns whether it was visited before.
    fn mark_visited(&mut self, call: usize) -> bool {
        let Some(bits) = self.visited_graphs.get_mut(call / 64) else { return false };
        let bit = 1 << (call % 64);
        let was_visited = *bits & bit != 0;
        *bits |= bit;
        was_visited
    }

    fn measure(&mut self, row: usize, op: &GpuOp, returned: Ns) {
        let delay = op.start.since(returned);
        let latency = delay.max(Ns::ZERO);
        let latencies = &mut self.latencies;
        latencies.longest.offer(latency, op.start, EventKind::Op, row);
        let communicates = self.classified.is_communication(op.name);
        let samples = if communicates { &mut latencies.communicating } else { &mut latencies.computing };
        samples.push(latency.0);
        latencies.started_early += u64::from(delay < Ns::ZERO);
        latencies.sum_ns += i128::from(latency.0);
    }

    pub(crate) fn finish(self) -> LaunchLatencies {
        self.latencies
    }
}
