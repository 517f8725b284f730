//! The range that marks the repeated unit of work of a program, such as one iteration or one request. One pass over the ranges.
//!
//! A unit is an outermost range among those whose name occurs at least `min_repeats` times (`patterns/inference.json`). A name belongs to a unit if all
//! of its ranges are inside ranges of that unit, so the kernel time of a unit is the sum over its names.
//!
//! A window has no repeated unit, because it cuts ranges: their number in it is no whole number of units.

use super::open_ranges::{OpenRanges, OuterFirst};
use crate::analysis::measure::tally::Tallies;
use crate::rules::inference::thresholds;
use crate::trace::{NameId, Ns, Trace};

/// The label of a range that is in no unit.
const NO_UNIT: u32 = u32::MAX;

/// The repeated unit with the most kernel time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RepeatedUnit {
    pub(crate) name: NameId,
    /// The number of its ranges that are in no other range of a repeated name.
    pub(crate) count: u64,
    /// Duration of the kernels that were launched in it.
    pub(crate) kernel_time: Ns,
}

/// The unit that the ranges of a name belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnitOfName {
    Unused,
    Unit(u32),
    /// The ranges of the name belong to different units.
    Mixed,
}

/// Returns the repeated unit with the most kernel time; `None` for a window. `kernel_time` has the kernel time by name of the
/// innermost range.
pub(crate) fn repeated_unit(trace: &Trace, kernel_time: &Tallies) -> Option<RepeatedUnit> {
    if trace.cut.is_some() {
        return None;
    }
    let names = trace.ranges.names.len();
    let mut occurrences = vec![0_u64; names];
    trace.ranges.iter().for_each(|range| add(&mut occurrences, range.name, 1));
    let min_repeats = thresholds().ranges.min_repeats.value;
    if occurrences.iter().all(|count| *count < min_repeats) {
        return None;
    }
    let is_repeated =
        |name: NameId| occurrences.get(name.0 as usize).is_some_and(|occurrences| *occurrences >= min_repeats);
    let mut open = OpenRanges::new(trace);
    let (mut units, mut counts) = (vec![UnitOfName::Unused; names], vec![0_u64; names]);
    for (_, range) in OuterFirst::new(&trace.ranges, &|_| true) {
        let unit = match open.innermost(range) {
            Some(unit) if unit != NO_UNIT => unit,
            _ if is_repeated(range.name) => {
                add(&mut counts, range.name, 1);
                range.name.0
            }
            _ => NO_UNIT,
        };
        if let Some(of_name) = units.get_mut(range.name.0 as usize) {
            let is_first_or_same = *of_name == UnitOfName::Unused || *of_name == UnitOfName::Unit(unit);
            *of_name = if is_first_or_same { UnitOfName::Unit(unit) } else { UnitOfName::Mixed };
        }
        open.push(unit, range);
    }
    let mut times = vec![0_u64; names];
    for tally in kernel_time.iter() {
        if let Some(UnitOfName::Unit(unit)) = units.get(tally.member() as usize) {
            add(&mut times, NameId(*unit), u64::try_from(tally.total.0).unwrap_or(0));
        }
    }
    let units = (0..).map(NameId).zip(counts).zip(times);
    let units = units.filter(|((_, count), time)| *count >= min_repeats && *time > 0);
    let ((name, count), time) = units.max_by_key(|(_, time)| *time)?;
    Some(RepeatedUnit { name, count, kernel_time: Ns(i64::try_from(time).unwrap_or(i64::MAX)) })
}

fn add(sums: &mut [u64], name: NameId, more: u64) {
    sums.get_mut(name.0 as usize).into_iter().for_each(|sum| *sum = sum.saturating_add(more));
}

#[cfg(test)]
mod tests {
    use crate::analysis::context::Context;
    use crate::analysis::structure::ranges::nvtx_kernel_time;
    use crate::trace::testing::TestTrace;
    use crate::trace::{Ns, Window};

    /// Adds a range with a kernel of 30 ns launched directly in it and one of 50 ns in a nested range.
    fn add_unit(trace: &mut TestTrace, name: &str, start: i64) {
        trace.range(name, start..start + 90).launch(start + 1..start + 2).launches("own", start + 3..start + 33);
        trace.range("attention", start + 20..start + 80);
        trace.launch(start + 30..start + 31).launches("nested", start + 35..start + 85);
    }

    fn unit(trace: &mut TestTrace) -> Vec<String> {
        let summary = trace.section(nvtx_kernel_time).summary;
        ["repeated_range", "repeated_range_count", "repeated_range_pct"].map(|key| summary.words(key)).to_vec()
    }

    #[test]
    fn the_outermost_range_that_repeats_is_the_unit_with_the_kernels_of_nested_ranges() {
        let mut trace = TestTrace::new();
        trace.range("run", 0..1_000);
        (0..4).for_each(|index| add_unit(&mut trace, "iteration", index * 100));
        trace.launch(900..901).launches("warm up", 910..990);
        assert_eq!(unit(&mut trace), ["iteration", "4", "80"]);
    }

    #[test]
    fn a_range_that_occurs_twice_is_no_unit() {
        let mut trace = TestTrace::new();
        (0..2).for_each(|index| add_unit(&mut trace, "iteration", index * 100));
        trace.range("attention", 300..301).range("attention", 310..311);
        // Only `attention` repeats; its ranges inside `iteration` hold 50 of 80 ns each.
        assert_eq!(unit(&mut trace), ["attention", "4", "62.5"]);
        let mut once = TestTrace::new();
        (0..2).for_each(|index| add_unit(&mut once, "iteration", index * 100));
        assert_eq!(unit(&mut once), ["", "", ""]);
    }

    #[test]
    fn a_window_has_no_unit() {
        let mut trace = TestTrace::new();
        (0..6).for_each(|index| add_unit(&mut trace, "iteration", index * 100));
        let window = trace.finish().within(Window { start: Ns(50), end: Ns(550) });
        let summary = nvtx_kernel_time(&Context::new(&window, 30)).section().summary;
        assert_eq!(summary.words("repeated_range"), "");
    }

    #[test]
    fn a_name_that_occurs_in_two_units_counts_for_neither() {
        let mut trace = TestTrace::new();
        (0..3).for_each(|index| add_unit(&mut trace, "prefill", index * 100));
        (3..6).for_each(|index| add_unit(&mut trace, "decode", index * 100));
        assert_eq!(unit(&mut trace)[2], "18.75", "30 of 80 ns, in three of six units");
    }
}
