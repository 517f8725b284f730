//! Launches of graphs whose GPU work is not in the trace, although work that the same thread launched later is.
//!
//! A profiler that does not support the driver or the framework loses the ops of graphs and keeps their launches. The GPU may then have
//! been busy after such a launch. Found when the file is read, by one pass over the ops and one over the calls, only if graphs were
//! launched; windows of the trace share the result.

use super::{DeviceId, Ns, Span, Trace};
use crate::ordering;

/// A shorter gap is the usual delay where a graph begins, so it says nothing about missing work.
const SHORTEST_GAP: Ns = Ns(10_000);

/// What a call launches, if that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launches {
    /// A kernel.
    Kernel,
    /// A graph.
    Graph,
    /// Neither.
    Other,
}

/// Graph launches without GPU ops. Empty if every op might belong to one of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnrecordedGraphs {
    /// Graph launches without an op, before another launch of the same thread that has one.
    pub launches: u64,
    /// All graph launches.
    pub of: u64,
    /// The first op of each call that follows such graph launches, and the start of the first of them. Sorted by row of the op.
    next_ops: Vec<(u32, Ns)>,
}

/// The lost graphs of one thread, while its calls are visited.
#[derive(Debug, Clone, Default)]
struct LostGraphs {
    /// Launches after the last call with an op.
    pending: Option<Pending>,
    /// What followed them, before a later kernel or graph proves that the profiler still recorded.
    unproven: (u64, Vec<(u32, Ns)>),
    proven: (u64, Vec<(u32, Ns)>),
    /// The device of its ops.
    device: Option<DeviceId>,
    /// A graph of one device says nothing about the ops of another one.
    has_several_devices: bool,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    /// Of the first launch.
    start: Ns,
    /// Of the last launch.
    end: Ns,
    launches: u64,
}

impl LostGraphs {
    /// Adds a graph launch without an op.
    fn add_lost(&mut self, call: Span) {
        let pending = self.pending.get_or_insert(Pending { start: call.start, end: call.end(), launches: 0 });
        (pending.end, pending.launches) = (call.end(), pending.launches + 1);
    }

    /// Adds a call whose first op is in `row`.
    fn add_recorded(&mut self, call: Span, launches: Launches, row: u32, device: Option<DeviceId>) {
        self.has_several_devices |= self.device.is_some() && self.device != device;
        self.device = device;
        // A call within another one has the ops of both.
        let pending = self.pending.take().filter(|pending| pending.end <= call.start);
        if let Some(Pending { start, launches: count, .. }) = pending {
            self.unproven.0 += count;
            self.unproven.1.push((row, start));
        }
        // A copy on another stream may have run before the graph, in a capture that ended soon after.
        if launches != Launches::Other {
            let (count, next_ops) = std::mem::take(&mut self.unproven);
            self.proven.0 += count;
            self.proven.1.extend(next_ops);
        }
    }
}

impl UnrecordedGraphs {
    /// `launches` decides by the name of a call.
    pub fn of(trace: &Trace, launches: &dyn Fn(&str) -> Launches) -> Self {
        let kinds: Vec<Launches> = trace.calls.names.iter().map(launches).collect();
        // Graphs that were traced as a whole have no ops either.
        if !kinds.contains(&Launches::Graph) || !trace.graph_replays.is_empty() {
            return Self::default();
        }
        let (first_ops, unlinked) = first_ops(trace);
        let mut found = Self::default();
        let mut threads = vec![LostGraphs::default(); trace.threads.len()];
        for (call, first_op) in trace.calls.iter().zip(first_ops) {
            let kind = kinds.get(call.name.0 as usize).copied().unwrap_or(Launches::Other);
            let is_graph = kind == Launches::Graph;
            found.of += u64::from(is_graph);
            let Some(thread) = threads.get_mut(call.thread.0 as usize) else { continue };
            match first_op {
                None if is_graph => thread.add_lost(call),
                None => {}
                Some(row) => {
                    let device = trace.gpu_ops.get(row as usize).map(|op| op.device);
                    thread.add_recorded(call, kind, row, device);
                }
            }
        }
        for LostGraphs { proven: (launches, next_ops), .. } in
            threads.into_iter().filter(|lost| !lost.has_several_devices)
        {
            found.launches += launches;
            found.next_ops.extend(next_ops);
        }
        // Each graph has at least one op, so some graphs are missing if there are more of them than ops without a launch.
        if unlinked >= found.launches {
            return Self::default();
        }
        ordering::sort_by_key(&mut found.next_ops, |(row, _)| *row);
        found
    }

    /// The start of the first such launch before the op in this row, if the op is the first one after it that was recorded.
    pub fn before(&self, row: usize) -> Option<Ns> {
        let row = u32::try_from(row).ok()?;
        let index = self.next_ops.binary_search_by_key(&row, |(op, _)| *op).ok()?;
        self.next_ops.get(index).map(|(_, start)| *start)
    }

    /// The shortest gap before an op in which it may prove missing work; `None` without such graphs.
    pub fn shortest_gap(&self) -> Option<Ns> {
        (self.launches > 0).then_some(SHORTEST_GAP)
    }

