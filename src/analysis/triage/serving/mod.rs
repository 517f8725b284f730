//! Detects the serving framework, its arguments, the tensor-parallel size and the deployment of a run, by the rules in
//! `patterns/serving.json`. Detection from the trace looks at each distinct name once.

mod arguments;
mod deployment;
mod parallel;

pub(super) use arguments::Role;
pub use arguments::{ModelShape, ServerArgs};
pub(super) use deployment::Deployment;
pub use deployment::Vendor;
pub(super) use parallel::{rank_label, tensor_parallel};

use super::Request;
use crate::json::embedded;
use crate::rules::engines::{Engines, Evidence};
use crate::rules::needle::Haystack;
use crate::trace::Trace;
use serde::Deserialize;

/// A serving framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framework {
    /// SGLang.
    Sglang,
    /// vLLM.
    Vllm,
    /// TensorRT-LLM.
    TrtLlm,
    /// TokenSpeed.
    TokenSpeed,
    /// No serving framework, only PyTorch.
    Plain,
}

impl Framework {
    /// The display name.
    pub fn label(self) -> &'static str {
        match self {
            Self::Sglang => "SGLang",
            Self::Vllm => "vLLM",
            Self::TrtLlm => "TensorRT-LLM",
            Self::TokenSpeed => "TokenSpeed",
            Self::Plain => "PyTorch",
        }
    }

    /// Parses any alias of a framework, as on the command line. Returns `None` for `auto` and for unknown names.
    ///
    /// ```
    /// use gpuprism::analysis::triage::Framework;
    /// assert_eq!(Framework::parse("TensorRT_LLM"), Some(Framework::TrtLlm));
    /// assert_eq!(Framework::parse("auto"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase().replace('_', "-");
        Data::embedded().frameworks.iter().find(|rules| rules.aliases.contains(&text)).map(|rules| rules.framework)
    }

    /// The option that turns CUDA graphs off, so that a trace shows the call site of each kernel.
    pub(super) fn without_graphs(self) -> String {
        let rules = Data::embedded().frameworks.into_iter().find(|rules| rules.framework == self);
        rules.map(|rules| rules.without_graphs).unwrap_or_default()
    }
}

/// The content of `patterns/serving.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    frameworks: Vec<FrameworkRules>,
    vendors: Vec<deployment::VendorWords>,
    model: Vec<String>,
    tensor_parallel: Vec<String>,
    layers: Vec<String>,
    heads: Vec<String>,
    head_dim: Vec<String>,
    hidden: Vec<String>,
    roles: Vec<RoleKey>,
    arguments: Vec<String>,
    meaningful_null: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FrameworkRules {
    framework: Framework,
    /// Names on the command line.
    aliases: Vec<String>,
    /// Words in paths and in values of server arguments.
    words: Vec<String>,
    /// Server arguments that only this framework has.
    keys: Vec<String>,
    /// See [`Framework::without_graphs`].
    without_graphs: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleKey {
    key: String,
    prefill: Vec<String>,
    decode: Vec<String>,
}

impl Data {
    fn embedded() -> Self {
        embedded(serde_json::from_str(include_str!("../../../../patterns/serving.json")))
    }

    /// The framework that a text names. Returns `None` if it names two.
    fn framework_in(&self, text: &str) -> Option<Framework> {
        let text = Haystack::new(text);
        let mut named = self.frameworks.iter().filter(|rules| text.contains_any(&rules.words));
        let first = named.next()?;
        named.next().is_none().then_some(first.framework)
    }
}

/// The framework of a trace. The choice of the user comes first, then server arguments, the names of the file and its
/// folders, and the trace itself.
pub(super) fn framework(request: &Request) -> Framework {
    let data = Data::embedded();
    let chosen = request.framework.or_else(|| from_arguments(&data, request.server));
    let detected = chosen.or_else(|| from_path(&data, request.path)).or_else(|| from_trace(request.trace));
    detected.unwrap_or(Framework::Plain)
}

/// Arguments that only one framework has are checked first, because the words in values are less reliable: a model folder can
/// have any name.
fn from_arguments(data: &Data, server: &ServerArgs) -> Option<Framework> {
    let has_key = |rules: &&FrameworkRules| rules.keys.iter().any(|key| server.find(key).is_some());
    let by_key = data.frameworks.iter().find(has_key).map(|rules| rules.framework);
    by_key.or_else(|| server.texts().iter().find_map(|text| data.framework_in(text)))
}

/// The file name comes first, then the nearest folder: `vllm/compare/sglang-decode.json` is SGLang.
fn from_path(data: &Data, path: &str) -> Option<Framework> {
    path.rsplit(['/', '\\']).find_map(|name| data.framework_in(name))
}

fn from_trace(trace: &Trace) -> Option<Framework> {
    let engines = Engines::embedded();
    let mut guess = engines.guess();
    trace.engine_hints.python_frames.iter().for_each(|name| guess.add(Evidence::Frame, name.as_bytes()));
    if let Some(code) = &trace.code {
        code.frames.names.iter().for_each(|name| guess.add(Evidence::Frame, name.as_bytes()));
    }
    trace.engine_hints.annotations.iter().for_each(|name| guess.add(Evidence::Annotation, name.as_bytes()));
    trace.names.iter().for_each(|name| guess.add(Evidence::Kernel, name.as_bytes()));
    guess.label().and_then(Framework::parse)
}

#[cfg(test)]
mod tests;
