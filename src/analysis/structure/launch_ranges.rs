//! Which range a kernel belongs to: the innermost one of the launching thread that holds the launching call.
//!
//! Calls and ranges are swept by start, with one stack of open ranges a thread. A stack keeps its ends decreasing towards
//! the top: a newer range that ends no earlier holds every later call that an older one holds, and lies further in. So
//! the range of a call is found by binary search, and every range goes on and off a stack once.

use crate::analysis::context::Context;
use crate::analysis::index::{Inside, Part, parts};
use crate::analysis::measure::tally::{Tallies, Tally, key};
use crate::ordering::order;
use crate::trace::{Kept, NameId, Ns, OpKind, Places, Span, Spans, Trace};

/// Kernel time by process and range, and what belongs to no range.
#[derive(Debug, Default)]
pub struct Attributed {
    /// Under [`key`] of process and range name.
    pub(crate) under: Tallies,
    /// By phase: time of kernels of which it is that of the nearest range that has one, and the communication in it.
    pub(crate) by_phase: Vec<(Ns, Ns)>,
    /// All that lies under some range.
    pub(crate) mapped: Tally,
    /// Launched by a call outside all ranges of its thread.
    pub(crate) outside: Tally,
    /// Kernels whose launching call the trace does not hold.
    pub(crate) without_call: Tally,
    /// All kernels.
    pub(crate) all: Tally,
    /// All that are communication.
    pub(crate) all_communication: Ns,
}

/// No range holds the call.
pub(crate) const NONE: u32 = u32::MAX;

impl Attributed {
    /// Phases are below `phases`; those inside a window are of the words that name phases.
    pub(crate) fn of(context: &Context, phases: usize, around: &AroundCalls, inside: Option<&Inside>) -> Self {
        let trace = context.trace;
        let under = Tallies::below(trace.processes.len(), trace.ranges.names.len());
        let mut found = Self { under, by_phase: vec![Default::default(); phases], ..Self::default() };
        for part in parts(trace, inside) {
            match part {
                Part::Edge(places) => found.see(context, &places, around),
                Part::Piece(piece, inside, _) => found.merge(&piece.attributed, inside),
            }
        }
        let Self { under, mapped, outside, without_call, all, .. } = &mut found;
        under.iter().for_each(|tally| mapped.merge(tally));
        [mapped, outside, without_call].into_iter().for_each(|tally| all.merge(tally));
        found
    }

    /// Of the ops at these places, without what is summed up at the end.
    pub(crate) fn of_piece(context: &Context, places: &Places, around: &AroundCalls) -> Self {
        let mut found = Self { by_phase: vec![Default::default(); context.signals.phases.len()], ..Self::default() };
        found.see(context, places, around);
        found
    }

    fn see(&mut self, context: &Context, places: &Places, around: &AroundCalls) {
        let trace = context.trace;
        for (at, op) in trace.gpu_ops.iter_in(places).filter(|(_, op)| op.kind == OpKind::Kernel) {
            let is_communication = context.is_communication(op.name);
            if is_communication {
                self.all_communication += op.duration;
            }
            let Some(call) = trace.gpu_ops.launch(at) else {
                self.without_call.add(op.duration);
                continue;
            };
            let (range, phase) = around.of(call.0);
            match trace.ranges.name(range as usize) {
                None => self.outside.add(op.duration),
                Some(range) => self.under.add(key(op.process.0, range.0), op.duration),
            }
            if let Some((time, communication)) = self.by_phase.get_mut(usize::from(phase)) {
                *time += op.duration;
                *communication += if is_communication { op.duration } else { Ns::ZERO };
            }
        }
    }

    fn merge(&mut self, more: &Self, inside: &Inside) {
        for tally in more.under.iter() {
            let range = inside.range_name(NameId(tally.low()));
            self.under.merge(&Tally { key: key(tally.high(), range.0), ..*tally });
        }
        for (sum, more) in self.by_phase.iter_mut().zip(&more.by_phase) {
            *sum = (sum.0 + more.0, sum.1 + more.1);
        }
        self.outside.merge(&more.outside);
        self.without_call.merge(&more.without_call);
        self.all_communication += more.all_communication;
    }

    /// Kernel time by range name over all processes.
    pub(crate) fn by_range(&self) -> Tallies {
        self.under.of_all_highs()
    }
}

