//! Looks up the code that a GPU waited for: around the blocking calls that cost much, and on launching threads that were late;
//! when threads compiled code, and when they ran the parts of a training step. Also the code around launches of kernels whose names do
//! not tell their category, and that of all launching threads in the part of the trace that is replayed.
//!
//! From all CPU ops and Python functions, compressed ([`crate::trace::PackedCode`]) or whole ([`crate::trace::HostCode`]). Cost: one
//! pass over them for pauses of the profiler and times without records, one if a GPU waited much or such kernels ran, one for the replayed
//! part, and one if their names show a training. It runs once, when the file is read; windows share its result.

use super::blocking_sites::BlockingSiteSearch;
use super::drains::costly_drains;
use super::late_code::LateCodeSearch;
use super::late_gaps::late_intervals;
use super::launch_code::LaunchCodeSearch;
use super::profiler_pauses::PauseSearch;
use super::recomputed_times::recomputed_times;
use super::recording_holes::HoleSearch;
use crate::analysis::replay::code::code_timelines;
use crate::rules::signals::Signals;
use crate::rules::{RecomputeSign, RequestCode, TrainingPart, recompute_sign, training_part_of_code};
use crate::trace::{
    CategoryEvidence, CodeEvent, CodeKind, HostInterval, HostTimes, Names, Ns, PackedCode, RequestWaits, Span, Spans,
    Trace, TrainingCode,
};
use std::sync::Arc;

/// Fills [`Trace::blocking_sites`], [`Trace::late_code`], [`Trace::launch_code`], [`Trace::compilations`], [`Trace::profiler_pauses`], [`Trace::request_waits`], [`Trace::code_timelines`] and [`Trace::training`].
pub fn look_up_code(trace: &mut Trace) {
    // Taken so that the search can read it while it fills the trace.
    let packed = trace.packed_code.take();
    let (pauses, holes) = pauses_and_holes(trace, packed.as_deref());
    trace.profiler_pauses = Arc::new(pauses);
    trace.profiler_overheads = Vec::new();
    trace.recording_holes = Arc::new(holes);
    search(trace, packed.as_deref());
    trace.code_timelines = code_timelines(trace, packed.as_deref()).map(Arc::new);
    trace.training = Arc::new(training_code(trace, packed.as_deref()));
    trace.packed_code = packed;
}

fn search(trace: &mut Trace, packed: Option<&PackedCode>) {
    if packed.is_none() && trace.code.is_none() {
        return;
    }
    let (blocking, late) = (costly_drains(trace), late_intervals(trace));
    let (ops, functions) = names(trace, packed);
    let mut launches = LaunchCodeSearch::new(trace, &functions);
    if blocking.is_empty() && late.is_empty() && launches.is_empty() {
        return;
    }
    let mut sites = BlockingSiteSearch::new(&blocking, &functions, &ops);
    let mut late = LateCodeSearch::new(&late);
    let (ops_that_compile, functions_that_compile) = (compiling_ops(&ops), compiling_functions(&functions));
    let mut compilations = Vec::new();
    let mut requests = RequestSearch::new(&functions);
    // A function without a line, such as a module, counts for its caller.
    let has_line: Vec<bool> = functions.iter().map(|name| name.contains("): ")).collect();
    each_event(trace, packed, &mut |event| {
        sites.add(event);
        launches.add(event);
        requests.add(event);
        let compile = if event.kind == CodeKind::Op { &ops_that_compile } else { &functions_that_compile };
        if compile.get(event.name.0 as usize) == Some(&true) {
            compilations.push(event.time);
        }
        if event.kind == CodeKind::Op || has_line.get(event.name.0 as usize) == Some(&true) {
            late.add(event);
        }
    });
    trace.blocking_sites = Arc::new(sites.finish(&functions, &ops));
    trace.launch_code = Arc::new(launches.finish(&functions, &ops));
    // The search for drains may have computed it, without this code.
    trace.category_evidence = CategoryEvidence::default();
    late.add_pauses(&trace.profiler_pauses);
    trace.late_code = Arc::new(late.finish(functions, ops));
    trace.compilations = Arc::new(HostTimes::union_of(compilations));
    trace.request_waits = Arc::new(requests.finish());
}

/// When the profiler held threads, and when nothing was recorded.
fn pauses_and_holes(trace: &Trace, packed: Option<&PackedCode>) -> (HostTimes, Vec<(Ns, Ns)>) {
    let (mut pauses, mut holes) = (PauseSearch::new(trace), HoleSearch::new(trace));
    if !pauses.is_empty() || !holes.is_empty() {
        each_event(trace, packed, &mut |event| {
            pauses.add(event);
            holes.add(event);
        });
    }
    (pauses.finish(), holes.finish())
}

