//! What a process did, as the replay needs it: the outermost calls of its launching threads, the synchronisations of its other
//! threads, and its GPU ops. One pass over the part of the trace, and a sort.
//!
//! A call that ends inside another call of its thread belongs to that one, with its ops: a driver call within a runtime call. A call
//! that only begins inside the call before it was moved there by rounding.

use super::ids::{Call, Column, Id, Lane, Lists, Op};
use super::part::Part;
use super::words::{CallTraits, CopyTraits, Words};
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::time::work::{Class, launch_of};
use crate::ordering;
use crate::trace::{DeviceId, NameId, Ns, Span, ThreadId};
use std::collections::HashMap;

/// Calls and ops may overlap by this much through rounding.
const ROUNDING: Ns = Ns(2);
/// Stands for the stream of graphs that were traced as a whole, which is not recorded.
const OF_GRAPHS: i64 = i64::MIN;
/// Two polls with less work between are one wait.
const POLL: Ns = Ns(50_000);
/// Between two polls of a loop whose code is not recorded at most this long passes.
const LONGEST_POLL: Ns = Ns(2_000_000);

/// A call.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct CallRow {
    pub(super) start: Ns,
    pub(super) end: Ns,
    pub(super) name: NameId,
    pub(super) thread: ThreadId,
    pub(super) traits: CallTraits,
    /// The number of polls that are this call; 1 for other calls.
    pub(super) polls: u32,
}

impl CallRow {
    pub(super) fn duration(&self) -> Ns {
        self.end.since(self.start)
    }
}

/// A GPU op.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct OpRow {
    pub(super) start: Ns,
    pub(super) end: Ns,
    pub(super) name: NameId,
    pub(super) lane: Lane,
    pub(super) device: DeviceId,
    pub(super) class: Option<Class>,
    pub(super) copy: CopyTraits,
    pub(super) bytes: u64,
    /// The call that launched it.
    pub(super) call: Option<Call>,
    /// Its row among the ops of the trace; graphs traced as a whole follow them.
    pub(super) row: u32,
}

impl OpRow {
    pub(super) fn duration(&self) -> Ns {
        self.end.since(self.start)
    }

    pub(super) fn is_kernel(&self) -> bool {
        self.class == Some(Class::Compute)
    }

    pub(super) fn communicates(&self) -> bool {
        self.class == Some(Class::Communication)
    }
}

/// The calls, sorted by start, and the ops, sorted by start.
#[derive(Debug)]
pub(super) struct Recorded {
    pub(super) calls: Column<Call, CallRow>,
    pub(super) ops: Column<Op, OpRow>,
    /// The ops of each call, sorted by start.
    pub(super) launched: Lists<Call, Op>,
    /// The ops of each lane, sorted by start.
    pub(super) on_lane: Lists<Lane, Op>,
    pub(super) lanes: usize,
    /// Its ops sorted by end.
    pub(super) by_end: Vec<(Ns, Op)>,
    /// The call before on the same thread.
    pub(super) previous: Column<Call, Option<Call>>,
}

impl Recorded {
    pub(super) fn of(trace: &ClassifiedTrace, part: &Part) -> Self {
        let words = Words::of(trace);
        let (calls, outer) = outermost_calls(trace, part, &words);
        let ops = ops(trace, part, &words, &outer);
        let launched: Vec<(Call, Op)> = ops.iter().filter_map(|(id, op)| Some((op.call?, id))).collect();
        let on_lane: Vec<(Lane, Op)> = ops.iter().map(|(id, op)| (op.lane, id)).collect();
        let lanes = on_lane.iter().map(|(lane, _)| lane.index() + 1).max().unwrap_or_default();
        let mut by_end: Vec<(Ns, Op)> = ops.iter().map(|(id, op)| (op.end, id)).collect();
        ordering::sort_by_key(&mut by_end, |(end, _)| *end);
        let previous = previous(&calls);
        Self {
            launched: Lists::group(calls.len(), &launched),
            on_lane: Lists::group(lanes, &on_lane),
            calls,
            ops,
            lanes,
            by_end,
            previous,
        }
    }

    pub(super) fn call(&self, id: Call) -> CallRow {
        self.calls.at(id)
    }

    pub(super) fn op(&self, id: Op) -> OpRow {
        self.ops.at(id)
    }

    /// The op of a call that ends last.
    pub(super) fn last_op(&self, call: Call) -> Option<Op> {
        // Of equal ends the first.
        let ops = self.launched.of(call).iter().rev();
        ops.copied().max_by_key(|op| self.op(*op).end)
    }

    /// The number of ends until this time.
    pub(super) fn ends_until(&self, time: Ns) -> usize {
        self.by_end.partition_point(|(end, _)| *end <= time)
    }

    /// The ops that ended until this time, the latest first.
    pub(super) fn ended_until(&self, time: Ns) -> impl Iterator<Item = (Ns, Op)> {
        self.by_end.iter().take(self.ends_until(time)).rev().copied()
    }
}

