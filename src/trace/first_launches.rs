//! Launch calls that loaded code or initialised a device: the first launch of a kernel took milliseconds while the device was idle.
//!
//! Modules are loaded when their first kernel is launched, and the context is created by the first call. This happens once, so it says
//! nothing about the usual work. Found when the file is read, by one pass over the ops; windows of the trace share the result.

use super::{CallRole, Ns, Trace};
use crate::ordering;

/// A launch that takes longer does more than launch a kernel.
pub const SLOW_FIRST_LAUNCH: Ns = Ns(1_000_000);

/// Start and end of each such call, sorted by start.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FirstLaunches(Vec<(Ns, Ns)>);

impl FirstLaunches {
    /// `role` decides by the name of a call.
    pub fn of(trace: &Trace, role: &dyn Fn(&str) -> CallRole) -> Self {
        let roles: Vec<CallRole> = trace.calls.names.iter().map(role).collect();
        let launches_kernel = |name: usize| roles.get(name) == Some(&CallRole::LaunchesKernel);
        let mut is_known = vec![false; trace.names.len()];
        let mut busy_until = vec![Ns(i64::MIN); trace.devices.len()];
        let mut found = Vec::new();
        for (op, launch) in trace.gpu_ops.iter().zip(trace.gpu_ops.launches()) {
            let Some(is_known) = is_known.get_mut(op.name.0 as usize) else { continue };
            let Some(busy_until) = busy_until.get_mut(op.device.0 as usize) else { continue };
            let is_first = !std::mem::replace(is_known, true);
            let call = launch.filter(|_| is_first).and_then(|call| trace.calls.get(call.0 as usize));
            // A launch that waits for space in a full queue returns while the device works.
            if let Some(call) = call
                && call.duration > SLOW_FIRST_LAUNCH
                && *busy_until <= call.end()
                && launches_kernel(call.name.0 as usize)
            {
                found.push((call.start, call.end()));
            }
            *busy_until = op.end().max(*busy_until);
        }
        ordering::sort_by_key(&mut found, |launch| *launch);
        Self(found)
    }

    /// Those that overlap a time.
    pub fn within(&self, start: Ns, end: Ns) -> impl Iterator<Item = (Ns, Ns)> {
        self.0.iter().copied().filter(move |(from, to)| *from < end && *to > start)
    }

    /// The length of their parts within disjoint intervals that are sorted by start.
    pub fn time_in(&self, intervals: &[(Ns, Ns)]) -> Ns {
        let mut covered_until = Ns(i64::MIN);
        let mut sum = Ns::ZERO;
        for (start, end) in &self.0 {
            let (start, end) = ((*start).max(covered_until), *end);
            covered_until = end.max(covered_until);
            let first = intervals.partition_point(|(_, to)| *to <= start);
            let overlapping = intervals.iter().skip(first).take_while(|(from, _)| *from < end);
            sum = overlapping.fold(sum, |sum, (from, to)| sum + (*to).min(end).since((*from).max(start)));
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::TestTrace;

    fn found(trace: &mut TestTrace) -> Vec<(i64, i64)> {
        let launches = FirstLaunches::of(&trace.finish(), &|_| CallRole::LaunchesKernel);
        launches.within(Ns(i64::MIN), Ns(i64::MAX)).map(|(start, end)| (start.0 / 1_000, end.0 / 1_000)).collect()
    }

    #[test]
    fn the_slow_first_launch_of_each_kernel_is_found_and_no_later_one() {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..2_000).launches("a", 2_000..2_010).launch(3_000..5_000).launches("a", 5_000..5_010);
        trace.launch(6_000..6_900).launches("b", 7_000..7_010).launch(8_000..9_500).launches("c", 9_501..9_600);
        assert_eq!(found(&mut trace), [(0, 2_000), (8_000, 9_500)]);
    }

    #[test]
    fn a_launch_that_waited_for_space_in_the_queue_loads_nothing() {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..5).launches("a", 10..9_000).launch(100..5_000).launches("b", 9_000..9_010);
        assert_eq!(found(&mut trace), []);
    }

    #[test]
    fn the_time_in_intervals_counts_overlapping_calls_once() {
        let launches = FirstLaunches(vec![(Ns(0), Ns(10)), (Ns(5), Ns(30)), (Ns(40), Ns(50))]);
        assert_eq!(launches.time_in(&[(Ns(8), Ns(20)), (Ns(25), Ns(45))]), Ns(12 + 5 + 5));
    }
}
