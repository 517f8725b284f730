//! Builds the tables of a comparison. The changes in the rows of a run add up to the whole change of that run.

use super::breakdown::{Breakdown, Part, PartPair, Presence};
use super::{Basis, Candidate, ComparedRun, Outcome};
use crate::analysis::section::{Section, Sections, Value};

const SUMMARY: [&str; 14] = [
    "run",
    "outcome",
    "compared_ns",
    "delta_ns",
    "delta_pct",
    "ratio",
    "noise_ns",
    "wall_ns",
    "busy_ns",
    "idle_ns",
    "elapsed_ns",
    "steps",
    "median_step_ns",
    "remarks",
];

const CATEGORIES: [&str; 10] = [
    "run",
    "category",
    "baseline_ns",
    "compared_ns",
    "delta_ns",
    "ratio",
    "share_of_change_pct",
    "matched_delta_ns",
    "new_delta_ns",
    "gone_delta_ns",
];

const KERNELS: [&str; 16] = [
    "run",
    "kernel_name",
    "category",
    "found",
    "cause",
    "baseline_launches",
    "launches",
    "baseline_mean_ns",
    "mean_ns",
    "baseline_ns",
    "compared_ns",
    "delta_ns",
    "ratio",
    "share_of_change_pct",
    "launches_delta_ns",
    "length_delta_ns",
];

pub(super) fn sections(
    basis: Basis,
    candidates: &[Candidate],
    compared: &[ComparedRun],
    breakdowns: &[Breakdown],
    baseline: usize,
    pairs: &[Vec<PartPair>],
) -> Sections {
    let mut sections = Sections::new();
    let mut put = |name: &str, section| sections.insert(name.to_owned(), section);
    put("compare_summary", summary(basis, candidates, compared, breakdowns));
    let mut categories = table("Changes by category", basis, &CATEGORIES);
    let mut kernels = table("Changes by kernel", basis, &KERNELS)
        .limit("Kernels are matched by name; addresses and function arguments are ignored, template arguments are not.")
        .limit(
            "A mean is elapsed time divided by launches. A change is split in two: the change in launches times the \
             baseline's mean, and the rest, which is due to longer or shorter launches.",
        );
    if let Some(before) = breakdowns.get(baseline) {
        for ((compared, pairs), after) in compared.iter().zip(pairs).zip(breakdowns) {
            category_rows(&mut categories, compared);
            pairs.iter().for_each(|pair| kernel_row(&mut kernels, compared, pair, (before, after)));
        }
    }
    put("compare_categories", categories);
    put("compare_kernels", kernels);
    sections
}

fn table(title: &str, basis: Basis, columns: &[&str]) -> Section {
    let derived_from = match basis {
        Basis::Step => "elapsed time per step of the engine",
        Basis::Total => "elapsed time of the whole runs",
    };
    Section::new(title, derived_from, columns).limit("The changes of a run add up to its total change.")
}

fn summary(basis: Basis, candidates: &[Candidate], compared: &[ComparedRun], breakdowns: &[Breakdown]) -> Section {
    let derived_from = match basis {
        Basis::Step => "wall time over all devices, per step of the engine",
        Basis::Total => "wall time over all devices of the whole runs",
    };
    let mut section = Section::new("Comparison", derived_from, &SUMMARY);
    if basis == Basis::Step {
        section = section
            .limit("Noise is two standard errors of the difference, estimated from the spread of steps in each stage.");
    }
    for ((candidate, compared), breakdown) in candidates.iter().zip(compared).zip(breakdowns) {
        let (run, change) = (candidate.run, compared.change.as_ref());
        let remarks: Vec<&str> = compared.reasons.iter().chain(&compared.warnings).map(String::as_str).collect();
        let steps = candidate.steps.as_ref();
        section.row([
            compared.label.as_str().into(),
            compared.outcome.word().into(),
            if compared.outcome == Outcome::NotComparable { Value::Null } else { breakdown.total_ns.into() },
            change.map(|change| change.delta_ns()).into(),
            change.and_then(|change| change.pct()).into(),
            change.and_then(|change| ratio(change.baseline_ns, change.time_ns)).into(),
            change.and_then(|change| change.noise_ns).into(),
            run.wall.wall_ns.into(),
            run.totals.union_ns.into(),
            run.wall.cpu_ns.into(),
            run.totals.elapsed_ns.into(),
            steps.map(|steps| steps.count()).into(),
            steps.and_then(|steps| steps.mean(|stage| stage.median_ns)).into(),
            remarks.join("\n").into(),
        ]);
    }
    section
}

fn category_rows(section: &mut Section, compared: &ComparedRun) {
    let Some(change) = &compared.change else { return };
    let total_ns = change.delta_ns();
    for category in &change.categories {
        section.row([
            compared.label.as_str().into(),
            category.category.as_str().into(),
            category.baseline_ns.into(),
            category.time_ns.into(),
            category.delta_ns().into(),
            ratio(category.baseline_ns, category.time_ns).into(),
            share_pct(category.delta_ns(), total_ns),
            category.matched_delta_ns.into(),
            category.new_ns.into(),
            category.gone_ns.saturating_neg().into(),
        ]);
    }
}

fn kernel_row(
    section: &mut Section,
    compared: &ComparedRun,
    pair: &PartPair,
    (before, after): (&Breakdown, &Breakdown),
) {
    let (Some(change), Some(part)) = (&compared.change, pair.part()) else { return };
    let (baseline_ns, time_ns) = pair.times_ns();
    let launches = |breakdown: &Breakdown, part: Option<&Part>| {
        part.filter(|part| part.launches > 0).map(|part| breakdown.launches(part))
    };
    let (launches_a, launches_b) = (launches(before, pair.baseline), launches(after, pair.other));
    let causes = launches_a.zip(launches_b).map(|(a, b)| {
        let by_launches = ((b - a) * (baseline_ns as f64 / a)).round() as i64;
        (by_launches, pair.delta_ns().saturating_sub(by_launches))
    });
    section.row([
        compared.label.as_str().into(),
        part.name.as_str().into(),
        part.category.as_str().into(),
        pair.presence().word().into(),
        cause(pair.presence(), causes).into(),
        launches_a.into(),
        launches_b.into(),
        launches_a.map(|launches| baseline_ns as f64 / launches).into(),
        launches_b.map(|launches| time_ns as f64 / launches).into(),
        baseline_ns.into(),
        time_ns.into(),
        pair.delta_ns().into(),
        ratio(baseline_ns, time_ns).into(),
        share_pct(pair.delta_ns(), change.delta_ns()),
        causes.map(|causes| causes.0).into(),
        causes.map(|causes| causes.1).into(),
    ]);
}

fn cause(presence: Presence, causes: Option<(i64, i64)>) -> &'static str {
    match (presence, causes) {
        (Presence::New, _) => "new",
        (Presence::Gone, _) => "gone",
        (Presence::Both, None | Some((0, 0))) => "",
        (Presence::Both, Some((launches, length))) => {
            match (launches.unsigned_abs() > length.unsigned_abs(), launches > 0, length > 0) {
                (true, true, _) => "more launches",
                (true, false, _) => "fewer launches",
                (false, _, true) => "longer launches",
                (false, _, false) => "shorter launches",
            }
        }
    }
}

fn ratio(baseline_ns: i64, time_ns: i64) -> Option<f64> {
    (baseline_ns > 0).then(|| time_ns as f64 / baseline_ns as f64)
}

fn share_pct(delta_ns: i64, total_ns: i64) -> Value {
    if total_ns == 0 { Value::Null } else { Value::Float(100.0 * delta_ns as f64 / total_ns as f64) }
}
