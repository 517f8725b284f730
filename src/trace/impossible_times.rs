//! Finds GPU ops whose recorded time cannot be true, when all ops are read and joined with their calls. O(n log n) for n ops, O(n)
//! without suspicious ones.
//!
//! Profilers write zero for a time that they did not collect, and sometimes a time of another clock. One such op among thousands
//! makes a device look idle. No distance is fixed here: an op is judged by its own launch, by the order of its stream, and by the
//! extent of the other ops of its device.
//!
//! - Start and duration zero: the profiler collected no time, unless the clock of the trace begins there.
//! - The other ops of a device are its body, if they are the majority and empty times longer than all of the body separate the
//!   op from it. An op apart from the body contradicts it if it was launched before an op of its stream that runs first, or after
//!   one that runs later; or if it precedes its launch by more than the body lasts.
//! - An op that ends before its launch begins, although its stream runs in order without it.
//! - An op that precedes its launch by more than any other op that found its device idle differs from its own.
//! - An op that outlasts the body by more than the body lasts, although its stream ran other ops in the meantime.
//! - An op farther outside of the recorded time than that lasts.
//! - An op that ends after all other ops and all events of the host by more than those last, and after its launch by more than its
//!   clock ran before them: nothing else in the trace belongs to the time that it claims. A shorter time may be that of work which
//!   the profiler did not record.
//!
//! A constant offset between the clocks of host and GPU moves all ops alike, so it contradicts none of this.

use super::columns::index;
use super::ops::UNLINKED;
use super::time::{CLOCK_ROUNDING, is_zero};
use super::{CODE_IS_BUILT, GpuOp, GpuOps, Ns, Spans, ThreadId, Window};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Rows of ops without a possible time, ascending.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ImpossibleOps {
    /// Start and duration are zero.
    pub(super) without_time: Vec<u32>,
    /// The time contradicts the rest of the trace.
    pub(super) contradictory: Vec<u32>,
}

/// What the time of an op is compared with.
pub(super) struct Evidence<'a> {
    pub(super) ops: &'a GpuOps,
    /// Parallel to the ops: correlation id, or [`UNLINKED`].
    pub(super) correlations: &'a [u32],
    pub(super) calls: &'a Spans,
    /// The time that the profiler recorded, if the trace says it.
    pub(super) recorded: Option<Window>,
    /// By process: its ops are those of one process, so that their correlation ids have the order of their launches.
    pub(super) is_one_process: Vec<bool>,
}

/// Whether the ops with a time begin sooner after zero than they last, so that the clock of the trace may begin at zero.
pub(super) fn begins_at_zero(ops: &GpuOps) -> bool {
    let times = ops.times().filter(|(start, duration)| !is_zero(*start, *duration));
    let extents = times.map(|(start, duration)| (start, start.after(duration)));
    let whole = extents.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    whole.is_none_or(|(start, end)| start <= end.since(start))
}

/// An op and its launch.
#[derive(Debug, Clone, Copy)]
struct Launched {
    row: u32,
    op: GpuOp,
    lane: usize,
    /// The correlation id, which ascends with the launches of one thread.
    order: Option<u32>,
    /// Start and thread of the launch call.
    call: Option<(Ns, ThreadId)>,
}

impl Launched {
    /// How long the op starts before its launch; negative for most ops.
    fn lead(&self) -> Option<Ns> {
        self.call.map(|(start, _)| start.since(self.op.start))
    }

    /// Whether the op ends before its launch begins, even if the clock of the host is this much ahead.
    fn ends_before_launch(&self, offset: Ns) -> bool {
        self.call.is_some_and(|(start, _)| self.op.end() + offset <= start)
    }
}

