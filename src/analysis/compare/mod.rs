//! Compares finished runs with a baseline: how much the time changed, in which categories and kernels, and whether the
//! runs can be compared at all. Reads only sums by kernel name, never single GPU ops.
//!
//! - The compared quantity is the run's bar, wall time summed over its device timelines, divided by the amount of work. It splits
//!   exactly into kernels, shared time and idle time (see `breakdown`), so the changes of the rows of a table add up to the whole
//!   change.
//! - All runs share one [`Basis`], the first that every comparable run has: steps (idle time before the first and after the last
//!   step is left out; per token if other GPUs or engines have other batches), a repeated range, or the common ratio of the launch counts of shared kernels (see `units`). Totals are
//!   compared only if that ratio is 1. Without a certain unit there is no comparison.
//! - The outcome per step is that of the main stage, whose steps are compared with each other (see `step_shifts`): a long step or another
//!   mixture of stages does not change it. The other stages are compared likewise. Exports have these rows also of a refused pair.
//! - Otherwise, noise is a multiple of the standard error of the difference of the two mean step times. Without steps it is unknown.
//! - Layers are compared by the role of their kernels (see `roles`), also if the pair is refused otherwise.
//! - A pair is refused, with a reason and a remedy, if the captures measure different things (see `comparability`).
//!
//! Thresholds and sentences are in `patterns/compare.json`. `report::compare` writes a comparison as sentences, tables and
//! JSON (`gpuprism-comparison/1`).

mod breakdown;
mod comparability;
mod mean_change;
pub(crate) mod paths;
pub(crate) mod roles;
mod rules;
pub(crate) mod sections;
mod shift;
pub(crate) mod step_shifts;
pub(crate) mod step_times;
mod steps;
#[cfg(test)]
mod tests;
mod units;

pub use breakdown::CategoryChange;
pub(crate) use step_times::step_times;

use super::results::Run;
use crate::analysis::section::{Sections, words};
use breakdown::{Breakdown, PartPair, changes_by_category, match_parts};
pub use mean_change::MeanChange;
use rules::Rules;
use std::collections::BTreeSet;
use step_shifts::StageShifts;
pub use step_shifts::{ChangeParts, Load, StageShift};
use steps::Steps;
use units::{LaunchRatio, RepeatedRange};

/// The unit in which times are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Time per step of the engine.
    Step,
    /// Time per 1,000 tokens of the steps: for other GPUs or engines whose steps have other numbers of tokens.
    Token,
    /// Time per repeated range.
    Range,
    /// Time for the work of the baseline: times are divided by the common ratio of launches to those of the baseline.
    Launches,
    /// Time of the whole run. All runs launched the kernels that they share equally often.
    Total,
}

impl Basis {
    /// The word used in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Self::Step => "step",
            Self::Token => "token",
            Self::Range => "range",
            Self::Launches => "launches",
            Self::Total => "total",
        }
    }
}

/// The result for one run relative to the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
    #[default]
    NotComparable,
}

words!(
    Outcome:
    Baseline = "baseline",
    Slower = "slower",
    Faster = "faster",
    WithinNoise = "within noise",
    Same = "same",
    NotComparable = "not comparable",
);

/// Runs compared with a baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Index of the baseline in `runs`.
    pub baseline: usize,
    /// The unit of all compared times.
    pub basis: Basis,
    /// The name of the range if the basis is [`Basis::Range`], else empty.
    pub range: String,
    /// How the steps were found, in words; empty if the unit is not a step.
    pub steps_found: String,
    /// The largest number of device timelines in a comparable run.
    pub timelines: u64,
    /// Whether times per step include much work before the first step or after the last one.
    pub has_work_outside_steps: bool,
    /// One entry per run, in the order given.
    pub runs: Vec<ComparedRun>,
    /// What limits the trust in the numbers of the captures.
    pub trust: Vec<TrustRow>,
    /// `compare_summary`, `compare_categories`, `compare_kernels`, if stages have steps in both runs `compare_steps`, if both were replayed `compare_paths`, if layers or floors are known `compare_roles` and
    /// `compare_floor`, and if several runs have decode steps with a batch and a context `compare_step_times`.
    pub sections: Sections,
}

