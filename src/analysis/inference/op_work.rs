//! Which framework op launched a kernel, and the work of its kernels: a kernel belongs to the innermost op with known cost
//! that was open on the launching thread when the launch call began. Two exceptions: ops that only move memory leave their
//! kernels to an op with operations around them, as its helpers; and an op with operations that contains another one owns
//! nothing. A kernel of a graph replay belongs to the op that launched it in the capture of the graph, if that was read
//! (`analysis::graph_captures`), and otherwise to no op.
//!
//! One sweep over ops and calls in order of time with a stack per thread, and a sort of the kernels by op: O(n log n).

use super::op_model::{OpCost, cost};
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::dashboard::Preset;
use crate::analysis::measure::union::added_to_union;
use crate::analysis::structure::stages::{HostStep, TokenSums, steps_by_op};
use crate::rules::inference::thresholds;
use crate::rules::signals::CallKind;
use crate::trace::{
    CallId, CaptureProof, CapturedExecution, Element, GpuOp, NONE, Ns, OpKind, OpShape, ShapedOp, Span, Trace,
};
use std::collections::BTreeMap;

/// The ops with known cost that launched kernels.
#[derive(Debug, Default)]
pub(crate) struct OpWork {
    /// By index in [`shapes`], then those that depend on the step.
    costs: Vec<Option<OpCost>>,
    /// In the order of their start on the host, then those of graph replays.
    executions: Vec<Execution>,
    /// Row of the kernel and index of its execution, sorted by row.
    owners: Vec<(u32, u32)>,
    limits: Option<&'static Preset>,
}

/// One execution of an op and its kernels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Execution {
    /// Index in [`shapes`].
    pub(crate) shape: u32,
    /// Where its shape was recorded.
    pub(crate) source: ShapeSource,
    /// Index of its cost.
    pub(crate) cost: u32,
    /// The union of its kernels.
    pub(crate) time: Ns,
    pub(crate) kernels: u32,
    /// The row of its longest kernel.
    pub(crate) longest: u32,
}

/// Where the shape of an op was recorded, the better first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ShapeSource {
    /// In the trace.
    Trace,
    /// In the capture of the graph, by the names of the kernels.
    Capture,
    /// In the capture of the graph, by the order of its launches, which is not proven.
    CaptureByOrder,
}

impl ShapeSource {
    fn of(proof: CaptureProof) -> Self {
        match proof {
            CaptureProof::Names => Self::Capture,
            CaptureProof::Order => Self::CaptureByOrder,
        }
    }

    /// The words for a basis.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Trace => "",
            Self::Capture => " of the graph's capture",
            Self::CaptureByOrder => " of the graph's capture, by order only",
        }
    }
}

/// The names and arguments of the ops of a trace, and then of those of the captures of its graphs.
pub(crate) fn shapes(trace: &Trace) -> Vec<&OpShape> {
    trace.shaped_ops.shapes.iter().chain(trace.captured_graphs.shapes()).collect()
}

/// The work of some kernels and the time that it took. What is not known of one of them is not known of all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Work {
    pub(crate) time_ns: f64,
    /// Floating-point operations; `None` if the ops only move memory.
    pub(crate) flop: Option<f64>,
    pub(crate) bytes: Option<f64>,
    /// The time of the operations at the peak of the GPU.
    arithmetic_ns: Option<f64>,
    /// The time of the bytes at the bandwidth of the GPU.
    memory_ns: Option<f64>,
    /// The type of the operands, if all have the same.
    pub(crate) precision: Option<Element>,
    /// The weakest source of the shapes.
    pub(crate) source: ShapeSource,
}

impl Work {
    /// Adds the work of other kernels.
    fn plus(self, other: Self) -> Self {
        let both = |one: Option<f64>, other: Option<f64>| Some(one? + other?);
        Self {
            time_ns: self.time_ns + other.time_ns,
            flop: both(self.flop, other.flop).or(self.flop).or(other.flop),
            bytes: both(self.bytes, other.bytes),
            arithmetic_ns: both(self.arithmetic_ns, other.arithmetic_ns),
            memory_ns: both(self.memory_ns, other.memory_ns),
            precision: self.precision.filter(|_| self.precision == other.precision),
            source: self.source.max(other.source),
        }
    }

    /// Operations per picosecond, which are TFLOP/s.
    pub(crate) fn tflops(&self) -> Option<f64> {
        self.flop.filter(|_| self.time_ns > 0.0).map(|flop| flop / self.time_ns / 1e3)
    }

    pub(crate) fn tb_per_s(&self) -> Option<f64> {
        self.bytes.filter(|_| self.time_ns > 0.0).map(|bytes| bytes / self.time_ns / 1e3)
    }

