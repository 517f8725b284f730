//! Sampled hardware counters: NVLink beside collectives, and work per byte of kernels where it was really counted.
//!
//! Receiving and sending, and counters of different units, are series of their own; a series of one GPU is held against
//! what that GPU does.

use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::context::Context;
use crate::analysis::labels;
use crate::analysis::recapture;
use crate::analysis::recapture::Lacks;
use crate::analysis::section::{Section, Value};
use crate::analysis::time::work::{Class, Intervals, add_interval, each_work};
use crate::digits::grouped;
use crate::ordering::VecMap;
use crate::trace::{DeviceId, GpuOp, MetricSeries, NameId, Ns, OpKind};

const NVLINK_TITLE: &str = "NVLink during collectives";
const SERIES_TITLE: &str = "NVLink over time";
const ROOFLINE_TITLE: &str = "Roofline";
const NVLINK_COLUMNS: [&str; 9] = [
    "metric_source_id",
    "metric_names",
    "samples",
    "samples_during_nccl",
    "avg_metric_during_nccl",
    "avg_metric_outside_nccl",
    "max_metric_during_nccl",
    "nccl_activity_correlation",
    "device_id",
];
const SERIES_COLUMNS: [&str; 6] =
    ["metric_source_id", "metric_name", "timestamp_ns", "timestamp_ms", "metric_value", "nccl_active"];
const ROOFLINE_COLUMNS: [&str; 7] =
    ["kernel_name", "total_time_ms", "call_count", "flops", "bytes", "arithmetic_intensity", "achieved_tflops"];
/// Points of all series together, and rows of the roofline.
const POINTS: usize = 20_000;
const ROOFLINE_ROWS: usize = 40;

/// Does the name hold one of these words?
fn says(name: &str, words: &[String]) -> bool {
    let name = name.to_ascii_lowercase();
    words.iter().any(|word| name.contains(word.as_str()))
}

/// When the GPUs communicate; `None` where there is nothing to hold against it.
/// When each device communicates; one more entry says when any device does.
fn communication_windows(trace: &ClassifiedTrace) -> Vec<Intervals> {
    let any = trace.trace.devices.len();
    let mut windows: Vec<Intervals> = vec![Intervals::new(); any + 1];
    each_work(trace, &mut |work| {
        if work.class != Class::Communication || work.end <= work.start {
            return;
        }
        for device in [work.device, any] {
            windows.get_mut(device).into_iter().for_each(|windows| add_interval(windows, (work.start, work.end)));
        }
    });
    windows
}

fn windows_of_nvlink(context: &Context) -> Option<Vec<Intervals>> {
    let sampled = context.trace.metrics.iter().any(|series| says(&series.name, &context.signals.nvlink));
    sampled.then(|| communication_windows(context))
}

/// The NVLink counters of a trace, each with the times in which its GPU communicates.
fn nvlink<'a>(context: &'a Context, windows: &'a [Intervals]) -> Vec<(&'a MetricSeries, &'a [(Ns, Ns)])> {
    let series = context.trace.metrics.iter().filter(|series| says(&series.name, &context.signals.nvlink));
    let of = |series: &MetricSeries| match series.device {
        Some(device) => windows.get(device.0 as usize),
        None => windows.last(),
    };
    series.map(|series| (series, of(series).map_or(&[][..], Vec::as_slice))).collect()
}

/// Visits every usable sample of a series with whether it falls into a window; tells how many are unusable.
fn each_sample(series: &MetricSeries, windows: &[(Ns, Ns)], visit: &mut dyn FnMut(Ns, f64, bool)) -> u64 {
    let (mut windows, mut unusable) = (windows, 0);
    for &(time, value) in &series.samples {
        while let [(_, end), rest @ ..] = windows
            && *end <= time
        {
            windows = rest;
        }
        let active = windows.first().is_some_and(|(start, _)| *start <= time);
        if value.is_finite() {
            visit(time, value, active);
        } else {
            unusable += 1;
        }
    }
    unusable
}

/// Sums of one series, in and out of windows.
#[derive(Debug, Clone, Copy, Default)]
struct Means {
    inside: f64,
    samples_inside: u64,
    outside: f64,
    samples_outside: u64,
    max_inside: Option<f64>,
}

