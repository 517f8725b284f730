//! Compares finished runs with a baseline: how much the time changed, in which categories and kernels, and whether the
//! runs can be compared at all. Reads only sums by kernel name, never single GPU ops.
//!
//! - The compared quantity is the run's bar: wall time summed over its device timelines. It splits exactly into kernels,
//!   shared time and idle time (see `breakdown`), so the changes of the rows of a table add up to the whole change.
//! - All runs share one [`Basis`]. If every comparable run has a usable `steps` section, times are per step, and idle time
//!   before the first and after the last step is left out. Otherwise totals are compared, which assumes equal work.
//! - Noise is a multiple of the standard error of the difference of the two mean step times. Without steps it is unknown.
//! - A pair is refused, with a reason and a remedy, if the captures measure different things (see `comparability`).
//!
//! Thresholds and sentences are in `patterns/compare.json`. `report::compare` writes a comparison as sentences, tables and
//! JSON (`gpuprism-comparison/1`).

mod breakdown;
mod comparability;
mod rules;
mod sections;
mod steps;
#[cfg(test)]
mod tests;

pub use breakdown::CategoryChange;

use super::results::Run;
use crate::analysis::section::Sections;
use breakdown::{Breakdown, PartPair, changes_by_category, match_parts};
use rules::Rules;
use steps::Steps;

/// The unit in which times are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Time per step of the engine.
    Step,
    /// Time of the whole run.
    Total,
}

/// The result for one run relative to the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The run is the baseline.
    Baseline,
    /// The run takes longer; the difference exceeds noise where noise is known.
    Slower,
    /// The run takes less time; the difference exceeds noise where noise is known.
    Faster,
    /// The difference does not exceed noise.
    WithinNoise,
    /// No difference, or noise is unknown and the difference is below `negligible_change`.
    Same,
    /// The run could not be compared.
    NotComparable,
}

impl Outcome {
    /// The word used in tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::WithinNoise => "within noise",
            Self::Same => "same",
            Self::NotComparable => "not comparable",
        }
    }
}

/// Runs compared with a baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Index of the baseline in `runs`.
    pub baseline: usize,
    /// The unit of all compared times.
    pub basis: Basis,
    /// One entry per run, in the order given.
    pub runs: Vec<ComparedRun>,
    /// `compare_summary`, `compare_categories`, `compare_kernels`.
    pub sections: Sections,
}

impl Comparison {
    /// True if at least one run could be compared with the baseline.
    pub fn is_possible(&self) -> bool {
        self.runs.iter().any(|run| run.change.is_some())
    }

    /// True if at least one run is slower than the baseline by more than `pct` percent, and beyond noise where noise is known.
    pub fn has_regressed(&self, pct: f64) -> bool {
        self.runs.iter().any(|run| {
            let change = run.change.as_ref().filter(|_| run.outcome == Outcome::Slower);
            change.and_then(Change::pct).is_some_and(|changed| changed > pct)
        })
    }
}

/// One run of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedRun {
    /// The run's label.
    pub label: String,
    /// The comparison of its time with that of the baseline.
    pub outcome: Outcome,
    /// Why it cannot be compared: one sentence each, with the remedy. Empty if it was compared.
    pub reasons: Vec<String>,
    /// Caveats of the comparison, one sentence each.
    pub warnings: Vec<String>,
    /// The difference; `None` for the baseline and for runs that were not compared.
    pub change: Option<Change>,
}

/// The difference between the baseline and a run, in the unit of [`Comparison::basis`].
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The baseline's time.
    pub baseline_ns: i64,
    /// The run's time.
    pub time_ns: i64,
    /// The largest difference that counts as noise; `None` if unknown.
    pub noise_ns: Option<f64>,
    /// Changes by category, largest first; they add up to [`Change::delta_ns`].
    pub categories: Vec<CategoryChange>,
    /// The number of leading entries of `categories` that are large enough to be named in a sentence.
    pub notable_categories: usize,
}

impl Change {
    /// The run's time minus the baseline's.
    pub fn delta_ns(&self) -> i64 {
        self.time_ns.saturating_sub(self.baseline_ns)
    }

    /// [`Change::delta_ns`] in percent of the baseline; `None` if the baseline's time is zero.
    pub fn pct(&self) -> Option<f64> {
        (self.baseline_ns != 0).then(|| 100.0 * self.delta_ns() as f64 / self.baseline_ns as f64)
    }
}

/// A run to compare, with its label and its steps.
#[derive(Debug, Clone)]
struct Candidate<'a> {
    label: &'a str,
    run: &'a Run,
    steps: Option<Steps>,
}

