//! Lists the kernels with the most time, overall and by process, and detects launch storms: too many short kernels per
//! second. Cost: one sort of the kernel groups, plus one scan of them per row for exact percentiles.

use crate::analysis::context::Context;
use crate::analysis::host::calls::Launches;
use crate::analysis::kernels::durations::{KernelDurations, Percentiles};
use crate::analysis::kernels::kernel_sums::KernelSum;
use crate::analysis::labels;
use crate::analysis::measure::tally::{Tallies, Tally, key};
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Section, Value};
use crate::analysis::structure::shifted_durations::WITHHELD;
use crate::digits::grouped;
use crate::ordering::sorted_indices;
use crate::trace::{DeviceId, NameId, Ns, ProcessId};

pub(super) const KERNELS: [&str; 11] = [
    "kernel_name",
    "device_id",
    "call_count",
    "total_time_ns",
    "total_time_ms",
    "avg_duration_us",
    "min_duration_us",
    "max_duration_us",
    "p50_duration_us",
    "p90_duration_us",
    "pct_total_kernel_time",
];
/// The columns of [`KERNELS`] that need the duration of each launch.
pub(super) const DISTRIBUTION: [&str; 4] = ["min_duration_us", "max_duration_us", "p50_duration_us", "p90_duration_us"];
const KERNELS_BY_PID: [&str; 10] = [
    "pid",
    "pid_total_kernel_time_ms",
    "pid_pct_of_total_kernel_time",
    "kernel_name",
    "device_id",
    "call_count",
    "total_time_ms",
    "avg_duration_us",
    "pct_of_pid_kernel_time",
    "pct_of_total_kernel_time",
];
const TINY_KERNELS: [&str; 3] = ["kernel_name", "call_count", "avg_duration_us"];
const STORM_BY_PID: [&str; 13] = [
    "pid",
    "total_launches",
    "window_s",
    "launches_per_s",
    "median_kernel_us",
    "p90_kernel_us",
    "p99_kernel_us",
    "pct_under_5us",
    "pct_under_10us",
    "pct_under_20us",
    "is_launch_storm",
    "host_launches",
    "host_launches_per_s",
];
/// Maximum number of processes, of kernels per process, and of tiny kernels.
const MAX_ROWS: usize = 10;

fn no_kernels(context: &Context, title: &str, columns: &[&str]) -> Section {
    context.missing(title, columns, "The trace contains no GPU kernels.", MissingData::Kernels)
}

fn ns_to_us(ns: Option<f64>) -> Value {
    Value::from(ns.map(|ns| ns / 1e3))
}

