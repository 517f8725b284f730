//! The dependency graph of a trace, and its replay.
//!
//! A node is a moment: the start or end of a call or a GPU op. Its time is the maximum over its edges of the time of the source plus the
//! weight of the edge. The edge that explains the measured time best *binds* and has the measured distance as its weight; another edge has
//! its usual weight, if it fits before the measured time. So the replay of the unchanged graph gives every measured time again.
//! Changed weights give the times of a changed program (Daydream, ATC'20; Lumos, MLSys'25).
//!
//! Nodes are numbered by calls, then ops, and the edges into a node are next to each other: 20 bytes a node, 16 an edge. Building costs
//! O(n log n), a replay one pass over the edges in topological order, which is computed once.

use super::blocking::Wait;
use super::cross_stream::{CrossStream, LateWait, late_wait};
use super::gap_code::GapCode;
use super::handoffs::Handoff;
use super::ids::{Call, Column, Edge, Id, Node, Op};
use super::queue::{QueueEdge, Queues};
use super::recorded::Recorded;
use super::streams::Follows;
use super::transfers::Transfers;
use super::unrecorded::Unrecorded;
use super::usual::Usual;
use crate::trace::Ns;
use std::collections::{HashMap, HashSet};

/// A weight that never binds.
pub(super) const REMOVED: Ns = Ns(-(1 << 60));
/// A synchronisation that found its op done would return this long after it.
const RETURN: Ns = Ns(2_000);
/// A call of this length that returned before its op began did more than launch it.
const LONG_CALL: Ns = Ns(20_000);
/// A call that returns later after its op has another cause.
const LONGEST_RETURN: Ns = Ns(100_000);
/// An op that starts later than explained by this is looked at.
const LATE: Ns = Ns(20_000);

/// What an edge stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum EdgeKind {
    /// Nothing in the trace: work of before.
    #[default]
    BeforeTrace,
    /// Host code between two calls of a thread.
    Host,
    /// Host code between the calls of two threads.
    Handoff,
    /// The own time of a call.
    Call,
    /// The return of a blocking call after its op.
    Return,
    /// Room in the launch queue.
    Queue,
    /// From the launch call to the op.
    Launch,
    /// The delay between two ops of a stream.
    Stream,
    /// A wait for another stream.
    Wait,
    /// A wait for another stream that nothing contradicts. It never binds.
    Possible,
    /// A wait of the host for an op that is not recorded. It never binds.
    MaybeWait,
    /// The op itself.
    Op,
}

impl EdgeKind {
    fn binds(self) -> bool {
        !matches!(self, Self::Possible | Self::MaybeWait)
    }
}

/// A dependency.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct EdgeRow {
    pub(super) weight: Ns,
    pub(super) source: Node,
    pub(super) kind: EdgeKind,
}

/// What a node is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// The beginning of the trace.
    Beginning,
    CallStart(Call),
    CallEnd(Call),
    OpStart(Op),
    OpEnd(Op),
}

/// All nodes and edges.
#[derive(Debug)]
pub(super) struct Graph {
    calls: usize,
    /// The measured times.
    pub(super) times: Column<Node, Ns>,
    /// The end of the edges into each node.
    edge_ends: Column<Node, u32>,
    pub(super) edges: Column<Edge, EdgeRow>,
    /// The edge that binds each node.
    pub(super) binding: Column<Node, Edge>,
    /// The part of the binding edge's weight without a known cause.
    pub(super) unexplained: Column<Node, Ns>,
    /// Nodes before the nodes that depend on them.
    order: Vec<Node>,
}

