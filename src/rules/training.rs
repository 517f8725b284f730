//! What proves that a program trains a model (`patterns/training.json`): names of kernels, in lower case.

use crate::json::{self, embedded, from_json};
use std::sync::LazyLock;

/// `patterns/training.json`.
#[derive(Debug)]
struct TrainingWords {
    /// Words in names of kernels that only an optimizer runs.
    optimizer_kernels: Vec<String>,
}
from_json!(TrainingWords { optimizer_kernels });

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_lower_case_and_not_of_copies() {
        assert!(WORDS.optimizer_kernels.iter().all(|word| *word == word.to_ascii_lowercase() && word.len() >= 8));
        for name in ["multi_tensor_apply_kernel", "foreach_copy", "at::native::AddFunctor<float>"] {
            assert!(!is_optimizer_kernel(name), "{name}");
        }
    }
}
