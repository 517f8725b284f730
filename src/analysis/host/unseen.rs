//! The parts of an idle gap in which the device executed work that the trace does not contain, or may have. O(log n) for a gap.
//!
//! The evidence is [`UnrecordedWork`](crate::trace::UnrecordedWork), which is found when the file is read. Such time is neither idle
//! nor busy:
//! - At the start of a gap: a call waited for the device for longer than the recorded ops ran.
//! - At the end of a gap, from a time on in which nothing was recorded at all: a new capture begins.
//! - At the end of a gap: a launch without ops came before the next op; or the next op started more than [`MIN_UNSEEN`] after its launch,
//!   and work from before the capture may have held it back.

use crate::analysis::time::gaps::Gap;
use crate::rules::signals::CallKind;
use crate::trace::{DeviceId, NameId, Ns, ProcessId, Trace, may_wait_for_host};

/// An op that waits longer after its launch, on an idle device, waits for something that the trace does not contain.
pub(crate) const MIN_UNSEEN: Ns = Ns(1_000_000);
/// Rows that are searched for an op of another device that ran during a gap.
const MAX_SEARCHED_ROWS: usize = 4_096;

/// What the device executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnseenWork {
    /// Work that was launched before the capture. It is no part of the captured work: steps and windows leave out its time.
    OfBefore,
    /// Work of the capture that has no record, or may have been such.
    Unrecorded,
}

/// The unseen parts of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnseenParts {
    /// Unrecorded work until this time; the start of the gap if there is none.
    until: Ns,
    /// Unseen work from this time on.
    last: Option<(Ns, UnseenWork)>,
}

impl UnseenParts {
    /// The intervals of a gap, none of them empty.
    pub(crate) fn intervals(self, gap: &Gap) -> impl Iterator<Item = (Ns, Ns, UnseenWork)> {
        let first = (gap.start, self.until, UnseenWork::Unrecorded);
        let last = self.last.map(|(from, work)| (from, gap.end, work));
        [Some(first), last].into_iter().flatten().filter(|(start, end, _)| end > start)
    }
}

/// Both parts of a gap. `call_kind` is the kind of a call by its name.
pub(crate) fn unseen_in_gap(trace: &Trace, gap: &Gap, call_kind: &dyn Fn(NameId) -> CallKind) -> UnseenParts {
    let until = unseen_until(trace, gap).unwrap_or(gap.start);
    UnseenParts { until, last: unseen_from(trace, &Gap { start: until, ..*gap }, call_kind) }
}

/// Until when a call proves that the device worked.
pub(crate) fn unseen_until(trace: &Trace, gap: &Gap) -> Option<Ns> {
    let device = DeviceId(u32::try_from(gap.device).ok()?);
    trace.unrecorded_work.worked_until(device, gap.start).map(|until| until.min(gap.end))
}

/// From when on the device executed work that the trace does not contain, or may have: after a launch without ops, or because
/// the next op waited long after its launch.
pub(crate) fn unseen_from(
    trace: &Trace,
    gap: &Gap,
    call_kind: &dyn Fn(NameId) -> CallKind,
) -> Option<(Ns, UnseenWork)> {
    if let Some((from, _)) = hole_in(trace, gap.start, gap.end) {
        return Some((from, UnseenWork::OfBefore));
    }
    let work = &trace.unrecorded_work;
    if let (Some(shortest), Some(launched)) = (work.launches.shortest_gap(), work.launches.before(gap.next_row))
        && gap.length() > shortest
        && launched < gap.end
    {
        return Some((launched.max(gap.start), UnseenWork::Unrecorded));
    }
    unseen_after_launch(trace, gap, call_kind).map(|from| (from, UnseenWork::OfBefore))
}

/// The first time between two times in which nothing was recorded. O(log n).
pub(crate) fn hole_in(trace: &Trace, start: Ns, end: Ns) -> Option<(Ns, Ns)> {
    let next = trace.recording_holes.partition_point(|(_, until)| *until <= start);
    let (from, until) = trace.recording_holes.get(next).filter(|(from, _)| *from < end)?;
    Some(((*from).max(start), (*until).min(end)))
}

/// Returns the time in a gap from which on the next op waited, if it started more than [`MIN_UNSEEN`] after its launch call returned,
/// although the device did nothing visible, and if work from before the capture may have held it back. Not for nodes of
/// graphs, because a graph may have to be uploaded; and not if the op may have waited for another device or for a function on
/// the host.
pub(crate) fn unseen_after_launch(trace: &Trace, gap: &Gap, call_kind: &dyn Fn(NameId) -> CallKind) -> Option<Ns> {
    let call = trace.calls.get(trace.gpu_ops.launch(gap.next_row)?.0 as usize)?;
    let launched = call.end().max(gap.start);
    if gap.end.since(launched) <= MIN_UNSEEN || call_kind(call.name) == CallKind::GraphLaunch {
        return None;
    }
    let stream = trace.gpu_ops.stream_index(gap.next_row);
    let is_explained = !trace.unrecorded_work.may_wait_for_earlier_queue(stream, gap.end)
        || may_wait_for_host(trace)
        || other_device_ran(trace, gap, launched);
    (!is_explained).then_some(launched)
}

/// The row of the first op of a device, which starts at this time. O(log n), and the ops of other devices that start before it from then on.
pub(crate) fn first_row(trace: &Trace, device: DeviceId, start: Ns) -> Option<usize> {
    let is_of_device = |row: &usize| trace.gpu_ops.get(*row).is_some_and(|op| op.device == device);
    (trace.gpu_ops.count_starting_before(start)..trace.gpu_ops.len()).find(is_of_device)
}

/// Whether an op of a process that was launched in time may have waited for something that the trace contains: another stream or device
/// of its process, or a function on the host.
pub(crate) fn may_wait_for_others(trace: &Trace, process: ProcessId) -> bool {
    let lanes = trace.gpu_ops.streams().zip(trace.gpu_ops.owners());
    let mut streams = lanes.filter(|(_, (_, owner))| *owner == process).map(|(stream, _)| stream);
    let first = streams.next();
    streams.any(|stream| Some(stream) != first) || may_wait_for_host(trace)
}

/// Checks whether an op of the same process on another device ended between `from` and the end of the gap, or still ran then.
fn other_device_ran(trace: &Trace, gap: &Gap, from: Ns) -> bool {
    if trace.devices.len() < 2 {
        return false;
    }
    let Some(process) = trace.gpu_ops.get(gap.next_row).map(|op| op.process) else { return false };
    let earlier = trace.gpu_ops.first_reaching(from)..gap.next_row.min(trace.gpu_ops.len());
    let mut ops = earlier.rev().take(MAX_SEARCHED_ROWS).filter_map(|row| trace.gpu_ops.get(row));
    ops.any(|op| op.process == process && op.device.0 as usize != gap.device && op.end() > from)
}
