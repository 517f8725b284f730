//! Which range a kernel belongs to: the innermost one of the launching thread that holds the launching call.
//!
//! Calls and ranges are swept by start, with one stack of open ranges a thread. A stack keeps its ends decreasing towards
//! the top: a newer range that ends no earlier holds every later call that an older one holds, and lies further in. So
//! the range of a call is found by binary search, and every range goes on and off a stack once.

use super::stats::{Tallies, Tally, key};
use crate::trace::{NameId, Ns, OpKind, Span, Spans, Trace};

/// Kernel time by process and range, and what belongs to no range.
#[derive(Debug, Default)]
pub(super) struct Attributed {
    /// Under [`key`] of process and range name.
    pub(super) under: Tallies,
    /// All that lies under some range.
    pub(super) mapped: Tally,
    /// Launched by a call outside all ranges of its thread.
    pub(super) outside: Tally,
    /// Kernels whose launching call the trace does not hold.
    pub(super) without_call: Tally,
    /// All kernels.
    pub(super) all: Tally,
}

/// No range holds the call.
const NONE: u32 = u32::MAX;

impl Attributed {
    /// Only ranges whose name is kept count.
    pub(super) fn of(trace: &Trace, is_kept: &dyn Fn(NameId) -> bool) -> Self {
        let range_of_call = ranges_of_calls(trace, is_kept);
        let mut found = Self::default();
        let launches = trace.gpu_ops.launches();
        // Kernels alone, but the launches run parallel to all ops.
        for (op, call) in trace.gpu_ops.iter().zip(launches).filter(|(op, _)| op.kind == OpKind::Kernel) {
            found.all.add(op.duration);
            match call.map(|call| range_of_call.get(call.0 as usize).copied().unwrap_or(NONE)) {
                None => found.without_call.add(op.duration),
                Some(NONE) => found.outside.add(op.duration),
                Some(range) => {
                    found.mapped.add(op.duration);
                    found.under.add(key(op.process.0, range), op.duration);
                }
            }
        }
        found
    }

    /// Kernel time by range name over all processes.
    pub(super) fn by_range(&self) -> Tallies {
        let mut by_range = Tallies::default();
        for tally in self.under.iter() {
            by_range.merge(&Tally { key: key(0, tally.low()), ..*tally });
        }
        by_range
    }
}

/// The name of the innermost kept range around each call, or [`NONE`].
fn ranges_of_calls(trace: &Trace, is_kept: &dyn Fn(NameId) -> bool) -> Vec<u32> {
    let mut open = OpenRanges::of(trace);
    let mut ranges = OuterFirst::of(&trace.ranges, is_kept).peekable();
    let mut names = Vec::with_capacity(trace.calls.len());
    for call in trace.calls.iter() {
        while let Some(range) = ranges.next_if(|range| range.start <= call.start) {
            open.push(range);
        }
        names.push(open.innermost(call).map_or(NONE, |name| name.0));
    }
    names
}

/// The wall time of each kept range name: every moment of a thread belongs to the innermost range that is open.
pub(super) fn own_wall_time(trace: &Trace, is_kept: &dyn Fn(NameId) -> bool) -> Vec<Ns> {
    let mut open = OpenRanges::of(trace);
    let mut own = vec![Ns::ZERO; trace.ranges.names.len()];
    for range in OuterFirst::of(&trace.ranges, is_kept) {
        open.settle(range.thread.0 as usize, range.start, &mut own);
        open.push(range);
    }
    for thread in 0..trace.threads.len() {
        open.settle(thread, Ns(i64::MAX), &mut own);
    }
    own
}

/// Kept ranges by start, of equal starts the longest first: it lies around the others.
struct OuterFirst<'a> {
    ranges: &'a Spans,
    next: usize,
    is_kept: &'a dyn Fn(NameId) -> bool,
    /// Ranges of one start, the last one next.
    same_start: Vec<Span>,
}

impl<'a> OuterFirst<'a> {
    fn of(ranges: &'a Spans, is_kept: &'a dyn Fn(NameId) -> bool) -> Self {
        Self { ranges, next: 0, is_kept, same_start: Vec::new() }
    }

    fn take_same_start(&mut self) -> Option<()> {
        let start = self.ranges.get(self.next)?.start;
        while let Some(range) = self.ranges.get(self.next).filter(|range| range.start == start) {
            self.next += 1;
            if (self.is_kept)(range.name) {
                self.same_start.push(range);
            }
        }
        if self.same_start.len() > 1 {
            // Of equal ranges the one that comes first in the file lies around the next.
            self.same_start.reverse();
            self.same_start.sort_by_key(|range| range.duration);
        }
        Some(())
    }
}

impl Iterator for OuterFirst<'_> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        while self.same_start.is_empty() {
            self.take_same_start()?;
        }
        self.same_start.pop()
    }
}

/// The open ranges of each thread.
struct OpenRanges(Vec<Stack>);

#[derive(Clone, Default)]
struct Stack {
    /// End and name, ends decreasing.
    ranges: Vec<(Ns, NameId)>,
    /// Until here the thread's time was handed out.
    settled: Ns,
}

impl OpenRanges {
    fn of(trace: &Trace) -> Self {
        Self(vec![Stack { ranges: Vec::new(), settled: Ns(i64::MIN) }; trace.threads.len()])
    }

    fn push(&mut self, range: Span) {
        let Some(Stack { ranges, .. }) = self.0.get_mut(range.thread.0 as usize) else { return };
        while ranges.pop_if(|(end, _)| *end <= range.end()).is_some() {}
        ranges.push((range.end(), range.name));
    }

    fn innermost(&mut self, call: Span) -> Option<NameId> {
        let Stack { ranges, .. } = self.0.get_mut(call.thread.0 as usize)?;
        while ranges.pop_if(|(end, _)| *end < call.start).is_some() {}
        let around = ranges.partition_point(|(end, _)| *end >= call.end());
        ranges.get(around.checked_sub(1)?).map(|(_, name)| *name)
    }

    /// Hands the thread's time up to `until` to the ranges that are open in it.
    fn settle(&mut self, thread: usize, until: Ns, own: &mut [Ns]) {
        let Some(Stack { ranges, settled }) = self.0.get_mut(thread) else { return };
        while let Some(&(end, name)) = ranges.last() {
            let upto = end.min(until);
            if let (true, Some(own)) = (upto > *settled, own.get_mut(name.0 as usize)) {
                *own += upto.since(*settled);
                *settled = upto;
            }
            if end > until {
                break;
            }
            ranges.pop();
        }
        *settled = until.max(*settled);
    }
}
