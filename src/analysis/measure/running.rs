//! What runs at a moment, the first to end on top.

use crate::trace::Ns;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// So many are kept in order: on one device hardly more run at once, and a short list is faster than a heap.
const FEW: usize = 32;

/// Ends, and what ends: two numbers of the caller's own.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ends {
    /// The first to end is last.
    few: Vec<(Ns, [u32; 2])>,
    /// What is beyond.
    many: BinaryHeap<Reverse<(Ns, [u32; 2])>>,
}

impl Ends {
    pub(crate) fn len(&self) -> usize {
        self.few.len() + self.many.len()
    }

    pub(crate) fn push(&mut self, end: Ns, what: [u32; 2]) {
        if self.few.len() >= FEW {
            return self.many.push(Reverse((end, what)));
        }
        let later = self.few.iter().rposition(|(other, _)| *other > end);
        self.few.insert(later.map_or(0, |at| at + 1), (end, what));
    }

    /// What runs where nothing runs beside it.
    pub(crate) fn only(&self) -> Option<[u32; 2]> {
        let one = self.few.first().copied().or_else(|| self.many.peek().map(|Reverse(one)| *one));
        one.filter(|_| self.len() == 1).map(|(_, what)| what)
    }

    /// Takes the first to end, if it ends by then.
    pub(crate) fn pop_until(&mut self, time: Ns) -> Option<(Ns, [u32; 2])> {
        let first = self.few.last().map(|(end, _)| *end);
        match self.many.peek() {
            Some(Reverse((end, _))) if *end <= time && first.is_none_or(|first| *end < first) => {
                self.many.pop().map(|Reverse(popped)| popped)
            }
            _ if first.is_some_and(|first| first <= time) => self.few.pop(),
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
        fn what_ends_comes_in_the_order_of_ends_however_many_run(ends in prop::collection::vec(0_i64..50, 0..100), until in 0_i64..50) {
            let mut running = Ends::default();
            ends.iter().zip(0..).for_each(|(end, what)| running.push(Ns(*end), [7, what]));
            let mut popped: Vec<(Ns, [u32; 2])> = std::iter::from_fn(|| running.pop_until(Ns(until))).collect();
            prop_assert!(popped.is_sorted_by_key(|(end, _)| *end));
            let mut wanted: Vec<(Ns, [u32; 2])> =
                ends.iter().map(|end| Ns(*end)).zip((0..).map(|what| [7, what])).filter(|(end, _)| *end <= Ns(until)).collect();
            prop_assert_eq!(running.len(), ends.len() - wanted.len());
            popped.sort_unstable();
            wanted.sort_unstable();
            prop_assert_eq!(popped, wanted);
        }
    }
}
