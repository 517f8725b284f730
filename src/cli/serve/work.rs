//! What a worker of `serve` analyzes, as the server writes it to the standard input of the worker.

use crate::Error;
use gpuprism_server::api::{Answer, Failure, Job};
use serde::{Deserialize, Serialize};

/// What a worker does, in the folder of the trace.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Work {
    /// The name of the trace.
    pub(super) trace: String,
    /// The text of the phase map, if there is one.
    pub(super) phase_map: Option<String>,
    /// The most rows of the table of kernels.
    pub(super) kernel_limit: usize,
    /// The form of the answer.
    pub(super) answer: Form,
    /// The most CPU time of all threads together.
    pub(super) max_cpu_s: u64,
}

/// The form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Form {
    Json,
    JsonWithMarkdown,
    Artifacts,
}

impl Work {
    pub(super) fn of(job: &Job, max_cpu_s: u64) -> std::result::Result<Self, Failure> {
        // Under a name that tells the client nothing of the server's folders.
        let refused = |error| Failure::Input(Error::io("phase map", &error).to_string());
        let phase_map = job.phase_map.as_deref().map(std::fs::read_to_string).transpose().map_err(refused)?;
        Ok(Self {
            trace: job.trace.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            phase_map,
            kernel_limit: job.kernel_limit,
            answer: match job.answer {
                Answer::Json { with_markdown: true } => Form::JsonWithMarkdown,
                Answer::Json { with_markdown: false } => Form::Json,
                Answer::Artifacts => Form::Artifacts,
            },
            max_cpu_s,
        })
    }
}
