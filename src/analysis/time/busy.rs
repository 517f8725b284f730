//! Time in which any device works: the union of all ops, by one sweep over the ops sorted by start.

use crate::trace::{Ns, Trace};

/// Visits the disjoint intervals in which at least one op runs on any device, sorted by start.
pub(crate) fn each_busy_interval(trace: &Trace, visit: &mut dyn FnMut(Ns, Ns)) {
    let mut reach = Ns(i64::MIN);
    for (start, duration) in trace.gpu_ops.times() {
        let (from, end) = (start.max(reach), start.after(duration));
        if end > from {
            visit(from, end);
        }
        reach = reach.max(end);
    }
}

/// The length of the union of all ops of all devices.
pub(crate) fn busy_on_any_device(trace: &Trace) -> Ns {
    let mut busy = Ns::ZERO;
    each_busy_interval(trace, &mut |start, end| busy += end.since(start));
    busy
}

/// The part of disjoint intervals, sorted by start, that lies in other such intervals: one merge of two sorted lists.
pub(crate) struct Intersection<'a> {
    intervals: &'a [(Ns, Ns)],
    /// Intervals before this one end before the last interval that was added.
    next: usize,
    pub(crate) length: Ns,
}

impl<'a> Intersection<'a> {
    pub(crate) fn with(intervals: &'a [(Ns, Ns)]) -> Self {
        Self { intervals, next: 0, length: Ns::ZERO }
    }

    /// Adds an interval that starts no earlier than the end of the one before.
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
