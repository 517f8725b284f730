//! The GPU waits for launches or for blocking calls. From the late time of the devices, and the findings about the host.

use crate::analysis::findings::{Confidence, FindingId, FindingRow, Findings};
use crate::analysis::results::Run;
use crate::analysis::section::{Fraction, TypedSection};
use crate::analysis::verdict::sentences::Subject;
use crate::words::verdict::causes as words;

pub(super) fn host(subject: &Subject) -> String {
    let times = &subject.times;
    let (late, extent) = match times.steps {
        Some(steps) => (Fraction(steps.late / steps.length), words::Extent::Steps),
        None if times.start().is_some() => (times.share(times.host_late + times.drained), words::Extent::AfterStart),
        None => (times.share(times.host_late + times.drained), words::Extent::Capture),
    };
    words::host(late, extent, is_inflated(subject.run))
}

/// True if the findings about the host are uncertain.
pub(in crate::analysis::verdict) fn is_inflated(run: &Run) -> bool {
    let is_low = |row: &FindingRow| {
        matches!(row.id, FindingId::HostLate | FindingId::ReplayPreparation) && row.confidence == Confidence::Low
    };
    Findings::rows(&run.sections).iter().any(is_low)
}
