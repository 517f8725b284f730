//! The cause of an idle gap, from the launch of the op after it. O(log n) for a gap and n blocking calls.
//!
//! A gap is the time between the end of all earlier ops of a device and the start of its next op. Its class
//! depends on when the next op was launched:
//! - No launch call is recorded: [`IdleCause::Unknown`].
//! - The op that ended last belongs to the same launch, a graph replay: [`IdleCause::Turnaround`].
//! - The launch call returned after the gap began: [`IdleCause::HostLate`], or [`IdleCause::Drained`] if the
//!   launching thread was blocked in a call when the gap began: the host had waited until the GPU was
//!   empty. The ops after such a drain count as drained too ("refill") until one of them is launched before its
//!   predecessor ends, at most for [`MAX_REFILL`] launches, or until a launch call itself takes
//!   longer than [`SLOW_LAUNCH`]. If the host was never ahead of the device, drained time
//!   is host late, see [`IdleTimes::settle`].
//!   A thread that compiled code (`torch.compile`) for most of the time until its launch is neither late nor drained:
//!   [`IdleCause::Compiling`]. Such a launch ends a refill.
//! - The op was launched in time: [`IdleCause::Turnaround`] if the gap is short, else [`IdleCause::OtherStream`].
//! - The part of a late launch in which the launching thread loaded code, and its process is seen starting in the
//!   trace: [`IdleCause::StartUp`], see [`start_up`](super::start_up). Only the loads are proven; the rest keeps its
//!   cause. Where a gap has loads between other delays, its parts have their lengths, but the loads are shown after the
//!   delays.
//! - The part of a late launch in which the launching thread of a serving engine waited for requests: [`IdleCause::NoRequests`], see [`RequestWaits`](crate::trace::RequestWaits).
//! - The part of a late launch in which the profiler held the launching thread: [`IdleCause::Profiler`], see
//!   [`profiler_pauses`](super::profiler_pauses).
//! - The time of a gap in which other GPUs of the process worked: [`IdleCause::OtherGpu`], as far as the launching thread was blocked
//!   meanwhile, because a call that goes on while this GPU has nothing to do waits for another one; and all of it, if the next op was
//!   launched before the other GPUs ran empty and started right after.
//! - Time in which the device executed work that the trace does not contain, or may have: [`IdleCause::Unseen`], see
//!   [`unseen`](super::unseen). Such time at the start of a gap is no part of the gap for the other rules.
//!
//! If ops start before their launch, the clocks of host and device differ. Then a late launch is proven only as far as it is later
//! than twice that difference; the rest of the gap is [`IdleCause::Unknown`].

use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::host::blocking_calls::{BlockingCall, BlockingCalls, DrainKey};
use crate::analysis::host::launch_gaps::{Gaps, LaunchGaps, LaunchRules, LaunchSums, Stretch};
use crate::analysis::host::unseen::{MIN_UNSEEN, may_wait_for_others, unseen_from, unseen_until};
use crate::analysis::section::words;
use crate::analysis::time::gaps::{Gap, GapSweep};
use crate::analysis::time::work::{Work, each_work, launch_of};
use crate::rules::signals::CallKind;
use crate::trace::{CallId, DeviceId, GpuOp, HostInterval, NameId, Ns, OpKind, Span, Trace};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Shorter gaps are rounding errors of the clock.
const ROUNDING: Ns = Ns(10);
/// A shorter gap between two ops that were launched in time is the usual delay of the hardware.
const TURNAROUND: Ns = Ns(3_000);
/// The same where a graph replay begins or ends.
const GRAPH_TURNAROUND: Ns = Ns(10_000);
/// Launches after a drain that are attributed to it. A host that is still late after that is slower than the GPU.
pub(crate) const MAX_REFILL: u32 = 200;
/// A longer launch of a kernel does more than that, such as loading a module. The launch of a large graph may take as long.
const SLOW_LAUNCH: Ns = Ns(1_000_000);
/// A call may return this long before the op ends for which it waited: host and device have two clocks, and those of HIP differ more.
const CLOCK_SKEW: Ns = Ns(5_000);
const HIP_CLOCK_SKEW: Ns = Ns(15_000);
/// The host was ahead of the device if a call waited at least this long for it.
const MIN_WAIT: Ns = Ns(50_000);
/// The host was ahead of the device if it launched at least this share of the ops in time.
const MIN_SHARE_AHEAD: f64 = 0.1;

/// Why a device was idle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum IdleCause {
    /// The usual delay between two ops, or any delay within a graph replay.
    Turnaround,
    /// The host launched the next op too late.
    HostLate,
    /// The host launched the next op too late, after a call that had waited until the device was empty.
    Drained,
    /// The next op was launched in time and waited for something else, such as an event of another stream.
    OtherStream,
    /// The device executed work that the trace does not contain, or may have. This is no idle time.
    Unseen,
    /// The launch of the next op is not recorded, or the clocks of host and device differ too much to tell.
    #[default]
    Unknown,
    /// The launching thread compiled code.
    Compiling,
    /// The launching thread loaded code, in a process that is seen starting.
    StartUp,
    /// The serving engine had no request.
    NoRequests,
    /// The profiler held the launching thread.
    Profiler,
    /// The device waited for another GPU of its process.
    OtherGpu,
}

