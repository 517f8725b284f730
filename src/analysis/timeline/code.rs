//! CPU ops and Python functions as nested bars.
//!
//! They may be ten million, so a tile does not read them all. A tile whose units are long is drawn from the [`LongestCode`], which
//! the reader of the trace keeps apart. A finer tile reads the blocks of [`PackedCode`] in its range. Code shorter than half a unit
//! is left out. Only shorter code can be inside of it, so that changes no nesting depth.
//!
//! The functions that start a server and its loop run around all work. Of those only the innermost has a row, so that a lane does not
//! begin with a dozen rows that say nothing.

use super::bars::TileRange;
use super::nest;
use crate::ordering;
use crate::trace::{
    CodeEvent, CodeKind, HostCode, HostInterval, LongestCode, NameId, Ns, PackedCode, Span, Spans, ThreadId, Trace,
    Window,
};

/// The number of longest functions and ops that are kept of a trace without packed code.
const MAX_LONGEST: usize = 200_000;
/// The most rows of a lane. Deeper code shares the last one.
const MAX_DEPTH: usize = 64;
/// Rows for code that is too short to be counted when the lanes are laid out.
const SPARE_ROWS: usize = 6;

/// Neighbours are searched within this time first, then within longer ones, because most are near.
const MIN_REACH_NS: i64 = 1_000_000;
const REACH_FACTOR: i64 = 32;
/// Longer than a trace: 13 days.
const MAX_REACH_NS: i64 = 1 << 50;

/// A function or op as a bar.
#[derive(Debug, Clone, Copy)]
pub(super) struct CodeBar {
    /// See [`event`].
    pub(super) row: usize,
    pub(super) kind: CodeKind,
    pub(super) name: NameId,
    pub(super) time: HostInterval,
    pub(super) depth: u8,
}

/// How the code of a trace is nested.
#[derive(Debug, Default)]
pub(super) struct CodeBars {
    /// By event of the longest code.
    depths: Vec<u8>,
    /// The number of rows by thread.
    rows: Vec<usize>,
    /// By thread: the code around all GPU work that has no row, outermost first.
    outer: Vec<Vec<CodeEvent>>,
    /// That of a trace without packed code.
    own_longest: Option<LongestCode>,
}

impl CodeBars {
    /// `gpu` is the time of all GPU work.
    pub(super) fn of(trace: &Trace, gpu: Window) -> Self {
        let own_longest = trace.packed_code.is_none().then(|| find_longest(trace, MAX_LONGEST));
        Self::with_longest(trace, gpu, own_longest)
    }

    fn with_longest(trace: &Trace, gpu: Window, own_longest: Option<LongestCode>) -> Self {
        let mut rows = vec![0; trace.threads.len()];
        let Some(LongestCode { events, least }) = longest(trace, own_longest.as_ref()) else { return Self::default() };
        let depths: Vec<u8> = depths(events.iter().map(|(_, event)| event.time)).collect();
        for ((_, event), depth) in events.iter().zip(&depths) {
            let rows = rows.get_mut(event.time.thread.0 as usize);
            rows.into_iter().for_each(|rows| *rows = usize::max(*rows, usize::from(*depth) + 1));
        }
        if *least > Ns::ZERO {
            let has_code = rows.iter_mut().filter(|rows| **rows > 0);
            has_code.for_each(|rows| *rows = (*rows + SPARE_ROWS).min(MAX_DEPTH));
        }
        let outer = outer_code(trace, gpu);
        for (rows, outer) in rows.iter_mut().zip(&outer) {
            *rows = rows.saturating_sub(outer.len());
        }
        Self { depths, rows, outer, own_longest }
    }

    /// The number of rows of a thread.
    pub(super) fn depth(&self, thread: ThreadId) -> usize {
        self.rows.get(thread.0 as usize).copied().unwrap_or(0)
    }

    /// The names of the code without a row, by thread; threads without such code are left out.
    pub(super) fn outer_names(&self, trace: &Trace) -> Vec<Vec<String>> {
        let names = |outer: &Vec<CodeEvent>| outer.iter().map(|event| name(trace, *event).to_owned()).collect();
        self.outer.iter().filter(|outer| !outer.is_empty()).map(names).collect()
    }