impl Means {
    fn add(&mut self, value: f64, inside: bool) {
        if inside {
            self.inside += value;
            self.samples_inside += 1;
            self.max_inside = Some(self.max_inside.map_or(value, |max| max.max(value)));
        } else {
            self.outside += value;
            self.samples_outside += 1;
        }
    }

    fn samples(&self) -> u64 {
        self.samples_inside + self.samples_outside
    }
}

/// Pearson's correlation of being in a window (0 or 1) with the value; 0 where either never changes.
fn correlation(series: &MetricSeries, windows: &[(Ns, Ns)], means: &Means) -> f64 {
    let samples = means.samples() as f64;
    let (mean_value, mean_active) = ((means.inside + means.outside) / samples, means.samples_inside as f64 / samples);
    let (mut both, mut of_value, mut of_active) = (0.0, 0.0, 0.0);
    each_sample(series, windows, &mut |_, value, active| {
        let (value, active) = (value - mean_value, f64::from(u8::from(active)) - mean_active);
        both += value * active;
        of_value += value * value;
        of_active += active * active;
    });
    if of_value > 0.0 && of_active > 0.0 { both / (of_value.sqrt() * of_active.sqrt()) } else { 0.0 }
}

/// What NVLink carries while the GPU communicates, and otherwise.
pub(crate) fn nvlink_during_nccl(context: &Context) -> Section {
    let Some(windows) = windows_of_nvlink(context) else { return no_nvlink(context, NVLINK_TITLE, &NVLINK_COLUMNS) };
    let series = nvlink(context, &windows);
    if windows.iter().all(Vec::is_empty) {
        let why = "NVLink was sampled, but no communication kernel was traced.";
        return Section::missing(NVLINK_TITLE, &NVLINK_COLUMNS, why, "");
    }
    let mut section = nvlink_section(&series, NVLINK_TITLE, &NVLINK_COLUMNS).limit(
        "A sample counts as during a collective where its time falls into one; it may stand for time before it.",
    );
    let mut unusable = 0;
    let mut rows: Vec<(Means, f64, &MetricSeries)> = Vec::new();
    for (series, windows) in series {
        let mut means = Means::default();
        unusable += each_sample(series, windows, &mut |_, value, inside| means.add(value, inside));
        rows.push((means, correlation(series, windows, &means), series));
    }
    let during =
        |means: &Means| if means.samples_inside > 0 { means.inside / means.samples_inside as f64 } else { 0.0 };
    rows.sort_by(|a, b| {
        let by_value = during(&b.0).total_cmp(&during(&a.0)).then(b.1.total_cmp(&a.1));
        by_value.then_with(|| (a.2.source, &a.2.name).cmp(&(b.2.source, &b.2.name)))
    });
    for (means, correlation, series) in rows {
        section.row([
            series.source.into(),
            series.name.as_str().into(),
            means.samples().into(),
            means.samples_inside.into(),
            (means.inside / means.samples_inside as f64).into(),
            (means.outside / means.samples_outside as f64).into(),
            means.max_inside.into(),
            correlation.into(),
            series.device.map_or(Value::Null, |device| labels::device(context.trace, device)),
        ]);
    }
    if unusable > 0 {
        section.limits.push(format!("{} samples hold no number and are left out.", grouped(unusable)));
    }
    section
}

/// The samples themselves, thinned out evenly where there are many.
pub(crate) fn nvlink_timeseries(context: &Context) -> Section {
    let Some(windows) = windows_of_nvlink(context) else { return no_nvlink(context, SERIES_TITLE, &SERIES_COLUMNS) };
    let series = nvlink(context, &windows);
    let all = series.iter().map(|(series, _)| series.samples.len()).sum::<usize>();
    let each = if all > POINTS { (POINTS / series.len()).max(1) } else { usize::MAX };
    let mut points: Vec<(Ns, &MetricSeries, f64, bool)> = Vec::new();
    for (series, windows) in &series {
        let (mut at, mut taken, samples) = (0, 0, series.samples.len());
        each_sample(series, windows, &mut |time, value, active| {
            if at == evenly(taken, each, samples) {
                points.push((time, series, value, active));
                taken += 1;
            }
            at += 1;
        });
    }
    points.sort_by(|a, b| (a.0, &a.1.name, a.1.source).cmp(&(b.0, &b.1.name, b.1.source)));
    let mut section = nvlink_section(&series, SERIES_TITLE, &SERIES_COLUMNS).from_first_op(context.trace);
    if all > POINTS {
        section.limits.push(format!(
            "Of {} samples every series shows up to {}, evenly spaced, first and last included.",
            grouped(all as u64),
            grouped(each as u64)
        ));
    }
    for (time, series, value, active) in points {
        let (source, name) = (series.source.into(), series.name.as_str().into());
        section.row([source, name, time.into(), Value::ms(time), value.into(), active.into()]);
    }
    section.rows_in_all = all as u64;
    section
}