impl Comparison {
    /// True if at least one run could be compared with the baseline.
    pub fn is_possible(&self) -> bool {
        self.runs.iter().any(|run| run.change.is_some())
    }

    /// True if at least one run on the GPU of the baseline is slower by more than `pct` percent, and beyond noise where noise is known, or
    /// if the steps of one of its stages are, the usual ones or, beyond noise, their mean.
    pub fn has_regressed(&self, pct: f64) -> bool {
        let is_above = |changed: Option<f64>| changed.is_some_and(|changed| changed > pct);
        self.runs.iter().filter(|run| run.other_gpus.is_none()).any(|run| {
            let mut others = run.other_stages.iter().filter(|stage| stage.is_proven());
            let mut stages = run.main_stage.iter().chain(&run.other_stages);
            run.outcome == Outcome::Slower && is_above(run.pct())
                || others.any(|stage| is_above(stage.pct()))
                || stages.any(|stage| is_above(stage.proven_pct_of_long_steps()))
        })
    }
}

/// A property of the captures that makes some of their numbers misleading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustRow {
    /// A stable identifier: `fixed-time-window`.
    pub id: &'static str,
    /// Index of the run that is compared with the baseline.
    pub run: usize,
    /// The property, as a sentence.
    pub text: String,
    /// The numbers that it makes misleading.
    pub affects: String,
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
    /// What can be said of the change of a run that cannot be compared and has no stage in common with the baseline, with the assumption, in a
    /// sentence. It is no verdict.
    pub estimate: Option<String>,
    /// Of a run that cannot be compared as a whole: the stages that the baseline has with the same load, as far as both state it. They are an
    /// estimate.
    pub estimated_stages: Vec<StageShift>,
    /// Caveats of the comparison, one sentence each.
    pub warnings: Vec<String>,
    /// The GPUs of the baseline and of the run in words, if they differ.
    pub other_gpus: Option<[String; 2]>,
    /// The number of units of work in the run, in the unit of [`Comparison::basis`]: steps or tokens per device, ranges, or
    /// launches relative to the baseline. `None` if unknown.
    pub units: Option<f64>,
    /// The difference; `None` for the baseline and for runs that were not compared.
    pub change: Option<Change>,
    /// The stage that decides the outcome; `None` if the unit is not a step, or if the runs have no stage of equal load in common.
    pub main_stage: Option<StageShift>,
    /// The other stages that both runs have; empty for runs that were not compared.
    pub other_stages: Vec<StageShift>,
}

impl ComparedRun {
    /// The change in percent of the baseline, that of a step of the main stage if there is one.
    pub fn pct(&self) -> Option<f64> {
        self.main_stage.map_or_else(|| self.change.as_ref().and_then(Change::pct), |stage| stage.pct())
    }
}

/// The difference between the baseline and a run, in the unit of [`Comparison::basis`]: means, which add up.
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

/// Where the changes of all categories without their signs are more than this many times their sum, no part has a share of it.
const MAX_MOVED: f64 = 2.0;

impl Change {
    /// The run's time minus the baseline's.
    pub fn delta_ns(&self) -> i64 {
        self.time_ns.saturating_sub(self.baseline_ns)
    }

    /// A part of [`Change::delta_ns`] in percent of it. `None` if categories changed in both directions by so much that parts would be
    /// several times the whole.
    pub fn share_pct(&self, part_ns: i64) -> Option<f64> {
        let total = self.delta_ns() as f64;
        let moved: f64 = self.categories.iter().map(|category| (category.delta_ns() as f64).abs()).sum();
        (total != 0.0 && moved <= MAX_MOVED * total.abs()).then(|| 100.0 * part_ns as f64 / total)
    }

    /// [`Change::delta_ns`] in percent of the baseline; `None` if the baseline's time is zero.
    pub fn pct(&self) -> Option<f64> {
        (self.baseline_ns != 0).then(|| 100.0 * self.delta_ns() as f64 / self.baseline_ns as f64)
    }
}

