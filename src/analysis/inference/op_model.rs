//! The cost of a framework op from the shapes of its arguments: floating-point operations, and bytes if each operand is read
//! once and the result is written once. The formulas of the catalog `patterns/op_models.json`; O(dimensions).
//!
//! A multiplication and an addition count as two operations. The bias of a product does not count.

use super::varlen_attention::VarlenAttention;
use crate::analysis::structure::stages::StepInfo;
use crate::rules::op_models::{Formula, OpModel, op_model};
use crate::trace::{Argument, Element, OpShape};
use crate::words::op_costs::{self as words, Heads};

/// The cost of one execution of an op. What the shapes do not show is `None`.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct OpCost {
    /// The shape in words: `15360 x 24576 x 4096` for M x N x K.
    pub(crate) shape: String,
    /// The types of the operands: `BF16`.
    pub(crate) types: String,
    /// Floating-point operations; `None` for ops that only move memory.
    pub(crate) flop: Option<f64>,
    /// The least bytes that move between memory and the processors.
    pub(crate) bytes: Option<f64>,
    /// The most bytes, if they depend on more than the shapes.
    pub(crate) most_bytes: Option<f64>,
    /// The type of both operands, which decides the peak; `None` if they differ.
    pub(crate) precision: Option<Element>,
    /// The bytes of a matrix of weights; `None` for other ops.
    pub(crate) weight_bytes: Option<f64>,
    /// Attention whose cost depends on the lengths of the requests of its step.
    pub(crate) varlen: Option<VarlenAttention>,
    /// The rows of the first matrix of a single product with weights.
    pub(crate) rows: Option<u64>,
    /// Whether the op is attention.
    pub(crate) is_attention: bool,
    /// Why operations and bytes are not known.
    pub(crate) unknown: Option<&'static str>,
}

impl OpCost {
    /// Whether the op has floating-point operations, even if their number is not known.
    pub(crate) fn computes(&self) -> bool {
        self.flop.is_some() || self.varlen.is_some() || self.unknown.is_some()
    }

    /// The cost of attention in a step with these requests. `is_full` says that all layers of the model attend to all tokens.
    pub(crate) fn in_step(&self, step: Option<&StepInfo>, is_full: bool) -> Self {
        match self.varlen.map(|attention| attention.work(step, is_full)) {
            Some(Ok((flop, bytes))) => Self { flop: Some(flop), bytes, ..self.clone() },
            Some(Err(why)) => Self { unknown: Some(why), ..self.clone() },
            None => self.clone(),
        }
    }
}

/// The cost of an op; `None` if its arguments are not those that its formula needs.
pub(crate) fn cost(op: &OpShape) -> Option<OpCost> {
    let model = op_model(op.op.as_bytes())?;
    let tensors = model.tensors.iter().map(|at| op.arguments.get(*at));
    let tensors: Vec<&Argument> = match model.model {
        // An op that moves memory may have fewer operands than the longest of its group.
        Formula::Bytes => tensors.flatten().collect(),
        _ => tensors.collect::<Option<_>>()?,
    };
    match model.model {
        Formula::Product => product(model, &tensors),
        Formula::Attention => attention(model, op, &tensors),
        Formula::VarlenAttention => varlen_attention(model, op, &tensors),
        Formula::GroupedProduct => grouped_product(&tensors),
        Formula::HiddenExperts => hidden_experts(&tensors),
        Formula::Convolution => convolution(model, op, &tensors),
        Formula::Experts => experts(&tensors),
        Formula::Bytes => traffic(model, op, &tensors),
    }
}

