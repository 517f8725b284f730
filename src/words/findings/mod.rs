//! The words of findings: a file for each with its evidence and its action, and here what they share. From the facts that the finding
//! was decided on.

pub(crate) mod allocations;
pub(crate) mod communication_waits;
pub(crate) mod compilation;
pub(crate) mod exposed_communication;
pub(crate) mod far_from_roof;
pub(crate) mod host_copies;
pub(crate) mod host_late;
pub(crate) mod host_waits;
pub(crate) mod pageable_copies;
pub(crate) mod replay_preparation;
pub(crate) mod short_kernels;
pub(crate) mod start_up;
pub(crate) mod sync_drain;
pub(crate) mod unfused_kernels;
pub(crate) mod unified_memory_migration;
pub(crate) mod unsuited_kernels;

use crate::digits::grouped;
use crate::trace::{Fraction, Ms, Vendor};
use crate::words::{capitalize, counted, or_nothing, percent_1, stages, time, time_per_step};
use std::fmt;

/// The framework that launches the GPU work. Actions are in its words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framework {
    SgLang,
    Vllm,
    TensorRtLlm,
    /// A serving engine without advice of its own.
    OtherEngine,
    /// Hugging Face Transformers without a serving engine.
    Transformers,
    /// PyTorch that trains a model, whatever libraries it uses.
    Training,
    /// PyTorch without a known engine.
    Torch,
    /// A program of JAX or TensorFlow, compiled by XLA.
    Xla,
    /// A program without PyTorch.
    Program,
}

/// The time that a finding is about, as its evidence begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Amount<'a> {
    pub(crate) time: Ms,
    /// The device, if there are several.
    pub(crate) gpu: Option<&'a str>,
    /// The number of steps and the time of each, if a mean step says something.
    pub(crate) per_step: Option<(u64, Ms)>,
    /// `None` for a time that is not one of the steps.
    pub(crate) share: Option<(Fraction, Whole)>,
}

/// The cost of a finding and the measured time behind it. The cost comes first, so that it has one size wherever it is told: a replay
/// may save more or less than what was measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost<'a> {
    pub(crate) amount: Amount<'a>,
    pub(crate) measured: Ms,
}

impl Cost<'_> {
    /// `22.3 ms in 23 steps: `; with how it is saved if another time was measured: `22.3 ms in 23 steps: saved if no call blocks; `
    fn with_reason(&self, saved: &str) -> String {
        let saved = or_nothing(self.other_time(), |_| format!("{saved}; "));
        format!("{}: {saved}", self.amount)
    }

    /// ` for 17.7 ms`, if another time was measured.
    fn measured(&self) -> String {
        or_nothing(self.other_time(), |measured| format!(" for {measured}"))
    }

    fn other_time(&self) -> Option<String> {
        let measured = time(self.measured);
        (measured != time(self.amount.time)).then_some(measured)
    }
}

/// What a share is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whole {
    StepTime,
    CapturedTime,
    /// The times of several devices differ, so each is compared with its own.
    TimeOfDevice,
}

/// `1.2 ms on GPU 3, 4.5 % of the step time`, or `12.0 ms in 10 steps (1.2 ms a step), 4.5 % of the step time`
impl fmt::Display for Amount<'_> {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.write_str(&time(self.time))?;
        if let Some(gpu) = self.gpu {
            write!(out, " on GPU {gpu}")?;
        }
        if let Some((steps, per_step)) = self.per_step {
            write!(out, " in {} steps ({})", grouped(steps), time_per_step(per_step))?;
        }
        let Some((share, whole)) = self.share else { return Ok(()) };
        let whole = match whole {
            Whole::StepTime => "step time",
            Whole::CapturedTime => "captured time",
            Whole::TimeOfDevice => "time from its first op to its last",
        };
        write!(out, ", {} of the {whole}", percent_1(share))
    }
}

/// The part of a capture in which idle time counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// From the first step to the last.
    Steps,
    /// After the start of the program.
    AfterStart,
}

/// The gaps in which a device idles.
#[derive(Debug, Clone, Copy)]
pub(crate) enum IdleGaps {
    /// This many of the capture.
    All(u64),
    /// This many of a part of it.
    OfPart(u64, Part),
    /// Some of a part.
    SomeOfPart(Part),
}

/// `3 gaps of the steps`
impl fmt::Display for IdleGaps {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let part = |part: &Part| match part {
            Part::Steps => "of the steps",
            Part::AfterStart => "after the start of the program",
        };
        match self {
            Self::All(count) => out.write_str(&gaps(*count)),
            Self::OfPart(count, of) => write!(out, "{} {}", gaps(*count), part(of)),
            Self::SomeOfPart(of) => write!(out, "gaps {}", part(of)),
        }
    }
}

fn gaps(count: u64) -> String {
    counted(count, "gap", "gaps")
}