/// Finds when a serving engine had no request.
struct RequestSearch {
    /// By function; empty without a function of an engine that takes requests.
    kinds: Vec<Option<RequestCode>>,
    takes: Vec<HostInterval>,
    blocks: Vec<HostInterval>,
    chooses: Vec<HostInterval>,
    runs: Vec<HostInterval>,
}

impl RequestSearch {
    fn new(functions: &Names) -> Self {
        let mut kinds: Vec<Option<RequestCode>> = functions.iter().map(RequestCode::of).collect();
        if !kinds.iter().flatten().any(|kind| *kind != RequestCode::Blocks) {
            kinds.clear();
        }
        Self { kinds, takes: Vec::new(), blocks: Vec::new(), chooses: Vec::new(), runs: Vec::new() }
    }

    fn add(&mut self, event: CodeEvent) {
        let kind = self.kinds.get(event.name.0 as usize).copied().flatten();
        match kind.filter(|_| event.kind == CodeKind::Function) {
            Some(RequestCode::Takes) => self.takes.push(event.time),
            Some(RequestCode::Blocks) => self.blocks.push(event.time),
            Some(RequestCode::ChoosesBatch) => self.chooses.push(event.time),
            Some(RequestCode::RunsBatch) => self.runs.push(event.time),
            None => {}
        }
    }

    fn finish(self) -> RequestWaits {
        RequestWaits::new(self.takes, self.blocks).with_loops(self.chooses, &self.runs)
    }
}

/// When threads ran the parts of a training step.
fn training_code(trace: &Trace, packed: Option<&PackedCode>) -> TrainingCode {
    let names = packed.map(|packed| &packed.ops).or(trace.code.as_deref().map(|code| &code.cpu_ops.names));
    let parts: Vec<Option<TrainingPart>> =
        names.map(|names| names.iter().map(training_part_of_code).collect()).unwrap_or_default();
    let signs: Vec<Option<RecomputeSign>> =
        names.map(|names| names.iter().map(recompute_sign).collect()).unwrap_or_default();
    let mut times: [Vec<HostInterval>; 4] = Default::default();
    let mut signed = Vec::new();
    if parts.iter().any(Option::is_some) {
        each_event(trace, packed, &mut |event| {
            let part = parts.get(event.name.0 as usize).copied().flatten().filter(|_| event.kind == CodeKind::Op);
            let times = part.and_then(|part| times.get_mut(part as usize));
            times.into_iter().for_each(|times| add_time(times, event.time));
            let sign = signs.get(event.name.0 as usize).copied().flatten().filter(|_| event.kind == CodeKind::Op);
            signed.extend(sign.map(|sign| (event.time, sign)));
        });
    }
    let recomputed = HostTimes::union_of(recomputed_times(signed));
    let [backward, optimizer, zero_grad, loading] = times.map(HostTimes::union_of);
    TrainingCode { backward, recomputed, optimizer, zero_grad, loading }
}

/// Adds an interval, or extends the one before if they overlap: most ops are within others.
fn add_time(times: &mut Vec<HostInterval>, time: HostInterval) {
    match times.last_mut() {
        Some(last) if last.thread == time.thread && time.start <= last.end && time.end >= last.start => {
            (last.start, last.end) = (last.start.min(time.start), last.end.max(time.end));
        }
        _ => times.push(time),
    }
}

/// For each name of a CPU op, whether it compiles code.
fn compiling_ops(ops: &Names) -> Vec<bool> {
    let ends = &Signals::embedded().compilations;
    ops.iter().map(|name| ends.iter().any(|end| name.ends_with(end))).collect()
}

/// For each name of a Python function, whether it compiles code.
fn compiling_functions(functions: &Names) -> Vec<bool> {
    let parts = &Signals::embedded().compiling_code;
    functions.iter().map(|name| parts.iter().any(|part| name.contains(part))).collect()
}

/// The names of CPU ops and of functions.
fn names(trace: &Trace, packed: Option<&PackedCode>) -> (Names, Names) {
    match (packed, trace.code.as_deref()) {
        (Some(packed), _) => (packed.ops.clone(), packed.functions.clone()),
        (None, Some(code)) => (code.cpu_ops.names.clone(), code.frames.names.clone()),
        (None, None) => (Names::default(), Names::default()),
    }
}

fn each_event(trace: &Trace, packed: Option<&PackedCode>, visit: &mut dyn FnMut(CodeEvent)) {
    match (packed, trace.code.as_deref()) {
        (Some(packed), _) => packed.each(visit),
        (None, Some(code)) => {
            each_span(&code.cpu_ops, CodeKind::Op, visit);
            each_span(&code.frames, CodeKind::Function, visit);
        }
        (None, None) => {}
    }
}

fn each_span(spans: &Spans, kind: CodeKind, visit: &mut dyn FnMut(CodeEvent)) {
    for Span { start, duration, name, thread } in spans.iter() {
        let time = HostInterval { thread, start, end: start.after(duration) };
        visit(CodeEvent { kind, name, time });
    }
}
