//! Waits between streams. Traces rarely say for which op a stream waits (`cudaStreamWaitEvent` records no event), so the waits are
//! found from times.
//!
//! - **Classes.** Candidates for the first op after a `StreamWaitEvent` of its thread, and for every collective, are the last three ops
//!   launched on each other stream of the device; after a wait for an event also on streams of other devices. Ops of equal names and streams are a class. In a class the op waits for the `m`-th last
//!   one, with the smallest `m` that no instance contradicts: the candidate ends before the op starts. The wait is firm if in one instance
//!   the op starts right after the candidate, or for a collective after compute of its thread; else it is possible.
//! - **Times.** An op that starts later than all its dependencies explain follows an op of another stream that ended just before. Else the
//!   GPU was full, and it starts in the tail of a running kernel.
//! - **Consumers.** A collective that nothing firm follows may hold back the first compute op that starts after it on another stream.
//!
//! - **The host.** After a call that waits for an op, the first op that its thread launches on each other device follows that op: it may
//!   need what the call waited for, so without the call it would not start earlier. A wait that only a changed program has.
//!
//! One pass over the calls with the streams in use (at most [`MAX_STREAMS`]), and a binary search per late op.

use super::blocking::Wait;
use super::ids::{Call, Column, Id, Lane, Lists, Op};
use super::recorded::Recorded;
use super::streams::Follows;
use crate::trace::{DeviceId, NameId, Ns, ThreadId};
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

/// Candidates on each stream.
const CANDIDATES: usize = 3;
/// Streams that are looked at: those used last.
const MAX_STREAMS: usize = 64;
/// Ends that are looked at for a late op.
const MAX_ENDS: usize = 300;
/// An op that starts within this time after another may have waited for it.
const BINDS: Ns = Ns(50_000);
/// Starts and ends are compared with this tolerance.
const TOLERANCE: Ns = Ns(1_000);

/// The last ops that were launched on a stream, the latest first.
type LastOps = [Option<Op>; CANDIDATES];
/// Streams with the threads that launch on them, those used last at the end.
type UsedStreams = VecDeque<((ThreadId, Lane), LastOps)>;
/// An op and the one that it waits for.
type Pairs = Vec<(Op, Op)>;

/// Waits of ops for ops of other streams.
#[derive(Debug)]
pub(super) struct CrossStream {
    /// Waits that are proven by times.
    firm: Lists<Op, Op>,
    /// Waits that nothing contradicts.
    possible: Lists<Op, Op>,
    /// The op is the first after a wait for an event, or a collective.
    after_wait: HashSet<Op>,
}

impl CrossStream {
    pub(super) fn of(
        recorded: &Recorded,
        follows: &Column<Op, Follows>,
        waits: &Column<Call, Wait>,
        groups: &[u32],
    ) -> Self {
        let mut classes = Classes::default();
        let after_wait = classes.fill(recorded, groups);
        let (mut firm, mut possible) = classes.decide(recorded, follows);
        add_consumers(recorded, &firm, &mut possible);
        firm.extend(through_host(recorded, waits));
        let ops = recorded.ops.len();
        Self { firm: Lists::group(ops, &firm), possible: Lists::group(ops, &possible), after_wait }
    }

    pub(super) fn firm(&self, op: Op) -> &[Op] {
        self.firm.of(op)
    }

    pub(super) fn possible(&self, op: Op) -> &[Op] {
        self.possible.of(op)
    }

    pub(super) fn is_after_wait(&self, op: Op) -> bool {
        self.after_wait.contains(&op)
    }
}

/// Ops that wait alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct ClassKey {
    /// One thread launched both.
    is_same_thread: bool,
    lane: Lane,
    other: Lane,
    group: u32,
    other_group: u32,
}

/// An op and the ops that it may wait for, the latest first.
#[derive(Debug, Clone, Copy)]
struct Instance {
    op: Op,
    candidates: LastOps,
}

#[derive(Default)]
struct Classes {
    instances: HashMap<ClassKey, Vec<Instance>>,
    /// In the order of their first instances, so that results do not depend on hashing.
    order: Vec<ClassKey>,
}

