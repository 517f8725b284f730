//! The median and the slowest step of a stage, which the page shows below each other, and the first step of each stage, at which it aligns
//! the timelines of several traces. Sorts the steps of the trace.

use super::moment::Place;
use super::{LaneKind, StepBar, Timeline};
use crate::analysis::structure::stages::Stage;
use crate::ordering;
use crate::trace::{Ns, Trace};

/// Fewer steps have no typical one; as in the section `slowest_step`.
const MIN_STEPS: usize = 3;

/// Two steps of one stage on one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepPair {
    /// Their stage.
    pub stage: Stage,
    /// The step with the median duration.
    pub median: Place,
    /// The longest step.
    pub slowest: Place,
}

/// The first step of a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FirstStep {
    /// The stage.
    pub stage: Stage,
    /// The step.
    pub place: Place,
}

impl Timeline {
    /// The first step of each stage, that of the stage with the most time first.
    pub fn first_steps(&self, trace: &Trace) -> Vec<FirstStep> {
        let steps = self.steps(trace);
        let time_of =
            |stage: Stage| steps.iter().filter(|step| step.stage == stage).fold(Ns::ZERO, |sum, step| sum + step.time);
        let mut stages: Vec<(Ns, Stage)> = Stage::ALL.into_iter().map(|stage| (time_of(stage), stage)).collect();
        ordering::sort_by_key(&mut stages, |(time, _)| std::cmp::Reverse(*time));
        let first = |(_, stage): (Ns, Stage)| {
            let row = steps.iter().position(|step| step.stage == stage)?;
            let lane = self.lane(LaneKind::Steps(steps.get(row)?.device))?;
            Some(FirstStep { stage, place: self.place(trace, lane, row)? })
        };
        stages.into_iter().filter_map(first).collect()
    }

    /// The pair of the stage that takes the most time. `None` if no stage has three steps on the device of its slowest one, or if
    /// they last equally long.
    pub fn step_pair(&self, trace: &Trace) -> Option<StepPair> {
        let pairs = Stage::ALL.into_iter().filter_map(|stage| self.pair_of(trace, stage));
        let (pair, _) = pairs.reduce(|largest, next| if next.1 > largest.1 { next } else { largest })?;
        Some(pair)
    }

    /// The pair of a stage and the time of all its steps.
    fn pair_of(&self, trace: &Trace, stage: Stage) -> Option<(StepPair, Ns)> {
        let duration = |step: &StepBar| step.time;
        let of_stage =
            self.steps(trace).iter().enumerate().filter(|(_, step)| step.stage == stage && step.device.is_some());
        let mut steps: Vec<(usize, &StepBar)> = of_stage.collect();
        let time = steps.iter().fold(Ns::ZERO, |sum, (_, step)| sum + duration(step));
        ordering::sort_by_key(&mut steps, |(row, step)| (duration(step), *row));
        let slowest = *steps.last()?;
        steps.retain(|(_, step)| step.device == slowest.1.device);
        let median = *steps.get((steps.len() - 1) / 2)?;
        let is_comparable = steps.len() >= MIN_STEPS && duration(median.1) < duration(slowest.1);
        let lane = self.lane(LaneKind::Steps(slowest.1.device))?;
        let place = |(row, _): (usize, &StepBar)| self.place(trace, lane, row);
        let pair = StepPair { stage, median: place(median)?, slowest: place(slowest)? };
        is_comparable.then_some((pair, time))
    }
}