/// The sample that is the `nth` of `wanted` spread evenly from the first of `all` to the last.
fn evenly(nth: usize, wanted: usize, all: usize) -> usize {
    if all <= wanted {
        return nth;
    }
    let last = (all as u64 - 1) * nth as u64;
    if wanted < 2 { 0 } else { (last / (wanted as u64 - 1)) as usize }
}

fn no_nvlink(context: &Context, title: &str, columns: &[&str]) -> Section {
    let recapture = recapture::command(context.trace.format, Lacks::LinkCounters);
    Section::missing(
        title,
        columns,
        "The trace holds no samples of NVLink counters. Of the sets that the first command lists take one with NVLink for SET.",
        &recapture,
    )
}

fn nvlink_section(series: &[(&MetricSeries, &[(Ns, Ns)])], title: &str, columns: &[&str]) -> Section {
    let section = Section::new(title, "sampled NVLink counters and communication kernels of the same GPU", columns)
        .limit("Values are in the unit that the counter's name gives.");
    if series.iter().all(|(series, _)| series.device.is_some()) {
        return section;
    }
    section.limit("A counter whose source names no GPU is held against the communication of all GPUs.")
}

/// What one kernel did, all its instances together.
#[derive(Debug, Clone, Copy, Default)]
struct Done {
    /// Time with at least one instance running, per device, summed.
    time: Ns,
    calls: u64,
    flops: f64,
    bytes: f64,
}

/// Floating point operations and bytes of each kernel, where both were counted.
pub(crate) fn roofline(context: &Context) -> Section {
    let signals = &context.signals;
    let (flops, shares_of_flops) = counters(context, &signals.flops);
    let (bytes, shares_of_bytes) = counters(context, &signals.dram_bytes);
    if flops.is_empty() || bytes.is_empty() {
        let why = if shares_of_flops || shares_of_bytes {
            "Sampled throughput in per cent is no count of operations or bytes, and nothing is made up from it. Nsight \
             Compute counts both and draws the roofline itself; gpuprism does not read its reports."
        } else {
            "The trace holds no counters of floating point operations and of bytes of device memory. Nsight Compute \
             counts both and draws the roofline itself; gpuprism does not read its reports."
        };
        let recapture = recapture::command(context.trace.format, Lacks::WorkCounters);
        return Section::missing(ROOFLINE_TITLE, &ROOFLINE_COLUMNS, why, &recapture);
    }
    let mut done = instances(context);
    let mut unused = 0;
    for series in flops {
        unused += u32::from(!share_out(context, series, &mut done, &|done, part| done.flops += part));
    }
    for series in bytes {
        unused += u32::from(!share_out(context, series, &mut done, &|done, part| done.bytes += part));
    }
    let mut section = roofline_rows(context, &done);
    if unused > 0 {
        section.limits.push(format!("{unused} counters name no GPU of the trace and are left out."));
    }
    section
}

/// The series that count, and whether there are some that tell only shares of a peak.
fn counters<'a>(context: &'a Context, words: &[String]) -> (Vec<&'a MetricSeries>, bool) {
    let named = || context.trace.metrics.iter().filter(|series| says(&series.name, words));
    let is_share = |series: &&MetricSeries| series.name.contains('%');
    (named().filter(|series| !is_share(series)).collect(), named().any(|series| is_share(&series)))
}

/// The time of every kernel's instances without what they overlap each other.
fn instances(context: &Context) -> Vec<Done> {
    let mut done = vec![Done::default(); context.trace.names.len()];
    each_piece(context, None, &mut |op, start, end| {
        if let Some(done) = done.get_mut(op.name.0 as usize) {
            done.time += end.since(start).max(Ns::ZERO);
            done.calls += 1;
        }
    });
    done
}

