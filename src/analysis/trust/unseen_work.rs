//! `unseen-work`: a device executed work that was launched before the capture. An op proves it that starts long after its launch although
//! the device did nothing visible. From the survey of the context; O(unseen intervals).

use super::row::{TrustId, TrustRow};
use super::unseen_time::unseen_time;
use crate::analysis::context::Context;
use crate::analysis::host::unseen::{MIN_UNSEEN, first_row, unseen_after_launch};
use crate::analysis::labels;
use crate::analysis::time::gaps::{Busy, Gap};
use crate::trace::{DeviceId, Ns};
use crate::words;

pub(super) fn find(context: &Context) -> Option<TrustRow> {
    let trace = context.trace;
    let inside = |device: usize| Some(unseen_time(context, device)?.after_a_long_wait);
    let devices = context.survey().busy.iter().enumerate();
    let found = devices.filter_map(|(device, busy)| {
        let before_first = busy.filter(|_| trace.cut.is_none()).and_then(|busy| unseen_before(context, device, busy));
        let (inside, before) = (inside(device)?, before_first.unwrap_or(Ns::ZERO));
        (inside + before > Ns::ZERO).then_some((device, inside, before))
    });
    let (device, inside, before) = found.max_by_key(|(_, inside, before)| *inside + *before)?;
    let gpu = labels::device(trace, DeviceId(device as u32)).words();
    Some(TrustRow::new(TrustId::UnseenWork, words::trust::unseen_work(&gpu, inside + before, inside == Ns::ZERO)))
}

/// The wait of the first op of a device after its launch. `None` if it is short or the launch is unknown.
fn unseen_before(context: &Context, device: usize, busy: Busy) -> Option<Ns> {
    let trace = context.trace;
    let next_row = first_row(trace, DeviceId(u32::try_from(device).ok()?), busy.first)?;
    let gap = Gap { device, start: Ns(i64::MIN / 4), end: busy.first, previous_row: None, next_row };
    let from = unseen_after_launch(trace, &gap, &|name| context.call_kind(name))?;
    Some(gap.end.since(from)).filter(|length| *length > MIN_UNSEEN)
}
