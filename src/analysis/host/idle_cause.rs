//! Why a device was idle, from the call that launched the work after the gap.
//!
//! The causes are those of HolisticTraceAnalysis, for gaps of the whole device instead of one stream: the host launched late; or
//! the launch was made and the gap is as short as between any two kernels; or something else, such as an event of another stream,
//! held the op back. A gap is the host's until the launch call returns, not to the end of the gap.

use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::time::gaps::Gap;
use crate::rules::signals::CallKind;
use crate::trace::Ns;

/// A shorter gap after a launch was made is what any two kernels leave between them: the default of HolisticTraceAnalysis.
const BETWEEN_KERNELS: Ns = Ns(30);

/// What a device waited for during a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdleCause {
    HostWait,
    KernelWait,
    Other,
    /// The call that launched the next op is unknown.
    Unknown,
}

impl IdleCause {
    pub(crate) const ALL: [Self; 4] = [Self::HostWait, Self::KernelWait, Self::Other, Self::Unknown];

    /// The two parts of a gap in time order, each with its cause; the length of a part may be zero. `launched` is that of
    /// [`launched`] for the work after the gap.
    pub(crate) fn parts(gap: &Gap, launched: Option<Ns>) -> [(Self, Ns); 2] {
        let Some(launched) = launched else {
            return [(Self::Unknown, gap.length()), (Self::Unknown, Ns::ZERO)];
        };
        let launched = launched.clamp(gap.start, gap.end);
        let rest = gap.end.since(launched);
        let after_launch = if rest < BETWEEN_KERNELS { Self::KernelWait } else { Self::Other };
        [(Self::HostWait, launched.since(gap.start)), (after_launch, rest)]
    }

    /// The cause of the longer part of the gap.
    pub(crate) fn of(classified: &ClassifiedTrace, gap: &Gap) -> Self {
        let [first, second] = Self::parts(gap, launched(classified, gap.next_row));
        if second.1 > first.1 { second.0 } else { first.0 }
    }

    /// The word in tables.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::HostWait => "host_wait",
            Self::KernelWait => "kernel_wait",
            Self::Other => "other",
            Self::Unknown => "unknown",
        }
    }
}

/// When the launch of the work in this row was made; `None` if the call is unknown. A launch is made when its call returns. Other
/// calls, such as copies, may themselves wait for the device: theirs is made when the call starts.
pub(crate) fn launched(classified: &ClassifiedTrace, row: usize) -> Option<Ns> {
    let trace = classified.trace;
    let call = trace.gpu_ops.launch(row).and_then(|call| trace.calls.get(call.0 as usize))?;
    Some(match classified.call_kind(call.name) {
        CallKind::Launch | CallKind::GraphLaunch => call.end(),
        _ => call.start,
    })
}
