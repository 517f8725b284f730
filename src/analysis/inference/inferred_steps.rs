//! Finds the steps of a trace without step annotations, from the order of its kernels. O(ops).
//!
//! Between two attention kernels of one step lies always the same: the rest of a layer and the start of the next. Between the
//! last attention of a step and the first of the next step lie the LM head, sampling, a copy of the tokens to the host, and an
//! embedding. Each of these is a sign. A step ends where two independent signs agree, and only if most of the steps
//! found so (`patterns/inference.json`) have the same number of layers. Otherwise nothing is found.

use super::fold::{anchors, layer_end};
use super::kernel_roles::{NameRole, NameRoles};
use super::stage_by_kernels::AttentionStages;
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::measure::mode::mode;
use crate::analysis::structure::stages::{Form, Stage};
use crate::ordering::VecMap;
use crate::rules::inference::thresholds;
use crate::trace::{DeviceId, GpuOp, NameId, OpKind, ProcessId, Trace};
use std::ops::Range;

/// One step that was found, as a range of the ops of its process and device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InferredStep {
    pub(crate) stage: Stage,
    /// What shows it.
    pub(crate) form: Form,
    /// Rows of its ops, sorted.
    pub(crate) rows: Vec<u32>,
}

/// The steps of all devices, device by device, and on each process by process.
pub(crate) fn inferred_steps(classified: &ClassifiedTrace, roles: &NameRoles) -> Vec<InferredStep> {
    let trace = classified.trace;
    let mut names = (0..).map(NameId).take(trace.names.len());
    if !names.any(|name| roles.get(name).is_attention()) {
        return Vec::new();
    }
    let stages = AttentionStages::of(trace, roles);
    let mut lanes: VecMap<(DeviceId, ProcessId), Lane> = VecMap::new();
    for (op, row) in trace.gpu_ops.iter().zip(0..) {
        let lane = Lane { classified, trace, stages: &stages, rows: Vec::new(), roles: Vec::new() };
        lanes.update((op.device, op.process), lane, |lane| {
            lane.rows.push(row);
            lane.roles.push(roles.get(op.name));
        });
    }
    lanes.iter().flat_map(|(_, lane)| lane.steps()).collect()
}

/// The ops of one process on one device in the order of their starts.
struct Lane<'a> {
    classified: &'a ClassifiedTrace<'a>,
    trace: &'a Trace,
    stages: &'a AttentionStages,
    rows: Vec<u32>,
    /// Parallel to `rows`.
    roles: Vec<NameRole>,
}

/// The signs of the end of a step in the ops between two attention kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Signs {
    /// A sampling kernel after a matrix product.
    sampling: bool,
    /// A copy to the host after a matrix product.
    copy: bool,
    /// An embedding lookup.
    embedding: bool,
    /// Matrix products.
    products: i64,
}

