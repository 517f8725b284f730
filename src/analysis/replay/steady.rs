//! The window that is explained: the steady steps of the process. From the steps of the report and the first uses; O(n + s log n).
//!
//! On the GPU a step lasts from the last end of the ops that were launched before it to the last end of those launched until the next
//! one. So the steps of the window follow each other without a gap, and host code between two steps counts. Where a serving engine has no
//! request, a run of steps ends; the window is the run with most steps. A step with more than 2 % of first uses is not steady. Without steps, the window begins after the first uses, if a fifth of the ops is left; else the capture is
//! a cold start.

use super::graph::{EdgeKind, Graph};
use super::ids::{Call, Id, Lane, Op};
use super::recorded::Recorded;
use super::start_up::FirstUses;
use crate::analysis::structure::stages::Stage;
use crate::trace::Ns;

/// A step is steady with at most this share of first uses, and so is a window.
const MAX_FIRST_USES: f64 = 0.02;
/// The least number of ops of a window without steps.
const MIN_OPS: usize = 8;
/// More unexplained time before the first op of the trace is work of before.
const WORK_BEFORE: Ns = Ns(1_000_000);

/// A step of the report: when the host begins it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct HostStep {
    pub(super) start: Ns,
    /// The end of its own host code, at least.
    pub(super) end: Ns,
    /// The engine has no request after it.
    pub(super) ends_run: bool,
    pub(super) stage: Stage,
}

/// A step of the window on the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct WindowStep {
    pub(super) stage: Stage,
    /// When the host begins it.
    pub(super) host_start: Ns,
    /// When the last op launched before it ends; for the first step of the window its start.
    pub(super) start: Ns,
    pub(super) end: Ns,
}

/// What the window is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WindowKind {
    /// Steady steps.
    Steps,
    /// All after the first uses.
    AfterStart,
    /// The whole trace, without first uses to speak of.
    Whole,
    /// The whole trace: mostly first uses.
    ColdStart,
}

/// The window.
#[derive(Debug, Clone)]
pub(super) struct Steady {
    pub(super) start: Ns,
    pub(super) end: Ns,
    pub(super) kind: WindowKind,
    /// Empty without steps.
    pub(super) steps: Vec<WindowStep>,
    /// The window begins where a step ends, so the time until its first op belongs to it.
    pub(super) follows_step: bool,
}

/// Sums over the launches, for the last end of the ops launched before a time.
struct Launches {
    starts: Vec<Ns>,
    ends: Vec<Ns>,
    /// The last end of the ops that were launched before the trace begins.
    before_trace: Option<Ns>,
}

impl Launches {
    fn of(recorded: &Recorded) -> Self {
        let before_trace = launched_before_trace(recorded);
        let (mut starts, mut ends, mut latest) = (Vec::new(), Vec::new(), before_trace.unwrap_or(Ns(i64::MIN)));
        for (id, call) in recorded.calls.iter() {
            if let Some(op) = recorded.last_op(id) {
                latest = latest.max(recorded.op(op).end);
                starts.push(call.start);
                ends.push(latest);
            }
        }
        Self { starts, ends, before_trace }
    }

    fn before(&self, time: Ns) -> usize {
        self.starts.partition_point(|start| *start < time)
    }

    /// The last end of the ops launched before a time.
    fn done(&self, time: Ns) -> Option<Ns> {
        let last = self.before(time).checked_sub(1);
        last.map_or(self.before_trace, |last| self.ends.get(last).copied())
    }
}

/// The last end of the ops without a launch that their stream runs before all its ops with one, if it has any.
fn launched_before_trace(recorded: &Recorded) -> Option<Ns> {
    let last_before = |lane: usize| {
        let ops = recorded.on_lane.of(Lane::of(lane));
        let first = ops.iter().position(|op| recorded.op(*op).call.is_some())?;
        ops.get(..first)?.iter().map(|op| recorded.op(*op).end).max()
    };
    (0..recorded.lanes).filter_map(last_before).max()
}

impl Steady {
    pub(super) fn of(
        recorded: &Recorded,
        graph: &Graph,
        first_uses: &FirstUses,
        steps: &[HostStep],
        beginning: Ns,
    ) -> Option<Self> {
        let last = recorded.by_end.last()?.0;
        let mut steady = steps_window(recorded, first_uses, steps)
            .unwrap_or_else(|| window_without_steps(recorded, first_uses, beginning, last));
        steady.leave_out_work_before(recorded, graph, first_uses);
        (steady.end > steady.start).then_some(steady)
    }

