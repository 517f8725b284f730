//! The cause of an idle gap, from the call that launched the work after the gap. O(1) for a gap.
//!
//! The causes are those of HolisticTraceAnalysis, applied to gaps of a whole device instead of one stream:
//! the host launched late; the op was already launched and the gap is as short as the usual delay between two
//! kernels; or something else, such as an event of another stream, delayed the op. Only the time until the
//! launch call returns counts as host wait.

use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::time::gaps::Gap;
use crate::rules::signals::CallKind;
use crate::trace::Ns;

/// Gaps shorter than this are the usual delay between two kernels. The default of HolisticTraceAnalysis.
const BETWEEN_KERNELS: Ns = Ns(30);

/// The event that a device waited for during a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdleCause {
    /// The launch of the next op.
    HostWait,
    /// The usual delay between two kernels.
    KernelWait,
    /// Anything else, after the launch.
    Other,
    /// The call that launched the next op is unknown.
    Unknown,
}

impl IdleCause {
    pub(crate) const ALL: [Self; 4] = [Self::HostWait, Self::KernelWait, Self::Other, Self::Unknown];

    /// Splits a gap into two parts in time order, each with its cause; the length of a part may be zero.
    /// `launched` is the result of [`launched`] for the work after the gap.
    pub(crate) fn parts(gap: &Gap, launched: Option<Ns>) -> [(Self, Ns); 2] {
        let Some(launched) = launched else {
            return [(Self::Unknown, gap.length()), (Self::Unknown, Ns::ZERO)];
        };
        let launched = launched.clamp(gap.start, gap.end);
        let rest = gap.end.since(launched);
        let after_launch = if rest < BETWEEN_KERNELS { Self::KernelWait } else { Self::Other };
        [(Self::HostWait, launched.since(gap.start)), (after_launch, rest)]
    }

    /// Returns the cause of the longer part of the gap.
    pub(crate) fn of(classified: &ClassifiedTrace, gap: &Gap) -> Self {
        let [first, second] = Self::parts(gap, launched(classified, gap.next_row));
        if second.1 > first.1 { second.0 } else { first.0 }
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::HostWait => "host_wait",
            Self::KernelWait => "kernel_wait",
            Self::Other => "other",
            Self::Unknown => "unknown",
        }
    }
}

/// Returns the time at which the work in this row was launched; `None` if the call is unknown. For a launch
/// call this is its end. Other calls, such as copies, may wait for the device, so for them it is the start of
/// the call.
pub(crate) fn launched(classified: &ClassifiedTrace, row: usize) -> Option<Ns> {
    let trace = classified.trace;
    let call = trace.gpu_ops.launch(row).and_then(|call| trace.calls.get(call.0 as usize))?;
    Some(match classified.call_kind(call.name) {
        CallKind::Launch | CallKind::GraphLaunch => call.end(),
        _ => call.start,
    })
}
