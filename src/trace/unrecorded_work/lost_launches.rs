//! Launches of kernels and graphs whose GPU work is not in the trace, although work that the same thread launched later is.
//!
//! A profiler loses records when its buffers overflow, and the ops of graphs when it does not support the driver or the framework. The
//! launches remain. The GPU may then have been busy after such a launch. One pass over the ops and one over the calls.

use super::super::{CallId, DeviceId, Ns, OpKind, ProcessId, Span, Trace};
use super::CallRole;
use crate::ordering;

/// A shorter gap is the usual delay between two launches, so it says nothing about missing work.
const SHORTEST_GAP: Ns = Ns(10_000);

/// Launches without GPU ops. Empty if every op might belong to one of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LostLaunches {
    /// Graph launches without an op, before another launch of the same thread that has one.
    pub graphs: u64,
    /// All graph launches.
    pub of_graphs: u64,
    /// Kernel launches without an op, likewise.
    pub kernels: u64,
    /// Kernel launches without an op after all that have one, in a thread that had lost others before. The capture may have ended.
    pub kernels_at_end: u64,
    /// All kernel launches, but those that are recorded into a graph.
    pub of_kernels: u64,
    /// Kernel launches without an op at the end of the capture, if the trace does not show whether they are lost.
    pub unfinished: u64,
    /// The start of the first of them.
    pub unfinished_from: Option<Ns>,
    /// The first op of each call that follows such launches. Sorted by row of the op.
    next_ops: Vec<LostBefore>,
}

/// Lost launches before an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LostBefore {
    /// Of the op.
    row: u32,
    /// Of the first lost launch.
    start: Ns,
    graphs: u32,
    kernels: u32,
}

/// The lost launches of one thread, while its calls are visited.
#[derive(Debug, Clone, Default)]
struct LostOfThread {
    /// Lost launches after the last call with an op.
    pending: Vec<(Span, CallRole)>,
    /// What followed them, before a later kernel or graph proves that the profiler still recorded.
    unproven: Vec<LostBefore>,
    proven: Vec<LostBefore>,
    /// The end of the last call with an op: a call within it has no op of its own.
    recorded_until: Option<Ns>,
    /// The device of its ops.
    device: Option<DeviceId>,
    /// The work of one device says nothing about the ops of another one.
    has_several_devices: bool,
}

impl LostOfThread {
    /// Adds a launch without an op.
    fn add_lost(&mut self, call: Span, role: CallRole) {
        if self.recorded_until.is_none_or(|until| until < call.end()) {
            self.pending.push((call, role));
        }
    }

    /// Adds a call whose first op is in `row`.
    fn add_recorded(&mut self, call: Span, role: CallRole, row: u32, device: Option<DeviceId>) {
        self.has_several_devices |= self.device.is_some() && self.device != device;
        self.device = device;
        self.recorded_until = Some(call.end());
        // A call around this one has the op, too.
        while self.pending.last().is_some_and(|(outer, _)| outer.end() > call.start) {
            self.pending.pop();
        }
        if let Some((first, _)) = self.pending.first() {
            let graphs = self.pending.iter().filter(|(_, role)| *role == CallRole::LaunchesGraph).count();
            let kernels = (self.pending.len() - graphs) as u32;
            self.unproven.push(LostBefore { row, start: first.start, graphs: graphs as u32, kernels });
            self.pending.clear();
        }
        // A copy on another stream may have run before the work, in a capture that ended soon after.
        if matches!(role, CallRole::LaunchesKernel | CallRole::LaunchesGraph) {
            self.proven.append(&mut self.unproven);
        }
    }
}

