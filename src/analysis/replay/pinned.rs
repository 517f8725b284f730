//! Nodes of the graph that may stay at their measured time in careful replays, and how far: the ends of delays without a known cause, the
//! first op of a window whose time before it belongs to no step, and, if only this rank changes, the ends of collectives.
//! O(nodes log steps + ops).
//!
//! What a delay waits for is not in the trace. If all before it is earlier, it moves, or it ends when it ended, and is longer. A worker
//! with its own pace can hide a whole step in a wait, but then the wait is rarely short: by chance it would have to be ready just when it
//! is needed, in each step. So a short wait hides at most its own length, and with its part of the step that grows to a whole step.

use super::graph::{Graph, Parts};
use super::ids::{Id, Node, Op};
use super::path::before_first_op;
use super::recorded::Recorded;
use super::steady::Steady;
use crate::trace::Ns;

/// It takes about this long to fetch what is ready. Of a shorter delay, which is mostly jitter, less than its length is a wait.
const FETCH: Ns = Ns(100_000);
/// Up to this part of its step a longer delay hides its own length.
const SHORT_SHARE: f64 = 0.01;
/// From this part of its step on it hides a step.
const LONG_SHARE: f64 = 0.05;
/// As long as it takes to end when measured.
const ANY_LENGTH: Ns = Ns(1 << 60);

/// By node, how much longer the delay that ends there may be than measured. Delays within one launch of a graph are nodes that are not
/// recorded, and move.
pub(super) fn longer(parts: &Parts, graph: &Graph, steady: &Steady) -> Vec<Ns> {
    let longer = |node: Node| {
        let delay = graph.unexplained.at(node);
        if delay <= Ns::ZERO || graph.is_inside_launch(parts.recorded, parts.follows, node) {
            return Ns::ZERO;
        }
        hidden_by(delay, step_around(steady, graph.times.at(node)))
    };
    graph.times.ids().map(longer).collect()
}

/// How much a delay in a step of this length can hide: continuous in its length.
fn hidden_by(delay: Ns, step: Ns) -> Ns {
    let own = delay.0 as f64 * (delay.0 as f64 / FETCH.0 as f64).min(1.0);
    let share = delay.since(FETCH).0 as f64 / step.0.max(1) as f64;
    let of_step = ((share - SHORT_SHARE) / (LONG_SHARE - SHORT_SHARE)).clamp(0.0, 1.0);
    Ns((own + of_step * step.0 as f64).round() as i64)
}

/// The length of the step of the window around a time; of the window without steps.
fn step_around(steady: &Steady, time: Ns) -> Ns {
    let last = steady.steps.len().saturating_sub(1);
    let step = steady.steps.get(steady.steps.partition_point(|step| step.end < time).min(last));
    step.map_or(steady.end.since(steady.start), |step| step.end.since(step.start))
}

/// The same for the start of the first op of a window whose time before it belongs to no step: it is never earlier.
pub(super) fn first_op(recorded: &Recorded, graph: &Graph, steady: &Steady) -> Option<Vec<Ns>> {
    let lead = before_first_op(recorded, steady);
    let start = steady.start + lead;
    let ops = recorded.ops.values();
    let first = ops.partition_point(|op| op.start < start);
    let node = (lead > Ns::ZERO && first < ops.len()).then(|| graph.start_of_op(Op::of(first)))?;
    let mut longer = vec![Ns::ZERO; graph.times.len()];
    longer.get_mut(node.index()).into_iter().for_each(|longer| *longer = ANY_LENGTH);
    Some(longer)
}

/// The same with the ends of all collectives, which are never earlier; `None` if there are none.
pub(super) fn longer_alone(parts: &Parts, graph: &Graph, longer: &[Ns]) -> Option<Vec<Ns>> {
    let mut all = longer.to_vec();
    let mut collectives = parts.recorded.ops.iter().filter(|(_, op)| op.communicates()).map(|(id, _)| id).peekable();
    collectives.peek()?;
    for op in collectives {
        all.get_mut(graph.end_of_op(op).index()).into_iter().for_each(|longer| *longer = ANY_LENGTH);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_wait_hides_no_more_than_its_length_and_a_long_one_a_step() {
        let step = Ns(20_000_000);
        // 120 us of 20 ms, 100 us of which it takes to fetch what is ready.
        assert_eq!(hidden_by(Ns(120_000), step), Ns(120_000));
        assert_eq!(hidden_by(Ns(0), step), Ns(0));
        // 10 us of jitter hide a tenth of themselves.
        assert_eq!(hidden_by(Ns(10_000), step), Ns(1_000));
        // 700 us: 3 % of the step beyond 100 us are half way from 1 % to 5 %.
        assert_eq!(hidden_by(Ns(700_000), step), Ns(10_700_000));
        assert_eq!(hidden_by(Ns(5_000_000), step), Ns(25_000_000));
    }

    #[test]
    fn what_a_wait_hides_does_not_jump_with_its_length() {
        let step = Ns(20_000_000);
        for delay in (0..2_000_000).step_by(100) {
            let more = hidden_by(Ns(delay + 100), step).since(hidden_by(Ns(delay), step));
            assert!(more >= Ns::ZERO && more <= Ns(2_700), "{delay}: {more:?}");
        }
    }
}