/// A run to compare, with its label and its units of work.
#[derive(Debug, Clone)]
struct Candidate<'a> {
    label: &'a str,
    run: &'a Run,
    steps: Option<Steps>,
    range: Option<RepeatedRange>,
    /// The steps of its stages, compared with those of the baseline; empty for the baseline.
    stages: StageShifts,
    /// Whether a difference from the baseline says nothing on the software alone.
    is_other_setup: bool,
}

impl<'a> Candidate<'a> {
    fn new(label: &'a str, run: &'a Run, rules: &Rules) -> Self {
        let (steps, range) = (Steps::of(run, &rules.thresholds), RepeatedRange::of(run, &rules.thresholds));
        Self { label, run, steps, range, stages: StageShifts::default(), is_other_setup: false }
    }

    /// Whether steps of equal load are compared, so that other steps of the runs need not be alike.
    fn is_compared_by_stage(&self) -> bool {
        !self.is_other_setup && self.stages.main().is_some_and(|main| main.interval_ns.is_some())
    }

    /// The mean number of tokens in a step, if every stage states it.
    fn tokens_per_step(&self) -> Option<f64> {
        self.steps.as_ref()?.mean(|stage| stage.tokens).filter(|tokens| *tokens > 0.0)
    }
}

/// Compares labelled runs with the one at index `baseline`; an index out of range means the first run.
pub fn compare(runs: &[(&str, &Run)], baseline: usize) -> Comparison {
    let rules = Rules::embedded();
    let baseline = if baseline < runs.len() { baseline } else { 0 };
    let mut candidates: Vec<Candidate> = runs.iter().map(|&(label, run)| Candidate::new(label, run, rules)).collect();
    let Some(first) = &candidates.get(baseline).cloned() else { return Comparison::empty(baseline) };
    for (_, candidate) in candidates.iter_mut().enumerate().filter(|(index, _)| *index != baseline) {
        candidate.stages = StageShifts::of(&rules.thresholds, first, candidate);
        candidate.is_other_setup = comparability::is_other_setup(rules, first.run, candidate.run);
    }
    let mut compared: Vec<ComparedRun> = candidates
        .iter()
        .enumerate()
        .map(|(index, candidate)| ComparedRun {
            label: candidate.label.to_owned(),
            outcome: if index == baseline { Outcome::Baseline } else { Outcome::NotComparable },
            reasons: if index == baseline { Vec::new() } else { comparability::reasons(rules, first, candidate) },
            estimate: None,
            estimated_stages: Vec::new(),
            warnings: Vec::new(),
            other_gpus: comparability::other_gpus(rules, first.run, candidate.run),
            units: None,
            change: None,
            main_stage: None,
            other_stages: Vec::new(),
        })
        .collect();
    // Refused runs do not affect the basis of the others.
    let accepted: Vec<bool> = compared.iter().map(|run| run.reasons.is_empty()).collect();
    let launches: Vec<Option<LaunchRatio>> = candidates
        .iter()
        .zip(&accepted)
        .enumerate()
        .map(|(index, (candidate, accepted))| {
            let is_other = index != baseline && *accepted;
            is_other.then(|| LaunchRatio::of(first.run, candidate.run, &rules.thresholds))
        })
        .collect();
    let basis = basis(rules, first, &candidates, &accepted, &launches);
    let mut trust = Vec::new();
    for (index, ((candidate, compared), launches)) in candidates.iter().zip(&mut compared).zip(&launches).enumerate() {
        if let Some(launches) = *launches {
            compared.reasons = comparability::workload_reasons(rules, basis, first, candidate, launches);
            let fixed_time = comparability::fixed_time(rules, basis, first, candidate, launches);
            trust.extend(fixed_time.map(|row| TrustRow { run: index, ..row }));
        }
        compared.units = units::count(basis, candidate, *launches).filter(|_| compared.reasons.is_empty());
    }
    let breakdowns: Vec<Breakdown> = candidates
        .iter()
        .zip(&launches)
        .map(|(candidate, launches)| {
            let excluded_idle_ns = match &candidate.steps {
                Some(steps) if matches!(basis, Basis::Step | Basis::Token) => steps.idle_outside_ns(candidate.run),
                _ => 0,
            };
            Breakdown::of(candidate.run, units::amount(basis, candidate, *launches), excluded_idle_ns)
        })
        .collect();
    let mut pairs: Vec<Vec<PartPair>> = Vec::new();
    for (index, (candidate, compared)) in candidates.iter().zip(&mut compared).enumerate() {
        let is_comparable = index != baseline && compared.reasons.is_empty();
        let both = breakdowns.get(baseline).zip(breakdowns.get(index)).filter(|_| is_comparable);
        let Some((before, after)) = both else {
            pairs.push(Vec::new());
            continue;
        };
        let matched = match_parts(before, after);
        let mut change = change(rules, basis, (first, candidate), (before, after), &matched);
        compared.main_stage = candidate.stages.main().filter(|_| basis == Basis::Step).copied();
        let main = compared.main_stage.map(|main| main.stage);
        compared.other_stages = candidate.stages.iter().filter(|stage| Some(stage.stage) != main).copied().collect();
        compared.outcome = compared.main_stage.map_or_else(|| outcome(rules, &change), |stage| stage.outcome);
        if comparability::has_other_mix(rules, first, candidate) {
            change.notable_categories = 0;
        }
        let is_noise_known = compared.main_stage.map_or(change.noise_ns.is_some(), |stage| stage.interval_ns.is_some());
        compared.warnings = comparability::warnings(rules, basis, first, candidate, &matched, is_noise_known);
        let changed = compared.other_stages.iter().filter(|stage| stage.is_proven());
        compared.warnings.extend(changed.map(|stage| comparability::changed_stage(rules, first, candidate, stage)));
        compared.change = Some(change);
        pairs.push(matched);
    }
    for ((candidate, compared), launches) in candidates.iter().zip(&mut compared).zip(&launches) {
        if !compared.reasons.is_empty() {
            compared.estimated_stages = candidate.stages.estimated();
            let launches = launches.filter(|_| compared.estimated_stages.is_empty());
            compared.estimate = comparability::estimate(rules, first, candidate, launches);
        }
    }
    let range = first.range.as_ref().filter(|_| basis == Basis::Range).map_or("", |range| range.name.as_str());
    let comparable = candidates.iter().zip(&compared).filter(|(_, compared)| compared.reasons.is_empty());
    let timelines = comparable.map(|(candidate, _)| units::timelines(candidate.run)).max().unwrap_or(1);
    let outside = candidates.iter().zip(&compared).filter(|(_, compared)| compared.reasons.is_empty());
    let outside = outside.filter_map(|(candidate, _)| Some(candidate.steps.as_ref()?.work_outside_share));
    let max_outside = rules.thresholds.notable_work_outside_steps;
    let mut comparison = Comparison {
        has_work_outside_steps: basis == Basis::Step && outside.fold(0.0, f64::max) > max_outside,
        baseline,
        basis,
        range: range.to_owned(),
        steps_found: if basis == Basis::Step { steps_found(&candidates) } else { String::new() },
        timelines,
        runs: compared,
        trust,
        sections: Sections::new(),
    };
    comparison.sections = sections::sections(&comparison, &candidates, &breakdowns, &pairs);
    // Layers are compared by role also if the runs as a whole cannot be, for example because of different work.
    let others: Vec<&Candidate> =
        candidates.iter().enumerate().filter(|(index, _)| *index != baseline).map(|(_, other)| other).collect();
    let compared = candidates.iter().zip(&comparison.runs).filter(|(_, run)| run.outcome != Outcome::Baseline);
    let shifts = compared.flat_map(|(candidate, run)| candidate.stages.rows(candidate.label, run.change.is_some()));
    let shifts = step_shifts::table(shifts.collect());
    if !shifts.rows.is_empty() {
        shifts.put(&mut comparison.sections);
    }
    let paths = paths::paths(first, &others);
    if !paths.rows.is_empty() {
        paths.put(&mut comparison.sections);
    }
    let (roles, floors) = (roles::roles(first, &others), roles::floors(first, &others));
    if !roles.rows.is_empty() {
        roles.put(&mut comparison.sections);
    }
    if !floors.rows.is_empty() {
        floors.put(&mut comparison.sections);
    }
    if let Some(step_times) = step_times(runs) {
        step_times.put(&mut comparison.sections);
    }
    comparison
}