/// The sections that need the duration of every kernel.
pub(crate) fn of_durations(context: &Context) -> [(&'static str, Section); 3] {
    let durations = &context.durations();
    let rates = LaunchRate::by_process(context, durations);
    let percentiles = durations.percentiles_of_process_ns(None);
    [
        ("kernels", kernels(context, durations)),
        ("launch_storm", launch_storm(context, durations, &rates, percentiles)),
        ("launch_storm_by_pid", launch_storm_by_pid(context, durations, &rates, percentiles)),
    ]
}

/// Lists the kernels with the most time, by name and device.
fn kernels(context: &Context, durations: &KernelDurations) -> Section {
    const TITLE: &str = "Top kernels";
    let (trace, kernels) = (context.trace, context.kernels());
    let (total, count) = (kernels.total(), kernels.count());
    if count == 0 {
        return no_kernels(context, TITLE, &KERNELS);
    }
    let device_and_name = |sum: &KernelSum| key(sum.device.0, sum.name.0);
    let mut tallies = Tallies::default();
    for sum in &kernels.sums {
        tallies.merge(&Tally { key: device_and_name(sum), ..sum.tally });
    }
    let ranked = tallies.by_time(&|tally| trace.names.get(NameId(tally.member())));
    let mut section = Section::new(TITLE, "start and end of every kernel, by name and device", &KERNELS)
        .limit("Times are sums of durations: overlapping kernels each count in full.");
    section.figure("total_kernel_time_ns", total);
    section.figure("kernel_count", count);
    section.rows_in_all = ranked.len() as u64;
    for tally in ranked.iter().take(context.kernel_limit) {
        let keys = kernels.sums.iter().filter(|sum| device_and_name(sum) == tally.key).map(KernelSum::key);
        let [median, p90, _] = durations.percentiles_ns(keys).map(ns_to_us);
        section.row([
            labels::kernel(trace, NameId(tally.member())),
            labels::device(trace, DeviceId(tally.group())),
            tally.count.into(),
            tally.total.into(),
            Value::ms(tally.total),
            tally.average_us(),
            Value::us(tally.shortest),
            Value::us(tally.longest),
            median,
            p90,
            context.share_of_kernel(NameId(tally.member()), tally.total, total),
        ]);
    }
    with_note(context, section)
}

/// Lists the processes with the most kernel time, each with its kernels with the most time.
pub(crate) fn kernels_by_pid(context: &Context) -> Section {
    const TITLE: &str = "Kernels by process";
    let trace = context.trace;
    let (devices, names, processes) = (trace.devices.len(), trace.names.len(), trace.processes.len());
    // Keys: device and name.
    let mut kernels = Tallies::with_table(devices, names);
    // Keys: process and id of the kernel in `kernels`.
    let mut kernels_of_processes = Tallies::with_table(processes, devices.saturating_mul(names));
    let mut processes = Tallies::with_table(processes, 1);
    let total = context.kernels().total();
    for sum in &context.kernels().sums {
        let kernel = kernels.merge(&Tally { key: key(sum.device.0, sum.name.0), ..sum.tally });
        kernels_of_processes.merge(&Tally { key: key(sum.process.0, kernel), ..sum.tally });
        processes.merge(&Tally { key: key(sum.process.0, 0), ..sum.tally });
    }
    if processes.iter().len() == 0 {
        return no_kernels(context, TITLE, &KERNELS_BY_PID);
    }
    let kernels: Vec<Tally> = kernels.iter().copied().collect();
    let kernel = |tally: &Tally| kernels.get(tally.member() as usize).copied().unwrap_or_default();
    let ranked = kernels_of_processes.by_time(&|tally| trace.names.get(NameId(kernel(tally).member())));
    let mut section = Section::new(TITLE, "the process of every kernel", &KERNELS_BY_PID);
    section.figure("processes", processes.iter().len());
    section.rows_in_all = ranked.len() as u64;
    for process in processes.by_time(&|_| "").iter().take(MAX_ROWS) {
        for tally in ranked.iter().filter(|tally| tally.group() == process.group()).take(MAX_ROWS) {
            let kernel = kernel(tally);
            section.row([
                labels::pid(trace, ProcessId(process.group())),
                Value::ms(process.total),
                Value::pct(process.total, total),
                labels::kernel(trace, NameId(kernel.member())),
                labels::device(trace, DeviceId(kernel.group())),
                tally.count.into(),
                Value::ms(tally.total),
                tally.average_us(),
                context.share_of_kernel(NameId(kernel.member()), tally.total, process.total),
                context.share_of_kernel(NameId(kernel.member()), tally.total, total),
            ]);
        }
    }
    with_note(context, section)
}

/// Adds the reason why shares are missing.
fn with_note(context: &Context, section: Section) -> Section {
    if context.shifted_durations().shifted > 0 { section.limit(WITHHELD) } else { section }
}

/// Counts of the kernels and launch calls of one or all processes.
#[derive(Debug, Clone, Copy, Default)]
struct LaunchRate {
    kernels: u64,
    /// First start and last end of the kernels.
    window: Option<(Ns, Ns)>,
    /// Number of kernels shorter than 5, 10 and 20 us.
    under: [u64; 3],
    /// Number of launch calls. A graph launch is one call.
    host_launches: u64,
    graph_launches: u64,
}

impl LaunchRate {
    fn by_process(context: &Context, durations: &KernelDurations) -> Vec<Self> {
        let host = context.host().launches.iter();
        let from_host = |launches: &Launches| Self {
            host_launches: launches.all,
            graph_launches: launches.graphs,
            ..Self::default()
        };
        let mut rates: Vec<Self> = host.map(from_host).collect();
        for sum in &context.kernels().sums {
            let Some(rate) = rates.get_mut(sum.process.0 as usize) else { continue };
            let under = durations.short_kernels(&sum.key()).under;
            rate.add(&Self { kernels: sum.tally.count, window: Some(sum.window), under, ..Self::default() });
        }
        rates
    }

    fn combined(processes: &[Self]) -> Self {
        let mut combined = Self::default();
        processes.iter().for_each(|rate| combined.add(rate));
        combined
    }

    fn add(&mut self, more: &Self) {
        self.kernels += more.kernels;
        self.host_launches += more.host_launches;
        self.graph_launches += more.graph_launches;
        for (sum, under) in self.under.iter_mut().zip(more.under) {
            *sum += under;
        }
        if let Some((start, end)) = more.window {
            let (first, last) = self.window.unwrap_or((start, end));
            self.window = Some((first.min(start), last.max(end)));
        }
    }

    /// Length of the window in seconds, at least one nanosecond.
    fn window_s(&self) -> f64 {
        self.window.map_or(1, |(start, end)| end.since(start).0.max(1)) as f64 / 1e9
    }

    fn per_s(&self, count: u64) -> f64 {
        count as f64 / self.window_s()
    }

    fn pct_under(&self) -> [Value; 3] {
        self.under.map(|under| Value::from(100.0 * under as f64 / self.kernels.max(1) as f64))
    }

    fn is_storm(&self, context: &Context, median_ns: Option<f64>) -> bool {
        let median_us = median_ns.map_or(f64::INFINITY, |median| median / 1e3);
        let storms = &context.signals.thresholds.launch_storm;
        storms.iter().any(|storm| self.per_s(self.kernels) >= storm.launches_per_s && median_us <= storm.median_us)
    }
}

/// Checks the trace for a launch storm. The rows are the kernel names with the most tiny kernels.
fn launch_storm(
    context: &Context,
    durations: &KernelDurations,
    rates: &[LaunchRate],
    [median, p90, p99]: Percentiles,
) -> Section {
    const TITLE: &str = "Launch storm";
    let trace = context.trace;
    let rate = LaunchRate::combined(rates);
    if rate.kernels == 0 {
        return no_kernels(context, TITLE, &TINY_KERNELS);
    }
    let storms: Vec<String> = context
        .signals
        .thresholds
        .launch_storm
        .iter()
        .map(|storm| {
            let per_s = grouped(storm.launches_per_s.round() as u64);
            format!("{per_s} kernels per second with a median of at most {} us", storm.median_us)
        })
        .collect();
    let mut section =
        Section::new(TITLE, "all kernels from the first start to the last end, and launch calls", &TINY_KERNELS)
            .limit("Launches count kernels, also those inside graphs. Host launches count calls, one per graph.")
            .limit(format!("A launch storm is at least {}.", storms.join(", or at least ")));
    let [under_5us, under_10us, under_20us] = rate.pct_under();
    section.figure("total_launches", rate.kernels);
    section.figure("window_s", rate.window_s());
    section.figure("launches_per_s", rate.per_s(rate.kernels));
    section.figure("median_kernel_us", ns_to_us(median));
    section.figure("p50_kernel_us", ns_to_us(median));
    section.figure("p90_kernel_us", ns_to_us(p90));
    section.figure("p99_kernel_us", ns_to_us(p99));
    section.figure("pct_under_5us", under_5us);
    section.figure("pct_under_10us", under_10us);
    section.figure("pct_under_20us", under_20us);
    section.figure("is_launch_storm", rate.is_storm(context, median));
    section.figure("tiny_kernel_us", context.signals.thresholds.tiny_kernel_us);
    let has_calls = !trace.calls.is_empty();
    section.figure("host_launches", has_calls.then_some(rate.host_launches));
    section.figure("host_launches_per_s", has_calls.then(|| rate.per_s(rate.host_launches)));
    section.figure("graph_launches", has_calls.then_some(rate.graph_launches));
    add_tiny_kernels(context, durations, &mut section);
    section
}

fn add_tiny_kernels(context: &Context, durations: &KernelDurations, section: &mut Section) {
    let trace = context.trace;
    let mut tiny = Tallies::with_table(1, trace.names.len());
    for sum in &context.kernels().sums {
        let (count, total) = durations.short_kernels(&sum.key()).tiny;
        if count > 0 {
            tiny.merge(&Tally { key: key(0, sum.name.0), count, total, ..Tally::default() });
        }
    }
    let ranked = tiny.ranked(&|tally| tally.count as i64, &|tally| trace.names.get(NameId(tally.member())));
    section.rows_in_all = ranked.len() as u64;
    for tally in ranked.iter().take(MAX_ROWS) {
        section.row([labels::kernel(trace, NameId(tally.member())), tally.count.into(), tally.average_us()]);
    }
}

/// Checks each process for a launch storm. The rows are the processes, sorted by number of kernels.
fn launch_storm_by_pid(
    context: &Context,
    durations: &KernelDurations,
    rates: &[LaunchRate],
    trace_percentiles: Percentiles,
) -> Section {
    const TITLE: &str = "Launch storm by process";
    let trace = context.trace;
    let kernels = |process: usize| rates.get(process).map_or(0, |rate| rate.kernels);
    let mut processes = sorted_indices(rates.len(), &|a, b| kernels(b).cmp(&kernels(a)));
    processes.retain(|&process| kernels(process) > 0);
    if processes.is_empty() {
        return no_kernels(context, TITLE, &STORM_BY_PID);
    }
    let mut section =
        Section::new(TITLE, "the kernels of each process from its first start to its last end", &STORM_BY_PID);
    section.rows_in_all = processes.len() as u64;
    for process in processes.into_iter().take(MAX_ROWS) {
        let Some(rate) = rates.get(process) else { continue };
        let has_all_kernels = rate.kernels == context.kernels().count();
        let own_percentiles = || durations.percentiles_of_process_ns(Some(ProcessId(process as u32)));
        let [median, p90, p99] = if has_all_kernels { trace_percentiles } else { own_percentiles() };
        let [under_5us, under_10us, under_20us] = rate.pct_under();
        let has_calls = !trace.calls.is_empty();
        section.row([
            labels::pid(trace, ProcessId(process as u32)),
            rate.kernels.into(),
            rate.window_s().into(),
            rate.per_s(rate.kernels).into(),
            ns_to_us(median),
            ns_to_us(p90),
            ns_to_us(p99),
            under_5us,
            under_10us,
            under_20us,
            rate.is_storm(context, median).into(),
            has_calls.then_some(rate.host_launches).into(),
            has_calls.then(|| rate.per_s(rate.host_launches)).into(),
        ]);
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::sections::explain;
    use crate::analysis::testing::{figure, number, rows};
    use crate::trace::testing::TestTrace;

    #[test]
    fn kernels_have_one_row_per_device_and_copies_are_excluded() {
        let mut trace = TestTrace::new();
        trace.process(0).device("1").kernel("_Z3foov", 0..3_000).kernel("_Z3foov", 0..5_000_000_000);
        let trace = trace.kernel("Memcpy HtoD", 0..9_000).device("[TP00] 0").kernel("_Z3foov", 0..1_000).finish();
        let sections = explain(&Context::new(&trace, 1));
        let columns = ["kernel_name", "device_id", "call_count", "total_time_ns", "p50_duration_us", "p90_duration_us"];
        // Interpolated between 3 us and 5 s, at 50 % and 90 %.
        assert_eq!(rows(&sections, "kernels", &columns), ["foo() 1 2 5000003000 2500001.5 4500000.3"]);
        assert_eq!((sections["kernels"].rows_in_all, figure(&sections, "kernels", "kernel_count")), (2, 3.0));
        let by_pid = rows(&sections, "kernels_by_pid", &["pid", "device_id", "call_count"]);
        assert_eq!(by_pid, ["0 1 2", "0 [TP00] 0 1"], "process id 0 is valid");
    }

    #[test]
    fn kernels_by_pid_shows_ten_processes_with_ten_kernels_each_and_counts_all() {
        let mut trace = TestTrace::nsys();
        for (pid, kernel) in (0..12).flat_map(|pid| (0..12).map(move |kernel| (pid, kernel))) {
            trace.process(pid).kernel(&format!("k{kernel:02}"), 0..100 * (pid + 1) + kernel);
        }
        let section = trace.section(kernels_by_pid);
        assert_eq!((section.rows.len(), section.rows_in_all), (100, 144));
        let pids: Vec<f64> = section.rows.iter().map(|row| number(row, "pid")).collect();
        assert!(pids.is_sorted_by(|a, b| a >= b) && pids[0] == 11.0 && pids[99] == 2.0, "{pids:?}");
    }

    /// The example of nsys-llm-explainer: 200 kernels of 1 us, one every 2 us.
    #[test]
    fn many_small_kernels_are_a_storm_and_a_graph_launch_is_one_host_launch() {
        let mut trace = TestTrace::nsys();
        trace.process(5).call("cudaGraphLaunch", 0..10).launch(10..20);
        for start in (0..200).map(|index| 2_000 * index) {
            trace.kernel(if start < 300_000 { "a" } else { "b" }, start..start + 1_000);
        }
        let sections = trace.sections();
        let section = &sections["launch_storm"];
        assert_eq!(section.summary.get("is_launch_storm"), Some(&true.into()));
        assert_eq!(rows(&sections, "launch_storm", &TINY_KERNELS), ["a 150 1", "b 50 1"]);
        // The window ends with the last kernel: 199 * 2 us + 1 us.
        let figure = |name: &str| figure(&sections, "launch_storm", name);
        assert_eq!((figure("window_s"), figure("pct_under_5us")), (0.000_399, 100.0));
        assert_eq!(
            (figure("launches_per_s"), figure("host_launches"), figure("graph_launches")),
            (200.0 / 0.000_399, 2.0, 1.0)
        );
        let by_pid = &sections["launch_storm_by_pid"];
        assert_eq!(by_pid.rows[0].get("is_launch_storm"), Some(&true.into()));
        assert_eq!((by_pid.rows.len(), by_pid.rows[0].get("pid")), (1, Some(&5_i64.into())));
    }
}