    /// Visits the code in a tile, sorted by thread and start.
    pub(super) fn each(&self, trace: &Trace, range: TileRange, visit: &mut dyn FnMut(CodeBar)) {
        let shortest = Ns(range.unit_ns() / 2);
        let overlaps = |time: HostInterval| time.start < range.end() && time.end > range.start();
        let is_drawn = |event: CodeEvent| overlaps(event.time) && event.duration() >= shortest;
        let Some(LongestCode { events, least }) = longest(trace, self.own_longest.as_ref()) else { return };
        if shortest >= *least {
            let bars = events.iter().zip(&self.depths).filter(|((_, event), _)| is_drawn(*event));
            bars.filter_map(|((row, event), depth)| self.bar(*row, *event, *depth)).for_each(visit);
            return;
        }
        let mut events = Vec::new();
        each(trace, Some((range.start(), range.end())), &mut |row, event| {
            if is_drawn(event) {
                events.push((row, event));
            }
        });
        events.sort_unstable_by_key(|(row, event)| (event.nesting_order(), *row));
        let depths = depths(events.iter().map(|(_, event)| event.time));
        events.iter().zip(depths).filter_map(|((row, event), depth)| self.bar(*row, *event, depth)).for_each(visit);
    }

    /// With a depth that the lane has; `None` for code without a row. What runs before or after the code without rows moves up with
    /// what is inside of it.
    fn bar(&self, row: usize, event: CodeEvent, depth: u8) -> Option<CodeBar> {
        let outer = self.outer.get(event.time.thread.0 as usize).map_or(&[][..], Vec::as_slice);
        if outer.contains(&event) {
            return None;
        }
        let last = self.depth(event.time.thread).saturating_sub(1);
        let depth = depth.saturating_sub(u8::try_from(outer.len()).unwrap_or(u8::MAX));
        let depth = depth.min(u8::try_from(last).unwrap_or(u8::MAX));
        Some(CodeBar { row, kind: event.kind, name: event.name, time: event.time, depth })
    }

    /// The code before or after some code on its thread, called by the same function if there is such code nearby.
    pub(super) fn neighbour(
        &self,
        trace: &Trace,
        thread: ThreadId,
        row: usize,
        is_after: bool,
    ) -> Option<(usize, HostInterval)> {
        let own = event(trace, row)?.time;
        let mut reach_ns = MIN_REACH_NS;
        loop {
            let found = nearest(trace, HostInterval { thread, ..own }, reach_ns, is_after);
            if found.is_some() || reach_ns > MAX_REACH_NS {
                return found;
            }
            reach_ns *= REACH_FACTOR;
        }
    }
}

/// By thread the code that runs around all GPU work, outermost first, without the innermost of it.
fn outer_code(trace: &Trace, gpu: Window) -> Vec<Vec<CodeEvent>> {
    let mut outer = vec![Vec::new(); trace.threads.len()];
    each(trace, Some((gpu.start, gpu.start)), &mut |_, event| {
        let is_around = event.time.start <= gpu.start && event.time.end >= gpu.end;
        if let Some(outer) = outer.get_mut(event.time.thread.0 as usize).filter(|_| is_around) {
            outer.push(event);
        }
    });
    for outer in &mut outer {
        ordering::sort_by_key(outer, |event: &CodeEvent| event.nesting_order());
        outer.pop();
    }
    outer
}

/// The nearest code of a thread that begins within `reach_ns` after other code, or ended within it before.
fn nearest(trace: &Trace, own: HostInterval, reach_ns: i64, is_after: bool) -> Option<(usize, HostInterval)> {
    let mut nearest: Option<(usize, HostInterval)> = None;
    let reach = Ns(reach_ns);
    let (from, to) = if is_after { (own.end, own.end + reach) } else { (own.start - reach, own.start) };
    each(trace, Some((from, to)), &mut |row, event| {
        let time = event.time;
        let is_beside = if is_after {
            time.start >= own.end && time.start <= to
        } else {
            time.end <= own.start && time.end >= from
        };
        if time.thread != own.thread || !is_beside {
            return;
        }
        // Of nested code that begins or ends at the same time, the outermost.
        let rank = |time: HostInterval| {
            if is_after { (time.start, -time.end.0) } else { (Ns(-time.end.0), time.start.0) }
        };
        if nearest.is_none_or(|(_, known)| rank(time) < rank(known)) {
            nearest = Some((row, time));
        }
    });
    nearest
}

fn longest<'a>(trace: &'a Trace, own: Option<&'a LongestCode>) -> Option<&'a LongestCode> {
    own.or_else(|| trace.packed_code.as_deref().map(PackedCode::longest))
}

/// One pass over all code.
fn find_longest(trace: &Trace, max: usize) -> LongestCode {
    let mut longest = LongestCode::default();
    each(trace, None, &mut |row, event| longest.add(max, row, event));
    longest.sort();
    longest
}

/// The nesting depths of code sorted by [`CodeEvent::nesting_order`].
fn depths(times: impl Iterator<Item = HostInterval>) -> impl Iterator<Item = u8> {
    let (mut open, mut thread) = (Vec::new(), None);
    times.map(move |time| {
        if thread != Some(time.thread) {
            thread = Some(time.thread);
            open.clear();
        }
        let depth = nest(&mut open, time.start, time.end).min(MAX_DEPTH - 1);
        u8::try_from(depth).unwrap_or(u8::MAX)
    })
}

