//! The cost of attention over requests of different lengths. The shapes show heads and sizes; the lengths are the sums that the
//! annotation of the step states. In constant time.

use crate::analysis::structure::stages::{StepInfo, TokenSums};
use crate::rules::op_models::OpModel;
use crate::trace::{Argument, OpShape};
use crate::words::op_costs::{Heads, varlen_attention};

/// What the shapes of an attention op show.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct VarlenAttention {
    /// Rows of the queries, padding included.
    rows: f64,
    heads: f64,
    kv_heads: f64,
    /// The sizes of a key and a value of one head.
    size: f64,
    value_size: f64,
    /// Bytes of a value of queries and results, and of keys and values.
    width: Option<f64>,
    kv_width: Option<f64>,
    mask: Option<Mask>,
    reach: OpReach,
}

/// Whether a query attends to later tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mask {
    Causal,
    None,
}

/// Whether the op attends to all tokens before a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum OpReach {
    All,
    Window,
    /// The arguments do not show it.
    Unknown,
}

impl VarlenAttention {
    /// `None` if the arguments do not have the layout of the catalog.
    pub(super) fn of(model: &OpModel, op: &OpShape, tensors: &[&Argument]) -> Option<Self> {
        let [q, k, v] = tensors else { return None };
        let is_given = |at: &usize| op.arguments.get(*at).is_some_and(|argument| !argument.lengths.is_empty());
        if model.absent.iter().any(is_given) {
            return None;
        }
        let [rows @ .., heads, size] = q.lengths.as_slice() else { return None };
        let ([.., kv_heads, k_size], [.., v_heads, value_size]) = (k.lengths.as_slice(), v.lengths.as_slice()) else {
            return None;
        };
        // Other layouts split a head into groups of values.
        let is_plain =
            !rows.is_empty() && k_size == size && v_heads == kv_heads && heads.checked_rem(*kv_heads) == Some(0);
        if !is_plain {
            return None;
        }
        let [heads, kv_heads, size, value_size] = [*heads, *kv_heads, *size, *value_size].map(|length| length as f64);
        let width = |tensor: &Argument| tensor.element.bytes().map(|bytes| bytes as f64);
        Some(Self {
            rows: rows.iter().map(|length| *length as f64).product(),
            heads,
            kv_heads,
            size,
            value_size,
            width: width(q),
            kv_width: width(k),
            mask: mask(model, op),
            reach: reach(model, op),
        })
    }

    /// In words, for the shape of the op.
    pub(super) fn shape(&self) -> String {
        let Self { rows, heads, kv_heads, size, .. } = *self;
        varlen_attention(rows, Heads { heads, kv_heads, size })
    }

    /// Operations and bytes, or why they are not known. `is_full` says that all layers of the model attend to all tokens.
    pub(super) fn work(&self, step: Option<&StepInfo>, is_full: bool) -> Result<(f64, Option<f64>), &'static str> {
        let sums = self.lengths(step, is_full)?;
        let sizes = self.size + self.value_size;
        let moved = |(width, kv_width): (f64, f64)| {
            sizes * (width * sums.queries * self.heads + kv_width * sums.keys * self.kv_heads)
        };
        Ok((2.0 * self.heads * sizes * sums.pairs, self.width.zip(self.kv_width).map(moved)))
    }

    fn lengths(&self, step: Option<&StepInfo>, is_full: bool) -> Result<Lengths, &'static str> {
        match self.reach {
            OpReach::Window => return Err("which part of each context is in the window is not known"),
            OpReach::Unknown if !is_full => return Err("whether the layer has a window is not known without --config"),
            OpReach::All | OpReach::Unknown => {}
        }
        let mask = self.mask.ok_or("whether attention is causal is not recorded")?;
        let missing = "the lengths of the requests are not known";
        let step = step.ok_or(missing)?;
        if step.context.is_none() && step.generation.is_none() {
            return Err(missing);
        }
        let (prefill, decode) = (step.context.unwrap_or_default(), step.generation.unwrap_or_default());
        let (prefill_queries, decode_queries) = (prefill.sq as f64, decode.sq as f64);
        // Some engines run attention of prefill and of decode separately; others pad the batch.
        if self.rows >= prefill_queries + decode_queries {
            Ok(Lengths::of(prefill, decode, mask))
        } else if self.rows == prefill_queries {
            Ok(Lengths::of(prefill, TokenSums::default(), mask))
        } else if self.rows == decode_queries {
            Ok(Lengths::of(TokenSums::default(), decode, mask))
        } else {
            Err("it computes only some of the tokens of the step")
        }
    }
}

/// Sums over the requests.
struct Lengths {
    queries: f64,
    keys: f64,
    /// Pairs of a query and a token that it attends to.
    pairs: f64,
}

impl Lengths {
    fn of(prefill: TokenSums, decode: TokenSums, mask: Mask) -> Self {
        // A causal mask leaves out half of the pairs among the query tokens of a prefill.
        let masked = if mask == Mask::Causal { prefill.sqsq / 2 } else { 0 };
        Self {
            queries: prefill.sq as f64 + decode.sq as f64,
            keys: prefill.sk as f64 + decode.sk as f64,
            pairs: prefill.sqsk.saturating_sub(masked) as f64 + decode.sqsk as f64,
        }
    }
}

