//! Details of one kernel: durations, start times, callers, and the ops before and after it on its stream. Cost:
//! three passes over the ops, plus one over the calls and spans if launches are linked.
//!
//! The caller gives the kernel name, so this is not a section of the report.

use super::duration_peaks::duration_peaks;
use crate::analysis::categories::Categories;
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::labels;
use crate::analysis::measure::percentiles::of_sorted;
use crate::analysis::recapture::{self, MissingData};
use crate::analysis::results::Attribution;
use crate::analysis::section::{
    Answer, At, CategoryName, KernelName, Pct, Place, Section, Stated, TypedSection, Us, Value, first_op, section,
};
use crate::analysis::structure::call_ranges::{NONE, names_around_calls};
use crate::analysis::structure::shifted_durations::{WITHHELD, shifted_durations};
use crate::analysis::time::attribution::{share_out, share_out_merged};
use crate::ordering;
use crate::ordering::VecMap;
use crate::rules::{RuleSet, names};
use crate::trace::{CategorySource, DeviceId, GpuOp, NameId, Ns, Spans, Trace, Window};
use crate::words::kernels as words;
use std::cmp::Reverse;

/// Details of the GPU ops of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct OneKernel {
    /// The demangled name in full.
    pub name: String,
    /// The name in the trace; `None` if no op has the name.
    pub raw: Option<String>,
    /// Its category by the rules.
    pub category: String,
    /// Figures for all launches, and one row per device and stream.
    pub detail: Section,
    /// Its first launches in the order of time.
    pub launches: Section,
    /// The calls, ranges and code that launch it.
    pub callers: Section,
    /// The ops before and after it on its stream.
    pub neighbours: Section,
    /// Its short and its long launches; `None` if its durations have one peak.
    pub peaks: Option<Section>,
    /// Distribution of its durations.
    pub histogram: Histogram,
    /// Its launches over time.
    pub over_time: OverTime,
}

/// Histogram of durations. Each launch is in exactly one bin.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Histogram {
    /// Sorted by duration; empty if there are no launches.
    pub bins: Vec<Bin>,
    /// Whether the widths of the bins grow by a factor.
    pub is_logarithmic: bool,
    /// Percentile and its duration in nanoseconds: p50, p90 and p99.
    pub percentiles: Vec<(u64, f64)>,
}

/// A bin of the histogram.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bin {
    /// Lower bound, inclusive.
    pub from: Ns,
    /// Upper bound, exclusive.
    pub to: Ns,
    /// Number of launches.
    pub count: u64,
    /// Fraction of all launches.
    pub share: f64,
}

/// How overlapping time is attributed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sharing {
    /// Which op owns the time in which several run.
    pub attribution: Attribution,
    /// Whether all devices are one timeline.
    pub merge_devices: bool,
}

/// Launches by start time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverTime {
    /// From the first GPU op to the last, or the chosen window.
    pub window: Window,
    /// Whether the user chose the window.
    pub is_part: bool,
    /// Columns of equal length.
    pub columns: Vec<Column>,
}

/// The launches that start in one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Column {
    /// Number of launches.
    pub count: u64,
    /// Sum of their durations.
    pub total: Ns,
    /// Longest duration.
    pub longest: Ns,
}

section! {
    /// Figures for all launches of a kernel, and one row per device and stream.
    pub(crate) struct Detail("one_kernel", "Launches");
    row DetailRow {
        device_id: Value = "Device",
        stream_id: Value = "Stream",
        call_count: usize = "Calls",
        total_time_ns: Ns = "Total",
        avg_duration_us: Option<Us> = "Mean",
        min_duration_us: Option<Us> = "Min",
        p50_duration_us: Option<Us> = "p50",
        p90_duration_us: Option<Us> = "p90",
        p99_duration_us: Option<Us> = "p99",
        max_duration_us: Option<Us> = "Max",
    }
    figures DetailFigures {
        launches: usize,
        total_time_ns: Ns = "Total",
        elapsed_share_pct: Option<Pct> = "Of busy time",
        avg_duration_us: Option<Us> = "Mean",
        min_duration_us: Option<Us> = "Min",
        p50_duration_us: Option<Us> = "p50",
        p90_duration_us: Option<Us> = "p90",
        p99_duration_us: Option<Us> = "p99",
        max_duration_us: Option<Us> = "Max",
        category: CategoryName,
        category_source: String,
    }
}

