//! The query tokens of steps whose annotation does not state them, from the shapes of their matrix products: a dense product of
//! a forward pass has one row for each token. O(e log s) for `e` ops with shapes and `s` steps.
//!
//! A step gets a number if it has attention, and if at least 80 % of its products with weights have the same number of rows. In a
//! training step those of the weight gradients differ. Each request of a decode step has one token, so that the batch is known, too.

use super::op_work::{OpWork, ShapeSource};
use crate::analysis::structure::measured_steps::MeasuredStep;
use crate::analysis::structure::stages::Stage;
use crate::ordering::VecMap;
use crate::rules::inference::thresholds;
use crate::trace::{DeviceId, Ns, Trace};

/// The products and the attention of one step.
#[derive(Debug, Clone, Default)]
struct Products {
    /// The number of products by their number of rows.
    by_rows: VecMap<u64, u64>,
    has_attention: bool,
}

impl Products {
    fn tokens(&self) -> Option<u64> {
        let rules = &thresholds().work;
        let all: u64 = self.by_rows.iter().map(|(_, count)| count).sum();
        let (rows, count) = self.by_rows.iter().max_by_key(|(_, count)| *count)?;
        let is_clear = *count as f64 >= rules.min_equal_rows_share.value * all as f64;
        (self.has_attention && is_clear && *count >= rules.min_products.value as u64).then_some(*rows)
    }
}

/// Adds tokens to the steps, which are sorted by start. Returns whether it added any.
pub(crate) fn add_tokens(steps: &mut [MeasuredStep], work: &OpWork, trace: &Trace) -> bool {
    let mut of_steps = vec![Products::default(); steps.len()];
    let by_device = by_device(steps);
    // The batch of a capture is padded.
    for execution in work.executions().iter().filter(|execution| execution.source == ShapeSource::Trace) {
        let Some(cost) = work.cost(execution.cost) else { continue };
        let Some(op) = trace.gpu_ops.get(execution.longest as usize) else { continue };
        let step = step_at(&by_device, op.device, op.start).and_then(|step| of_steps.get_mut(step));
        let Some(products) = step.filter(|_| cost.rows.is_some() || cost.is_attention) else { continue };
        products.has_attention |= cost.is_attention;
        cost.rows.into_iter().for_each(|rows| products.by_rows.update(rows, 0, |count| *count += 1));
    }
    let mut is_any = false;
    for (measured, products) in steps.iter_mut().zip(&of_steps) {
        let info = &mut measured.step.info;
        let Some(tokens) = products.tokens().filter(|_| info.tokens.is_none()) else { continue };
        info.tokens = Some(tokens);
        if info.stage == Stage::Decode {
            info.batch_size = info.batch_size.or(Some(tokens));
        }
        is_any = true;
    }
    is_any
}

/// Start, end and index of the steps of a device, sorted by start.
type Spans = Vec<(Ns, Ns, usize)>;

fn by_device(steps: &[MeasuredStep]) -> VecMap<DeviceId, Spans> {
    let mut by_device: VecMap<DeviceId, Spans> = VecMap::new();
    for (index, measured) in steps.iter().enumerate() {
        let step = &measured.step;
        let Some(device) = step.device else { continue };
        by_device.update(device, Spans::new(), |spans| spans.push((step.start, step.end, index)));
    }
    by_device
}

fn step_at(by_device: &VecMap<DeviceId, Spans>, device: DeviceId, time: Ns) -> Option<usize> {
    let spans = by_device.get(&device)?;
    let next = spans.partition_point(|(start, ..)| *start <= time);
    let (_, end, index) = spans.get(next.checked_sub(1)?)?;
    (time <= *end).then_some(*index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::context::Context;
    use crate::analysis::testing::torch;
    use crate::trace::Element;
    use crate::trace::testing::TestTrace;

    /// The annotation states the tokens; without it, the shapes do.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn shapes_tell_the_tokens_that_annotations_state() {
        for name in ["sglang_qwen3_8b_mi300_extend", "vllm_b200_eager_prefill"] {
            let trace = torch(&format!("{name}.trace.json.gz"));
            let context = Context::new(&trace, 30);
            let annotated = &context.measured_steps().steps;
            let mut steps = annotated.clone();
            steps.iter_mut().for_each(|measured| measured.step.info.tokens = None);
            assert!(add_tokens(&mut steps, context.op_work(), &trace), "{name}");
            for (step, annotated) in steps.iter().zip(annotated) {
                assert!(annotated.step.info.tokens.is_some() && step.step.info.tokens == annotated.step.info.tokens);
            }
        }
    }

    /// 16 sequences of 559 tokens.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn a_profiler_step_of_a_model_without_a_server_has_tokens() {
        for name in ["hf_qwen1.5_0.5b_h100", "hf_qwen1.5_0.5b_mi300"] {
            let trace = torch(&format!("{name}.trace.json.gz"));
            let context = Context::new(&trace, 30);
            let tokens: Vec<_> = context.measured_steps().steps.iter().map(|step| step.step.info.tokens).collect();
            assert_eq!(tokens, [Some(16 * 559)], "{name}");
        }
    }

    /// A step with these products, by their rows, and attention if asked. Each takes 1 us.
    fn tokens(rows: &[u64], has_attention: bool) -> Option<u64> {
        let mut trace = TestTrace::new();
        trace.range("ProfilerStep#1", 0..100);
        let mut at = 1;
        let mut add = |op: &str, operands: &[(&[u64], Element)]| {
            trace.shaped_op(op, operands, at..at + 3).launch(at + 1..at + 2).launches("k", at + 1_000..at + 1_001);
            at += 4;
        };
        for rows in rows {
            add("aten::mm", &[(&[*rows, 32], Element::Bf16), (&[32, 16], Element::Bf16)]);
        }
        if has_attention {
            add("aten::_scaled_dot_product_flash_attention", &[(&[1_u64, 2, 8, 4][..], Element::Bf16); 3]);
        }
        let trace = trace.finish();
        let context = Context::new(&trace, 30);
        let [step] = context.measured_steps().steps[..] else { panic!("one step") };
        step.step.info.tokens
    }

    #[test]
    fn only_a_clear_majority_of_enough_products_in_a_step_with_attention_tells() {
        assert_eq!(tokens(&[7, 7, 7, 7, 7, 7, 7, 7, 1], true), Some(7));
        assert_eq!(tokens(&[7; 9], false), None, "no attention");
        assert_eq!(tokens(&[7; 7], true), None, "less than two layers");
        assert_eq!(tokens(&[7, 7, 16, 7, 7, 16, 7, 7, 16, 7, 7, 16, 7, 7, 16], true), None, "a training step");
    }
}
