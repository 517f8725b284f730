//! What limits a run: one section a question, each a pure function of the trace, a file per family of questions.
//!
//! Every pass is a sweep over tables sorted by start, n log n at most; nothing joins tables by nested loops. Overlap and
//! idle time are per device, launches are joined within their process, and collectives are kernels, whatever ranges say.

mod attribution;
mod barriers;
mod context;
#[cfg(test)]
mod golden;
mod kernels;
mod labels;
mod phases;
mod ranges;
mod recapture;
mod stats;
#[cfg(test)]
mod test_traces;

pub use context::{Context, NameKind};

use super::section::Section;
use std::collections::BTreeMap;

/// All sections of a report, by name.
pub type Sections = BTreeMap<String, Section>;

/// Answers every question about one trace that its data allow.
pub fn explain(context: &Context) -> Sections {
    let mut sections = vec![
        ("kernels", kernels::kernels(context)),
        ("kernels_by_pid", kernels::kernels_by_pid(context)),
        ("launch_storm", kernels::launch_storm(context)),
        ("launch_storm_by_pid", kernels::launch_storm_by_pid(context)),
        ("sync", barriers::sync(context)),
        ("sync_by_pid", barriers::sync_by_pid(context)),
        ("barriers", barriers::barriers(context)),
        ("nvtx_ranges", ranges::nvtx_ranges(context)),
        ("nvtx_kernel_time", ranges::nvtx_kernel_time(context)),
        ("nvtx_by_pid", ranges::nvtx_by_pid(context)),
        ("phase_split", phases::phase_split(context)),
    ];
    if let Some(map) = context.phase_map {
        sections.push(("nvtx_phases", phases::nvtx_phases(context, map)));
        sections.push(("nvtx_kernel_phases", phases::nvtx_kernel_phases(context, map)));
    }
    sections.into_iter().map(|(name, section)| (name.to_owned(), section)).collect()
}
