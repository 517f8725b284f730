//! What proves that a program trains a model, and the parts of its steps (`patterns/training.json`): names of kernels, CPU ops and ranges.

use super::needle::Haystack;
use crate::json::{self, embedded, from_json};
use std::sync::LazyLock;

/// A part of a training step that host code runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrainingPart {
    /// Computes the gradients.
    Backward,
    /// Changes the weights.
    Optimizer,
    /// Clears the gradients.
    ZeroGrad,
    /// Hands over a batch.
    Loading,
}
from_json!(TrainingPart =
    "backward" => Backward,
    "optimizer" => Optimizer,
    "zero_grad" => ZeroGrad,
    "loading" => Loading
);

/// Names of CPU ops and annotations of PyTorch.
#[derive(Debug)]
struct CodeNames {
    part: TrainingPart,
    starts: Vec<String>,
    ends: Vec<String>,
}
from_json!(strict CodeNames { part, starts, ends });

/// Words in ranges of the program.
#[derive(Debug)]
struct RangeWords {
    part: TrainingPart,
    words: Vec<String>,
}
from_json!(strict RangeWords { part, words });

/// `patterns/training.json`.
#[derive(Debug)]
struct TrainingWords {
    /// Words in names of kernels that only an optimizer runs.
    optimizer_kernels: Vec<String>,
    code: Vec<CodeNames>,
    /// Words in functions of autograd that run a forward pass again.
    recomputing_nodes: Vec<String>,
    /// CPU ops that only a forward pass calls.
    forward_ops: Vec<String>,
    ranges: Vec<RangeWords>,
}
from_json!(TrainingWords { optimizer_kernels, code, recomputing_nodes, forward_ops, ranges });

static WORDS: LazyLock<TrainingWords> =
    LazyLock::new(|| embedded(json::read(include_str!("../../patterns/training.json"))));

/// Whether only an optimizer runs kernels of this name.
///
/// ```
/// use gpuprism::rules::is_optimizer_kernel;
/// assert!(is_optimizer_kernel("multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float, float, int>>"));
/// assert!(!is_optimizer_kernel("multi_tensor_apply_kernel<TensorListMetadata<2>, Copy<c10::BFloat16, long>>"));
/// ```
pub fn is_optimizer_kernel(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    WORDS.optimizer_kernels.iter().any(|word| name.contains(word.as_str()))
}

/// The part of a training step that a CPU op or an annotation of PyTorch runs.
///
/// ```
/// use gpuprism::rules::{TrainingPart, training_part_of_code};
/// assert_eq!(training_part_of_code("Optimizer.step#AdamW.step"), Some(TrainingPart::Optimizer));
/// assert_eq!(training_part_of_code("AddmmBackward0"), Some(TrainingPart::Backward));
/// assert_eq!(training_part_of_code("aten::threshold_backward"), None);
/// ```
pub fn training_part_of_code(name: &str) -> Option<TrainingPart> {
    let without_number = name.trim_end_matches(|last: char| last.is_ascii_digit());
    let is_named = |names: &&CodeNames| {
        names.starts.iter().any(|start| name.starts_with(start.as_str()))
            || names.ends.iter().any(|end| without_number.ends_with(end.as_str()))
    };
    WORDS.code.iter().find(is_named).map(|names| names.part)
}

/// What a CPU op shows of the recomputation of activations in a backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecomputeSign {
    /// A function of autograd that computes gradients only.
    Node,
    /// A function of autograd that runs a forward pass again, before or around functions that compute gradients.
    RecomputingNode,
    /// Only a forward pass calls the op.
    ForwardOp,
}

/// What a CPU op shows of the recomputation of activations; `None` for most ops.
///
/// ```
/// use gpuprism::rules::{RecomputeSign, recompute_sign};
/// assert_eq!(recompute_sign("AddmmBackward0"), Some(RecomputeSign::Node));
/// assert_eq!(recompute_sign("CheckpointFunctionBackward"), Some(RecomputeSign::RecomputingNode));
/// assert_eq!(recompute_sign("aten::linear"), Some(RecomputeSign::ForwardOp));
/// assert_eq!(recompute_sign("aten::mm"), None);
/// ```
pub fn recompute_sign(name: &str) -> Option<RecomputeSign> {
    if training_part_of_code(name) == Some(TrainingPart::Backward) {
        let recomputes = WORDS.recomputing_nodes.iter().any(|word| name.contains(word.as_str()));
        return Some(if recomputes { RecomputeSign::RecomputingNode } else { RecomputeSign::Node });
    }
    WORDS.forward_ops.iter().any(|op| op == name).then_some(RecomputeSign::ForwardOp)
}

/// The part of a training step that a range of the program marks.
pub fn training_part_of_range(name: &str) -> Option<TrainingPart> {
    let text = Haystack::new(name);
    WORDS.ranges.iter().find(|range| text.contains_any(&range.words)).map(|range| range.part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_of_an_optimizer_has_that_category() {
        let rules = crate::rules::RuleBook::gpuprism_default().unwrap();
        for word in &WORDS.optimizer_kernels {
            assert_eq!(rules.classify(word, word).category, "optimizer", "{word}");
        }
    }

    #[test]
    fn words_are_in_lower_case_and_not_of_copies() {
        assert!(WORDS.optimizer_kernels.iter().all(|word| *word == word.to_ascii_lowercase() && word.len() >= 8));
        for name in ["multi_tensor_apply_kernel", "foreach_copy", "at::native::AddFunctor<float>"] {
            assert!(!is_optimizer_kernel(name), "{name}");
        }
    }

    #[test]
    fn parts_of_a_step_are_told_by_ops_and_ranges() {
        use TrainingPart::{Backward, Loading, Optimizer, ZeroGrad};
        for (name, part) in [
            ("autograd::engine::evaluate_function: MmBackward0", Some(Backward)),
            ("torch::autograd::AccumulateGrad", Some(Backward)),
            ("CompiledFunctionBackward", Some(Backward)),
            ("Optimizer.zero_grad#SGD.zero_grad", Some(ZeroGrad)),
            ("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", Some(Loading)),
            ("aten::convolution_backward", None),
            ("vllm::rocm_unquantized_gemm", None),
        ] {
            assert_eq!(training_part_of_code(name), part, "{name}");
        }
        for (name, part) in [
            ("## backward ##", Some(Backward)),
            ("optimizer step", Some(Optimizer)),
            ("zero_grad", Some(ZeroGrad)),
            ("computing attention scores", None),
            ("## forward ##", None),
        ] {
            assert_eq!(training_part_of_range(name), part, "{name}");
        }
    }
}
