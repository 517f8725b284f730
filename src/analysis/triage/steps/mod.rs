//! The table of engine steps: count, batch size, tokens, duration, busy time and attention work per stage. Sorting the
//! durations dominates its cost: O(s log s) for `s` steps.

use super::definitions::ATTENTION_WORK;
use super::serving::ModelShape;
use super::times::BusyTime;
use super::view::View;
use crate::analysis::inference::passes::steps_on_devices;
use crate::analysis::measure::percentiles::of_sorted;
use crate::analysis::section::{Answer, ColumnKind, Pct, Plain, TypedSection, Us, Value, section};
use crate::analysis::structure::measured_steps::starting_steps;
use crate::analysis::structure::stages::{
    Basis, Form, Stage, Step, TimedStep, TokenSums, representative, steps, timed,
};
use crate::analysis::structure::steps::source_of;
use crate::analysis::time::long_gaps::LongGaps;
use crate::trace::Ns;
use crate::words;

section! {
    /// The steps of each stage.
    pub(crate) struct TriageSteps("triage_steps", "Steps");
    row TriageStepRow {
        stage: Stage,
        steps: usize,
        batch_size: Option<CountRange>,
        tokens: Option<CountRange>,
        median_us: Option<Us>,
        p90_us: Option<Us> = "p90",
        spread_pct: Option<Pct>,
        gpu_busy_pct: Option<Pct>,
        attention_gflop: Option<f64> = "Attention GFLOP",
        attention_tflops: Option<f64> = "Attention TFLOP/s",
        example: Option<String>,
    }
    figures TriageStepFigures { steps: usize }
}

/// The smallest and the largest of some counts: a number if they are equal, else `1-4`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CountRange(u64, u64);

impl Plain for CountRange {
    const KIND: ColumnKind = ColumnKind::Number;

    fn value(self) -> Value {
        let Self(min, max) = self;
        if min == max { min.into() } else { words::numbers::range(min, max).into() }
    }

    fn of_value(value: &Value) -> Option<Self> {
        let Value::Text(text) = value else { return u64::of_value(value).map(|count| Self(count, count)) };
        let (min, max) = text.split_once('-')?;
        Some(Self(min.parse().ok()?, max.parse().ok()?))
    }
}

impl CountRange {
    fn of(values: impl Iterator<Item = u64> + Clone) -> Option<Self> {
        Some(Self(values.clone().min()?, values.max()?))
    }
}

/// Builds the table with one row per stage.
pub(crate) fn table(view: &View) -> Answer<TriageSteps> {
    let all_steps = steps_of_view(view);
    if all_steps.is_empty() {
        let why = "The trace has no step annotations of SGLang, vLLM or TensorRT-LLM and no ProfilerStep#.";
        let recapture = "torch.profiler with a schedule and prof.step(), or the profiling endpoint of a serving engine";
        return TriageSteps::missing(why, recapture);
    }
    let shape = view.options.model_shape.or_else(|| view.server.model_shape());
    let busy = BusyTime::new(view.trace, view.ops().map(|(.., op)| op));
    let of_no_step = LongGaps::of(view.trace).of_no_step(view.trace);
    // Steps without a device come last in the list.
    let (on_host, on_device): (Vec<&Step>, Vec<&Step>) = all_steps.iter().partition(|step| step.device.is_none());
    let timed: Vec<TimedStep> =
        [on_device, on_host].into_iter().flat_map(|steps| timed(steps.into_iter(), &of_no_step)).collect();
    let is_starting = starting_steps(view.trace, &mut all_steps.iter());
    let timed: Vec<TimedStep> = timed.into_iter().filter(|timed| !is_starting(timed.step)).collect();
    let form = all_steps.first().map_or(Form::Engine, |step| step.info.form);
    let mut answer = TriageSteps::answer(source_of(form));
    for stage in Stage::ALL {
        let steps: Vec<&TimedStep> = timed.iter().filter(|timed| stage_of(view, timed.step) == stage).collect();
        if !steps.is_empty() {
            answer.rows.push(row(view, stage, &steps, shape, &busy));
        }
    }
    answer.limits = limits(&all_steps, shape);
    if timed.len() < all_steps.len() {
        answer.limits.push(words::steps::starting_left_out((all_steps.len() - timed.len()) as u64));
    }
    answer.with_figures(TriageStepFigures { steps: timed.len() })
}

/// The steps on devices with ops in the view.
fn steps_of_view(view: &View) -> Vec<Step> {
    let devices = view.times().devices();
    let is_selected = |step: &Step| step.device.is_none_or(|device| devices.contains(&device));
    let annotated = steps(view.trace);
    // Annotations with plain names may be those of layers, which the order of the kernels shows.
    let is_proven = annotated.iter().any(|step| !step.info.form.is_plain());
    let on_devices = if is_proven { Vec::new() } else { steps_on_devices(view.trace) };
    let is_better = on_devices.first().is_some_and(|step| step.info.form.is_inferred());
    let steps = if annotated.is_empty() || is_better { on_devices } else { annotated };
    steps.into_iter().filter(is_selected).collect()
}

/// The stage of a step; if its annotation has none, the stage of the file.
fn stage_of(view: &View, step: &Step) -> Stage {
    if step.info.stage == Stage::All { view.file_stage } else { step.info.stage }
}

