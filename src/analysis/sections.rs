//! All sections of a report: one section answers one question, each a pure function of the trace. To add one, declare it in a module
//! with `section!` of [`section::typed`](super::section::typed) and name it in `declared!` below.
//!
//! Every pass is a sweep over tables sorted by start, O(n log n) at most. Overlap and idle time are per device, launches are
//! joined within their process, and collectives are recognised by their kernels, not by the names of ranges.

use super::captured;
use super::communication::{collectives, costs, ranks};
use super::compare;
use super::context::Context;
use super::findings;
use super::hardware::{counters, memory_traffic, stage_counters};
use super::host::{barriers, between_steps, idle, idle_blame, launch_latency};
use super::inference::{graph_coverage, layers, op_costs, speculation, step_floor, step_time_fit, unsuited_kernels};
use super::kernels::{copies, duration_peaks, one_kernel, top_kernels};
use super::key_figures;
use super::replay;
use super::section::{Answer, SectionSpec, Sections, TypedSection};
use super::structure::{
    listed_steps, node_annotations, phases, ranges, slowest_step, start_up, step_budget, step_drift, step_parts, steps,
};
use super::time::{longest_events, streams};
use super::triage::{self, catalog, fuse, overlap, summary};
use super::trust;
use super::{rule_draft, rule_use};

/// Whether this build computes sections. The page's first module shows only the first results, so that it stays small; the page
/// reads the trace again with the second module, which has the sections.
pub(crate) const ARE_COMPILED: bool = cfg!(any(not(target_arch = "wasm32"), feature = "full"));

/// Lists the declared sections, each with the function that answers it. Other functions answer sections that only some traces
/// have, share their computation, or belong to one kernel; these are listed without one.
macro_rules! declared {
    ($($section:path $(= $function:path)?),* $(,)?) => {
        /// All declared sections, in no particular order: what is known of each without a trace.
        pub static SPECS: &[SectionSpec] = &[$(<$section as TypedSection>::SPEC),*];

        /// Answers the declared sections that every trace can have.
        fn answer_declared(context: &Context, sections: &mut Sections) {
            $($(($function(context) as Answer<$section>).put(sections);)?)*
        }
    };
}

declared! {
    idle::GpuIdle = idle::gpu_idle,
    idle::GpuIdleGaps = idle::gpu_idle_gaps,
    graph_coverage::GraphCoverage = graph_coverage::graph_coverage,
    layers::Layers = layers::layers,
    layers::LayerList = layers::layer_list,
    layers::LayerRoles = layers::layer_roles,
    op_costs::OpCosts = op_costs::op_costs,
    unsuited_kernels::UnsuitedKernels = unsuited_kernels::unsuited_kernels,
    step_floor::FloorOfSteps = step_floor::step_floor,
    step_time_fit::StepTimeFit = step_time_fit::step_time_fit,
    speculation::Speculation,
    summary::TriageSummary,
    triage::steps::TriageSteps,
    triage::kernels::TriageKernels,
    overlap::TriageOverlap,
    fuse::TriageFuse,
    catalog::TriageCatalog,
    captured::Captured,
    rule_use::RulesInForce,
    rule_use::RulesMisc,
    rule_draft::RuleDraft,
    start_up::StartUpTimes,
    steps::Steps = steps::steps,
    listed_steps::StepList = listed_steps::step_list,
    slowest_step::SlowestStep = slowest_step::slowest_step,
    step_budget::StepBudget = step_budget::step_budget,
    step_drift::StepDrift,
    step_parts::StepParts,
    phases::PhaseSplit = phases::phase_split,
    phases::RangePhases,
    phases::KernelPhases,
    ranges::Ranges = ranges::nvtx_ranges,
    ranges::RangeKernels = ranges::nvtx_kernel_time,
    ranges::RangesByProcess = ranges::nvtx_by_pid,
    node_annotations::GraphAnnotations,
    top_kernels::TopKernels,
    top_kernels::KernelsByProcess = top_kernels::kernels_by_pid,
    top_kernels::LaunchStorm,
    top_kernels::LaunchStormByProcess,
    one_kernel::Detail,
    one_kernel::FirstLaunches,
    one_kernel::Callers,
    one_kernel::Neighbours,
    duration_peaks::DurationPeaks,
    copies::CopyEngine = copies::copy_engine_events,
    counters::LinksDuringCollectives = counters::nvlink_during_nccl,
    counters::LinkSeries = counters::nvlink_timeseries,
    memory_traffic::Roofline = counters::roofline,
    stage_counters::StageCounters,
    streams::StreamOverlap = streams::stream_overlap,
    longest_events::LongestEvents = longest_events::timeline_events,
    barriers::Sync = barriers::sync,
    barriers::SyncByPid = barriers::sync_by_pid,
    barriers::Barriers = barriers::barriers,
    launch_latency::LaunchLatencies,
    launch_latency::LaunchLatencyHistogram,
    idle_blame::IdleBlame = idle_blame::idle_blame,
    between_steps::BetweenSteps = between_steps::between_steps,
    replay::sections::CriticalPathRows,
    replay::sections::WhatIf,
    replay::sections::ReplayTrust,
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
    compare::step_shifts::CompareSteps,
    compare::paths::ComparePaths,
    compare::roles::CompareRoles,
    compare::roles::CompareFloor,
    compare::step_times::CompareStepTimes,
    key_figures::KeyFigures,
    trust::Trust,
    findings::Findings,
}

/// Answers every question about one trace that its data allow.
pub fn explain(context: &Context) -> Sections {
    let mut sections = Sections::new();
    let (kernels, storm, storm_by_process) = top_kernels::of_durations(context);
    kernels.put(&mut sections);
    storm.put(&mut sections);
    storm_by_process.put(&mut sections);
    let (latencies, histogram) = launch_latency::sections(context);
    latencies.put(&mut sections);
    histogram.put(&mut sections);
    answer_declared(context, &mut sections);
    let replayed = replay::sections::replay_sections(context);
    replayed.path.put(&mut sections);
    replayed.what_if.put(&mut sections);
    replayed.trust.put(&mut sections);
    if let Some(start) = start_up::start_up(context) {
        start.put(&mut sections);
    }
    if let Some(drift) = step_drift::step_drift(context) {
        drift.put(&mut sections);
    }
    if let Some(parts) = step_parts::step_parts(context) {
        parts.put(&mut sections);
    }
    if let Some(speculation) = speculation::speculation(context) {
        speculation.put(&mut sections);
    }
    if let Some(counters) = stage_counters::gpu_counters(context) {
        counters.put(&mut sections);
    }
    if let Some(annotations) = node_annotations::graph_annotations(context) {
        annotations.put(&mut sections);
    }
    if let Some(map) = context.phase_map {
        phases::nvtx_phases(context, map).put(&mut sections);
        phases::nvtx_kernel_phases(context, map).put(&mut sections);
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