/// A product of M x K and K x N matrices.
fn product(model: &OpModel, tensors: &[&Argument]) -> Option<OpCost> {
    let [a, b] = tensors else { return None };
    let (&k, rows) = a.lengths.split_last()?;
    let [batch @ .., b_rows, b_columns] = b.lengths.as_slice() else { return None };
    let (batch, m) = match (batch, rows) {
        ([], [_, ..]) => (1, rows.iter().fold(1, |product: u64, length| product.saturating_mul(*length))),
        ([batch], [other, m]) if batch == other => (*batch, *m),
        _ => return None,
    };
    // The layout of the catalog, unless the shapes only fit the other one.
    let is_nk = if b_rows == b_columns { model.b_is_nk } else { *b_columns == k };
    let (inner, n) = if is_nk { (*b_columns, *b_rows) } else { (*b_rows, *b_columns) };
    if inner != k {
        return None;
    }
    let is_fp4 = a.element == Element::PackedFp4 || model.packed_fp4;
    let element = |tensor: &Argument| if model.packed_fp4 { Element::PackedFp4 } else { tensor.element };
    // The result of types with 8 bits or less has 16 bits.
    let result = a.element.bytes().map(|bytes| bytes.max(2) as f64);
    let k_values = if is_fp4 { k.saturating_mul(2) } else { k };
    let shape = words::product(batch, [m, n, k_values]);
    let rows = Some(m).filter(|_| batch == 1);
    let [batch, m, n, k, k_values] = [batch, m, n, k, k_values].map(|length| length as f64);
    let bytes = |tensor: &Argument| tensor.element.bytes().map(|bytes| bytes as f64);
    let moved = bytes(a).zip(bytes(b)).zip(result);
    Some(OpCost {
        shape,
        types: types(&[element(a), element(b)]),
        flop: Some(2.0 * batch * m * n * k_values),
        bytes: moved.map(|((wa, wb), wc)| batch * (m * k * wa + k * n * wb + m * n * wc)),
        precision: (element(a) == element(b)).then_some(element(a)),
        weight_bytes: bytes(b).filter(|_| batch == 1.0).map(|width| k * n * width),
        rows,
        ..OpCost::default()
    })
}

/// Attention over all pairs of positions, or those of a causal mask: a product of queries and keys, and one with the values.
fn attention(model: &OpModel, op: &OpShape, tensors: &[&Argument]) -> Option<OpCost> {
    let [q, k, v] = tensors else { return None };
    let split = |tensor: &Argument| match *tensor.lengths.as_slice() {
        [batch, heads, length, size] if model.heads_first => Some([batch, heads, length, size]),
        [batch, length, heads, size] if !model.heads_first => Some([batch, heads, length, size]),
        _ => None,
    };
    let ([batch, heads, nq, d], [_, kv_heads, nk, dk], [_, _, nv, dv]) = (split(q)?, split(k)?, split(v)?);
    if d != dk || nk != nv {
        return None;
    }
    let is_causal = match value(model, op, 0) {
        "True" | "true" | "1" => Some(true),
        "False" | "false" | "0" => Some(false),
        _ => None,
    };
    let shape = words::attention(batch, Heads { heads, kv_heads, size: d }, [nq, nk], is_causal);
    let [batch, heads, kv_heads, nq, nk, d, dv] = [batch, heads, kv_heads, nq, nk, d, dv].map(|length| length as f64);
    // The mask leaves out a triangle of the last nq columns.
    let pairs = is_causal.map(|is_causal| (nq * nk - if is_causal { nq * nq / 2.0 } else { 0.0 }).max(0.0));
    let widths = q.element.bytes().zip(k.element.bytes()).map(|(q, k)| (q as f64, k as f64));
    Some(OpCost {
        shape,
        types: types(&[q.element, k.element]),
        flop: pairs.map(|pairs| 2.0 * batch * heads * pairs * (d + dv)),
        bytes: widths.map(|(wq, wk)| batch * (d + dv) * (wq * nq * heads + wk * nk * kv_heads)),
        is_attention: true,
        precision: (q.element == k.element).then_some(q.element),
        ..OpCost::default()
    })
}

/// Attention over requests whose lengths only the step states.
fn varlen_attention(model: &OpModel, op: &OpShape, tensors: &[&Argument]) -> Option<OpCost> {
    let attention = VarlenAttention::of(model, op, tensors)?;
    let [q, k, _] = tensors else { return None };
    Some(OpCost {
        shape: attention.shape(),
        types: types(&[q.element, k.element]),
        precision: (q.element == k.element).then_some(q.element),
        varlen: Some(attention),
        is_attention: true,
        ..OpCost::default()
    })
}

