//! The fuse-pattern table: known fusions that this run uses, could use, or that are on their way.
//!
//! What is said and from what:
//! - **active**: a launch whose kernel name, CPU op or function is one of the pattern's `active` needles. `confirmed` where
//!   the kernel's name says so, `likely` where only the op or function does.
//! - **split**: on one stream of one device and in one stage, the parts follow one another in the order of the pattern's
//!   chain. Next means the next op of the stream; one op may stand between two parts if it only moves, sets or converts data
//!   (kind `filler`, copies and sets). Only launches that take part are counted, each once. `likely` where at least a
//!   quarter of the launches that could begin the chain take part in it, otherwise `possible`.
//! - **in flight**: a split whose fused path is not merged upstream.
//! - **not applicable**: a split whose fused path exists in this framework, but for other hardware, or for fewer tokens than
//!   any step of the stage has. It is left out where one of its launches belongs to a finding that the person can use.
//!
//! Patterns of other frameworks, other models and smaller groups are not sought. A model that nothing tells (no server
//! arguments, no model file among the Python frames) leaves out splits that hold for certain models only; kernels that are
//! active prove themselves. Of two patterns of equal use over the same launches, the one that `subsumes` the other has them.

mod matching;
mod patterns;
mod run;
mod table;

pub use matching::matches;
pub use patterns::{Origin, Pattern, Patterns};
pub(super) use run::fewest_tokens;
pub use table::{COLUMNS, section};

use crate::analysis::structure::stages::Stage;

/// A pattern that a stage shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Fusion {
    /// The stage.
    pub stage: Stage,
    /// The pattern's id in `patterns/fuse_patterns.json`.
    pub pattern: String,
    /// What the trace shows of it.
    pub status: Status,
    /// How sure that is.
    pub confidence: Confidence,
    /// Places of its rows among all kernel rows, the largest part first.
    pub rows: Vec<usize>,
    /// How many launches take part.
    pub launches: u64,
    /// Duration of the launches that take part.
    pub duration_ns: i64,
    /// Of the sum of durations of the stage, a part of a hundred.
    pub share_pct: f64,
    /// The largest parts: `name (1.2%)`.
    pub evidence: Vec<String>,
    /// Where they come from: `forward @ python/sglang/srt/models/qwen3.py:310`.
    pub locations: Vec<String>,
}

/// What a trace shows of a fusion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// The fused kernel runs.
    Active,
    /// Its parts run apart, one after the other, and a fused path exists in this framework.
    Split,
    /// Its parts run apart, and the fused path is on its way upstream.
    InFlight,
    /// Its parts run apart, and the fused path is not for this hardware or so many tokens.
    NotApplicable,
}

impl Status {
    /// As the table says it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Split => "split",
            Self::InFlight => "in flight",
            Self::NotApplicable => "not applicable",
        }
    }
}

/// How sure a finding is; the module's head says when it is what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confidence {
    /// The kernel's own name says it.
    Confirmed,
    /// The op, the function or most of the launches say it.
    Likely,
    /// Few of the launches say it.
    Possible,
}

impl Confidence {
    /// As the table says it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Likely => "likely",
            Self::Possible => "possible",
        }
    }
}
