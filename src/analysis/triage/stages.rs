//! In which stage of serving an op ran: by the names of files and folders, and by annotations, the device's before the
//! host's.

use crate::trace::Trace;

/// A stage of serving.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Reads prompts; SGLang says extend.
    Prefill,
    /// Writes one token a request.
    Decode,
    /// Both in one batch.
    Mixed,
    /// A draft model's step.
    Draft,
    /// Verifies what a draft model wrote.
    Verify,
    /// A step without requests.
    Idle,
    /// A step of another kind.
    Other,
    /// No step is known.
    All,
}

impl Stage {
    /// In the order of tables.
    pub const ALL: [Self; 8] =
        [Self::Prefill, Self::Decode, Self::Mixed, Self::Draft, Self::Verify, Self::Idle, Self::Other, Self::All];

    /// As tables name it: `extend/prefill`, `decode`, `all`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Prefill => "extend/prefill",
            Self::Decode => "decode",
            Self::Mixed => "mixed",
            Self::Draft => "draft",
            Self::Verify => "verify",
            Self::Idle => "idle",
            Self::Other => "other",
            Self::All => "all",
        }
    }
}

/// The stage of every GPU op. What the file's name tells counts for all of them.
pub fn of_ops(trace: &Trace, file_stage: Stage) -> Vec<Stage> {
    vec![file_stage; trace.gpu_ops.len()]
}
