//! The critical path: what the time of the window is made of. The walk from the last end of the window along the binding edges, which
//! follow each other without a gap, so that the parts add up to the window. O(nodes on the path), plus the code parts of its host gaps.
//!
//! A part belongs to the step in which it lies, and is split at the end of a step. A negative part (skewed clocks, the tail of a kernel)
//! stays in the sum.

use super::gap_code::GapCode;
use super::graph::{EdgeKind, Graph, Moment, Parts};
use super::ids::{Edge, Id, Node, Op};
use super::recorded::Recorded;
use super::start_up::FirstUses;
use super::steady::{Steady, WindowKind};
use crate::analysis::time::work::Class;
use crate::ordering::VecMap;
use crate::trace::{NameId, Ns};

/// What a part of the path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum PathPart {
    /// A kernel.
    Kernel(NameId),
    /// A kernel that communicates.
    Communication(NameId),
    /// The part of such a kernel in which it is known to wait for other ranks.
    RankWait(NameId),
    Copy(NameId),
    Set(NameId),
    /// A graph that was traced as a whole.
    WholeGraph,
    /// Host code between calls: the function, or the op or range; `None` if no code is known.
    Host(Option<NameId>, Waits),
    /// Long host time without a recorded call or code, while the GPU works: the thread works, or waits for the GPU by other means.
    Unrecorded,
    /// Host code and calls before the first op of the window, with their function. It may overlap earlier work that the trace does not
    /// have, and no figure of a step counts it.
    BeforeFirstOp(Option<NameId>),
    /// The own time of a call.
    Call(NameId),
    /// A call that does something for the first time.
    FirstUse(NameId),
    /// The late start of a kernel that is launched for the first time.
    NewKernel,
    /// The return of a blocking call.
    Return,
    Queue,
    Latency,
    Turnaround,
    OtherStream,
    /// An op starts late without a cause in the trace.
    UnexplainedOp,
    /// The same within one launch of a graph: a node that is not recorded.
    UnexplainedInGraph,
    /// A call returns late without a cause in the trace.
    UnexplainedReturn,
    /// Work that was launched before the trace.
    BeforeTrace,
}

/// Whether host code waits for another thread or process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Waits {
    No,
    Yes,
}

impl PathPart {
    /// Whether the model has no cause for it.
    pub(super) fn is_unexplained(self) -> bool {
        let unexplained = [Self::UnexplainedOp, Self::UnexplainedInGraph, Self::UnexplainedReturn];
        unexplained.contains(&self) || matches!(self, Self::Host(_, Waits::Yes))
    }

    /// What it is before the first op.
    fn before_first_op(self) -> Self {
        match self {
            Self::Host(function, Waits::No) => Self::BeforeFirstOp(function),
            Self::Unrecorded | Self::Call(_) | Self::FirstUse(_) => Self::BeforeFirstOp(None),
            other => other,
        }
    }

    /// Whether the trace leaves open what decides this part. A function that is known to wait says so itself.
    pub(super) fn is_undecided(self) -> bool {
        self.is_unexplained() && !matches!(self, Self::Host(Some(_), Waits::Yes))
    }
}

/// The parts of each step of the window, or of the window without steps. They add up to it.
#[derive(Debug, Clone)]
pub(super) struct CriticalPath {
    /// By step and part.
    pub(super) parts: Vec<((usize, PathPart), Ns)>,
}

impl CriticalPath {
    pub(super) fn of(parts: &Parts, graph: &Graph, first_uses: &FirstUses, steady: &Steady) -> Self {
        let walk = Walk { parts, graph, first_uses };
        let mut pieces = Vec::new();
        let mut node = walk.last_node(steady);
        while graph.times.at(node) > steady.start && node.index() > 0 {
            let edge = graph.binding.at(node);
            let source = graph.edges.at(edge).source;
            pieces.push((graph.times.at(source).max(steady.start), node, edge));
            node = source;
        }
        let first_op = steady.start + before_first_op(parts.recorded, steady);
        let mut sums = Sums { steady, first_op, sums: VecMap::new(), at: steady.start };
        for (from, node, edge) in pieces.into_iter().rev() {
            sums.at = from;
            let time = graph.times.at(node).since(from);
            walk.parts_of(node, edge, time, &mut |part, time| sums.add(part, time));
        }
        Self { parts: sums.sums.into_vec() }
    }

    /// The sum of all parts for which `is` is true.
    pub(super) fn sum(&self, is: impl Fn(PathPart) -> bool) -> Ns {
        let parts = self.parts.iter().filter(|((_, part), _)| is(*part));
        parts.fold(Ns::ZERO, |sum, (_, time)| sum + *time)
    }
}

