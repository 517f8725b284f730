//! Time in which any device works: the union of all ops. One sweep over the ops sorted by start, O(n).

use crate::analysis::measure::union::added_to_union;
use crate::trace::{Ns, Trace};

/// Returns the length of the union of all ops of all devices.
pub(crate) fn busy_on_any_device(trace: &Trace) -> Ns {
    let (mut busy, mut busy_until) = (Ns::ZERO, None);
    for (start, duration) in trace.gpu_ops.times() {
        busy += added_to_union(&mut busy_until, start, start.after(duration));
    }
    busy
}

/// The length of the intersection of two lists of disjoint intervals sorted by start: one merge of the lists.
pub(crate) struct Intersection<'a> {
    intervals: &'a [(Ns, Ns)],
    /// All earlier intervals end before the end of the last interval that was added, or at it.
    next: usize,
    pub(crate) length: Ns,
}

impl<'a> Intersection<'a> {
    pub(crate) fn with(intervals: &'a [(Ns, Ns)]) -> Self {
        Self { intervals, next: 0, length: Ns::ZERO }
    }

    /// Adds the next interval of the other list. An interval that ends before it starts is ignored.
    pub(crate) fn add(&mut self, from: Ns, to: Ns) {
        while let Some(&(start, end)) = self.intervals.get(self.next).filter(|interval| interval.0 < to) {
            self.length += end.min(to).since(start.max(from)).max(Ns::ZERO);
            if end > to {
                break;
            }
            self.next += 1;
        }
    }
}
