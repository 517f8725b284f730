//! Threads that hand over to each other, such as the thread of the forward pass and that of autograd, or a thread that waits for the GPU
//! and the one that waits for it. O(n log n) for the calls and the changes of the code between them.
//!
//! A thread launches nothing for at least [`MIN_GAP`]. Meanwhile another one launches, whose last call lies in the second half of the
//! gap, and which is then silent for longer than until the next call of the first. Then that call follows the other thread's last call.
//!
//! A thread is known to wait. Another one returned meanwhile from a call that waits for the GPU, worked until the wait ends, and then
//! does something else. If it is the only one, the thread went on because of it.

use super::ids::Call;
use super::recorded::Recorded;
use crate::trace::{CodeTimelines, Ns, ThreadId};
use std::collections::{BTreeMap, HashMap};

const MIN_GAP: Ns = Ns(100_000);
/// The other thread is silent for this much longer.
const SILENCE: Ns = Ns(50_000);
/// More launching threads are a pool, in which each works on its own.
const MAX_THREADS: usize = 64;
const ROUNDING: Ns = Ns(2_000);
/// A thread goes on within this time after another one woke it.
const WAKES: Ns = Ns(50_000);

/// What a call follows on another thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Handoff {
    /// The last call of the other thread.
    pub(super) from: Call,
    /// Until when the other thread works for the call.
    pub(super) until: Ns,
    /// How long the thread itself works between its call before and this one.
    pub(super) own: Ns,
}

/// The calls of each thread.
type Threads = BTreeMap<ThreadId, Vec<Call>>;

fn threads(recorded: &Recorded) -> Threads {
    let mut threads = Threads::new();
    for (id, call) in recorded.calls.iter() {
        threads.entry(call.thread).or_default().push(id);
    }
    threads
}

/// For each call that follows one of another thread, that call.
pub(super) fn handoffs(
    recorded: &Recorded,
    timelines: Option<&CodeTimelines>,
    beginning: Ns,
) -> HashMap<Call, Handoff> {
    let threads = threads(recorded);
    let mut found = HashMap::new();
    if !(2..=MAX_THREADS).contains(&threads.len()) {
        return found;
    }
    for (id, call) in recorded.calls.iter() {
        let from = recorded.previous.at(id).map_or(beginning, |before| recorded.call(before).end);
        let gap = (from, call.start);
        let ended = || timelines.and_then(|timelines| ended_wait(recorded, timelines, &threads, call.thread, gap));
        found.extend(launched_by_other(recorded, &threads, call.thread, gap).or_else(ended).map(|found| (id, found)));
    }
    found
}

/// The thread that launches in a gap of another one and hands over to it.
fn launched_by_other(
    recorded: &Recorded,
    threads: &Threads,
    own: ThreadId,
    (from, until): (Ns, Ns),
) -> Option<Handoff> {
    if until.since(from) < MIN_GAP {
        return None;
    }
    let others = threads.iter().filter(|(thread, _)| **thread != own);
    let last = others.filter_map(|(_, calls)| handing_over(recorded, calls, from, until));
    let latest = last.reduce(|a, b| if recorded.call(b).end > recorded.call(a).end { b } else { a });
    latest.map(|from| Handoff { from, until, own: Ns::ZERO })
}

/// The only thread that can have ended the wait of another one in a gap between two of its calls.
fn ended_wait(
    recorded: &Recorded,
    timelines: &CodeTimelines,
    threads: &Threads,
    thread: ThreadId,
    (from, until): (Ns, Ns),
) -> Option<Handoff> {
    let (mut at, mut wait, mut own) = (from, None, Ns::ZERO);
    timelines.each_part(thread, from, until, &mut |code, time| {
        let start = at;
        at += time;
        if code.is_some_and(|code| code.waits) {
            wait = Some((wait.map_or(start, |(first, _)| first), at));
        } else {
            own += time;
        }
    });
    let wait = wait?;
    let others = threads.iter().filter(|(other, _)| **other != thread);
    let mut ending = others.filter_map(|(_, calls)| last_before_end(recorded, timelines, calls, wait));
    let from = ending.next()?;
    ending.next().is_none().then_some(Handoff { from, until: wait.1, own })
}

/// The call after which a thread works until it ends the wait of another one.
fn last_before_end(
    recorded: &Recorded,
    timelines: &CodeTimelines,
    calls: &[Call],
    (start, end): (Ns, Ns),
) -> Option<Call> {
    let next = calls.partition_point(|call| recorded.call(*call).end <= end + ROUNDING);
    let last = *calls.get(next.checked_sub(1)?)?;
    let call = recorded.call(last);
    if !call.traits.synchronizes || call.end <= start {
        return None;
    }
    let latest = end + WAKES;
    let next_call = calls.get(next).map_or(latest, |next| recorded.call(*next).start);
    let (mut at, mut unknown, mut works_until) = (call.end, Ns::ZERO, None);
    timelines.each_part(call.thread, call.end, latest, &mut |code, time| {
        match code.filter(|code| code.waits || code.function.is_some()) {
            Some(code) if code.waits => works_until = works_until.or(Some(at)),
            Some(_) => {}
            None if works_until.is_none() => unknown += time,
            None => {}
        }
        at += time;
    });
    let works_until = works_until.unwrap_or(latest).min(next_call);
    let works = works_until + WAKES >= end && unknown.0 <= 2 * WAKES.0;
    let goes_on = works_until < latest || end.since(call.end) <= WAKES;
    (works && goes_on).then_some(last)
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
