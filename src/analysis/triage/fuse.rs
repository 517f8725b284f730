//! The fuse-pattern table: known fusions that this run uses, could use, or that are on their way.

use super::kernels::KernelRow;
use super::stages::Stage;
use super::view::View;
use crate::analysis::section::Section;

/// A pattern that a stage shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Fusion {
    /// The stage.
    pub stage: Stage,
    /// The pattern's id in `patterns/fuse_patterns.json`.
    pub pattern: String,
    /// What the trace shows of it.
    pub status: Status,
    /// Places of its rows among all kernel rows.
    pub rows: Vec<usize>,
    /// Duration of the launches that take part.
    pub duration_ns: i64,
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
    /// Its parts run apart, and the fused path is not for this framework or hardware.
    NotApplicable,
}

/// The columns of the table.
pub const COLUMNS: [&str; 10] = [
    "stage",
    "pattern",
    "status",
    "confidence",
    "related_ns",
    "share_pct",
    "evidence",
    "python_location",
    "candidate_path",
    "rationale",
];

/// Every pattern that applies, in the order of tables.
pub fn matches(_view: &View, _rows: &[KernelRow]) -> Vec<Fusion> {
    Vec::new()
}

/// The table. `evidence`, `python_location` and `candidate_path` are lists, an item a line.
pub fn section(_view: &View, _fusions: &[Fusion]) -> Section {
    Section::new("Fuse patterns", "kernel names, CPU ops and functions, and what follows what on a stream", &COLUMNS)
}