/// What the graph is built from.
pub(super) struct Parts<'a> {
    pub(super) recorded: &'a Recorded,
    pub(super) usual: &'a Usual,
    pub(super) follows: &'a Column<Op, Follows>,
    pub(super) queues: &'a Queues,
    pub(super) waits: &'a Column<Call, Wait>,
    pub(super) cross: &'a CrossStream,
    pub(super) handoffs: &'a HashMap<Call, Handoff>,
    pub(super) gap_code: &'a GapCode<'a>,
    pub(super) unrecorded: &'a Unrecorded,
    pub(super) transfers: &'a Transfers,
    /// Ranks exchange data by Send/Recv only.
    pub(super) sends_only: bool,
    /// The first moment.
    pub(super) beginning: Ns,
}

/// A possible edge.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    source: Node,
    usual: Ns,
    kind: EdgeKind,
}

impl Graph {
    /// `None` if dependencies form a circle, which only inconsistent clocks can cause.
    pub(super) fn of(parts: &Parts) -> Option<Self> {
        let recorded = parts.recorded;
        let mut times = vec![parts.beginning];
        times.extend(recorded.calls.values().iter().flat_map(|call| [call.start, call.end]));
        times.extend(recorded.ops.values().iter().flat_map(|op| [op.start, op.end]));
        let nodes = times.len();
        let mut graph = Self {
            calls: recorded.calls.len(),
            times: Column::of(times),
            edge_ends: Column::of(vec![0]),
            edges: Column::default(),
            binding: Column::filled(nodes, Edge::default()),
            unexplained: Column::filled(nodes, Ns::ZERO),
            order: Vec::new(),
        };
        let mut candidates = Vec::new();
        for call in recorded.calls.ids() {
            graph.call_start(parts, call, &mut candidates);
            graph.call_end(parts, call, &mut candidates);
        }
        for op in recorded.ops.ids() {
            graph.op_start(parts, op, &mut candidates);
            graph.op_end(parts, op, &mut candidates);
        }
        graph.order = graph.topological_order()?;
        Some(graph)
    }

    pub(super) fn start_of_call(call: Call) -> Node {
        Node::of(1 + 2 * call.index())
    }

    pub(super) fn end_of_call(call: Call) -> Node {
        Node::of(2 + 2 * call.index())
    }

    pub(super) fn start_of_op(&self, op: Op) -> Node {
        Node::of(1 + 2 * (self.calls + op.index()))
    }

    pub(super) fn end_of_op(&self, op: Op) -> Node {
        Node::of(2 + 2 * (self.calls + op.index()))
    }

    pub(super) fn moment(&self, node: Node) -> Moment {
        let Some(index) = node.index().checked_sub(1) else { return Moment::Beginning };
        let (row, is_end) = (index / 2, index % 2 == 1);
        match (row.checked_sub(self.calls), is_end) {
            (None, false) => Moment::CallStart(Call::of(row)),
            (None, true) => Moment::CallEnd(Call::of(row)),
            (Some(op), false) => Moment::OpStart(Op::of(op)),
            (Some(op), true) => Moment::OpEnd(Op::of(op)),
        }
    }

    fn edges_into(&self, node: Node) -> std::ops::Range<usize> {
        let start = node.index().checked_sub(1).map_or(0, |before| self.edge_ends.at(Node::of(before)));
        start as usize..self.edge_ends.at(node) as usize
    }

    /// The edges into a node.
    pub(super) fn edges_to(&self, node: Node) -> impl Iterator<Item = (Edge, EdgeRow)> {
        let range = self.edges_into(node);
        range.map(|index| (Edge::of(index), self.edges.at(Edge::of(index))))
    }

