//! Which call launched which GPU op: the call with the op's correlation id in the op's process.
//!
//! A correlation id says something within its process alone; ids of two processes in one capture collide.

use super::columns::index;
use super::ops::UNLINKED;
use super::{ProcessId, Spans, Thread};

/// The calls of each process by correlation id.
pub(super) struct CallsByCorrelation(Vec<ProcessCalls>);

/// Ids count up, so that a table is smaller than pairs; where they do not, pairs it is.
enum ProcessCalls {
    Table { first: u32, calls: Vec<u32> },
    Pairs(Vec<(u32, u32)>),
}

/// Up to so many slots of a table a call, it is a table.
const SLOTS: usize = 4;

impl CallsByCorrelation {
    /// `correlations` runs parallel to `calls`. Where two calls of a process share an id, the first counts.
    pub(super) fn new(calls: &Spans, correlations: &[u32], threads: &[Thread], processes: usize) -> Self {
        let process = |at: usize| {
            let thread = calls.get(at).and_then(|call| threads.get(call.thread.0 as usize));
            thread.map_or(usize::MAX, |thread| thread.process.0 as usize)
        };
        let known = || correlations.iter().enumerate().filter(|(_, id)| **id != UNLINKED);
        let mut spans = vec![(u32::MAX, 0_u32, 0_usize); processes];
        for (at, &id) in known() {
            if let Some((first, last, count)) = spans.get_mut(process(at)) {
                (*first, *last, *count) = ((*first).min(id), (*last).max(id), *count + 1);
            }
        }
        let mut of_process: Vec<ProcessCalls> = spans.iter().map(|span| ProcessCalls::of_span(*span)).collect();
        for (at, &id) in known() {
            if let Some(of_process) = of_process.get_mut(process(at)) {
                of_process.add(id, index(at));
            }
        }
        for of_process in &mut of_process {
            if let ProcessCalls::Pairs(pairs) = of_process {
                pairs.sort_unstable();
            }
        }
        Self(of_process)
    }

    /// The index of the call, or `UNLINKED`.
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

impl ProcessCalls {
    fn of_span((first, last, count): (u32, u32, usize)) -> Self {
        let slots = (last as usize).saturating_sub(first as usize).saturating_add(1);
        if count > 0 && slots <= count.saturating_mul(SLOTS) {
            Self::Table { first, calls: vec![UNLINKED; slots] }
        } else {
            Self::Pairs(Vec::with_capacity(count))
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