impl Evidence<'_> {
    pub(super) fn impossible_ops(&self) -> ImpossibleOps {
        let without_time = self.without_time();
        // The first results of the page do without: its first module has to be small, and the second one reads the file again.
        if !CODE_IS_BUILT {
            return ImpossibleOps { without_time, contradictory: Vec::new() };
        }
        let suspicious = self.suspicious_devices();
        let mut by_device: BTreeMap<u32, Vec<Launched>> = BTreeMap::new();
        let rows = (0..).zip(self.ops.iter()).filter(|(_, op)| suspicious.contains(&op.device.0));
        for (row, op) in rows.filter(|(row, _)| without_time.binary_search(row).is_err()) {
            by_device.entry(op.device.0).or_default().push(self.launched(row, op));
        }
        let host = if by_device.is_empty() { None } else { extent_of_calls(self.calls) };
        let judged = by_device.into_values().flat_map(|ops| self.contradictory(ops, host));
        let contradictory: BTreeSet<u32> = judged.collect();
        ImpossibleOps { without_time, contradictory: contradictory.into_iter().collect() }
    }

    /// Ops with zero for start and duration, unless the clock of the trace may begin with them: neither their launch nor an op of their
    /// stream that was launched before them has a later time, and the other ops begin sooner than they last.
    fn without_time(&self) -> Vec<u32> {
        let zeros = (0..).zip(self.ops.iter()).filter(|(_, op)| is_zero(op.start, op.duration));
        let zeros: Vec<u32> = zeros.map(|(row, _)| row).collect();
        if zeros.is_empty() {
            return zeros;
        }
        let mut first_orders: Vec<Option<u32>> = vec![None; self.ops.streams().count()];
        for (row, op) in self.ops.iter().enumerate().filter(|(_, op)| !is_zero(op.start, op.duration)) {
            let order = self.correlations.get(row).copied().filter(|id| *id != UNLINKED);
            if let (Some(lane), Some(order), true) = (self.ops.stream_index(row), order, op.start > Ns::ZERO) {
                let first = first_orders.get_mut(lane);
                first.into_iter().for_each(|first| *first = Some(first.map_or(order, |first| first.min(order))));
            }
        }
        let begins_at_zero = begins_at_zero(self.ops);
        let has_no_time = |row: &u32| {
            let row = *row as usize;
            let call = self.ops.launch(row).and_then(|call| self.calls.start(call.0 as usize));
            let first = self.ops.stream_index(row).and_then(|lane| first_orders.get(lane).copied().flatten());
            let order = self.correlations.get(row).filter(|id| **id != UNLINKED);
            let follows = first.is_some_and(|first| order.is_some_and(|order| *order > first));
            !begins_at_zero || call.is_some_and(|start| start > Ns::ZERO) || follows
        };
        zeros.into_iter().filter(has_no_time).collect()
    }

    fn launched(&self, row: u32, op: GpuOp) -> Launched {
        let call = self.ops.launch(row as usize).and_then(|call| self.calls.get(call.0 as usize));
        let order = self.correlations.get(row as usize).copied().filter(|id| *id != UNLINKED);
        Launched {
            row,
            op,
            lane: self.ops.stream_index(row as usize).unwrap_or_default(),
            order: order.filter(|_| self.is_one_process.get(op.process.0 as usize) == Some(&true)),
            call: call.map(|call| (call.start, call.thread)),
        }
    }

    /// Devices with an op that may contradict the others. Valid traces have few of them, so the ops of most are visited once.
    fn suspicious_devices(&self) -> BTreeSet<u32> {
        let mut extents: Vec<Extent> = Vec::new();
        let mut found = BTreeSet::new();
        for (row, op) in self.ops.iter().enumerate() {
            let device = op.device.0 as usize;
            if extents.len() <= device {
                extents.resize(device + 1, Extent::default());
            }
            extents.get_mut(device).into_iter().for_each(|extent| extent.add(&op));
            let call = self.ops.launch(row).and_then(|call| self.calls.start(call.0 as usize));
            if call.is_some_and(|start| op.end() <= start) || self.is_outside(&op) {
                found.insert(op.device.0);
            }
        }
        found.extend((0..).zip(&extents).filter(|(_, extent)| extent.has_op_apart()).map(|(device, _)| device));
        found
    }

    /// Whether the op is farther outside of the recorded time than that lasts.
    fn is_outside(&self, op: &GpuOp) -> bool {
        let outside = |recorded: Window| {
            let length = recorded.end.since(recorded.start);
            recorded.start.since(op.end()) > length || op.start.since(recorded.end) > length
        };
        self.recorded.is_some_and(outside)
    }

    /// Returns the rows of the contradictory ops among all ops of a device, sorted by start. `host` is the time of all calls.
    fn contradictory(&self, mut ops: Vec<Launched>, host: Option<Window>) -> Vec<u32> {
        let mut found: BTreeSet<u32> = outlasting(&ops);
        found.extend(host.into_iter().flat_map(|host| beyond_all(&ops, host)));
        found.extend(ops.iter().filter(|launched| self.is_outside(&launched.op)).map(|launched| launched.row));
        ops.retain(|launched| !found.contains(&launched.row));
        let parts = Parts::of(&ops);
        found.extend(parts.contradictory());
        let mut ops: Vec<Launched> = parts.body.iter().filter(|op| !found.contains(&op.row)).copied().collect();
        if !ops.iter().any(|launched| launched.ends_before_launch(Ns::ZERO)) {
            return found.into_iter().collect();
        }
        found.extend(far_before_launch(&ops));
        ops.retain(|launched| !found.contains(&launched.row));
        found.extend(out_of_order(&ops));
        found.into_iter().collect()
    }
}

