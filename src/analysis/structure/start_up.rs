//! The start of each process that is seen starting: how long it lasts, what it loads, and what follows. From the
//! [`StartUps`](crate::trace::StartUps) of the trace; one pass over the ops and one over the gaps of their devices.
//!
//! What follows is the workload: its GPU time and idle time are counted from the end of the start, so that sentences
//! about the workload need not count the start.

use super::steps::Steps;
use crate::analysis::context::Context;
use crate::analysis::host::idle_cause::{IdleCause, each_gap};
use crate::analysis::host::load_words::{LoadThresholds, LoadWords};
use crate::analysis::labels;
use crate::analysis::section::{Answer, At, Ms, Sections, Stated, TypedSection, Value, first_op, section};
use crate::ordering;
use crate::trace::{CODE_IS_BUILT, DeviceId, GpuOp, Ns, OpKind, ProcessId, StartUp, StartUps, Trace};
use crate::words::start_up as words;

section! {
    /// The start of each process that is seen starting, with a row for each of its devices.
    pub(crate) struct StartUpTimes("start_up", "Start of the program");
    row StartUpRow {
        pid: Value,
        device_id: Value = "Device",
        /// Until when the process starts.
        steady_from_ns: At,
        /// From the first event of the process.
        length_ms: Ms,
        /// From the first event of the process to its last.
        process_ms: Ms,
        loading_ms: Ms,
        loads: u64,
        largest_loads: String,
        steps_left_out: usize,
        /// Whole steps that begin after the start.
        steps_after: usize,
        /// Ops that start before the end of the start, and the others.
        ops_before: u64,
        ops_after: u64,
        /// The same for the durations of kernels. Copies before the end are mostly the upload of the model.
        kernels_before_ms: Ms = "Kernel time before",
        kernels_after_ms: Ms = "Kernel time after",
        /// From the end of the start to the end of the last op, without work of before the capture.
        window_after_ms: Ms,
        busy_after_ms: Ms,
        host_late_after_ms: Ms = "Host late after",
        drained_after_ms: Ms,
        unknown_after_ms: Ms = "Unknown after",
        compiling_after_ms: Ms,
    }
    figures StartUpFigures {
        first_op_ns: Stated<At>,
        /// Pairs of a process and a device on which it runs ops, also of processes that are not seen starting.
        process_devices: usize,
    }
}

/// The names of loads that a row has.
const MAX_NAMES: usize = 3;

/// The section, if a process is seen starting within the trace or window.
pub(crate) fn start_up(context: &Context) -> Option<Answer<StartUpTimes>> {
    let starts = context.trace.starts()?;
    let from = context.trace.cut.map_or(Ns(i64::MIN), |cut| cut.window.start);
    if starts.processes.iter().all(|start| start.steady_from <= from) {
        return None;
    }
    let pairs = process_devices(context.trace);
    let lanes = work_around(context, starts, &pairs);
    let steps = context.measured_steps().counts_around_starts(starts);
    let answer = StartUpTimes::answer("calls and ranges that load or warm up, and first launches of kernels")
        .limit(
            "A process is seen starting if it loads code or creates a context before or in its first launch of a kernel. \
             Its start ends with the load after which the loads, minus a tenth of the time since the first of them, are largest. \
             (patterns/start_up.json)",
        )
        .limit(
            "Loading is the time in which at least one thread of the process loads. Largest loads: their durations by \
             name may overlap.",
        )
        .limit(
            "Steps that begin before the end of the start are left out of all figures of steps, if a step of the process \
             follows.",
        )
        .with_figures(StartUpFigures {
            first_op_ns: first_op(context.trace),
            process_devices: pairs.len(),
        });
    let row = |lane: &Lane| {
        let steps = steps.get(&lane.start.process).copied().unwrap_or_default();
        Some(row(context.trace, lane, lane.work.as_ref()?, steps))
    };
    Some(answer.with_rows(lanes.iter().filter_map(row)))
}