/// The name of the innermost kept span of these (ranges, CPU ops, Python frames) around each call, or [`NONE`].
pub(crate) fn around_calls(trace: &Trace, spans: &Spans, is_kept: &dyn Fn(NameId) -> bool) -> Vec<u32> {
    let mut open = OpenRanges::of(trace);
    let mut names = Vec::with_capacity(trace.calls.len());
    sweep_calls(trace, spans, is_kept, &mut |event| match event {
        Event::Opens(_, span) => open.push(span.name.0, span),
        Event::Call(call) => names.push(open.innermost(call).unwrap_or(NONE)),
    });
    names
}

/// What lies around each call of a trace. Where a window is cut out of the trace it stays what it was for calls that launched; others
/// may be cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Around {
    /// The place of the innermost range, or [`NONE`].
    ranges: Vec<u32>,
    /// The phase of the nearest range that has one, or [`NO_PHASE`].
    phases: Vec<u16>,
    /// By name of a range.
    phase_of_names: Vec<u16>,
}

const NO_PHASE: u16 = u16::MAX;

fn phase_of_names(trace: &Trace, phase_of: &dyn Fn(NameId) -> Option<usize>) -> Vec<u16> {
    let of_name = |name| phase_of(NameId(name)).and_then(|phase| u16::try_from(phase).ok()).unwrap_or(NO_PHASE);
    (0..trace.ranges.names.len() as u32).map(of_name).collect()
}

impl Around {
    /// `phase_of` tells the phase of a range's name.
    pub(crate) fn of(trace: &Trace, phase_of: &dyn Fn(NameId) -> Option<usize>) -> Self {
        let of_names = phase_of_names(trace, phase_of);
        let phase = |range: u32| {
            let name = trace.ranges.name(range as usize);
            name.and_then(|name| of_names.get(name.0 as usize)).copied().unwrap_or(NO_PHASE)
        };
        let (mut all, mut with_phase) = (OpenRanges::of(trace), OpenRanges::of(trace));
        let mut ranges = Vec::with_capacity(trace.calls.len());
        let mut phases = Vec::with_capacity(trace.calls.len());
        sweep_calls(trace, &trace.ranges, &|_| true, &mut |event| match event {
            Event::Opens(at, range) => {
                all.push(at, range);
                if phase(at) != NO_PHASE {
                    with_phase.push(at, range);
                }
            }
            Event::Call(call) => {
                ranges.push(all.innermost(call).unwrap_or(NONE));
                phases.push(with_phase.innermost(call).map_or(NO_PHASE, phase));
            }
        });
        Self { ranges, phases, phase_of_names: of_names }
    }

    /// Has each name of the part the phase that it has in the whole trace? What a name says may hang on what the others say.
    pub(crate) fn agrees(&self, trace: &Trace, part: &Trace, phase_of: &dyn Fn(NameId) -> Option<usize>) -> bool {
        let phases = phase_of_names(part, phase_of);
        part.ranges.names.iter().zip(phases).all(|(name, phase)| {
            let whole = trace.ranges.names.find(name);
            whole.and_then(|name| self.phase_of_names.get(name.0 as usize)) == Some(&phase)
        })
    }

    /// What it says of the trace that it is of.
    pub fn of_all(&self) -> AroundCalls<'_> {
        AroundCalls { around: self, kept: None }
    }

    /// What it says of a part of the trace, of calls that launched.
    pub fn part<'a>(&'a self, kept: &'a Kept) -> AroundCalls<'a> {
        AroundCalls { around: self, kept: Some(kept) }
    }
}

/// What lies around each call of a trace, or of a part of one.
#[derive(Debug, Clone, Copy)]
pub struct AroundCalls<'a> {
    around: &'a Around,
    kept: Option<&'a Kept>,
}

impl AroundCalls<'_> {
    /// The place of the innermost range and the phase, [`NONE`] and [`NO_PHASE`] where there is none.
    fn of(&self, call: u32) -> (u32, u16) {
        let whole = self.kept.map_or(Some(call), |kept| kept.whole_call(call)).map_or(usize::MAX, |call| call as usize);
        let range = self.around.ranges.get(whole).copied().unwrap_or(NONE);
        let range = self.kept.map_or(range, |kept| kept.range(range).unwrap_or(NONE));
        (range, self.around.phases.get(whole).copied().unwrap_or(NO_PHASE))
    }
}

