//! What limits a run: one section a question, each a pure function of the trace, a file per family of questions.
//!
//! Every pass is a sweep over tables sorted by start, n log n at most; nothing joins tables by nested loops. Overlap and
//! idle time are per device, launches are joined within their process, and collectives are kernels, whatever ranges say.

pub(super) mod attribution;
mod barriers;
mod blocked;
pub(super) mod collectives;
mod context;
mod copies;
mod counters;
mod findings;
#[cfg(test)]
mod golden;
mod host;
pub(super) mod idle;
pub(super) mod intervals;
mod kernel_times;
mod kernels;
mod labels;
mod launches;
mod one_kernel;
mod phases;
mod ranges;
mod recapture;
mod select;
mod stats;
mod steps;
mod streams;
mod survey;
#[cfg(test)]
mod testing;
mod timeline;

pub use attribution::{Around, AroundCalls, Attributed};
pub use context::{Context, Known, NameKind};
pub use kernel_times::Ran;
pub use launches::Waited;
pub use one_kernel::{Bin, Column, Histogram, OneKernel, OverTime, one_kernel};
pub use phases::{agrees, around_of};
pub use ranges::RangeTimes;
pub use survey::Surveyed;

use super::section::Section;
use std::collections::BTreeMap;

/// All sections of a report, by name.
pub type Sections = BTreeMap<String, Section>;

type Answer = fn(&Context) -> Section;

/// Answers every question about one trace that its data allow.
pub fn explain(context: &Context) -> Sections {
    let answers: [(&str, Answer); 22] = [
        ("kernels_by_pid", kernels::kernels_by_pid),
        ("sync", barriers::sync),
        ("sync_by_pid", barriers::sync_by_pid),
        ("barriers", barriers::barriers),
        ("nvtx_ranges", ranges::nvtx_ranges),
        ("nvtx_kernel_time", ranges::nvtx_kernel_time),
        ("nvtx_by_pid", ranges::nvtx_by_pid),
        ("phase_split", phases::phase_split),
        ("steps", steps::steps),
        ("nccl_ops", collectives::nccl_ops),
        ("nccl_rank_skew", collectives::nccl_rank_skew),
        ("nccl_by_pid", collectives::nccl_by_pid),
        ("nvlink_during_nccl", counters::nvlink_during_nccl),
        ("nvlink_timeseries", counters::nvlink_timeseries),
        ("roofline", counters::roofline),
        ("gpu_idle", idle::gpu_idle),
        ("gpu_idle_gaps", idle::gpu_idle_gaps),
        ("copy_engine_events", copies::copy_engine_events),
        ("launch_latency_rows", launches::launch_latency_rows),
        ("launch_latency_histogram", launches::launch_latency_histogram),
        ("stream_overlap", streams::stream_overlap),
        ("timeline_events", timeline::timeline_events),
    ];
    let mut sections = Sections::new();
    for (name, section) in kernels::of_durations(context) {
        sections.insert(name.to_owned(), section);
    }
    for (name, answer) in answers {
        sections.insert(name.to_owned(), answer(context));
    }
    if let Some(map) = context.phase_map {
        sections.insert("nvtx_phases".to_owned(), phases::nvtx_phases(context, map));
        sections.insert("nvtx_kernel_phases".to_owned(), phases::nvtx_kernel_phases(context, map));
    }
    let (critical_path, findings) = (findings::critical_path(&sections), findings::findings(context, &sections));
    sections.insert("critical_path".to_owned(), critical_path);
    sections.insert("findings".to_owned(), findings);
    sections
}
