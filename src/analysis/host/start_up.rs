//! When each process of a trace starts: from the calls and ranges in which its threads load code, create contexts,
//! initialise, compile or warm up. One pass over calls, ranges and ops, and a sort of the loads: O(n + l log l) for `l`
//! loads.
//!
//! **Evidence.** A load is a call of `patterns/start_up.json`, a range of the host whose words say so, or a slow first
//! launch of a kernel ([`FirstLaunches`](crate::trace::FirstLaunches)). A first launch counts from zero at 1 ms to its
//! whole length at 2 ms, so that no launch jumps by 1 ms when it takes a microsecond more.
//!
//! **A process is seen starting** if a call or range that a process has when it starts comes before or in its first
//! launch of a kernel; or if that first launch is slow itself, and its kernel runs as soon as the call returns. If the
//! kernel runs later, the call may have waited for work of before the capture. A load in the middle of a running
//! process starts nothing, also if the capture begins with it: then kernels run whose launches it does not contain.
//!
//! **The start ends** at a change point (CUSUM): the end `T` of a load that maximises the time of the loads from `S` to
//! `T`, minus 10 % of the time from `S` to `T`. `S` is the beginning of a load before or in the first launch, also
//! chosen for the maximum: a program may prepare for minutes before it uses the GPU. All loads of a process count,
//! overlaps once. The maximum is continuous in all times; `T` changes from one load to another only where both explain
//! the trace equally well.

use super::load_words::{LoadKind, LoadWords};
use crate::analysis::time::work::{Intervals, add_interval};
use crate::ordering;
use crate::rules::signals::{CallKind, Signals};
use crate::trace::{
    CallId, HostInterval, LoadSum, NameId, Names, Ns, OpKind, ProcessId, SLOW_FIRST_LAUNCH, Span, StartUp, StartUps,
    ThreadId, Trace,
};
use std::collections::{HashMap, HashSet};

/// A kernel that starts later after its launch may have waited for work of before the capture.
const MAX_WAIT: Ns = super::unseen::MIN_UNSEEN;

/// Returns the processes that are seen starting; `None` if there are none. Not for parts of a trace.
pub(crate) fn find(trace: &Trace) -> Option<StartUps> {
    let mut processes: Vec<Events> = trace.processes.iter().map(|_| Events::default()).collect();
    add_calls(trace, &mut processes);
    add_ranges(trace, &mut processes);
    add_ops(trace, &mut processes);
    let (mut starts, mut loads) = (Vec::new(), Vec::new());
    for (process, events) in (0..).map(ProcessId).zip(&mut processes) {
        if let Some(start) = events.start(trace, process) {
            starts.push(start);
            loads.extend(events.loads.iter().map(|load| load.interval));
        }
    }
    (!starts.is_empty()).then(|| StartUps::new(starts, loads))
}

/// The name of a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum LoadName {
    Launch(NameId),
    Call(NameId),
    Range(NameId),
}

#[derive(Debug, Clone, Copy)]
struct Load {
    interval: HostInterval,
    name: LoadName,
    /// A process does this when it starts.
    shows_start: bool,
}

/// A call that launches kernels.
#[derive(Debug, Clone, Copy)]
struct FirstLaunch {
    call: CallId,
    end: Ns,
    is_slow: bool,
    /// The start of its first op.
    op_start: Option<Ns>,
}

/// The events of one process.
#[derive(Debug, Default)]
struct Events {
    /// First start and last end.
    extent: Option<(Ns, Ns)>,
    first_launch: Option<FirstLaunch>,
    /// The start of the first kernel whose launch the trace does not contain.
    unlaunched: Option<Ns>,
    loads: Vec<Load>,
}

fn process_of(trace: &Trace, thread: ThreadId) -> usize {
    trace.threads.get(thread.0 as usize).map_or(usize::MAX, |thread| thread.process.0 as usize)
}