    /// The same for a part of the trace. `new_row` maps rows of ops.
    pub(super) fn part(&self, new_row: impl Fn(u32) -> Option<u32>) -> Self {
        let next_ops = self.next_ops.iter().filter_map(|(row, start)| Some((new_row(*row)?, *start)));
        Self { next_ops: next_ops.collect(), ..*self }
    }
}

/// For each call, the row of the first op that it launched. And the number of ops whose launch is unknown.
fn first_ops(trace: &Trace) -> (Vec<Option<u32>>, u64) {
    let mut first_ops = vec![None; trace.calls.len()];
    let mut unlinked = 0;
    for (row, launch) in (0_u32..).zip(trace.gpu_ops.launches()) {
        match launch.and_then(|call| first_ops.get_mut(call.0 as usize)) {
            Some(first) => {
                first.get_or_insert(row);
            }
            None => unlinked += 1,
        }
    }
    (first_ops, unlinked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Window;
    use crate::trace::testing::TestTrace;

    fn found(trace: &Trace) -> UnrecordedGraphs {
        UnrecordedGraphs::of(trace, &|name| match name {
            "cudaLaunchKernel" => Launches::Kernel,
            "cudaGraphLaunch" | "cuGraphLaunch" => Launches::Graph,
            _ => Launches::Other,
        })
    }

    /// A kernel, two graph launches without ops, a recorded kernel, and a graph launch at the end of the capture.
    fn trace_with_lost_graphs() -> TestTrace {
        let mut trace = TestTrace::new();
        trace.launch(0..1).launches("k", 5..10).call("cudaGraphLaunch", 20..21).call("cudaGraphLaunch", 30..31);
        trace.launch(40..41).launches("k", 45..50).launches("k", 60..70).call("cudaGraphLaunch", 80..81);
        trace
    }

    #[test]
    fn graph_launches_without_ops_are_found_before_later_work_of_their_thread() {
        let graphs = found(&trace_with_lost_graphs().finish());
        assert_eq!((graphs.launches, graphs.of), (2, 3), "the last launch may have ended with the capture");
        assert_eq!([0, 1, 2].map(|row| graphs.before(row)), [None, Some(Ns(20)), None]);
        let other_thread = trace_with_lost_graphs().thread(9).call("cudaGraphLaunch", 2..3).finish();
        assert_eq!(found(&other_thread).launches, 2, "nothing that the thread launched later was recorded");
    }

    #[test]
    fn a_launch_proves_nothing_about_other_devices_a_copy_alone_nothing_and_a_nested_call_has_the_ops() {
        let of = |trace: &mut TestTrace| found(&trace.finish()).launches;
        let mut trace = TestTrace::new();
        trace.launch(0..1).launches("k", 5..10).call("cudaGraphLaunch", 20..21);
        assert_eq!(of(trace.call("cudaMemcpyAsync", 30..31).launches("Memcpy DtoH", 35..36)), 0);
        let mut trace = TestTrace::new();
        trace.launch(0..1).launches("k", 5..10).call("cudaGraphLaunch", 20..21);
        assert_eq!(of(trace.device(1).launch(30..31).launches("k", 35..36)), 0);
        let mut trace = TestTrace::new();
        trace.call("cudaGraphLaunch", 20..40).call("cuGraphLaunch", 25..35).launches("k", 50..60);
        assert_eq!(of(trace.launch(70..71).launches("k", 75..80)), 0);
    }

    #[test]
    fn the_op_of_a_copy_ends_the_time_of_a_graph_that_a_later_kernel_proves() {
        let mut trace = TestTrace::new();
        trace.launch(0..1).launches("k", 5..10).call("cudaGraphLaunch", 20..21);
        trace.call("cudaMemcpyAsync", 30..31).launches("Memcpy DtoH", 35..36).launch(40..41).launches("k", 45..50);
        let graphs = found(&trace.finish());
        assert_eq!((graphs.launches, [1, 2].map(|row| graphs.before(row))), (1, [Some(Ns(20)), None]));
    }

    #[test]
    fn ops_without_a_launch_may_be_those_of_the_graphs() {
        let mut trace = trace_with_lost_graphs();
        let graphs = found(&trace.kernel("node", 22..25).finish());
        assert_eq!(graphs.launches, 2, "one op is not enough for two graphs");
        let mut trace = trace_with_lost_graphs();
        assert_eq!(found(&trace.kernel("node", 22..25).kernel("node", 32..35).finish()), UnrecordedGraphs::default());
        assert_eq!(found(&trace_with_lost_graphs().replay(22..25).finish()), UnrecordedGraphs::default());
    }

    #[test]
    fn a_window_has_the_graphs_of_the_whole_trace() {
        let mut trace = trace_with_lost_graphs().finish();
        trace.unrecorded_graphs = found(&trace);
        let part = trace.within(Window { start: Ns(15), end: Ns(90) });
        assert_eq!((part.unrecorded_graphs.launches, part.unrecorded_graphs.before(0)), (2, Some(Ns(20))));
    }
}