impl Classes {
    /// Returns the ops that may wait.
    fn fill(&mut self, recorded: &Recorded, groups: &[u32]) -> HashSet<Op> {
        let mut after_wait = HashSet::new();
        let mut waiting: HashSet<ThreadId> = HashSet::new();
        let mut streams: UsedStreams = VecDeque::new();
        for (id, call) in recorded.calls.iter() {
            if call.traits.waits_for_event {
                waiting.insert(call.thread);
            }
            let Some(first) = recorded.launched.of(id).first().copied() else { continue };
            let op = recorded.op(first);
            let waits = waiting.remove(&call.thread);
            if waits || op.communicates() {
                after_wait.insert(first);
                let others = streams.iter().filter(|(_, last)| waits || is_on(recorded, *last, op.device));
                for ((thread, lane), last) in others {
                    self.add(recorded, groups, call.thread == *thread, (first, *lane), *last);
                }
            }
            remember(&mut streams, (call.thread, op.lane), recorded.last_op(id));
        }
        after_wait
    }

    fn add(
        &mut self,
        recorded: &Recorded,
        groups: &[u32],
        is_same_thread: bool,
        (id, other): (Op, Lane),
        candidates: LastOps,
    ) {
        let op = recorded.op(id);
        let Some(last) = candidates[0].map(|last| recorded.op(last)) else { return };
        if other == op.lane {
            return;
        }
        let group = |name: NameId| groups.get(name.0 as usize).copied().unwrap_or(u32::MAX);
        let key =
            ClassKey { is_same_thread, lane: op.lane, other, group: group(op.name), other_group: group(last.name) };
        let order = &mut self.order;
        let instances = self.instances.entry(key).or_insert_with(|| {
            order.push(key);
            Vec::new()
        });
        instances.push(Instance { op: id, candidates });
    }

    /// The firm and the possible waits.
    fn decide(&self, recorded: &Recorded, follows: &Column<Op, Follows>) -> (Pairs, Pairs) {
        let (mut firm, mut possible) = (Vec::new(), Vec::new());
        let instances = self.order.iter().filter_map(|key| Some((key, self.instances.get(key)?)));
        for (key, instances) in instances {
            for place in 0..CANDIDATES {
                let pairs =
                    instances.iter().filter_map(|instance| Some((instance.op, (*instance.candidates.get(place)?)?)));
                let pairs: Vec<(Op, Op)> = pairs.collect();
                let contradicts = |(op, other): &(Op, Op)| recorded.op(*other).end > recorded.op(*op).start + TOLERANCE;
                if pairs.is_empty() || pairs.iter().any(contradicts) {
                    continue;
                }
                let is_of_device = |(op, other): &(Op, Op)| recorded.op(*op).device == recorded.op(*other).device;
                let gathers = place == 0
                    && key.is_same_thread
                    && pairs.first().is_some_and(|(op, other)| {
                        recorded.op(*op).communicates() && !recorded.op(*other).communicates()
                    })
                    && pairs.iter().all(is_of_device);
                if gathers || pairs.iter().any(|(op, other)| binds(recorded, follows, *op, *other)) {
                    firm.extend(pairs);
                    break;
                }
                if place == 0 && pairs.iter().all(is_of_device) {
                    possible.extend(pairs);
                    break;
                }
            }
        }
        (firm, possible)
    }
}

/// Whether the last op of a stream is of this device.
fn is_on(recorded: &Recorded, last: LastOps, device: DeviceId) -> bool {
    let [last, ..] = last;
    last.is_some_and(|last| recorded.op(last).device == device)
}

/// The first op that a thread launches on each other device after a call that waited for an op, and that op.
fn through_host(recorded: &Recorded, waits: &Column<Call, Wait>) -> Pairs {
    // By thread: the op for which it waited last, and the devices on which it launched since then.
    let mut waited: HashMap<ThreadId, (Op, BTreeSet<DeviceId>)> = HashMap::new();
    let mut pairs = Vec::new();
    for (id, call) in recorded.calls.iter() {
        if let (Some(first), Some((other, served))) =
            (recorded.launched.of(id).first().copied(), waited.get_mut(&call.thread))
        {
            let (op, ended) = (recorded.op(first), recorded.op(*other));
            if op.device != ended.device && ended.end <= op.start && served.insert(op.device) {
                pairs.push((first, *other));
            }
        }
        if let Some(op) = waits.at(id).op {
            waited.insert(call.thread, (op, BTreeSet::new()));
        }
    }
    pairs
}

