//! Computes how each rank of a job spent its time from its log and the matched collectives. Linear in the number of calls.

use super::compute;
use super::experts::set_expert_times;
use super::jobs::{JobGroup, Member};
use super::lateness::{Delay, Lateness, lateness};
use super::log::{KERNEL_COLUMNS, TIME_COLUMNS};
use super::matching::{OperationCalls, match_notes, unmatched_notes};
use super::rules::Rules;
use super::{Job, Rank, RankInput, SlowKernel, Source, TimeParts, WindowSelection};
use crate::analysis::communication::operations::SEND_RECEIVE;
use crate::analysis::communication::percent;
use crate::ordering;
use crate::rules::names;
use crate::words::ranks as words;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap};

#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    wait_ns: i64,
    transfer_ns: i64,
    collectives: u64,
    times_last: u64,
    delay: Delay,
    /// Exposed time, in which communication runs and no other kernel: waiting, transfer, and unmatched calls.
    exposed_ns: [i64; 3],
}

pub(super) fn job(
    group: &JobGroup,
    windows: WindowSelection,
    inputs: &[RankInput],
    operations: &[OperationCalls],
    rules: &Rules,
) -> Job {
    let Lateness { delays, mut loss } = lateness(group.members.len(), operations);
    let sums = sums(delays, operations);
    let mut ranks: Vec<Rank> = Vec::new();
    for (member, own) in group.members.iter().zip(&sums) {
        if let Some(input) = inputs.get(member.log) {
            ranks.push(rank(member, input, own));
        }
    }
    let window_ns = ranks.iter().map(|rank| rank.wall_ns).max().unwrap_or(0);
    let covered_ns = ranks.iter().map(|rank| rank.wall_ns).min().unwrap_or(0);
    for rank in &mut ranks {
        rank.parts.outside_ns = window_ns - rank.wall_ns;
        rank.delay.limit_gain(covered_ns);
    }
    loss.to_median_ns = loss.to_median_ns.min(covered_ns);
    compare_with_others(&mut ranks, rules);
    let compute = compute::compare(&mut ranks, group, windows, inputs, rules);
    if windows != WindowSelection::All {
        find_slow_kernels(&mut ranks, group, inputs);
        set_expert_times(&mut ranks, group, inputs);
    }
    let sum = |count: fn(&OperationCalls) -> usize| operations.iter().map(|calls| count(calls) as u64).sum();
    let (matched, unmatched) = (sum(|calls| calls.matched), sum(|calls| calls.unmatched));
    Job {
        title: group.title.clone(),
        world_size: group.world_size,
        window_ns,
        windows,
        compute,
        limits: limits(group, inputs, operations),
        sends_only: !operations.is_empty() && operations.iter().all(|calls| calls.operation == SEND_RECEIVE),
        loss,
        ranks,
        matched,
        unmatched,
    }
}

fn sums(delays: Vec<Delay>, operations: &[OperationCalls]) -> Vec<Sums> {
    let mut sums: Vec<Sums> = delays.into_iter().map(|delay| Sums { delay, ..Sums::default() }).collect();
    for operation in operations {
        operation.for_each_collective(&mut |collective| {
            for participant in &collective.participants {
                let Some(own) = sums.get_mut(participant.rank) else { continue };
                let (wait_ns, transfer_ns) = (participant.wait_ns, participant.transfer_ns);
                own.collectives += 1;
                own.wait_ns = own.wait_ns.saturating_add(wait_ns);
                own.transfer_ns = own.transfer_ns.saturating_add(transfer_ns);
                let exposed_ns = participant.call.exposed_ns;
                let exposed_wait_ns = scale(exposed_ns, wait_ns, wait_ns.saturating_add(transfer_ns));
                own.add_exposed([exposed_wait_ns, exposed_ns - exposed_wait_ns, 0]);
            }
            if let Some(own) = collective.last.and_then(|last| sums.get_mut(last)) {
                own.times_last += 1;
            }
        });
        operation.for_each_unmatched(&mut |rank, call| {
            sums.get_mut(rank).into_iter().for_each(|own| own.add_exposed([0, 0, call.exposed_ns]));
        });
    }
    sums
}

/// `value * part / whole`, rounded down; zero if `whole` is not positive.
fn scale(value: i64, part: i64, whole: i64) -> i64 {
    if whole <= 0 { 0 } else { i64::try_from(i128::from(value) * i128::from(part) / i128::from(whole)).unwrap_or(0) }
}

