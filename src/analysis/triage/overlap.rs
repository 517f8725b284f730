//! The overlap-opportunity table: what runs alone although something could run beside it, and what is hidden already.

use super::kernels::KernelRow;
use super::view::View;
use crate::analysis::section::Section;

/// The columns of the table.
pub const COLUMNS: [&str; 14] = [
    "stage",
    "priority",
    "verdict",
    "kernel_name",
    "python_scope",
    "duration_ns",
    "share_pct",
    "wall_share_pct",
    "exclusive_pct",
    "hidden_pct",
    "hidden_by_compute_pct",
    "dep_risk",
    "recommendation",
    "basis",
];

/// The table of all stages.
pub fn section(_view: &View, _rows: &[KernelRow]) -> Section {
    Section::new("Overlap opportunities", "a sweep over the streams of each device", &COLUMNS)
}
