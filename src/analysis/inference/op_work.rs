//! Which framework op launched a kernel, and the work of its kernels: a kernel belongs to the innermost op with known cost
//! that was open on the launching thread when the launch call began. Kernels of graph replays belong to no op.
//!
//! One sweep over ops and calls in order of time with a stack per thread, and a sort of the kernels by op: O(n log n).

use super::op_model::{OpCost, cost};
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::dashboard::Preset;
use crate::analysis::measure::union::added_to_union;
use crate::rules::signals::CallKind;
use crate::trace::{Element, GpuOp, NONE, Ns, OpKind, ShapedOp, Trace};

/// The ops with known cost that launched kernels.
#[derive(Debug, Default)]
pub(crate) struct OpWork {
    /// By index in [`crate::trace::ShapedOps::shapes`].
    costs: Vec<Option<OpCost>>,
    /// In the order of their start on the host.
    executions: Vec<Execution>,
    /// Row of the kernel and index of its execution, sorted by row.
    owners: Vec<(u32, u32)>,
    limits: Option<&'static Preset>,
}

/// One execution of an op and its kernels.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Execution {
    /// Index of its cost.
    pub(crate) shape: u32,
    /// The union of its kernels.
    pub(crate) time: Ns,
    pub(crate) kernels: u32,
    /// The row of its longest kernel.
    pub(crate) longest: u32,
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

/// The peak of a GPU for products of this type without sparsity; `None` if it is not known.
pub(crate) fn peak_tflops(preset: &Preset, element: Element) -> Option<f64> {
    match element {
        Element::Bf16 if !preset.precision.contains("BF16") => None,
        Element::Bf16 | Element::Fp16 => Some(preset.peak_tflops),
        Element::Fp8 => preset.fp8_tflops,
        _ => None,
    }
}

impl OpWork {
    /// Joins the kernels of a trace with its ops. `limits` are the peak figures of the GPU, if they are known.
    pub(crate) fn of(classified: &ClassifiedTrace, limits: Option<&'static Preset>) -> Self {
        let trace = classified.trace;
        if trace.shaped_ops.is_empty() {
            return Self::default();
        }
        let costs: Vec<Option<OpCost>> = trace.shaped_ops.shapes.iter().map(cost).collect();
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
        owners.sort_unstable();
        Self { costs, executions, owners, limits }
    }

    /// The ops that launched kernels.
    pub(crate) fn executions(&self) -> &[Execution] {
        &self.executions
    }

    /// The cost of the executions of a shape.
    pub(crate) fn cost(&self, shape: u32) -> Option<&OpCost> {
        self.costs.get(shape as usize)?.as_ref()
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
        Work { time_ns, flop: cost.flop, bytes, arithmetic_ns, memory_ns, precision: cost.precision }
    }

    /// The work of the ops whose longest kernel is in one of these rows; `None` if there are none, or if a tenth of the time
    /// of the kernels belongs to no op.
    pub(crate) fn work_of(&self, kernels: &mut dyn Iterator<Item = (u32, Ns)>) -> Option<Work> {
        let (mut all_ns, mut owned_ns, mut sum) = (0.0, 0.0, None::<Work>);
        for (row, duration) in kernels {
            all_ns += duration.0 as f64;
            let Some(execution) = self.owner(row) else { continue };
            owned_ns += duration.0 as f64;
            if execution.longest == row {
                let work = self.work(self.cost(execution.shape)?, execution.time.0 as f64);
                sum = Some(sum.map_or(work, |sum| sum.plus(work)));
            }
        }
        sum.filter(|_| owned_ns >= MIN_OWNED * all_ns)
    }
}

/// The minimum part of the time of kernels that must belong to ops with known cost.
const MIN_OWNED: f64 = 0.9;

/// By call: the index of the innermost open op with known cost, or [`NONE`].
fn owners_of_calls(classified: &ClassifiedTrace, costs: &[Option<OpCost>]) -> Vec<u32> {
    let trace = classified.trace;
    let table = &trace.shaped_ops;
    let mut stacks: Vec<Vec<(Ns, u32)>> = vec![Vec::new(); trace.threads.len()];
    // In a window, earlier ops have ended before the first call.
    let earliest = trace.calls.start(0).map_or(Ns::ZERO, |start| Ns(start.0.saturating_sub(table.longest.0)));
    let first = table.ops.partition_point(|op| op.start < earliest);
    let is_priced = |(_, op): &(usize, &ShapedOp)| costs.get(op.shape as usize).is_some_and(Option::is_some);
    let mut ops = table.ops.iter().enumerate().skip(first).filter(is_priced).peekable();
    let owner = |call: crate::trace::Span| {
        while let Some((index, op)) = ops.next_if(|(_, op)| op.start <= call.start) {
            let Some(stack) = stacks.get_mut(op.thread.0 as usize) else { continue };
            close(stack, op.start);
            stack.push((op.end(), index as u32));
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

/// Removes the innermost ops that have ended at this time.
fn close(stack: &mut Vec<(Ns, u32)>, time: Ns) {
    while stack.pop_if(|(end, _)| *end <= time).is_some() {}
}

/// The execution of an op with these kernels, sorted by start.
fn execution(trace: &Trace, kernels: &[(u32, u32)]) -> Option<Execution> {
    let shape = trace.shaped_ops.ops.get(kernels.first()?.0 as usize)?.shape;
    let (mut time, mut busy_until, mut longest) = (Ns::ZERO, None, None::<(u32, Ns)>);
    for (_, row) in kernels {
        let op: GpuOp = trace.gpu_ops.get(*row as usize)?;
        time += added_to_union(&mut busy_until, op.start, op.end());
        if longest.is_none_or(|(_, duration)| op.duration > duration) {
            longest = Some((*row, op.duration));
        }
    }
    Some(Execution { shape, time, kernels: kernels.len() as u32, longest: longest?.0 })
}

#[cfg(test)]
mod tests;
