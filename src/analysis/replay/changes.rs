//! What the window would take if something were different: a change of weights, and a replay.
//!
//! A saving has two ends. *High*: what has no known cause moves with what is before it. *Low*: a long delay without a known cause ends
//! at its measured time at the earliest, and waits count that nothing contradicts, also those for an event that is only guessed. *Only this rank*: in addition no collective ends
//! earlier than measured, because the other ranks do not get faster. Savings must not be added: what overlaps is replayed together.
//!
//! A replay costs one pass over the edges, and a change three of them.

use super::graph::{EdgeKind, EdgeRow, Graph, Moment, Parts, REMOVED};
use super::graph_launches::GraphLaunches;
use super::ids::{Call, Column, Edge, Id, Node, Op};
use super::maybe_waits::{MaybeWaitEdges, maybe_waits};
use super::path::Waits;
use super::pinnable::pinnable;
use super::pinned::{first_op, pinned, pinned_ranks};
use super::start_up::FirstUses;
use super::steady::Steady;
use super::unfused::Unfused;
use crate::analysis::structure::stages::Stage;
use crate::analysis::time::work::Class;
use crate::trace::{NameId, Ns, RunningCode};
use std::collections::{HashMap, HashSet};

/// A smaller share of possible waits changes no saving by more than a hundredth of itself.
const MIN_WAITING_SHARE: f64 = 0.01;
/// Known waits that are a larger share of the window than this leave a saving open in full.
const FULL_WAITING_SHARE: f64 = 0.05;
/// One launch of a graph.
const GRAPH_LAUNCH: Ns = Ns(10_000);
/// The turnaround within a graph is at most this.
const GRAPH_TURNAROUND: Ns = Ns(1_000);

/// The code of a blocking call.
pub(super) type Site = (Option<NameId>, Option<NameId>);

/// Something that is different.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Change {
    /// This host function takes no time.
    WithoutCode(Option<NameId>, Waits),
    /// Host code and calls take no time.
    WithoutHost,
    /// Host code between calls takes no time.
    WithoutCodeBetweenCalls,
    /// The blocking calls of this code do not block.
    WithoutBlockingAt(Site),
    /// No call blocks.
    WithoutBlocking,
    /// Runs of launches become one launch of a graph.
    OneGraphLaunch,
    /// Kernels of this group take half their time.
    KernelsTwiceAsFast(u32),
    /// Kernels take only this part of their time, by name of an op: 1 for those that stay.
    Faster(Vec<f64>),
    /// Of each run of elementwise kernels the longest computes all.
    Fused,
    /// Runs of launches in the steps of a stage become one launch of a graph.
    GraphsOf(Stage),
    /// Kernels, copies and memory sets take no time; communication keeps its time.
    WithoutGpuWork,
    /// Communication takes no time.
    WithoutCommunication,
    /// Copies use pinned memory and return at once.
    PinnedCopies,
    /// Allocations take no time.
    FreeAllocations,
    /// First uses were done before.
    WarmedUp,
    /// Ops follow each other without delay.
    WithoutTurnaround,
    /// The profiler holds no thread.
    WithoutProfiler,
}

impl Change {
    /// Whether a careful saving differs, because a graph may also shorten the turnaround.
    fn makes_graphs(&self) -> bool {
        matches!(self, Self::OneGraphLaunch | Self::GraphsOf(_))
    }

    /// Whether it saves anything for certain. Nobody knows which kernels can be fused.
    fn is_certain(&self) -> bool {
        *self != Self::Fused
    }
}

/// What the host does in a gap of which the trace does not say whether it works or waits for the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gaps {
    /// It works, and what is known to wait keeps its length.
    Work,
    /// What is known to wait waits for the GPU.
    KnownWait,
    /// It waits for the GPU.
    Wait,
}

/// What a change saves in each step of the window, or in the window without steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Saving {
    pub(super) low: Vec<Ns>,
    pub(super) high: Vec<Ns>,
    /// `None` without communication.
    pub(super) only_this_rank: Option<Vec<Ns>>,
}

