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
/// Host and GPU are about equally fast if what is saved without each differs by at most this part of a step.
const MAX_DIFFERENCE: f64 = 0.1;
/// What is saved of the mean step is told if it differs by this part from what is saved of the median step.
const MIN_MEAN_DIFFERENCE: f64 = 0.05;

/// `; bound by the host, without which a step is 53.2 % shorter: the critical path is 61.3 % host and 38.7 % GPU work`.
pub(super) fn path(subject: &Subject, costs: &Costs, bound: Bound, text: &mut Sentences) {
    let path = words::Path {
        // The start of the program is told already.
        first_uses: first_uses(costs).filter(|_| subject.times.start().is_none()),
        stage: costs.has_several_stages().then(|| costs.main.label()),
        is_step: costs.has_steps,
    };
    let words = match bound {
        Bound::Uneven => uneven(path, costs),
        Bound::Compute if host_leads(costs) => host_and_gpu(path, costs),
        _ => words::parts(path, bound_of_path(subject, costs, bound), &parts(costs)),
    };
    text.push(words, Some((CriticalPathRows::SPEC.name, None)));
}

/// What is saved at most without host and GPU work, which are on the path by turns.
fn host_and_gpu(path: words::Path, costs: &Costs) -> String {
    let causes = [Cause::Host, Cause::GpuWork];
    let [without_host, without_gpu] = causes.map(|cause| most(costs.share_saved(cause)));
    let is_equal = [Costs::share_saved, Costs::share_saved_of_mean].into_iter().all(|share_saved| {
        let [host, gpu] = causes.map(|cause| most(share_saved(costs, cause)).0);
        (host - gpu).abs() <= MAX_DIFFERENCE
    });
    words::host_and_gpu(path, without_host, without_gpu, is_equal)
}

/// The same of the causes that bound the median and the mean step, for both.
fn uneven(path: words::Path, costs: &Costs) -> String {
    let causes = [costs.lead(), costs.lead_of_mean()];
    let names = causes.map(|cause| match cause {
        Cause::Host => words::Without::Host,
        Cause::Communication => words::Without::Communication,
        _ => words::Without::GpuWork,
    });
    let median = causes.map(|cause| most(costs.share_saved(cause)));
    let mean = causes.map(|cause| most(costs.share_saved_of_mean(cause)));
    words::uneven(path, names, median, mean)
}

fn most([_, most]: [f64; 2]) -> Fraction {
    Fraction(most)
}

fn bound_of_path(subject: &Subject, costs: &Costs, bound: Bound) -> Option<words::BoundOfPath> {
    // What bounds the rest of a capture that is mostly first uses is not its bound.
    if costs.first_uses_ms > costs.step_ms {
        return None;
    }
    match bound {
        Bound::Host if is_inflated(subject.run) => Some(words::BoundOfPath::InflatedHost(shorter(costs, Cause::Host))),
        Bound::Host => Some(match costs.share_saved_alone(Cause::Host) {
            Some(alone) => words::BoundOfPath::HostOfOneRank(of_all_ranks(costs, Cause::Host), Fraction(alone)),
            None => words::BoundOfPath::Host(shorter(costs, Cause::Host)),
        }),
        Bound::Communication => {
            let shorter = shorter(costs, Cause::Communication);
            // One rank alone does not show what is a transfer.
            let may_wait = has_waits(subject.run) || matches!(shorter.median, words::Range::Between(..));
            Some(match may_wait {
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
    let mut parts: Vec<_> = groups.map(|(group, share)| (group, Fraction(share))).collect();
    let leads = parts.first().is_some_and(|(group, _)| *group == PathGroup::Communication);
    let words = |group: PathGroup| match group {
        PathGroup::Communication if leads && is_open(costs) => words::COMMUNICATION_OR_WAITS,
        other => other.words(),
    };
    parts.drain(..).map(|(group, share)| (words(group), share)).collect()
}

/// Whether the file leaves open how much of communication waits for other ranks: a notable part is no transfer for certain.
fn is_open(costs: &Costs) -> bool {
    let [least, most] = costs.share_saved(Cause::Communication);
    most == 0.0 || most - least >= MIN_PART
}

/// What is saved without a cause on all ranks, if the others arrive at least as much earlier.
fn of_all_ranks(costs: &Costs, cause: Cause) -> words::Shorter {
    words::Shorter { median: range(costs.share_saved_on_all_ranks(cause)), ..shorter(costs, cause) }
}

/// Whether the host has most of the path. It can be on the path all the time, with the GPU right behind it.
fn host_leads(costs: &Costs) -> bool {
    let is_host = |group: PathGroup| matches!(group, PathGroup::Host | PathGroup::Unrecorded);
    costs.groups().first().is_some_and(|(group, _)| is_host(*group))
}

/// What is saved without a cause; a range if the trace leaves it open.
fn shorter(costs: &Costs, cause: Cause) -> words::Shorter {
    let (median, mean) = (costs.share_saved(cause), costs.share_saved_of_mean(cause));
    let middle = |[least, most]: [f64; 2]| (least + most) / 2.0;
    let differs = (middle(median) - middle(mean)).abs() >= MIN_MEAN_DIFFERENCE;
    words::Shorter { median: range(median), mean: differs.then(|| range(mean)) }
}

fn range([least, most]: [f64; 2]) -> words::Range {
    match most - least < MIN_PART {
        true => words::Range::Exactly(Fraction(least)),
        false => words::Range::Between(Fraction(least), Fraction(most)),
    }
}
