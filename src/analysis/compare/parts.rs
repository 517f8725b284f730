//! The bar of a run in exact parts: kernels by canonical name, what several ops share, what nothing fills; of the whole
//! run or a step of it.

use crate::analysis::results::Run;
use crate::analysis::triage::frames::canonical;
use crate::analysis::{CPU, SHARED};
use crate::ordering::{ByKey, InOrder};
use crate::rules::names;

/// What the parts of a bar leave of it: nothing, unless a report was made elsewhere.
pub(super) const REST: &str = "not in the list of kernels";

/// One part of a bar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    /// Canonical name of a kernel, or what no op owns.
    pub(super) name: String,
    pub(super) category: String,
    /// In the whole run; zero for what is no op.
    pub(super) launches: u64,
    /// Of the whole run or of a step.
    pub(super) time_ns: i64,
}

/// The parts of the bar of a run, which add up to `total_ns` exactly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Parts {
    /// Sorted by name.
    pub(super) parts: Vec<Part>,
    pub(super) total_ns: i64,
    /// By how many steps it was divided.
    pub(super) steps: u64,
}

impl Parts {
    /// Divided by `steps`, which is 1 for totals; so much of the idle time is left out.
    pub(super) fn of(run: &Run, steps: u64, idle_left_out_ns: i64) -> Self {
        let mut parts = kernels(run);
        let idle_ns = run.wall.cpu_ns.saturating_sub(idle_left_out_ns);
        let owned = parts.iter().fold(0, |sum: i64, part| sum.saturating_add(part.time_ns));
        let rest = run.wall.bar_ns.saturating_sub(owned).saturating_sub(run.wall.shared_ns);
        for (name, time_ns) in
            [(REST, rest.saturating_sub(run.wall.cpu_ns)), (SHARED, run.wall.shared_ns), (CPU, idle_ns)]
        {
            if time_ns != 0 {
                parts.push(Part { name: name.to_owned(), category: name.to_owned(), launches: 0, time_ns });
            }
        }
        let mut divided = Divided::by(steps);
        parts.iter_mut().for_each(|part| part.time_ns = divided.next(part.time_ns));
        parts.order_by(|a, b| a.name.cmp(&b.name));
        let total_ns = parts.iter().fold(0, |sum: i64, part| sum.saturating_add(part.time_ns));
        Self { parts, total_ns, steps: steps.max(1) }
    }

    /// The part of this name.
    fn get(&self, name: &str) -> Option<&Part> {
        let at = self.parts.partition_point(|part| part.name.as_str() < name);
        self.parts.get(at).filter(|part| part.name == name)
    }

    /// Launches in what is compared.
    pub(super) fn launches(&self, part: &Part) -> f64 {
        part.launches as f64 / self.steps as f64
    }
}

/// The kernels of a run by canonical name, in order of their time. The category of a name is that of its first kernel.
fn kernels(run: &Run) -> Vec<Part> {
    let mut places: ByKey<String, usize> = ByKey::new();
    let mut parts: Vec<Part> = Vec::new();
    for kernel in &run.kernels {
        let name = canonical(&names::demangle(&kernel.name));
        let new = parts.len();
        let at = places.change(name.clone(), new, |at| *at);
        if at == new {
            parts.push(Part { name, category: kernel.category.clone(), launches: 0, time_ns: 0 });
        }
        if let Some(part) = parts.get_mut(at) {
            part.launches = part.launches.saturating_add(kernel.count);
            part.time_ns = part.time_ns.saturating_add(kernel.elapsed_ns);
        }
    }
    parts
}

/// Divides a row of numbers so that the quotients add up to that of their sum: each is what the quotient of the running
/// sum grows by, and so within one of its own.
struct Divided {
    by: i128,
    sum: i128,
}

impl Divided {
    fn by(by: u64) -> Self {
        Self { by: i128::from(by.max(1)), sum: 0 }
    }

    fn next(&mut self, value: i64) -> i64 {
        let before = self.sum.div_euclid(self.by);
        self.sum += i128::from(value);
        i64::try_from(self.sum.div_euclid(self.by) - before).unwrap_or(i64::MAX)
    }
}

/// What became of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Both,
    New,
    Gone,
}

impl Found {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::New => "new",
            Self::Gone => "gone",
        }
    }
}

/// A part in the baseline and in another run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair<'a> {
    pub(super) baseline: Option<&'a Part>,
    pub(super) other: Option<&'a Part>,
}

