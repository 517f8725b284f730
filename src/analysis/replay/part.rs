//! The part of a trace that is replayed: all of it, or of a large trace the ops in its middle. O(1), plus O(k) for `k` ops of the part.
//!
//! A server repeats its steps, so a part of [`PART_EVENTS`] ops and calls says as much of a step as hours of it, and the cost of the
//! replay is bounded.

use crate::ordering;
use crate::rules::signals::{CallKind, Signals};
use crate::trace::{GraphReplay, HostInterval, Ns, ProcessId, ThreadId, Trace, Window};

/// A trace with no more ops and calls together is replayed as a whole.
pub(super) const MAX_EVENTS: usize = 65_536;
/// Of a larger one this many. The replay of a large trace takes a small part of the time and memory of reading it.
const PART_EVENTS: usize = 16_384;

/// The part of a trace that is replayed.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    /// The process.
    pub(super) process: ProcessId,
    /// Rows of its first op and of the one after its last.
    pub(super) ops: std::ops::Range<usize>,
    /// The time of its calls.
    pub(super) host: Window,
    /// Whether it is not the whole trace.
    pub(super) is_cut: bool,
    /// By thread of the trace: it is one of the process, and launches.
    launching: Vec<bool>,
    /// By thread of the trace: it is one of the process, waits for the GPU, and launches nothing.
    helping: Vec<bool>,
}

impl Part {
    /// `None` for a trace without GPU ops or calls.
    pub(super) fn of(trace: &Trace) -> Option<Self> {
        let process = main_process(trace)?;
        let (ops, calls) = (trace.gpu_ops.len(), trace.calls.len());
        let is_cut = ops.saturating_add(calls) > MAX_EVENTS;
        let count = if is_cut { (PART_EVENTS as u128 * ops as u128 / (ops + calls) as u128) as usize } else { ops };
        let first = ops.saturating_sub(count) / 2;
        let rows = first..first.saturating_add(count).min(ops);
        let launching = launching_threads(trace, process);
        let helping = helping_threads(trace, process, &launching);
        let all = Window { start: Ns(i64::MIN), end: Ns(i64::MAX) };
        let host = if is_cut { host_window(trace, &rows)? } else { all };
        Some(Self { process, ops: rows, host, is_cut, launching, helping })
    }

    /// Whether a thread of the process launches.
    pub(super) fn launches(&self, thread: ThreadId) -> bool {
        self.launching.get(thread.0 as usize) == Some(&true)
    }

    /// Whether a thread of the process waits for the GPU and launches nothing, such as one that hands results on.
    pub(super) fn helps(&self, thread: ThreadId) -> bool {
        self.helping.get(thread.0 as usize) == Some(&true)
    }

    /// Whether a graph that was traced as a whole is in the part.
    pub(super) fn has_replay(&self, replay: &GraphReplay) -> bool {
        replay.launch.is_some() && replay.start >= self.host.start && replay.start < self.host.end
    }

    /// Whether an interval of a thread that launches or waits for the GPU overlaps the time of the calls.
    pub(super) fn overlaps(&self, time: &HostInterval) -> bool {
        time.start <= self.host.end
            && time.end >= self.host.start
            && (self.launches(time.thread) || self.helps(time.thread))
    }
}

/// The process with most GPU time.
fn main_process(trace: &Trace) -> Option<ProcessId> {
    let mut times: ordering::VecMap<ProcessId, i64> = ordering::VecMap::new();
    for op in trace.gpu_ops.iter() {
        times.update(op.process, 0, |time| *time = time.saturating_add(op.duration.0));
    }
    let most = times.into_vec().into_iter().max_by_key(|(process, time)| (*time, std::cmp::Reverse(*process)));
    most.map(|(process, _)| process)
}

fn launching_threads(trace: &Trace, process: ProcessId) -> Vec<bool> {
    let mut launching = vec![false; trace.threads.len()];
    let of_replays = trace.graph_replays.iter().filter_map(|replay| replay.launch);
    let launches = trace.gpu_ops.launches().flatten().chain(of_replays);
    for call in launches.filter_map(|call| trace.calls.get(call.0 as usize)) {
        let of_process = trace.threads.get(call.thread.0 as usize).is_some_and(|thread| thread.process == process);
        launching
            .get_mut(call.thread.0 as usize)
            .filter(|_| of_process)
            .into_iter()
            .for_each(|launches| *launches = true);
    }
    launching
}

/// The threads of the process that wait for the GPU and launch nothing. One pass over the calls.
fn helping_threads(trace: &Trace, process: ProcessId, launching: &[bool]) -> Vec<bool> {
    let signals = Signals::embedded();
    let synchronizes: Vec<bool> =
        trace.calls.names.iter().map(|name| signals.call(name) == CallKind::Synchronize).collect();
    let mut helping = vec![false; trace.threads.len()];
    let waits = trace.calls.iter().filter(|call| synchronizes.get(call.name.0 as usize) == Some(&true));
    for thread in waits.map(|call| call.thread.0 as usize) {
        let of_process = trace.threads.get(thread).is_some_and(|thread| thread.process == process);
        let launches = launching.get(thread) == Some(&true);
        helping.get_mut(thread).filter(|_| of_process && !launches).into_iter().for_each(|helps| *helps = true);
    }
    helping
}

/// From the first launch of the ops to the last start of one.
fn host_window(trace: &Trace, rows: &std::ops::Range<usize>) -> Option<Window> {
    let last = trace.gpu_ops.get(rows.end.checked_sub(1)?)?;
    let launches = rows.clone().filter_map(|row| trace.calls.start(trace.gpu_ops.launch(row)?.0 as usize));
    let first = launches.min()?;
    Some(Window { start: first, end: last.start.max(first) })
}
