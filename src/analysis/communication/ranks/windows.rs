//! The same moments on the clocks of a job's traces, so that a window picked in one is picked in all.
//!
//! All ranks leave a collective together: where one that was matched ends in two traces is one moment on two clocks. A time
//! between such moments is told from the nearest, so that clocks may run apart over the length of a trace.

use crate::analysis::communication::ranks::Seen;
use crate::analysis::communication::ranks::jobs::{Group, group};
use crate::analysis::communication::ranks::log::RankLog;
use crate::analysis::communication::ranks::matching::{Stream, streams};
use crate::analysis::communication::ranks::rules::Rules;
use crate::ordering::StableSort;
use crate::trace::{Ns, Window};

/// Which logs are of one job, and where moments of one lie in the others.
#[derive(Debug)]
pub struct Jobs<'a> {
    logs: &'a [&'a RankLog],
    groups: Vec<Group>,
}

impl<'a> Jobs<'a> {
    /// Of these logs.
    pub fn of(logs: &'a [&'a RankLog]) -> Self {
        Self { logs, groups: group(logs, Rules::embedded()).0 }
    }

    /// Of each job the log of its first rank.
    pub fn firsts(&self) -> impl Iterator<Item = usize> {
        self.groups.iter().filter_map(|group| group.members.first()).map(|member| member.log)
    }

    /// Each log of the job that the log at `at` is of, with the window that holds the same moments as this one there; `None` of
    /// one that shares no matched collective with it, or holds nothing of that time. Nothing where it is of no job.
    pub fn windows(&self, at: usize, window: Window) -> Vec<(usize, Option<Window>)> {
        let is_in = |group: &&Group| group.members.iter().any(|member| member.log == at);
        let Some(group) = self.groups.iter().find(is_in) else { return Vec::new() };
        let rules = Rules::embedded();
        let seen: Vec<Seen> = self.logs.iter().map(|&log| Seen { log, part: None }).collect();
        let mut streams = streams(group, &seen, rules);
        // Of these a rank may leave early.
        streams.retain(|stream| !rules.one_way.contains(&stream.operation));
        let log_of_rank: Vec<usize> = group.members.iter().map(|member| member.log).collect();
        let of_log = |other: usize| {
            if other == at {
                return Some(window);
            }
            let found = Clocks::of(&streams, &log_of_rank, [at, other]).of_window(window);
            found.zip(self.logs.get(other)?.span()).and_then(|(found, span)| part_of(found, span))
        };
        let mut own = log_of_rank.clone();
        // Devices of one file are ranks that share a log.
        own.dedup();
        own.into_iter().map(|log| (log, of_log(log))).collect()
    }
}

fn part_of(window: Window, span: Window) -> Option<Window> {
    let (start, end) = (window.start.max(span.start), window.end.min(span.end));
    (start < end).then_some(Window { start, end })
}

/// One moment on two clocks, many times; by the first.
struct Clocks(Vec<[i64; 2]>);

impl Clocks {
    /// From what the ranks of these two logs left together.
    fn of(streams: &[Stream], log_of_rank: &[usize], logs: [usize; 2]) -> Self {
        let mut moments = Vec::new();
        for stream in streams {
            stream.each_matched(&mut |calls| {
                let end = |log: usize| {
                    let of_log = calls.iter().find(|(rank, _)| log_of_rank.get(*rank) == Some(&log));
                    of_log.map(|(_, call)| call.end_ns())
                };
                let [one, other] = logs.map(end);
                moments.extend(one.zip(other).map(|(one, other)| [one, other]));
            });
        }
        moments.order_by_key(|[one, _]| *one);
        Self(moments)
    }

    fn of_window(&self, window: Window) -> Option<Window> {
        Some(Window { start: self.at(window.start)?, end: self.at(window.end)? })
    }

    /// What the other clock says at this time of the one.
    fn at(&self, time: Ns) -> Option<Ns> {
        let behind = self.0.partition_point(|[one, _]| *one < time.0);
        let near = [behind.checked_sub(1), Some(behind)].into_iter().flatten().filter_map(|place| self.0.get(place));
        let [one, other] = near.min_by_key(|[one, _]| one.abs_diff(time.0))?;
        Some(Ns(time.0.saturating_sub(*one).saturating_add(*other)))
    }
}
