//! Builds the tables of ranks. If there are several jobs, the first column names the job.

use super::matching::{Call, MatchFailure, OperationCalls, Participant};
use super::{Job, Rank, UngroupedFile, WindowSelection};
use crate::analysis::communication::{percent, skew_pct};
use crate::analysis::section::{Section, Sections, Value};
use crate::ordering;
use std::cmp::Reverse;

const RANKS: [&str; 22] = [
    "job",
    "rank_label",
    "wall_ns",
    "busy_ns",
    "compute_ns",
    "experts_ns",
    "experts_of_mean_pct",
    "skew_vs_median_pct",
    "communication_ns",
    "wait_ns",
    "transfer_ns",
    "waited_for_ns",
    "waited_for_pct",
    "straggler",
    "times_last",
    "collectives",
    "unmatched_ns",
    "exposed_ns",
    "compute_overlap_ns",
    "idle_ns",
    "outside_ns",
    "device_id",
];

const COLLECTIVES: [&str; 14] = [
    "job",
    "op_name",
    "process_group",
    "group_ranks",
    "calls_matched",
    "calls_unmatched",
    "total_time_ns",
    "transfer_ns",
    "wait_ns",
    "wait_pct",
    "worst_wait_ns",
    "worst_rank",
    "last_rank",
    "remarks",
];

const WAITS: [&str; 10] = [
    "job",
    "op_name",
    "process_group",
    "rank_label",
    "calls_matched",
    "total_time_ns",
    "wait_ns",
    "max_wait_ns",
    "times_last",
    "skew_vs_median_pct",
];

const FILES: [&str; 5] = ["file", "job", "rank_label", "rank_from", "remarks"];

const BY_DURATION: &str = "The shortest duration of a collective counts as transfer, and the extra time of other ranks \
                           as waiting for the last one. This is an estimate from durations only, because the clocks \
                           of different hosts cannot be compared.";

const BY_ARRIVAL: &str = "All waiting in a collective is charged to the rank that arrives last.";

const CLIPPED_CALLS: &str = "Only the part of a collective inside the window counts. Waiting is assumed to come first, \
                             transfer last.";

pub(super) fn sections(jobs: &[Job], calls_of_jobs: &[Vec<OperationCalls>], ungrouped: &[UngroupedFile]) -> Sections {
    let mut ranks = Section::new("Ranks", "GPU ops of each rank, and collectives matched across ranks", &RANKS)
        .limit(
            "The column Deviation from median refers to compute time: that of the steps that all ranks have, or all of it if \
             there are none and the ranks cover the same time.",
        );
    let mut collectives =
        Section::new("Collectives across ranks", "collectives matched across ranks", &COLLECTIVES).limit(BY_DURATION);
    let mut waits = Section::new("Waiting by rank", "collectives matched across ranks", &WAITS)
        .limit("The rank that arrives last waits least, so the rank with the shortest total may delay the others.");
    let mut files = Section::new("Files and ranks", "file contents and file names", &FILES);
    if jobs.iter().any(|job| job.matched > 0) {
        ranks = ranks.limit(BY_DURATION).limit(BY_ARRIVAL);
    }
    if jobs.iter().any(|job| job.ranks.len() == 2) {
        ranks = ranks.limit("Two ranks are compared with each other instead of with their median.");
    }
    for (job, operations) in jobs.iter().zip(calls_of_jobs) {
        let several = jobs.len() > 1;
        let with_title = |limit: &str| if several { format!("{}: {limit}", job.title) } else { limit.to_owned() };
        let clipped = (job.windows == WindowSelection::All && job.matched > 0).then_some(CLIPPED_CALLS);
        ranks.limits.extend(job.windows.note().into_iter().chain(clipped).map(with_title));
        ranks.limits.extend(job.limits.iter().map(|limit| with_title(limit)));
        job.ranks.iter().for_each(|rank| rank_row(&mut ranks, job, rank));
        let mut sums: Vec<OperationSums> = operations.iter().map(|calls| OperationSums::of(calls, job)).collect();
        ordering::sort_by_key(&mut sums, |sums| Reverse((sums.wait_ns, sums.total_ns)));
        for sums in &sums {
            sums.add_row(&mut collectives, job);
            sums.add_rank_rows(&mut waits, job);
        }
        for rank in &job.ranks {
            let from = rank.source.word();
            files.row([text(&rank.file), text(&job.title), text(&rank.label), from.into(), Value::Null]);
        }
    }
    for UngroupedFile { file, reason } in ungrouped {
        files.row([text(file), Value::Null, Value::Null, Value::Null, text(&format!("not grouped: {reason}"))]);
    }
    if jobs.iter().flat_map(|job| &job.ranks).any(|rank| rank.experts.is_some()) {
        let limit = "Where each rank has its own experts, the rank with the most time in their products sets the pace: the \
                     largest percentage of the mean is the imbalance.";
        ranks = ranks.limit(limit);
    } else {
        remove_columns(&mut ranks, &["experts_ns", "experts_of_mean_pct"]);
    }
    let mut sections = Sections::new();
    for (name, section) in
        [("ranks", ranks), ("rank_collectives", collectives), ("rank_waits", waits), ("rank_files", files)]
    {
        sections.insert(name.to_owned(), if jobs.len() > 1 { section } else { without_job(section) });
    }
    sections
}

