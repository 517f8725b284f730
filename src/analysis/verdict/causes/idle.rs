//! The GPU is idle and nobody is known to be late: without a known cause, or because there is no work. From the times of the devices.

use crate::analysis::section::Ms;
use crate::analysis::trust::{Trust, TrustId};
use crate::analysis::verdict::sentences::Subject;
use crate::words::verdict::causes as words;

/// Idle time without a known cause.
pub(super) fn unknown(subject: &Subject) -> String {
    let times = &subject.times;
    let extent = if times.steps.is_some() { words::Extent::Steps } else { words::Extent::Capture };
    let counts_events = Trust::has(&subject.run.sections, TrustId::CounterRun);
    words::unknown_idle(times.unknown_share(), extent, counts_events)
}

/// The GPU works almost never.
pub(super) fn nothing(subject: &Subject) -> String {
    let times = &subject.times;
    words::nothing(Ms(times.window - times.busy), Trust::has(&subject.run.sections, TrustId::GraphsRecorded))
}