impl Comparison {
    /// A comparison of no runs.
    fn empty(baseline: usize) -> Self {
        let (range, sections) = (String::new(), Sections::new());
        Self {
            baseline,
            basis: Basis::Total,
            range,
            steps_found: String::new(),
            timelines: 1,
            has_work_outside_steps: false,
            runs: Vec::new(),
            trust: Vec::new(),
            sections,
        }
    }
}

/// How the steps of all runs were found: `from annotations`, or several ways.
fn steps_found(candidates: &[Candidate]) -> String {
    let ways: BTreeSet<&str> = candidates.iter().filter_map(|run| run.steps.as_ref()).flat_map(Steps::found).collect();
    ways.into_iter().collect::<Vec<_>>().join(" and ")
}

/// The first basis that all accepted runs have.
fn basis(
    rules: &Rules,
    first: &Candidate,
    candidates: &[Candidate],
    accepted: &[bool],
    launches: &[Option<LaunchRatio>],
) -> Basis {
    let all = |has_unit: &dyn Fn(&Candidate) -> bool| {
        candidates.iter().zip(accepted).all(|(candidate, accepted)| !accepted || has_unit(candidate))
    };
    let range = first.range.as_ref();
    let has_range =
        |candidate: &Candidate| candidate.range.as_ref().zip(range).is_some_and(|(own, first)| own.name == first.name);
    if all(&|candidate| candidate.steps.is_some()) {
        let is_per_token = all(&|candidate| candidate.tokens_per_step().is_some())
            && candidates
                .iter()
                .zip(accepted)
                .any(|(candidate, accepted)| *accepted && needs_tokens(rules, first, candidate));
        if is_per_token { Basis::Token } else { Basis::Step }
    } else if all(&has_range) {
        Basis::Range
    } else if launches.iter().flatten().all(|launches| launches.is_equal(&rules.thresholds)) {
        Basis::Total
    } else {
        Basis::Launches
    }
}