/// The time from the begin of a window with steps to its first op, if no step ends there: a step is measured from its first op on. In
/// a window without steps the host time before the first op of all.
pub(super) fn before_first_op(recorded: &Recorded, steady: &Steady) -> Ns {
    let ops = recorded.ops.values();
    let first = match steady.kind {
        // What a cold start loads before its first op is what it is about.
        WindowKind::ColdStart => None,
        WindowKind::Steps if steady.follows_step => None,
        WindowKind::Steps => ops.get(ops.partition_point(|op| op.start < steady.start)),
        _ => ops.first().filter(|_| recorded.ends_until(steady.start) == 0),
    };
    first.map_or(Ns::ZERO, |op| op.start.since(steady.start).max(Ns::ZERO))
}

/// Sums of parts by step.
struct Sums<'a> {
    steady: &'a Steady,
    first_op: Ns,
    sums: VecMap<(usize, PathPart), Ns>,
    at: Ns,
}

impl Sums<'_> {
    /// Adds the next part, split at the ends of steps. A negative part goes back in time.
    fn add(&mut self, part: PathPart, mut time: Ns) {
        while time != Ns::ZERO {
            let (step, rest) = if time > Ns::ZERO { self.rest_of_step() } else { self.begun_step() };
            let lead = self.first_op.since(self.at);
            let (of_now, rest) = match lead > Ns::ZERO && time > Ns::ZERO {
                true if rest == Ns::ZERO => (part.before_first_op(), lead),
                true => (part.before_first_op(), rest.min(lead)),
                false => (part, rest),
            };
            let now = if rest == Ns::ZERO || time.0.abs() <= rest.0.abs() { time } else { rest };
            self.sums.update((step, of_now), Ns::ZERO, |sum| *sum += now);
            self.at += now;
            time = time.since(now);
        }
    }

    /// The step that goes on now, and the time until its end; zero after the last one.
    fn rest_of_step(&self) -> (usize, Ns) {
        let steps = &self.steady.steps;
        let step = steps.partition_point(|step| step.end <= self.at).min(steps.len().saturating_sub(1));
        let end = steps.get(step).map_or(self.steady.end, |step| step.end);
        (step, end.since(self.at).max(Ns::ZERO))
    }

    /// The step that lasted until now, and the time back to its start, which is negative; zero before the first one.
    fn begun_step(&self) -> (usize, Ns) {
        let steps = &self.steady.steps;
        let step = steps.partition_point(|step| step.start < self.at).saturating_sub(1);
        let start = steps.get(step).map_or(self.steady.start, |step| step.start);
        (step, start.since(self.at).min(Ns::ZERO))
    }
}

struct Walk<'a> {
    parts: &'a Parts<'a>,
    graph: &'a Graph,
    first_uses: &'a FirstUses,
}

impl Walk<'_> {
    /// The end of the op that ends last in the window.
    fn last_node(&self, steady: &Steady) -> Node {
        let recorded = self.parts.recorded;
        let Some((end, _)) = recorded.ended_until(steady.end).next() else { return Node::of(0) };
        // Of equal ends the first.
        let latest = recorded.ended_until(end).take_while(|(other, _)| *other == end).last();
        latest.map_or(Node::of(0), |(_, op)| self.graph.end_of_op(op))
    }

    /// The parts of the edge that ends at a node, in their order. They add up to `time`, the part of it in the window.
    fn parts_of(&self, node: Node, edge: Edge, time: Ns, add: &mut dyn FnMut(PathPart, Ns)) {
        let kind = self.graph.edges.at(edge).kind;
        match (kind, self.graph.moment(node)) {
            (EdgeKind::Op, Moment::OpEnd(op)) => {
                let wait = self.parts.transfers.wait(self.parts.recorded, op).min(time.max(Ns::ZERO));
                if wait > Ns::ZERO {
                    add(PathPart::RankWait(self.parts.recorded.op(op).name), wait);
                }
                add(self.op(op), time.since(wait));
            }
            (EdgeKind::Host | EdgeKind::Handoff, Moment::CallStart(call)) => {
                let wait = self.parts.unrecorded.before(call).filter(|wait| !wait.is_known);
                let mut maybe = wait.map_or(Ns::ZERO, |wait| wait.likely);
                host_parts(self.parts.gap_code, call, time, &mut |part, time| {
                    let PathPart::Host(function, Waits::No) = part else { return add(part, time) };
                    let says_nothing = self.parts.unrecorded.says_nothing(function);
                    let unrecorded = if says_nothing { maybe.min(time) } else { Ns::ZERO };
                    maybe = maybe.since(unrecorded);
                    add(PathPart::Unrecorded, unrecorded);
                    add(part, time.since(unrecorded));
                });
            }
            (EdgeKind::Call, Moment::CallEnd(call)) => {
                let unexplained = self.graph.unexplained.at(node).min(time.max(Ns::ZERO));
                add(PathPart::UnexplainedReturn, unexplained);
                let time = time.since(unexplained);
                let name = self.parts.recorded.call(call).name;
                let is_first = self.first_uses.is_first(call);
                add(if is_first { PathPart::FirstUse(name) } else { PathPart::Call(name) }, time);
            }
            (kind, moment) => self.delay(kind, moment, node, time, add),
        }
    }

    fn op(&self, op: Op) -> PathPart {
        let row = self.parts.recorded.op(op);
        match row.class {
            Some(Class::Communication) => PathPart::Communication(row.name),
            Some(Class::Copy) => PathPart::Copy(row.name),
            Some(Class::Set) => PathPart::Set(row.name),
            Some(Class::Replay) => PathPart::WholeGraph,
            Some(Class::Compute) | None => PathPart::Kernel(row.name),
        }
    }

    fn delay(&self, kind: EdgeKind, moment: Moment, node: Node, time: Ns, add: &mut dyn FnMut(PathPart, Ns)) {
        let unexplained = self.graph.unexplained.at(node).min(time.max(Ns::ZERO));
        if let (EdgeKind::Launch, Moment::OpStart(op)) = (kind, moment)
            && Graph::is_staged(self.parts, op)
            && time > self.parts.usual.longest_latency()
            && let Some(call) = self.parts.recorded.op(op).call
        {
            return add(PathPart::Call(self.parts.recorded.call(call).name), time);
        }
        let explained = match kind {
            EdgeKind::Return => PathPart::Return,
            EdgeKind::Queue => PathPart::Queue,
            EdgeKind::Launch => PathPart::Latency,
            EdgeKind::Stream => PathPart::Turnaround,
            EdgeKind::Wait | EdgeKind::Possible | EdgeKind::MaybeWait => PathPart::OtherStream,
            EdgeKind::BeforeTrace | EdgeKind::Host | EdgeKind::Handoff | EdgeKind::Call | EdgeKind::Op => {
                PathPart::BeforeTrace
            }
        };
        add(self.unexplained_part(kind, moment, node), unexplained);
        add(explained, time.since(unexplained));
    }

    fn unexplained_part(&self, kind: EdgeKind, moment: Moment, node: Node) -> PathPart {
        match (kind, moment) {
            (EdgeKind::Launch, Moment::OpStart(op)) if self.first_uses.is_new(op) => PathPart::NewKernel,
            _ if self.graph.is_inside_launch(self.parts.recorded, self.parts.follows, node) => {
                PathPart::UnexplainedInGraph
            }
            (EdgeKind::Stream | EdgeKind::Wait | EdgeKind::Launch, _) => PathPart::UnexplainedOp,
            _ => PathPart::UnexplainedReturn,
        }
    }
}