/// The text of the value at this position of [`OpModel::values`]; `None` without such a position.
fn value<'a>(model: &OpModel, op: &'a OpShape, at: usize) -> Option<&'a str> {
    let at = model.values.get(at)?;
    Some(op.arguments.get(*at).map(|argument| argument.value.as_str()).unwrap_or_default())
}

/// Ops of engines without the argument are causal, as all layers of decoders.
fn mask(model: &OpModel, op: &OpShape) -> Option<Mask> {
    match value(model, op, 0) {
        None | Some("True" | "true" | "1") => Some(Mask::Causal),
        Some("False" | "false" | "0") => Some(Mask::None),
        Some(_) => None,
    }
}

fn reach(model: &OpModel, op: &OpShape) -> OpReach {
    let Some(window) = value(model, op, 1) else { return OpReach::Unknown };
    let chunk = value(model, op, 2).unwrap_or("0");
    match (window.parse::<i64>(), chunk.parse::<i64>()) {
        (Ok(window), Ok(chunk)) if window < 0 && chunk <= 0 => OpReach::All,
        (Ok(_), Ok(_)) => OpReach::Window,
        _ => OpReach::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::inference::op_model::{OpCost, cost};
    use crate::trace::Element;

    fn tensor(lengths: &[u64]) -> Argument {
        let elements = lengths.iter().product();
        Argument { lengths: lengths.to_vec(), elements, element: Element::Bf16, value: String::new() }
    }

    fn value(text: &str) -> Argument {
        Argument { value: text.to_owned(), ..Argument::default() }
    }

    /// The prefill op of AITER with 4 heads of 8 values, 2 KV heads and this window.
    fn prefill_op(rows: u64, window: &str) -> OpShape {
        let mut arguments = vec![tensor(&[rows, 4, 8]), tensor(&[1_000, 2, 8]), tensor(&[1_000, 2, 8])];
        arguments.extend((3..12).map(|_| Argument::default()));
        arguments.extend([value("True"), value(window)]);
        OpShape { op: "aiter::mha_batch_prefill".to_owned(), arguments }
    }

    fn engine_op() -> OpShape {
        let arguments = vec![tensor(&[8, 4, 8]), tensor(&[8, 2, 8]), tensor(&[8, 2, 8])];
        OpShape { op: "vllm::unified_attention_with_output".to_owned(), arguments }
    }

    fn priced(op: &OpShape, step: &str, is_full: bool) -> OpCost {
        cost(op).unwrap().in_step(StepInfo::parse(step).as_ref(), is_full)
    }

    /// Two requests of 3 tokens, one of them after 7 others; and 2 requests of decode with contexts of 5.
    const MIXED: &str = "execute_8_context_2(sq6sk13sqsq18sqsk39)_generation_2(sq2sk10sqsq2sqsk10)";

    #[test]
    fn the_sums_of_the_step_give_pairs_and_keys() {
        let both = priced(&prefill_op(8, "-1"), MIXED, false);
        // Pairs: 39 - 18 / 2 + 10. 2 x 4 heads x 16 operations each; 8 queries of 4 and 23 keys of 2 heads, of 16 values.
        assert_eq!((both.flop, both.bytes), (Some(40.0 * 128.0), Some(2.0 * 16.0 * (8.0 * 4.0 + 23.0 * 2.0))));
        assert_eq!(both.shape, "8 queries, heads 4/2, size 8");
        let prefill = priced(&prefill_op(6, "-1"), MIXED, false);
        assert_eq!((prefill.flop, prefill.bytes), (Some(30.0 * 128.0), Some(2.0 * 16.0 * (6.0 * 4.0 + 13.0 * 2.0))));
        assert_eq!(priced(&prefill_op(16, "-1"), MIXED, false).flop, both.flop, "padded");
    }

    #[test]
    fn what_shapes_and_sums_do_not_show_is_unknown_with_a_reason() {
        for (op, step, expected) in [
            (prefill_op(8, "127"), MIXED, "which part of each context is in the window is not known"),
            (engine_op(), MIXED, "whether the layer has a window is not known without --config"),
            (prefill_op(8, "-1"), "step[DECODE bs=8]", "the lengths of the requests are not known"),
            (prefill_op(8, "-1"), "no step", "the lengths of the requests are not known"),
            (prefill_op(5, "-1"), MIXED, "it computes only some of the tokens of the step"),
        ] {
            let cost = priced(&op, step, false);
            assert_eq!((cost.flop, cost.bytes, cost.unknown), (None, None, Some(expected)));
        }
        assert!(priced(&engine_op(), MIXED, true).flop.is_some(), "the config has no windows");
    }

    #[test]
    fn layouts_that_hide_the_heads_have_no_cost() {
        let mut split = prefill_op(8, "-1");
        split.arguments[1] = tensor(&[10, 2, 1, 16, 8]);
        assert_eq!(cost(&split), None);
        let mut latent = OpShape { op: "sgl_kernel::fwd".to_owned(), arguments: vec![tensor(&[8, 4, 8]); 6] };
        latent.arguments[5] = tensor(&[8, 4, 16]);
        assert_eq!(cost(&latent), None, "queries of latent attention");
    }
}