fn add_calls(trace: &Trace, processes: &mut [Events]) {
    let (signals, words) = (Signals::embedded(), LoadWords::embedded());
    let names = &trace.calls.names;
    let kinds: Vec<CallKind> = names.iter().map(|name| signals.call(name)).collect();
    let loads: Vec<Option<LoadKind>> = names.iter().map(|name| words.of_call(name)).collect();
    let slow: HashSet<(Ns, Ns)> = trace.first_launches.within(Ns(i64::MIN), Ns(i64::MAX)).collect();
    for (id, call) in (0..).map(CallId).zip(trace.calls.iter()) {
        let Some(events) = processes.get_mut(process_of(trace, call.thread)) else { continue };
        events.extend(call.start, call.end());
        let name = call.name.0 as usize;
        if let Some(kind) = loads.get(name).copied().flatten() {
            events.add(&call, LoadName::Call(call.name), kind == LoadKind::Once);
        }
        if !matches!(kinds.get(name), Some(CallKind::Launch | CallKind::GraphLaunch)) {
            continue;
        }
        let is_slow = slow.contains(&(call.start, call.end()));
        if is_slow {
            events.add(&loading_part(&call), LoadName::Launch(call.name), false);
        }
        events.first_launch.get_or_insert(FirstLaunch { call: id, end: call.end(), is_slow, op_start: None });
    }
}

/// The part of a slow first launch that counts: twice what it takes beyond the limit, at most all of it.
fn loading_part(call: &Span) -> Span {
    let beyond = call.duration.since(SLOW_FIRST_LAUNCH);
    let duration = (beyond + beyond).min(call.duration).max(Ns::ZERO);
    Span { start: call.end() - duration, duration, ..*call }
}

fn add_ranges(trace: &Trace, processes: &mut [Events]) {
    let words = LoadWords::embedded();
    let are_starts: Vec<bool> = trace.ranges.names.iter().map(|name| words.is_start_range(name)).collect();
    for range in trace.ranges.iter() {
        let Some(events) = processes.get_mut(process_of(trace, range.thread)) else { continue };
        events.extend(range.start, range.end());
        if are_starts.get(range.name.0 as usize) == Some(&true) {
            events.add(&range, LoadName::Range(range.name), true);
        }
    }
}

/// The ops extend the time of their process. The first op of each first launch is found among them, and the first kernel without launch.
fn add_ops(trace: &Trace, processes: &mut [Events]) {
    let launches = processes.iter().enumerate().filter_map(|(index, events)| Some((events.first_launch?.call, index)));
    let first: HashMap<CallId, usize> = launches.collect();
    for (op, launch) in trace.gpu_ops.iter().zip(trace.gpu_ops.launches()) {
        if let Some(events) = processes.get_mut(op.process.0 as usize) {
            events.extend(op.start, op.end());
            if launch.is_none() && op.kind == OpKind::Kernel {
                events.unlaunched.get_or_insert(op.start);
            }
        }
        let launched_first = launch.and_then(|call| processes.get_mut(*first.get(&call)?));
        if let Some(launch) = launched_first.and_then(|events| events.first_launch.as_mut()) {
            launch.op_start.get_or_insert(op.start);
        }
    }
}

impl Events {
    fn extend(&mut self, start: Ns, end: Ns) {
        let (first, last) = self.extent.unwrap_or((start, end));
        self.extent = Some((first.min(start), last.max(end)));
    }

    fn add(&mut self, span: &Span, name: LoadName, shows_start: bool) {
        let interval = HostInterval { thread: span.thread, start: span.start, end: span.end() };
        if span.duration > Ns::ZERO {
            self.loads.push(Load { interval, name, shows_start });
        }
    }

