//! The mean time of a step by stage, divided into what the GPU did: work, waiting for the host, other idle time. The parts add
//! up to the step. From the [`MeasuredSteps`](super::measured_steps::MeasuredSteps), without another pass over the ops.

use super::measured_steps::MeasuredStep;
use super::stages::Stage;
use super::steps::missing;
use crate::analysis::context::Context;
use crate::analysis::section::{Section, Value};
use crate::trace::Ns;

const TITLE: &str = "Mean time of a step";
const COLUMNS: [&str; 9] = [
    "stage",
    "steps",
    "mean_ms",
    "busy_ms",
    "host_late_ms",
    "other_idle_ms",
    "busy_pct",
    "host_late_pct",
    "other_idle_pct",
];

/// One row per stage with steps on a device.
pub(crate) fn step_budget(context: &Context) -> Section {
    let measured = &context.measured_steps().steps;
    let on_device: Vec<&MeasuredStep> = measured.iter().filter(|step| step.step.device.is_some()).collect();
    if on_device.is_empty() {
        return missing(context, TITLE, &COLUMNS);
    }
    let mut section = Section::new(TITLE, "the steps of the serving engine and the GPU ops in them", &COLUMNS)
        .limit("Means over all steps of the stage, so that the parts add up to the step. Engine steps has the medians.")
        .limit("Other idle time is turnaround between kernels, and waiting for another stream or an event.");
    for stage in Stage::ALL {
        let steps: Vec<&MeasuredStep> =
            on_device.iter().copied().filter(|step| step.step.info.stage == stage).collect();
        if !steps.is_empty() {
            section.row(values(stage, &steps));
        }
    }
    section
}

fn values(stage: Stage, steps: &[&MeasuredStep]) -> [Value; COLUMNS.len()] {
    let sum = |part: fn(&MeasuredStep) -> Ns| steps.iter().fold(Ns::ZERO, |sum, step| sum + part(step));
    let (time, busy, late) = (sum(|step| step.time), sum(|step| step.busy), sum(|step| step.host_late));
    let other = time.since(busy).since(late);
    let mean = |time: Ns| Value::Float(time.0 as f64 / 1e6 / steps.len() as f64);
    let [mean_ms, busy_ms, late_ms, other_ms] = [time, busy, late, other].map(mean);
    let [busy_pct, late_pct, other_pct] = [busy, late, other].map(|part| Value::pct(part, time));
    [stage.label().into(), steps.len().into(), mean_ms, busy_ms, late_ms, other_ms, busy_pct, late_pct, other_pct]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::rows_of;
    use crate::trace::testing::TestTrace;

    #[test]
    fn the_parts_of_the_mean_step_add_up() {
        let mut trace = TestTrace::new();
        // Two steps of 100 us: busy for 60 and 40 us, and late launches after that.
        for (step, busy) in [(0, 60), (1, 40), (2, 100)] {
            let from = step * 100;
            trace.in_us().range("step[DECODE bs=1]", from..from + 95).launch(from..from + 1);
            trace.launches("k", from + 2..from + 2 + busy / 2).launch(from + 60..from + 62);
            trace.launches("k", from + 70..from + 70 + busy / 2);
        }
        let section = step_budget(&Context::new(&trace.finish(), 30));
        let sums: Vec<f64> = section
            .rows
            .iter()
            .map(|row| ["busy_ms", "host_late_ms", "other_idle_ms"].map(|part| row.amount(part)).iter().sum())
            .collect();
        let means: Vec<f64> = section.rows.iter().map(|row| row.amount("mean_ms")).collect();
        assert!(sums.iter().zip(&means).all(|(sum, mean)| (sum - mean).abs() < 1e-9), "{sums:?} {means:?}");
        assert_eq!(rows_of(&section, &["stage", "steps"]), ["decode 3"]);
        assert!((section.rows[0].amount("busy_ms") - 0.2 / 3.0).abs() < 1e-9);
    }
}
