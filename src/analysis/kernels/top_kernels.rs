//! Which kernels take the time, overall and by process, and whether there are too many small ones.

use crate::analysis::context::Context;
use crate::analysis::host::calls::Launches;
use crate::analysis::kernels::durations::{KernelDurations, Percentiles};
use crate::analysis::kernels::kernel_sums::KernelSum;
use crate::analysis::labels;
use crate::analysis::measure::tally::{Tallies, Tally, key};
use crate::analysis::recapture;
use crate::analysis::recapture::Lacks;
use crate::analysis::section::{Section, Value};
use crate::digits::grouped;
use crate::ordering::sorted_indices;
use crate::trace::{DeviceId, NameId, Ns, ProcessId, Trace};

const KERNELS: [&str; 11] = [
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
/// Processes in a table, kernels of each, and tiny kernels.
const TOP: usize = 10;

fn no_kernels(trace: &Trace, title: &str, columns: &[&str]) -> Section {
    let recapture = recapture::command(trace.format, Lacks::Kernels);
    Section::missing(title, columns, "The trace holds no GPU kernels.", &recapture)
}

/// Microseconds of nanoseconds.
fn us(ns: Option<f64>) -> Value {
    Value::from(ns.map(|ns| ns / 1e3))
}

/// The sections that look at the duration of every kernel.
pub(crate) fn of_durations(context: &Context) -> [(&'static str, Section); 3] {
    let durations = &context.details().durations;
    let paces = Pace::of_processes(context, durations);
    let of_all = durations.percentiles_of_process_ns(None);
    [
        ("kernels", kernels(context, durations)),
        ("launch_storm", launch_storm(context, durations, &paces, of_all)),
        ("launch_storm_by_pid", launch_storm_by_pid(context, durations, &paces, of_all)),
    ]
}

/// The kernels with the most time, by name and device.
fn kernels(context: &Context, durations: &KernelDurations) -> Section {
    const TITLE: &str = "Top kernels";
    let (trace, kernels) = (context.trace, context.kernels());
    let (all, count) = (kernels.total(), kernels.count());
    if count == 0 {
        return no_kernels(trace, TITLE, &KERNELS);
    }
    let key = |cell: &KernelSum| key(cell.device.0, cell.name.0);
    let mut tallies = Tallies::default();
    for cell in &kernels.sums {
        tallies.merge(&Tally { key: key(cell), ..cell.tally });
    }
    let ranked = tallies.by_time(&|tally| trace.names.get(NameId(tally.low())));
    let mut section = Section::new(TITLE, "start and end of every kernel, by name and device", &KERNELS)
        .limit("Durations are sums: kernels that run at the same time count each in full.");
    section.figure("total_kernel_time_ns", all);
    section.figure("kernel_count", count);
    section.rows_in_all = ranked.len() as u64;
    for tally in ranked.iter().take(context.kernel_limit) {
        let same = kernels.sums.iter().filter(|cell| key(cell) == tally.key).map(KernelSum::key);
        let [median, p90, _] = durations.percentiles_ns(same).map(us);
        section.row([
            labels::kernel(trace, NameId(tally.low())),
            labels::device(trace, DeviceId(tally.high())),
            tally.count.into(),
            tally.total.into(),
            Value::ms(tally.total),
            tally.average_us(),
            Value::us(tally.shortest),
            Value::us(tally.longest),
            median,
            p90,
            Value::pct(tally.total, all),
        ]);
    }
    section
}

/// The processes with the most kernel time and the kernels with the most time of each.
pub(crate) fn kernels_by_pid(context: &Context) -> Section {
    const TITLE: &str = "Kernels by process";
    let trace = context.trace;
    let (devices, names, processes) = (trace.devices.len(), trace.names.len(), trace.processes.len());
    let mut kernels = Tallies::below(devices, names);
    let mut of_process = Tallies::below(processes, devices.saturating_mul(names));
    let mut processes = Tallies::below(processes, 1);
    let all = context.kernels().total();
    for cell in &context.kernels().sums {
        let kernel = kernels.merge(&Tally { key: key(cell.device.0, cell.name.0), ..cell.tally });
        of_process.merge(&Tally { key: key(cell.process.0, kernel), ..cell.tally });
        processes.merge(&Tally { key: key(cell.process.0, 0), ..cell.tally });
    }
    if processes.iter().len() == 0 {
        return no_kernels(trace, TITLE, &KERNELS_BY_PID);
    }
    let kernels: Vec<Tally> = kernels.iter().copied().collect();
    let kernel = |tally: &Tally| kernels.get(tally.low() as usize).copied().unwrap_or_default();
    let ranked = of_process.by_time(&|tally| trace.names.get(NameId(kernel(tally).low())));
    let mut section = Section::new(TITLE, "the process of every kernel", &KERNELS_BY_PID);
    section.figure("processes", processes.iter().len());
    section.rows_in_all = ranked.len() as u64;
    for process in processes.by_time(&|_| "").iter().take(TOP) {
        for tally in ranked.iter().filter(|tally| tally.high() == process.high()).take(TOP) {
            let kernel = kernel(tally);
            section.row([
                labels::pid(trace, ProcessId(process.high())),
                Value::ms(process.total),
                Value::pct(process.total, all),
                labels::kernel(trace, NameId(kernel.low())),
                labels::device(trace, DeviceId(kernel.high())),
                tally.count.into(),
                Value::ms(tally.total),
                tally.average_us(),
                Value::pct(tally.total, process.total),
                Value::pct(tally.total, all),
            ]);
        }
    }
    section
}

/// How many kernels a process launched in which time, or all of them.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    kernels: u64,
    window: Option<(Ns, Ns)>,
    /// Shorter than 5, 10 and 20 us.
    under: [u64; 3],
    /// Calls that launch; a graph is one.
    host_launches: u64,
    graph_launches: u64,
}

impl Pace {
    /// The pace of every process.
    fn of_processes(context: &Context, durations: &KernelDurations) -> Vec<Self> {
        let host = context.host().launches.iter();
        let of_host = |launches: &Launches| Self {
            host_launches: launches.all,
            graph_launches: launches.graphs,
            ..Self::default()
        };
        let mut paces: Vec<Self> = host.map(of_host).collect();
        for cell in &context.kernels().sums {
            let Some(pace) = paces.get_mut(cell.process.0 as usize) else { continue };
            let under = durations.short(&cell.key()).under;
            pace.add(&Self { kernels: cell.tally.count, window: Some(cell.window), under, ..Self::default() });
        }
        paces
    }

    /// Of all processes together.
    fn of_all(processes: &[Self]) -> Self {
        let mut all = Self::default();
        processes.iter().for_each(|pace| all.add(pace));
        all
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

    /// One nanosecond at least.
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

/// Whether the GPU is fed too many small kernels; the rows are the tiny ones.
fn launch_storm(
    context: &Context,
    durations: &KernelDurations,
    paces: &[Pace],
    [median, p90, p99]: Percentiles,
) -> Section {
    const TITLE: &str = "Launch storm";
    let trace = context.trace;
    let pace = Pace::of_all(paces);
    if pace.kernels == 0 {
        return no_kernels(trace, TITLE, &TINY_KERNELS);
    }
    let storms: Vec<String> = context
        .signals
        .thresholds
        .launch_storm
        .iter()
        .map(|storm| {
            let rate = grouped(storm.launches_per_s.round() as u64);
            format!("{rate} kernels a second with a median of at most {} us", storm.median_us)
        })
        .collect();
    let mut section = Section::new(TITLE, "all kernels from the first start to the last end, and the calls that launch", &TINY_KERNELS)
        .limit("Launches are kernels: each kernel of a CUDA graph is one, though the host launched the graph with a single call. Host launches are calls, a graph is one.")
        .limit(format!("A storm is at least {}.", storms.join(", or at least ")));
    let [under_5us, under_10us, under_20us] = pace.pct_under();
    section.figure("total_launches", pace.kernels);
    section.figure("window_s", pace.window_s());
    section.figure("launches_per_s", pace.per_s(pace.kernels));
    section.figure("median_kernel_us", us(median));
    section.figure("p50_kernel_us", us(median));
    section.figure("p90_kernel_us", us(p90));
    section.figure("p99_kernel_us", us(p99));
    section.figure("pct_under_5us", under_5us);
    section.figure("pct_under_10us", under_10us);
    section.figure("pct_under_20us", under_20us);
    section.figure("is_launch_storm", pace.is_storm(context, median));
    section.figure("tiny_kernel_us", context.signals.thresholds.tiny_kernel_us);
    let told = !trace.calls.is_empty();
    section.figure("host_launches", told.then_some(pace.host_launches));
    section.figure("host_launches_per_s", told.then(|| pace.per_s(pace.host_launches)));
    section.figure("graph_launches", told.then_some(pace.graph_launches));
    add_tiny_kernels(context, durations, &mut section);
    section
}

fn add_tiny_kernels(context: &Context, durations: &KernelDurations, section: &mut Section) {
    let trace = context.trace;
    let mut tiny = Tallies::below(1, trace.names.len());
    for cell in &context.kernels().sums {
        let (count, total) = durations.short(&cell.key()).tiny;
        if count > 0 {
            tiny.merge(&Tally { key: key(0, cell.name.0), count, total, ..Tally::default() });
        }
    }
    let ranked = tiny.ranked(&|tally| tally.count as i64, &|tally| trace.names.get(NameId(tally.low())));
    section.rows_in_all = ranked.len() as u64;
    for tally in ranked.iter().take(TOP) {
        section.row([labels::kernel(trace, NameId(tally.low())), tally.count.into(), tally.average_us()]);
    }
}

/// The same by process, most kernels first.
fn launch_storm_by_pid(context: &Context, durations: &KernelDurations, paces: &[Pace], of_all: Percentiles) -> Section {
    const TITLE: &str = "Launch storm by process";
    let trace = context.trace;
    let kernels = |process: usize| paces.get(process).map_or(0, |pace| pace.kernels);
    let mut launching = sorted_indices(paces.len(), &|a, b| kernels(b).cmp(&kernels(a)));
    launching.retain(|&process| kernels(process) > 0);
    if launching.is_empty() {
        return no_kernels(trace, TITLE, &STORM_BY_PID);
    }
    let mut section =
        Section::new(TITLE, "the kernels of each process from its first start to its last end", &STORM_BY_PID);
    section.rows_in_all = launching.len() as u64;
    for process in launching.into_iter().take(TOP) {
        let Some(pace) = paces.get(process) else { continue };
        let is_all = pace.kernels == context.kernels().count();
        let own = || durations.percentiles_of_process_ns(Some(ProcessId(process as u32)));
        let [median, p90, p99] = if is_all { of_all } else { own() };
        let [under_5us, under_10us, under_20us] = pace.pct_under();
        let told = !trace.calls.is_empty();
        section.row([
            labels::pid(trace, ProcessId(process as u32)),
            pace.kernels.into(),
            pace.window_s().into(),
            pace.per_s(pace.kernels).into(),
            us(median),
            us(p90),
            us(p99),
            under_5us,
            under_10us,
            under_20us,
            pace.is_storm(context, median).into(),
            told.then_some(pace.host_launches).into(),
            told.then(|| pace.per_s(pace.host_launches)).into(),
        ]);
    }
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::sections::explain;
    use crate::analysis::testing::{Small, figure, rows};
    use crate::trace::{Format, GpuOp, OpKind, TraceBuilder};

    #[test]
    fn kernels_are_told_apart_by_device_and_copies_are_none() {
        let mut builder = TraceBuilder::new("t", Format::TorchProfiler);
        let process = builder.process(0, "");
        for (name, device, kind, duration) in [
            ("_Z3foov", "1", OpKind::Kernel, 3_000),
            ("_Z3foov", "[TP00] 0", OpKind::Kernel, 1_000),
            ("_Z3foov", "1", OpKind::Kernel, 5_000_000_000),
            ("Memcpy HtoD", "1", OpKind::Copy, 9_000),
        ] {
            let (name, device) = (builder.trace.names.intern(name), builder.device(device, ""));
            let op = GpuOp { start: Ns(0), duration: Ns(duration), name, device, stream: 0, process, kind };
            builder.trace.gpu_ops.push(op, None);
        }
        let trace = builder.finish();
        let sections = explain(&Context::new(&trace, 1));
        let columns = ["kernel_name", "device_id", "call_count", "total_time_ns", "p50_duration_us", "p90_duration_us"];
        // Half way and nine tenths of the way from 3 us to 5 s.
        assert_eq!(rows(&sections, "kernels", &columns), ["foo() 1 2 5000003000 2500001.5 4500000.3"]);
        assert_eq!((sections["kernels"].rows_in_all, figure(&sections, "kernels", "kernel_count")), (2, 3.0));
        let by_pid = rows(&sections, "kernels_by_pid", &["pid", "device_id", "call_count"]);
        assert_eq!(by_pid, ["0 1 2", "0 [TP00] 0 1"], "process 0 is a process");
    }

    #[test]
    fn ten_processes_with_ten_kernels_each_are_shown_and_all_are_counted() {
        let mut small = Small::new();
        for (pid, kernel) in (0..12).flat_map(|pid| (0..12).map(move |kernel| (pid, kernel))) {
            small.kernel(&format!("k{kernel:02}"), pid, (0, 100 * (pid + 1) + kernel), None);
        }
        let trace = small.finish();
        let section = &explain(&Context::new(&trace, 30))["kernels_by_pid"];
        assert_eq!((section.rows.len(), section.rows_in_all), (100, 144));
        let pids: Vec<f64> = section.rows.iter().map(|row| row.get("pid").unwrap().number().unwrap()).collect();
        assert!(pids.is_sorted_by(|a, b| a >= b) && pids[0] == 11.0 && pids[99] == 2.0, "{pids:?}");
    }

    /// The original's own example: 200 kernels of 1 us, one every 2 us.
    #[test]
    fn many_small_kernels_are_a_storm_and_a_graph_is_one_host_launch() {
        let mut small = Small::new();
        for at in 0..200_i64 {
            small.kernel(if at < 150 { "a" } else { "b" }, 5, (2_000 * at, 2_000 * at + 1_000), None);
        }
        small.call_on((5, 1), "cudaGraphLaunch", (0, 10), None).call_on((5, 1), "cudaLaunchKernel", (10, 20), None);
        let trace = small.finish();
        let sections = explain(&Context::new(&trace, 30));
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

    #[test]
    fn nothing_is_said_of_no_kernels_but_how_to_get_them() {
        for (format, command) in
            [(Format::NsysSqlite, "nsys profile"), (Format::TorchProfiler, "ProfilerActivity.CUDA")]
        {
            let trace = TraceBuilder::new("t", format).finish();
            let sections = explain(&Context::new(&trace, 30));
            for name in ["kernels", "kernels_by_pid", "launch_storm", "launch_storm_by_pid"] {
                assert!(sections[name].missing.as_ref().unwrap().recapture.contains(command), "{name}");
            }
        }
    }
}
