//! When host threads ran code of one kind: compiled (`torch.compile` and the compilers that it starts), or computed gradients.
//!
//! Like [`super::BlockingSites`] it is found in [`super::PackedCode`] when the file is read, and windows of the trace share it.

use super::{HostInterval, Ns, ThreadId};

/// Times in which host threads ran code of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostTimes {
    /// Sorted by thread and start. Those of one thread are disjoint.
    intervals: Vec<HostInterval>,
}

impl HostTimes {
    /// The union of the intervals of each thread. O(n log n).
    pub(crate) fn union_of(mut intervals: Vec<HostInterval>) -> Self {
        intervals.sort_unstable();
        intervals.dedup_by(|next, kept| {
            let overlaps = next.thread == kept.thread && next.start <= kept.end;
            if overlaps {
                kept.end = kept.end.max(next.end);
            }
            overlaps
        });
        Self { intervals }
    }

    /// How much of an interval its thread ran such code. O(log n), plus O(1) for each time in the interval.
    pub fn time_in(&self, interval: HostInterval) -> Ns {
        let HostInterval { thread, start, end } = interval;
        if end <= start {
            return Ns::ZERO;
        }
        let first = self.intervals.partition_point(|known| (known.thread, known.end) <= (thread, start));
        let later = self.intervals.iter().skip(first);
        let inside = later.take_while(|known| known.thread == thread && known.start < end);
        inside.fold(Ns::ZERO, |sum, known| sum + known.end.min(end).since(known.start.max(start)))
    }

    /// Whether a thread ran such code at a time.
    pub fn contains(&self, thread: ThreadId, time: Ns) -> bool {
        let first = self.intervals.partition_point(|known| (known.thread, known.end) < (thread, time));
        self.intervals.get(first).is_some_and(|known| known.thread == thread && known.start <= time)
    }

    /// The times, sorted by thread and start.
    pub fn iter(&self) -> impl Iterator<Item = &HostInterval> {
        self.intervals.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_time_in_an_interval_is_that_of_the_ticks_in_any_compilation(
            compilations in prop::collection::vec((0_u32..2, 0_i64..60, 0_i64..20), 0..12),
            (thread, start, length) in (0_u32..2, 0_i64..60, 0_i64..40),
        ) {
            let at = |thread, start, length| HostInterval { thread: ThreadId(thread), start: Ns(start), end: Ns(start + length) };
            let of_thread = compilations.iter().filter(|other| other.0 == thread);
            let ticks = (start..start + length)
                .filter(|tick| of_thread.clone().any(|(_, from, length)| (*from..from + length).contains(tick)));
            let found = HostTimes::union_of(compilations.iter().map(|(thread, start, length)| at(*thread, *start, *length)).collect());
            prop_assert_eq!(found.time_in(at(thread, start, length)).0, ticks.count() as i64);
        }
    }
}
