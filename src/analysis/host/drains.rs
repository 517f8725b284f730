//! The blocking calls that drained a GPU, if they cost so much that the code around them is looked up (`trace::PackedCode`).
//!
//! One sweep over the GPU ops. The idle time after a drain counts for the call that drained the device, as in
//! [`idle_cause`](super::idle_cause), which has the rules. A device whose host was never ahead has no drains.

use super::blocking_calls::{BlockingCall, BlockingCalls};
use super::idle_cause::{CauseRules, IdleCause, IdleTimes};
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::time::gaps::GapSweep;
use crate::analysis::time::work::each_work;
use crate::ordering::sorted_indices;
use crate::trace::{Format, HostInterval, MAX_LOCATED_CALLS, Ns, Trace};

/// Drains below this share of a GPU's busy time are not looked up: no finding mentions them.
const MIN_SHARE: f64 = 0.001;

/// The calls whose code is to be looked up, sorted; the costliest if there are more than [`MAX_LOCATED_CALLS`]. Empty if the
/// format records no code, or if the drains cost too little to be mentioned.
pub fn costly_drains(trace: &Trace) -> Vec<HostInterval> {
    if trace.format != Format::TorchProfiler || trace.calls.is_empty() {
        return Vec::new();
    }
    let classified = ClassifiedTrace::new(trace);
    let (drains, busy) = drains(&classified);
    let cost_ms = drains.iter().fold(Ns::ZERO, |sum, (_, cost)| sum + *cost).0 as f64 / 1e6;
    if cost_ms < classified.signals.thresholds.min_drained_ms.max(MIN_SHARE * busy.0 as f64 / 1e6) {
        return Vec::new();
    }
    let cost = |index: usize| drains.get(index).map(|(_, cost)| std::cmp::Reverse(*cost));
    let order = sorted_indices(drains.len(), &|a, b| cost(a).cmp(&cost(b)));
    let costliest = order.iter().take(MAX_LOCATED_CALLS).filter_map(|index| drains.get(*index));
    let mut calls: Vec<HostInterval> =
        costliest.map(|(call, _)| HostInterval { thread: call.thread, start: call.start, end: call.end }).collect();
    calls.sort_unstable();
    calls.dedup();
    calls
}

/// Each drain of a device with the idle time that followed until launches were ahead again, and the busy time of the device
/// that worked most.
fn drains(classified: &ClassifiedTrace) -> (Vec<(BlockingCall, Ns)>, Ns) {
    let devices = classified.trace.devices.len();
    let blocking = BlockingCalls::of(classified);
    let rules = CauseRules::new(classified, &blocking);
    let mut sweep = GapSweep::new(classified.trace);
    let mut idle = vec![IdleTimes::new(); devices];
    let mut drains: Vec<Vec<(BlockingCall, Ns)>> = vec![Vec::new(); devices];
    each_work(classified, &mut |work| {
        let Some(gap) = sweep.add(&work) else { return };
        let (Some(idle), Some(drains)) = (idle.get_mut(gap.device), drains.get_mut(gap.device)) else { return };
        let Some(parts) = idle.add(&rules, &gap) else { return };
        if let Some(call) = idle.refilled_after()
            && drains.last().is_none_or(|(last, _)| *last != call)
        {
            drains.push((call, Ns::ZERO));
        }
        if let Some((_, cost)) = drains.last_mut() {
            *cost += parts.length_of(IdleCause::Drained);
        }
    });
    let is_ahead = |(idle, _): &(IdleTimes, Vec<_>)| idle.is_host_ever_ahead();
    let drains = idle.into_iter().zip(drains).filter(is_ahead).flat_map(|(_, drains)| drains).collect();
    let busy = sweep.devices.iter().flatten().map(|device| device.busy).max();
    (drains, busy.unwrap_or(Ns::ZERO))
}
