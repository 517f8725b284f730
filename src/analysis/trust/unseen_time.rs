//! The time of each device in which it executed work that the trace does not contain, by what proves it. From the survey of the context.
//! O(unseen intervals).

use crate::analysis::context::Context;
use crate::analysis::host::unseen::hole_in;
use crate::trace::{DeviceId, Ns};

/// The time between the ops of a device in which it executed work that the trace does not contain, by what proves it.
#[derive(Debug, Default)]
pub(super) struct UnseenTime {
    pub(super) after_a_long_wait: Ns,
    pub(super) after_a_lost_launch: Ns,
    pub(super) within_a_wait: Ns,
    pub(super) after_a_hole: Ns,
}

pub(super) fn unseen_time(context: &Context, device: usize) -> Option<UnseenTime> {
    let trace = context.trace;
    let work = &trace.unrecorded_work;
    let mut time = UnseenTime::default();
    for (start, end) in &context.survey().idle.get(device)?.unseen {
        let ops_at_end =
            trace.gpu_ops.count_starting_before(*end)..trace.gpu_ops.count_starting_before(Ns(end.0.saturating_add(1)));
        let follows_launch = ops_at_end.into_iter().any(|row| work.launches.before(row).is_some());
        let sum = match work.worked_until(DeviceId(device as u32), *start) {
            _ if hole_in(trace, *start, *end).is_some() => &mut time.after_a_hole,
            Some(_) => &mut time.within_a_wait,
            None if follows_launch => &mut time.after_a_lost_launch,
            None => &mut time.after_a_long_wait,
        };
        *sum += end.since(*start);
    }
    Some(time)
}

/// The longest of these times of all devices; `None` if there is none.
pub(super) fn longest_unseen(context: &Context, time: impl Fn(UnseenTime) -> Ns) -> Option<Ns> {
    let devices = 0..context.trace.devices.len();
    let times = devices.filter_map(|device| unseen_time(context, device).map(&time));
    times.max().filter(|longest| *longest != Ns::ZERO)
}
