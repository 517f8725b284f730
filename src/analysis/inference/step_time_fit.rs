//! How the busy time of decode steps grows with the batch and the context: a fixed time, a time per sequence and a time per
//! token of context, by least squares over the steps of one trace. One pass over the steps. `compare::step_times` draws the line through the steps of
//! several traces.
//!
//! The sums are taken of differences from the mean, so that similar contexts lose no digits. If batch and context grow
//! together, their parts cannot be told apart and there is no row.

use crate::analysis::context::Context;
use crate::analysis::section::{Answer, MeanNs, Ms, Pct, TypedSection, Us, Value, section};
use crate::analysis::structure::stages::{Stage, representative};
use crate::analysis::structure::steps::no_steps;
use crate::rules::inference::thresholds;
use crate::trace::Ns;
use crate::words::steps as words;

section! {
    /// The line through the busy times of the decode steps.
    pub(crate) struct StepTimeFit("step_time_fit", "Step time by batch and context");
    row StepTimeFitRow {
        stage: Stage,
        steps: usize,
        batch_sizes: usize,
        fixed_ms: Ms,
        per_sequence_us: Us,
        per_context_token_ns: MeanNs = "Per token of context",
        residual_pct: Pct,
        explained_pct: Pct,
    }
}

/// One decode step.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) batch: f64,
    /// Tokens in the KV cache, of all sequences together.
    pub(crate) context: f64,
    pub(crate) busy_ns: f64,
}

/// The coefficients in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Fit {
    fixed: f64,
    per_sequence: f64,
    per_token: f64,
    /// Root of the mean squared difference.
    residual: f64,
    mean: f64,
    /// The part of the variance that the line explains.
    explained: f64,
}

/// One row for the decode steps.
pub(crate) fn step_time_fit(context: &Context) -> Answer<StepTimeFit> {
    let steps = &context.measured_steps().steps;
    if steps.is_empty() {
        return no_steps(context);
    }
    let counted = representative(steps, |step| step.reaches_next).filter(|step| step.busy > Ns::ZERO);
    let samples = counted.filter_map(|step| {
        let info = step.step.info;
        let context = info.generation.filter(|_| info.stage == Stage::Decode)?.sk;
        Some(Sample { batch: info.batch_size? as f64, context: context as f64, busy_ns: step.busy.0 as f64 })
    });
    let samples: Vec<Sample> = samples.collect();
    let sizes = batch_sizes(&samples);
    let limits = &thresholds().step_time_line;
    let (min_steps, min_sizes) = (limits.min_steps.value, limits.min_batch_sizes.value);
    if samples.len() < min_steps || sizes.len() < min_sizes {
        let why = words::few_for_line([min_steps, min_sizes], [samples.len(), sizes.len()]);
        return StepTimeFit::missing(why, "");
    }
    let Some(fit) = fit(&samples) else {
        let why = "Batch size and context grow together in this trace, so the time of a sequence and of its context cannot be \
                   told apart.";
        return StepTimeFit::missing(why, "");
    };
    let answer = StepTimeFit::answer("busy times of decode steps, and their batch size and context").limit(
        "The busy time of a step is about the fixed time, plus the time per sequence, plus the time per token of context. The \
         residual is the root of the mean squared difference, in per cent of the mean.",
    );
    answer.with_rows([fit.row(samples.len(), sizes.len())])
}

impl Fit {
    /// The row of the decode steps.
    pub(crate) fn row(&self, steps: usize, batch_sizes: usize) -> StepTimeFitRow {
        StepTimeFitRow {
            stage: Stage::Decode,
            steps,
            batch_sizes,
            fixed_ms: Ms(self.fixed / 1e6),
            per_sequence_us: Us(self.per_sequence / 1e3),
            per_context_token_ns: MeanNs(self.per_token),
            residual_pct: Pct(100.0 * self.residual / self.mean),
            explained_pct: Pct(100.0 * self.explained),
        }
    }

    /// The figures of a row: fixed time in ms, per sequence in us, per token in ns, residual and explained part in per cent.
    pub(crate) fn values(&self) -> [Value; 5] {
        let row = self.row(0, 0);
        [row.fixed_ms.0, row.per_sequence_us.0, row.per_context_token_ns.0, row.residual_pct.0, row.explained_pct.0]
            .map(Value::from)
    }
}