/// `steps` are those that are left out, and those after the start.
fn row(trace: &Trace, lane: &Lane, work: &WorkAround, steps: (usize, usize)) -> StartUpRow {
    let start = lane.start;
    let after = |cause: IdleCause| work.idle_after.get(cause as usize).copied().unwrap_or_default();
    StartUpRow {
        pid: labels::pid(trace, start.process),
        device_id: labels::device(trace, lane.device),
        steady_from_ns: At(start.steady_from),
        length_ms: start.steady_from.since(start.first_event).into(),
        process_ms: start.last_event.since(start.first_event).into(),
        loading_ms: start.load.into(),
        loads: start.loads,
        largest_loads: start.largest.iter().take(MAX_NAMES).map(words::load).collect::<Vec<_>>().join(", "),
        steps_left_out: steps.0,
        steps_after: steps.1,
        ops_before: work.before.ops,
        ops_after: work.after.ops,
        kernels_before_ms: work.before.kernels.into(),
        kernels_after_ms: work.after.kernels.into(),
        window_after_ms: work.last_end.since(start.steady_from).max(Ns::ZERO).since(after(IdleCause::Unseen)).into(),
        busy_after_ms: work.busy_after.into(),
        host_late_after_ms: after(IdleCause::HostLate).into(),
        drained_after_ms: after(IdleCause::Drained).into(),
        unknown_after_ms: after(IdleCause::Unknown).into(),
        compiling_after_ms: after(IdleCause::Compiling).into(),
    }
}

/// Ops and the durations of the kernels among them.
#[derive(Debug, Clone, Copy, Default)]
struct OpSums {
    ops: u64,
    kernels: Ns,
}

/// The work of one process on one device.
#[derive(Debug, Clone, Copy, Default)]
struct WorkAround {
    /// Ops that start before the end of the start, and the others.
    before: OpSums,
    after: OpSums,
    /// Time with work after the end of the start.
    busy_after: Ns,
    /// Idle time after the end of the start, by [`IdleCause`].
    idle_after: [Ns; IdleCause::ALL.len()],
    last_end: Ns,
}

/// The processes with the devices on which they run ops, sorted.
fn process_devices(trace: &Trace) -> Vec<(ProcessId, DeviceId)> {
    let mut has_ops = vec![false; trace.gpu_ops.owners().count()];
    for row in 0..trace.gpu_ops.len() {
        let lane = trace.gpu_ops.stream_index(row);
        lane.and_then(|lane| has_ops.get_mut(lane)).into_iter().for_each(|has_op| *has_op = true);
    }
    let with_ops = trace.gpu_ops.owners().zip(has_ops).filter(|(_, has_ops)| *has_ops);
    let mut pairs: Vec<(ProcessId, DeviceId)> = with_ops.map(|((device, process), _)| (process, device)).collect();
    ordering::sort_by_key(&mut pairs, |pair| *pair);
    pairs.dedup();
    pairs
}

/// The work of a start on one of its devices.
struct Lane<'a> {
    start: &'a StartUp,
    device: DeviceId,
    /// `None` before the first op.
    work: Option<WorkAround>,
}

/// The lanes with ops of the starts, sorted by process and device as `pairs` are.
fn work_around<'a>(context: &Context, starts: &'a StartUps, pairs: &[(ProcessId, DeviceId)]) -> Vec<Lane<'a>> {
    let trace = context.trace;
    let from = trace.cut.map_or(Ns(i64::MIN), |cut| cut.window.start);
    let lane = |(process, device): &(ProcessId, DeviceId)| {
        let start = starts.of(*process).filter(|start| start.steady_from > from)?;
        Some(Lane { start, device: *device, work: None })
    };
    let mut lanes: Vec<Lane> = pairs.iter().filter_map(lane).collect();
    let lane_of = |(device, process): (DeviceId, ProcessId)| {
        lanes.binary_search_by_key(&(process, device), |lane| (lane.start.process, lane.device)).ok()
    };
    let lanes_of_ops: Vec<Option<usize>> = trace.gpu_ops.owners().map(lane_of).collect();
    let lane_of_row = |row: usize| lanes_of_ops.get(trace.gpu_ops.stream_index(row)?).copied().flatten();
    for (row, op) in trace.gpu_ops.iter().enumerate() {
        let Some(lane) = lane_of_row(row).and_then(|lane| lanes.get_mut(lane)) else { continue };
        lane.work.get_or_insert_with(|| WorkAround::new(lane.start)).add(lane.start, &op);
    }
    each_gap(context, &mut |gap, parts| {
        let lane = lane_of_row(gap.next_row).and_then(|lane| lanes.get_mut(lane));
        let Some(Lane { start, work: Some(work), .. }) = lane else { return };
        let mut at = gap.start;
        for (cause, length) in parts.0 {
            let after = at.after(length).since(at.max(start.steady_from)).max(Ns::ZERO);
            at = at.after(length);
            work.idle_after.get_mut(cause as usize).into_iter().for_each(|time| *time += after);
        }
    });
    lanes
}

impl WorkAround {
    fn new(start: &StartUp) -> Self {
        Self { last_end: start.steady_from, ..Self::default() }
    }

