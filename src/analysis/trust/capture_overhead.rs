//! `capture-overhead`: the capture slows the host down, and the host causes idle time. From the section of idle time, the number of Python
//! frames and one pass over the calls.

use super::row::{TrustId, TrustRow};
use crate::analysis::context::Context;
use crate::analysis::host::idle::{GpuIdle, GpuIdleRow};
use crate::analysis::section::{Sections, TypedSection};
use crate::rules::signals::CallKind;
use crate::trace::Ns;
use crate::words::trust::{self as words, Overhead};

/// Idle time that the host causes below this percentage of the window needs no warning about a slow host.
const MIN_HOST_PCT: f64 = 1.0;
/// Slower launch calls are slowed down by the capture.
const SLOW_LAUNCH: Ns = Ns(15_000);
/// Longer launch calls load code or upload a graph and say nothing about the usual cost of a launch.
const LOADS_CODE: Ns = Ns(1_000_000);
/// The mean over fewer launches is not reliable.
const MIN_LAUNCHES: u64 = 100;

pub(super) fn find(context: &Context, sections: &Sections) -> Option<TrustRow> {
    let host_pct = |row: &GpuIdleRow| {
        let window = row.window_ms.0 - row.unseen_ms.0;
        if window > 0.0 { 100.0 * (row.host_late_ms.0 + row.drained_ms.0) / window } else { 0.0 }
    };
    if GpuIdle::rows(sections).iter().map(host_pct).fold(0.0, f64::max) < MIN_HOST_PCT {
        return None;
    }
    let overhead = match context.trace.events.python_frames {
        0 => Overhead::SlowLaunches((slow_launch(context)?.0 as f64 / 1e3).round() as u64),
        frames => Overhead::PythonFrames(frames),
    };
    Some(TrustRow::new(TrustId::CaptureOverhead, words::capture_overhead(overhead)))
}

/// The mean duration of a launch call, if it is unusually long.
fn slow_launch(context: &Context) -> Option<Ns> {
    let (mut count, mut total) = (0_u64, Ns::ZERO);
    let launches = context.trace.calls.iter().filter(|call| context.call_kind(call.name) == CallKind::Launch);
    for call in launches.filter(|call| call.duration < LOADS_CODE) {
        count += 1;
        total += call.duration;
    }
    let mean = Ns(total.0 / i64::try_from(count.max(1)).unwrap_or(i64::MAX));
    (count >= MIN_LAUNCHES && mean > SLOW_LAUNCH).then_some(mean)
}
