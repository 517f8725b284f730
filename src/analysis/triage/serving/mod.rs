//! Which serving framework ran, with which arguments, and in which role (`patterns/serving.json`).

mod arguments;
mod deployment;
mod parallel;

pub(super) use arguments::Role;
pub use arguments::{ModelShape, ServerArgs};
pub(super) use deployment::Deployment;
pub use deployment::Vendor;
pub(super) use parallel::{rank_labels, tensor_parallel};

use super::Request;
use crate::rules::engines::{Engines, Evidence};
use crate::rules::needle::{Haystack, Needle};
use crate::trace::Trace;
use serde::Deserialize;

/// A serving framework.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Framework {
    /// SGLang.
    Sglang,
    /// vLLM.
    Vllm,
    /// TensorRT-LLM.
    TrtLlm,
    /// TokenSpeed.
    TokenSpeed,
    /// None of them: PyTorch alone.
    Plain,
}

impl Framework {
    /// For people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Sglang => "SGLang",
            Self::Vllm => "vLLM",
            Self::TrtLlm => "TensorRT-LLM",
            Self::TokenSpeed => "TokenSpeed",
            Self::Plain => "PyTorch",
        }
    }

    /// As a person writes it on the command line, under any of its names; `None` for `auto` and for what no framework is
    /// called.
    ///
    /// ```
    /// use gpuprism::analysis::triage::Framework;
    /// assert_eq!(Framework::parse("TensorRT_LLM"), Some(Framework::TrtLlm));
    /// assert_eq!(Framework::parse("auto"), None);
    /// ```
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase().replace('_', "-");
        let data = Data::embedded();
        let known = data.frameworks.iter().find(|known| known.aliases.contains(&text))?;
        Self::of_id(&known.framework)
    }

    fn of_id(id: &str) -> Option<Self> {
        match id {
            "sglang" => Some(Self::Sglang),
            "vllm" => Some(Self::Vllm),
            "trtllm" => Some(Self::TrtLlm),
            "tokenspeed" => Some(Self::TokenSpeed),
            "plain" => Some(Self::Plain),
            _ => None,
        }
    }
}

/// `patterns/serving.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    frameworks: Vec<Known>,
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
struct Known {
    framework: String,
    /// What a person may call it.
    aliases: Vec<String>,
    /// Words of paths and of values of server arguments.
    words: Vec<String>,
    /// Server arguments that it alone has.
    keys: Vec<String>,
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
        // A test holds that it parses.
        serde_json::from_str(include_str!("../../../../patterns/serving.json")).unwrap_or_default()
    }

    /// The framework that a text names. One that names two names none.
    fn named(&self, text: &str) -> Option<Framework> {
        let text = Haystack::new(text);
        let has =
            |known: &&Known| known.words.iter().filter_map(|word| Needle::new(word)).any(|word| word.is_in(&text));
        let mut named = self.frameworks.iter().filter(has);
        let first = named.next()?;
        if named.next().is_some() { None } else { Framework::of_id(&first.framework) }
    }
}

/// The framework of a trace: what the person says, else what the server's arguments tell, the names of the file and its
/// folders, and the trace itself.
pub(super) fn framework(request: &Request) -> Framework {
    let data = Data::embedded();
    let said = request.framework.or_else(|| of_arguments(&data, request.server));
    said.or_else(|| of_path(&data, request.path)).or_else(|| of_trace(request.trace)).unwrap_or(Framework::Plain)
}

/// By arguments that one framework alone has, then by words in their values: a model's folder can be called anything.
fn of_arguments(data: &Data, server: &ServerArgs) -> Option<Framework> {
    let has_key = |known: &&Known| known.keys.iter().any(|key| server.find(key).is_some());
    let by_key = data.frameworks.iter().find(has_key).and_then(|known| Framework::of_id(&known.framework));
    by_key.or_else(|| server.texts().iter().find_map(|text| data.named(text)))
}

/// The nearest name counts: `vllm/compare/sglang-decode.json` is of SGLang.
fn of_path(data: &Data, path: &str) -> Option<Framework> {
    path.rsplit(['/', '\\']).find_map(|name| data.named(name))
}

fn of_trace(trace: &Trace) -> Option<Framework> {
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
