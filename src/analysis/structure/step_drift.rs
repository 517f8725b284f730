//! Whether the same kernels take longer from step to step of a stage: the clock of the GPU falls, or the steps have more to do. From the
//! steps with the same batch and tokens on one device, and one sweep over its ops for each stage; O(n) for `n` ops, because a bounded
//! number of steps is compared.
//!
//! Only kernels that each step launches equally often are compared, so that another mixture of kernels is no drift. Their times are
//! summed by category. A category drifts if the order of its times is no chance ([`trend`]); else its median is stated.

use super::measured_steps::MeasuredStep;
use super::stages::{Stage, representative};
use crate::analysis::categories::Categories;
use crate::analysis::context::Context;
use crate::analysis::measure::mode::mode;
use crate::analysis::measure::percentiles::median;
use crate::analysis::measure::trend::{Trend, trend};
use crate::analysis::section::{Answer, CategoryName, Ms, Pct, TypedSection, section};
use crate::ordering;
use crate::rules::inference::thresholds;
use crate::rules::names;
use crate::trace::{DeviceId, NameId, Ns, OpKind, ProcessId};
use std::cmp::Reverse;
use std::collections::BTreeMap;

section! {
    /// The kernels of the first and the last step of each stage, by category.
    pub(crate) struct StepDrift("step_drift", "Kernels over the steps");
    row StepDriftRow {
        stage: Stage,
        category: CategoryName,
        steps: usize,
        first_ms: Ms = "In the first step",
        last_ms: Ms = "In the last step",
        /// `None` if the times of the steps differ by chance.
        change_pct: Option<Pct> = "Change",
    }
}

/// The steps that are compared at most.
const MAX_STEPS: usize = 300;

/// One row per stage and category of its kernels. `None` if no category drifts.
pub(crate) fn step_drift(context: &Context) -> Option<Answer<StepDrift>> {
    let lanes = Stage::ALL.into_iter().filter_map(|stage| Lane::of(context, stage));
    let rows: Vec<StepDriftRow> = lanes.flat_map(|lane| lane.rows(context).unwrap_or_default()).collect();
    (!rows.is_empty()).then(|| {
        StepDrift::answer("the kernels of steps with the same batch and tokens")
            .limit("Kernels that each step of the stage launches equally often on one device, without communication. Sums of their durations.")
            .limit("First and last step are those of a line through all steps, which a few long ones do not move. A category without a change varies by chance, and has its median.")
            .with_rows(rows)
    })
}

/// The steps of a stage on one device with the same batch and tokens, in the order of time.
struct Lane {
    stage: Stage,
    process: ProcessId,
    device: DeviceId,
    /// Start and end.
    steps: Vec<(Ns, Ns)>,
}

/// How often a kernel runs in a step, and for how long.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    count: i64,
    time: Ns,
}

/// A kernel that runs equally often in most steps.
struct UsualKernel {
    name: NameId,
    steps: Vec<(usize, Times)>,
    /// How often it runs in most of them.
    count: i64,
}

impl Lane {
    /// The largest group of comparable steps; `None` if it is too small for a trend.
    fn of(context: &Context, stage: Stage) -> Option<Self> {
        let all = &context.measured_steps().steps;
        let of_stage: Vec<&MeasuredStep> =
            all.iter().filter(|step| step.step.info.stage == stage && step.step.device.is_some()).collect();
        let mut groups: BTreeMap<_, Vec<(Ns, Ns)>> = BTreeMap::new();
        for measured in representative(&of_stage, |step| step.reaches_next) {
            let (step, info) = (&measured.step, &measured.step.info);
            let load = (info.batch_size, info.unpadded_batch, info.tokens);
            groups.entry((step.process, step.device, load)).or_default().push((step.start, measured.until));
        }
        // Of equally large ones, the first.
        let ((process, device, _), steps) = groups.into_iter().rev().max_by_key(|(_, steps)| steps.len())?;
        let count = steps.len().min(MAX_STEPS);
        let steps = (0..count).filter_map(|index| steps.get(index * steps.len() / count).copied()).collect();
        let is_enough = count >= thresholds().step_drift.min_steps.value && stage != Stage::Idle;
        is_enough.then_some(Self { stage, process, device: device?, steps })
    }