impl IdleCause {
    pub(crate) const ALL: [Self; 11] = [
        Self::Turnaround,
        Self::HostLate,
        Self::Drained,
        Self::OtherStream,
        Self::Unseen,
        Self::Unknown,
        Self::Compiling,
        Self::StartUp,
        Self::NoRequests,
        Self::Profiler,
        Self::OtherGpu,
    ];

    /// The cause with this number.
    pub(crate) fn of_tag(tag: u8) -> Self {
        Self::ALL.get(tag as usize).copied().unwrap_or_default()
    }
}

words!(
    IdleCause:
    Turnaround = "turnaround",
    HostLate = "host_late",
    Drained = "drained",
    OtherStream = "other_stream",
    Unseen = "unseen",
    Unknown = "unknown",
    Compiling = "compiling",
    StartUp = "start_up",
    NoRequests = "no_requests",
    Profiler = "profiler",
    OtherGpu = "other_gpu",
);

/// The launch of an op, compared with the op that ended last before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LaunchTiming {
    NotRecorded,
    /// Both ops belong to one launch.
    SameLaunch,
    /// Launched before the device became idle.
    InTime,
    /// Launched after the device became idle.
    Late,
    /// As [`Self::Late`], by a call that itself took longer than [`SLOW_LAUNCH`].
    LateAndSlow,
    /// Launched after the device became idle, and the launching thread compiled code for most of the time between.
    AfterCompiling,
    /// Launched after the device became idle while the launching thread was blocked in this call.
    AfterDrain(BlockingCall),
}

/// A gap in parts: unseen work at its start, a blocking call that waits for another GPU, before the launch, loads of a start, waits for
/// requests, pauses of the profiler and work of other GPUs before the launch, after it, and the time whose cause is not proven because the
/// clocks of host and device differ. A part may have length zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GapParts(pub(crate) [(IdleCause, Ns); 9]);

impl GapParts {
    /// The parts before and after the launch.
    fn around_launch(before: (IdleCause, Ns), after: (IdleCause, Ns)) -> Self {
        let none = |cause| (cause, Ns::ZERO);
        let [loads, waits, pauses] = [IdleCause::StartUp, IdleCause::NoRequests, IdleCause::Profiler].map(none);
        let others = none(IdleCause::OtherGpu);
        Self([none(IdleCause::Unseen), others, before, loads, waits, pauses, others, after, none(IdleCause::Unknown)])
    }

    fn whole(cause: IdleCause, gap: &Gap) -> Self {
        Self::around_launch((cause, gap.length()), (cause, Ns::ZERO))
    }

    /// The same after unseen work of this length.
    fn after_unseen(mut self, unseen: Ns) -> Self {
        let [first, ..] = &mut self.0;
        *first = (IdleCause::Unseen, unseen);
        self
    }

    /// The same, but a part of this length of the late launch has the other cause, one of those between it and the launch.
    fn with(mut self, cause: IdleCause, length: Ns) -> Self {
        let [_, _, before, between @ ..] = &mut self.0;
        if matches!(before.0, IdleCause::HostLate | IdleCause::Drained) {
            let length = length.min(before.1);
            before.1 = before.1.since(length);
            between.iter_mut().filter(|part| part.0 == cause).take(1).for_each(|part| part.1 += length);
        }
        self
    }

    /// The same, but so much of the late launch is calls that wait for other GPUs. They come first.
    fn after_other_gpu(mut self, in_calls: Ns) -> Self {
        let [_, first, before, ..] = &mut self.0;
        if matches!(before.0, IdleCause::HostLate | IdleCause::Drained) {
            first.1 = in_calls.min(before.1);
            before.1 = before.1.since(first.1);
        }
        self
    }

    /// The same, but for so much of the time after the launch the op waits for other GPUs.
    fn until_other_gpu(mut self, length: Ns) -> Self {
        let [.., others, after, _] = &mut self.0;
        let length = length.min(after.1);
        others.1 += length;
        after.1 = after.1.since(length);
        self
    }

    /// The part before the launch, with its times.
    pub(crate) fn before_launch(self, gap: &Gap) -> (IdleCause, Ns, Ns) {
        let [(_, unseen), (_, others), (cause, length), ..] = self.0;
        let start = gap.start.after(unseen + others);
        (cause, start, start.after(length))
    }

    /// The cause of the longest part; of the first, but for unseen work, if several are as long.
    pub(crate) fn main(self) -> IdleCause {
        let [unseen, others, before, rest @ ..] = self.0;
        let longer = |longest: (IdleCause, Ns), part: (IdleCause, Ns)| if part.1 > longest.1 { part } else { longest };
        longer(rest.into_iter().chain([others]).fold(before, longer), unseen).0
    }

    /// The cause of the longest part that has another cause than the longest one; the main one if there is none.
    pub(crate) fn lesser(self) -> IdleCause {
        let main = self.main();
        let others = self.0.into_iter().filter(|part| part.0 != main && part.1 > Ns::ZERO);
        others.max_by_key(|part| part.1).map_or(main, |part| part.0)
    }

