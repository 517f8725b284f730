//! The words and colours for the roles of kernels in a layer, and the thresholds of the sentences about a model
//! (`patterns/model_words.json`).

use super::kernel_roles::{BACKWARD, RECOMPUTED, REDUCTION};
use crate::json::{self, embedded, from_json};
use crate::words::layers;
use std::sync::LazyLock;

/// The contents of `patterns/model_words.json`.
#[derive(Debug)]
pub(crate) struct ModelWords {
    /// The number of parts of a layer that a sentence names.
    pub(crate) max_parts: usize,
    /// Parts with a smaller share of the kernel time of a layer are summed.
    pub(crate) min_part_pct: f64,
    /// From this overlap of the kernels of a layer on, a sentence states it.
    pub(crate) min_overlap_pct: f64,
    /// From this share of the late time on, it is before the first layer.
    pub(crate) min_head_idle_pct: f64,
    /// From this share of the late time on inside of steps, it is stated per step.
    pub(crate) min_in_steps_pct: f64,
    /// From this share of turnaround in the idle time of the devices on, idle time between kernels is called turnaround.
    pub(crate) turnaround_pct: f64,
    /// A step that is longer than the median of its stage by more than this is marked.
    pub(crate) slow_step_pct: f64,
    roles: Vec<RoleWords>,
}
from_json!(ModelWords {
    max_parts,
    min_part_pct,
    min_overlap_pct,
    min_head_idle_pct,
    min_in_steps_pct,
    turnaround_pct,
    slow_step_pct,
    roles
});

#[derive(Debug)]
struct RoleWords {
    role: String,
    words: String,
    category: String,
}
from_json!(strict RoleWords { role, words, category });

static WORDS: LazyLock<ModelWords> =
    LazyLock::new(|| embedded(json::read(include_str!("../../../patterns/model_words.json"))));

impl ModelWords {
    /// The words of this build.
    pub(crate) fn embedded() -> &'static Self {
        &WORDS
    }

    /// All roles with words, for tests.
    #[cfg(test)]
    pub(crate) fn known_roles(&self) -> impl Iterator<Item = &str> {
        self.roles.iter().map(|words| words.role.as_str())
    }

    fn find(&self, role: &str) -> Option<&RoleWords> {
        self.roles.iter().find(|words| words.role == role)
    }
}

/// The role in words: `gate/up` for `gate_up`. A role without words is its own word.
pub(crate) fn role_words(role: &str) -> String {
    if let Some(forward) = role.strip_prefix(BACKWARD) {
        return layers::role_in_pass("backward", &role_words(forward));
    }
    if let Some(forward) = role.strip_prefix(RECOMPUTED) {
        return layers::role_in_pass("recompute", &role_words(forward));
    }
    let words = |role: &str| WORDS.find(role).map_or_else(|| role.to_owned(), |found| found.words.clone());
    match role.strip_suffix(REDUCTION) {
        Some(product) => layers::reduction(&words(product), &words("splitk")),
        None => words(role),
    }
}

/// The category whose colour a role has: `gemm` for `gate_up`.
pub(crate) fn role_category(role: &str) -> &'static str {
    let role = role.strip_prefix(BACKWARD).or_else(|| role.strip_prefix(RECOMPUTED)).unwrap_or(role);
    let role = if role.ends_with(REDUCTION) { "splitk" } else { role };
    WORDS.find(role).map_or("misc", |found| found.category.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reduction_of_a_product_is_named_by_both() {
        assert_eq!(role_words("o_proj+splitk"), "o split-K");
        assert_eq!(role_category("o_proj+splitk"), "reduce");
        assert_eq!(
            (role_words("backward_gate_up").as_str(), role_category("backward_gate_up")),
            ("backward gate/up", "gemm")
        );
        assert_eq!(
            (role_words("recompute_o_proj").as_str(), role_category("recompute_o_proj")),
            ("recompute o", "gemm")
        );
        assert_eq!((role_words("unheard_of"), role_category("unheard_of")), ("unheard_of".to_owned(), "misc"));
    }
}
