//! Nodes of the graph that stay at their measured time in careful replays: the ends of long delays without a known cause, the first op
//! of a window whose time before it belongs to no step, and, if only this rank changes, the ends of collectives. O(nodes + ops).

use super::graph::{Graph, Parts};
use super::ids::{Id, Node, Op};
use super::path::before_first_op;
use super::recorded::Recorded;
use super::steady::Steady;
use crate::trace::Ns;

/// A shorter delay is jitter, and moves with what is before it.
const MIN_PINNED: Ns = Ns(100_000);

/// The nodes that end a long delay without a known cause. Delays within one launch of a graph are nodes that are not recorded.
pub(super) fn pinned(parts: &Parts, graph: &Graph, steady: &Steady) -> Vec<bool> {
    let per_step = steady.end.since(steady.start).0 / i64::try_from(steady.count()).unwrap_or(1) / 200;
    let limit = MIN_PINNED.max(Ns(per_step));
    let is_pinned = |node: Node| {
        graph.unexplained.at(node) >= limit && !graph.is_inside_launch(parts.recorded, parts.follows, node)
    };
    graph.times.ids().map(is_pinned).collect()
}

/// By node: the start of the first op of a window whose time before it belongs to no step.
pub(super) fn first_op(recorded: &Recorded, graph: &Graph, steady: &Steady) -> Option<Vec<bool>> {
    let lead = before_first_op(recorded, steady);
    let start = steady.start + lead;
    let ops = recorded.ops.values();
    let first = ops.partition_point(|op| op.start < start);
    let node = (lead > Ns::ZERO && first < ops.len()).then(|| graph.start_of_op(Op::of(first)))?;
    let mut is_first = vec![false; graph.times.len()];
    is_first.get_mut(node.index()).into_iter().for_each(|is_first| *is_first = true);
    Some(is_first)
}

/// The same with the ends of all collectives; `None` if there are none.
pub(super) fn pinned_ranks(parts: &Parts, graph: &Graph, pinned: &[bool]) -> Option<Vec<bool>> {
    let mut all = pinned.to_vec();
    let mut collectives = parts.recorded.ops.iter().filter(|(_, op)| op.communicates()).map(|(id, _)| id).peekable();
    collectives.peek()?;
    for op in collectives {
        all.get_mut(graph.end_of_op(op).index()).into_iter().for_each(|pinned| *pinned = true);
    }
    Some(all)
}
