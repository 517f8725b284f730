//! The catalog of known fusions and overlaps: which of them bear on this run, the switches that turn them on or off, and
//! at most one note on a family that the run resembles.

use super::fuse::Fusion;
use super::kernels::KernelRow;
use super::view::View;
use crate::analysis::section::Section;

/// The columns of the table.
pub const COLUMNS: [&str; 8] =
    ["stage", "family", "kind", "finding", "evidence", "source_location", "switches", "advice"];

/// Catalog rows that apply; the similarity note is the figure `similarity` with `similarity_level` and `similarity_why`.
pub fn section(_view: &View, _rows: &[KernelRow], _fusions: &[Fusion]) -> Section {
    Section::new("Known fusions and overlaps", "the catalog of fused kernels and overlaps", &COLUMNS)
}
