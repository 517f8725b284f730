//! Host time in which a thread either works or waits for the GPU, and no recorded call or code says which: it polls memory, or another
//! thread tells it. Such time is before a call, without known code, and the GPU works meanwhile. A range says nothing about what its
//! thread does. The same is found for code that is known to wait, while the GPU works, for what is not recorded. One pass over the calls,
//! with binary searches.
//!
//! The replay computes both: the thread works (its time stays when the GPU is faster), and the thread waits (it goes on some time after the
//! op that ended last before the call).

use super::gap_code::GapCode;
use super::ids::{Call, Op};
use crate::analysis::time::work::{Intervals, PrefixSums, add_interval};
use crate::trace::{NameId, Ns, ThreadId};
use std::collections::{HashMap, HashSet};

/// Time without code up to this length between two calls is work.
const SHORT_GAP: Ns = Ns(50_000);
/// From this length on it may be a wait in full.
const LONG_GAP: Ns = Ns(250_000);

/// A wait that is not recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct MaybeWait {
    /// How long the GPU works in the time without code.
    pub(super) time: Ns,
    /// The part of it that is probably a wait: all of it in a long time without code that ends with the op.
    pub(super) likely: Ns,
    /// What it would wait for.
    pub(super) op: Op,
    /// The code waits; only for what is open.
    pub(super) is_known: bool,
}

/// The possible waits before calls.
#[derive(Debug, Default)]
pub(super) struct Unrecorded {
    waits: HashMap<Call, MaybeWait>,
    /// By name of host code, whether it is the name of a range.
    is_range: Vec<bool>,
}

impl Unrecorded {
    pub(super) fn of(code: &GapCode, is_range: Vec<bool>) -> Self {
        let mut found = Self { waits: HashMap::new(), is_range };
        let busy = busy(code);
        // A time without code can be as long as the trace, on each of many threads.
        let busy = PrefixSums::of(&busy);
        let returns = returns_of_waiters(code);
        let has_waiter = |from: Ns, until: Ns| {
            let next = returns.partition_point(|time| *time <= from);
            returns.get(next).is_some_and(|time| *time <= until)
        };
        for (id, call) in code.recorded.calls.iter() {
            if let Some(wait) = known_wait(code, id) {
                found.waits.insert(id, wait);
                continue;
            }
            // An op whose launch is later than its end has a skewed clock.
            let was_launched = |op: Op| code.recorded.op(op).call.is_some_and(|launch| launch < id);
            let ended = code.recorded.ended_until(call.start).next();
            let Some((_, op)) = ended.filter(|(_, op)| was_launched(*op)) else { continue };
            let mut all = Ns::ZERO;
            code.each_part(id, &mut |_, time| all += time);
            let (mut until, mut wait) =
                (call.start - all, MaybeWait { time: Ns::ZERO, likely: Ns::ZERO, op, is_known: false });
            if all <= SHORT_GAP || code.recorded.op(op).end <= until {
                continue;
            }
            // A host that works would rarely go on just after the end of an op.
            let after = call.start.since(code.recorded.op(op).end);
            let nearness = if has_waiter(until, call.start) { 1.0 } else { 1.0 - after.0 as f64 / all.0 as f64 };
            code.each_part(id, &mut |running, part| {
                let from = until;
                until += part;
                if found.says_nothing(running.and_then(|code| code.function)) {
                    let share = part.since(SHORT_GAP).0 as f64 / LONG_GAP.since(SHORT_GAP).0 as f64;
                    let time = busy.between(from, until);
                    wait.time += time;
                    wait.likely += Ns((share.clamp(0.0, 1.0) * nearness * time.0 as f64) as i64);
                }
            });
            if wait.likely > Ns::ZERO {
                found.waits.insert(id, wait);
            }
        }
        found
    }

    /// The possible wait before a call.
    pub(super) fn before(&self, call: Call) -> Option<MaybeWait> {
        self.waits.get(&call).copied()
    }

    /// Whether no code is known, or only a range.
    pub(super) fn says_nothing(&self, function: Option<NameId>) -> bool {
        function.is_none_or(|name| self.is_range(name))
    }

    /// Whether host code is a range.
    pub(super) fn is_range(&self, name: NameId) -> bool {
        self.is_range.get(name.0 as usize) == Some(&true)
    }
}

/// The wait of code that is known to wait before a call: for the op that ended last in it, or for another thread or process.
fn known_wait(code: &GapCode, id: Call) -> Option<MaybeWait> {
    let (mut all, mut waits) = (Ns::ZERO, Ns::ZERO);
    code.each_part(id, &mut |running, time| {
        all += time;
        waits += if running.is_some_and(|code| code.waits) { time } else { Ns::ZERO };
    });
    if waits == Ns::ZERO {
        return None;
    }
    let mut parts = Vec::new();
    let mut at = code.recorded.call(id).start - all;
    code.each_part(id, &mut |running, time| {
        let from = at;
        at += time;
        if running.is_some_and(|code| code.waits) {
            parts.push((from, at));
        }
    });
    let ((first, _), (_, last)) = (*parts.first()?, *parts.last()?);
    let was_launched = |op: Op| code.recorded.op(op).call.is_some_and(|launch| launch < id);
    let (end, op) = code.recorded.ended_until(last).next().filter(|(end, op)| *end > first && was_launched(*op))?;
    let until_end = parts.iter().map(|(from, until)| end.min(*until).since(*from).max(Ns::ZERO));
    let time = until_end.fold(Ns::ZERO, |sum, time| sum + time);
    (time > Ns::ZERO).then_some(MaybeWait { time, likely: time, op, is_known: true })
}

/// When calls of threads that launch nothing return that waited for the GPU, sorted: another thread may have waited for such a thread.
fn returns_of_waiters(code: &GapCode) -> Vec<Ns> {
    let recorded = code.recorded;
    let launching: HashSet<ThreadId> =
        recorded.ops.values().iter().filter_map(|op| Some(recorded.call(op.call?).thread)).collect();
    let waiters = recorded.calls.values().iter().filter(|call| !launching.contains(&call.thread));
    let mut returns: Vec<Ns> = waiters.map(|call| call.end).collect();
    returns.sort_unstable();
    returns
}

/// When the GPU works.
fn busy(code: &GapCode) -> Intervals {
    let mut busy = Intervals::new();
    code.recorded.ops.values().iter().for_each(|op| add_interval(&mut busy, (op.start, op.end)));
    busy
}
