//! Builds the tables of a comparison. The changes in the rows of a run add up to the whole change of that run.

use super::breakdown::{Breakdown, Part, PartPair, Presence};
use super::units::timelines;
use super::{Basis, Candidate, ComparedRun, Comparison, Outcome};
use crate::analysis::results::Run;
use crate::analysis::section::{
    Answer, CategoryName, KernelName, MeanCount, MeanNs, Pct, Sections, TypedSection, section,
};
use crate::analysis::structure::stages::Stage;
use crate::trace::Ns;
use crate::words::compare::{self as words, UnitOfWork};

section! {
    /// One row per run.
    pub(crate) struct CompareSummary("compare_summary", "Comparison");
    row CompareRunRow {
        run: String,
        outcome: Outcome,
        stage: Option<Stage>,
        stage_pct: Option<Pct> = "Change of its steps",
        compared_ns: Option<Ns> = "Time",
        delta_ns: Option<Ns> = "Change",
        delta_pct: Option<Pct> = "Change",
        ratio: Option<f64>,
        noise_ns: Option<MeanNs>,
        wall_ns: Ns,
        busy_ns: Ns,
        idle_ns: Ns,
        elapsed_ns: Ns,
        steps: Option<u64>,
        remarks: String,
    }
}

section! {
    /// One row per run and category.
    pub(crate) struct CompareCategories("compare_categories", "Changes by category");
    row CompareCategoryRow {
        run: String,
        category: CategoryName,
        baseline_ns: Ns,
        compared_ns: Ns = "Time",
        delta_ns: Ns = "Change",
        ratio: Option<f64>,
        share_of_change_pct: Option<Pct> = "Of the change",
        matched_delta_ns: Ns = "Same kernels",
        new_delta_ns: Ns = "New kernels",
        gone_delta_ns: Ns = "Gone kernels",
    }
}

section! {
    /// One row per run and kernel.
    pub(crate) struct CompareKernels("compare_kernels", "Changes by kernel");
    row CompareKernelRow {
        run: String,
        kernel_name: KernelName = "Kernel",
        category: CategoryName,
        found: Presence = "Found in",
        cause: String,
        baseline_launches: Option<MeanCount> = "Launches, base",
        launches: Option<MeanCount>,
        baseline_mean_ns: Option<MeanNs> = "Mean, base",
        mean_ns: Option<MeanNs>,
        baseline_ns: Ns,
        compared_ns: Ns = "Time",
        delta_ns: Ns = "Change",
        ratio: Option<f64>,
        share_of_change_pct: Option<Pct> = "Of the change",
        launches_delta_ns: Option<Ns> = "Change by launches",
        length_delta_ns: Option<Ns> = "Change by duration",
    }
}

pub(super) fn sections(
    comparison: &Comparison,
    candidates: &[Candidate],
    breakdowns: &[Breakdown],
    pairs: &[Vec<PartPair>],
) -> Sections {
    let Comparison { runs: compared, baseline, .. } = comparison;
    let mut sections = Sections::new();
    summary(comparison, candidates, breakdowns).put(&mut sections);
    let mut categories: Answer<CompareCategories> = changes(comparison);
    let mut kernels: Answer<CompareKernels> = changes(comparison)
        .limit("Kernels are matched by name; addresses and function arguments are ignored, template arguments are not.")
        .limit(
            "A mean is elapsed time divided by launches. A change is split in two: the change in launches times the \
             baseline's mean, and the rest, which is due to longer or shorter launches.",
        );
    if let Some(before) = breakdowns.get(*baseline) {
        for ((compared, pairs), after) in compared.iter().zip(pairs).zip(breakdowns) {
            categories.rows.extend(category_rows(compared));
            kernels.rows.extend(pairs.iter().filter_map(|pair| kernel_row(compared, pair, (before, after))));
        }
    }
    categories.put(&mut sections);
    kernels.put(&mut sections);
    sections
}

fn changes<S: TypedSection>(comparison: &Comparison) -> Answer<S> {
    S::answer(words::elapsed_times(&per_unit(comparison))).limit("The changes of a run add up to its total change.")
}

/// The unit of times as a phrase.
fn per_unit(comparison: &Comparison) -> String {
    let unit = match comparison.basis {
        Basis::Step if comparison.has_work_outside_steps => UnitOfWork::StepAndWorkAround,
        Basis::Step => UnitOfWork::Step,
        Basis::Token => UnitOfWork::Token,
        Basis::Range => UnitOfWork::Range(&comparison.range),
        Basis::Launches => UnitOfWork::Launches,
        Basis::Total => UnitOfWork::Total,
    };
    words::per_unit(unit, comparison.timelines > 1)
}

