//! Which serving framework ran, with which arguments, and in which role.

use super::Request;

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
}

/// `server_args.json`, whatever it holds; empty where there is none.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ServerArgs(pub serde_json::Map<String, serde_json::Value>);

/// The framework of a trace: what the person says, else by server arguments, then by what the trace itself shows.
pub fn framework(request: &Request) -> Framework {
    request.framework.unwrap_or(Framework::Plain)
}