fn row(view: &View, stage: Stage, timed: &[&TimedStep], shape: Option<ModelShape>, busy: &BusyTime) -> TriageStepRow {
    let steps = || timed.iter().map(|timed| timed.step);
    let representative: Vec<&TimedStep> = representative(timed, |timed| timed.reaches_next).copied().collect();
    let mut times: Vec<i64> = representative.iter().map(|timed| timed.time.0).collect();
    times.sort_unstable();
    let us = |percent| of_sorted(&times, percent).map(|ns| ns / 1e3);
    let (p10, median, p90) = (us(10), us(50), us(90));
    let spread = median.filter(|median| *median > 0.0).zip(p90.zip(p10));
    let spread = spread.map(|(median, (p90, p10))| 100.0 * (p90 - p10) / median);
    let (gflop, tflops) = attention(timed, shape);
    let code = view.trace.code.as_deref();
    let example = steps().next().zip(code).map(|(step, code)| code.annotation_names.get(step.name));
    TriageStepRow {
        stage,
        steps: timed.len(),
        batch_size: CountRange::of(steps().filter_map(|step| step.info.batch_size)),
        tokens: CountRange::of(steps().filter_map(|step| step.info.tokens)),
        median_us: median.map(Us),
        p90_us: p90.map(Us),
        spread_pct: spread.map(Pct),
        gpu_busy_pct: busy_pct(busy, &representative),
        attention_gflop: gflop,
        attention_tflops: tflops,
        example: example.map(str::to_owned),
    }
}

/// GFLOP per step, and TFLOP/s over the time of the steps. Only steps whose annotations have sums count.
fn attention(steps: &[&TimedStep], shape: Option<ModelShape>) -> (Option<f64>, Option<f64>) {
    let Some(shape) = shape else { return (None, None) };
    let (mut pairs, mut time, mut count) = (0.0, Ns::ZERO, 0.0);
    for timed in steps {
        if let Some(step_pairs) = attended_pairs(timed.step) {
            pairs += step_pairs;
            time += timed.time;
            count += 1.0;
        }
    }
    // Two matrix products, one multiplication and one addition each.
    let per_pair = 4.0 * f64::from(shape.heads) * f64::from(shape.head_dim) * f64::from(shape.layers);
    let flop = pairs * per_pair;
    let gflop = (count > 0.0).then(|| flop / count / 1e9);
    (gflop, (time > Ns::ZERO).then(|| flop / time.0 as f64 / 1e3))
}

/// The number of pairs of a query token and a token that it attends to. With causal attention a new token of a prompt attends
/// to earlier tokens only, so half of the pairs among the new tokens do not count.
fn attended_pairs(step: &Step) -> Option<f64> {
    let (context, generation) = (step.info.context, step.info.generation);
    if context.is_none() && generation.is_none() {
        return None;
    }
    let causal = |sums: TokenSums| sums.sqsk as f64 - sums.sqsq.min(sums.sqsk) as f64 / 2.0;
    let pairs = context.map_or(0.0, causal) + generation.map_or(0.0, |sums| sums.sqsk as f64);
    (pairs > 0.0).then_some(pairs)
}

fn limits(steps: &[Step], shape: Option<ModelShape>) -> Vec<String> {
    let mut limits = Vec::new();
    let has_sums = steps.iter().any(|step| attended_pairs(step).is_some());
    if has_sums && shape.is_none() {
        limits.push(
            "Attention work per step requires the model dimensions. Pass --model-shape LAYERS,HEADS,HEAD_DIM or server \
             arguments that contain the model configuration."
                .to_owned(),
        );
    } else if has_sums {
        limits.push(ATTENTION_WORK.to_owned());
    }
    let count = |basis| steps.iter().filter(|step| step.basis == basis).count();
    let (by_launches, by_host) = (count(Basis::Launches), count(Basis::Host));
    if by_launches > 0 {
        limits.push(words::steps::by_launches(by_launches, steps.len()));
    }
    if by_host > 0 {
        limits.push(words::steps::by_host(by_host, steps.len()));
    }
    if steps.iter().any(|step| step.info.form == Form::Word) {
        limits.push(
            "Steps are annotations with the word prefill, extend or decode, because the trace has no step annotations in the \
             form of a serving engine."
                .to_owned(),
        );
    }
    let mut devices: Vec<u32> = steps.iter().filter_map(|step| step.device).map(|device| device.0).collect();
    devices.sort_unstable();
    devices.dedup();
    if devices.len() > 1 {
        limits.push(words::steps::once_per_device(devices.len()));
    }
    limits
}

/// The busy share of the time of the steps, in percent; `None` if no step has a device.
fn busy_pct(busy: &BusyTime, steps: &[&TimedStep]) -> Option<Pct> {
    let (mut busy_time, mut time) = (Ns::ZERO, Ns::ZERO);
    for timed in steps {
        let Some(device) = timed.step.device else { continue };
        busy_time += busy.between(device, timed.step.start, timed.until);
        time += timed.time;
    }
    (time > Ns::ZERO).then(|| Pct::of(busy_time, time))
}

#[cfg(test)]
mod tests;