/// Compares labelled runs with the one at index `baseline`; an index out of range means the first run.
pub fn compare(runs: &[(&str, &Run)], baseline: usize) -> Comparison {
    let rules = Rules::embedded();
    let baseline = if baseline < runs.len() { baseline } else { 0 };
    let candidates: Vec<Candidate> =
        runs.iter().map(|&(label, run)| Candidate { label, run, steps: Steps::of(run, &rules.thresholds) }).collect();
    let Some(first) = candidates.get(baseline) else {
        return Comparison { baseline, basis: Basis::Total, runs: Vec::new(), sections: Sections::new() };
    };
    let mut compared: Vec<ComparedRun> = candidates
        .iter()
        .enumerate()
        .map(|(index, candidate)| ComparedRun {
            label: candidate.label.to_owned(),
            outcome: if index == baseline { Outcome::Baseline } else { Outcome::NotComparable },
            reasons: if index == baseline { Vec::new() } else { comparability::reasons(rules, first, candidate) },
            warnings: Vec::new(),
            change: None,
        })
        .collect();
    let basis = basis(&candidates, &compared);
    for (index, (candidate, compared)) in candidates.iter().zip(&mut compared).enumerate() {
        if index != baseline && compared.reasons.is_empty() {
            compared.reasons = comparability::workload_reasons(rules, basis, first, candidate);
        }
    }
    let breakdowns: Vec<Breakdown> = candidates.iter().map(|candidate| breakdown_of(candidate, basis)).collect();
    let mut pairs: Vec<Vec<PartPair>> = Vec::new();
    for (index, (candidate, compared)) in candidates.iter().zip(&mut compared).enumerate() {
        let is_comparable = index != baseline && compared.reasons.is_empty();
        let both = breakdowns.get(baseline).zip(breakdowns.get(index)).filter(|_| is_comparable);
        let Some((before, after)) = both else {
            pairs.push(Vec::new());
            continue;
        };
        let matched = match_parts(before, after);
        let change = change(rules, basis, (first, candidate), (before, after), &matched);
        compared.outcome = outcome(rules, &change);
        compared.warnings =
            comparability::warnings(rules, basis, first, candidate, &matched, change.noise_ns.is_some());
        compared.change = Some(change);
        pairs.push(matched);
    }
    let sections = sections::sections(basis, &candidates, &compared, &breakdowns, baseline, &pairs);
    Comparison { baseline, basis, runs: compared, sections }
}

/// [`Basis::Step`] if all runs that were not refused so far have steps.
fn basis(candidates: &[Candidate], compared: &[ComparedRun]) -> Basis {
    let mut accepted = candidates.iter().zip(compared).filter(|(_, compared)| compared.reasons.is_empty());
    if accepted.all(|(candidate, _)| candidate.steps.is_some()) { Basis::Step } else { Basis::Total }
}

fn breakdown_of(candidate: &Candidate, basis: Basis) -> Breakdown {
    let run = candidate.run;
    match &candidate.steps {
        Some(steps) if basis == Basis::Step => Breakdown::of(run, steps.count_in_bar(run), steps.idle_outside_ns(run)),
        _ => Breakdown::of(run, 1, 0),
    }
}

fn change(
    rules: &Rules,
    basis: Basis,
    (first, candidate): (&Candidate, &Candidate),
    (before, after): (&Breakdown, &Breakdown),
    pairs: &[PartPair],
) -> Change {
    let categories = changes_by_category(pairs);
    let largest_ns = categories.first().map_or(0, |first| first.delta_ns().unsigned_abs());
    let min_notable_ns = largest_ns as f64 * rules.thresholds.notable_category_change;
    let is_notable =
        |change: &&CategoryChange| change.delta_ns() != 0 && change.delta_ns().unsigned_abs() as f64 >= min_notable_ns;
    Change {
        baseline_ns: before.total_ns,
        time_ns: after.total_ns,
        noise_ns: if basis == Basis::Step { noise_ns(rules, first, candidate) } else { None },
        notable_categories: categories.iter().take_while(is_notable).count(),
        categories,
    }
}

/// `noise_standard_errors` times the standard error of the difference of the two mean step times.
fn noise_ns(rules: &Rules, first: &Candidate, other: &Candidate) -> Option<f64> {
    let variance = |candidate: &Candidate| candidate.steps.as_ref()?.variance_of_mean(&rules.thresholds);
    Some(rules.thresholds.noise_standard_errors * (variance(first)? + variance(other)?).sqrt())
}

fn outcome(rules: &Rules, change: &Change) -> Outcome {
    let size = change.delta_ns().unsigned_abs() as f64;
    if size == 0.0 {
        return Outcome::Same;
    }
    match change.noise_ns {
        Some(noise) if size <= noise => Outcome::WithinNoise,
        None if size < rules.thresholds.negligible_change * change.baseline_ns as f64 => Outcome::Same,
        _ if change.delta_ns() > 0 => Outcome::Slower,
        _ => Outcome::Faster,
    }
}
