//! Checks whether a run meets the requirements of a pattern: hardware, model, group size, tokens per step, and the size of
//! the messages of collectives.

use super::super::serving::Deployment;
use super::super::view::View;
use super::patterns::Pattern;
use crate::analysis::structure::stages::Stage;

/// The messages of the collectives among the launches of a finding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Messages {
    /// Smallest size in bytes; `None` if the trace records no size.
    pub bytes: Option<u64>,
    /// Number of ranks; `None` if the trace does not record it.
    pub ranks: Option<u64>,
}

impl Messages {
    /// Reads the sizes that the trace records for collectives, or else those of the copies around them: a copy to or from the
    /// buffer of a collective has the size of its message.
    pub(super) fn of(view: &View, ops: &[u32]) -> Self {
        let (mut collective, mut copy): (Option<u64>, Option<u64>) = (None, None);
        let mut ranks = None;
        let min = |best: Option<u64>, size: u64| Some(best.map_or(size, |best| best.min(size)));
        for op in ops {
            if let Ok(index) = view.trace.collectives.binary_search_by_key(op, |(row, _)| *row)
                && let Some((_, message)) = view.trace.collectives.get(index)
            {
                ranks = ranks.or(message.ranks);
                if let Some(size) = message.bytes_in.max(message.bytes_out) {
                    collective = min(collective, size);
                }
            }
            if let Ok(index) = view.trace.bytes.binary_search_by_key(op, |(row, _)| *row)
                && let Some((_, size)) = view.trace.bytes.get(index)
            {
                copy = min(copy, *size);
            }
        }
        Self { bytes: collective.or(copy), ranks }
    }
}

impl Deployment {
    /// True if one of the devices is one of the pattern's, or if the devices are unknown.
    pub(super) fn has_device_for(&self, pattern: &Pattern) -> bool {
        pattern.devices.is_empty()
            || self.devices.is_empty()
            || self.devices.iter().any(|device| device.contains_any(&pattern.devices))
    }

    /// The limit in MiB that the messages exceed. The number of ranks may be an estimate: the largest limit of the device
    /// counts if it is unknown.
    pub(super) fn too_large_messages(&self, pattern: &Pattern, messages: Messages) -> Option<f64> {
        let ranks = messages.ranks.or(self.tp_estimate);
        let of_device = pattern.message_limits.iter().filter(|limit| {
            self.devices.iter().any(|device| device.contains_any(&limit.devices))
                && ranks.is_none_or(|ranks| ranks == limit.ranks)
        });
        let limit = of_device.map(|limit| limit.mib).reduce(f64::max)?;
        (messages.bytes? as f64 > limit * f64::from(1 << 20)).then_some(limit)
    }

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

    #[test]
    fn a_limit_on_messages_is_compared_with_the_copies_around_the_collective() {
        let too_large = |gpu: &str, mib: u64| {
            let mut trace = TestTrace::coded();
            trace.named_device(0, gpu).kernel("Memcpy DtoD (Device -> Device)", 0..10).bytes(mib << 20);
            trace.kernel("multimem_all_reduce_kernel", 10..20).kernel("rms_norm_kernel", 20..30);
            let patterns = Patterns::embedded().patterns;
            let pattern = patterns.iter().find(|pattern| pattern.name == "fuse_allreduce_rms").unwrap();
            with_view(&trace.finish(), Stage::All, &ServerArgs::default(), &Options::default(), |view| {
                let run = Deployment { tp_estimate: Some(8), ..Deployment::new(view) };
                run.too_large_messages(pattern, Messages::of(view, &[0, 1, 2]))
            })
        };
        assert_eq!(too_large("NVIDIA B200", 5), Some(1.0));
        assert_eq!(too_large("NVIDIA B200", 1), None, "within the limit");
        assert_eq!(too_large("NVIDIA L40S", 5), None, "no limit is known");
    }
}
