//! One pass over the API calls: launches per process, time in blocking calls, gaps between the launches of a
//! thread. Several sections read the result. O(n) for n calls sorted by start.

use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::measure::longest::{EventKind, Longest};
use crate::analysis::measure::tally::{Tallies, Tally, key};
use crate::analysis::measure::union::added_to_union;
use crate::rules::signals::CallKind;
use crate::trace::{Ns, OpKind, Span};

/// Calls that [`HostCalls::longest`] keeps.
const LONGEST_KEPT: usize = 50;

/// Sums over all API calls.
#[derive(Debug)]
pub(crate) struct HostCalls {
    /// Time in all calls, summed over all threads; a driver call nested in a runtime call is not counted twice.
    pub(crate) total: Ns,
    /// By process.
    pub(crate) launches: Vec<Launches>,
    /// Synchronizing calls that block, under [`key`] of process and name.
    pub(crate) synchronizing: Tallies,
    /// Time in these calls; a driver call nested in a runtime call is not counted twice.
    pub(crate) synchronizing_time: Ns,
    /// Copies that block by their name, or because their call returned after the copy had ended; under [`key`] of zero and
    /// name.
    pub(crate) copying: Tallies,
    /// Calls that do not block, although their names suggest it.
    pub(crate) non_blocking: Tally,
    pub(crate) gaps: LauncherGaps,
    /// The longest blocking calls; the row is that of the call.
    pub(crate) longest: Longest,
}

/// Number of launch calls of a process.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Launches {
    /// Launches of kernels and of graphs.
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
            synchronizing: Tallies::with_table(processes, names),
            synchronizing_time: Ns::ZERO,
            copying: Tallies::with_table(1, names),
            non_blocking: Tally::default(),
            gaps: LauncherGaps::default(),
            longest: Longest::new(LONGEST_KEPT),
        };
        // By thread: the latest end of its calls, and of its synchronising calls, so far.
        let mut in_calls_until: Vec<Option<Ns>> = vec![None; trace.threads.len()];
        let mut covered_until = in_calls_until.clone();
        let mut nesting = NestedCalls::of(trace.threads.len());
        let mut gap_sweep = LauncherGapSweep::of(context);
        for (row, whole) in trace.calls.iter().enumerate() {
            let kind = context.call_kind(whole.name);
            let process = trace.threads.get(whole.thread.0 as usize).map_or(u32::MAX, |thread| thread.process.0);
            let is_nested = nesting.is_nested(whole, kind);
            let is_launch = matches!(kind, CallKind::Launch | CallKind::GraphLaunch) && !is_nested;
            let blocks = matches!(kind, CallKind::Synchronize | CallKind::CopyBlocking);
            if is_launch && let Some(launches) = host.launches.get_mut(process as usize) {
                launches.all += 1;
                launches.graphs += u64::from(kind == CallKind::GraphLaunch);
            }
            if is_launch || blocks {
                gap_sweep.add(whole, is_launch, &mut host.gaps);
            }
            let Some(call) = trace.in_window(whole) else { continue };
            if let Some(in_calls_until) = in_calls_until.get_mut(call.thread.0 as usize) {
                host.total += added_to_union(in_calls_until, call.start, call.end());
            }
            match kind {
                CallKind::Synchronize => {
                    host.synchronizing.add(key(process, call.name.0), call.duration);
                    if let Some(covered_until) = covered_until.get_mut(call.thread.0 as usize) {
                        host.synchronizing_time += added_to_union(covered_until, call.start, call.end());
                    }
                }
                CallKind::CopyBlocking if !is_nested => host.copying.add(key(0, call.name.0), call.duration),
                CallKind::DoesNotBlock => host.non_blocking.add(call.duration),
                _ => {}
            }
            if blocks && !is_nested {
                host.longest.offer(call.duration, call.start, EventKind::Call, row);
            }
        }
        host.add_waited_copies(context);
        host
    }

    /// Adds the calls of asynchronous copies that waited for their copy.
    fn add_waited_copies(&mut self, context: &ClassifiedTrace) {
        let trace = context.trace;
        for row in 0..trace.gpu_ops.len() {
            if let Some(copy) = waited_copy(context, row)
                && let Some(call) = trace.in_window(copy)
            {
                self.copying.add(key(0, call.name.0), call.duration);
            }
        }
    }
}

/// The call of an asynchronous copy from or to pageable memory that returned after the copy in this row had ended.
fn waited_copy(context: &ClassifiedTrace, row: usize) -> Option<Span> {
    let trace = context.trace;
    let copy = trace.gpu_ops.get(row).filter(|op| op.kind == OpKind::Copy)?;
    let call = trace.calls.get(trace.gpu_ops.launch(row)?.0 as usize)?;
    let waited = context.call_kind(call.name) == CallKind::CopyAsync
        && (call.start..=call.end()).contains(&copy.end())
        && trace.names.get(copy.name).contains("Pageable");
    waited.then_some(call)
}

