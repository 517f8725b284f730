//! What a trace shows about the category of its GPU ops apart from their names: a cache that windows share.
//!
//! `analysis::categories` computes it once for the whole trace. A window of the trace gets the same entries, so that a
//! kernel has the same category in every window.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use serde::Serialize;

use crate::json::from_json;

/// How the category of a kernel was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CategorySource {
    /// A built-in rule matches the name.
    Rule,
    /// A rule of the user matches the name.
    UserRule,
    /// The framework op that launched it, for example `aten::convolution`.
    Op,
    /// The Python code that launched it, for example `rotary_embedding.py`.
    Frame,
    /// The profiler recorded it as the kernel of a collective.
    Collective,
    /// The kernels before and after it on its stream.
    Neighbours,
    /// The NVTX range or annotation around its launch.
    Range,
    /// Nothing: neither a rule nor the trace shows a category.
    #[default]
    None,
}
from_json!(CategorySource =
    "rule" => Rule,
    "user_rule" => UserRule,
    "op" => Op,
    "frame" => Frame,
    "collective" => Collective,
    "neighbours" => Neighbours,
    "range" => Range,
    "none" => None
);

impl CategorySource {
    /// The word of the JSON output.
    pub fn word(self) -> &'static str {
        match self {
            Self::Rule => "rule",
            Self::UserRule => "user_rule",
            Self::Op => "op",
            Self::Frame => "frame",
            Self::Collective => "collective",
            Self::Neighbours => "neighbours",
            Self::Range => "range",
            Self::None => "none",
        }
    }

    /// The trace shows the category, not a rule.
    pub fn is_from_trace(self) -> bool {
        !matches!(self, Self::Rule | Self::UserRule | Self::None)
    }

    /// A phrase for tooltips.
    pub fn phrase(self) -> &'static str {
        match self {
            Self::Rule => "category from a built-in name rule",
            Self::UserRule => "category from your name rule",
            Self::Op => "category from the framework op that launches it",
            Self::Frame => "category from the Python code that launches it",
            Self::Collective => "category from the recorded collective",
            Self::Neighbours => "category from the kernels before and after it",
            Self::Range => "category from the range around its launch",
            Self::None => "no rule matches the name and the trace shows no category",
        }
    }
}

/// Category and source by the name of the op as in the file.
pub type EvidenceByName = HashMap<String, (String, CategorySource), RandomState>;

/// Categories that follow from the trace, by op name. Computed when first needed.
#[derive(Debug, Clone, Default)]
pub struct CategoryEvidence(OnceLock<Arc<EvidenceByName>>);

/// A derived value does not make two traces differ.
impl PartialEq for CategoryEvidence {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl CategoryEvidence {
    /// Returns the entries, or computes and keeps them.
    pub fn get_or_compute(&self, compute: impl FnOnce() -> EvidenceByName) -> &EvidenceByName {
        self.0.get_or_init(|| Arc::new(compute()))
    }
}