impl LostLaunches {
    /// `roles` has the role of each name of calls.
    pub(super) fn of(trace: &Trace, roles: &[CallRole]) -> Self {
        // Graphs that were traced as a whole have no ops either.
        let graphs_have_ops = trace.graph_replays.is_empty();
        let is_launch = |role: &CallRole| match role {
            CallRole::LaunchesGraph => graphs_have_ops,
            role => *role == CallRole::LaunchesKernel,
        };
        if !roles.iter().any(is_launch) {
            return Self::default();
        }
        let first_ops = first_ops(trace);
        let mut found = Self::default();
        let mut threads = vec![LostOfThread::default(); trace.threads.len()];
        let mut captures = Captures::new(trace);
        for ((id, call), first_op) in (0..).map(CallId).zip(trace.calls.iter()).zip(first_ops) {
            let role = roles.get(call.name.0 as usize).copied().unwrap_or(CallRole::Other);
            if captures.add(trace, call, role, &mut threads) {
                continue;
            }
            let is_launch = is_launch(&role);
            found.of_graphs += u64::from(is_launch && role == CallRole::LaunchesGraph);
            found.of_kernels += u64::from(is_launch && role == CallRole::LaunchesKernel);
            let Some(thread) = threads.get_mut(call.thread.0 as usize) else { continue };
            match first_op {
                // The time of an op that was taken out is not known, but its record is not lost.
                None if is_launch && trace.launches_of_dropped_ops.binary_search(&id).is_err() => {
                    thread.add_lost(call, role)
                }
                None => {}
                Some(row) => {
                    let device = trace.gpu_ops.get(row as usize).map(|op| op.device);
                    thread.add_recorded(call, role, row, device);
                }
            }
        }
        // Copies were recorded and no kernel: the profiler did not record kernels.
        let has_kernels = trace.gpu_ops.iter().any(|op| op.kind == OpKind::Kernel);
        for mut lost in threads.into_iter().filter(|lost| !lost.has_several_devices) {
            if !has_kernels {
                lost.proven.append(&mut lost.unproven);
            }
            found.add_unfinished(&lost);
            if lost.proven.iter().any(|lost| lost.kernels > 0) {
                let is_kernel = |(_, role): &&(Span, CallRole)| *role == CallRole::LaunchesKernel;
                found.kernels_at_end += lost.pending.iter().filter(is_kernel).count() as u64;
            }
            found.next_ops.extend(lost.proven);
        }
        found.graphs = found.next_ops.iter().map(|lost| u64::from(lost.graphs)).sum();
        found.kernels = found.next_ops.iter().map(|lost| u64::from(lost.kernels)).sum();
        // Each launch has at least one op, so some ops are missing if there are more launches than later ops without a launch.
        let lost = found.graphs + found.kernels;
        let first_lost = found.next_ops.iter().map(|lost| lost.start).min();
        let unlinked = first_lost.map_or(0, |first| unlinked_ops_since(trace, first));
        // The last launches may be those of another process, whose ops have no launch at all.
        if unlinked_ops_since(trace, Ns(i64::MIN)) >= lost + found.unfinished || !found.is_long_before_end(trace) {
            (found.unfinished, found.unfinished_from) = (0, None);
        }
        if unlinked >= lost {
            let Self { unfinished, unfinished_from, .. } = found;
            let of_kernels = if unfinished > 0 { found.of_kernels } else { 0 };
            return Self { unfinished, unfinished_from, of_kernels, ..Self::default() };
        }
        ordering::sort_by_key(&mut found.next_ops, |lost| lost.row);
        found
    }

    /// Whether the first launch without an op at the end had time to run. What was launched just before the end had none.
    fn is_long_before_end(&self, trace: &Trace) -> bool {
        /// One of this many parts of the trace is time enough.
        const PARTS: i64 = 50;
        let extent = trace.span().zip(trace.calls.iter().map(|call| call.end()).max());
        let time = |from: Ns| extent.map(|(ops, last)| (last.since(from), last.since(ops.start)));
        self.unfinished_from.and_then(time).is_some_and(|(rest, whole)| rest.0 >= whole.0 / PARTS)
    }

    /// Adds the launches at the end of a thread that has lost none before.
    fn add_unfinished(&mut self, lost: &LostOfThread) {
        if lost.proven.iter().any(|lost| lost.kernels > 0) {
            return;
        }
        let pending = lost.pending.iter().filter(|(_, role)| *role == CallRole::LaunchesKernel);
        self.unfinished += pending.clone().count() as u64;
        let first = pending.map(|(call, _)| call.start).min();
        self.unfinished_from = self.unfinished_from.into_iter().chain(first).min();
    }

    /// The start of the first such launch before the op in this row, if the op is the first one after it that was recorded.
    pub fn before(&self, row: usize) -> Option<Ns> {
        let row = u32::try_from(row).ok()?;
        let index = self.next_ops.binary_search_by_key(&row, |lost| lost.row).ok()?;
        self.next_ops.get(index).map(|lost| lost.start)
    }

    /// The number of kernel launches that are lost in a row, and the start of the first of them.
    pub fn lost_kernels(&self) -> impl Iterator<Item = (Ns, u64)> {
        let lost = self.next_ops.iter().filter(|lost| lost.kernels > 0);
        lost.map(|lost| (lost.start, u64::from(lost.kernels)))
    }

