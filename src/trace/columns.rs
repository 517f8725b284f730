//! What the columnar tables share: compact durations and sorting by an order.

use super::{NameId, Ns, Window};
use crate::ordering::StableSort;
use std::ops::Range;

/// Durations at four bytes each; the few of more than four seconds stand in a list beside them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Durations {
    short: Vec<u32>,
    /// Index and duration, by index.
    long: Vec<(u32, Ns)>,
    /// None is longer.
    longest: Ns,
}

/// Stands in `Durations::short` where the duration is in the other list.
const LONG: u32 = u32::MAX;

impl Durations {
    pub(super) fn reserve(&mut self, more: usize) {
        self.short.reserve_exact(more);
    }

    pub(super) fn push(&mut self, duration: Ns) {
        self.longest = self.longest.max(duration);
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

    /// None is longer; after [`Durations::shorten`] all may be shorter.
    pub(super) fn longest(&self) -> Ns {
        self.longest
    }

    pub(super) fn shorten(&mut self, at: usize, to: Ns) {
        let long = self.long.binary_search_by_key(&index(at), |(index, _)| *index);
        match u32::try_from(to.0) {
            Ok(short) if short != LONG => {
                self.short.get_mut(at).into_iter().for_each(|slot| *slot = short);
                if let Ok(place) = long {
                    self.long.remove(place);
                }
            }
            _ => long.into_iter().for_each(|place| self.long.get_mut(place).into_iter().for_each(|it| it.1 = to)),
        }
    }

    /// Those of these rows, in their order.
    pub(super) fn take(&self, rows: &Rows) -> Self {
        let long = self.long.iter().filter_map(|(at, long)| Some((rows.place(*at)?, *long)));
        let mut taken = Self { short: rows.take(&self.short), long: long.collect(), longest: self.longest };
        // Rows that are kept whole stand before those that are cut.
        taken.long.order_by_key(|(at, _)| *at);
        taken
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

/// The first row that may end as late as this, of columns sorted by start of which no row is longer than `longest`.
pub(super) fn may_reach(start: &[Ns], longest: Ns, time: Ns) -> usize {
    start.partition_point(|start| start.0 < time.0.saturating_sub(longest.0))
}

/// The rows that can lie in a window, of such columns.
pub(super) fn near(start: &[Ns], longest: Ns, window: Window) -> Range<usize> {
    may_reach(start, longest, window.start)..start.partition_point(|time| *time < window.end)
}

/// Rows of a table sorted by start that are kept of a window, in the order in which they stand there: most lie in one piece.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Rows {
    /// Began before the window and are kept whole.
    pub(super) before: Vec<u32>,
    /// Began before the window and are cut where it begins.
    pub(super) cut: Vec<u32>,
    /// Begin in the window.
    pub(super) within: Range<u32>,
    /// Begin behind the window and are kept whole.
    pub(super) after: Vec<u32>,
}

impl Rows {
    /// Those of which something lies in the window; what began before it is kept whole.
    pub(super) fn meeting(window: Window, start: &[Ns], duration: &Durations) -> Self {
        let near = near(start, duration.longest(), window);
        let first = start.partition_point(|time| *time < window.start).min(near.end);
        let meets = |at: &usize| start.get(*at).is_some_and(|from| *from + duration.get(*at) > window.start);
        let before = (near.start..first).filter(meets).map(index).collect();
        Self { before, within: index(first)..index(near.end), ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.before.len() + self.cut.len() + self.within.len() + self.after.len()
    }

    /// Where in the window's table those begin that begin in the window.
    pub(super) fn base(&self) -> usize {
        self.before.len() + self.cut.len()
    }

    /// The old places in their new order.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        let early = self.before.iter().chain(&self.cut).copied();
        early.chain(self.within.clone()).chain(self.after.iter().copied())
    }

    /// The new place of an old one.
    pub(super) fn place(&self, old: u32) -> Option<u32> {
        let base = index(self.base());
        if self.within.contains(&old) {
            return Some(base + (old - self.within.start));
        }
        let found = |rows: &[u32], from: u32| rows.binary_search(&old).ok().map(|at| from + index(at));
        if old < self.within.start {
            return found(&self.before, 0).or_else(|| found(&self.cut, index(self.before.len())));
        }
        found(&self.after, base + index(self.within.len()))
    }

    /// The old place of a new one.
    pub(super) fn old(&self, new: u32) -> Option<u32> {
        let at = new as usize;
        let behind = |list: &[u32], at: usize| list.get(at).copied().ok_or(at.saturating_sub(list.len()));
        behind(&self.before, at)
            .or_else(|at| behind(&self.cut, at))
            .or_else(|at| self.within.clone().nth(at).ok_or(at.saturating_sub(self.within.len())))
            .or_else(|at| behind(&self.after, at))
            .ok()
    }

    /// Of a column the entries of these rows.
    pub(super) fn take<T: Copy>(&self, column: &[T]) -> Vec<T> {
        let mut taken = Vec::with_capacity(self.len());
        let one = |at: &u32| column.get(*at as usize).copied();
        taken.extend(self.before.iter().chain(&self.cut).filter_map(one));
        taken.extend_from_slice(column.get(self.within.start as usize..self.within.end as usize).unwrap_or_default());
        taken.extend(self.after.iter().filter_map(one));
        taken
    }

    /// Cuts the times that were taken of these rows at the window's ends, but for rows that are kept whole, and tells how
    /// many it cut.
    pub(super) fn cut_times(
        &self,
        start: &mut [Ns],
        duration: &mut Durations,
        window: Window,
        is_whole: &dyn Fn(u32) -> bool,
    ) -> u64 {
        for at in self.before.len()..self.base() {
            let Some(from) = start.get_mut(at) else { break };
            let end = (*from + duration.get(at)).min(window.end);
            *from = window.start;
            duration.shorten(at, end.since(window.start));
        }
        let first = may_reach(start, duration.longest(), window.end).max(self.base());
        let mut cut = self.cut.len() as u64;
        for (at, from) in start.iter().enumerate().take(self.base() + self.within.len()).skip(first) {
            let old = self.within.start + index(at - self.base());
            if *from + duration.get(at) > window.end && !is_whole(old) {
                duration.shorten(at, window.end.since(*from));
                cut += 1;
            }
        }
        cut
    }
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
