//! The blocking calls of each host thread, as disjoint intervals, and how long they wait for other GPUs. One pass over the API calls; a
//! lookup is a binary search.

use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::host::other_gpus::OtherGpus;
use crate::rules::signals::CallKind;
use crate::trace::{HostInterval, NameId, Ns, SiteId, Span, ThreadId, Trace};

/// A call that blocked its thread. A call that is nested in it, such as a driver call, is part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockingCall {
    pub(crate) start: Ns,
    pub(crate) end: Ns,
    /// Name of the outermost call.
    pub(crate) name: NameId,
    pub(crate) thread: ThreadId,
}

/// The blocking calls of one name that the same code makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DrainKey {
    pub(crate) name: NameId,
    /// `None` if the code is not known.
    pub(crate) site: Option<SiteId>,
}

/// Of the blocking calls in one gap at most so many are looked at, the last ones.
const MAX_CALLS_IN_GAP: usize = 64;

/// Blocking calls by thread, sorted by start.
#[derive(Debug)]
pub(crate) struct BlockingCalls {
    threads: Vec<Vec<BlockingCall>>,
    pub(crate) other_gpus: OtherGpus,
}

impl BlockingCalls {
    pub(crate) fn of(classified: &ClassifiedTrace) -> Self {
        let trace = classified.trace;
        let mut blocking =
            Self { threads: vec![Vec::new(); trace.threads.len()], other_gpus: OtherGpus::of(classified) };
        let blocks =
            |call: &Span| matches!(classified.call_kind(call.name), CallKind::Synchronize | CallKind::CopyBlocking);
        trace.calls.iter().filter(blocks).for_each(|call| blocking.add(&call));
        blocking
    }

    fn add(&mut self, call: &Span) {
        let Some(calls) = self.threads.get_mut(call.thread.0 as usize) else { return };
        match calls.last_mut() {
            Some(outer) if call.start < outer.end => outer.end = outer.end.max(call.end()),
            _ => calls.push(BlockingCall { start: call.start, end: call.end(), name: call.name, thread: call.thread }),
        }
    }

    /// Returns the last call of this thread that began at `time` or earlier.
    pub(crate) fn last_before(&self, thread: ThreadId, time: Ns) -> Option<BlockingCall> {
        let calls = self.threads.get(thread.0 as usize)?;
        let started = calls.partition_point(|call| call.start <= time);
        calls.get(started.checked_sub(1)?).copied()
    }

    /// How long a thread was blocked in a part of a gap before the work in this row while other GPUs of its process worked. A call that
    /// goes on while the own GPU has nothing to do does not wait for that one.
    pub(crate) fn time_for_other_gpus(&self, trace: &Trace, row: usize, part: HostInterval) -> Ns {
        let HostInterval { thread, start, end } = part;
        let Some(calls) = self.threads.get(thread.0 as usize) else { return Ns::ZERO };
        let begun = calls.partition_point(|call| call.start < end);
        let inside = calls.iter().take(begun).rev().take(MAX_CALLS_IN_GAP).take_while(|call| call.end > start);
        inside.fold(Ns::ZERO, |sum, call| {
            sum + self.other_gpus.time_in(trace, row, (call.start.max(start), call.end.min(end)))
        })
    }
}
