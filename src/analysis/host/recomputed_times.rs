//! When threads run a forward pass again within a backward pass, because its results were not kept (activation checkpointing). From
//! the CPU ops that show it ([`RecomputeSign`]): one sort, and one pass.
//!
//! - A function of autograd that recomputes, such as `CheckpointFunctionBackward`, does so until the first function within it that
//!   computes gradients.
//! - Within another function of autograd a hook may recompute before the function reads what was not kept. Then it calls ops that only
//!   a forward pass calls, until the last of these ends.

use crate::ordering;
use crate::rules::RecomputeSign;
use crate::trace::{HostInterval, Ns};
use std::cmp::Reverse;

/// A function of autograd that runs, and until when it is known to recompute.
struct Open {
    time: HostInterval,
    recomputes: bool,
    until: Option<Ns>,
}

impl Open {
    fn recomputed(self) -> Option<HostInterval> {
        let until = self.until.or(self.recomputes.then_some(self.time.end))?;
        Some(HostInterval { end: until.min(self.time.end), ..self.time })
    }
}

/// The times of recomputation, in no order.
pub(super) fn recomputed_times(mut signs: Vec<(HostInterval, RecomputeSign)>) -> Vec<HostInterval> {
    ordering::sort_by_key(&mut signs, |(time, _)| (time.thread, time.start, Reverse(time.end)));
    let (mut open, mut found): (Vec<Open>, Vec<HostInterval>) = (Vec::new(), Vec::new());
    for (time, sign) in signs {
        while let Some(ended) = open.pop_if(|last| last.time.thread != time.thread || last.time.end <= time.start) {
            found.extend(ended.recomputed());
        }
        let recomputes = sign == RecomputeSign::RecomputingNode;
        match sign {
            RecomputeSign::ForwardOp => {
                let node = open.last_mut().filter(|node| !node.recomputes);
                node.into_iter().for_each(|node| node.until = node.until.max(Some(time.end)));
                continue;
            }
            RecomputeSign::Node => {
                let around = open.iter_mut().rev().take_while(|node| node.recomputes && node.until.is_none());
                around.for_each(|node| node.until = Some(time.start));
            }
            RecomputeSign::RecomputingNode => {}
        }
        open.push(Open { time, recomputes, until: None });
    }
    found.extend(open.into_iter().filter_map(Open::recomputed));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::recompute_sign;
    use crate::trace::ThreadId;

    /// The times of ops with these names, starts and ends.
    fn times(ops: &[(&str, i64, i64)]) -> Vec<(i64, i64)> {
        let time = |start, end| HostInterval { thread: ThreadId(1), start: Ns(start), end: Ns(end) };
        let signs = ops.iter().filter_map(|(name, start, end)| Some((time(*start, *end), recompute_sign(name)?)));
        let mut found: Vec<(i64, i64)> =
            recomputed_times(signs.collect()).into_iter().map(|time| (time.start.0, time.end.0)).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn a_checkpoint_recomputes_until_it_computes_gradients() {
        let checkpoint = [
            ("autograd::engine::evaluate_function: CheckpointFunctionBackward", 10, 100),
            ("CheckpointFunctionBackward", 12, 99),
            ("aten::linear", 15, 40),
            ("autograd::engine::evaluate_function: AddmmBackward0", 50, 90),
            ("AddmmBackward0", 51, 89),
            ("aten::mm", 52, 60),
        ];
        assert_eq!(times(&checkpoint), [(10, 50), (12, 50)]);
    }

    #[test]
    fn a_hook_recomputes_until_the_last_op_that_only_a_forward_pass_calls() {
        let node = [
            ("aten::linear", 0, 5),
            ("autograd::engine::evaluate_function: AddmmBackward0", 10, 90),
            ("AddmmBackward0", 12, 80),
            ("aten::linear", 20, 30),
            ("aten::linear", 40, 50),
            ("aten::mm", 60, 70),
            ("autograd::engine::evaluate_function: MulBackward0", 100, 110),
        ];
        assert_eq!(times(&node), [(12, 50)], "neither the forward pass nor a function that only multiplies");
    }
}
