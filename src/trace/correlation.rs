//! Looks up the API call that launched a GPU op by process and correlation id.
//!
//! Building takes O(calls), a lookup O(1) for dense ids. Correlation ids are unique only within a process, and some profilers use
//! one for several calls. If such an id has as many calls as ops, the n-th op belongs to the n-th call; a call inside of another
//! one with the same id, as of the driver in one of the runtime, does not count. Otherwise an op belongs to the last call that
//! begins before it, and is ambiguous if it has several such calls.

use super::columns::index;
use super::ops::UNLINKED;
use super::{Ns, ProcessId, Spans, Thread};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// The page's first module has to be small: there the first of several calls with one id has all ops. The second module joins them.
const REPEATED_ARE_JOINED: bool = super::CODE_IS_BUILT;

pub(super) struct CallsByCorrelation<'a> {
    calls: &'a Spans,
    by_process: Vec<ProcessCalls>,
    /// The ids that several calls of a process have.
    repeated: HashMap<(ProcessId, u32), Repeated, RandomState>,
    /// Ops that may belong to several calls.
    pub(super) ambiguous: u64,
}

/// The calls with one id, by start, and its ops.
#[derive(Debug, Default)]
struct Repeated {
    calls: Vec<u32>,
    ops: usize,
    /// Ops whose call was looked up.
    joined: usize,
}

/// Profilers number calls consecutively, so a table indexed by id is usually dense. Sparse ids use sorted pairs instead.
enum ProcessCalls {
    Table { first: u32, calls: Vec<u32> },
    Pairs(Vec<(u32, u32)>),
}

/// A table is used if it has at most this many slots per call.
const MAX_SLOTS_PER_CALL: usize = 4;

impl<'a> CallsByCorrelation<'a> {
    /// `correlations[i]` is the correlation id of `calls[i]`; the calls are sorted by start.
    pub(super) fn new(calls: &'a Spans, correlations: &[u32], threads: &[Thread], processes: usize) -> Self {
        let process = |call: usize| {
            let thread = calls.get(call).and_then(|call| threads.get(call.thread.0 as usize));
            thread.map_or(usize::MAX, |thread| thread.process.0 as usize)
        };
        let with_id = || correlations.iter().enumerate().filter(|(_, id)| **id != UNLINKED);
        let mut ranges = vec![IdRange { first: u32::MAX, last: 0, calls: 0 }; processes];
        for (call, &id) in with_id() {
            if let Some(range) = ranges.get_mut(process(call)) {
                *range = IdRange { first: range.first.min(id), last: range.last.max(id), calls: range.calls + 1 };
            }
        }
        let mut by_process: Vec<ProcessCalls> = ranges.iter().map(ProcessCalls::with_capacity).collect();
        let mut repeated_ids = Vec::new();
        for (call, &id) in with_id() {
            let process = process(call);
            if let Some(calls) = by_process.get_mut(process)
                && calls.add(id, index(call))
            {
                repeated_ids.push((ProcessId(index(process)), id));
            }
        }
        for (process, calls) in (0..).map(ProcessId).zip(&mut by_process) {
            repeated_ids.extend(calls.sort_pairs().into_iter().map(|id| (process, id)));
        }
        let mut found = Self { calls, by_process, repeated: HashMap::default(), ambiguous: 0 };
        if !REPEATED_ARE_JOINED {
            return found;
        }
        found.repeated.extend(repeated_ids.into_iter().map(|key| (key, Repeated::default())));
        if !found.repeated.is_empty() {
            with_id().for_each(|(call, &id)| found.add_repeated((ProcessId(index(process(call))), id), index(call)));
            found.repeated.retain(|_, repeated| repeated.calls.len() > 1);
        }
        found
    }

    /// Adds a call with an id that several have, unless it is inside of the one before.
    fn add_repeated(&mut self, key: (ProcessId, u32), call: u32) {
        let (Some(repeated), Some(span)) = (self.repeated.get_mut(&key), self.calls.get(call as usize)) else { return };
        let last = repeated.calls.last().and_then(|last| self.calls.get(*last as usize));
        if last.is_none_or(|last| last.thread != span.thread || span.end() > last.end()) {
            repeated.calls.push(call);
        }
    }

    /// Counts an op with this id. All ops must be counted before the first is looked up.
    pub(super) fn count_op(&mut self, process: ProcessId, id: u32) {
        if !REPEATED_ARE_JOINED {
            return;
        }
        self.repeated.get_mut(&(process, id)).into_iter().for_each(|repeated| repeated.ops += 1);
    }

    /// Whether an id has several calls, so that ops have to be counted.
    pub(super) fn has_repeated(&self) -> bool {
        REPEATED_ARE_JOINED && !self.repeated.is_empty()
    }

    /// Returns the index of the call of the next op with this id, which starts at this time; `UNLINKED` if there is none. Ops are
    /// looked up by start.
    pub(super) fn call_of_op(&mut self, process: ProcessId, id: u32, start: Ns) -> u32 {
        if !REPEATED_ARE_JOINED {
            return self.first_call(process, id);
        }
        let Some(repeated) = self.repeated.get_mut(&(process, id)) else { return self.first_call(process, id) };
        if repeated.ops == repeated.calls.len() {
            repeated.joined += 1;
            return repeated.calls.get(repeated.joined - 1).copied().unwrap_or(UNLINKED);
        }
        let (call, is_only) = repeated.last_before(self.calls, start);
        self.ambiguous += u64::from(!is_only);
        call
    }

