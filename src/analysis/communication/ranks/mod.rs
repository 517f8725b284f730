//! Compares the ranks of a job: how each rank spends its time, how long it waits for others in collectives, and which rank is
//! the straggler.
//!
//! ```text
//! Trace -> RankLog (in the worker that loaded the trace) -> JSON text -> ranks() (logs of all files) -> typed jobs and Sections
//! ```
//!
//! [`log`] makes a few passes over the GPU ops of a trace. [`ranks`] is linear in the number of calls, which each log limits.
//!
//! - A rank is a device that runs kernels. How files are grouped into jobs is described in `jobs`.
//! - Waiting is estimated from durations alone, because clocks of several hosts cannot be compared. All ranks leave a collective
//!   together and the one that arrives last does not wait. So the shortest duration of a matched collective is its transfer time,
//!   and every rank's excess over it is waiting. On `dlrm_v100_8ranks`, whose ranks share one clock, the eight ends of each
//!   collective are within 8 us.
//! - How calls of several ranks are matched is described in `matching`. Calls that cannot be matched are counted with the reason.
//! - [`TimeParts`] do not overlap and add up exactly to the job's window, which is the longest window of a rank. Time in which only
//!   communication runs is divided call by call in the proportion of waiting to transfer.
//! - Waiting is charged to the rank that arrives last, and split by what that rank did since its previous collective (see
//!   `lateness`). A rank is a straggler if this waiting takes more of the other ranks' time in matched
//!   collectives than that for the middle one of the others, by at least `straggler_share`. Several ranks can be stragglers.
//! - Compute times are compared only over the same work, see `compute`.
//! - A log covers the whole trace even if a window is selected, because calls are matched by their order. [`window_log`] adds the
//!   times within a window. A call that reaches over an end of the window counts with the part inside: waiting comes first,
//!   transfer last. Adjacent windows therefore add up. `clocks` translates a window between the clocks of a job's traces.
//!
//! | section | rows |
//! |---|---|
//! | `ranks` | one per rank: times, waiting, transfer, waiting of others for it, distance from the median compute time |
//! | `rank_collectives` | one per operation and process group: matched and unmatched calls, transfer, waiting, the longest wait |
//! | `rank_waits` | the same by rank |
//! | `rank_files` | one per file: its job and rank and their source, or why it is not grouped |
//!
//! Words and thresholds are in `patterns/ranks.json`; `report::ranks` writes the result as text, tables and JSON
//! (`gpuprism-ranks/1`).

mod call;
mod clocks;
mod compute;
mod experts;
mod file_names;
mod jobs;
mod lateness;
mod log;
mod matching;
mod order;
mod rules;
pub(crate) mod sections;
mod step_log;
#[cfg(test)]
mod tests;
mod times;

pub use clocks::{JobClocks, RankWait};
pub use lateness::{Delay, Loss};
pub use log::{
    BEFORE_COLUMNS, CALL_COLUMNS, COUNT_COLUMNS, KERNEL_COLUMNS, RankLog, RankWindow, TIME_COLUMNS, log, window_log,
};
pub use step_log::STEP_COLUMNS;

use crate::analysis::section::{Sections, words};
use crate::ordering;
use rules::RULES;

/// The ranks of all jobs.
#[derive(Debug, Clone, PartialEq)]
pub struct Ranks {
    /// Sorted by title.
    pub jobs: Vec<Job>,
    /// Files that belong to no job.
    pub ungrouped: Vec<UngroupedFile>,
    /// `ranks`, `rank_collectives`, `rank_waits`, `rank_files`.
    pub sections: Sections,
}

/// A file that belongs to no job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UngroupedFile {
    /// Base name of the file.
    pub file: String,
    /// Why it belongs to no job: a clause without a period.
    pub reason: String,
}

