//! The kernels that a serving engine launches in a forward pass (`engines.json`): names of real traces, with their roles.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The stage of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Prefill,
    Decode,
    Mixed,
    Draft,
    Verify,
    Training,
}

impl Stage {
    /// The label in reports.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Prefill => "extend/prefill",
            Self::Decode => "decode",
            Self::Mixed => "mixed",
            Self::Draft => "draft",
            Self::Verify => "verify",
            Self::Training => "training",
        }
    }

    /// Whether the engine runs the kernels for several tokens of each request.
    pub(crate) fn has_prefill_kernels(self) -> bool {
        matches!(self, Self::Prefill | Self::Mixed | Self::Verify)
    }
}

/// One kernel or copy of a pass.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kernel {
    /// The role in a layer; `head`, `tail`, `lm_head` and `sampling` outside of layers.
    pub(crate) role: String,
    name: String,
    /// The usual duration in decode.
    pub(crate) us: f64,
    /// The name in the first layer; empty if the kernel does not run there.
    first: Option<String>,
    /// The name in prefill.
    prefill: Option<String>,
    /// The name in decode if the engine decodes with prefill kernels.
    tensor_cores: Option<String>,
    /// `decode` if the kernel only runs there.
    only: Option<String>,
    /// Runs outside of piecewise graphs.
    #[serde(default)]
    pub(crate) eager: bool,
    /// Waits for another rank.
    #[serde(default)]
    pub(crate) waits: bool,
    /// Runs on a second stream.
    #[serde(default)]
    pub(crate) side: bool,
}

impl Kernel {
    /// The name in a pass; `None` if the kernel does not run in it.
    pub(crate) fn name_in(&self, stage: Stage, is_first_layer: bool, tensor_cores: bool) -> Option<&str> {
        let prefill = stage.has_prefill_kernels();
        if prefill && self.only.as_deref() == Some("decode") {
            return None;
        }
        let first = self.first.as_deref().filter(|_| is_first_layer);
        let of_prefill = self.prefill.as_deref().filter(|_| prefill);
        let of_cores = self.tensor_cores.as_deref().filter(|_| tensor_cores && !prefill);
        Some(first.or(of_prefill).or(of_cores).unwrap_or(&self.name)).filter(|name| !name.is_empty())
    }
}

/// A serving engine on one type of GPU.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Engine {
    pub(crate) name: String,
    /// `nvidia` or `amd`.
    pub(crate) vendor: String,
    pub(crate) device: String,
    /// The form of the step annotations: `sglang` or `vllm`.
    pub(crate) form: String,
    pub(crate) prologue: Vec<Kernel>,
    /// By kind: `full`, `sliding`.
    pub(crate) attention: BTreeMap<String, Vec<Kernel>>,
    /// By kind: `dense`, `moe`.
    pub(crate) mlp: BTreeMap<String, Vec<Kernel>>,
    pub(crate) tail: Vec<Kernel>,
}

/// The kind of a layer: the names of its two halves.
pub(crate) type LayerKind = (&'static str, &'static str);

impl Engine {
    /// The engine with this name.
    pub(crate) fn named(name: &str) -> Self {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            #[serde(rename = "about")]
            _about: String,
            engines: Vec<Engine>,
        }
        let file: File = serde_json::from_str(include_str!("engines.json")).unwrap();
        file.engines.into_iter().find(|engine| engine.name == name).unwrap()
    }

    pub(crate) fn is_amd(&self) -> bool {
        self.vendor == "amd"
    }

    /// The kernels of a layer of this kind.
    pub(crate) fn layer(&self, (attention, mlp): LayerKind) -> impl Iterator<Item = &Kernel> {
        self.attention[attention].iter().chain(&self.mlp[mlp])
    }
}
