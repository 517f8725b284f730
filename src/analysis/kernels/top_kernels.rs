//! Lists the kernels with the most time, overall and by process, and detects launch storms: too many short kernels per
//! second. Cost: one sort of the kernel groups, plus one scan of them per row for exact percentiles.

use crate::analysis::context::Context;
use crate::analysis::host::calls::Launches;
use crate::analysis::kernels::durations::{KernelDurations, Percentiles};
use crate::analysis::kernels::kernel_sums::KernelSum;
use crate::analysis::labels;
use crate::analysis::measure::tally::{Tallies, Tally, key};
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Answer, KernelName, Ms, Pct, Seconds, TypedSection, Us, Value, section};
use crate::analysis::structure::shifted_durations::WITHHELD;
use crate::ordering::sorted_indices;
use crate::trace::{DeviceId, NameId, Ns, ProcessId};
use crate::words::kernels as words;

section! {
    /// The kernels with the most time, by name and device.
    pub(crate) struct TopKernels("kernels", "Top kernels");
    row TopKernelRow {
        kernel_name: KernelName = "Kernel",
        device_id: Value = "Device",
        call_count: u64 = "Calls",
        total_time_ns: Ns = "Total",
        total_time_ms: Ms = "Total",
        avg_duration_us: Option<Us> = "Mean",
        min_duration_us: Us = "Min",
        max_duration_us: Us = "Max",
        p50_duration_us: Option<Us> = "p50",
        p90_duration_us: Option<Us> = "p90",
        pct_total_kernel_time: Option<Pct> = "Of summed kernel time",
    }
    figures TopKernelFigures {
        total_kernel_time_ns: Ns = "Kernel time",
        kernel_count: u64,
    }
}

section! {
    /// The processes with the most kernel time, each with its kernels with the most time.
    pub(crate) struct KernelsByProcess("kernels_by_pid", "Kernels by process");
    row KernelOfProcessRow {
        pid: Value,
        pid_total_kernel_time_ms: Ms = "Process total",
        pid_pct_of_total_kernel_time: Pct = "Process share",
        kernel_name: KernelName = "Kernel",
        device_id: Value = "Device",
        call_count: u64 = "Calls",
        total_time_ms: Ms = "Total",
        avg_duration_us: Us = "Mean",
        pct_of_pid_kernel_time: Option<Pct> = "Of process",
        pct_of_total_kernel_time: Option<Pct> = "Of summed kernel time",
    }
    figures KernelsByProcessFigures { processes: usize }
}

section! {
    /// Whether the trace has a launch storm. The rows are the kernel names with the most tiny kernels.
    pub(crate) struct LaunchStorm("launch_storm", "Launch storm");
    row TinyKernelRow { kernel_name: KernelName = "Kernel", call_count: u64 = "Calls", avg_duration_us: Us = "Mean" }
    figures LaunchStormFigures {
        total_launches: u64,
        window_s: Seconds,
        launches_per_s: f64,
        median_kernel_us: Option<Us>,
        p50_kernel_us: Option<Us>,
        p90_kernel_us: Option<Us>,
        p99_kernel_us: Option<Us>,
        pct_under_5us: Pct,
        pct_under_10us: Pct,
        pct_under_20us: Pct,
        is_launch_storm: bool,
        tiny_kernel_us: Us,
        host_launches: Option<u64>,
        host_launches_per_s: Option<f64>,
        graph_launches: Option<u64>,
    }
}

section! {
    /// Whether each process has a launch storm.
    pub(crate) struct LaunchStormByProcess("launch_storm_by_pid", "Launch storm by process");
    row LaunchStormRow {
        pid: Value,
        total_launches: u64,
        window_s: Seconds,
        launches_per_s: f64,
        median_kernel_us: Option<Us>,
        p90_kernel_us: Option<Us>,
        p99_kernel_us: Option<Us>,
        pct_under_5us: Pct,
        pct_under_10us: Pct,
        pct_under_20us: Pct,
        is_launch_storm: bool,
        host_launches: Option<u64>,
        host_launches_per_s: Option<f64>,
    }
}

/// The columns of [`TopKernels`] that need the duration of each launch.
pub(super) const DISTRIBUTION: [&str; 4] = [
    TopKernelRow::min_duration_us,
    TopKernelRow::max_duration_us,
    TopKernelRow::p50_duration_us,
    TopKernelRow::p90_duration_us,
];
/// Maximum number of processes, of kernels per process, and of tiny kernels.
const MAX_ROWS: usize = 10;

fn no_kernels<S: TypedSection>(context: &Context) -> Answer<S> {
    context.lacks("The trace contains no GPU kernels.", MissingData::Kernels)
}

