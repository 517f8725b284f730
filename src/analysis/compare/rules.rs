//! Thresholds and sentences of comparisons (`patterns/compare.json`).

use crate::analysis::results::Run;
use crate::json::embedded;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::sync::LazyLock;

#[derive(Debug, Deserialize)]
pub(super) struct Rules {
    pub(super) thresholds: Thresholds,
    /// GPU vendor -> words in kernel names that identify it.
    vendors: Map<String, Value>,
    reasons: Map<String, Value>,
    warnings: Map<String, Value>,
    estimates: Map<String, Value>,
    trust: Map<String, Value>,
}

/// Ratios and shares are fractions of 1.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Thresholds {
    /// Steps of a stage needed to estimate noise.
    pub(super) min_steps_for_noise: u64,
    /// Noise is this many standard errors of the difference; 2 cover 95 % of random differences.
    pub(super) noise_standard_errors: f64,
    /// If steps leave a larger share of the work outside, times are not divided by steps.
    pub(super) max_work_outside_steps: f64,
    /// A larger share of work outside steps is a warning, and a reason against comparing a window.
    pub(super) notable_work_outside_steps: f64,
    /// The largest accepted share of steps in stages that the other run does not have.
    pub(super) max_foreign_steps: f64,
    /// The largest accepted relative change of the time per step that a different mix of stages alone would cause.
    pub(super) max_mix_effect: f64,
    /// Ranges are refused as units if a range of one run launches its kernels more often than this.
    pub(super) max_launch_ratio: f64,
    /// The smallest number of repeats of a range that marks units of work.
    pub(super) min_range_repeats: u64,
    /// The smallest share of the kernel time that is launched in such ranges.
    pub(super) min_range_coverage: f64,
    /// A larger share of kernel time outside them is a warning.
    pub(super) notable_work_outside_ranges: f64,
    /// The largest relative difference of a kernel's launch ratio from the common one.
    pub(super) launch_ratio_tolerance: f64,
    /// The share of the time and launches of shared kernels that must agree with the common launch ratio.
    pub(super) min_launch_agreement: f64,
    /// Captures whose lengths differ by less are equally long.
    pub(super) equal_length: f64,
    /// Runs whose amounts of work differ by more did different work.
    pub(super) unequal_work: f64,
    /// A larger ratio of tokens or requests per step is a warning.
    pub(super) notable_work_per_step_ratio: f64,
    /// A larger ratio of tokens or requests per step is a reason not to compare.
    pub(super) max_work_per_step_ratio: f64,
    /// If kernels found in both runs take a smaller share of the time, a warning doubts that both ran the same program.
    pub(super) min_matched_time: f64,
    /// A smaller relative change counts as none if noise is unknown.
    pub(super) negligible_change: f64,
    /// A sentence names the categories whose change is at least this share of the largest one.
    pub(super) notable_category_change: f64,
}

static RULES: LazyLock<Rules> =
    LazyLock::new(|| embedded(serde_json::from_str(include_str!("../../../patterns/compare.json"))));

impl Rules {
    /// The rules of the embedded file, parsed once.
    pub(super) fn embedded() -> &'static Self {
        &RULES
    }

    /// The GPU vendor: named by a device, else the one whose kernel name words cover the most kernel time.
    pub(super) fn vendor(&self, run: &Run) -> Option<&str> {
        let vendors = || self.vendors.iter().map(|(vendor, words)| (vendor.as_str(), words));
        let is_named = |vendor: &str| run.devices.iter().any(|device| device.name.contains(vendor));
        if let Some((vendor, _)) = vendors().find(|(vendor, _)| is_named(vendor)) {
            return Some(vendor);
        }
        let time = |words: &Value| {
            let words: Vec<&str> = words.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let kernels = run.kernels.iter().filter(|kernel| words.iter().any(|word| kernel.name.contains(word)));
            kernels.fold(0, |sum: i64, kernel| sum.saturating_add(kernel.duration_ns))
        };
        let times = vendors().map(|(vendor, words)| (time(words), vendor)).filter(|(time, _)| *time > 0);
        times.max_by_key(|(time, _)| *time).map(|(_, vendor)| vendor)
    }

    /// The reason `name` with `{key}` replaced by values.
    pub(super) fn reason(&self, name: &str, values: &[(&str, &str)]) -> String {
        fill(&self.reasons, name, values)
    }

    /// The warning `name` with `{key}` replaced by values.
    pub(super) fn warning(&self, name: &str, values: &[(&str, &str)]) -> String {
        fill(&self.warnings, name, values)
    }

    /// The sentence of an estimate with `{key}` replaced by values.
    pub(super) fn estimate(&self, name: &str, values: &[(&str, &str)]) -> String {
        fill(&self.estimates, name, values)
    }

    /// The sentence of a trust row with `{key}` replaced by values.
    pub(super) fn trust(&self, name: &str, values: &[(&str, &str)]) -> String {
        fill(&self.trust, name, values)
    }
}

/// Replaces each `{key}` of a sentence in one pass, so that braces inside a value, such as a run's label, are not replaced.
fn fill(sentences: &Map<String, Value>, name: &str, values: &[(&str, &str)]) -> String {
    let mut rest = sentences.get(name).and_then(Value::as_str).unwrap_or(name);
    let mut text = String::with_capacity(rest.len());
    while let Some((before, (key, after))) = rest.split_once('{').and_then(|(a, b)| Some((a, b.split_once('}')?))) {
        text += before;
        text += values.iter().find(|(name, _)| *name == key).map_or("", |(_, value)| *value);
        rest = after;
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_end_with_a_period_and_reasons_have_a_remedy() {
        let rules = Rules::embedded();
        for sentence in
            [&rules.reasons, &rules.warnings, &rules.estimates, &rules.trust].into_iter().flat_map(Map::values)
        {
            assert!(sentence.as_str().unwrap().ends_with('.'), "{sentence}");
        }
        for (name, reason) in &rules.reasons {
            let (why, remedy) =
                reason.as_str().unwrap().rsplit_once(". ").unwrap_or_else(|| panic!("{name}: no remedy"));
            let verb = remedy.split(' ').next().unwrap();
            let verbs = ["Analyze", "Capture", "Compare", "Copy", "Mark", "Open", "Select", "Use"];
            assert!(verbs.contains(&verb) && !why.is_empty(), "{name}: {remedy}");
        }
    }

    #[test]
    fn thresholds_are_in_a_sensible_range() {
        let thresholds = Rules::embedded().thresholds;
        assert!(thresholds.min_steps_for_noise >= 2, "one value has no spread");
        assert!(thresholds.noise_standard_errors > 0.0);
        assert!(thresholds.max_launch_ratio > 1.0 && thresholds.notable_work_per_step_ratio > 1.0);
    }

    #[test]
    fn braces_inside_a_value_are_not_replaced() {
        let values = [("run", "{baseline}"), ("baseline", "A"), ("b", "x"), ("a", "y")];
        let reason = Rules::embedded().reason("rules", &values);
        assert!(reason.starts_with("{baseline} was categorized with the rules x, A with y."), "{reason}");
    }
}
