//! How much longer a step of each stage takes in another run, without a mixture of stages and with an interval. From the sections
//! `step_list` of the runs; O(n log n) in their rows.
//!
//! The tables of a comparison are about the mean step of the whole run, because means add up. A prefill among decode steps moves that
//! mean, and one long step widens its noise. Here each stage is compared with itself, and the median difference of steps does not depend
//! on outliers. So the outcome of a comparison is that of its main stage, the one in which the runs spend most time. Where the mean step
//! of a stage changes otherwise than the usual one, [`StageShift::long_steps`] has it.
//!
//! A step of several devices counts once, as long as on the slowest device. Ranks of one job that wait for each other are no independent
//! observations, and a rank that is slower alone shows.

use super::mean_change::MeanChange;
use super::rules::Thresholds;
use super::shift::shift;
use super::steps::Steps;
use super::{Candidate, Outcome};
use crate::analysis::measure::moments;
use crate::analysis::measure::percentiles::median;
use crate::analysis::results::Run;
use crate::analysis::section::{Answer, MeanNs, Pct, TypedSection, section};
use crate::analysis::structure::listed_steps::{StepList, StepListRow};
use crate::analysis::structure::stages::Stage;
use crate::ordering;
use crate::trace::Ns;
use std::cmp::Reverse;
use std::collections::BTreeMap;

section! {
    /// One row per run and stage that it has in common with the baseline.
    pub(crate) struct CompareSteps("compare_steps", "Steps by stage");
    row CompareStepsRow {
        run: String,
        stage: Stage,
        outcome: Outcome,
        baseline_steps: usize = "Steps, base",
        steps: usize,
        baseline_median_ns: MeanNs = "Median, base",
        median_ns: MeanNs,
        /// The Hodges-Lehmann estimate.
        shift_ns: MeanNs = "Change of a step",
        shift_pct: Option<Pct> = "Change of a step",
        low_ns: Option<Ns> = "At least",
        high_ns: Option<Ns> = "At most",
        /// The difference of the means, and its parts, which add up to it.
        mean_delta_ns: MeanNs = "Change of the mean",
        mean_noise_ns: Option<MeanNs> = "Noise of the mean",
        busy_delta_ns: Option<MeanNs> = "Of it, GPU busy",
        host_late_delta_ns: Option<MeanNs> = "Of it, host late",
        other_idle_delta_ns: Option<MeanNs> = "Of it, other idle",
    }
}

/// A step on the device where it lasts longest. Ordered by duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct StepTime {
    duration_ns: i64,
    /// `None` without a device, as the next.
    busy_ns: Option<i64>,
    host_late_ns: Option<i64>,
}

impl StepTime {
    fn of(row: &StepListRow) -> Self {
        let [busy_ns, host_late_ns] = [row.busy_ns, row.host_late_ns].map(|time| time.map(|time| time.0));
        Self { duration_ns: row.duration_ns.0, busy_ns, host_late_ns }
    }
}

/// The mean of a time of all steps; `None` if a step does not have it.
fn mean(steps: &[StepTime], time: fn(&StepTime) -> Option<i64>) -> Option<f64> {
    moments::mean(&steps.iter().map(time).collect::<Option<Vec<i64>>>()?)
}

/// What the change of the mean step of a stage is made of, in nanoseconds. The parts add up to the change of [`StageShift::mean`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangeParts {
    /// The time in which the GPU works.
    pub busy_ns: f64,
    /// The time in which the GPU waits for a late launch.
    pub host_late_ns: f64,
    /// The rest.
    pub other_idle_ns: f64,
}

impl ChangeParts {
    fn of(before: &[StepTime], after: &[StepTime]) -> Option<Self> {
        let change = |time: fn(&StepTime) -> Option<i64>| Some(mean(after, time)? - mean(before, time)?);
        let (busy_ns, host_late_ns) = (change(|step| step.busy_ns)?, change(|step| step.host_late_ns)?);
        let whole_ns = change(|step| Some(step.duration_ns))?;
        Some(Self { busy_ns, host_late_ns, other_idle_ns: whole_ns - busy_ns - host_late_ns })
    }
}

/// Whether the steps of a stage do the same work in two runs, by their batch and tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Load {
    /// They state the same, or nothing.
    Same,
    /// Only one of the runs states them.
    Unknown,
    /// They state something else.
    Other,
}

