//! One kernel in detail: how long its launches take, when they run, what launches it, and what runs before and after it.
//!
//! It is no section of a report, for it is asked of one name; whoever holds the trace computes it.

use super::attribution::{NONE, around_calls};
use super::intervals::interpolate;
use super::labels;
use super::recapture::{self, Lacks};
use crate::analysis::section::{Section, Value};
use crate::ordering::{ByKey, InOrder};
use crate::rules::{RuleSet, names};
use crate::trace::{DeviceId, GpuOp, NameId, Ns, ProcessId, Spans, Trace, Window};
use std::cmp::Reverse;

/// See the module's head.
#[derive(Debug, Clone, PartialEq)]
pub struct OneKernel {
    /// The name for people, in full.
    pub name: String,
    /// As the trace has it; `None` where no op has this name.
    pub raw: Option<String>,
    /// Its category by the rules.
    pub category: String,
    /// Single figures, and a row a device and stream.
    pub detail: Section,
    /// What launches it.
    pub callers: Section,
    /// What runs before and after it on its stream.
    pub neighbours: Section,
    /// Its launches by duration.
    pub histogram: Histogram,
    /// Its launches by start.
    pub over_time: OverTime,
}

/// Launches by duration; every launch is in one bin.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Histogram {
    /// From the shortest; empty where there is no launch.
    pub bins: Vec<Bin>,
    /// Do bins widen by a factor, not by a length?
    pub is_logarithmic: bool,
    /// Per cent and duration in nanoseconds of p50, p90 and p99.
    pub percentiles: Vec<(u64, f64)>,
}

/// One bin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bin {
    /// The shortest duration that is in it.
    pub from: Ns,
    /// The shortest one above that is not.
    pub to: Ns,
    /// Launches.
    pub count: u64,
}

/// Launches by start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OverTime {
    /// From the first GPU op to the last, or the chosen window.
    pub window: Window,
    /// Is it a part of the trace?
    pub is_part: bool,
    /// Equally long.
    pub columns: Vec<Column>,
}

/// The launches that began in one column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Column {
    /// How many.
    pub count: u64,
    /// Their durations together.
    pub total: Ns,
    /// The longest of them.
    pub longest: Ns,
}

const DETAIL: [&str; 10] = [
    "device_id",
    "stream_id",
    "call_count",
    "total_time_ns",
    "avg_duration_us",
    "min_duration_us",
    "p50_duration_us",
    "p90_duration_us",
    "p99_duration_us",
    "max_duration_us",
];
const CALLERS: [&str; 5] = ["api_name", "range_name", "call_count", "pct_of_launches", "total_time_ns"];
const CALLERS_IN_CODE: [&str; 7] =
    ["api_name", "range_name", "cpu_op", "python_location", "call_count", "pct_of_launches", "total_time_ns"];
const NEIGHBOURS: [&str; 5] = ["side", "kernel_name", "call_count", "pct_of_launches", "median_gap_ns"];
/// Rows of callers, and of neighbours on each side.
const TOP: usize = 10;
/// Bins of equal width.
const BINS: i64 = 40;
/// From this ratio of longest to shortest on, bins of equal width would hide the short ones.
const SPREAD: i64 = 20;
/// Ten edges a decade, each a quarter above the one before: rounded powers of the tenth root of ten.
const EDGES: [i64; 10] = [100, 126, 158, 200, 251, 316, 398, 501, 631, 794];
const PERCENTILES: [u64; 3] = [50, 90, 99];

/// Everything about the GPU ops of this name, as the trace has it or as people read it. `columns`: parts of the time.
pub fn one_kernel(trace: &Trace, rules: &RuleSet, name: &str, columns: usize) -> OneKernel {
    let wanted = Wanted::of(trace, name);
    let ops: Vec<(usize, GpuOp)> = trace.gpu_ops.iter().enumerate().filter(|(_, op)| wanted.has(op.name)).collect();
    let raw = ops.first().map(|(_, op)| trace.names.get(op.name).to_owned());
    let full = raw.as_deref().map_or_else(|| name.to_owned(), |raw| names::demangle(raw).into_owned());
    let category = raw.as_deref().map(|raw| rules.category(raw, &full).to_owned()).unwrap_or_default();
    let durations = sorted(ops.iter().map(|(_, op)| op.duration));
    OneKernel {
        detail: detail(trace, &wanted, &ops, &durations, &category),
        callers: callers(trace, &ops),
        neighbours: neighbours(trace, &wanted, ops.len()),
        histogram: histogram(&durations),
        over_time: over_time(trace, &ops, columns),
        name: full,
        raw,
        category,
    }
}

