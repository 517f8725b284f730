//! Which of many windows of time, one inside another, is the innermost at a moment.

use crate::ordering::StableSort;
use crate::trace::Ns;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Windows as pieces that do not overlap, each with the label of the innermost window there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Windows {
    /// Start, end and label, by start; a piece ends no later than the next begins.
    pieces: Vec<(Ns, Ns, u32)>,
}

impl Windows {
    /// Of windows that hold a moment the one that began last is the innermost, then the shorter one.
    pub(crate) fn new(mut windows: Vec<(Ns, Ns, u32)>) -> Self {
        windows.order_by_key(|&(start, end, _)| (start, Reverse(end)));
        let mut this = Self::default();
        // The innermost on top; windows that ended while others lay over them are dropped once they surface.
        let mut open: BinaryHeap<(Ns, Reverse<Ns>, u32)> = BinaryHeap::new();
        let mut now = Ns(i64::MIN);
        for (start, end, label) in windows {
            this.pass(&mut open, now, start);
            now = start;
            open.push((start, Reverse(end), label));
            if end == start {
                this.push(start, end, label);
            }
        }
        this.pass(&mut open, now, Ns(i64::MAX));
        this
    }

    fn pass(&mut self, open: &mut BinaryHeap<(Ns, Reverse<Ns>, u32)>, mut now: Ns, until: Ns) {
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
        match self.pieces.last_mut() {
            Some(last) if last.1 == start && last.2 == label => last.1 = end,
            _ => self.pieces.push((start, end, label)),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The label at this moment, with distance zero, or that of the nearest window and how far away it is. A window
    /// holds its end too, unless the next begins there.
    pub(crate) fn nearest(&self, time: Ns) -> Option<(Ns, u32)> {
        let next = self.pieces.partition_point(|piece| piece.0 <= time);
        let before = next.checked_sub(1).and_then(|at| self.pieces.get(at));
        let before = before.map(|piece| (time.since(piece.1).max(Ns::ZERO), piece.2));
        let after = self.pieces.get(next).map(|piece| (piece.0.since(time), piece.2));
        match (before, after) {
            (Some(before), Some(after)) => Some(if after.0 < before.0 { after } else { before }),
            (before, after) => before.or(after),
        }
    }

    /// The piece that holds this moment before its end, from its start to its end, and its label.
    pub(crate) fn piece(&self, time: Ns) -> Option<(Ns, Ns, u32)> {
        let next = self.pieces.partition_point(|piece| piece.0 <= time);
        self.pieces.get(next.checked_sub(1)?).filter(|piece| time < piece.1).copied()
    }

    /// The label at this moment.
    pub(crate) fn at(&self, time: Ns) -> Option<u32> {
        self.nearest(time).filter(|(distance, _)| *distance == Ns::ZERO).map(|(_, label)| label)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn windows(list: &[(i64, i64, u32)]) -> Windows {
        Windows::new(list.iter().map(|&(start, end, label)| (Ns(start), Ns(end), label)).collect())
    }

    #[test]
    fn the_innermost_window_counts_and_the_outer_one_goes_on_after_it() {
        let windows = windows(&[(0, 100, 1), (20, 40, 2), (30, 35, 3), (200, 300, 4)]);
        let at = |time: i64| windows.at(Ns(time));
        assert_eq!([0, 19, 20, 30, 34, 35, 39, 40, 99].map(at), [1, 1, 2, 3, 3, 2, 2, 1, 1].map(Some));
        assert_eq!((at(100), at(101), at(200)), (Some(1), None, Some(4)), "a window holds its end");
        assert_eq!(windows.nearest(Ns(120)), Some((Ns(20), 1)));
        assert_eq!(windows.nearest(Ns(150)), Some((Ns(50), 1)), "as near as the next, and earlier");
        assert_eq!(windows.nearest(Ns(151)), Some((Ns(49), 4)));
        assert_eq!(windows.nearest(Ns(-5)), Some((Ns(5), 1)));
        assert_eq!(Windows::new(Vec::new()).nearest(Ns(0)), None);
    }

    proptest! {
        #[test]
        fn it_is_the_window_that_a_search_through_all_finds(
            list in prop::collection::vec((0_i64..40, 1_i64..20), 0..12), time in 0_i64..60,
        ) {
            let list: Vec<(i64, i64, u32)> =
                list.iter().enumerate().map(|(at, &(start, length))| (start, start + length, at as u32)).collect();
            // Windows over the same time are as good as each other: compare times, not labels.
            let time_of = |label: u32| { let (start, end, _) = list[label as usize]; (start, Reverse(end)) };
            let slow = list.iter().filter(|window| window.0 <= time && time < window.1).map(|&(start, end, _)| (start, Reverse(end))).max();
            let fast = windows(&list).at(Ns(time));
            if let Some(slow) = slow {
                prop_assert_eq!(fast.map(time_of), Some(slow));
            } else {
                prop_assert!(fast.is_none_or(|label| list[label as usize].1 == time), "nothing holds it but an end");
            }
        }
    }
}