    /// The share of the nearer limit that is reached, in per cent, and whether that limit is the arithmetic peak.
    pub(crate) fn of_peak(&self) -> Option<(f64, bool)> {
        let (arithmetic, memory) = self.arithmetic_ns.zip(self.memory_ns).filter(|_| self.time_ns > 0.0)?;
        Some((100.0 * arithmetic.max(memory) / self.time_ns, arithmetic >= memory))
    }
}

/// The weights that the products of some kernels read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WeightsOfKernels {
    pub(crate) bytes: f64,
    /// The least time for their operations at the peak of the GPU, if that is known.
    pub(crate) arithmetic_ns: Option<f64>,
    /// The weakest source of the shapes.
    pub(crate) source: ShapeSource,
}

/// The peak of a GPU for products of this type without sparsity; `None` if it is not known.
pub(crate) fn peak_tflops(preset: &Preset, element: Element) -> Option<f64> {
    match element {
        Element::Bf16 if !preset.precision.contains("BF16") => None,
        Element::Bf16 | Element::Fp16 => Some(preset.peak_tflops),
        Element::Fp8 => preset.fp8_tflops,
        Element::PackedFp4 => preset.fp4_tflops,
        _ => None,
    }
}

impl OpWork {
    /// Joins the kernels of a trace with its ops. `limits` are the peak figures of the GPU, if they are known. `is_full` says that
    /// all layers of the model are known to attend to all tokens.
    pub(crate) fn of(classified: &ClassifiedTrace, limits: Option<&'static Preset>, is_full: bool) -> Self {
        let trace = classified.trace;
        if trace.shaped_ops.is_empty() && trace.captured_graphs.rows.is_empty() {
            return Self::default();
        }
        let costs: Vec<Option<OpCost>> = shapes(trace).into_iter().map(cost).collect();
        let of_call = owners_of_calls(classified, &costs);
        // By op of the host: the rows of its kernels.
        let mut owners: Vec<(u32, u32)> = Vec::new();
        for ((op, launch), row) in trace.gpu_ops.iter().zip(trace.gpu_ops.launches()).zip(0_u32..) {
            let owner = launch.and_then(|call| of_call.get(call.0 as usize)).filter(|owner| **owner != NONE);
            owners.extend(owner.filter(|_| op.kind == OpKind::Kernel).map(|owner| (*owner, row)));
        }
        owners.sort_unstable();
        let mut executions: Vec<Execution> = Vec::new();
        for kernels in owners.chunk_by_mut(|a, b| a.0 == b.0) {
            let index = executions.len() as u32;
            executions.extend(execution(trace, kernels));
            kernels.iter_mut().for_each(|(owner, row)| (*owner, *row) = (*row, index));
        }
        add_replayed(trace, &mut executions, &mut owners);
        owners.sort_unstable();
        let mut work = Self { costs, executions, owners, limits };
        work.price_attention(trace, is_full);
        work
    }

    /// Gives each execution of attention the cost that follows from the lengths of the requests in its step.
    fn price_attention(&mut self, trace: &Trace, is_full: bool) {
        let depends = |execution: &Execution| self.cost(execution.shape).is_some_and(|cost| cost.varlen.is_some());
        if !self.executions.iter().any(depends) {
            return;
        }
        let (steps, step_of_op) = steps_by_op(trace);
        // By shape and the lengths of the step: the index of the cost.
        let mut priced: BTreeMap<(u32, [Option<TokenSums>; 2]), u32> = BTreeMap::new();
        for execution in &mut self.executions {
            let Some(Some(cost)) = self.costs.get(execution.shape as usize) else { continue };
            if cost.varlen.is_none() {
                continue;
            }
            let step = step_of_op.get(execution.longest as usize).and_then(|step| steps.get(*step as usize));
            let step = step.map(HostStep::info);
            let sums = step.map_or([None; 2], |step| [step.context, step.generation]);
            let next = self.costs.len() as u32;
            execution.cost = *priced.entry((execution.shape, sums)).or_insert(next);
            if execution.cost == next {
                let cost = cost.in_step(step.as_ref(), is_full);
                self.costs.push(Some(cost));
            }
        }
    }

    /// The ops that launched kernels.
    pub(crate) fn executions(&self) -> &[Execution] {
        &self.executions
    }

    /// The cost with this index: of a shape, or of an execution.
    pub(crate) fn cost(&self, index: u32) -> Option<&OpCost> {
        self.costs.get(index as usize)?.as_ref()
    }

