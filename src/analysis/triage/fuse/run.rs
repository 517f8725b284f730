//! Which patterns are for the setting of a run.

use super::super::serving::Setting;
use super::super::view::View;
use super::patterns::Pattern;
use crate::rules::needle::Needle;

/// See the module's head.
pub(super) struct Run(Setting);

impl Run {
    pub(super) fn of(view: &View) -> Self {
        Self(Setting::of(view))
    }

    /// Is the hardware one that the pattern is for? Unknown hardware may be.
    pub(super) fn has_hardware_for(&self, pattern: &Pattern) -> bool {
        pattern.hardware.is_empty() || self.0.vendor.is_none_or(|vendor| pattern.hardware.contains(&vendor))
    }

    /// Is the group large enough? A group of unknown size may be: the chain's own collective shows that there is one.
    pub(super) fn has_group_for(&self, pattern: &Pattern) -> bool {
        self.0.tp_size.is_none_or(|size| size >= pattern.min_tp_size)
    }

    /// Is the model one that the pattern is for? `None` where that is not known.
    pub(super) fn has_model_for(&self, pattern: &Pattern) -> Option<bool> {
        let is_named = |words: &[String]| {
            let needles: Vec<Needle> = words.iter().filter_map(|word| Needle::new(word)).collect();
            self.0.models.iter().any(|model| needles.iter().any(|needle| needle.is_in(model)))
        };
        if is_named(&pattern.model_exclude) {
            return Some(false);
        }
        match (pattern.model_include.is_empty(), self.0.models.is_empty()) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(is_named(&pattern.model_include)),
        }
    }
}
