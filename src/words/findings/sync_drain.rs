//! `sync-drain`: its titles, evidence and action.

use super::{CodeOnPath, Cost, Framework, code_of_host};
use crate::trace::Ns;
use crate::words::{or_nothing, time_of};

pub(crate) const TITLE: &str = "idle GPU after blocking calls";
/// Without the calls the host is ahead, which can save more than the gaps that begin in them.
pub(crate) const RUNS_AHEAD_TITLE: &str = "blocking calls that keep the host from running ahead";

/// The idle time around the calls.
#[derive(Debug)]
pub(crate) struct Drains {
    /// The calls that cost most, with what they explain of the idle time.
    pub(crate) calls: Vec<(String, Ns)>,
    /// The time by which the GPU idled longer than the calls took.
    pub(crate) longer: Option<Ns>,
    /// The time of later gaps, until launches were ahead again.
    pub(crate) refill: Option<Ns>,
    /// The host saves more than that by running ahead.
    pub(crate) runs_ahead: bool,
}

/// `after`: the code with most of the host's time on the critical path.
pub(crate) fn evidence(cost: Cost, after: Option<CodeOnPath>, drains: &Drains) -> String {
    format!(
        "{}the GPU ran empty during a blocking call, and idled until the thread launched the next op{}. By call: {}{}{}{}",
        cost.with_reason("saved if no call blocks"),
        code_of_host(after),
        calls(&drains.calls),
        or_nothing(drains.longer, |longer| {
            format!(". The GPU idled for {} longer than the calls took", time_of(longer))
        }),
        or_nothing(drains.refill, |refill| {
            format!(". {} more passed in later gaps, until launches were ahead again", time_of(refill))
        }),
        if drains.runs_ahead { ". Without the calls the host runs ahead, which saves more than that" } else { "" },
    )
}

fn calls(calls: &[(String, Ns)]) -> String {
    if calls.is_empty() {
        return "a blocking call".to_owned();
    }
    let calls: Vec<String> = calls.iter().map(|(call, time)| format!("{call} ({})", time_of(*time))).collect();
    calls.join("; ")
}

/// What the trace shows of the code that makes the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Located,
    /// The capture has stacks, but none of the call.
    NotLocated,
    WithoutStacks,
}

/// `after`: as in [`evidence`].
pub(crate) fn action(framework: Framework, code: Code, after: Option<CodeOnPath>) -> String {
    let of_code = or_nothing(after, |code| {
        format!("Make {} faster, or run it while the GPU works on the next step. ", code.place)
    });
    format!("{of_code}{}", of_call(framework, code))
}

/// So that the host need not wait.
fn of_call(framework: Framework, code: Code) -> &'static str {
    match framework {
        Framework::SgLang | Framework::Vllm | Framework::TensorRtLlm | Framework::OtherEngine => engine_action(code),
        Framework::Training => {
            "Remove .item(), .cpu(), .tolist(), .nonzero() and explicit synchronize calls from the loop, or read the loss and the norm of \
             the gradients one step later with a pinned, non-blocking copy."
        }
        Framework::Transformers | Framework::Torch => {
            "Remove .item(), .cpu(), .tolist(), .nonzero() and explicit synchronize calls from the loop, or read the values \
             one step later with a pinned, non-blocking copy."
        }
        Framework::Xla => {
            "Read values of the device (`float(x)`, `np.asarray(x)`, `block_until_ready`) one step later, after the next step was \
             dispatched."
        }
        Framework::Program => {
            "Replace the blocking call by an event that the next dependent op waits for, and launch independent work \
             before it."
        }
    }
}

fn engine_action(code: Code) -> &'static str {
    match code {
        Code::Located => {
            "Keep the values that the call waits for on the GPU, or launch the next step before they are read (asynchronous or overlap \
             scheduling)."
        }
        Code::NotLocated => {
            "Keep the values of the call on the GPU, or launch the next step before they are read (asynchronous or overlap scheduling)."
        }
        Code::WithoutStacks => {
            "Capture with Python stacks to see the code that makes the call and what runs after it. Keep its values on the GPU, or \
             launch the next step before they are read (asynchronous or overlap scheduling)."
        }
    }
}