/// Visits the kernels by start with the part of each that no earlier one of its name on its device covers.
fn each_piece(context: &Context, device: Option<DeviceId>, visit: &mut dyn FnMut(&GpuOp, Ns, Ns)) {
    let mut reach = VecMap::new();
    let kernels = context.trace.gpu_ops.iter().filter(|op| op.kind == OpKind::Kernel);
    for op in kernels.filter(|op| device.is_none_or(|device| op.device == device)) {
        reach.update((op.name, op.device), op.start, |reach: &mut Ns| {
            visit(&op, op.start.max(*reach), op.end());
            *reach = (*reach).max(op.end());
        });
    }
}

/// Splits each sample over the kernels that run while it lasts, by time. False for a source that is no known GPU.
fn share_out(context: &Context, series: &MetricSeries, done: &mut [Done], add: &dyn Fn(&mut Done, f64)) -> bool {
    let only = (context.trace.devices.len() == 1).then_some(DeviceId(0));
    let (Some(device), Some(last)) = (series.device.or(only), last_spacing(series)) else { return false };
    let mut kernel_time = vec![0_i64; series.samples.len()];
    each_share(context, device, series, last, &mut |sample, _, time| {
        kernel_time.get_mut(sample).into_iter().for_each(|sum| *sum = sum.saturating_add(time));
    });
    each_share(context, device, series, last, &mut |sample, op, time| {
        let (Some((_, value)), Some(all)) = (series.samples.get(sample), kernel_time.get(sample)) else { return };
        if let (Some(done), true) = (done.get_mut(op.name.0 as usize), value.is_finite()) {
            add(done, value * (time as f64 / *all as f64));
        }
    });
    true
}

/// Visits what each kernel has of each sample's time: a sample lasts until the next one, the last as long as `last`.
fn each_share(
    context: &Context,
    device: DeviceId,
    series: &MetricSeries,
    last: Ns,
    visit: &mut dyn FnMut(usize, &GpuOp, i64),
) {
    let samples = &series.samples;
    let span = |at: usize| {
        let start = samples.get(at)?.0;
        Some((start, samples.get(at + 1).map_or(start + last, |next| next.0)))
    };
    let mut first = 0;
    each_piece(context, Some(device), &mut |op, start, end| {
        while span(first).is_some_and(|(_, sample_end)| sample_end <= op.start) {
            first += 1;
        }
        let mut at = first;
        while let Some((sample_start, sample_end)) = span(at)
            && sample_start < end
        {
            let time = end.min(sample_end).since(start.max(sample_start));
            if time > Ns::ZERO {
                visit(at, op, time.0);
            }
            at += 1;
        }
    });
}

/// The median distance of two samples; `None` where there are fewer than two.
fn last_spacing(series: &MetricSeries) -> Option<Ns> {
    let times = series.samples.iter().map(|sample| sample.0);
    let mut spacing: Vec<i64> = times.clone().zip(times.skip(1)).map(|(this, next)| next.since(this).0).collect();
    spacing.sort_by_key(|&spacing| spacing);
    spacing.get(spacing.len() / 2).map(|&spacing| Ns(spacing))
}

