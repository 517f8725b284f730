//! The table of fuse patterns: known fusions that this run uses, could use, or that are proposed upstream. Each distinct kernel name
//! and call site is matched once, then one pass over the ops of every stream finds chains.
//!
//! - **active**: a launch whose kernel name, CPU op or function matches one of the pattern's `active` needles. `confirmed` if the
//!   kernel name matches, `likely` if only the CPU op or function does.
//! - **split**: the parts of the pattern's chain run one after the other on one stream, in one stage. Between two parts there may be
//!   at most one op that only moves, sets or converts data (kind `filler`, copies and sets). Only launches in a chain are counted,
//!   each once. `likely` if at least a quarter of the launches that could start the chain do so, otherwise `possible`.
//! - **in flight**: a split whose fused path is not merged upstream.
//! - **not applicable**: a split whose fused path exists in this framework, but for other hardware, for fewer tokens than the
//!   smallest step of the stage has, or for smaller messages. It is dropped if it shares a launch with an applicable finding.
//!
//! Patterns of other frameworks or models, or for larger tensor-parallel groups, are ignored. If the model is unknown (no server
//! arguments and no model file in the Python frames), splits that apply only to certain models are ignored, but active kernels are
//! still reported. If two patterns with the same status cover the same launches, the one that `subsumes` the other keeps them.

mod matching;
mod patterns;
mod requirements;
mod table;

pub use matching::matches;
pub use patterns::{MessageLimit, Origin, Pattern, Patterns};
pub use requirements::Messages;
pub use table::section;
pub(crate) use table::{TriageFuse, table};

use crate::analysis::structure::stages::Stage;

/// A pattern found in a stage.
#[derive(Debug, Clone, PartialEq)]
pub struct Fusion {
    /// The stage in which it was found.
    pub stage: Stage,
    /// Id of the pattern in `patterns/fuse_patterns.json`.
    pub pattern: String,
    /// Whether the fused kernel runs, or its parts.
    pub status: Status,
    /// How certain the finding is.
    pub confidence: Confidence,
    /// Indices of its kernel rows, largest part first.
    pub rows: Vec<usize>,
    /// Number of launches that take part.
    pub launches: u64,
    /// The messages of its collectives.
    pub messages: Messages,
    /// Duration of the launches that take part.
    pub duration_ns: i64,
    /// The part of the busy time that these launches own, as in [`super::kernels::KernelRow::elapsed_ns`].
    pub elapsed_ns: i64,
    /// Share of the stage's busy time, in percent; `None` if the durations do not belong to their names.
    pub elapsed_share_pct: Option<f64>,
    /// Share of the sum of durations of the stage, in percent. The original tool shows this one.
    pub share_pct: f64,
    /// The largest parts: `name (1.2%)`.
    pub evidence: Vec<String>,
    /// Call sites: `forward @ python/sglang/srt/models/qwen3.py:310`.
    pub locations: Vec<String>,
}

/// The state of a fusion in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The fused kernel runs.
    Active,
    /// Its parts run separately, one after the other, and this framework has a fused path.
    Split,
    /// Its parts run separately, and the fused path is proposed upstream.
    InFlight,
    /// Its parts run separately, but the fused path does not support this hardware or number of tokens.
    NotApplicable,
}

impl Status {
    /// The label in the table.
    pub fn label(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Split => "split",
            Self::InFlight => "in flight",
            Self::NotApplicable => "not applicable",
        }
    }
}

/// The confidence of a finding; see the module documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confidence {
    /// The kernel name matches.
    Confirmed,
    /// The CPU op or function matches, or enough launches are in the chain.
    Likely,
    /// Only few launches are in the chain.
    Possible,
}

impl Confidence {
    /// The label in the table.
    pub fn label(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Likely => "likely",
            Self::Possible => "possible",
        }
    }
}
