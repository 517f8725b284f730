//! What to capture, and the bounds.

use crate::data::DATA;
use crate::record::Graphs;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// What to capture.
#[derive(Debug, Clone)]
pub struct Options {
    /// The URL of the server, such as `http://127.0.0.1:30000`.
    pub server: String,
    /// The key that the server asks for. It is sent to the server and written nowhere.
    pub api_key: Option<String>,
    /// The folder to which traces and settings are written.
    pub out: PathBuf,
    /// The folder to which the server writes, as the server sees it.
    pub server_folder: Option<String>,
    /// Where that folder is visible on this machine, if under another path.
    pub shared_folder: Option<PathBuf>,
    /// The load while the profiler runs.
    pub traffic: Traffic,
    /// Steps to profile.
    pub steps: u32,
    /// The size of the probe.
    pub probe: ProbeSize,
    /// The longest time that the profiler runs; `None` is a default that depends on the load.
    pub seconds: Option<u32>,
    /// The largest size of all traces of one stage.
    pub max_bytes: u64,
    /// Whether the capture is one half of a pair with and without CUDA graphs.
    pub mapping: bool,
    /// Whether the server runs with CUDA graphs, if it does not tell.
    pub graphs: Option<Graphs>,
    /// The `config.json` of the model, to be kept with the traces.
    pub model_config: Option<PathBuf>,
    /// The version of gpuprism, for `capture.json`.
    pub version: String,
    /// How long to wait.
    pub pacing: Pacing,
}

impl Options {
    /// The defaults: prefill and decode probes of the original capture script.
    pub fn new(server: impl Into<String>, out: impl Into<PathBuf>) -> Self {
        Self {
            server: server.into(),
            api_key: None,
            out: out.into(),
            server_folder: None,
            shared_folder: None,
            traffic: Traffic::Probe(Workload::Both),
            steps: DATA.limits.steps,
            probe: ProbeSize::default(),
            seconds: None,
            max_bytes: DATA.limits.max_bytes,
            mapping: false,
            graphs: None,
            model_config: None,
            version: String::new(),
            pacing: Pacing::default(),
        }
    }

    pub(crate) fn longest(&self) -> Duration {
        let default = match self.traffic {
            Traffic::Own => DATA.limits.own_traffic_seconds,
            Traffic::Probe(_) | Traffic::Command(_) => DATA.limits.seconds,
        };
        Duration::from_secs(self.seconds.unwrap_or(default).into())
    }
}

/// The load while the profiler runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Traffic {
    /// Requests that this crate sends.
    Probe(Workload),
    /// Requests that others send anyway.
    Own,
    /// A command of the user that sends requests.
    Command(String),
}

/// What the probe makes the server do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Long prompts, one token each.
    Prefill,
    /// A short prompt, many tokens.
    Decode,
    /// Both, one after the other, in traces of their own.
    Both,
}

/// The size of the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeSize {
    /// Steps before the measurement.
    pub warmup_steps: u32,
    /// Requests of the decode probe, and the least number of requests of the prefill probe.
    pub requests: u32,
    /// Words of a prompt of the prefill probe; with most tokenizers a word is one token.
    pub prefill_input_words: u32,
    /// Tokens that the prefill probe asks for.
    pub prefill_output_tokens: u32,
    /// Words of a prompt of the decode probe.
    pub decode_input_words: u32,
    /// Tokens that the decode probe asks for; `None` is 2048, or the profiled steps if the server cannot count steps.
    pub decode_output_tokens: Option<u32>,
}

impl Default for ProbeSize {
    fn default() -> Self {
        let limits = &DATA.limits;
        Self {
            warmup_steps: limits.warmup_steps,
            requests: limits.probe_requests,
            prefill_input_words: limits.prefill_input_words,
            prefill_output_tokens: limits.prefill_output_tokens,
            decode_input_words: limits.decode_input_words,
            decode_output_tokens: None,
        }
    }
}

/// How long a capture waits. The defaults are in `patterns/capture.json`; tests wait less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacing {
    /// The time between two looks at the server's folder.
    pub poll: Duration,
    /// How long the size of a file must not change.
    pub stable: Duration,
    /// How long to wait for further ranks after the first complete trace.
    pub ranks: Duration,
    /// How long to look for the traces of a server on another machine.
    pub elsewhere: Duration,
    /// The time between the start of the profiler and the first request, instead of the framework's.
    pub start_delay: Option<Duration>,
    /// How long to wait for the traces, instead of the framework's time.
    pub wait: Option<Duration>,
    /// How long a load command runs before the profiler starts.
    pub load_lead: Duration,
    /// The longest time of one probe request.
    pub probe_request: Duration,
}

impl Default for Pacing {
    fn default() -> Self {
        let (waits, seconds) = (&DATA.waits, Duration::from_secs_f64);
        Self {
            poll: seconds(waits.poll_s),
            stable: seconds(waits.stable_s),
            ranks: seconds(waits.ranks_s),
            elsewhere: seconds(waits.elsewhere_s),
            start_delay: None,
            wait: None,
            load_lead: DATA.limits.load_lead(),
            probe_request: seconds(waits.probe_request_s),
        }
    }
}
