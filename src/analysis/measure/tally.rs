//! Count, sum, minimum and maximum of durations by key. One pass; a table lookup or a hash lookup per duration.

use crate::analysis::section::Us;
use crate::ordering::sorted_indices;
use crate::trace::Ns;
use foldhash::fast::RandomState;
use std::cmp::Reverse;
use std::collections::HashMap;

/// Count, sum, minimum and maximum of durations under one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    /// A group and a member of it, see [`key`].
    pub(crate) key: u64,
    /// The index of the key in order of appearance.
    pub(crate) id: u32,
    pub(crate) count: u64,
    pub(crate) total: Ns,
    pub(crate) shortest: Ns,
    pub(crate) longest: Ns,
}

/// Combines a group and a member of it into one key, for example a process and the name of a range in it.
pub(crate) fn key(group: u32, member: u32) -> u64 {
    u64::from(group) << 32 | u64::from(member)
}

impl Tally {
    /// The group of the key, see [`key`].
    pub(crate) fn group(&self) -> u32 {
        (self.key >> 32) as u32
    }

    /// The member of the key, see [`key`].
    pub(crate) fn member(&self) -> u32 {
        self.key as u32
    }

    pub(crate) fn add(&mut self, duration: Ns) {
        self.shortest = if self.count == 0 { duration } else { self.shortest.min(duration) };
        self.longest = self.longest.max(duration);
        self.count += 1;
        self.total += duration;
    }

    pub(crate) fn merge(&mut self, more: &Self) {
        if more.count == 0 {
            return;
        }
        self.shortest = if self.count == 0 { more.shortest } else { self.shortest.min(more.shortest) };
        self.longest = self.longest.max(more.longest);
        self.count += more.count;
        self.total += more.total;
    }

    /// Mean duration; zero if nothing was counted.
    pub(crate) fn mean(&self) -> Us {
        Us(if self.count == 0 { 0.0 } else { self.total.0 as f64 / self.count as f64 / 1e3 })
    }
}

#[derive(Debug, Default)]
pub(crate) struct Tallies {
    /// The id of each key without a slot in `table`.
    ids: HashMap<u64, u32, RandomState>,
    /// The id of each key at `high * width + low`. Several times faster than the hash map.
    table: Vec<u32>,
    width: u32,
    tallies: Vec<Tally>,
}

/// Marks a slot whose key has no tally yet.
const NEW: u32 = u32::MAX;

impl Tallies {
    /// The maximum size of `table`, to limit memory.
    const MAX_SLOTS: usize = 1 << 20;

    /// Tallies optimized for keys with numbers below `highs` and `lows`; other keys are allowed but slower.
    pub(crate) fn with_table(highs: usize, lows: usize) -> Self {
        match highs.checked_mul(lows) {
            Some(slots) if slots <= Self::MAX_SLOTS => {
                Self { table: vec![NEW; slots], width: lows as u32, ..Self::default() }
            }
            _ => Self::default(),
        }
    }

    fn slot(&self, key: u64) -> Option<usize> {
        let (high, low) = ((key >> 32) as usize, key as u32);
        (low < self.width).then(|| high.checked_mul(self.width as usize)?.checked_add(low as usize))?
    }

    /// Returns the id of the key; inserts the key if it is new.
    fn id(&mut self, key: u64) -> u32 {
        let next = self.tallies.len() as u32;
        let id = match self.slot(key).and_then(|slot| self.table.get_mut(slot)) {
            Some(id) => {
                *id = if *id == NEW { next } else { *id };
                *id
            }
            None => *self.ids.entry(key).or_insert(next),
        };
        if id == next {
            self.tallies.push(Tally { key, id, ..Tally::default() });
        }
        id
    }

    pub(crate) fn add(&mut self, key: u64, duration: Ns) {
        let id = self.id(key);
        self.tallies.get_mut(id as usize).into_iter().for_each(|tally| tally.add(duration));
    }

    /// Adds another tally under its key. Returns the id of the key.
    pub(crate) fn merge(&mut self, more: &Tally) -> u32 {
        let id = self.id(more.key);
        if let Some(tally) = self.tallies.get_mut(id as usize) {
            tally.merge(more);
        }
        id
    }

    pub(crate) fn get(&self, key: u64) -> Option<&Tally> {
        let id = match self.slot(key).and_then(|slot| self.table.get(slot)) {
            Some(id) => *id,
            None => *self.ids.get(&key)?,
        };
        self.tallies.get(id as usize)
    }

    /// Sums the tallies by the low number of the key; the high number becomes zero.
    pub(crate) fn summed_by_low_number(&self) -> Self {
        let mut sums = Self::with_table(1, self.width as usize);
        for tally in &self.tallies {
            sums.merge(&Tally { key: key(0, tally.member()), ..*tally });
        }
        sums
    }

    /// Iterates over all tallies in order of appearance.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Tally> {
        self.tallies.iter()
    }

    /// Returns the tallies sorted by measure in descending order; ties by total time, count, name and key.
    pub(crate) fn ranked<'a>(&self, measure: &dyn Fn(&Tally) -> i64, name: &dyn Fn(&Tally) -> &'a str) -> Vec<Tally> {
        let sort_key = |tally: &Tally| (Reverse((measure(tally), tally.total, tally.count)), name(tally), tally.key);
        let compare = |a: usize, b: usize| self.tallies.get(a).map(sort_key).cmp(&self.tallies.get(b).map(sort_key));
        sorted_indices(self.tallies.len(), &compare)
            .into_iter()
            .filter_map(|index| self.tallies.get(index).copied())
            .collect()
    }

    /// Returns the tallies sorted by total time in descending order, as most tables are.
    pub(crate) fn by_time<'a>(&self, name: &dyn Fn(&Tally) -> &'a str) -> Vec<Tally> {
        self.ranked(&|tally| tally.total.0, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_are_ranked_by_measure_with_ties_by_count_and_name() {
        // Only the key with low number 0 has a slot in the table.
        let mut tallies = Tallies::with_table(8, 1);
        for (id, duration) in [(0, 10), (1, 10), (2, 4), (2, 6), (3, 1), (3, 2)] {
            tallies.add(key(7, id), Ns(duration));
        }
        let name = |tally: &Tally| ["b", "a", "z", "c"][tally.member() as usize];
        let order = |ranked: Vec<Tally>| ranked.iter().map(Tally::member).collect::<Vec<u32>>();
        assert_eq!(order(tallies.by_time(&name)), [2, 1, 0, 3]);
        assert_eq!(order(tallies.ranked(&|tally| tally.count as i64, &name)), [2, 3, 1, 0]);
        let largest = tallies.get(key(7, 2)).unwrap();
        assert_eq!((largest.group(), largest.shortest, largest.longest, largest.total), (7, Ns(4), Ns(6), Ns(10)));
    }
}
