//! The captures in one file: the launches, copies and sets between the begin and the end of each, with the CPU op, module and code
//! around them. One sweep over calls, CPU ops and frames by time.

use super::GraphCaptures;
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::inference::op_model::cost;
use crate::analysis::inference::op_work::owners_of_calls;
use crate::analysis::triage::call_sites::{CallSite, captured_call_sites};
use crate::analysis::triage::frames::canonical;
use crate::ordering::{self, VecMap};
use crate::rules::signals::CallKind;
use crate::trace::{
    CaptureProof, Captured, CapturedExecution, CapturedOp, CapturedSite, HostCode, NONE, NameId, Ns, ShapedOp, Span,
    Trace,
};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// The captures of one batch in one file.
#[derive(Debug)]
pub(super) struct Capture {
    pub(super) file: String,
    pub(super) batch_size: u64,
    /// In the order of time.
    pub(super) graphs: Vec<Graph>,
}

/// One captured graph: its calls in the order of time.
pub(super) type Graph = Vec<Dispatch>;

/// A call that was captured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dispatch {
    pub(super) work: Work,
    /// Index in [`crate::trace::Captured::ops`].
    pub(super) op: u32,
}

/// What a node of a graph does, as far as the trace tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Work {
    /// Runs the kernel with this name; `None` if the call does not record it.
    Kernel(Option<NameId>),
    Copy,
    Set,
}

/// The calls between the begin and the end of a capture.
#[derive(Debug)]
struct CapturedCalls {
    begin: Span,
    end: Ns,
    calls: Vec<(u32, CallKind)>,
}

/// Adds the captures of a file, or says why it has none.
pub(super) fn add(
    captures: &mut GraphCaptures,
    file: &str,
    trace: &Trace,
    batch_size: Option<u64>,
) -> Result<(), &'static str> {
    if trace.problems.is_cut_short() {
        return Err("the file is cut short");
    }
    let code = trace.code.as_deref().ok_or("not a trace of torch.profiler")?;
    let classified = ClassifiedTrace::new(trace);
    let graphs = captured_calls(&classified);
    if graphs.is_empty() {
        return Err("it records no capture of a graph with its begin and its end");
    }
    let labels = Labels::of(trace);
    let mut by_label: VecMap<(Option<NameId>, Option<u64>), Vec<Graph>> = VecMap::new();
    let by_shapes = batches_by_shapes(trace, &graphs);
    let mut dispatches = Dispatches::of(captures, &classified, code, &graphs);
    for (graph, by_shapes) in graphs.iter().zip(by_shapes) {
        let label = labels.around(trace, graph.begin);
        let batch = label.map(|(_, batch)| batch).or(batch_size).or(by_shapes);
        let nodes = graph.calls.iter().map(|(call, kind)| dispatches.dispatch(*call, *kind)).collect();
        by_label.update((label.map(|(name, _)| name), batch), Vec::new(), |list| list.push(nodes));
    }
    let unknown = by_label.iter().any(|((_, batch), _)| batch.is_none());
    for ((_, batch), graphs) in by_label.into_vec() {
        let capture = batch.map(|batch_size| Capture { file: file.to_owned(), batch_size, graphs });
        captures.captures.extend(capture);
    }
    if unknown { Err("neither its annotation nor its name nor its shapes tell the size of the batch") } else { Ok(()) }
}

/// How long each capture lasts in which something is launched.
pub(crate) fn capture_times(classified: &ClassifiedTrace) -> Vec<Ns> {
    captured_calls(classified).iter().map(|graph| graph.end.since(graph.begin.start)).collect()
}

/// The calls of each capture, in the order of their begin. A capture without an end is left out, because calls of it may be missing.
fn captured_calls(classified: &ClassifiedTrace) -> Vec<CapturedCalls> {
    let trace = classified.trace;
    let begins = |name| classified.call_kind(NameId(name)) == CallKind::BeginCapture;
    if !(0..).take(trace.calls.names.len()).any(begins) {
        return Vec::new();
    }
    let mut open: Vec<Option<CapturedCalls>> = Vec::new();
    open.resize_with(trace.threads.len(), || None);
    let mut graphs = Vec::new();
    for (index, call) in (0_u32..).zip(trace.calls.iter()) {
        let Some(open) = open.get_mut(call.thread.0 as usize) else { continue };
        match classified.call_kind(call.name) {
            CallKind::BeginCapture => *open = Some(CapturedCalls { begin: call, end: call.end(), calls: Vec::new() }),
            CallKind::EndCapture => graphs.extend(open.take().map(|graph| CapturedCalls { end: call.start, ..graph })),
            kind @ (CallKind::Launch | CallKind::CopyAsync | CallKind::CopyBlocking | CallKind::Set) => {
                let graph = open.as_mut().filter(|graph| call.start >= graph.begin.end());
                graph.into_iter().for_each(|graph| graph.calls.push((index, kind)));
            }
            _ => {}
        }
    }
    graphs.retain(|graph| !graph.calls.is_empty());
    ordering::sort_by_key(&mut graphs, |graph| graph.begin.start);
    graphs
}

