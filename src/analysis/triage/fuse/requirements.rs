//! Checks whether a run meets the requirements of a pattern: hardware, model, group size and tokens per step.

use super::super::serving::Deployment;
use super::patterns::Pattern;
use crate::analysis::structure::stages::Stage;

impl Deployment {
    /// True if the pattern supports the hardware, or if the hardware is unknown.
    pub(super) fn has_hardware_for(&self, pattern: &Pattern) -> bool {
        pattern.hardware.is_empty() || self.vendor.is_none_or(|vendor| pattern.hardware.contains(&vendor))
    }

    /// The tokens of the stage's smallest step if they exceed the limit of the pattern's kernel.
    pub(super) fn too_many_tokens(&self, pattern: &Pattern, stage: Stage) -> Option<u64> {
        let min_tokens = self.min_tokens.get(&stage).copied()?;
        (min_tokens > pattern.max_tokens?).then_some(min_tokens)
    }

    /// True if the tensor-parallel group is large enough, or if its size is unknown: the collective in the chain shows that there
    /// is a group.
    pub(super) fn has_group_for(&self, pattern: &Pattern) -> bool {
        self.tp_size.is_none_or(|size| size >= pattern.min_tp_size)
    }

    /// True if the pattern is for the model; `None` if unknown.
    pub(super) fn has_model_for(&self, pattern: &Pattern) -> Option<bool> {
        let is_named = |words: &[String]| self.models.iter().any(|model| model.contains_any(words));
        if is_named(&pattern.model_exclude) {
            return Some(false);
        }
        match (pattern.model_include.is_empty(), self.models.is_empty()) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(is_named(&pattern.model_include)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{Options, ServerArgs};
    use super::super::patterns::Patterns;
    use super::*;
    use crate::analysis::structure::stages::testing::with_view;
    use crate::trace::testing::TestTrace;

    #[test]
    fn a_token_limit_is_compared_with_the_smallest_step_of_the_stage() {
        let mut trace = TestTrace::coded();
        for (step, start) in
            [("step[DECODE bs=32]", 0), ("step[DECODE bs=16]", 100), ("step[EXTEND bs=1 toks=888]", 200)]
        {
            trace.annotation(step, start..start + 90).launch(start + 1..start + 2).launches("k", start + 2..start + 80);
        }
        let pattern = |limit: Option<u64>| Pattern { max_tokens: limit, ..Patterns::embedded().patterns.remove(0) };
        with_view(&trace.finish(), Stage::All, &ServerArgs::default(), &Options::default(), |view| {
            let run = Deployment::new(view);
            let too_many = |limit, stage| run.too_many_tokens(&pattern(limit), stage);
            assert_eq!(too_many(Some(16), Stage::Decode), None, "the smallest step has 16 tokens");
            assert_eq!(too_many(Some(15), Stage::Decode), Some(16));
            assert_eq!(too_many(Some(128), Stage::Prefill), Some(888));
            assert_eq!(too_many(None, Stage::Prefill), None, "no limit");
            assert_eq!(too_many(Some(1), Stage::Draft), None, "the stage has no steps");
        });
    }
}