section! {
    /// The first launches of a kernel.
    pub(crate) struct FirstLaunches("one_kernel_launches", "First launches");
    row LaunchRow {
        launch: usize,
        start_ns: At,
        duration_ns: Ns,
        device_id: Value = "Device",
        stream_id: Value = "Stream",
    }
    figures LaunchFigures { first_op_ns: Stated<At> }
}

section! {
    /// What launches a kernel.
    pub(crate) struct Callers("one_kernel_callers", "Called from");
    row CallerRow {
        api_name: Option<String> = "Call",
        range_name: Option<String> = "Range",
        /// Shown if the trace was read with code, as `python_location`.
        cpu_op: Option<String>,
        python_location: Option<Place>,
        call_count: usize = "Calls",
        pct_of_launches: Pct,
        total_time_ns: Ns = "Total",
    }
}

section! {
    /// The ops before and after a kernel on its stream.
    pub(crate) struct Neighbours("one_kernel_neighbours", "Neighbors");
    row NeighbourRow {
        side: String,
        kernel_name: Option<KernelName> = "Kernel",
        call_count: usize = "Calls",
        pct_of_launches: Pct,
        median_gap_ns: Option<Ns>,
    }
}

/// Maximum number of callers, and of neighbours on each side.
const MAX_ROWS: usize = 10;
/// Maximum number of launches that are listed.
const MAX_LAUNCHES: usize = 100;
/// Maximum number of bins of equal width.
const MAX_EVEN_BINS: i64 = 40;
/// Minimum ratio of longest to shortest duration for logarithmic bins. Bins of equal width would put all short
/// launches into one.
const MIN_LOG_RATIO: i64 = 20;
/// Ten bin boundaries per decade, in hundredths: rounded powers of 10^(1/10), a factor of about 1.26.
const DECADE_BOUNDARIES: [i64; 10] = [100, 126, 158, 200, 251, 316, 398, 501, 631, 794];
const PERCENTILES: [u64; 3] = [50, 90, 99];

/// Computes the details of the GPU ops with this name, raw or demangled. `columns` is the number of columns over time.
/// Overlaps are attributed as in the report with the same `sharing`.
pub fn one_kernel(trace: &Trace, rules: &RuleSet, sharing: Sharing, name: &str, columns: usize) -> OneKernel {
    let matching = MatchingNames::find(trace, name);
    let ops: Vec<(usize, GpuOp)> =
        trace.gpu_ops.iter().enumerate().filter(|(_, op)| matching.contains(op.name)).collect();
    let raw = ops.first().map(|(_, op)| trace.names.get(op.name).to_owned());
    let full = raw.as_deref().map_or_else(|| name.to_owned(), |raw| names::demangle(raw).into_owned());
    let categories = Categories::new(trace, rules);
    let (category, source) = raw.as_deref().map(|raw| categories.of(raw, &full)).unwrap_or_default();
    let category = category.to_owned();
    let durations = sorted(ops.iter().map(|(_, op)| op.duration));
    let shifted = shifted_durations(&ClassifiedTrace::new(trace));
    let is_doubtful = ops.iter().any(|(_, op)| shifted.affects(op.name));
    let peaks = if is_doubtful { None } else { duration_peaks(trace, &ops, &durations) };
    OneKernel {
        detail: detail(trace, sharing, &matching, &ops, &durations, (&category, source), is_doubtful).section(),
        launches: launches(trace, &ops).section(),
        callers: callers(trace, &ops).section(),
        neighbours: neighbours(trace, &matching, ops.len()).section(),
        peaks: peaks.map(Answer::section),
        histogram: histogram(&durations),
        over_time: over_time(trace, &ops, columns),
        name: full,
        raw,
        category,
    }
}

