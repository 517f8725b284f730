//! The triage of a torch trace: which kernels cost the time and which code launched them, where work could overlap, and
//! which known fusions are active, split or absent; a table each per stage of serving.
//!
//! The way of the data: [`View`] says of every GPU op what it is, in which stage it ran and which code launched it
//! (`sites`, `stages`). `kernels` sums ops into rows. `overlap` sweeps the ops, `fuse` and `catalog` look at rows and at
//! who follows whom on a stream. Every table is a [`crate::analysis::section::Section`] with a `stage` column, so that page, terminal and files
//! show the same numbers. Rules, words and catalogs are in `patterns/`.

pub mod call_sites;
mod captures;
pub mod catalog;
pub mod definitions;
pub mod frames;
pub mod fuse;
pub mod kernels;
pub(crate) mod overlap;
pub mod serving;
pub(crate) mod steps;
pub(crate) mod summary;
mod times;
mod view;

pub use crate::analysis::structure::stages::Stage;
pub use serving::{Framework, ModelShape, ServerArgs};
pub use view::{KernelName, View};

use crate::analysis::section::Sections;
use crate::trace::Trace;
use serde::Deserialize;

/// What the person chose.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Rows with a smaller share are counted, not shown; a part of a hundred.
    pub min_share_pct: f64,
    /// Rows of a stage's kernel table; 0 is all.
    pub kernel_table_limit: usize,
    /// Rows of a stage's overlap table; 0 is all.
    pub overlap_table_limit: usize,
    /// Only devices whose id holds this text.
    pub pid_substring: Option<String>,
    /// For the work of attention; otherwise the server's arguments may tell.
    pub model_shape: Option<ModelShape>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            min_share_pct: 1.0,
            kernel_table_limit: 0,
            overlap_table_limit: 0,
            pid_substring: None,
            model_shape: None,
        }
    }
}

/// One trace to triage and what is known beside it.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Read with its code.
    pub trace: &'a Trace,
    /// Where the trace was read from, for what its names tell; empty where that is not known.
    pub path: &'a str,
    /// The stage that the names of the file and its folders tell.
    pub file_stage: Stage,
    /// Traces of the same work that tell where its kernels come from: captured without CUDA graphs, or while graphs
    /// were captured. Empty: the trace tells for itself.
    pub mapping: &'a [&'a Trace],
    /// `server_args.json`.
    pub server: &'a ServerArgs,
    /// What the person says; otherwise it is told by server arguments, paths and the trace.
    pub framework: Option<Framework>,
    /// What the person chose.
    pub options: &'a Options,
}

/// All tables of the triage, by the name of their section: `triage_summary`, `triage_steps`, `triage_kernels`,
/// `triage_overlap`, `triage_fuse`, `triage_catalog`.
pub fn triage(request: &Request) -> Sections {
    let view = View::new(request);
    let rows = kernels::rows(&view);
    let mut sections = Sections::new();
    let mut put = |name: &str, section| sections.insert(name.to_owned(), section);
    put("triage_kernels", kernels::section(&view, &rows));
    let overlaps = overlap::section(&view, &rows);
    put("triage_summary", summary::section(&view, &rows, &overlaps));
    put("triage_overlap", overlaps);
    let fusions = fuse::matches(&view, &rows);
    put("triage_fuse", fuse::section(&view, &fusions));
    put("triage_catalog", catalog::section(&view, &rows, &fusions));
    put("triage_steps", steps::section(&view));
    sections
}

#[cfg(test)]
mod tests;