/// Host code on the critical path, or host time there without code.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeOnPath<'a> {
    /// `_prepare_inputs (scheduler.py:120)`; the range of [`CodeKind::InRange`]
    pub(crate) place: &'a str,
    pub(crate) time: Ms,
    pub(crate) steps: CodeSteps,
    pub(crate) kind: CodeKind,
    /// It has more than half of the host's time on the path.
    pub(crate) is_most: bool,
}

/// What is known of host time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodeKind {
    /// A function, an op or a call.
    Code,
    /// Code that waits for another thread or process.
    Wait,
    /// Only a range is known, which says when, and not what runs.
    InRange,
    /// Nothing is recorded.
    NoRecord,
}

/// What a time of host code is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CodeSteps {
    /// The mean step.
    Each,
    /// The mean step, but only some steps have the code: a pause, or what is done from time to time.
    InSome { with: u64, of: u64 },
    /// A step of a stage with this many steps, which have most of the cost, but are not the usual ones.
    Unusual(u64, &'static str),
    /// A capture without steps.
    NoSteps,
}

impl CodeOnPath<'_> {
    /// `most is in _prepare_inputs (scheduler.py:120), 450 us a step`, or `the largest part is in aten::empty, 17.4 ms a step`
    pub(crate) fn part(self) -> String {
        format!("{} is {self}", if self.is_most { "most" } else { "the largest part" })
    }

    /// `450 us a step`, `36.0 ms in 2 of 30 steps`, or `24.1 ms in 1 step of kind B`
    fn time(self) -> String {
        match self.steps {
            CodeSteps::Each => time_per_step(self.time),
            CodeSteps::InSome { with, of } => {
                let all = Ms(self.time.0 * of as f64);
                format!("{} in {} of {} steps", time(all), grouped(with), grouped(of))
            }
            CodeSteps::Unusual(steps, stage) => {
                let each = if steps == 1 { "" } else { "each of " };
                format!("{} in {each}{} of {}", time(self.time), counted(steps, "step", "steps"), stages::stage(stage))
            }
            CodeSteps::NoSteps => time(self.time),
        }
    }
}

/// `in _prepare_inputs (scheduler.py:120), 450 us a step`
impl fmt::Display for CodeOnPath<'_> {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let (place, time) = (self.place, self.time());
        match self.kind {
            CodeKind::Code => write!(out, "in {place}, {time}"),
            CodeKind::Wait => write!(out, "a wait in {place}, {time}"),
            CodeKind::InRange => write!(out, "in {place}, outside of the code and calls recorded in it, {time}"),
            CodeKind::NoRecord => write!(out, "without a record, {time}"),
        }
    }
}

/// What can be done about code that the engine overlaps with GPU work.
pub(crate) const NOT_HIDDEN: &str =
    "The engine runs it while the GPU works on another step, but it takes longer than that. Make it faster.";

/// What limits claims about the host: steps that start with an empty queue, and Python stacks, which slow the host down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostCaveat {
    Nothing,
    /// A window of a longer capture: its steps are few because of what the person picked.
    FewStepsInWindow,
    FewStepsInWindowWithStacks,
    FewSteps,
    FewStepsWithStacks,
    Stacks,
    StacksInWindow,
}

impl HostCaveat {
    /// A sentence at the end of the evidence.
    fn words(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::FewStepsInWindowWithStacks => {
                ". The window has fewer than three steps, so another one may differ, and the capture records Python stacks, \
                 which slow the host down"
            }
            Self::FewStepsInWindow => ". The window has fewer than three steps, so another one may differ",
            Self::FewStepsWithStacks => {
                ". The capture inflates this: it has fewer than three steps and records Python stacks, which slow the \
                 host down"
            }
            Self::FewSteps => ". The capture has fewer than three steps, so the empty queue at its start counts too",
            Self::Stacks | Self::StacksInWindow => {
                ". The capture records Python stacks, which slow the host down, so this is an upper bound"
            }
        }
    }
}

/// What the replay says that a step takes without the cause of a finding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Replayed {
    /// Whether the replayed time is that of a step.
    pub(crate) is_step: bool,
    pub(crate) measured: Ms,
    /// At least and at most.
    pub(crate) without: [Ms; 2],
    /// At most, if only this rank changes, where the other ranks matter: as if another rank arrived as late as this one.
    pub(crate) alone: Option<Ms>,
    /// The least, without any wait for other ranks; `None` where they do not matter.
    pub(crate) if_no_waits: Option<Ms>,
}

/// `. Replayed: without it a step takes 17.6 to 17.8 ms instead of 18.9 ms`; empty if the replay changes nothing that is seen.
pub(crate) fn replayed(replayed: Replayed) -> String {
    let what = if replayed.is_step { "a step takes" } else { "the replayed time is" };
    let [least, most] = replayed.without;
    let least = replayed.if_no_waits.map_or(least.0, |if_no_waits| if_no_waits.0.min(least.0));
    let [least, most, measured] = [Ms(least), most, replayed.measured].map(time);
    if least == measured && most == measured {
        return String::new();
    }
    let range = match least == most {
        true => least,
        // Nothing is saved for certain.
        false if most == measured => format!("at least {least}"),
        false => format!("{least} to {most}"),
    };
    match replayed.alone.map(time) {
        Some(_) if most == measured => {
            format!(". Replayed: without it on all ranks {what} {range} instead of {measured}")
        }
        Some(alone) if alone == measured => format!(
            ". Replayed: without it on all ranks, if the others arrive at least as much earlier, {what} {range} instead of {measured}; \
             when they arrive, and what this rank alone saves, `gpuprism ranks` shows"
        ),
        Some(alone) => format!(
            ". Replayed: without it on all ranks, if the others arrive at least as much earlier, {what} {range} instead of {measured}; \
             without it on this rank alone at most {alone}"
        ),
        None => format!(". Replayed: without it {what} {range} instead of {measured}"),
    }
}