/// Removes the column `job`, which is not needed if there is only one job.
fn without_job(mut section: Section) -> Section {
    remove_columns(&mut section, &["job"]);
    section
}

fn remove_columns(section: &mut Section, names: &[&str]) {
    section.columns.retain(|key| !names.contains(&key.as_str()));
    section.rows.iter_mut().for_each(|row| row.0.retain(|(key, _)| !names.contains(&key.as_str())));
}

fn text(words: &str) -> Value {
    Value::from(words)
}

fn rank_row(section: &mut Section, job: &Job, rank: &Rank) {
    let parts = &rank.parts;
    let exposed = parts.wait_ns.saturating_add(parts.transfer_ns).saturating_add(parts.unmatched_ns);
    let unmatched = rank.communication_ns.saturating_sub(rank.wait_ns).saturating_sub(rank.transfer_ns);
    section.row([
        text(&job.title),
        text(&rank.label),
        rank.wall_ns.into(),
        rank.busy_ns.into(),
        rank.compute_ns.into(),
        rank.experts.map(|experts| experts.time_ns).into(),
        rank.experts.map(|experts| experts.of_mean_pct).into(),
        rank.skew_pct.into(),
        rank.communication_ns.into(),
        rank.wait_ns.into(),
        rank.transfer_ns.into(),
        rank.waited_for_ns.into(),
        rank.waited_for_pct.into(),
        rank.is_straggler.into(),
        rank.times_last.into(),
        rank.collectives.into(),
        unmatched.into(),
        exposed.into(),
        parts.hidden_ns.into(),
        parts.idle_ns.into(),
        parts.outside_ns.into(),
        text(&rank.device),
    ]);
}

/// Sums over the calls of one operation in one process group.
struct OperationSums<'a> {
    calls: &'a OperationCalls,
    /// Visible durations of all calls, matched or not.
    total_ns: i64,
    matched_ns: i64,
    wait_ns: i64,
    transfer_ns: i64,
    worst_ns: i64,
    worst_rank: Option<usize>,
    by_rank: Vec<RankSums>,
}

#[derive(Default)]
struct RankSums {
    rank: usize,
    total_ns: i64,
    wait_ns: i64,
    worst_ns: i64,
    times_last: u64,
    waited_for_ns: i64,
}

