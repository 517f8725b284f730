//! Translates a window between the clocks of a job's traces, so that a window selected in one trace can be selected in all.
//!
//! All ranks leave a collective together, so the ends of a matched collective in two traces are the same moment on two clocks.
//! Each time uses the clock offset at the nearest such moment, which allows clocks to drift over the length of a trace.

use super::RankInput;
use super::jobs::{JobGroup, group};
use super::log::RankLog;
use super::matching::{OperationCalls, match_calls};
use super::rules::RULES;
use crate::ordering;
use crate::trace::{Ns, Window};

/// Logs grouped into jobs, with the relations between their clocks.
#[derive(Debug)]
pub struct JobClocks<'a> {
    logs: &'a [&'a RankLog],
    groups: Vec<JobGroup>,
}

impl<'a> JobClocks<'a> {
    /// Groups the logs into jobs.
    pub fn new(logs: &'a [&'a RankLog]) -> Self {
        Self { logs, groups: group(logs, &RULES).0 }
    }

    /// The index of the log of each job's first rank.
    pub fn first_logs(&self) -> impl Iterator<Item = usize> {
        self.groups.iter().filter_map(|group| group.members.first()).map(|member| member.log)
    }

    /// For each log with one rank of a job: when it waited in a collective for the rank that arrived last, sorted by start. Devices
    /// of one file need no such list: they share a clock.
    pub fn waits(&self) -> Vec<Vec<RankWait>> {
        let mut waits: Vec<Vec<RankWait>> = vec![Vec::new(); self.logs.len()];
        let inputs: Vec<RankInput> = self.logs.iter().map(|&log| RankInput { log, window: None }).collect();
        for group in &self.groups {
            let is_alone = |log: usize| group.members.iter().filter(|member| member.log == log).count() == 1;
            for calls in match_calls(group, &inputs, &RULES) {
                calls.for_each_collective(&mut |collective| {
                    let Some(last) = collective.last.and_then(|rank| group.members.get(rank)) else { return };
                    for participant in collective.participants.iter().filter(|participant| participant.wait_ns > 0) {
                        let log = group.members.get(participant.rank).map(|member| member.log);
                        let Some(log) = log.filter(|log| is_alone(*log)) else { continue };
                        let start = Ns(participant.call.start_ns);
                        let wait = RankWait { start, until: start + Ns(participant.wait_ns), rank: last.label.clone() };
                        waits.get_mut(log).into_iter().for_each(|waits| waits.push(wait.clone()));
                    }
                });
            }
        }
        waits.iter_mut().for_each(|waits| ordering::sort_by_key(waits, |wait| wait.start));
        waits
    }

    /// Translates a time of the log at index `from` to all logs of its job, including itself. The result is empty if the log belongs
    /// to no job; logs that share no matched collective with it are left out.
    pub fn times(&self, from: usize, time: Ns) -> Vec<(usize, Ns)> {
        let translated = self.translate(from, &mut |pair| match pair {
            None => Some(time),
            Some(pair) => pair.translate(time),
        });
        translated.into_iter().filter_map(|(log, time)| Some((log, time?))).collect()
    }

    /// Translates a window of the log at index `from` to all logs of its job, including itself.
    ///
    /// The window is `None` for a log that shares no matched collective with it or has no work at that time. The result is empty
    /// if the log belongs to no job.
    pub fn windows(&self, from: usize, window: Window) -> Vec<(usize, Option<Window>)> {
        let translated = self.translate(from, &mut |pair| match pair {
            None => Some(window),
            Some(pair) => pair.translate_window(window),
        });
        let span = |log: usize| self.logs.get(log)?.span();
        let visible =
            |log: usize, window: Window| if log == from { Some(window) } else { intersection(window, span(log)?) };
        translated.into_iter().map(|(log, window)| (log, window.and_then(|window| visible(log, window)))).collect()
    }

    /// For each log of the job of the log at index `from`: what `to` makes of the relation of their clocks, which is `None` for the
    /// log itself.
    fn translate<T>(
        &self,
        from: usize,
        to: &mut dyn FnMut(Option<&ClockPair>) -> Option<T>,
    ) -> Vec<(usize, Option<T>)> {
        let has_log = |group: &&JobGroup| group.members.iter().any(|member| member.log == from);
        let Some(group) = self.groups.iter().find(has_log) else { return Vec::new() };
        let inputs: Vec<RankInput> = self.logs.iter().map(|&log| RankInput { log, window: None }).collect();
        let operations = match_calls(group, &inputs, &RULES);
        let log_of_rank: Vec<usize> = group.members.iter().map(|member| member.log).collect();
        let mut translate_to = |log: usize| {
            let pair = (log != from).then(|| ClockPair::new(&operations, &log_of_rank, [from, log]));
            to(pair.as_ref())
        };
        let mut logs = log_of_rank.clone();
        // Devices of one file are ranks that share a log.
        logs.dedup();
        logs.into_iter().map(|log| (log, translate_to(log))).collect()
    }
}

fn intersection(window: Window, span: Window) -> Option<Window> {
    let (start, end) = (window.start.max(span.start), window.end.min(span.end));
    (start < end).then_some(Window { start, end })
}

/// Time that a rank spent in a collective before the last rank arrived, on its own clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RankWait {
    /// The start of its call.
    pub start: Ns,
    /// When the last rank arrived: from then on the call lasts as long as that of the last rank.
    pub until: Ns,
    /// The rank that arrived last: `rank 3`.
    pub rank: String,
}

/// Moments that are known on both of two clocks, sorted by the first clock.
struct ClockPair(Vec<[i64; 2]>);

impl ClockPair {
    /// Uses the ends of the collectives in which ranks of both logs took part.
    fn new(operations: &[OperationCalls], log_of_rank: &[usize], logs: [usize; 2]) -> Self {
        let mut moments = Vec::new();
        for operation in operations {
            operation.for_each_match(&mut |calls| {
                let end = |log: usize| {
                    let own = calls.iter().find(|(rank, _)| log_of_rank.get(*rank) == Some(&log));
                    own.map(|(_, call)| call.end_ns())
                };
                let [one, other] = logs.map(end);
                moments.extend(one.zip(other).map(|(one, other)| [one, other]));
            });
        }
        ordering::sort_by_key(&mut moments, |[one, _]| *one);
        Self(moments)
    }

    fn translate_window(&self, window: Window) -> Option<Window> {
        Some(Window { start: self.translate(window.start)?, end: self.translate(window.end)? })
    }

    /// Translates a time of the first clock to the second one; `None` if no common moment is known.
    fn translate(&self, time: Ns) -> Option<Ns> {
        let next = self.0.partition_point(|[one, _]| *one < time.0);
        let neighbours = [next.checked_sub(1), Some(next)].into_iter().flatten().filter_map(|index| self.0.get(index));
        let [one, other] = neighbours.min_by_key(|[one, _]| one.abs_diff(time.0))?;
        Some(Ns(time.0.saturating_sub(*one).saturating_add(*other)))
    }
}
