//! All sections of a report: one section answers one question, each a pure function of the trace. To add one, declare it in a module
//! with [`section!`](super::section::typed) and name it in [`declared!`] below.
//!
//! Every pass is a sweep over tables sorted by start, O(n log n) at most. Overlap and idle time are per device, launches are
//! joined within their process, and collectives are recognised by their kernels, not by the names of ranges.

use super::communication::{collectives, costs, ranks};
use super::compare;
use super::context::Context;
use super::findings;
use super::hardware::{counters, stage_counters};
use super::host::{barriers, idle, idle_blame, launch_latency};
use super::inference::{graph_coverage, layers, op_costs, speculation, step_floor, step_time_fit, unsuited_kernels};
use super::kernels::{copies, top_kernels};
use super::key_figures;
use super::section::{Answer, Section, SectionSpec, Sections, TypedSection};
use super::structure::{listed_steps, node_annotations, phases, ranges, slowest_step, step_budget, steps};
use super::time::{longest_events, streams};
use super::trust;

/// Whether this build computes sections. The page's first module shows only the first results, so that it stays small; the page
/// reads the trace again with the second module, which has the sections.
pub(crate) const ARE_COMPILED: bool = cfg!(any(not(target_arch = "wasm32"), feature = "full"));

type AnswerOf<S> = fn(&Context) -> S;

/// Lists the declared sections, each with the function that answers it. Other functions answer sections that only some traces
/// have; these are listed without one.
macro_rules! declared {
    ($($section:path $(= $function:path)?),* $(,)?) => {
        /// All declared sections.
        pub(crate) static SPECS: &[SectionSpec] = &[$(<$section as TypedSection>::SPEC),*];

        /// Answers the declared sections that every trace can have.
        fn answer_declared(context: &Context, sections: &mut Sections) {
            $($(($function(context) as Answer<$section>).put(sections);)?)*
        }
    };
}

declared! {
    idle::GpuIdle = idle::gpu_idle,
    idle::GpuIdleGaps = idle::gpu_idle_gaps,
    barriers::Sync = barriers::sync,
    barriers::SyncByPid = barriers::sync_by_pid,
    barriers::Barriers = barriers::barriers,
    launch_latency::LaunchLatencies,
    launch_latency::LaunchLatencyHistogram,
    idle_blame::IdleBlame = idle_blame::idle_blame,
    collectives::NcclOps = collectives::nccl_ops,
    collectives::NcclRankSkew = collectives::nccl_rank_skew,
    collectives::NcclByPid = collectives::nccl_by_pid,
    costs::CollectiveCosts = costs::collective_costs,
    ranks::sections::RankTimes,
    ranks::sections::RankCollectives,
    ranks::sections::RankWaits,
    ranks::sections::RankFiles,
    compare::sections::CompareSummary,
    compare::sections::CompareCategories,
    compare::sections::CompareKernels,
    compare::roles::CompareRoles,
    compare::roles::CompareFloor,
    compare::step_times::CompareStepTimes,
    key_figures::KeyFigures,
    trust::Trust,
    findings::Findings,
}

/// Answers every question about one trace that its data allow.
pub fn explain(context: &Context) -> Sections {
    let answers: &[(&str, AnswerOf<Section>)] = &[
        ("kernels_by_pid", top_kernels::kernels_by_pid),
        ("nvtx_ranges", ranges::nvtx_ranges),
        ("nvtx_kernel_time", ranges::nvtx_kernel_time),
        ("nvtx_by_pid", ranges::nvtx_by_pid),
        ("phase_split", phases::phase_split),
        ("steps", steps::steps),
        ("step_budget", step_budget::step_budget),
        ("slowest_step", slowest_step::slowest_step),
        ("step_list", listed_steps::step_list),
        ("graph_coverage", graph_coverage::graph_coverage),
        ("layers", layers::layers),
        ("layer_list", layers::layer_list),
        ("layer_roles", layers::layer_roles),
        ("op_costs", op_costs::op_costs),
        ("unsuited_kernels", unsuited_kernels::unsuited_kernels),
        ("step_floor", step_floor::step_floor),
        ("step_time_fit", step_time_fit::step_time_fit),
        ("nvlink_during_nccl", counters::nvlink_during_nccl),
        ("nvlink_timeseries", counters::nvlink_timeseries),
        ("roofline", counters::roofline),
        ("copy_engine_events", copies::copy_engine_events),
        ("stream_overlap", streams::stream_overlap),
        ("timeline_events", longest_events::timeline_events),
    ];
    let mut sections = Sections::new();
    for (name, section) in top_kernels::of_durations(context) {
        sections.insert(name.to_owned(), section);
    }
    let (latencies, histogram) = launch_latency::sections(context);
    latencies.put(&mut sections);
    histogram.put(&mut sections);
    answer_declared(context, &mut sections);
    for (name, answer) in answers {
        sections.insert((*name).to_owned(), answer(context));
    }
    if let Some(speculation) = speculation::speculation(context) {
        sections.insert("speculation".to_owned(), speculation);
    }
    if let Some(counters) = stage_counters::gpu_counters(context) {
        sections.insert("gpu_counters".to_owned(), counters);
    }
    if let Some(annotations) = node_annotations::graph_annotations(context) {
        sections.insert("graph_annotations".to_owned(), annotations);
    }
    if let Some(map) = context.phase_map {
        sections.insert("nvtx_phases".to_owned(), phases::nvtx_phases(context, map));
        sections.insert("nvtx_kernel_phases".to_owned(), phases::nvtx_kernel_phases(context, map));
    }
    trust::trust(context, &sections).put(&mut sections);
    findings::findings(context, &sections).put(&mut sections);
    sections
}

#[cfg(test)]
mod tests {
    use crate::trace::testing::TestTrace;

    #[test]
    fn a_section_without_data_suggests_a_capture_command() {
        let kernel_sections = ["kernels", "kernels_by_pid", "launch_storm", "launch_storm_by_pid"];
        let mut trace = TestTrace::nsys();
        let kernel_only = trace.kernel("k", 0..1).metric("DRAM Read Bandwidth [Throughput %]", &[(1, 1.0)]).sections();
        for (sections, names, command) in [
            (&TestTrace::nsys().sections(), &kernel_sections[..], "nsys profile"),
            (&TestTrace::new().sections(), &kernel_sections, "ProfilerActivity.CUDA"),
            (&kernel_only, &["sync", "sync_by_pid", "barriers", "launch_latency_rows"], "--trace=cuda,nvtx,osrt"),
            (&kernel_only, &["nvlink_during_nccl", "nvlink_timeseries"], "--gpu-metrics-devices=all"),
        ] {
            for name in names {
                let missing = sections[*name].missing.as_ref().unwrap();
                assert!(missing.recapture.contains(command), "{name}: {missing:?}");
            }
        }
    }
}
