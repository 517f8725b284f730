//! Classes, thresholds and words of the overlap table (`patterns/overlap.json`).

use crate::analysis::triage::Framework;
use serde::Deserialize;
use serde_json::{Map, Value};

/// What an op is to the sweep, by weight: of several ops beside one, the first of these is said to hide it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Other,
    Elementwise,
    Memory,
    Communication,
    Compute,
}

impl Class {
    fn of_word(word: &str) -> Self {
        match word {
            "compute" => Self::Compute,
            "communication" => Self::Communication,
            "memory" => Self::Memory,
            "elementwise" => Self::Elementwise,
            _ => Self::Other,
        }
    }

    /// Small math and moving memory: what hides well beside other work.
    pub(super) fn is_light(self) -> bool {
        matches!(self, Self::Elementwise | Self::Memory)
    }
}

/// See the module's head.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Rules {
    classes: Map<String, Value>,
    pub(super) thresholds: Thresholds,
    without_graphs: Map<String, Value>,
    recommendations: Map<String, Value>,
}

/// Times in microseconds, ratios as parts of one, shares as parts of a hundred.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Thresholds {
    /// What takes less in all is not worth a row.
    pub(super) least_total_us: f64,
    /// From this part on an op that runs alone has headroom.
    pub(super) headroom_ratio: f64,
    /// From this part on an op is hidden.
    pub(super) hidden_ratio: f64,
    /// The largest exposed communication of a stage is said from this share of the busy time on.
    pub(super) largest_exposure_pct: f64,
    /// Idle time is said from this share of the stage's wall on.
    pub(super) idle_pct: f64,
    /// A gap from this length on is a pause between pieces of work, as it is for the stage of a kernel.
    pub(super) pause_us: f64,
    /// A gap up to this is tight whatever the op's length.
    pub(super) tight_least_us: f64,
    /// A longer gap is never tight.
    pub(super) tight_most_us: f64,
    /// Between the two, a gap up to this part of the op's length is tight.
    pub(super) tight_ratio: f64,
    /// From this part of launches with a serial neighbour on the risk is high.
    pub(super) risk_ratio: f64,
    /// Only from this part of launches without any neighbour that could matter on is the risk low.
    pub(super) loose_ratio: f64,
    /// Streams meet where two or more of a device work for more than this share of the busy time.
    pub(super) streams_meet_pct: f64,
    /// Kernels of one stream that run into each other are mentioned from this share of the busy time on.
    pub(super) same_stream_overlap_pct: f64,
}

impl Rules {
    /// # Panics
    /// Never: the file is part of the program, and a test holds that it parses.
    #[allow(clippy::expect_used, reason = "the file is part of the program, and a test holds that it parses")]
    pub(super) fn embedded() -> Self {
        serde_json::from_str(include_str!("../../../../patterns/overlap.json")).expect("patterns/overlap.json parses")
    }

    /// The class of a category of gpuprism's own rules.
    pub(super) fn class(&self, category: &str) -> Class {
        Class::of_word(word(&self.classes, category))
    }

    /// See [`super::without_graphs`].
    pub(super) fn without_graphs(&self, framework: Framework) -> &str {
        let key = match framework {
            Framework::Sglang => "sglang",
            Framework::Vllm => "vllm",
            Framework::TrtLlm => "trtllm",
            Framework::TokenSpeed => "tokenspeed",
            Framework::Plain => "plain",
        };
        word(&self.without_graphs, key)
    }

    pub(super) fn recommendation(&self, key: &str) -> &str {
        word(&self.recommendations, key)
    }
}

fn word<'a>(words: &'a Map<String, Value>, key: &str) -> &'a str {
    words.get(key).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_category_of_the_own_rules_has_a_class_and_every_key_of_the_code_a_word() {
        let rules = Rules::embedded();
        let own: Value = serde_json::from_str(include_str!("../../../../patterns/gpuprism_engine_model.json")).unwrap();
        for category in own["gpuprism"]["default"].as_object().unwrap().values() {
            let category = category.as_str().unwrap();
            assert!(rules.classes.contains_key(category), "{category} has no class");
        }
        for word in rules.classes.values() {
            let known = ["compute", "communication", "memory", "elementwise", "other"];
            assert!(known.contains(&word.as_str().unwrap()), "{word}");
        }
        let all = [Framework::Sglang, Framework::Vllm, Framework::TrtLlm, Framework::TokenSpeed, Framework::Plain];
        assert!(all.iter().all(|framework| !rules.without_graphs(*framework).is_empty()));
        let keys = ["overlap", "fuse", "check", "skip", "launch", "wait"];
        assert!(keys.iter().all(|key| !rules.recommendation(key).is_empty()));
        assert_eq!(rules.recommendations.len(), keys.len());
    }

    #[test]
    fn thresholds_are_the_originals_where_it_has_them() {
        let thresholds = Rules::embedded().thresholds;
        assert_eq!((thresholds.least_total_us, thresholds.headroom_ratio, thresholds.hidden_ratio), (5.0, 0.45, 0.65));
        let tight = (thresholds.tight_least_us, thresholds.tight_most_us, thresholds.tight_ratio);
        assert_eq!(tight, (2.0, 20.0, 0.15));
    }
}
