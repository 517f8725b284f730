//! Tables of ranges (NVTX ranges, user annotations): wall time, and the time of the kernels launched inside
//! them. From sums by process and range name.

use super::repeats::repeated_unit;
use crate::analysis::context::Context;
use crate::analysis::labels;
use crate::analysis::measure::tally::{Tallies, Tally, key};
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Answer, Fraction, Ms, Pct, Stated, TypedSection, Us, Value, section};
use crate::trace::{NameId, Ns, ProcessId};

section! {
    /// Wall time of ranges by name.
    pub(crate) struct Ranges("nvtx_ranges", "Ranges");
    row RangeRow { range_name: String = "Range", count: u64, total_time_ms: Ms = "Total", avg_duration_us: Us = "Mean" }
}

section! {
    /// Kernel time by the range that launched it.
    pub(crate) struct RangeKernels("nvtx_kernel_time", "Kernel time by range");
    row RangeKernelsRow {
        range_name: String = "Range",
        kernel_count: u64,
        total_kernel_time_ns: Ns = "Kernel time",
        total_kernel_time_ms: Ms = "Kernel time",
        avg_kernel_duration_us: Us = "Mean",
        pct_of_total_kernel_time: Pct = "Of summed kernel time",
    }
    figures RangeKernelsFigures {
        total_kernel_time_ns: Ns = "Kernel time",
        mapped_kernel_time_ns: Ns,
        mapped_kernel_time_ms: Ms,
        coverage_fraction: Fraction,
        coverage_pct: Pct,
        mapped_kernel_count: u64,
        kernels_outside_ranges: u64,
        kernel_time_outside_ranges_ms: Ms,
        kernels_without_call: u64,
        kernel_time_without_call_ms: Ms,
        repeated_range: Stated<String>,
        repeated_range_count: Stated<u64> = "Repeated ranges",
        repeated_range_pct: Stated<Pct> = "Kernel time in it",
    }
}

section! {
    /// Wall time and kernel time of ranges, by process.
    pub(crate) struct RangesByProcess("nvtx_by_pid", "Ranges by process");
    row RangeOfProcessRow {
        pid: Value,
        range_name: String = "Range",
        nvtx_count: u64 = "Count",
        nvtx_total_time_ms: Ms = "Total",
        attributed_kernel_time_ms: Ms = "Kernel time",
        attributed_kernel_count: u64 = "Kernels",
        pid_attribution_coverage_pct: Option<Pct> = "Coverage",
    }
}

const ROWS: usize = 50;
const ROWS_BY_PID: usize = 500;

pub(crate) const INNERMOST: &str = "A kernel belongs to the innermost range of the launching thread that contains the \
                                    whole launch call. Work that another thread launches for a range is not counted.";

const NO_RANGES: &str = "The trace contains no ranges (NVTX ranges or user annotations).";

pub(crate) fn no_ranges<S: TypedSection>(context: &Context) -> Answer<S> {
    context.lacks(NO_RANGES, MissingData::Ranges)
}

/// Returns an answer that states what is missing, if kernels cannot be attributed to ranges.
pub(crate) fn unless_attributable<S: TypedSection>(context: &Context) -> Option<Answer<S>> {
    let trace = context.trace;
    let (why, data) = if trace.ranges.is_empty() {
        (NO_RANGES, MissingData::Ranges)
    } else if context.kernels().sums.is_empty() {
        ("The trace contains no GPU kernels.", MissingData::Kernels)
    } else if trace.calls.is_empty() {
        ("The trace contains no GPU API calls, so the launch of a kernel is unknown.", MissingData::Calls)
    } else {
        return None;
    };
    Some(context.lacks(why, data))
}

fn range_name<'a>(context: &Context<'a>) -> impl Fn(&Tally) -> &'a str + use<'a> {
    let trace = context.trace;
    |tally| trace.ranges.names.get(NameId(tally.member()))
}

pub(crate) fn nvtx_ranges(context: &Context) -> Answer<Ranges> {
    let trace = context.trace;
    if trace.ranges.is_empty() {
        return no_ranges(context);
    }
    let ranges = context.range_times().summed_by_low_number();
    let mut answer = Ranges::answer("start and end of every range, by name")
        .limit("Host wall time, not GPU time. Nested ranges and ranges of different threads each count in full.");
    if trace.cut.is_some() {
        answer = answer
            .limit("Only time inside the window counts: ranges before it that launched work in it have zero time.");
    }
    let name = range_name(context);
    let ranked = ranges.by_time(&name);
    answer.rows_in_all = ranked.len() as u64;
    answer.with_rows(ranked.iter().take(ROWS).map(|tally| RangeRow {
        range_name: name(tally).to_owned(),
        count: tally.count,
        total_time_ms: tally.total.into(),
        avg_duration_us: tally.mean(),
    }))
}

