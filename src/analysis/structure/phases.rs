//! How time divides into prefill, decode and sampling, by words in ranges' names or by the person's own map.
//!
//! Time belongs to the nearest range around it whose name has a phase, from the innermost outwards: a layer inside a
//! decode step is decode.

use crate::analysis::context::Context;
use crate::analysis::recapture;
use crate::analysis::recapture::Lacks;
use crate::analysis::section::{Section, Value};
use crate::analysis::structure::launch_ranges::{Around, Attributed, own_wall_time};
use crate::analysis::structure::ranges;
use crate::analysis::structure::ranges::unless_attributable;
use crate::ordering::order;
use crate::rules::PhaseMap;
use crate::rules::phases::phases_of;
use crate::rules::signals::Signals;
use crate::trace::{NameId, Ns, Trace};

const SPLIT: [&str; 4] = ["phase", "total_time_ms", "pct_of_total", "without_communication_ms"];
const WALL: [&str; 3] = ["phase", "total_time_ms", "pct_of_nvtx_total"];
const KERNELS: [&str; 3] = ["phase", "total_time_ms", "pct_of_attributed_kernel_time"];

/// Time by phase; phases by the index that names have.
struct Split<'a> {
    names: Vec<&'a str>,
    /// The phase of each range name.
    phase_of: Vec<Option<usize>>,
}

impl<'a> Split<'a> {
    fn by_words(trace: &Trace, Signals { phases, .. }: &'a Signals) -> Self {
        let names = phases.iter().map(|phase| phase.phase.as_str()).collect();
        Self { names, phase_of: phases_of(phases, &trace.ranges.names) }
    }

    fn by_map(map: &'a PhaseMap, trace: &Trace) -> Self {
        let phase_of = trace.ranges.names.iter().map(|name| map.phase_of(name)).collect();
        Self { names: map.names().collect(), phase_of }
    }

    fn phase(&self, range: NameId) -> Option<usize> {
        self.phase_of.get(range.0 as usize).copied().flatten()
    }

    /// What lies around the calls of the trace whose ranges these are.
    fn around(&self, trace: &Trace) -> Around {
        Around::of(trace, &|range| self.phase(range))
    }

    /// Wall time by phase, each moment of a thread once.
    fn wall_time(&self, trace: &Trace) -> Vec<Ns> {
        let own = own_wall_time(trace, &|range| self.phase(range).is_some());
        self.sum((0..).map(NameId).zip(own))
    }

    fn sum(&self, times: impl Iterator<Item = (NameId, Ns)>) -> Vec<Ns> {
        let mut sums = vec![Ns::ZERO; self.names.len()];
        for (range, time) in times {
            let phase = self.phase(range).and_then(|phase| sums.get_mut(phase));
            phase.into_iter().for_each(|sum| *sum += time);
        }
        sums
    }

    /// The phases that have time, the longest first, and what is left of `all` under `rest`.
    fn rows(&self, section: &mut Section, times: &[Ns], all: Ns, rest: &str) {
        for (_, phase, time) in self.longest_first(times, all, rest) {
            section.row([phase.into(), Value::ms(time), Value::pct(time, all)]);
        }
    }

    /// A phase's place, name and time; `usize::MAX` for the rest.
    fn longest_first<'b>(&'b self, times: &[Ns], all: Ns, rest: &'b str) -> Vec<(usize, &'b str, Ns)> {
        let time = |phase: usize| times.get(phase).copied().unwrap_or_default();
        let places = order(self.names.len(), &|a, b| time(b).cmp(&time(a)));
        let named = places.into_iter().filter_map(|phase| Some((phase, *self.names.get(phase)?, time(phase))));
        let rest = (usize::MAX, rest, left(times, all));
        named.filter(|row| row.2 > Ns::ZERO).chain([rest]).collect()
    }
}

fn left(times: &[Ns], all: Ns) -> Ns {
    times.iter().fold(all, |left, time| left - *time)
}

pub(crate) fn no_ranges(trace: &Trace, title: &str, columns: &[&str]) -> Section {
    let recapture = recapture::command(trace.format, Lacks::Ranges);
    Section::missing(title, columns, "The trace holds no ranges: no NVTX range, no user annotation.", &recapture)
}

/// The wall time in which some range is open, summed over threads.
fn wall_time_of_all(trace: &Trace) -> Ns {
    own_wall_time(trace, &|_| true).into_iter().fold(Ns::ZERO, |sum, own| sum + own)
}

