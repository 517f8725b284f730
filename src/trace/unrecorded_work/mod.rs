//! GPU work that the trace does not contain although the calls of the host show that it ran or may have run.
//!
//! Found when the file is read, by a few passes over the calls and ops; windows of the trace share the result. Four kinds of
//! evidence, each in its module:
//! - [`lost_launches`]: a launch has no op, but work that the same thread launched later has one.
//! - [`outlasting_waits`]: a call that waits for the device returned long after the last op that it can have waited for.
//! - [`copies_after_graphs`]: a copy that has to wait for a graph began long after the last op.
//! - [`queue_start`]: what the file says about work that was queued before the capture began.

mod copies_after_graphs;
mod long_wait;
mod lost_launches;
mod outlasting_waits;
mod queue_start;

use super::{CODE_IS_BUILT, DeviceId, Ns, ProcessId, ThreadId, Trace};
pub use long_wait::{USUAL_RETURN, WaitEnd};
pub use lost_launches::LostLaunches;
pub use outlasting_waits::{OutlastingWait, OutlastingWaits};
use queue_start::QueueStart;

/// What a call does, if that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallRole {
    /// Launches a kernel.
    LaunchesKernel,
    /// Launches a graph.
    LaunchesGraph,
    /// Copies memory, and may return before.
    Copies,
    /// Copies memory and returns when it is done.
    CopiesAndWaits,
    /// Sets memory.
    Sets,
    /// Only waits for the device.
    Synchronizes,
    /// Begins to capture a graph: the launches of the process run nothing until the end of the capture.
    BeginsCapture,
    /// Ends the capture of a graph.
    EndsCapture,
    /// None of these.
    Other,
}

impl CallRole {
    /// Whether it gives the device work.
    fn launches(self) -> bool {
        match self {
            Self::LaunchesKernel | Self::LaunchesGraph | Self::Copies | Self::CopiesAndWaits | Self::Sets => true,
            Self::Synchronizes | Self::BeginsCapture | Self::EndsCapture | Self::Other => false,
        }
    }
}

fn process_of(trace: &Trace, thread: ThreadId) -> ProcessId {
    trace.threads.get(thread.0 as usize).map_or_else(ProcessId::default, |thread| thread.process)
}

/// Whether a stream may have waited for a function or a value of the host.
pub fn may_wait_for_host(trace: &Trace) -> bool {
    trace.calls.names.iter().any(|name| {
        let name = name.to_ascii_lowercase();
        ["hostfunc", "addcallback", "waitvalue"].iter().any(|word| name.contains(word))
    })
}

/// The evidence for GPU work that is not in the trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnrecordedWork {
    /// Launches without GPU ops.
    pub launches: LostLaunches,
    /// Calls that waited for more than the trace contains.
    pub waits: OutlastingWaits,
    queue: QueueStart,
}

impl UnrecordedWork {
    /// `role` decides by the name of a call.
    pub fn of(trace: &Trace, role: &dyn Fn(&str) -> CallRole) -> Self {
        let roles: Vec<CallRole> = trace.calls.names.iter().map(role).collect();
        if trace.calls.is_empty() {
            return Self::default();
        }
        let launches = LostLaunches::of(trace, &roles);
        // The first results of the page do without the rest, because its first module has to be small.
        if !CODE_IS_BUILT {
            return Self { launches, ..Self::default() };
        }
        Self { launches, waits: OutlastingWaits::of(trace, &roles), queue: QueueStart::of(trace, &roles) }
    }

    /// The shortest gap before an op in which unrecorded work may have run, by lost launches or waits; `None` without such.
    pub fn shortest_gap(&self) -> Option<Ns> {
        let waits = (!self.waits.is_empty()).then_some(USUAL_RETURN);
        self.launches.shortest_gap().or(waits)
    }

    /// Whether an op of this stream that starts at `start` may have waited for work that was queued before the capture.
    pub fn may_wait_for_earlier_queue(&self, stream: Option<usize>, start: Ns) -> bool {
        self.queue.may_hold_back(stream, start)
    }

    /// Until when a call proves that the device worked from `idle_from` on.
    pub fn worked_until(&self, device: DeviceId, idle_from: Ns) -> Option<Ns> {
        self.waits.worked_until(device, idle_from)
    }

    /// The same for a part of the trace. `new_row` maps rows of ops.
    pub(super) fn part(&self, new_row: impl Fn(u32) -> Option<u32>) -> Self {
        Self { launches: self.launches.part(new_row), ..self.clone() }
    }
}