    /// If the first op waits long for nothing that is recorded, the GPU still did work of before the trace.
    fn leave_out_work_before(&mut self, recorded: &Recorded, graph: &Graph, first_uses: &FirstUses) {
        let time = |lane: &Lane| -> i64 {
            recorded.on_lane.of(*lane).iter().map(|op| recorded.op(*op).duration().0).fold(0, i64::saturating_add)
        };
        let lanes = (0..recorded.lanes).map(Lane::of);
        let busiest = lanes.max_by_key(|lane| (time(lane), std::cmp::Reverse(*lane)));
        let Some(first) = busiest.and_then(|lane| recorded.on_lane.of(lane).first()).copied() else { return };
        let node = graph.start_of_op(first);
        let is_launch = graph.edges.at(graph.binding.at(node)).kind == EdgeKind::Launch;
        let is_first_use = recorded.op(first).call.is_some_and(|call| first_uses.is_first(call));
        let start = recorded.op(first).start;
        if is_launch
            && graph.unexplained.at(node) > WORK_BEFORE
            && !is_first_use
            && start < self.end
            && start > self.start
        {
            self.start = start;
            for step in &mut self.steps {
                (step.start, step.end) = (step.start.max(start), step.end.max(start));
            }
        }
    }
}

fn steps_window(recorded: &Recorded, first_uses: &FirstUses, steps: &[HostStep]) -> Option<Steady> {
    let launches = Launches::of(recorded);
    let next_start =
        |index: usize, step: &HostStep| steps.get(index + 1).filter(|_| !step.ends_run).map(|next| next.start);
    let rows: Vec<(HostStep, Ns)> = steps
        .iter()
        .enumerate()
        .map(|(index, step)| (*step, next_start(index, step).unwrap_or_else(|| step.end.max(step.start + Ns(1)))))
        .filter(|(step, next)| launches.before(*next) > launches.before(step.start))
        .collect();
    let runs = rows.chunk_by(|(step, _), _| !step.ends_run);
    let rows = runs.max_by_key(|run| (run.len(), std::cmp::Reverse(run.first().map(|(step, _)| step.start))))?;
    let is_steady =
        |(step, next): &(HostStep, Ns)| is_small(first_uses.time_in(step.start, *next), next.since(step.start));
    let first = rows.iter().position(is_steady)?;
    let last = rows.iter().rposition(is_steady)?;
    let rows_before = rows.get(..first).unwrap_or_default();
    let rows = rows.get(first..=last)?;
    let begin = rows.first()?.0.start;
    let follows_step = rows_before.last().is_some_and(|(_, next)| *next == begin);
    let start = launches.done(begin).filter(|done| *done > begin || follows_step).unwrap_or(begin);
    let mut at = start;
    let mut found = Vec::with_capacity(rows.len());
    for (step, next) in rows {
        let end = launches.done(*next)?.max(at);
        found.push(WindowStep { stage: step.stage, host_start: step.start, start: at, end });
        at = end;
    }
    (at > start).then_some(Steady { start, end: at, kind: WindowKind::Steps, steps: found, follows_step })
}

fn is_small(part: Ns, whole: Ns) -> bool {
    part.0 as f64 <= MAX_FIRST_USES * whole.0 as f64
}

fn window_without_steps(recorded: &Recorded, first_uses: &FirstUses, beginning: Ns, last: Ns) -> Steady {
    let whole = Steady { start: beginning, end: last, kind: WindowKind::Whole, steps: Vec::new(), follows_step: false };
    if is_small(first_uses.time_in(beginning, last), last.since(beginning)) {
        return whole;
    }
    let is_steady = |end: &Ns| *end < last && is_small(first_uses.time_in(*end, last), last.since(*end));
    let start = first_uses.ends().find(is_steady).filter(|start| {
        let left = recorded.ops.values().iter().filter(|op| op.start >= *start).count();
        left >= MIN_OPS.max(recorded.ops.len() / 5)
    });
    match start {
        Some(start) => Steady { start, kind: WindowKind::AfterStart, ..whole },
        None => Steady { kind: WindowKind::ColdStart, ..whole },
    }
}

/// The call with which a step begins, for steps that no host range marks: the launch of its first op.
pub(super) fn first_launch(recorded: &Recorded, start: Ns) -> Option<Call> {
    let first = recorded.ops.values().partition_point(|op| op.start < start);
    (first..recorded.ops.len()).map(Op::of).find_map(|op| recorded.op(op).call)
}

/// The end of the last call that launches ops of a step, which begin in this time. O(ops of the step).
pub(super) fn last_launch_end(recorded: &Recorded, (start, end): (Ns, Ns)) -> Option<Ns> {
    let first = recorded.ops.values().partition_point(|op| op.start < start);
    let ops = recorded.ops.values().get(first..)?.iter().take_while(|op| op.start < end);
    ops.filter_map(|op| op.call).map(|call| recorded.call(call).end).max()
}
