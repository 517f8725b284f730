//! The parts of the interface that only the full module has, loaded on demand: exports, comparison, dashboard, sharing, rules,
//! pivot, ranks, triage, the timeline, one kernel in detail and databases.

mod captures;
mod dashboard;
mod database;
mod extracts;
mod headline;
mod kernel;
mod model;
mod pivot;
mod ranks;
mod rules;
mod share;
mod timeline;
pub(super) mod timeline_cache;
mod tools;
mod triage;
mod windows;

pub use captures::{GraphCaptures, capture_details};
pub use database::read_database;
pub use pivot::Pivot;
pub use ranks::Ranks;
pub use tools::Tools;
pub use triage::{Triage, choose_files, is_capture};
