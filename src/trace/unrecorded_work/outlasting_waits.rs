//! Calls that waited for the device long after the last op that is in the trace: the device still worked.
//!
//! A call waits for the work of its own process.
//!
//! Bodies of while nodes, work of device-side launches and records that were never delivered leave no op, but the host waits for
//! them. A call returns within [`USUAL_RETURN`] of the end of the work for which it waited; the rest of its wait is work. The same holds
//! until a copy begins that has to wait for a graph ([`super::copies_after_graphs`]). One pass over the calls, and one over the ops if
//! some calls took longer than that.

use super::super::{DeviceId, Ns, ProcessId, Trace};
use super::long_wait::{LongWait, USUAL_RETURN, WaitEnd};
use super::{CallRole, copies_after_graphs, process_of};
use crate::ordering;

/// A call that waited for work that is not in the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutlastingWait {
    /// The device of the last op before.
    pub device: DeviceId,
    /// The end of that op.
    pub last_op_end: Ns,
    /// Since when the call waited for more: the end of that op, or the start of a copy that was issued later.
    waited_from: Ns,
    /// When the wait ended.
    pub until: Ns,
    /// How it ended.
    pub end: WaitEnd,
    /// The op may have ended later by this, because the clocks of host and device differ.
    clock_error: Ns,
}

impl OutlastingWait {
    /// Until when the device worked. The more the wait exceeds the usual return, the less of it can be that return: the time
    /// grows from zero with the excess, and reaches the end of the wait when the excess is [`USUAL_RETURN`].
    pub fn worked_until(&self) -> Ns {
        let excess = self.until.since(self.waited_from).since(USUAL_RETURN).since(self.clock_error);
        self.until.min(self.last_op_end + excess + excess)
    }
}

/// All such calls, sorted by device and end of the last op.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OutlastingWaits(Vec<OutlastingWait>);

impl OutlastingWaits {
    /// `roles` has the role of each name of calls.
    pub(super) fn of(trace: &Trace, roles: &[CallRole]) -> Self {
        let mut waits = long_waits(trace, roles);
        waits.extend(copies_after_graphs::long_waits(trace, roles, &waits));
        if waits.is_empty() {
            return Self::default();
        }
        ordering::sort_by_key(&mut waits, |wait| wait.until);
        let mut latest = LatestEnd::new(trace);
        let found = waits.iter().filter_map(|wait| {
            let (last_op_end, device) = latest.before(wait.until, wait.process)?;
            // Work that was launched between the last op and the call is missing for another reason: its launch has no op.
            let is_same_work = last_op_end >= wait.start || wait.last_launch.is_none_or(|launch| launch <= last_op_end);
            let waited_from = match wait.end {
                WaitEnd::CallReturned => last_op_end,
                WaitEnd::CopyBegan => last_op_end.max(wait.start),
            };
            // The clocks differ by their offset at least, and by as much more as the fastest launch took.
            let offset = trace.clock_offset(device);
            let (until, end, clock_error) = (wait.until, wait.end, offset + offset);
            let wait = OutlastingWait { device, last_op_end, waited_from, until, end, clock_error };
            (is_same_work && wait.worked_until() > last_op_end).then_some(wait)
        });
        let mut found: Vec<OutlastingWait> = found.collect();
        ordering::sort_by_key(&mut found, |wait| (wait.device, wait.last_op_end, wait.worked_until()));
        // Several threads may wait for the same work: the one that waited longest is enough.
        found.dedup_by(|later, kept| {
            let is_same = (later.device, later.last_op_end) == (kept.device, kept.last_op_end);
            if is_same {
                *kept = *later;
            }
            is_same
        });
        Self(found)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All of them, by device and end of the last op.
    pub fn iter(&self) -> impl Iterator<Item = &OutlastingWait> {
        self.0.iter()
    }

    /// Until when the device worked, if a call proves it for the time from `idle_from` on.
    pub(super) fn worked_until(&self, device: DeviceId, idle_from: Ns) -> Option<Ns> {
        let next = self.0.partition_point(|wait| (wait.device, wait.last_op_end) <= (device, idle_from));
        let wait = self.0.get(next.checked_sub(1)?)?;
        Some(wait.worked_until()).filter(|until| wait.device == device && *until > idle_from)
    }
}

/// The calls that only wait and took longer than [`USUAL_RETURN`].
fn long_waits(trace: &Trace, roles: &[CallRole]) -> Vec<LongWait> {
    let mut waits = Vec::new();
    let mut last_launch: Vec<Option<Ns>> = vec![None; trace.processes.len().max(1)];
    if !roles.contains(&CallRole::Synchronizes) {
        return waits;
    }
    for call in trace.calls.iter() {
        let process = process_of(trace, call.thread);
        let Some(last_launch) = last_launch.get_mut(process.0 as usize) else { continue };
        match roles.get(call.name.0 as usize) {
            Some(role) if role.launches() => *last_launch = Some(call.start),
            Some(CallRole::Synchronizes) if call.duration > USUAL_RETURN => {
                let (start, until, end) = (call.start, call.end(), WaitEnd::CallReturned);
                waits.push(LongWait { start, until, end, process, last_launch: *last_launch });
            }
            _ => {}
        }
    }
    waits
}

/// The latest end of the work of a process that starts before a time, on all devices. Times must not decrease.
struct LatestEnd<'a> {
    trace: &'a Trace,
    next_op: usize,
    next_replay: usize,
    /// By process.
    latest: Vec<Option<(Ns, DeviceId)>>,
    /// The end of work of an unknown process, which may be that of any.
    of_unknown: Option<(Ns, DeviceId)>,
}