/// Which names of the trace are meant: several mangled ones can read alike.
struct Wanted(Vec<bool>);

impl Wanted {
    fn of(trace: &Trace, name: &str) -> Self {
        let exact: Vec<bool> = trace.names.iter().map(|raw| raw == name).collect();
        if exact.contains(&true) {
            return Self(exact);
        }
        Self(trace.names.iter().map(|raw| names::demangle(raw) == name).collect())
    }

    fn has(&self, name: NameId) -> bool {
        self.0.get(name.0 as usize).copied().unwrap_or(false)
    }
}

fn sorted(durations: impl Iterator<Item = Ns>) -> Vec<i64> {
    let mut durations: Vec<i64> = durations.map(|duration| duration.0).collect();
    durations.sort_unstable();
    durations
}

fn percentile(sorted: &[i64], percent: u64) -> Option<f64> {
    interpolate(sorted.len(), percent, &|at| sorted.get(at).copied())
}

fn percentile_us(sorted: &[i64], percent: u64) -> Value {
    Value::from(percentile(sorted, percent).map(|ns| ns / 1e3))
}

fn sum(durations: &[i64]) -> Ns {
    Ns(durations.iter().fold(0, |sum: i64, duration| sum.saturating_add(*duration)))
}

fn mean_us(durations: &[i64]) -> Value {
    Value::from(sum(durations).0 as f64 / durations.len().max(1) as f64 / 1e3)
}

fn extreme_us(duration: Option<&i64>) -> Value {
    Value::from(duration.map(|ns| *ns as f64 / 1e3))
}

fn detail(trace: &Trace, wanted: &Wanted, ops: &[(usize, GpuOp)], durations: &[i64], category: &str) -> Section {
    const TITLE: &str = "By device and stream";
    if ops.is_empty() {
        let place = if trace.cut.is_some() { "the chosen window of this trace" } else { "this trace" };
        return Section::missing(TITLE, &DETAIL, &format!("No GPU op in {place} has this name."), "");
    }
    let mut section = Section::new(TITLE, "start and end of every launch", &DETAIL)
        .limit("Of busy time: what it owns under first come, of the time in which its devices run anything.");
    if trace.cut.is_some_and(|cut| cut.cut_ops > 0) {
        section = section.limit("Of a launch that reaches over an end of the window the part inside counts.");
    }
    let (owned, busy) = owned_and_busy(trace, wanted);
    section.figure("launches", durations.len());
    section.figure("total_time_ns", sum(durations));
    section.figure("busy_share_pct", Value::pct(owned, busy));
    section.figure("avg_duration_us", mean_us(durations));
    section.figure("min_duration_us", extreme_us(durations.first()));
    for (name, percent) in ["p50_duration_us", "p90_duration_us", "p99_duration_us"].iter().zip(PERCENTILES) {
        section.figure(name, percentile_us(durations, percent));
    }
    section.figure("max_duration_us", extreme_us(durations.last()));
    section.figure("category", category);
    let mut lanes: ByKey<(DeviceId, i64), Vec<Ns>> = ByKey::new();
    for (_, op) in ops {
        lanes.change((op.device, op.stream), Vec::new(), |durations| durations.push(op.duration));
    }
    for ((device, stream), durations) in lanes.0 {
        let durations = sorted(durations.into_iter());
        section.row([
            labels::device(trace, device),
            Value::from((stream >= 0).then_some(stream)),
            durations.len().into(),
            sum(&durations).into(),
            mean_us(&durations),
            extreme_us(durations.first()),
            percentile_us(&durations, 50),
            percentile_us(&durations, 90),
            percentile_us(&durations, 99),
            extreme_us(durations.last()),
        ]);
    }
    section
}

/// The time that the kernel owns where the op that began first owns it, and the busy time of the devices it runs on.
fn owned_and_busy(trace: &Trace, wanted: &Wanted) -> (Ns, Ns) {
    let mut devices: Vec<(Ns, Ns, Ns)> = vec![(Ns(i64::MIN), Ns::ZERO, Ns::ZERO); trace.devices.len()];
    for op in trace.gpu_ops.iter() {
        let Some((reach, owned, busy)) = devices.get_mut(op.device.0 as usize) else { continue };
        let from = op.start.max(*reach);
        if op.end() <= from {
            continue;
        }
        let time = op.end().since(from);
        *busy += time;
        if wanted.has(op.name) {
            *owned += time;
        }
        *reach = op.end();
    }
    let used = devices.iter().filter(|(_, owned, _)| *owned > Ns::ZERO);
    used.fold((Ns::ZERO, Ns::ZERO), |(owned, busy), device| (owned + device.1, busy + device.2))
}

