//! `recording-holes`: the file has several captures, with times between them in which nothing was recorded. From the holes of the trace and
//! the survey of the context; O(unseen intervals).

use super::row::{TrustId, TrustRow};
use super::unseen_time::longest_unseen;
use crate::analysis::context::Context;
use crate::words::trust as words;

pub(super) fn find(context: &Context) -> Option<TrustRow> {
    let left_out = longest_unseen(context, |time| time.after_a_hole)?;
    Some(TrustRow::new(TrustId::RecordingHoles, words::recording_holes(left_out)))
}