fn summary(comparison: &Comparison, candidates: &[Candidate], breakdowns: &[Breakdown]) -> Answer<CompareSummary> {
    let Comparison { basis, runs: compared, .. } = comparison;
    let mut answer = CompareSummary::answer(words::wall_times(&per_unit(comparison)));
    if matches!(basis, Basis::Step | Basis::Token) {
        answer = answer
            .limit("Noise is two standard errors of the difference, estimated from the spread of steps in each stage.")
            .limit("Where a stage is named, the outcome is that of its steps (table of the steps by stage). The other times are means of the whole runs.");
    }
    if *basis != Basis::Total {
        answer =
            answer.limit("Wall, busy, idle and elapsed time are of the whole run, with the work outside of the units.");
    }
    if comparison.timelines > 1 {
        answer = answer.limit("Busy, idle and elapsed time are means over the devices of a run.");
    }
    answer.with_rows(candidates.iter().zip(compared).zip(breakdowns).map(|((candidate, compared), breakdown)| {
        let (run, change) = (candidate.run, compared.change.as_ref());
        let remarks: Vec<&str> = compared.reasons.iter().chain(&compared.warnings).map(String::as_str).collect();
        CompareRunRow {
            run: compared.label.clone(),
            outcome: compared.outcome,
            stage: compared.main_stage.map(|stage| stage.stage),
            stage_pct: compared.main_stage.and_then(|stage| stage.pct()).map(Pct),
            compared_ns: (compared.outcome != Outcome::NotComparable).then_some(Ns(breakdown.total_ns)),
            delta_ns: change.map(|change| Ns(change.delta_ns())),
            delta_pct: change.and_then(|change| change.pct()).map(Pct),
            ratio: change.and_then(|change| ratio(change.baseline_ns, change.time_ns)),
            noise_ns: change.and_then(|change| change.noise_ns).map(MeanNs),
            wall_ns: Ns(run.wall.wall_ns),
            busy_ns: mean_over_devices(run, run.wall.bar_ns.saturating_sub(run.wall.cpu_ns)),
            idle_ns: mean_over_devices(run, run.wall.cpu_ns),
            elapsed_ns: mean_over_devices(run, run.totals.elapsed_ns),
            steps: candidate.steps.as_ref().map(|steps| steps.count()),
            remarks: remarks.join("\n"),
        }
    }))
}

fn mean_over_devices(run: &Run, sum_ns: i64) -> Ns {
    Ns(i64::try_from(timelines(run)).ok().and_then(|timelines| sum_ns.checked_div(timelines)).unwrap_or(sum_ns))
}

fn category_rows(compared: &ComparedRun) -> impl Iterator<Item = CompareCategoryRow> {
    compared.change.iter().flat_map(move |change| {
        change.categories.iter().map(move |category| CompareCategoryRow {
            run: compared.label.clone(),
            category: category.category.as_str().into(),
            baseline_ns: Ns(category.baseline_ns),
            compared_ns: Ns(category.time_ns),
            delta_ns: Ns(category.delta_ns()),
            ratio: ratio(category.baseline_ns, category.time_ns),
            share_of_change_pct: change.share_pct(category.delta_ns()).map(Pct),
            matched_delta_ns: Ns(category.matched_delta_ns),
            new_delta_ns: Ns(category.new_ns),
            gone_delta_ns: Ns(category.gone_ns.saturating_neg()),
        })
    })
}

fn kernel_row(
    compared: &ComparedRun,
    pair: &PartPair,
    (before, after): (&Breakdown, &Breakdown),
) -> Option<CompareKernelRow> {
    let (change, part) = (compared.change.as_ref()?, pair.part()?);
    let (baseline_ns, time_ns) = pair.times_ns();
    let launches = |breakdown: &Breakdown, part: Option<&Part>| {
        part.filter(|part| part.launches > 0).map(|part| breakdown.launches(part))
    };
    let (launches_a, launches_b) = (launches(before, pair.baseline), launches(after, pair.other));
    let causes = launches_a.zip(launches_b).map(|(a, b)| {
        let by_launches = ((b - a) * (baseline_ns as f64 / a)).round() as i64;
        (by_launches, pair.delta_ns().saturating_sub(by_launches))
    });
    Some(CompareKernelRow {
        run: compared.label.clone(),
        kernel_name: part.name.as_str().into(),
        category: part.category.as_str().into(),
        found: pair.presence(),
        cause: cause(pair.presence(), causes).to_owned(),
        baseline_launches: launches_a.map(MeanCount),
        launches: launches_b.map(MeanCount),
        baseline_mean_ns: launches_a.map(|launches| MeanNs(baseline_ns as f64 / launches)),
        mean_ns: launches_b.map(|launches| MeanNs(time_ns as f64 / launches)),
        baseline_ns: Ns(baseline_ns),
        compared_ns: Ns(time_ns),
        delta_ns: Ns(pair.delta_ns()),
        ratio: ratio(baseline_ns, time_ns),
        share_of_change_pct: change.share_pct(pair.delta_ns()).map(Pct),
        launches_delta_ns: causes.map(|causes| Ns(causes.0)),
        length_delta_ns: causes.map(|causes| Ns(causes.1)),
    })
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