/// The annotations that state the batch of a capture: `capture_32_FULL`.
struct Labels {
    /// Start, end, name and size, sorted by start.
    ranges: Vec<(Span, u64)>,
}

impl Labels {
    fn of(trace: &Trace) -> Self {
        let sizes: Vec<Option<u64>> = trace.ranges.names.iter().map(batch_of_label).collect();
        let size = |range: &Span| sizes.get(range.name.0 as usize).copied().flatten();
        Self { ranges: trace.ranges.iter().filter_map(|range| Some((range, size(&range)?))).collect() }
    }

    /// The innermost annotation around the begin of a capture, and its batch. Files have one for each capture or few more.
    fn around(&self, trace: &Trace, begin: Span) -> Option<(NameId, u64)> {
        /// An annotation this far back has ended.
        const MAX_LOOKED_AT: usize = 64;
        let before = self.ranges.partition_point(|(range, _)| range.start <= begin.start);
        let process = |span: &Span| trace.threads.get(span.thread.0 as usize).map(|thread| thread.process);
        let near = self.ranges.get(before.saturating_sub(MAX_LOOKED_AT)..before)?;
        let found =
            near.iter().rev().find(|(range, _)| range.end() >= begin.start && process(range) == process(&begin));
        found.map(|(range, batch)| (range.name, *batch))
    }
}

/// The batch in `capture_32_FULL` of vLLM and `capture_32_DECODE` of SGLang.
fn batch_of_label(text: &str) -> Option<u64> {
    let rest = text.strip_prefix("capture_")?;
    let digits = rest.split('_').next()?;
    digits.parse().ok().filter(|batch| *batch > 0)
}

/// By capture: the most frequent first length of the first argument of its ops; `None` if two are as frequent.
fn batches_by_shapes(trace: &Trace, graphs: &[CapturedCalls]) -> Vec<Option<u64>> {
    // Captures of one thread do not overlap.
    let mut of_threads: Vec<Vec<(Ns, Ns, usize)>> = vec![Vec::new(); trace.threads.len()];
    for (index, graph) in graphs.iter().enumerate() {
        let of_thread = of_threads.get_mut(graph.begin.thread.0 as usize);
        of_thread.into_iter().for_each(|list| list.push((graph.begin.start, graph.end, index)));
    }
    let length = |op: &ShapedOp| {
        let of_thread = of_threads.get(op.thread.0 as usize)?;
        let begun = of_thread.partition_point(|(begin, ..)| *begin <= op.start);
        let (_, _, graph) = of_thread.get(begun.checked_sub(1)?).filter(|(_, end, _)| op.start < *end)?;
        let arguments = &trace.shaped_ops.shapes.get(op.shape as usize)?.arguments;
        Some((*graph, *arguments.first()?.lengths.first()?))
    };
    let mut lengths: Vec<(usize, u64)> = trace.shaped_ops.ops.iter().filter_map(length).collect();
    lengths.sort_unstable();
    // By capture: the length, how many ops have it, and whether another is as frequent.
    let mut best: Vec<Option<(u64, usize, bool)>> = vec![None; graphs.len()];
    for equal in lengths.chunk_by(|a, b| a == b) {
        let Some((graph, length)) = equal.first() else { continue };
        let Some(best) = best.get_mut(*graph) else { continue };
        match best {
            Some((_, count, _)) if *count > equal.len() => {}
            Some((_, count, is_tie)) if *count == equal.len() => *is_tie = true,
            _ => *best = Some((*length, equal.len(), false)),
        }
    }
    best.into_iter().map(|best| best.filter(|(.., is_tie)| !is_tie).map(|(length, ..)| length)).collect()
}

/// What is known of each captured call.
struct Dispatches<'a> {
    captures: &'a mut GraphCaptures,
    trace: &'a Trace,
    code: &'a HostCode,
    proof: CaptureProof,
    /// All captured calls, sorted.
    calls: Vec<u32>,
    /// Parallel to `calls`: code and module.
    places: Vec<(u32, Option<NameId>)>,
    /// By call: the CPU op with known cost that owns it, or [`NONE`].
    owners: Vec<u32>,
    /// By number of the CPU op: its execution.
    executions: HashMap<u32, CapturedExecution, RandomState>,
    shapes: HashMap<u32, u32, RandomState>,
}

