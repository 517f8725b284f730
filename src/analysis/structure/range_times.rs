//! Wall time of ranges: total time (nested ranges count in full) and self time (the innermost range only).
//! One pass over the ranges.

use super::open_ranges::{OpenRanges, OuterFirst};
use crate::analysis::measure::tally::{Tallies, key};
use crate::trace::{NameId, Ns, Trace};

/// Returns the wall time of all ranges under [`key`] of process and name. Nested ranges count in full.
pub(crate) fn wall_times(trace: &Trace) -> Tallies {
    let mut times = Tallies::with_table(trace.processes.len(), trace.ranges.names.len());
    for range in trace.ranges.iter() {
        let Some(thread) = trace.threads.get(range.thread.0 as usize) else { continue };
        let time = trace.in_window(range).map_or(Ns::ZERO, |part| part.duration);
        times.add(key(thread.process.0, range.name.0), time);
    }
    times
}

/// Returns the self time of each selected range name: at any time only the innermost open selected range of a
/// thread counts.
pub(crate) fn self_times(trace: &Trace, is_selected: &dyn Fn(NameId) -> bool) -> Vec<Ns> {
    let mut open = OpenRanges::new(trace);
    let mut times = vec![Ns::ZERO; trace.ranges.names.len()];
    for (_, range) in OuterFirst::new(&trace.ranges, is_selected) {
        let Some(range) = trace.in_window(range) else { continue };
        open.assign_until(range.thread.0 as usize, range.start, &mut times);
        open.push(range.name.0, range);
    }
    for thread in 0..trace.threads.len() {
        open.assign_until(thread, Ns(i64::MAX), &mut times);
    }
    times
}
