//! The kinds of steps that no annotation or kernel names: [`Stage::KindA`] and the following, by what the steps run.
//!
//! Two steps are of one kind if they launch the same kernels: the counts of each kernel name, compared as weighted sets (Jaccard
//! index). Steps with the same kernels are of different kinds if the work of all their kernels differs: a prefill runs many kernels of a
//! decode, but each takes longer. The size of a step is the median over its kernel names of how long a launch takes, compared with the
//! first step of the kind, so one slow kernel changes nothing. Sorted sizes are divided where the next one is a multiple.
//! A step at the edge of the capture, or one whose launches the profiler lost, lacks ops: it belongs to a kind that contains the others.
//!
//! If all steps are of one kind, they keep [`Stage::All`]. Thresholds are in `patterns/inference.json`. O(ops + steps x names x kinds);
//! the number of kinds is bounded.

use crate::analysis::measure::percentiles::median;
use crate::analysis::structure::stages::{HostStep, Stage};
use crate::ordering::{self, VecMap};
use crate::rules::inference::thresholds;
use crate::trace::{NameId, Ns, ProcessId, Trace};
use std::cmp::Reverse;

/// The stages of kinds, from the one with most work.
const KINDS: [Stage; 3] = [Stage::KindA, Stage::KindB, Stage::KindC];
/// Steps of further sets of kernels are [`Stage::Other`], as those of further kinds.
const MAX_SETS: usize = 16;

/// Names the kinds of the steps without a stage. `step_of_op` has the index of the step of each op.
pub(crate) fn name_kinds(trace: &Trace, steps: &mut [HostStep], step_of_op: &[u32]) {
    let profiles = profiles(trace, steps, step_of_op);
    let kinds = kinds(&profiles, sets_of_kernels(&profiles));
    if kinds.len() < 2 {
        return;
    }
    let mut stages = vec![Stage::Other; profiles.len()];
    for (kind, stage) in kinds.iter().zip(KINDS) {
        kind.iter().for_each(|index| stages.get_mut(*index).into_iter().for_each(|slot| *slot = stage));
    }
    for (profile, stage) in profiles.iter().zip(stages) {
        steps.get_mut(profile.step).into_iter().for_each(|step| step.stage = stage);
    }
}

/// What a step runs.
#[derive(Debug)]
struct Profile {
    /// The index of the step.
    step: usize,
    /// Whether it is the first or the last step without a stage in its process, or the profiler lost some of its launches.
    may_lack_ops: bool,
    /// Sorted by name.
    kernels: Vec<Kernel>,
    work: Ns,
}

/// The launches of one kernel in a step.
#[derive(Debug, Clone, Copy)]
struct Kernel {
    name: NameId,
    count: u32,
    time: Ns,
}

/// The profiles of the steps without a stage that launched ops.
fn profiles(trace: &Trace, steps: &[HostStep], step_of_op: &[u32]) -> Vec<Profile> {
    let unnamed = steps.iter().enumerate().filter(|(_, step)| step.stage == Stage::All);
    let mut profiles: Vec<Profile> =
        unnamed.map(|(step, _)| Profile { step, may_lack_ops: false, kernels: Vec::new(), work: Ns::ZERO }).collect();
    if profiles.len() < 2 {
        return Vec::new();
    }
    mark_edges(&mut profiles, steps);
    mark_lost_launches(&mut profiles, trace, steps);
    let mut kernels: Vec<VecMap<NameId, (u32, Ns)>> = vec![VecMap::new(); profiles.len()];
    let mut profile_of_step = vec![usize::MAX; steps.len()];
    for (index, profile) in profiles.iter().enumerate() {
        profile_of_step.get_mut(profile.step).into_iter().for_each(|slot| *slot = index);
    }
    for (op, step) in trace.gpu_ops.iter().zip(step_of_op) {
        let Some(kernels) = profile_of_step.get(*step as usize).and_then(|index| kernels.get_mut(*index)) else {
            continue;
        };
        kernels.update(op.name, (0, Ns::ZERO), |(count, time)| {
            *count = count.saturating_add(1);
            *time += op.duration;
        });
    }
    for (profile, kernels) in profiles.iter_mut().zip(kernels) {
        let kernel = |(name, (count, time))| Kernel { name, count, time };
        profile.kernels = kernels.into_vec().into_iter().map(kernel).collect();
        profile.work = profile.kernels.iter().fold(Ns::ZERO, |sum, kernel| sum + kernel.time);
    }
    profiles.retain(|profile| !profile.kernels.is_empty());
    profiles
}

