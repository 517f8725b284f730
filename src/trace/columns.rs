//! Shared parts of the column tables: compact durations, sorting by start, and the rows that a time window keeps.

use super::{NameId, Ns, Window};
use crate::ordering;
use std::ops::Range;

/// A column of durations at four bytes each. Durations of 4.29 s or more are stored in a separate sorted list.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Durations {
    short_ns: Vec<u32>,
    /// Row index and duration, sorted by row index.
    long: Vec<(u32, Ns)>,
    /// An upper bound of all durations: the longest one ever pushed. [`Durations::shorten`] does not lower it.
    pub(super) longest: Ns,
}

/// The value in `Durations::short_ns` of a row whose duration is in `Durations::long`.
const LONG: u32 = u32::MAX;

impl Durations {
    pub(super) fn reserve(&mut self, additional: usize) {
        self.short_ns.reserve_exact(additional);
    }

    pub(super) fn push(&mut self, duration: Ns) {
        self.longest = self.longest.max(duration);
        match u32::try_from(duration.0) {
            Ok(short) if short != LONG => self.short_ns.push(short),
            _ => {
                self.long.push((index(self.short_ns.len()), duration));
                self.short_ns.push(LONG);
            }
        }
    }

    #[inline]
    pub(super) fn get(&self, row: usize) -> Ns {
        match self.short_ns.get(row) {
            Some(&LONG) => self.get_long(row),
            Some(&short) => Ns(i64::from(short)),
            None => Ns::ZERO,
        }
    }

    #[cold]
    fn get_long(&self, row: usize) -> Ns {
        let found = self.long.binary_search_by_key(&index(row), |(row, _)| *row);
        found.ok().and_then(|entry| self.long.get(entry)).map_or(Ns::ZERO, |(_, duration)| *duration)
    }

    pub(super) fn shorten(&mut self, row: usize, to: Ns) {
        let long = self.long.binary_search_by_key(&index(row), |(row, _)| *row);
        match u32::try_from(to.0) {
            Ok(short) if short != LONG => {
                self.short_ns.get_mut(row).into_iter().for_each(|slot| *slot = short);
                if let Ok(entry) = long {
                    self.long.remove(entry);
                }
            }
            _ => {
                let entry = long.ok().and_then(|entry| self.long.get_mut(entry));
                entry.into_iter().for_each(|(_, duration)| *duration = to);
            }
        }
    }

    pub(super) fn take(&self, rows: &KeptRows) -> Self {
        let long = self.long.iter().filter_map(|(row, long)| Some((rows.new_index(*row)?, *long)));
        let mut taken = Self { short_ns: rows.take(&self.short_ns), long: long.collect(), longest: self.longest };
        // `before` rows precede `cut` rows in the new table, so old row order is not new row order.
        ordering::sort_by_key(&mut taken.long, |(row, _)| *row);
        taken
    }

    pub(super) fn reorder(&mut self, order: &[u32]) {
        reorder(&mut self.short_ns, order);
        let long_rows = self.short_ns.iter().zip(order).enumerate().filter(|(_, (short, _))| **short == LONG);
        let long = long_rows.map(|(new, (_, &old))| (index(new), self.get_long(old as usize))).collect();
        self.long = long;
    }
}

/// Converts a row number to 32 bits. A table of more rows would not fit the memory of a browser tab.
pub(super) fn index(row: usize) -> u32 {
    u32::try_from(row).unwrap_or(u32::MAX)
}

/// Returns a row such that all earlier rows end before `time`. `start` is sorted and no row is longer than `longest`.
pub(super) fn first_reaching(start: &[Ns], longest: Ns, time: Ns) -> usize {
    start.partition_point(|start| start.0 < time.0.saturating_sub(longest.0))
}

/// The rows of a table sorted by start that a window keeps, in the order of the new table: `before`, `cut`, `within`, `after`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct KeptRows {
    /// Rows that start before the window and are kept whole.
    pub(super) before: Vec<u32>,
    /// Rows that start before the window and are cut at its start.
    pub(super) cut: Vec<u32>,
    /// Rows that start in the window.
    pub(super) within: Range<u32>,
    /// Rows that start after the window and are kept whole.
    pub(super) after: Vec<u32>,
}