fn us(ns: Option<f64>) -> Option<Us> {
    ns.map(|ns| Us(ns / 1e3))
}

/// The sections that need the duration of every kernel.
pub(crate) fn of_durations(
    context: &Context,
) -> (Answer<TopKernels>, Answer<LaunchStorm>, Answer<LaunchStormByProcess>) {
    let durations = &context.durations();
    let rates = LaunchRate::by_process(context, durations);
    let percentiles = durations.percentiles_of_process_ns(None);
    (
        kernels(context, durations),
        launch_storm(context, durations, &rates, percentiles),
        launch_storm_by_pid(context, durations, &rates, percentiles),
    )
}

/// Lists the kernels with the most time, by name and device.
fn kernels(context: &Context, durations: &KernelDurations) -> Answer<TopKernels> {
    let (trace, kernels) = (context.trace, context.kernels());
    let (total, count) = (kernels.total(), kernels.count());
    if count == 0 {
        return no_kernels(context);
    }
    let device_and_name = |sum: &KernelSum| key(sum.device.0, sum.name.0);
    let mut tallies = Tallies::default();
    for sum in &kernels.sums {
        tallies.merge(&Tally { key: device_and_name(sum), ..sum.tally });
    }
    let ranked = tallies.by_time(&|tally| trace.names.get(NameId(tally.member())));
    let row = |tally: &Tally| {
        let keys = kernels.sums.iter().filter(|sum| device_and_name(sum) == tally.key).map(KernelSum::key);
        let [median, p90, _] = durations.percentiles_ns(keys).map(us);
        let name = NameId(tally.member());
        TopKernelRow {
            kernel_name: labels::kernel_name(trace, name),
            device_id: labels::device(trace, DeviceId(tally.group())),
            call_count: tally.count,
            total_time_ns: tally.total,
            total_time_ms: tally.total.into(),
            avg_duration_us: Some(tally.mean()),
            min_duration_us: tally.shortest.into(),
            max_duration_us: tally.longest.into(),
            p50_duration_us: median,
            p90_duration_us: p90,
            pct_total_kernel_time: context.share_of_kernel(name, tally.total, total),
        }
    };
    let mut answer = TopKernels::answer("start and end of every kernel, by name and device")
        .limit("Times are sums of durations: overlapping kernels each count in full.")
        .with_figures(TopKernelFigures { total_kernel_time_ns: total, kernel_count: count })
        .with_rows(ranked.iter().take(context.kernel_limit).map(row));
    answer.rows_in_all = ranked.len() as u64;
    with_note(context, answer)
}

/// Lists the processes with the most kernel time, each with its kernels with the most time.
pub(crate) fn kernels_by_pid(context: &Context) -> Answer<KernelsByProcess> {
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
        return no_kernels(context);
    }
    let kernels: Vec<Tally> = kernels.iter().copied().collect();
    let kernel = |tally: &Tally| kernels.get(tally.member() as usize).copied().unwrap_or_default();
    let ranked = kernels_of_processes.by_time(&|tally| trace.names.get(NameId(kernel(tally).member())));
    let mut answer = KernelsByProcess::answer("the process of every kernel")
        .with_figures(KernelsByProcessFigures { processes: processes.iter().len() });
    answer.rows_in_all = ranked.len() as u64;
    for process in processes.by_time(&|_| "").iter().take(MAX_ROWS) {
        for tally in ranked.iter().filter(|tally| tally.group() == process.group()).take(MAX_ROWS) {
            let kernel = kernel(tally);
            let name = NameId(kernel.member());
            answer.rows.push(KernelOfProcessRow {
                pid: labels::pid(trace, ProcessId(process.group())),
                pid_total_kernel_time_ms: process.total.into(),
                pid_pct_of_total_kernel_time: Pct::of(process.total, total),
                kernel_name: labels::kernel_name(trace, name),
                device_id: labels::device(trace, DeviceId(kernel.group())),
                call_count: tally.count,
                total_time_ms: tally.total.into(),
                avg_duration_us: tally.mean(),
                pct_of_pid_kernel_time: context.share_of_kernel(name, tally.total, process.total),
                pct_of_total_kernel_time: context.share_of_kernel(name, tally.total, total),
            });
        }
    }
    with_note(context, answer)
}