/// First start, last end and longest empty time of the ops of a device, by start.
#[derive(Debug, Clone, Copy, Default)]
struct Extent {
    whole: Option<Window>,
    longest_gap: Option<Window>,
    longest_op: Ns,
}

impl Extent {
    fn add(&mut self, op: &GpuOp) {
        let whole = self.whole.get_or_insert(Window { start: op.start, end: op.end() });
        let gap = Window { start: whole.end, end: op.start };
        if self.longest_gap.is_none_or(|longest| length(gap) > length(longest)) {
            self.longest_gap = Some(gap);
        }
        whole.end = whole.end.max(op.end());
        self.longest_op = self.longest_op.max(op.duration);
    }

    /// Whether an op can be apart from the others by more than they last, or outlast them by that.
    fn has_op_apart(&self) -> bool {
        let (Some(whole), Some(gap)) = (self.whole, self.longest_gap) else { return false };
        let sides = gap.start.since(whole.start).min(whole.end.since(gap.end));
        length(gap) > sides || self.longest_op.since(length(whole).since(self.longest_op)) > Ns::ZERO
    }
}

fn length(window: Window) -> Ns {
    window.end.since(window.start)
}

/// First start and last end of these ops.
fn extent<'a>(ops: impl Iterator<Item = &'a Launched>) -> Option<Window> {
    let windows = ops.map(|launched| Window { start: launched.op.start, end: launched.op.end() });
    windows.reduce(|a, b| Window { start: a.start.min(b.start), end: a.end.max(b.end) })
}

/// Ops that outlast all ordinary ops by more than these last, although their own stream ran another op, of another launch, in the
/// meantime. `ops` are sorted by start.
fn outlasting(ops: &[Launched]) -> BTreeSet<u32> {
    let mut longest: BTreeMap<usize, &Launched> = BTreeMap::new();
    let mut containing: BTreeSet<u32> = BTreeSet::new();
    for launched in ops {
        let longest = longest.entry(launched.lane).or_insert(launched);
        if launched.op.end() > longest.op.end() {
            *longest = launched;
        } else if longest.row != launched.row && longest.order.is_some() && longest.order != launched.order {
            containing.insert(longest.row);
        }
    }
    let is_containing = |launched: &&Launched| containing.contains(&launched.row);
    let Some(others) = extent(ops.iter().filter(|launched| !is_containing(launched))) else { return BTreeSet::new() };
    if containing.len() * 2 >= ops.len() {
        return BTreeSet::new();
    }
    let excess = |op: GpuOp| others.start.since(op.start).max(op.end().since(others.end));
    let outlasts = |launched: &&Launched| excess(launched.op) > length(others);
    ops.iter().filter(is_containing).filter(outlasts).map(|launched| launched.row).collect()
}

/// First start and last end of these calls.
fn extent_of_calls(calls: &Spans) -> Option<Window> {
    let windows = calls.iter().map(|call| Window { start: call.start, end: call.end() });
    windows.reduce(united)
}