    /// The peak figures of the GPU; `None` if they are not known.
    pub(crate) fn limits(&self) -> Option<&'static Preset> {
        self.limits
    }

    /// The execution that launched the kernel in this row.
    pub(crate) fn owner(&self, row: u32) -> Option<&Execution> {
        let at = self.owners.binary_search_by_key(&row, |(row, _)| *row).ok()?;
        self.executions.get(self.owners.get(at)?.1 as usize)
    }

    /// The rows of kernels with known ops, and the executions that launched them.
    pub(crate) fn owned(&self) -> impl Iterator<Item = (u32, &Execution)> {
        self.owners.iter().filter_map(|(row, execution)| Some((*row, self.executions.get(*execution as usize)?)))
    }

    /// The work of an op that took this time.
    pub(crate) fn work(&self, cost: &OpCost, time_ns: f64) -> Work {
        let arithmetic_ns = match (cost.flop, cost.precision) {
            (None, _) => Some(0.0),
            // TFLOP/s are operations per picosecond.
            (Some(flop), Some(element)) => {
                self.limits.and_then(|limits| peak_tflops(limits, element)).map(|peak| flop / peak / 1e3)
            }
            (Some(_), None) => None,
        };
        let bytes = cost.bytes.filter(|_| cost.most_bytes.is_none());
        let memory_ns = bytes.zip(self.limits).map(|(bytes, limits)| bytes / limits.memory_tb_per_s / 1e3);
        let source = ShapeSource::Trace;
        Work { time_ns, flop: cost.flop, bytes, arithmetic_ns, memory_ns, precision: cost.precision, source }
    }

    /// The work of the ops whose longest kernel is in one of these rows; `None` if there are none, or if a tenth of the time
    /// of the kernels belongs to no op.
    pub(crate) fn work_of(&self, kernels: &mut dyn Iterator<Item = (u32, Ns)>) -> Option<Work> {
        let (mut all_ns, mut owned_ns, mut sum) = (0.0, 0.0, None::<Work>);
        for (row, duration) in kernels {
            all_ns += duration.0 as f64;
            let Some(execution) = self.owner(row) else { continue };
            let cost = self.cost(execution.cost)?;
            if cost.unknown.is_some() {
                continue;
            }
            owned_ns += duration.0 as f64;
            if execution.longest == row {
                let work = Work { source: execution.source, ..self.work(cost, execution.time.0 as f64) };
                sum = Some(sum.map_or(work, |sum| sum.plus(work)));
            }
        }
        sum.filter(|_| owned_ns >= thresholds().work.min_owned_time_share.value * all_ns)
    }

    /// The weights that the ops of these kernels read; `None` if a kernel belongs to no op with weights.
    pub(crate) fn weights_of(&self, kernels: &mut dyn Iterator<Item = u32>) -> Option<WeightsOfKernels> {
        let (mut bytes, mut arithmetic_ns, mut source) = (0.0, Some(0.0), ShapeSource::Trace);
        for row in kernels {
            let execution = self.owner(row)?;
            let cost = self.cost(execution.cost)?;
            let weights = cost.weight_bytes?;
            source = source.max(execution.source);
            if execution.longest == row {
                bytes += weights;
                let time_ns = self.work(cost, 0.0).arithmetic_ns;
                arithmetic_ns = arithmetic_ns.zip(time_ns).map(|(sum, time_ns)| sum + time_ns);
            }
        }
        Some(WeightsOfKernels { bytes, arithmetic_ns, source })
    }
}

/// By call: the index of the op that owns its kernels, or [`NONE`].
pub(crate) fn owners_of_calls(classified: &ClassifiedTrace, costs: &[Option<OpCost>]) -> Vec<u32> {
    let trace = classified.trace;
    let ops = PricedOps::of(trace, costs);
    let is_wrapper = ops.wrappers();
    let mut stacks: Vec<Stack> = vec![Vec::new(); trace.threads.len()];
    let mut next = ops.iter().filter(|(index, _)| is_wrapper.binary_search(index).is_err()).peekable();
    let owner = |call: Span| {
        while let Some((index, op)) = next.next_if(|(_, op)| op.start <= call.start) {
            let Some(stack) = stacks.get_mut(op.thread.0 as usize) else { continue };
            close(stack, op.start);
            // What an op with operations fills or copies is a part of its price.
            if ops.computes(op) || !stack.last().is_some_and(|(_, outer)| ops.computes_at(*outer)) {
                stack.push((op.end(), index));
            }
        }
        if classified.call_kind(call.name) == CallKind::GraphLaunch {
            return NONE;
        }
        let Some(stack) = stacks.get_mut(call.thread.0 as usize) else { return NONE };
        close(stack, call.start);
        stack.last().map_or(NONE, |(_, index)| *index)
    };
    trace.calls.iter().map(owner).collect()
}

/// The open ops of a thread, innermost last: end and index.
type Stack = Vec<(Ns, u32)>;

/// The ops with known cost that may be open during a call.
struct PricedOps<'a> {
    trace: &'a Trace,
    costs: &'a [Option<OpCost>],
    /// The first op that may be open at the first call. In a window, earlier ones have ended.
    first: usize,
}

