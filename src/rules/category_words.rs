//! Maps names of framework ops, Python frames and ranges to kernel categories, from `patterns/category_words.json`.
//!
//! They are used for kernels whose own name does not decide. The first entry of a list that fits a name wins. A lookup costs
//! one search per word; call it once per distinct name.

use super::needle::Haystack;
use crate::json::{self, embedded, from_json};

/// The word lists of `patterns/category_words.json`.
#[derive(Debug, Clone)]
pub struct CategoryWords {
    /// Names of framework ops: `aten::convolution`.
    pub ops: Vec<CategoryEntry>,
    /// Python frames: `layers/rotary_embedding.py(97): forward`.
    pub frames: Vec<CategoryEntry>,
    /// NVTX ranges and annotations: `MoE`.
    pub ranges: Vec<CategoryEntry>,
    /// Kernels with a category that follows from the kernels before and after them.
    pub neighbours: Vec<NeighbourRule>,
}
from_json!(strict CategoryWords { ops, frames, ranges, neighbours });

/// The names of one category.
#[derive(Debug, Clone)]
pub struct CategoryEntry {
    /// The category of a kernel that is launched under such a name.
    pub category: String,
    /// Whole names.
    exact: Vec<String>,
    /// Parts of names, in lower case.
    contains: Vec<String>,
    /// Whole words in any spelling.
    words: Vec<String>,
    /// Also applies to kernels that a generic rule matches, not only to kernels that no rule matches.
    pub replaces_generic: bool,
}
from_json!(strict CategoryEntry { category; exact, contains, words, replaces_generic });

/// A kernel between two others on a stream.
#[derive(Debug, Clone)]
pub struct NeighbourRule {
    /// The category of the kernel.
    pub category: String,
    /// Parts of its name, all of them required.
    pub name_contains: Vec<String>,
    /// Categories of the kernel before it.
    pub after: Vec<String>,
    /// Categories of the kernel after it.
    pub before: Vec<String>,
}
from_json!(strict NeighbourRule { category, name_contains, after, before });

impl CategoryWords {
    /// The built-in lists.
    pub fn embedded() -> Self {
        embedded(json::read(include_str!("../../patterns/category_words.json")))
    }

    /// The entry for a framework op.
    pub fn op(&self, name: &str) -> Option<&CategoryEntry> {
        find(&self.ops, name)
    }

    /// The entry for a Python frame.
    pub fn frame(&self, name: &str) -> Option<&CategoryEntry> {
        find(&self.frames, name)
    }

    /// The entry for a range. PyTorch's `emit_nvtx` writes ranges like `aten::mm, op_id = 7`, which are looked up as ops.
    pub fn range(&self, name: &str) -> Option<&CategoryEntry> {
        if name.starts_with("aten::") {
            return self.op(name.split(',').next().unwrap_or(name));
        }
        find(&self.ranges, name)
    }
}

fn find<'a>(entries: &'a [CategoryEntry], name: &str) -> Option<&'a CategoryEntry> {
    let lower_case = name.to_ascii_lowercase();
    let words = Haystack::new(name);
    entries.iter().find(|entry| {
        entry.exact.iter().any(|exact| exact == name)
            || entry.contains.iter().any(|part| lower_case.contains(part.as_str()))
            || words.contains_any(&entry.words)
    })
}

impl NeighbourRule {
    /// Returns true if the rule is about kernels of this name.
    pub fn fits(&self, name: &str) -> bool {
        self.name_contains.iter().all(|part| name.contains(part.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ops_frames_and_ranges_have_their_categories() {
        let words = CategoryWords::embedded();
        let category = |entry: Option<&CategoryEntry>| entry.map(|entry| entry.category.clone());
        for (name, want) in [
            ("aten::mm", Some("gemm")),
            ("aten::add", Some("elementwise")),
            ("aten::addmm", Some("gemm")),
            ("aten::linear", None),
            ("vllm::unified_attention_with_output", Some("attention")),
            ("_C::rms_norm", Some("norm")),
            ("c10d::allreduce_", Some("communication")),
        ] {
            assert_eq!(category(words.op(name)).as_deref(), want, "{name}");
        }
        for (name, want) in [
            ("vllm/model_executor/layers/rotary_embedding.py(97): forward_native", Some("rope")),
            ("sglang/srt/layers/layernorm.py(60): forward_cuda", Some("norm")),
            ("deep_ep/buffer.py(400): dispatch", Some("communication")),
            ("transformers/models/qwen2/modeling_qwen2.py(120): apply_rotary_pos_emb", Some("rope")),
            ("transformers/models/qwen2/modeling_qwen2.py(300): forward", None),
        ] {
            assert_eq!(category(words.frame(name)).as_deref(), want, "{name}");
        }
        for (name, want) in [
            ("MoE", Some("moe")),
            ("RMSNorm", Some("norm")),
            ("core attention", Some("attention")),
            ("aten::mm, op_id = 7", Some("gemm")),
            ("europe", None),
            ("decode step 12", None),
        ] {
            assert_eq!(category(words.range(name)).as_deref(), want, "{name}");
        }
    }

    #[test]
    fn every_entry_has_names_and_every_category_is_one_of_the_default_rules() {
        let rules = super::super::RuleBook::gpuprism_default().unwrap();
        let words = CategoryWords::embedded();
        let is_known = |category: &str| rules.compiled().any(|(rule, _)| rule.category == category);
        for entry in words.ops.iter().chain(&words.frames).chain(&words.ranges) {
            let CategoryEntry { category, exact, contains, words, .. } = entry;
            assert!(is_known(category), "{category}");
            assert!(exact.len() + contains.len() + words.len() > 0, "{category}");
            assert!(contains.iter().all(|part| *part == part.to_ascii_lowercase()), "{contains:?}");
        }
        for rule in &words.neighbours {
            assert!(!rule.name_contains.is_empty());
            let categories = std::iter::once(&rule.category).chain(&rule.after).chain(&rule.before);
            categories.for_each(|category| assert!(is_known(category), "{category}"));
        }
    }
}