impl<'a> Dispatches<'a> {
    fn of(
        captures: &'a mut GraphCaptures,
        classified: &ClassifiedTrace<'a>,
        code: &'a HostCode,
        graphs: &[CapturedCalls],
    ) -> Self {
        let trace = classified.trace;
        let mut calls: Vec<u32> = graphs.iter().flat_map(|graph| graph.calls.iter().map(|(call, _)| *call)).collect();
        calls.sort_unstable();
        let (distinct, sites) = captured_call_sites(trace, code, calls.clone());
        let modules = modules(trace, code, &calls);
        let Captured { sites: known, modules: names, .. } = &mut captures.content;
        let first_site = known.len() as u32;
        known.extend(distinct.into_iter().map(|CallSite { cpu_op, location, display, stack, .. }| CapturedSite {
            cpu_op,
            location,
            display,
            stack,
        }));
        let places = sites.iter().zip(&modules);
        let places =
            places.map(|(site, module)| (first_site + site, module.map(|module| names.intern(module)))).collect();
        let costs: Vec<_> = trace.shaped_ops.shapes.iter().map(cost).collect();
        let owners = owners_of_calls(classified, &costs);
        let is_named = graphs
            .iter()
            .flat_map(|graph| &graph.calls)
            .all(|(call, kind)| *kind != CallKind::Launch || kernel_of_call(code, *call).is_some());
        let proof = if is_named { CaptureProof::Names } else { CaptureProof::Order };
        let (executions, shapes) = (HashMap::default(), HashMap::default());
        Self { captures, trace, code, proof, calls, places, owners, executions, shapes }
    }

    fn dispatch(&mut self, call: u32, kind: CallKind) -> Dispatch {
        let work = match kind {
            CallKind::Launch => {
                let name = kernel_of_call(self.code, call).filter(|_| self.proof == CaptureProof::Names);
                Work::Kernel(name.map(|name| self.captures.kernels.intern(&canonical(name))))
            }
            CallKind::Set => Work::Set,
            _ => Work::Copy,
        };
        let place = self.calls.binary_search(&call).ok().and_then(|at| self.places.get(at));
        let (site, module) = place.copied().unwrap_or((NONE, None));
        let execution = self.execution(call);
        let ops = &mut self.captures.content.ops;
        ops.push(CapturedOp { site, module, execution, proof: self.proof });
        Dispatch { work, op: (ops.len() - 1) as u32 }
    }

    fn execution(&mut self, call: u32) -> Option<CapturedExecution> {
        let owner = *self.owners.get(call as usize).filter(|owner| **owner != NONE)?;
        if let Some(known) = self.executions.get(&owner) {
            return Some(*known);
        }
        let own = self.trace.shaped_ops.ops.get(owner as usize)?.shape;
        let description = self.trace.shaped_ops.shapes.get(own as usize)?;
        let shapes = &mut self.captures.content.shapes;
        let shape = *self.shapes.entry(own).or_insert_with(|| {
            shapes.push(description.clone());
            (shapes.len() - 1) as u32
        });
        let execution = CapturedExecution { number: self.captures.executions, shape };
        self.captures.executions += 1;
        self.executions.insert(owner, execution);
        Some(execution)
    }
}

/// The kernel that a call names.
fn kernel_of_call(code: &HostCode, call: u32) -> Option<&str> {
    let name = code.call_kernels.get(call as usize).filter(|name| **name != NONE)?;
    Some(code.kernel_names.get(NameId(*name)))
}

/// The innermost module around each of these calls, which are sorted: `Qwen3Attention_0`.
fn modules<'a>(trace: &Trace, code: &'a HostCode, calls: &[u32]) -> Vec<Option<&'a str>> {
    const PREFIX: &str = "nn.Module: ";
    let names: Vec<Option<&str>> = code.frames.names.iter().map(|name| name.strip_prefix(PREFIX)).collect();
    let module = |frame: &Span| names.get(frame.name.0 as usize).copied().flatten();
    let mut frames = code.frames.iter().filter_map(|frame| Some((frame, module(&frame)?))).peekable();
    let mut stacks: Vec<Vec<(Ns, &str)>> = vec![Vec::new(); trace.threads.len()];
    let innermost = |call: &u32| {
        let call = trace.calls.get(*call as usize)?;
        while let Some((frame, name)) = frames.next_if(|(frame, _)| frame.start <= call.start) {
            let Some(stack) = stacks.get_mut(frame.thread.0 as usize) else { continue };
            while stack.pop_if(|(end, _)| *end <= frame.start).is_some() {}
            stack.push((frame.end(), name));
        }
        let stack = stacks.get_mut(call.thread.0 as usize)?;
        while stack.pop_if(|(end, _)| *end <= call.start).is_some() {}
        stack.last().map(|(_, name)| *name)
    };
    calls.iter().map(innermost).collect()
}