impl Lane<'_> {
    fn op(&self, index: usize) -> Option<GpuOp> {
        self.trace.gpu_ops.get(*self.rows.get(index)? as usize)
    }

    fn role(&self, index: usize) -> NameRole {
        self.roles.get(index).copied().unwrap_or(NameRole::Elementwise)
    }

    fn steps(&self) -> Vec<InferredStep> {
        let anchors: Vec<usize> = anchors(&self.roles).into_iter().map(|anchor| anchor.start).collect();
        let boundaries = self.boundaries(&anchors);
        if boundaries.is_empty() {
            return Vec::new();
        }
        let starts = [0].into_iter().chain(boundaries.iter().copied());
        let ends = boundaries.iter().copied().chain([self.rows.len()]);
        let layers = |step: &Range<usize>| {
            anchors.partition_point(|at| *at < step.end) - anchors.partition_point(|at| *at < step.start)
        };
        let mut steps: Vec<(Range<usize>, usize)> =
            starts.zip(ends).map(|(start, end)| start..end).map(|step| (step.clone(), layers(&step))).collect();
        let inner = steps.get(1..steps.len() - 1).filter(|inner| !inner.is_empty()).unwrap_or(&steps);
        let Some(usual) = usual_layers(inner) else { return Vec::new() };
        // A window may have cut the first and the last step.
        if self.trace.cut.is_some() {
            steps = steps.get(1..steps.len() - 1).unwrap_or_default().to_vec();
        }
        let mut whole: Vec<Range<usize>> =
            steps.into_iter().filter(|(_, layers)| *layers == usual).map(|(step, _)| step).collect();
        drop_start(&mut whole, &anchors);
        whole.into_iter().map(|step| self.step(step)).collect()
    }

    fn step(&self, step: Range<usize>) -> InferredStep {
        let rows = self.rows.get(step).unwrap_or_default().to_vec();
        InferredStep { stage: self.stages.of_step(self.classified, &rows), form: Form::Inferred, rows }
    }

    /// The indices at which a new step begins.
    fn boundaries(&self, anchors: &[usize]) -> Vec<usize> {
        let gaps: Vec<Range<usize>> =
            anchors.windows(2).filter_map(|pair| Some(*pair.first()?..*pair.last()?)).collect();
        let signs: Vec<Signs> = gaps.iter().map(|gap| self.signs(gap)).collect();
        let usual_products = mode(signs.iter().map(|signs| signs.products).collect()).unwrap_or_default();
        let limits = &thresholds().steps_by_kernels;
        // What happens in more of the gaps happens in each layer.
        let max_gaps = limits.max_sign_gaps_share.value * signs.len() as f64;
        let is_rare =
            |sign: &dyn Fn(&Signs) -> bool| (signs.iter().filter(|signs| sign(signs)).count() as f64) < max_gaps;
        let (sampling, copy) = (is_rare(&|signs| signs.sampling), is_rare(&|signs| signs.copy));
        let embedding = is_rare(&|signs| signs.embedding);
        let is_boundary = |signs: &Signs| {
            let found = [
                sampling && signs.sampling,
                copy && signs.copy,
                embedding && signs.embedding,
                signs.products > usual_products,
            ];
            found.iter().filter(|found| **found).count() >= limits.min_signs.value
        };
        let ends = gaps.iter().zip(&signs).filter(|(_, signs)| is_boundary(signs));
        ends.map(|(gap, signs)| self.boundary(gap, signs.products > usual_products)).collect()
    }

    fn signs(&self, gap: &Range<usize>) -> Signs {
        let mut signs = Signs::default();
        for index in gap.clone() {
            match self.role(index) {
                NameRole::Gemm | NameRole::Experts => signs.products += 1,
                NameRole::Sampling => signs.sampling |= signs.products > 0,
                NameRole::Embedding => signs.embedding = true,
                NameRole::Copy => signs.copy |= signs.products > 0 && self.is_copy_to_host(index),
                _ => {}
            }
        }
        signs
    }

    fn is_copy_to_host(&self, index: usize) -> bool {
        let Some(op) = self.op(index).filter(|op| op.kind == OpKind::Copy) else { return false };
        let name = self.trace.names.get(op.name);
        ["DtoH", "Device-to-Host", "Device to Host"].iter().any(|word| name.contains(word))
    }

    /// The first index after the end of a step in this gap: after sampling, or after the LM head, and after the copy of the
    /// tokens. Without an additional product the LM head is not there. A training step has neither: its optimizer runs after the last
    /// product, and it ends with the last copy of results before the embedding.
    fn boundary(&self, gap: &Range<usize>, has_more_products: bool) -> usize {
        let last = |range: Range<usize>, is: &dyn Fn(NameRole) -> bool| range.rev().find(|index| is(self.role(*index)));
        let embedding = last(gap.clone(), &|role| role == NameRole::Embedding).unwrap_or(gap.end);
        let is_head = |role| matches!(role, NameRole::Gemm | NameRole::SplitkReduce | NameRole::Comm);
        let head = last(gap.clone(), &|role| role == NameRole::Sampling)
            .or_else(|| self.lm_head(gap, embedding).filter(|_| has_more_products));
        let after = |index: usize| index + 1;
        let Some(end) = head.map(after) else {
            let end = last(gap.start..embedding, &is_head).map_or(gap.start, after);
            return (end..embedding).rev().find(|index| self.is_copy_to_host(*index)).map_or(end, after);
        };
        let max_ops = thresholds().steps_by_kernels.max_ops_to_copy.value;
        (end..gap.end.min(end + max_ops)).find(|index| self.is_copy_to_host(*index)).map_or(end, after)
    }

    /// The last op of the LM head: the first product after the final norm, with its reduction and communication. A norm after the
    /// embedding is that of the next step.
    fn lm_head(&self, gap: &Range<usize>, embedding: usize) -> Option<usize> {
        let norm = layer_end(&self.roles, gap.start, gap.end).filter(|norm| *norm < embedding)?;
        let head = (norm..gap.end).find(|index| self.role(*index) == NameRole::Gemm)?;
        let is_part = |index: &usize| matches!(self.role(*index), NameRole::SplitkReduce | NameRole::Comm);
        (head + 1..gap.end).take_while(is_part).last().or(Some(head))
    }
}

