//! A row for each step of the serving engine, in the order of time. From the
//! [`MeasuredSteps`](super::measured_steps::MeasuredSteps), without another pass over the ops.

use super::measured_steps::MeasuredStep;
use super::steps::{evidence, missing};
use crate::analysis::context::Context;
use crate::analysis::labels;
use crate::analysis::section::{Section, Value};
use crate::trace::Ns;

const TITLE: &str = "Steps over time";
const COLUMNS: [&str; 15] = [
    "step",
    "stage",
    "device_id",
    "start_ns",
    "duration_ns",
    "not_traced_ns",
    "busy_ns",
    "host_late_ns",
    "batch",
    "tokens",
    "context",
    "kernels",
    "graph_launches",
    "found_by",
    "confidence",
];
/// The number of rows that are shown.
const MAX_ROWS: usize = 10_000;

/// One row per step and device.
pub(crate) fn step_list(context: &Context) -> Section {
    let steps = &context.measured_steps().steps;
    if steps.is_empty() {
        return missing(context, TITLE, &COLUMNS);
    }
    let mut section = Section::new(TITLE, "the steps of the serving engine and the GPU ops in them", &COLUMNS)
        .limit("A step lasts from its first GPU op to the first op of the next step on its device, without time in which the trace lacks ops that ran.")
        .limit("Context: the tokens in the KV cache of all sequences that generate, where the annotation of the step states their sum.")
        .from_first_op(context.trace);
    for (step, number) in steps.iter().take(MAX_ROWS).zip(1_usize..) {
        section.row(values(context, step, number));
    }
    section.rows_in_all = steps.len() as u64;
    section
}

/// The time of the step in which the trace lacks ops; null without such time, so that the column is not shown.
fn not_traced(measured: &MeasuredStep) -> Value {
    let not_traced = measured.until.since(measured.step.start).since(measured.time);
    if not_traced > Ns::ZERO { not_traced.into() } else { Value::Null }
}

fn values(context: &Context, measured: &MeasuredStep, number: usize) -> [Value; COLUMNS.len()] {
    let step = &measured.step;
    let [found_by, confidence] = evidence(step.info.form);
    let on_device = |value: Value| if step.device.is_some() { value } else { Value::Null };
    [
        number.into(),
        step.info.stage.label().into(),
        step.device.map_or(Value::Null, |device| labels::device(context.trace, device)),
        step.start.into(),
        measured.time.into(),
        not_traced(measured),
        on_device(measured.busy.into()),
        on_device(measured.host_late.into()),
        step.info.batch_size.into(),
        step.info.tokens.into(),
        step.info.generation.map(|sums| sums.sk).into(),
        on_device(measured.kernels.into()),
        on_device(measured.graph_launches.into()),
        found_by.into(),
        confidence.into(),
    ]
}