/// The names of the trace that match, as one flag per name. Several mangled names can have the same demangled name.
struct MatchingNames(Vec<bool>);

impl MatchingNames {
    fn find(trace: &Trace, name: &str) -> Self {
        let exact: Vec<bool> = trace.names.iter().map(|raw| raw == name).collect();
        if exact.contains(&true) {
            return Self(exact);
        }
        Self(trace.names.iter().map(|raw| names::demangle(raw) == name).collect())
    }

    fn contains(&self, name: NameId) -> bool {
        self.0.get(name.0 as usize).copied().unwrap_or(false)
    }
}

fn sorted(durations: impl Iterator<Item = Ns>) -> Vec<i64> {
    let mut durations: Vec<i64> = durations.map(|duration| duration.0).collect();
    durations.sort_unstable();
    durations
}

fn sum(durations: &[i64]) -> Ns {
    Ns(durations.iter().fold(0, |sum: i64, duration| sum.saturating_add(*duration)))
}

/// Mean, minimum, median, 90th and 99th percentile and maximum.
fn statistics(sorted: &[i64]) -> [Option<Us>; 6] {
    let mean_ns = sum(sorted).0 as f64 / sorted.len().max(1) as f64;
    let [p50, p90, p99] = PERCENTILES.map(|percent| of_sorted(sorted, percent));
    let (shortest, longest) = (of_sorted(sorted, 0), of_sorted(sorted, 100));
    [Some(mean_ns), shortest, p50, p90, p99, longest].map(|ns| ns.map(|ns| Us(ns / 1e3)))
}

fn detail(
    trace: &Trace,
    sharing: Sharing,
    matching: &MatchingNames,
    ops: &[(usize, GpuOp)],
    durations: &[i64],
    (category, source): (&str, CategorySource),
    is_doubtful: bool,
) -> Answer<Detail> {
    if ops.is_empty() {
        return Detail::missing(words::no_such_kernel(trace.cut.is_some()), "");
    }
    let mut answer = Detail::answer("start and end of every launch").limit(
        "Of busy time: the elapsed time of the kernel as a share of the busy time of all devices, as in the kernel table.",
    );
    if trace.cut.is_some_and(|cut| cut.cut_ops > 0) {
        answer = answer.limit("Only the part of a launch inside the window counts.");
    }
    let (owned, busy) = owned_and_busy(trace, sharing, matching);
    if is_doubtful {
        answer = answer.limit(WITHHELD);
    }
    let [mean, shortest, p50, p90, p99, longest] = statistics(durations);
    let mut lanes = ValuesByKey::new();
    for (_, op) in ops {
        add(&mut lanes, lane(op, 0), op.duration.0);
    }
    let row = |(lane, mut durations): (Key, Vec<i64>)| {
        durations.sort_unstable();
        let [mean, shortest, p50, p90, p99, longest] = statistics(&durations);
        DetailRow {
            device_id: labels::device(trace, DeviceId(lane[0])),
            stream_id: stream_id(lane),
            call_count: durations.len(),
            total_time_ns: sum(&durations),
            avg_duration_us: mean,
            min_duration_us: shortest,
            p50_duration_us: p50,
            p90_duration_us: p90,
            p99_duration_us: p99,
            max_duration_us: longest,
        }
    };
    answer.with_rows(lanes.into_vec().into_iter().map(row)).with_figures(DetailFigures {
        launches: durations.len(),
        total_time_ns: sum(durations),
        elapsed_share_pct: (!is_doubtful).then(|| Pct::of(owned, busy)),
        avg_duration_us: mean,
        min_duration_us: shortest,
        p50_duration_us: p50,
        p90_duration_us: p90,
        p99_duration_us: p99,
        max_duration_us: longest,
        category: category.into(),
        category_source: source.word().to_owned(),
    })
}

