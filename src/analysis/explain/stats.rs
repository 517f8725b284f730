//! What the sections count with: sums per key in one pass, exact percentiles, and time that spans cover together.

use super::intervals::interpolate;
use super::radix;
use crate::analysis::section::Value;
use crate::ordering::{InOrder, order};
use crate::trace::{GpuOp, Ns, OpKind, Trace};
use foldhash::fast::RandomState;
use std::cmp::Reverse;
use std::collections::HashMap;

/// How often and how long something happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Tally {
    /// Two numbers in one, see [`key`].
    pub(super) key: u64,
    /// The place of the key in order of appearance.
    pub(super) id: u32,
    pub(super) count: u64,
    pub(super) total: Ns,
    pub(super) shortest: Ns,
    pub(super) longest: Ns,
}

/// One key of two numbers: a device and a name, a process and a range.
pub(super) fn key(high: u32, low: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

impl Tally {
    pub(super) fn high(&self) -> u32 {
        (self.key >> 32) as u32
    }

    pub(super) fn low(&self) -> u32 {
        self.key as u32
    }

    pub(super) fn add(&mut self, duration: Ns) {
        self.shortest = if self.count == 0 { duration } else { self.shortest.min(duration) };
        self.longest = self.longest.max(duration);
        self.count += 1;
        self.total += duration;
    }

    fn merge(&mut self, more: &Self) {
        self.shortest = if self.count == 0 { more.shortest } else { self.shortest.min(more.shortest) };
        self.longest = self.longest.max(more.longest);
        self.count += more.count;
        self.total += more.total;
    }

    /// The mean in microseconds; zero where nothing was counted.
    pub(super) fn average_us(&self) -> Value {
        Value::Float(if self.count == 0 { 0.0 } else { self.total.0 as f64 / self.count as f64 / 1e3 })
    }
}

/// A tally for every key that was met.
#[derive(Debug, Default)]
pub(super) struct Tallies {
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
    pub(super) fn below(highs: usize, lows: usize) -> Self {
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

    /// Counts once more under the key and tells the key's id.
    pub(super) fn add(&mut self, key: u64, duration: Ns) -> u32 {
        self.merge(&Tally { key, id: 0, count: 1, total: duration, shortest: duration, longest: duration })
    }

    /// Adds what was counted elsewhere under its key.
    pub(super) fn merge(&mut self, more: &Tally) -> u32 {
        let id = self.id(more.key);
        if let Some(tally) = self.tallies.get_mut(id as usize) {
            tally.merge(more);
        }
        id
    }

    /// What was counted under the key.
    pub(super) fn get(&self, key: u64) -> Option<&Tally> {
        let id = match self.slot(key).and_then(|slot| self.table.get(slot)) {
            Some(id) => *id,
            None => *self.ids.get(&key)?,
        };
        self.tallies.get(id as usize)
    }

    /// All of them in order of appearance.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &Tally> {
        self.tallies.iter()
    }

    /// Largest measure first; of equal ones the longer, the more frequent, the first by name.
    pub(super) fn ranked<'a>(&self, measure: &dyn Fn(&Tally) -> i64, name: &dyn Fn(&Tally) -> &'a str) -> Vec<Tally> {
        let by = |tally: &Tally| (Reverse((measure(tally), tally.total, tally.count)), name(tally), tally.key);
        let compare = |a: usize, b: usize| self.tallies.get(a).map(by).cmp(&self.tallies.get(b).map(by));
        order(self.tallies.len(), &compare).into_iter().filter_map(|at| self.tallies.get(at).copied()).collect()
    }

    /// The order of nearly every table.
    pub(super) fn by_time<'a>(&self, name: &dyn Fn(&Tally) -> &'a str) -> Vec<Tally> {
        self.ranked(&|tally| tally.total.0, name)
    }
}

/// The kernels of a trace; copies and sets are none.
pub(super) fn kernels(trace: &Trace) -> impl Iterator<Item = GpuOp> + Clone {
    trace.gpu_ops.iter().filter(|op| op.kind == OpKind::Kernel)
}

/// Durations of kernels by group, each group sorted; four bytes a kernel.
#[derive(Debug)]
pub(super) struct Durations {
    /// Where each group ends in `short`.
    ends: Vec<u32>,
    short: Vec<u32>,
    /// Group and duration of those that do not fit 32 bits, some four seconds.
    long: Vec<(u32, i64)>,
}

