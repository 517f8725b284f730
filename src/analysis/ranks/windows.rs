//! The same moments on the clocks of a job's traces, so that a window picked in one is picked in all.
//!
//! All ranks leave a collective together: where one that was matched ends in two traces is one moment on two clocks. A time
//! between such moments is told from the nearest, so that clocks may run apart over the length of a trace.

use super::log::RankLog;
use super::matching::{Stream, streams};
use super::rules::Rules;
use super::{Seen, jobs};
use crate::ordering::InOrder;
use crate::trace::{Ns, Window};

/// Of each log the window that holds the same moments as this one in the log at `at`; `None` of one that is of no job with it,
/// shares no matched collective with it, or holds nothing of that time.
pub fn windows_of_job(logs: &[&RankLog], at: usize, window: Window) -> Vec<Option<Window>> {
    let rules = Rules::embedded();
    let seen: Vec<Seen> = logs.iter().map(|&log| Seen { log, part: None }).collect();
    let mut windows = vec![None; logs.len()];
    let groups = jobs::group(logs, rules).0;
    if let Some(group) = groups.iter().find(|group| group.members.iter().any(|member| member.log == at)) {
        let mut streams = streams(group, &seen, rules);
        // Of these a rank may leave early.
        streams.retain(|stream| !rules.one_way.contains(&stream.operation));
        let log_of_rank: Vec<usize> = group.members.iter().map(|member| member.log).collect();
        for (other, (slot, log)) in windows.iter_mut().zip(logs).enumerate() {
            if other != at && log_of_rank.contains(&other) {
                let found = Clocks::of(&streams, &log_of_rank, [at, other]).of_window(window);
                *slot = found.zip(log.span()).and_then(|(found, span)| part_of(found, span));
            }
        }
    }
    windows.get_mut(at).into_iter().for_each(|slot| *slot = Some(window));
    windows
}

/// The logs of the job that this one is of.
pub fn logs_of_job(logs: &[&RankLog], at: usize) -> impl Iterator<Item = usize> + use<> {
    let groups = jobs::group(logs, Rules::embedded()).0;
    let mut own: Vec<usize> = Vec::new();
    for group in groups.iter().filter(|group| group.members.iter().any(|member| member.log == at)) {
        own.extend(group.members.iter().map(|member| member.log));
    }
    own.into_iter()
}

/// Of each job the log of its first rank.
pub fn first_of_each_job(logs: &[&RankLog]) -> Vec<usize> {
    let groups = jobs::group(logs, Rules::embedded()).0;
    groups.iter().filter_map(|group| group.members.first()).map(|member| member.log).collect()
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