impl<'a> LatestEnd<'a> {
    fn new(trace: &'a Trace) -> Self {
        Self { trace, next_op: 0, next_replay: 0, latest: vec![None; trace.processes.len().max(1)], of_unknown: None }
    }

    fn before(&mut self, time: Ns, process: ProcessId) -> Option<(Ns, DeviceId)> {
        while let Some(op) = self.trace.gpu_ops.get(self.next_op).filter(|op| op.start < time) {
            self.add(op.end(), op.device, Some(op.process));
            self.next_op += 1;
        }
        while let Some(replay) = self.trace.graph_replays.get(self.next_replay).filter(|replay| replay.start < time) {
            let launch = replay.launch.and_then(|call| self.trace.calls.get(call.0 as usize));
            let thread = launch.and_then(|call| self.trace.threads.get(call.thread.0 as usize));
            self.add(replay.end(), replay.device, thread.map(|thread| thread.process));
            self.next_replay += 1;
        }
        let own = self.latest.get(process.0 as usize).copied().flatten();
        own.into_iter().chain(self.of_unknown).max_by_key(|(end, _)| *end)
    }

    fn add(&mut self, end: Ns, device: DeviceId, process: Option<ProcessId>) {
        let of_process = process.and_then(|process| self.latest.get_mut(process.0 as usize));
        let latest = of_process.unwrap_or(&mut self.of_unknown);
        if latest.is_none_or(|(latest, _)| end > latest) {
            *latest = Some((end, device));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::UnrecordedWork;
    use crate::trace::testing::TestTrace;

    fn waits(trace: &Trace) -> Vec<(i64, i64)> {
        let found = UnrecordedWork::of(trace, &|name| match name {
            "cudaLaunchKernel" => CallRole::LaunchesKernel,
            "cudaStreamSynchronize" => CallRole::Synchronizes,
            _ => CallRole::Other,
        });
        found.waits.iter().map(|wait| (wait.last_op_end.0 / 1_000, wait.worked_until().0 / 1_000)).collect()
    }

    /// A kernel until 100 us and a call that waits from 20 us on.
    fn waiting(until: i64) -> TestTrace {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..5).launches("k", 10..100).call("cudaStreamSynchronize", 20..until);
        trace
    }

    #[test]
    fn a_call_that_outlasts_the_ops_proves_work_from_their_end_until_its_usual_return() {
        assert_eq!(waits(&waiting(2_800).finish()), [(100, 2_800)]);
        assert_eq!(waits(&waiting(301).finish()), [(100, 102)], "nothing jumps: the time grows from zero");
        assert_eq!(waits(&waiting(300).finish()), []);
    }

    #[test]
    fn an_op_of_any_device_that_ends_with_the_call_explains_it() {
        let mut trace = waiting(2_800);
        assert_eq!(waits(&trace.device(1).kernel("k", 50..2_790).finish()), []);
    }

    #[test]
    fn an_op_of_another_process_explains_nothing() {
        let mut trace = waiting(2_800);
        trace.process(2).device(1).thread(9).launch(0..5).launches("k", 50..2_790);
        assert_eq!(waits(&trace.finish()), [(100, 2_800)]);
    }

    #[test]
    fn a_call_without_work_before_or_after_a_launch_without_an_op_proves_nothing_about_the_last_op() {
        let mut trace = TestTrace::new();
        assert_eq!(waits(&trace.in_us().call("cudaStreamSynchronize", 0..900).kernel("k", 950..990).finish()), []);
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..5).launches("k", 10..100).launch(150..155);
        assert_eq!(waits(&trace.call("cudaStreamSynchronize", 160..900).finish()), []);
    }

    #[test]
    fn of_several_calls_that_wait_for_the_same_work_the_longest_counts() {
        let mut trace = waiting(2_000);
        assert_eq!(waits(&trace.thread(2).call("cudaStreamSynchronize", 30..3_000).finish()), [(100, 3_000)]);
    }
}
