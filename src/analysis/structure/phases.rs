//! Time by serving phase (prefill, decode, sampling), from words in range names or from the user's phase map.
//! The phase split uses kernel time if any kernel is linked to a range, otherwise the wall time of ranges.
//!
//! Time belongs to the nearest enclosing range that names a phase: a layer inside a decode step counts as
//! decode.

use super::call_ranges::CallRanges;
use super::kernel_time::KernelTimeByRange;
use super::phase_names::PhaseNames;
use super::range_times::self_times;
use super::ranges::{self, no_ranges, unless_attributable};
use crate::analysis::context::Context;
use crate::analysis::section::{Answer, Ms, Pct, TypedSection, section};
use crate::ordering::sorted_indices;
use crate::rules::PhaseMap;
use crate::trace::{NameId, Ns, Trace};

section! {
    /// Time by prefill, decode and sampling.
    pub(crate) struct PhaseSplit("phase_split", "Phases");
    row PhaseRow { phase: String, total_time_ms: Ms = "Total", pct_of_total: Pct, without_communication_ms: Option<Ms> }
    figures PhaseFigures { source: String }
}

section! {
    /// Wall time of ranges by the phases of the user.
    pub(crate) struct RangePhases("nvtx_phases", "Wall time by your phases");
    row RangePhaseRow { phase: String, total_time_ms: Ms = "Total", pct_of_nvtx_total: Pct = "Of time in ranges" }
    figures RangePhaseFigures { nvtx_total_time_ms: Ms = "Total" }
}

section! {
    /// Kernel time by the phases of the user.
    pub(crate) struct KernelPhases("nvtx_kernel_phases", "Kernel time by your phases");
    row KernelPhaseRow {
        phase: String,
        total_time_ms: Ms = "Total",
        pct_of_attributed_kernel_time: Pct = "Of kernel time in ranges",
    }
    figures KernelPhaseFigures { attributed_kernel_time_ms: Ms = "Kernel time" }
}

impl PhaseNames {
    /// Wall time by phase, without double counting of nested ranges.
    fn wall_time(&self, trace: &Trace) -> Vec<Ns> {
        let mut sums = vec![Ns::ZERO; self.phases.len()];
        let times = self_times(trace, &|range| self.phase(range).is_some());
        for (range, time) in (0..).map(NameId).zip(times) {
            let sum = self.phase(range).and_then(|phase| sums.get_mut(phase));
            sum.into_iter().for_each(|sum| *sum += time);
        }
        sums
    }

    /// Index, name and time of each phase, sorted by time; then the rest of `all`, with index `usize::MAX`.
    fn longest_first<'b>(&'b self, times: &[Ns], all: Ns, rest: &'b str) -> Vec<(usize, &'b str, Ns)> {
        let time = |phase: usize| times.get(phase).copied().unwrap_or_default();
        let ranked = sorted_indices(self.phases.len(), &|a, b| time(b).cmp(&time(a)));
        let phases =
            ranked.into_iter().filter_map(|phase| Some((phase, self.phases.get(phase)?.as_str(), time(phase))));
        let rest = (usize::MAX, rest, remainder(times, all));
        phases.filter(|row| row.2 > Ns::ZERO).chain([rest]).collect()
    }
}

fn remainder(times: &[Ns], all: Ns) -> Ns {
    times.iter().fold(all, |remainder, time| remainder - *time)
}

/// The wall time in which at least one range is open, summed over threads.
fn wall_time_in_ranges(trace: &Trace) -> Ns {
    self_times(trace, &|_| true).into_iter().fold(Ns::ZERO, |sum, own| sum + own)
}

