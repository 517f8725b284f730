//! The second sentence of the verdict: what costs most beside the cause of the first. From the cost of a finding, or shares of categories.

use crate::trace::{Fraction, Ms};
use crate::words::{or_nothing, percent_1, time, time_per_step};

/// The beginning of the sentence about a finding.
pub(crate) fn largest_cost(is_largest: bool) -> &'static str {
    if is_largest { " Largest recoverable cost: " } else { " Largest other recoverable cost: " }
}

/// What a finding may save.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cost {
    pub(crate) time: CostTime,
    /// `None` if there is no time to compare it with.
    pub(crate) share: Option<Fraction>,
    /// The share is of the replayed part, which begins after first uses.
    pub(crate) is_after_first_uses: bool,
    /// Less may be saved.
    pub(crate) is_most: bool,
}

/// The time that is saved.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CostTime {
    PerStep(Ms),
    InAll(Ms),
}

/// `up to 2.1 ms a step, 27.6 % of the time`
pub(crate) fn cost(cost: Cost) -> String {
    let of_what = if cost.is_after_first_uses { "the time after first uses" } else { "the time" };
    let time = match cost.time {
        CostTime::PerStep(ms) => time_per_step(ms),
        CostTime::InAll(ms) => time(ms),
    };
    format!(
        "{}{time}{}",
        if cost.is_most { "up to " } else { "" },
        or_nothing(cost.share, |share| format!(", {} of {of_what}", percent_1(share)))
    )
}

/// `late launches by the host (225 us a step, 24.3 % of the time)`: the title of a finding in a sentence, and its cost.
pub(crate) fn finding(title: &str, cost: &str) -> String {
    format!("{title} ({cost})")
}

/// The kernels of whole graphs are not known.
pub(crate) const HIDDEN_GRAPHS: &str = " The kernels inside of CUDA graphs are not in the trace.";

/// The GPU idles without a known cause, but less than it works.
pub(crate) fn unknown_idle(idle: Fraction) -> String {
    format!(" The GPU idles for {} of the time; the trace does not show why.", percent_1(idle))
}

/// The beginning of the sentence about categories.
pub(crate) fn next_categories(first_is_said: bool) -> &'static str {
    if first_is_said { " Next: " } else { " Largest by GPU time: " }
}

/// `attention (20.0 % of wall time)`
pub(crate) fn category(category: &str, of_wall: Fraction) -> String {
    format!("{} ({} of wall time)", super::category(category), percent_1(of_wall))
}
