//! Launch calls that wait because the launch queue of their stream is full. One pass over the launches and a binary search for each.
//!
//! A queue has room for some hundred to 1,024 launches, depending on the driver. A call is blocked if at least [`MIN_AHEAD`] launches
//! of its stream are not finished when it returns, and it is very long; or if the number ahead is at its maximum in many calls, and
//! the call is longer than usual. Other launches depend on the launch that is as far ahead as the queue is deep, because a faster host
//! would have to wait for it.

use super::ids::{Call, Column, Id, Lane, Lists, Op};
use super::recorded::Recorded;
use super::usual::{Usual, median};
use crate::ordering;
use crate::trace::Ns;
use std::collections::HashSet;

/// A queue with fewer launches is not full.
const MIN_AHEAD: usize = 400;
/// The depth of a queue that never was full.
const USUAL_DEPTH: usize = 1_024;
/// A queue is at its maximum within this number of launches.
const NEAR_FULL: usize = 3;
/// With fewer calls at the maximum, it is no limit.
const MIN_FULL_CALLS: usize = 20;
const US: i64 = 1_000;

/// What a launch call waits for, or would wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QueueEdge {
    /// The queue was full; the op whose end made room.
    Full(Op),
    /// The op whose end made room long before.
    HasRoom(Op),
}

/// The state of the queue at each launch call.
#[derive(Debug)]
pub(super) struct Queues {
    launches: Column<Call, Option<Launch>>,
    full: HashSet<Call>,
    /// By lane: the number of launches at which the queue is full.
    depth: Column<Lane, usize>,
    /// By lane: the last op of each launch, in the order of the launches.
    last_ops: Lists<Lane, Op>,
    /// The usual time of a launch call that is not blocked.
    pub(super) free_launch: Ns,
}

/// A launch on a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Launch {
    lane: Lane,
    /// Its place among the launches of its lane.
    position: usize,
    /// The launches before it that are not finished when it returns.
    ahead: usize,
}

impl Queues {
    pub(super) fn of(recorded: &Recorded, usual: &Usual) -> Self {
        let last_ops = last_ops(recorded);
        let launches = launches(recorded, &last_ops);
        let mut maximum: Column<Lane, usize> = Column::filled(recorded.lanes, 0);
        for launch in launches.values().iter().flatten() {
            maximum.set(launch.lane, maximum.at(launch.lane).max(launch.ahead));
        }
        let (full, free_launch) = full_calls(recorded, usual, &launches, &maximum);
        let mut depth = Column::filled(recorded.lanes, USUAL_DEPTH);
        for launch in full.iter().filter_map(|call| launches.at(*call)) {
            depth.set(launch.lane, MIN_AHEAD);
        }
        for launch in launches.values().iter().flatten() {
            depth.set(launch.lane, depth.at(launch.lane).max(launch.ahead + 1));
        }
        Self { launches, full, depth, last_ops, free_launch }
    }

    pub(super) fn is_full(&self, call: Call) -> bool {
        self.full.contains(&call)
    }

    /// The op that a launch call waits for, or would wait for.
    pub(super) fn edge(&self, recorded: &Recorded, call: Call) -> Option<QueueEdge> {
        let launch = self.launches.at(call)?;
        let row = recorded.call(call);
        if self.is_full(call) {
            let mut ended = recorded.ended_until(row.end + Ns(2 * US)).take_while(|(end, _)| *end > row.start);
            let freed = ended.find(|(_, op)| recorded.op(*op).lane == launch.lane);
            return freed.map(|(_, op)| QueueEdge::Full(op));
        }
        let before = launch.position.checked_sub(self.depth.at(launch.lane))?;
        let op = self.last_ops.of(launch.lane).get(before).copied()?;
        (recorded.op(op).end <= row.end).then_some(QueueEdge::HasRoom(op))
    }
}

/// What nine of ten times exceed; zero if there are none.
fn first_decile(mut times: Vec<Ns>) -> Ns {
    let rank = times.len() / 10;
    if times.is_empty() { Ns::ZERO } else { *times.select_nth_unstable(rank).1 }
}