fn united(a: Window, b: Window) -> Window {
    Window { start: a.start.min(b.start), end: a.end.max(b.end) }
}

/// Ops of a recorded launch that end after all other ops and the events of the host by more than those last, and after their launch by
/// more than the clock ran before those. Without a clock that ran before, nothing is known: the time of the trace may begin with it.
fn beyond_all(ops: &[Launched], host: Window) -> BTreeSet<u32> {
    let Some(first) = ops.iter().map(|launched| launched.op.start).min() else { return BTreeSet::new() };
    let age = first.min(host.start).since(Ns::ZERO);
    let is_older = |launched: &&Launched| launched.call.is_some_and(|(start, _)| launched.op.end().since(start) > age);
    let Some(others) = extent(ops.iter().filter(|launched| !is_older(launched))) else { return BTreeSet::new() };
    let known = united(others, host);
    if age <= length(known) || ops.iter().filter(is_older).count() * 2 >= ops.len() {
        return BTreeSet::new();
    }
    let is_beyond = |launched: &&Launched| launched.op.end().since(known.end) > length(known);
    ops.iter().filter(is_older).filter(is_beyond).map(|launched| launched.row).collect()
}

/// The ops of a device by time.
struct Parts<'a> {
    early: &'a [Launched],
    body: &'a [Launched],
    late: &'a [Launched],
}

impl<'a> Parts<'a> {
    /// Cuts at empty times, the longest first, and keeps the part with most ops, as long as it has more than half of all. The body is
    /// the smallest such part that is shorter than all of these times. `ops` are sorted by start.
    fn of(ops: &'a [Launched]) -> Self {
        let mut body = 0..ops.len();
        let mut part = Part { rows: body.clone(), end: extent(ops.iter()).map_or(Ns::ZERO, |extent| extent.end) };
        for gap in gaps(ops) {
            if !part.rows.contains(&gap.next) || gap.next == part.rows.start {
                continue;
            }
            let Part { rows, end } = part;
            let (before, after) = (rows.start..gap.next, gap.next..rows.end);
            part = if before.len() > after.len() {
                Part { rows: before, end: gap.start }
            } else {
                Part { rows: after, end }
            };
            if part.rows.len() * 2 <= ops.len() {
                break;
            }
            let start = ops.get(part.rows.start).map_or(Ns::ZERO, |first| first.op.start);
            if gap.length > part.end.since(start) {
                body = part.rows.clone();
            }
        }
        let (early, rest) = ops.split_at(body.start);
        let (body, late) = rest.split_at(body.len());
        Self { early, body, late }
    }

    /// The ops apart from the body whose launch says that they ran elsewhere.
    fn contradictory(&self) -> Vec<u32> {
        let mut orders: BTreeMap<usize, (u32, u32)> = BTreeMap::new();
        let mut last_calls: BTreeMap<(usize, ThreadId), Ns> = BTreeMap::new();
        for launched in self.body {
            if let Some(order) = launched.order {
                let (first, last) = orders.entry(launched.lane).or_insert((order, order));
                (*first, *last) = ((*first).min(order), (*last).max(order));
            }
            if let Some((start, thread)) = launched.call {
                let last = last_calls.entry((launched.lane, thread)).or_insert(start);
                *last = (*last).max(start);
            }
        }
        let order_in_body = |launched: &Launched| Some((launched.order?, *orders.get(&launched.lane)?));
        let duration = extent(self.body.iter()).map_or(Ns::ZERO, length);
        let offset = host_offset(self.body);
        let is_early = |launched: &&Launched| {
            // An op that follows its own launch call ran when it should, whatever the ids say.
            let follows_its_call = launched.lead().is_some_and(|lead| lead <= Ns::ZERO);
            let runs_too_soon =
                !follows_its_call && order_in_body(launched).is_some_and(|(order, (first, _))| order > first);
            runs_too_soon || launched.lead().is_some_and(|lead| lead.since(offset) > duration)
        };
        let is_overtaken = |launched: &Launched| {
            let call = launched.call.filter(|_| launched.order.is_some());
            let last = call.and_then(|(_, thread)| last_calls.get(&(launched.lane, thread)));
            call.zip(last).is_some_and(|((start, _), last)| start < *last)
        };
        let is_late = |launched: &&Launched| {
            order_in_body(launched).is_some_and(|(order, (_, last))| order < last) || is_overtaken(launched)
        };
        let (early, late) = (self.early.iter().filter(is_early), self.late.iter().filter(is_late));
        early.chain(late).map(|launched| launched.row).collect()
    }
}

