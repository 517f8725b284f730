//! The section `op_costs`: operations, bytes and the share of the limits of the GPU for each op with recorded shapes. O(n log n)
//! in the executions of these ops.

use super::op_model::OpCost;
use super::op_work::{Execution, OpWork, ShapeSource, shapes};
use crate::analysis::context::Context;
use crate::analysis::measure::percentiles::median;
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Answer, KernelName, Ms, Pct, Stated, TypedSection, Us, section};
use crate::ordering;
use crate::rules::names;
use crate::trace::Ns;
use crate::words::op_costs::{self as words, Basis};
use std::borrow::Cow;
use std::cmp::Reverse;

section! {
    /// The cost of each op with recorded shapes.
    pub(crate) struct OpCosts("op_costs", "Cost of ops");
    row OpCostRow {
        op: String,
        shape: String,
        dtype: String = "Type",
        count: usize,
        median_us: Us,
        total_ms: Ms,
        share_of_busy_pct: Pct = "Of busy time",
        gflop: Option<f64> = "GFLOP",
        mb: Option<f64> = "MB",
        tflops: Option<f64> = "TFLOP/s",
        tb_per_s: Option<f64> = "TB/s",
        of_peak_pct: Option<Pct> = "Of the peak",
        bound_by: Option<String>,
        kernel: Option<KernelName>,
        basis: String = "Rests on",
    }
    figures OpCostFigures {
        /// The title of the preset of the GPU.
        peak_figures: Stated<String> = "Peak figures of",
        share_of_busy_pct: Pct = "Of busy time",
        gflop: f64 = "GFLOP",
        matrix_ops_ms: Ms = "Products, attention, convolutions",
    }
}

/// The maximum number of rows.
const MAX_ROWS: usize = 100;

/// The executions of one op with one shape.
struct Row<'a> {
    op: &'a str,
    /// The mean of those of its executions.
    cost: Cow<'a, OpCost>,
    /// Sorted by time.
    executions: Vec<Execution>,
    total: Ns,
}

/// One row per op, shape and types.
pub(crate) fn op_costs(context: &Context) -> Answer<OpCosts> {
    let work = context.op_work();
    if work.executions().is_empty() {
        return missing(context);
    }
    let mut answer = OpCosts::answer("framework ops with the shapes of their arguments, and the kernels that they launched")
        .limit(words::owners(context.trace.captured_graphs.outcome().is_some()))
        .limit("The time of an op is the union of its kernels, without memory copies and sets. Rates are for the median.")
        .limit("A multiplication and an addition are two operations. Bytes count each operand and the result once; what the cache keeps is not known.");
    let limits = work.limits();
    if limits.is_none() {
        answer = answer.limit("The peak figures of the GPU are not known, so no share of the peak is given.");
    } else if limits.is_some_and(|preset| preset.is_about) {
        answer = answer.limit("The peak figures of the GPU are approximate: sources differ.");
    }
    let left_out = context.trace.shaped_ops.left_out;
    if left_out > 0 {
        answer = answer.limit(words::left_out(left_out));
    }
    let busy: Ns = context.survey().busy.iter().flatten().fold(Ns::ZERO, |sum, device| sum + device.busy);
    let rows = rows(context, work);
    let known = rows.iter().fold(Ns::ZERO, |sum, row| sum + row.total);
    let flop: f64 = rows.iter().filter_map(|row| Some(row.cost.flop? * row.executions.len() as f64)).sum();
    let matrix_ops = rows.iter().filter(|row| row.cost.flop.is_some()).fold(Ns::ZERO, |sum, row| sum + row.total);
    answer.rows.extend(rows.iter().map(|row| table_row(context, work, row, busy)));
    answer.truncate(MAX_ROWS);
    answer.with_figures(OpCostFigures {
        peak_figures: Stated(limits.map(|preset| preset.title.clone())),
        share_of_busy_pct: Pct::of(known, busy),
        gflop: flop / 1e9,
        matrix_ops_ms: matrix_ops.into(),
    })
}

fn missing(context: &Context) -> Answer<OpCosts> {
    let why = if context.trace.shaped_ops.is_empty() {
        "The trace has no ops with shapes of their arguments."
    } else {
        "No op with shapes launched a kernel. Replays of graphs have no ops: record an eager step."
    };
    context.lacks(why, MissingData::Shapes)
}

