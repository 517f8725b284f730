//! The mean time of a step by stage, divided into what the GPU did: work, waiting for the host, other idle time. The parts add
//! up to the step. From the [`MeasuredSteps`](super::measured_steps::MeasuredSteps), without another pass over the ops.

use super::measured_steps::MeasuredStep;
use super::stages::{Stage, representative};
use super::steps::no_steps;
use crate::analysis::context::Context;
use crate::analysis::section::{Answer, Ms, Pct, Sections, TypedSection, section};
use crate::trace::Ns;

section! {
    /// The mean time of a step of each stage and its parts.
    pub(crate) struct StepBudget("step_budget", "Mean time of a step");
    row StepBudgetRow {
        stage: Stage,
        steps: usize,
        mean_ms: Ms,
        busy_ms: Ms,
        host_late_ms: Ms = "Host late",
        other_idle_ms: Ms,
        busy_pct: Pct = "GPU busy",
        host_late_pct: Pct,
        other_idle_pct: Pct,
    }
}

impl StepBudgetRow {
    /// The sum over the steps of a time whose mean is given.
    pub(crate) fn in_all_ms(&self, Ms(mean_ms): Ms) -> f64 {
        mean_ms * self.steps as f64
    }
}

/// The mean late time of the steps of all stages; `None` without steps.
pub(crate) fn mean_host_late(sections: &Sections) -> Option<Ms> {
    let stages = StepBudget::rows(sections);
    let steps: usize = stages.iter().map(|stage| stage.steps).sum();
    let late_ms: f64 = stages.iter().map(|stage| stage.in_all_ms(stage.host_late_ms)).sum();
    (steps > 0).then(|| Ms(late_ms / steps as f64))
}

/// One row per stage with steps on a device.
pub(crate) fn step_budget(context: &Context) -> Answer<StepBudget> {
    let measured = &context.measured_steps().steps;
    let on_device: Vec<&MeasuredStep> = measured.iter().filter(|step| step.step.device.is_some()).collect();
    if on_device.is_empty() {
        return no_steps(context);
    }
    let of_stage = |stage| on_device.iter().copied().filter(move |step| step.step.info.stage == stage);
    StepBudget::answer("the steps and the GPU ops in them")
        .limit(
            "Means over the steps of the stage, so that the parts add up to the step; without the last step of each device if \
             there are two others. Steps by stage has the medians.",
        )
        .limit("Other idle time is turnaround between kernels, and waiting for another stream or an event.")
        .with_rows(Stage::ALL.into_iter().filter_map(|stage| row(stage, &of_stage(stage).collect::<Vec<_>>())))
}

/// `None` if there are no steps.
fn row(stage: Stage, steps: &[&MeasuredStep]) -> Option<StepBudgetRow> {
    let steps: Vec<&MeasuredStep> = representative(steps, |step| step.reaches_next).copied().collect();
    let sum = |part: fn(&MeasuredStep) -> Ns| steps.iter().fold(Ns::ZERO, |sum, step| sum + part(step));
    let (time, busy, late) = (sum(|step| step.time), sum(|step| step.busy), sum(|step| step.host_late));
    let other = time.since(busy).since(late);
    let mean = |time: Ns| Ms(time.0 as f64 / 1e6 / steps.len() as f64);
    (!steps.is_empty()).then(|| StepBudgetRow {
        stage,
        steps: steps.len(),
        mean_ms: mean(time),
        busy_ms: mean(busy),
        host_late_ms: mean(late),
        other_idle_ms: mean(other),
        busy_pct: Pct::of(busy, time),
        host_late_pct: Pct::of(late, time),
        other_idle_pct: Pct::of(other, time),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::rows_of;
    use crate::trace::testing::TestTrace;

    #[test]
    fn the_parts_of_the_mean_step_add_up() {
        let mut trace = TestTrace::new();
        // Two steps of 100 us that reach the next: busy for 60 and 40 us, and late launches after that.
        for (step, busy) in [(0, 60), (1, 40), (2, 100)] {
            let from = step * 100;
            trace.in_us().range("step[DECODE bs=1]", from..from + 95).launch(from..from + 1);
            trace.launches("k", from + 2..from + 2 + busy / 2).launch(from + 60..from + 62);
            trace.launches("k", from + 70..from + 70 + busy / 2);
        }
        let section = trace.section(step_budget);
        let sums: Vec<f64> = section
            .rows
            .iter()
            .map(|row| ["busy_ms", "host_late_ms", "other_idle_ms"].map(|part| row.amount(part)).iter().sum())
            .collect();
        let means: Vec<f64> = section.rows.iter().map(|row| row.amount("mean_ms")).collect();
        assert!(sums.iter().zip(&means).all(|(sum, mean)| (sum - mean).abs() < 1e-9), "{sums:?} {means:?}");
        assert_eq!(rows_of(&section, &["stage", "steps"]), ["decode 2"]);
        assert!((section.rows[0].amount("busy_ms") - 0.05).abs() < 1e-9);
    }
}