    /// `None` if no category drifts.
    fn rows(&self, context: &Context) -> Option<Vec<StepDriftRow>> {
        let min_sigmas = thresholds().step_drift.min_sigmas.value;
        let mut categories: Vec<(String, Vec<i64>)> = self.by_category(context)?.into_iter().collect();
        ordering::sort_by_key(&mut categories, |(_, times)| Reverse(times.iter().sum::<i64>()));
        let row = |(category, mut times): (String, Vec<i64>)| {
            let drift = trend(&times).filter(|trend| trend.sigmas.abs() >= min_sigmas && trend.first > 0.0);
            times.sort_unstable();
            let usual = median(&times)?;
            let change_pct = drift.map(|Trend { first, last, .. }| Pct(100.0 * (last - first) / first));
            let (first, last) = drift.map_or((usual, usual), |Trend { first, last, .. }| (first, last));
            let (stage, steps, category) = (self.stage, times.len(), category.into());
            Some(StepDriftRow {
                stage,
                category,
                steps,
                first_ms: Ms(first / 1e6),
                last_ms: Ms(last / 1e6),
                change_pct,
            })
        };
        let rows: Vec<StepDriftRow> = categories.into_iter().filter_map(row).collect();
        rows.iter().any(|row| row.change_pct.is_some()).then_some(rows)
    }

    /// The time of each category in each step that has the usual kernels; `None` if too few have.
    fn by_category(&self, context: &Context) -> Option<BTreeMap<String, Vec<i64>>> {
        let limits = &thresholds().step_drift;
        let min_steps = limits.min_equal_steps_share.value * self.steps.len() as f64;
        let usual_kernel = |(name, steps): (NameId, Vec<(usize, Times)>)| {
            let count = mode(steps.iter().map(|(_, times)| times.count).collect())?;
            let equal = steps.iter().filter(|(_, times)| times.count == count).count();
            (equal as f64 >= min_steps).then_some(UsualKernel { name, steps, count })
        };
        let kernels: Vec<UsualKernel> = self.kernels(context).into_iter().filter_map(usual_kernel).collect();
        let mut equal = vec![0_usize; self.steps.len()];
        for kernel in &kernels {
            for (step, _) in kernel.steps.iter().filter(|(_, times)| times.count == kernel.count) {
                equal.get_mut(*step).into_iter().for_each(|count| *count += 1);
            }
        }
        let usual: Vec<bool> = equal.iter().map(|count| *count == kernels.len()).collect();
        let kept = usual.iter().filter(|is_usual| **is_usual).count();
        if kept < limits.min_steps.value {
            return None;
        }
        let categories = Categories::by_default_rules(context.trace)?;
        let mut sums: BTreeMap<String, Vec<i64>> = BTreeMap::new();
        for UsualKernel { name, steps, .. } in kernels {
            let raw = context.trace.names.get(name);
            let (category, _) = categories.of(raw, &names::demangle(raw));
            let of_kept = steps.iter().filter(|(step, _)| usual.get(*step) == Some(&true));
            let sum = sums.entry(category.to_owned()).or_insert_with(|| vec![0; kept]);
            of_kept.zip(sum).for_each(|((_, times), sum)| *sum = sum.saturating_add(times.time.0));
        }
        Some(sums)
    }

