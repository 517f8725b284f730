//! The simulated run: when each call, GPU op and host range of the replayed part would be with the changes that are asked for.
//!
//! From the dependency graph by one replay, the one that *saves at most*; where the trace does not say whether the host works or waits, it
//! works. Without changes every time is the measured one. Host ranges move with the calls of their thread around them. Costs
//! O(n log n) for `n` calls, ops and ranges of the part, as the sections.

use super::graph::Graph;
use super::ids::{Call, Column, Id, Node, Op};
use super::recorded::OpRow;
use super::{NoReplay, Replay, sections, with_replay};
use crate::analysis::context::Context;
use crate::trace::{DeviceId, Ns, Span, ThreadId, Trace};
use std::collections::BTreeMap;

/// What is written of the simulated run, in the order of the measured starts.
pub(crate) struct SimulatedRun {
    /// The first moment of the replayed part; the same with any changes.
    pub(crate) beginning: Ns,
    /// GPU ops.
    pub(crate) ops: Vec<SimulatedOp>,
    /// The outermost calls of the launching threads, and the synchronisations of others.
    pub(crate) calls: Vec<Span>,
    /// Ranges of these threads.
    pub(crate) ranges: Vec<Span>,
}

/// A GPU op of the simulated run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SimulatedOp {
    /// Its row in the trace. Graphs traced as a whole follow the ops of the trace.
    pub(crate) row: usize,
    /// Its device.
    pub(crate) device: DeviceId,
    /// When it starts.
    pub(crate) start: Ns,
    /// How long it takes.
    pub(crate) duration: Ns,
    /// The bytes of a copy; 0 if they are not known.
    pub(crate) bytes: u64,
    /// The index of its launch among [`SimulatedRun::calls`].
    pub(crate) call: Option<usize>,
}

/// Replays the trace with the changes that the context asks for.
pub(crate) fn simulated_run(context: &Context) -> Result<SimulatedRun, NoReplay> {
    with_replay(context, |replay| {
        let changes = replay.changes();
        let times = changes.times(&sections::asked_changes(context, replay, &changes));
        SimulatedRun {
            beginning: replay.parts.beginning,
            ops: replay.parts.recorded.ops.iter().map(|(id, op)| simulated_op(&replay.graph, &times, id, op)).collect(),
            calls: simulated_calls(replay, &times),
            ranges: simulated_ranges(context.trace, replay, &times),
        }
    })
}

fn simulated_op(graph: &Graph, times: &Column<Node, Ns>, id: Op, op: &OpRow) -> SimulatedOp {
    let start = times.at(graph.start_of_op(id));
    let duration = times.at(graph.end_of_op(id)).since(start).max(Ns::ZERO);
    let call = op.call.map(Call::index);
    SimulatedOp { row: op.row as usize, device: op.device, start, duration, bytes: op.bytes, call }
}

fn simulated_calls(replay: &Replay, times: &Column<Node, Ns>) -> Vec<Span> {
    let simulated = |(id, call): (Call, &super::recorded::CallRow)| {
        let start = times.at(Graph::start_of_call(id));
        let duration = times.at(Graph::end_of_call(id)).since(start).max(Ns::ZERO);
        Span { start, duration, name: call.name, thread: call.thread }
    };
    replay.parts.recorded.calls.iter().map(simulated).collect()
}

/// The ranges of the threads with calls in the replayed part of the time, cut at its first moment.
fn simulated_ranges(trace: &Trace, replay: &Replay, times: &Column<Node, Ns>) -> Vec<Span> {
    let beginning = replay.parts.beginning;
    let clocks = HostClock::of_threads(replay, times);
    let Some(end) = replay.parts.recorded.calls.values().iter().map(|call| call.end).max() else { return Vec::new() };
    let first = trace.ranges.first_reaching(beginning);
    let rows = (first..trace.ranges.len()).take_while(|row| trace.ranges.start(*row).is_some_and(|start| start < end));
    let simulated = |row: usize| {
        let range = trace.ranges.get(row).filter(|range| range.end() >= beginning)?;
        let clock = clocks.get(&range.thread)?;
        let start = clock.at(range.start.max(beginning)).max(beginning);
        Some(Span { start, duration: clock.at(range.end()).since(start).max(Ns::ZERO), ..range })
    };
    rows.filter_map(simulated).collect()
}

/// The simulated time of each moment of a thread.
#[derive(Debug, Default)]
struct HostClock {
    /// Measured and simulated starts and ends of its calls.
    moments: Vec<(Ns, Ns)>,
}

impl HostClock {
    fn of_threads(replay: &Replay, times: &Column<Node, Ns>) -> BTreeMap<ThreadId, Self> {
        let mut clocks: BTreeMap<ThreadId, Self> = BTreeMap::new();
        for (id, call) in replay.parts.recorded.calls.iter() {
            let (start, end) = (times.at(Graph::start_of_call(id)), times.at(Graph::end_of_call(id)));
            clocks.entry(call.thread).or_default().moments.extend([(call.start, start), (call.end, end)]);
        }
        clocks
    }

    /// Between two moments in proportion to the measured time; before the first and after the last with the measured distance.
    fn at(&self, time: Ns) -> Ns {
        let next = self.moments.partition_point(|(measured, _)| *measured <= time);
        let before = next.checked_sub(1).and_then(|before| self.moments.get(before));
        match (before, self.moments.get(next)) {
            (Some((measured, simulated)), Some((next_measured, next_simulated))) => {
                let (part, whole) = (time.since(*measured).0, next_measured.since(*measured).0.max(1));
                let moved = i128::from(next_simulated.since(*simulated).0) * i128::from(part) / i128::from(whole);
                *simulated + Ns(i64::try_from(moved).unwrap_or_default())
            }
            (Some((measured, simulated)), None) | (None, Some((measured, simulated))) => {
                *simulated + time.since(*measured)
            }
            (None, None) => time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_between_two_calls_moves_in_proportion_and_one_outside_keeps_its_distance() {
        let clock =
            HostClock { moments: [(10, 10), (20, 20), (40, 30), (50, 40)].map(|(a, b)| (Ns(a), Ns(b))).to_vec() };
        let at = |time| clock.at(Ns(time)).0;
        assert_eq!([at(4), at(10), at(15), at(20), at(30), at(40), at(45), at(60)], [4, 10, 15, 20, 25, 30, 35, 50]);
    }
}
