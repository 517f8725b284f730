//! Idle gaps of each device by the launch that ended them: preparation of a graph replay, late eager launch, or turnaround
//! between eager ops. One pass over the ops, O(n).

use crate::analysis::context::Context;
use crate::analysis::host::idle_cause::{CauseRules, IdleCause, IdleTimes};
use crate::analysis::time::gaps::GapSweep;
use crate::analysis::time::work::{Class, Work, each_work};
use crate::rules::signals::CallKind;
use crate::trace::{Ns, OpKind};

/// Number, sum and maximum of some gaps.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Gaps {
    pub(super) count: u64,
    pub(super) total: Ns,
    pub(super) longest: Ns,
}

impl Gaps {
    fn add(&mut self, length: Ns) {
        self.add_all(Self { count: 1, total: length, longest: length });
    }

    fn add_all(&mut self, more: Self) {
        self.count += more.count;
        self.total += more.total;
        self.longest = self.longest.max(more.longest);
    }
}

/// The gaps of one device.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LaunchGaps {
    /// Launched late, around replays of graphs: only a few eager kernels lie between it and a replay.
    pub(super) preparation: Gaps,
    /// Launched late, in eager work.
    pub(super) eager: Gaps,
    /// Launched late after so long a pause that a serving engine probably had no requests.
    pub(super) pauses: Gaps,
    /// Launched in time, but short: the turnaround between eager ops.
    pub(super) turnaround: Gaps,
    pub(super) kernel_time: Ns,
    /// Kernel time that graph replays launched.
    pub(super) replayed: Ns,
    pub(super) eager_kernels: u64,
    /// Eager kernels below the threshold of a short kernel.
    pub(super) short_kernels: u64,
}

impl LaunchGaps {
    /// The part of the late gaps that `some` of them are.
    pub(super) fn share_of_late(&self, some: Gaps) -> f64 {
        let late = self.preparation.total + self.eager.total + self.pauses.total;
        if late > Ns::ZERO { some.total.0 as f64 / late.0 as f64 } else { 0.0 }
    }

    pub(super) fn replayed_share(&self) -> f64 {
        if self.kernel_time > Ns::ZERO { self.replayed.0 as f64 / self.kernel_time.0 as f64 } else { 0.0 }
    }
}

/// The sweep over one device.
#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    sums: LaunchGaps,
    /// Late gaps since the last replay.
    pending: Gaps,
    /// Eager kernels since the last replay.
    pending_kernels: u64,
    /// Gaps after blocking calls.
    drained: Gaps,
    /// A replay was visited.
    has_replay: bool,
}

impl Lane {
    /// Assigns the late gaps since the last replay. A few kernels around replays prepare a replay or sample tokens; many
    /// kernels are eager work.
    fn end_pending(&mut self, max_preparation_kernels: u64) {
        let is_preparation = self.has_replay && self.pending_kernels <= max_preparation_kernels;
        let sum = if is_preparation { &mut self.sums.preparation } else { &mut self.sums.eager };
        sum.add_all(self.pending);
        (self.pending, self.pending_kernels) = (Gaps::default(), 0);
    }
}

/// Returns the gaps by device. `is_engine` is true for serving engines, which may have no requests for a while.
pub(super) fn launch_gaps(context: &Context, is_engine: bool) -> Vec<LaunchGaps> {
    let trace = context.trace;
    let thresholds = &context.signals.thresholds;
    let ns = |us: f64| Ns((us * 1e3).round() as i64);
    let (pause, short) = (ns(thresholds.launcher_idle_us), ns(thresholds.short_kernel_us));
    let max_preparation_kernels = thresholds.max_preparation_kernels as u64;
    let mut lanes = vec![Lane::default(); trace.devices.len()];
    let mut sweep = GapSweep::new(trace);
    let rules = CauseRules::new(context, context.blocking());
    let mut idle = vec![IdleTimes::new(); trace.devices.len()];
    each_work(context, &mut |work: Work| {
        let gap = sweep.add(&work);
        let (Some(lane), Some(idle)) = (lanes.get_mut(work.device), idle.get_mut(work.device)) else { return };
        let is_replayed = work.class == Class::Replay || is_replay(context, work.row);
        if let Some(gap) = gap
            && let Some(parts) = idle.add(&rules, &gap)
        {
            let late = parts.length_of(IdleCause::HostLate);
            if parts.main() == IdleCause::Drained {
                lane.drained.add(parts.length_of(IdleCause::Drained));
            }
            if late > pause && is_engine {
                lane.sums.pauses.add(late);
            } else if late > Ns::ZERO {
                lane.pending.add(late);
            } else if parts.main() == IdleCause::Turnaround && !is_replayed {
                lane.sums.turnaround.add(gap.length());
            }
        }
        let op = trace.gpu_ops.get(work.row).filter(|op| op.kind == OpKind::Kernel);
        if let Some(op) = op {
            lane.sums.kernel_time += op.duration;
        }
        if is_replayed {
            lane.has_replay = true;
            lane.end_pending(max_preparation_kernels);
            lane.sums.replayed += op.map_or(Ns::ZERO, |op| op.duration);
        } else if let Some(op) = op {
            lane.pending_kernels += 1;
            lane.sums.eager_kernels += 1;
            lane.sums.short_kernels += u64::from(op.duration < short);
        }
    });
    let finished = lanes.into_iter().zip(&idle).map(|(mut lane, idle)| {
        if !idle.is_host_ever_ahead() {
            lane.pending.add_all(lane.drained);
        }
        lane.end_pending(max_preparation_kernels);
        lane.sums
    });
    finished.collect()
}

/// True if the launch of the op in this row is that of a graph.
fn is_replay(context: &Context, row: usize) -> bool {
    let trace = context.trace;
    let call = trace.gpu_ops.launch(row).and_then(|call| trace.calls.get(call.0 as usize));
    call.is_some_and(|call| context.call_kind(call.name) == CallKind::GraphLaunch)
}
