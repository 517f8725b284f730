//! The comparison of ranks: what limits it, and why a file is left out. From counts, labels and names of files.

use super::noun;
use crate::digits::grouped;

/// Ranks of a job are missing.
pub(crate) fn missing_ranks(open: usize, world_size: u32) -> String {
    format!("{open} of {world_size} ranks are open: if a missing rank arrives last, waiting for it counts as transfer.")
}

/// Only the names of files group ranks.
pub(crate) fn grouped_by_names(file: &str) -> String {
    format!("Ranks are grouped by file names only ({file}), which may be wrong.")
}

/// A file is incomplete.
pub(crate) fn cut_short(file: &str) -> String {
    format!("{file} is cut short or damaged: other ranks may seem to wait for the missing part.")
}

/// Calls of long traces are left out.
pub(crate) fn left_out_calls(calls: u64) -> String {
    format!("The last {} calls of long traces are not compared.", grouped(calls))
}

/// Files with several GPUs.
pub(crate) fn several_gpus(files: usize) -> String {
    format!("{files} files have work on several GPUs: the busiest one is taken as the rank's GPU.")
}

/// How calls without numbers were matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Matched {
    /// By their order; their times agree.
    OrderAndTimes,
    /// By their times; their order does not agree.
    Times,
    /// By their order; their times show nothing.
    Order,
}

/// Collectives that were matched without numbers.
pub(crate) fn matched(count: u64, by: Matched) -> String {
    let (are, count) = (noun(count, "collective is", "collectives are"), grouped(count));
    match by {
        Matched::OrderAndTimes => format!(
            "{count} {are} matched by the order of the calls, because the traces do not number them; the times of the calls agree."
        ),
        Matched::Times => format!(
            "{count} {are} matched by the times of the calls, because the traces do not number them: calls at the same place \
             of the order did not run at the same time, so a trace lacks the first ones."
        ),
        Matched::Order => format!(
            "{count} {are} matched by the order of the calls, because the traces do not number them. Their times do not show \
             whether they belong together: the clocks differ, or a trace lacks calls. In the second case the waiting is wrong."
        ),
    }
}

/// Calls that were not matched.
pub(crate) fn unmatched(count: u64, reason: &str) -> String {
    format!("{} calls are not matched: {reason}.", grouped(count))
}

/// A limit of one of several jobs.
pub(crate) fn of_job(title: &str, limit: &str) -> String {
    format!("{title}: {limit}")
}

/// A file that is in no job.
pub(crate) fn not_grouped(reason: &str) -> String {
    format!("not grouped: {reason}")
}

/// `7 of 8`: the ranks of a process group that are open.
pub(crate) fn group_ranks(open: usize, size: Option<usize>) -> String {
    size.map_or_else(|| open.to_string(), |size| format!("{open} of {size}"))
}

/// `rank 3`
pub(crate) fn rank(rank: u32) -> String {
    format!("rank {rank}")
}

/// A rank outside of its job.
pub(crate) fn impossible_rank(rank: i64, world_size: i64) -> String {
    format!("it claims to be rank {rank} of {world_size}, which is impossible, and its name has no rank number")
}

/// The name of a file is unlike those of the others.
pub(crate) fn unrelated(rank: &str, world_size: Option<u32>) -> String {
    let of_size = world_size.map_or_else(String::new, |size| format!(" of {size}"));
    format!("it is {rank}{of_size}, but its name has nothing in common with those of other such ranks")
}

/// A rank that another file has.
pub(crate) fn already_present(rank: &str, file: &str) -> String {
    format!("{rank} is already present, from {file}")
}

/// The only file of a job.
pub(crate) fn alone(rank: &str, world_size: Option<u32>) -> String {
    match world_size {
        Some(1) => format!("{rank} is the only rank of its job"),
        Some(size) => format!("{rank} is one of {size} ranks, and no other rank of its job is open"),
        None => format!("its name says {rank}, and no other rank of its job is open"),
    }
}

/// A job whose files have no common name.
pub(crate) fn first_and_others(first: &str, others: usize) -> String {
    format!("{first} and {others} more")
}
