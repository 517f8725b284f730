//! What the sections count with: sums per key in one pass.

use crate::analysis::section::Value;
use crate::ordering::sorted_indices;
use crate::trace::Ns;
use foldhash::fast::RandomState;
use std::cmp::Reverse;
use std::collections::HashMap;

/// How often and how long something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    /// Two numbers in one, see [`key`].
    pub(crate) key: u64,
    /// The place of the key in order of appearance.
    pub(crate) id: u32,
    pub(crate) count: u64,
    pub(crate) total: Ns,
    pub(crate) shortest: Ns,
    pub(crate) longest: Ns,
}

/// One key of two numbers: a device and a name, a process and a range.
pub(crate) fn key(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

impl Tally {
    pub(crate) fn high(&self) -> u32 {
        (self.key >> 32) as u32
    }

    pub(crate) fn low(&self) -> u32 {
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

    /// The mean in microseconds; zero where nothing was counted.
    pub(crate) fn average_us(&self) -> Value {
        Value::Float(if self.count == 0 { 0.0 } else { self.total.0 as f64 / self.count as f64 / 1e3 })
    }
}

/// A tally for every key that was met.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    /// The id of each key that the table has no slot for.
    ids: HashMap<u64, u32, RandomState>,
    /// The id of each key at `high * width + low`; millions of look-ups are several times faster so.
    table: Vec<u32>,
    width: u32,
    tallies: Vec<Tally>,
}

/// A key that was not met yet.
const NEW: u32 = u32::MAX;

impl Tallies {
    /// More slots than this are not worth their memory.
    const SLOTS: usize = 1 << 20;

    /// For keys whose numbers lie below these; others are legal.
    pub(crate) fn below(highs: usize, lows: usize) -> Self {
        match highs.checked_mul(lows) {
            Some(slots) if slots <= Self::SLOTS => {
                Self { table: vec![NEW; slots], width: lows as u32, ..Self::default() }
            }
            _ => Self::default(),
        }
    }

    fn slot(&self, key: u64) -> Option<usize> {
        let (high, low) = ((key >> 32) as usize, key as u32);
        (low < self.width).then(|| high.checked_mul(self.width as usize)?.checked_add(low as usize))?
    }

    /// The id of the key, new or known.
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

    /// Counts once more under the key.
    pub(crate) fn add(&mut self, key: u64, duration: Ns) {
        let id = self.id(key);
        self.tallies.get_mut(id as usize).into_iter().for_each(|tally| tally.add(duration));
    }

    /// Adds what was counted elsewhere under its key, and tells the key's id.
    pub(crate) fn merge(&mut self, more: &Tally) -> u32 {
        let id = self.id(more.key);
        if let Some(tally) = self.tallies.get_mut(id as usize) {
            tally.merge(more);
        }
        id
    }

    /// What was counted under the key.
    pub(crate) fn get(&self, key: u64) -> Option<&Tally> {
        let id = match self.slot(key).and_then(|slot| self.table.get(slot)) {
            Some(id) => *id,
            None => *self.ids.get(&key)?,
        };
        self.tallies.get(id as usize)
    }

    /// The same by the low number alone.
    pub(crate) fn of_all_highs(&self) -> Self {
        let mut sums = Self::below(1, self.width as usize);
        for tally in &self.tallies {
            sums.merge(&Tally { key: key(0, tally.low()), ..*tally });
        }
        sums
    }

    /// All of them in order of appearance.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Tally> {
        self.tallies.iter()
    }

    /// Largest measure first; of equal ones the longer, the more frequent, the first by name.
    pub(crate) fn ranked<'a>(&self, measure: &dyn Fn(&Tally) -> i64, name: &dyn Fn(&Tally) -> &'a str) -> Vec<Tally> {
        let by = |tally: &Tally| (Reverse((measure(tally), tally.total, tally.count)), name(tally), tally.key);
        let compare = |a: usize, b: usize| self.tallies.get(a).map(by).cmp(&self.tallies.get(b).map(by));
        sorted_indices(self.tallies.len(), &compare)
            .into_iter()
            .filter_map(|at| self.tallies.get(at).copied())
            .collect()
    }

    /// The order of nearly every table.
    pub(crate) fn by_time<'a>(&self, name: &dyn Fn(&Tally) -> &'a str) -> Vec<Tally> {
        self.ranked(&|tally| tally.total.0, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tallies_rank_by_measure_and_break_ties_by_count_and_name() {
        // One key has a slot in the table, the others have none.
        let mut tallies = Tallies::below(8, 1);
        for (id, duration) in [(0, 10), (1, 10), (2, 4), (2, 6), (3, 1), (3, 2)] {
            tallies.add(key(7, id), Ns(duration));
        }
        let name = |tally: &Tally| ["b", "a", "z", "c"][tally.low() as usize];
        let order = |ranked: Vec<Tally>| ranked.iter().map(Tally::low).collect::<Vec<u32>>();
        assert_eq!(order(tallies.by_time(&name)), [2, 1, 0, 3]);
        assert_eq!(order(tallies.ranked(&|tally| tally.count as i64, &name)), [2, 3, 1, 0]);
        let most = tallies.get(key(7, 2)).unwrap();
        assert_eq!((most.high(), most.shortest, most.longest, most.total), (7, Ns(4), Ns(6), Ns(10)));
    }
}
