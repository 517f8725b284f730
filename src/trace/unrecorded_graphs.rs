//! Launches of graphs whose GPU work is not in the trace, although work that the same thread launched later is.
//!
//! A profiler that does not support the driver or the framework loses the ops of graphs and keeps their launches. The GPU was then
//! not idle after such a launch. Found when the file is read, by one pass over the ops and one over the calls, only if graphs were
//! launched; windows of the trace share the result.

use super::{Ns, Trace};
use crate::ordering;

/// A shorter gap is the usual delay where a graph begins, so it says nothing about missing work.
const SHORTEST_GAP: Ns = Ns(10_000);

/// Graph launches without GPU ops. Empty if every op might belong to one of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnrecordedGraphs {
    /// Graph launches without an op, before another launch of the same thread that has one.
    pub launches: u64,
    /// All graph launches.
    pub of: u64,
    /// The first op of each launch that follows such graph launches, and the start of the first of them. Sorted by row of the op.
    next_ops: Vec<(u32, Ns)>,
}

impl UnrecordedGraphs {
    /// `is_graph_launch` decides by the name of a call.
    pub fn of(trace: &Trace, is_graph_launch: &dyn Fn(&str) -> bool) -> Self {
        let graph_launches: Vec<bool> = trace.calls.names.iter().map(is_graph_launch).collect();
        // Graphs that were traced as a whole are not linked to their launches.
        if !graph_launches.contains(&true) || !trace.graph_replays.is_empty() {
            return Self::default();
        }
        let (first_ops, unlinked) = first_ops(trace);
        let mut found = Self::default();
        // By thread: the start of the first, and their number.
        let mut pending: Vec<Option<(Ns, u64)>> = vec![None; trace.threads.len()];
        for (call, first_op) in trace.calls.iter().zip(first_ops) {
            let is_graph = graph_launches.get(call.name.0 as usize) == Some(&true);
            found.of += u64::from(is_graph);
            let Some(pending) = pending.get_mut(call.thread.0 as usize) else { continue };
            match first_op {
                None if is_graph => pending.get_or_insert((call.start, 0)).1 += 1,
                None => {}
                Some(row) => {
                    if let Some((start, launches)) = pending.take() {
                        found.next_ops.push((row, start));
                        found.launches += launches;
                    }
                }
            }
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
        UnrecordedGraphs::of(trace, &|name| name == "cudaGraphLaunch")
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
