//! The catalog and its switches as they stand in `patterns/`, with their words made ready to be searched.

use super::words::{Near, Part, Words};
use crate::analysis::triage::Framework;
use serde::Deserialize;
use std::sync::LazyLock;

/// `patterns/fuse_overlap_catalog.json` and `patterns/toggles.json`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Catalog {
    /// What the file's fields mean.
    pub(super) about: String,
    /// Words in the names of devices.
    pub(super) hardware: DeviceWords,
    /// When work that no family explains is a row of its own.
    pub(super) new: NewWork,
    /// When an unexplained chain resembles a family.
    pub(super) similarity: Weights,
    /// Every known family.
    pub(super) families: Vec<Family>,
}

/// Words that tell hardware by the name of a device; whole words, as the product is named.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct DeviceWords {
    /// NVIDIA's of compute capability 9.
    pub(super) hopper: Vec<String>,
    /// NVIDIA's of compute capability 10 and 12.
    pub(super) blackwell: Vec<String>,
}

/// When work that no family explains is a row of its own.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NewWork {
    /// For readers of the file.
    pub(super) about: String,
    /// Categories of kernels that a fused kernel can take in.
    pub(super) fusable: Vec<String>,
    /// Of the stage's sum of durations, a part of a hundred.
    pub(super) min_share_pct: f64,
    /// A chain that runs less often is no pattern.
    pub(super) min_launches: u64,
    /// Of a communication kernel: with no other work on its device, a part of a hundred.
    pub(super) min_alone_pct: f64,
}

/// Points for each kind of signal that a chain and a family share, and what a level asks for.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Weights {
    /// For readers of the file.
    pub(super) about: String,
    /// Smaller chains are not compared; of the stage's sum of durations, a part of a hundred.
    pub(super) min_share_pct: f64,
    /// The categories follow each other on one stream as the family has them.
    pub(super) chain: u32,
    /// A gate of the family in the stack, or a function named much like one of its.
    pub(super) function: u32,
    /// No function, but a source file of the family in the stack.
    pub(super) file: u32,
    /// A CPU op named much like one of the family's.
    pub(super) op: u32,
    /// What "much like" is.
    pub(super) near: Near,
    /// The family needs tensor parallelism, and the run has it.
    pub(super) tensor_parallel: u32,
    /// The family is of a model, and the run is of that model.
    pub(super) model: u32,
    /// The strictest first.
    pub(super) levels: Vec<Level>,
}

/// What a level of similarity asks for.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Level {
    /// `high`, `medium` or `low`.
    pub(super) level: String,
    /// At least so many points.
    pub(super) points: u32,
    /// From at least so many kinds of signals.
    pub(super) kinds: usize,
    /// The chain must be among them.
    pub(super) chain: bool,
}

/// A known fused kernel or overlap.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Family {
    /// Stable.
    pub(super) id: String,
    /// For people.
    pub(super) name: String,
    /// Where it comes from.
    pub(super) origin: Origin,
    /// `fuse`, `overlap` or both; with the kind of model where it is not a language model.
    pub(super) kind: String,
    /// How far it is.
    pub(super) status: Status,
    /// Pull requests of its origin.
    #[serde(default)]
    pub(super) prs: Vec<u32>,
    /// In names of kernels, CPU ops and functions: with one of them the family runs.
    #[serde(default)]
    pub(super) names: Words,
    /// The same in names of kernels alone.
    #[serde(default)]
    pub(super) kernels: Words,
    /// The same in names of functions alone.
    #[serde(default)]
    pub(super) functions: Words,
    /// Functions that choose the fused path or run the plain one.
    #[serde(default)]
    pub(super) gates: Words,
    /// Source files.
    #[serde(default)]
    pub(super) files: Vec<String>,
    /// Words of options.
    #[serde(default)]
    pub(super) flags: Vec<String>,
    /// What it runs on; any where none is told.
    pub(super) hardware: Option<Hardware>,
    /// At least so many ranks of tensor parallelism.
    #[serde(default)]
    pub(super) tp: u32,
    /// In the name of the model, its module or its file; any where none is told.
    #[serde(default)]
    pub(super) model: Words,
    /// Categories of kernels in a row on one stream that the family would join.
    #[serde(default)]
    pub(super) chain: Vec<String>,
    /// The kernels that run in a row in its place.
    #[serde(default)]
    pub(super) apart: Vec<Part>,
    /// The most tokens of a step that its kernel takes; more run the parts.
    pub(super) max_tokens: Option<u64>,
    /// Its id among the fuse patterns, where that differs.
    pub(super) pattern: Option<String>,
    /// What it does, a sentence.
    pub(super) note: String,
}