impl Durations {
    /// `group` tells the group of a kernel, below `groups`; `None` leaves it out. It is asked twice.
    pub(super) fn of_kernels(trace: &Trace, groups: usize, group: &dyn Fn(&GpuOp) -> Option<u32>) -> Self {
        let grouped = || kernels(trace).filter_map(|op| Some((group(&op)?, op.duration.0)));
        let (mut ends, mut long) = (vec![0_u32; groups], Vec::new());
        for (group, duration) in grouped() {
            match ends.get_mut(group as usize) {
                Some(count) if u32::try_from(duration).is_ok() => *count += 1,
                _ => long.push((group, duration)),
            }
        }
        let mut all = 0;
        for end in &mut ends {
            (*end, all) = (all, all + *end);
        }
        let mut short = vec![0_u32; all as usize];
        for (group, duration) in grouped() {
            let (Ok(duration), Some(end)) = (u32::try_from(duration), ends.get_mut(group as usize)) else { continue };
            if let Some(slot) = short.get_mut(*end as usize) {
                *slot = duration;
            }
            *end += 1;
        }
        let mut durations = Self { ends, short, long };
        durations.sort();
        durations
    }

    fn sort(&mut self) {
        let (mut rest, mut start) = (self.short.as_mut_slice(), 0);
        for &end in &self.ends {
            let Some((group, others)) = rest.split_at_mut_checked((end - start) as usize) else { break };
            radix::sort(group);
            (rest, start) = (others, end);
        }
        self.long.order_by(|a, b| a.cmp(b));
    }

    /// This percentile of the group's durations in microseconds; `Null` for an empty group.
    pub(super) fn percentile_us(&self, group: usize, percent: u64) -> Value {
        Value::from(self.percentile_ns(group, percent).map(|ns| ns / 1e3))
    }

    /// Linear interpolation at `percent/100 * (n - 1)`.
    pub(super) fn percentile_ns(&self, group: usize, percent: u64) -> Option<f64> {
        let start = if group == 0 { 0 } else { *self.ends.get(group - 1)? };
        let short = self.short.get(start as usize..*self.ends.get(group)? as usize)?;
        let group = group as u32;
        let first = self.long.partition_point(|long| long.0 < group);
        let last = self.long.partition_point(|long| long.0 <= group);
        let long = self.long.get(first..last)?;
        // Whatever is long comes after whatever is short.
        let at = |place: usize| match short.get(place) {
            Some(&short) => Some(i64::from(short)),
            None => long.get(place - short.len()).map(|long| long.1),
        };
        interpolate(short.len() + long.len(), percent, &at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Format, TraceBuilder};
    use proptest::prelude::*;

    /// `q * (n - 1)` and its neighbours, from the definition.
    fn naive(mut values: Vec<i64>, percent: u64) -> Option<f64> {
        values.sort_unstable();
        let place = percent as f64 * values.len().checked_sub(1)? as f64 / 100.0;
        let (low, high) = (values[place.floor() as usize], values[place.ceil() as usize]);
        Some(low as f64 + (high - low) as f64 * place.fract())
    }

    proptest! {
        #[test]
        fn percentiles_of_each_group_are_those_of_the_definition(
            kernels in proptest::collection::vec((0_u32..4, prop_oneof![0_i64..50, 0_i64..4_294_967_400]), 0..300),
        ) {
            let mut builder = TraceBuilder::new("t", Format::NsysSqlite);
            let (device, process) = (builder.device("0", ""), builder.process(1, ""));
            let name = builder.trace.names.intern("k");
            for &(group, duration) in &kernels {
                let stream = i64::from(group);
                let op = GpuOp { start: Ns(0), duration: Ns(duration), name, device, stream, process, kind: OpKind::Kernel };
                builder.trace.gpu_ops.push(op, None);
            }
            let trace = builder.finish();
            // Group 3 is left out, group 4 stays empty.
            let group = |op: &GpuOp| (op.stream < 3).then_some(op.stream as u32);
            let durations = Durations::of_kernels(&trace, 5, &group);
            for asked in 0..5_u32 {
                let of_group = kernels.iter().filter(|kernel| kernel.0 == asked && asked < 3);
                let values: Vec<i64> = of_group.map(|kernel| kernel.1).collect();
                for percent in [0, 1, 50, 90, 95, 99, 100] {
                    let (ours, want) = (durations.percentile_ns(asked as usize, percent), naive(values.clone(), percent));
                    prop_assert_eq!(ours.is_some(), want.is_some());
                    prop_assert!((ours.unwrap_or(0.0) - want.unwrap_or(0.0)).abs() < 1e-3, "{:?} {:?}", ours, want);
                }
            }
        }
    }

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