/// The functions and ops around a time on a thread, outermost first.
pub(super) fn stack(trace: &Trace, thread: ThreadId, time: Ns) -> Vec<CodeEvent> {
    let mut around = Vec::new();
    each(trace, Some((time, time)), &mut |_, event| {
        if event.time.thread == thread && event.time.start <= time && event.time.end > time {
            around.push(event);
        }
    });
    ordering::sort_by_key(&mut around, |event| (event.time.start, -event.time.end.0, event.kind == CodeKind::Op));
    around
}

/// The functions and ops of a thread that overlap an interval, in any order. A function without a line, such as a module, counts for its
/// caller, so it is left out.
pub(super) fn in_interval(trace: &Trace, interval: HostInterval) -> Vec<CodeEvent> {
    let mut events = Vec::new();
    each(trace, Some((interval.start, interval.end)), &mut |_, event| {
        let HostInterval { thread, start, end } = event.time;
        let overlaps = thread == interval.thread && start < interval.end && end > interval.start;
        if overlaps && (event.kind == CodeKind::Op || name(trace, event).contains("): ")) {
            events.push(event);
        }
    });
    events
}

/// The function or op in this row: a position in [`crate::trace::PackedCode`]; without it, the ops and then the functions of
/// [`HostCode`].
pub(super) fn event(trace: &Trace, row: usize) -> Option<CodeEvent> {
    if let Some(packed) = &trace.packed_code {
        return packed.get(row);
    }
    let HostCode { cpu_ops, frames, .. } = trace.code.as_deref()?;
    let (span, kind) = match row.checked_sub(cpu_ops.len()) {
        None => (cpu_ops.get(row)?, CodeKind::Op),
        Some(row) => (frames.get(row)?, CodeKind::Function),
    };
    Some(event_of(span, kind))
}

/// Visits row and value of all code, or of that which overlaps a time range and some near it.
fn each(trace: &Trace, range: Option<(Ns, Ns)>, visit: &mut dyn FnMut(usize, CodeEvent)) {
    let (from, to) = range.unwrap_or((Ns(i64::MIN), Ns(i64::MAX)));
    if let Some(packed) = &trace.packed_code {
        packed.each_in(from, to, visit);
        return;
    }
    let Some(HostCode { cpu_ops, frames, .. }) = trace.code.as_deref() else { return };
    let mut each_of = |spans: &Spans, kind: CodeKind, first: usize| {
        let rows = spans.first_reaching(from)..spans.len();
        let spans = rows.map_while(|row| Some((row, spans.get(row).filter(|span| span.start <= to)?)));
        spans.for_each(|(row, span)| visit(first + row, event_of(span, kind)));
    };
    each_of(cpu_ops, CodeKind::Op, 0);
    each_of(frames, CodeKind::Function, cpu_ops.len());
}

fn event_of(span: Span, kind: CodeKind) -> CodeEvent {
    let time = HostInterval { thread: span.thread, start: span.start, end: span.end() };
    CodeEvent { kind, name: span.name, time }
}

/// The name of a function or op: `sglang/srt/managers/scheduler.py(812): event_loop`, `aten::mm`.
pub(super) fn name(trace: &Trace, event: CodeEvent) -> &str {
    code_name(trace, event.kind, event.name)
}