/// A run of ops, and when the last of them ends.
struct Part {
    rows: Range<usize>,
    end: Ns,
}

/// A time in which no op of a device runs.
struct EmptyTime {
    length: Ns,
    start: Ns,
    /// The index of the op after it.
    next: usize,
}

/// The empty times between these ops, the longest first.
fn gaps(ops: &[Launched]) -> Vec<EmptyTime> {
    let Some(first) = ops.first() else { return Vec::new() };
    let mut end = first.op.end();
    let gap = |(next, launched): (usize, &Launched)| {
        let gap = EmptyTime { length: launched.op.start.since(end), start: end, next };
        end = end.max(launched.op.end());
        gap
    };
    let mut gaps: Vec<EmptyTime> =
        ops.iter().enumerate().skip(1).map(gap).filter(|gap| gap.length > Ns::ZERO).collect();
    gaps.sort_by_key(|gap| (std::cmp::Reverse(gap.length), gap.next));
    gaps
}

/// The longest time by which one of these ops precedes its launch: what the clock of the host may be ahead.
fn host_offset<'a>(ops: impl IntoIterator<Item = &'a Launched>) -> Ns {
    ops.into_iter().filter_map(Launched::lead).fold(Ns::ZERO, Ns::max)
}

/// Ops that end before their launch and that the order of their stream contradicts: without them, and with no fewer others, the
/// ops of the stream start in the order in which their thread launched them.
fn out_of_order(ops: &[Launched]) -> Vec<u32> {
    let mut streams: BTreeMap<(usize, ThreadId), Vec<&Launched>> = BTreeMap::new();
    for launched in ops {
        if let (Some((_, thread)), Some(_)) = (launched.call, launched.order) {
            streams.entry((launched.lane, thread)).or_default().push(launched);
        }
    }
    let mut outside: Vec<&Launched> = Vec::new();
    for stream in streams.values_mut() {
        stream.sort_by_key(|launched| (launched.order, launched.op.start));
        let starts: Vec<Ns> = stream.iter().map(|launched| launched.op.start).collect();
        let in_order = longest_ascent(&starts);
        outside.extend(stream.iter().zip(in_order).filter(|(_, is_in_order)| !is_in_order).map(|(op, _)| *op));
    }
    let rows: BTreeSet<u32> = outside.iter().map(|launched| launched.row).collect();
    let offset = host_offset(ops.iter().filter(|launched| !rows.contains(&launched.row)));
    outside.retain(|launched| launched.ends_before_launch(offset));
    outside.into_iter().map(|launched| launched.row).collect()
}

/// Marks the elements of one of the longest subsequences that do not descend.
fn longest_ascent(values: &[Ns]) -> Vec<bool> {
    // By length of a subsequence: the index of the smallest last element.
    let mut last: Vec<u32> = Vec::new();
    let mut before: Vec<Option<u32>> = Vec::with_capacity(values.len());
    for (at, value) in values.iter().enumerate() {
        let shorter = last.partition_point(|index| values.get(*index as usize) <= Some(value));
        before.push(shorter.checked_sub(1).and_then(|longest| last.get(longest)).copied());
        match last.get_mut(shorter) {
            Some(slot) => *slot = index(at),
            None => last.push(index(at)),
        }
    }
    let mut marked = vec![false; values.len()];
    let mut next = last.last().copied();
    while let Some(at) = next {
        marked.get_mut(at as usize).into_iter().for_each(|mark| *mark = true);
        next = before.get(at as usize).copied().flatten();
    }
    marked
}