/// What the code around a launch is called; [`NONE`] where there is nothing.
type Caller = [u32; 4];

fn callers(trace: &Trace, ops: &[(usize, GpuOp)]) -> Section {
    const TITLE: &str = "Called from";
    let columns: &[&str] = if trace.code.is_some() { &CALLERS_IN_CODE } else { &CALLERS };
    let linked = ops.iter().filter(|(at, _)| trace.gpu_ops.launch(*at).is_some()).count();
    if linked == 0 {
        let why = "The trace holds no call that launched it.";
        return Section::missing(TITLE, columns, why, &recapture::command(trace.format, Lacks::Calls));
    }
    let mut section = Section::new(TITLE, "the calls with the launches' correlation ids", columns)
        .limit("A range is the innermost one of the launching thread around the call.");
    if trace.code.is_none() {
        section = section.limit("CPU ops and Python frames are read with the triage alone.");
    }
    if linked < ops.len() {
        section = section.limit(format!("{} launches have no known call.", ops.len() - linked));
    }
    let ranges = around_calls(trace, &trace.ranges, &|_| true);
    let (cpu_ops, frames) = in_code(trace);
    let mut found: ByKey<Caller, (u64, Ns)> = ByKey::new();
    for (at, op) in ops {
        let Some(call) = trace.gpu_ops.launch(*at) else { continue };
        let place = call.0 as usize;
        let of = |names: &[u32]| names.get(place).copied().unwrap_or(NONE);
        let name = trace.calls.get(place).map_or(NONE, |call| call.name.0);
        found.change([name, of(&ranges), of(&cpu_ops), of(&frames)], (0, Ns::ZERO), |(count, total)| {
            *count += 1;
            *total += op.duration;
        });
    }
    found.0.order_by_key(|(_, (count, total))| Reverse((*count, *total)));
    for (caller, (count, total)) in found.0 {
        add_caller(trace, &mut section, caller, [count.into(), pct(count, ops.len()), total.into()]);
    }
    section.truncate(TOP);
    section
}

/// The CPU op and the Python frame around each call, where the trace was read with its code.
fn in_code(trace: &Trace) -> (Vec<u32>, Vec<u32>) {
    let Some(code) = &trace.code else { return (Vec::new(), Vec::new()) };
    // Frames of builtins have no place in a file.
    let in_file = |name: NameId| code.frames.names.get(name).contains(".py(");
    (around_calls(trace, &code.cpu_ops, &|_| true), around_calls(trace, &code.frames, &in_file))
}

fn add_caller(trace: &Trace, section: &mut Section, [call, range, cpu_op, frame]: Caller, numbers: [Value; 3]) {
    let [count, share, total] = numbers;
    let (call, range) = (name_in(&trace.calls, call), name_in(&trace.ranges, range));
    match &trace.code {
        Some(code) => {
            let (cpu_op, frame) = (name_in(&code.cpu_ops, cpu_op), name_in(&code.frames, frame));
            section.row([call, range, cpu_op, frame, count, share, total]);
        }
        None => section.row([call, range, count, share, total]),
    }
}

fn name_in(spans: &Spans, name: u32) -> Value {
    if name == NONE { Value::Null } else { spans.names.get(NameId(name)).into() }
}

fn pct(part: u64, whole: usize) -> Value {
    Value::from(100.0 * part as f64 / whole.max(1) as f64)
}

/// The gaps in nanoseconds to the ops of each name on one side; none: there is no op there.
type Side = ByKey<Option<NameId>, Vec<i64>>;