/// Time by prefill, decode and sampling, from words in range names.
pub(crate) fn phase_split(context: &Context) -> Answer<PhaseSplit> {
    let trace = context.trace;
    if trace.ranges.is_empty() {
        return no_ranges(context);
    }
    let split = PhaseNames::by_words(trace, &context.signals);
    let kernel_time = &context.details().kernel_time;
    let by_kernels = kernel_time.inside().count > 0;
    let (source, derived_from, (times, communication), all): (_, _, (Vec<Ns>, Vec<Ns>), _) = if by_kernels {
        let derived_from = "kernel time by the nearest range around the launch that names a phase";
        let times = kernel_time.by_phase.iter().map(|phase| (phase.time, phase.communication)).unzip();
        ("nvtx_kernel_time", derived_from, times, kernel_time.all().total)
    } else {
        let derived_from =
            "wall time of the nearest range that names a phase, because no kernel was launched inside a range";
        ("nvtx_range_time", derived_from, (split.wall_time(trace), Vec::new()), wall_time_in_ranges(trace))
    };
    let mut answer = PhaseSplit::answer(derived_from)
        .limit("The phase comes from a word in the range name. A step with both prefill and decode counts as prefill.");
    answer = if by_kernels {
        answer
            .limit("Shares are of all kernel time. Kernels launched outside ranges with a phase are unclassified.")
            .limit(ranges::INNERMOST)
    } else {
        answer.limit("Shares are of the time in which a range is open, summed over threads.")
    };
    if times.iter().all(|time| *time == Ns::ZERO) {
        answer =
            answer.limit("No time belongs to a phase. If range names identify phases by other words, use a phase map.");
    }
    let communication_of_rest = remainder(&communication, kernel_time.communication);
    let row = |(index, phase, time): (usize, &str, Ns)| {
        let communication = communication.get(index).copied().unwrap_or(communication_of_rest);
        PhaseRow {
            phase: phase.to_owned(),
            total_time_ms: time.into(),
            pct_of_total: Pct::of(time, all),
            without_communication_ms: by_kernels.then(|| (time - communication).into()),
        }
    };
    answer
        .with_figures(PhaseFigures { source: source.to_owned() })
        .with_rows(split.longest_first(&times, all, "unclassified").into_iter().map(row))
}

/// Wall time of ranges by the phases of the user's phase map.
pub(crate) fn nvtx_phases(context: &Context, map: &PhaseMap) -> Answer<RangePhases> {
    let trace = context.trace;
    if trace.ranges.is_empty() {
        return no_ranges(context);
    }
    let split = PhaseNames::by_map(map, trace);
    let all = wall_time_in_ranges(trace);
    let phases = split.longest_first(&split.wall_time(trace), all, "unmapped");
    RangePhases::answer("the nearest range that matches the phase map")
        .limit("Time counts once per thread and is summed over threads. Unmapped is time inside other ranges only.")
        .with_figures(RangePhaseFigures { nvtx_total_time_ms: all.into() })
        .with_rows(phases.into_iter().map(|(_, phase, time)| RangePhaseRow {
            phase: phase.to_owned(),
            total_time_ms: time.into(),
            pct_of_nvtx_total: Pct::of(time, all),
        }))
}