/// True if steps of runs on other GPUs or engines do so different work that only their tokens can be compared.
fn needs_tokens(rules: &Rules, first: &Candidate, other: &Candidate) -> bool {
    let steps = first.steps.as_ref().zip(other.steps.as_ref());
    let ratio = rules.thresholds.max_work_per_step_ratio;
    steps.is_some_and(|(a, b)| comparability::differing_work_per_step(a, b, ratio).is_some())
        && comparability::is_other_setup(rules, first.run, other.run)
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
        noise_ns: noise_ns(rules, basis, first, candidate),
        notable_categories: categories.iter().take_while(is_notable).count(),
        categories,
    }
}

/// `noise_standard_errors` times the standard error of the difference of the two mean step times, or of these per token.
fn noise_ns(rules: &Rules, basis: Basis, first: &Candidate, other: &Candidate) -> Option<f64> {
    let units_per_step = |candidate: &Candidate| match basis {
        Basis::Step => Some(1.0),
        Basis::Token => Some(candidate.tokens_per_step()? / units::TOKENS as f64),
        Basis::Range | Basis::Launches | Basis::Total => None,
    };
    let variance = |candidate: &Candidate| {
        let units = units_per_step(candidate)?;
        Some(candidate.steps.as_ref()?.variance_of_mean(&rules.thresholds)? / (units * units))
    };
    let standard_errors = rules.thresholds.noise_standard_errors;
    Some(mean_change::noise_of_difference(standard_errors, variance(first)?, variance(other)?))
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
