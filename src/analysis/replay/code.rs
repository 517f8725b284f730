//! Finds which code runs at each moment on each thread that launches or waits for the GPU: [`CodeTimelines`]. Runs once, when the file is read, because later
//! most code is dropped.
//!
//! From the CPU ops and Python functions of a torch trace, and the ranges of the program; only of the part that is replayed. Built-in
//! functions and functions without a line count for their caller. Cost: one pass over the blocks of [`PackedCode`] that overlap the
//! part, and a sort of their events, at most [`MAX_EVENTS`].

use super::part::Part;
use crate::ordering;
use crate::rules::is_waiting_code;
use crate::rules::signals::Signals;
use crate::trace::{
    CodeEvent, CodeKind, CodeTimeline, CodeTimelines, HostInterval, NameId, Names, Ns, PackedCode, RunningCode, Spans,
    Trace,
};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// Stands for the function while the profiler holds the thread.
pub(super) const PROFILER_CODE: &str = "(profiler)";
/// With more events in the part, no code is known.
const MAX_EVENTS: usize = 262_144;

/// Events may overlap by this much through rounding.
const ROUNDING: Ns = Ns(2);

/// One name of a function, op or range.
#[derive(Debug, Clone, Copy)]
struct Named {
    name: NameId,
    kind: Kind,
    waits: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A Python function with a line.
    Function,
    /// Other code that runs for the function around it.
    Inner,
    Op,
    /// The profiler holds the thread: nothing of the program runs, whatever is around it.
    Profiler,
}

/// An event that overlaps the part.
struct Event {
    time: HostInterval,
    named: Named,
}

/// Returns the code of the part of the trace that is replayed; `None` if nothing is replayed.
pub(crate) fn code_timelines(trace: &Trace, packed: Option<&PackedCode>) -> Option<CodeTimelines> {
    let part = Part::of(trace)?;
    let mut names = Names::default();
    let mut events = Vec::new();
    if !add_code(trace, packed, &part, &mut names, &mut events) {
        return None;
    }
    add_ranges(trace, &part, &mut names, &mut events);
    add_pauses(trace, &part, &mut names, &mut events);
    ordering::sort_by_key(&mut events, |event| {
        let time = &event.time;
        // Of functions with equal times the one that waits is the innermost: nothing runs in it.
        let order = (
            event.named.kind == Kind::Profiler,
            event.named.kind == Kind::Op,
            event.named.kind == Kind::Inner,
            event.named.waits,
        );
        (time.thread, time.start, std::cmp::Reverse(time.end), order)
    });
    let mut codes = Codes::default();
    let of_threads = events.chunk_by(|a, b| a.time.thread == b.time.thread);
    let threads = of_threads.filter_map(|events| Some((events.first()?.time.thread, timeline(events, &mut codes))));
    let threads = threads.collect();
    Some(CodeTimelines::new(names, codes.all, threads))
}

/// Adds CPU ops and functions. Returns false if there are too many.
fn add_code(
    trace: &Trace,
    packed: Option<&PackedCode>,
    part: &Part,
    names: &mut Names,
    events: &mut Vec<Event>,
) -> bool {
    let (ops, functions, count) = match (packed, trace.code.as_deref()) {
        (Some(packed), _) => (&packed.ops, &packed.functions, 0),
        (None, Some(code)) => (&code.cpu_ops.names, &code.frames.names, code.cpu_ops.len() + code.frames.len()),
        (None, None) => return true,
    };
    let ops = named(ops, names, CodeKind::Op);
    let functions = named(functions, names, CodeKind::Function);
    let mut is_complete = count <= MAX_EVENTS;
    let mut add = |event: CodeEvent| {
        let kinds = if event.kind == CodeKind::Function { &functions } else { &ops };
        let Some(named) = kinds.get(event.name.0 as usize).filter(|_| part.overlaps(&event.time)) else { return };
        if events.len() < MAX_EVENTS {
            events.push(Event { time: event.time, named: *named });
        } else {
            is_complete = false;
        }
    };
    match (packed, trace.code.as_deref()) {
        (Some(packed), _) => packed.each_in(part.host.start, part.host.end, &mut |_, event| add(event)),
        (None, Some(code)) => {
            each_span(&code.cpu_ops, CodeKind::Op, &mut add);
            each_span(&code.frames, CodeKind::Function, &mut add);
        }
        (None, None) => {}
    }
    is_complete
}