    /// The same, but the cause before the launch holds only for the proven share of its time: `proven` of `of`.
    fn proven(self, proven: Ns, of: Ns) -> Self {
        if proven >= of {
            return self;
        }
        let [unseen, first, before, loads, waits, pauses, others, after, (_, mut unproven)] = self.0;
        let cause = before.0;
        let mut scaled = |part: (IdleCause, Ns)| {
            if part.0 != cause {
                return part;
            }
            let kept = i128::from(part.1.0) * i128::from(proven.0) / i128::from(of.0.max(1));
            let kept = Ns(i64::try_from(kept).unwrap_or(0).clamp(0, part.1.0));
            unproven += part.1.since(kept);
            (cause, kept)
        };
        let (before, after) = (scaled(before), scaled(after));
        Self([unseen, first, before, loads, waits, pauses, others, after, (IdleCause::Unknown, unproven)])
    }

    pub(crate) fn length_of(self, cause: IdleCause) -> Ns {
        self.0.iter().filter(|part| part.0 == cause).fold(Ns::ZERO, |sum, part| sum + part.1)
    }

    fn replaced(self, old: IdleCause, new: IdleCause) -> Self {
        Self(self.0.map(|(cause, length)| (if cause == old { new } else { cause }, length)))
    }
}

/// The data that the cause of a gap follows from.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CauseRules<'a> {
    classified: &'a ClassifiedTrace<'a>,
    blocking: &'a BlockingCalls,
    has_replays: bool,
    launch: LaunchRules,
}

impl<'a> CauseRules<'a> {
    pub(crate) fn new(classified: &'a ClassifiedTrace<'a>, blocking: &'a BlockingCalls) -> Self {
        let mut call_names = (0..).map(NameId).take(classified.trace.calls.names.len());
        Self {
            classified,
            blocking,
            has_replays: call_names.any(|name| classified.call_kind(name) == CallKind::GraphLaunch),
            launch: LaunchRules::new(&classified.signals.thresholds),
        }
    }

    /// Whether the work in this row was launched as part of a graph, or is a whole graph.
    fn is_replayed(&self, row: usize) -> bool {
        row >= self.classified.trace.gpu_ops.len()
            || self.has_replays && self.call_of(row).is_some_and(|(.., kind)| kind == CallKind::GraphLaunch)
    }

    fn call_of(&self, row: usize) -> Option<(CallId, Span, CallKind)> {
        let trace = self.classified.trace;
        let id = launch_of(trace, row)?;
        let call = trace.calls.get(id.0 as usize)?;
        Some((id, call, self.classified.call_kind(call.name)))
    }

    /// Compares the launch of the next op with the time from which its device was idle.
    fn timing(&self, gap: &Gap) -> LaunchTiming {
        let (previous_row, idle_from) = (gap.previous_row, gap.start);
        let Some((id, call, kind)) = self.call_of(gap.next_row) else { return LaunchTiming::NotRecorded };
        if previous_row.and_then(|row| launch_of(self.classified.trace, row)) == Some(id) {
            return LaunchTiming::SameLaunch;
        }
        let launched = launched(gap, call, kind);
        if launched <= idle_from {
            return LaunchTiming::InTime;
        }
        if self.was_compiling(HostInterval { thread: call.thread, start: idle_from, end: launched }) {
            return LaunchTiming::AfterCompiling;
        }
        if kind == CallKind::Launch && call.duration > SLOW_LAUNCH {
            return LaunchTiming::LateAndSlow;
        }
        if call.start < idle_from || gap.end <= idle_from {
            return LaunchTiming::Late;
        }
        match self.drain(gap, call, previous_row.and_then(|row| self.call_of(row))) {
            Some(blocked) => LaunchTiming::AfterDrain(blocked),
            None => LaunchTiming::Late,
        }
    }

    /// Whether the thread compiled code for at least half of the interval.
    fn was_compiling(&self, interval: HostInterval) -> bool {
        let compiled = self.classified.trace.compilations.time_in(interval);
        compiled > Ns::ZERO && interval.end.since(interval.start).since(compiled) <= compiled
    }

    /// Returns the call in which the launching thread waited until the device was empty. `next` is the launch of the op
    /// after the gap, `previous` that of the op before it.
    fn drain(&self, gap: &Gap, next: Span, previous: Option<(CallId, Span, CallKind)>) -> Option<BlockingCall> {
        let idle_from = gap.start;
        let last = self.blocking.last_before(next.thread, idle_from).filter(|blocked| blocked.end <= next.start);
        if let Some(blocked) = last {
            // With two clocks, the call must have begun after the launch of the op for which it waited. An op without a
            // launch was launched before the capture.
            let waited_for_previous = || {
                let is_hip = self.classified.trace.calls.names.get(blocked.name).starts_with("hip");
                idle_from.since(blocked.end) <= if is_hip { HIP_CLOCK_SKEW } else { CLOCK_SKEW }
                    && previous
                        .is_none_or(|(_, launch, _)| launch.thread == next.thread && launch.start <= blocked.start)
            };
            if blocked.end >= idle_from || waited_for_previous() {
                return Some(blocked);
            }
        }
        // An asynchronous copy from or to pageable memory that returned after its op had ended did wait for it.
        let (_, copy, kind) = previous?;
        let waited = kind == CallKind::CopyAsync
            && copy.thread == next.thread
            && copy.start <= idle_from
            && (idle_from..=next.start).contains(&copy.end())
            && gap.previous_row.is_some_and(|row| self.is_pageable_copy(row));
        waited.then(|| BlockingCall { start: copy.start, end: copy.end(), name: copy.name, thread: copy.thread })
    }