    fn call_start(&mut self, parts: &Parts, id: Call, candidates: &mut Vec<Candidate>) {
        let call = parts.recorded.call(id);
        let before = parts.recorded.previous.at(id);
        let host = before.map(|before| (Self::end_of_call(before), EdgeKind::Host));
        match parts.handoffs.get(&id) {
            Some(Handoff { from, own, .. }) => {
                let end = parts.recorded.call(*from).end;
                let (source, usual) = (Self::end_of_call(*from), call.start.since(end));
                candidates.push(Candidate { source, usual, kind: EdgeKind::Handoff });
                candidates.extend(host.map(|(source, kind)| Candidate { source, usual: *own, kind }));
            }
            None => {
                let (source, kind) = host.unwrap_or((Node::of(0), EdgeKind::Host));
                let usual = call.start.since(self.times.at(source));
                candidates.push(Candidate { source, usual, kind });
            }
        }
        candidates.extend(parts.unrecorded.before(id).map(|wait| Candidate {
            source: self.end_of_op(wait.op),
            usual: call.start.since(parts.recorded.op(wait.op).end),
            kind: EdgeKind::MaybeWait,
        }));
        let node = self.add_node(parts, candidates);
        self.unexplained.set(node, parts.gap_code.waiting_time(id));
    }

    fn call_end(&mut self, parts: &Parts, id: Call, candidates: &mut Vec<Candidate>) {
        let (call, wait) = (parts.recorded.call(id), parts.waits.at(id));
        let mut own = wait.own;
        let start = Self::start_of_call(id);
        if let Some(op) = wait.op {
            let usual = if wait.blocks { call.end.since(parts.recorded.op(op).end) } else { RETURN };
            candidates.push(Candidate { source: self.end_of_op(op), usual, kind: EdgeKind::Return });
        } else if let Some(edge) = parts.queues.edge(parts.recorded, id) {
            let (op, usual) = match edge {
                QueueEdge::Full(op) => (op, call.end.since(parts.recorded.op(op).end)),
                QueueEdge::HasRoom(op) => (op, Ns::ZERO),
            };
            if let QueueEdge::Full(_) = edge {
                own = call.duration().min(parts.queues.free_launch);
            }
            candidates.push(Candidate { source: self.end_of_op(op), usual, kind: EdgeKind::Queue });
        }
        let usual = if candidates.is_empty() { call.duration() } else { own };
        candidates.insert(0, Candidate { source: start, usual, kind: EdgeKind::Call });
        let node = self.add_node(parts, candidates);
        if wait.is_open {
            self.unexplained.set(node, call.duration().since(wait.own));
        }
    }

    fn op_start(&mut self, parts: &Parts, id: Op, candidates: &mut Vec<Candidate>) {
        let (recorded, usual) = (parts.recorded, parts.usual);
        let op = recorded.op(id);
        let follows = parts.follows.at(id);
        let turnaround = match follows {
            Follows::Overlaps(before) => op.start.since(recorded.op(before).end),
            _ => usual.turnaround,
        };
        let before = follows.op().map(|before| self.end_of_op(before));
        candidates.extend(before.map(|source| Candidate { source, usual: turnaround, kind: EdgeKind::Stream }));
        let is_first = usual.first_of_launch.get(id.index()) == Some(&true);
        if let Some(call) = op.call.filter(|_| is_first || before.is_none()) {
            candidates.push(Self::launch(parts, id, call));
        }
        let mut known: Vec<Op> = follows.op().into_iter().collect();
        for other in parts.cross.firm(id).iter().filter(|other| !known.contains(other)).copied().collect::<Vec<_>>() {
            known.push(other);
            candidates.push(Candidate { source: self.end_of_op(other), usual: usual.turnaround, kind: EdgeKind::Wait });
        }
        self.add_late_wait(parts, id, &known, candidates);
        self.add_possible_waits(parts.cross.possible(id), candidates);
        self.add_node(parts, candidates);
    }

    fn add_possible_waits(&self, possible: &[Op], candidates: &mut Vec<Candidate>) {
        if possible.is_empty() {
            return;
        }
        let mut known: HashSet<Node> = candidates.iter().map(|candidate| candidate.source).collect();
        let sources = possible.iter().map(|op| self.end_of_op(*op)).filter(|source| known.insert(*source));
        candidates.extend(sources.map(|source| Candidate { source, usual: Ns::ZERO, kind: EdgeKind::Possible }));
    }

