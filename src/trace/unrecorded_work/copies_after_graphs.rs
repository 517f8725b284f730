//! Copies that a thread issued directly after it launched a graph, as `.item()` does: the stream runs them after all work of the
//! graph, also after work without records. One pass over the calls, and one over the ops if there are such copies.
//!
//! Two cases prove that the stream still worked, if no recorded op explains the time:
//! - The copy began late, while a thread of its process waited for it.
//! - A copy that blocks its thread has no op, and returned late.
//!
//! A copy that was itself issued late began late for that reason: only the time after its call began counts.

use super::super::{CallId, Ns, ProcessId, Span, Trace};
use super::long_wait::{LongWait, USUAL_RETURN, WaitEnd};
use super::{CallRole, may_wait_for_host, process_of};

/// A copy directly after a graph.
struct CopyAfterGraph {
    id: CallId,
    call: Span,
    process: ProcessId,
    graph: Ns,
    blocks: bool,
    /// The start of its op.
    began: Option<Ns>,
}

impl CopyAfterGraph {
    fn wait(&self) -> Option<LongWait> {
        let (until, end) = match self.began {
            Some(began) => (began, WaitEnd::CopyBegan),
            None if self.blocks => (self.call.end(), WaitEnd::CallReturned),
            None => return None,
        };
        let is_long = until.since(self.call.start) > USUAL_RETURN;
        let Self { process, graph, .. } = *self;
        is_long.then_some(LongWait { start: self.call.start, until, end, process, last_launch: Some(graph) })
    }
}

/// The copies that waited long. `synchronizations` are the long calls that only wait, by start; `roles` has the role of each name.
pub(super) fn long_waits(trace: &Trace, roles: &[CallRole], synchronizations: &[LongWait]) -> Vec<LongWait> {
    let mut copies = copies_after_graphs(trace, roles);
    if copies.is_empty() || may_wait_for_host(trace) {
        return Vec::new();
    }
    for ((start, _), launch) in trace.gpu_ops.times().zip(trace.gpu_ops.launches()) {
        let copy = launch.and_then(|launch| copies.binary_search_by_key(&launch, |copy| copy.id).ok());
        if let Some(copy) = copy.and_then(|index| copies.get_mut(index)) {
            copy.began.get_or_insert(start);
        }
    }
    copies.retain(|copy| trace.launches_of_dropped_ops.binary_search(&copy.id).is_err());
    copies.sort_by_key(|copy| copy.began);
    let mut waiting = WaitingUntil::new(trace, synchronizations);
    copies.iter().filter(|copy| waiting.includes(copy)).filter_map(CopyAfterGraph::wait).collect()
}

/// By call. A graph that is captured runs nothing, but its copy has no op and does not block either.
fn copies_after_graphs(trace: &Trace, roles: &[CallRole]) -> Vec<CopyAfterGraph> {
    let mut copies = Vec::new();
    if !roles.contains(&CallRole::LaunchesGraph) {
        return copies;
    }
    let mut graphs: Vec<Option<Ns>> = vec![None; trace.threads.len()];
    for (id, call) in (0..).map(CallId).zip(trace.calls.iter()) {
        let Some(graph) = graphs.get_mut(call.thread.0 as usize) else { continue };
        let role = roles.get(call.name.0 as usize).copied().unwrap_or(CallRole::Other);
        match role {
            CallRole::LaunchesGraph => *graph = Some(call.start),
            CallRole::LaunchesKernel | CallRole::Sets => *graph = None,
            CallRole::Copies | CallRole::CopiesAndWaits => {
                let blocks = role == CallRole::CopiesAndWaits;
                let process = process_of(trace, call.thread);
                let copy = graph.take().map(|graph| CopyAfterGraph { id, call, process, graph, blocks, began: None });
                copies.extend(copy);
            }
            _ => {}
        }
    }
    copies
}

/// Until when a call of a process waits, of the calls that start before a time. Times must not decrease.
struct WaitingUntil<'a> {
    synchronizations: std::iter::Peekable<std::slice::Iter<'a, LongWait>>,
    /// By process.
    until: Vec<Option<Ns>>,
}

impl<'a> WaitingUntil<'a> {
    fn new(trace: &Trace, synchronizations: &'a [LongWait]) -> Self {
        Self { synchronizations: synchronizations.iter().peekable(), until: vec![None; trace.processes.len().max(1)] }
    }

