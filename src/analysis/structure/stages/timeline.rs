//! Which of many nested intervals is the innermost at a time (interval stabbing). Built by one sweep with a priority queue
//! in O(n log n); a query is a binary search.

use crate::ordering;
use crate::trace::Ns;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Labelled intervals, flattened to disjoint segments that each have the label of their innermost interval.
#[derive(Debug, Clone, Default)]
pub(super) struct Timeline {
    /// Sorted by start; a segment ends no later than the next one starts.
    segments: Vec<Segment>,
}

/// A time range with one innermost interval. The default is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Segment {
    pub(super) start: Ns,
    pub(super) end: Ns,
    pub(super) label: u32,
}

impl Timeline {
    /// Flattens intervals. The innermost of several open intervals is the one that started last, then the shorter one.
    pub(super) fn new(mut intervals: Vec<Segment>) -> Self {
        ordering::sort_by_key(&mut intervals, |interval| (interval.start, Reverse(interval.end)));
        let mut timeline = Self::default();
        // The innermost interval is at the top. An interval that ends below the top is removed when it reaches the top.
        let mut open: BinaryHeap<(Ns, Reverse<Ns>, u32)> = BinaryHeap::new();
        let mut now = Ns(i64::MIN);
        for Segment { start, end, label } in intervals {
            timeline.advance(&mut open, now, start);
            now = start;
            open.push((start, Reverse(end), label));
            if end == start {
                timeline.push(start, end, label);
            }
        }
        timeline.advance(&mut open, now, Ns(i64::MAX));
        timeline
    }

    /// Adds the segments of the open intervals from `now` to `until` and removes intervals that end there.
    fn advance(&mut self, open: &mut BinaryHeap<(Ns, Reverse<Ns>, u32)>, mut now: Ns, until: Ns) {
        while let Some(&(_, Reverse(end), label)) = open.peek()
            && now < until
        {
            if end > now {
                self.push(now, end.min(until), label);
                now = end.min(until);
            }
            if end <= until {
                open.pop();
            }
        }
    }

    fn push(&mut self, start: Ns, end: Ns, label: u32) {
        match self.segments.last_mut() {
            Some(last) if last.end == start && last.label == label => last.end = end,
            _ => self.segments.push(Segment { start, end, label }),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// The distance to the nearest segment, which is zero inside of one, and its label. The end of a segment is inside,
    /// unless the next one starts there.
    pub(super) fn nearest(&self, time: Ns) -> Option<(Ns, u32)> {
        let next = self.segments.partition_point(|segment| segment.start <= time);
        let before = next.checked_sub(1).and_then(|index| self.segments.get(index));
        let before = before.map(|segment| (time.since(segment.end).max(Ns::ZERO), segment.label));
        let after = self.segments.get(next).map(|segment| (segment.start.since(time), segment.label));
        match (before, after) {
            (Some(before), Some(after)) => Some(if after.0 < before.0 { after } else { before }),
            (before, after) => before.or(after),
        }
    }

    /// The segment that contains a time; its end is excluded.
    pub(super) fn segment_at(&self, time: Ns) -> Option<Segment> {
        let next = self.segments.partition_point(|segment| segment.start <= time);
        self.segments.get(next.checked_sub(1)?).filter(|segment| time < segment.end).copied()
    }

    /// The label at a time; the end of a segment is included as in [`Self::nearest`].
    pub(super) fn label_at(&self, time: Ns) -> Option<u32> {
        self.nearest(time).filter(|(distance, _)| *distance == Ns::ZERO).map(|(_, label)| label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn timeline(intervals: &[(i64, i64, u32)]) -> Timeline {
        let interval = |&(start, end, label): &(i64, i64, u32)| Segment { start: Ns(start), end: Ns(end), label };
        Timeline::new(intervals.iter().map(interval).collect())
    }

    #[test]
    fn the_innermost_interval_wins_and_the_outer_one_continues_after_it() {
        let timeline = timeline(&[(0, 100, 1), (20, 40, 2), (30, 35, 3), (200, 300, 4)]);
        let label_at = |time: i64| timeline.label_at(Ns(time));
        assert_eq!([0, 19, 20, 30, 34, 35, 39, 40, 99].map(label_at), [1, 1, 2, 3, 3, 2, 2, 1, 1].map(Some));
        assert_eq!((label_at(100), label_at(101), label_at(200)), (Some(1), None, Some(4)), "the end is included");
        assert_eq!(timeline.nearest(Ns(120)), Some((Ns(20), 1)));
        assert_eq!(timeline.nearest(Ns(150)), Some((Ns(50), 1)), "of equal distances the earlier segment");
        assert_eq!(timeline.nearest(Ns(151)), Some((Ns(49), 4)));
        assert_eq!(timeline.nearest(Ns(-5)), Some((Ns(5), 1)));
        assert_eq!(Timeline::new(Vec::new()).nearest(Ns(0)), None);
    }

    proptest! {
        #[test]
        fn the_label_is_that_of_an_exhaustive_search(
            list in prop::collection::vec((0_i64..40, 1_i64..20), 0..12), time in 0_i64..60,
        ) {
            let list: Vec<(i64, i64, u32)> =
                list.iter().zip(0..).map(|(&(start, length), label)| (start, start + length, label)).collect();
            // Equal intervals are interchangeable: compare times, not labels.
            let time_of = |label: u32| { let (start, end, _) = list[label as usize]; (start, Reverse(end)) };
            let open = list.iter().filter(|interval| interval.0 <= time && time < interval.1);
            let expected = open.map(|&(start, end, _)| (start, Reverse(end))).max();
            let label = timeline(&list).label_at(Ns(time));
            if expected.is_some() {
                prop_assert_eq!(label.map(time_of), expected);
            } else {
                prop_assert!(label.is_none_or(|label| list[label as usize].1 == time), "only an end matches");
            }
        }
    }
}
