//! Builds the tables of ranks. If there are several jobs, the first column names the job.

use super::call::Call;
use super::matching::{OperationCalls, Participant};
use super::{Job, Rank, Source, UngroupedFile, WindowSelection};
use crate::analysis::communication::{percent, skews_pct};
use crate::analysis::section::{Pct, Sections, TypedSection, section};
use crate::ordering;
use crate::trace::Ns;
use crate::words::ranks as words;
use std::cmp::Reverse;

section! {
    /// One row per rank.
    pub(crate) struct RankTimes("ranks", "Ranks");
    row RankRow {
        job: String,
        rank_label: String = "Rank",
        wall_ns: Ns,
        busy_ns: Ns,
        compute_ns: Ns,
        experts_ns: Option<Ns> = "Products of experts",
        experts_of_mean_pct: Option<Pct> = "Experts, of the mean",
        skew_vs_median_pct: Option<Pct> = "Deviation from median",
        communication_ns: Ns,
        wait_ns: Ns = "Waiting",
        transfer_ns: Ns = "Transfer, estimated",
        waited_for_ns: Ns = "Waiting of the others",
        waited_for_pct: Pct = "Of the others' collective time",
        gain_ns: Ns = "The job gains if it is in time",
        gain_host_ns: Ns = "By its host",
        gain_work_ns: Ns = "By its GPU work",
        straggler: bool,
        times_last: u64,
        collectives: u64,
        unmatched_ns: Ns = "Not matched",
        exposed_ns: Ns,
        compute_overlap_ns: Ns = "Hidden by compute",
        idle_ns: Ns,
        outside_ns: Ns = "Outside the window",
        device_id: String = "Device",
    }
}

section! {
    /// One row per operation and process group.
    pub(crate) struct RankCollectives("rank_collectives", "Collectives across ranks");
    row RankCollectiveRow {
        job: String,
        op_name: String = "Operation",
        process_group: Option<String> = "Group",
        group_ranks: String = "Ranks",
        calls_matched: usize = "Matched",
        calls_unmatched: usize = "Not matched",
        total_time_ns: Ns = "Total",
        transfer_ns: Ns = "Transfer, estimated",
        wait_ns: Ns = "Waiting",
        wait_pct: Option<Pct> = "Waiting share",
        worst_wait_ns: Ns = "Longest wait",
        worst_rank: Option<String> = "Longest waiting rank",
        last_rank: Option<String>,
        remarks: Option<String>,
    }
}

section! {
    /// One row per operation, process group and rank.
    pub(crate) struct RankWaits("rank_waits", "Waiting by rank");
    row RankWaitRow {
        job: String,
        op_name: String = "Operation",
        process_group: Option<String> = "Group",
        rank_label: Option<String> = "Rank",
        calls_matched: usize = "Matched",
        total_time_ns: Ns = "Total",
        wait_ns: Ns = "Waiting",
        max_wait_ns: Ns = "Longest wait",
        times_last: u64,
        skew_vs_median_pct: Option<Pct> = "Deviation from median",
    }
}

section! {
    /// One row per file.
    pub(crate) struct RankFiles("rank_files", "Files and ranks");
    row RankFileRow {
        file: String,
        job: Option<String>,
        rank_label: Option<String> = "Rank",
        rank_from: Option<Source> = "Rank source",
        remarks: Option<String>,
    }
}

const BY_DURATION: &str = "The shortest duration of a collective counts as transfer, and the extra time of other ranks \
                           as waiting for the last one. This is an estimate from durations only, because the clocks \
                           of different hosts cannot be compared.";

const BY_ARRIVAL: &str = "All waiting in a collective is charged to the rank that arrives last.";

const GAIN: &str = "What the job gains is at most so much, if that rank alone comes with the one before it. Waiting that is hidden by \
                    compute is no gain.";

const CLIPPED_CALLS: &str = "Only the part of a collective inside the window counts. Waiting is assumed to come first, \
                             transfer last.";