/// `. At least 1.2 ms of it is time of `host-late` too, and is saved only once`
pub(crate) fn common_time(common: Ms, id: &str) -> String {
    format!(". At least {} of it is time of `{id}` too, and is saved only once", time(common))
}

/// What begins the action of a finding whose time is that of another one.
const SAME_TIME: &str = "This is the same time as ";

/// The action of a finding whose time is that of another one, which has the advice.
pub(crate) fn same_time(id: &str) -> String {
    format!("{SAME_TIME}`{id}`.")
}

/// Whether an action says that the time of the finding is that of another one.
pub(crate) fn is_same_time(action: &str) -> bool {
    action.starts_with(SAME_TIME)
}

/// The idle time of a serving engine in a few long steps, of which no stacks show the code.
pub(crate) fn in_long_steps(long: Ms) -> String {
    format!(
        ". {} of it is in a few long steps: the server may have had no request then, which Python stacks would show",
        time(long)
    )
}

/// The titles as they stand within a sentence.
const TITLES: [&str; 21] = [
    allocations::TITLE,
    communication_waits::TITLE,
    communication_waits::UNSURE_TITLE,
    compilation::TITLE,
    exposed_communication::TITLE,
    far_from_roof::TITLE,
    host_copies::TITLE,
    host_copies::PEER_TITLE,
    host_late::TITLE,
    host_late::LOADING_TITLE,
    host_late::PAUSES_TITLE,
    host_late::WORK_TITLE,
    host_waits::TITLE,
    pageable_copies::TITLE,
    replay_preparation::TITLE,
    short_kernels::TITLE,
    start_up::TITLE,
    sync_drain::TITLE,
    sync_drain::RUNS_AHEAD_TITLE,
    unfused_kernels::TITLE,
    unified_memory_migration::TITLE,
];

/// A title where it stands alone.
pub(crate) fn title(title: &str) -> String {
    capitalize(title.to_owned())
}

/// The same title within a sentence. Titles of patterns begin with a name, which is the same there.
pub(crate) fn title_in_sentence(alone: &str) -> &str {
    TITLES.into_iter().find(|known| title(known) == alone).unwrap_or(alone)
}

/// The name of the graphs that the GPU can replay.
fn graphs(vendor: Vendor) -> &'static str {
    match vendor {
        Vendor::Nvidia => "CUDA graphs",
        Vendor::Amd => "HIP graphs",
        Vendor::Intel => "SYCL graphs",
        Vendor::Huawei => "NPU graphs",
        Vendor::Google => "compiled loops",
    }
}

/// What makes an optimizer launch less; empty if kernels of one that does so run already.
fn fused_optimizer(is_fused: bool) -> &'static str {
    if is_fused {
        ""
    } else {
        "let the optimizer update all tensors at once (`fused=True`, or `foreach=True` where it has no fused kernels), "
    }
}

/// `; of the host's time on the critical path most is in _prepare_inputs (scheduler.py:120), 450 us a step`
fn code_of_host(code: Option<CodeOnPath>) -> String {
    or_nothing(code, |code| format!("; of the host's time on the critical path {}", code.part()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_saving_on_all_ranks_is_a_range_up_to_no_waits_at_all() {
        let of = |without: [f64; 2], if_no_waits| {
            let without = without.map(Ms);
            replayed(Replayed { is_step: true, measured: Ms(4.4), without, alone: Some(Ms(4.4)), if_no_waits })
        };
        let range = of([3.7, 3.7], Some(Ms(3.4)));
        assert!(range.contains(
            "if the others arrive at least as much earlier, a step takes 3.4 ms to 3.7 ms instead of 4.4 ms"
        ));
        // Nothing is certain.
        let bound = of([2.2, 4.4], Some(Ms(2.2)));
        assert_eq!(bound, ". Replayed: without it on all ranks a step takes at least 2.2 ms instead of 4.4 ms");
    }

    #[test]
    fn a_title_begins_with_a_capital_alone_and_without_in_a_sentence() {
        for known in TITLES {
            assert!(known.starts_with(|letter: char| letter.is_ascii_lowercase()), "{known}");
            assert_eq!(title_in_sentence(&title(known)), known);
        }
        assert_eq!(title_in_sentence("FP32 matrix products on CUDA cores"), "FP32 matrix products on CUDA cores");
    }
}
