//! The GPU work that ranges of the host launched, as times on the GPU.

use crate::trace::{Ns, Span, Trace, Window};

/// Of each of these ranges, which stand by start, the time from the first start to the last end of the GPU ops that its
/// thread launched in it; `None` where it launched none.
///
/// One sweep over the calls; the ranges that are open at a call are looked through, so they should be few.
pub fn launched_in(trace: &Trace, ranges: &[Span]) -> Vec<Option<Window>> {
    let mut found = vec![None; ranges.len()];
    let work = work_of_calls(trace);
    let (mut open, mut next) = (Vec::new(), 0);
    for (call, work) in trace.calls.iter().zip(work) {
        while ranges.get(next).is_some_and(|range| range.start <= call.start) {
            open.push(next);
            next += 1;
        }
        let Some(work) = work else { continue };
        open.retain(|at| ranges.get(*at).is_some_and(|range| range.end() >= call.start));
        for &at in &open {
            if let (Some(range), Some(found)) = (ranges.get(at), found.get_mut(at))
                && (range.thread, true) == (call.thread, range.end() >= call.end())
            {
                *found = Some(around(*found, work));
            }
        }
    }
    found
}

/// What each call launched.
fn work_of_calls(trace: &Trace) -> Vec<Option<Window>> {
    let mut work = vec![None; trace.calls.len()];
    for (op, launch) in trace.gpu_ops.iter().zip(trace.gpu_ops.launches()) {
        if let Some(work) = launch.and_then(|call| work.get_mut(call.0 as usize)) {
            *work = Some(around(*work, Window { start: op.start, end: op.end() }));
        }
    }
    work
}

fn around(one: Option<Window>, other: Window) -> Window {
    let (start, end): (Ns, Ns) = one.map_or((other.start, other.end), |one| (one.start, one.end));
    Window { start: start.min(other.start), end: end.max(other.end) }
}