    fn site_of(&self, call: BlockingCall) -> DrainKey {
        DrainKey { name: call.name, site: self.classified.trace.blocking_sites.at(call.thread, call.start) }
    }

    fn is_pageable_copy(&self, row: usize) -> bool {
        let trace = self.classified.trace;
        let is_pageable = |op: GpuOp| op.kind == OpKind::Copy && trace.names.get(op.name).contains("Pageable");
        trace.gpu_ops.get(row).is_some_and(is_pageable)
    }

    /// The parts of a gap without the unseen work at its start.
    fn parts(&self, gap: &Gap, timing: LaunchTiming) -> GapParts {
        let parts = self.launch_parts(gap, timing);
        let trace = self.classified.trace;
        let Some(interval) = self.before_launch(gap) else { return parts };
        let loads = trace.starts().map_or(Ns::ZERO, |starts| starts.loading_time_in(interval));
        let without_requests = self.without_requests(gap).map_or(Ns::ZERO, |(start, end)| end.since(start));
        let parts = parts.with(IdleCause::StartUp, loads).with(IdleCause::NoRequests, without_requests);
        let parts = parts.with(IdleCause::Profiler, trace.profiler_pauses.time_in(interval));
        self.with_other_gpu(parts, gap, interval)
    }

    /// Takes the waits for other GPUs of the process out of a gap. `before` is its part until the launch.
    fn with_other_gpu(&self, parts: GapParts, gap: &Gap, before: HostInterval) -> GapParts {
        let (trace, others) = (self.classified.trace, &self.blocking.other_gpus);
        if !others.has(trace, gap.next_row) {
            return parts;
        }
        let in_calls = self.blocking.time_for_other_gpus(trace, gap.next_row, before);
        // If the next op was launched before the other GPUs ran empty, and starts right after, no earlier launch would have helped.
        let ended = others.ended_before(trace, gap.next_row, gap.end).filter(|ended| *ended >= before.end);
        let follows = ended.is_some_and(|ended| gap.end.since(ended) < GRAPH_TURNAROUND);
        if !follows {
            return parts.after_other_gpu(in_calls);
        }
        let launched = before.end.max(gap.start);
        let late = others.time_in(trace, gap.next_row, (gap.start, launched)).since(in_calls);
        let after = others.time_in(trace, gap.next_row, (launched, gap.end));
        parts.after_other_gpu(in_calls).with(IdleCause::OtherGpu, late).until_other_gpu(after)
    }

    /// The part of a gap until the next op is launched, on the launching thread.
    fn before_launch(&self, gap: &Gap) -> Option<HostInterval> {
        let (_, call, kind) = self.call_of(gap.next_row)?;
        Some(HostInterval { thread: call.thread, start: gap.start, end: launched(gap, call, kind).min(gap.end) })
    }

    fn without_requests(&self, gap: &Gap) -> Option<(Ns, Ns)> {
        without_requests(self.classified.trace, gap, &|name| self.classified.call_kind(name))
    }

    fn launch_parts(&self, gap: &Gap, timing: LaunchTiming) -> GapParts {
        if gap.length() < ROUNDING || timing == LaunchTiming::SameLaunch {
            return GapParts::whole(IdleCause::Turnaround, gap);
        }
        let Some((_, call, kind)) = self.call_of(gap.next_row) else { return GapParts::whole(IdleCause::Unknown, gap) };
        let before_launch = match timing {
            LaunchTiming::Late | LaunchTiming::LateAndSlow => IdleCause::HostLate,
            LaunchTiming::AfterCompiling => IdleCause::Compiling,
            LaunchTiming::AfterDrain(_) => IdleCause::Drained,
            _ => {
                let is_graph = |kind: CallKind| kind == CallKind::GraphLaunch;
                let previous = gap.previous_row.and_then(|row| self.call_of(row));
                let at_graph = is_graph(kind) || previous.is_some_and(|(.., kind)| is_graph(kind));
                if gap.length() < if at_graph { GRAPH_TURNAROUND } else { TURNAROUND } {
                    return GapParts::whole(IdleCause::Turnaround, gap);
                }
                IdleCause::OtherStream
            }
        };
        let trace = self.classified.trace;
        if let Some((from, _)) = unseen_from(trace, gap, &|_| kind) {
            let unseen = (IdleCause::Unseen, gap.end.since(from));
            let parts = GapParts::around_launch((before_launch, from.since(gap.start)), unseen);
            return self.proven(parts, gap, launched(gap, call, kind));
        }
        let returned = call.end().clamp(gap.start, gap.end);
        let waited = gap.end.since(returned);
        let after_launch = if waited <= MIN_UNSEEN {
            // A short wait is the latency of the launch.
            before_launch
        } else if kind == CallKind::GraphLaunch || self.may_wait_for_others(gap.next_row) {
            IdleCause::OtherStream
        } else {
            IdleCause::Unknown
        };
        let parts = GapParts::around_launch((before_launch, returned.since(gap.start)), (after_launch, waited));
        self.proven(parts, gap, launched(gap, call, kind))
    }

    fn may_wait_for_others(&self, row: usize) -> bool {
        let trace = self.classified.trace;
        trace.gpu_ops.get(row).is_some_and(|op| may_wait_for_others(trace, op.process))
    }

