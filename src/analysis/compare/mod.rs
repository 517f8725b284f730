//! Compares runs with a baseline: how much longer or shorter, in which categories and kernels, and whether that can be said
//! at all.
//!
//! What is compared is the run's bar, wall time over its devices, because it falls into exact parts: kernels, what several
//! ops share, what nothing fills. Where all runs tell the steps of their engine it is divided by them, so that a longer
//! capture is no slower one, and idle time before the first and behind the last step is left out; otherwise totals are compared, and it is said that this takes the work for the same. Noise is
//! two standard errors of the difference, from the spread of the steps of each stage; without it nothing is called noise.

mod honesty;
mod parts;
mod rules;
mod sections;
mod steps;
#[cfg(test)]
mod tests;

pub use parts::CategoryChange;

use super::explain::Sections;
use super::results::Run;
use parts::{Pair, Parts, by_category, matched};
use rules::Rules;
use steps::Steps;

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Time per step of the engine.
    Step,
    /// The time of the whole run.
    Total,
}

/// How a run stands to the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is the baseline.
    Baseline,
    /// It takes longer, beyond noise where that is known.
    Slower,
    /// It takes less time, beyond noise where that is known.
    Faster,
    /// The difference is within noise.
    WithinNoise,
    /// There is no difference to speak of.
    Same,
    /// No comparison could be made.
    NotComparable,
}

impl Outcome {
    /// As tables and scripts have it.
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

/// Runs beside a baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// The place of the baseline among the runs.
    pub baseline: usize,
    /// What is compared, of all runs alike.
    pub basis: Basis,
    /// One a run, in the order given.
    pub runs: Vec<Compared>,
    /// `compare_summary`, `compare_categories`, `compare_kernels`.
    pub sections: Sections,
}

impl Comparison {
    /// Could any run be compared with the baseline?
    pub fn is_possible(&self) -> bool {
        self.runs.iter().any(|run| run.change.is_some())
    }

    /// Is any run slower than the baseline, and by more than this?
    pub fn has_regressed(&self, pct: f64) -> bool {
        self.runs.iter().any(|run| {
            let change = run.change.as_ref().filter(|_| run.outcome == Outcome::Slower);
            change.and_then(Change::pct).is_some_and(|changed| changed > pct)
        })
    }
}

/// One run of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// What it is called.
    pub label: String,
    /// How it stands to the baseline.
    pub outcome: Outcome,
    /// Why it cannot be compared, each a sentence with the remedy.
    pub reasons: Vec<String>,
    /// What to mind, a sentence each.
    pub warnings: Vec<String>,
    /// What changed; `None` for the baseline and where no comparison could be made.
    pub change: Option<Change>,
}

/// What changed from the baseline to a run, of the whole bar or of a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The baseline's time.
    pub baseline_ns: i64,
    /// The run's time.
    pub time_ns: i64,
    /// What chance makes of two equal runs; `None` where that is not known.
    pub noise_ns: Option<f64>,
    /// By category, the largest change first; the changes add up to that of the whole.
    pub categories: Vec<CategoryChange>,
    /// How many of them are worth a word.
    pub worth_a_word: usize,
}

impl Change {
    /// How much longer the run takes.
    pub fn delta_ns(&self) -> i64 {
        self.time_ns.saturating_sub(self.baseline_ns)
    }

    /// The same as a part of a hundred of the baseline; `None` where that is nothing.
    pub fn pct(&self) -> Option<f64> {
        (self.baseline_ns != 0).then(|| 100.0 * self.delta_ns() as f64 / self.baseline_ns as f64)
    }
}

/// A run with its label and what it tells of its steps.
#[derive(Debug, Clone)]
struct Subject<'a> {
    label: &'a str,
    run: &'a Run,
    steps: Option<Steps>,
}

