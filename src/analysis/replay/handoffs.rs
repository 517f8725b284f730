//! Launching threads that hand over to each other, such as the thread of the forward pass and that of autograd. One pass over the calls.
//!
//! A thread launches nothing for at least [`MIN_GAP`]. Meanwhile another one launches, whose last call lies in the second half of the
//! gap, and which is then silent for longer than until the next call of the first. Then that call follows the other thread's last call.

use super::ids::Call;
use super::recorded::Recorded;
use crate::trace::{Ns, ThreadId};
use std::collections::{BTreeMap, HashMap};

const MIN_GAP: Ns = Ns(100_000);
/// The other thread is silent for this much longer.
const SILENCE: Ns = Ns(50_000);
/// More launching threads are a pool, in which each works on its own.
const MAX_THREADS: usize = 64;
const ROUNDING: Ns = Ns(2_000);

/// For each call that follows one of another thread, that call.
pub(super) fn handoffs(recorded: &Recorded, beginning: Ns) -> HashMap<Call, Call> {
    let mut threads: BTreeMap<ThreadId, Vec<Call>> = BTreeMap::new();
    for (id, call) in recorded.calls.iter() {
        threads.entry(call.thread).or_default().push(id);
    }
    let mut found = HashMap::new();
    if !(2..=MAX_THREADS).contains(&threads.len()) {
        return found;
    }
    for (id, call) in recorded.calls.iter() {
        let from = recorded.previous.at(id).map_or(beginning, |before| recorded.call(before).end);
        if call.start.since(from) < MIN_GAP {
            continue;
        }
        let others = threads.iter().filter(|(thread, _)| **thread != call.thread);
        let last = others.filter_map(|(_, calls)| handing_over(recorded, calls, from, call.start));
        let latest = last.reduce(|a, b| if recorded.call(b).end > recorded.call(a).end { b } else { a });
        found.extend(latest.map(|other| (id, other)));
    }
    found
}

/// The last call of a thread in a gap, if the thread hands over then.
fn handing_over(recorded: &Recorded, calls: &[Call], from: Ns, until: Ns) -> Option<Call> {
    let next = calls.partition_point(|call| recorded.call(*call).start < until);
    let last = *calls.get(next.checked_sub(1)?)?;
    let end = recorded.call(last).end;
    if end > until + ROUNDING || end <= from {
        return None;
    }
    let first = calls.partition_point(|call| recorded.call(*call).start < from);
    let mut in_gap = calls.get(first..next).unwrap_or_default().iter().rev();
    if !in_gap.any(|call| !recorded.launched.of(*call).is_empty()) {
        return None;
    }
    let silence = calls.get(next).map_or(Ns(i64::MAX), |next| recorded.call(*next).start.since(end));
    let distance = until.since(end);
    let is_late = distance.0 <= (until.since(from).0 / 2).max(0);
    (silence >= distance + SILENCE && is_late).then_some(last)
}
