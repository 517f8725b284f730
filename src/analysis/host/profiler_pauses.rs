//! When the profiler held a host thread: CUPTI asks for a buffer, or waits for room in one, in the call of the thread that it records.
//!
//! Kineto writes such times without their thread. A thread is held only if it begins and ends nothing meanwhile, neither a call nor a
//! function; a thread that is blocked in a call waits for the GPU anyway. Of the others it is the one whose next call comes first, because
//! the profiler works for that call, if it comes sooner than the pause is long. In a file of several processes no thread is proven.
//! A binary search for each pause and thread, and one for each event of the code.

use crate::analysis::classified::ClassifiedTrace;
use crate::rules::signals::CallKind;
use crate::trace::{CodeEvent, HostInterval, HostTimes, Ns, ProcessId, Span, ThreadId, Trace};

/// Calls before a pause that are searched for one that contains it.
const MAX_CALLS: usize = 64;

/// The pauses that no code contradicts so far.
#[derive(Debug, Default)]
pub(super) struct PauseSearch {
    /// Sorted by thread and start.
    pauses: Vec<HostInterval>,
    /// Parallel to `pauses`: the thread ran code meanwhile.
    is_contradicted: Vec<bool>,
}

impl PauseSearch {
    pub(super) fn new(trace: &Trace) -> Self {
        if trace.profiler_overheads.is_empty() || has_several_processes(trace) {
            return Self::default();
        }
        let classified = ClassifiedTrace::new(trace);
        let overheads = trace.profiler_overheads.iter();
        let pauses = overheads.filter_map(|(start, end)| held_thread(&classified, *start, *end));
        let pauses: Vec<HostInterval> = HostTimes::union_of(pauses.collect()).iter().copied().collect();
        Self { is_contradicted: vec![false; pauses.len()], pauses }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.pauses.is_empty()
    }

    /// Takes a CPU op or a function: its thread runs when it begins and when it ends.
    pub(super) fn add(&mut self, event: CodeEvent) {
        let HostInterval { thread, start, end } = event.time;
        for time in [start, end] {
            let index = self.pauses.partition_point(|pause| (pause.thread, pause.end) <= (thread, time));
            let is_inside = |pause: &HostInterval| pause.thread == thread && pause.start < time;
            if self.pauses.get(index).is_some_and(is_inside) {
                self.is_contradicted.get_mut(index).into_iter().for_each(|contradicted| *contradicted = true);
            }
        }
    }

    pub(super) fn finish(self) -> HostTimes {
        let pauses = self.pauses.into_iter().zip(self.is_contradicted);
        HostTimes::union_of(pauses.filter(|(_, contradicted)| !contradicted).map(|(pause, _)| pause).collect())
    }
}

fn has_several_processes(trace: &Trace) -> bool {
    let mut of_calls = trace.calls.iter().filter_map(|call| process_of(trace, call.thread));
    let first = of_calls.next();
    of_calls.any(|process| Some(process) != first)
}

fn process_of(trace: &Trace, thread: ThreadId) -> Option<ProcessId> {
    trace.threads.get(thread.0 as usize).map(|thread| thread.process)
}

