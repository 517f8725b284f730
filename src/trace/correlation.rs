//! Looks up the API call that launched a GPU op by process and correlation id.
//!
//! Building takes O(calls), a lookup O(1) for dense ids. Correlation ids are unique only within a process.

use super::columns::index;
use super::ops::UNLINKED;
use super::{ProcessId, Spans, Thread};

pub(super) struct CallsByCorrelation(Vec<ProcessCalls>);

/// Profilers number calls consecutively, so a table indexed by id is usually dense. Sparse ids use sorted pairs instead.
enum ProcessCalls {
    Table { first: u32, calls: Vec<u32> },
    Pairs(Vec<(u32, u32)>),
}

/// A table is used if it has at most this many slots per call.
const MAX_SLOTS_PER_CALL: usize = 4;

impl CallsByCorrelation {
    /// `correlations[i]` is the correlation id of `calls[i]`. If two calls of a process share an id, the first one is used.
    pub(super) fn new(calls: &Spans, correlations: &[u32], threads: &[Thread], processes: usize) -> Self {
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
        for (call, &id) in with_id() {
            if let Some(calls) = by_process.get_mut(process(call)) {
                calls.add(id, index(call));
            }
        }
        for calls in &mut by_process {
            if let ProcessCalls::Pairs(pairs) = calls {
                pairs.sort_unstable();
            }
        }
        Self(by_process)
    }

    /// Returns the index of the call, or `UNLINKED` if there is none.
    pub(super) fn call(&self, process: ProcessId, id: u32) -> u32 {
        let found = match self.0.get(process.0 as usize) {
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

    fn add(&mut self, id: u32, call: u32) {
        match self {
            Self::Table { first, calls } => {
                if let Some(slot) = id.checked_sub(*first).and_then(|slot| calls.get_mut(slot as usize)) {
                    *slot = (*slot).min(call);
                }
            }
            Self::Pairs(pairs) => pairs.push((id, call)),
        }
    }
}
