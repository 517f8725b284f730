//! What the file says about work that was queued before the capture began.
//!
//! An op that starts long after its launch on an idle device may have waited for such work. Two facts exclude it. A stream runs its ops
//! in the order of their launches: once an op that was launched within the capture has run, nothing older is left. And a program
//! that still loads kernels or initialises the device had queued nothing: its first calls take milliseconds. One pass over the ops
//! and one over the calls.

use super::super::{Ns, Trace};
use super::CallRole;
use crate::ordering::VecMap;

/// A launch or allocation that takes longer loads code or initialises the device.
const SLOW_CALL: Ns = Ns(1_000_000);

/// The first signs that no older work is left.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct QueueStart {
    /// By [`GpuOps::stream_index`](crate::trace::GpuOps::stream_index): the start of the first op whose launch is in the file.
    first_launched: Vec<Option<Ns>>,
    /// The start of the first slow call.
    first_slow_call: Option<Ns>,
}

impl QueueStart {
    /// `roles` has the role of each name of calls.
    pub(super) fn of(trace: &Trace, roles: &[CallRole]) -> Self {
        let is_slow = |role: Option<&CallRole>| matches!(role, Some(CallRole::LaunchesKernel | CallRole::Other));
        let mut slow =
            trace.calls.iter().filter(|call| call.duration > SLOW_CALL && is_slow(roles.get(call.name.0 as usize)));
        Self { first_launched: first_launched(trace), first_slow_call: slow.next().map(|call| call.start) }
    }

    /// Whether work of before the capture may have held back an op of this stream that starts at `start`.
    pub(super) fn may_hold_back(&self, stream: Option<usize>, start: Ns) -> bool {
        let first = stream.and_then(|stream| self.first_launched.get(stream).copied().flatten());
        let is_before = |time: Option<Ns>| time.is_some_and(|time| time < start);
        !is_before(first) && !is_before(self.first_slow_call)
    }
}

fn first_launched(trace: &Trace) -> Vec<Option<Ns>> {
    let streams: Vec<_> = trace.gpu_ops.streams().collect();
    let mut first = vec![None; streams.len()];
    for (row, ((start, _), launch)) in trace.gpu_ops.times().zip(trace.gpu_ops.launches()).enumerate() {
        if launch.is_some()
            && let Some(first) = trace.gpu_ops.stream_index(row).and_then(|stream| first.get_mut(stream))
        {
            first.get_or_insert(start);
        }
    }
    // Entries of one device and stream, for different processes or kinds of ops, share the earliest time.
    let mut earliest = VecMap::new();
    for (stream, start) in streams.iter().zip(&first) {
        earliest.update(*stream, *start, |known| *known = [*known, *start].into_iter().flatten().min());
    }
    streams.iter().map(|stream| earliest.get(stream).copied().flatten()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::TestTrace;

    /// Whether work of before may hold back the op in each row.
    fn held_back(trace: &Trace) -> Vec<bool> {
        let roles: Vec<CallRole> = trace.calls.names.iter().map(|_| CallRole::LaunchesKernel).collect();
        let queue = QueueStart::of(trace, &roles);
        let ops = trace.gpu_ops.iter().enumerate();
        ops.map(|(row, op)| queue.may_hold_back(trace.gpu_ops.stream_index(row), op.start)).collect()
    }

    #[test]
    fn after_the_first_op_of_a_stream_with_a_launch_nothing_older_is_left_in_it() {
        let mut trace = TestTrace::new();
        trace.in_us().kernel("old", 0..10).launch(0..1).launches("a", 10..20).launch(2..3).launches("b", 5_000..5_010);
        trace.stream(8).launch(4..5).launches("c", 6_000..6_010);
        assert_eq!(held_back(&trace.finish()), [true, true, false, true]);
    }

    #[test]
    fn a_program_that_still_loads_kernels_had_queued_nothing() {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..1_001).launches("a", 5_000..5_010).stream(8).launch(4..5).launches("c", 6_000..6_010);
        assert_eq!(held_back(&trace.finish()), [false, false]);
    }
}
