//! Reads the section `steps` of a run: per stage the number of steps, their mean interval and its spread.

use super::rules::Thresholds;
use crate::analysis::results::{Run, WallSource};
use crate::analysis::section::TypedSection;
use crate::analysis::structure::stages::{Stage, stage_of_path};
use crate::analysis::structure::steps::{StepRow, Steps as StepSection};
use crate::trace::Fraction;
use crate::words;

/// The steps of a run, by stage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Steps {
    pub(super) stages: Vec<StageSteps>,
    /// A step counts once per device; this is the number of devices.
    devices: u64,
    /// Share of the op durations before the first step or after the last one.
    pub(super) work_outside_share: f64,
    /// Idle time before the first step and after the last one.
    idle_outside_ns: i64,
    /// Steps of the start of the program. They are not in `stages`.
    pub(super) in_start_up: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct StageSteps {
    pub(super) stage: String,
    /// How the steps were found, such as `annotation`.
    found_by: String,
    pub(super) count: u64,
    pub(super) batch_size: Option<f64>,
    pub(super) tokens: Option<f64>,
    /// Mean time from the start of a step to the start of the next one.
    pub(super) mean_interval_ns: f64,
    stdev_interval_ns: Option<f64>,
}

impl Steps {
    /// `None` if the run has no steps, or if more than `max_work_outside_steps` of the work is outside of them.
    pub(super) fn of(run: &Run, thresholds: &Thresholds) -> Option<Self> {
        let figures = StepSection::figures(&run.sections)?;
        let rows = StepSection::rows(&run.sections);
        let steps = Self {
            stages: rows.into_iter().filter_map(|row| StageSteps::of(row, run)).collect(),
            in_start_up: figures.steps_in_start_up.0.unwrap_or(0) as u64,
            devices: figures.devices.max(1),
            work_outside_share: figures.work_outside_pct.0 / 100.0,
            idle_outside_ns: figures.idle_outside_ns.0,
        };
        (steps.count() > 0 && steps.work_outside_share <= thresholds.max_work_outside_steps).then_some(steps)
    }

    /// How the steps were found, in words.
    pub(super) fn found(&self) -> impl Iterator<Item = &'static str> {
        self.stages.iter().map(|stage| match stage.found_by.as_str() {
            "kernel order" => "from the order of kernels",
            "host frame" => "from host frames",
            "optimizer calls" => "from calls of the optimizer",
            _ => "from annotations",
        })
    }

    /// The number of steps, summed over all devices.
    pub(super) fn count(&self) -> u64 {
        self.stages.iter().fold(0, |sum, stage| sum.saturating_add(stage.count))
    }

    /// The number of steps on each device, on average.
    pub(super) fn count_per_device(&self) -> f64 {
        self.count() as f64 / self.devices as f64
    }

    /// The number of steps in the bar of this run; devices merged into one timeline count once.
    pub(super) fn count_in_bar(&self, run: &Run) -> u64 {
        if run.devices_merged { (self.count() / self.devices).max(1) } else { self.count() }
    }

    /// The idle time to exclude from the bar: before the first step and after the last one, when only the profiler was active.
    /// Zero if the wall time was given by the user, or if several devices are merged: their common idle time is not known.
    pub(super) fn idle_outside_ns(&self, run: &Run) -> i64 {
        let is_known = run.wall.source == WallSource::Window && (!run.devices_merged || run.devices.len() == 1);
        if is_known { self.idle_outside_ns.clamp(0, run.wall.cpu_ns.max(0)) } else { 0 }
    }

    /// The share of this stage in all steps.
    pub(super) fn share_of_stage(&self, stage: &str) -> f64 {
        let own = self.stages.iter().filter(|own| own.stage == stage).map(|own| own.count).sum::<u64>();
        own as f64 / self.count().max(1) as f64
    }

    /// The stages as text: `decode`, or `10 % extend/prefill, 90 % decode`.
    pub(super) fn mix(&self) -> String {
        let share = |stage: &StageSteps| Fraction(self.share_of_stage(&stage.stage));
        let stages = self.stages.iter().map(|stage| (stage.stage.as_str(), share(stage)));
        words::steps::mix(&stages.collect::<Vec<_>>())
    }

    /// The mean of a value over all steps; `None` if a stage does not have it.
    pub(super) fn mean(&self, value: fn(&StageSteps) -> Option<f64>) -> Option<f64> {
        let mut sum = 0.0;
        for stage in &self.stages {
            sum += value(stage)? * stage.count as f64;
        }
        Some(sum / self.count().max(1) as f64)
    }

    /// The variance of the mean step time, from the spread within each stage. Devices run steps in parallel, so the same
    /// step on several devices is one observation. `None` if a stage has fewer than `min_steps_for_noise` steps.
    pub(super) fn variance_of_mean(&self, thresholds: &Thresholds) -> Option<f64> {
        let mut sum = 0.0;
        for stage in &self.stages {
            let observations = stage.count / self.devices;
            let deviation = stage.stdev_interval_ns.filter(|_| observations >= thresholds.min_steps_for_noise)?;
            let share = self.share_of_stage(&stage.stage);
            sum += share * share * deviation * deviation / observations as f64;
        }
        Some(sum)
    }
}

impl StageSteps {
    /// `None` without an interval.
    fn of(row: StepRow, run: &Run) -> Option<Self> {
        // ProfilerStep# ranges have no stage; the file name may have one.
        let stage = if row.stage == Stage::All { stage_of_path(&run.label) } else { row.stage };
        Some(Self {
            stage: stage.label().to_owned(),
            found_by: row.found_by,
            count: row.steps as u64,
            batch_size: row.batch,
            tokens: row.tokens,
            mean_interval_ns: row.mean_interval_ns?.0,
            stdev_interval_ns: row.stdev_interval_ns.map(|ns| ns.0),
        })
    }
}
