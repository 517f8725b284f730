//! The clause about what takes most of the time: a file for each cause that reads numbers of its own.

mod communication;
mod compute;
mod host;
mod idle;

use super::bound::Bound;
use super::sentences::{Sentences, Subject};
use crate::words::verdict::causes as words;

pub(super) use communication::has_waits;
pub(super) use host::is_inflated;

/// Adds the clause about the cause. `is_part`: the sentence is about a part of the capture.
pub(super) fn cause(bound: Bound, subject: &Subject, is_part: bool, text: &mut Sentences) {
    let times = &subject.times;
    match bound {
        Bound::Host => text.push(host::host(subject), Some(("gpu_idle", None))),
        Bound::UnknownIdle => text.push(idle::unknown(subject), Some(("gpu_idle", None))),
        Bound::Compilation => {
            text.push(words::compilation(times.share(times.compiling)), Some(("gpu_idle", None)));
        }
        Bound::Loading => text.push(words::loading(times.share(times.first_launches)), Some(("gpu_idle", None))),
        Bound::StepsWithoutWork => text.push(words::STEPS_WITHOUT_WORK, Some(("trust", None))),
        Bound::Nothing => text.push(idle::nothing(subject), Some(("gpu_idle", None))),
        Bound::ShiftedDurations => text.push(words::SHIFTED_DURATIONS, Some(("trust", None))),
        Bound::Unrecorded => text.push(words::unrecorded(times.share(times.unrecorded)), Some(("trust", None))),
        // The path has said it.
        Bound::Waiting | Bound::Delays | Bound::Uneven => {}
        Bound::Communication => text.push(communication::alone(subject), Some(("nccl_ops", None))),
        Bound::Overlap => text.push(communication::overlap(subject), Some(("stream_overlap", None))),
        Bound::Compute => {
            if let Some(words) = compute::largest_category(subject, is_part) {
                text.push(words, Some(("categories", Some(0))));
            }
        }
    }
}