    fn add(&mut self, start: &StartUp, op: &GpuOp) {
        let sum = if op.start < start.steady_from { &mut self.before } else { &mut self.after };
        sum.ops += 1;
        if op.kind == OpKind::Kernel {
            sum.kernels += op.duration;
        }
        self.busy_after += op.end().since(op.start.max(self.last_end)).max(Ns::ZERO);
        self.last_end = self.last_end.max(op.end());
    }
}

/// The start of the program in a report, for sentences: that of its rows that lasts longest, and sums over the devices.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SaidStart {
    /// Index of the longest start in the section.
    pub(crate) row: usize,
    /// Of the longest start.
    pub(crate) steady_from_ns: At,
    pub(crate) length_ms: f64,
    pub(crate) process_ms: f64,
    pub(crate) loading_ms: f64,
    pub(crate) largest_loads: String,
    /// The shares of the ops and of the kernel time that follow.
    pub(crate) followed_ops_pct: f64,
    pub(crate) followed_kernels_pct: f64,
    /// After the start, without work of before the capture.
    pub(crate) window_after_ms: f64,
    pub(crate) busy_after_ms: f64,
    pub(crate) host_late_after_ms: f64,
    pub(crate) drained_after_ms: f64,
    pub(crate) unknown_after_ms: f64,
    pub(crate) compiling_after_ms: f64,
    /// Whole steps that begin after the start.
    steps_after: usize,
    has_steps: bool,
}

impl SaidStart {
    /// `None` if the loads take too little time to be mentioned, or if a process with GPU work is not seen starting.
    pub(crate) fn of(sections: &Sections) -> Option<Self> {
        // The page's first module has no sections of starts.
        if !CODE_IS_BUILT {
            return None;
        }
        let rows = StartUpTimes::rows(sections);
        if Some(rows.len()) != StartUpTimes::figures(sections).map(|figures| figures.process_devices) {
            return None;
        }
        let is_said = |row: &StartUpRow| 100.0 * row.loading_ms.0 >= thresholds().min_said_pct * row.process_ms.0;
        let said = rows.iter().enumerate().filter(|(_, row)| row.loading_ms.0 > 0.0 && is_said(row));
        let (row, longest) = said.max_by(|(_, a), (_, b)| a.length_ms.0.total_cmp(&b.length_ms.0))?;
        let sum = |part: fn(&StartUpRow) -> Ms| rows.iter().fold(0.0, |sum, row| sum + part(row).0);
        let ops = |part: fn(&StartUpRow) -> u64| rows.iter().map(part).sum::<u64>() as f64;
        let share = |before: f64, after: f64| if before + after > 0.0 { 100.0 * after / (before + after) } else { 0.0 };
        let of_kernels = share(sum(|row| row.kernels_before_ms), sum(|row| row.kernels_after_ms));
        let of_ops = share(ops(|row| row.ops_before), ops(|row| row.ops_after));
        Some(Self {
            row,
            steady_from_ns: longest.steady_from_ns,
            length_ms: longest.length_ms.0,
            process_ms: longest.process_ms.0,
            loading_ms: longest.loading_ms.0,
            largest_loads: longest.largest_loads.clone(),
            followed_ops_pct: of_ops,
            followed_kernels_pct: of_kernels,
            window_after_ms: sum(|row| row.window_after_ms),
            busy_after_ms: sum(|row| row.busy_after_ms),
            host_late_after_ms: sum(|row| row.host_late_after_ms),
            drained_after_ms: sum(|row| row.drained_after_ms),
            unknown_after_ms: sum(|row| row.unknown_after_ms),
            compiling_after_ms: sum(|row| row.compiling_after_ms),
            steps_after: rows.iter().map(|row| row.steps_after).sum(),
            has_steps: Steps::filled(sections).is_some(),
        })
    }

    /// The mean of both shares: many tiny ops are no workload, and neither is one long kernel of a warm-up all there is.
    fn followed_pct(&self) -> f64 {
        f64::midpoint(self.followed_ops_pct, self.followed_kernels_pct)
    }

    /// Whether the capture shows little but the start: no step, few ops and little kernel time follow.
    pub(crate) fn is_cold(&self) -> bool {
        self.steps_after == 0 && self.followed_pct() < thresholds().max_followed_pct
    }

    /// Whether what follows is the workload: a step, or most of the kernel time of a capture without steps. Else the
    /// whole capture is judged.
    pub(crate) fn is_followed(&self) -> bool {
        self.steps_after > 0 || !self.has_steps && self.followed_kernels_pct >= thresholds().max_followed_pct
    }
}

fn thresholds() -> LoadThresholds {
    LoadWords::embedded().thresholds
}

#[cfg(test)]
#[path = "start_up_tests.rs"]
mod tests;
