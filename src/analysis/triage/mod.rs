//! The triage of a torch.profiler trace of an LLM server: which kernels cost the time, which code launched them, which
//! work could overlap, and which known fusions are active, split or absent. Each table has a row group per serving stage.
//! Input is a trace read with its code ([`crate::trace::HostCode`]: CPU ops, Python frames, external ids). The cost is a few
//! linear passes over the GPU ops, plus sorting the CPU ops, frames and annotations by time.
//!
//! ```text
//! bytes -> input (Reader::with_code) -> Trace with HostCode -> View -> kernel rows -> Sections
//! ```
//!
//! [`View`] resolves three things for every GPU op once: its canonical kernel name, its stage and its call site. The
//! tables only aggregate and sweep.
//!
//! | section | one row per | module |
//! |---|---|---|
//! | `triage_summary` | stage; also mode, framework, model, arguments and warnings | `summary` |
//! | `triage_steps` | stage: steps, batch size, tokens, time, attention work | `steps` |
//! | `triage_kernels` | kernel name | [`kernels`] |
//! | `triage_overlap` | kernel name | `overlap`, `patterns/overlap.json` |
//! | `triage_fuse` | fusion pattern | [`fuse`], `patterns/fuse_patterns.json` |
//! | `triage_catalog` | known optimization family | [`catalog`], `patterns/fuse_overlap_catalog.json` |
//!
//! The tables share these modules:
//!
//! | module | result |
//! |---|---|
//! | [`call_sites`] | the code that launched an op |
//! | [`frames`] | canonical kernel names, displayed source locations, priorities of Python frames (`patterns/frames.json`) |
//! | [`crate::analysis::structure::stages`] | the stage of an op, the steps of the engine |
//! | [`serving`] | framework, server arguments, tensor-parallel size, deployment (`patterns/serving.json`) |
//! | `roof` | the distance of the largest kernels to the limits of the GPU |
//! | `times` | kernel, busy and wall time by stage and device |
//! | `captures` | which captured launch a kernel of a graph replay corresponds to |
//!
//! Rules that every table follows:
//!
//! - Rows have a `stage` column and are in the order of [`Stage::ALL`]. A cell with a list has one item per line.
//! - A kernel row is one canonical name in one stage. [`kernels::rows`] computes the rows once, all tables use them.
//! - The wall time of a stage is the time from the first start to the last end of its ops, summed over devices. The
//!   overlap table uses another denominator: busy time plus the gaps that the stage's ops end, without pauses. Its column
//!   is therefore named `unpaused_share_pct`.
//! - Ranks that were merged into one file reuse the same ids. Correlation ids, external ids, Python frame ids and
//!   annotations are therefore matched within one process only. A device belongs to one rank: its id contains the label.
//! - Ops without a stream (-1) have no order, so no chain of ops includes them.
//! - Search words of patterns match at word boundaries (`rules::needle`) and only in the field that they are meant for.
//! - `session::triage` builds a run from these sections, and `report::triage` formats the report alone. A report that
//!   is read back therefore prints the same.

pub mod call_sites;
mod captures;
pub mod catalog;
pub mod definitions;
pub mod frames;
pub mod fuse;
mod kernel_names;
pub mod kernels;
pub(crate) mod overlap;
pub mod roof;
pub mod serving;
pub(crate) mod steps;
pub(crate) mod summary;
mod times;
mod view;

pub use crate::analysis::structure::stages::Stage;
pub use kernel_names::KernelName;
pub use serving::{Framework, ModelShape, ServerArgs};
pub use view::View;

use crate::analysis::section::Sections;
use crate::trace::Trace;
use serde::Deserialize;

/// Options of a triage.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Options {
    /// Rows with a smaller share, in percent, are hidden and only counted.
    pub min_share_pct: f64,
    /// Maximum number of rows per stage in the kernel table; 0 means no limit.
    pub kernel_table_limit: usize,
    /// Maximum number of rows per stage in the overlap table; 0 means no limit.
    pub overlap_table_limit: usize,
    /// Restricts the triage to devices whose id contains this text.
    pub pid_substring: Option<String>,
    /// Model dimensions for the attention work. If `None`, they are read from the server arguments.
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

impl Options {
    /// Whether the triage includes the device with this id.
    fn selects(&self, device: &str) -> bool {
        self.pid_substring.as_ref().is_none_or(|text| device.contains(text))
    }
}

/// One trace to triage, with its context.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The trace, read with its code.
    pub trace: &'a Trace,
    /// The path that the trace was read from, used to detect the framework; empty if unknown.
    pub path: &'a str,
    /// The stage that the names of the file and its folders state.
    pub file_stage: Stage,
    /// Mapping traces: traces of the same workload, recorded without CUDA graphs or while graphs were captured. They
    /// provide call sites for kernels of graph replays. May be empty.
    pub mapping: &'a [&'a Trace],
    /// The content of `server_args.json`.
    pub server: &'a ServerArgs,
    /// The framework that the user named. If `None`, it is detected from server arguments, path and trace.
    pub framework: Option<Framework>,
    /// The options.
    pub options: &'a Options,
}

/// Computes all tables of the triage, keyed by section name: `triage_summary`, `triage_steps`, `triage_kernels`,
/// `triage_overlap`, `triage_fuse`, `triage_catalog`.
pub fn triage(request: &Request) -> Sections {
    let view = View::new(request);
    let rows = kernels::rows(&view);
    let roofs = roof::Roofs::new(&view, &rows);
    let overlaps = overlap::table(&view, &rows);
    let fusions = fuse::matches(&view, &rows);
    let mut sections = Sections::new();
    kernels::table(&view, &rows).put(&mut sections);
    summary::table(&view, &rows, &overlaps, &roofs).put(&mut sections);
    overlaps.put(&mut sections);
    fuse::table(&view, &fusions, &roofs).put(&mut sections);
    catalog::table(&view, &rows, &fusions, &roofs).put(&mut sections);
    steps::table(&view).put(&mut sections);
    sections
}

#[cfg(test)]
mod tests;