    /// Leaves the time unproven for which the op may have been launched before the device was idle, because the clocks differ. They
    /// differ by their offset at least, and by as much more as the fastest launch took. How long that was is not known, so a launch
    /// counts as late only as far as it is later than twice the offset.
    fn proven(&self, parts: GapParts, gap: &Gap, launched: Ns) -> GapParts {
        let offset = self.classified.trace.clock_offset(DeviceId(gap.device as u32));
        let [_, _, (cause, _), ..] = parts.0;
        if offset == Ns::ZERO || !matches!(cause, IdleCause::HostLate | IdleCause::Drained | IdleCause::Compiling) {
            return parts;
        }
        let late = launched.since(gap.start);
        parts.proven(late.since(offset + offset).max(Ns::ZERO), late)
    }
}

/// When the engine had no request, between the begin of a gap and the launch of the next op. `call_kind` has the kind of each call.
pub(crate) fn without_requests(trace: &Trace, gap: &Gap, call_kind: &dyn Fn(NameId) -> CallKind) -> Option<(Ns, Ns)> {
    if trace.request_waits.is_empty() {
        return None;
    }
    let call = trace.calls.get(launch_of(trace, gap.next_row)?.0 as usize)?;
    let end = launched(gap, call, call_kind(call.name)).min(gap.end);
    trace.request_waits.within(HostInterval { thread: call.thread, start: gap.start, end })
}

/// When the call has launched the op after the gap. Another call, such as a copy, may wait for the device. If it runs longer than the
/// gap, only its start counts.
fn launched(gap: &Gap, call: Span, kind: CallKind) -> Ns {
    let is_launch = matches!(kind, CallKind::Launch | CallKind::GraphLaunch);
    if is_launch || call.end() <= gap.end { call.end() } else { call.start }
}

/// Visits the gaps of all devices in the order of their ends, with their causes. Returns the sums by device.
pub(crate) fn each_gap(classified: &ClassifiedTrace, visit: &mut dyn FnMut(Gap, GapParts)) -> Vec<IdleTimes> {
    let blocking = BlockingCalls::of(classified);
    let rules = CauseRules::new(classified, &blocking);
    let mut sweep = GapSweep::new(classified.trace);
    let mut idle = vec![IdleTimes::new(); classified.trace.devices.len()];
    each_work(classified, &mut |work| {
        if let Some(gap) = sweep.add(&work)
            && let Some(idle) = idle.get_mut(gap.device)
            && let Some(parts) = idle.add(&rules, &gap)
        {
            visit(gap, parts);
        }
    });
    idle
}

/// The ops after a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refill {
    /// Launches since the drain.
    launches: u32,
    /// The call that drained the device.
    call: BlockingCall,
    /// Its name and code.
    site: DrainKey,
}

/// A late launch before the first op of a run that began or ended a refill. It belongs to a refill if the run began in one.
#[derive(Debug, Clone, Copy)]
struct LateLaunch {
    /// Launches of the run before it.
    launches: u32,
    length: Ns,
    next_row: usize,
    stretch: Stretch,
    /// Index in [`IdleTimes::late`].
    interval: usize,
}

/// Idle time after the blocking calls of one name and site.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Drained {
    /// From the moment at which the device was empty, while the thread was still blocked, to its next op.
    pub(crate) direct: Ns,
    /// In the later gaps, until the host was ahead of the device again.
    pub(crate) refill: Ns,
    /// The part of `direct` that the calls explain. Without a call, the host is earlier by the time that the call took, and no more.
    pub(crate) explained: Ns,
    /// How long the calls before the direct gaps took.
    pub(crate) blocked: Ns,
}

impl Drained {
    /// A gap of this length. `blocked` is how long the call before it took; `None` for a gap of a refill.
    fn of(length: Ns, blocked: Option<Ns>) -> Self {
        match blocked {
            Some(blocked) => Self { direct: length, explained: length.min(blocked), refill: Ns::ZERO, blocked },
            None => Self { refill: length, ..Self::default() },
        }
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.direct += more.direct;
        self.refill += more.refill;
        self.explained += more.explained;
        self.blocked += more.blocked;
    }

    /// The idle time for which the host is late without the calls too: they delay it by no more than they took.
    pub(crate) fn late_without_calls(self) -> Ns {
        self.idle().since(self.blocked).max(Ns::ZERO)
    }

    pub(crate) fn idle(self) -> Ns {
        self.direct + self.refill
    }
}

/// Why the host was late in an interval. A trace can have a million of them: 16 bytes each. `index` is that of the call in
/// [`IdleTimes::drained_by`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LateAfter {
    /// Without a blocking call before.
    NoCall,
    /// Directly after a call, which took so long.
    Call { index: u32, blocked: Ns },
    /// In the refill after a call.
    Refill { index: u32 },
}

impl LateAfter {
    fn of(index: usize, blocked: Option<Ns>) -> Self {
        match (u32::try_from(index), blocked) {
            (Ok(index), Some(blocked)) => Self::Call { index, blocked },
            (Ok(index), None) => Self::Refill { index },
            (Err(_), _) => Self::NoCall,
        }
    }

