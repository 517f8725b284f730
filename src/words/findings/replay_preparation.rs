//! `replay-preparation`: its title, evidence and action.

use super::{Amount, CodeOnPath, Framework, HostCaveat, IdleGaps, code_of_host, graphs};
use crate::trace::{Fraction, Vendor};
use crate::words::{or_nothing, percent_1};

pub(crate) const TITLE: &str = "host work around graph replays";

/// What is known of the host's work.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    pub(crate) gaps: IdleGaps,
    pub(crate) vendor: Vendor,
    /// The share of the kernel time that graphs launch, if their kernels are known.
    pub(crate) replayed: Option<Fraction>,
    /// The amount is what the replay saves; else the idle time of the gaps.
    pub(crate) is_saving: bool,
    /// The code with most of the host's time on the critical path.
    pub(crate) code: Option<CodeOnPath<'a>>,
    pub(crate) caveat: HostCaveat,
}

pub(crate) fn evidence(amount: Amount, work: &Work) -> String {
    format!(
        "{amount}: {}the GPU idles in {} before and after replays of {}{}{}{}",
        if work.is_saving { "saved if the host takes no time; " } else { "" },
        work.gaps,
        graphs(work.vendor),
        or_nothing(work.replayed, |share| format!(", which launch {} of the kernel time", percent_1(share))),
        code_of_host(work.code),
        work.caveat.words()
    )
}

/// `overlaps`: the engine is seen to prepare a step while the GPU works on another. `change`: what can be done about the code, if that is
/// known.
pub(crate) fn action(framework: Framework, overlaps: bool, work: &Work, change: Option<&str>) -> String {
    let capture = match work.caveat {
        HostCaveat::FewStepsInWindowWithStacks => "First capture without Python stacks to see the delay. ",
        HostCaveat::FewStepsInWindow => "Look at more steps than this window has to see the delay. ",
        HostCaveat::FewSteps | HostCaveat::FewStepsWithStacks => {
            "First capture at least three consecutive steps without Python stacks to see the delay. "
        }
        HostCaveat::Nothing | HostCaveat::Stacks | HostCaveat::StacksInWindow => "",
    };
    match (change, work.code) {
        (Some(change), _) => format!("{capture}{change}"),
        (None, Some(code)) => format!("{capture}Make {} faster. {}", code.place, overlap(framework, overlaps)),
        (None, None) => format!("{capture}{}", overlap(framework, overlaps)),
    }
}

fn overlap(framework: Framework, overlaps: bool) -> &'static str {
    match framework {
        _ if overlaps => "The overlap of the host's work with the GPU is on, so this is what it does not hide.",
        Framework::SgLang => "Check that the overlap scheduler is on: remove `--disable-overlap-schedule`.",
        Framework::Vllm => {
            "Check that asynchronous scheduling, which prepares the next step while the GPU works, is on \
             (`--async-scheduling`; vLLM 0.14 and later use it by default)."
        }
        Framework::TensorRtLlm => "Check that the overlap scheduler is on: remove `disable_overlap_scheduler: true`.",
        Framework::Training => "Copy the next batch into the inputs of the graph while the GPU works.",
        _ => "Prepare the inputs of the next step while the GPU works.",
    }
}
