//! When host threads ran code of one kind: compiled (`torch.compile` and the compilers that it starts), or computed gradients.
//!
//! Like [`super::BlockingSites`] it is found in [`super::PackedCode`] when the file is read, and windows of the trace share it.

use super::{HostInterval, Ns, ThreadId};
use std::cell::Cell;

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

    /// The times of a thread that overlap an interval. O(log n).
    pub(super) fn in_interval(&self, interval: HostInterval) -> &[HostInterval] {
        let HostInterval { thread, start, end } = interval;
        let first = self.intervals.partition_point(|known| (known.thread, known.end) <= (thread, start));
        let after = self.intervals.partition_point(|known| (known.thread, known.start) < (thread, end));
        self.intervals.get(first..after).unwrap_or_default()
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

    /// For many look-ups whose times mostly ascend on each thread.
    pub(crate) fn into_cursor(self) -> HostTimesCursor {
        let threads = self.intervals.last().map_or(0, |last| last.thread.0 as usize + 1);
        let mut first = vec![0; threads + 1];
        for interval in &self.intervals {
            first.get_mut(interval.thread.0 as usize + 1).into_iter().for_each(|count| *count += 1);
        }
        let mut sum = 0;
        for count in &mut first {
            sum += *count;
            *count = sum;
        }
        HostTimesCursor { times: self, first, last: vec![Cell::new(0); threads] }
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

/// Looks up whether a thread ran such code at a time. O(1) for a time just after that of the look-up before, else O(log n).
#[derive(Debug)]
pub(crate) struct HostTimesCursor {
    pub(crate) times: HostTimes,
    /// By thread: the index of its first interval. At the end the number of all.
    first: Vec<usize>,
    /// By thread: which of its intervals was found last.
    last: Vec<Cell<usize>>,
}

impl HostTimesCursor {
    /// As far as this is searched step by step.
    const NEAR: usize = 4;

    /// Whether a thread ran such code at a time.
    pub(crate) fn contains(&self, thread: ThreadId, time: Ns) -> bool {
        let (own, Some(last)) = (self.of_thread(thread), self.last.get(thread.0 as usize)) else { return false };
        let ends_before = |index: usize| own.get(index).is_some_and(|interval| interval.end < time);
        let from = last.get();
        let is_after = from == 0 || ends_before(from - 1);
        let near = (from..from + Self::NEAR).find(|index| !ends_before(*index)).filter(|_| is_after);
        let found = near.unwrap_or_else(|| own.partition_point(|interval| interval.end < time));
        last.set(found);
        own.get(found).is_some_and(|interval| interval.start <= time)
    }

    fn of_thread(&self, thread: ThreadId) -> &[HostInterval] {
        let ends = |from: usize| Some((*self.first.get(from)?, *self.first.get(from + 1)?));
        let ends = ends(thread.0 as usize);
        ends.and_then(|(from, to)| self.times.intervals.get(from..to)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_cursor_finds_the_same_as_a_search_in_any_order(
            times in prop::collection::vec((0_u32..4, 0_i64..60, 0_i64..20), 0..40),
            looked_up in prop::collection::vec((0_u32..5, 0_i64..80), 0..60),
        ) {
            let at = |(thread, start, length): (u32, i64, i64)| HostInterval { thread: ThreadId(2 * thread), start: Ns(start), end: Ns(start + length) };
            let times = HostTimes::union_of(times.into_iter().map(at).collect());
            let cursor = times.clone().into_cursor();
            for (thread, time) in looked_up {
                prop_assert_eq!(cursor.contains(ThreadId(thread), Ns(time)), times.contains(ThreadId(thread), Ns(time)));
            }
        }

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
