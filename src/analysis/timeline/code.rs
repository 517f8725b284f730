//! CPU ops and Python functions as nested bars.
//!
//! They may be ten million, so a tile does not read them all: [`CodeBars`] keeps the [`MAX_LONG`] longest, found in two passes when the
//! timeline opens. A tile whose units are longer than the others is drawn from them; a finer tile reads the blocks of
//! [`PackedCode`] in its range. Code shorter than half a unit is left out. Only shorter code can be inside of it, so that changes no
//! nesting depth.

use super::bars::TileRange;
use super::nest;
use crate::analysis::host;
use crate::ordering;
use crate::trace::{CodeEvent, CodeKind, HostCode, HostInterval, NameId, Ns, Span, Spans, ThreadId, Trace};

/// The number of longest functions and ops that are kept.
const MAX_LONG: usize = 200_000;
/// The most rows of a lane. Deeper code shares the last one.
const MAX_DEPTH: usize = 64;
/// Rows for code that is too short to be counted when the lanes are laid out.
const SPARE_ROWS: usize = 6;

/// A function or op as a bar.
#[derive(Debug, Clone, Copy)]
pub(super) struct CodeBar {
    /// See [`event`].
    pub(super) row: usize,
    pub(super) kind: CodeKind,
    pub(super) time: HostInterval,
    pub(super) depth: u8,
}

/// The longest code of a trace.
#[derive(Debug, Default)]
pub(super) struct CodeBars {
    /// Sorted by thread and start.
    longest: Vec<CodeBar>,
    /// All code of at least this duration is in `longest`.
    least: Ns,
    /// The number of rows by thread.
    rows: Vec<usize>,
}

impl CodeBars {
    pub(super) fn of(trace: &Trace) -> Self {
        Self::with_limit(trace, MAX_LONG)
    }

    fn with_limit(trace: &Trace, max_long: usize) -> Self {
        // By power of two of the duration.
        let mut counts = [0_usize; 64];
        each(trace, None, &mut |_, event| {
            counts.get_mut(power(duration(event))).into_iter().for_each(|count| *count += 1);
        });
        let mut total = 0;
        let kept = counts.iter().rev().take_while(|count| {
            total += **count;
            total <= max_long
        });
        let first_kept = counts.len() - kept.count();
        let least =
            if first_kept == 0 { Ns::ZERO } else { Ns(1_i64.checked_shl(first_kept as u32).unwrap_or(i64::MAX)) };
        let mut longest = Vec::new();
        each(trace, None, &mut |row, event| {
            if duration(event) >= least {
                longest.push(CodeBar { row, kind: event.kind, time: event.time, depth: 0 });
            }
        });
        set_depths(&mut longest);
        let mut rows = vec![0; trace.threads.len()];
        for bar in &longest {
            let rows = rows.get_mut(bar.time.thread.0 as usize);
            rows.into_iter().for_each(|rows| *rows = usize::max(*rows, usize::from(bar.depth) + 1));
        }
        if least > Ns::ZERO {
            let has_code = rows.iter_mut().filter(|rows| **rows > 0);
            has_code.for_each(|rows| *rows = (*rows + SPARE_ROWS).min(MAX_DEPTH));
        }
        Self { longest, least, rows }
    }

    /// The number of rows of a thread.
    pub(super) fn depth(&self, thread: ThreadId) -> usize {
        self.rows.get(thread.0 as usize).copied().unwrap_or(0)
    }

    /// Visits the code in a tile, sorted by thread and start.
    pub(super) fn each(&self, trace: &Trace, range: TileRange, visit: &mut dyn FnMut(CodeBar)) {
        let shortest = Ns(range.unit_ns() / 2);
        let overlaps = |time: HostInterval| time.start < range.end() && time.end > range.start();
        if shortest >= self.least {
            let bars = self.longest.iter().filter(|bar| overlaps(bar.time));
            bars.filter(|bar| bar.time.end.since(bar.time.start) >= shortest).for_each(|bar| visit(self.fitted(*bar)));
            return;
        }
        let mut bars = Vec::new();
        each(trace, Some((range.start(), range.end())), &mut |row, event| {
            if overlaps(event.time) && duration(event) >= shortest {
                bars.push(CodeBar { row, kind: event.kind, time: event.time, depth: 0 });
            }
        });
        set_depths(&mut bars);
        bars.into_iter().for_each(|bar| visit(self.fitted(bar)));
    }