pub(super) fn sections(jobs: &[Job], calls_of_jobs: &[Vec<OperationCalls>], ungrouped: &[UngroupedFile]) -> Sections {
    let mut ranks = RankTimes::answer("GPU ops of each rank, and collectives matched across ranks").limit(
        "The column Deviation from median refers to compute time: that of the steps that all ranks have, or all of it if \
         there are none and the ranks cover the same time.",
    );
    let mut collectives = RankCollectives::answer("collectives matched across ranks").limit(BY_DURATION);
    let mut waits = RankWaits::answer("collectives matched across ranks")
        .limit("The rank that arrives last waits least, so the rank with the shortest total may delay the others.");
    let mut files = RankFiles::answer("file contents and file names");
    if jobs.iter().any(|job| job.matched > 0) {
        ranks = ranks.limit(BY_DURATION).limit(BY_ARRIVAL).limit(GAIN);
    }
    if jobs.iter().any(|job| job.ranks.len() == 2) {
        ranks = ranks.limit("Two ranks are compared with each other instead of with their median.");
    }
    for (job, operations) in jobs.iter().zip(calls_of_jobs) {
        let several = jobs.len() > 1;
        let with_title = |limit: &str| if several { words::of_job(&job.title, limit) } else { limit.to_owned() };
        let clipped = (job.windows == WindowSelection::All && job.matched > 0).then_some(CLIPPED_CALLS);
        ranks.limits.extend(job.windows.note().into_iter().chain(clipped).map(with_title));
        ranks.limits.extend(job.limits.iter().map(|limit| with_title(limit)));
        ranks.rows.extend(job.ranks.iter().map(|rank| rank_row(job, rank)));
        let mut sums: Vec<OperationSums> = operations.iter().map(OperationSums::of).collect();
        ordering::sort_by_key(&mut sums, |sums| Reverse((sums.wait_ns, sums.total_ns)));
        for sums in &sums {
            collectives.rows.push(sums.row(job));
            sums.add_rank_rows(&mut waits.rows, job);
        }
        files.rows.extend(job.ranks.iter().map(|rank| RankFileRow {
            file: rank.file.clone(),
            job: Some(job.title.clone()),
            rank_label: Some(rank.label.clone()),
            rank_from: Some(rank.source),
            remarks: None,
        }));
    }
    files.rows.extend(ungrouped.iter().map(|UngroupedFile { file, reason }| RankFileRow {
        file: file.clone(),
        remarks: Some(words::not_grouped(reason)),
        ..RankFileRow::default()
    }));
    if jobs.iter().flat_map(|job| &job.ranks).any(|rank| rank.experts.is_some()) {
        let limit = "Where each rank has its own experts, the rank with the most time in their products sets the pace. The \
                     percentage of the mean is of the sums over all layers: if another rank has most work in each layer, it is \
                     near 100 % and hides the imbalance.";
        ranks = ranks.limit(limit);
    } else {
        ranks.hidden = vec![RankRow::experts_ns, RankRow::experts_of_mean_pct];
    }
    // A single job needs no name.
    if jobs.len() <= 1 {
        ranks.hide(RankRow::job);
        collectives.hide(RankCollectiveRow::job);
        waits.hide(RankWaitRow::job);
        files.hide(RankFileRow::job);
    }
    let mut sections = Sections::new();
    ranks.put(&mut sections);
    collectives.put(&mut sections);
    waits.put(&mut sections);
    files.put(&mut sections);
    sections
}