/// Kernel time inside ranges by the phases of the user's phase map.
pub(crate) fn nvtx_kernel_phases(context: &Context, map: &PhaseMap) -> Answer<KernelPhases> {
    let trace = context.trace;
    if let Some(missing) = unless_attributable(context) {
        return missing;
    }
    let split = PhaseNames::by_map(map, trace);
    let ranges = CallRanges::of(trace, &split);
    let mut kernel_time = KernelTimeByRange::new(context, split.phases.len());
    for (row, op) in trace.gpu_ops.iter().enumerate() {
        kernel_time.add(context, &ranges.view(), row, &op);
    }
    let all = kernel_time.inside().total;
    let times: Vec<Ns> = kernel_time.by_phase.iter().map(|phase| phase.time).collect();
    let phases = split.longest_first(&times, all, "unmapped");
    KernelPhases::answer("kernel time by the nearest range around the launch that matches the phase map")
        .limit("Shares are of the kernel time inside any range. Unmapped is kernel time inside other ranges only.")
        .limit(ranges::INNERMOST)
        .with_figures(KernelPhaseFigures { attributed_kernel_time_ms: all.into() })
        .with_rows(phases.into_iter().map(|(_, phase, time)| KernelPhaseRow {
            phase: phase.to_owned(),
            total_time_ms: time.into(),
            pct_of_attributed_kernel_time: Pct::of(time, all),
        }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::sections::explain;
    use crate::analysis::testing::{figure, keys, rows};
    use crate::trace::testing::TestTrace;

    /// A decode step that contains a layer and a sampler, followed by a range without a phase.
    fn step() -> TestTrace {
        let mut trace = TestTrace::nsys();
        trace.range("decode step", 0..100).range("layer 3", 10..50);
        trace.range("sampler", 60..90).range("layer 3", 70..80).range("idle", 100..120);
        trace
    }

    /// The ranges of [`step`] with four kernels, the last launched outside all ranges.
    fn with_kernels() -> TestTrace {
        let mut trace = step();
        trace.launch(20..21).launches("k", 1_000..1_001_000).launch(75..76).launches("k", 1_000..2_001_000);
        trace.launch(110..111).launches("k", 1_000..4_001_000).launch(300..301).launches("k", 1_000..8_001_000);
        trace
    }

    #[test]
    fn kernel_time_belongs_to_the_nearest_range_that_names_a_phase() {
        let sections = with_kernels().sections();
        assert_eq!(
            rows(&sections, "phase_split", &keys::<PhaseSplit>()),
            ["sampling 2 13.333 2", "decode 1 6.667 1", "unclassified 12 80 12"],
            "a layer has the phase of the range around it"
        );
        let by_range = rows(&sections, "nvtx_kernel_time", &["range_name", "kernel_count", "total_kernel_time_ms"]);
        assert_eq!(by_range, ["idle 1 4", "layer 3 2 3"], "by range, kernel time belongs to the innermost range");
        assert!((figure(&sections, "nvtx_kernel_time", "coverage_pct") - 700.0 / 15.0).abs() < 1e-9);
        assert_eq!(figure(&sections, "nvtx_kernel_time", "kernels_outside_ranges"), 1.0);
    }

    #[test]
    fn every_phase_shows_its_time_without_communication() {
        let mut trace = with_kernels();
        for (start, duration) in [(20, 500_000), (300, 250_000)] {
            let kernel = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL";
            trace.launch(start..start + 1).launches(kernel, 1_000..1_000 + duration);
        }
        let sections = trace.sections();
        assert_eq!(
            rows(&sections, "phase_split", &["phase", "total_time_ms", "without_communication_ms"]),
            ["sampling 2 2", "decode 1.5 1", "unclassified 12.25 12"]
        );
    }

    #[test]
    fn coverage_counts_ranges_beyond_the_row_limit() {
        let mut trace = TestTrace::nsys();
        for start in (0..60).map(|index| index * 10) {
            trace
                .range(&format!("r{start}"), start..start + 9)
                .launch(start..start + 1)
                .launches("k", start..start + 1);
        }
        let sections = trace.sections();
        let section = &sections["nvtx_kernel_time"];
        assert_eq!((section.rows.len(), section.rows_in_all), (50, 60));
        assert_eq!(figure(&sections, "nvtx_kernel_time", "coverage_pct"), 100.0);
    }

    #[test]
    fn without_launches_wall_time_is_used_and_nested_ranges_count_once() {
        let sections = step().sections();
        assert_eq!(
            rows(&sections, "phase_split", &keys::<PhaseSplit>()),
            ["decode 0 58.333 -", "sampling 0 25 -", "unclassified 0 16.667 -"],
            "70, 30 and 20 of 120 ns"
        );
        assert_eq!(sections["phase_split"].summary.get("source").unwrap().text(), Some("nvtx_range_time"));
    }

    #[test]
    fn a_phase_map_divides_wall_and_kernel_time_and_lists_unmapped_time_last() {
        let trace = with_kernels().finish();
        assert!(!explain(&Context::new(&trace, 30)).contains_key("nvtx_phases"));
        let map = PhaseMap::parse("m", r#"{"other": "re:^idle$", "layers": ["LAYER"], "never": "x"}"#).unwrap();
        let sections = explain(&Context::new(&trace, 30).with_phase_map(Some(&map)));
        assert_eq!(
            rows(&sections, "nvtx_phases", &["phase", "pct_of_nvtx_total"]),
            ["layers 41.667", "other 16.667", "unmapped 41.667"],
            "50, 20 and 50 of 120 ns"
        );
        assert_eq!(
            rows(&sections, "nvtx_kernel_phases", &keys::<KernelPhases>()),
            ["other 4 57.143", "layers 3 42.857", "unmapped 0 0"]
        );
    }
}
