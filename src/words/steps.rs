//! What limits the figures of steps, from counts and from the thresholds with which steps were found.

use super::{counted, percent_0};
use crate::digits::grouped;
use crate::trace::Fraction;

/// A number of steps, and of which GPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepCount {
    /// Of one GPU, or it is not said of how many.
    OfOne(u64),
    OfEach {
        steps: u64,
        gpus: u64,
    },
    /// The GPUs have different numbers: their steps may be of different programs.
    Together {
        steps: u64,
        gpus: u64,
    },
}

impl StepCount {
    /// `11 steps`, `11 steps on each of 2 GPUs`, or `25 steps of 2 GPUs together`
    pub(crate) fn words(self) -> String {
        let counted = |steps| counted(steps, "step", "steps");
        match self {
            Self::OfOne(steps) => counted(steps),
            Self::OfEach { steps, gpus } => format!("{} on each of {gpus} GPUs", counted(steps)),
            Self::Together { steps, gpus } => format!("{} of {gpus} GPUs together", counted(steps)),
        }
    }
}

/// Steps that are cut by the window.
pub(crate) fn cut(steps: u64) -> String {
    format!("{} cut by the window and excluded.", counted(steps, "step is", "steps are"))
}

/// Steps of the start of the program.
pub(crate) fn starting(steps: u64) -> String {
    format!(
        "{} while the program starts, and no figure here has them. Steps over time lists them.",
        counted(steps, "step begins", "steps begin")
    )
}

/// Marked steps without GPU work.
pub(crate) fn without_work(steps: u64) -> String {
    format!("{} more steps are marked, but the file contains no GPU work of them.", grouped(steps))
}

/// Tokens that follow from the shapes of products. `equal`: the share of the rows that agree at least.
pub(crate) fn tokens_by_shapes(equal: Fraction) -> String {
    format!(
        "Tokens that no annotation states are the rows of the matrix products, of which at least {} in the step agree. \
         Padding counts.",
        percent_0(equal)
    )
}

/// Steps by the order of kernels. `equal`: the share of the steps with the same number of layers.
pub(crate) fn inferred(equal: Fraction) -> String {
    format!(
        "No annotation marks steps. They are inferred from the order of the kernels: two of LM head, sampling, copy of \
         the tokens to the host, and embedding mark the end of a step, and at least {} of the steps have the same \
         number of layers. The stage follows from the names of the attention kernels.",
        percent_0(equal)
    )
}

/// Steps by an even distance. `even`: the share of the distances that are equal.
pub(crate) fn periods(are_replays: bool, even: Fraction) -> String {
    format!(
        "No annotation marks steps. They are inferred from {}, in which at least {} of the distances, counted in GPU ops, are equal, \
         and which hold an optimizer, equal layers or a graph that was traced as a whole.",
        if are_replays { "graphs that are replayed" } else { "kernels that repeat" },
        percent_0(even)
    )
}

/// Steps by calls of the optimizer.
pub(crate) const OPTIMIZER: &str = "The ranges of the profiler hold several steps each. A step ends with a call of the optimizer; all \
     parts between these calls but the first run the same kernels.";

/// Steps by a Python function.
pub(crate) const FRAMES: &str = "No annotation marks steps. They are the calls of the Python function of the engine that runs a step \
     (patterns/step_frames.json). The stage follows from the names of the attention kernels.";

/// Steps by words in the names of ranges. `covered`: the share of the GPU ops that were launched in them.
pub(crate) fn word_ranges(covered: Fraction) -> String {
    format!(
        "Steps are ranges whose names contain the word prefill, extend or decode, and in which at least {} of the GPU ops \
         were launched.",
        percent_0(covered)
    )
}

/// Steps by numbered ranges.
pub(crate) fn numbered_ranges(covered: Fraction) -> String {
    format!(
        "Steps are numbered ranges (patterns/step_frames.json), in which at least {} of the GPU ops were launched.",
        percent_0(covered)
    )
}

/// Steps of the start of the program that a triage leaves out.
pub(crate) fn starting_left_out(steps: u64) -> String {
    format!("Steps that begin while the program starts are left out: {}.", grouped(steps))
}

/// Steps whose times are those of the ops launched in them.
pub(crate) fn by_launches(some: usize, all: usize) -> String {
    let steps = some_of(some, all);
    format!("{steps} have no annotation on the device. They start and end with the GPU ops launched in them.")
}

/// Steps whose times are those of the annotation on the host.
pub(crate) fn by_host(some: usize, all: usize) -> String {
    let steps = some_of(some, all);
    format!("{steps} launched no GPU op in the trace. Their time is that of the host annotation.")
}

fn some_of(some: usize, all: usize) -> String {
    if some == all { "The steps".to_owned() } else { format!("{some} of {all} steps") }
}

/// Steps on several devices.
pub(crate) fn once_per_device(devices: usize) -> String {
    format!("Each step counts once per device ({devices} devices).")
}

/// The stages of some steps: `decode`, or `10 % extend/prefill, 90 % decode`. From the share of each stage.
pub(crate) fn mix(stages: &[(&str, Fraction)]) -> String {
    if let [(only, _)] = stages {
        return (*only).to_owned();
    }
    let parts = stages.iter().map(|(stage, share)| format!("{} {stage}", percent_0(*share)));
    parts.collect::<Vec<_>>().join(", ")
}

/// Too few steps for a line through their times. Each pair: decode steps, and batch sizes of them.
pub(crate) fn few_for_line([min_steps, min_sizes]: [usize; 2], [steps, sizes]: [usize; 2]) -> String {
    format!(
        "A line through step times needs at least {min_steps} decode steps of {min_sizes} batch sizes whose annotations state the \
         sum of the contexts; the trace has {steps} of {sizes}."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_several_gpus_are_counted_on_each_or_said_to_be_pooled() {
        assert_eq!(StepCount::OfOne(1).words(), "1 step");
        assert_eq!(StepCount::OfEach { steps: 11, gpus: 2 }.words(), "11 steps on each of 2 GPUs");
        assert_eq!(StepCount::Together { steps: 25, gpus: 2 }.words(), "25 steps of 2 GPUs together");
    }
}
