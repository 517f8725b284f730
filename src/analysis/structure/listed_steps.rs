//! A row for each step of the serving engine, in the order of time. From the
//! [`MeasuredSteps`](super::measured_steps::MeasuredSteps), without another pass over the ops.

use super::measured_steps::MeasuredStep;
use super::stages::Stage;
use super::steps::{evidence, no_steps};
use crate::analysis::context::Context;
use crate::analysis::labels;
use crate::analysis::section::{Answer, At, Stated, TypedSection, Value, first_op, section};
use crate::trace::Ns;
use std::collections::BTreeSet;

section! {
    /// The steps of the engine in the order of time.
    pub(crate) struct StepList("step_list", "Steps over time");
    row StepListRow {
        step: usize,
        stage: Stage,
        device_id: Value = "Device",
        start_ns: At,
        duration_ns: Ns,
        /// The time of the step in which the trace lacks ops; null without such time, so that the column is not shown.
        not_traced_ns: Option<Ns>,
        busy_ns: Option<Ns>,
        host_late_ns: Option<Ns>,
        batch: Option<u64> = "Batch size",
        tokens: Option<u64>,
        context: Option<u64> = "Context tokens",
        kernels: Option<u64>,
        graph_launches: Option<u64>,
        /// The step begins while its process starts, so that no figure of steps has it; null otherwise, so that the column is not shown.
        in_start_up: Option<bool> = "In start-up",
        found_by: String,
        confidence: String,
    }
    figures StepListFigures { first_op_ns: Stated<At> }
}

/// The number of rows that are shown.
const MAX_ROWS: usize = 10_000;

/// One row per step and device.
pub(crate) fn step_list(context: &Context) -> Answer<StepList> {
    let steps = context.measured_steps().all();
    let starting: BTreeSet<usize> = context.measured_steps().starting.iter().map(|step| step.number).collect();
    if steps.is_empty() {
        return no_steps(context);
    }
    let mut answer = StepList::answer("the steps and the GPU ops in them")
        .limit("A step lasts from its first GPU op to the first op of the next step on its device, without time in which the trace lacks ops that ran.")
        .limit("Context: the tokens in the KV cache of all sequences that generate, where the annotation of the step states their sum.")
        .with_figures(StepListFigures { first_op_ns: first_op(context.trace) })
        .with_rows(steps.iter().take(MAX_ROWS).map(|step| row(context, step, starting.contains(&step.number))));
    answer.rows_in_all = steps.len() as u64;
    answer
}

fn row(context: &Context, measured: &MeasuredStep, is_starting: bool) -> StepListRow {
    let info = &measured.step.info;
    let [found_by, confidence] = evidence(info.form).map(str::to_owned);
    let device = measured.step.device;
    let not_traced = measured.until.since(measured.step.start).since(measured.time);
    StepListRow {
        step: measured.number,
        stage: info.stage,
        device_id: device.map_or(Value::Null, |device| labels::device(context.trace, device)),
        start_ns: At(measured.step.start),
        duration_ns: measured.time,
        not_traced_ns: (not_traced > Ns::ZERO).then_some(not_traced),
        busy_ns: device.map(|_| measured.busy),
        host_late_ns: device.map(|_| measured.host_late),
        batch: info.batch_size,
        tokens: info.tokens,
        context: info.generation.map(|sums| sums.sk),
        kernels: device.map(|_| measured.kernels),
        graph_launches: device.map(|_| measured.graph_launches),
        in_start_up: is_starting.then_some(true),
        found_by,
        confidence,
    }
}
