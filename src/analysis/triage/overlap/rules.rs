//! Classes, thresholds and texts of the overlap table (`patterns/overlap.json`).

use crate::json::embedded;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The class of an op in ascending weight. If several ops run concurrently with an op, the heaviest one counts as hiding it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Class {
    Other,
    Elementwise,
    Memory,
    Communication,
    Compute,
}

impl Class {
    /// True for elementwise and memory ops, which hide well under other work.
    pub(super) fn is_light(self) -> bool {
        matches!(self, Self::Elementwise | Self::Memory)
    }
}

/// The contents of the file.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Rules {
    classes: BTreeMap<String, Class>,
    pub(super) thresholds: Thresholds,
    recommendations: BTreeMap<String, String>,
    links: Vec<Link>,
}

/// The links of a device to the others of its node.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    /// A device matches if its name, in lower case, contains every word of `all` and none of `not`.
    all: Vec<String>,
    #[serde(default)]
    not: Vec<String>,
    /// Bandwidth per device and direction.
    gb_per_s: f64,
}

/// `_us` is in microseconds, `_ratio` a fraction of 1, `_pct` in percent.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Thresholds {
    /// Rows with a shorter total duration are dropped.
    pub(super) min_total_us: f64,
    /// A row has headroom if at least this part of its time is exclusive.
    pub(super) headroom_ratio: f64,
    /// A row is hidden if at least this part of its time is hidden.
    pub(super) hidden_ratio: f64,
    /// Idle time gets a row if it is at least this share of the stage's busy and idle time.
    pub(super) idle_pct: f64,
    /// Fewer idle gaps do not show how a program without graph replays runs.
    pub(super) min_idle_gaps: u64,
    /// Nor does idle time of which one gap is at least this part.
    pub(super) max_longest_gap_pct: f64,
    /// A gap of at least this length is a pause between unrelated work.
    pub(super) pause_us: f64,
    /// A gap up to this length is close for every op.
    pub(super) min_close_gap_us: f64,
    /// A longer gap is never close.
    pub(super) max_close_gap_us: f64,
    /// Between the two, a gap up to this part of the op's duration is close.
    pub(super) close_gap_ratio: f64,
    /// The risk is high if at least this part of the launches is serial.
    pub(super) high_risk_ratio: f64,
    /// The risk is low if at least this part of the launches is independent.
    pub(super) low_risk_ratio: f64,
    /// Streams overlap if two or more of a device work for more than this share of the busy time.
    pub(super) min_stream_overlap_pct: f64,
    /// Overlap of kernels on the same stream is mentioned above this share of the busy time.
    pub(super) same_stream_overlap_pct: f64,
}

impl Rules {
    pub(super) fn embedded() -> Self {
        embedded(serde_json::from_str(include_str!("../../../../patterns/overlap.json")))
    }

    /// The class of a category of gpuprism's own rules.
    pub(super) fn class(&self, category: &str) -> Class {
        self.classes.get(category).copied().unwrap_or(Class::Other)
    }

    /// The bandwidth of the links of this device; `None` if unknown.
    pub(super) fn link_gb_per_s(&self, device: &str) -> Option<f64> {
        let device = device.to_ascii_lowercase();
        let has = |word: &String| device.contains(word.as_str());
        self.links.iter().find(|link| link.all.iter().all(has) && !link.not.iter().any(has)).map(|link| link.gb_per_s)
    }

    pub(super) fn recommendation(&self, key: &str) -> &str {
        self.recommendations.get(key).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_category_has_a_class_and_every_key_has_a_text() {
        let rules = Rules::embedded();
        let own: serde_json::Value =
            serde_json::from_str(include_str!("../../../../patterns/gpuprism_engine_model.json")).unwrap();
        for category in own["gpuprism"]["default"].as_object().unwrap().values() {
            let category = category.as_str().or_else(|| category["category"].as_str()).unwrap();
            assert!(rules.classes.contains_key(category), "{category} has no class");
        }
        let keys = [
            "overlap",
            "fuse",
            "check",
            "prefetch",
            "skip",
            "keep",
            "serial",
            "ranks",
            "ranks_first",
            "launch",
            "prepare",
            "turnaround",
            "wait",
        ];
        assert!(keys.iter().all(|key| !rules.recommendation(key).is_empty()));
        assert_eq!(rules.recommendations.len(), keys.len());
    }

    #[test]
    fn thresholds_equal_those_of_the_original_tool() {
        let thresholds = Rules::embedded().thresholds;
        assert_eq!((thresholds.min_total_us, thresholds.headroom_ratio, thresholds.hidden_ratio), (5.0, 0.45, 0.65));
        let close_gap = (thresholds.min_close_gap_us, thresholds.max_close_gap_us, thresholds.close_gap_ratio);
        assert_eq!(close_gap, (2.0, 20.0, 0.15));
    }
}
