//! The clause about the critical path: what a step is made of, and how much shorter it is without what bounds it. O(rows of the path).

use super::bound::Bound;
use super::causes::{has_waits, is_inflated};
use super::sentences::{Sentences, Subject};
use crate::analysis::replay::cause::Cause;
use crate::analysis::replay::costs::{Costs, PathGroup};
use crate::analysis::replay::sections::CriticalPathRows;
use crate::analysis::section::{Fraction, Ms, TypedSection};
use crate::words::verdict::path as words;

/// The maximum number of parts in the sentence.
const MAX_PARTS: usize = 4;
/// Smaller parts are left out.
const MIN_PART: f64 = 0.02;

/// `; bound by the host, without which a step is 53.2 % shorter: the critical path is 61.3 % host and 38.7 % GPU work`.
pub(super) fn path(subject: &Subject, costs: &Costs, bound: Bound, text: &mut Sentences) {
    let path = words::Path {
        // The start of the program is told already.
        first_uses: first_uses(costs).filter(|_| subject.times.start().is_none()),
        stage: costs.has_several_stages().then(|| costs.main.label()),
        is_step: costs.has_steps,
    };
    let words = if bound == Bound::Compute && host_leads(costs) {
        let [without_host, without_gpu] =
            [Cause::Host, Cause::GpuWork].map(|cause| Fraction(costs.share_saved(cause)[1]));
        words::equally_fast(path, without_host, without_gpu)
    } else {
        words::parts(path, bound_of_path(subject, costs, bound), &parts(costs))
    };
    text.push(words, Some((CriticalPathRows::SPEC.name, None)));
}

fn bound_of_path(subject: &Subject, costs: &Costs, bound: Bound) -> Option<words::BoundOfPath> {
    // What bounds the rest of a capture that is mostly first uses is not its bound.
    if costs.first_uses_ms > costs.step_ms {
        return None;
    }
    match bound {
        Bound::Host if is_inflated(subject.run) => Some(words::BoundOfPath::InflatedHost(shorter(costs, Cause::Host))),
        Bound::Host => Some(match costs.share_saved_alone(Cause::Host) {
            Some(alone) => words::BoundOfPath::HostOfOneRank(shorter(costs, Cause::Host), Fraction(alone)),
            None => words::BoundOfPath::Host(shorter(costs, Cause::Host)),
        }),
        Bound::Communication => {
            let shorter = shorter(costs, Cause::Communication);
            Some(match has_waits(subject.run) {
                true => words::BoundOfPath::WaitingCommunication(shorter),
                false => words::BoundOfPath::Communication(shorter),
            })
        }
        _ => None,
    }
}

/// The time before the replayed window, if it is worth a word.
fn first_uses(costs: &Costs) -> Option<words::FirstUses> {
    costs.has_first_uses().then_some(words::FirstUses { first_uses: Ms(costs.first_uses_ms), rest: Ms(costs.step_ms) })
}

fn parts(costs: &Costs) -> Vec<(&'static str, Fraction)> {
    let groups = costs.groups().into_iter().filter(|(_, share)| *share >= MIN_PART).take(MAX_PARTS);
    groups.map(|(group, share)| (group.words(), Fraction(share))).collect()
}

/// Whether the host has most of the path. It can be on the path all the time, with the GPU right behind it.
fn host_leads(costs: &Costs) -> bool {
    let is_host = |group: PathGroup| matches!(group, PathGroup::Host | PathGroup::Unrecorded);
    costs.groups().first().is_some_and(|(group, _)| is_host(*group))
}

/// What is saved without a cause; a range if the trace leaves it open.
fn shorter(costs: &Costs, cause: Cause) -> words::Shorter {
    let [least, most] = costs.share_saved(cause);
    match most - least < MIN_PART {
        true => words::Shorter::By(Fraction(least)),
        false => words::Shorter::Between(Fraction(least), Fraction(most)),
    }
}
