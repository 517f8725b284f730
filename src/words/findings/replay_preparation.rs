//! `replay-preparation`: its title, evidence and action.

use super::{Amount, Framework, HostCaveat, IdleGaps, graphs};
use crate::trace::{Fraction, Vendor};
use crate::words::{or_nothing, percent_1};

pub(crate) const TITLE: &str = "host work around graph replays";

/// `replayed`: the share of the kernel time that graphs launch, if their kernels are known.
pub(crate) fn evidence(
    amount: Amount,
    gaps: IdleGaps,
    vendor: Vendor,
    replayed: Option<Fraction>,
    caveat: HostCaveat,
) -> String {
    format!(
        "{amount}: the GPU idles in {gaps} before and after replays of {}{}{}",
        graphs(vendor),
        or_nothing(replayed, |share| format!(", which launch {} of the kernel time", percent_1(share))),
        caveat.words()
    )
}

/// `overlaps`: the overlap scheduler is seen to run.
pub(crate) fn action(framework: Framework, overlaps: bool, caveat: HostCaveat) -> String {
    let overlap = match framework {
        Framework::SgLang if overlaps => " The overlap scheduler is on, so this is what it does not hide.",
        Framework::SgLang => " Check that the overlap scheduler is on: remove `--disable-overlap-schedule`.",
        Framework::Vllm => {
            " Check that asynchronous scheduling, which prepares the next step while the GPU works, is on \
             (`--async-scheduling`; vLLM 0.14 and later use it by default)."
        }
        Framework::TensorRtLlm => " Check that the overlap scheduler is on: remove `disable_overlap_scheduler: true`.",
        Framework::Training => " Copy the next batch into the inputs of the graph while the GPU works.",
        _ => " Prepare the inputs of the next step while the GPU works.",
    };
    let capture = match caveat {
        HostCaveat::FewStepsInWindowWithStacks | HostCaveat::StacksInWindow => {
            "First capture without Python stacks to see the delay."
        }
        HostCaveat::FewStepsInWindow => "Look at more steps than this window has to see the delay.",
        HostCaveat::FewSteps | HostCaveat::FewStepsWithStacks | HostCaveat::Stacks => {
            "First capture at least three consecutive steps without Python stacks to see the delay."
        }
        HostCaveat::Nothing => "The step already replays graphs; the delay is the host work around the replay.",
    };
    format!("{capture}{overlap}")
}