/// Puts an op before the earlier ones of its stream, and the stream behind the others.
fn remember(streams: &mut UsedStreams, stream: (ThreadId, Lane), op: Option<Op>) {
    let known = streams.iter().position(|(other, _)| *other == stream);
    let [last, second, _] = known.and_then(|index| streams.remove(index)).map_or([None; CANDIDATES], |(_, last)| last);
    if streams.len() == MAX_STREAMS {
        streams.pop_front();
    }
    streams.push_back((stream, [op, last, second]));
}

/// Whether an op starts right after the end of another one, which ended after all that the op follows anyway.
fn binds(recorded: &Recorded, follows: &Column<Op, Follows>, op_id: Op, other: Op) -> bool {
    let (op, end) = (recorded.op(op_id), recorded.op(other).end);
    let before = follows.at(op_id).op().map_or(Ns(i64::MIN), |before| recorded.op(before).end);
    let launch = op.call.map_or(Ns(i64::MIN), |call| recorded.call(call).start);
    let distance = op.start.since(end);
    distance >= Ns::ZERO && distance < BINDS && end > before.max(launch)
}

/// Adds collectives to the possible waits of the first compute op after each on another stream of its device.
fn add_consumers(recorded: &Recorded, firm: &[(Op, Op)], possible: &mut Pairs) {
    let known: HashSet<Op> = firm.iter().map(|(_, other)| *other).collect();
    let lanes: Vec<Lane> = (0..recorded.lanes.min(MAX_STREAMS)).map(Lane::of).collect();
    for (id, op) in recorded.ops.iter().filter(|(id, op)| op.communicates() && !known.contains(id)) {
        let next_on = |lane: &Lane| {
            let ops = recorded.on_lane.of(*lane);
            let next = *ops.get(ops.partition_point(|other| recorded.op(*other).start < op.end))?;
            let row = recorded.op(next);
            (row.device == op.device && !row.communicates()).then_some((row.start, next))
        };
        let others = lanes.iter().filter(|lane| **lane != op.lane);
        possible.extend(others.filter_map(next_on).min().map(|(_, next)| (next, id)));
    }
}

/// The op of another stream that a late op waited for, and whether the op starts in the tail of that one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LateWait {
    /// It starts after the end of this op.
    After(Op),
    /// The GPU was full: it starts shortly before the end of this op.
    InTailOf(Op),
}

/// What an op waited for that was due at this time, and starts later. `is_known` says which ops it waits for anyway.
pub(super) fn late_wait(recorded: &Recorded, id: Op, due: Ns, is_known: &dyn Fn(Op) -> bool) -> Option<LateWait> {
    let op = recorded.op(id);
    let late = op.start.since(due).0;
    let reach = Ns((late / 2).min(10_000).max((late / 20).min(100_000)));
    let is_other = |other: Op| {
        let row = recorded.op(other);
        row.lane != op.lane && row.device == op.device && other != id && !is_known(other)
    };
    let mut near = recorded.ended_until(op.start).take_while(|(end, _)| op.start.since(*end) <= reach).take(MAX_ENDS);
    if let Some((_, other)) = near.find(|(_, other)| is_other(*other)) {
        return Some(LateWait::After(other));
    }
    let lanes = (0..recorded.lanes.min(MAX_STREAMS)).map(Lane::of).filter(|lane| *lane != op.lane);
    let running = |lane: Lane| {
        let ops = recorded.on_lane.of(lane);
        let index = ops.partition_point(|other| recorded.op(*other).start < op.start).checked_sub(1)?;
        let other = *ops.get(index)?;
        let row = recorded.op(other);
        let tail = Ns((row.duration().0 / 20).max(50_000));
        let ran = row.start <= due + Ns(3_000) && row.end > op.start && row.end <= op.start + tail;
        let is_kernel = row.is_kernel() || row.communicates();
        (ran && is_kernel && row.device == op.device && !is_known(other)).then_some(other)
    };
    lanes.filter_map(running).next().map(LateWait::InTailOf)
}

/// The group of each kernel name: names that differ only in types and template arguments are alike.
pub(super) fn groups(names: &[String]) -> Vec<u32> {
    let mut ids: HashMap<&str, u32> = HashMap::new();
    names
        .iter()
        .map(|name| {
            let next = u32::try_from(ids.len()).unwrap_or(u32::MAX);
            *ids.entry(name.as_str()).or_insert(next)
        })
        .collect()
}