impl Saving {
    /// What is saved beyond the other saving.
    fn beyond(self, other: &Self) -> Self {
        let beyond =
            |own: Vec<Ns>, other: &[Ns]| own.into_iter().zip(other).map(|(own, other)| own.since(*other)).collect();
        let only_this_rank = self.only_this_rank.zip(other.only_this_rank.as_ref());
        Self {
            low: beyond(self.low, &other.low),
            high: beyond(self.high, &other.high),
            only_this_rank: only_this_rank.map(|(own, other)| beyond(own, other)),
        }
    }

    /// What is saved between this and a share of the way to the other saving.
    fn towards(self, other: &Self, share: f64) -> Self {
        let between = |own: Vec<Ns>, other: &[Ns], pick: fn(Ns, Ns) -> Ns| {
            let end = |own: Ns, other: Ns| own + Ns((share * other.since(own).0 as f64) as i64);
            own.into_iter().zip(other).map(|(own, other)| pick(own, end(own, *other))).collect::<Vec<_>>()
        };
        let only_this_rank = self.only_this_rank.zip(other.only_this_rank.as_ref());
        Self {
            low: between(self.low, &other.low, Ns::min),
            high: between(self.high, &other.high, Ns::max),
            only_this_rank: only_this_rank.map(|(own, other)| between(own, other, Ns::min)),
        }
    }
}

/// Replays changes.
pub(super) struct Changes<'a> {
    pub(super) parts: &'a Parts<'a>,
    pub(super) graph: &'a Graph,
    pub(super) first_uses: &'a FirstUses,
    pub(super) steady: &'a Steady,
    unfused: &'a Unfused,
    /// The group of each kernel name.
    pub(super) groups: &'a [u32],
    /// The measured weights.
    measured: Vec<Ns>,
    in_window: Vec<Node>,
    /// The edges of possible waits.
    possible: Vec<Edge>,
    /// Of calls that wait for an event it is not known which one.
    pub(super) has_open_events: bool,
    maybe_waits: Vec<MaybeWaitEdges>,
    /// By node: it is the start of the first op of the window, if the time before that belongs to no step. A step is measured from its
    /// first op on, so an earlier first op is no saving. `None` without such an op.
    first_op: Option<Vec<bool>>,
    /// By node: it ends a long delay without a known cause, or is that start.
    pinned: Vec<bool>,
    /// The same with the ends of collectives; `None` without any.
    pinned_ranks: Option<Vec<bool>>,
    graphed: GraphLaunches,
    pinnable: HashSet<Call>,
    /// The name of the profiler in the code, if it held a thread.
    profiler: Option<NameId>,
    /// The host code before each call of the window.
    code: HashMap<Call, Vec<(Option<RunningCode>, Ns)>>,
    /// The code of each call that waits or would wait.
    pub(super) sites: HashMap<Call, Site>,
}

impl<'a> Changes<'a> {
    pub(super) fn new(
        parts: &'a Parts<'a>,
        graph: &'a Graph,
        first_uses: &'a FirstUses,
        steady: &'a Steady,
        unfused: &'a Unfused,
        groups: &'a [u32],
    ) -> Self {
        let mut changes = Self {
            parts,
            graph,
            first_uses,
            steady,
            unfused,
            groups,
            measured: graph.edges.values().iter().map(|edge| edge.weight).collect(),
            in_window: graph.times.iter().filter(|(_, time)| **time > steady.start).map(|(node, _)| node).collect(),
            possible: graph
                .edges
                .iter()
                .filter(|(_, edge)| edge.kind == EdgeKind::Possible)
                .map(|(id, _)| id)
                .collect(),
            has_open_events: false,
            maybe_waits: maybe_waits(parts, graph, steady),
            first_op: first_op(parts.recorded, graph, steady),
            pinned: pinned(parts, graph, steady),
            pinned_ranks: None,
            graphed: GraphLaunches::of(parts, steady),
            pinnable: pinnable(parts),
            profiler: parts.gap_code.profiler(),
            code: HashMap::new(),
            sites: HashMap::new(),
        };
        for (pinned, is_first) in changes.pinned.iter_mut().zip(changes.first_op.iter().flatten()) {
            *pinned |= *is_first;
        }
        changes.pinned_ranks = pinned_ranks(parts, graph, &changes.pinned);
        for (id, call) in
            parts.recorded.calls.iter().filter(|(_, call)| call.end > steady.start && call.start < steady.end)
        {
            let mut of_call = Vec::new();
            parts.gap_code.each_part(id, &mut |code, time| of_call.push((code, time)));
            changes.code.insert(id, of_call);
            // Those that found their op done wait if the host is faster.
            if parts.waits.at(id).op.is_some() {
                let code = parts.gap_code.timelines.and_then(|timelines| timelines.at(call.thread, call.start));
                let code = code.unwrap_or_default();
                changes.sites.insert(id, (code.function, code.op.filter(|op| Some(*op) != code.function)));
            }
        }
        let open = changes.returns_of_open_events();
        changes.has_open_events = !open.is_empty();
        changes.possible.extend(open);
        changes
    }