    /// When each process lost launches: each time from the first of some in a row to the next launch with an op. Sorted by process and
    /// start; the times of a process do not overlap.
    pub fn times(&self, trace: &Trace) -> Vec<(ProcessId, (Ns, Ns))> {
        let time = |lost: &LostBefore| {
            let op = trace.gpu_ops.get(lost.row as usize)?;
            let call = trace.gpu_ops.launch(lost.row as usize)?;
            Some((op.process, (lost.start, trace.calls.get(call.0 as usize)?.start)))
        };
        let mut times: Vec<(ProcessId, (Ns, Ns))> = self.next_ops.iter().filter_map(time).collect();
        times.sort_unstable();
        times.dedup_by(|(process, later), (of, earlier)| {
            let overlaps = process == of && later.0 <= earlier.1;
            earlier.1 = if overlaps { earlier.1.max(later.1) } else { earlier.1 };
            overlaps
        });
        times
    }

    /// The shortest gap before an op in which it may prove missing work; `None` without such launches.
    pub fn shortest_gap(&self) -> Option<Ns> {
        (self.graphs + self.kernels > 0).then_some(SHORTEST_GAP)
    }

    /// The same for a part of the trace. `new_row` maps rows of ops.
    pub(super) fn part(&self, new_row: impl Fn(u32) -> Option<u32>) -> Self {
        let next_ops = self.next_ops.iter().filter_map(|lost| Some(LostBefore { row: new_row(lost.row)?, ..*lost }));
        Self { next_ops: next_ops.collect(), ..*self }
    }
}

/// Which processes capture a graph. What they launch meanwhile is recorded into the graph and does not run.
struct Captures {
    /// By process: captures that have begun and not ended.
    open: Vec<u32>,
}

impl Captures {
    fn new(trace: &Trace) -> Self {
        Self { open: vec![0; trace.processes.len()] }
    }

    /// Adds the next call. Returns whether its process captures a graph.
    fn add(&mut self, trace: &Trace, call: Span, role: CallRole, threads: &mut [LostOfThread]) -> bool {
        let process_of = |thread: usize| trace.threads.get(thread).map(|thread| thread.process);
        let Some(process) = process_of(call.thread.0 as usize) else { return false };
        let Some(open) = self.open.get_mut(process.0 as usize) else { return false };
        match role {
            CallRole::BeginsCapture => *open += 1,
            CallRole::EndsCapture if *open > 0 => *open -= 1,
            // The capture had begun before the trace.
            CallRole::EndsCapture => {
                let own = threads.iter_mut().enumerate().filter(|(thread, _)| process_of(*thread) == Some(process));
                own.for_each(|(_, thread)| thread.pending.clear());
            }
            _ => {}
        }
        *open > 0
    }
}

/// For each call, the row of the first op that it launched.
fn first_ops(trace: &Trace) -> Vec<Option<u32>> {
    let mut first_ops = vec![None; trace.calls.len()];
    for (row, launch) in (0_u32..).zip(trace.gpu_ops.launches()) {
        if let Some(first) = launch.and_then(|call| first_ops.get_mut(call.0 as usize)) {
            first.get_or_insert(row);
        }
    }
    first_ops
}

