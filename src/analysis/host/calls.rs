//! What one pass over the calls of the host tells several sections at once: what launched, what blocked and for how long.

use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::measure::longest::{EventKind, Longest};
use crate::analysis::measure::tally::{Tallies, Tally, key};
use crate::analysis::measure::union::added_to_union;
use crate::analysis::time::work::{Intervals, add_interval};
use crate::rules::signals::CallKind;
use crate::trace::{Ns, Span};

/// Calls that [`HostCalls::longest`] keeps.
const LONGEST_KEPT: usize = 50;

/// Sums over all API calls.
#[derive(Debug)]
pub(crate) struct HostCalls {
    /// Sum over all calls of all threads.
    pub(crate) total: Ns,
    /// By process.
    pub(crate) launches: Vec<Launches>,
    /// Synchronising calls that block, under [`key`] of process and name.
    pub(crate) synchronizing: Tallies,
    /// The same, each moment of a thread once: the driver's call in one of the runtime is no wait of its own.
    pub(crate) synchronizing_once: Ns,
    /// Copies that block, by name.
    pub(crate) copying: Tallies,
    /// Calls that only sound like waiting.
    pub(crate) returning: Tally,
    pub(crate) gaps: LauncherGaps,
    /// When any thread is blocked.
    pub(crate) blocked: Intervals,
    /// Blocking calls, by their places.
    pub(crate) longest: Longest,
}

/// Calls that launch; a graph is one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Launches {
    pub(crate) all: u64,
    pub(crate) graphs: u64,
}

impl HostCalls {
    pub(crate) fn of(context: &ClassifiedTrace) -> Self {
        let trace = context.trace;
        let (names, processes) = (trace.calls.names.len(), trace.processes.len());
        let mut host = Self {
            total: Ns::ZERO,
            launches: vec![Launches::default(); processes],
            synchronizing: Tallies::below(processes, names),
            synchronizing_once: Ns::ZERO,
            copying: Tallies::below(1, names),
            returning: Tally::default(),
            gaps: LauncherGaps::default(),
            blocked: Intervals::new(),
            longest: Longest::new(LONGEST_KEPT),
        };
        let (mut waited, mut launching) = (Covered::of(context), Launching::of(context));
        for (at, whole) in trace.calls.iter().enumerate() {
            let kind = context.call_kind(whole.name);
            let process = trace.threads.get(whole.thread.0 as usize).map_or(u32::MAX, |thread| thread.process.0);
            let is_launch = matches!(kind, CallKind::Launch | CallKind::GraphLaunch);
            let blocks = matches!(kind, CallKind::Synchronize | CallKind::CopyBlocking);
            if is_launch {
                let launches = host.launches.get_mut(process as usize);
                launches.into_iter().for_each(|launches| launches.add(kind));
            }
            if is_launch || blocks {
                launching.see(whole, is_launch, &mut host.gaps);
            }
            let Some(call) = trace.in_window(whole) else { continue };
            host.total += call.duration;
            match kind {
                CallKind::Synchronize => {
                    host.synchronizing.add(key(process, call.name.0), call.duration);
                    host.synchronizing_once += waited.cover(call);
                }
                CallKind::CopyBlocking => host.copying.add(key(0, call.name.0), call.duration),
                CallKind::DoesNotBlock => host.returning.add(call.duration),
                _ => {}
            }
            if blocks {
                host.longest.offer(call.duration, call.start, EventKind::Call, at);
                add_interval(&mut host.blocked, (call.start, call.end()));
            }
        }
        host
    }
}

impl Launches {
    fn add(&mut self, kind: CallKind) {
        self.all += 1;
        self.graphs += u64::from(kind == CallKind::GraphLaunch);
    }
}

/// How far each thread's time is covered by the spans seen so far, which come by start.
struct Covered(Vec<Option<Ns>>);

impl Covered {
    fn of(context: &ClassifiedTrace) -> Self {
        Self(vec![None; context.trace.threads.len()])
    }

    /// The part of the span that no earlier span of its thread covered.
    fn cover(&mut self, span: Span) -> Ns {
        let Some(until) = self.0.get_mut(span.thread.0 as usize) else { return Ns::ZERO };
        added_to_union(until, span.start, span.end())
    }
}

/// Times in which a thread that launches work neither launched nor was blocked in a call.
#[derive(Debug, Default)]
pub(crate) struct LauncherGaps {
    pub(crate) gaps: Tally,
    /// Gaps so long that the program had nothing to launch.
    pub(crate) idle: Tally,
}

/// Threads on the way from launch to launch.
struct Launching {
    threads: Vec<Launcher>,
    /// The least that is a gap.
    gap: Ns,
    /// The most that is one.
    longest: Ns,
}

#[derive(Debug, Clone, Copy)]
struct Launcher {
    /// How far its launches and blocking calls reach.
    reach: Option<Ns>,
    /// The gap that grows since its last launch; none before its first.
    growing: Option<Ns>,
}

impl Launching {
    fn of(context: &ClassifiedTrace) -> Self {
        let thresholds = &context.signals.thresholds;
        let ns = |us: f64| Ns((us * 1e3).round() as i64);
        let threads = vec![Launcher { reach: None, growing: None }; context.trace.threads.len()];
        Self { threads, gap: ns(thresholds.launcher_gap_us), longest: ns(thresholds.launcher_idle_us) }
    }

    fn see(&mut self, call: Span, is_launch: bool, found: &mut LauncherGaps) {
        let Some(Launcher { reach, growing }) = self.threads.get_mut(call.thread.0 as usize) else { return };
        let gap = reach.map_or(Ns::ZERO, |reach| call.start.since(reach).max(Ns::ZERO));
        added_to_union(reach, call.start, call.end());
        *growing = growing.map(|growing| growing + gap);
        if !is_launch {
            return;
        }
        let length = growing.replace(Ns::ZERO).unwrap_or(Ns::ZERO);
        if length > self.longest {
            found.idle.add(length);
        } else if length >= self.gap {
            found.gaps.add(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::context::Context;
    use crate::analysis::host::barriers;
    use crate::analysis::structure::ranges;
    use crate::analysis::testing::*;
    use crate::analysis::time::longest_events;
    use crate::trace::Window;

    /// A copy that blocks from before the window until behind it, and a launch in it.
    #[test]
    fn of_a_window_host_time_is_what_lies_in_it() {
        let mut small = Small::new();
        let process = small.process(1);
        small.call(process, "cudaMemcpy", 100, 900, Some(1));
        small.op_of(process, 0, 7, "[CUDA memcpy Device-to-Host]", 500, 600, Some(1));
        small.call(process, "cudaLaunchKernel", 50, 60, Some(2));
        small.op_of(process, 0, 7, "k", 610, 620, Some(2));
        let thread = small.0.thread(process, 9);
        let name = small.0.trace.ranges.names.intern("step");
        small.0.trace.ranges.push(Span { start: Ns(0), duration: Ns(1_000), name, thread });
        let part = small.0.finish().within(Window { start: Ns(480), end: Ns(640) });
        let context = Context::new(&part, 30);
        let barriers = barriers::barriers(&context);
        let copying = row(&barriers, "api_name", "cudaMemcpy");
        assert_eq!((number(copying, "count"), number(copying, "total_time_ms")), (1.0, 0.000_16));
        assert_eq!(number(&longest_events::timeline_events(&context).summary, "total_cpu_time_ms"), 0.000_16);
        assert_eq!(number(&ranges::nvtx_ranges(&context).rows[0], "total_time_ms"), 0.000_16);
        assert_eq!(context.survey().idle_while_blocked, Ns(10));
    }
}
