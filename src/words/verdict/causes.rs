//! The clause of the verdict about what takes most of the time: a function per cause. From shares of that time.

use crate::trace::{Fraction, Ms};
use crate::words::{or_nothing, percent_1, time};

/// The time that a share is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    Capture,
    Steps,
    AfterStart,
}

impl Extent {
    fn words(self) -> &'static str {
        match self {
            Self::Capture => "time",
            Self::Steps => "time from the first step to the last",
            Self::AfterStart => "time after the start",
        }
    }
}

/// The host delays the GPU. One step that is captured alone with Python stacks proves no bound by it.
pub(crate) fn host(late: Fraction, extent: Extent, is_inflated: bool) -> String {
    let (share, extent) = (percent_1(late), extent.words());
    if is_inflated {
        format!("; the GPU waits for the host {share} of the {extent}, inflated by a short capture with Python stacks")
    } else {
        format!("; bound by the host, which delays the GPU for {share} of the {extent}")
    }
}

/// The GPU idles without a known cause.
pub(crate) fn unknown_idle(idle: Fraction, extent: Extent, counts_events: bool) -> String {
    let why = if counts_events {
        "while the profiler counts hardware events between the kernels"
    } else {
        "and the trace does not show why"
    };
    format!("; the GPU idles for {} of the {}, {why}", percent_1(idle), extent.words())
}

/// The GPU idles while code is compiled.
pub(crate) fn compilation(idle: Fraction) -> String {
    format!("; torch.compile keeps the GPU idle for {} of the time", percent_1(idle))
}

/// The GPU waits for first launches.
pub(crate) fn loading(waiting: Fraction) -> String {
    format!(
        "; for {} of the time the GPU waits for first launches of kernels, which load code: this is no steady state",
        percent_1(waiting)
    )
}

/// No GPU op of the file runs while the marked steps run.
pub(crate) const STEPS_WITHOUT_WORK: &str = "; the file contains no GPU work of these steps";

/// The GPU works almost never, and no steps are marked.
pub(crate) fn nothing(idle: Ms, records_graphs: bool) -> String {
    let why = if records_graphs { " while the program records graphs" } else { "" };
    format!("; for the other {} it has no work{why}, so the capture says little about the GPU", time(idle))
}

/// Durations in graph replays do not belong to their kernel names.
pub(crate) const SHIFTED_DURATIONS: &str = "; the trace does not show what costs most, because durations in graph replays do not \
     belong to their kernel names";

/// Work without records may have taken more time than what is recorded.
pub(crate) fn unrecorded(share: Fraction) -> String {
    format!("; what the GPU did for {} of the time is not in the file", percent_1(share))
}

/// Communication runs without compute.
pub(crate) fn communication(of_busy: Fraction, may_wait: bool) -> String {
    let share = percent_1(of_busy);
    if may_wait {
        format!("; communication runs alone for {share} of the busy time and may wait for other ranks")
    } else {
        format!("; bound by communication, which runs alone for {share} of the busy time")
    }
}

/// Parts of the busy time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Overlap {
    pub(crate) compute_alone: Fraction,
    pub(crate) communication_alone: Fraction,
    pub(crate) both: Fraction,
    /// What is neither, if it is worth a word.
    pub(crate) other: Option<Fraction>,
}

/// Communication and compute overlap too much for shares of categories.
pub(crate) fn overlap(parts: Overlap) -> String {
    format!(
        "; of busy time, {} is compute alone, {} communication alone, {} both together{}",
        percent_1(parts.compute_alone),
        percent_1(parts.communication_alone),
        percent_1(parts.both),
        or_nothing(parts.other, |other| format!(", {} other work such as copies", percent_1(other)))
    )
}

/// The category with most time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LargestCategory<'a> {
    pub(crate) category: &'a str,
    pub(crate) of_wall: Fraction,
    pub(crate) among: Among,
    /// The largest kernel that no category describes, and its share of the category.
    pub(crate) kernel: Option<(&'a str, Fraction)>,
}

/// The work that a category is the largest of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Among {
    All,
    /// The kernels of graphs are not known.
    OutsideOfGraphs,
    /// The clauses before are about a part of the capture.
    WholeCapture,
}

/// `; the largest category is gemm (61.2 % of wall time)`
pub(crate) fn largest_category(largest: LargestCategory) -> String {
    let head = match largest.among {
        Among::All => "; the",
        Among::OutsideOfGraphs => "; outside of graphs the",
        Among::WholeCapture => "; of the whole capture, the",
    };
    format!(
        "{head} largest category is {} ({} of wall time{})",
        super::category(largest.category),
        percent_1(largest.of_wall),
        or_nothing(largest.kernel, |(name, share)| format!(", of which {name} takes {}", percent_1(share)))
    )
}