/// The last op of each launch on each lane, in the order of the launch calls. Launches of copies are among them.
fn last_ops(recorded: &Recorded) -> Lists<Lane, Op> {
    let mut pairs = Vec::new();
    for call in recorded.calls.ids() {
        let mut of_call: ordering::VecMap<Lane, Op> = ordering::VecMap::new();
        for op in recorded.launched.of(call) {
            of_call.update(recorded.op(*op).lane, *op, |last| {
                if recorded.op(*op).end >= recorded.op(*last).end {
                    *last = *op;
                }
            });
        }
        pairs.extend(of_call.into_vec());
    }
    Lists::group(recorded.lanes, &pairs)
}

/// For each launch call that is no copy, its place in the queue of the lane of its first op.
fn launches(recorded: &Recorded, last_ops: &Lists<Lane, Op>) -> Column<Call, Option<Launch>> {
    let mut ends: Vec<Vec<Ns>> = (0..recorded.lanes)
        .map(|lane| {
            let lane = Lane::of(lane);
            let unlaunched = recorded.on_lane.of(lane).iter().filter(|op| recorded.op(**op).call.is_none());
            last_ops.of(lane).iter().chain(unlaunched).map(|op| recorded.op(*op).end).collect()
        })
        .collect();
    let without_call = |lane| recorded.on_lane.of(lane).iter().filter(|op| recorded.op(**op).call.is_none()).count();
    let before: Column<Lane, usize> = Column::of((0..recorded.lanes).map(Lane::of).map(without_call).collect());
    let mut counts: Column<Lane, usize> = Column::filled(recorded.lanes, 0);
    ends.iter_mut().for_each(|ends| ends.sort_unstable());
    let launch = |(id, call): (Call, &super::recorded::CallRow)| {
        let first = recorded.launched.of(id).first().filter(|_| !call.traits.copies)?;
        let lane = recorded.op(*first).lane;
        let finished = ends.get(lane.index()).map_or(0, |ends| ends.partition_point(|end| *end <= call.end));
        let position = counts.at(lane);
        counts.set(lane, position + 1);
        Some(Launch { lane, position, ahead: (before.at(lane) + position).saturating_sub(finished) })
    };
    Column::of(recorded.calls.iter().map(launch).collect())
}

/// The calls that found the queue full, and the usual time of the others.
fn full_calls(
    recorded: &Recorded,
    usual: &Usual,
    launches: &Column<Call, Option<Launch>>,
    maximum: &Column<Lane, usize>,
) -> (HashSet<Call>, Ns) {
    let of_calls = || launches.iter().filter_map(|(id, launch)| Some((id, (*launch)?, recorded.call(id).duration())));
    let is_free = |launch: Launch| launch.ahead < MIN_AHEAD.max(maximum.at(launch.lane) * 9 / 10);
    let free: Vec<Ns> = of_calls().filter(|(_, launch, _)| is_free(*launch)).map(|(_, _, time)| time).collect();
    let free = match free.len() < MIN_FULL_CALLS {
        // Nearly all are blocked, so that the median is not that of a free call.
        true => usual.launch.min(first_decile(of_calls().map(|(_, _, time)| time).collect())),
        false => usual.launch.min(median(free)),
    };
    let is_near = |launch: Launch| launch.ahead >= MIN_AHEAD && launch.ahead + NEAR_FULL >= maximum.at(launch.lane);
    let mut near: Column<Lane, usize> = Column::filled(maximum.len(), 0);
    for (_, launch, _) in of_calls().filter(|(_, launch, _)| is_near(*launch)) {
        near.set(launch.lane, near.at(launch.lane) + 1);
    }
    let is_full = |(id, launch, time): &(Call, Launch, Ns)| {
        let ops = i64::try_from(recorded.launched.of(*id).len()).unwrap_or(i64::MAX);
        let very_long = (8 * usual.launch.0).max(50 * US).saturating_add(ops.saturating_mul(2 * US));
        let is_very_long = launch.ahead >= MIN_AHEAD && time.0 > very_long;
        let is_longer = is_near(*launch) && near.at(launch.lane) >= MIN_FULL_CALLS && 2 * time.0 > 3 * free.0;
        is_very_long || is_longer
    };
    (of_calls().filter(is_full).map(|(id, _, _)| id).collect(), free)
}