/// Among the ops that start while their device is idle, and so soon after their launch: a minority that ends before its launch and
/// precedes it by more than any other of them differs from its own. `ops` are sorted by start.
fn far_before_launch(ops: &[Launched]) -> Vec<u32> {
    let mut end = None;
    let starts_idle = |launched: &&Launched| {
        let is_idle = end.is_none_or(|end| launched.op.start > end);
        end = end.max(Some(launched.op.end()));
        is_idle
    };
    let starters = ops.iter().filter(starts_idle);
    let mut by_lead: Vec<(Ns, &Launched)> = starters.filter_map(|op| Some((op.lead()?, op))).collect();
    by_lead.sort_by_key(|(lead, launched)| (std::cmp::Reverse(*lead), launched.row));
    let Some((shortest, _)) = by_lead.last().copied() else { return Vec::new() };
    let is_far = |&at: &usize| {
        let (Some((lead, _)), Some((next, _))) = (by_lead.get(at), by_lead.get(at + 1)) else { return false };
        let offset = (*next).max(Ns::ZERO);
        lead.since(offset) > offset.max(Ns::ZERO.since(shortest)).max(CLOCK_ROUNDING)
    };
    let last = (0..by_lead.len().saturating_sub(1) / 2).rev().find(is_far);
    let far = by_lead.iter().take(last.map_or(0, |last| last + 1));
    far.filter(|(_, launched)| launched.ends_before_launch(Ns::ZERO)).map(|(_, launched)| launched.row).collect()
}

#[cfg(test)]
mod tests {
    use crate::trace::testing::TestTrace;
    use crate::trace::{ProblemKind, Trace};
    use proptest::prelude::*;

    /// Microseconds of an hour: longer than any trace of these tests.
    const HOUR: i64 = 3_600_000_000;

    /// Launches at 10, 1010, 2010, ... us after an hour, and the op of each 10 us later. `time_of` may change start and end of an op;
    /// launches are kept.
    fn trace_of(ops: i64, time_of: impl Fn(i64, i64) -> (i64, i64)) -> Trace {
        let mut trace = TestTrace::new();
        trace.in_us();
        for index in 0..ops {
            let launch = HOUR + 1_000 * index + 10;
            let (start, end) = time_of(index, launch + 10);
            trace.launch(launch..launch + 5).launches("k", start..end);
        }
        trace.finish()
    }

    /// A trace of twenty ops of which those for which `changed` gives a time have that one.
    fn with(changed: impl Fn(i64, i64) -> Option<(i64, i64)>) -> Trace {
        trace_of(20, |index, start| changed(index, start).unwrap_or((start, start + 400)))
    }

    fn counts(trace: &Trace) -> (usize, u64, u64) {
        let count = |kind| trace.problems.count(kind);
        (trace.gpu_ops.len(), count(ProblemKind::OpWithoutTime), count(ProblemKind::ImpossibleDuration))
    }

    fn window_us(trace: &Trace) -> i64 {
        trace.span().map_or(0, |span| span.end.since(span.start).0 / 1_000)
    }

    #[test]
    fn ops_without_a_recorded_time_are_counted_and_stretch_no_window() {
        let mut trace = TestTrace::new();
        trace.in_us().named_process(1, "").launch(1_000..1_005).launches("k", 1_010..1_400);
        trace.launch(1_410..1_415).launches("lost", 0..0).launches("Memcpy HtoD", 0..0).bytes(64).launches_replay(0..0);
        trace.call("cudaDeviceSynchronize", 0..0).range("step", 0..0);
        let trace = trace.launch(1_500..1_505).launches("Memcpy HtoD", 1_510..1_520).bytes(32).finish();
        assert_eq!(counts(&trace), (2, 3, 0));
        assert_eq!((window_us(&trace), trace.graph_replays.len(), trace.ranges.len()), (510, 0, 0));
        assert_eq!(trace.problems.count(ProblemKind::HostRowWithoutTime), 2);
        assert_eq!(trace.bytes, [(1, 32)], "tables by row follow");
        assert_eq!(trace.names.iter().collect::<Vec<_>>(), ["k", "Memcpy HtoD"]);
        assert_eq!(trace.gpu_ops.launches().map(|call| call.unwrap().0).collect::<Vec<_>>(), [0, 2]);
    }

