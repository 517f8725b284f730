//! How each rank of a job spent its time, as far as its own log and the matched collectives tell.

use crate::analysis::communication::ranks::jobs::{Group, Member};
use crate::analysis::communication::ranks::log::TIMES;
use crate::analysis::communication::ranks::matching::{Stream, said_of_unmatched};
use crate::analysis::communication::ranks::rules::Rules;
use crate::analysis::communication::ranks::{Job, Parts, Rank, Seen, Source, Windows};
use crate::digits::grouped;
use crate::ordering::StableSort;

/// What a rank's calls add up to.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    wait: i64,
    transfer: i64,
    collectives: u64,
    times_last: u64,
    waited_for: i64,
    /// Of time in which nothing but communication runs: waiting, transfer, and what was not matched.
    exposed: [i64; 3],
}

/// A job with all that its ranks' logs and matched collectives tell.
pub(crate) fn job(group: &Group, windows: Windows, seen: &[Seen], streams: &[Stream], rules: &Rules) -> Job {
    let sums = sums(group.members.len(), streams);
    let mut ranks: Vec<Rank> = Vec::new();
    for (member, own) in group.members.iter().zip(&sums) {
        if let Some(seen) = seen.get(member.log) {
            ranks.push(rank(member, seen, own));
        }
    }
    let window_ns = ranks.iter().map(|rank| rank.wall_ns).max().unwrap_or(0);
    ranks.iter_mut().for_each(|rank| rank.parts.outside_ns = window_ns - rank.wall_ns);
    shares(&mut ranks, rules);
    let count = |count: fn(&Stream) -> usize| streams.iter().map(|stream| count(stream) as u64).sum();
    let (matched, unmatched) = (count(|stream| stream.meetings), count(|stream| stream.unmatched));
    Job {
        title: group.title.clone(),
        world_size: group.world_size,
        window_ns,
        windows,
        limits: limits(group, seen, streams, rules),
        ranks,
        matched,
        unmatched,
    }
}

fn sums(ranks: usize, streams: &[Stream]) -> Vec<Sums> {
    let mut sums = vec![Sums::default(); ranks];
    for stream in streams {
        stream.each_meeting(&mut |meeting| {
            for met in &meeting.calls {
                let Some(own) = sums.get_mut(met.rank) else { continue };
                own.collectives += 1;
                own.wait = own.wait.saturating_add(met.wait_ns);
                own.transfer = own.transfer.saturating_add(met.transfer_ns);
                let exposed_ns = met.call.exposed_ns;
                let waiting = part(exposed_ns, met.wait_ns, met.wait_ns.saturating_add(met.transfer_ns));
                own.add_exposed([waiting, exposed_ns - waiting, 0]);
            }
            if let Some(own) = meeting.last.and_then(|last| sums.get_mut(last)) {
                own.times_last += 1;
                own.waited_for = own.waited_for.saturating_add(meeting.waited_ns());
            }
        });
        stream.each_unmatched(&mut |rank, call| {
            sums.get_mut(rank).into_iter().for_each(|own| own.add_exposed([0, 0, call.exposed_ns]));
        });
    }
    sums
}

impl Sums {
    fn add_exposed(&mut self, more: [i64; 3]) {
        self.exposed.iter_mut().zip(more).for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }
}

/// `of` in the proportion of `part` to `whole`, cut off below a nanosecond.
fn part(of: i64, part: i64, whole: i64) -> i64 {
    if whole <= 0 { 0 } else { i64::try_from(i128::from(of) * i128::from(part) / i128::from(whole)).unwrap_or(0) }
}

fn rank(member: &Member, Seen { log, part }: &Seen, own: &Sums) -> Rank {
    let times = part.map_or(&log.times, |part| &part.times);
    let numbers = times.get(member.device * TIMES..).and_then(|times| times.first_chunk::<TIMES>());
    let &[wall, busy, compute, both, exposed, communication] = numbers.unwrap_or(&[0; TIMES]);
    // A log is a text that anybody may have changed: what cannot be is cut to what can.
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
        parts: Parts {
            compute_ns: compute - both,
            hidden_ns: both,
            other_ns: busy - compute - exposed,
            transfer_ns: transfer,
            wait_ns: wait,
            unmatched_ns: unmatched,
            idle_ns: wall - busy,
            outside_ns: 0,
        },
        communication_ns: communication.max(own.wait.saturating_add(own.transfer)),
        wait_ns: own.wait,
        transfer_ns: own.transfer,
        collectives: own.collectives,
        times_last: own.times_last,
        waited_for_ns: own.waited_for,
        waited_for_pct: 0.0,
        skew_pct: 0.0,
        is_straggler: false,
    }
}