    /// `None` if the process is not seen starting.
    fn start(&mut self, trace: &Trace, process: ProcessId) -> Option<StartUp> {
        let ((first_event, last_event), launch) = (self.extent?, self.first_launch?);
        let runs_at_once = launch.op_start.is_some_and(|start| start.since(launch.end) <= MAX_WAIT);
        // A kernel that runs before its process has launched one was launched before the capture.
        if launch.op_start.is_some() && self.unlaunched.is_some_and(|start| start < launch.end) {
            return None;
        }
        let is_before = |load: &Load| load.shows_start && load.interval.start < launch.end;
        if !(launch.is_slow && runs_at_once || self.loads.iter().any(is_before)) {
            return None;
        }
        ordering::sort_by_key(&mut self.loads, |load| (load.interval.start, std::cmp::Reverse(load.interval.end)));
        let mut disjoint = Intervals::new();
        self.loads.iter().for_each(|load| add_interval(&mut disjoint, (load.interval.start, load.interval.end)));
        let steady_from = change_point(&disjoint, launch.end, LoadWords::embedded().thresholds.min_loading_pct)?;
        let before = outermost(self.loads.iter().filter(|load| load.interval.start < steady_from));
        let load =
            disjoint.iter().take_while(|load| load.0 < steady_from).fold(Ns::ZERO, |sum, (s, e)| sum + e.since(*s));
        let (loads, largest) = (before.len() as u64, sums(trace, &before));
        Some(StartUp { process, first_event, last_event, steady_from, load, loads, largest })
    }
}

/// The end of the load at which the loads, minus this percentage of the time since one that begins before
/// `first_launch_end`, are largest. `loads` are disjoint and sorted. `None` if there is no load before that time.
fn change_point(loads: &[(Ns, Ns)], first_launch_end: Ns, percent: u64) -> Option<Ns> {
    let penalty = |time: Ns| i128::from(percent) * i128::from(time.0);
    let (mut load, mut least_before, mut best) = (0_i128, None::<i128>, None::<(i128, Ns)>);
    for (start, end) in loads {
        let before = 100 * load - penalty(*start);
        if *start < first_launch_end {
            least_before = Some(least_before.map_or(before, |least| least.min(before)));
        }
        load += i128::from(end.since(*start).0);
        let value = 100 * load - penalty(*end) - least_before?;
        // The earlier of two equal ones.
        if best.is_none_or(|(highest, _)| value > highest) {
            best = Some((value, *end));
        }
    }
    best.map(|(_, end)| end)
}

/// The loads without ranges in another range of their thread, which say the same again. `loads` are sorted by start, longer ones first.
fn outermost<'a>(loads: impl Iterator<Item = &'a Load>) -> Vec<&'a Load> {
    let mut ends: HashMap<ThreadId, Ns> = HashMap::new();
    let is_outermost = |load: &&Load| {
        if !matches!(load.name, LoadName::Range(_)) {
            return true;
        }
        let end = ends.entry(load.interval.thread).or_insert(Ns(i64::MIN));
        let is_outermost = load.interval.end > *end;
        *end = load.interval.end.max(*end);
        is_outermost
    };
    loads.filter(is_outermost).collect()
}

/// Sums by name, the largest first.
fn sums(trace: &Trace, loads: &[&Load]) -> Vec<LoadSum> {
    let mut by_name: HashMap<LoadName, (u64, Ns)> = HashMap::new();
    for load in loads {
        let (count, time) = by_name.entry(load.name).or_default();
        *count += 1;
        *time += load.interval.end.since(load.interval.start);
    }
    let text = |names: &Names, name: NameId| names.get(name).to_owned();
    let sum = |(name, (count, time)): (LoadName, (u64, Ns))| LoadSum {
        name: match name {
            LoadName::Launch(name) | LoadName::Call(name) => text(&trace.calls.names, name),
            LoadName::Range(name) => text(&trace.ranges.names, name),
        },
        count,
        time,
        is_launch: matches!(name, LoadName::Launch(_)),
    };
    let mut sums: Vec<LoadSum> = by_name.into_iter().map(sum).collect();
    ordering::sort_by(&mut sums, |a, b| b.time.cmp(&a.time).then_with(|| a.name.cmp(&b.name)));
    sums
}

#[cfg(test)]
#[path = "start_up_tests.rs"]
mod tests;