/// How the steps of one stage differ from those of the baseline.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StageShift {
    /// The stage.
    pub stage: Stage,
    /// What the change of its steps proves. [`Outcome::NotComparable`] unless the load is the same.
    pub outcome: Outcome,
    /// Whether its steps do the same work in both runs.
    pub load: Load,
    /// The compared steps of the baseline.
    pub baseline_steps: usize,
    /// The compared steps of the run.
    pub steps: usize,
    /// Their median duration in the baseline.
    pub baseline_median_ns: f64,
    /// Their median duration in the run.
    pub median_ns: f64,
    /// The median of the differences between all steps of both runs.
    pub shift_ns: f64,
    /// The interval that contains this difference with 95 %; `None` if there are too few steps.
    pub interval_ns: Option<(i64, i64)>,
    /// The change of the mean duration.
    pub mean: MeanChange,
    /// What that is made of; `None` for steps without a device.
    pub parts: Option<ChangeParts>,
    /// Whether that differs from the change of the usual step.
    is_mean_apart: bool,
    /// The time of the compared steps of both runs.
    time_ns: i64,
}

impl StageShift {
    /// The difference in percent of the baseline's median; `None` if that is zero.
    pub fn pct(&self) -> Option<f64> {
        (self.baseline_median_ns > 0.0).then(|| 100.0 * self.shift_ns / self.baseline_median_ns)
    }

    /// Whether the stage is slower or faster for certain: there is an interval, and it excludes zero.
    pub fn is_proven(&self) -> bool {
        self.interval_ns.is_some() && matches!(self.outcome, Outcome::Slower | Outcome::Faster)
    }

    /// The change of the mean duration, if a few long steps make it differ from the change of the usual step.
    pub fn long_steps(&self) -> Option<MeanChange> {
        self.is_mean_apart.then_some(self.mean)
    }

    /// By how many percent long steps make the mean step longer than that of the baseline, if that is more than noise. Of a stage without
    /// a name, only the idle time counts: steps with more GPU work may be another mixture of kinds.
    pub fn proven_pct_of_long_steps(&self) -> Option<f64> {
        let mean = self.long_steps().filter(|_| self.load == Load::Same)?;
        let work_ns = if self.stage.is_named() { 0.0 } else { self.parts?.busy_ns };
        Some(mean.without(work_ns)).filter(MeanChange::is_proven)?.pct()
    }

    /// Whether long steps make the mean step longer or shorter beyond noise, but by more or less GPU work, so that they may be another mixture
    /// of kinds: see [`proven_pct_of_long_steps`](Self::proven_pct_of_long_steps).
    pub fn may_be_other_work(&self) -> bool {
        let is_proven = self.load == Load::Same && self.long_steps().is_some_and(|mean| mean.is_proven());
        is_proven && self.proven_pct_of_long_steps().is_none()
    }

    /// `before` and `after` are sorted; `None` if one of them is empty.
    fn of(thresholds: &Thresholds, stage: Stage, before: &[StepTime], after: &[StepTime]) -> Option<Self> {
        let durations = |steps: &[StepTime]| steps.iter().map(|step| step.duration_ns).collect::<Vec<_>>();
        let (before_ns, after_ns) = (durations(before), durations(after));
        let usual = shift(&before_ns, &after_ns)?;
        let mean = MeanChange::of(&before_ns, &after_ns, thresholds.noise_standard_errors)?;
        let sum = |times: &[i64]| times.iter().fold(0, |sum: i64, time| sum.saturating_add(*time));
        Some(Self {
            stage,
            outcome: Outcome::NotComparable,
            load: Load::Other,
            baseline_steps: before.len(),
            steps: after.len(),
            baseline_median_ns: median(&before_ns)?,
            median_ns: median(&after_ns)?,
            shift_ns: usual.median,
            interval_ns: usual.interval,
            mean,
            is_mean_apart: mean.is_apart_from(&usual, thresholds.negligible_change),
            parts: ChangeParts::of(before, after),
            time_ns: sum(&before_ns).saturating_add(sum(&after_ns)),
        })
    }

    /// The outcome of steps of equal load. If there are too few steps for an interval, a change counts unless it is negligible.
    fn outcome(&self, thresholds: &Thresholds) -> Outcome {
        if self.shift_ns == 0.0 && (self.mean.delta_ns == 0.0 || self.interval_ns.is_none()) {
            return Outcome::Same;
        }
        let is_noise = self.interval_ns.is_some_and(|(low, high)| low <= 0 && high >= 0);
        match self.pct() {
            _ if is_noise => Outcome::WithinNoise,
            Some(pct) if pct.abs() < 100.0 * thresholds.negligible_change => Outcome::Same,
            _ if self.shift_ns > 0.0 => Outcome::Slower,
            _ => Outcome::Faster,
        }
    }