impl Sums {
    /// Waiting, transfer and the rest of this time, to the nanosecond. Calls that run beside each other share time in
    /// which nothing else runs; each counts it, so their sums are scaled down to what there is.
    fn exposed_within(&self, exposed: i64) -> [i64; 3] {
        let [wait, transfer, unmatched] = self.exposed;
        let all = wait.saturating_add(transfer).saturating_add(unmatched);
        if all <= exposed {
            return [wait, transfer, exposed - wait - transfer];
        }
        let (wait, transfer) = (part(exposed, wait, all), part(exposed, transfer, all));
        [wait, transfer, exposed - wait - transfer].map(|part| part.max(0))
    }
}

/// What hangs on all ranks of the job.
fn shares(ranks: &mut [Rank], rules: &Rules) {
    let in_collectives = |rank: &Rank| rank.wait_ns.saturating_add(rank.transfer_ns);
    let all = ranks.iter().fold(0_i64, |sum, rank| sum.saturating_add(in_collectives(rank)));
    let median = median(ranks.iter().map(|rank| rank.compute_ns).collect());
    for rank in ranks {
        let others = all.saturating_sub(in_collectives(rank));
        rank.waited_for_pct = pct(rank.waited_for_ns as f64, others as f64);
        rank.is_straggler = rank.waited_for_pct >= 100.0 * rules.held_up_share;
        rank.skew_pct = pct(rank.compute_ns as f64 - median, median);
    }
}

fn pct(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

pub(crate) fn median(mut values: Vec<i64>) -> f64 {
    values.order_by_key(|value| *value);
    let value = |at: usize| values.get(at).copied().unwrap_or(0) as f64;
    (value(values.len().saturating_sub(1) / 2) + value(values.len() / 2)) / 2.0
}

/// What cannot be said of this job, and from what the rest is estimated.
fn limits(group: &Group, seen: &[Seen], streams: &[Stream], rules: &Rules) -> Vec<String> {
    let mut limits = Vec::new();
    let open = group.members.len();
    if let Some(world) = group.world_size.filter(|world| *world as usize > open) {
        limits.push(format!(
            "{open} of {world} ranks are open: where a rank that is not arrives last, waiting for it counts as transfer."
        ));
    }
    if let Some(member) = group.members.first().filter(|member| member.source == Source::FileName) {
        limits.push(format!(
            "Which ranks belong together is read from names of files ({}), which may err.",
            seen.get(member.log).map_or("", |seen| seen.log.file.as_str())
        ));
    }
    limits.extend(group.doubt.map(str::to_owned));
    let is_of_job = |at: usize| group.members.iter().any(|member| member.log == at);
    let cut = seen.iter().enumerate().filter(|(at, seen)| seen.log.is_cut_short && is_of_job(*at));
    limits.extend(cut.map(|(_, Seen { log, .. })| {
        format!("{} is cut short or damaged: what is missing may be what others seem to wait for.", log.file)
    }));
    let matched = || streams.iter().filter(|stream| stream.meetings > 0);
    if matched().any(|stream| rules.one_way.contains(&stream.operation)) {
        limits.push(
            "Of a broadcast or a reduce a rank may leave early that only sends; it then seems to be late.".to_owned(),
        );
    }
    let by_order = matched().any(|stream| stream.group.is_empty());
    if by_order {
        limits.push(
            "The traces do not tell process groups: calls of one operation are matched over all ranks by their order."
                .to_owned(),
        );
    }
    limits.extend(said_of_unmatched(streams));
    let logs = || group.members.iter().filter_map(|member| seen.get(member.log)).map(|seen| seen.log);
    let left_out: i64 = logs().map(|log| log.left_out.max(0)).fold(0, i64::saturating_add);
    if left_out > 0 {
        limits.push(format!("The last {} calls of long traces are not looked at.", grouped(left_out.unsigned_abs())));
    }
    let others = logs().filter(|log| log.devices.len() > 1 && group.world_size.is_some()).count();
    if others > 0 {
        limits.push(format!("{others} files have work on several GPUs: the busiest is taken for the rank's own."));
    }
    if logs().any(|log| log.replays > 0) {
        limits.push("Communication in CUDA graphs that were traced as a whole is not seen.".to_owned());
    }
    limits
}
