//! Which patterns are for the setting of a run and for the size of its steps.

use super::super::serving::Deployment;
use super::super::view::View;
use super::patterns::Pattern;
use crate::analysis::structure::stages::{Stage, steps};
use crate::ordering::VecMap;
use crate::rules::needle::Needle;

/// See the module's head.
pub(super) struct Run {
    setting: Deployment,
    /// Tokens of each stage's smallest step; of no stage whose steps do not tell.
    fewest_tokens: VecMap<Stage, u64>,
}

impl Run {
    pub(super) fn of(view: &View) -> Self {
        Self { setting: Deployment::new(view), fewest_tokens: fewest_tokens(view) }
    }

    /// Is the hardware one that the pattern is for? Unknown hardware may be.
    pub(super) fn has_hardware_for(&self, pattern: &Pattern) -> bool {
        pattern.hardware.is_empty() || self.setting.vendor.is_none_or(|vendor| pattern.hardware.contains(&vendor))
    }

    /// Tokens of the stage's smallest step, where that is more than the pattern's kernel takes.
    pub(super) fn too_many_tokens(&self, pattern: &Pattern, stage: Stage) -> Option<u64> {
        self.fewest_tokens
            .get(&stage)
            .copied()
            .zip(pattern.max_tokens)
            .and_then(|(has, most)| (has > most).then_some(has))
    }

    /// Is the group large enough? A group of unknown size may be: the chain's own collective shows that there is one.
    pub(super) fn has_group_for(&self, pattern: &Pattern) -> bool {
        self.setting.tp_size.is_none_or(|size| size >= pattern.min_tp_size)
    }

    /// Is the model one that the pattern is for? `None` where that is not known.
    pub(super) fn has_model_for(&self, pattern: &Pattern) -> Option<bool> {
        let is_named = |words: &[String]| {
            let needles: Vec<Needle> = words.iter().filter_map(|word| Needle::new(word)).collect();
            self.setting.models.iter().any(|model| needles.iter().any(|needle| needle.is_in(model)))
        };
        if is_named(&pattern.model_exclude) {
            return Some(false);
        }
        match (pattern.model_include.is_empty(), self.setting.models.is_empty()) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(is_named(&pattern.model_include)),
        }
    }
}

/// Tokens of each stage's smallest step; none of a stage whose steps do not tell.
pub(in super::super) fn fewest_tokens(view: &View) -> VecMap<Stage, u64> {
    let mut fewest = VecMap::new();
    for info in steps(view.trace).into_iter().map(|step| step.info) {
        let stage = if info.stage == Stage::All { view.file_stage } else { info.stage };
        if let Some(tokens) = info.tokens {
            fewest.update(stage, tokens, |fewest: &mut u64| *fewest = tokens.min(*fewest));
        }
    }
    fewest
}

#[cfg(test)]
mod tests {
    use super::super::super::{Options, ServerArgs};
    use super::super::patterns::Patterns;
    use super::*;
    use crate::analysis::structure::stages::testing::{Made, with_view};

    #[test]
    fn a_kernel_for_few_tokens_is_for_the_smallest_step_of_a_stage_or_for_none() {
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
        let pattern = |most: Option<u64>| Pattern { max_tokens: most, ..Patterns::embedded().patterns.remove(0) };
        with_view(&made.finish(), Stage::All, &ServerArgs::default(), &Options::default(), |view| {
            let run = Run::of(view);
            let too_many = |most, stage| run.too_many_tokens(&pattern(most), stage);
            assert_eq!(too_many(Some(16), Stage::Decode), None, "one step has no more");
            assert_eq!(too_many(Some(15), Stage::Decode), Some(16));
            assert_eq!(too_many(Some(128), Stage::Prefill), Some(888));
            assert_eq!(too_many(None, Stage::Prefill), None, "no limit");
            assert_eq!(too_many(Some(1), Stage::Draft), None, "no step tells");
        });
    }
}
