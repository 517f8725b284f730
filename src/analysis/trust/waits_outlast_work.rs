//! `waits-outlast-work`: calls waited for the device for longer than its ops ran. From the waits of the trace; O(n log n) in their number.

use super::row::{TrustId, TrustRow};
use super::unseen_time::longest_unseen;
use crate::analysis::context::Context;
use crate::analysis::recapture::{self, MissingData};
use crate::trace::{Ns, WaitEnd};
use crate::words::trust as words;

pub(super) fn find(context: &Context) -> Option<TrustRow> {
    let waits = [WaitEnd::CallReturned, WaitEnd::CopyBegan].map(|end| late_waits(context, end));
    let waits: Vec<words::LateWaits> = waits.into_iter().flatten().collect();
    if waits.is_empty() {
        return None;
    }
    let left_out = longest_unseen(context, |time| time.within_a_wait);
    let command = recapture::command(context.trace, MissingData::Kernels);
    Some(TrustRow::new(TrustId::WaitsOutlastWork, words::waits_outlast_work(&waits, left_out, &command)))
}

/// The waits that ended in this way, and how long after the last op; `None` without such.
fn late_waits(context: &Context, end: WaitEnd) -> Option<words::LateWaits> {
    let waits = context.trace.unrecorded_work.waits.iter().filter(|wait| wait.end == end);
    let mut delays: Vec<Ns> = waits.map(|wait| wait.until.since(wait.last_op_end)).collect();
    delays.sort_unstable();
    let median = *delays.get(delays.len() / 2)?;
    Some(words::LateWaits { end, count: delays.len() as u64, median })
}