/// Tells which calls are part of the call around them: a driver call in a runtime call of the same kind, or the call of a
/// versioned name in the one without a version, such as `cudaMemcpy_v3020` in `cudaMemcpy`. Takes the calls sorted by start.
struct NestedCalls {
    /// By thread: kind and end of the call that is not nested and began last.
    outer: Vec<Option<(CallKind, Ns)>>,
}

impl NestedCalls {
    fn of(threads: usize) -> Self {
        Self { outer: vec![None; threads] }
    }

    fn is_nested(&mut self, call: Span, kind: CallKind) -> bool {
        let Some(outer) = self.outer.get_mut(call.thread.0 as usize) else { return false };
        let is_nested = outer.is_some_and(|(outer_kind, end)| outer_kind == kind && call.end() <= end);
        if !is_nested {
            *outer = Some((kind, call.end()));
        }
        is_nested
    }
}

/// Times in which a thread that launches work neither launched nor was blocked in a call.
#[derive(Debug, Default)]
pub(crate) struct LauncherGaps {
    pub(crate) gaps: Tally,
    /// Gaps longer than the idle threshold: the program had nothing to launch.
    pub(crate) idle: Tally,
}

/// The sweep over launches and blocking calls that finds the launcher gaps of each thread.
struct LauncherGapSweep {
    threads: Vec<Launcher>,
    /// Shorter pauses are not counted.
    min_gap: Ns,
    /// Longer pauses are counted as idle.
    max_gap: Ns,
}

#[derive(Debug, Clone, Copy)]
struct Launcher {
    /// The latest end of its launches and blocking calls.
    busy_until: Option<Ns>,
    /// Time since its last launch in which it was not blocked; `None` before its first launch.
    pause: Option<Ns>,
}

impl LauncherGapSweep {
    fn of(context: &ClassifiedTrace) -> Self {
        let thresholds = &context.signals.thresholds;
        let ns = |us: f64| Ns((us * 1e3).round() as i64);
        let threads = vec![Launcher { busy_until: None, pause: None }; context.trace.threads.len()];
        Self { threads, min_gap: ns(thresholds.launcher_gap_us), max_gap: ns(thresholds.launcher_idle_us) }
    }

    fn add(&mut self, call: Span, is_launch: bool, found: &mut LauncherGaps) {
        let Some(Launcher { busy_until, pause }) = self.threads.get_mut(call.thread.0 as usize) else { return };
        let gap = busy_until.map_or(Ns::ZERO, |until| call.start.since(until).max(Ns::ZERO));
        added_to_union(busy_until, call.start, call.end());
        *pause = pause.map(|pause| pause + gap);
        if !is_launch {
            return;
        }
        let length = pause.replace(Ns::ZERO).unwrap_or(Ns::ZERO);
        if length > self.max_gap {
            found.idle.add(length);
        } else if length >= self.min_gap {
            found.gaps.add(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::analysis::context::Context;
    use crate::analysis::host::barriers;
    use crate::analysis::structure::ranges;
    use crate::analysis::testing::*;
    use crate::analysis::time::longest_events;
    use crate::trace::testing::TestTrace;

    /// A blocking copy that starts before the window and ends after it, and a launch before the window.
    #[test]
    fn host_times_of_a_window_are_cut_at_its_ends() {
        let mut trace = TestTrace::nsys();
        trace.range("step", 0..1_000).launch(50..60).launches("k", 610..620);
        trace.call("cudaMemcpy", 100..900).launches("[CUDA memcpy Device-to-Host]", 500..600);
        let part = trace.window(480..640);
        let context = Context::new(&part, 30);
        let barriers = barriers::barriers(&context).section();
        let copying = row(&barriers, "api_name", "cudaMemcpy");
        assert_eq!((number(copying, "count"), number(copying, "total_time_ms")), (1.0, 0.000_16));
        assert_eq!(number(&longest_events::timeline_events(&context).section().summary, "total_cpu_time_ms"), 0.000_16);
        assert_eq!(number(&ranges::nvtx_ranges(&context).section().rows[0], "total_time_ms"), 0.000_16);
    }

    #[test]
    fn a_call_inside_of_its_unversioned_twin_is_counted_once() {
        let mut trace = TestTrace::nsys();
        for (outer, inner, at) in [
            ("cudaLaunchKernel", "cuLaunchKernel", 0),
            ("cudaMemcpy", "cudaMemcpy_v3020", 100),
            ("cudaStreamSynchronize", "cuStreamSynchronize", 200),
        ] {
            trace.call(outer, at..at + 50).call(inner, at + 10..at + 40);
        }
        trace.kernel("k", 20..30);
        let sections = trace.sections();
        assert_eq!(number(&sections["timeline_events"].summary, "total_cpu_time_ms"), 0.000_15);
        assert_eq!(number(&sections["launch_storm"].summary, "host_launches"), 1.0);
        let copies = rows_of(&sections["barriers"], &["api_name", "count"]);
        assert!(copies.contains(&"cudaMemcpy 1".to_owned()), "{copies:?}");
        assert!(!copies.iter().any(|row| row.starts_with("cudaMemcpy_v3020")), "{copies:?}");
    }
}