impl<'a> OperationSums<'a> {
    fn of(calls: &'a OperationCalls, job: &Job) -> Self {
        let new = |rank| RankSums { rank, ..RankSums::default() };
        let mut by_rank: Vec<RankSums> = (0..job.ranks.len()).map(new).collect();
        let (mut transfer_ns, mut worst) = (0_i64, (0_i64, None));
        let all = calls.calls.iter().flat_map(|(_, calls)| calls);
        let total_ns = all.filter_map(Call::visible_ns).fold(0_i64, i64::saturating_add);
        calls.for_each_collective(&mut |collective| {
            transfer_ns = transfer_ns.saturating_add(collective.transfer_ns);
            for &Participant { rank, wait_ns, transfer_ns, .. } in &collective.participants {
                if wait_ns > worst.0 {
                    worst = (wait_ns, Some(rank));
                }
                let Some(own) = by_rank.get_mut(rank) else { continue };
                own.total_ns = own.total_ns.saturating_add(wait_ns).saturating_add(transfer_ns);
                own.wait_ns = own.wait_ns.saturating_add(wait_ns);
                own.worst_ns = own.worst_ns.max(wait_ns);
            }
            if let Some(own) = collective.last.and_then(|last| by_rank.get_mut(last)) {
                own.times_last += 1;
                own.waited_for_ns = own.waited_for_ns.saturating_add(collective.total_wait_ns());
            }
        });
        let sum = |value: fn(&RankSums) -> i64| by_rank.iter().map(value).fold(0_i64, i64::saturating_add);
        let (wait_ns, matched_ns) = (sum(|own| own.wait_ns), sum(|own| own.total_ns));
        let (worst_ns, worst_rank) = worst;
        Self { calls, total_ns, matched_ns, wait_ns, transfer_ns, worst_ns, worst_rank, by_rank }
    }

    fn group(&self) -> Value {
        if self.calls.group.is_empty() { Value::Null } else { text(&self.calls.group) }
    }

    fn add_row(&self, section: &mut Section, job: &Job) {
        let label = |rank: usize| job.ranks.get(rank).map(|rank| rank.label.as_str());
        let waited_for = self.by_rank.iter().filter(|own| own.waited_for_ns > 0);
        let last = waited_for.max_by_key(|own| (own.waited_for_ns, Reverse(own.rank)));
        let ranks = self.calls.calls.len();
        let size = self.calls.group_size.filter(|size| *size != ranks);
        section.row([
            text(&job.title),
            text(&self.calls.operation),
            self.group(),
            size.map_or_else(|| ranks.to_string(), |size| format!("{ranks} of {size}")).into(),
            self.calls.matched.into(),
            self.calls.unmatched.into(),
            self.total_ns.into(),
            self.transfer_ns.into(),
            self.wait_ns.into(),
            (self.matched_ns > 0).then(|| percent(self.wait_ns as f64, self.matched_ns as f64)).into(),
            self.worst_ns.into(),
            self.worst_rank.and_then(label).into(),
            last.and_then(|own| label(own.rank)).into(),
            self.calls.alignment.as_ref().err().copied().map(MatchFailure::reason).into(),
        ]);
    }

    fn add_rank_rows(&self, section: &mut Section, job: &Job) {
        if self.calls.matched == 0 {
            return;
        }
        let participants: Vec<&RankSums> =
            self.by_rank.iter().filter(|own| self.calls.calls.iter().any(|(rank, _)| *rank == own.rank)).collect();
        let totals: Vec<i64> = participants.iter().map(|own| own.total_ns).collect();
        for (index, own) in participants.into_iter().enumerate() {
            section.row([
                text(&job.title),
                text(&self.calls.operation),
                self.group(),
                job.ranks.get(own.rank).map(|rank| rank.label.as_str()).into(),
                self.calls.matched.into(),
                own.total_ns.into(),
                own.wait_ns.into(),
                own.worst_ns.into(),
                own.times_last.into(),
                skew_pct(&totals, index).into(),
            ]);
        }
    }
}