/// What [`sweep_calls`] comes by.
enum Event {
    /// Its place among the spans too.
    Opens(u32, Span),
    Call(Span),
}

/// Visits kept spans and calls by start, the former first.
fn sweep_calls(trace: &Trace, spans: &Spans, is_kept: &dyn Fn(NameId) -> bool, visit: &mut dyn FnMut(Event)) {
    let mut ranges = OuterFirst::of(spans, is_kept);
    let mut range = ranges.next();
    for call in trace.calls.iter() {
        while let Some((at, opens)) = range.take_if(|(_, range)| range.start <= call.start) {
            visit(Event::Opens(at, opens));
            range = ranges.next();
        }
        visit(Event::Call(call));
    }
}

/// The wall time of each kept range name: every moment of a thread belongs to the innermost range that is open.
pub(crate) fn own_wall_time(trace: &Trace, is_kept: &dyn Fn(NameId) -> bool) -> Vec<Ns> {
    let mut open = OpenRanges::of(trace);
    let mut own = vec![Ns::ZERO; trace.ranges.names.len()];
    for (_, range) in OuterFirst::of(&trace.ranges, is_kept) {
        let Some(range) = trace.in_window(range) else { continue };
        open.settle(range.thread.0 as usize, range.start, &mut own);
        open.push(range.name.0, range);
    }
    for thread in 0..trace.threads.len() {
        open.settle(thread, Ns(i64::MAX), &mut own);
    }
    own
}

/// Kept ranges by start with their places, of equal starts the longest first: it lies around the others.
struct OuterFirst<'a> {
    ranges: &'a Spans,
    next: usize,
    is_kept: &'a dyn Fn(NameId) -> bool,
    /// Ranges of one start, and which of these are still to come, the last one next.
    same_start: Vec<(u32, Span)>,
    to_come: Vec<usize>,
}

impl<'a> OuterFirst<'a> {
    fn of(ranges: &'a Spans, is_kept: &'a dyn Fn(NameId) -> bool) -> Self {
        Self { ranges, next: 0, is_kept, same_start: Vec::new(), to_come: Vec::new() }
    }

    fn take_same_start(&mut self) -> Option<()> {
        let start = self.ranges.get(self.next)?.start;
        self.same_start.clear();
        while let Some(range) = self.ranges.get(self.next).filter(|range| range.start == start) {
            if (self.is_kept)(range.name) {
                self.same_start.push((self.next as u32, range));
            }
            self.next += 1;
        }
        if self.same_start.is_sorted_by(|(_, outer), (_, inner)| outer.duration >= inner.duration) {
            self.to_come.extend((0..self.same_start.len()).rev());
        } else {
            let duration = |at: usize| self.same_start.get(at).map(|(_, range)| range.duration);
            // Of equal ranges the one that comes first in the file lies around the next.
            self.to_come = order(self.same_start.len(), &|a, b| duration(a).cmp(&duration(b)).then(b.cmp(&a)));
        }
        Some(())
    }
}

impl Iterator for OuterFirst<'_> {
    type Item = (u32, Span);

    fn next(&mut self) -> Option<(u32, Span)> {
        while self.to_come.is_empty() {
            let (at, range) = (self.next as u32, self.ranges.get(self.next)?);
            // Hardly ever do two begin at the same moment.
            if self.ranges.start(self.next + 1) != Some(range.start) {
                self.next += 1;
                if (self.is_kept)(range.name) {
                    return Some((at, range));
                }
                continue;
            }
            self.take_same_start()?;
        }
        self.same_start.get(self.to_come.pop()?).copied()
    }
}

/// The open ranges of each thread.
struct OpenRanges(Vec<Stack>);

#[derive(Clone, Default)]
struct Stack {
    /// End and what to call it, ends decreasing.
    ranges: Vec<(Ns, u32)>,
    /// Until here the thread's time was handed out.
    settled: Ns,
}

impl OpenRanges {
    fn of(trace: &Trace) -> Self {
        Self(vec![Stack { ranges: Vec::new(), settled: Ns(i64::MIN) }; trace.threads.len()])
    }