/// Compares these runs, each with its label, with the one at `baseline`; the first where there is none there.
pub fn compare(runs: &[(&str, &Run)], baseline: usize) -> Comparison {
    let rules = Rules::embedded();
    let baseline = if baseline < runs.len() { baseline } else { 0 };
    let subjects: Vec<Subject> =
        runs.iter().map(|&(label, run)| Subject { label, run, steps: Steps::of(run, &rules.thresholds) }).collect();
    let Some(first) = subjects.get(baseline) else {
        return Comparison { baseline, basis: Basis::Total, runs: Vec::new(), sections: Sections::new() };
    };
    let mut found: Vec<Compared> = subjects
        .iter()
        .enumerate()
        .map(|(at, subject)| Compared {
            label: subject.label.to_owned(),
            outcome: if at == baseline { Outcome::Baseline } else { Outcome::NotComparable },
            reasons: if at == baseline { Vec::new() } else { honesty::reasons(rules, first, subject) },
            warnings: Vec::new(),
            change: None,
        })
        .collect();
    let basis = basis(&subjects, &found);
    for (at, (subject, found)) in subjects.iter().zip(&mut found).enumerate() {
        if at != baseline && found.reasons.is_empty() {
            honesty::reasons_of_work(rules, basis, first, subject).into_iter().for_each(|why| found.reasons.push(why));
        }
    }
    let parts: Vec<Parts> = subjects.iter().map(|subject| parts_of(subject, basis)).collect();
    let mut pairs: Vec<Vec<Pair>> = Vec::new();
    for (at, (subject, found)) in subjects.iter().zip(&mut found).enumerate() {
        let both = parts.get(baseline).zip(parts.get(at)).filter(|_| at != baseline && found.reasons.is_empty());
        let Some((before, after)) = both else {
            pairs.push(Vec::new());
            continue;
        };
        let matched = matched(before, after);
        let change = change(rules, basis, (first, subject), (before, after), &matched);
        found.outcome = outcome(rules, &change);
        found.warnings = honesty::warnings(rules, basis, first, subject, &matched, change.noise_ns.is_some());
        found.change = Some(change);
        pairs.push(matched);
    }
    let sections = sections::sections(basis, &subjects, &found, &parts, baseline, &pairs);
    Comparison { baseline, basis, runs: found, sections }
}

/// Steps, where all runs that may be compared tell theirs.
fn basis(subjects: &[Subject], found: &[Compared]) -> Basis {
    let mut wanted = subjects.iter().zip(found).filter(|(_, found)| found.reasons.is_empty());
    if wanted.all(|(subject, _)| subject.steps.is_some()) { Basis::Step } else { Basis::Total }
}

fn parts_of(subject: &Subject, basis: Basis) -> Parts {
    let steps = subject.steps.as_ref().filter(|_| basis == Basis::Step);
    steps.map_or_else(
        || Parts::of(subject.run, 1, 0),
        |steps| Parts::of(subject.run, steps.in_bar(subject.run), steps.idle_outside_ns(subject.run)),
    )
}

fn change(
    rules: &Rules,
    basis: Basis,
    (first, subject): (&Subject, &Subject),
    (before, after): (&Parts, &Parts),
    pairs: &[Pair],
) -> Change {
    let categories = by_category(pairs);
    let least =
        categories.first().map_or(0.0, |first| first.delta_ns().unsigned_abs() as f64 * rules.thresholds.worth_a_word);
    let is_told = |change: &&CategoryChange| change.delta_ns() != 0 && change.delta_ns().unsigned_abs() as f64 >= least;
    Change {
        baseline_ns: before.total_ns,
        time_ns: after.total_ns,
        noise_ns: if basis == Basis::Step { noise_ns(rules, first, subject) } else { None },
        worth_a_word: categories.iter().take_while(is_told).count(),
        categories,
    }
}

/// So many standard errors of the difference of two means.
fn noise_ns(rules: &Rules, first: &Subject, other: &Subject) -> Option<f64> {
    let variance = |subject: &Subject| subject.steps.as_ref()?.variance(&rules.thresholds);
    Some(rules.thresholds.noise_errors * (variance(first)? + variance(other)?).sqrt())
}

fn outcome(rules: &Rules, change: &Change) -> Outcome {
    let size = change.delta_ns().unsigned_abs() as f64;
    if size == 0.0 {
        return Outcome::Same;
    }
    match change.noise_ns {
        Some(noise) if size <= noise => Outcome::WithinNoise,
        None if size < rules.thresholds.no_change * change.baseline_ns as f64 => Outcome::Same,
        _ if change.delta_ns() > 0 => Outcome::Slower,
        _ => Outcome::Faster,
    }
}
