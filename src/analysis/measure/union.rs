//! The length of the union of intervals that arrive sorted by start: O(1) an interval.

use crate::trace::Ns;

/// Returns the time that the interval adds to the union of the intervals before it. `reach` is the latest end so far.
pub(crate) fn added_to_union(reach: &mut Option<Ns>, start: Ns, end: Ns) -> Ns {
    let from = reach.map_or(start, |reach| reach.max(start));
    *reach = Some(reach.map_or(end, |reach| reach.max(end)));
    end.since(from).max(Ns::ZERO)
}
