//! What limits a run: one section a question, each a pure function of the trace, a file per family of questions.
//!
//! Every pass is a sweep over tables sorted by start, n log n at most; nothing joins tables by nested loops. Overlap and
//! idle time are per device, launches are joined within their process, and collectives are kernels, whatever ranges say.

mod collectives;
mod context;
mod copies;
mod counters;
mod idle;
mod intervals;
mod labels;
mod launches;
mod recapture;
mod streams;
#[cfg(test)]
mod testing;
mod timeline;

pub use context::{Context, NameKind};

use super::section::Section;
use std::collections::BTreeMap;

/// All sections of a report, by name.
pub type Sections = BTreeMap<String, Section>;

/// Answers every question about one trace that its data allow.
pub fn explain(context: &Context) -> Sections {
    let sections: [(&str, Section); 13] = [
        ("nccl_ops", collectives::nccl_ops(context)),
        ("nccl_rank_skew", collectives::nccl_rank_skew(context)),
        ("nccl_by_pid", collectives::nccl_by_pid(context)),
        ("nvlink_during_nccl", counters::nvlink_during_nccl(context)),
        ("nvlink_timeseries", counters::nvlink_timeseries(context)),
        ("roofline", counters::roofline(context)),
        ("gpu_idle", idle::gpu_idle(context)),
        ("gpu_idle_gaps", idle::gpu_idle_gaps(context)),
        ("copy_engine_events", copies::copy_engine_events(context)),
        ("launch_latency_rows", launches::launch_latency_rows(context)),
        ("launch_latency_histogram", launches::launch_latency_histogram(context)),
        ("stream_overlap", streams::stream_overlap(context)),
        ("timeline_events", timeline::timeline_events(context)),
    ];
    sections.into_iter().map(|(name, section)| (name.to_owned(), section)).collect()
}
