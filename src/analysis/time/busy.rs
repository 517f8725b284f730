//! Time in which any device works: the union of all ops. One sweep over the ops sorted by start, O(n).

use crate::analysis::measure::union::added_to_union;
use crate::trace::{Ns, Trace};

/// Returns the length of the union of all ops of all devices.
pub(crate) fn busy_on_any_device(trace: &Trace) -> Ns {
    let (mut busy, mut busy_until) = (Ns::ZERO, None);
    for (start, duration) in trace.gpu_ops.times() {
        busy += added_to_union(&mut busy_until, start, start.after(duration));
    }
    busy
}
