//! How time divides into prefill, decode and sampling, by words in ranges' names or by the person's own map.
//!
//! Time belongs to the nearest range around it whose name has a phase, from the innermost outwards: a layer inside a
//! decode step is decode.

use super::attribution::{Attributed, own_wall_time};
use super::ranges::unless_attributable;
use super::recapture::{self, Lacks};
use super::{Context, ranges};
use crate::analysis::section::{Section, Value};
use crate::rules::PhaseMap;
use crate::rules::phases::phases_of;
use crate::trace::{NameId, Ns, Trace};

const SPLIT: [&str; 3] = ["phase", "total_time_ms", "pct_of_total"];
const WALL: [&str; 3] = ["phase", "total_time_ms", "pct_of_nvtx_total"];
const KERNELS: [&str; 3] = ["phase", "total_time_ms", "pct_of_attributed_kernel_time"];

/// Time by phase; phases by the index that names have.
struct Split<'a> {
    names: Vec<&'a str>,
    /// The phase of each range name.
    phase_of: Vec<Option<usize>>,
}

impl<'a> Split<'a> {
    fn by_words(context: &'a Context) -> Self {
        let phases = &context.signals.phases;
        let names = phases.iter().map(|phase| phase.phase.as_str()).collect();
        Self { names, phase_of: phases_of(phases, &context.trace.ranges.names) }
    }

    fn by_map(map: &'a PhaseMap, trace: &Trace) -> Self {
        let phase_of = trace.ranges.names.iter().map(|name| map.phase_of(name)).collect();
        Self { names: map.names().collect(), phase_of }
    }

    fn phase(&self, range: NameId) -> Option<usize> {
        self.phase_of.get(range.0 as usize).copied().flatten()
    }

    /// Kernel time by phase.
    fn kernel_time(&self, trace: &Trace) -> Vec<Ns> {
        let attributed = Attributed::of(trace, &|range| self.phase(range).is_some());
        self.sum(attributed.under.iter().map(|tally| (NameId(tally.low()), tally.total)))
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
        let mut rows: Vec<(Ns, &str)> = times.iter().copied().zip(self.names.iter().copied()).collect();
        rows.retain(|row| row.0 > Ns::ZERO);
        rows.sort_by_key(|row| std::cmp::Reverse(row.0));
        let named = rows.iter().fold(Ns::ZERO, |sum, row| sum + row.0);
        rows.push((all.since(named), rest));
        for (time, phase) in rows {
            section.row([phase.into(), Value::ms(time), Value::pct(time, all)]);
        }
    }
}

fn no_ranges(trace: &Trace, title: &str, columns: &[&str]) -> Section {
    let recapture = recapture::command(trace.format, Lacks::Ranges);
    Section::missing(title, columns, "The trace holds no ranges: no NVTX range, no user annotation.", &recapture)
}

/// The wall time in which some range is open, summed over threads.
fn wall_time_of_all(trace: &Trace) -> Ns {
    own_wall_time(trace, &|_| true).into_iter().fold(Ns::ZERO, |sum, own| sum + own)
}

/// Prefill, decode and sampling, by words.
pub(super) fn phase_split(context: &Context) -> Section {
    const TITLE: &str = "Phases";
    let trace = context.trace;
    if trace.ranges.is_empty() {
        return no_ranges(trace, TITLE, &SPLIT);
    }
    let split = Split::by_words(context);
    let attributed = context.attributed();
    let by_kernels = attributed.mapped.count > 0;
    let (source, derived_from, times, all) = if by_kernels {
        let derived_from = "kernel time by the nearest range around its launch that names a phase";
        ("nvtx_kernel_time", derived_from, split.kernel_time(trace), attributed.all.total)
    } else {
        let derived_from =
            "wall time of the nearest range that names a phase, as no kernel has a launch inside a range";
        ("nvtx_range_time", derived_from, split.wall_time(trace), wall_time_of_all(trace))
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
    section.figure("source", source);
    split.rows(&mut section, &times, all, "unclassified");
    section
}

/// Wall time of ranges by the person's phases.
pub(super) fn nvtx_phases(context: &Context, map: &PhaseMap) -> Section {
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
pub(super) fn nvtx_kernel_phases(context: &Context, map: &PhaseMap) -> Section {
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
    let all = context.attributed().mapped.total;
    section.figure("attributed_kernel_time_ms", Value::ms(all));
    split.rows(&mut section, &split.kernel_time(trace), all, "unmapped");
    section
}
