//! The clause about the critical path: what a step is made of, and how much shorter it is without what bounds it. O(rows of the path).

use super::{Bound, percent};
use crate::analysis::labels::{format_time, stage_words};
use crate::analysis::replay::cause::Cause;
use crate::analysis::replay::costs::{Costs, PathGroup};

/// The maximum number of parts in the sentence.
const MAX_PARTS: usize = 4;
/// Smaller parts are left out.
const MIN_PART: f64 = 0.02;

/// What limits the clause.
#[derive(Debug, Clone, Copy)]
pub(super) struct Doubts {
    /// One step that is captured alone with Python stacks proves no bound by the host.
    pub(super) is_inflated: bool,
    /// Communication may wait for other ranks.
    pub(super) may_wait: bool,
    /// The start of the program is told already.
    pub(super) is_after_start: bool,
}

/// `; bound by the host, without which a step is 53.2 % shorter: the critical path is 61.3 % host and 38.7 % GPU work`.
pub(super) fn words(costs: &Costs, bound: Bound, doubts: Doubts) -> String {
    let first_uses = if doubts.is_after_start { None } else { first_uses(costs) }.unwrap_or_default();
    if let Some(beside) = beside(costs, bound) {
        return format!("; {first_uses}{beside}");
    }
    format!(
        "; {first_uses}{}the critical path{} is {}",
        bound_by(costs, bound, doubts).unwrap_or_default(),
        of_stage(costs),
        parts(costs),
    )
}

fn bound_by(costs: &Costs, bound: Bound, doubts: Doubts) -> Option<String> {
    // What bounds the rest of a capture that is mostly first uses is not its bound.
    if costs.first_uses_ms > costs.step_ms {
        return None;
    }
    let what = work(costs);
    match bound {
        Bound::Host if doubts.is_inflated => Some(format!(
            "without the host, whose time a short capture with Python stacks inflates, {what} is {} shorter: ",
            shorter(costs, Cause::Host)
        )),
        Bound::Host => Some(match costs.share_saved_alone(Cause::Host) {
            // One rank does not show whether the others have the same cause.
            Some(alone) => format!(
                "bound by the host: without it {what} is {} shorter if the other ranks change too, and {} if only this one \
                 does: ",
                shorter(costs, Cause::Host),
                percent(alone)
            ),
            None => format!("bound by the host, without which {what} is {} shorter: ", shorter(costs, Cause::Host)),
        }),
        Bound::Communication if doubts.may_wait => Some(format!(
            "without communication, which may wait for other ranks, {what} is {} shorter: ",
            shorter(costs, Cause::Communication)
        )),
        Bound::Communication => Some(format!(
            "bound by communication, without which {what} is {} shorter: ",
            shorter(costs, Cause::Communication)
        )),
        _ => None,
    }
}

/// Whether first uses are told apart from the replayed window.
pub(super) fn has_first_uses(costs: &Costs) -> bool {
    costs.first_uses_ms > MIN_PART * costs.step_ms
}

/// The capture has more than the replayed window, which begins after the first uses.
fn first_uses(costs: &Costs) -> Option<String> {
    has_first_uses(costs).then(|| {
        let [first_uses, rest] = [costs.first_uses_ms, costs.step_ms].map(format_time);
        format!("first uses, such as loading code, end after {first_uses}; in the {rest} from then on ")
    })
}

/// ` of decode`, if the steps are of several stages.
fn of_stage(costs: &Costs) -> String {
    let stage = stage_words(costs.main.label());
    if costs.has_several_stages() && !stage.is_empty() { format!(" of {stage}") } else { String::new() }
}

fn parts(costs: &Costs) -> String {
    let groups = costs.groups().into_iter().filter(|(_, share)| *share >= MIN_PART).take(MAX_PARTS);
    joined(&groups.map(|(group, share)| format!("{} {}", percent(share), group.words())).collect::<Vec<_>>())
}

/// The host can be on the path all the time, with the GPU right behind it. Then the parts of the path say little.
fn beside(costs: &Costs, bound: Bound) -> Option<String> {
    let is_host = |group: PathGroup| matches!(group, PathGroup::Host | PathGroup::Unrecorded);
    let host_leads = costs.groups().first().is_some_and(|(group, _)| is_host(*group));
    (bound == Bound::Compute && host_leads).then(|| {
        let [host, gpu] = [Cause::Host, Cause::GpuWork].map(|cause| percent(costs.share_saved(cause)[1]));
        format!(
            "host and GPU are about equally fast: {}{} is at most {gpu} shorter without GPU work, and at most {host} without the host",
            work(costs),
            of_stage(costs)
        )
    })
}

fn work(costs: &Costs) -> &'static str {
    if costs.has_steps { "a step" } else { "the work" }
}

/// `53.2 %`, or `40.1 to 53.2 %` if the trace leaves that open.
fn shorter(costs: &Costs, cause: Cause) -> String {
    let [least, most] = costs.share_saved(cause);
    if most - least < MIN_PART { percent(least) } else { format!("{:.1} to {}", 100.0 * least, percent(most)) }
}

/// `a, b and c`.
fn joined(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}
