//! The tables of a comparison. Every change stands under the run that changed; those of a run add up to its whole change.

use super::parts::{Found, Pair, Part, Parts};
use super::{Basis, Compared, Outcome, Subject};
use crate::analysis::explain::Sections;
use crate::analysis::section::{Section, Value};

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
    subjects: &[Subject],
    found: &[Compared],
    parts: &[Parts],
    baseline: usize,
    pairs: &[Vec<Pair>],
) -> Sections {
    let mut sections = Sections::new();
    let mut put = |name: &str, section| sections.insert(name.to_owned(), section);
    put("compare_summary", summary(basis, subjects, found, parts));
    let mut categories = table("Changes by category", basis, &CATEGORIES);
    let mut kernels = table("Changes by kernel", basis, &KERNELS)
        .limit("Kernels are matched by their name without addresses and arguments; template arguments count.")
        .limit(
            "A mean is elapsed time over launches. More or fewer launches count with the baseline's mean, the rest of a \
             change is longer or shorter launches.",
        );
    if let Some(before) = parts.get(baseline) {
        for ((found, pairs), after) in found.iter().zip(pairs).zip(parts) {
            category_rows(&mut categories, found);
            pairs.iter().for_each(|pair| kernel_row(&mut kernels, found, pair, (before, after)));
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
    Section::new(title, derived_from, columns).limit("The changes of a run add up to its whole change.")
}

fn summary(basis: Basis, subjects: &[Subject], found: &[Compared], parts: &[Parts]) -> Section {
    let derived_from = match basis {
        Basis::Step => "wall time over all devices, per step of the engine",
        Basis::Total => "wall time over all devices of the whole runs",
    };
    let mut section = Section::new("Comparison", derived_from, &SUMMARY);
    if basis == Basis::Step {
        section =
            section.limit("Noise is two standard errors of the difference, from the spread of each stage's steps.");
    }
    for ((subject, found), parts) in subjects.iter().zip(found).zip(parts) {
        let (run, change) = (subject.run, found.change.as_ref());
        let remarks: Vec<&str> = found.reasons.iter().chain(&found.warnings).map(String::as_str).collect();
        let steps = subject.steps.as_ref();
        section.row([
            found.label.as_str().into(),
            found.outcome.word().into(),
            if found.outcome == Outcome::NotComparable { Value::Null } else { parts.total_ns.into() },
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

fn category_rows(section: &mut Section, found: &Compared) {
    let Some(change) = &found.change else { return };
    let whole = change.delta_ns();
    for own in &change.categories {
        section.row([
            found.label.as_str().into(),
            own.category.as_str().into(),
            own.baseline_ns.into(),
            own.time_ns.into(),
            own.delta_ns().into(),
            ratio(own.baseline_ns, own.time_ns).into(),
            part_of(own.delta_ns(), whole),
            own.matched_delta_ns.into(),
            own.new_ns.into(),
            own.gone_ns.saturating_neg().into(),
        ]);
    }
}

fn kernel_row(section: &mut Section, found: &Compared, pair: &Pair, (before, after): (&Parts, &Parts)) {
    let (Some(change), Some(part)) = (&found.change, pair.part()) else { return };
    let (baseline_ns, time_ns) = pair.times_ns();
    let launches =
        |parts: &Parts, part: Option<&Part>| part.filter(|part| part.launches > 0).map(|p| parts.launches(p));
    let (launches_a, launches_b) = (launches(before, pair.baseline), launches(after, pair.other));
    let causes = launches_a.zip(launches_b).map(|(a, b)| {
        let by_launches = ((b - a) * (baseline_ns as f64 / a)).round() as i64;
        (by_launches, pair.delta_ns().saturating_sub(by_launches))
    });
    section.row([
        found.label.as_str().into(),
        part.name.as_str().into(),
        part.category.as_str().into(),
        pair.found().word().into(),
        cause(pair.found(), causes).into(),
        launches_a.into(),
        launches_b.into(),
        launches_a.map(|launches| baseline_ns as f64 / launches).into(),
        launches_b.map(|launches| time_ns as f64 / launches).into(),
        baseline_ns.into(),
        time_ns.into(),
        pair.delta_ns().into(),
        ratio(baseline_ns, time_ns).into(),
        part_of(pair.delta_ns(), change.delta_ns()),
        causes.map(|causes| causes.0).into(),
        causes.map(|causes| causes.1).into(),
    ]);
}

/// What makes most of a change.
fn cause(found: Found, causes: Option<(i64, i64)>) -> &'static str {
    match (found, causes) {
        (Found::New, _) => "new",
        (Found::Gone, _) => "gone",
        (Found::Both, None | Some((0, 0))) => "",
        (Found::Both, Some((launches, length))) if launches.unsigned_abs() > length.unsigned_abs() => {
            if launches > 0 {
                "more launches"
            } else {
                "fewer launches"
            }
        }
        (Found::Both, Some((_, length))) => {
            if length > 0 {
                "longer launches"
            } else {
                "shorter launches"
            }
        }
    }
}

fn ratio(baseline_ns: i64, time_ns: i64) -> Option<f64> {
    (baseline_ns > 0).then(|| time_ns as f64 / baseline_ns as f64)
}

fn part_of(delta_ns: i64, whole_ns: i64) -> Value {
    if whole_ns == 0 { Value::Null } else { Value::Float(100.0 * delta_ns as f64 / whole_ns as f64) }
}