fn rank(member: &Member, RankInput { log, window }: &RankInput, own: &Sums) -> Rank {
    let times = window.map_or(&log.times, |window| &window.times);
    let numbers = times.get(member.device * TIME_COLUMNS..).and_then(|times| times.first_chunk::<TIME_COLUMNS>());
    let &[wall, busy, compute, both, exposed, communication] = numbers.unwrap_or(&[0; TIME_COLUMNS]);
    // The log is text from outside: clamp inconsistent values.
    let wall = wall.max(0);
    let busy = busy.clamp(0, wall);
    let (compute, exposed) = (compute.clamp(0, busy), exposed.clamp(0, busy));
    let compute = compute.min(busy - exposed);
    let both = both.clamp(0, compute);
    let [wait, transfer, unmatched] = own.exposed_within(exposed);
    Rank {
        label: member.label.clone(),
        file: log.file.clone(),
        device: log.devices.get(member.device).cloned().unwrap_or_default(),
        source: member.source,
        wall_ns: wall,
        busy_ns: busy,
        compute_ns: compute,
        parts: TimeParts {
            compute_ns: compute - both,
            hidden_ns: both,
            other_ns: busy - compute - exposed,
            transfer_ns: transfer,
            wait_ns: wait,
            unmatched_ns: unmatched,
            idle_ns: wall - busy,
            outside_ns: 0,
        },
        communication_ns: communication.max(own.wait_ns.saturating_add(own.transfer_ns)),
        wait_ns: own.wait_ns,
        transfer_ns: own.transfer_ns,
        collectives: own.collectives,
        times_last: own.times_last,
        waited_for_ns: own.delay.total_ns,
        delay: own.delay,
        slow_kernel: None,
        experts: None,
        waited_for_pct: 0.0,
        compared_ns: 0,
        skew_pct: None,
        is_straggler: false,
    }
}

impl Sums {
    fn add_exposed(&mut self, added_ns: [i64; 3]) {
        self.exposed_ns.iter_mut().zip(added_ns).for_each(|(sum, added)| *sum = sum.saturating_add(added));
    }

    /// Splits the exposed time of a rank exactly into waiting, transfer and the rest. Concurrent calls each count the exposed
    /// time they share, so their sums are scaled down if they exceed it.
    fn exposed_within(&self, exposed: i64) -> [i64; 3] {
        let [wait, transfer, unmatched] = self.exposed_ns;
        let sum = wait.saturating_add(transfer).saturating_add(unmatched);
        if sum <= exposed {
            return [wait, transfer, exposed - wait - transfer];
        }
        let (wait, transfer) = (scale(exposed, wait, sum), scale(exposed, transfer, sum));
        [wait, transfer, exposed - wait - transfer].map(|part| part.max(0))
    }
}

/// Sets the values that depend on all ranks of the job.
fn compare_with_others(ranks: &mut [Rank], rules: &Rules) {
    let in_collectives = |rank: &Rank| rank.wait_ns.saturating_add(rank.transfer_ns);
    let all = ranks.iter().fold(0_i64, |sum, rank| sum.saturating_add(in_collectives(rank)));
    for rank in ranks.iter_mut() {
        let others = all.saturating_sub(in_collectives(rank));
        rank.waited_for_pct = percent(rank.waited_for_ns as f64, others as f64);
    }
    // If all ranks are alike, each of them is last by chance now and then.
    let mut shares_pct: Vec<f64> = ranks.iter().map(|rank| rank.waited_for_pct).collect();
    ordering::sort_by(&mut shares_pct, f64::total_cmp);
    let of_middle_pct = shares_pct.get(shares_pct.len().saturating_sub(2) / 2).copied().unwrap_or(0.0);
    for rank in ranks {
        rank.is_straggler = rank.waited_for_pct - of_middle_pct >= 100.0 * rules.straggler_share;
    }
}

/// Sets the kernel of each rank that takes longest compared with its mean on the other ranks. Linear in the rows of the logs.
fn find_slow_kernels(ranks: &mut [Rank], group: &JobGroup, inputs: &[RankInput]) {
    let mut slowest: Vec<Option<Slow>> = vec![None; ranks.len()];
    let others = ranks.len().saturating_sub(1).max(1) as i64;
    for (name, times) in kernels_of_all_ranks(group, inputs) {
        let sum = times.iter().fold(0_i64, |sum, time| sum.saturating_add(*time));
        for (slowest, time_ns) in slowest.iter_mut().zip(times) {
            let others_ns = sum.saturating_sub(time_ns) / others;
            let excess = |slow: &Slow| slow.time_ns - slow.others_ns;
            let slow = Slow { name, time_ns, others_ns };
            if time_ns > others_ns && slowest.as_ref().is_none_or(|most| excess(most) <= excess(&slow)) {
                *slowest = Some(slow);
            }
        }
    }
    let mut short_names: BTreeMap<usize, HashMap<&str, String>> = BTreeMap::new();
    for ((rank, slow), member) in ranks.iter_mut().zip(slowest).zip(&group.members) {
        let (Some(Slow { name, time_ns, others_ns }), Some(input)) = (slow, inputs.get(member.log)) else { continue };
        let short_names = short_names.entry(member.log).or_insert_with(|| short_names_of(&input.log.kernels));
        let short_name = short_names.get(name).cloned().unwrap_or_default();
        rank.slow_kernel = Some(SlowKernel { name: name.to_owned(), short_name, time_ns, others_ns });
    }
}