    /// The index of the call and how long it took.
    fn call(self) -> Option<(usize, Option<Ns>)> {
        match self {
            Self::NoCall => None,
            Self::Call { index, blocked } => Some((index as usize, Some(blocked))),
            Self::Refill { index } => Some((index as usize, None)),
        }
    }
}

/// The idle time of one device during a run of consecutive ops, by cause.
///
/// A run may begin in a refill that an earlier run started. Therefore it keeps the late launches whose cause depends
/// on that, so that [`IdleTimes::append`] computes the same times for two runs as one sweep over both.
#[derive(Debug, Clone)]
pub(crate) struct IdleTimes {
    /// By [`IdleCause`].
    pub(crate) times: [Ns; IdleCause::ALL.len()],
    /// Drained time by the call that drained the device.
    pub(crate) drained_by: Vec<(DrainKey, Drained)>,
    /// Positions in `drained_by`.
    drain_sites: HashMap<DrainKey, usize, RandomState>,
    /// Intervals of work that the trace does not contain.
    pub(crate) unseen: Vec<(Ns, Ns)>,
    /// Those in which the work had been launched before the capture.
    pub(crate) of_before: Vec<(Ns, Ns)>,
    /// Intervals in which the engine had no request.
    pub(crate) no_requests: Vec<(Ns, Ns)>,
    /// Intervals in which the host was late, also after a drain.
    pub(crate) late: Vec<(Ns, Ns)>,
    /// The reason of each of them.
    late_after: Vec<LateAfter>,
    /// The gaps by launch, without those of `open`.
    launches: LaunchSums,
    /// At most [`MAX_REFILL`].
    open: Vec<LateLaunch>,
    /// Launches of the run while `refill` was unknown.
    open_launches: u32,
    /// `None` if no op of the run began or ended a refill, so that it depends on the run before.
    refill: Option<Option<Refill>>,
    /// Ops after another op.
    ops: u64,
    /// Those that were launched late, also after a drain.
    late_ops: u64,
    /// The longest time for which a call waited until the device was empty.
    longest_wait: Ns,
    /// Drained time counts as host late, see [`Self::settle`].
    is_drained_late: bool,
}

impl IdleTimes {
    /// Times of a run without ops.
    pub(crate) fn new() -> Self {
        Self {
            times: [Ns::ZERO; IdleCause::ALL.len()],
            drained_by: Vec::new(),
            drain_sites: HashMap::default(),
            unseen: Vec::new(),
            of_before: Vec::new(),
            no_requests: Vec::new(),
            late: Vec::new(),
            late_after: Vec::new(),
            launches: LaunchSums::default(),
            open: Vec::new(),
            open_launches: 0,
            refill: None,
            ops: 0,
            late_ops: 0,
            longest_wait: Ns::ZERO,
            is_drained_late: false,
        }
    }

    /// Adds the work that [`Self::add`] added as the end of a gap, or the first work of a run.
    pub(crate) fn add_work(&mut self, rules: &CauseRules, work: &Work) {
        let open = &mut self.open;
        let is_replayed = rules.is_replayed(work.row);
        self.launches.add_work(&rules.launch, work, is_replayed, &mut |stretch| {
            let last = open.iter_mut().filter(|late| late.stretch == Stretch::Last);
            last.for_each(|late| late.stretch = stretch);
        });
    }

    /// Adds the gap before the next op, which starts at `gap.end`. The gap may have length zero or less. Returns the causes of the gap.
    pub(crate) fn add(&mut self, rules: &CauseRules, gap: &Gap) -> Option<GapParts> {
        self.ops += 1;
        let is_gap = gap.end > gap.start;
        if !is_gap && self.refill == Some(None) {
            return None;
        }
        let unseen_until = if is_gap { unseen_until(rules.classified.trace, gap) } else { None };
        let unseen = unseen_until.map_or(Ns::ZERO, |until| self.add_unseen(gap.start, until));
        let gap = &Gap { start: gap.start.after(unseen), ..*gap };
        let timing = rules.timing(gap);
        let parts = is_gap.then(|| self.add_gap(rules, gap, timing).after_unseen(unseen));
        match timing {
            LaunchTiming::SameLaunch => {}
            LaunchTiming::InTime | LaunchTiming::LateAndSlow | LaunchTiming::AfterCompiling => self.refill = Some(None),
            LaunchTiming::AfterDrain(blocked) => {
                self.refill = Some(Some(Refill { launches: 0, call: blocked, site: rules.site_of(blocked) }));
                self.longest_wait = self.longest_wait.max(gap.start.since(blocked.start));
            }
            LaunchTiming::Late | LaunchTiming::NotRecorded => self.count_launch(),
        }
        parts
    }

    /// The call that drained the device last, if the ops after it are still late.
    pub(crate) fn refilled_after(&self) -> Option<BlockingCall> {
        self.refill.flatten().map(|refill| refill.call)
    }

    fn count_launch(&mut self) {
        let launches = match &mut self.refill {
            None => &mut self.open_launches,
            Some(Some(refill)) => &mut refill.launches,
            Some(None) => return,
        };
        *launches += 1;
        if *launches >= MAX_REFILL {
            self.refill = Some(None);
        }
    }

    /// Returns its length.
    fn add_unseen(&mut self, start: Ns, end: Ns) -> Ns {
        self.unseen.push((start, end));
        self.times.get_mut(IdleCause::Unseen as usize).into_iter().for_each(|time| *time += end.since(start));
        end.since(start)
    }