/// Kernel time by the range that launched it.
pub(crate) fn nvtx_kernel_time(context: &Context) -> Answer<RangeKernels> {
    if let Some(missing) = unless_attributable(context) {
        return missing;
    }
    let kernel_time = &context.details().kernel_time;
    let (inside, all) = (kernel_time.inside(), kernel_time.all().total);
    let by_name = kernel_time.by_name();
    let unit = repeated_unit(context.trace, &by_name);
    let coverage_pct = Pct::of(inside.total, all);
    let name = range_name(context);
    let ranked = by_name.by_time(&name);
    let mut answer = RangeKernels::answer("kernels, their launch calls, and the ranges around the calls")
        .limit(INNERMOST)
        .with_rows(ranked.iter().take(ROWS).map(|tally| RangeKernelsRow::new(name(tally), tally, all)))
        .with_figures(RangeKernelsFigures {
            total_kernel_time_ns: all,
            mapped_kernel_time_ns: inside.total,
            mapped_kernel_time_ms: inside.total.into(),
            coverage_fraction: Fraction(coverage_pct.0 / 100.0),
            coverage_pct,
            mapped_kernel_count: inside.count,
            kernels_outside_ranges: kernel_time.outside.count,
            kernel_time_outside_ranges_ms: kernel_time.outside.total.into(),
            kernels_without_call: kernel_time.without_call.count,
            kernel_time_without_call_ms: kernel_time.without_call.total.into(),
            repeated_range: Stated(unit.map(|unit| context.trace.ranges.names.get(unit.name).to_owned())),
            repeated_range_count: Stated(unit.map(|unit| unit.count)),
            repeated_range_pct: Stated(unit.map(|unit| Pct::of(unit.kernel_time, all))),
        });
    answer.rows_in_all = ranked.len() as u64;
    answer
}

impl RangeKernelsRow {
    pub(super) fn new(name: &str, tally: &Tally, all: Ns) -> Self {
        Self {
            range_name: name.to_owned(),
            kernel_count: tally.count,
            total_kernel_time_ns: tally.total,
            total_kernel_time_ms: tally.total.into(),
            avg_kernel_duration_us: tally.mean(),
            pct_of_total_kernel_time: Pct::of(tally.total, all),
        }
    }
}

/// Wall time and kernel time of ranges, by process.
pub(crate) fn nvtx_by_pid(context: &Context) -> Answer<RangesByProcess> {
    let trace = context.trace;
    if trace.ranges.is_empty() {
        return no_ranges(context);
    }
    let by_range = &context.details().kernel_time.by_range;
    let processes = trace.processes.len();
    let (mut all, mut inside) = (Tallies::with_table(processes, 1), Tallies::default());
    for cell in &context.kernels().sums {
        all.merge(&Tally { key: key(cell.process.0, 0), ..cell.tally });
    }
    for tally in by_range.iter() {
        inside.merge(&Tally { key: key(tally.group(), 0), ..*tally });
    }
    let name = range_name(context);
    let ranked = context.range_times().by_time(&name);
    let row = |tally: &Tally| {
        let kernels = by_range.get(tally.key).copied().unwrap_or_default();
        let process = key(tally.group(), 0);
        let inside = inside.get(process).copied().unwrap_or_default();
        RangeOfProcessRow {
            pid: labels::pid(trace, ProcessId(tally.group())),
            range_name: name(tally).to_owned(),
            nvtx_count: tally.count,
            nvtx_total_time_ms: tally.total.into(),
            attributed_kernel_time_ms: kernels.total.into(),
            attributed_kernel_count: kernels.count,
            pid_attribution_coverage_pct: all.get(process).map(|all| Pct::of(inside.total, all.total)),
        }
    };
    let mut answer = RangesByProcess::answer("ranges by process and name, and the kernels launched in them")
        .limit(INNERMOST)
        .limit("Coverage is the share of the process's kernel time that is inside any range.")
        .with_rows(ranked.iter().take(ROWS_BY_PID).map(row));
    answer.rows_in_all = ranked.len() as u64;
    answer
}
