//! Pure functions from a trace to typed results, a folder per question.

pub(crate) mod captured;
pub mod categories;
pub mod classified;
pub mod communication;
pub mod compare;
pub mod context;
pub mod dashboard;
#[cfg(not(target_arch = "wasm32"))]
pub mod doctor;
mod engine;
pub mod findings;
#[cfg(test)]
mod golden;
pub mod graph_captures;
pub mod hardware;
#[cfg(all(not(target_arch = "wasm32"), feature = "facts"))]
pub mod history;
pub mod host;
pub mod index;
pub mod inference;
pub mod kernels;
mod key_figures;
pub mod labels;
pub mod measure;
pub mod model_lines;
mod notices;
pub mod pivot;
pub mod recapture;
pub mod replay;
pub mod rest;
pub mod results;
pub mod rule_draft;
mod rule_use;
mod run;
pub mod section;
pub mod sections;
pub mod structure;
pub mod summary;
#[cfg(test)]
pub(crate) mod testing;
pub mod time;
pub mod timeline;
pub mod triage;
pub(crate) mod trust;
pub(crate) mod unit;
pub(crate) mod verdict;

pub use crate::rules::{CPU, GRAPHS, SHARED};
pub use kernels::groups::Groups;
pub use pivot::by_category::{Pivot, PivotRow, pivot};
pub use rule_use::rule_use;
pub(crate) use run::context_of;
pub use run::{Options, add_sections, analyze, first_results};
