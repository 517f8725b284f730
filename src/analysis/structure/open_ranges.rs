//! Finds the innermost range around a call or a time on each thread: interval stabbing by a sweep with one
//! stack per thread.
//!
//! The ends of the ranges on a stack decrease towards the top. A newer range that ends no earlier contains
//! every later call that the older one contains, and is more deeply nested, so the older one is removed.
//! Therefore a binary search finds the innermost range of a call, and every range is pushed and popped once:
//! O(n log n).

use crate::ordering::sorted_indices;
use crate::trace::{NameId, Ns, Span, Spans, Trace};

pub(super) enum Event {
    /// A range opens: its row and the range.
    Opens(u32, Span),
    Call(Span),
}

/// Visits the selected ranges and all calls sorted by start; if starts are equal, ranges first.
pub(super) fn sweep_calls(
    trace: &Trace,
    spans: &Spans,
    is_selected: &dyn Fn(NameId) -> bool,
    visit: &mut dyn FnMut(Event),
) {
    let mut ranges = OuterFirst::new(spans, is_selected);
    let mut range = ranges.next();
    for call in trace.calls.iter() {
        while let Some((row, opens)) = range.take_if(|(_, range)| range.start <= call.start) {
            visit(Event::Opens(row, opens));
            range = ranges.next();
        }
        visit(Event::Call(call));
    }
}

/// Iterates over the selected ranges with their rows, sorted by start; if starts are equal, the longest
/// first, because it contains the others.
pub(super) struct OuterFirst<'a> {
    ranges: &'a Spans,
    next: usize,
    is_selected: &'a dyn Fn(NameId) -> bool,
    /// The ranges with the current start.
    same_start: Vec<(u32, Span)>,
    /// Positions in `same_start` that are still to be visited, the next one last.
    pending: Vec<usize>,
}

impl<'a> OuterFirst<'a> {
    pub(super) fn new(ranges: &'a Spans, is_selected: &'a dyn Fn(NameId) -> bool) -> Self {
        Self { ranges, next: 0, is_selected, same_start: Vec::new(), pending: Vec::new() }
    }

    fn take_same_start(&mut self) -> Option<()> {
        let start = self.ranges.get(self.next)?.start;
        self.same_start.clear();
        while let Some(range) = self.ranges.get(self.next).filter(|range| range.start == start) {
            if (self.is_selected)(range.name) {
                self.same_start.push((self.next as u32, range));
            }
            self.next += 1;
        }
        if self.same_start.is_sorted_by(|(_, outer), (_, inner)| outer.duration >= inner.duration) {
            self.pending.extend((0..self.same_start.len()).rev());
        } else {
            let duration = |position: usize| self.same_start.get(position).map(|(_, range)| range.duration);
            // If ranges are equal, the first one in the file contains the next.
            self.pending = sorted_indices(self.same_start.len(), &|a, b| duration(a).cmp(&duration(b)).then(b.cmp(&a)));
        }
        Some(())
    }
}

impl Iterator for OuterFirst<'_> {
    type Item = (u32, Span);

    fn next(&mut self) -> Option<(u32, Span)> {
        while self.pending.is_empty() {
            let (row, range) = (self.next as u32, self.ranges.get(self.next)?);
            // Two ranges rarely have the same start.
            if self.ranges.start(self.next + 1) != Some(range.start) {
                self.next += 1;
                if (self.is_selected)(range.name) {
                    return Some((row, range));
                }
                continue;
            }
            self.take_same_start()?;
        }
        self.same_start.get(self.pending.pop()?).copied()
    }
}

/// A stack of open ranges for each thread.
pub(super) struct OpenRanges(Vec<Stack>);

#[derive(Clone, Default)]
struct Stack {
    /// End and label of each open range; the ends decrease towards the top.
    ranges: Vec<(Ns, u32)>,
    /// The time of the thread until here is already assigned to ranges.
    assigned_until: Ns,
}

impl OpenRanges {
    pub(super) fn new(trace: &Trace) -> Self {
        Self(vec![Stack { ranges: Vec::new(), assigned_until: Ns(i64::MIN) }; trace.threads.len()])
    }

    /// Opens a range. Ranges and calls must arrive sorted by start.
    pub(super) fn push(&mut self, label: u32, range: Span) {
        let Some(Stack { ranges, .. }) = self.0.get_mut(range.thread.0 as usize) else { return };
        while ranges.pop_if(|(end, _)| *end <= range.end()).is_some() {}
        ranges.push((range.end(), label));
    }

    /// Returns the label of the innermost open range of the thread that contains the whole call.
    pub(super) fn innermost(&mut self, call: Span) -> Option<u32> {
        let Stack { ranges, .. } = self.0.get_mut(call.thread.0 as usize)?;
        while ranges.pop_if(|(end, _)| *end < call.start).is_some() {}
        if let Some((_, label)) = ranges.last().filter(|(end, _)| *end >= call.end()) {
            return Some(*label);
        }
        let containing = ranges.partition_point(|(end, _)| *end >= call.end());
        ranges.get(containing.checked_sub(1)?).map(|(_, label)| *label)
    }

    /// Adds the time of the thread up to `until` to the self time of the range that is innermost at each
    /// time. `self_times` is indexed by label.
    pub(super) fn assign_until(&mut self, thread: usize, until: Ns, self_times: &mut [Ns]) {
        let Some(Stack { ranges, assigned_until }) = self.0.get_mut(thread) else { return };
        while let Some(&(end, label)) = ranges.last() {
            let end_or_until = end.min(until);
            if let (true, Some(self_time)) = (end_or_until > *assigned_until, self_times.get_mut(label as usize)) {
                *self_time += end_or_until.since(*assigned_until);
                *assigned_until = end_or_until;
            }
            if end > until {
                break;
            }
            ranges.pop();
        }
        *assigned_until = until.max(*assigned_until);
    }
}
