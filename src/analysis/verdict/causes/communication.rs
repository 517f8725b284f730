//! Communication that runs alone, or that overlaps compute so much that shares of categories say little. From the times of the devices.

use crate::analysis::findings::{FindingId, Findings};
use crate::analysis::results::Run;
use crate::analysis::section::TypedSection;
use crate::analysis::verdict::sentences::Subject;
use crate::words::verdict::causes as words;

/// Communication without compute.
pub(super) fn alone(subject: &Subject) -> String {
    let times = &subject.times;
    words::communication(times.share_of_busy(times.exposed), has_waits(subject.run))
}

/// Communication and compute, alone and together.
pub(super) fn overlap(subject: &Subject) -> String {
    let times = &subject.times;
    let others = times.busy - times.compute_alone - times.exposed - times.overlapped;
    let other = times.share_of_busy(others);
    words::overlap(words::Overlap {
        compute_alone: times.share_of_busy(times.compute_alone),
        communication_alone: times.share_of_busy(times.exposed),
        both: times.share_of_busy(times.overlapped),
        other: Some(other).filter(|other| other.0 >= subject.thresholds.min_other_work_share),
    })
}

/// Whether communication may wait for other ranks.
pub(in crate::analysis::verdict) fn has_waits(run: &Run) -> bool {
    Findings::rows(&run.sections).iter().any(|row| row.id == FindingId::CommunicationWaits)
}
