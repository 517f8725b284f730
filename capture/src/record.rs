//! `capture.json`: what was captured, from which server, and how.
//!
//! The file lies beside the traces. [`SCHEMA`] names its version: a reader refuses other versions. Names carry their unit.

use crate::data::Framework;
use crate::options::Workload;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The value of [`CaptureRecord::schema`].
pub const SCHEMA: &str = "gpuprism-capture/1";

/// The name of the file.
pub const FILE: &str = "capture.json";

/// The content of `capture.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CaptureRecord {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version of gpuprism that captured.
    pub gpuprism_version: String,
    /// The URL of the server, without a user name and password.
    pub server: String,
    /// The framework, as the server's answers tell.
    pub framework: Framework,
    /// The framework's version, if the server tells it.
    pub framework_version: Option<String>,
    /// The id of the served model, if the server tells it.
    pub model: Option<String>,
    /// When the capture began: milliseconds since 1970 on this machine's clock.
    pub started_unix_ms: u64,
    /// The options of the capture.
    pub settings: Settings,
    /// One entry per stage, and per half of a pair with and without graphs.
    pub captures: Vec<StageCapture>,
    /// What the user should know, one sentence each.
    pub notes: Vec<String>,
}

/// The options of a capture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Who sent the load.
    pub traffic: TrafficKind,
    /// What the probe made the server do; `null` without a probe.
    pub workload: Option<Workload>,
    /// The load command, if one was given.
    pub command: Option<String>,
    /// The steps asked for.
    pub steps: u32,
    /// Steps before the measurement.
    pub warmup_steps: u32,
    /// The longest time that the profiler was allowed to run.
    pub max_seconds: u64,
    /// The largest size of all traces of one stage.
    pub max_bytes: u64,
    /// Whether the capture is a pair with and without CUDA graphs.
    pub mapping: bool,
}

/// Who sent the load while the profiler ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TrafficKind {
    /// gpuprism's probe.
    Probe,
    /// Users of the server.
    Own,
    /// A command.
    Command,
}

/// The traces of one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageCapture {
    /// Which half of a pair this is.
    pub part: Part,
    /// The stage that the probe exercised; `null` without a probe.
    pub stage: Option<Stage>,
    /// Whether the server used CUDA graphs; `null` if unknown.
    pub graphs: Option<Graphs>,
    /// Whether the traces are here.
    pub state: State,
    /// The folder of the traces, relative to the folder of `capture.json`.
    pub folder: String,
    /// The folder to which the server wrote, as the server sees it.
    pub server_folder: String,
    /// A word in the names of the server's files of this stage, if the server was told one.
    pub file_word: Option<String>,
    /// When the profiler was started: milliseconds since 1970 on this machine's clock.
    pub started_unix_ms: u64,
    /// The body of the request that started the profiler; `null` if it had none.
    pub start_request: Option<serde_json::Value>,
    /// The probe; `null` without one.
    pub probe: Option<Probe>,
    /// The time of the same requests without the profiler, after the warm-up; `null` if it was not measured.
    pub unprofiled: Option<ProbeTime>,
    /// The time of the requests with the profiler. Only if all of them were profiled: a server that stops its profiler in the middle
    /// of a request also writes the trace during it. Else `null`.
    pub profiled: Option<ProbeTime>,
    /// The traces, by path.
    pub files: Vec<TraceFile>,
}

/// The requests of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Probe {
    /// Requests, one after the other.
    pub requests: u32,
    /// Words of each prompt; with most tokenizers a word is one token.
    pub input_words: u32,
    /// Tokens asked for per request.
    pub output_tokens: u32,
}

/// The wall time of a probe, measured by the client: it contains HTTP, tokenizing and scheduling.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ProbeTime {
    /// Requests that were answered.
    pub requests: u32,
    /// From the first request to the last answer.
    pub wall_ms: f64,
    /// `wall_ms` per request. For a prefill probe of one token this is about one step (several, if the prompt is split into
    /// chunks).
    pub ms_per_request: f64,
    /// The tokens that the answers count; `null` if they do not.
    pub output_tokens: Option<u64>,
    /// `wall_ms` per token. For a decode probe without speculative decoding this is about one step of batch size 1.
    pub ms_per_output_token: Option<f64>,
}

/// One trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceFile {
    /// The path, relative to the folder of `capture.json`.
    pub path: String,
    /// The size on disk.
    pub bytes: u64,
    /// Whether the trace contains GPU kernels.
    pub has_kernels: bool,
}

/// Which half of a pair a capture is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Not part of a pair.
    Single,
    /// The server as it is used, with CUDA graphs: `--formal-input` of `gpuprism triage`.
    Formal,
    /// Without CUDA graphs, so that kernels have call sites: `--mapping-input` of `gpuprism triage`.
    Mapping,
}

/// A stage of inference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Prompts are processed.
    Prefill,
    /// Tokens are generated.
    Decode,
}

impl Stage {
    /// The name of the stage's folder.
    pub fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
        }
    }
}

/// Whether the server replays CUDA graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Graphs {
    /// It does.
    On,
    /// It runs without graphs.
    Off,
}

/// Whether the traces of a stage are here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The traces are here and complete.
    Complete,
    /// The profiler ran, but its traces were not found: `gpuprism capture --resume` goes on when they are here.
    AwaitingFiles,
}

impl CaptureRecord {
    /// Reads `capture.json` of a folder.
    pub fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        let text = std::fs::read_to_string(&path).map_err(|error| Error::file(&path, &error))?;
        Self::parse(&text).map_err(|why| Error::failed(format!("{}: {why}", path.display())))
    }

    /// Parses the text of a `capture.json`. The error is a clause without the path.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        /// Read first, so that another version is named and not a missing field.
        #[derive(Deserialize)]
        struct Version {
            schema: String,
        }
        let version: Version =
            serde_json::from_str(text).map_err(|_| "not a capture.json of gpuprism: it has no `schema`".to_owned())?;
        if version.schema != SCHEMA {
            return Err(format!("has the schema `{}`, and this gpuprism reads `{SCHEMA}`", version.schema));
        }
        serde_json::from_str(text).map_err(|error| format!("not a valid capture.json: {error}"))
    }

    /// Writes `capture.json` to a folder. An interruption leaves either the old or the new file.
    pub(crate) fn write(&self, folder: &Path) -> Result<()> {
        let (path, part) = (folder.join(FILE), folder.join(format!("{FILE}.part")));
        let failed = |error: std::io::Error| Error::file(&path, &error);
        let mut text = serde_json::to_string_pretty(self).map_err(|error| failed(error.into()))?;
        text.push('\n');
        std::fs::write(&part, text).map_err(failed)?;
        std::fs::rename(&part, &path).map_err(failed)
    }

    /// Returns true if the traces of every stage are here.
    pub fn is_complete(&self) -> bool {
        self.captures.iter().all(|capture| capture.state == State::Complete)
    }
}
