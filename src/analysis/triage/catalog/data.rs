//! The schema of the catalog and its switches (`patterns/fuse_overlap_catalog.json`, `patterns/toggles.json`).

use super::name_words::{ChainPart, NearMatch, Words};
use crate::analysis::triage::Framework;
use crate::json::embedded;
use serde::Deserialize;
use std::sync::LazyLock;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Catalog {
    /// Description of the fields, for readers of the file.
    pub(super) about: String,
    pub(super) hardware: DeviceWords,
    pub(super) new: NewWork,
    pub(super) similarity: Weights,
    pub(super) families: Vec<Family>,
}

/// Words that identify hardware in device names; they match whole words.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct DeviceWords {
    /// NVIDIA GPUs with compute capability 9.
    pub(super) hopper: Vec<String>,
    /// NVIDIA GPUs with compute capability 10 or 12.
    pub(super) blackwell: Vec<String>,
}

/// Work that no family explains.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewWork {
    pub(super) about: String,
    /// Categories of kernels that can be fused.
    pub(super) fusable: Vec<String>,
}

/// Points for each kind of signal that a chain and a family share, and the requirements of the levels.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Weights {
    pub(super) about: String,
    /// Minimum share of a chain in the stage's sum of durations, in percent.
    pub(super) min_share_pct: f64,
    /// The categories of the family occur in order on one stream.
    pub(super) chain: u32,
    /// A gate function of the family is in the stack, or a function with a similar name.
    pub(super) function: u32,
    /// A source file of the family is in the stack, but no function.
    pub(super) file: u32,
    /// A CPU op has a name similar to one of the family.
    pub(super) op: u32,
    pub(super) near: NearMatch,
    /// The family needs tensor parallelism, and the run has it.
    pub(super) tensor_parallel: u32,
    /// The family is for the model of the run.
    pub(super) model: u32,
    /// Strictest first.
    pub(super) levels: Vec<Level>,
}

/// The requirements of a level of similarity.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Level {
    /// `high`, `medium` or `low`.
    pub(super) level: String,
    pub(super) points: u32,
    /// Minimum number of kinds of signals.
    pub(super) kinds: usize,
    /// True if the chain must be one of the signals.
    pub(super) chain: bool,
}

/// A known fused kernel or overlap.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Family {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) origin: Origin,
    /// `fuse`, `overlap` or both; with the kind of model in parentheses if it is not a language model.
    pub(super) kind: String,
    pub(super) status: Status,
    /// Pull requests in its origin.
    #[serde(default)]
    pub(super) prs: Vec<u32>,
    /// Words in kernel names, CPU ops or functions that show that the family runs.
    #[serde(default)]
    pub(super) names: Words,
    /// The same, in kernel names only.
    #[serde(default)]
    pub(super) kernels: Words,
    /// The same, in function names only.
    #[serde(default)]
    pub(super) functions: Words,
    /// Functions that choose between the fused and the unfused path.
    #[serde(default)]
    pub(super) gates: Words,
    #[serde(default)]
    pub(super) files: Vec<String>,
    #[serde(default)]
    pub(super) flags: Vec<String>,
    /// Required hardware; any if `None`.
    pub(super) hardware: Option<Hardware>,
    /// Minimum number of tensor-parallel ranks.
    #[serde(default)]
    pub(super) tp: u32,
    /// Words in the name of the model, its module or its file; any model if empty.
    #[serde(default)]
    pub(super) model: Words,
    /// Categories of consecutive kernels on a stream that the family would join.
    #[serde(default)]
    pub(super) chain: Vec<String>,
    /// The separate kernels that the family would replace, in order.
    #[serde(default, rename = "apart")]
    pub(super) unfused: Vec<ChainPart>,
    /// Token limit of its kernel per step; larger steps run the separate kernels.
    pub(super) max_tokens: Option<u64>,
    /// Its id in the fuse patterns, if it differs.
    pub(super) pattern: Option<String>,
    pub(super) note: String,
}

/// The project that has a family or a switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Origin {
    /// A library that all frameworks use.
    Flashinfer,
    #[serde(untagged)]
    Framework(Framework),
}

impl Origin {
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Flashinfer => "FlashInfer",
            Self::Framework(framework) => framework.label(),
        }
    }

    pub(super) fn relation_to(self, framework: Framework) -> Relation {
        match self {
            Self::Flashinfer => Relation::Library,
            Self::Framework(own) if own == framework => Relation::Own,
            Self::Framework(_) => Relation::Elsewhere,
        }
    }
}

/// The relation of a family to the framework of the run, nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Relation {
    /// A family of this framework.
    Own,
    /// A family of a library that the framework may use.
    Library,
    /// A family of another framework.
    Elsewhere,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Status {
    /// In the main branch of its origin.
    Mainline,
    /// An open pull request.
    InFlight,
    /// A closed pull request; kept for reference.
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Hardware {
    /// Any NVIDIA GPU.
    Cuda,
    Hopper,
    Blackwell,
    /// NVIDIA GPUs of the Hopper or Blackwell generation.
    #[serde(rename = "hopper_blackwell")]
    HopperBlackwell,
    /// Any AMD GPU.
    Rocm,
    Npu,
}

/// An option or environment variable that affects families.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Toggle {
    /// Name in its framework.
    pub(super) toggle: String,
    pub(super) framework: Origin,
    pub(super) effect: String,
    pub(super) families: Vec<String>,
    /// Spellings in server arguments, if they differ from the name.
    pub(super) keys: Option<Vec<String>>,
    /// The texts that turn its families on. If empty, every text does except `off`, `false`, `none` and the like.
    #[serde(default)]
    pub(super) values: Vec<String>,
    pub(super) default: Option<Position>,
    /// Effect on its families when it is on.
    #[serde(default)]
    pub(super) turns: Turns,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Position {
    On,
    Off,
}

/// The effect of a switch that is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Turns {
    /// The families run.
    #[default]
    On,
    /// The families do not run.
    Off,
    /// The families run differently.
    Changes,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Switches {
    #[allow(dead_code, reason = "for readers of the file")]
    about: String,
    toggles: Vec<Toggle>,
}

pub(super) static CATALOG: LazyLock<Catalog> =
    LazyLock::new(|| embedded(serde_json::from_str(include_str!("../../../../patterns/fuse_overlap_catalog.json"))));

pub(super) static TOGGLES: LazyLock<Vec<Toggle>> = LazyLock::new(|| {
    let switches: Switches = embedded(serde_json::from_str(include_str!("../../../../patterns/toggles.json")));
    switches.toggles
});

impl Family {
    /// Its id in the fuse patterns.
    pub(super) fn pattern_id(&self) -> &str {
        self.pattern.as_deref().unwrap_or(&self.id)
    }
}
