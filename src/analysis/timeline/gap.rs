//! An idle gap in detail: what ended before it and what came after, the call that launched this, what its thread ran meanwhile, how
//! often gaps have this cause, and the findings about it. A pass over the gaps and steps of the trace.

use super::call_tree::{CallRow, CallTree};
use super::cases::label_text;
use super::idle_bars::IdleBar;
use super::moment::{LinkKind, Moment};
use super::table_row::TableRow;
use super::{LaneKind, Place, StepBar, Timeline};
use crate::analysis::findings::FindingId;
use crate::analysis::labels;
use crate::analysis::section::{Section, Value};
use crate::analysis::structure::stages::time_between;
use crate::analysis::time::work::launch_of;
use crate::trace::{DeviceId, HostInterval, Ns, ThreadId, Trace};
use crate::words::timeline as words;

const CODE_COLUMNS: [&str; 4] = ["code", "total_time_ns", "self_time_ns", "self_share_of_gap_pct"];
/// Functions and ops of a gap.
const MAX_CODE_ROWS: usize = 20;
/// Callers of the code of a gap.
const MAX_CALLERS: usize = 3;

/// Gaps and their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Gaps {
    count: u64,
    time: Ns,
}

impl Gaps {
    fn of<'a>(gaps: impl Iterator<Item = &'a IdleBar>) -> Self {
        gaps.fold(Self::default(), |sum, gap| Self { count: sum.count + 1, time: sum.time + gap.length() })
    }
}

impl Timeline {
    pub(super) fn describe_gap(&self, trace: &Trace, device: DeviceId, gap: &IdleBar, moment: &mut Moment) {
        moment.name = gap.name();
        moment.findings = FindingId::of_cause(gap.cause).map(FindingId::word).collect();
        let device_label = label_text(&labels::device(trace, device));
        moment.row = Some(TableRow::new("gpu_idle", "Idle time by cause", "device_id", device_label));
        let mut section = Section::new("", "", &CODE_COLUMNS);
        section.summary = std::mem::take(&mut moment.section.summary);
        section.figure("device_id", labels::device(trace, device));
        section.figure("op_before", work_name(trace, gap.previous_row()));
        section.figure("op_after", work_name(trace, gap.next_row()));
        moment.launch = self.place_of_work(trace, gap.next_row());
        moment.link(LinkKind::OpBefore, self.place_of_work(trace, gap.previous_row()));
        let call_id = launch_of(trace, gap.next_row()).map(|call| call.0 as usize);
        let call = call_id.and_then(|call| trace.calls.get(call));
        if let (Some(call_id), Some(call)) = (call_id, call) {
            let lane = self.lane(LaneKind::Calls(call.thread));
            let kind = if gap.late_until(trace).is_some() { LinkKind::LateCall } else { LinkKind::CallOfOpAfter };
            moment.link(kind, lane.and_then(|lane| self.place(trace, lane, call_id)));
            section.figure("launch_call", trace.calls.names.get(call.name));
            section.figure("launch_call_duration_ns", call.duration);
            section.figure("launched_after_ns", call.end().since(gap.start).max(Ns::ZERO));
        }
        moment.link(LinkKind::OpAfter, moment.launch);
        self.describe_cause(trace, device, gap, &mut section, moment);
        if let Some(call) = call {
            describe_code(trace, gap, call.thread, &mut section);
        }
        moment.section = section;
    }

    /// How often gaps of the device have this cause: in the whole trace, and in a step.
    fn describe_cause(
        &self,
        trace: &Trace,
        device: DeviceId,
        gap: &IdleBar,
        section: &mut Section,
        moment: &mut Moment,
    ) {
        let gaps = self.gaps(trace).of_device(device);
        let is_same = |other: &&IdleBar| other.cause == gap.cause;
        let same = Gaps::of(gaps.iter().filter(is_same));
        section.figure("gaps_of_this_cause", same.count);
        section.figure("total_of_this_cause_ns", same.time);
        if gap.is_idle() {
            let idle = Gaps::of(gaps.iter().filter(|gap| gap.is_idle())).time;
            section.figure("share_of_idle_time_pct", Value::pct(same.time, idle));
        }
        let of_before = self.gaps(trace).of_before().get(device.0 as usize).filter(|_| gap.is_idle());
        let of_before = of_before.map_or(Ns::ZERO, |intervals| time_between(intervals, self.gpu.start, self.gpu.end));
        section.figure("share_of_the_trace_pct", Value::pct(same.time, self.gpu.length().since(of_before)));
        let is_of_device = |step: &&StepBar| step.device.is_none_or(|of| of == device);
        let steps = || self.steps(trace).iter().filter(is_of_device);
        let (Some(first), Some(last)) = (steps().map(|step| step.start).min(), steps().map(|step| step.until).max())
        else {
            return;
        };
        let is_in_steps = |other: &&IdleBar| (first..last).contains(&other.start);
        let (in_steps, count) = (Gaps::of(gaps.iter().filter(is_same).filter(is_in_steps)), steps().count() as f64);
        section.figure("steps", steps().count());
        section.figure("gaps_of_this_cause_per_step", in_steps.count as f64 / count);
        section.figure("time_of_this_cause_per_step_ns", Ns((in_steps.time.0 as f64 / count).round() as i64));
        moment.link(LinkKind::Step, self.step_at(trace, device, gap.start));
    }

    /// The step of a device around a time.
    fn step_at(&self, trace: &Trace, device: DeviceId, time: Ns) -> Option<Place> {
        let (row, step) = self.step_around(trace, device, time)?;
        self.place(trace, self.lane(LaneKind::Steps(step.device))?, row)
    }

    /// An op, or a graph that was traced as a whole; see [`crate::analysis::time::work::Work::row`].
    pub(super) fn place_of_work(&self, trace: &Trace, row: usize) -> Option<Place> {
        let Some(replay) = row.checked_sub(trace.gpu_ops.len()) else { return self.place_of_op(trace, row) };
        let device = trace.graph_replays.get(replay)?.device;
        self.place(trace, self.lane(LaneKind::Graphs(device))?, replay)
    }
}

fn work_name(trace: &Trace, row: usize) -> Value {
    match (trace.gpu_ops.get(row), row.checked_sub(trace.gpu_ops.len())) {
        (Some(op), _) => labels::kernel(trace, op.name),
        (None, Some(replay)) if replay < trace.graph_replays.len() => "CUDA graph, traced as a whole".into(),
        (None, _) => Value::Null,
    }
}

/// What the launching thread ran in a gap, until it launched the next work if it was late: its functions and ops as a tree.
fn describe_code(trace: &Trace, gap: &IdleBar, thread: ThreadId, section: &mut Section) {
    let late_until = gap.late_until(trace);
    let interval = HostInterval { thread, start: gap.start, end: late_until.unwrap_or(gap.end) };
    let tree = CallTree::of(trace, interval, MAX_CODE_ROWS);
    if tree.rows.is_empty() {
        return;
    }
    section.title = words::code_in_gap(late_until.is_some());
    let length = gap.length();
    section.figure("traced_code_ns", tree.total);
    section.figure("traced_code_pct", Value::pct(tree.total, length));
    let callers: Vec<&str> = tree.callers.iter().rev().take(MAX_CALLERS).copied().collect();
    if !callers.is_empty() {
        section.figure("called_by", callers.join(" ‹ "));
    }
    section.rows_in_all = tree.rows_in_all as u64;
    for CallRow { name, depth, total, own } in tree.rows {
        section.row([words::called(name, depth).into(), total.into(), own.into(), Value::pct(own, length)]);
    }
}
