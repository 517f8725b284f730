//! Thresholds and sentences of comparisons (`patterns/compare.json`).

use crate::analysis::results::Run;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// See the module's head.
#[derive(Debug, Deserialize)]
pub(super) struct Rules {
    pub(super) thresholds: Thresholds,
    /// Words in names of devices and kernels that tell who made the GPU.
    makers: Map<String, Value>,
    reasons: Map<String, Value>,
    warnings: Map<String, Value>,
}

/// Ratios and parts are parts of one.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Thresholds {
    /// Fewer steps of a stage tell no spread.
    pub(super) least_steps_for_noise: u64,
    /// So many standard errors of the difference are noise: 2 hold 95 % of what chance does.
    pub(super) noise_errors: f64,
    /// Steps that leave a larger part of the work outside are not what to divide by.
    pub(super) most_work_outside: f64,
    /// Work outside the steps is said from this part on.
    pub(super) work_outside_worth_a_word: f64,
    /// Steps of a stage that the other run lacks may be this part of all.
    pub(super) foreign_steps_part: f64,
    /// Another mix of stages may change the time per step by this part.
    pub(super) mix_effect: f64,
    /// Totals are of the same work where launches differ by less than this factor.
    pub(super) same_work_ratio: f64,
    /// Steps are of the same work where their tokens and requests differ by less than this factor.
    pub(super) work_of_a_step_ratio: f64,
    /// Beyond this factor it is other work.
    pub(super) other_work_of_a_step_ratio: f64,
    /// Kernels of the same name make up at least this part of the time of two runs of one program.
    pub(super) least_matched_part: f64,
    /// Where noise is not known, a smaller change is called none.
    pub(super) no_change: f64,
    /// A part of the change is named where it is at least this part of the largest one.
    pub(super) worth_a_word: f64,
}

static RULES: LazyLock<Rules> = LazyLock::new(|| {
    #[allow(clippy::expect_used, reason = "a file of this crate, read by the test below")]
    serde_json::from_str(include_str!("../../../patterns/compare.json")).expect("patterns/compare.json")
});

impl Rules {
    /// The file of this crate.
    pub(super) fn embedded() -> &'static Self {
        &RULES
    }

    /// Who made the GPU: by the names of the devices, or by the kernels that run for most of the time that tells.
    pub(super) fn maker(&self, run: &Run) -> Option<&str> {
        let makers = || self.makers.iter().map(|(maker, words)| (maker.as_str(), words));
        let named = |maker: &str| run.devices.iter().any(|device| device.name.contains(maker));
        if let Some((maker, _)) = makers().find(|(maker, _)| named(maker)) {
            return Some(maker);
        }
        let time = |words: &Value| {
            let words: Vec<&str> = words.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let own = run.kernels.iter().filter(|kernel| words.iter().any(|word| kernel.name.contains(word)));
            own.fold(0, |sum: i64, kernel| sum.saturating_add(kernel.duration_ns))
        };
        let times = makers().map(|(maker, words)| (time(words), maker)).filter(|(time, _)| *time > 0);
        times.max_by_key(|(time, _)| *time).map(|(_, maker)| maker)
    }

    /// Why two runs do not compare, with the remedy; `{key}` stands for a value.
    pub(super) fn reason(&self, name: &str, values: &[(&str, &str)]) -> String {
        sentence(&self.reasons, name, values)
    }

    /// What to mind about two runs that do compare.
    pub(super) fn warning(&self, name: &str, values: &[(&str, &str)]) -> String {
        sentence(&self.warnings, name, values)
    }
}

/// Values are put in from left to right, so that a brace in the label of a run stands for nothing.
fn sentence(sentences: &Map<String, Value>, name: &str, values: &[(&str, &str)]) -> String {
    let mut rest = sentences.get(name).and_then(Value::as_str).unwrap_or(name);
    let mut text = String::with_capacity(rest.len());
    while let Some((before, (key, after))) = rest.split_once('{').and_then(|(a, b)| Some((a, b.split_once('}')?))) {
        text += before;
        text += values.iter().find(|(known, _)| *known == key).map_or("", |(_, value)| *value);
        rest = after;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sentence_is_one_and_every_threshold_makes_sense() {
        let rules = Rules::embedded();
        for sentence in rules.reasons.values().chain(rules.warnings.values()) {
            assert!(sentence.as_str().unwrap().ends_with('.'), "{sentence}");
        }
        let reasons_with_remedy = |text: &Value| text.as_str().unwrap().matches(['.', ':']).count() >= 2;
        assert!(rules.reasons.values().all(reasons_with_remedy));
        let Thresholds { least_steps_for_noise, noise_errors, same_work_ratio, work_of_a_step_ratio, .. } =
            rules.thresholds;
        assert!(least_steps_for_noise >= 2, "one value has no spread");
        assert!(noise_errors > 0.0 && same_work_ratio > 1.0 && work_of_a_step_ratio > 1.0);
    }

    #[test]
    fn values_take_the_places_of_their_names_and_nothing_else() {
        let values = [("run", "{baseline}"), ("baseline", "A"), ("b", "x"), ("a", "y")];
        let said = Rules::embedded().reason("rules", &values);
        assert!(said.starts_with("{baseline} was given its categories by the rules x, A by y."), "{said}");
    }
}