fn neighbours(trace: &Trace, wanted: &Wanted, launches: usize) -> Section {
    let mut section = Section::new("Neighbours", "the ops beside each launch on its stream", &NEIGHBOURS)
        .limit("A gap below zero: both ran at the same time.");
    let (mut before, mut after) = (Side::new(), Side::new());
    let mut last: ByKey<(DeviceId, i64, ProcessId), GpuOp> = ByKey::new();
    for op in trace.gpu_ops.iter() {
        let previous = last.change((op.device, op.stream, op.process), op, |last| {
            let previous = *last;
            *last = op;
            previous
        });
        // The first op of a stream is its own predecessor.
        let is_first = previous == op;
        let gap = op.start.since(previous.end()).0;
        if wanted.has(op.name) {
            let name = (!is_first).then_some(previous.name);
            before.change(name, Vec::new(), |gaps| gaps.push(gap));
        }
        if !is_first && wanted.has(previous.name) {
            after.change(Some(op.name), Vec::new(), |gaps| gaps.push(gap));
        }
    }
    for (_, op) in last.0.iter().filter(|(_, op)| wanted.has(op.name)) {
        after.change(None, Vec::new(), |gaps| gaps.push(op.duration.0));
    }
    let rows = before.0.len() + after.0.len();
    add_side(trace, &mut section, "before", before, launches);
    add_side(trace, &mut section, "after", after, launches);
    section.rows_in_all = rows as u64;
    section
}

fn add_side(trace: &Trace, section: &mut Section, side: &str, mut found: Side, launches: usize) {
    found.0.order_by_key(|(_, gaps)| Reverse(gaps.len()));
    for (name, mut gaps) in found.0.into_iter().take(TOP) {
        gaps.sort_unstable();
        let gap = name.and(percentile(&gaps, 50)).map(|gap| gap as i64);
        let name = name.map_or_else(|| "(nothing)".into(), |name| labels::kernel(trace, name));
        section.row([side.into(), name, gaps.len().into(), pct(gaps.len() as u64, launches), gap.into()]);
    }
}

fn histogram(sorted: &[i64]) -> Histogram {
    let (Some(&shortest), Some(&longest)) = (sorted.first(), sorted.last()) else { return Histogram::default() };
    let is_logarithmic = longest / SPREAD >= shortest.max(1);
    let edges = if is_logarithmic { log_edges(shortest, longest) } else { even_edges(shortest, longest) };
    let below = |edge: i64| sorted.partition_point(|duration| *duration < edge);
    let bins = edges.iter().zip(edges.iter().skip(1)).map(|(&from, &to)| Bin {
        from: Ns(from),
        to: Ns(to),
        count: (below(to) - below(from)) as u64,
    });
    let percentiles = PERCENTILES.iter().filter_map(|percent| Some((*percent, percentile(sorted, *percent)?)));
    Histogram { bins: bins.collect(), is_logarithmic, percentiles: percentiles.collect() }
}

fn even_edges(shortest: i64, longest: i64) -> Vec<i64> {
    let width = (longest - shortest) / BINS + 1;
    let bins = (longest - shortest) / width + 1;
    (0..=bins).map(|at| shortest.saturating_add(at.saturating_mul(width))).collect()
}

/// Edges around both durations; the first is zero where a duration is.
fn log_edges(shortest: i64, longest: i64) -> Vec<i64> {
    let mut edges = Vec::new();
    let mut power: i64 = 1;
    loop {
        for edge in EDGES.map(|edge| edge.saturating_mul(power) / 100) {
            if edges.last().is_none_or(|last| *last < edge) {
                edges.push(edge);
            }
            if edge > longest {
                let first = edges.partition_point(|edge| *edge <= shortest).saturating_sub(1);
                let mut edges = edges.split_off(first);
                if shortest < 1 {
                    edges.insert(0, 0);
                }
                return edges;
            }
        }
        match power.checked_mul(10) {
            Some(more) if more < i64::MAX / 1_000 => power = more,
            _ => {
                edges.push(i64::MAX);
                return edges;
            }
        }
    }
}

fn over_time(trace: &Trace, ops: &[(usize, GpuOp)], columns: usize) -> OverTime {
    let none = Window { start: Ns::ZERO, end: Ns::ZERO };
    let window = trace.cut.map(|cut| cut.window).or_else(|| trace.span()).unwrap_or(none);
    let mut found = vec![Column::default(); columns.clamp(1, 4_096)];
    let (count, length) = (found.len() as i128, i128::from(window.length().0.max(1)));
    for (_, op) in ops {
        let place = i128::from(op.start.since(window.start).0) * count / length;
        let place = usize::try_from(place.clamp(0, count - 1)).unwrap_or(0);
        if let Some(column) = found.get_mut(place) {
            column.count += 1;
            column.total += op.duration;
            column.longest = column.longest.max(op.duration);
        }
    }
    OverTime { window, is_part: trace.cut.is_some(), columns: found }
}