/// Kernel time by the innermost range around its launch, and by the nearest one whose name has a phase.
pub(crate) fn attributed(context: &Context) -> Attributed {
    let anew = context.around.is_none().then(|| Split::by_words(context.trace, &context.signals).around(context.trace));
    let around = context.around.or(anew.as_ref().map(Around::of_all));
    let phases = context.signals.phases.len();
    around.map_or_else(Attributed::default, |around| Attributed::of(context, phases, &around, context.inside()))
}

/// What lies around each call of a trace, which its parts can take from it: see [`Around::part`].
pub fn around_of(trace: &Trace) -> Around {
    Split::by_words(trace, &Signals::embedded()).around(trace)
}

/// Do the names of ranges say the same in a part of a trace as in all of it?
pub fn agrees(around: &Around, trace: &Trace, part: &Trace) -> bool {
    let signals = Signals::embedded();
    let split = Split::by_words(part, &signals);
    around.agrees(trace, part, &|range| split.phase(range))
}

/// Prefill, decode and sampling, by words.
pub(crate) fn phase_split(context: &Context) -> Section {
    const TITLE: &str = "Phases";
    let trace = context.trace;
    if trace.ranges.is_empty() {
        return no_ranges(trace, TITLE, &SPLIT);
    }
    let split = Split::by_words(trace, &context.signals);
    let attributed = context.attributed();
    let by_kernels = attributed.mapped.count > 0;
    let (source, derived_from, (times, messages), all) = if by_kernels {
        let derived_from = "kernel time by the nearest range around its launch that names a phase";
        ("nvtx_kernel_time", derived_from, attributed.by_phase.iter().copied().unzip(), attributed.all.total)
    } else {
        let derived_from =
            "wall time of the nearest range that names a phase, as no kernel has a launch inside a range";
        ("nvtx_range_time", derived_from, (split.wall_time(trace), Vec::new()), wall_time_of_all(trace))
    };
    let mut section = Section::new(TITLE, derived_from, &SPLIT)
        .limit("A phase is a word in the name of a range; a step that prefills and decodes counts as prefill.");
    section = if by_kernels {
        section
            .limit("Of all kernel time; unclassified is what no range with a phase launched.")
            .limit(ranges::INNERMOST)
    } else {
        section.limit("Of the time in which a range is open, summed over threads.")
    };
    if times.iter().all(|time| *time == Ns::ZERO) {
        section = section.limit("No range in use names a phase; a phase map can name phases by other words.");
    }
    section.figure("source", source);
    let messages_of_rest = left(&messages, attributed.all_communication);
    for (place, phase, time) in split.longest_first(&times, all, "unclassified") {
        let without = by_kernels.then(|| time - messages.get(place).copied().unwrap_or(messages_of_rest));
        section.row([phase.into(), Value::ms(time), Value::pct(time, all), without.map(Value::ms).into()]);
    }
    section
}

/// Wall time of ranges by the person's phases.
pub(crate) fn nvtx_phases(context: &Context, map: &PhaseMap) -> Section {
    const TITLE: &str = "Wall time by your phases";
    let trace = context.trace;
    if trace.ranges.is_empty() {
        return no_ranges(trace, TITLE, &WALL);
    }
    let split = Split::by_map(map, trace);
    let mut section = Section::new(TITLE, "the nearest range that the phase map knows", &WALL)
        .limit("Each moment of a thread counts once, and threads add up; unmapped is time in other ranges alone.");
    let all = wall_time_of_all(trace);
    section.figure("nvtx_total_time_ms", Value::ms(all));
    split.rows(&mut section, &split.wall_time(trace), all, "unmapped");
    section
}