fn each_span(spans: &Spans, kind: CodeKind, visit: &mut dyn FnMut(CodeEvent)) {
    for span in spans.iter() {
        let time = HostInterval { thread: span.thread, start: span.start, end: span.end() };
        visit(CodeEvent { kind, name: span.name, time });
    }
}

fn add_ranges(trace: &Trace, part: &Part, names: &mut Names, events: &mut Vec<Event>) {
    let ranges = named(&trace.ranges.names, names, CodeKind::Op);
    let first = trace.ranges.first_reaching(part.host.start);
    for range in trace.ranges.iter().skip(first).take_while(|range| range.start < part.host.end) {
        let time = HostInterval { thread: range.thread, start: range.start, end: range.end() };
        let named = ranges.get(range.name.0 as usize).filter(|_| part.overlaps(&time) && events.len() < MAX_EVENTS);
        events.extend(named.map(|named| Event { time, named: *named }));
    }
}

fn add_pauses(trace: &Trace, part: &Part, names: &mut Names, events: &mut Vec<Event>) {
    for time in trace.profiler_pauses.iter().filter(|time| part.overlaps(time)) {
        let named = Named { name: names.intern(PROFILER_CODE), kind: Kind::Profiler, waits: false };
        events.push(Event { time: *time, named });
    }
}

/// What each name means, with its name in `names`.
fn named(all: &Names, names: &mut Names, kind: CodeKind) -> Vec<Named> {
    let signals = Signals::embedded();
    all.iter()
        .map(|text| {
            let kind = match kind {
                CodeKind::Op => Kind::Op,
                CodeKind::Function if text.contains("): ") => Kind::Function,
                CodeKind::Function => Kind::Inner,
            };
            Named {
                name: names.intern(without_number(text)),
                kind,
                waits: is_waiting_code(text) || signals.is_host_wait(text),
            }
        })
        .collect()
}

/// The name of an op or range without the number of its call: `aten::mm, op_id = 12`, `ProfilerStep#3`.
pub(super) fn without_number(text: &str) -> &str {
    let text = text.split(", op_id = ").next().unwrap_or(text);
    let text = text.split(", seq = ").next().unwrap_or(text);
    if text.starts_with("ProfilerStep#") { "ProfilerStep" } else { text }
}

/// Distinct codes.
#[derive(Default)]
struct Codes {
    all: Vec<RunningCode>,
    index: HashMap<RunningCode, u32, RandomState>,
}

impl Codes {
    fn id(&mut self, code: RunningCode) -> u32 {
        *self.index.entry(code).or_insert_with(|| {
            self.all.push(code);
            u32::try_from(self.all.len() - 1).unwrap_or(u32::MAX)
        })
    }
}

/// The code of one thread over time, from its events, outer ones first.
fn timeline(events: &[Event], codes: &mut Codes) -> CodeTimeline {
    let has_functions = events.iter().any(|event| event.named.kind == Kind::Function);
    let mut timeline = CodeTimeline::default();
    let mut open: Vec<(Ns, RunningCode)> = Vec::new();
    let none = codes.id(RunningCode::default());
    let mut id = |code: Option<&(Ns, RunningCode)>| code.map_or(none, |(_, code)| codes.id(*code));
    for Event { time, named } in events {
        while let Some((end, _)) = open.pop_if(|(end, _)| *end <= time.start) {
            timeline.push(end, id(open.last()));
        }
        let (end, mut around) = open.last().copied().unwrap_or_default();
        // A wait that ends within this event was moved there by rounding.
        around.waits &= end + ROUNDING >= time.end;
        open.push((time.end, inner(around, *named, has_functions)));
        timeline.push(time.start, id(open.last()));
    }
    while let Some((end, _)) = open.pop() {
        timeline.push(end, id(open.last()));
    }
    timeline
}

/// The running code where a function, op or range runs inside other code.
fn inner(around: RunningCode, named: Named, has_functions: bool) -> RunningCode {
    if named.kind == Kind::Profiler {
        return RunningCode { function: Some(named.name), op: around.op, waits: false };
    }
    let op = if named.kind == Kind::Op { Some(named.name) } else { around.op };
    let is_function =
        named.kind == Kind::Function || named.kind == Kind::Op && (!has_functions || around.function.is_none());
    if is_function {
        // What a function that waits calls is a part of the wait.
        return RunningCode { function: Some(named.name), op, waits: around.waits || named.waits };
    }
    RunningCode { op, waits: around.waits || named.waits, ..around }
}
