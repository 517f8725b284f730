//! One line through the decode steps of several runs: how the busy time grows with the batch and the context, where each run
//! alone may have a single batch size. From the sections `step_list`; linear in their rows.
//!
//! Only runs of the same work on the same GPUs share a line. If two runs contradict each other, the row says in what, and there
//! is no line.

use super::comparability::{gpu_names, setup_differences, working_devices};
use crate::analysis::inference::layers::Layers;
use crate::analysis::inference::step_time_fit::{Sample, batch_sizes, fit};
use crate::analysis::results::Run;
use crate::analysis::section::{Answer, MeanNs, Ms, Pct, TypedSection, Us, section};
use crate::analysis::structure::listed_steps::{StepList, StepListRow};
use crate::analysis::structure::stages::Stage;
use crate::rules::inference::thresholds;
use crate::words::compare as words;
use std::collections::BTreeMap;

section! {
    /// The line through the decode steps of all runs, or why there is none.
    pub(crate) struct CompareStepTimes("compare_step_times", "Step time by batch and context over all runs");
    row StepTimesRow {
        stage: String,
        runs: usize,
        steps: usize,
        batch_sizes: usize,
        fixed_ms: Option<Ms>,
        per_sequence_us: Option<Us>,
        per_context_token_ns: Option<MeanNs> = "Per token of context",
        residual_pct: Option<Pct>,
        explained_pct: Option<Pct>,
        basis: String = "Rests on",
    }
}

/// What two captures on one line must have in common, as far as both tell.
const SHARED_SETUP: [&str; 4] = ["the framework", "the version", "the model", "CUDA graphs"];

/// The decode steps of a run.
struct Steps<'a> {
    label: &'a str,
    run: &'a Run,
    samples: Vec<Sample>,
}

impl<'a> Steps<'a> {
    /// `None` if no step has a batch and a context.
    fn of((label, run): (&'a str, &'a Run)) -> Option<Self> {
        let rows = StepList::rows(&run.sections);
        // The capture may cut the last step of a device.
        let last: BTreeMap<String, usize> =
            rows.iter().enumerate().map(|(index, row)| (row.device_id.words(), index)).collect();
        let is_whole = |index: usize| !last.values().any(|last| *last == index);
        let decode = rows.iter().enumerate().filter(|(index, row)| is_whole(*index) && row.stage == Stage::Decode);
        let sample = |row: &StepListRow| {
            let positive = |number: f64| Some(number).filter(|number| *number > 0.0);
            Some(Sample {
                batch: positive(row.batch? as f64)?,
                context: positive(row.context? as f64)?,
                busy_ns: positive(row.busy_ns?.0 as f64)?,
            })
        };
        let samples: Vec<Sample> = decode.filter_map(|(_, row)| sample(row)).collect();
        (!samples.is_empty()).then_some(Self { label, run, samples })
    }

    fn words(&self) -> String {
        let batch = match batch_sizes(&self.samples)[..] {
            [batch] => Ok(batch),
            ref sizes => Err(sizes.len()),
        };
        words::steps_of_run(self.label, self.samples.len(), batch)
    }
}

/// One row with the line through the decode steps of all runs, or why there is none. `None` if fewer than two runs have steps
/// with a batch and a context.
pub(crate) fn step_times(runs: &[(&str, &Run)]) -> Option<Answer<CompareStepTimes>> {
    let runs: Vec<Steps> = runs.iter().copied().filter_map(Steps::of).collect();
    let (first, others) = runs.split_first().filter(|(_, others)| !others.is_empty())?;
    let samples: Vec<Sample> = runs.iter().flat_map(|run| run.samples.iter().copied()).collect();
    let sizes = batch_sizes(&samples).len();
    let limits = &thresholds().step_time_line;
    let (min_steps, min_sizes) = (limits.min_steps.value, limits.min_batch_sizes.value);
    let found = match others.iter().find_map(|other| contradiction(first, other)) {
        Some(why) => Err(why),
        None if samples.len() < min_steps || sizes < min_sizes => Err(words::few_steps(min_steps, min_sizes)),
        None => {
            fit(&samples).ok_or("batch size and context grow together, so their times cannot be told apart".to_owned())
        }
    };
    let answer = CompareStepTimes::answer("busy times of the decode steps of all runs, and their batch size and context")
        .limit("The busy time of a step is about the fixed time, plus the time per sequence, plus the time per token of context. The residual is the root of the mean squared difference, in per cent of the mean.")
        .limit("Runs share a line if their GPUs, the number of layers and the records of the captures do not contradict each other. What was not recorded may differ.");
    let basis = match &found {
        Ok(_) => runs.iter().map(Steps::words).collect::<Vec<_>>().join(", "),
        Err(why) => words::no_line(why),
    };
    let [fixed, per_sequence, per_token, residual, explained] =
        found.map_or([None; 5], |fit| fit.values().map(|value| value.number()));
    Some(answer.with_rows([StepTimesRow {
        stage: Stage::Decode.label().to_owned(),
        runs: runs.len(),
        steps: samples.len(),
        batch_sizes: sizes,
        fixed_ms: fixed.map(Ms),
        per_sequence_us: per_sequence.map(Us),
        per_context_token_ns: per_token.map(MeanNs),
        residual_pct: residual.map(Pct),
        explained_pct: explained.map(Pct),
        basis,
    }]))
}

