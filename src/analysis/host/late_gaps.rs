//! The idle gaps of a GPU in which the host was late, with the time in which the launching thread did something else. One
//! sweep over the GPU ops. The rules are those of [`idle_cause`](super::idle_cause).

use super::blocking_calls::BlockingCalls;
use super::idle_cause::{CauseRules, IdleCause, IdleTimes};
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::time::gaps::GapSweep;
use crate::analysis::time::work::each_work;
use crate::ordering::sorted_indices;
use crate::trace::{Format, HostInterval, MAX_LATE_INTERVALS, Ns, Trace};

/// Late launches below this share of the GPU's time are not looked up.
const MIN_SHARE: f64 = 0.05;

/// A gap in which the host was late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LateGap {
    /// The index of the device.
    pub(crate) device: usize,
    /// When it ends.
    pub(crate) end: Ns,
    /// [`IdleCause::HostLate`] or [`IdleCause::Drained`]; see [`LateTotals::is_host_ever_ahead`].
    pub(crate) cause: IdleCause,
    /// The part of the gap before the launch call returned, on its thread, with the pauses of the profiler in it; `None` if it is empty.
    pub(crate) interval: Option<HostInterval>,
    /// How much of the interval the profiler held the thread. That is no late time.
    pub(crate) paused: Ns,
    /// The part of the gap after the launch call returned that has the same cause.
    pub(crate) latency: Ns,
}

/// What is known after the last late gap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LateTotals {
    /// By index of the device.
    is_host_ever_ahead: Vec<bool>,
    /// The time from the first to the last op of all devices together.
    pub(crate) span: Ns,
}

impl LateTotals {
    /// If false, drained gaps of the device are late gaps: such a host is late with or without the blocking calls.
    pub(crate) fn is_host_ever_ahead(&self, device: usize) -> bool {
        self.is_host_ever_ahead.get(device) != Some(&false)
    }
}

/// Visits all gaps in which the host was late, in the order of the ops. Stores none of them: a trace has up to one per op.
pub(crate) fn each_late_gap(
    classified: &ClassifiedTrace,
    blocking: &BlockingCalls,
    visit: &mut dyn FnMut(LateGap),
) -> LateTotals {
    let trace = classified.trace;
    let rules = CauseRules::new(classified, blocking);
    let mut sweep = GapSweep::new(trace);
    let mut idle = vec![IdleTimes::new(); trace.devices.len()];
    each_work(classified, &mut |work| {
        let Some(gap) = sweep.add(&work) else { return };
        let Some(parts) = idle.get_mut(gap.device).and_then(|idle| idle.add(&rules, &gap)) else { return };
        let ((cause, start, end), [.., (after_cause, after), _]) = (parts.before_launch(&gap), parts.0);
        if !matches!(cause, IdleCause::HostLate | IdleCause::Drained) {
            return;
        }
        let paused = parts.length_of(IdleCause::Profiler);
        let end = end.after(paused);
        let call = trace.gpu_ops.launch(gap.next_row).and_then(|call| trace.calls.get(call.0 as usize));
        let interval = call.filter(|_| end > start).map(|call| HostInterval { thread: call.thread, start, end });
        let latency = if after_cause == cause { after } else { Ns::ZERO };
        visit(LateGap { device: gap.device, end: gap.end, cause, interval, paused, latency });
    });
    let spans = sweep.devices.iter().flatten().map(|device| device.last.since(device.first));
    LateTotals {
        is_host_ever_ahead: idle.iter().map(IdleTimes::is_host_ever_ahead).collect(),
        span: spans.fold(Ns::ZERO, |sum, span| sum + span),
    }
}

/// The intervals whose code is to be looked up, sorted; the longest if there are more than [`MAX_LATE_INTERVALS`]. Intervals of
/// one thread do not overlap. Empty if the format records no code, or if the host was late for less than 5 % of the time.
pub fn late_intervals(trace: &Trace) -> Vec<HostInterval> {
    if trace.format != Format::TorchProfiler || trace.calls.is_empty() {
        return Vec::new();
    }
    let classified = ClassifiedTrace::new(trace);
    let mut intervals: Vec<HostInterval> = Vec::new();
    let totals = each_late_gap(&classified, &BlockingCalls::of(&classified), &mut |gap| intervals.extend(gap.interval));
    let length = |interval: &HostInterval| interval.end.since(interval.start);
    let late = intervals.iter().map(length).fold(Ns::ZERO, |sum, length| sum + length);
    if (late.0 as f64) < MIN_SHARE * totals.span.0 as f64 {
        return Vec::new();
    }
    let rank = |index: usize| intervals.get(index).map(|interval| std::cmp::Reverse(length(interval)));
    let order = sorted_indices(intervals.len(), &|a, b| rank(a).cmp(&rank(b)));
    let mut longest: Vec<HostInterval> =
        order.into_iter().take(MAX_LATE_INTERVALS).filter_map(|index| intervals.get(index).copied()).collect();
    longest.sort_unstable();
    // One thread may launch on several devices, which wait for it at the same time.
    longest.dedup_by(|next, kept| next.thread == kept.thread && next.start < kept.end);
    longest
}