    /// The edges by which a call waits for an event that it found done, if no call of this code shows which event it is: all that
    /// blocked waited for the last op of their thread.
    fn returns_of_open_events(&self) -> Vec<Edge> {
        let key = |call: Call| {
            let row = self.parts.recorded.call(call);
            (row.thread, row.name, self.sites.get(&call).copied().unwrap_or_default())
        };
        // By code, whether the calls that blocked agree.
        let mut shown: HashMap<_, bool> = HashMap::new();
        let mut calls: Vec<Call> = self.sites.keys().copied().collect();
        calls.retain(|call| self.parts.recorded.call(*call).traits.of_event);
        calls.sort_unstable();
        for call in &calls {
            let wait = self.parts.waits.at(*call);
            if wait.blocks {
                shown.entry(key(*call)).and_modify(|agree| *agree &= wait.of_last).or_insert(wait.of_last);
            }
        }
        calls.retain(|call| !self.parts.waits.at(*call).blocks && shown.get(&key(*call)) != Some(&true));
        let edges = calls.iter().flat_map(|call| self.graph.edges_to(Graph::end_of_call(*call)));
        edges.filter(|(_, edge)| edge.kind == EdgeKind::Return).map(|(id, _)| id).collect()
    }

    /// Whether a change changes anything.
    pub(super) fn applies(&self, change: &Change) -> bool {
        let recorded = self.parts.recorded;
        let in_window = |call: &Call| {
            let row = recorded.call(*call);
            row.end > self.steady.start && row.end <= self.steady.end
        };
        match change {
            Change::OneGraphLaunch => !self.graphed.gone.is_empty(),
            Change::GraphsOf(_) => self.graphed.gone.iter().any(|call| self.is_of_stage(change, *call)),
            Change::Fused => !self.unfused.ops.is_empty(),
            Change::PinnedCopies => self.pinnable.iter().any(in_window),
            Change::WithoutCommunication => recorded.ops.values().iter().any(|op| op.communicates()),
            Change::WithoutBlocking => !self.sites.is_empty(),
            Change::WithoutProfiler => self.profiler.is_some(),
            Change::WithoutCode(function, _) => function.is_none() || *function != self.profiler,
            Change::FreeAllocations => {
                recorded.calls.ids().any(|call| in_window(&call) && recorded.call(call).traits.allocates)
            }
            Change::WarmedUp => {
                let in_steady = |op: &Op| recorded.op(*op).start > self.steady.start;
                recorded.calls.ids().any(|call| in_window(&call) && self.first_uses.is_first(call))
                    || recorded.ops.ids().any(|op| in_steady(&op) && self.first_uses.is_new(op))
            }
            _ => true,
        }
    }

    /// Whether the host may wait for the GPU in gaps of which the trace does not say what it does.
    pub(super) fn has_maybe_waits(&self) -> bool {
        self.waiting_share() >= MIN_WAITING_SHARE
    }

