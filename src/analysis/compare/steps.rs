//! The steps that a run tells in its section of that name: how many of each stage, how long, how steadily.

use super::rules::Thresholds;
use crate::analysis::results::{Run, WallSource};
use crate::analysis::section::{Record, Value};
use crate::analysis::triage::Stage;
use crate::analysis::triage::stages::stage_of_path;

/// The steps of a run, by stage.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Steps {
    pub(super) stages: Vec<StageSteps>,
    /// A step counts once on each of so many devices.
    devices: u64,
    /// Of the durations of ops the part that lies before the first step or behind the last.
    pub(super) work_outside: f64,
    /// The idle time there.
    idle_outside_ns: i64,
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
    /// `None` where the run tells none, or where too little of the work is in them to divide it by them.
    pub(super) fn of(run: &Run, thresholds: &Thresholds) -> Option<Self> {
        let section = run.sections.get("steps")?;
        let stages: Vec<StageSteps> = section.rows.iter().filter_map(|row| StageSteps::read(row, run)).collect();
        let figure = |key: &str| section.summary.get(key);
        let steps = Self {
            stages,
            devices: figure("devices").and_then(count).unwrap_or(1).max(1),
            work_outside: figure("work_outside_pct").and_then(Value::number).unwrap_or(0.0) / 100.0,
            idle_outside_ns: figure("idle_outside_ns")
                .and_then(count)
                .and_then(|ns| i64::try_from(ns).ok())
                .unwrap_or(0),
        };
        (steps.count() > 0 && steps.work_outside <= thresholds.most_work_outside).then_some(steps)
    }

    /// Over all devices.
    pub(super) fn count(&self) -> u64 {
        self.stages.iter().fold(0, |sum, stage| sum.saturating_add(stage.count))
    }

    /// By how many steps to divide the bar of this run.
    pub(super) fn in_bar(&self, run: &Run) -> u64 {
        if run.devices_merged { (self.count() / self.devices).max(1) } else { self.count() }
    }

    /// The idle time of the run's bar before the first step and behind the last: of what the profiler waited for, not of
    /// steps. A wall time that a person gave has no such ends, and devices that are merged idle together alone.
    pub(super) fn idle_outside_ns(&self, run: &Run) -> i64 {
        let is_known = run.wall.source == WallSource::Window && (!run.devices_merged || run.devices.len() == 1);
        if is_known { self.idle_outside_ns.clamp(0, run.wall.cpu_ns.max(0)) } else { 0 }
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
