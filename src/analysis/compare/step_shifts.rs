//! How much longer a step of each stage takes in another run, without a mixture of stages and with an interval. From the sections
//! `step_list` of the runs; O(n log n) in their rows.
//!
//! The rest of a comparison is about the mean step of the whole run. A prefill among decode steps moves that mean, and one long step widens its
//! noise. Here each stage is compared with itself, and the median difference of steps does not depend on outliers.

use super::rules::Thresholds;
use super::shift::{Shift, shift};
use super::{Candidate, StageChange};
use crate::analysis::measure::percentiles::median;
use crate::analysis::results::Run;
use crate::analysis::section::{Answer, MeanNs, Pct, TypedSection, section};
use crate::analysis::structure::listed_steps::{StepList, StepListRow};
use crate::analysis::structure::stages::Stage;
use crate::trace::Ns;
use std::collections::BTreeMap;

section! {
    /// One row per run and stage that it has in common with the baseline.
    pub(crate) struct CompareSteps("compare_steps", "Steps by stage");
    row CompareStepsRow {
        run: String,
        stage: Stage,
        baseline_steps: usize = "Steps, base",
        steps: usize,
        baseline_median_ns: Option<MeanNs> = "Median, base",
        median_ns: Option<MeanNs>,
        /// The Hodges-Lehmann estimate.
        shift_ns: MeanNs = "Change of a step",
        shift_pct: Option<Pct> = "Change of a step",
        low_ns: Option<Ns> = "At least",
        high_ns: Option<Ns> = "At most",
        /// The difference of the means.
        mean_delta_ns: MeanNs = "Change of the mean",
    }
}

/// The rows of a run, one for each stage that it has in common with the baseline.
pub(super) fn rows(baseline: &Candidate, other: &Candidate) -> Vec<CompareStepsRow> {
    let (before, after) = (times_by_stage(baseline.run), times_by_stage(other.run));
    let row = |(stage, before): (&Stage, &Vec<i64>)| row(other.label, *stage, before, after.get(stage)?);
    before.iter().filter_map(row).collect()
}

/// The stages whose steps changed for certain: the whole interval is on one side of zero and the change is not negligible. Steps of
/// other batches or tokens do other work and tell nothing; runs that do not state them are taken to be alike, as in the whole comparison.
pub(super) fn stage_changes(
    thresholds: &Thresholds,
    baseline: &Candidate,
    other: &Candidate,
    rows: &[CompareStepsRow],
) -> Vec<StageChange> {
    let load = |candidate: &Candidate, stage: Stage| {
        let steps = candidate.steps.as_ref()?;
        let of_stage = steps.stages.iter().find(|steps| steps.stage == stage.label())?;
        Some([of_stage.batch_size, of_stage.tokens])
    };
    let is_same_load = |stage: Stage| match (load(baseline, stage), load(other, stage)) {
        (Some(a), Some(b)) => a.into_iter().zip(b).all(|loads| match loads {
            (Some(a), Some(b)) => (a - b).abs() <= thresholds.unequal_work * a.max(b),
            (a, b) => a.is_none() && b.is_none(),
        }),
        _ => false,
    };
    let change = |row: &CompareStepsRow| {
        let (low_ns, high_ns, pct) = (row.low_ns?.0, row.high_ns?.0, row.shift_pct?.0);
        let is_proven = (low_ns > 0 || high_ns < 0) && pct.abs() >= 100.0 * thresholds.negligible_change;
        let change = StageChange { stage: row.stage, pct, shift_ns: row.shift_ns.0, low_ns, high_ns };
        (is_proven && is_same_load(row.stage)).then_some(change)
    };
    rows.iter().filter_map(change).collect()
}

/// The table of all runs. Runs that are refused otherwise have rows too: a stage is compared with the same stage.
pub(super) fn table(rows: Vec<CompareStepsRow>) -> Answer<CompareSteps> {
    CompareSteps::answer("the times of the steps of each stage")
        .limit("The change is the median of the differences between all steps of both runs (Hodges-Lehmann), with the interval of the Mann-Whitney test at 95 %. An interval that contains zero proves no change. Too few steps for 95 % have no interval.")
        .limit("The last step of each device is left out, because the capture may cut it. Of several devices, the one with most steps counts. Kinds of steps without a name are not compared, because the kinds of two runs may differ.")
        .with_rows(rows)
}