    /// What several changes together save. Where the profiler held threads, what they save of a run without that: its pauses are no part of
    /// the program, and whoever changes the code does not save them.
    pub(super) fn saving(&self, changes: &[Change]) -> Saving {
        if self.profiler.is_none() || changes.contains(&Change::WithoutProfiler) {
            return self.saving_of(changes);
        }
        let both: Vec<Change> = changes.iter().cloned().chain([Change::WithoutProfiler]).collect();
        self.saving_of(&both).beyond(&self.saving_of(&[Change::WithoutProfiler]))
    }

    /// The same with the pauses of the profiler, whether the host works or waits where the trace does not say which.
    fn saving_of(&self, changes: &[Change]) -> Saving {
        let mut saving = self.saving_if(changes, Gaps::Work);
        for (gaps, share) in [(Gaps::KnownWait, self.known_share()), (Gaps::Wait, self.waiting_share())] {
            if share >= MIN_WAITING_SHARE {
                saving = saving.towards(&self.saving_if(changes, gaps), share);
            }
        }
        saving
    }

    /// The same for code that is known to wait, only for what is open.
    fn known_share(&self) -> f64 {
        (self.likely_share(true) / FULL_WAITING_SHARE).min(1.0)
    }

    fn likely_share(&self, is_known: bool) -> f64 {
        let waits = self.maybe_waits.iter().filter(|wait| wait.is_known == is_known);
        let likely = waits.map(|wait| wait.likely.0 as f64).sum::<f64>();
        likely / self.steady.end.since(self.steady.start).0.max(1) as f64
    }

    /// How far the truth can be from 0, where the host works, to 1, where it waits for the GPU. Possible waits that are a small part of the
    /// window change little.
    pub(super) fn waiting_share(&self) -> f64 {
        (2.0 * self.likely_share(false)).min(1.0)
    }

    /// The same for one of both.
    pub(super) fn saving_if(&self, changes: &[Change], gaps: Gaps) -> Saving {
        let weights = self.weights(changes, false, gaps);
        let high = self.saved(&self.all_moved(&weights));
        let certain: Vec<Change> = changes.iter().filter(|change| change.is_certain()).cloned().collect();
        let careful = match certain.len() < changes.len() || certain.iter().any(Change::makes_graphs) {
            true => self.weights(&certain, true, gaps),
            false => weights,
        };
        let careful = self.with_pinned(careful);
        let low = self.saved(&self.graph.replay(&careful, self.steady.start, Some(&self.pinned)));
        let low: Vec<Ns> = low.into_iter().zip(&high).map(|(low, high)| low.min(*high)).collect();
        let only_this_rank = self.pinned_ranks.as_ref().map(|pinned| {
            let alone = self.saved(&self.graph.replay(&careful, self.steady.start, Some(pinned)));
            alone.into_iter().zip(&low).map(|(alone, low)| alone.min(*low)).collect()
        });
        Saving { low, high, only_this_rank }
    }

    /// The times of all nodes after these changes, where each node moves with what is before it: the run that saves most. The host works
    /// where the trace does not say whether it works or waits.
    pub(super) fn times(&self, changes: &[Change]) -> Column<Node, Ns> {
        self.all_moved(&self.weights(changes, false, Gaps::Work))
    }

    fn all_moved(&self, weights: &[Ns]) -> Column<Node, Ns> {
        self.graph.replay(&self.without_possible(weights), self.steady.start, self.first_op.as_deref())
    }

    /// The weights after these changes.
    fn weights(&self, changes: &[Change], is_low: bool, gaps: Gaps) -> Vec<Ns> {
        let mut weights = self.measured.clone();
        for node in &self.in_window {
            for (edge, row) in self.graph.edges_to(*node) {
                if let Some(changed) = self.changed(changes, is_low, *node, (edge, row)) {
                    weights.get_mut(edge.index()).into_iter().for_each(|weight| *weight = changed);
                }
            }
        }
        for wait in &self.maybe_waits {
            let waits = gaps == Gaps::Wait || gaps == Gaps::KnownWait && wait.is_known;
            let edge = if waits { wait.host } else { wait.wait };
            let Some(weight) = weights.get_mut(edge.index()) else { continue };
            let measured = self.graph.edges.at(edge).weight;
            *weight = match waits {
                false => REMOVED,
                // The change has taken the wait.
                true if changes.iter().any(|change| self.takes_wait(change, wait.is_known)) => {
                    (*weight).min(measured.since(wait.time)).max(Ns::ZERO)
                }
                true => weight.since(wait.time).max(Ns::ZERO),
            };
        }
        weights
    }