/// The rows, largest total first.
fn rows<'a>(context: &Context<'a>, work: &'a OpWork) -> Vec<Row<'a>> {
    let shapes = shapes(context.trace);
    let described = |shape: u32| {
        let op = shapes.get(shape as usize).copied()?.op.as_str();
        Some((op, work.cost(shape)?))
    };
    // Different arguments may have the same words, so that they are compared.
    let key = |shape: u32| {
        let (op, cost) = described(shape)?;
        Some((op, cost.shape.as_str(), cost.types.as_str()))
    };
    let mut order: Vec<u32> = (0..shapes.len() as u32).filter(|shape| work.cost(*shape).is_some()).collect();
    ordering::sort_by_key(&mut order, |shape| key(*shape));
    // By shape: the number of its row.
    let mut row_of_shape = vec![0; shapes.len()];
    let mut rows: Vec<Row> = Vec::new();
    for equal in order.chunk_by(|a, b| key(*a) == key(*b)) {
        for shape in equal {
            row_of_shape.get_mut(*shape as usize).into_iter().for_each(|row| *row = rows.len());
        }
        let first = equal.first().copied().unwrap_or_default();
        rows.extend(described(first).map(|(op, cost)| Row {
            op,
            cost: Cow::Borrowed(cost),
            executions: Vec::new(),
            total: Ns::ZERO,
        }));
    }
    for execution in work.executions() {
        let row = row_of_shape.get(execution.shape as usize).and_then(|row| rows.get_mut(*row));
        if let Some(row) = row {
            row.executions.push(*execution);
            row.total += execution.time;
        }
    }
    rows.retain(|row| !row.executions.is_empty());
    rows.iter_mut().filter(|row| row.cost.varlen.is_some()).for_each(|row| row.cost = Cow::Owned(mean_cost(work, row)));
    ordering::sort_by_key(&mut rows, |row| Reverse(row.total));
    rows
}

/// The mean cost of executions whose cost depends on their step. What is not known of one is not known of all.
fn mean_cost(work: &OpWork, row: &Row) -> OpCost {
    let costs = || row.executions.iter().filter_map(|execution| work.cost(execution.cost));
    let mean = |of: fn(&OpCost) -> Option<f64>| {
        let sum = costs().map(of).try_fold(0.0, |sum, value| Some(sum + value?))?;
        Some(sum / costs().count() as f64)
    };
    let unknown = costs().find_map(|cost| cost.unknown);
    OpCost { flop: mean(|cost| cost.flop), bytes: mean(|cost| cost.bytes), unknown, ..row.cost.clone().into_owned() }
}

fn table_row(context: &Context, work: &OpWork, row: &Row, busy: Ns) -> OpCostRow {
    let mut times: Vec<i64> = row.executions.iter().map(|execution| execution.time.0).collect();
    times.sort_unstable();
    let median_ns = median(&times).unwrap_or_default();
    let median_work = work.work(&row.cost, median_ns);
    let of_peak = median_work.of_peak();
    let bound_by = of_peak.map(|(_, is_arithmetic)| if is_arithmetic { "arithmetic" } else { "memory" });
    OpCostRow {
        op: row.op.to_owned(),
        shape: row.cost.shape.clone(),
        dtype: row.cost.types.clone(),
        count: row.executions.len(),
        median_us: Us(median_ns / 1e3),
        total_ms: row.total.into(),
        share_of_busy_pct: Pct::of(row.total, busy),
        gflop: row.cost.flop.map(|flop| flop / 1e9),
        mb: median_work.bytes.map(|bytes| bytes / 1e6),
        tflops: median_work.tflops(),
        tb_per_s: median_work.tb_per_s(),
        of_peak_pct: of_peak.map(|(share, _)| Pct(share)),
        bound_by: bound_by.map(str::to_owned),
        kernel: kernel(context, row),
        basis: words::basis(&shape_words(row), basis(&row.cost, of_peak.map(|(share, _)| share))),
    }
}

/// The longest kernel of the longest execution.
fn kernel(context: &Context, row: &Row) -> Option<KernelName> {
    let longest = row.executions.iter().max_by_key(|execution| execution.time)?;
    let op = context.trace.gpu_ops.get(longest.longest as usize)?;
    Some(names::demangle(context.trace.names.get(op.name)).into())
}

/// Where the shapes of a row were recorded.
fn shape_words(row: &Row) -> String {
    let sources = || row.executions.iter().map(|execution| execution.source);
    let weakest = sources().max().unwrap_or(ShapeSource::Trace);
    let also_of_trace = weakest > ShapeSource::Trace && sources().any(|source| source == ShapeSource::Trace);
    words::shapes(weakest.words(), also_of_trace)
}

/// What the figures of a row rest on.
fn basis(cost: &OpCost, of_peak_pct: Option<f64>) -> Basis {
    if let Some(why) = cost.unknown {
        return Basis::Unknown(why);
    }
    let is_above_limit = of_peak_pct.is_some_and(|share| share > 100.0);
    match cost.bytes.zip(cost.most_bytes) {
        _ if cost.varlen.is_some() && !is_above_limit => Basis::Lengths,
        Some((least_bytes, most_bytes)) => Basis::Experts { least_bytes, most_bytes },
        None if is_above_limit => Basis::AboveLimit,
        None => Basis::Shapes,
    }
}

#[cfg(test)]
mod tests;