    fn row(&self, run: &str) -> CompareStepsRow {
        CompareStepsRow {
            run: run.to_owned(),
            stage: self.stage,
            outcome: self.outcome,
            baseline_steps: self.baseline_steps,
            steps: self.steps,
            baseline_median_ns: MeanNs(self.baseline_median_ns),
            median_ns: MeanNs(self.median_ns),
            shift_ns: MeanNs(self.shift_ns),
            shift_pct: self.pct().map(Pct),
            low_ns: self.interval_ns.map(|(low, _)| Ns(low)),
            high_ns: self.interval_ns.map(|(_, high)| Ns(high)),
            mean_delta_ns: MeanNs(self.mean.delta_ns),
            mean_noise_ns: self.mean.noise_ns.map(MeanNs),
            busy_delta_ns: self.parts.map(|parts| MeanNs(parts.busy_ns)),
            host_late_delta_ns: self.parts.map(|parts| MeanNs(parts.host_late_ns)),
            other_idle_delta_ns: self.parts.map(|parts| MeanNs(parts.other_idle_ns)),
        }
    }
}

/// The stages that two runs have in common.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct StageShifts(Vec<StageShift>);

impl StageShifts {
    pub(super) fn of(thresholds: &Thresholds, baseline: &Candidate, other: &Candidate) -> Self {
        let (before, after) = (times_by_stage(baseline.run), times_by_stage(other.run));
        let (before, after) = match (has_kinds(&before), has_kinds(&after)) {
            (true, false) if has_one_stage(&after) => (pooled(before), after),
            (false, true) if has_one_stage(&before) => (before, pooled(after)),
            _ => (before, after),
        };
        let shift = |(stage, before): (&Stage, &Vec<StepTime>)| {
            let shift =
                StageShift::of(thresholds, *stage, before, after.get(stage).filter(|_| is_comparable(*stage))?)?;
            let load = load(thresholds, *stage, baseline, other);
            let outcome = if load == Load::Same { shift.outcome(thresholds) } else { Outcome::NotComparable };
            Some(StageShift { outcome, load, ..shift })
        };
        Self(before.iter().filter_map(shift).collect())
    }

    /// The stage in which the runs spend most time, among those of equal load; the first of several.
    pub(super) fn main(&self) -> Option<&StageShift> {
        let comparable = self.0.iter().filter(|shift| shift.outcome != Outcome::NotComparable);
        comparable.rev().max_by_key(|shift| shift.time_ns)
    }