/// Adds the reason why shares are missing.
fn with_note<S: TypedSection>(context: &Context, answer: Answer<S>) -> Answer<S> {
    if context.shifted_durations().shifted > 0 { answer.limit(WITHHELD) } else { answer }
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

    fn pct_under(&self) -> [Pct; 3] {
        self.under.map(|under| Pct(100.0 * under as f64 / self.kernels.max(1) as f64))
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
) -> Answer<LaunchStorm> {
    let rate = LaunchRate::combined(rates);
    if rate.kernels == 0 {
        return no_kernels(context);
    }
    let storms = context.signals.thresholds.launch_storm.iter();
    let storms: Vec<(f64, f64)> = storms.map(|storm| (storm.launches_per_s, storm.median_us)).collect();
    let [pct_under_5us, pct_under_10us, pct_under_20us] = rate.pct_under();
    let has_calls = !context.trace.calls.is_empty();
    let answer = LaunchStorm::answer("all kernels from the first start to the last end, and launch calls")
        .limit("Launches count kernels, also those inside graphs. Host launches count calls, one per graph.")
        .limit(words::launch_storm(&storms))
        .with_figures(LaunchStormFigures {
            total_launches: rate.kernels,
            window_s: Seconds(rate.window_s()),
            launches_per_s: rate.per_s(rate.kernels),
            median_kernel_us: us(median),
            p50_kernel_us: us(median),
            p90_kernel_us: us(p90),
            p99_kernel_us: us(p99),
            pct_under_5us,
            pct_under_10us,
            pct_under_20us,
            is_launch_storm: rate.is_storm(context, median),
            tiny_kernel_us: Us(context.signals.thresholds.tiny_kernel_us),
            host_launches: has_calls.then_some(rate.host_launches),
            host_launches_per_s: has_calls.then(|| rate.per_s(rate.host_launches)),
            graph_launches: has_calls.then_some(rate.graph_launches),
        });
    with_tiny_kernels(context, durations, answer)
}

fn with_tiny_kernels(
    context: &Context,
    durations: &KernelDurations,
    mut answer: Answer<LaunchStorm>,
) -> Answer<LaunchStorm> {
    let trace = context.trace;
    let mut tiny = Tallies::with_table(1, trace.names.len());
    for sum in &context.kernels().sums {
        let (count, total) = durations.short_kernels(&sum.key()).tiny;
        if count > 0 {
            tiny.merge(&Tally { key: key(0, sum.name.0), count, total, ..Tally::default() });
        }
    }
    let ranked = tiny.ranked(&|tally| tally.count as i64, &|tally| trace.names.get(NameId(tally.member())));
    answer.rows_in_all = ranked.len() as u64;
    answer.with_rows(ranked.iter().take(MAX_ROWS).map(|tally| TinyKernelRow {
        kernel_name: labels::kernel_name(trace, NameId(tally.member())),
        call_count: tally.count,
        avg_duration_us: tally.mean(),
    }))
}

/// Checks each process for a launch storm. The rows are the processes, sorted by number of kernels.
fn launch_storm_by_pid(
    context: &Context,
    durations: &KernelDurations,
    rates: &[LaunchRate],
    trace_percentiles: Percentiles,
) -> Answer<LaunchStormByProcess> {
    let trace = context.trace;
    let kernels = |process: usize| rates.get(process).map_or(0, |rate| rate.kernels);
    let mut processes = sorted_indices(rates.len(), &|a, b| kernels(b).cmp(&kernels(a)));
    processes.retain(|&process| kernels(process) > 0);
    if processes.is_empty() {
        return no_kernels(context);
    }
    let has_calls = !trace.calls.is_empty();
    let row = |&process: &usize| {
        let rate = rates.get(process)?;
        let has_all_kernels = rate.kernels == context.kernels().count();
        let own_percentiles = || durations.percentiles_of_process_ns(Some(ProcessId(process as u32)));
        let [median, p90, p99] = if has_all_kernels { trace_percentiles } else { own_percentiles() };
        let [pct_under_5us, pct_under_10us, pct_under_20us] = rate.pct_under();
        Some(LaunchStormRow {
            pid: labels::pid(trace, ProcessId(process as u32)),
            total_launches: rate.kernels,
            window_s: Seconds(rate.window_s()),
            launches_per_s: rate.per_s(rate.kernels),
            median_kernel_us: us(median),
            p90_kernel_us: us(p90),
            p99_kernel_us: us(p99),
            pct_under_5us,
            pct_under_10us,
            pct_under_20us,
            is_launch_storm: rate.is_storm(context, median),
            host_launches: has_calls.then_some(rate.host_launches),
            host_launches_per_s: has_calls.then(|| rate.per_s(rate.host_launches)),
        })
    };
    let mut answer = LaunchStormByProcess::answer("the kernels of each process from its first start to its last end")
        .with_rows(processes.iter().take(MAX_ROWS).filter_map(row));
    answer.rows_in_all = processes.len() as u64;
    answer
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::sections::explain;
    use crate::analysis::testing::{figure, keys, number, rows};
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
        assert_eq!(rows(&sections, "launch_storm", &keys::<LaunchStorm>()), ["a 150 1", "b 50 1"]);
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