    /// Whether a call waits when the copy begins: its own, or another one.
    fn includes(&mut self, copy: &CopyAfterGraph) -> bool {
        let Some(began) = copy.began else { return true };
        while let Some(wait) = self.synchronizations.next_if(|wait| wait.start < began) {
            if let Some(until) = self.until.get_mut(wait.process.0 as usize) {
                *until = (*until).max(Some(wait.until));
            }
        }
        let waits = self.until.get(copy.process.0 as usize).copied().flatten();
        copy.call.end() >= began || waits.is_some_and(|until| until >= began)
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::testing::TestTrace;
    use crate::trace::{CallRole, UnrecordedWork};

    /// The end of the last op and until when the device worked, in microseconds.
    fn found(trace: &mut TestTrace) -> Vec<(i64, i64)> {
        let found = UnrecordedWork::of(&trace.finish(), &|name| match name {
            "cudaGraphLaunch" => CallRole::LaunchesGraph,
            "cudaLaunchKernel" => CallRole::LaunchesKernel,
            "cudaMemcpyAsync" => CallRole::Copies,
            "cudaMemcpy" => CallRole::CopiesAndWaits,
            "cudaStreamSynchronize" => CallRole::Synchronizes,
            _ => CallRole::Other,
        });
        found.waits.iter().map(|wait| (wait.last_op_end.0 / 1_000, wait.worked_until().0 / 1_000)).collect()
    }

    /// A graph with a kernel until 100 us.
    fn graph() -> TestTrace {
        let mut trace = TestTrace::new();
        trace.in_us().call("cudaGraphLaunch", 0..5).launches("k", 10..100);
        trace
    }

    #[test]
    fn a_copy_after_a_graph_that_begins_late_while_its_call_blocks_proves_work() {
        let copy = |trace: &mut TestTrace, began: i64| {
            trace.call("cudaMemcpyAsync", 10..began + 20).launches("Memcpy DtoH", began..began + 3);
            found(trace)
        };
        assert_eq!(copy(&mut graph(), 2_800), [(100, 2_800)]);
        assert_eq!(copy(&mut graph(), 301), [(100, 102)], "nothing jumps: the time grows from zero");
        assert_eq!(copy(&mut graph(), 300), []);
    }

    #[test]
    fn a_copy_counts_also_if_another_call_waits_for_it() {
        let mut trace = graph();
        trace.call("cudaMemcpyAsync", 10..18).launches("Memcpy DtoH", 2_800..2_803);
        assert_eq!(found(trace.call("cudaStreamSynchronize", 20..2_820)), [(100, 2_800)]);
    }

    #[test]
    fn a_blocking_copy_without_an_op_counts_until_it_returns() {
        assert_eq!(found(graph().call("cudaMemcpy", 10..2_800)), [(100, 2_800)]);
    }

    #[test]
    fn a_copy_that_was_issued_late_proves_nothing() {
        let mut trace = graph();
        trace.call("cudaMemcpyAsync", 2_700..2_820).launches("Memcpy DtoH", 2_800..2_803);
        assert_eq!(found(&mut trace), []);
    }

    #[test]
    fn a_copy_that_nobody_waits_for_or_that_waits_for_another_stream_or_the_host_proves_nothing() {
        let mut trace = graph();
        trace.call("cudaMemcpyAsync", 10..18).launches("Memcpy DtoH", 2_800..2_803);
        assert_eq!(found(&mut trace), []);
        let mut trace = graph();
        trace.call("cudaMemcpyAsync", 10..2_820).launches("Memcpy DtoH", 2_800..2_803);
        assert_eq!(found(trace.stream(8).kernel("other", 50..2_790)), []);
        let mut trace = graph();
        trace.call("cudaMemcpyAsync", 10..2_820).launches("Memcpy DtoH", 2_800..2_803);
        assert_eq!(found(trace.call("cudaLaunchHostFunc", 3_000..3_001)), []);
    }

    #[test]
    fn a_copy_after_a_kernel_proves_nothing() {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..5).launches("k", 10..100);
        trace.call("cudaMemcpyAsync", 10..2_820).launches("Memcpy DtoH", 2_800..2_803);
        assert_eq!(found(&mut trace), []);
    }
}
