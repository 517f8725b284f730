//! Calls before which the host may wait for the GPU: the trace does not say whether it works or waits. O(calls).

use super::graph::{EdgeKind, EdgeRow, Graph, Parts};
use super::ids::{Call, Edge};
use super::steady::Steady;
use super::unrecorded::MaybeWait;
use crate::trace::Ns;

/// The edges into a call before which the host may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct MaybeWaitEdges {
    pub(super) host: Edge,
    pub(super) wait: Edge,
    /// The time of the host edge that is a wait.
    pub(super) time: Ns,
    /// The part of it that is probably a wait.
    pub(super) likely: Ns,
    /// The code waits; only for what is open.
    pub(super) is_known: bool,
}

/// Those of the window.
pub(super) fn maybe_waits(parts: &Parts, graph: &Graph, steady: &Steady) -> Vec<MaybeWaitEdges> {
    let edges = |call: Call| {
        let node = Graph::start_of_call(call);
        let MaybeWait { time, likely, is_known, .. } =
            parts.unrecorded.before(call).filter(|_| graph.times.at(node) > steady.start)?;
        let is_host = |edge: &EdgeRow| matches!(edge.kind, EdgeKind::Host | EdgeKind::Handoff);
        let host = graph.binding.at(node);
        let (wait, _) = graph.edges_to(node).find(|(_, edge)| edge.kind == EdgeKind::MaybeWait)?;
        is_host(&graph.edges.at(host)).then_some(MaybeWaitEdges { host, wait, time, likely, is_known })
    };
    parts.recorded.calls.ids().filter_map(edges).collect()
}