fn launches(trace: &Trace, ops: &[(usize, GpuOp)]) -> Answer<FirstLaunches> {
    let mut answer = FirstLaunches::answer("start and end of every launch")
        .limit("At most 100 launches, in the order of time. The timeline leads from each to the next.")
        .with_figures(LaunchFigures { first_op_ns: first_op(trace) })
        .with_rows(ops.iter().take(MAX_LAUNCHES).zip(1..).map(|((_, op), launch)| LaunchRow {
            launch,
            start_ns: At(op.start),
            duration_ns: op.duration,
            device_id: labels::device(trace, op.device),
            stream_id: stream_id(lane(op, 0)),
        }));
    answer.rows_in_all = ops.len() as u64;
    answer
}

/// Key of device, stream and process. With process 0, streams with the same number in several processes share a key.
fn lane(op: &GpuOp, process: u32) -> Key {
    [op.device.0, (op.stream >> 32) as u32, op.stream as u32, process]
}

/// The stream number in a [`lane`] key; null if it is unknown.
fn stream_id([_, high, low, _]: Key) -> Value {
    let stream = (i64::from(high) << 32) | i64::from(low);
    Value::from((stream >= 0).then_some(stream))
}

/// The elapsed time of the kernel, and of all GPU ops.
fn owned_and_busy(trace: &Trace, sharing: Sharing, matching: &MatchingNames) -> (Ns, Ns) {
    let owned = if sharing.merge_devices { share_out_merged(trace) } else { share_out(trace) };
    let own_times = (0..).map(NameId).zip(owned.elapsed_ns(sharing.attribution));
    own_times.fold((Ns::ZERO, Ns::ZERO), |(own, all), (name, time)| {
        (if matching.contains(name) { own + Ns(*time) } else { own }, all + Ns(*time))
    })
}

/// Durations or gaps in nanoseconds by key. One type for all uses keeps the WebAssembly module small.
type ValuesByKey = VecMap<Key, Vec<i64>>;

/// A [`lane`], the name ids of a caller, or a neighbour's name id and zeros. [`NONE`] stands for a missing name.
type Key = [u32; 4];

fn add(groups: &mut ValuesByKey, key: Key, ns: i64) {
    groups.update(key, Vec::new(), |group| group.push(ns));
}

/// The groups by number of values, largest first.
fn by_count(groups: ValuesByKey) -> Vec<(Key, Vec<i64>)> {
    let mut groups = groups.into_vec();
    ordering::sort_by_key(&mut groups, |(_, group)| Reverse(group.len()));
    groups
}

fn callers(trace: &Trace, ops: &[(usize, GpuOp)]) -> Answer<Callers> {
    let linked = ops.iter().filter(|(row, _)| trace.gpu_ops.launch(*row).is_some()).count();
    let mut answer = if linked == 0 {
        let why = "The trace contains no call that launched this kernel.";
        Callers::missing(why, recapture::command(trace, MissingData::Calls))
    } else {
        Callers::answer("calls with the correlation ids of the launches")
            .limit("The range is the innermost range of the launching thread that contains the call.")
    };
    if trace.code.is_none() {
        answer.hide(CallerRow::cpu_op);
        answer.hide(CallerRow::python_location);
    }
    if linked == 0 {
        return answer;
    }
    if trace.code.is_none() {
        answer = answer.limit("CPU ops and Python frames are read only for triage.");
    }
    if linked < ops.len() {
        answer = answer.limit(words::launches_without_call(ops.len() - linked));
    }
    let ranges = names_around_calls(trace, &trace.ranges, &|_| true);
    let (cpu_ops, frames) = names_in_code(trace);
    let mut groups = ValuesByKey::new();
    for (row, op) in ops {
        let Some(call) = trace.gpu_ops.launch(*row) else { continue };
        let call = call.0 as usize;
        let name_around = |names: &[u32]| names.get(call).copied().unwrap_or(NONE);
        let name = trace.calls.get(call).map_or(NONE, |call| call.name.0);
        add(&mut groups, [name, name_around(&ranges), name_around(&cpu_ops), name_around(&frames)], op.duration.0);
    }
    let groups = by_count(groups);
    answer.rows_in_all = groups.len() as u64;
    let code = trace.code.as_ref();
    answer.with_rows(groups.into_iter().take(MAX_ROWS).map(|([call, range, cpu_op, frame], durations)| CallerRow {
        api_name: name_in(&trace.calls, call),
        range_name: name_in(&trace.ranges, range),
        cpu_op: code.and_then(|code| name_in(&code.cpu_ops, cpu_op)),
        python_location: code.and_then(|code| name_in(&code.frames, frame)).map(Place),
        call_count: durations.len(),
        pct_of_launches: pct(durations.len(), ops.len()),
        total_time_ns: sum(&durations),
    }))
}

