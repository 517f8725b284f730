//! What blocking calls cost the GPU: a thread that waits while the GPU works costs nothing.

use crate::analysis::context::Context;
use crate::analysis::time::busy::{WhileBlocked, each_known};
use crate::analysis::time::intervals::each_work;
use crate::trace::Ns;

/// Time in which a thread is blocked and no device works, between the first and the last work.
pub(crate) fn idle(context: &Context) -> Ns {
    let blocked = context.blocked();
    let working = if blocked.is_empty() { None } else { working(context, blocked) };
    let Some((first, last, working)) = working else { return Ns::ZERO };
    let inside = |(start, end): &(Ns, Ns)| (*end).min(last).since((*start).max(first)).max(Ns::ZERO);
    blocked.iter().map(inside).fold(Ns::ZERO, |sum, time| sum + time).since(working)
}

/// First start and last end of all work, and the time in between in which a thread is blocked and something works.
fn working(context: &Context, blocked: &[(Ns, Ns)]) -> Option<(Ns, Ns, Ns)> {
    let trace = context.trace;
    let mut while_blocked = WhileBlocked::of(blocked);
    if trace.graph_replays.is_empty() {
        let (window, mut known) = (trace.span()?, Ns::ZERO);
        let mut visit = |from, to| while_blocked.see(from, to);
        each_known(trace, context.inside(), &mut |spell| known += spell.while_blocked, &mut visit);
        return Some((window.start, window.end, known + while_blocked.sum));
    }
    let mut seen: Option<(Ns, Ns)> = None;
    each_work(context, &mut |work| {
        let (first, reach) = seen.unwrap_or((work.start, work.start));
        let from = reach.max(work.start);
        if work.end > from {
            while_blocked.see(from, work.end);
        }
        seen = Some((first, reach.max(work.end)));
    });
    let (first, last) = seen?;
    Some((first, last, while_blocked.sum))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::{Format, GpuOp, OpKind, Span, Trace, TraceBuilder};
    use proptest::prelude::*;

    fn trace(ops: &[(i64, i64)], calls: &[(i64, i64)]) -> Trace {
        let mut builder = TraceBuilder::new("t", Format::NsysSqlite);
        let process = builder.process(1, "");
        let thread = builder.thread(process, 1);
        for &(start, duration) in ops {
            let name = builder.trace.names.intern("k");
            let device = builder.device(if start % 2 == 0 { "0" } else { "1" }, "");
            let (start, duration) = (Ns(start), Ns(duration));
            let op = GpuOp { start, duration, name, device, stream: 0, process, kind: OpKind::Kernel };
            builder.trace.gpu_ops.push(op, None);
        }
        for &(start, duration) in calls {
            let name = builder.trace.calls.names.intern("cudaStreamSynchronize");
            builder.add_call(Span { start: Ns(start), duration: Ns(duration), name, thread }, None);
        }
        builder.finish()
    }

    proptest! {
        #[test]
        fn it_is_what_counting_every_nanosecond_gives(
            ops in prop::collection::vec((0_i64..60, 0_i64..20), 1..8),
            calls in prop::collection::vec((-5_i64..70, 0_i64..25), 0..8),
        ) {
            let trace = trace(&ops, &calls);
            let within = |spans: &[(i64, i64)], now: i64| spans.iter().any(|span| span.0 <= now && now < span.0 + span.1);
            let first = ops.iter().map(|op| op.0).min().unwrap();
            let last = ops.iter().map(|op| op.0 + op.1).max().unwrap();
            let want = (first..last).filter(|&now| within(&calls, now) && !within(&ops, now)).count();
            prop_assert_eq!(Context::new(&trace, 1).survey().idle_while_blocked, Ns(want as i64));
        }
    }
}