fn roofline_rows(context: &Context, done: &[Done]) -> Section {
    let mut section =
        Section::new(ROOFLINE_TITLE, "counters of operations and bytes, kernels of the same GPU", &ROOFLINE_COLUMNS)
            .limit("A sample is split over the kernels that run while it lasts, by time: an estimate where several do.")
            .limit("Rates are over all time of a kernel, sampled or not.");
    let mut rows: Vec<(NameId, &Done)> = (0..).map(NameId).zip(done).collect();
    rows.retain(|(_, done)| done.flops > 0.0 && done.bytes > 0.0 && done.time > Ns::ZERO);
    rows.sort_by_key(|(name, done)| (std::cmp::Reverse(done.time), *name));
    let all = rows.len();
    for (name, done) in rows.into_iter().take(ROOFLINE_ROWS) {
        section.row([
            labels::kernel(context.trace, name),
            Value::ms(done.time),
            done.calls.into(),
            done.flops.into(),
            done.bytes.into(),
            (done.flops / done.bytes).into(),
            (done.flops / done.time.0 as f64 / 1e3).into(),
        ]);
    }
    section.rows_in_all = all as u64;
    section
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::*;
    use proptest::prelude::*;

    const RX: &str = "NVLink RX Responses User Data [Throughput %]";
    const TX: &str = "NVLink TX Responses User Data [Throughput %]";

    #[test]
    fn the_fixture_has_the_nvlink_figures_of_its_example_once_rx_and_tx_are_put_together() {
        let Some((trace, expected)) = fixture() else { return };
        let (ours, theirs) = (nvlink_during_nccl(&Context::new(&trace, 30)), &expected["nvlink_row"]);
        // The original has one row that mixes bytes received with bytes sent.
        assert_eq!(ours.rows.len(), 2);
        let sum = |of: &dyn Fn(&crate::analysis::section::Record) -> f64| ours.rows.iter().map(of).sum::<f64>();
        let (samples, during) = (sum(&|row| number(row, "samples")), sum(&|row| number(row, "samples_during_nccl")));
        close(samples, &theirs["samples"]);
        close(during, &theirs["samples_during_nccl"]);
        let inside = |row: &_| number(row, "avg_metric_during_nccl") * number(row, "samples_during_nccl");
        let outside = |row: &_| {
            number(row, "avg_metric_outside_nccl") * (number(row, "samples") - number(row, "samples_during_nccl"))
        };
        close(sum(&inside) / during, &theirs["avg_during"]);
        close(sum(&outside) / (samples - during), &theirs["avg_outside"]);
        close(
            ours.rows.iter().map(|row| number(row, "max_metric_during_nccl")).fold(0.0, f64::max),
            &theirs["max_during"],
        );
        // For a yes or no, Pearson's correlation is the difference of the means in standard deviations, times sqrt(pq).
        for (name, inside, outside) in [
            ("NVLink bytes transmitted", [70.0, 80.0, 85.0], [5.0, 6.0, 8.0]),
            ("NVLink bytes received", [65.0, 78.0, 82.0], [4.0, 5.0, 7.0]),
        ] {
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
            let all = [inside, outside].concat();
            let squares: Vec<f64> = all.iter().map(|value| (value - mean(&all)) * (value - mean(&all))).collect();
            let want = (mean(&inside) - mean(&outside)) / mean(&squares).sqrt() * 0.5;
            let ours = number(row(&ours, "metric_names", name), "nccl_activity_correlation");
            assert!((ours - want).abs() < 1e-12, "{ours} is not {want}");
        }
    }

    #[test]
    fn a_gpu_is_held_against_its_own_collectives() {
        let mut small = Small::new();
        small.op(0, KINDS[ALLREDUCE], 100, 200);
        small.op(1, KINDS[ALLREDUCE], 300, 400);
        let samples = [(50, 1.0), (100, 9.0), (199, 7.0), (200, 1.0), (350, 3.0)];
        small.metric(5, Some(0), RX, &samples);
        small.metric(5, Some(0), TX, &samples);
        small.metric(6, Some(1), RX, &samples);
        small.metric(7, None, RX, &samples);
        let section = small.section(nvlink_during_nccl);
        let row =
            |source: i64| section.rows.iter().find(|row| row.get("metric_source_id") == Some(&source.into())).unwrap();
        let figures = |source| {
            let row = row(source);
            ["samples_during_nccl", "avg_metric_during_nccl", "avg_metric_outside_nccl"]
                .map(|column| number(row, column))
        };
        assert_eq!(section.rows.len(), 4, "RX and TX are rows of their own");
        assert_eq!(figures(5), [2.0, 8.0, 5.0 / 3.0]);
        assert_eq!(figures(6), [1.0, 3.0, 4.5]);
        assert_eq!(figures(7), [3.0, 19.0 / 3.0, 1.0], "no GPU known: collectives of any");
        assert!(section.limits.iter().any(|limit| limit.contains("names no GPU")));
    }

    #[test]
    fn a_trace_without_counters_says_how_to_sample_them() {
        let mut small = Small::new();
        small.op(0, KINDS[ALLREDUCE], 100, 200);
        small.metric(5, Some(0), "DRAM Read Bandwidth [Throughput %]", &[(1, 1.0)]);
        let trace = small.0.finish();
        let context = Context::new(&trace, 30);
        for section in [nvlink_during_nccl(&context), nvlink_timeseries(&context)] {
            assert!(section.missing.unwrap().recapture.contains("--gpu-metrics-devices=all"));
        }
    }

    #[test]
    fn a_long_series_is_thinned_out_over_its_whole_length() {
        let mut small = Small::new();
        small.op(0, KINDS[ALLREDUCE], 35_000, 40_000);
        let samples: Vec<(i64, f64)> = (0..39_000).map(|time| (time, time as f64)).collect();
        small.metric(5, Some(0), RX, &samples);
        small.metric(5, Some(0), TX, &samples[..10]);
        let section = small.section(nvlink_timeseries);
        assert_eq!((section.rows_in_all, section.rows.len()), (39_010, POINTS / 2 + 10));
        let rx: Vec<f64> = section
            .rows
            .iter()
            .filter(|row| words(row, "metric_name") == RX)
            .map(|row| number(row, "metric_value"))
            .collect();
        assert_eq!((rx[0], rx[rx.len() - 1]), (0.0, 38_999.0));
        assert!(rx.windows(2).all(|pair| (3.0..5.0).contains(&(pair[1] - pair[0]))), "evenly");
        let active = section.rows.iter().filter(|row| row.get("nccl_active") == Some(&true.into()));
        assert!(active.map(|row| number(row, "timestamp_ns")).all(|time| (35_000.0..40_000.0).contains(&time)));
    }

    #[test]
    fn the_fixture_has_the_roofline_that_was_worked_out_by_hand() {
        let Some((trace, expected)) = fixture() else { return };
        let section = roofline(&Context::new(&trace, 30));
        let expected = expected["roofline"].as_array().unwrap();
        assert_eq!(section.rows.len(), expected.len());
        for theirs in expected {
            let ours = row(&section, "kernel_name", theirs["kernel"].as_str().unwrap());
            for (column, key) in
                [("flops", "flops"), ("bytes", "bytes"), ("arithmetic_intensity", "ai"), ("achieved_tflops", "tflops")]
            {
                close(number(ours, column), &theirs[key]);
            }
        }
    }

    #[test]
    fn instances_that_overlap_share_a_sample_once_and_devices_do_not_mix() {
        let mut small = Small::new();
        small.op(0, "a", 0, 100);
        small.op(0, "a", 50, 150);
        small.op(0, "b", 100, 150);
        small.op(1, "a", 0, 1_000);
        small.metric(1, Some(0), "Tensor FLOPs", &[(0, 100.0), (100, 60.0), (150, 8.0)]);
        small.metric(1, Some(0), "DRAM bytes", &[(0, 10.0), (100, 10.0), (150, 8.0)]);
        let section = small.section(roofline);
        let (a, b) = (row(&section, "kernel_name", "a"), row(&section, "kernel_name", "b"));
        assert_eq!((number(a, "flops"), number(b, "flops")), (130.0, 30.0));
        assert_eq!((number(a, "bytes"), number(b, "bytes")), (15.0, 5.0));
        assert_eq!((number(a, "total_time_ms"), number(a, "call_count")), (1_150.0 / 1e6, 3.0));
    }

    #[test]
    fn no_point_is_made_up_from_sampled_throughput() {
        let mut small = Small::new();
        small.op(0, "gemm", 0, 100);
        small.metric(1, Some(0), "FLOP [Throughput %]", &[(0, 50.0), (50, 50.0)]);
        small.metric(1, Some(0), "DRAM bytes [Throughput %]", &[(0, 50.0), (50, 50.0)]);
        let section = small.section(roofline);
        assert!(section.rows.is_empty() && section.missing.unwrap().why.contains("per cent"));
    }

    proptest! {
        #[test]
        fn every_counted_operation_is_shared_out_where_a_kernel_ran(pieces in pieces()) {
            let mut small = Small::of(&pieces);
            let samples: Vec<(i64, f64)> = (0..TICKS).step_by(4).map(|time| (time, 12.0)).collect();
            small.metric(1, Some(0), "flop", &samples);
            small.metric(1, Some(0), "dram bytes", &samples);
            let section = small.section(roofline);
            let ours: f64 = section.rows.iter().map(|row| number(row, "flops")).sum();
            let is_kernel = |kind: &usize| [COMPUTE, ALLREDUCE, ALLGATHER].contains(kind);
            let runs = |tick| running(&pieces, 0, tick).iter().enumerate().any(|(kind, &count)| is_kernel(&kind) && count > 0);
            let samples = (0..TICKS).step_by(4).filter(|&start| (start..start + 4).any(runs)).count();
            prop_assert!((ours - 12.0 * samples as f64).abs() < 1e-9, "{} of {}", ours, samples);
        }
    }
}