/// `before` and `after` are sorted.
fn row(run: &str, stage: Stage, before: &[i64], after: &[i64]) -> Option<CompareStepsRow> {
    let Shift { median: shift, interval } = shift(before, after)?;
    let base = median(before);
    let mean = |times: &[i64]| times.iter().map(|time| *time as f64).sum::<f64>() / times.len().max(1) as f64;
    Some(CompareStepsRow {
        run: run.to_owned(),
        stage,
        baseline_steps: before.len(),
        steps: after.len(),
        baseline_median_ns: base.map(MeanNs),
        median_ns: median(after).map(MeanNs),
        shift_ns: MeanNs(shift),
        shift_pct: base.filter(|base| *base > 0.0).map(|base| Pct(100.0 * shift / base)),
        low_ns: interval.map(|(low, _)| Ns(low)),
        high_ns: interval.map(|(_, high)| Ns(high)),
        mean_delta_ns: MeanNs(mean(after) - mean(before)),
    })
}

/// The times of the steps of each stage in nanoseconds, sorted, on the device with most steps.
fn times_by_stage(run: &Run) -> BTreeMap<Stage, Vec<i64>> {
    let mut by_device: BTreeMap<String, Vec<StepListRow>> = BTreeMap::new();
    for row in StepList::rows(&run.sections) {
        by_device.entry(row.device_id.words()).or_default().push(row);
    }
    // Of devices with equally many steps, the first.
    let mut rows = by_device.into_values().rev().max_by_key(Vec::len).unwrap_or_default();
    rows.pop();
    let mut times: BTreeMap<Stage, Vec<i64>> = BTreeMap::new();
    for row in rows.iter().filter(|row| is_comparable(row.stage)) {
        times.entry(row.stage).or_default().push(row.duration_ns.0);
    }
    times.values_mut().for_each(|times| times.sort_unstable());
    times
}

/// Whether the steps of a stage do the same in two runs. Kinds without a name may differ, and so do the steps of all other kinds.
fn is_comparable(stage: Stage) -> bool {
    stage == Stage::All || stage.is_named() && stage != Stage::Other
}

#[cfg(test)]
mod tests {
    use crate::analysis::compare::compare;
    use crate::analysis::results::Run;
    use crate::analysis::testing::rows_of;
    use crate::session::{self, Choices};
    use crate::trace::testing::TestTrace;

    /// A prefill of so many microseconds, then decode steps.
    fn run(prefill: i64, decodes: &[i64]) -> Run {
        let mut trace = TestTrace::new();
        let mut at = 0;
        trace.in_us();
        let steps = [("step[EXTEND bs=1 toks=99]", prefill)].into_iter();
        for (name, length) in steps.chain(decodes.iter().map(|length| ("step[DECODE bs=4]", *length))) {
            trace.range(name, at..at + 10).launch(at + 1..at + 2).launches("gemm", at + 5..at + 5 + length / 2);
            at += length;
        }
        session::run(&trace.finish(), &Choices::default()).unwrap()
    }

    #[test]
    fn each_stage_is_compared_with_itself_and_a_slower_prefill_hides_no_decode() {
        let (before, after) = (run(89_000, &[18_900; 10]), run(60_000, &[19_540; 10]));
        let found = compare(&[("a", &before), ("b", &after)], 0);
        let columns = [
            "run",
            "stage",
            "baseline_steps",
            "steps",
            "baseline_median_ns",
            "median_ns",
            "shift_ns",
            "low_ns",
            "high_ns",
        ];
        assert_eq!(
            rows_of(&found.sections["compare_steps"], &columns),
            [
                "b extend/prefill 1 1 89000000 60000000 -29000000 - -",
                "b decode 9 9 18900000 19540000 640000 640000 640000"
            ],
            "one step has no interval, and the last step reaches no other"
        );
    }

    #[test]
    fn a_slower_stage_is_a_regression_that_a_shorter_prefill_does_not_hide() {
        let (before, after) = (run(89_000, &[18_900; 10]), run(60_000, &[19_540; 10]));
        let found = compare(&[("a", &before), ("b", &after)], 0);
        assert!(found.has_regressed(3.3) && !found.has_regressed(3.4));
        assert_eq!(
            found.runs[1].warnings.last().unwrap(),
            "A decode step of b takes 3.4 % longer than one of a: by 640 us, with 95 % between 640 us and 640 us. The time of the runs \
             as a whole does not show it."
        );
    }

    #[test]
    fn one_long_step_changes_nothing() {
        let usual: Vec<i64> = (0..12).map(|step| 18_900 + 10 * (step % 3)).collect();
        let mut with_pause = usual.clone();
        with_pause[4] = 500_000;
        let (before, after) = (run(50_000, &usual), run(50_000, &with_pause));
        let found = compare(&[("a", &before), ("b", &after)], 0);
        assert_eq!(rows_of(&found.sections["compare_steps"], &["stage", "shift_ns"])[1], "decode 0");
        assert_eq!(found.runs[1].stage_changes, []);
    }

    #[test]
    fn runs_without_steps_have_no_table() {
        let plain = session::run(&TestTrace::new().kernel("k", 0..9).finish(), &Choices::default()).unwrap();
        assert!(!compare(&[("a", &plain), ("b", &plain)], 0).sections.contains_key("compare_steps"));
    }
}
