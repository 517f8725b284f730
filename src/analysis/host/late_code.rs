//! Finds the code that ran in intervals of host threads: [`crate::trace::LateCode`].
//!
//! An event is kept for each interval that it overlaps: O(log n) for an event and n intervals, O(1) if it begins near the event before
//! it, plus O(1) for each overlap.
//! Time in which the profiler held the thread is left out.
//! At most [`MAX_EVENTS`] are kept; the code of an interval with a lost event is unknown.

use crate::ordering::{self, partition_point_near};
use crate::trace::{CodeEvent, CodeKind, CodeTime, HostInterval, HostTimes, LateCode, NameId, Names, Ns};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// The maximum number of events that are kept, at 24 bytes each.
const MAX_EVENTS: usize = 1 << 20;
/// Stands for the function that runs while the profiler holds the thread.
const PROFILER: NameId = NameId(u32::MAX);

/// The CPU ops and Python functions that overlap some intervals. Events may arrive in any order.
#[derive(Debug, Default)]
pub(super) struct LateCodeSearch {
    /// Sorted by thread and start. Intervals of one thread do not overlap.
    intervals: Vec<Collected>,
    events: usize,
    /// The first interval that the event before could overlap. Events mostly arrive in the order of time.
    first: usize,
}

#[derive(Debug)]
struct Collected {
    interval: HostInterval,
    functions: Vec<Event>,
    ops: Vec<Event>,
    is_incomplete: bool,
}

#[derive(Debug, Clone, Copy)]
struct Event {
    start: Ns,
    end: Ns,
    name: NameId,
}

impl LateCodeSearch {
    /// `intervals` are sorted.
    pub(super) fn new(intervals: &[HostInterval]) -> Self {
        let collected = |interval: &HostInterval| Collected {
            interval: *interval,
            functions: Vec::new(),
            ops: Vec::new(),
            is_incomplete: false,
        };
        Self { intervals: intervals.iter().map(collected).collect(), ..Self::default() }
    }

    /// Adds when the profiler held threads, as the innermost function of that time.
    pub(super) fn add_pauses(&mut self, pauses: &HostTimes) {
        for time in pauses.iter() {
            self.add(CodeEvent { kind: CodeKind::Function, name: PROFILER, time: *time });
        }
    }

    /// Adds a CPU op or a Python function with a line.
    pub(super) fn add(&mut self, event: CodeEvent) {
        let HostInterval { thread, start, end } = event.time;
        self.first = partition_point_near(&self.intervals, self.first, |other| {
            (other.interval.thread, other.interval.end) <= (thread, start)
        });
        let later = self.intervals.iter_mut().skip(self.first);
        for other in later.take_while(|other| other.interval.thread == thread && other.interval.start < end) {
            if self.events == MAX_EVENTS {
                other.is_incomplete = true;
                continue;
            }
            self.events += 1;
            let events = if event.kind == CodeKind::Function { &mut other.functions } else { &mut other.ops };
            events.push(Event { start, end, name: event.name });
        }
    }

    /// The code of all intervals. The names are those of the events.
    pub(super) fn finish(self, functions: Names, ops: Names) -> LateCode {
        let mut found = LateCode::new(functions, ops);
        for collected in self.intervals {
            found.add(collected.interval, collected.code());
        }
        found
    }
}

impl Collected {
    fn code(self) -> Vec<CodeTime> {
        let segments = |events| clipped(innermost(events), self.interval);
        if self.is_incomplete {
            return Vec::new();
        }
        let mut times = code_times(&segments(self.functions), &segments(self.ops));
        times.retain(|code| code.function != Some(PROFILER));
        times
    }
}

/// The self time of each innermost function and op in an interval, from the events that overlap it, in any order. The times add up to
/// at most the interval. A function without a line must not be among the events.
#[cfg(test)]
fn self_times(interval: HostInterval, events: impl IntoIterator<Item = CodeEvent>) -> Vec<CodeTime> {
    let mut search = LateCodeSearch::new(&[interval]);
    events.into_iter().for_each(|event| search.add(event));
    search.intervals.pop().map(Collected::code).unwrap_or_default()
}

/// The parts of segments inside of an interval. Whole events tell which of them is the inner one, so they are not clipped
/// before [`innermost`]: of two frames that are both open during the whole interval, nothing else would tell.
fn clipped(mut segments: Vec<Event>, interval: HostInterval) -> Vec<Event> {
    for segment in &mut segments {
        (segment.start, segment.end) = (segment.start.max(interval.start), segment.end.min(interval.end));
    }
    segments.retain(|segment| segment.start < segment.end);
    segments
}

/// Divides time by the innermost of nested events: disjoint segments, sorted.
fn innermost(mut events: Vec<Event>) -> Vec<Event> {
    ordering::sort_by_key(&mut events, |event| (event.start, std::cmp::Reverse(event.end)));
    let mut segments: Vec<Event> = Vec::new();
    let mut push = |start: Ns, end: Ns, name: NameId| {
        if end > start {
            segments.push(Event { start, end, name });
        }
    };
    let mut open: Vec<Event> = Vec::new();
    let mut now = Ns(i64::MIN);
    for event in events {
        while let Some(ended) = open.pop_if(|top| top.end <= event.start) {
            push(now.max(ended.start), ended.end, ended.name);
            now = now.max(ended.end);
        }
        if let Some(outer) = open.last() {
            push(now.max(outer.start), event.start, outer.name);
        }
        now = now.max(event.start);
        open.push(event);
    }
    while let Some(ended) = open.pop() {
        push(now.max(ended.start), ended.end, ended.name);
        now = now.max(ended.end);
    }
    segments
}