/// The thread that the profiler held from `start` to `end`, if the calls tell it.
fn held_thread(classified: &ClassifiedTrace, start: Ns, end: Ns) -> Option<HostInterval> {
    let calls = &classified.trace.calls;
    let next = calls.count_starting_before(start);
    // What each thread did last, the latest first.
    let before = (0..next).rev().take(MAX_CALLS).filter_map(|row| calls.get(row));
    let before: Vec<Span> = before.collect();
    let last_of = |thread: ThreadId| before.iter().find(|call| call.thread == thread);
    let held = |thread: ThreadId| Some(HostInterval { thread, start, end });
    // A launch around the pause is the call for which the profiler works.
    let around = before.iter().find(|call| {
        let kind = classified.call_kind(call.name);
        call.end() >= end && matches!(kind, CallKind::Launch | CallKind::GraphLaunch | CallKind::CopyAsync)
    });
    if let Some(call) = around {
        return held(call.thread);
    }
    let after = (next..calls.len()).filter_map(|row| calls.get(row));
    let mut busy: Vec<ThreadId> = before.iter().filter(|call| call.end() > start).map(|call| call.thread).collect();
    for call in after.take_while(|call| call.start < end + end.since(start)) {
        if busy.contains(&call.thread) {
            continue;
        }
        if call.start >= end && last_of(call.thread).is_none_or(|last| last.end() <= start) {
            return held(call.thread);
        }
        busy.push(call.thread);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::TestTrace;
    use crate::trace::{CodeKind, NameId};

    /// The thread and times of the pauses, in microseconds. `code` are functions of thread 0.
    fn pauses(trace: &mut TestTrace, overheads: &[(i64, i64)], code: &[(i64, i64)]) -> Vec<(u32, i64, i64)> {
        let mut trace = trace.finish();
        trace.profiler_overheads = overheads.iter().map(|(start, end)| (Ns(1_000 * start), Ns(1_000 * end))).collect();
        let mut search = PauseSearch::new(&trace);
        for (start, end) in code {
            let time = HostInterval { thread: ThreadId(0), start: Ns(1_000 * start), end: Ns(1_000 * end) };
            search.add(CodeEvent { kind: CodeKind::Function, name: NameId(0), time });
        }
        let found = search.finish();
        found.iter().map(|pause| (pause.thread.0, pause.start.0 / 1_000, pause.end.0 / 1_000)).collect()
    }

    /// Two threads: the first launches at 0 and 510 us, the second at 5, 250 and 900 us.
    fn two_threads() -> TestTrace {
        let mut trace = TestTrace::new();
        trace.in_us().thread(1).launch(0..4).launches("a", 10..20).launch(510..515).launches("b", 520..530);
        trace.thread(2).launch(5..8).launches("c", 30..40).launch(250..253).launch(900..903);
        trace
    }

    #[test]
    fn a_pause_holds_the_thread_that_makes_the_next_call_and_none_between() {
        assert_eq!(pauses(&mut two_threads(), &[(100, 500)], &[]), [(0, 100, 500)]);
        assert_eq!(pauses(&mut two_threads(), &[(100, 245)], &[]), [(1, 100, 245)]);
    }

    #[test]
    fn a_thread_that_runs_code_meanwhile_was_not_held_but_one_within_longer_code_was() {
        assert_eq!(pauses(&mut two_threads(), &[(100, 500)], &[(90, 505)]), [(0, 100, 500)]);
        assert_eq!(pauses(&mut two_threads(), &[(100, 500)], &[(90, 505), (200, 201)]), []);
    }

    #[test]
    fn a_launch_around_a_pause_was_held_and_a_blocked_thread_was_not() {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..100).launches("a", 110..120).call("cudaStreamSynchronize", 110..400).launch(410..415);
        assert_eq!(pauses(&mut trace, &[(10, 90), (200, 300)], &[]), [(0, 10, 90)]);
    }

    #[test]
    fn a_call_that_comes_later_than_the_pause_is_long_proves_nothing() {
        for (end, expected) in [(300, vec![]), (310, vec![(0, 100, 310)])] {
            let mut trace = TestTrace::new();
            trace.in_us().launch(0..4).launches("a", 10..20).launch(510..515);
            assert_eq!(pauses(&mut trace, &[(100, end)], &[]), expected);
        }
    }

    #[test]
    fn files_of_several_processes_prove_nothing() {
        let mut trace = TestTrace::new();
        trace.in_us().process(1).launch(0..4).launches("a", 10..20).launch(510..515);
        assert_eq!(pauses(trace.process(2).launch(1..3), &[(100, 500)], &[]), []);
    }
}