impl<'a> Pair<'a> {
    /// Whichever is there; the other run's, where both are.
    pub(super) fn part(&self) -> Option<&'a Part> {
        self.other.or(self.baseline)
    }

    pub(super) fn found(&self) -> Found {
        match (self.baseline, self.other) {
            (Some(_), None) => Found::Gone,
            (None, _) => Found::New,
            (Some(_), Some(_)) => Found::Both,
        }
    }

    pub(super) fn times_ns(&self) -> (i64, i64) {
        let time = |part: Option<&Part>| part.map_or(0, |part| part.time_ns);
        (time(self.baseline), time(self.other))
    }

    pub(super) fn delta_ns(&self) -> i64 {
        let (baseline, other) = self.times_ns();
        other.saturating_sub(baseline)
    }
}

/// All parts of both, the largest change first; their changes add up to the change of the totals.
pub(super) fn matched<'a>(baseline: &'a Parts, other: &'a Parts) -> Vec<Pair<'a>> {
    let of_baseline = baseline.parts.iter().map(|part| Pair { baseline: Some(part), other: other.get(&part.name) });
    let new = other.parts.iter().filter(|part| baseline.get(&part.name).is_none());
    let mut pairs: Vec<Pair> = of_baseline.chain(new.map(|part| Pair { baseline: None, other: Some(part) })).collect();
    pairs.order_by(|a, b| {
        let name = |pair: &Pair<'a>| pair.part().map(|part| part.name.as_str());
        b.delta_ns().unsigned_abs().cmp(&a.delta_ns().unsigned_abs()).then_with(|| name(a).cmp(&name(b)))
    });
    pairs
}

/// The change of one category.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CategoryChange {
    /// Its name; what no op owns has one too.
    pub category: String,
    /// Its time in the baseline.
    pub baseline_ns: i64,
    /// Its time in the other run.
    pub time_ns: i64,
    /// The part of the change that is of kernels which both have.
    pub matched_delta_ns: i64,
    /// The time of kernels that the baseline lacks.
    pub new_ns: i64,
    /// The time of kernels that the other run lacks.
    pub gone_ns: i64,
}

impl CategoryChange {
    /// How much longer it takes: what matched kernels changed and new ones take, less what gone ones took.
    pub fn delta_ns(&self) -> i64 {
        self.time_ns.saturating_sub(self.baseline_ns)
    }
}

/// The pairs by category, the largest change first.
pub(super) fn by_category(pairs: &[Pair]) -> Vec<CategoryChange> {
    let mut sums: ByKey<&str, CategoryChange> = ByKey::new();
    for pair in pairs {
        let Some(part) = pair.part() else { continue };
        let first = CategoryChange {
            category: part.category.clone(),
            baseline_ns: 0,
            time_ns: 0,
            matched_delta_ns: 0,
            new_ns: 0,
            gone_ns: 0,
        };
        let (baseline_ns, time_ns) = pair.times_ns();
        sums.change(&part.category, first, |sum| {
            sum.baseline_ns = sum.baseline_ns.saturating_add(baseline_ns);
            sum.time_ns = sum.time_ns.saturating_add(time_ns);
            let (into, change) = match pair.found() {
                Found::Both => (&mut sum.matched_delta_ns, pair.delta_ns()),
                Found::New => (&mut sum.new_ns, time_ns),
                Found::Gone => (&mut sum.gone_ns, baseline_ns),
            };
            *into = into.saturating_add(change);
        });
    }
    let mut changes: Vec<CategoryChange> = sums.0.into_iter().map(|(_, change)| change).collect();
    changes.order_by(|a, b| b.delta_ns().unsigned_abs().cmp(&a.delta_ns().unsigned_abs()));
    changes
}

#[cfg(test)]
mod tests {
    use super::Divided;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quotients_add_up_to_the_quotient_of_the_sum(values in prop::collection::vec(-1_000_i64..1_000_000, 0..50), by in 1_u64..40) {
            let mut divided = Divided::by(by);
            let quotients: Vec<i64> = values.iter().map(|value| divided.next(*value)).collect();
            prop_assert_eq!(quotients.iter().sum::<i64>(), values.iter().sum::<i64>().div_euclid(by as i64));
            for (value, quotient) in values.iter().zip(&quotients) {
                prop_assert!((*value as f64 / by as f64 - *quotient as f64).abs() <= 1.0);
            }
        }
    }
}