    fn push(&mut self, label: u32, range: Span) {
        let Some(Stack { ranges, .. }) = self.0.get_mut(range.thread.0 as usize) else { return };
        while ranges.pop_if(|(end, _)| *end <= range.end()).is_some() {}
        ranges.push((range.end(), label));
    }

    fn innermost(&mut self, call: Span) -> Option<u32> {
        let Stack { ranges, .. } = self.0.get_mut(call.thread.0 as usize)?;
        while ranges.pop_if(|(end, _)| *end < call.start).is_some() {}
        if let Some((_, label)) = ranges.last().filter(|(end, _)| *end >= call.end()) {
            return Some(*label);
        }
        let around = ranges.partition_point(|(end, _)| *end >= call.end());
        ranges.get(around.checked_sub(1)?).map(|(_, label)| *label)
    }

    /// Hands the thread's time up to `until` to the ranges that are open in it.
    fn settle(&mut self, thread: usize, until: Ns, own: &mut [Ns]) {
        let Some(Stack { ranges, settled }) = self.0.get_mut(thread) else { return };
        while let Some(&(end, name)) = ranges.last() {
            let upto = end.min(until);
            if let (true, Some(own)) = (upto > *settled, own.get_mut(name as usize)) {
                *own += upto.since(*settled);
                *settled = upto;
            }
            if end > until {
                break;
            }
            ranges.pop();
        }
        *settled = until.max(*settled);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::Small;
    use crate::trace::{ThreadId, Window};
    use proptest::prelude::*;

    /// Of these ranges of a thread the innermost: the latest start, then the shortest, then the last of the file.
    fn innermost(ranges: &[Span], thread: ThreadId, holds: impl Fn(&Span) -> bool) -> Option<NameId> {
        let candidates = ranges.iter().enumerate().filter(|(_, range)| range.thread == thread && holds(range));
        candidates.max_by_key(|(at, range)| (range.start, -range.duration.0, *at)).map(|(_, range)| range.name)
    }

    /// Thread, start, length and name of ranges or calls, nested, crossing, equal or apart.
    fn spans(most: usize) -> impl Strategy<Value = Vec<(i64, i64, i64, usize)>> {
        proptest::collection::vec((0_i64..2, 0_i64..24, 0_i64..16, 0_usize..5), 0..most)
    }

    fn trace(ranges: &[(i64, i64, i64, usize)], calls: &[(i64, i64, i64, usize)]) -> Trace {
        // Every kernel has its own length, so that sums tell which kernels were added.
        let kernels: Vec<(i64, i64)> = (0..calls.len()).map(|id| (100, 1 << id)).collect();
        trace_of(ranges, calls, &kernels)
    }

    /// `kernels` have start and length, one for each call.
    fn trace_of(ranges: &[(i64, i64, i64, usize)], calls: &[(i64, i64, i64, usize)], kernels: &[(i64, i64)]) -> Trace {
        let mut small = Small::new();
        for name in ["a", "b", "c", "d", "e"] {
            small.0.trace.ranges.names.intern(name);
        }
        for &(thread, start, length, name) in ranges {
            small.range(["a", "b", "c", "d", "e"][name], (1, thread), (start, start + length));
        }
        for ((id, &(thread, start, length, _)), &(begins, lasts)) in (0..).zip(calls).zip(kernels) {
            small.call_on((1, thread), "cudaLaunchKernel", (start, start + length), Some(id));
            small.kernel("k", 1, (begins, begins + lasts), Some(id));
        }
        small.kernel("k", 1, (90, 91), None);
        small.finish()
    }

    proptest! {
        #[test]
        fn kernels_belong_to_the_innermost_kept_range_that_holds_their_launch(
            ranges in spans(16), calls in spans(12), kept in proptest::collection::vec(any::<bool>(), 5),
        ) {
            let trace = trace(&ranges, &calls);
            let phase = |name: NameId| kept[name.0 as usize].then_some(name.0 as usize);
            let found = Attributed::of(&Context::new(&trace, 30), 5, &Around::of(&trace, &phase).of_all(), None);
            let ranges: Vec<Span> = trace.ranges.iter().collect();
            let of_kept: Vec<Span> = ranges.iter().filter(|range| kept[range.name.0 as usize]).copied().collect();
            let (mut want, mut nearest, mut outside) = ([0_i64; 5], [0_i64; 5], 0_i64);
            for (op, call) in trace.gpu_ops.iter().zip(trace.gpu_ops.launches()) {
                let Some(call) = call.and_then(|call| trace.calls.get(call.0 as usize)) else { continue };
                let holds = |range: &Span| range.start <= call.start && range.end() >= call.end();
                match innermost(&ranges, call.thread, holds) {
                    Some(name) => want[name.0 as usize] += op.duration.0,
                    None => outside += op.duration.0,
                }
                if let Some(name) = innermost(&of_kept, call.thread, holds) {
                    nearest[name.0 as usize] += op.duration.0;
                }
            }
            prop_assert_eq!(found.by_phase.iter().map(|(time, _)| time.0).collect::<Vec<_>>(), nearest);
            let by_range = found.by_range();
            for name in 0..5_u32 {
                let time = by_range.get(key(0, name)).map_or(0, |tally| tally.total.0);
                prop_assert_eq!(time, want[name as usize], "{}", name);
            }
            prop_assert_eq!((found.outside.total.0, found.without_call.count), (outside, 1));
            prop_assert_eq!(found.all.count, trace.gpu_ops.len() as u64);
            prop_assert_eq!(found.all.total, trace.gpu_ops.iter().fold(Ns::ZERO, |sum, op| sum + op.duration));
        }

        #[test]
        fn a_window_takes_from_the_whole_what_lies_around_its_launches(
            ranges in spans(16), calls in spans(12), starts in proptest::collection::vec(0_i64..40, 12),
            kept in proptest::collection::vec(any::<bool>(), 5), from in 0_i64..40, length in 1_i64..30,
        ) {
            let launched: Vec<(i64, i64)> = starts.iter().map(|start| (*start, 3)).take(calls.len()).collect();
            let whole = trace_of(&ranges, &calls, &launched);
            let part = whole.within(Window { start: Ns(from), end: Ns(from + length) });
            let phase = |trace: &Trace, name: NameId| {
                let name = trace.ranges.names.get(name).as_bytes()[0] - b'a';
                kept[usize::from(name)].then_some(usize::from(name))
            };
            let of_whole = Around::of(&whole, &|name| phase(&whole, name));
            let taken = of_whole.part(part.kept.as_ref().unwrap());
            let anew = Around::of(&part, &|name| phase(&part, name));
            let [taken, anew] = [taken, anew.of_all()].map(|around| {
                let launches = part.gpu_ops.launches().flatten();
                launches.map(|call| around.of(call.0)).collect::<Vec<_>>()
            });
            prop_assert_eq!(taken, anew);
        }

        #[test]
        fn every_moment_of_a_thread_belongs_to_its_innermost_kept_range(
            ranges in spans(16), kept in proptest::collection::vec(any::<bool>(), 5),
        ) {
            let trace = trace(&ranges, &[]);
            let own = own_wall_time(&trace, &|name| kept[name.0 as usize]);
            let ranges: Vec<Span> = trace.ranges.iter().filter(|range| kept[range.name.0 as usize]).collect();
            let mut want = [0_i64; 5];
            for (thread, moment) in (0..2).flat_map(|thread| (0..60).map(move |moment| (ThreadId(thread), Ns(moment)))) {
                let holds = |range: &Span| range.start <= moment && moment < range.end();
                if let Some(name) = innermost(&ranges, thread, holds) {
                    want[name.0 as usize] += 1;
                }
            }
            prop_assert_eq!(own.iter().map(|own| own.0).collect::<Vec<_>>(), want);
        }
    }

    #[test]
    fn a_correlation_id_says_nothing_in_another_process() {
        let mut small = Small::new();
        small.range("mine", (1, 1), (0, 10)).range("theirs", (2, 1), (0, 10));
        small.call_on((1, 1), "cudaLaunchKernel", (1, 2), Some(5)).call_on((2, 1), "cudaLaunchKernel", (1, 2), Some(5));
        small.kernel("k", 2, (20, 23), Some(5)).kernel("k", 1, (30, 34), Some(5));
        let trace = small.finish();
        let found = Attributed::of(&Context::new(&trace, 30), 0, &Around::of(&trace, &|_| None).of_all(), None);
        let times = found.under.iter().map(|tally| (trace.ranges.names.get(NameId(tally.low())), tally.total.0));
        assert_eq!(times.collect::<Vec<_>>(), [("theirs", 3), ("mine", 4)]);
    }
}