/// The innermost CPU op and Python frame around each call; empty if the trace was read without code.
fn names_in_code(trace: &Trace) -> (Vec<u32>, Vec<u32>) {
    let Some(code) = &trace.code else { return (Vec::new(), Vec::new()) };
    // Frames of builtins have no source file.
    let in_file = |name: NameId| code.frames.names.get(name).contains(".py(");
    (names_around_calls(trace, &code.cpu_ops, &|_| true), names_around_calls(trace, &code.frames, &in_file))
}

fn name_in(spans: &Spans, name: u32) -> Option<String> {
    (name != NONE).then(|| spans.names.get(NameId(name)).to_owned())
}

fn pct(part: usize, whole: usize) -> Pct {
    Pct(100.0 * part as f64 / whole.max(1) as f64)
}

fn neighbours(trace: &Trace, matching: &MatchingNames, launches: usize) -> Answer<Neighbours> {
    let mut answer = Neighbours::answer("the ops before and after each launch on its stream")
        .limit("A negative gap means that the two ops overlap. An empty name means that there is no neighbor.");
    // Gaps by the name of the neighbour, NONE if there is no neighbour.
    let (mut before, mut after) = (ValuesByKey::new(), ValuesByKey::new());
    let mut last: VecMap<Key, GpuOp> = VecMap::new();
    for op in trace.gpu_ops.iter() {
        let lane = lane(&op, op.process.0);
        // For the first op, `update` returns the op itself. A comparison would not detect that, because two ops
        // can be equal.
        let is_first = last.get(&lane).is_none();
        let previous = last.update(lane, op, |last| std::mem::replace(last, op));
        let gap = op.start.since(previous.end()).0;
        if matching.contains(op.name) {
            let name = if is_first { NONE } else { previous.name.0 };
            add(&mut before, [name, 0, 0, 0], gap);
        }
        if !is_first && matching.contains(previous.name) {
            add(&mut after, [op.name.0, 0, 0, 0], gap);
        }
    }
    for (_, op) in last.iter().filter(|(_, op)| matching.contains(op.name)) {
        add(&mut after, [NONE, 0, 0, 0], op.duration.0);
    }
    answer.rows_in_all = (before.len() + after.len()) as u64;
    answer.with_rows(side(trace, "before", before, launches)).with_rows(side(trace, "after", after, launches))
}

fn side(trace: &Trace, side: &str, groups: ValuesByKey, launches: usize) -> Vec<NeighbourRow> {
    let row = |([name, ..], mut gaps): (Key, Vec<i64>)| {
        gaps.sort_unstable();
        let name = (name != NONE).then_some(NameId(name));
        NeighbourRow {
            side: side.to_owned(),
            kernel_name: name.map(|name| labels::kernel_name(trace, name)),
            call_count: gaps.len(),
            pct_of_launches: pct(gaps.len(), launches),
            median_gap_ns: name.and(of_sorted(&gaps, 50)).map(|gap| Ns(gap as i64)),
        }
    };
    by_count(groups).into_iter().take(MAX_ROWS).map(row).collect()
}

fn histogram(sorted: &[i64]) -> Histogram {
    let (Some(&shortest), Some(&longest)) = (sorted.first(), sorted.last()) else { return Histogram::default() };
    let is_logarithmic = longest / MIN_LOG_RATIO >= shortest.max(1);
    let boundaries =
        if is_logarithmic { log_boundaries(shortest, longest) } else { even_boundaries(shortest, longest) };
    let count_below = |boundary: i64| sorted.partition_point(|duration| *duration < boundary);
    let bins = boundaries.iter().zip(boundaries.iter().skip(1)).map(|(&from, &to)| {
        let count = count_below(to) - count_below(from);
        Bin { from: Ns(from), to: Ns(to), count: count as u64, share: count as f64 / sorted.len() as f64 }
    });
    let percentiles = PERCENTILES.iter().filter_map(|percent| Some((*percent, of_sorted(sorted, *percent)?)));
    Histogram { bins: bins.collect(), is_logarithmic, percentiles: percentiles.collect() }
}

