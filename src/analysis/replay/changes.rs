//! What the window would take if something were different: a change of weights, and a replay.
//!
//! A saving has two ends. *High*: what has no known cause moves with what is before it. *Low*: a delay without a known cause may end when
//! measured, as far as it can hide that (`pinned`), and waits count that nothing contradicts, also those for an event that is only guessed.
//! *Only this rank*: in addition no collective ends earlier than measured, because the other ranks do not get faster. *If no waits*: high,
//! and collectives take only their transfer, because the other ranks may get faster still. The low and high savings keep the waits for
//! other ranks: those arrive as much earlier. Without communication, only the transfer is saved for certain; without GPU work, the waits
//! for that of other ranks may end too. Savings must not be added: what overlaps is replayed together.
//!
//! A replay costs one pass over the edges, and a change three of them.

mod saving;
mod weights;

use super::graph::{EdgeKind, Graph, Parts};
use super::graph_launches::GraphLaunches;
use super::ids::{Call, Edge, Node, Op};
use super::maybe_waits::{MaybeWaitEdges, maybe_waits};
use super::path::Waits;
use super::pinnable::pinnable;
use super::pinned::{first_op, longer, longer_alone};
use super::start_up::FirstUses;
use super::steady::Steady;
use super::unfused::Unfused;
use crate::analysis::structure::stages::Stage;
use crate::rules::signals::Thresholds;
use crate::trace::{NameId, Ns, RunningCode};
pub(super) use saving::Saving;
use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

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
    /// Kernels, copies and memory sets take no time; communication keeps its time, or at most only that of its transfer.
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
    /// Whether the weights of a careful saving differ: a graph may also shorten the turnaround, and the time in collectives may be waiting,
    /// of which it depends on the other ranks what is saved.
    fn has_careful_weights(&self) -> bool {
        let depends_on_ranks = matches!(self, Self::WithoutGpuWork | Self::WithoutCommunication);
        depends_on_ranks || matches!(self, Self::OneGraphLaunch | Self::GraphsOf(_))
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

/// Replays changes.
pub(super) struct Changes<'a> {
    pub(super) parts: &'a Parts<'a>,
    pub(super) graph: &'a Graph,
    pub(super) first_uses: &'a FirstUses,
    pub(super) steady: &'a Steady,
    unfused: &'a Unfused,
    thresholds: &'a Thresholds,
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
    /// By node: the start of the first op of the window, if the time before that belongs to no step, is not earlier. A step is measured from its
    /// first op on, so an earlier first op is no saving. `None` without such an op.
    first_op: Option<Vec<Ns>>,
    /// By node: how much longer the delay without a known cause that ends there may be in careful replays; with that start.
    longer: Vec<Ns>,
    /// The same if no collective ends earlier than measured; `None` without any.
    longer_alone: Option<Vec<Ns>>,
    graphed: GraphLaunches,
    pinnable: HashSet<Call>,
    /// The name of the profiler in the code, if it held a thread.
    profiler: Option<NameId>,
    /// The host code before each call of the window.
    code: HashMap<Call, Vec<(Option<RunningCode>, Ns)>>,
    /// The code of each call that waits or would wait.
    pub(super) sites: HashMap<Call, Site>,
    /// What is saved without the pauses of the profiler, once it is needed.
    saving_of_profiler: OnceCell<Saving>,
}

impl<'a> Changes<'a> {
    pub(super) fn new(
        parts: &'a Parts<'a>,
        graph: &'a Graph,
        first_uses: &'a FirstUses,
        steady: &'a Steady,
        unfused: &'a Unfused,
        groups: &'a [u32],
        thresholds: &'a Thresholds,
    ) -> Self {
        let mut changes = Self {
            parts,
            graph,
            first_uses,
            steady,
            unfused,
            thresholds,
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
            longer: longer(parts, graph, steady),
            longer_alone: None,
            graphed: GraphLaunches::of(parts, steady),
            pinnable: pinnable(parts),
            profiler: parts.gap_code.profiler(),
            code: HashMap::new(),
            sites: HashMap::new(),
            saving_of_profiler: OnceCell::new(),
        };
        for (longer, of_first) in changes.longer.iter_mut().zip(changes.first_op.iter().flatten()) {
            *longer = (*longer).max(*of_first);
        }
        changes.longer_alone = longer_alone(parts, graph, &changes.longer);
        changes.look_up_code();
        let open = changes.returns_of_open_events();
        changes.has_open_events = !open.is_empty();
        changes.possible.extend(open);
        changes
    }

    /// Looks up the code before and of each call of the window.
    fn look_up_code(&mut self) {
        let (parts, steady) = (self.parts, self.steady);
        for (id, call) in
            parts.recorded.calls.iter().filter(|(_, call)| call.end > steady.start && call.start < steady.end)
        {
            let mut of_call = Vec::new();
            parts.gap_code.each_part(id, &mut |code, time| of_call.push((code, time)));
            self.code.insert(id, of_call);
            // Those that found their op done wait if the host is faster.
            if parts.waits.at(id).op.is_some() {
                let code = parts.gap_code.timelines.and_then(|timelines| timelines.at(call.thread, call.start));
                let code = code.unwrap_or_default();
                self.sites.insert(id, (code.function, code.op.filter(|op| Some(*op) != code.function)));
            }
        }
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
            // A stage of a pipeline cannot start without the data of the one before it.
            Change::WithoutCommunication => {
                !self.parts.sends_only && recorded.ops.values().iter().any(|op| op.communicates())
            }
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
}
