//! What blocking calls wait for. One pass over the calls, with at most [`MAX_ENDS`] ends looked at for each.
//!
//! - A synchronisation waits for the last op that its thread launched, if that ends inside the call; else for the last op that ended
//!   before it returned and was launched before it began. Many polls of an event in a row are such a call.
//! - A copy waits for its own op if that ends before the call returns; a large copy from pageable memory to the device always does.
//! - A call that frees memory waits for the device, unless an op goes on after it returns. One that allocates waits only if an op ends
//!   in its second half.
//!
//! A synchronisation that waits for nothing in the file, although work was launched before it whose ops are lost, or nothing was launched
//! in the file yet, waits for that work for an unknown part of its time. It says nothing of the own time of such calls.
//!
//! A synchronisation that found its op done keeps it: it would wait if the host were faster. Which event a call waits for is not
//! recorded: it may be that of an earlier step. Calls that blocked show it; without one, the last op that the thread launched is a guess.

use super::ids::{Call, Column, Op};
use super::recorded::{CallRow, Recorded};
use super::usual::{Usual, median};
use crate::trace::{NameId, Ns, ThreadId};
use std::collections::HashMap;

const MAX_ENDS: usize = 300;
/// The clocks of host and GPU differ by up to this.
const SKEW: Ns = Ns(5_000);
/// An own op may end this long after the call.
const OWN_SKEW: Ns = Ns(20_000);
/// A synchronisation returns within this time after its op.
const LONGEST_RETURN: Ns = Ns(100_000);
/// The number of polls, and their time, that are a blocking call.
const MIN_POLLS: u32 = 3;
const MIN_POLL_TIME: Ns = Ns(30_000);
/// A pageable copy to the device up to this size is staged, so its call returns at once.
const STAGED_BYTES: u64 = 65_536;
/// The own time of a synchronisation of which no call found its op done.
const USUAL_OWN: Ns = Ns(3_000);
/// Fewer calls are no median.
const MIN_CALLS: usize = 3;

/// What a call waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Wait {
    /// The op; `None` for a call that does not wait.
    pub(super) op: Option<Op>,
    /// It did wait, and did not find its op done.
    pub(super) blocks: bool,
    /// The op is the last one that the thread launched.
    pub(super) of_last: bool,
    /// It may wait for work whose ops are not in the file.
    pub(super) is_open: bool,
    /// The time of the call without waiting.
    pub(super) own: Ns,
}

/// For each call, what it waits for.
pub(super) fn waits(recorded: &Recorded, usual: &Usual) -> Column<Call, Wait> {
    let mut waits = Column::filled(recorded.calls.len(), Wait::default());
    let mut last_ops: HashMap<ThreadId, Op> = HashMap::new();
    let mut last_end = Ns(i64::MIN);
    let mut unblocked: HashMap<NameId, Vec<Ns>> = HashMap::new();
    // Whether the last launch has no op, or none was made yet.
    let mut is_work_lost = true;
    for (id, call) in recorded.calls.iter() {
        let search = Search { recorded, id, call, last_ops: &last_ops, last_end };
        let mut wait = Wait { op: search.awaited(), own: call.duration(), ..Wait::default() };
        wait.blocks = wait.op.is_some();
        wait.is_open = !wait.blocks && call.traits.synchronizes && is_work_lost;
        if !wait.blocks && !wait.is_open {
            unblocked.entry(call.name).or_default().push(call.duration());
            if call.traits.synchronizes || call.traits.frees {
                wait.op = last_ops.get(&call.thread).copied().filter(|op| recorded.op(*op).end <= call.start);
            }
        }
        wait.of_last = wait.op.is_some() && wait.op == last_ops.get(&call.thread).copied();
        waits.set(id, wait);
        let launched = recorded.last_op(id);
        if call.traits.launches || launched.is_some() {
            is_work_lost = launched.is_none();
        }
        if let Some(op) = launched {
            last_ops.insert(call.thread, op);
            last_end = last_end.max(recorded.op(op).end);
        }
    }
    let own: HashMap<NameId, Ns> = unblocked
        .into_iter()
        .filter(|(_, times)| times.len() >= MIN_CALLS)
        .map(|(name, times)| (name, median(times)))
        .collect();
    for (id, call) in recorded.calls.iter() {
        let wait = waits.at(id);
        if let Some(op) = wait.op.filter(|_| wait.blocks) {
            waits.set(id, Wait { own: own_time(recorded, usual, &own, (id, call), op), ..wait });
        }
        if wait.is_open {
            let usual = own.get(&call.name).copied().unwrap_or(USUAL_OWN);
            waits.set(id, Wait { own: usual.min(call.duration()), ..wait });
        }
    }
    waits
}