    /// The kernels of the steps, each with its steps in the order of time. Kernels that wait for other ranks, or whose durations are
    /// those of others, are left out.
    fn kernels(&self, context: &Context) -> BTreeMap<NameId, Vec<(usize, Times)>> {
        let ops = &context.trace.gpu_ops;
        let (mut in_step, mut touched) = (vec![Times::default(); context.trace.names.len()], Vec::new());
        let mut kernels: BTreeMap<NameId, Vec<(usize, Times)>> = BTreeMap::new();
        for (index, (start, until)) in self.steps.iter().enumerate() {
            let rows = ops.count_starting_before(*start)..ops.count_starting_before(*until);
            for op in rows.filter_map(|row| ops.get(row)) {
                let is_own = (op.process, op.device, op.kind) == (self.process, self.device, OpKind::Kernel);
                let Some(times) = in_step.get_mut(op.name.0 as usize).filter(|_| is_own) else { continue };
                if times.count == 0 {
                    touched.push(op.name);
                }
                *times = Times { count: times.count + 1, time: times.time + op.duration };
            }
            for name in touched.drain(..) {
                let times = in_step.get_mut(name.0 as usize).map(std::mem::take).unwrap_or_default();
                kernels.entry(name).or_default().push((index, times));
            }
        }
        kernels.retain(|name, _| !context.is_communication(*name) && !context.shifted_durations().affects(*name));
        kernels
    }
}

#[cfg(test)]
mod tests {
    use crate::analysis::testing::{analyze, rows_of};
    use crate::trace::testing::TestTrace;

    /// Thirty decode steps with a matrix product and attention of so many microseconds.
    fn decode(times: impl Fn(i64) -> [i64; 2], batch: impl Fn(i64) -> i64) -> TestTrace {
        let mut trace = TestTrace::new();
        trace.in_us();
        for step in 0..30 {
            let (start, [gemm, attention]) = (1_000 * step, times(step));
            trace.range(&format!("step[DECODE bs={}]", batch(step)), start..start + 50);
            trace.launch(start..start + 1).launches("gemm_kernel", start + 10..start + 10 + gemm);
            let from = start + 20 + gemm;
            trace.launch(start + 2..start + 3).launches("flash_attention_kernel", from..from + attention);
        }
        trace
    }

    fn drift(trace: &mut TestTrace) -> Option<Vec<String>> {
        let run = analyze(&trace.finish());
        let rows = rows_of(run.sections.get("step_drift")?, &["category", "first_ms", "last_ms", "change_pct"]);
        Some(rows.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn kernels_that_all_get_slower_are_a_drift_of_each_category() {
        // The last step reaches no next one, so the line ends at step 29 of 30: 400 + 28 * 4 and 100 + 28 us.
        let rows = drift(&mut decode(|step| [400 + 4 * step, 100 + step], |_| 8)).unwrap();
        assert_eq!(rows, ["gemm 0.4 0.512 28", "attention 0.1 0.128 28"]);
    }

    #[test]
    fn attention_that_grows_alone_is_its_drift_alone() {
        let rows = drift(&mut decode(|step| [400, 100 + step], |_| 8)).unwrap();
        assert_eq!(rows, ["gemm 0.4 0.4 -", "attention 0.1 0.128 28"]);
    }

    #[test]
    fn the_verdict_says_what_a_drift_looks_like() {
        let text = |mut trace: TestTrace| analyze(&trace.finish()).verdict.text.clone();
        let alike = text(decode(|step| [400 + 4 * step, 100 + step], |_| 8));
        let expected = ", the same kernels take 28.0 % longer in the last step than in the first (gemm +28.0 %, attention +28.0 %), \
                        as with a falling clock of the GPU";
        assert!(alike.contains(expected), "{alike}");
        // 28 us of 500 us.
        let attention = text(decode(|step| [400, 100 + step], |_| 8));
        let expected = ", the same kernels take 5.6 % longer in the last step than in the first (attention +28.0 %), as with a \
                        growing context";
        assert!(attention.contains(expected), "{attention}");
    }

    #[test]
    fn a_long_step_and_noise_are_no_drift() {
        let noise = |step: i64| [400 + step * 7 % 5, if step == 25 { 400 } else { 100 + step * 11 % 7 }];
        assert_eq!(drift(&mut decode(noise, |_| 8)), None);
    }

    #[test]
    fn steps_of_a_growing_batch_are_not_compared() {
        assert_eq!(drift(&mut decode(|step| [400 + 4 * step, 100 + step], |step| 1 + step / 5)), None);
    }
}
