//! The length of the union of intervals that arrive sorted by start: O(1) per interval.

use crate::trace::Ns;

/// Returns the time that the interval adds to the union of the intervals before it. `busy_until` is the
/// latest end so far.
pub(crate) fn added_to_union(busy_until: &mut Option<Ns>, start: Ns, end: Ns) -> Ns {
    let from = busy_until.map_or(start, |busy_until| busy_until.max(start));
    *busy_until = Some(busy_until.map_or(end, |busy_until| busy_until.max(end)));
    end.since(from).max(Ns::ZERO)
}