    /// With a depth that the lane has.
    fn fitted(&self, bar: CodeBar) -> CodeBar {
        let last = self.depth(bar.time.thread).saturating_sub(1);
        CodeBar { depth: bar.depth.min(u8::try_from(last).unwrap_or(u8::MAX)), ..bar }
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
        let mut nearest: Option<(usize, HostInterval)> = None;
        let (from, to) = if is_after { (own.end, Ns(i64::MAX)) } else { (Ns(i64::MIN), own.start) };
        each(trace, Some((from, to)), &mut |row, event| {
            let time = event.time;
            let is_beside = if is_after { time.start >= own.end } else { time.end <= own.start };
            if time.thread != thread || !is_beside {
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
}

/// Sorts bars by thread and start, and sets their nesting depths.
fn set_depths(bars: &mut Vec<CodeBar>) {
    // A function that begins with the op that it calls is around it.
    let key = |bar: &CodeBar| (bar.time.thread, bar.time.start, -bar.time.end.0, bar.kind == CodeKind::Op);
    ordering::sort_by_key(bars, key);
    let (mut open, mut thread) = (Vec::new(), None);
    for bar in bars {
        if thread != Some(bar.time.thread) {
            (thread, open) = (Some(bar.time.thread), Vec::new());
        }
        let depth = nest(&mut open, bar.time.start, bar.time.end).min(MAX_DEPTH - 1);
        bar.depth = u8::try_from(depth).unwrap_or(u8::MAX);
    }
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

/// The self time of each innermost function and op of a thread in an interval: names of function and op, and their time, longest first.
/// A function without a line, such as a module, counts for its caller.
pub(super) fn self_times(trace: &Trace, interval: HostInterval) -> Vec<(Option<&str>, Option<&str>, Ns)> {
    let mut events = Vec::new();
    each(trace, Some((interval.start, interval.end)), &mut |_, event| {
        let has_line = || name(trace, event).contains("): ");
        if event.time.thread == interval.thread && (event.kind == CodeKind::Op || has_line()) {
            events.push(event);
        }
    });
    let mut times = host::self_times(interval, events);
    ordering::sort_by_key(&mut times, |code| std::cmp::Reverse(code.time));
    let named =
        |id: Option<NameId>, kind: CodeKind| id.map(|id| name(trace, CodeEvent { kind, name: id, time: interval }));
    times
        .into_iter()
        .map(|code| (named(code.function, CodeKind::Function), named(code.op, CodeKind::Op), code.time))
        .collect()
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
pub(super) fn name(trace: &Trace, CodeEvent { kind, name, .. }: CodeEvent) -> &str {
    match (&trace.packed_code, trace.code.as_deref(), kind) {
        (Some(packed), _, CodeKind::Op) => packed.ops.get(name),
        (Some(packed), _, CodeKind::Function) => packed.functions.get(name),
        (None, Some(code), CodeKind::Op) => code.cpu_ops.names.get(name),
        (None, Some(code), CodeKind::Function) => code.frames.names.get(name),
        (None, None, _) => "",
    }
}

/// The name of the code in a row of a lane of code; empty if there is none.
pub fn code_name(trace: &Trace, row: usize) -> &str {
    event(trace, row).map_or("", |event| name(trace, event))
}

fn duration(event: CodeEvent) -> Ns {
    event.time.end.since(event.time.start)
}

/// The power of two below a duration.
fn power(duration: Ns) -> usize {
    duration.0.max(1).ilog2() as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::PackedCode;
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
            let (all, few) = (CodeBars::with_limit(&trace, usize::MAX), CodeBars::with_limit(&trace, max_long));
            prop_assert!(few.longest.len() <= max_long && all.longest.len() == calls.len());
            // Deeper code shares the last row of a lane.
            let last = few.depth(ThreadId(0)).saturating_sub(1) as u8;
            let expected: Vec<(usize, u8)> =
                bars_of(&all, &trace, level, 0).into_iter().map(|(row, depth)| (row, depth.min(last))).collect();
            prop_assert_eq!(bars_of(&few, &trace, level, 0), expected);
        }
    }

    #[test]
    fn code_is_nested_and_the_stack_of_a_time_is_what_runs_then() {
        // 0..2^40 * 0.9, in it 1..., in it 3...
        let trace = nested(&[(1, 50, false), (1, 50, false), (1, 50, true)]);
        let code = CodeBars::of(&trace);
        assert_eq!(code.depth(ThreadId(0)), 3);
        let names = |time: i64| {
            let stack = stack(&trace, ThreadId(0), Ns(time));
            stack.into_iter().map(|event| name(&trace, event)).collect::<Vec<_>>()
        };
        assert_eq!(names(3), ["a.py(1): f", "a.py(1): f", "aten::mm"]);
        assert_eq!((names(2).len(), names(0).len()), (2, 0));
    }
}
