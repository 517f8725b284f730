//! Tables of ranges (NVTX ranges, user annotations): wall time, and the time of the kernels launched inside
//! them. From sums by process and range name.

use super::repeats::repeated_unit;
use crate::analysis::context::Context;
use crate::analysis::labels;
use crate::analysis::measure::tally::{Tallies, Tally, key};
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Section, Value};
use crate::trace::{NameId, Ns, ProcessId};

const RANGES: [&str; 4] = ["range_name", "count", "total_time_ms", "avg_duration_us"];
pub(super) const KERNEL_TIME: [&str; 6] = [
    "range_name",
    "kernel_count",
    "total_kernel_time_ns",
    "total_kernel_time_ms",
    "avg_kernel_duration_us",
    "pct_of_total_kernel_time",
];
const BY_PID: [&str; 7] = [
    "pid",
    "range_name",
    "nvtx_count",
    "nvtx_total_time_ms",
    "attributed_kernel_time_ms",
    "attributed_kernel_count",
    "pid_attribution_coverage_pct",
];
const ROWS: usize = 50;
const ROWS_BY_PID: usize = 500;

pub(crate) const INNERMOST: &str = "A kernel belongs to the innermost range of the launching thread that contains the \
                                    whole launch call. Work that another thread launches for a range is not counted.";

pub(crate) fn no_ranges(context: &Context, title: &str, columns: &[&str]) -> Section {
    context.missing(
        title,
        columns,
        "The trace contains no ranges (NVTX ranges or user annotations).",
        MissingData::Ranges,
    )
}

/// Returns a section that states what is missing, if kernels cannot be attributed to ranges.
pub(crate) fn unless_attributable(context: &Context, title: &str, columns: &[&str]) -> Option<Section> {
    let trace = context.trace;
    let (why, data) = if trace.ranges.is_empty() {
        ("The trace contains no ranges (NVTX ranges or user annotations).", MissingData::Ranges)
    } else if context.kernels().sums.is_empty() {
        ("The trace contains no GPU kernels.", MissingData::Kernels)
    } else if trace.calls.is_empty() {
        ("The trace contains no GPU API calls, so the launch of a kernel is unknown.", MissingData::Calls)
    } else {
        return None;
    };
    Some(context.missing(title, columns, why, data))
}

fn range_name<'a>(context: &Context<'a>) -> impl Fn(&Tally) -> &'a str + use<'a> {
    let trace = context.trace;
    |tally| trace.ranges.names.get(NameId(tally.member()))
}

pub(crate) fn nvtx_ranges(context: &Context) -> Section {
    const TITLE: &str = "Ranges";
    let trace = context.trace;
    if trace.ranges.is_empty() {
        return no_ranges(context, TITLE, &RANGES);
    }
    let ranges = context.range_times().summed_by_low_number();
    let mut section = Section::new(TITLE, "start and end of every range, by name", &RANGES)
        .limit("Host wall time, not GPU time. Nested ranges and ranges of different threads each count in full.");
    if trace.cut.is_some() {
        section = section
            .limit("Only time inside the window counts: ranges before it that launched work in it have zero time.");
    }
    let name = range_name(context);
    let ranked = ranges.by_time(&name);
    section.rows_in_all = ranked.len() as u64;
    for tally in ranked.iter().take(ROWS) {
        section.row([name(tally).into(), tally.count.into(), Value::ms(tally.total), tally.average_us()]);
    }
    section
}

/// Kernel time by the range that launched it.
pub(crate) fn nvtx_kernel_time(context: &Context) -> Section {
    const TITLE: &str = "Kernel time by range";
    if let Some(missing) = unless_attributable(context, TITLE, &KERNEL_TIME) {
        return missing;
    }
    let kernel_time = &context.details().kernel_time;
    let (inside, all) = (kernel_time.inside(), kernel_time.all().total);
    let mut section = Section::new(TITLE, "kernels, their launch calls, and the ranges around the calls", &KERNEL_TIME)
        .limit(INNERMOST);
    let coverage_pct = Value::pct(inside.total, all);
    section.figure("total_kernel_time_ns", all);
    section.figure("mapped_kernel_time_ns", inside.total);
    section.figure("mapped_kernel_time_ms", Value::ms(inside.total));
    section.figure("coverage_fraction", coverage_pct.number().map(|pct| pct / 100.0));
    section.figure("coverage_pct", coverage_pct);
    section.figure("mapped_kernel_count", inside.count);
    section.figure("kernels_outside_ranges", kernel_time.outside.count);
    section.figure("kernel_time_outside_ranges_ms", Value::ms(kernel_time.outside.total));
    section.figure("kernels_without_call", kernel_time.without_call.count);
    section.figure("kernel_time_without_call_ms", Value::ms(kernel_time.without_call.total));
    let name = range_name(context);
    let by_name = kernel_time.by_name();
    if let Some(unit) = repeated_unit(context.trace, &by_name) {
        section.figure("repeated_range", context.trace.ranges.names.get(unit.name));
        section.figure("repeated_range_count", unit.count);
        section.figure("repeated_range_pct", Value::pct(unit.kernel_time, all));
    }
    let ranked = by_name.by_time(&name);
    section.rows_in_all = ranked.len() as u64;
    for tally in ranked.iter().take(ROWS) {
        section.row(kernel_time_row(name(tally), tally, all));
    }
    section
}

/// A row of [`KERNEL_TIME`].
pub(super) fn kernel_time_row(name: &str, tally: &Tally, all: Ns) -> [Value; 6] {
    [
        name.into(),
        tally.count.into(),
        tally.total.into(),
        Value::ms(tally.total),
        tally.average_us(),
        Value::pct(tally.total, all),
    ]
}

/// Wall time and kernel time of ranges, by process.
pub(crate) fn nvtx_by_pid(context: &Context) -> Section {
    const TITLE: &str = "Ranges by process";
    let trace = context.trace;
    if trace.ranges.is_empty() {
        return no_ranges(context, TITLE, &BY_PID);
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
    let mut section = Section::new(TITLE, "ranges by process and name, and the kernels launched in them", &BY_PID)
        .limit(INNERMOST)
        .limit("Coverage is the share of the process's kernel time that is inside any range.");
    let name = range_name(context);
    let ranked = context.range_times().by_time(&name);
    section.rows_in_all = ranked.len() as u64;
    for tally in ranked.iter().take(ROWS_BY_PID) {
        let kernels = by_range.get(tally.key).copied().unwrap_or_default();
        let process = key(tally.group(), 0);
        let coverage = all.get(process).map(|all| {
            let inside = inside.get(process).copied().unwrap_or_default();
            Value::pct(inside.total, all.total)
        });
        section.row([
            labels::pid(trace, ProcessId(tally.group())),
            name(tally).into(),
            tally.count.into(),
            Value::ms(tally.total),
            Value::ms(kernels.total),
            kernels.count.into(),
            coverage.unwrap_or(Value::Null),
        ]);
    }
    section
}