    fn launch(parts: &Parts, id: Op, call_id: Call) -> Candidate {
        let (op, call, usual) = (parts.recorded.op(id), parts.recorded.call(call_id), parts.usual);
        let blocks = parts.waits.at(call_id).blocks;
        let returned = op.start >= call.end && call.duration() >= LONG_CALL && !blocks;
        let (source, usual) = if returned || usual.is_from_end && op.is_kernel() && !blocks {
            let latency = if returned && !usual.is_from_end { RETURN } else { usual.latency };
            (Self::end_of_call(call_id), latency)
        } else {
            let call = if usual.is_from_end { usual.launch } else { Ns::ZERO };
            (Self::start_of_call(call_id), usual.latency + call)
        };
        Candidate { source, usual, kind: EdgeKind::Launch }
    }

    fn add_late_wait(&self, parts: &Parts, id: Op, known: &[Op], candidates: &mut Vec<Candidate>) {
        let (recorded, usual) = (parts.recorded, parts.usual);
        let op = recorded.op(id);
        let due = candidates.iter().map(|candidate| self.times.at(candidate.source) + candidate.usual).max();
        let due = due.unwrap_or(parts.beginning);
        let usual_delay = if parts.cross.is_after_wait(id) { usual.jitter } else { LATE.max(usual.jitter) };
        if op.start.since(due) <= usual_delay {
            return;
        }
        let wait = late_wait(recorded, id, due, &|other| known.contains(&other));
        candidates.extend(wait.map(|wait| {
            let (other, usual) = match wait {
                LateWait::After(other) => (other, usual.turnaround),
                LateWait::InTailOf(other) => (other, op.start.since(recorded.op(other).end)),
            };
            Candidate { source: self.end_of_op(other), usual, kind: EdgeKind::Wait }
        }));
    }

    fn op_end(&mut self, parts: &Parts, id: Op, candidates: &mut Vec<Candidate>) {
        let op = parts.recorded.op(id);
        let start = self.start_of_op(id);
        let mut usual = op.duration();
        if let Follows::Overlaps(before) = parts.follows.at(id) {
            usual = op.end.since(parts.recorded.op(before).end);
            candidates.push(Candidate { source: self.end_of_op(before), usual, kind: EdgeKind::Op });
        }
        candidates.push(Candidate { source: start, usual, kind: EdgeKind::Op });
        self.add_node(parts, candidates);
    }

    /// Adds the next node with these edges, and empties the list.
    fn add_node(&mut self, parts: &Parts, candidates: &mut Vec<Candidate>) -> Node {
        let node = Node::of(self.edge_ends.len());
        let time = self.times.at(node);
        // A source later than the node is no dependency, but for skewed clocks, dependent launches and tails.
        let fits = |candidate: &Candidate| {
            let may_be_later = matches!(candidate.kind, EdgeKind::Launch | EdgeKind::Return);
            self.times.at(candidate.source) <= time || may_be_later || candidate.usual < Ns::ZERO
        };
        let last = candidates.last().copied();
        candidates.retain(fits);
        if candidates.is_empty() {
            candidates.extend(last);
        }
        if candidates.iter().all(|candidate| !candidate.kind.binds()) {
            let usual = time.since(parts.beginning);
            candidates.push(Candidate { source: Node::of(0), usual, kind: EdgeKind::BeforeTrace });
        }
        let binds = candidates.iter().enumerate().filter(|(_, candidate)| candidate.kind.binds());
        let reached = |candidate: &Candidate| self.times.at(candidate.source) + candidate.usual;
        // Of equal ones the first.
        let binding = binds.rev().max_by_key(|(_, candidate)| reached(candidate)).map_or(0, |(index, _)| index);
        for (index, candidate) in candidates.iter().enumerate() {
            let distance = time.since(self.times.at(candidate.source));
            let weight = if index == binding { distance } else { candidate.usual.min(distance) };
            let edge = self.edges.push(EdgeRow { weight, source: candidate.source, kind: candidate.kind });
            if index == binding {
                self.binding.set(node, edge);
                self.unexplained.set(node, self.unexplained_part(parts, node, candidate.kind, distance));
            }
        }
        candidates.clear();
        self.edge_ends.push(u32::try_from(self.edges.len()).unwrap_or(u32::MAX))
    }

