//! Splits the bar of a run (wall time over its device timelines) into exact parts: kernels by canonical name, time shared by
//! several ops, and idle time; for the whole run or per unit of work.

use crate::analysis::results::Run;
use crate::analysis::section::words;
use crate::analysis::triage::frames::canonical;
use crate::analysis::{CPU, GRAPHS, SHARED};
use crate::ordering;
use crate::ordering::VecMap;
use crate::rules::names;
use std::cmp::Reverse;

/// Name of the time that the list of kernels does not account for; zero unless the report was written by another tool.
const UNLISTED: &str = "not in the list of kernels";

/// The amount of work in a run, as a fraction: times are divided by `units / per`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Amount {
    pub(super) units: u64,
    pub(super) per: u64,
}

impl Amount {
    /// Totals of a run with one device timeline.
    pub(super) const ONE: Self = Self { units: 1, per: 1 };
}

/// One part of the bar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// Canonical name of a kernel, or the name of time that no kernel owns.
    pub(super) name: String,
    pub(super) category: String,
    /// Launches in the whole run; zero for time that no kernel owns.
    pub(super) launches: u64,
    /// Time in the whole run or per unit of work.
    pub(super) time_ns: i64,
}

/// The parts of the bar of a run; they add up to `total_ns` exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Breakdown {
    /// Sorted by name.
    pub(super) parts: Vec<Part>,
    pub(super) total_ns: i64,
    /// Times and launches are divided by this amount of work.
    amount: Amount,
}

impl Breakdown {
    /// Divides all times by `amount` after subtracting `excluded_idle_ns` from the idle time.
    pub(super) fn of(run: &Run, amount: Amount, excluded_idle_ns: i64) -> Self {
        let mut parts = kernels(run);
        parts.extend(graphs(run));
        let idle_ns = run.wall.cpu_ns.saturating_sub(excluded_idle_ns);
        let owned = parts.iter().fold(0, |sum: i64, part| sum.saturating_add(part.time_ns));
        let rest = run.wall.bar_ns.saturating_sub(owned).saturating_sub(run.wall.shared_ns);
        for (name, time_ns) in
            [(UNLISTED, rest.saturating_sub(run.wall.cpu_ns)), (SHARED, run.wall.shared_ns), (CPU, idle_ns)]
        {
            if time_ns != 0 {
                parts.push(Part { name: name.to_owned(), category: name.to_owned(), launches: 0, time_ns });
            }
        }
        let mut divider = ExactDivider::new(amount);
        parts.iter_mut().for_each(|part| part.time_ns = divider.divide(part.time_ns));
        ordering::sort_by(&mut parts, |a, b| a.name.cmp(&b.name));
        let total_ns = parts.iter().fold(0, |sum: i64, part| sum.saturating_add(part.time_ns));
        Self { parts, total_ns, amount }
    }

    fn get(&self, name: &str) -> Option<&Part> {
        let index = self.parts.partition_point(|part| part.name.as_str() < name);
        self.parts.get(index).filter(|part| part.name == name)
    }

    /// Launches of a part in the whole run or per unit of work.
    pub(super) fn launches(&self, part: &Part) -> f64 {
        part.launches as f64 * self.amount.per as f64 / self.amount.units.max(1) as f64
    }
}

/// The graphs that were traced as a whole, which have no kernels.
fn graphs(run: &Run) -> Option<Part> {
    let graphs = run.categories.iter().find(|category| category.category == GRAPHS)?;
    Some(Part {
        name: GRAPHS.to_owned(),
        category: GRAPHS.to_owned(),
        launches: graphs.count,
        time_ns: graphs.elapsed_ns,
    })
}

/// The kernels of a run by canonical name, in order of first occurrence. A name takes the category of its first kernel.
fn kernels(run: &Run) -> Vec<Part> {
    let mut index_of: VecMap<String, usize> = VecMap::new();
    let mut parts: Vec<Part> = Vec::new();
    for kernel in &run.kernels {
        let name = canonical(&names::demangle(&kernel.name));
        let new = parts.len();
        let index = index_of.update(name.clone(), new, |index| *index);
        if index == new {
            parts.push(Part { name, category: kernel.category.clone(), launches: 0, time_ns: 0 });
        }
        if let Some(part) = parts.get_mut(index) {
            part.launches = part.launches.saturating_add(kernel.count);
            part.time_ns = part.time_ns.saturating_add(kernel.elapsed_ns);
        }
    }
    parts
}

/// Divides a sequence of numbers so that the quotients add up to the quotient of the sum.
///
/// Each quotient is the growth of the quotient of the running sum, so it is off by less than one.
struct ExactDivider {
    factor: i128,
    divisor: i128,
    sum: i128,
}

impl ExactDivider {
    fn new(amount: Amount) -> Self {
        Self { factor: i128::from(amount.per), divisor: i128::from(amount.units.max(1)), sum: 0 }
    }

    fn quotient_of_sum(&self) -> i128 {
        self.sum.saturating_mul(self.factor).div_euclid(self.divisor)
    }