    /// The same for work whose ops are not recorded, which is not counted.
    pub(super) fn call_before(&self, process: ProcessId, id: u32, start: Ns) -> u32 {
        if !REPEATED_ARE_JOINED {
            return self.first_call(process, id);
        }
        match self.repeated.get(&(process, id)) {
            Some(repeated) => repeated.last_before(self.calls, start).0,
            None => self.first_call(process, id),
        }
    }

    /// Returns the index of the first call with this id, or `UNLINKED` if there is none.
    fn first_call(&self, process: ProcessId, id: u32) -> u32 {
        let found = match self.by_process.get(process.0 as usize) {
            None => None,
            Some(ProcessCalls::Table { first, calls }) => {
                id.checked_sub(*first).and_then(|slot| calls.get(slot as usize)).copied()
            }
            Some(ProcessCalls::Pairs(pairs)) => {
                let at = pairs.partition_point(|pair| pair.0 < id);
                pairs.get(at).filter(|pair| pair.0 == id).map(|pair| pair.1)
            }
        };
        found.unwrap_or(UNLINKED)
    }
}

impl Repeated {
    /// The last call that begins before this time, or the first one; and whether it is the only one that does.
    fn last_before(&self, calls: &Spans, time: Ns) -> (u32, bool) {
        let before = self.calls.partition_point(|call| calls.start(*call as usize) <= Some(time));
        (self.calls.get(before.saturating_sub(1)).copied().unwrap_or(UNLINKED), before == 1)
    }
}

#[derive(Debug, Clone, Copy)]
struct IdRange {
    first: u32,
    last: u32,
    calls: usize,
}

impl ProcessCalls {
    fn with_capacity(&IdRange { first, last, calls }: &IdRange) -> Self {
        let slots = (last as usize).saturating_sub(first as usize).saturating_add(1);
        if calls > 0 && slots <= calls.saturating_mul(MAX_SLOTS_PER_CALL) {
            Self::Table { first, calls: vec![UNLINKED; slots] }
        } else {
            Self::Pairs(Vec::with_capacity(calls))
        }
    }

    /// Adds a call. Returns whether a table has an earlier one with its id; see [`Self::sort_pairs`].
    fn add(&mut self, id: u32, call: u32) -> bool {
        match self {
            Self::Table { first, calls } => {
                let Some(slot) = id.checked_sub(*first).and_then(|slot| calls.get_mut(slot as usize)) else {
                    return false;
                };
                let is_repeated = *slot != UNLINKED;
                *slot = (*slot).min(call);
                is_repeated
            }
            Self::Pairs(pairs) => {
                pairs.push((id, call));
                false
            }
        }
    }

    /// Sorts pairs, when all are added. Returns their ids that occur several times.
    fn sort_pairs(&mut self) -> Vec<u32> {
        let Self::Pairs(pairs) = self else { return Vec::new() };
        pairs.sort_unstable();
        let neighbours = pairs.iter().zip(pairs.iter().skip(1));
        neighbours.filter(|(one, next)| one.0 == next.0).map(|(one, _)| one.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::trace::testing::TestTrace;
    use crate::trace::{ProblemKind, Trace};

    /// Start of the call of each op.
    fn calls(trace: &Trace) -> Vec<i64> {
        let launches = trace.gpu_ops.launches();
        launches.map(|call| call.map_or(-1, |call| trace.calls.start(call.0 as usize).unwrap().0)).collect()
    }

    /// Dense ids are looked up in a table, sparse ones in pairs.
    #[test]
    fn ops_with_the_id_of_several_calls_belong_to_them_in_order() {
        for sparse in [false, true] {
            let mut trace = TestTrace::new();
            if sparse {
                trace.call_with_id("cudaLaunchKernel", 0..1, 1 << 30);
            }
            for step in 1..5 {
                let from = 1_000 * step;
                trace.call_with_id("cudaLaunchKernel", from..from + 5, 7);
                // Every op starts after the next call.
                trace.launches("k", from + 1_500..from + 1_600);
            }
            let trace = trace.finish();
            assert_eq!(calls(&trace), [1_000, 2_000, 3_000, 4_000], "{sparse}");
            assert_eq!(trace.problems.count(ProblemKind::AmbiguousLaunch), 0);
        }
    }

    #[test]
    fn an_id_with_fewer_calls_than_ops_is_ambiguous_unless_one_call_precedes() {
        let mut trace = TestTrace::new();
        trace.call_with_id("cudaGraphLaunch", 0..5, 7).launches("a", 10..20).launches("b", 20..30);
        trace.call_with_id("cudaGraphLaunch", 100..105, 7).launches("a", 110..120);
        let trace = trace.finish();
        assert_eq!(calls(&trace), [0, 0, 100]);
        assert_eq!(trace.problems.count(ProblemKind::AmbiguousLaunch), 1);
    }

    #[test]
    fn a_call_inside_of_one_with_the_same_id_launches_nothing() {
        let mut trace = TestTrace::new();
        trace.call_with_id("cudaLaunchKernel", 0..10, 7).call_with_id("cuLaunchKernel", 2..8, 7).launches("k", 20..30);
        trace.launches("k", 30..40);
        let trace = trace.finish();
        assert_eq!((calls(&trace), trace.problems.count(ProblemKind::AmbiguousLaunch)), (vec![0, 0], 0));
    }

    #[test]
    fn calls_of_two_processes_with_one_id_are_not_ambiguous() {
        let mut trace = TestTrace::new();
        for (pid, start) in [(1, 100), (2, 0)] {
            trace.process(pid).device(pid).call_with_id("cudaLaunchKernel", start..start + 5, 7);
            trace.launches("k", start + 200..start + 210);
        }
        let trace = trace.finish();
        assert_eq!((calls(&trace), trace.problems.count(ProblemKind::AmbiguousLaunch)), (vec![0, 100], 0));
    }
}