    /// Whether a change takes the time of the code that waits, or may wait.
    fn takes_wait(&self, change: &Change, is_known: bool) -> bool {
        match change {
            Change::WithoutCode(_, Waits::Yes) => is_known,
            Change::WithoutCode(function, Waits::No) => !is_known && self.parts.unrecorded.says_nothing(*function),
            _ => false,
        }
    }

    /// Weights in which no possible wait counts.
    fn without_possible(&self, weights: &[Ns]) -> Vec<Ns> {
        let mut weights = weights.to_vec();
        for edge in &self.possible {
            weights.get_mut(edge.index()).into_iter().for_each(|weight| *weight = REMOVED);
        }
        weights
    }

    fn changed(&self, changes: &[Change], is_low: bool, node: Node, (edge, row): (Edge, EdgeRow)) -> Option<Ns> {
        let moment = self.graph.moment(node);
        let is_binding = self.graph.binding.at(node) == edge;
        let unexplained = if is_binding { self.graph.unexplained.at(node) } else { Ns::ZERO };
        let mut now = row;
        let mut is_changed = false;
        for change in changes {
            let weight = match moment {
                Moment::CallStart(call) => self.host_code(change, call, now),
                Moment::CallEnd(call) => self.call(change, call, now),
                Moment::OpStart(op) => self.delay(change, op, now, unexplained, is_low),
                Moment::OpEnd(op) => self.op(change, op, now),
                Moment::Beginning => None,
            };
            if let Some(weight) = weight {
                // Of several changes none takes back what another one saves, also not the launch of a graph.
                now.weight = if changes.len() > 1 { weight.min(now.weight) } else { weight };
                is_changed = true;
            }
        }
        is_changed.then_some(now.weight)
    }

    fn host_code(&self, change: &Change, call: Call, edge: EdgeRow) -> Option<Ns> {
        if !matches!(edge.kind, EdgeKind::Host | EdgeKind::Handoff | EdgeKind::MaybeWait) {
            return None;
        }
        match change {
            Change::WithoutHost | Change::WithoutCodeBetweenCalls => Some(Ns::ZERO),
            Change::OneGraphLaunch | Change::GraphsOf(_) | Change::Fused => {
                self.is_gone(change, call).then_some(Ns::ZERO)
            }
            Change::WithoutProfiler => {
                let profiler = self.profiler?;
                let parts = self.code.get(&call)?.iter();
                let paused = parts.filter(|(code, _)| code.and_then(|code| code.function) == Some(profiler));
                let time = paused.fold(Ns::ZERO, |sum, (_, time)| sum + *time);
                (time > Ns::ZERO).then(|| edge.weight.since(time).max(Ns::ZERO))
            }
            Change::WithoutCode(function, waits) => {
                let is_it = |code: &Option<RunningCode>| {
                    let of_code = code.map_or((None, false), |code| (code.function, code.waits));
                    of_code == (*function, *waits == Waits::Yes)
                };
                let time = self.time_of_code(call, edge.kind, &is_it)?;
                (time > Ns::ZERO).then(|| edge.weight.since(time).max(Ns::ZERO))
            }
            _ => None,
        }
    }