/// Ranks that ran together.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The common pattern of the file names, with `#` for the rank number and `*` for times and ids.
    pub title: String,
    /// The number of ranks according to the files.
    pub world_size: Option<u32>,
    /// The longest time range of a rank.
    pub window_ns: i64,
    /// Whether whole traces or windows are compared.
    pub windows: WindowSelection,
    /// Which compute time is compared.
    pub compute: ComputeBasis,
    /// In the order of rank numbers.
    pub ranks: Vec<Rank>,
    /// Ranks exchange data by Send/Recv only, as the stages of a pipeline do.
    pub sends_only: bool,
    /// What is lost by arriving apart, whichever rank is late.
    pub loss: Loss,
    /// Collectives that were matched across ranks.
    pub matched: u64,
    /// Calls that were not matched.
    pub unmatched: u64,
    /// Limits of the comparison, one sentence each.
    pub limits: Vec<String>,
}

/// How the rank number was determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Source {
    /// `distributedInfo` in the file.
    DistributedInfo,
    /// The file name.
    #[default]
    FileName,
    /// The file has several GPUs, each of which is a rank.
    Device,
}

words!(Source: DistributedInfo = "the trace", FileName = "file name", Device = "device");

/// One rank of a job. Times are in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Rank {
    /// `rank 3`.
    pub label: String,
    /// The file's base name.
    pub file: String,
    /// Id of the device in the file.
    pub device: String,
    /// How the rank number was determined.
    pub source: Source,
    /// First start to last end of its GPU ops, or the length of the selected window.
    pub wall_ns: i64,
    /// Time with at least one GPU op.
    pub busy_ns: i64,
    /// Time with at least one compute kernel.
    pub compute_ns: i64,
    /// Breakdown of the job's window; adds up to it.
    pub parts: TimeParts,
    /// Sum of the durations of its communication kernels.
    pub communication_ns: i64,
    /// Waiting for the last rank, in matched collectives.
    pub wait_ns: i64,
    /// Transfer time, in matched collectives.
    pub transfer_ns: i64,
    /// Number of matched collectives in which it took part.
    pub collectives: u64,
    /// Number of these in which it alone arrived last.
    pub times_last: u64,
    /// Waiting of other ranks for it, a sum over these ranks: [`Delay::total_ns`].
    pub waited_for_ns: i64,
    /// The same by cause.
    pub delay: Delay,
    /// The kernel with the largest excess over its mean time on the other ranks. `None` if a window is selected.
    pub slow_kernel: Option<SlowKernel>,
    /// The products of experts; `None` without experts, if ranks launch different numbers of them, or if a window is selected.
    pub experts: Option<ExpertTime>,
    /// [`Rank::waited_for_ns`] in percent of the other ranks' time in matched collectives.
    pub waited_for_pct: f64,
    /// The compute time that can be compared with those of the other ranks, see [`ComputeBasis`]; zero if none can.
    pub compared_ns: i64,
    /// Its difference from that of the median rank, in percent; of two ranks, from that of the other one.
    pub skew_pct: Option<f64>,
    /// True if the other ranks wait for it: [`Rank::waited_for_pct`] exceeds that of the middle one of the others by the threshold.
    pub is_straggler: bool,
}

/// Which compute time of the ranks is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComputeBasis {
    /// That of the kernels launched in so many steps, which all ranks have.
    Steps(u64),
    /// All of it, because the ranks cover the same time.
    All,
    /// None: the ranks have no common steps and cover different times.
    None,
}

/// The products of experts on one rank.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpertTime {
    /// Sum of their durations.
    pub time_ns: i64,
    /// The same in percent of the mean over all ranks.
    pub of_mean_pct: f64,
}

/// A kernel that takes longer on one rank than on the others.
#[derive(Debug, Clone, PartialEq)]
pub struct SlowKernel {
    /// The name as in the file.
    pub name: String,
    /// A short name that differs from those of the other kernels in the log of the rank.
    pub short_name: String,
    /// Sum of its durations on the rank.
    pub time_ns: i64,
    /// The mean of this sum over the other ranks.
    pub others_ns: i64,
}

