//! Builds the tables of a comparison. The changes in the rows of a run add up to the whole change of that run.

use super::breakdown::{Breakdown, Part, PartPair, Presence};
use super::units::timelines;
use super::{Basis, Candidate, ComparedRun, Comparison, Outcome};
use crate::analysis::results::Run;
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
    comparison: &Comparison,
    candidates: &[Candidate],
    breakdowns: &[Breakdown],
    pairs: &[Vec<PartPair>],
) -> Sections {
    let Comparison { runs: compared, baseline, .. } = comparison;
    let mut sections = Sections::new();
    let mut put = |name: &str, section| sections.insert(name.to_owned(), section);
    put("compare_summary", summary(comparison, candidates, breakdowns));
    let mut categories = table("Changes by category", comparison, &CATEGORIES);
    let mut kernels = table("Changes by kernel", comparison, &KERNELS)
        .limit("Kernels are matched by name; addresses and function arguments are ignored, template arguments are not.")
        .limit(
            "A mean is elapsed time divided by launches. A change is split in two: the change in launches times the \
             baseline's mean, and the rest, which is due to longer or shorter launches.",
        );
    if let Some(before) = breakdowns.get(*baseline) {
        for ((compared, pairs), after) in compared.iter().zip(pairs).zip(breakdowns) {
            category_rows(&mut categories, compared);
            pairs.iter().for_each(|pair| kernel_row(&mut kernels, compared, pair, (before, after)));
        }
    }
    put("compare_categories", categories);
    put("compare_kernels", kernels);
    sections
}

fn table(title: &str, comparison: &Comparison, columns: &[&str]) -> Section {
    let derived_from = format!("elapsed time {}", per_unit(comparison));
    Section::new(title, &derived_from, columns).limit("The changes of a run add up to its total change.")
}

/// The unit of times as a phrase. Times are never summed over devices without the word device time.
fn per_unit(comparison: &Comparison) -> String {
    let several = comparison.timelines > 1;
    let mean = if several { ", mean over the devices" } else { "" };
    match comparison.basis {
        Basis::Step if comparison.has_work_outside_steps => {
            format!("per step of the engine, with the work around the steps{mean}")
        }
        Basis::Step => format!("per step of the engine{mean}"),
        Basis::Token => format!("per 1,000 tokens{mean}"),
        Basis::Range if several => format!("per range `{}`, as device time summed over the devices", comparison.range),
        Basis::Range => format!("per range `{}`", comparison.range),
        Basis::Launches => format!("for as many launches as in the baseline{mean}"),
        Basis::Total => format!("of the whole runs{mean}"),
    }
}

fn summary(comparison: &Comparison, candidates: &[Candidate], breakdowns: &[Breakdown]) -> Section {
    let Comparison { basis, runs: compared, .. } = comparison;
    let mut section = Section::new("Comparison", &format!("wall time {}", per_unit(comparison)), &SUMMARY);
    if matches!(basis, Basis::Step | Basis::Token) {
        section = section
            .limit("Noise is two standard errors of the difference, estimated from the spread of steps in each stage.");
    }
    if *basis != Basis::Total {
        section = section
            .limit("Wall, busy, idle and elapsed time are of the whole run, with the work outside of the units.");
    }
    if comparison.timelines > 1 {
        section = section.limit("Busy, idle and elapsed time are means over the devices of a run.");
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
            mean_over_devices(run, run.wall.bar_ns.saturating_sub(run.wall.cpu_ns)).into(),
            mean_over_devices(run, run.wall.cpu_ns).into(),
            mean_over_devices(run, run.totals.elapsed_ns).into(),
            steps.map(|steps| steps.count()).into(),
            steps.and_then(|steps| steps.mean(|stage| stage.median_ns)).into(),
            remarks.join("\n").into(),
        ]);
    }
    section
}

fn mean_over_devices(run: &Run, sum_ns: i64) -> i64 {
    i64::try_from(timelines(run)).ok().and_then(|timelines| sum_ns.checked_div(timelines)).unwrap_or(sum_ns)
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
        mean_count(launches_a),
        mean_count(launches_b),
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

/// A mean of counts. A whole one is shown like a count.
fn mean_count(mean: Option<f64>) -> Value {
    match mean {
        Some(mean) if mean.fract() == 0.0 => Value::Int(mean as i64),
        mean => mean.into(),
    }
}

fn ratio(baseline_ns: i64, time_ns: i64) -> Option<f64> {
    (baseline_ns > 0).then(|| time_ns as f64 / baseline_ns as f64)
}

fn share_pct(delta_ns: i64, total_ns: i64) -> Value {
    if total_ns == 0 { Value::Null } else { Value::Float(100.0 * delta_ns as f64 / total_ns as f64) }
}
