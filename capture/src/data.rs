//! The facts about the frameworks, from `patterns/capture.json`, and the words for profile files, which gpuprism reads, too.

use serde::{Deserialize, Serialize};
use std::sync::LazyLock;
use std::time::Duration;

/// A serving framework whose servers can be captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Framework {
    /// SGLang.
    Sglang,
    /// vLLM.
    Vllm,
    /// TensorRT-LLM (`trtllm-serve`).
    Trtllm,
    /// TokenSpeed.
    Tokenspeed,
}

impl Framework {
    /// The name as its project writes it.
    pub fn title(self) -> &'static str {
        self.facts().map_or("", |facts| &facts.title)
    }

    pub(crate) fn facts(self) -> Option<&'static Facts> {
        DATA.frameworks.iter().find(|facts| facts.framework == self)
    }
}

/// `patterns/capture.json`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Data {
    pub(crate) frameworks: Vec<Facts>,
    /// Last words of the names of settings whose values are not written to `server_args.json`.
    pub(crate) secrets: Vec<String>,
    pub(crate) graph_settings: Vec<GraphSetting>,
    /// Settings whose product is the number of ranks; each with its names.
    pub(crate) rank_settings: Vec<Vec<String>>,
    /// Settings with the folder of the traces.
    pub(crate) folder_settings: Vec<String>,
    /// Settings with the folder of the model.
    pub(crate) model_settings: Vec<String>,
    /// Settings of a server with SGLang's second profiler, which takes other requests.
    pub(crate) profiler_v2_settings: Vec<String>,
    /// Settings that make traces better or worse.
    pub(crate) advice: Vec<Advice>,
    pub(crate) limits: Limits,
    pub(crate) waits: Waits,
}

/// What is known about one framework.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Facts {
    pub(crate) framework: Framework,
    pub(crate) title: String,
    /// Values of `owned_by` in the answer to `/v1/models`.
    pub(crate) owned_by: Vec<String>,
    /// Paths that answer with the server's settings.
    pub(crate) info_paths: Vec<String>,
    /// Members of that answer that identify the framework.
    pub(crate) info_keys: Vec<String>,
    /// The least time between the start of the profiler and the first request.
    start_delay_s: f64,
    /// How long to wait for the traces.
    wait_s: f64,
    /// Whether the profiler stops by itself after a number of steps.
    pub(crate) counts_steps: bool,
    /// Whether the start request names the folder to write to.
    pub(crate) takes_folder: bool,
    /// What to do if the server has no profiler endpoint.
    pub(crate) endpoint: String,
    /// What to do if the server asks for a key.
    pub(crate) key: String,
    /// Why the server may refuse to start the profiler.
    pub(crate) refused: String,
    /// The command that starts a server, if the server does not tell its own.
    pub(crate) launch: String,
    /// The flags that start it without CUDA graphs.
    pub(crate) graphs_off: String,
    /// A command that those flags need first.
    pub(crate) before_graphs_off: Option<String>,
}

impl Facts {
    pub(crate) fn start_delay(&self) -> Duration {
        Duration::from_secs_f64(self.start_delay_s)
    }

    pub(crate) fn wait(&self) -> Duration {
        Duration::from_secs_f64(self.wait_s)
    }
}

/// A server setting that tells whether CUDA graphs are off.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GraphSetting {
    /// A member at any depth, and members within it.
    pub(crate) path: Vec<String>,
    /// The values that turn graphs off.
    pub(crate) off: Vec<serde_json::Value>,
}

/// A setting that makes traces better or worse.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Advice {
    pub(crate) framework: Framework,
    /// A member of the settings, at any depth.
    pub(crate) setting: String,
    /// The value that is worth a line.
    pub(crate) value: serde_json::Value,
    /// What that value means for a trace.
    pub(crate) effect: String,
    pub(crate) remedy: String,
}

/// Defaults of the options, most of them those of the original capture script.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    pub(crate) steps: u32,
    pub(crate) warmup_steps: u32,
    pub(crate) probe_requests: u32,
    pub(crate) prefill_input_words: u32,
    pub(crate) prefill_output_tokens: u32,
    pub(crate) decode_input_words: u32,
    pub(crate) decode_output_tokens: u32,
    /// Steps profiled in addition: a server counts a step before it checks the count.
    pub(crate) guard_steps: u32,
    pub(crate) seconds: u32,
    pub(crate) own_traffic_seconds: u32,
    pub(crate) max_bytes: u64,
    load_lead_s: f64,
}

impl Limits {
    pub(crate) fn load_lead(&self) -> Duration {
        Duration::from_secs_f64(self.load_lead_s)
    }
}

/// How long to wait, in seconds.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Waits {
    pub(crate) poll_s: f64,
    pub(crate) stable_s: f64,
    pub(crate) ranks_s: f64,
    pub(crate) elsewhere_s: f64,
    pub(crate) short_request_s: f64,
    pub(crate) start_request_s: f64,
    pub(crate) probe_request_s: f64,
    pub(crate) stop_request_s: f64,
}

/// The part of `patterns/profile_folder.json` that is used here.
#[derive(Deserialize)]
pub(crate) struct FolderWords {
    /// Files with settings, which are no traces.
    pub(crate) settings: Vec<String>,
    /// Words in the names of files that are not the trace to look at.
    pub(crate) set_aside: Vec<SetAside>,
    /// Folders with traces of graph captures.
    pub(crate) capture_folders: Vec<String>,
}

#[derive(Deserialize)]
pub(crate) struct SetAside {
    pub(crate) word: String,
}

pub(crate) static DATA: LazyLock<Data> = LazyLock::new(|| embedded(include_str!("../../patterns/capture.json")));
pub(crate) static FOLDER_WORDS: LazyLock<FolderWords> =
    LazyLock::new(|| embedded(include_str!("../../patterns/profile_folder.json")));

/// Parses a data file that is part of the program. A test reads each of them, so the failure cannot reach a user.
pub(crate) fn embedded<T: serde::de::DeserializeOwned>(text: &str) -> T {
    #[expect(clippy::panic, reason = "the text is part of the program")]
    serde_json::from_str(text).unwrap_or_else(|error| panic!("a data file of the program is invalid: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_framework_has_facts_and_flags_that_turn_graphs_off() {
        for framework in [Framework::Sglang, Framework::Vllm, Framework::Trtllm, Framework::Tokenspeed] {
            let facts = framework.facts().unwrap();
            assert!(!facts.owned_by.is_empty() && !facts.graphs_off.is_empty(), "{framework:?}");
            assert!(facts.wait() > Duration::ZERO && facts.start_delay() > Duration::ZERO);
        }
        assert!(!DATA.secrets.is_empty() && !DATA.graph_settings.is_empty());
        assert!(FOLDER_WORDS.set_aside.iter().any(|aside| aside.word == "async_llm"));
    }
}