/// The number of ops without a known launch that start after a time: those before it do not belong to a launch at that time.
fn unlinked_ops_since(trace: &Trace, time: Ns) -> u64 {
    let ops = trace.gpu_ops.times().zip(trace.gpu_ops.launches());
    let is_known = |launch: Option<CallId>| launch.is_some_and(|call| (call.0 as usize) < trace.calls.len());
    ops.filter(|((start, _), launch)| *start >= time && !is_known(*launch)).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::TestTrace;
    use crate::trace::{UnrecordedWork, Window};

    fn found(trace: &Trace) -> LostLaunches {
        UnrecordedWork::of(trace, &role).launches
    }

    fn role(name: &str) -> CallRole {
        match name {
            "cudaLaunchKernel" | "cuLaunchKernel" => CallRole::LaunchesKernel,
            "cudaGraphLaunch" | "cuGraphLaunch" => CallRole::LaunchesGraph,
            "cudaStreamBeginCapture" => CallRole::BeginsCapture,
            "cudaStreamEndCapture" => CallRole::EndsCapture,
            _ => CallRole::Other,
        }
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
        assert_eq!((graphs.graphs, graphs.of_graphs), (2, 3), "the last launch may have ended with the capture");
        assert_eq!([0, 1, 2].map(|row| graphs.before(row)), [None, Some(Ns(20)), None]);
        let other_thread = trace_with_lost_graphs().thread(9).call("cudaGraphLaunch", 2..3).finish();
        assert_eq!(found(&other_thread).graphs, 2, "nothing that the thread launched later was recorded");
    }

    #[test]
    fn a_launch_proves_nothing_about_other_devices_a_copy_alone_nothing_and_a_nested_call_has_the_ops() {
        let of = |trace: &mut TestTrace| found(&trace.finish()).graphs;
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
        assert_eq!((graphs.graphs, [1, 2].map(|row| graphs.before(row))), (1, [Some(Ns(20)), None]));
    }

    #[test]
    fn ops_without_a_launch_may_be_those_of_the_graphs() {
        let mut trace = trace_with_lost_graphs();
        let graphs = found(&trace.kernel("node", 22..25).finish());
        assert_eq!(graphs.graphs, 2, "one op is not enough for two graphs");
        let mut trace = trace_with_lost_graphs();
        assert_eq!(found(&trace.kernel("node", 22..25).kernel("node", 32..35).finish()), LostLaunches::default());
        assert_eq!(found(&trace_with_lost_graphs().replay(22..25).finish()), LostLaunches::default());
    }

    #[test]
    fn ops_before_a_launch_are_not_its_own() {
        let mut trace = trace_with_lost_graphs();
        trace.kernel("of before", 11..14).kernel("of before", 15..18);
        assert_eq!(found(&trace.finish()).graphs, 2);
    }

    #[test]
    fn a_window_has_the_graphs_of_the_whole_trace() {
        let mut trace = trace_with_lost_graphs().finish();
        trace.unrecorded_work = UnrecordedWork::of(&trace, &role);
        let part = trace.within(Window { start: Ns(15), end: Ns(90) }).unrecorded_work.launches;
        assert_eq!((part.graphs, part.before(0)), (2, Some(Ns(20))));
    }

    #[test]
    fn a_kernel_launch_without_an_op_is_lost_if_a_later_launch_has_one() {
        let mut trace = TestTrace::new();
        trace.launch(0..1).launches("k", 5..10).launch(20..21).launch(22..23).launch(40..41).launches("k", 45..50);
        let lost = found(&trace.launch(60..61).finish());
        assert_eq!((lost.kernels, lost.kernels_at_end, lost.of_kernels), (2, 1, 5));
        assert_eq!([0, 1].map(|row| lost.before(row)), [None, Some(Ns(20))]);
        assert_eq!(lost.lost_kernels().collect::<Vec<_>>(), [(Ns(20), 2)]);
    }

    #[test]
    fn launches_at_the_end_are_counted_and_not_called_lost() {
        let mut trace = TestTrace::new();
        trace.launch(0..1).launches("k", 5..10).launch(20..21).launch(30..31);
        let lost = found(&trace.finish());
        assert_eq!((lost.kernels, lost.unfinished, lost.unfinished_from), (0, 2, Some(Ns(20))));
    }

    #[test]
    fn kernels_are_lost_if_copies_are_recorded_and_no_kernel() {
        let mut trace = TestTrace::new();
        trace.launch(0..1).launch(2..3).call("cudaMemcpyAsync", 30..31).launches("Memcpy DtoH", 35..36);
        let trace = trace.finish();
        assert!(trace.gpu_ops.iter().all(|op| op.kind == OpKind::Copy));
        assert_eq!((found(&trace).kernels, found(&trace).of_kernels), (2, 2));
    }

    #[test]
    fn launches_within_a_launch_that_has_an_op_and_around_one_are_not_lost() {
        let mut trace = TestTrace::new();
        trace.launch(0..9).launches("k", 15..20).call("cuLaunchKernel", 2..5);
        trace.launch(20..29).call("cuLaunchKernel", 22..25).launches("k", 35..40);
        assert_eq!(found(&trace.launch(50..51).launches("k", 55..60).finish()).kernels, 0);
        let mut trace = TestTrace::new();
        trace.launch(0..1).launches("k", 5..10).launch(12..13);
        trace.launch(20..29).call("cuLaunchKernel", 22..25).launches("k", 35..40);
        assert_eq!(found(&trace.finish()).kernels, 1, "the launch at 12 is lost, the one at 20 is not");
    }

    #[test]
    fn launches_that_are_recorded_into_a_graph_are_not_lost_also_if_the_recording_began_before_the_trace() {
        let lost = |begin: &str, end: &str| {
            let mut trace = TestTrace::new();
            trace.launch(0..1).call(end, 2..3).call(begin, 10..11);
            trace.launch(12..13).thread(2).launch(14..15).thread(1).call(end, 16..17);
            for thread in [1, 2] {
                trace.thread(thread).launch(20 + thread..20 + thread).launches("k", 30 + 10 * thread..35 + 10 * thread);
            }
            found(&trace.finish()).kernels
        };
        assert_eq!(lost("cudaStreamBeginCapture", "cudaStreamEndCapture"), 0);
        assert_eq!(lost("cudaEventRecord", "cudaEventRecord"), 3);
    }
}