fn previous(calls: &Column<Call, CallRow>) -> Column<Call, Option<Call>> {
    let mut last: HashMap<ThreadId, Call> = HashMap::new();
    Column::of(calls.iter().map(|(id, call)| last.insert(call.thread, id)).collect())
}

/// The outermost calls, and the outermost call of each call of the trace in the part.
fn outermost_calls(
    trace: &ClassifiedTrace,
    part: &Part,
    words: &Words,
) -> (Column<Call, CallRow>, HashMap<u32, Call, foldhash::fast::RandomState>) {
    let all = &trace.trace.calls;
    let first = all.first_reaching(part.host.start);
    let rows = (first..all.len()).take_while(|row| all.start(*row).is_some_and(|start| start <= part.host.end));
    let in_part = rows.filter_map(|row| Some((row, all.get(row)?)));
    let is_kept =
        |call: &Span| part.launches(call.thread) || part.helps(call.thread) && words.of_call(call.name).synchronizes;
    let mut spans: Vec<_> = in_part.filter(|(_, call)| call.start >= part.host.start && is_kept(call)).collect();
    ordering::sort_by_key(&mut spans, |(_, call)| (call.start, std::cmp::Reverse(call.end())));
    let mut calls: Column<Call, CallRow> = Column::default();
    let mut outer = HashMap::default();
    let mut last: HashMap<ThreadId, Call> = HashMap::new();
    for (row, span) in spans {
        let around = last.get(&span.thread).copied().map(|id| (id, calls.at(id)));
        let traits = words.of_call(span.name);
        let id = match around {
            Some((id, call)) if span.end() <= call.end + ROUNDING => id,
            Some((id, call)) if traits.polls && call.traits.polls && is_one_wait(trace, &call, span.start) => {
                calls.set(id, CallRow { end: span.end(), polls: call.polls + 1, ..call });
                id
            }
            _ => {
                let start = around.map_or(span.start, |(_, call)| span.start.max(call.end));
                let call = CallRow { start, end: span.end(), name: span.name, thread: span.thread, traits, polls: 1 };
                calls.push(call)
            }
        };
        last.insert(span.thread, id);
        outer.insert(u32::try_from(row).unwrap_or(u32::MAX), id);
    }
    (calls, outer)
}

/// Whether a thread does no more than wait between a poll and the next one, such as in a loop that sleeps.
fn is_one_wait(trace: &ClassifiedTrace, poll: &CallRow, next: Ns) -> bool {
    let gap = next.since(poll.end);
    let Some(timelines) = trace.trace.code_timelines.as_deref() else { return gap < LONGEST_POLL };
    let (mut working, mut unknown) = (Ns::ZERO, Ns::ZERO);
    timelines.each_part(poll.thread, poll.end, next, &mut |code, time| match code {
        Some(code) if code.waits => {}
        Some(code) if code.function.is_some() => working += time,
        _ => unknown += time,
    });
    working < POLL && unknown < LONGEST_POLL
}

fn ops(
    trace: &ClassifiedTrace,
    part: &Part,
    words: &Words,
    outer: &HashMap<u32, Call, foldhash::fast::RandomState>,
) -> Column<Op, OpRow> {
    let mut lanes: HashMap<(DeviceId, i64), Lane> = HashMap::new();
    let mut ops: Vec<OpRow> = Vec::with_capacity(part.ops.len());
    let mut add = |row: usize, op: OpRow, stream: i64| {
        let next = Lane::of(lanes.len());
        let lane = *lanes.entry((op.device, stream)).or_insert(next);
        let call = launch_of(trace.trace, row).and_then(|call| outer.get(&call.0)).copied();
        ops.push(OpRow { lane, call, row: u32::try_from(row).unwrap_or(u32::MAX), ..op });
    };
    for row in part.ops.clone() {
        let Some(op) = trace.trace.gpu_ops.get(row).filter(|op| op.process == part.process) else { continue };
        let (copy, class) = (words.of_copy(op.name), Some(Class::of(trace, &op)));
        if copy.migrates {
            continue;
        }
        let copied = trace.trace.bytes.binary_search_by_key(&(row as u64), |(row, _)| u64::from(*row)).ok();
        let bytes = copied.and_then(|index| trace.trace.bytes.get(index)).map_or(0, |(_, bytes)| *bytes);
        let (start, end) = (op.start, op.end());
        add(
            row,
            OpRow { start, end, name: op.name, device: op.device, class, copy, bytes, ..OpRow::default() },
            op.stream,
        );
    }
    let replays = trace.trace.graph_replays.iter().enumerate().filter(|(_, replay)| part.has_replay(replay));
    for (index, replay) in replays {
        let (start, end, class) = (replay.start, replay.end(), Some(Class::Replay));
        let op = OpRow { start, end, device: replay.device, class, ..OpRow::default() };
        add(trace.trace.gpu_ops.len() + index, op, OF_GRAPHS);
    }
    ordering::sort_by_key(&mut ops, |op| (op.start, op.end));
    Column::of(ops)
}