fn rank_row(job: &Job, rank: &Rank) -> RankRow {
    let parts = &rank.parts;
    let exposed = parts.wait_ns.saturating_add(parts.transfer_ns).saturating_add(parts.unmatched_ns);
    let unmatched = rank.communication_ns.saturating_sub(rank.wait_ns).saturating_sub(rank.transfer_ns);
    RankRow {
        job: job.title.clone(),
        rank_label: rank.label.clone(),
        wall_ns: Ns(rank.wall_ns),
        busy_ns: Ns(rank.busy_ns),
        compute_ns: Ns(rank.compute_ns),
        experts_ns: rank.experts.map(|experts| Ns(experts.time_ns)),
        experts_of_mean_pct: rank.experts.map(|experts| Pct(experts.of_mean_pct)),
        skew_vs_median_pct: rank.skew_pct.map(Pct),
        communication_ns: Ns(rank.communication_ns),
        wait_ns: Ns(rank.wait_ns),
        transfer_ns: Ns(rank.transfer_ns),
        waited_for_ns: Ns(rank.waited_for_ns),
        waited_for_pct: Pct(rank.waited_for_pct),
        gain_ns: Ns(rank.delay.gain_ns),
        gain_host_ns: Ns(rank.delay.gain_host_ns),
        gain_work_ns: Ns(rank.delay.gain_work_ns),
        straggler: rank.is_straggler,
        times_last: rank.times_last,
        collectives: rank.collectives,
        unmatched_ns: Ns(unmatched),
        exposed_ns: Ns(exposed),
        compute_overlap_ns: Ns(parts.hidden_ns),
        idle_ns: Ns(parts.idle_ns),
        outside_ns: Ns(parts.outside_ns),
        device_id: rank.device.clone(),
    }
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
    /// The ranks that have such calls, in the order of [`OperationCalls::calls`].
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
    fn of(calls: &'a OperationCalls) -> Self {
        let new = |rank| RankSums { rank, ..RankSums::default() };
        let mut by_rank: Vec<RankSums> = calls.calls.iter().map(|(rank, _)| new(*rank)).collect();
        let place = |rank: usize| calls.calls.binary_search_by_key(&rank, |(rank, _)| *rank).ok();
        let (mut transfer_ns, mut worst) = (0_i64, (0_i64, None));
        let all = calls.calls.iter().flat_map(|(_, calls)| calls);
        let total_ns = all.filter_map(Call::visible_ns).fold(0_i64, i64::saturating_add);
        calls.for_each_collective(&mut |collective| {
            transfer_ns = transfer_ns.saturating_add(collective.transfer_ns);
            for &Participant { rank, wait_ns, transfer_ns, .. } in &collective.participants {
                if wait_ns > worst.0 {
                    worst = (wait_ns, Some(rank));
                }
                let Some(own) = place(rank).and_then(|place| by_rank.get_mut(place)) else { continue };
                own.total_ns = own.total_ns.saturating_add(wait_ns).saturating_add(transfer_ns);
                own.wait_ns = own.wait_ns.saturating_add(wait_ns);
                own.worst_ns = own.worst_ns.max(wait_ns);
            }
            if let Some(own) = collective.last.and_then(place).and_then(|place| by_rank.get_mut(place)) {
                own.times_last += 1;
                own.waited_for_ns = own.waited_for_ns.saturating_add(collective.total_wait_ns());
            }
        });
        let sum = |value: fn(&RankSums) -> i64| by_rank.iter().map(value).fold(0_i64, i64::saturating_add);
        let (wait_ns, matched_ns) = (sum(|own| own.wait_ns), sum(|own| own.total_ns));
        let (worst_ns, worst_rank) = worst;
        Self { calls, total_ns, matched_ns, wait_ns, transfer_ns, worst_ns, worst_rank, by_rank }
    }

    fn group(&self) -> Option<String> {
        (!self.calls.group.is_empty()).then(|| self.calls.group.clone())
    }

    fn row(&self, job: &Job) -> RankCollectiveRow {
        let label = |rank: usize| job.ranks.get(rank).map(|rank| rank.label.clone());
        let waited_for = self.by_rank.iter().filter(|own| own.waited_for_ns > 0);
        let last = waited_for.max_by_key(|own| (own.waited_for_ns, Reverse(own.rank)));
        let ranks = self.calls.calls.len();
        let size = self.calls.group_size.filter(|size| *size != ranks);
        RankCollectiveRow {
            job: job.title.clone(),
            op_name: self.calls.operation.clone(),
            process_group: self.group(),
            group_ranks: words::group_ranks(ranks, size),
            calls_matched: self.calls.matched,
            calls_unmatched: self.calls.unmatched,
            total_time_ns: Ns(self.total_ns),
            transfer_ns: Ns(self.transfer_ns),
            wait_ns: Ns(self.wait_ns),
            wait_pct: (self.matched_ns > 0).then(|| Pct(percent(self.wait_ns as f64, self.matched_ns as f64))),
            worst_wait_ns: Ns(self.worst_ns),
            worst_rank: self.worst_rank.and_then(label),
            last_rank: last.and_then(|own| label(own.rank)),
            remarks: self.calls.alignment.as_ref().err().map(|failure| failure.reason().to_owned()),
        }
    }

    fn add_rank_rows(&self, rows: &mut Vec<RankWaitRow>, job: &Job) {
        if self.calls.matched == 0 {
            return;
        }
        let totals: Vec<i64> = self.by_rank.iter().map(|own| own.total_ns).collect();
        rows.extend(self.by_rank.iter().zip(skews_pct(&totals)).map(|(own, skew_pct)| RankWaitRow {
            job: job.title.clone(),
            op_name: self.calls.operation.clone(),
            process_group: self.group(),
            rank_label: job.ranks.get(own.rank).map(|rank| rank.label.clone()),
            calls_matched: self.calls.matched,
            total_time_ns: Ns(own.total_ns),
            wait_ns: Ns(own.wait_ns),
            max_wait_ns: Ns(own.worst_ns),
            times_last: own.times_last,
            skew_vs_median_pct: Some(Pct(skew_pct)),
        }));
    }
}