    /// The time of the code for which `is_it` is true, in what an edge into the start of a call stands for.
    fn time_of_code(&self, call: Call, kind: EdgeKind, is_it: &dyn Fn(&Option<RunningCode>) -> bool) -> Option<Ns> {
        let mut time = Ns::ZERO;
        if kind == EdgeKind::Host && self.parts.handoffs.contains_key(&call) {
            self.parts.gap_code.each_own_part(call, &mut |code, part| {
                let works = code.is_none_or(|code| !code.waits);
                time += if works && is_it(&code) { part } else { Ns::ZERO };
            });
            return Some(time);
        }
        let parts = self.code.get(&call)?;
        let wait = self.parts.unrecorded.before(call).filter(|_| kind == EdgeKind::MaybeWait);
        // Only what is after the end of the op that it waits for.
        let from = wait.map_or(Ns(i64::MIN), |wait| self.parts.recorded.op(wait.op).end);
        let all = parts.iter().fold(Ns::ZERO, |sum, (_, part)| sum + *part);
        let mut at = self.parts.recorded.call(call).start - all;
        for (code, part) in parts {
            let start = at.max(from);
            at += *part;
            time += if is_it(code) { at.since(start).max(Ns::ZERO) } else { Ns::ZERO };
        }
        Some(time)
    }

    fn call(&self, change: &Change, id: Call, edge: EdgeRow) -> Option<Ns> {
        let (call, wait) = (self.parts.recorded.call(id), self.parts.waits.at(id));
        if wait.is_open && edge.kind == EdgeKind::Call {
            return self.open_wait(change, id, edge);
        }
        let own = |own: Ns, removes: bool| match edge.kind {
            EdgeKind::Return => removes.then_some(REMOVED),
            EdgeKind::Call => Some(own),
            _ => None,
        };
        match change {
            Change::WithoutHost if edge.kind == EdgeKind::Call => Some(Ns::ZERO),
            Change::WithoutProfiler if edge.kind == EdgeKind::Call => {
                let paused = self.parts.gap_code.pause_in_call(id);
                (paused > Ns::ZERO).then(|| edge.weight.since(paused).max(Ns::ZERO))
            }
            Change::WithoutBlockingAt(site) if self.sites.get(&id) == Some(site) => own(wait.own, true),
            Change::WithoutBlocking if edge.kind == EdgeKind::Return || wait.blocks => own(wait.own, true),
            _ if edge.kind == EdgeKind::Call && self.is_gone(change, id) => Some(Ns::ZERO),
            Change::OneGraphLaunch | Change::GraphsOf(_) if edge.kind == EdgeKind::Call => {
                let is_first = self.graphed.first.contains(&id) && self.is_of_stage(change, id);
                is_first.then_some(GRAPH_LAUNCH)
            }
            Change::PinnedCopies if self.pinnable.contains(&id) => own(wait.own.min(self.parts.usual.launch), true),
            Change::FreeAllocations if call.traits.allocates => own(Ns::ZERO, true),
            Change::WarmedUp if self.first_uses.is_first(id) => {
                let usual = self.parts.usual.call(call.name).min(self.parts.usual.launch);
                own(usual.min(edge.weight), true)
            }
            _ => None,
        }
    }

    /// A call that waits for lost work for an unknown part of its time: the host does not need that part, and the GPU may.
    fn open_wait(&self, change: &Change, id: Call, edge: EdgeRow) -> Option<Ns> {
        let own = self.parts.waits.at(id).own;
        match change {
            Change::WithoutHost => Some(edge.weight.since(own)),
            Change::WithoutGpuWork | Change::WithoutBlocking => Some(own),
            Change::WithoutBlockingAt(site) => (self.sites.get(&id) == Some(site)).then_some(own),
            _ => None,
        }
    }