fn mark_edges(profiles: &mut [Profile], steps: &[HostStep]) {
    let process = |profile: &Profile| steps.get(profile.step).map(|step| step.range_start.0);
    let processes: Vec<Option<ProcessId>> = profiles.iter().map(process).collect();
    for (index, profile) in profiles.iter_mut().enumerate() {
        let is_other = |neighbour: Option<usize>| neighbour.and_then(|at| processes.get(at)) != processes.get(index);
        profile.may_lack_ops = is_other(index.checked_sub(1)) || is_other(Some(index + 1));
    }
}

/// Marks the steps in which the profiler lost launches.
fn mark_lost_launches(profiles: &mut [Profile], trace: &Trace, steps: &[HostStep]) {
    let start = |profile: &Profile| {
        steps.get(profile.step).filter(|step| !step.form.is_inferred()).map(|step| step.range_start)
    };
    let mut starts: Vec<((ProcessId, Ns), usize)> =
        profiles.iter().enumerate().filter_map(|(index, profile)| Some((start(profile)?, index))).collect();
    starts.sort_unstable();
    let lost = trace.unrecorded_work.launches.times(trace);
    // The last step of a process ends before the first time of the next process.
    let ends = starts.iter().skip(1).map(|(next, _)| *next).chain([(ProcessId(u32::MAX), Ns(i64::MAX))]);
    for (((process, start), index), end) in starts.iter().zip(ends) {
        let next = lost.partition_point(|(of, (_, until))| (*of, *until) <= (*process, *start));
        let is_hit = lost.get(next).is_some_and(|(of, (from, _))| of == process && (*of, *from) < end);
        profiles.get_mut(*index).into_iter().for_each(|profile| profile.may_lack_ops |= is_hit);
    }
}

/// How alike two steps are.
#[derive(Debug, Clone, Copy)]
struct Likeness {
    /// The launches that both have, of those of either.
    common_share: f64,
    /// Whether the step may lack ops, and the leader has all its launches.
    is_cut: bool,
}

impl Likeness {
    fn of(profile: &Profile, leader: &Profile) -> Self {
        let all = |profile: &Profile| profile.kernels.iter().map(|kernel| u64::from(kernel.count)).sum::<u64>();
        let common =
            pairs(&profile.kernels, &leader.kernels).map(|(a, b)| u64::from(a.count.min(b.count))).sum::<u64>();
        let either = (all(profile) + all(leader)).saturating_sub(common);
        Self {
            common_share: common as f64 / either.max(1) as f64,
            is_cut: profile.may_lack_ops && common == all(profile),
        }
    }
}

/// The kernels that two steps have in common.
fn pairs<'a>(a: &'a [Kernel], b: &'a [Kernel]) -> impl Iterator<Item = (&'a Kernel, &'a Kernel)> {
    let mut rest = b.iter().peekable();
    a.iter().filter_map(move |kernel| {
        while rest.next_if(|other| other.name < kernel.name).is_some() {}
        Some((kernel, rest.next_if(|other| other.name == kernel.name)?))
    })
}

/// The indices of the profiles that run the same kernels. The first of a set is its leader, with which the others are compared. Profiles
/// of further sets than [`MAX_SETS`] are in none.
fn sets_of_kernels(profiles: &[Profile]) -> Vec<Vec<usize>> {
    let mut sets: Vec<Vec<usize>> = Vec::new();
    // Whole steps lead, so that a cut one does not divide them.
    let (edges, whole): (Vec<_>, Vec<_>) = profiles.iter().enumerate().partition(|(_, profile)| profile.may_lack_ops);
    for (index, profile) in whole.into_iter().chain(edges) {
        match likest_set(profile, &sets, profiles) {
            Some(set) => sets.get_mut(set).into_iter().for_each(|set| set.push(index)),
            None if sets.len() < MAX_SETS => sets.push(vec![index]),
            None => {}
        }
    }
    sets
}