    fn unexplained_part(&self, parts: &Parts, node: Node, kind: EdgeKind, distance: Ns) -> Ns {
        let beyond = |limit: Ns| distance.since(limit).max(Ns::ZERO);
        match (kind, self.moment(node)) {
            (EdgeKind::Stream | EdgeKind::Wait, _) => beyond(parts.usual.longest_turnaround()),
            (EdgeKind::Launch, Moment::OpStart(op)) if !Self::is_staged(parts, op) => {
                beyond(parts.usual.longest_latency())
            }
            (EdgeKind::Return | EdgeKind::Queue, _) => beyond(LONGEST_RETURN),
            _ => Ns::ZERO,
        }
    }

    /// Whether the call of an op waits for that op: it prepares the data before the op starts.
    pub(super) fn is_staged(parts: &Parts, op: Op) -> bool {
        parts.recorded.op(op).call.is_some_and(|call| parts.waits.at(call).op == Some(op))
    }

    /// Whether an op starts late after another one of the same launch: nodes of the graph between are not recorded.
    pub(super) fn is_inside_launch(&self, recorded: &Recorded, follows: &Column<Op, Follows>, node: Node) -> bool {
        let Moment::OpStart(id) = self.moment(node) else { return false };
        let is_stream = self.edges.at(self.binding.at(node)).kind == EdgeKind::Stream;
        let before = follows.at(id).op().map(|before| recorded.op(before).call);
        is_stream && recorded.op(id).call.is_some() && before == Some(recorded.op(id).call)
    }

    fn topological_order(&self) -> Option<Vec<Node>> {
        let nodes = self.times.len();
        let mut missing: Column<Node, u32> = Column::filled(nodes, 0);
        let mut targets: Vec<(Node, Node)> = Vec::with_capacity(self.edges.len());
        for node in self.times.ids() {
            let edges = self.edges_to(node);
            targets.extend(edges.map(|(_, edge)| (edge.source, node)));
            missing.set(node, u32::try_from(self.edges_into(node).len()).unwrap_or(u32::MAX));
        }
        let targets = super::ids::Lists::group(nodes, &targets);
        let mut ready: Vec<Node> = self.times.ids().filter(|node| missing.at(*node) == 0).collect();
        let mut order = Vec::with_capacity(nodes);
        while let Some(node) = ready.pop() {
            order.push(node);
            for target in targets.of(node) {
                let rest = missing.at(*target).saturating_sub(1);
                missing.set(*target, rest);
                if rest == 0 {
                    ready.push(*target);
                }
            }
        }
        (order.len() == nodes).then_some(order)
    }

    /// The times of all nodes with these weights. Nodes until `from` keep their measured times. `delayed` is by how much a node that would
    /// be earlier than measured is later at most, until it is at its measured time.
    pub(super) fn replay(&self, weights: &[Ns], from: Ns, delayed: Option<&[Ns]>) -> Column<Node, Ns> {
        let mut times = self.times.clone();
        for node in self.order.iter().copied() {
            let measured = self.times.at(node);
            if measured <= from || node.index() == 0 {
                continue;
            }
            let mut time = from;
            for index in self.edges_into(node) {
                let weight = weights.get(index).copied().unwrap_or_default();
                time = time.max(times.at(self.edges.at(Edge::of(index)).source) + weight);
            }
            if let Some(delay) = delayed.and_then(|delayed| delayed.get(node.index())) {
                time = time.max(measured.min(time + *delay));
            }
            times.set(node, time);
        }
        times
    }
}