/// Drops the first step if a usual step fits in before its first attention kernel: its begin is that of the trace, so it holds the start of
/// the program too.
fn drop_start(steps: &mut Vec<Range<usize>>, anchors: &[usize]) {
    let lengths = steps.iter().skip(1).map(|step| step.len() as i64).collect();
    let usual = mode(lengths).and_then(|usual| usize::try_from(usual).ok()).unwrap_or(usize::MAX);
    let before_attention = anchors.first().copied().unwrap_or_default();
    if steps.first().is_some_and(|first| first.start == 0) && before_attention >= usual {
        steps.remove(0);
    }
}

/// The number of layers that most steps have; `None` if too few have it or if it is too small.
fn usual_layers(steps: &[(Range<usize>, usize)]) -> Option<usize> {
    let usual = mode(steps.iter().map(|step| step.1 as i64).collect())? as usize;
    let limits = &thresholds().steps_by_kernels;
    if usual < limits.min_layers.value {
        return None;
    }
    let equal = steps.iter().filter(|step| step.1 == usual).count();
    (equal as f64 >= limits.min_equal_steps_share.value * steps.len() as f64).then_some(usual)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::torch;
    use crate::trace::testing::TestTrace;

    /// The ops of a trace, repeated one after the other, without ranges and launches.
    fn repeated(trace: &Trace, times: i64) -> Trace {
        let mut copy = TestTrace::new();
        let first = trace.gpu_ops.iter().next().unwrap().start.0;
        let span = trace.gpu_ops.iter().map(|op| op.end().0).max().unwrap() - first + 1_000_000;
        for time in 0..times {
            for op in trace.gpu_ops.iter() {
                let start = op.start.0 - first + time * span;
                copy.stream(op.stream).op(trace.names.get(op.name), op.kind, start..start + op.duration.0, None);
            }
        }
        copy.finish()
    }

    fn found(trace: &Trace) -> Vec<(Stage, usize)> {
        let steps = inferred_steps(&ClassifiedTrace::new(trace), &NameRoles::of(trace));
        steps.iter().map(|step| (step.stage, step.rows.len())).collect()
    }

    /// The number of steps and their ops from an independent program (`oracles/inference/repeated_steps.json`). Ops at
    /// the edges of a step may count for the step before or after it.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn five_repetitions_of_a_shared_trace_are_five_steps() {
        for (name, stage, ops) in [
            ("sglang_qwen3_30b_b300_decode", Stage::Decode, 718),
            ("sglang_qwen3_30b_mi300_decode", Stage::Decode, 805),
            ("sglang_qwen3_8b_mi300_decode", Stage::Decode, 558),
            ("sglang_qwen3_8b_mi300_extend", Stage::Prefill, 534),
            ("vllm_mi300_decode_full_graph", Stage::Decode, 434),
            ("vllm_mi300_piecewise_graph", Stage::All, 423),
            ("vllm_b200_eager_prefill", Stage::Prefill, 929),
        ] {
            let trace = torch(&format!("{name}.trace.json.gz"));
            let found = found(&repeated(&trace, 5));
            assert_eq!(found.len(), 5, "{name}: {found:?}");
            for (found_stage, found_ops) in &found {
                assert_eq!(*found_stage, stage, "{name}");
                assert!(found_ops.abs_diff(ops) <= ops / 20, "{name}: {found:?}");
            }
            assert_eq!(found.iter().map(|step| step.1).sum::<usize>(), trace.gpu_ops.len() * 5, "{name}");
        }
    }

    /// Traces of training, of vision models and of encoders have no steps of a server. One step alone cannot be told from
    /// a part of one.
    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn traces_without_repeated_steps_have_none() {
        for name in [
            "particle_transformer_a100.pt",
            "resnet50_v100_torch1.9.pt",
            "train_a100_rank3of8",
            "h100_nvl_small.pt",
            "nccl_metadata_a100",
            "hf_qwen1.5_0.5b_h100",
            "sglang_qwen3_30b_b300_decode",
            "vllm_mi300_graph_capture.pt",
        ] {
            let trace = torch(&format!("{name}.trace.json.gz"));
            assert_eq!(found(&trace), [], "{name}");
        }
    }

    const LAYER: [&str; 6] = ["rms_norm", "gemm_qkv", "paged_attention", "gemm_o", "silu", "gemm_down"];

    fn steps_of(layers: &[usize], tail: &[&str]) -> Vec<(Stage, usize)> {
        let mut trace = TestTrace::new();
        let mut now = 0;
        for count in layers {
            let names = [&["embedding"][..], &LAYER.repeat(*count), tail].concat();
            for name in names {
                trace.kernel(name, now..now + 5);
                now += 10;
            }
        }
        found(&trace.finish())
    }

    #[test]
    fn steps_end_after_the_copy_of_the_sampled_tokens() {
        let tail = ["rms_norm", "gemm_head", "argmax", "Memcpy DtoH (Device -> Pinned)"];
        assert_eq!(steps_of(&[8; 4], &tail), vec![(Stage::Decode, 53); 4]);
    }

    /// The optimizer lies between the last product and the copy, whether the attention of the backward pass is known as such or not.
    #[test]
    fn steps_of_training_end_after_the_copy_of_the_loss() {
        for attention in ["flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel", "unknown"] {
            let backward = ["gemm_grad", "gemm_grad", attention, "gemm_grad", "gemm_grad"].repeat(4);
            let end = [&["multi_tensor_apply"; 6][..], &["Memcpy DtoH (Device -> Pinned)"]].concat();
            let step = [&["Memcpy HtoD", "embedding"][..], &LAYER.repeat(4), &["gemm_head"], &backward, &end].concat();
            let mut trace = TestTrace::new();
            for (name, start) in step.repeat(4).into_iter().zip((0..).step_by(10)) {
                let kind = if name.starts_with("Memcpy") { OpKind::Copy } else { OpKind::Kernel };
                trace.op(name, kind, start..start + 5, None);
            }
            let ops: Vec<usize> = found(&trace.finish()).iter().map(|step| step.1).collect();
            assert_eq!(ops, [step.len(); 4], "{attention}");
        }
    }

    #[test]
    fn a_step_that_the_capture_cut_is_left_out() {
        assert_eq!(steps_of(&[3, 8, 8, 8], &["rms_norm", "gemm_head", "argmax"]), vec![(Stage::Decode, 52); 3]);
    }

    #[test]
    fn steps_of_different_depth_are_no_steps() {
        assert_eq!(steps_of(&[8, 5, 7, 8, 4, 6], &["rms_norm", "gemm_head", "argmax"]), []);
        assert_eq!(steps_of(&[2; 20], &["rms_norm", "gemm_head", "argmax"]), [], "blocks of two layers");
    }
}