    fn divide(&mut self, value: i64) -> i64 {
        let before = self.quotient_of_sum();
        self.sum += i128::from(value);
        i64::try_from(self.quotient_of_sum() - before).unwrap_or(i64::MAX)
    }
}

/// Whether a part exists in both runs or only in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Presence {
    #[default]
    Both,
    New,
    Gone,
}

words!(Presence: Both = "both", New = "new", Gone = "gone");

/// A part in the baseline and in the other run.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartPair<'a> {
    pub(super) baseline: Option<&'a Part>,
    pub(super) other: Option<&'a Part>,
}

impl<'a> PartPair<'a> {
    /// The part in the other run, else the one in the baseline.
    pub(super) fn part(&self) -> Option<&'a Part> {
        self.other.or(self.baseline)
    }

    pub(super) fn presence(&self) -> Presence {
        match (self.baseline, self.other) {
            (Some(_), None) => Presence::Gone,
            (None, _) => Presence::New,
            (Some(_), Some(_)) => Presence::Both,
        }
    }

    /// Time in the baseline and in the other run; zero if the part is absent.
    pub(super) fn times_ns(&self) -> (i64, i64) {
        let time = |part: Option<&Part>| part.map_or(0, |part| part.time_ns);
        (time(self.baseline), time(self.other))
    }

    pub(super) fn delta_ns(&self) -> i64 {
        let (baseline, other) = self.times_ns();
        other.saturating_sub(baseline)
    }
}

/// Matches parts by name, largest change first. The changes add up to the change of the totals.
pub(super) fn match_parts<'a>(baseline: &'a Breakdown, other: &'a Breakdown) -> Vec<PartPair<'a>> {
    let in_baseline = baseline.parts.iter().map(|part| PartPair { baseline: Some(part), other: other.get(&part.name) });
    let new = other.parts.iter().filter(|part| baseline.get(&part.name).is_none());
    let mut pairs: Vec<PartPair> =
        in_baseline.chain(new.map(|part| PartPair { baseline: None, other: Some(part) })).collect();
    ordering::sort_by(&mut pairs, |a, b| {
        let name = |pair: &PartPair<'a>| pair.part().map(|part| part.name.as_str());
        b.delta_ns().unsigned_abs().cmp(&a.delta_ns().unsigned_abs()).then_with(|| name(a).cmp(&name(b)))
    });
    pairs
}

/// The change of one category.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CategoryChange {
    /// The category, or the name of time that no kernel owns.
    pub category: String,
    /// Time in the baseline.
    pub baseline_ns: i64,
    /// Time in the other run.
    pub time_ns: i64,
    /// The change of kernels that both runs have.
    pub matched_delta_ns: i64,
    /// Time of kernels that only the other run has.
    pub new_ns: i64,
    /// Time of kernels that only the baseline has.
    pub gone_ns: i64,
}

impl CategoryChange {
    /// The change of the category: `matched_delta_ns + new_ns - gone_ns`.
    pub fn delta_ns(&self) -> i64 {
        self.time_ns.saturating_sub(self.baseline_ns)
    }
}

/// Sums the pairs by category, largest change first.
pub(super) fn changes_by_category(pairs: &[PartPair]) -> Vec<CategoryChange> {
    let mut sums: VecMap<&str, CategoryChange> = VecMap::new();
    for pair in pairs {
        let Some(part) = pair.part() else { continue };
        let zero = CategoryChange { category: part.category.clone(), ..CategoryChange::default() };
        let (baseline_ns, time_ns) = pair.times_ns();
        sums.update(&part.category, zero, |sum| {
            sum.baseline_ns = sum.baseline_ns.saturating_add(baseline_ns);
            sum.time_ns = sum.time_ns.saturating_add(time_ns);
            let (target, change) = match pair.presence() {
                Presence::Both => (&mut sum.matched_delta_ns, pair.delta_ns()),
                Presence::New => (&mut sum.new_ns, time_ns),
                Presence::Gone => (&mut sum.gone_ns, baseline_ns),
            };
            *target = target.saturating_add(change);
        });
    }
    let mut changes: Vec<CategoryChange> = sums.into_vec().into_iter().map(|(_, change)| change).collect();
    ordering::sort_by_key(&mut changes, |change| Reverse(change.delta_ns().unsigned_abs()));
    changes
}

#[cfg(test)]
mod tests {
    use super::{Amount, ExactDivider};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quotients_add_up_to_the_quotient_of_the_sum(
            values in prop::collection::vec(-1_000_i64..1_000_000, 0..50),
            units in 1_u64..40,
            per in 1_u64..40,
        ) {
            let mut divider = ExactDivider::new(Amount { units, per });
            let quotients: Vec<i64> = values.iter().map(|value| divider.divide(*value)).collect();
            let sum = values.iter().sum::<i64>() * per as i64;
            prop_assert_eq!(quotients.iter().sum::<i64>(), sum.div_euclid(units as i64));
            for (value, quotient) in values.iter().zip(&quotients) {
                prop_assert!((*value as f64 * per as f64 / units as f64 - *quotient as f64).abs() <= 1.0);
            }
        }
    }
}