    /// The stages whose steps may do the same in both runs, the one with the most time first.
    pub(super) fn estimated(&self) -> Vec<StageShift> {
        let mut stages: Vec<StageShift> = self.0.iter().filter(|shift| shift.load != Load::Other).copied().collect();
        ordering::sort_by_key(&mut stages, |shift| Reverse(shift.time_ns));
        stages
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &StageShift> {
        self.0.iter()
    }

    /// The rows of a run. If it was refused otherwise, its steps prove nothing.
    pub(super) fn rows(&self, run: &str, is_comparable: bool) -> impl Iterator<Item = CompareStepsRow> {
        self.0.iter().map(move |shift| {
            let row = shift.row(run);
            if is_comparable { row } else { CompareStepsRow { outcome: Outcome::NotComparable, ..row } }
        })
    }
}

/// Whether batch and tokens of a stage are the same. Runs that do not state them are taken to be alike, as in the whole comparison.
fn load(thresholds: &Thresholds, stage: Stage, baseline: &Candidate, other: &Candidate) -> Load {
    let load = |steps: &Steps| {
        if stage == Stage::All {
            return Some([steps.mean(|stage| stage.batch_size), steps.mean(|stage| stage.tokens)]);
        }
        let of_stage = steps.stages.iter().find(|steps| steps.stage == stage.label())?;
        Some([of_stage.batch_size, of_stage.tokens])
    };
    let load = |candidate: &Candidate| candidate.steps.as_ref().and_then(load);
    let of_value = |values| match values {
        (Some(a), Some(b)) if f64::abs(a - b) > thresholds.unequal_work * f64::max(a, b) => Load::Other,
        (Some(_), None) | (None, Some(_)) => Load::Unknown,
        _ => Load::Same,
    };
    let Some((a, b)) = load(baseline).zip(load(other)) else { return Load::Other };
    let of_values: Vec<Load> = a.into_iter().zip(b).map(of_value).collect();
    let worst = [Load::Other, Load::Unknown].into_iter().find(|load| of_values.contains(load));
    worst.unwrap_or(Load::Same)
}

/// The table of all runs. Runs that are refused otherwise have rows too: a stage is compared with the same stage.
pub(super) fn table(rows: Vec<CompareStepsRow>) -> Answer<CompareSteps> {
    CompareSteps::answer("the times of the steps of each stage")
        .limit("The change is the median of the differences between all steps of both runs (Hodges-Lehmann), with the interval of the Mann-Whitney test at 95 %. An interval that contains zero proves no change. Too few steps for 95 % have no interval.")
        .limit("The last step of each device is left out, because the capture may cut it. A step of several devices counts once, as long as on the slowest one. Kinds of steps without a name are not compared, because the kinds of two runs may differ.")
        .with_rows(rows)
}

/// The steps of each stage, sorted.
fn times_by_stage(run: &Run) -> BTreeMap<Stage, Vec<StepTime>> {
    let mut by_device: BTreeMap<String, Vec<StepListRow>> = BTreeMap::new();
    for row in StepList::rows(&run.sections) {
        by_device.entry(row.device_id.words()).or_default().push(row);
    }
    let mut times: BTreeMap<Stage, Vec<StepTime>> = BTreeMap::new();
    for mut rows in by_device.into_values() {
        rows.pop();
        let mut number: BTreeMap<Stage, usize> = BTreeMap::new();
        for row in rows.iter().filter(|row| row.in_start_up != Some(true)) {
            let (times, number) = (times.entry(row.stage).or_default(), number.entry(row.stage).or_default());
            match times.get_mut(*number) {
                Some(time) => *time = StepTime::of(row).max(*time),
                None => times.push(StepTime::of(row)),
            }
            *number += 1;
        }
    }
    times.values_mut().for_each(|times| times.sort_unstable());
    times
}

/// Whether the steps are of kinds without a name.
fn has_kinds(times: &BTreeMap<Stage, Vec<StepTime>>) -> bool {
    !times.is_empty() && times.keys().all(|stage| !is_comparable(*stage))
}

/// Whether nothing tells the steps apart.
fn has_one_stage(times: &BTreeMap<Stage, Vec<StepTime>>) -> bool {
    times.keys().eq([&Stage::All])
}

/// All steps as one stage. A few steps with other work make kinds in one run and not in the other; they do not change a median.
fn pooled(times: BTreeMap<Stage, Vec<StepTime>>) -> BTreeMap<Stage, Vec<StepTime>> {
    let mut all: Vec<StepTime> = times.into_values().flatten().collect();
    all.sort_unstable();
    BTreeMap::from([(Stage::All, all)])
}

/// Whether the steps of a stage do the same in two runs. Kinds without a name may differ, and so do the steps of all other kinds.
fn is_comparable(stage: Stage) -> bool {
    stage == Stage::All || stage.is_named() && stage != Stage::Other
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::compare::{Comparison, compare};
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

    /// One prefill and decode steps whose kernel and late launch take so many microseconds.
    fn mixed(prefill: i64, kernel: i64, late: i64) -> Run {
        let mut trace = TestTrace::new();
        let mut at = 0;
        trace.in_us();
        let decodes = std::iter::repeat_n(("step[DECODE bs=4]", kernel, late), 10);
        for (name, kernel, late) in std::iter::once(("step[EXTEND bs=1 toks=99]", prefill, 0)).chain(decodes) {
            trace.range(name, at..at + late + 5).launch(at + late..at + late + 1);
            trace.launches("gemm", at + late + 2..at + late + 2 + kernel);
            at += late + 2 + kernel;
        }
        session::run(&trace.finish(), &Choices::default()).unwrap()
    }

    #[test]
    fn the_parts_of_a_stage_add_up_to_its_own_change_whatever_the_other_stages_do() {
        let found = compared(&mixed(2_000, 500, 200), &mixed(1_500, 540, 230));
        let main = found.runs[1].main_stage.unwrap();
        let parts = main.parts.unwrap();
        assert_eq!((main.stage, main.mean.delta_ns), (Stage::Decode, 70_000.0));
        assert_eq!(parts.busy_ns, 40_000.0);
        assert_eq!(parts.busy_ns + parts.host_late_ns + parts.other_idle_ns, main.mean.delta_ns);
        let columns = ["stage", "mean_delta_ns", "busy_delta_ns"];
        assert_eq!(rows_of(&found.sections["compare_steps"], &columns)[1], "decode 70000 40000");
    }

    fn compared(before: &Run, after: &Run) -> Comparison {
        compare(&[("a", before), ("b", after)], 0)
    }

    #[test]
    fn a_slower_stage_is_a_regression_that_a_shorter_prefill_does_not_hide() {
        let found = compared(&run(89_000, &[18_900; 10]), &run(60_000, &[19_540; 10]));
        assert!(found.has_regressed(3.3) && !found.has_regressed(3.4));
        assert_eq!(found.runs[1].main_stage.map(|main| main.stage), Some(Stage::Decode));
        assert_eq!(found.runs[1].outcome, Outcome::Slower);
    }

    #[test]
    fn pauses_in_a_few_steps_are_a_regression_of_the_mean_although_the_usual_step_takes_as_long() {
        let usual = [1_500; 50];
        let mut paused = usual;
        paused[5..40].iter_mut().step_by(7).for_each(|length| *length = 19_000);
        let found = compared(&run(100, &usual), &run(100, &paused));
        let main = found.runs[1].main_stage.unwrap();
        assert_eq!((main.shift_ns, main.outcome), (0.0, Outcome::WithinNoise));
        // Five of the 49 steps that are compared take 17.5 ms more.
        let long_steps = main.long_steps().unwrap();
        assert_eq!((long_steps.longer_than_all, long_steps.delta_ns.round()), (5, 1_785_714.0));
        assert!(found.has_regressed(100.0) && !found.has_regressed(120.0));
        let opposite = compared(&run(100, &paused), &run(100, &usual));
        assert!(!opposite.has_regressed(0.0) && opposite.runs[1].main_stage.unwrap().long_steps().is_some());
    }

    /// Twenty steps without a stage: every fourth one launches its kernel so much later, and the kernel lasts so much longer.
    fn unnamed(pause: i64, more_work: i64) -> Run {
        let mut trace = TestTrace::new();
        trace.in_us();
        let mut at = 0;
        for step in 0..20 {
            let (pause, work) = if step % 4 == 1 { (pause, more_work) } else { (0, 0) };
            trace.range(&format!("ProfilerStep#{step}"), at..at + pause + 5).launch(at + pause..at + pause + 1);
            trace.launches("gemm", at + pause + 2..at + pause + 1_002 + work);
            at += pause + 1_002 + work;
        }
        session::run(&trace.finish(), &Choices::default()).unwrap()
    }

    #[test]
    fn of_steps_without_a_stage_pauses_are_a_regression_and_more_work_is_not() {
        let usual = unnamed(0, 0);
        let long_steps = |run: &Run| {
            let found = compared(&usual, run);
            let stage = found.runs[1].main_stage.unwrap();
            (stage.long_steps().unwrap().longer_than_all, found.has_regressed(50.0), stage.may_be_other_work())
        };
        assert_eq!(long_steps(&unnamed(9_000, 0)), (5, true, false));
        assert_eq!(long_steps(&unnamed(0, 9_000)), (5, false, true), "these may be steps of another kind");
    }

    #[test]
    fn another_stage_than_the_main_one_is_a_regression_with_a_warning() {
        let runs = |prefill: i64| {
            let mut trace = TestTrace::new();
            let mut at = 0;
            trace.in_us();
            for step in 0..12 {
                let (name, length) =
                    if step % 2 == 0 { ("step[EXTEND bs=1 toks=99]", prefill) } else { ("step[DECODE bs=4]", 90) };
                trace.range(name, at..at + 10).launch(at + 1..at + 2).launches("gemm", at + 5..at + 5 + length / 2);
                at += length;
            }
            session::run(&trace.finish(), &Choices::default()).unwrap()
        };
        let found = compared(&runs(60), &runs(66));
        assert!(found.has_regressed(9.9) && !found.has_regressed(10.0));
        assert_eq!((found.runs[1].outcome, found.runs[1].main_stage.unwrap().stage), (Outcome::Same, Stage::Decode));
        assert_eq!(
            found.runs[1].warnings.last().unwrap(),
            "A prefill step of b is 10.0 % longer than one of a: by 6 us, with 95 % between 6 us and 6 us."
        );
    }

    #[test]
    fn one_long_step_changes_nothing() {
        for count in [5, 12] {
            let usual: Vec<i64> = (0..count).map(|step| 18_900 + 10 * (step % 3)).collect();
            let mut with_pause = usual.clone();
            with_pause[3] = 500_000;
            let found = compared(&run(50_000, &usual), &run(50_000, &with_pause));
            assert_eq!(found.runs[1].outcome, Outcome::WithinNoise, "{count} steps");
            assert!(!found.has_regressed(0.0), "{count} steps");
        }
    }

    #[test]
    fn a_stage_that_only_one_run_has_does_not_hide_the_other() {
        let both = run(89_000, &[18_900; 10]);
        let mut decodes = TestTrace::new();
        decodes.in_us();
        for at in (0..10).map(|step| step * 19_540) {
            decodes.range("step[DECODE bs=4]", at..at + 10).launch(at + 1..at + 2).launches("gemm", at + 5..at + 9_000);
        }
        let decodes = session::run(&decodes.finish(), &Choices::default()).unwrap();
        let found = compared(&both, &decodes);
        assert_eq!((found.runs[1].outcome, &found.runs[1].reasons), (Outcome::Slower, &vec![]));
        assert!(found.has_regressed(3.3) && !found.has_regressed(3.4));
        let mixed = "The steps are mixed in another way (decode in b, 9 % extend/prefill, 91 % decode in a)";
        assert!(
            found.runs[1].warnings.iter().any(|warning| warning.starts_with(mixed)),
            "{:?}",
            found.runs[1].warnings
        );
        assert_eq!(found.runs[1].change.as_ref().map(|change| change.notable_categories), Some(0));
    }

    #[test]
    fn a_step_of_several_devices_lasts_as_long_as_on_the_slowest() {
        let of_two = |second: i64| {
            let mut trace = TestTrace::new();
            trace.in_us();
            for device in 0..2 {
                trace.named_device(device, "NVIDIA H100").device(device).thread(device as i64);
                let length = if device == 0 { 100 } else { second };
                for at in (0..9).map(|step| step * length) {
                    trace
                        .range("step[DECODE bs=4]", at..at + 10)
                        .launch(at + 1..at + 2)
                        .launches("gemm", at + 5..at + 60);
                }
            }
            session::run(&trace.finish(), &Choices::default()).unwrap()
        };
        let found = compared(&of_two(100), &of_two(105));
        let columns = ["stage", "baseline_steps", "steps", "shift_ns", "low_ns", "high_ns"];
        assert_eq!(rows_of(&found.sections["compare_steps"], &columns), ["decode 8 8 5000 5000 5000"]);
    }

    #[test]
    fn steps_are_exactly_as_long_only_if_all_are() {
        let found = compared(&run(10, &[100; 5]), &run(10, &[100, 100, 500, 100, 100]));
        let main = found.runs[1].main_stage.unwrap();
        assert_eq!((main.shift_ns, main.mean.delta_ns), (0.0, 100_000.0));
        assert_eq!(main.outcome, Outcome::WithinNoise);
    }

    /// `ProfilerStep`s of 1 ms that run `gemm`; one of them runs another kernel for five times as long.
    fn training(heavy: bool) -> Run {
        let mut trace = TestTrace::new();
        trace.in_us();
        for step in 0..12 {
            let (name, start) = (format!("ProfilerStep#{step}"), 1_000 * step);
            trace.range(&name, start..start + 990).launch(start + 1..start + 2);
            trace.launches("gemm", start + 5..start + 105);
            if heavy && step == 4 {
                for launch in 0..4 {
                    let at = start + 110 + 100 * launch;
                    trace.launch(at - 2..at - 1).launches("validation", at..at + 100);
                }
            }
        }
        session::run(&trace.finish(), &Choices::default()).unwrap()
    }

    #[test]
    fn one_heavy_step_of_a_training_does_not_refuse_a_run() {
        let found = compared(&training(false), &training(true));
        assert_eq!(found.runs[1].reasons, [""; 0]);
        let main = found.runs[1].main_stage.unwrap();
        assert_eq!((main.stage, main.baseline_steps, main.steps, main.shift_ns), (Stage::All, 11, 11, 0.0));
        assert!(!found.has_regressed(0.0));
    }

    #[test]
    fn runs_without_steps_have_no_table() {
        let plain = session::run(&TestTrace::new().kernel("k", 0..9).finish(), &Choices::default()).unwrap();
        assert!(!compare(&[("a", &plain), ("b", &plain)], 0).sections.contains_key("compare_steps"));
    }
}