    fn delay(&self, change: &Change, id: Op, edge: EdgeRow, unexplained: Ns, is_low: bool) -> Option<Ns> {
        let longest = self.parts.usual.longest_turnaround();
        let is_stream = edge.kind == EdgeKind::Stream;
        match change {
            Change::WithoutTurnaround if is_stream && edge.weight > Ns::ZERO => {
                Some(if edge.weight <= longest { Ns::ZERO } else { unexplained })
            }
            Change::WarmedUp if edge.kind == EdgeKind::Launch && self.first_uses.is_new(id) => {
                Some(edge.weight.since(unexplained))
            }
            Change::Fused if is_stream && edge.weight > Ns::ZERO && edge.weight <= longest => {
                self.unfused.ops.contains(&id).then_some(Ns::ZERO)
            }
            Change::OneGraphLaunch | Change::GraphsOf(_) if is_stream && !is_low && edge.weight <= longest => {
                let call = self.parts.recorded.op(id).call?;
                let is_dependent = matches!(self.parts.follows.at(id), super::streams::Follows::Overlaps(_));
                (!is_dependent && self.is_gone(change, call)).then(|| edge.weight.min(GRAPH_TURNAROUND))
            }
            _ => None,
        }
    }

    fn op(&self, change: &Change, id: Op, edge: EdgeRow) -> Option<Ns> {
        let op = self.parts.recorded.op(id);
        match change {
            Change::WithoutCommunication if op.communicates() => Some(Ns::ZERO),
            Change::WithoutGpuWork if !op.communicates() => Some(Ns::ZERO),
            Change::Faster(remains) if op.class == Some(Class::Compute) || op.communicates() => {
                let remains = remains.get(op.name.0 as usize).copied().filter(|remains| *remains != 1.0)?;
                Some(Ns((edge.weight.0 as f64 * remains) as i64))
            }
            Change::Fused if op.is_kernel() => self.unfused.ops.contains(&id).then_some(Ns::ZERO),
            Change::KernelsTwiceAsFast(group) if op.is_kernel() => {
                (self.groups.get(op.name.0 as usize) == Some(group)).then_some(Ns(edge.weight.0 / 2))
            }
            _ => None,
        }
    }

    /// What each step saves: its measured length minus its replayed one.
    fn saved(&self, times: &Column<Node, Ns>) -> Vec<Ns> {
        let window = [(self.steady.start, self.steady.end)];
        let steps: Vec<(Ns, Ns)> = self.steady.steps.iter().map(|step| (step.start, step.end)).collect();
        let steps = if steps.is_empty() { &window[..] } else { &steps[..] };
        let mut ended = self.parts.recorded.by_end.iter().skip_while(|(end, _)| *end <= self.steady.start).peekable();
        let (mut replayed, mut before) = (self.steady.start, self.steady.start);
        let mut saved = Vec::with_capacity(steps.len());
        for (start, end) in steps {
            while let Some((_, op)) = ended.next_if(|(ended, _)| ended <= end) {
                replayed = replayed.max(times.at(self.graph.end_of_op(*op)));
            }
            saved.push(end.since(*start).since(replayed.since(before)));
            before = replayed;
        }
        saved
    }

    /// Weights without the unexplained part of pinned nodes.
    fn with_pinned(&self, mut weights: Vec<Ns>) -> Vec<Ns> {
        for node in self.in_window.iter().filter(|node| self.pinned.get(node.index()) == Some(&true)) {
            let unexplained = self.graph.unexplained.at(*node);
            let weight = weights.get_mut(self.graph.binding.at(*node).index()).filter(|weight| **weight > Ns::ZERO);
            weight.into_iter().for_each(|weight| *weight = weight.since(unexplained.min(*weight)));
        }
        weights
    }

    /// Whether a call goes away: its launch becomes a part of a graph, or its kernels are computed by others.
    fn is_gone(&self, change: &Change, call: Call) -> bool {
        match change {
            Change::OneGraphLaunch | Change::GraphsOf(_) => {
                self.graphed.gone.contains(&call) && self.is_of_stage(change, call)
            }
            Change::Fused => self.unfused.calls.contains(&call),
            _ => false,
        }
    }

    /// Whether a call is in a step of the stage whose launches become graphs.
    fn is_of_stage(&self, change: &Change, call: Call) -> bool {
        let Change::GraphsOf(stage) = change else { return true };
        let start = self.parts.recorded.call(call).start;
        let steps = &self.steady.steps;
        let after = steps.partition_point(|step| step.host_start <= start);
        after.checked_sub(1).and_then(|step| steps.get(step)).is_some_and(|step| step.stage == *stage)
    }
}