/// Products of groups of rows with the matrix of their expert. How many matrices are read depends on the routing.
fn grouped_product(tensors: &[&Argument]) -> Option<OpCost> {
    let [a, b] = tensors else { return None };
    let ([rows, k], [experts, b_rows, n]) = (&*a.lengths, &*b.lengths) else { return None };
    if b_rows != k {
        return None;
    }
    // The result of types with 8 bits or less has 16 bits.
    let result = a.element.bytes().map(|bytes| bytes.max(2) as f64);
    let [m, columns, inner] = [rows, n, k].map(|length| *length as f64);
    let moved = a.bytes().zip(result).map(|(rows, width)| rows + m * columns * width);
    let matrix = b.element.bytes().map(|width| inner * columns * width as f64);
    let with = |count: u64| moved.zip(matrix).map(|(moved, matrix)| moved + count as f64 * matrix);
    let most = (*experts).min(*rows);
    Some(OpCost {
        shape: words::grouped_product([*rows, *n, *k], *experts),
        types: types(&[a.element, b.element]),
        flop: Some(2.0 * m * columns * inner),
        bytes: with(most.min(1)),
        most_bytes: with(most),
        precision: (a.element == b.element).then_some(a.element),
        weight_bytes: matrix.map(|matrix| most.min(1) as f64 * matrix),
        ..OpCost::default()
    })
}

/// Experts whose weights are no arguments.
fn hidden_experts(tensors: &[&Argument]) -> Option<OpCost> {
    let [hidden, choices] = tensors else { return None };
    let ([tokens, size], [_, experts]) = (&*hidden.lengths, &*choices.lengths) else { return None };
    Some(OpCost {
        shape: words::hidden_experts(*tokens, *size, *experts),
        types: types(&[hidden.element]),
        unknown: Some("the weights of the experts are no arguments"),
        ..OpCost::default()
    })
}

/// A convolution that is not transposed.
fn convolution(model: &OpModel, op: &OpShape, tensors: &[&Argument]) -> Option<OpCost> {
    let [input, weight] = tensors else { return None };
    let ([batch, channels, input_size @ ..], [out_channels, group_channels, kernel @ ..]) =
        (input.lengths.as_slice(), weight.lengths.as_slice())
    else {
        return None;
    };
    let [strides, paddings, dilations] = [0, 1, 2].map(|at| numbers(value(model, op, at)));
    let groups: u64 = value(model, op, 3).parse().ok()?;
    let is_transposed = model.values.len() > 4 && value(model, op, 4) != "False";
    if is_transposed || input_size.len() != kernel.len() || group_channels.checked_mul(groups)? != *channels {
        return None;
    }
    let mut output = Vec::with_capacity(kernel.len());
    for (at, (input, kernel)) in input_size.iter().zip(kernel).enumerate() {
        // A list of one number stands for all dimensions.
        let number = |list: &[u64]| list.get(at).or(list.first().filter(|_| list.len() == 1)).copied();
        let (stride, padding, dilation) = (number(&strides)?, number(&paddings)?, number(&dilations)?);
        let reach = dilation.checked_mul(kernel.checked_sub(1)?)?.checked_add(1)?;
        let padded = padding.checked_mul(2)?.checked_add(*input)?;
        output.push(padded.checked_sub(reach)?.checked_div(stride)? + 1);
    }
    let size = |lengths: &[u64]| lengths.iter().map(|length| *length as f64).product::<f64>();
    let results = *batch as f64 * *out_channels as f64 * size(&output);
    let moved = input.bytes().zip(weight.bytes()).zip(input.element.bytes());
    Some(OpCost {
        shape: words::convolution(*batch, [*channels, *out_channels], [input_size, kernel], groups),
        types: types(&[input.element, weight.element]),
        flop: Some(2.0 * results * *group_channels as f64 * size(kernel)),
        bytes: moved.map(|((input, weight), width)| input + weight + results * width as f64),
        precision: (input.element == weight.element).then_some(input.element),
        ..OpCost::default()
    })
}