/// Breakdown of the job's window on one rank into parts that do not overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TimeParts {
    /// Compute kernels run, no communication.
    pub compute_ns: i64,
    /// Compute kernels and communication run at the same time.
    pub hidden_ns: i64,
    /// Copies or sets run without kernels, or graphs traced as a whole.
    pub other_ns: i64,
    /// Communication runs and no other kernel: transfer.
    pub transfer_ns: i64,
    /// Communication runs and no other kernel: waiting for the last rank.
    pub wait_ns: i64,
    /// Communication runs and no other kernel: not matched with other ranks.
    pub unmatched_ns: i64,
    /// Nothing runs.
    pub idle_ns: i64,
    /// By how much the rank's time range is shorter than the job's.
    pub outside_ns: i64,
}

/// One trace as input of [`ranks`].
#[derive(Debug, Clone, Copy)]
pub struct RankInput<'a> {
    /// The log of the whole trace.
    pub log: &'a RankLog,
    /// The result of [`window_log`], if a window is selected in the trace.
    pub window: Option<&'a RankWindow>,
}

/// Groups ranks into jobs and matches their collectives. The order of the inputs does not matter.
///
/// A job is limited to the selected windows if one is selected in each of its traces; otherwise whole traces are compared.
pub fn ranks(inputs: &[RankInput]) -> Ranks {
    let rules = &RULES;
    let logs: Vec<&RankLog> = inputs.iter().map(|input| input.log).collect();
    let whole: Vec<RankInput> = logs.iter().map(|&log| RankInput { log, window: None }).collect();
    let (groups, ungrouped) = jobs::group(&logs, rules);
    let (mut jobs, mut calls_of_jobs) = (Vec::new(), Vec::new());
    for group in &groups {
        let windows = WindowSelection::of(group, inputs);
        let inputs = if windows == WindowSelection::All { inputs } else { &whole };
        let operations = matching::match_calls(group, inputs, rules);
        jobs.push(times::job(group, windows, inputs, &operations, rules));
        calls_of_jobs.push(operations);
    }
    let sections = sections::sections(&jobs, &calls_of_jobs, &ungrouped);
    Ranks { jobs, ungrouped, sections }
}

/// In how many of a job's traces a window is selected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowSelection {
    /// In none: whole traces are compared.
    None,
    /// In some, but not all: whole traces are compared, and a note mentions it.
    Partial,
    /// In all: the windows are compared.
    All,
}

impl WindowSelection {
    fn of(group: &jobs::JobGroup, inputs: &[RankInput]) -> Self {
        let has_window = |member: &jobs::Member| inputs.get(member.log).is_some_and(|input| input.window.is_some());
        let selected: Vec<bool> = group.members.iter().map(has_window).collect();
        match (selected.contains(&true), selected.contains(&false)) {
            (false, _) => Self::None,
            (true, true) => Self::Partial,
            (true, false) => Self::All,
        }
    }

    /// A sentence for the report, if one is needed.
    pub fn note(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Partial => Some("Whole traces are compared because a window is selected in only some of them."),
            Self::All => Some("All values refer to the selected window."),
        }
    }
}

impl Job {
    /// The straggler for which the other ranks wait longest, if there is one.
    pub fn straggler(&self) -> Option<&Rank> {
        self.stragglers().into_iter().next()
    }

    /// The shortest time range of a rank: in it are all collectives that are matched.
    pub fn covered_ns(&self) -> i64 {
        self.ranks.iter().map(|rank| rank.wall_ns).min().unwrap_or(0)
    }

    /// The number of ranks that are open and of all ranks, if some are not open.
    pub fn open_of_all(&self) -> Option<(usize, u32)> {
        let open = self.ranks.len();
        self.world_size.filter(|all| *all as usize > open).map(|all| (open, all))
    }

    /// All ranks that delay the others, the one for which they wait longest first.
    pub fn stragglers(&self) -> Vec<&Rank> {
        let mut stragglers: Vec<&Rank> = self.ranks.iter().filter(|rank| rank.is_straggler).collect();
        ordering::sort_by(&mut stragglers, |a, b| b.waited_for_pct.total_cmp(&a.waited_for_pct));
        stragglers
    }

    /// A sum of waiting over the other ranks as a mean per rank.
    pub fn per_other_rank(&self, sum_ns: i64) -> i64 {
        sum_ns / i64::try_from(self.ranks.len().saturating_sub(1)).unwrap_or(1).max(1)
    }
}