    #[test]
    fn an_op_far_from_its_launch_is_left_out_wherever_it_is() {
        for at in [0, 1, 10, 19] {
            let early = with(|index, start| (index == at).then_some((start - HOUR, start - HOUR + 5)));
            assert_eq!((counts(&early), window_us(&early)), ((19, 0, 1), window_us(&early)), "{at}");
            assert!(window_us(&early) < 20_000, "{at}");
        }
        let late = with(|index, start| (index == 10).then_some((start + HOUR, start + HOUR + 5)));
        assert_eq!((counts(&late), window_us(&late)), ((19, 0, 1), 19_400));
        let of_another_clock = with(|index, start| (index == 10).then_some((5, start - HOUR)));
        assert_eq!(counts(&of_another_clock), (19, 0, 1));
        let for_an_hour = with(|index, start| (index == 10).then_some((start, start + HOUR)));
        assert_eq!(counts(&for_an_hour), (19, 0, 1));
        let before_zero = with(|index, start| (index == 10).then_some((start - 500 * HOUR, start - 500 * HOUR)));
        assert_eq!(counts(&before_zero), (19, 0, 1));
    }

    #[test]
    fn several_impossible_ops_on_both_sides_do_not_hide_each_other() {
        let trace = with(|index, start| match index {
            3 | 9 => Some((start - HOUR, start - HOUR + 5)),
            5 | 11 => Some((start + HOUR, start + HOUR + 5)),
            _ => None,
        });
        assert_eq!((counts(&trace), window_us(&trace)), ((16, 0, 4), 19_400));
    }

    #[test]
    fn an_op_in_the_midst_of_others_is_left_out_if_it_ends_before_its_launch_and_its_stream_runs_in_order_without_it() {
        let trace = with(|index, start| (index == 15).then_some((start - 8_500, start - 8_400)));
        assert_eq!(counts(&trace), (19, 0, 1));
    }

    #[test]
    fn without_launches_the_order_of_ids_shows_an_impossible_time() {
        let mut trace = TestTrace::new();
        trace.in_us();
        for index in 0..20 {
            let start = HOUR + 1_000 * index;
            let start = if index == 7 { 1 } else { start };
            trace.kernel_with_id("k", start..start + 400, 100 + index as u32);
        }
        assert_eq!(counts(&trace.finish()), (19, 0, 1));
    }

    #[test]
    fn an_op_that_follows_its_own_launch_stays_although_its_id_is_out_of_order() {
        let mut trace = TestTrace::new();
        trace.in_us().call_with_id("cudaLaunchKernel", 10..15, 900).kernel_with_id("k", 20..30, 900);
        for id in 1..=20 {
            let start = 1_000_000 + 100 * i64::from(id);
            trace.call_with_id("cudaLaunchKernel", start..start + 5, id).kernel_with_id(
                "k",
                start + 10..start + 20,
                id,
            );
        }
        let trace = trace.finish();
        assert_eq!((trace.gpu_ops.len(), trace.problems.count(ProblemKind::ImpossibleDuration)), (21, 0));
    }

    #[test]
    fn an_op_far_outside_of_the_recorded_time_is_left_out() {
        let mut trace = TestTrace::new();
        trace.in_us();
        (0..20).for_each(|index| _ = trace.kernel("k", HOUR + 1_000 * index..HOUR + 1_000 * index + 400));
        trace.kernel("k", 1..2).kernel("k", 3 * HOUR..3 * HOUR + 1);
        trace.builder.add_recorded(crate::trace::Ns(HOUR * 1_000), crate::trace::Ns((HOUR + 20_000) * 1_000));
        assert_eq!(counts(&trace.finish()), (20, 0, 2));
    }

    #[test]
    fn an_op_after_those_launched_later_is_left_out_although_its_id_is_the_last() {
        let mut trace = TestTrace::new();
        trace.in_us();
        for id in 1..=5 {
            let start = HOUR + 1_000 * i64::from(id);
            trace.call_with_id("cudaLaunchKernel", start..start + 5, id).kernel_with_id(
                "k",
                start + 10..start + 410,
                id,
            );
        }
        trace.call_with_id("cudaLaunchKernel", HOUR + 1_006..HOUR + 1_007, 77);
        trace.kernel_with_id("k", 2 * HOUR..2 * HOUR + 400, 77);
        assert_eq!(counts(&trace.finish()), (5, 0, 1));
    }

