//! What a process does only once, within the part that is replayed: calls that load code or initialise, first launches, first allocations, the late
//! start of a new kernel, and the upload of a model. One pass over calls and ops.

use super::graph::{EdgeKind, Graph, Parts};
use super::ids::{Call, Column, Id, Op};
use super::part::Part;
use super::queue::Queues;
use super::recorded::Recorded;
use super::streams::Follows;
use super::usual::Usual;
use crate::analysis::host::load_words::LoadWords;
use crate::analysis::time::work::{Class, Intervals, add_interval};
use crate::ordering;
use crate::trace::{NameId, Ns, Trace};
use std::collections::HashSet;

const US: i64 = 1_000;
/// A copy to the device counts as the upload of a model among this many.
const MIN_UPLOADS: usize = 20;

/// Work that is done once.
#[derive(Debug)]
pub(super) struct FirstUses {
    /// For each call, whether it does such work.
    pub(super) calls: Vec<bool>,
    /// For each op, whether it starts late because its kernel is new.
    pub(super) new_ops: Vec<bool>,
    /// When, as disjoint intervals sorted by start.
    times: Intervals,
    /// Parallel to `times`: the sum of the intervals before.
    before: Vec<Ns>,
}

impl FirstUses {
    pub(super) fn of(trace: &Trace, part: &Part, parts: &Parts, graph: &Graph) -> Self {
        let recorded = parts.recorded;
        let calls = first_calls(recorded, parts.usual, parts.queues);
        let new_ops = new_ops(recorded, graph, parts.follows);
        let mut times: Vec<(Ns, Ns)> = recorded
            .calls
            .iter()
            .zip(&calls)
            .filter(|(_, is_first)| **is_first)
            .map(|((_, call), _)| (call.start, call.end))
            .collect();
        for (op, _) in recorded.ops.ids().zip(&new_ops).filter(|(_, is_new)| **is_new) {
            let start = recorded.op(op).start;
            times.push((start - graph.unexplained.at(graph.start_of_op(op)), start));
        }
        times.extend(upload(parts.recorded, parts.beginning));
        let words = LoadWords::embedded();
        let are_starts: Vec<bool> = trace.ranges.names.iter().map(|name| words.is_start_range(name)).collect();
        let is_start = |name: NameId| are_starts.get(name.0 as usize) == Some(&true);
        let ranges = trace.ranges.iter().filter(|range| is_start(range.name) && part.launches(range.thread));
        times.extend(ranges.map(|range| (range.start, range.end())));
        ordering::sort_by_key(&mut times, |time| *time);
        let mut union = Intervals::new();
        times.into_iter().for_each(|time| add_interval(&mut union, time));
        let mut sum = Ns::ZERO;
        let mut before = Vec::with_capacity(union.len());
        for (start, end) in &union {
            before.push(sum);
            sum += end.since(*start);
        }
        Self { calls, new_ops, times: union, before }
    }

    /// Whether a call does such work.
    pub(super) fn is_first(&self, call: Call) -> bool {
        self.calls.get(call.index()) == Some(&true)
    }

    /// Whether an op starts late because its kernel is new.
    pub(super) fn is_new(&self, op: Op) -> bool {
        self.new_ops.get(op.index()) == Some(&true)
    }

    /// The ends of all such times.
    pub(super) fn ends(&self) -> impl Iterator<Item = Ns> {
        self.times.iter().map(|(_, end)| *end)
    }

    /// How much of an interval it takes, overlaps once. O(log n).
    pub(super) fn time_in(&self, start: Ns, end: Ns) -> Ns {
        self.time_until(end).since(self.time_until(start)).max(Ns::ZERO)
    }

    fn time_until(&self, time: Ns) -> Ns {
        let after = self.times.partition_point(|(start, _)| *start < time);
        let Some(last) = after.checked_sub(1) else { return Ns::ZERO };
        let before = self.before.get(last).copied().unwrap_or_default();
        self.times.get(last).map_or(before, |(start, end)| before + (*end).min(time).since(*start))
    }
}

fn first_calls(recorded: &Recorded, usual: &Usual, queues: &Queues) -> Vec<bool> {
    let ops = recorded.ops.values();
    let (first, last) = (ops.first().map_or(Ns::ZERO, |op| op.start), ops.last().map_or(Ns::ZERO, |op| op.end));
    let last_third = Ns(first.0 + last.since(first).0 / 3 * 2);
    let late = recorded.calls.values().iter().filter(|call| call.traits.allocates && call.start > last_third);
    let recurring: HashSet<NameId> = late.map(|call| call.name).collect();
    let slow = (30 * usual.launch.0).max(500 * US);
    // Before its first op a process has nothing to wait for: a long call of any kind initialises.
    let first_launch = recorded.ops.values().iter().filter_map(|op| Some(recorded.call(op.call?).start)).min();
    let is_before = |time: Ns| first_launch.is_some_and(|first| time < first);
    let mut launched: HashSet<NameId> = HashSet::new();
    let is_first = |(id, call): (Call, &super::recorded::CallRow)| {
        let ops = recorded.launched.of(id);
        let mut is_new = false;
        for op in ops {
            is_new |= launched.insert(recorded.op(*op).name);
        }
        let time = call.duration().0;
        let of_ops = i64::try_from(ops.len()).unwrap_or(i64::MAX).saturating_mul(2 * US);
        let loads = time > 100 * US && (call.traits.loads || call.traits.manages && is_before(call.start));
        let launches = call.traits.launches && is_new && time > slow.saturating_add(of_ops) && !queues.is_full(id);
        loads || launches || call.traits.allocates && time > 50 * US && !recurring.contains(&call.name)
    };
    recorded.calls.iter().map(is_first).collect()
}

fn new_ops(recorded: &Recorded, graph: &Graph, follows: &Column<Op, Follows>) -> Vec<bool> {
    let mut seen: HashSet<NameId> = HashSet::new();
    let is_new = |(id, op): (Op, &super::recorded::OpRow)| {
        let node = graph.start_of_op(id);
        let is_late =
            graph.edges.at(graph.binding.at(node)).kind == EdgeKind::Launch && graph.unexplained.at(node).0 > 200 * US;
        seen.insert(op.name) && is_late && follows.at(id).op().is_some()
    };
    recorded.ops.iter().map(is_new).collect()
}

/// The longest prefix of the ops that is mostly copies and sets, if it is less than half of them.
fn upload(recorded: &Recorded, beginning: Ns) -> Option<(Ns, Ns)> {
    let (mut copies, mut last) = (0, None);
    for (index, op) in recorded.ops.values().iter().enumerate() {
        copies += usize::from(matches!(op.class, Some(Class::Copy | Class::Set)));
        if copies >= MIN_UPLOADS && copies * 10 >= (index + 1) * 8 {
            last = Some((index, op.end));
        }
    }
    let (_, end) = last.filter(|(index, _)| *index > 0 && *index < recorded.ops.len() / 2)?;
    Some((beginning, end))
}