impl<'a> PricedOps<'a> {
    fn of(trace: &'a Trace, costs: &'a [Option<OpCost>]) -> Self {
        let table = &trace.shaped_ops;
        let earliest = trace.calls.start(0).map_or(Ns::ZERO, |start| Ns(start.0.saturating_sub(table.longest.0)));
        Self { trace, costs, first: table.ops.partition_point(|op| op.start < earliest) }
    }

    fn iter(&self) -> impl Iterator<Item = (u32, &'a ShapedOp)> {
        let table = &self.trace.shaped_ops;
        let last = self.trace.calls.len().checked_sub(1).and_then(|last| self.trace.calls.start(last));
        // An op inside one that is open at the last call may begin later.
        let latest = last.map(|last| last.after(table.longest));
        let in_time =
            table.ops.iter().zip(0_u32..).skip(self.first).take_while(move |(op, _)| Some(op.start) <= latest);
        in_time.filter(|(op, _)| self.cost(op).is_some()).map(|(op, index)| (index, op))
    }

    fn cost(&self, op: &ShapedOp) -> Option<&'a OpCost> {
        self.costs.get(op.shape as usize)?.as_ref()
    }

    /// Whether the op has floating-point operations.
    fn computes(&self, op: &ShapedOp) -> bool {
        self.cost(op).is_some_and(OpCost::computes)
    }

    fn computes_at(&self, index: u32) -> bool {
        self.trace.shaped_ops.ops.get(index as usize).is_some_and(|op| self.computes(op))
    }

    /// The indices of the ops that leave their operations to an op inside, such as the outer of two products under autocast,
    /// which only converts the operands. Sorted.
    fn wrappers(&self) -> Vec<u32> {
        let mut stacks: Vec<Stack> = vec![Vec::new(); self.trace.threads.len()];
        let mut wrappers = Vec::new();
        for (index, op) in self.iter().filter(|(_, op)| self.computes(op)) {
            let Some(stack) = stacks.get_mut(op.thread.0 as usize) else { continue };
            close(stack, op.start);
            wrappers.extend(stack.last().map(|(_, outer)| *outer));
            stack.push((op.end(), index));
        }
        wrappers.sort_unstable();
        wrappers.dedup();
        wrappers
    }
}

/// Removes the innermost ops that have ended at this time.
fn close(stack: &mut Stack, time: Ns) {
    while stack.pop_if(|(end, _)| *end <= time).is_some() {}
}

/// The execution of an op with these kernels, sorted by start.
fn execution(trace: &Trace, kernels: &[(u32, u32)]) -> Option<Execution> {
    let shape = trace.shaped_ops.ops.get(kernels.first()?.0 as usize)?.shape;
    execution_of(trace, kernels.iter().map(|(_, row)| *row), shape, ShapeSource::Trace)
}

/// Adds the ops of graph replays with their kernels: each op of a capture once for every launch of its graph.
fn add_replayed(trace: &Trace, executions: &mut Vec<Execution>, owners: &mut Vec<(u32, u32)>) {
    let first_shape = trace.shaped_ops.shapes.len() as u32;
    let replayed = trace.captured_graphs.iter().filter_map(|(row, op)| {
        let kind = trace.gpu_ops.get(row as usize)?.kind;
        let launch = trace.gpu_ops.launch(row as usize)?;
        let execution = op.execution.filter(|_| kind == OpKind::Kernel)?;
        Some(((launch, execution), row, ShapeSource::of(op.proof)))
    });
    let mut replayed: Vec<((CallId, CapturedExecution), u32, ShapeSource)> = replayed.collect();
    replayed.sort_unstable();
    for kernels in replayed.chunk_by(|a, b| a.0 == b.0) {
        let Some(((_, CapturedExecution { shape, .. }), _, source)) = kernels.first() else { continue };
        let rows = kernels.iter().map(|(_, row, _)| *row);
        let Some(execution) = execution_of(trace, rows.clone(), first_shape + shape, *source) else { continue };
        owners.extend(rows.map(|row| (row, executions.len() as u32)));
        executions.push(execution);
    }
}

/// The execution of an op of this shape with the kernels in these rows, which ascend.
fn execution_of(
    trace: &Trace,
    rows: impl ExactSizeIterator<Item = u32>,
    shape: u32,
    source: ShapeSource,
) -> Option<Execution> {
    let kernels = rows.len() as u32;
    let (mut time, mut busy_until, mut longest) = (Ns::ZERO, None, None::<(u32, Ns)>);
    for row in rows {
        let op: GpuOp = trace.gpu_ops.get(row as usize)?;
        time += added_to_union(&mut busy_until, op.start, op.end());
        if longest.is_none_or(|(_, duration)| op.duration > duration) {
            longest = Some((row, op.duration));
        }
    }
    Some(Execution { shape, source, cost: shape, time, kernels, longest: longest?.0 })
}

#[cfg(test)]
mod tests;
