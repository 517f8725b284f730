//! What blocking calls cost the GPU: a thread that waits while the GPU works costs nothing.

use super::Context;
use super::intervals::{Windows, Work};
use crate::trace::Ns;

/// Time within calls that block their thread, and the work of all devices in it; work is to be seen by start.
pub(super) struct Blocked {
    windows: Windows,
    /// Windows before this one are past.
    at: usize,
    /// Time in windows in which something works.
    working: Ns,
    /// First start and last end of all work.
    seen: Option<(Ns, Ns)>,
}

impl Blocked {
    pub(super) fn of(context: &Context) -> Self {
        Self { windows: context.host().blocked.clone(), at: 0, working: Ns::ZERO, seen: None }
    }

    pub(super) fn see(&mut self, work: &Work) {
        let (first, reach) = self.seen.unwrap_or((work.start, work.start));
        let from = reach.max(work.start);
        if work.end > from {
            self.work(from, work.end);
        }
        self.seen = Some((first, reach.max(work.end)));
    }

    /// Something works from here to there; pieces come in order and do not overlap.
    fn work(&mut self, from: Ns, to: Ns) {
        while let Some(&(start, end)) = self.windows.get(self.at).filter(|window| window.0 < to) {
            self.working += end.min(to).since(start.max(from)).max(Ns::ZERO);
            if end > to {
                break;
            }
            self.at += 1;
        }
    }

    /// First start and last end of the work since it was asked last, and the time in windows in which some of it was going on.
    pub(super) fn take(&mut self) -> Option<(Ns, Ns, Ns)> {
        let (first, last) = self.seen.take()?;
        Some((first, last, std::mem::take(&mut self.working)))
    }
}

/// Time in which a thread is blocked and no device works, between the first and the last work, of which as much goes on while
/// a thread is blocked.
pub(super) fn idle(context: &Context, work: Option<(Ns, Ns, Ns)>) -> Ns {
    let Some((first, last, working)) = work else { return Ns::ZERO };
    let inside = |(start, end): &(Ns, Ns)| (*end).min(last).since((*start).max(first)).max(Ns::ZERO);
    let all = context.host().blocked.iter().map(inside).fold(Ns::ZERO, |sum, time| sum + time);
    all.since(working)
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
            builder.call(Span { start: Ns(start), duration: Ns(duration), name, thread }, None);
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
