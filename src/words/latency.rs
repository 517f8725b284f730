//! What limits launch latencies, from counts of kernels.

use crate::digits::grouped;

/// Kernels that began during their launch call.
pub(crate) fn started_early(kernels: u64, measured: u64) -> String {
    format!(
        "{} of {} measured kernels began before their launch call returned. Their latency counts as zero.",
        grouped(kernels),
        grouped(measured)
    )
}

/// Why the latency of a kernel is not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unmeasurable {
    LaterInGraph,
    BeforeWindow,
    NoCall,
    OtherCall,
}

/// Kernels whose latency is not measured.
pub(crate) fn unmeasured(kernels: u64, all: u64, why: Unmeasurable) -> String {
    let what = match why {
        Unmeasurable::LaterInGraph => "follow another kernel of the same graph launch and are excluded.",
        Unmeasurable::BeforeWindow => "began before the window, or their graph did, and are excluded.",
        Unmeasurable::NoCall => "are not linked to a call and are excluded.",
        Unmeasurable::OtherCall => "are linked to calls that are not launches, such as copies, and are excluded.",
    };
    format!("{} of {} kernels {what}", grouped(kernels), grouped(all))
}
