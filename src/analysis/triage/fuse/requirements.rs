//! Checks whether a run meets the requirements of a pattern: hardware, model, group size and tokens per step.

use super::super::serving::Deployment;
use super::super::view::View;
use super::patterns::Pattern;
use crate::analysis::structure::stages::{Stage, steps};
use crate::ordering::VecMap;
use crate::rules::needle::Needle;

/// The properties of a run that patterns require.
pub(super) struct RunProperties {
    deployment: Deployment,
    /// See [`min_tokens_by_stage`].
    min_tokens: VecMap<Stage, u64>,
}

impl RunProperties {
    pub(super) fn of(view: &View) -> Self {
        Self { deployment: Deployment::new(view), min_tokens: min_tokens_by_stage(view) }
    }

    /// True if the pattern supports the hardware, or if the hardware is unknown.
    pub(super) fn has_hardware_for(&self, pattern: &Pattern) -> bool {
        pattern.hardware.is_empty() || self.deployment.vendor.is_none_or(|vendor| pattern.hardware.contains(&vendor))
    }

    /// The tokens of the stage's smallest step if they exceed the limit of the pattern's kernel.
    pub(super) fn too_many_tokens(&self, pattern: &Pattern, stage: Stage) -> Option<u64> {
        let min_tokens = self.min_tokens.get(&stage).copied()?;
        (min_tokens > pattern.max_tokens?).then_some(min_tokens)
    }

    /// True if the tensor-parallel group is large enough, or if its size is unknown: the collective in the chain shows that there
    /// is a group.
    pub(super) fn has_group_for(&self, pattern: &Pattern) -> bool {
        self.deployment.tp_size.is_none_or(|size| size >= pattern.min_tp_size)
    }

    /// True if the pattern is for the model; `None` if unknown.
    pub(super) fn has_model_for(&self, pattern: &Pattern) -> Option<bool> {
        let is_named = |words: &[String]| {
            let needles: Vec<Needle> = words.iter().filter_map(|word| Needle::new(word)).collect();
            self.deployment.models.iter().any(|model| needles.iter().any(|needle| needle.is_in(model)))
        };
        if is_named(&pattern.model_exclude) {
            return Some(false);
        }
        match (pattern.model_include.is_empty(), self.deployment.models.is_empty()) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(is_named(&pattern.model_include)),
        }
    }
}

/// The tokens of the smallest step of each stage, for stages whose steps record tokens.
pub(in super::super) fn min_tokens_by_stage(view: &View) -> VecMap<Stage, u64> {
    let mut min_tokens = VecMap::new();
    for info in steps(view.trace).into_iter().map(|step| step.info) {
        let stage = if info.stage == Stage::All { view.file_stage } else { info.stage };
        if let Some(tokens) = info.tokens {
            min_tokens.update(stage, tokens, |min: &mut u64| *min = tokens.min(*min));
        }
    }
    min_tokens
}

#[cfg(test)]
mod tests {
    use super::super::super::{Options, ServerArgs};
    use super::super::patterns::Patterns;
    use super::*;
    use crate::analysis::structure::stages::testing::{Made, with_view};

    #[test]
    fn a_token_limit_is_compared_with_the_smallest_step_of_the_stage() {
        let mut made = Made::new();
        for (step, start) in
            [("step[DECODE bs=32]", 0), ("step[DECODE bs=16]", 100), ("step[EXTEND bs=1 toks=888]", 200)]
        {
            made.host(step, start, start + 90, u32::try_from(start).unwrap()).launched(
                "0",
                start + 1,
                start + 2,
                start + 80,
            );
        }
        let pattern = |limit: Option<u64>| Pattern { max_tokens: limit, ..Patterns::embedded().patterns.remove(0) };
        with_view(&made.finish(), Stage::All, &ServerArgs::default(), &Options::default(), |view| {
            let run = RunProperties::of(view);
            let too_many = |limit, stage| run.too_many_tokens(&pattern(limit), stage);
            assert_eq!(too_many(Some(16), Stage::Decode), None, "the smallest step has 16 tokens");
            assert_eq!(too_many(Some(15), Stage::Decode), Some(16));
            assert_eq!(too_many(Some(128), Stage::Prefill), Some(888));
            assert_eq!(too_many(None, Stage::Prefill), None, "no limit");
            assert_eq!(too_many(Some(1), Stage::Draft), None, "the stage has no steps");
        });
    }
}
