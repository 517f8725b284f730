//! The currently running ops of a sweep, a priority queue by end time: a short sorted list, and a heap for
//! the overflow.

use crate::trace::Ns;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The capacity of the list. Devices rarely run more ops at the same time, and a short list is faster than a
/// heap.
const LIST_CAPACITY: usize = 32;

/// Running ops: the end time of each, and a payload of two numbers chosen by the caller.
#[derive(Debug, Clone, Default)]
pub(crate) struct RunningOps {
    /// Sorted by end time in descending order.
    list: Vec<(Ns, [u32; 2])>,
    /// Ops that did not fit into the list.
    heap: BinaryHeap<Reverse<(Ns, [u32; 2])>>,
}

impl RunningOps {
    pub(crate) fn len(&self) -> usize {
        self.list.len() + self.heap.len()
    }

    pub(crate) fn push(&mut self, end: Ns, payload: [u32; 2]) {
        if self.list.len() >= LIST_CAPACITY {
            return self.heap.push(Reverse((end, payload)));
        }
        let later = self.list.iter().rposition(|(other, _)| *other > end);
        self.list.insert(later.map_or(0, |position| position + 1), (end, payload));
    }

    /// The payload of the only running op; `None` if there are several or none.
    pub(crate) fn only(&self) -> Option<[u32; 2]> {
        let one = self.list.first().copied().or_else(|| self.heap.peek().map(|Reverse(one)| *one));
        one.filter(|_| self.len() == 1).map(|(_, payload)| payload)
    }

    /// Removes the op that ends first, if it ends at `time` or before.
    pub(crate) fn pop_until(&mut self, time: Ns) -> Option<(Ns, [u32; 2])> {
        let first = self.list.last().map(|(end, _)| *end);
        match self.heap.peek() {
            Some(Reverse((end, _))) if *end <= time && first.is_none_or(|first| *end < first) => {
                self.heap.pop().map(|Reverse(popped)| popped)
            }
            _ if first.is_some_and(|first| first <= time) => self.list.pop(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ops_are_removed_in_the_order_of_their_ends(ends in prop::collection::vec(0_i64..50, 0..100), until in 0_i64..50) {
            let mut running = RunningOps::default();
            ends.iter().zip(0..).for_each(|(end, id)| running.push(Ns(*end), [7, id]));
            let mut popped: Vec<(Ns, [u32; 2])> = std::iter::from_fn(|| running.pop_until(Ns(until))).collect();
            prop_assert!(popped.is_sorted_by_key(|(end, _)| *end));
            let mut expected: Vec<(Ns, [u32; 2])> =
                ends.iter().map(|end| Ns(*end)).zip((0..).map(|id| [7, id])).filter(|(end, _)| *end <= Ns(until)).collect();
            prop_assert_eq!(running.len(), ends.len() - expected.len());
            popped.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(popped, expected);
        }
    }
}