fn own_time(recorded: &Recorded, usual: &Usual, own: &HashMap<NameId, Ns>, call: (Call, &CallRow), op: Op) -> Ns {
    let (id, call) = call;
    let default = if call.traits.copies { usual.launch } else { USUAL_OWN };
    let own = own.get(&call.name).copied().unwrap_or(default);
    let op = recorded.op(op);
    let until_op = if op.call == Some(id) { op.start.since(call.start).max(Ns::ZERO) } else { call.duration() };
    own.min(until_op).min(call.duration()).max(Ns::ZERO)
}

struct Search<'a> {
    recorded: &'a Recorded,
    id: Call,
    call: &'a CallRow,
    /// The last op that each thread launched before the call.
    last_ops: &'a HashMap<ThreadId, Op>,
    /// The last end of the ops launched before the call.
    last_end: Ns,
}

impl Search<'_> {
    /// The op for which the call waited.
    fn awaited(&self) -> Option<Op> {
        let (call, traits) = (self.call, self.call.traits);
        let polls = call.polls >= MIN_POLLS && call.duration() > MIN_POLL_TIME;
        if traits.synchronizes || polls {
            return self.own_last_op().or_else(|| {
                let per_poll = 2 * call.duration().0 / i64::from(call.polls.max(1));
                self.last_end(if traits.synchronizes { Ns(i64::MAX) } else { Ns(per_poll.max(50_000)) })
            });
        }
        if traits.copies && self.recorded.last_op(self.id).is_some() {
            return self.copied();
        }
        if traits.frees {
            return self.last_end(Ns(i64::MAX)).filter(|_| self.last_end <= call.end + SKEW);
        }
        if traits.allocates && !traits.is_async && call.duration().0 > 20_000 {
            let op = self.last_end(Ns(call.duration().0 / 2))?;
            return (self.recorded.op(op).end > call.start + SKEW).then_some(op);
        }
        None
    }

    /// The last op that the thread launched, if it ends inside the call.
    fn own_last_op(&self) -> Option<Op> {
        let of_device = self.call.traits.of_device;
        let op = self.last_ops.get(&self.call.thread).copied().filter(|_| !of_device)?;
        let end = self.recorded.op(op).end;
        let is_inside = end > self.call.start && end <= self.call.end + OWN_SKEW;
        (is_inside && self.call.end.since(end) < LONGEST_RETURN).then_some(op)
    }

    /// The op that ended last before the call returned, at most `limit` before, of those launched before the call.
    fn last_end(&self, limit: Ns) -> Option<Op> {
        let ended = self.recorded.ended_until(self.call.end + SKEW);
        let first = self.recorded.ops.values().first().map(|op| op.start)?;
        let launched = |op: Op| self.recorded.op(op).call.map_or(first, |call| self.recorded.call(call).start);
        let inside = ended.take_while(|(end, _)| *end > self.call.start).take(MAX_ENDS);
        let mut before = inside.filter(|(_, op)| launched(*op) < self.call.start);
        before.next().filter(|(end, _)| self.call.end.since(*end) <= limit).map(|(_, op)| op)
    }

    /// The own op of a copy, if the call waits for it.
    fn copied(&self) -> Option<Op> {
        let (call, id) = (self.call, self.recorded.last_op(self.id)?);
        let op = self.recorded.op(id);
        let after = call.end.since(op.end);
        let returns_after = op.end.0 <= call.end.0 + 2_000 && call.duration().0 > 10_000;
        let is_near = after.0 < 200_000 || !call.traits.is_async;
        let is_staged = op.copy.pageable && op.start < call.end && op.bytes > STAGED_BYTES;
        (returns_after && is_near || is_staged).then_some(id)
    }
}