/// A kernel on a rank, with the mean time on the other ranks.
#[derive(Debug, Clone, Copy)]
struct Slow<'a> {
    name: &'a str,
    time_ns: i64,
    others_ns: i64,
}

/// The time of each kernel by rank, sorted by name. A kernel that the log of a rank does not list may have been cut off there, so such
/// kernels are left out.
fn kernels_of_all_ranks<'a>(group: &JobGroup, inputs: &[RankInput<'a>]) -> Vec<(&'a str, Vec<i64>)> {
    let mut times: Vec<(&str, usize, i64)> = Vec::new();
    for (log, rank_of) in &group.ranks_by_log() {
        let Some(RankInput { log, .. }) = inputs.get(*log) else { continue };
        for row in log.kernel_times.chunks_exact(KERNEL_COLUMNS) {
            let &[device, kernel, _, time_ns] = row else { continue };
            let name = usize::try_from(kernel).ok().and_then(|kernel| log.kernels.get(kernel));
            if let (Some(rank), Some(name)) = (rank_of.get(&device), name) {
                times.push((name, *rank, time_ns));
            }
        }
    }
    // The last row of a kernel and rank counts.
    times.reverse();
    times.sort_by_key(|(name, rank, _)| (*name, *rank));
    times.dedup_by_key(|(name, rank, _)| (*name, *rank));
    times.retain(|(.., time)| *time > 0);
    let of_kernel = times.chunk_by(|(one, ..), (other, ..)| one == other);
    let of_all = of_kernel.filter(|rows| rows.len() == group.members.len());
    of_all.filter_map(|rows| Some((rows.first()?.0, rows.iter().map(|(.., time)| *time).collect()))).collect()
}

/// The short name of each kernel of a log among all of them.
fn short_names_of(kernels: &[String]) -> HashMap<&str, String> {
    let demangled: Vec<Cow<str>> = kernels.iter().map(|kernel| names::demangle(kernel)).collect();
    let short_names = kernels.iter().map(String::as_str).zip(names::distinct(&demangled));
    // Of equal names the first one counts.
    short_names.rev().collect()
}

fn limits(group: &JobGroup, inputs: &[RankInput], operations: &[OperationCalls]) -> Vec<String> {
    let mut limits = Vec::new();
    let open = group.members.len();
    if let Some(world) = group.world_size.filter(|world| *world as usize > open) {
        limits.push(words::missing_ranks(open, world));
    }
    if let Some(member) = group.members.first().filter(|member| member.source == Source::FileName) {
        limits.push(words::grouped_by_names(inputs.get(member.log).map_or("", |input| input.log.file.as_str())));
    }
    limits.extend(group.doubt.map(str::to_owned));
    let of_job: BTreeSet<usize> = group.members.iter().map(|member| member.log).collect();
    let is_in_job = |index: &usize| of_job.contains(index);
    let incomplete = inputs.iter().enumerate().filter(|(index, input)| input.log.is_cut_short && is_in_job(index));
    limits.extend(incomplete.map(|(_, RankInput { log, .. })| words::cut_short(&log.file)));
    let matched = || operations.iter().filter(|calls| calls.matched > 0);
    if matched().any(|calls| calls.group.is_empty()) {
        limits.push(
            "The traces do not name process groups: calls of one operation are matched across all ranks by their order."
                .to_owned(),
        );
    }
    limits.extend(match_notes(operations));
    limits.extend(unmatched_notes(operations));
    let logs = || group.members.iter().filter_map(|member| inputs.get(member.log)).map(|input| input.log);
    let dropped: i64 = logs().map(|log| log.left_out.max(0)).fold(0, i64::saturating_add);
    if dropped > 0 {
        limits.push(words::left_out_calls(dropped.unsigned_abs()));
    }
    let multi_device = logs().filter(|log| log.devices.len() > 1 && group.world_size.is_some()).count();
    if multi_device > 0 {
        limits.push(words::several_gpus(multi_device));
    }
    if logs().any(|log| log.replays > 0) {
        limits.push("Communication in CUDA graphs that were traced as a whole is not visible.".to_owned());
    }
    limits
}
