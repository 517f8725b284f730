//! What dominates the run, in a few figures and sentences: framework, model, arguments that bear on it, and what the
//! overlap reading rests on.

use super::kernels::KernelRow;
use super::view::View;
use crate::analysis::section::Section;

/// The columns of the table: one row a stage.
pub const COLUMNS: [&str; 6] = ["stage", "duration_ns", "busy_ns", "wall_ns", "launches", "dominated_by"];

/// Figures: `mode`, `framework`, `model`, `arguments`, `overlap_basis`; warnings are limits.
pub fn section(_view: &View, _rows: &[KernelRow]) -> Section {
    Section::new("Triage", "all of the tables below", &COLUMNS)
}