    /// Adds a gap without the unseen work at its start.
    fn add_gap(&mut self, rules: &CauseRules, gap: &Gap, timing: LaunchTiming) -> GapParts {
        let parts = rules.parts(gap, timing);
        if gap.length() == Ns::ZERO {
            return parts;
        }
        let stretch = self.launches.stretch();
        let drained_by = match (timing, self.refill) {
            (LaunchTiming::AfterDrain(blocked), _) => {
                Some((rules.site_of(blocked), Some(blocked.end.since(blocked.start))))
            }
            (LaunchTiming::Late, Some(Some(refill))) => Some((refill.site, None)),
            _ => None,
        };
        let late = parts.length_of(IdleCause::HostLate);
        let parts = if drained_by.is_some() { parts.replaced(IdleCause::HostLate, IdleCause::Drained) } else { parts };
        let late_length = parts.length_of(IdleCause::HostLate) + parts.length_of(IdleCause::Drained);
        if late_length > Ns::ZERO {
            // Only the first part of a gap, but for calls that wait for other GPUs, can be late on its own.
            let (_, start, _) = parts.before_launch(gap);
            self.late.push((start, start.after(late_length)));
            self.late_after.push(LateAfter::NoCall);
        }
        self.late_ops += u64::from(matches!(parts.main(), IdleCause::HostLate | IdleCause::Drained));
        if parts.length_of(IdleCause::NoRequests) > Ns::ZERO {
            self.no_requests.extend(rules.without_requests(gap));
        }
        for (cause, length) in parts.0 {
            self.times.get_mut(cause as usize).into_iter().for_each(|time| *time += length);
            if cause == IdleCause::Unseen && length > Ns::ZERO {
                self.unseen.push((gap.end - length, gap.end));
                let launches = &rules.classified.trace.unrecorded_work.launches;
                if launches.before(gap.next_row).is_none() {
                    self.of_before.push((gap.end - length, gap.end));
                }
            }
        }
        if late == Ns::ZERO && parts.main() == IdleCause::Turnaround && !rules.is_replayed(gap.next_row) {
            self.launches.add_turnaround(&rules.launch, gap.length());
        }
        match drained_by {
            Some((site, blocked)) => {
                let drained = Drained::of(parts.length_of(IdleCause::Drained), blocked);
                let index = self.add_drained(&rules.launch, site, stretch, drained);
                if late_length > Ns::ZERO {
                    let after = LateAfter::of(index, blocked);
                    self.late_after.last_mut().into_iter().for_each(|last| *last = after);
                }
            }
            None if late == Ns::ZERO => {}
            None if self.refill.is_none() && timing != LaunchTiming::LateAndSlow => {
                let (launches, next_row, interval) = (self.open_launches, gap.next_row, self.late.len() - 1);
                self.open.push(LateLaunch { launches, length: late, next_row, stretch, interval });
            }
            None => self.launches.add_late(&rules.launch, stretch, late),
        }
        parts
    }

    /// Returns the index of the site in `drained_by`.
    fn add_drained(&mut self, rules: &LaunchRules, site: DrainKey, stretch: Stretch, drained: Drained) -> usize {
        if drained.idle() > Ns::ZERO {
            self.launches.add_drained(rules, stretch, drained.idle());
        }
        self.add_drained_by(site, drained)
    }

    fn add_drained_by(&mut self, site: DrainKey, drained: Drained) -> usize {
        let index = *self.drain_sites.entry(site).or_insert_with(|| {
            self.drained_by.push((site, Drained::default()));
            self.drained_by.len() - 1
        });
        self.drained_by.get_mut(index).into_iter().for_each(|(_, sum)| sum.add(drained));
        index
    }

    /// Adds time of which the cause is unknown.
    pub(crate) fn add_unknown(&mut self, length: Ns) {
        self.times.get_mut(IdleCause::Unknown as usize).into_iter().for_each(|time| *time += length);
    }

    /// Adds the next run. Calls `visit_drained` with [`Gap::next_row`] of each gap of `later` that turns out to be part of a
    /// refill.
    pub(crate) fn append(&mut self, rules: &CauseRules, later: &Self, visit_drained: &mut dyn FnMut(usize)) {
        self.times.iter_mut().zip(later.times).for_each(|(sum, more)| *sum += more);
        let sites: Vec<usize> =
            later.drained_by.iter().map(|(site, drained)| self.add_drained_by(*site, *drained)).collect();
        self.unseen.extend_from_slice(&later.unseen);
        self.of_before.extend_from_slice(&later.of_before);
        self.no_requests.extend_from_slice(&later.no_requests);
        let late_before = self.late.len();
        self.late.extend_from_slice(&later.late);
        let merged = |after: &LateAfter| {
            let call = after.call().and_then(|(index, blocked)| Some((*sites.get(index)?, blocked)));
            call.map_or(LateAfter::NoCall, |(index, blocked)| LateAfter::of(index, blocked))
        };
        self.late_after.extend(later.late_after.iter().map(merged));
        self.ops += later.ops;
        self.late_ops += later.late_ops;
        self.longest_wait = self.longest_wait.max(later.longest_wait);
        let (own_last, next_first) = self.launches.append(&rules.launch, &later.launches);
        let last = self.open.iter_mut().filter(|late| late.stretch == Stretch::Last);
        last.for_each(|late| late.stretch = own_last);
        for late in &later.open {
            let stretch = if late.stretch == Stretch::First { next_first } else { late.stretch };
            let launches = late.launches + if self.refill.is_none() { self.open_launches } else { 0 };
            let interval = late_before + late.interval;
            match self.refill {
                None if launches < MAX_REFILL => self.open.push(LateLaunch { launches, stretch, interval, ..*late }),
                Some(Some(refill)) if refill.launches + launches < MAX_REFILL => {
                    self.move_to_drained(&rules.launch, refill.site, &LateLaunch { stretch, interval, ..*late });
                    visit_drained(late.next_row);
                }
                _ => self.launches.add_late(&rules.launch, stretch, late.length),
            }
        }
        match later.refill {
            Some(refill) => self.refill = Some(refill),
            None => (0..later.open_launches).for_each(|_| self.count_launch()),
        }
    }