/// Kernel time under ranges by the person's phases.
pub(crate) fn nvtx_kernel_phases(context: &Context, map: &PhaseMap) -> Section {
    const TITLE: &str = "Kernel time by your phases";
    let trace = context.trace;
    if let Some(missing) = unless_attributable(context, TITLE, &KERNELS) {
        return missing;
    }
    let split = Split::by_map(map, trace);
    let mut section =
        Section::new(TITLE, "kernel time by the nearest range around its launch that the phase map knows", &KERNELS)
            .limit("Of the kernel time under any range; unmapped is what only other ranges hold.")
            .limit(ranges::INNERMOST);
    let attributed = Attributed::of(context, split.names.len(), &split.around(trace).of_all(), None);
    let all = attributed.mapped.total;
    section.figure("attributed_kernel_time_ms", Value::ms(all));
    let times: Vec<Ns> = attributed.by_phase.iter().map(|(time, _)| *time).collect();
    split.rows(&mut section, &times, all, "unmapped");
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::sections::explain;
    use crate::analysis::testing::{Small, figure, rows};

    const THREAD: (i64, i64) = (1, 1);

    /// A decode step with a layer and a sampler inside, then a range that names nothing; one kernel outside all.
    fn step() -> Small {
        let mut small = Small::new();
        small.range("decode step", THREAD, (0, 100)).range("layer 3", THREAD, (10, 50));
        small.range("sampler", THREAD, (60, 90)).range("layer 3", THREAD, (70, 80)).range("idle", THREAD, (100, 120));
        small
    }

    fn with_kernels() -> Small {
        let mut small = step();
        for (id, at, duration) in [(1, 20, 1_000_000), (2, 75, 2_000_000), (3, 110, 4_000_000), (4, 300, 8_000_000)] {
            small.call_on(THREAD, "cudaLaunchKernel", (at, at + 1), Some(id)).kernel(
                "k",
                1,
                (1000, 1000 + duration),
                Some(id),
            );
        }
        small
    }

    #[test]
    fn kernel_time_belongs_to_the_nearest_range_that_names_a_phase() {
        let trace = with_kernels().finish();
        let sections = explain(&Context::new(&trace, 30));
        assert_eq!(
            rows(&sections, "phase_split", &SPLIT),
            ["sampling 2 13.333 2", "decode 1 6.667 1", "unclassified 12 80 12"],
            "the layers are in a phase by what is around them"
        );
        let under = rows(&sections, "nvtx_kernel_time", &["range_name", "kernel_count", "total_kernel_time_ms"]);
        assert_eq!(under, ["idle 1 4", "layer 3 2 3"], "the ranges themselves are the innermost ones");
        assert!((figure(&sections, "nvtx_kernel_time", "coverage_pct") - 700.0 / 15.0).abs() < 1e-9);
        assert_eq!(figure(&sections, "nvtx_kernel_time", "kernels_outside_ranges"), 1.0);
    }

    #[test]
    fn communication_is_told_apart_in_every_phase() {
        let mut small = with_kernels();
        for (id, at, duration) in [(5, 20, 500_000), (6, 300, 250_000)] {
            small.call_on(THREAD, "cudaLaunchKernel", (at, at + 1), Some(id)).kernel(
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
                1,
                (1000, 1000 + duration),
                Some(id),
            );
        }
        let trace = small.finish();
        let sections = explain(&Context::new(&trace, 30));
        assert_eq!(
            rows(&sections, "phase_split", &["phase", "total_time_ms", "without_communication_ms"]),
            ["sampling 2 2", "decode 1.5 1", "unclassified 12.25 12"]
        );
    }

    #[test]
    fn coverage_counts_all_ranges_however_many_are_shown() {
        let mut small = Small::new();
        for id in 0..60 {
            let at = i64::from(id) * 10;
            small.range(&format!("r{id}"), THREAD, (at, at + 9)).call_on(
                THREAD,
                "cudaLaunchKernel",
                (at, at + 1),
                Some(id),
            );
            small.kernel("k", 1, (at, at + 1), Some(id));
        }
        let trace = small.finish();
        let sections = explain(&Context::new(&trace, 30));
        let section = &sections["nvtx_kernel_time"];
        assert_eq!((section.rows.len(), section.rows_in_all), (50, 60));
        assert_eq!(figure(&sections, "nvtx_kernel_time", "coverage_pct"), 100.0);
    }

    #[test]
    fn without_launches_wall_time_is_split_and_nested_ranges_count_once() {
        let trace = step().finish();
        let sections = explain(&Context::new(&trace, 30));
        assert_eq!(
            rows(&sections, "phase_split", &SPLIT),
            ["decode 0 58.333 -", "sampling 0 25 -", "unclassified 0 16.667 -"],
            "70, 30 and 20 of 120 ns"
        );
        assert_eq!(sections["phase_split"].summary.get("source").unwrap().text(), Some("nvtx_range_time"));
    }

    #[test]
    fn a_phase_map_divides_wall_and_kernel_time_with_the_unmapped_last() {
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
            rows(&sections, "nvtx_kernel_phases", &KERNELS),
            ["other 4 57.143", "layers 3 42.857", "unmapped 0 0"]
        );
    }
}
