//! `communication-waits`: its titles, evidence and action.

use super::Amount;
use crate::digits::grouped;
use crate::trace::Ns;
use crate::words::numbers::bytes;
use crate::words::time_of;

/// If the waiting is likely.
pub(crate) const TITLE: &str = "collectives that wait for other ranks";
/// If one rank does not show it.
pub(crate) const UNSURE_TITLE: &str = "collectives that may wait for other ranks";

/// Why time counts as waiting.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reason {
    /// The ranks in the file take these times for the same collectives.
    Ranks { shortest: Ns, longest: Ns },
    /// Calls of one size differ.
    OneSize { calls: u64, shortest: Ns, longest: Ns },
    /// Calls at one place of the step differ.
    OnePlace { calls: u64, shortest: Ns, longest: Ns },
    /// Calls of one kernel, whose sizes are not known, differ.
    OneKernel { calls: u64, shortest: Ns, longest: Ns },
    /// A call of more bytes takes less time.
    Larger { bytes: u64, duration: Ns, larger_bytes: u64, larger_duration: Ns },
    /// At the bandwidth of the fastest call it would take less.
    Bandwidth { bytes: u64, duration: Ns, transfer: Ns },
    /// Even a slow network would take less.
    SlowNetwork { bytes: u64, duration: Ns, transfer: Ns },
}

/// `may_wait`: one rank does not show whether they wait.
pub(crate) fn evidence(amount: Amount, waiting: Ns, total: Ns, may_wait: bool, reason: Reason) -> String {
    format!(
        "{amount}: {} of the {} in communication kernels {} waiting. {}",
        time_of(waiting),
        time_of(total),
        if may_wait { "may be" } else { "are" },
        sentence(reason),
    )
}

const FROM_ONE_RANK: &str = "estimated from one rank";

fn sentence(reason: Reason) -> String {
    let times = |shortest: Ns, longest: Ns| format!("{} to {}", time_of(shortest), time_of(longest));
    match reason {
        Reason::Ranks { shortest, longest } => {
            format!("The ranks in this file take {} for the same collectives", times(shortest, longest))
        }
        Reason::OneSize { calls, shortest, longest } => {
            format!("{} calls of one size take {}; {FROM_ONE_RANK}", grouped(calls), times(shortest, longest))
        }
        Reason::OnePlace { calls, shortest, longest } => format!(
            "{} calls at one place of the step take {}; {FROM_ONE_RANK}",
            grouped(calls),
            times(shortest, longest)
        ),
        Reason::OneKernel { calls, shortest, longest } => format!(
            "{} calls of one kernel take {}. The report does not know their sizes, so one rank does not \
             show whether they wait or send more",
            grouped(calls),
            times(shortest, longest)
        ),
        Reason::Larger { bytes: size, duration, larger_bytes, larger_duration } => format!(
            "A call that sends {} takes {}, one that sends {} only {}; {FROM_ONE_RANK}",
            bytes(size as f64),
            time_of(duration),
            bytes(larger_bytes as f64),
            time_of(larger_duration)
        ),
        Reason::Bandwidth { bytes: size, duration, transfer } => format!(
            "A call that sends {} takes {}, but {} at the bandwidth of the fastest call; {FROM_ONE_RANK}",
            bytes(size as f64),
            time_of(duration),
            time_of(transfer)
        ),
        Reason::SlowNetwork { bytes: size, duration, transfer } => format!(
            "A call that sends {} takes {}, but {} even over a slow network; {FROM_ONE_RANK}",
            bytes(size as f64),
            time_of(duration),
            time_of(transfer)
        ),
    }
}

/// `last`: the GPU for which the others in the file wait.
pub(crate) fn action(last: Option<&str>) -> String {
    match last {
        Some(gpu) => format!(
            "GPU {gpu} spends the least time in the collectives, so the others mostly wait for it: find out why it arrives last (uneven \
             work or a slow host)."
        ),
        None => ACTION.to_owned(),
    }
}

const ACTION: &str = "Compare the traces of all ranks, with `gpuprism ranks` or open together on the page: this names the \
     ranks that arrive last. Fix the cause there (uneven work or a slow host).";
