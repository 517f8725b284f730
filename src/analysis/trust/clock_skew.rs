//! `clock-skew`: ops start before their launches, or end after the calls that waited for them, so the clocks of host and device differ. From
//! the leads of the devices and the lag of the trace; O(devices).

use super::row::{TrustId, TrustRow};
use crate::analysis::labels;
use crate::trace::{Ns, Trace};
use crate::words;

pub(super) fn find(trace: &Trace) -> Option<TrustRow> {
    if trace.clock_lag > Ns::ZERO {
        return Some(TrustRow::new(TrustId::ClockSkew, words::trust::clock_lag(trace.clock_lag)));
    }
    let (device, lead) = trace.worst_clock_lead()?;
    let early = trace.clock_leads.iter().map(|lead| lead.ops).sum::<u64>();
    let gpu = (trace.devices.len() > 1).then(|| labels::device(trace, device).words());
    let limit = words::trust::clock_skew(early, lead.longest, gpu.as_deref());
    Some(TrustRow::new(TrustId::ClockSkew, limit))
}