fn even_boundaries(shortest: i64, longest: i64) -> Vec<i64> {
    let width = (longest - shortest) / MAX_EVEN_BINS + 1;
    let bins = (longest - shortest) / width + 1;
    (0..=bins).map(|index| shortest.saturating_add(index.saturating_mul(width))).collect()
}

/// Logarithmic boundaries that enclose both durations. The first boundary is 0 if the shortest duration is.
fn log_boundaries(shortest: i64, longest: i64) -> Vec<i64> {
    let mut boundaries = vec![0];
    let mut power: i64 = 1;
    while boundaries.last().is_some_and(|last| *last <= longest) {
        // If the next products could overflow, one last boundary covers the rest.
        let is_last = power > i64::MAX / 1_000;
        let decade = DECADE_BOUNDARIES.map(|boundary| if is_last { i64::MAX } else { boundary * power / 100 });
        for boundary in decade {
            if boundaries.last().is_some_and(|last| *last <= longest && *last < boundary) {
                boundaries.push(boundary);
            }
        }
        power = power.saturating_mul(10);
    }
    boundaries.split_off(boundaries.partition_point(|boundary| *boundary <= shortest).saturating_sub(1))
}

fn over_time(trace: &Trace, ops: &[(usize, GpuOp)], columns: usize) -> OverTime {
    let empty = Window { start: Ns::ZERO, end: Ns::ZERO };
    let window = trace.cut.map(|cut| cut.window).or_else(|| trace.span()).unwrap_or(empty);
    let mut filled = vec![Column::default(); columns.clamp(1, 4_096)];
    let (count, length) = (filled.len() as i128, i128::from(window.length().0.max(1)));
    for (_, op) in ops {
        let index = i128::from(op.start.since(window.start).0) * count / length;
        let index = usize::try_from(index.clamp(0, count - 1)).unwrap_or(0);
        if let Some(column) = filled.get_mut(index) {
            column.count += 1;
            column.total += op.duration;
            column.longest = column.longest.max(op.duration);
        }
    }
    OverTime { window, is_part: trace.cut.is_some(), columns: filled }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::{number, replay_of_layers, rows_of, words};
    use crate::rules::RuleBook;
    use crate::session::{self, Choices};
    use crate::trace::testing::TestTrace;
    use proptest::prelude::*;

    fn find(trace: &Trace, name: &str) -> OneKernel {
        one_kernel(trace, RuleBook::gpuprism_default().unwrap(), Sharing::default(), name, 10)
    }

    /// `k` runs at 0..10 and 20..50, each followed by an op `other`, and is launched in the ranges `one` and `two`.
    fn example_trace() -> Trace {
        let mut trace = TestTrace::nsys();
        trace.range("one", 0..5).launch(1..2).launches("k", 0..10).launch(3..4).launches("other", 12..20);
        trace.range("two", 6..9).launch(7..8).launches("k", 20..50).launch(8..9).launches("other", 56..60);
        trace.finish()
    }

    #[test]
    fn figures_callers_and_neighbours_match_hand_computed_values() {
        let found = find(&example_trace(), "k");
        let figures = ["launches", "total_time_ns", "elapsed_share_pct", "p50_duration_us", "p90_duration_us"];
        // Busy: 40 of the 52 nanoseconds.
        assert_eq!(figures.map(|name| number(&found.detail.summary, name)), [2.0, 40.0, 4_000.0 / 52.0, 0.02, 0.028]);
        assert_eq!(rows_of(&found.launches, &["launch", "start_ns", "duration_ns"]), ["1 0 10", "2 20 30"]);
        let callers = rows_of(&found.callers, &["api_name", "range_name", "call_count", "total_time_ns"]);
        assert_eq!(callers, ["cudaLaunchKernel one 1 10", "cudaLaunchKernel two 1 30"]);
        let neighbours = rows_of(&found.neighbours, &["side", "kernel_name", "call_count", "median_gap_ns"]);
        // The gaps after it are 2 ns (10 to 12) and 6 ns (50 to 56).
        assert_eq!(neighbours, ["before other 1 0", "before - 1 -", "after other 2 4"]);
        let counts: Vec<u64> = found.over_time.columns.iter().map(|column| column.count).collect();
        assert_eq!(counts, [1, 0, 0, 1, 0, 0, 0, 0, 0, 0], "20 ns of 60 ns falls into the fourth of ten columns");
        assert_eq!(found.over_time.columns[3].longest, Ns(30));
    }

    #[test]
    fn an_unknown_name_has_no_launches() {
        let found = find(&example_trace(), "missing");
        assert_eq!(found.raw, None);
        assert_eq!(found.detail.missing.unwrap().why, "No GPU op in this trace has this name.");
        assert!(found.histogram.bins.is_empty());
    }

    #[test]
    fn a_window_limits_the_launches_and_the_rule_is_named() {
        let choices = Choices { window: Some("0.000000015-0.00000006".to_owned()), ..Choices::default() };
        let found = session::one_kernel(&example_trace(), &choices, "k", 9).unwrap();
        assert_eq!(number(&found.detail.summary, "launches"), 1.0);
        assert_eq!(words(&found.detail.summary, "rules"), "gpuprism/default, built in");
        let rules = session::UserFile {
            file: "mine.json".to_owned(),
            text: r#"{"gpuprism": {"default": {"^k$": "mine"}}}"#.to_owned(),
        };
        let found =
            session::one_kernel(&example_trace(), &Choices { rules: vec![rules], ..Choices::default() }, "k", 9)
                .unwrap();
        assert_eq!(found.category, "mine");
        assert_eq!(words(&found.detail.summary, "category_rule"), "^k$");
        assert_eq!(words(&found.detail.summary, "rules"), "gpuprism/default, mine.json");
    }

    #[test]
    fn a_kernel_with_shifted_durations_has_no_share() {
        let share = |lost_at: usize| {
            let rules = RuleBook::gpuprism_default().unwrap();
            let trace = replay_of_layers(lost_at).finish();
            one_kernel(&trace, rules, Sharing::default(), "gemm_kernel", 10).detail.summary.number("elapsed_share_pct")
        };
        assert_eq!((share(30), share(usize::MAX).is_some()), (None, true));
    }

    proptest! {
        #[test]
        fn every_launch_is_in_one_bin_and_one_column(
            durations in proptest::collection::vec(
                prop_oneof![0_i64..9, 0_i64..5_000, 0_i64..9_000_000_000_000, Just(i64::MAX / 16)], 1..60),
            columns in 0_usize..300,
        ) {
            let mut trace = TestTrace::nsys();
            for (start, duration) in (0..).zip(&durations) {
                trace.kernel("k", start..start + duration);
            }
            let rules = RuleBook::gpuprism_default().unwrap();
            let found = one_kernel(&trace.finish(), rules, Sharing::default(), "k", columns);
            for bin in &found.histogram.bins {
                let inside = durations.iter().filter(|duration| (bin.from.0..bin.to.0).contains(duration)).count();
                prop_assert_eq!(bin.count, inside as u64);
            }
            let launches = durations.len() as u64;
            prop_assert_eq!(found.histogram.bins.iter().map(|bin| bin.count).sum::<u64>(), launches);
            prop_assert_eq!(found.over_time.columns.iter().map(|column| column.count).sum::<u64>(), launches);
            for width in [240, 960] {
                let chart = crate::report::chart::durations(&found, width);
                prop_assert_eq!(chart.nodes.iter().filter(|node| node.tag == "rect").count(),
                    found.histogram.bins.iter().filter(|bin| bin.count > 0).count());
            }
        }
    }
}
