//! The kernel table: time, launches and code of every kernel name, per stage.

use super::sites::Found;
use super::stages::Stage;
use super::view::View;
use crate::analysis::section::Section;
use crate::trace::NameId;

/// All ops of one canonical name in one stage.
#[derive(Debug, Clone, PartialEq)]
pub struct KernelRow {
    /// The stage.
    pub stage: Stage,
    /// The canonical name.
    pub name: String,
    /// By gpuprism's own rules.
    pub category: String,
    /// The names in the trace that it stands for.
    pub ids: Vec<NameId>,
    /// Sum of durations.
    pub duration_ns: i64,
    /// How many ops.
    pub launches: u64,
    /// Of the sum of durations of the stage, a part of a hundred.
    pub share_pct: f64,
    /// Of the stage's busy time (the union over its ops, per device); can pass 100 on several streams.
    pub busy_share_pct: f64,
    /// Of the stage's wall time (first start to last end of its steps).
    pub wall_share_pct: f64,
    /// Where its ops come from, the most telling first.
    pub sites: Vec<RowSite>,
}

/// A place in the code that launches ops of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct RowSite {
    /// As in [`super::sites::Site::location`].
    pub location: String,
    /// The place to show.
    pub display: String,
    /// The most frequent stack there, outermost first.
    pub stack: Vec<String>,
    /// The most frequent CPU op there.
    pub cpu_op: String,
    /// How it was found.
    pub found: Found,
    /// How many ops.
    pub launches: u64,
    /// Sum of durations.
    pub duration_ns: i64,
}

/// All rows of all stages, in the order of stages, then by duration, largest first; nothing is cut.
pub fn rows(_view: &View) -> Vec<KernelRow> {
    Vec::new()
}

/// The columns of the kernel table.
pub const COLUMNS: [&str; 11] = [
    "stage",
    "kernel_name",
    "category",
    "duration_ns",
    "share_pct",
    "busy_share_pct",
    "wall_share_pct",
    "launches",
    "python_location",
    "cpu_op",
    "found",
];

/// The table: rows under the bar are counted in the summary, not shown. `python_location` and `cpu_op` are lists, an item
/// a line.
pub fn section(_view: &View, _rows: &[KernelRow]) -> Section {
    Section::new("Kernel table", "GPU ops, CPU ops and Python frames", &COLUMNS)
}