    /// The intervals that belong to no step, sorted: the device worked for the time before the capture, or the engine had no request.
    pub(crate) fn of_no_step(&self) -> Vec<(Ns, Ns)> {
        let mut intervals = [self.of_before.as_slice(), &self.no_requests].concat();
        intervals.sort_unstable();
        intervals
    }

    /// False if almost every op was launched late and no call waited long for the device: then the host is slower than
    /// the device, with or without the blocking calls.
    pub(crate) fn is_host_ever_ahead(&self) -> bool {
        self.longest_wait >= MIN_WAIT || (self.late_ops as f64) < (1.0 - MIN_SHARE_AHEAD) * self.ops as f64
    }

    /// Ends the times of a whole device: drained time of a host that was never ahead counts as host late. Returns whether
    /// that changed anything.
    pub(crate) fn settle(&mut self) -> bool {
        if self.is_host_ever_ahead() {
            return false;
        }
        self.is_drained_late = true;
        let [_, late, drained, ..] = &mut self.times;
        if *drained == Ns::ZERO {
            return false;
        }
        *late += std::mem::replace(drained, Ns::ZERO);
        self.drained_by.clear();
        self.drain_sites.clear();
        true
    }

    /// The gaps by launch, after [`Self::settle`]. `is_engine` is true for serving engines, which may have no requests for a
    /// while.
    pub(crate) fn launch_gaps(&self, rules: &CauseRules, is_engine: bool) -> LaunchGaps {
        let mut launches = self.launches;
        self.open.iter().for_each(|late| launches.add_late(&rules.launch, late.stretch, late.length));
        launches.finish(&rules.launch, self.is_drained_late, is_engine)
    }

    fn move_to_drained(&mut self, rules: &LaunchRules, site: DrainKey, launch: &LateLaunch) {
        let length = launch.length;
        let late = self.times.get_mut(IdleCause::HostLate as usize);
        late.into_iter().for_each(|time| *time = time.since(length));
        self.times.get_mut(IdleCause::Drained as usize).into_iter().for_each(|time| *time += length);
        let index = self.add_drained(rules, site, launch.stretch, Drained::of(length, None));
        let moved = LateAfter::of(index, None);
        self.late_after.get_mut(launch.interval).into_iter().for_each(|after| *after = moved);
    }

    /// The gaps in which the host was late between two times: after no blocking call, and the time after each blocking call.
    /// Gaps of `long` or more count as long.
    pub(crate) fn late_between(&self, start: Ns, end: Ns, long: Ns) -> (Gaps, Vec<(DrainKey, Drained)>) {
        let mut late = Gaps::default();
        let mut drained_by: Vec<_> = self.drained_by.iter().map(|(site, _)| (*site, Drained::default())).collect();
        for ((from, to), after) in self.late.iter().zip(&self.late_after) {
            let inside = to.min(&end).since(*from.max(&start));
            if inside <= Ns::ZERO {
                continue;
            }
            // After `settle`, no call has drained the device.
            let of_call = after.call().and_then(|(index, blocked)| Some((drained_by.get_mut(index)?, blocked)));
            match of_call {
                Some(((_, sum), blocked)) => sum.add(Drained::of(inside, blocked)),
                None => late.add(inside, long),
            }
        }
        (late, drained_by)
    }

    /// Replaces rows and names of calls by those of a window, for a run of the whole trace.
    pub(crate) fn mapped(&self, row: &dyn Fn(usize) -> usize, name: &dyn Fn(NameId) -> NameId) -> Self {
        let site = |site: DrainKey| DrainKey { name: name(site.name), ..site };
        let refill = |refill: Refill| {
            let call = BlockingCall { name: name(refill.call.name), ..refill.call };
            Refill { call, site: site(refill.site), ..refill }
        };
        let drained_by: Vec<_> = self.drained_by.iter().map(|(call, length)| (site(*call), *length)).collect();
        Self {
            drain_sites: drained_by.iter().map(|(site, _)| *site).zip(0..).collect(),
            drained_by,
            open: self.open.iter().map(|late| LateLaunch { next_row: row(late.next_row), ..*late }).collect(),
            refill: self.refill.map(|state| state.map(refill)),
            ..self.clone()
        }
    }
}

#[cfg(test)]
#[path = "idle_cause_tests.rs"]
mod tests;
