//! What the columnar tables share: compact durations and sorting by an order.

use super::{NameId, Ns, Window};
use std::ops::Range;

/// Durations at four bytes each; the few of more than four seconds stand in a list beside them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Durations {
    short: Vec<u32>,
    /// Index and duration, by index.
    long: Vec<(u32, Ns)>,
}

/// Stands in `Durations::short` where the duration is in the other list.
const LONG: u32 = u32::MAX;

impl Durations {
    pub(super) fn reserve(&mut self, more: usize) {
        self.short.reserve_exact(more);
    }

    pub(super) fn push(&mut self, duration: Ns) {
        match u32::try_from(duration.0) {
            Ok(short) if short != LONG => self.short.push(short),
            _ => {
                self.long.push((index(self.short.len()), duration));
                self.short.push(LONG);
            }
        }
    }

    #[inline]
    pub(super) fn get(&self, at: usize) -> Ns {
        match self.short.get(at) {
            Some(&LONG) => self.get_long(at),
            Some(&short) => Ns(i64::from(short)),
            None => Ns::ZERO,
        }
    }

    #[cold]
    fn get_long(&self, at: usize) -> Ns {
        let found = self.long.binary_search_by_key(&index(at), |(index, _)| *index);
        found.ok().and_then(|place| self.long.get(place)).map_or(Ns::ZERO, |(_, duration)| *duration)
    }

    /// The longest of all.
    pub(super) fn longest(&self) -> Ns {
        let short = self.short.iter().filter(|short| **short != LONG).max().copied().unwrap_or(0);
        self.long.iter().map(|(_, long)| *long).max().unwrap_or(Ns(i64::from(short)))
    }

    pub(super) fn reorder(&mut self, order: &[u32]) {
        reorder(&mut self.short, order);
        let places = self.short.iter().zip(order).enumerate().filter(|(_, (short, _))| **short == LONG);
        let long = places.map(|(new, (_, &old))| (index(new), self.get_long(old as usize))).collect();
        self.long = long;
    }
}

/// Row numbers are 32 bits wide: more rows do not fit a browser tab's memory.
pub(super) fn index(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// The rows that can lie in a window, of columns sorted by start of which no row is longer than `longest`.
pub(super) fn near(start: &[Ns], longest: Ns, window: Window) -> Range<usize> {
    let from = Ns(window.start.0.saturating_sub(longest.0));
    start.partition_point(|time| *time < from)..start.partition_point(|time| *time < window.end)
}

/// The order that sorts rows by start, equal starts by their place in the file; `None` where they are sorted.
pub(super) fn order_by_start(start: &[Ns]) -> Option<Vec<u32>> {
    if start.is_sorted() {
        return None;
    }
    let mut order: Vec<u32> = (0..index(start.len())).collect();
    order.sort_by_key(|&at| start.get(at as usize).copied());
    Some(order)
}

/// Puts into each place what stands at the place that `order` names for it.
pub(super) fn reorder<T: Copy>(column: &mut Vec<T>, order: &[u32]) {
    let mut ordered = Vec::with_capacity(order.len());
    ordered.extend(order.iter().filter_map(|&at| column.get(at as usize).copied()));
    *column = ordered;
}

/// [`reorder`] by halves: a second column of times is memory that a browser tab may not have.
pub(super) fn reorder_times(column: &mut [Ns], order: &[u32]) {
    const HALF: u32 = u32::BITS;
    for shift in [0, HALF] {
        let of = |time: &Ns| (time.0 >> shift) as u32;
        let halves: Vec<u32> = order.iter().map(|&at| column.get(at as usize).map_or(0, of)).collect();
        let others = !(i64::from(u32::MAX) << shift);
        for (time, half) in column.iter_mut().zip(halves) {
            time.0 = time.0 & others | i64::from(half) << shift;
        }
    }
}

/// Replaces each name by the one at its place in `now`.
pub(super) fn renumber(column: &mut [NameId], now: &[NameId]) {
    for name in column {
        *name = now.get(name.0 as usize).copied().unwrap_or(*name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_follows_any_permutation() {
        // All permutations of five: what the definition says, place by place.
        for code in 0..5_usize.pow(5) {
            let order: Vec<u32> = (0..5).map(|at| (code / 5_usize.pow(at) % 5) as u32).collect();
            if !(0..5).all(|at| order.contains(&at)) {
                continue;
            }
            let column = [i64::MIN, -1, 7 << 32 | 3, i64::MAX, 1 << 31].map(Ns);
            let wanted: Vec<Ns> = order.iter().map(|&at| column[at as usize]).collect();
            let (mut plain, mut times) = (column.to_vec(), column);
            reorder(&mut plain, &order);
            reorder_times(&mut times, &order);
            assert_eq!((&plain[..], &times[..]), (&wanted[..], &wanted[..]), "{order:?}");
        }
    }

    #[test]
    fn durations_of_any_length_are_kept_exactly_and_follow_an_order() {
        let values = [0, 1, i64::from(u32::MAX) - 1, i64::from(u32::MAX), i64::MAX, 7];
        let mut durations = Durations::default();
        values.iter().for_each(|&value| durations.push(Ns(value)));
        assert!((0..6).all(|at| durations.get(at) == Ns(values[at])));
        let order = [4, 0, 3, 5, 1, 2];
        durations.reorder(&order);
        assert!((0..6).all(|at| durations.get(at) == Ns(values[order[at] as usize])));
        assert_eq!(durations.get(6), Ns::ZERO);
    }
}