/// The name of a function or op with this id; empty if there is none.
pub fn code_name(trace: &Trace, kind: CodeKind, id: NameId) -> &str {
    match (&trace.packed_code, trace.code.as_deref(), kind) {
        (Some(packed), _, CodeKind::Op) => packed.ops.get(id),
        (Some(packed), _, CodeKind::Function) => packed.functions.get(id),
        (None, Some(code), CodeKind::Op) => code.cpu_ops.names.get(id),
        (None, Some(code), CodeKind::Function) => code.frames.names.get(id),
        (None, None, _) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::TestTrace;
    use proptest::prelude::*;

    /// Code as calls that nest: each begins some time after the one before began, and lasts a share of what is left of the code around it.
    fn nested(calls: &[(i64, i64, bool)]) -> Trace {
        let mut trace = TestTrace::new();
        let mut trace = trace.launch(0..1).launches("k", 5..10).finish();
        let mut code = PackedCode::default();
        let (op, function) = (code.ops.intern("aten::mm"), code.functions.intern("a.py(1): f"));
        let (mut open, mut now): (Vec<i64>, i64) = (vec![1 << 40], 0);
        for (pause, share, is_op) in calls {
            now += pause;
            while open.pop_if(|end| *end <= now).is_some() {}
            let end = open.last().map_or(now + share * 1_000, |end| now + (end - now) * share / 100);
            open.push(end);
            let (kind, name): (_, NameId) = if *is_op { (CodeKind::Op, op) } else { (CodeKind::Function, function) };
            code.push(kind, name, 0, Ns(now), Ns(end - now));
        }
        code.set_threads(vec![Some(ThreadId(0))]);
        trace.packed_code = Some(Box::new(code));
        trace
    }

    fn bars_of(code: &CodeBars, trace: &Trace, level: u32, index: i64) -> Vec<(usize, u8)> {
        let mut found = Vec::new();
        let range = TileRange::new(Ns(0), level, index).unwrap();
        code.each(trace, range, &mut |bar| found.push((bar.row, bar.depth)));
        found
    }

    proptest! {
        #[test]
        fn a_tile_of_the_longest_code_equals_one_of_all_code(
            calls in prop::collection::vec((0_i64..2_000, 0_i64..100, any::<bool>()), 1..120),
            max_long in 0_usize..100,
            level in 0_u32..30,
        ) {
            let trace = nested(&calls);
            let (all, few) = (find_longest(&trace, usize::MAX), find_longest(&trace, max_long));
            prop_assert!(few.events.len() <= max_long && all.events.len() == calls.len());
            prop_assert_eq!(Some(&all), longest(&trace, None), "what the reader of the trace kept");
            let gpu = trace.span().unwrap();
            let [all, few] = [all, few].map(|longest| CodeBars::with_longest(&trace, gpu, Some(longest)));
            // Deeper code shares the last row of a lane.
            let last = few.depth(ThreadId(0)).saturating_sub(1) as u8;
            let expected: Vec<(usize, u8)> =
                bars_of(&all, &trace, level, 0).into_iter().map(|(row, depth)| (row, depth.min(last))).collect();
            prop_assert_eq!(bars_of(&few, &trace, level, 0), expected);
        }
    }

    proptest! {
        #[test]
        fn the_neighbours_of_code_are_the_nearest_of_all(
            // Pauses of up to a second, much longer than the first search.
            calls in prop::collection::vec((0_u32..30, 0_i64..100, any::<bool>()), 2..60),
            index in 0_usize..60,
        ) {
            let calls: Vec<(i64, i64, bool)> = calls.iter().map(|(pause, share, is_op)| (1 << pause, *share, *is_op)).collect();
            let trace = nested(&calls);
            let mut all = Vec::new();
            each(&trace, None, &mut |row, event| all.push((row, event.time)));
            let (row, own) = all[index % all.len()];
            let code = CodeBars::of(&trace, trace.span().unwrap());
            let found = [false, true].map(|is_after| code.neighbour(&trace, ThreadId(0), row, is_after).map(|(_, time)| time));
            let times = all.iter().map(|(_, time)| *time);
            let before = times.clone().filter(|time| time.end <= own.start).max_by_key(|time| (time.end, -time.start.0));
            let after = times.filter(|time| time.start >= own.end).min_by_key(|time| (time.start, -time.end.0));
            prop_assert_eq!(found, [before, after]);
        }
    }

    #[test]
    fn functions_around_all_work_have_no_row_but_the_innermost() {
        // Around the kernel at 5..10: three functions; inside of them one that ends before it, and one after it with an op.
        let mut trace = nested(&[(1, 90, false), (1, 90, false), (1, 90, false)]);
        let code = trace.packed_code.as_mut().unwrap();
        let (op, function) = (code.ops.intern("aten::mm"), code.functions.intern("a.py(9): work"));
        code.push(CodeKind::Function, function, 0, Ns(1_000), Ns(500));
        code.push(CodeKind::Op, op, 0, Ns(1_100), Ns(100));
        code.set_threads(vec![Some(ThreadId(0))]);
        let code = CodeBars::of(&trace, trace.span().unwrap());
        assert_eq!(code.outer_names(&trace), [["a.py(1): f", "a.py(1): f"]]);
        assert_eq!(code.depth(ThreadId(0)), 3);
        let depths: Vec<u8> = bars_of(&code, &trace, 2, 0).into_iter().map(|(_, depth)| depth).collect();
        assert_eq!(depths, [0, 1, 2], "what would be the third row is the first");
    }

    #[test]
    fn code_is_nested_and_the_stack_of_a_time_is_what_runs_then() {
        // 0..2^40 * 0.9, in it 1..., in it 3...
        let trace = nested(&[(1, 50, false), (1, 50, false), (1, 50, true)]);
        let code = CodeBars::of(&trace, Window { start: Ns(0), end: Ns(10) });
        assert_eq!(code.depth(ThreadId(0)), 3);
        let names = |time: i64| {
            let stack = stack(&trace, ThreadId(0), Ns(time));
            stack.into_iter().map(|event| name(&trace, event)).collect::<Vec<_>>()
        };
        assert_eq!(names(3), ["a.py(1): f", "a.py(1): f", "aten::mm"]);
        assert_eq!((names(2).len(), names(0).len()), (2, 0));
    }
}