/// In what two runs differ, so that their steps are not on one line.
fn contradiction(first: &Steps, other: &Steps) -> Option<String> {
    let between = |what: &str, a: &str, b: &str| words::differs(what, (a, first.label), (b, other.label));
    let (a, b) = (gpu_names(first.run), gpu_names(other.run));
    if a != b && !a.is_empty() && !b.is_empty() {
        return Some(between("the GPU", &a.join(" and "), &b.join(" and ")));
    }
    let (a, b) = (working_devices(first.run), working_devices(other.run));
    if a != b {
        return Some(between("the number of GPUs", &a.to_string(), &b.to_string()));
    }
    if let (Some(a), Some(b)) = (layers(first.run), layers(other.run))
        && a != b
    {
        return Some(between("the number of layers", &a.to_string(), &b.to_string()));
    }
    let differences = setup_differences(first.run, other.run);
    let shared = differences.iter().find(|(what, ..)| SHARED_SETUP.contains(what));
    shared.map(|(what, a, b)| between(what, a, b))
}

/// The number of layers of the model; `None` if it is not known.
fn layers(run: &Run) -> Option<f64> {
    Some(Layers::figures(&run.sections)?.layers as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::rows_of;
    use crate::session::{self, Choices};
    use crate::trace::testing::TestTrace;

    const FIT: [&str; 5] = ["fixed_ms", "per_sequence_us", "per_context_token_ns", "residual_pct", "explained_pct"];

    /// A run of decode steps with one batch size. A step takes 2 ms, 30 us a sequence and 2 us a token of context.
    fn run(gpu: &str, batch: i64, contexts: &[i64]) -> Run {
        let mut trace = TestTrace::new();
        trace.in_us().named_device(0, gpu);
        for (context, number) in contexts.iter().zip(0..) {
            let at = number * 10_000;
            let busy = 2_000 + 30 * batch + 2 * context;
            trace.range(&format!("step[DECODE bs={batch} g_sq={batch} g_sk={context}]"), at..at + 50);
            trace.launch(at + 1..at + 2).launches("k", at + 100..at + 100 + busy);
        }
        session::run(&trace.finish(), &Choices::default()).unwrap()
    }

    #[test]
    fn runs_of_one_batch_size_each_give_the_line_that_none_has_alone() {
        let runs = [
            run("H100", 1, &[100, 400, 700, 9]),
            run("H100", 4, &[100, 900, 300, 9]),
            run("H100", 8, &[800, 100, 500, 9]),
        ];
        assert!(runs.iter().all(|run| run.sections["step_time_fit"].missing.is_some()));
        let section = step_times(&[("a", &runs[0]), ("b", &runs[1]), ("c", &runs[2])]).unwrap().section();
        assert_eq!(rows_of(&section, &FIT), ["2 30 2000 0 100"]);
        let counts = ["runs", "steps", "batch_sizes", "basis"];
        assert_eq!(
            rows_of(&section, &counts),
            ["3 9 3 a (3 steps, batch 1), b (3 steps, batch 4), c (3 steps, batch 8)"]
        );
    }

    #[test]
    fn runs_on_other_gpus_share_no_line_and_the_table_says_so() {
        let runs = [run("H100", 1, &[100, 400, 700, 9]), run("MI300X", 4, &[100, 900, 300, 9])];
        let section = step_times(&[("a", &runs[0]), ("b", &runs[1])]).unwrap().section();
        assert_eq!(rows_of(&section, &FIT), ["- - - - -"]);
        assert_eq!(section.rows[0].text("basis"), "no line: the GPU differs: H100 in a, MI300X in b");
    }

    #[test]
    fn a_single_run_has_no_shared_line() {
        let only = run("H100", 1, &[100, 400, 700]);
        let without_steps = session::run(&TestTrace::new().kernel("k", 0..9).finish(), &Choices::default()).unwrap();
        assert!(step_times(&[("a", &only), ("b", &without_steps)]).is_none());
    }
}
