//! Ranks of one job side by side: how each spends its time, which waits for which in collectives, and who holds the others
//! up.
//!
//! Clocks of several hosts are not compared: durations are enough. All ranks of a collective leave it together, and the one
//! that arrives last waits for nobody, so that the shortest duration of a call is its transfer and what others take longer
//! is waiting for the last. [`log`] reads one trace where it is, [`part`] a window of it; [`ranks`] takes the logs of all files.

mod jobs;
mod log;
mod matching;
mod names;
mod rules;
mod sections;
#[cfg(test)]
mod tests;
mod times;
mod windows;

pub use log::{CALL, COUNT, RankLog, RankPart, TIMES, log, part};
pub use windows::Jobs;

use crate::analysis::section::Sections;
use rules::Rules;

/// Ranks of all jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranks {
    /// By title.
    pub jobs: Vec<Job>,
    /// Files that belong to no job.
    pub aside: Vec<Aside>,
    /// `ranks`, `rank_collectives`, `rank_waits`, `rank_files`.
    pub sections: Sections,
}

/// A file that belongs to no job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aside {
    /// Its base name.
    pub file: String,
    /// A phrase.
    pub why: String,
}

/// Ranks that worked together.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// What names of its files share, with `#` for a rank's number.
    pub title: String,
    /// How many ranks the files say there are.
    pub world_size: Option<u32>,
    /// The longest window of a rank.
    pub window_ns: i64,
    /// What part of the traces is told of.
    pub windows: Windows,
    /// In the order of their numbers.
    pub ranks: Vec<Rank>,
    /// Collectives that several ranks saw.
    pub matched: u64,
    /// Calls that were not matched.
    pub unmatched: u64,
    /// What is not said of it, a sentence each.
    pub limits: Vec<String>,
}

/// What says which rank it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The file itself.
    DistributedInfo,
    /// Its name.
    FileName,
    /// Each GPU of a file is one.
    Device,
}

impl Source {
    /// As tables have it.
    pub fn word(self) -> &'static str {
        match self {
            Self::DistributedInfo => "the trace",
            Self::FileName => "file name",
            Self::Device => "device",
        }
    }
}

/// One rank of a job. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Rank {
    /// `rank 3`.
    pub label: String,
    /// The file's base name.
    pub file: String,
    /// The device in the file.
    pub device: String,
    /// What says which rank it is.
    pub source: Source,
    /// First start to last end of its GPU ops.
    pub wall_ns: i64,
    /// The part of it with any GPU op.
    pub busy_ns: i64,
    /// The part with a kernel that computes.
    pub compute_ns: i64,
    /// Where the job's window went; adds up to it.
    pub parts: Parts,
    /// Durations of its communication kernels.
    pub communication_ns: i64,
    /// Of these: waiting for the last rank, in matched collectives.
    pub wait_ns: i64,
    /// Of these: the shortest duration of any rank, in matched collectives.
    pub transfer_ns: i64,
    /// Matched collectives that it took part in.
    pub collectives: u64,
    /// Of these: it arrived last, alone.
    pub times_last: u64,
    /// What the others waited in those.
    pub waited_for_ns: i64,
    /// The same as a part of a hundred of the others' time in matched collectives.
    pub waited_for_pct: f64,
    /// How far its compute time is from the median rank's, in parts of a hundred.
    pub skew_pct: f64,
    /// It holds the others up.
    pub is_straggler: bool,
}

/// How the job's window went by on one rank: parts that do not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts {
    /// Kernels that compute run, nothing communicates.
    pub compute_ns: i64,
    /// Kernels that compute run beside communication, which they hide.
    pub hidden_ns: i64,
    /// Copies, sets and graphs that were traced as a whole run, and no kernel that computes.
    pub other_ns: i64,
    /// Nothing but communication runs, and it is transfer.
    pub transfer_ns: i64,
    /// Nothing but communication runs, and it waits for the last rank.
    pub wait_ns: i64,
    /// Nothing but communication runs, and it could not be matched with other ranks.
    pub unmatched_ns: i64,
    /// Nothing runs.
    pub idle_ns: i64,
    /// The rank's window is shorter than the job's by this.
    pub outside_ns: i64,
}

/// What is known of a trace: its log, and what its ranks did in the window that is picked, if one is.
#[derive(Debug, Clone, Copy)]
pub struct Seen<'a> {
    /// Of the whole trace.
    pub log: &'a RankLog,
    /// See [`part`].
    pub part: Option<&'a RankPart>,
}

/// Groups ranks into jobs and matches their collectives. The order of the logs does not matter.
///
/// A job is told in the windows that are picked where one is picked in each of its traces; else whole traces are compared.
pub fn ranks(seen: &[Seen]) -> Ranks {
    let rules = Rules::embedded();
    let logs: Vec<&RankLog> = seen.iter().map(|seen| seen.log).collect();
    let whole: Vec<Seen> = logs.iter().map(|&log| Seen { log, part: None }).collect();
    let (groups, aside) = jobs::group(&logs, rules);
    let (mut jobs, mut found) = (Vec::new(), Vec::new());
    for group in &groups {
        let windows = Windows::of(group, seen);
        let seen = if windows == Windows::Picked { seen } else { &whole };
        let streams = matching::streams(group, seen, rules);
        jobs.push(times::job(group, windows, seen, &streams, rules));
        found.push(streams);
    }
    let sections = sections::sections(&jobs, &found, &aside);
    Ranks { jobs, aside, sections }
}

/// Where windows are picked in a job's traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Windows {
    /// Nowhere: whole traces are compared.
    None,
    /// In some traces: whole traces are compared, which is to be said.
    Some,
    /// In all of them.
    Picked,
}

impl Windows {
    fn of(group: &jobs::Group, seen: &[Seen]) -> Self {
        let picked = group.members.iter().map(|member| seen.get(member.log).is_some_and(|seen| seen.part.is_some()));
        let picked: Vec<bool> = picked.collect();
        match (picked.contains(&true), picked.contains(&false)) {
            (false, _) => Self::None,
            (true, true) => Self::Some,
            (true, false) => Self::Picked,
        }
    }

    /// What is to be said of it, if anything.
    pub fn said(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Some => Some("Whole traces are compared: a window is picked in some of them alone."),
            Self::Picked => Some("All of this is of the picked window."),
        }
    }
}

impl Job {
    /// The rank that holds the others up most, if any does.
    pub fn straggler(&self) -> Option<&Rank> {
        let worst = self.ranks.iter().filter(|rank| rank.is_straggler);
        worst.max_by(|a, b| a.waited_for_pct.total_cmp(&b.waited_for_pct))
    }
}