/// The set whose leader is most like a profile, if it is like enough.
fn likest_set(profile: &Profile, sets: &[Vec<usize>], profiles: &[Profile]) -> Option<usize> {
    let min_share = thresholds().step_kinds.min_common_launches_share.value;
    let likeness = |set: &Vec<usize>| Some(Likeness::of(profile, profiles.get(*set.first()?)?));
    let known = sets.iter().enumerate().filter_map(|(set, members)| Some((set, likeness(members)?)));
    let likest = known.max_by(|a, b| a.1.common_share.total_cmp(&b.1.common_share));
    let is_like = |likeness: &Likeness| likeness.common_share >= min_share || likeness.is_cut;
    likest.filter(|(_, likeness)| is_like(likeness)).map(|(set, _)| set)
}

/// The indices of the profiles of each kind, those with most work first.
fn kinds(profiles: &[Profile], sets: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let mut kinds: Vec<Vec<usize>> = sets.into_iter().flat_map(|set| divided_by_size(profiles, set)).collect();
    let work = |kind: &Vec<usize>| {
        let of_kind = kind.iter().filter_map(|index| profiles.get(*index));
        of_kind.fold(Ns::ZERO, |sum, profile| sum + profile.work)
    };
    ordering::sort_by_key(&mut kinds, |kind| Reverse(work(kind)));
    kinds
}

/// Divides steps with the same kernels where sizes are far apart.
fn divided_by_size(profiles: &[Profile], set: Vec<usize>) -> Vec<Vec<usize>> {
    let Some(leader) = set.first().and_then(|index| profiles.get(*index)) else { return Vec::new() };
    let size = |index: &usize| profiles.get(*index).map_or(1.0, |profile| size(profile, leader));
    let mut sized: Vec<(f64, usize)> = set.iter().map(|index| (size(index), *index)).collect();
    ordering::sort_by(&mut sized, |a, b| a.0.total_cmp(&b.0));
    let min_ratio = thresholds().step_kinds.min_size_ratio.value;
    let mut parts: Vec<Vec<usize>> = Vec::new();
    let mut last_size = f64::NAN;
    for (size, index) in sized {
        match parts.last_mut() {
            Some(part) if size < min_ratio * last_size => part.push(index),
            _ => parts.push(vec![index]),
        }
        last_size = size;
    }
    parts
}

/// How long the launches of a step take compared with those of the leader: the median over the kernel names of both.
fn size(profile: &Profile, leader: &Profile) -> f64 {
    let mean_ns = |kernel: &Kernel| kernel.time.0 as f64 / f64::from(kernel.count.max(1));
    let ratios = pairs(&profile.kernels, &leader.kernels);
    let in_millionths = |ratio: f64| (1e6 * ratio) as i64;
    let mut ratios: Vec<i64> =
        ratios.map(|(own, other)| in_millionths(mean_ns(own).max(1.0) / mean_ns(other).max(1.0))).collect();
    ratios.sort_unstable();
    median(&ratios).map_or(1.0, |ratio| ratio / 1e6)
}

#[cfg(test)]
mod tests {
    use crate::analysis::testing::rows;
    use crate::trace::testing::TestTrace;