/// The up, gate and down projections of the experts of each token. How many experts are read depends on the routing.
fn experts(tensors: &[&Argument]) -> Option<OpCost> {
    let [hidden, up, down, ids] = tensors else { return None };
    let ([tokens, h], [experts, up_rows, up_columns], [down_experts, down_rows, inner], [_, top_k]) =
        (&*hidden.lengths, &*up.lengths, &*down.lengths, &*ids.lengths)
    else {
        return None;
    };
    // Other layouts pack several weights into an element.
    if experts != down_experts || *up_rows != inner.checked_mul(2)? || up_columns != h || down_rows != h {
        return None;
    }
    let choices = tokens.checked_mul(*top_k)?;
    let [flop_choices, h_size, inner_size] = [choices, *h, *inner].map(|length| length as f64);
    let weights = up.element.bytes().map(|bytes| 3.0 * h_size * inner_size * bytes as f64);
    let states = hidden.bytes().map(|bytes| 2.0 * bytes);
    let of_experts = |count: u64| Some(count as f64 * weights? + states?);
    Some(OpCost {
        shape: words::experts(*tokens, [*top_k, *experts], [*h, *inner]),
        types: types(&[hidden.element, up.element]),
        flop: Some(6.0 * flop_choices * h_size * inner_size),
        bytes: of_experts((*top_k).min(*experts).min(choices)),
        most_bytes: of_experts(choices.min(*experts)),
        precision: (hidden.element == up.element).then_some(up.element),
        weight_bytes: weights.map(|weights| (*top_k).min(*experts).min(choices) as f64 * weights),
        ..OpCost::default()
    })
}

/// An op that only moves memory.
fn traffic(model: &OpModel, op: &OpShape, tensors: &[&Argument]) -> Option<OpCost> {
    let written: Vec<&Argument> = model.writes.iter().map(|at| op.arguments.get(*at)).collect::<Option<_>>()?;
    let mut bytes = 0.0;
    for tensor in tensors.iter().chain(&written) {
        bytes += tensor.bytes()?;
    }
    let mut shape = written.first().or(tensors.first())?.lengths.clone();
    if model.broadcast {
        shape = broadcast(tensors)?;
        let elements = shape.iter().map(|length| *length as f64).product::<f64>();
        bytes += elements * result_type(tensors).bytes()? as f64;
    }
    let elements: Vec<Element> = tensors.iter().chain(&written).map(|tensor| tensor.element).collect();
    (!shape.is_empty()).then(|| OpCost {
        shape: words::lengths(&shape),
        types: types(&elements),
        bytes: Some(bytes),
        ..OpCost::default()
    })
}

/// The common shape of tensors whose dimensions are aligned at the last one; `None` if two lengths do not fit.
fn broadcast(tensors: &[&Argument]) -> Option<Vec<u64>> {
    let rank = tensors.iter().map(|tensor| tensor.lengths.len()).max()?;
    let mut shape = vec![1; rank];
    for tensor in tensors {
        for (slot, length) in shape.iter_mut().rev().zip(tensor.lengths.iter().rev()) {
            if *slot != *length && *slot != 1 && *length != 1 {
                return None;
            }
            *slot = if *slot == 1 { *length } else { *slot };
        }
    }
    Some(shape)
}

/// The type of the result of tensors with different types: tensors of one element do not count, floating point wins over
/// integers, then the larger type wins.
fn result_type(tensors: &[&Argument]) -> Element {
    let has_dimensions = tensors.iter().any(|tensor| !tensor.lengths.is_empty());
    let counted = tensors.iter().filter(|tensor| !has_dimensions || !tensor.lengths.is_empty());
    let is_float = |element: Element| matches!(element, Element::Fp64 | Element::Fp32 | Element::Fp16 | Element::Bf16);
    let elements = counted.map(|tensor| tensor.element);
    elements.max_by_key(|element| (is_float(*element), element.bytes())).unwrap_or_default()
}

/// The different types of tensors: `BF16`, or `BF16, FP8`.
fn types(elements: &[Element]) -> String {
    let mut labels: Vec<&str> = Vec::new();
    for element in elements.iter().filter(|element| **element != Element::Other) {
        if !labels.contains(&element.label()) {
            labels.push(element.label());
        }
    }
    labels.join(", ")
}

/// The text of the value at this position of [`OpModel::values`]; empty if not recorded.
fn value<'a>(model: &OpModel, op: &'a OpShape, at: usize) -> &'a str {
    let argument = model.values.get(at).and_then(|at| op.arguments.get(*at));
    argument.map(|argument| argument.value.as_str()).unwrap_or_default()
}

/// The numbers in a list such as `[1, 2]`; empty if one is none.
fn numbers(list: &str) -> Vec<u64> {
    let list = list.strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or_default();
    list.split(',').map(|number| number.trim().parse().ok()).collect::<Option<_>>().unwrap_or_default()
}

#[cfg(test)]
mod tests;
