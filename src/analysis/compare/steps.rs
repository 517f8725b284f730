//! The steps that a run tells in its section of that name: how many of each stage, how long, how steadily.

use super::rules::Thresholds;
use crate::analysis::results::Run;
use crate::analysis::section::{Record, Value};
use crate::analysis::triage::Stage;
use crate::analysis::triage::stages::stage_of_path;

/// The steps of a run, by stage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Steps {
    pub(super) stages: Vec<StageSteps>,
    /// A step counts once on each of so many devices.
    devices: u64,
}

/// The steps of one stage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StageSteps {
    pub(super) stage: String,
    pub(super) count: u64,
    pub(super) batch_size: Option<f64>,
    pub(super) tokens: Option<f64>,
    pub(super) median_ns: Option<f64>,
    /// From the start of a step to that of the next.
    pub(super) interval_ns: f64,
    deviation_ns: Option<f64>,
}

impl Steps {
    /// `None` where the run tells none, or where they fill too little of the run to divide it by them.
    pub(super) fn of(run: &Run, thresholds: &Thresholds) -> Option<Self> {
        let section = run.sections.get("steps")?;
        let stages: Vec<StageSteps> = section.rows.iter().filter_map(|row| StageSteps::read(row, run)).collect();
        let devices = section.summary.get("devices").and_then(count).unwrap_or(1).max(1);
        let steps = Self { stages, devices };
        (steps.count() > 0 && steps.coverage(run) >= thresholds.least_step_coverage).then_some(steps)
    }

    /// Over all devices.
    pub(super) fn count(&self) -> u64 {
        self.stages.iter().fold(0, |sum, stage| sum.saturating_add(stage.count))
    }

    /// By how many steps to divide the bar of this run.
    pub(super) fn in_bar(&self, run: &Run) -> u64 {
        if run.devices_merged { (self.count() / self.devices).max(1) } else { self.count() }
    }

    /// The part of the time that steps fill.
    pub(super) fn coverage(&self, run: &Run) -> f64 {
        let filled = self.stages.iter().fold(0.0, |sum, stage| sum + stage.interval_ns * stage.count as f64);
        let devices = if run.devices_merged { self.devices as f64 } else { 1.0 };
        if run.wall.bar_ns > 0 { filled / devices / run.wall.bar_ns as f64 } else { 0.0 }
    }

    /// The part of all steps that is of this stage.
    pub(super) fn part(&self, stage: &str) -> f64 {
        let own = self.stages.iter().filter(|own| own.stage == stage).map(|own| own.count).sum::<u64>();
        own as f64 / self.count().max(1) as f64
    }

    /// `decode`, or `10 % extend/prefill, 90 % decode`.
    pub(super) fn mix(&self) -> String {
        if let [only] = self.stages.as_slice() {
            return only.stage.clone();
        }
        let part = |stage: &StageSteps| format!("{:.0} % {}", 100.0 * self.part(&stage.stage), stage.stage);
        self.stages.iter().map(part).collect::<Vec<_>>().join(", ")
    }

    /// The mean over all steps of what each stage tells, where all tell it.
    pub(super) fn mean(&self, what: fn(&StageSteps) -> Option<f64>) -> Option<f64> {
        let mut sum = 0.0;
        for stage in &self.stages {
            sum += what(stage)? * stage.count as f64;
        }
        Some(sum / self.count().max(1) as f64)
    }

    /// The variance of the mean time of a step, from the spread within each stage: devices go in step, so that steps
    /// of several at once are one observation. `None` where a stage has too few steps to tell.
    pub(super) fn variance(&self, thresholds: &Thresholds) -> Option<f64> {
        let mut sum = 0.0;
        for stage in &self.stages {
            let observed = stage.count / self.devices;
            let deviation = stage.deviation_ns.filter(|_| observed >= thresholds.least_steps_for_noise)?;
            let part = self.part(&stage.stage);
            sum += part * part * deviation * deviation / observed as f64;
        }
        Some(sum)
    }
}

impl StageSteps {
    fn read(row: &Record, run: &Run) -> Option<Self> {
        let number = |key: &str| row.get(key).and_then(Value::number);
        let told = row.get("stage")?.text()?;
        let of_file = stage_of_path(&run.label);
        // A profiler's steps name no stage; the name of a file may.
        let stage = if told == Stage::All.label() { of_file.label() } else { told };
        Some(Self {
            stage: stage.to_owned(),
            count: row.get("steps").and_then(count)?,
            batch_size: number("mean_batch_size"),
            tokens: number("mean_tokens"),
            median_ns: number("median_ns"),
            interval_ns: number("mean_interval_ns")?,
            deviation_ns: number("stdev_interval_ns"),
        })
    }
}

fn count(value: &Value) -> Option<u64> {
    if let Value::Int(count) = value { u64::try_from(*count).ok() } else { None }
}