    /// A profiler step: kernels with their names and durations in microseconds, one after the other.
    type Kernels<'a> = &'a [(&'a str, i64)];

    fn steps(steps: &[Kernels]) -> Vec<String> {
        let mut trace = TestTrace::new();
        trace.in_us();
        let mut at = 0;
        for (number, kernels) in steps.iter().enumerate() {
            let start = at;
            for (name, duration) in *kernels {
                trace.launch(at..at + 1).launches(name, at + 2..at + 2 + duration);
                at += duration + 3;
            }
            trace.range(&format!("ProfilerStep#{number}"), start..at);
        }
        rows(&trace.sections(), "steps", &["stage", "steps", "median_ns"])
    }

    const DECODE: Kernels = &[("gemv", 10), ("norm", 5), ("softmax", 5), ("gemv", 10)];
    const PREFILL: Kernels = &[("gemm_256x128", 400), ("norm", 50), ("flash", 300), ("gemm_256x128", 400)];

    #[test]
    fn steps_that_run_the_same_keep_no_stage() {
        assert_eq!(steps(&[DECODE; 5]), ["all 5 42000"]);
    }

    #[test]
    fn steps_that_run_other_kernels_are_another_kind() {
        let found = steps(&[DECODE, DECODE, PREFILL, DECODE, DECODE, DECODE]);
        assert_eq!(found, ["kind A 1 1162000", "kind B 5 42000"], "the kind with most work first");
    }

    #[test]
    fn steps_with_the_same_kernels_that_each_take_longer_are_another_kind() {
        let long = DECODE.iter().map(|(name, duration)| (*name, 4 * duration)).collect::<Vec<_>>();
        assert_eq!(steps(&[DECODE, DECODE, &long, DECODE]), ["kind A 1 132000", "kind B 3 42000"]);
    }

    #[test]
    fn one_slow_kernel_makes_no_kind() {
        let slow: Kernels = &[("gemv", 10), ("norm", 5), ("softmax", 500), ("gemv", 10)];
        assert_eq!(steps(&[DECODE, DECODE, slow, DECODE]), ["all 4 42000"]);
    }

    #[test]
    fn steps_whose_sizes_grow_evenly_are_one_kind() {
        let grown: Vec<Vec<(&str, i64)>> =
            (10..50).map(|size| DECODE.iter().map(|(name, _)| (*name, size)).collect()).collect();
        let grown: Vec<Kernels> = grown.iter().map(Vec::as_slice).collect();
        assert_eq!(steps(&grown).len(), 1);
    }

    #[test]
    fn steps_of_many_kinds_are_named_by_their_work_and_the_rest_is_other() {
        let names: Vec<String> = (0..20).map(|number| format!("kernel_{number}")).collect();
        let kinds: Vec<[(&str, i64); 1]> = names.iter().map(String::as_str).zip(100..).map(|kernel| [kernel]).collect();
        let kinds: Vec<Kernels> = kinds.iter().map(|kind| &kind[..]).collect();
        let found = steps(&kinds);
        // Kernels take 100 to 119 us, steps 3 us more. The sets of the steps after the first are told apart, up to 116 us, and the three
        // with most work have a name. The others that reach the next step take 103 to 116, 120 and 121 us: their middle is 110.5 us.
        assert_eq!(found, ["kind A 1 119000", "kind B 1 118000", "kind C 1 117000", "other 17 110500"]);
    }

    /// Six steps of four launches, of which the last two of the third step and the first two of the fourth have no ops.
    #[test]
    fn a_step_whose_launches_the_profiler_lost_belongs_to_its_kind() {
        let mut trace = TestTrace::new();
        trace.in_us();
        for at in (0..24).map(|launch| 25 * launch) {
            if at % 100 == 0 {
                trace.range(&format!("ProfilerStep#{}", at / 100), at..at + 100);
            }
            trace.launch(at..at + 1);
            if !(250..350).contains(&at) {
                trace.launches(DECODE[at as usize / 25 % 4].0, at + 2..at + 20);
            }
        }
        let mut trace = trace.finish();
        crate::session::find_unrecorded_work(&mut trace);
        let run = crate::analysis::testing::analyze(&trace);
        assert_eq!(crate::analysis::testing::rows_of(&run.sections["steps"], &["stage", "steps"]), ["all 6"]);
    }

    #[test]
    fn a_step_that_the_end_of_the_capture_cuts_belongs_to_its_kind() {
        assert_eq!(steps(&[DECODE, DECODE, DECODE, &DECODE[..1]]), ["all 4 42000"]);
    }
}
