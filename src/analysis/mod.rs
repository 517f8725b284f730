//! Pure functions from a trace to typed results, a file per question.

pub mod compare;
pub mod cube;
pub mod dashboard;
mod ends;
pub mod explain;
mod groups;
mod key_figures;
pub mod launched;
mod notices;
pub mod overlap;
mod pieces;
mod pivot;
pub mod ranks;
pub mod results;
mod rule_use;
mod run;
pub mod section;
pub mod shape;
mod spells;
pub mod strips;
pub mod triage;

pub use groups::Groups;
pub use pieces::{HAS_PIECES, Inside, Pieces};
pub use pivot::{Pivot, PivotRow, pivot};
pub use rule_use::rule_use;
pub use run::{Options, add_sections, analyze, first_results};

/// The part of a bar in which a device runs nothing, as gputrc2graph calls it.
pub const CPU: &str = "CPU (non-GPU)";
/// The part of a bar in which several ops run, where only exclusive time is owned.
pub const SHARED: &str = "shared by several ops";