/// The time of each pair of innermost function and op. Time in neither is left out.
fn code_times(functions: &[Event], ops: &[Event]) -> Vec<CodeTime> {
    let mut times: Vec<CodeTime> = Vec::new();
    let mut row_of: HashMap<(Option<NameId>, Option<NameId>), usize, RandomState> = HashMap::default();
    let mut bounds: Vec<i64> = functions.iter().chain(ops).flat_map(|event| [event.start.0, event.end.0]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let (mut functions, mut ops) = (Cursor(functions), Cursor(ops));
    for (start, end) in bounds.iter().zip(bounds.iter().skip(1)) {
        let (function, op, time) = (functions.name_at(Ns(*start)), ops.name_at(Ns(*start)), Ns(end - start));
        if function.is_none() && op.is_none() {
            continue;
        }
        let row = *row_of.entry((function, op)).or_insert(times.len());
        match times.get_mut(row) {
            Some(known) => known.time += time,
            None => times.push(CodeTime { function, op, time }),
        }
    }
    times
}

/// The sorted, disjoint segments that do not end before the time asked for last.
struct Cursor<'a>(&'a [Event]);

impl Cursor<'_> {
    /// The name of the segment at a time, which must not be earlier than the one before.
    fn name_at(&mut self, time: Ns) -> Option<NameId> {
        while let Some((first, rest)) = self.0.split_first()
            && first.end <= time
        {
            self.0 = rest;
        }
        self.0.first().filter(|segment| segment.start <= time).map(|segment| segment.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::ThreadId;
    use proptest::prelude::*;

    fn found(events: &[(CodeKind, &str, i64, i64)]) -> Vec<(String, String, i64)> {
        let interval = |start: i64, end: i64| HostInterval { thread: ThreadId(0), start: Ns(start), end: Ns(end) };
        let mut search = LateCodeSearch::new(&[interval(100, 200)]);
        let (mut functions, mut ops) = (Names::default(), Names::default());
        for (kind, name, start, end) in events {
            let names = if *kind == CodeKind::Function { &mut functions } else { &mut ops };
            search.add(CodeEvent { kind: *kind, name: names.intern(name), time: interval(*start, *end) });
        }
        let code = search.finish(functions, ops);
        let text = |names: &Names, name: Option<NameId>| name.map_or("-", |name| names.get(name)).to_owned();
        let time = |time: &CodeTime| (text(&code.functions, time.function), text(&code.ops, time.op), time.time.0);
        code.of(interval(100, 200)).unwrap().iter().map(time).collect()
    }

    #[test]
    fn time_counts_for_the_innermost_function_and_op() {
        let mut events = vec![
            (CodeKind::Function, "a.py(3): loop", 0, 1_000),
            (CodeKind::Function, "a.py(1): main", 50, 900),
            (CodeKind::Function, "a.py(9): prepare", 110, 180),
            (CodeKind::Op, "aten::empty", 125, 135),
            (CodeKind::Function, "b.py(2): later", 200, 300),
        ];
        let expected =
            [("a.py(1): main", "-", 30), ("a.py(9): prepare", "-", 60), ("a.py(9): prepare", "aten::empty", 10)];
        let expected = expected.map(|(function, op, time)| (function.to_owned(), op.to_owned(), time));
        assert_eq!(found(&events), expected);
        events.reverse();
        assert_eq!(found(&events), expected, "the order of the file does not matter");
    }

    proptest! {
        #[test]
        fn self_times_are_positive_and_add_up_to_the_time_in_any_code(
            events in prop::collection::vec((any::<bool>(), 0_u32..4, 0_i64..300, 0_i64..200), 0..20),
            (start, length) in (0_i64..300, 1_i64..200),
        ) {
            let at = |start: i64, end: i64| HostInterval { thread: ThreadId(0), start: Ns(start), end: Ns(end) };
            let event = |(is_op, name, start, length): &(bool, u32, i64, i64)| CodeEvent {
                kind: if *is_op { CodeKind::Op } else { CodeKind::Function },
                name: NameId(*name),
                time: at(*start, start + length),
            };
            let times = self_times(at(start, start + length), events.iter().map(event));
            let covered = (start..start + length).filter(|time| {
                events.iter().any(|(_, _, from, length)| from <= time && *time < from + length)
            });
            let sum: i64 = times.iter().map(|code| code.time.0).sum();
            prop_assert_eq!(sum, covered.count() as i64);
            prop_assert!(sum <= length && times.iter().all(|code| code.time > Ns::ZERO));
        }
    }

    #[test]
    fn time_without_code_is_left_out() {
        assert_eq!(found(&[]), []);
        assert_eq!(found(&[(CodeKind::Op, "aten::mm", 150, 160)]), [("-".to_owned(), "aten::mm".to_owned(), 10)]);
    }
}