/// The different batch sizes of some steps, in order.
pub(crate) fn batch_sizes(samples: &[Sample]) -> Vec<u64> {
    let mut sizes: Vec<u64> = samples.iter().map(|sample| sample.batch as u64).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// The plane of least squares; `None` if batch and context are not independent.
pub(crate) fn fit(samples: &[Sample]) -> Option<Fit> {
    let count = samples.len() as f64;
    let mean = |of: fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / count;
    let (batch, context, time) = (mean(|at| at.batch), mean(|at| at.context), mean(|at| at.busy_ns));
    let sum = |of: &dyn Fn(f64, f64, f64) -> f64| -> f64 {
        samples.iter().map(|at| of(at.batch - batch, at.context - context, at.busy_ns - time)).sum()
    };
    let (bb, cc, bc) = (sum(&|b, _, _| b * b), sum(&|_, c, _| c * c), sum(&|b, c, _| b * c));
    let (bt, ct, tt) = (sum(&|b, _, t| b * t), sum(&|_, c, t| c * t), sum(&|_, _, t| t * t));
    let determinant = bb * cc - bc * bc;
    if determinant <= thresholds().step_time_line.min_independent_share.value * bb * cc {
        return None;
    }
    let (per_sequence, per_token) = ((bt * cc - ct * bc) / determinant, (ct * bb - bt * bc) / determinant);
    let squares = (tt - per_sequence * bt - per_token * ct).max(0.0);
    Some(Fit {
        fixed: time - per_sequence * batch - per_token * context,
        per_sequence,
        per_token,
        residual: (squares / count).sqrt(),
        mean: time,
        explained: if tt > 0.0 { 1.0 - squares / tt } else { 1.0 },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::section::Section;
    use crate::analysis::testing::{keys, rows_of};
    use crate::trace::testing::TestTrace;

    /// Decode steps of these batch sizes and contexts, whose busy time in microseconds is `time`.
    fn section(steps: &[(i64, i64)], time: fn(i64, i64) -> i64) -> Section {
        let mut trace = TestTrace::new();
        trace.in_us();
        for ((batch, context), number) in steps.iter().zip(0..) {
            let at = number * 10_000;
            let name = format!("step[DECODE bs={batch} g_sq={batch} g_sk={context}]");
            let busy = time(*batch, *context);
            trace.range(&name, at..at + 50).launch(at + 1..at + 2).launches("k", at + 100..at + 100 + busy);
        }
        // The last step of a device reaches no other and does not count.
        let end = steps.len() as i64 * 10_000;
        trace
            .range("step[DECODE bs=1 g_sq=1 g_sk=1]", end..end + 50)
            .launch(end + 1..end + 2)
            .launches("k", end + 100..end + 101);
        trace.section(step_time_fit)
    }

    const STEPS: [(i64, i64); 9] =
        [(1, 100), (1, 400), (2, 300), (4, 100), (4, 900), (8, 800), (8, 100), (2, 900), (1, 700)];

    #[test]
    fn a_linear_step_time_is_found_exactly() {
        let section = section(&STEPS, |batch, context| 2_000 + 30 * batch + 2 * context);
        assert_eq!(rows_of(&section, &keys::<StepTimeFit>()), ["decode 9 4 2 30 2000 0 100"]);
    }

    #[test]
    fn the_residual_is_that_of_a_calculation_by_hand() {
        // A step that is 8 us longer than seven others on the line: in the mean of batch and context of two groups.
        let samples = [(1.0, 1.0, 10.0), (1.0, 3.0, 10.0), (3.0, 1.0, 10.0), (3.0, 3.0, 10.0), (2.0, 2.0, 20.0)];
        let samples = samples.map(|(batch, context, busy_ns)| Sample { batch, context, busy_ns });
        let fit = fit(&samples).unwrap();
        // Batch and context explain nothing: differences of -2 four times and 8 once, (4 x 4 + 64) / 5 = 16.
        assert_eq!((fit.fixed, fit.per_sequence, fit.per_token), (12.0, 0.0, 0.0));
        assert_eq!((fit.residual, fit.mean, fit.explained), (4.0, 12.0, 0.0));
    }

    #[test]
    fn too_few_or_dependent_steps_have_no_line() {
        let why = |section: Section| section.missing.unwrap().why;
        let few = why(section(&STEPS[..6], |_, _| 100));
        assert!(few.ends_with("the trace has 6 of 4."), "{few}");
        let two_sizes: Vec<(i64, i64)> = (0..12).map(|index| (1 + index % 2, 100 * index)).collect();
        assert!(why(section(&two_sizes, |_, _| 100)).ends_with("the trace has 12 of 2."));
        let together: Vec<(i64, i64)> = (1..12).map(|batch| (batch, 1_000 * batch)).collect();
        assert!(why(section(&together, |batch, _| 100 + batch)).contains("grow together"));
    }
}
