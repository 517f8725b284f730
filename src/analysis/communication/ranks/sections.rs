//! The tables of ranks. A table of several jobs has a column for them.

use crate::analysis::communication::ranks::matching::{Call, Met, Stream, Unmatched};
use crate::analysis::communication::ranks::{Aside, Job, Rank, Windows};
use crate::analysis::section::Sections;
use crate::analysis::section::{Section, Value};
use crate::ordering::StableSort;
use std::cmp::Reverse;

const RANKS: [&str; 20] = [
    "job",
    "rank_label",
    "wall_ns",
    "busy_ns",
    "compute_ns",
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

const BY_DURATION: &str = "Of a collective the shortest duration is transfer, what other ranks take longer is waiting for the last one: an \
     estimate from durations alone, because clocks of hosts are not compared.";

const CUT_CALLS: &str = "Of a collective that reaches over an end of the window the part inside counts: it begins with waiting and ends with the transfer.";

pub(crate) fn sections(jobs: &[Job], streams: &[Vec<Stream>], aside: &[Aside]) -> Sections {
    let mut ranks = Section::new("Ranks", "GPU ops of each rank, and collectives matched across ranks", &RANKS)
        .limit("From median is of compute time.");
    let mut collectives =
        Section::new("Collectives across ranks", "collectives matched across ranks", &COLLECTIVES).limit(BY_DURATION);
    let mut waits = Section::new("Waiting by rank", "collectives matched across ranks", &WAITS)
        .limit("A rank that arrives last waits least: the shortest total may be the cause of the longest.");
    let mut files = Section::new("Files and ranks", "what files and their names tell", &FILES);
    if jobs.iter().any(|job| job.matched > 0) {
        ranks = ranks.limit(BY_DURATION);
    }
    for (job, streams) in jobs.iter().zip(streams) {
        let several = jobs.len() > 1;
        let named = |limit: &str| if several { format!("{}: {limit}", job.title) } else { limit.to_owned() };
        let cut = (job.windows == Windows::Picked && job.matched > 0).then_some(CUT_CALLS);
        ranks.limits.extend(job.windows.said().into_iter().chain(cut).map(named));
        ranks.limits.extend(job.limits.iter().map(|limit| named(limit)));
        job.ranks.iter().for_each(|rank| rank_row(&mut ranks, job, rank));
        let mut told: Vec<Told> = streams.iter().map(|stream| Told::of(stream, job)).collect();
        told.order_by_key(|told| Reverse((told.wait_ns, told.total_ns)));
        for told in &told {
            told.row(&mut collectives, job);
            told.rank_rows(&mut waits, job);
        }
        for rank in &job.ranks {
            let from = rank.source.word();
            files.row([text(&rank.file), text(&job.title), text(&rank.label), from.into(), Value::Null]);
        }
    }
    for Aside { file, why } in aside {
        files.row([text(file), Value::Null, Value::Null, Value::Null, text(&format!("not grouped: {why}"))]);
    }
    let mut sections = Sections::new();
    for (name, section) in
        [("ranks", ranks), ("rank_collectives", collectives), ("rank_waits", waits), ("rank_files", files)]
    {
        sections.insert(name.to_owned(), if jobs.len() > 1 { section } else { without_job(section) });
    }
    sections
}

/// One job needs no name in its tables; of files it is what they have in common.
fn without_job(mut section: Section) -> Section {
    if section.columns.first().is_some_and(|column| column == "job") {
        section.columns.remove(0);
        section.rows.iter_mut().for_each(|row| row.0.retain(|(key, _)| key != "job"));
    }
    section
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

/// What one operation in one group adds up to, over all its ranks.
struct Told<'a> {
    stream: &'a Stream,
    /// Durations of all calls, matched or not.
    total_ns: i64,
    matched_ns: i64,
    wait_ns: i64,
    transfer_ns: i64,
    worst_ns: i64,
    worst_rank: Option<usize>,
    by_rank: Vec<OfRank>,
}

#[derive(Debug, Clone, Copy)]
struct OfRank {
    rank: usize,
    total_ns: i64,
    wait_ns: i64,
    worst_ns: i64,
    times_last: u64,
    waited_for_ns: i64,
}

impl<'a> Told<'a> {
    fn of(stream: &'a Stream, job: &Job) -> Self {
        let new = |rank| OfRank { rank, total_ns: 0, wait_ns: 0, worst_ns: 0, times_last: 0, waited_for_ns: 0 };
        let mut by_rank: Vec<OfRank> = (0..job.ranks.len()).map(new).collect();
        let (mut transfer_ns, mut worst) = (0_i64, (0_i64, None));
        let all = stream.calls.iter().flat_map(|(_, calls)| calls);
        let total_ns = all.filter_map(Call::shown_ns).fold(0_i64, i64::saturating_add);
        stream.each_meeting(&mut |meeting| {
            transfer_ns = transfer_ns.saturating_add(meeting.transfer_ns);
            for &Met { rank, wait_ns, transfer_ns, .. } in &meeting.calls {
                if wait_ns > worst.0 {
                    worst = (wait_ns, Some(rank));
                }
                let Some(own) = by_rank.get_mut(rank) else { continue };
                own.total_ns = own.total_ns.saturating_add(wait_ns).saturating_add(transfer_ns);
                own.wait_ns = own.wait_ns.saturating_add(wait_ns);
                own.worst_ns = own.worst_ns.max(wait_ns);
            }
            if let Some(own) = meeting.last.and_then(|last| by_rank.get_mut(last)) {
                own.times_last += 1;
                own.waited_for_ns = own.waited_for_ns.saturating_add(meeting.waited_ns());
            }
        });
        let sum = |of: fn(&OfRank) -> i64| by_rank.iter().map(of).fold(0_i64, i64::saturating_add);
        let (wait_ns, matched_ns) = (sum(|own| own.wait_ns), sum(|own| own.total_ns));
        let (worst_ns, worst_rank) = worst;
        Self { stream, total_ns, matched_ns, wait_ns, transfer_ns, worst_ns, worst_rank, by_rank }
    }

    fn group(&self) -> Value {
        if self.stream.group.is_empty() { Value::Null } else { text(&self.stream.group) }
    }

    fn row(&self, section: &mut Section, job: &Job) {
        let label = |rank: usize| job.ranks.get(rank).map(|rank| rank.label.as_str());
        let last = self
            .by_rank
            .iter()
            .filter(|own| own.waited_for_ns > 0)
            .max_by_key(|own| (own.waited_for_ns, Reverse(own.rank)));
        let ranks = self.stream.calls.len();
        let size = self.stream.size.filter(|size| *size != ranks);
        section.row([
            text(&job.title),
            text(&self.stream.operation),
            self.group(),
            size.map_or_else(|| ranks.to_string(), |size| format!("{ranks} of {size}")).into(),
            self.stream.meetings.into(),
            self.stream.unmatched.into(),
            self.total_ns.into(),
            self.transfer_ns.into(),
            self.wait_ns.into(),
            if self.matched_ns > 0 {
                (100.0 * self.wait_ns as f64 / self.matched_ns as f64).into()
            } else {
                Value::Null
            },
            self.worst_ns.into(),
            self.worst_rank.and_then(label).into(),
            last.and_then(|own| label(own.rank)).into(),
            self.stream.matched.as_ref().err().copied().map(Unmatched::why).into(),
        ]);
    }

    fn rank_rows(&self, section: &mut Section, job: &Job) {
        if self.stream.meetings == 0 {
            return;
        }
        let own: Vec<&OfRank> =
            self.by_rank.iter().filter(|own| self.stream.calls.iter().any(|(rank, _)| *rank == own.rank)).collect();
        let median = super::times::median(own.iter().map(|own| own.total_ns).collect());
        for own in own {
            let skew = if median > 0.0 { 100.0 * (own.total_ns as f64 - median) / median } else { 0.0 };
            section.row([
                text(&job.title),
                text(&self.stream.operation),
                self.group(),
                job.ranks.get(own.rank).map(|rank| rank.label.as_str()).into(),
                self.stream.meetings.into(),
                own.total_ns.into(),
                own.wait_ns.into(),
                own.worst_ns.into(),
                own.times_last.into(),
                skew.into(),
            ]);
        }
    }
}