impl KeptRows {
    /// Returns the rows that overlap the window. Rows that start before it are kept whole.
    pub(super) fn overlapping(window: Window, start: &[Ns], duration: &Durations) -> Self {
        let count_starting_before = |end: Ns| start.partition_point(|time| *time < end);
        let end = count_starting_before(window.end);
        let first = count_starting_before(window.start).min(end);
        let overlaps = |row: &usize| start.get(*row).is_some_and(|from| *from + duration.get(*row) > window.start);
        let candidates = first_reaching(start, duration.longest, window.start)..first;
        let before = candidates.filter(overlaps).map(index).collect();
        Self { before, within: index(first)..index(end), ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.before.len() + self.cut.len() + self.within.len() + self.after.len()
    }

    /// Returns the new index of the first row that starts in the window.
    pub(super) fn within_offset(&self) -> usize {
        self.before.len() + self.cut.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        let early = self.before.iter().chain(&self.cut).copied();
        early.chain(self.within.clone()).chain(self.after.iter().copied())
    }

    /// Returns the new index of an old one, if the row is kept.
    pub(super) fn new_index(&self, old: u32) -> Option<u32> {
        let offset = index(self.within_offset());
        if self.within.contains(&old) {
            return Some(offset + (old - self.within.start));
        }
        let find = |rows: &[u32], first: u32| rows.binary_search(&old).ok().map(|row| first + index(row));
        if old < self.within.start {
            return find(&self.before, 0).or_else(|| find(&self.cut, index(self.before.len())));
        }
        find(&self.after, offset + index(self.within.len()))
    }

    /// Returns the old index of a new one.
    pub(super) fn old_index(&self, new: u32) -> Option<u32> {
        self.iter().nth(new as usize)
    }

    pub(super) fn take<T: Copy>(&self, column: &[T]) -> Vec<T> {
        let mut taken = Vec::with_capacity(self.len());
        let entry = |row: &u32| column.get(*row as usize).copied();
        taken.extend(self.before.iter().chain(&self.cut).filter_map(entry));
        taken.extend_from_slice(column.get(self.within.start as usize..self.within.end as usize).unwrap_or_default());
        taken.extend(self.after.iter().filter_map(entry));
        taken
    }

    /// Clips the times of the new table to the window and returns the number of clipped rows. `start` and `duration` are
    /// columns of the new table. Rows in `before` and `after`, and old rows for which `is_whole` returns true, stay whole.
    pub(super) fn clip_times(
        &self,
        start: &mut [Ns],
        duration: &mut Durations,
        window: Window,
        is_whole: &dyn Fn(u32) -> bool,
    ) -> u64 {
        for row in self.before.len()..self.within_offset() {
            let Some(from) = start.get_mut(row) else { break };
            let end = (*from + duration.get(row)).min(window.end);
            *from = window.start;
            duration.shorten(row, end.since(window.start));
        }
        let first = first_reaching(start, duration.longest, window.end).max(self.within_offset());
        let mut clipped = self.cut.len() as u64;
        for (row, from) in start.iter().enumerate().take(self.within_offset() + self.within.len()).skip(first) {
            let old = self.within.start + index(row - self.within_offset());
            if *from + duration.get(row) > window.end && !is_whole(old) {
                duration.shorten(row, window.end.since(*from));
                clipped += 1;
            }
        }
        clipped
    }
}

/// Returns the permutation that sorts rows by start, stably; `None` if they are sorted.
pub(super) fn order_by_start(start: &[Ns]) -> Option<Vec<u32>> {
    if start.is_sorted() {
        return None;
    }
    Some(ordering::sorted_rows(start.len(), &|a, b| start.get(a).cmp(&start.get(b))))
}

/// Permutes a column: entry `i` becomes the old entry `order[i]`.
pub(super) fn reorder<T: Copy>(column: &mut Vec<T>, order: &[u32]) {
    let mut ordered = Vec::with_capacity(order.len());
    ordered.extend(order.iter().filter_map(|&row| column.get(row as usize).copied()));
    *column = ordered;
}

/// Does the same as [`reorder`], but 32 bits of each time after the other: this needs half the temporary memory, which a
/// browser tab may not have.
pub(super) fn reorder_times(column: &mut [Ns], order: &[u32]) {
    const HALF: u32 = u32::BITS;
    for shift in [0, HALF] {
        let half = |time: &Ns| (time.0 >> shift) as u32;
        let halves: Vec<u32> = order.iter().map(|&row| column.get(row as usize).map_or(0, half)).collect();
        let other_half = !(i64::from(u32::MAX) << shift);
        for (time, half) in column.iter_mut().zip(halves) {
            time.0 = time.0 & other_half | i64::from(half) << shift;
        }
    }
}

/// Replaces each name `n` by `new_ids[n]`.
pub(super) fn renumber(column: &mut [NameId], new_ids: &[NameId]) {
    for name in column {
        *name = new_ids.get(name.0 as usize).copied().unwrap_or(*name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_reorder_functions_apply_every_permutation() {
        // All permutations of five rows, checked entry by entry.
        for code in 0..5_usize.pow(5) {
            let order: Vec<u32> = (0..5).map(|row| (code / 5_usize.pow(row) % 5) as u32).collect();
            if !(0..5).all(|row| order.contains(&row)) {
                continue;
            }
            let column = [i64::MIN, -1, 7 << 32 | 3, i64::MAX, 1 << 31].map(Ns);
            let expected: Vec<Ns> = order.iter().map(|&row| column[row as usize]).collect();
            let (mut plain, mut times) = (column.to_vec(), column);
            reorder(&mut plain, &order);
            reorder_times(&mut times, &order);
            assert_eq!((&plain[..], &times[..]), (&expected[..], &expected[..]), "{order:?}");
        }
    }

    #[test]
    fn durations_of_any_length_are_exact_and_can_be_reordered() {
        let values = [0, 1, i64::from(u32::MAX) - 1, i64::from(u32::MAX), i64::MAX, 7];
        let mut durations = Durations::default();
        values.iter().for_each(|&value| durations.push(Ns(value)));
        assert!((0..6).all(|row| durations.get(row) == Ns(values[row])));
        let order = [4, 0, 3, 5, 1, 2];
        durations.reorder(&order);
        assert!((0..6).all(|row| durations.get(row) == Ns(values[order[row] as usize])));
        assert_eq!(durations.get(6), Ns::ZERO);
    }
}
