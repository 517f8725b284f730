//! GPU work sorted by start: ops, and CUDA graphs that were traced as a whole. A two-way merge of two sorted
//! tables, O(n).

use crate::analysis::classified::ClassifiedTrace;
use crate::trace::{CallId, GpuOp, GraphReplay, Ns, OpKind, Trace};

/// The class of a unit of GPU work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// A kernel that does not communicate.
    Compute,
    /// A kernel that communicates with other GPUs.
    Communication,
    Copy,
    Set,
    /// A CUDA graph that was traced as a whole: its kernels are unknown.
    Replay,
}

impl Class {
    pub(crate) const ALL: [Self; 5] = [Self::Compute, Self::Communication, Self::Copy, Self::Set, Self::Replay];

    pub(crate) fn of(trace: &ClassifiedTrace, op: &GpuOp) -> Self {
        match op.kind {
            OpKind::Kernel if trace.is_communication(op.name) => Self::Communication,
            OpKind::Kernel => Self::Compute,
            OpKind::Copy => Self::Copy,
            OpKind::Set => Self::Set,
        }
    }

    /// The bit of this class in a set of classes.
    pub(crate) const fn bit(self) -> usize {
        1 << self as usize
    }
}

/// An interval in which a GPU works: an op, or a graph that was traced as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) start: Ns,
    pub(crate) end: Ns,
    /// Index of the device in the trace.
    pub(crate) device: usize,
    pub(crate) class: Class,
    /// Row of the op; the rows of graph replays follow those of the ops.
    pub(crate) row: usize,
}

impl Work {
    pub(crate) fn of_op(trace: &ClassifiedTrace, row: usize, op: &GpuOp) -> Self {
        let class = Class::of(trace, op);
        Self { start: op.start, end: op.end(), device: op.device.0 as usize, class, row }
    }

    fn of_replay(row: usize, replay: &GraphReplay) -> Self {
        let (start, end) = (replay.start, replay.end());
        Self { start, end, device: replay.device.0 as usize, class: Class::Replay, row }
    }
}

/// The call that launched the work in this [`Work::row`], if known.
pub(crate) fn launch_of(trace: &Trace, row: usize) -> Option<CallId> {
    match row.checked_sub(trace.gpu_ops.len()) {
        None => trace.gpu_ops.launch(row),
        Some(replay) => trace.graph_replays.get(replay)?.launch,
    }
}

/// The graph replays of a trace that are not visited yet, sorted by start.
pub(crate) struct Replays<'a> {
    rest: &'a [GraphReplay],
    next_row: usize,
}

impl<'a> Replays<'a> {
    pub(crate) fn of(trace: &ClassifiedTrace<'a>) -> Self {
        Self { rest: &trace.trace.graph_replays, next_row: trace.trace.gpu_ops.len() }
    }

    /// Takes the next replay if it starts no later than `time`.
    pub(crate) fn next_until(&mut self, time: Ns) -> Option<Work> {
        let (first, rest) = self.rest.split_first().filter(|(first, _)| first.start <= time)?;
        let work = Work::of_replay(self.next_row, first);
        (self.rest, self.next_row) = (rest, self.next_row + 1);
        Some(work)
    }
}

/// Visits all work of all devices, sorted by start.
pub(crate) fn each_work(trace: &ClassifiedTrace, visit: &mut dyn FnMut(Work)) {
    let mut replays = Replays::of(trace);
    for (row, op) in trace.trace.gpu_ops.iter().enumerate() {
        while let Some(replay) = replays.next_until(op.start) {
            visit(replay);
        }
        visit(Work::of_op(trace, row, &op));
    }
    while let Some(replay) = replays.next_until(Ns(i64::MAX)) {
        visit(replay);
    }
}

/// Disjoint intervals sorted by start; adjacent intervals are merged.
pub(crate) type Intervals = Vec<(Ns, Ns)>;

/// Adds an interval to a union. Intervals must arrive sorted by start.
pub(crate) fn add_interval(union: &mut Intervals, (start, end): (Ns, Ns)) {
    match union.last_mut() {
        Some(last) if start <= last.1 => last.1 = last.1.max(end),
        _ => union.push((start, end)),
    }
}

/// Disjoint intervals sorted by start, with the sum of the lengths before each.
#[derive(Debug)]
pub(crate) struct PrefixSums<'a> {
    intervals: &'a [(Ns, Ns)],
    before: Vec<Ns>,
}

impl<'a> PrefixSums<'a> {
    pub(crate) fn of(intervals: &'a [(Ns, Ns)]) -> Self {
        let mut sum = Ns::ZERO;
        let before = intervals.iter().map(|(start, end)| {
            let before = sum;
            sum += end.since(*start);
            before
        });
        Self { before: before.collect(), intervals }
    }

    /// The length of the parts of the intervals before a time.
    fn until(&self, time: Ns) -> Ns {
        let next = self.intervals.partition_point(|(start, _)| *start < time);
        let last = next.checked_sub(1).and_then(|index| Some((self.intervals.get(index)?, self.before.get(index)?)));
        last.map_or(Ns::ZERO, |((start, end), before)| *before + time.min(*end).since(*start))
    }

    /// The length of the parts of the intervals between two times. O(log n), however many intervals are between them.
    pub(crate) fn between(&self, start: Ns, end: Ns) -> Ns {
        self.until(end).since(self.until(start))
    }
}

#[cfg(test)]
mod prefix_sums_tests {
    use super::*;

    #[test]
    fn time_between_two_moments_is_that_of_the_intervals_between_them() {
        let intervals = [(Ns(10), Ns(20)), (Ns(30), Ns(35)), (Ns(50), Ns(60))];
        let sums = PrefixSums::of(&intervals);
        for start in 0..70 {
            for end in start..70 {
                let inside = |(from, to): &(Ns, Ns)| (to.0.min(end) - from.0.max(start)).max(0);
                assert_eq!(
                    sums.between(Ns(start), Ns(end)),
                    Ns(intervals.iter().map(inside).sum()),
                    "{start} to {end}"
                );
            }
        }
        assert_eq!(PrefixSums::of(&[]).between(Ns(0), Ns(70)), Ns::ZERO);
    }
}