    #[test]
    fn a_last_op_that_ends_later_than_its_clock_ran_is_left_out() {
        let years = |index, start| (index == 19).then_some((start, start + 26_000 * HOUR));
        assert_eq!((counts(&with(years)), window_us(&with(years))), ((19, 0, 1), 18_400));
        let years_later = |index, start| (index == 19).then_some((start + 26_000 * HOUR, start + 26_000 * HOUR + 400));
        assert_eq!((counts(&with(years_later)), window_us(&with(years_later))), ((19, 0, 1), 18_400));
    }

    /// The op may be long or wait for work that was not recorded; a call that waits for it is evidence even for years.
    #[test]
    fn a_last_op_that_may_be_true_stays() {
        let half_an_hour = |index, start| (index == 19).then_some((start, start + HOUR / 2));
        assert_eq!(counts(&with(half_an_hour)), (20, 0, 0));
        let half_an_hour_later = |index, start| (index == 19).then_some((start + HOUR / 2, start + HOUR / 2 + 400));
        assert_eq!(counts(&with(half_an_hour_later)), (20, 0, 0));
        let mut waited = TestTrace::new();
        waited.in_us();
        for index in 0..20 {
            let launch = HOUR + 1_000 * index;
            let duration = if index == 19 { 26_000 * HOUR } else { 400 };
            waited.launch(launch..launch + 5).launches("k", launch + 10..launch + 10 + duration);
        }
        waited.call("cudaDeviceSynchronize", HOUR + 20_000..26_001 * HOUR + 20_000);
        assert_eq!(counts(&waited.finish()), (20, 0, 0));
    }

    #[test]
    fn clocks_that_differ_and_pauses_lose_no_op() {
        for offset in [-2 * HOUR, -5_000, -20, -1, 0, 1, 5_000, 2 * HOUR] {
            let trace = trace_of(20, |_, start| (start + offset, start + offset + 400));
            assert_eq!(counts(&trace), (20, 0, 0), "all ops {offset} us from their launches");
        }
        let jitter = with(|index, start| (index == 10).then_some((start - 11, start + 400)));
        assert_eq!(counts(&jitter), (20, 0, 0));
        let mut paused = TestTrace::new();
        paused.in_us().launch(0..5).launches("warm-up", 10..20);
        (0..20).for_each(|index| {
            let launch = HOUR + 1_000 * index;
            paused.launch(launch..launch + 5).launches("k", launch + 10..launch + 400);
        });
        paused.launch(3 * HOUR..3 * HOUR + 5).launches("last", 3 * HOUR + 10..3 * HOUR + 20);
        assert_eq!(counts(&paused.finish()), (22, 0, 0));
    }

    proptest! {
        /// Streams that run in order, launched by their own threads, on a device whose clock differs and jitters by less than the
        /// time between an op and its launch. Every op takes time: two ops of one launch that are alike and take none are one that the file
        /// has twice.
        #[test]
        fn a_possible_trace_loses_no_op(
            launches in prop::collection::vec((0_i64..3, 0_i64..50_000, 1_i64..30_000, 0_i64..3, 1_usize..4), 1..60),
            offset in -100_000_i64..100_000,
        ) {
            let mut trace = TestTrace::new();
            let mut free = [0_i64; 3];
            let (mut now, mut ops) = (1_000_000, 0);
            for (stream, wait, duration, jitter, nodes) in launches {
                now += wait;
                trace.stream(stream).thread(stream).launch(now..now + 4);
                let free = &mut free[stream as usize];
                for _ in 0..nodes {
                    let start = (now + 2).max(*free);
                    *free = start + duration;
                    trace.launches("k", start + offset - jitter..start + offset + duration);
                    ops += 1;
                }
            }
            prop_assert_eq!(counts(&trace.finish()), (ops, 0, 0));
        }
    }
}