/// Where a family comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Origin {
    /// SGLang.
    Sglang,
    /// vLLM.
    Vllm,
    /// TensorRT-LLM.
    Trtllm,
    /// TokenSpeed.
    Tokenspeed,
    /// FlashInfer, a library under all of them.
    Flashinfer,
}

impl Origin {
    /// For people.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Sglang => "SGLang",
            Self::Vllm => "vLLM",
            Self::Trtllm => "TensorRT-LLM",
            Self::Tokenspeed => "TokenSpeed",
            Self::Flashinfer => "FlashInfer",
        }
    }

    /// How near it is to a run of this framework.
    pub(super) fn to(self, framework: Framework) -> Relation {
        match (self, framework) {
            (Self::Sglang, Framework::Sglang)
            | (Self::Vllm, Framework::Vllm)
            | (Self::Trtllm, Framework::TrtLlm)
            | (Self::Tokenspeed, Framework::TokenSpeed) => Relation::Own,
            (Self::Flashinfer, _) => Relation::Library,
            _ => Relation::Elsewhere,
        }
    }
}

/// How near a family is to the framework that ran, the nearest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Relation {
    /// The framework's own.
    Own,
    /// Of a library that the framework may call.
    Library,
    /// Another framework's.
    Elsewhere,
}

/// How far a family is, the furthest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Status {
    /// In its origin's main branch.
    Mainline,
    /// Proposed there.
    InFlight,
    /// Proposed and closed; kept for reference.
    Closed,
}

/// What a family runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Hardware {
    /// NVIDIA.
    Cuda,
    /// NVIDIA Hopper.
    Hopper,
    /// NVIDIA Blackwell.
    Blackwell,
    /// AMD.
    Rocm,
    /// Ascend.
    Npu,
}

/// A switch of known families.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Toggle {
    /// As its framework names it.
    pub(super) toggle: String,
    /// Whose it is.
    pub(super) framework: Origin,
    /// What it switches.
    pub(super) effect: String,
    /// Ids of the families that it bears on.
    pub(super) families: Vec<String>,
    /// How server arguments spell it, where that is not its name.
    pub(super) keys: Option<Vec<String>>,
    /// Of a choice, the words that turn its families on.
    #[serde(default)]
    pub(super) values: Vec<String>,
    /// What holds where it is not set.
    pub(super) default: Option<Position>,
    /// What it does to its families when it is on.
    #[serde(default)]
    pub(super) turns: Turns,
}

/// Where a switch stands by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Position {
    /// On.
    On,
    /// Off.
    Off,
}

/// What a switch that is on does to its families.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Turns {
    /// They run.
    #[default]
    On,
    /// They do not run.
    Off,
    /// They run in another way.
    Changes,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Switches {
    #[allow(dead_code, reason = "for readers of the file")]
    about: String,
    toggles: Vec<Toggle>,
}

static CATALOG: LazyLock<Catalog> = LazyLock::new(|| {
    #[allow(clippy::expect_used, reason = "a file of this crate, read by a test")]
    serde_json::from_str(include_str!("../../../../patterns/fuse_overlap_catalog.json"))
        .expect("patterns/fuse_overlap_catalog.json")
});

static TOGGLES: LazyLock<Vec<Toggle>> = LazyLock::new(|| {
    #[allow(clippy::expect_used, reason = "a file of this crate, read by a test")]
    let switches: Switches =
        serde_json::from_str(include_str!("../../../../patterns/toggles.json")).expect("patterns/toggles.json");
    switches.toggles
});

impl Catalog {
    /// The catalog that is built in.
    ///
    /// # Panics
    /// Never: the file is part of the program, and a test holds that it parses.
    pub(super) fn embedded() -> &'static Self {
        &CATALOG
    }
}

impl Toggle {
    /// All switches that are built in.
    ///
    /// # Panics
    /// Never: the file is part of the program, and a test holds that it parses.
    pub(super) fn embedded() -> &'static [Self] {
        &TOGGLES
    }
}

impl Family {
    /// Its id among the fuse patterns.
    pub(super) fn pattern(&self) -> &str {
        self.pattern.as_deref().unwrap_or(&self.id)
    }
}