/// The code in the last `time` before a call.
fn host_parts(code: &GapCode, call: super::ids::Call, time: Ns, add: &mut dyn FnMut(PathPart, Ns)) {
    let mut all = Ns::ZERO;
    code.each_part(call, &mut |_, part| all += part);
    let mut skip = all.since(time).max(Ns::ZERO);
    let mut rest = time;
    code.each_part(call, &mut |running, part| {
        let shown = part.since(skip).max(Ns::ZERO).min(rest);
        skip = skip.since(part).max(Ns::ZERO);
        rest = rest.since(shown);
        if shown > Ns::ZERO {
            let waits = if running.is_some_and(|code| code.waits) { Waits::Yes } else { Waits::No };
            add(PathPart::Host(running.and_then(|code| code.function), waits), shown);
        }
    });
    if rest != Ns::ZERO {
        add(PathPart::Host(None, Waits::No), rest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::replay::steady::{WindowKind, WindowStep};
    use crate::analysis::structure::stages::Stage;

    #[test]
    fn a_negative_part_is_taken_from_the_steps_that_it_goes_back_through() {
        let step = |start, end| WindowStep { stage: Stage::All, host_start: start, start, end };
        let steps = vec![step(Ns(0), Ns(10)), step(Ns(10), Ns(20))];
        let steady = Steady { start: Ns(0), end: Ns(20), kind: WindowKind::Steps, steps, follows_step: true };
        let mut sums = Sums { steady: &steady, first_op: Ns(0), sums: VecMap::new(), at: Ns(0) };
        // Forward to 14, back to 7, forward to 20: each step has its length.
        sums.add(PathPart::Latency, Ns(14));
        sums.add(PathPart::Turnaround, Ns(-7));
        sums.add(PathPart::Queue, Ns(13));
        let expected = [
            ((0, PathPart::Latency), Ns(10)),
            ((0, PathPart::Turnaround), Ns(-3)),
            ((0, PathPart::Queue), Ns(3)),
            ((1, PathPart::Latency), Ns(4)),
            ((1, PathPart::Turnaround), Ns(-4)),
            ((1, PathPart::Queue), Ns(10)),
        ];
        let mut sums = sums.sums.into_vec();
        crate::ordering::sort_by_key(&mut sums, |((step, _), _)| *step);
        let of_step = |step: usize| sums.iter().filter(move |((other, _), _)| *other == step);
        for step in [0, 1] {
            assert_eq!(of_step(step).fold(Ns::ZERO, |sum, (_, time)| sum + *time), Ns(10));
        }
        assert!(expected.iter().all(|row| sums.contains(row)) && sums.len() == expected.len(), "{sums:?}");
    }
}
