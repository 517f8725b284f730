//! Sampled hardware counters: NVLink samples during and outside collectives, and a roofline from counted FLOPs
//! and bytes. Cost: one merge of samples and intervals per series, plus one pass over the kernels per roofline
//! series.
//!
//! Each counter is a separate series, so received and sent bytes are never mixed. A series of one GPU is compared
//! with the collectives and kernels of that GPU only.

use super::memory_traffic::{self, Bytes, MAX_ROOFLINE_ROWS, Roofline, RooflineRow};
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::context::Context;
use crate::analysis::labels;
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Answer, At, AtMs, Stated, TypedSection, Value, first_op, section};
use crate::analysis::time::work::{Class, Intervals, add_interval, each_work};
use crate::ordering;
use crate::ordering::VecMap;
use crate::trace::{DeviceId, GpuOp, MetricSeries, NameId, Ns, OpKind, Vendor};
use crate::words::hardware as words;

section! {
    /// The NVLink counters during collectives and outside of them.
    pub(crate) struct LinksDuringCollectives("nvlink_during_nccl", "NVLink during collectives");
    row LinkRow {
        metric_source_id: Value = "Source",
        metric_names: String = "Counters",
        samples: u64,
        samples_during_nccl: u64 = "Samples during communication",
        avg_metric_during_nccl: Option<f64> = "Mean during communication",
        avg_metric_outside_nccl: Option<f64> = "Mean outside communication",
        max_metric_during_nccl: Option<f64> = "Max during communication",
        nccl_activity_correlation: f64 = "Correlation",
        device_id: Value = "Device",
    }
}

section! {
    /// The samples of the NVLink counters.
    pub(crate) struct LinkSeries("nvlink_timeseries", "NVLink over time");
    row LinkSampleRow {
        metric_source_id: Value = "Source",
        metric_name: String = "Counter",
        timestamp_ns: At,
        timestamp_ms: AtMs,
        metric_value: f64 = "Value",
        nccl_active: bool = "Communication",
    }
    figures LinkSeriesFigures { first_op_ns: Stated<At> }
}

/// Maximum number of points of all series together.
const MAX_POINTS: usize = 20_000;

/// Whether the name contains one of these lowercase words.
fn contains_any(name: &str, words: &[String]) -> bool {
    let name = name.to_ascii_lowercase();
    words.iter().any(|word| name.contains(word.as_str()))
}

/// The intervals in which each device communicates. The last entry is for any device.
fn communication_intervals(trace: &ClassifiedTrace) -> Vec<Intervals> {
    let any_device = trace.trace.devices.len();
    let mut intervals: Vec<Intervals> = vec![Intervals::new(); any_device + 1];
    each_work(trace, &mut |work| {
        if work.class != Class::Communication || work.end <= work.start {
            return;
        }
        for index in [work.device, any_device] {
            intervals.get_mut(index).into_iter().for_each(|union| add_interval(union, (work.start, work.end)));
        }
    });
    intervals
}

/// The communication intervals; `None` if the trace has no NVLink series to compare them with.
fn intervals_for_nvlink(context: &Context) -> Option<Vec<Intervals>> {
    let is_sampled = context.trace.metrics.iter().any(|series| contains_any(&series.name, &context.signals.nvlink));
    is_sampled.then(|| communication_intervals(context))
}

/// The NVLink series of a trace, each with the communication intervals of its GPU.
fn nvlink_series<'a>(context: &'a Context, intervals: &'a [Intervals]) -> Vec<(&'a MetricSeries, &'a [(Ns, Ns)])> {
    let series = context.trace.metrics.iter().filter(|series| contains_any(&series.name, &context.signals.nvlink));
    let intervals_of = |series: &MetricSeries| match series.device {
        Some(device) => intervals.get(device.0 as usize),
        None => intervals.last(),
    };
    series.map(|series| (series, intervals_of(series).map_or(&[][..], Vec::as_slice))).collect()
}

/// Visits every finite sample of a series; the flag states whether it falls into an interval. Returns the number
/// of samples that are not finite.
fn each_sample(series: &MetricSeries, intervals: &[(Ns, Ns)], visit: &mut dyn FnMut(Ns, f64, bool)) -> u64 {
    let (mut intervals, mut unusable) = (intervals, 0);
    for &(time, value) in &series.samples {
        while let [(_, end), rest @ ..] = intervals
            && *end <= time
        {
            intervals = rest;
        }
        let is_inside = intervals.first().is_some_and(|(start, _)| *start <= time);
        if value.is_finite() {
            visit(time, value, is_inside);
        } else {
            unusable += 1;
        }
    }
    unusable
}

/// Sums of one series inside and outside communication intervals.
#[derive(Debug, Clone, Copy, Default)]
struct SampleSums {
    sum_inside: f64,
    samples_inside: u64,
    sum_outside: f64,
    samples_outside: u64,
    max_inside: Option<f64>,
}

impl SampleSums {
    fn add(&mut self, value: f64, is_inside: bool) {
        if is_inside {
            self.sum_inside += value;
            self.samples_inside += 1;
            self.max_inside = Some(self.max_inside.map_or(value, |max| max.max(value)));
        } else {
            self.sum_outside += value;
            self.samples_outside += 1;
        }
    }

    fn samples(&self) -> u64 {
        self.samples_inside + self.samples_outside
    }
}

/// Pearson correlation of being inside an interval (0 or 1) with the value; 0 if either is constant.
fn correlation(series: &MetricSeries, intervals: &[(Ns, Ns)], sums: &SampleSums) -> f64 {
    let samples = sums.samples() as f64;
    let mean_value = (sums.sum_inside + sums.sum_outside) / samples;
    let mean_inside = sums.samples_inside as f64 / samples;
    let (mut covariance, mut value_variance, mut inside_variance) = (0.0, 0.0, 0.0);
    each_sample(series, intervals, &mut |_, value, is_inside| {
        let (value, inside) = (value - mean_value, f64::from(u8::from(is_inside)) - mean_inside);
        covariance += value * inside;
        value_variance += value * value;
        inside_variance += inside * inside;
    });
    if value_variance > 0.0 && inside_variance > 0.0 {
        covariance / (value_variance.sqrt() * inside_variance.sqrt())
    } else {
        0.0
    }
}

/// Compares the NVLink samples during collectives with those outside them.
pub(crate) fn nvlink_during_nccl(context: &Context) -> Answer<LinksDuringCollectives> {
    let Some(intervals) = intervals_for_nvlink(context) else { return no_nvlink(context) };
    let series = nvlink_series(context, &intervals);
    if intervals.iter().all(Vec::is_empty) {
        let why = "NVLink was sampled, but no communication kernel was traced.";
        return LinksDuringCollectives::missing(why, "");
    }
    let mut answer: Answer<LinksDuringCollectives> = nvlink(&series)
        .limit("A sample counts as during a collective if its timestamp is in one. Its value may cover earlier time.");
    let mut unusable = 0;
    let mut rows: Vec<(SampleSums, f64, &MetricSeries)> = Vec::new();
    for (series, intervals) in series {
        let mut sums = SampleSums::default();
        unusable += each_sample(series, intervals, &mut |_, value, is_inside| sums.add(value, is_inside));
        rows.push((sums, correlation(series, intervals, &sums), series));
    }
    let mean_inside =
        |sums: &SampleSums| if sums.samples_inside > 0 { sums.sum_inside / sums.samples_inside as f64 } else { 0.0 };
    ordering::sort_by(&mut rows, |a, b| {
        let by_value = mean_inside(&b.0).total_cmp(&mean_inside(&a.0)).then(b.1.total_cmp(&a.1));
        by_value.then_with(|| (a.2.source, &a.2.name).cmp(&(b.2.source, &b.2.name)))
    });
    if unusable > 0 {
        answer.limits.push(words::unusable_samples(unusable));
    }
    let mean = |sum: f64, samples: u64| (samples > 0).then(|| sum / samples as f64);
    answer.with_rows(rows.into_iter().map(|(sums, correlation, series)| LinkRow {
        metric_source_id: series.source.into(),
        metric_names: series.name.clone(),
        samples: sums.samples(),
        samples_during_nccl: sums.samples_inside,
        avg_metric_during_nccl: mean(sums.sum_inside, sums.samples_inside),
        avg_metric_outside_nccl: mean(sums.sum_outside, sums.samples_outside),
        max_metric_during_nccl: sums.max_inside,
        nccl_activity_correlation: correlation,
        device_id: series.device.map_or(Value::Null, |device| labels::device(context.trace, device)),
    }))
}

/// Lists the NVLink samples. If there are more than [`MAX_POINTS`], each series is thinned out evenly.
pub(crate) fn nvlink_timeseries(context: &Context) -> Answer<LinkSeries> {
    let Some(intervals) = intervals_for_nvlink(context) else { return no_nvlink(context) };
    let series = nvlink_series(context, &intervals);
    let sample_count = series.iter().map(|(series, _)| series.samples.len()).sum::<usize>();
    let max_per_series = if sample_count > MAX_POINTS { (MAX_POINTS / series.len()).max(1) } else { usize::MAX };
    let mut points: Vec<(Ns, &MetricSeries, f64, bool)> = Vec::new();
    for (series, intervals) in &series {
        let (mut index, mut taken, samples) = (0, 0, series.samples.len());
        each_sample(series, intervals, &mut |time, value, is_inside| {
            if index == evenly_spaced(taken, max_per_series, samples) {
                points.push((time, series, value, is_inside));
                taken += 1;
            }
            index += 1;
        });
    }
    ordering::sort_by(&mut points, |a, b| (a.0, &a.1.name, a.1.source).cmp(&(b.0, &b.1.name, b.1.source)));
    let mut answer: Answer<LinkSeries> =
        nvlink(&series).with_figures(LinkSeriesFigures { first_op_ns: first_op(context.trace) });
    if sample_count > MAX_POINTS {
        answer.limits.push(words::thinned(sample_count, max_per_series));
    }
    answer.rows_in_all = sample_count as u64;
    answer.with_rows(points.into_iter().map(|(time, series, value, is_inside)| LinkSampleRow {
        metric_source_id: series.source.into(),
        metric_name: series.name.clone(),
        timestamp_ns: At(time),
        timestamp_ms: AtMs(time.0 as f64 / 1e6),
        metric_value: value,
        nccl_active: is_inside,
    }))
}

/// The index of the `nth` of `selected` samples that are spaced evenly from the first to the last of `total` samples.
fn evenly_spaced(nth: usize, selected: usize, total: usize) -> usize {
    if total <= selected {
        return nth;
    }
    let scaled = (total as u64 - 1) * nth as u64;
    if selected < 2 { 0 } else { (scaled / (selected as u64 - 1)) as usize }
}

fn no_nvlink<S: TypedSection>(context: &Context) -> Answer<S> {
    context.lacks(
        "The trace contains no NVLink counter samples. The first command lists the metric sets: replace SET with one \
         that includes NVLink.",
        MissingData::LinkCounters,
    )
}

fn nvlink<S: TypedSection>(series: &[(&MetricSeries, &[(Ns, Ns)])]) -> Answer<S> {
    let answer = S::answer("sampled NVLink counters and communication kernels of the same GPU")
        .limit("Values are in the unit given in the counter's name.");
    if series.iter().all(|(series, _)| series.device.is_some()) {
        return answer;
    }
    answer.limit("A counter that does not name its GPU is compared with the communication of all GPUs.")
}

/// The work of all instances of one kernel.
#[derive(Debug, Clone, Copy, Default)]
struct KernelWork {
    /// Time in which at least one instance runs, summed over devices.
    time: Ns,
    calls: u64,
    flops: f64,
    bytes: f64,
}

/// Lists floating point operations and bytes of each kernel, if the trace has samples of both, or bytes if they were counted for
/// each kernel.
pub(crate) fn roofline(context: &Context) -> Answer<Roofline> {
    if !context.trace.memory_traffic.is_empty() {
        return memory_traffic::roofline(context);
    }
    let signals = &context.signals;
    let (flops, has_flops_pct) = counters(context, &signals.flops);
    let (bytes, has_bytes_pct) = counters(context, &signals.dram_bytes);
    if flops.is_empty() || bytes.is_empty() {
        let why = if context.trace.vendor() == Vendor::Amd {
            "The trace contains no counters of device memory bytes. rocprofv3 counts them for each kernel, in a run of its own."
        } else if has_flops_pct || has_bytes_pct {
            "The trace contains only sampled throughput in percent, which cannot be converted to operations or bytes. \
             Nsight Compute counts both and draws the roofline itself; gpuprism does not read its reports."
        } else {
            "The trace contains no counters of floating-point operations and device memory bytes. Nsight Compute \
             counts both and draws the roofline itself; gpuprism does not read its reports."
        };
        return context.lacks(why, MissingData::WorkCounters);
    }
    let mut work_by_name = instances(context);
    let mut unused = 0;
    for series in flops {
        unused += u32::from(!share_out(context, series, &mut work_by_name, &|work, flops| work.flops += flops));
    }
    for series in bytes {
        unused += u32::from(!share_out(context, series, &mut work_by_name, &|work, bytes| work.bytes += bytes));
    }
    let mut answer = roofline_rows(context, &work_by_name);
    if unused > 0 {
        answer.limits.push(words::of_no_gpu(unused));
    }
    answer
}

/// The series with counts, and whether there are series in per cent of a peak.
fn counters<'a>(context: &'a Context, words: &[String]) -> (Vec<&'a MetricSeries>, bool) {
    let matching = || context.trace.metrics.iter().filter(|series| contains_any(&series.name, words));
    (matching().filter(|series| !series.is_per_cent()).collect(), matching().any(MetricSeries::is_per_cent))
}

/// The number of instances and the union of their time, by kernel name.
fn instances(context: &Context) -> Vec<KernelWork> {
    let mut work_by_name = vec![KernelWork::default(); context.trace.names.len()];
    each_uncovered(context, None, &mut |op, start, end| {
        if let Some(work) = work_by_name.get_mut(op.name.0 as usize) {
            work.time += end.since(start).max(Ns::ZERO);
            work.calls += 1;
        }
    });
    work_by_name
}

/// Visits the kernels by start, each with the start and end of the part that no earlier instance of the kernel on
/// the device covers. If all of it is covered, the end is not after the start.
fn each_uncovered(context: &Context, device: Option<DeviceId>, visit: &mut dyn FnMut(&GpuOp, Ns, Ns)) {
    let mut reach = VecMap::new();
    let kernels = context.trace.gpu_ops.iter().filter(|op| op.kind == OpKind::Kernel);
    for op in kernels.filter(|op| device.is_none_or(|device| op.device == device)) {
        reach.update((op.name, op.device), op.start, |reach: &mut Ns| {
            visit(&op, op.start.max(*reach), op.end());
            *reach = (*reach).max(op.end());
        });
    }
}

/// Splits each sample among the kernels that run during it, in proportion to their time. Returns false if the
/// series names no GPU of the trace, or has fewer than two samples.
fn share_out(
    context: &Context,
    series: &MetricSeries,
    work_by_name: &mut [KernelWork],
    add: &dyn Fn(&mut KernelWork, f64),
) -> bool {
    let device = series.device_among(context.trace.devices.len());
    let (Some(device), Some(last_duration)) = (device, median_spacing(series)) else { return false };
    let mut kernel_time = vec![0_i64; series.samples.len()];
    each_share(context, device, series, last_duration, &mut |sample, _, time| {
        kernel_time.get_mut(sample).into_iter().for_each(|sum| *sum = sum.saturating_add(time));
    });
    each_share(context, device, series, last_duration, &mut |sample, op, time| {
        let (Some((_, value)), Some(total)) = (series.samples.get(sample), kernel_time.get(sample)) else { return };
        if let (Some(work), true) = (work_by_name.get_mut(op.name.0 as usize), value.is_finite()) {
            add(work, value * (time as f64 / *total as f64));
        }
    });
    true
}

/// Visits each overlap of a kernel with a sample: sample index, op, overlap in nanoseconds. A sample lasts until
/// the next one, the last sample for `last_duration`.
fn each_share(
    context: &Context,
    device: DeviceId,
    series: &MetricSeries,
    last_duration: Ns,
    visit: &mut dyn FnMut(usize, &GpuOp, i64),
) {
    let samples = &series.samples;
    let span = |sample: usize| {
        let start = samples.get(sample)?.0;
        Some((start, samples.get(sample + 1).map_or(start + last_duration, |next| next.0)))
    };
    let mut first = 0;
    each_uncovered(context, Some(device), &mut |op, start, end| {
        while span(first).is_some_and(|(_, sample_end)| sample_end <= op.start) {
            first += 1;
        }
        let mut sample = first;
        while let Some((sample_start, sample_end)) = span(sample)
            && sample_start < end
        {
            let time = end.min(sample_end).since(start.max(sample_start));
            if time > Ns::ZERO {
                visit(sample, op, time.0);
            }
            sample += 1;
        }
    });
}

/// The median distance between consecutive samples; `None` if there are fewer than two.
fn median_spacing(series: &MetricSeries) -> Option<Ns> {
    let times = series.samples.iter().map(|sample| sample.0);
    let mut spacing: Vec<i64> = times.clone().zip(times.skip(1)).map(|(this, next)| next.since(this).0).collect();
    ordering::sort_by_key(&mut spacing, |&spacing| spacing);
    spacing.get(spacing.len() / 2).map(|&spacing| Ns(spacing))
}

fn roofline_rows(context: &Context, work_by_name: &[KernelWork]) -> Answer<Roofline> {
    let mut rows: Vec<(NameId, &KernelWork)> = (0..).map(NameId).zip(work_by_name).collect();
    rows.retain(|(_, work)| work.flops > 0.0 && work.bytes > 0.0 && work.time > Ns::ZERO);
    ordering::sort_by_key(&mut rows, |(name, work)| (std::cmp::Reverse(work.time), *name));
    let mut answer = Roofline::answer("counters of operations and bytes, kernels of the same GPU")
        .limit("A sample is divided by time among the kernels that run during it: an estimate if there are several.")
        .limit("Rates are relative to the total time of a kernel, including time without samples.");
    answer.rows_in_all = rows.len() as u64;
    answer.with_rows(rows.into_iter().take(MAX_ROOFLINE_ROWS).map(|(name, work)| RooflineRow {
        kernel_name: labels::kernel_name(context.trace, name),
        total_time_ms: work.time.into(),
        call_count: work.calls,
        flops: Some(work.flops),
        bytes: Some(Bytes::Estimated(work.bytes)),
        arithmetic_intensity: Some(work.flops / work.bytes),
        achieved_tflops: Some(work.flops / work.time.0 as f64 / 1e3),
        tb_per_s: Some(work.bytes / work.time.0 as f64 / 1e3),
        basis: "samples of counters".to_owned(),
        ..RooflineRow::default()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::*;
    use crate::trace::testing::TestTrace;
    use proptest::prelude::*;

    const RX: &str = "NVLink RX Responses User Data [Throughput %]";
    const TX: &str = "NVLink TX Responses User Data [Throughput %]";

    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn nvlink_figures_of_the_fixture_match_the_original_with_rx_and_tx_combined() {
        let (trace, expected) = fixture();
        let (ours, theirs) = (nvlink_during_nccl(&Context::new(&trace, 30)).section(), &expected["nvlink_row"]);
        // The original has one row for received and sent bytes together.
        assert_eq!(ours.rows.len(), 2);
        let sum = |value: &dyn Fn(&crate::analysis::section::Record) -> f64| ours.rows.iter().map(value).sum::<f64>();
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
        // For a binary variable, the Pearson correlation is the difference of the means in standard deviations,
        // times sqrt(pq).
        for (name, inside, outside) in [
            ("NVLink bytes transmitted", [70.0, 80.0, 85.0], [5.0, 6.0, 8.0]),
            ("NVLink bytes received", [65.0, 78.0, 82.0], [4.0, 5.0, 7.0]),
        ] {
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
            let all = [inside, outside].concat();
            let squares: Vec<f64> = all.iter().map(|value| (value - mean(&all)) * (value - mean(&all))).collect();
            let expected = (mean(&inside) - mean(&outside)) / mean(&squares).sqrt() * 0.5;
            let ours = number(row(&ours, "metric_names", name), "nccl_activity_correlation");
            assert!((ours - expected).abs() < 1e-12, "{ours} is not {expected}");
        }
    }

    #[test]
    fn samples_are_compared_with_the_collectives_of_their_own_gpu() {
        let mut trace = TestTrace::nsys();
        let samples = [(50, 1.0), (100, 9.0), (199, 7.0), (200, 1.0), (350, 3.0)];
        trace.device(0).kernel(KINDS[ALLREDUCE], 100..200).metric(RX, &samples).metric(TX, &samples);
        trace.device(1).kernel(KINDS[ALLREDUCE], 300..400).metric(RX, &samples);
        let section = trace.metric_of(None, RX, &samples).section(nvlink_during_nccl);
        let columns = ["device_id", "samples_during_nccl", "avg_metric_during_nccl", "avg_metric_outside_nccl"];
        let mut figures = rows_of(&section, &columns);
        figures.sort();
        // RX and TX have separate rows. Those of an unknown GPU are compared with the collectives of all.
        assert_eq!(figures, ["- 3 6.333 1", "0 2 8 1.667", "0 2 8 1.667", "1 1 3 4.5"]);
        assert!(section.limits.iter().any(|limit| limit.contains("does not name its GPU")));
    }

    #[test]
    fn a_long_series_is_thinned_out_evenly() {
        let mut trace = TestTrace::nsys();
        let samples: Vec<(i64, f64)> = (0..39_000).map(|time| (time, time as f64)).collect();
        trace.kernel(KINDS[ALLREDUCE], 35_000..40_000).metric(RX, &samples).metric(TX, &samples[..10]);
        let section = trace.section(nvlink_timeseries);
        assert_eq!((section.rows_in_all, section.rows.len()), (39_010, MAX_POINTS / 2 + 10));
        let rx = section.rows.iter().filter(|row| words(row, "metric_name") == RX);
        let rx: Vec<f64> = rx.map(|row| number(row, "metric_value")).collect();
        assert_eq!((rx[0], rx[rx.len() - 1]), (0.0, 38_999.0));
        assert!(rx.windows(2).all(|pair| (3.0..5.0).contains(&(pair[1] - pair[0]))), "evenly");
        let active = section.rows.iter().filter(|row| row.get("nccl_active") == Some(&true.into()));
        assert!(active.map(|row| number(row, "timestamp_ns")).all(|time| (35_000.0..40_000.0).contains(&time)));
    }

    #[test]
    #[cfg_attr(not(recorded_traces), ignore = "no recorded traces")]
    fn roofline_of_the_fixture_matches_hand_computed_values() {
        let (trace, expected) = fixture();
        let section = roofline(&Context::new(&trace, 30)).section();
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
    fn overlapping_instances_count_once_and_devices_are_separate() {
        let mut trace = TestTrace::nsys();
        trace.device(1).kernel("a", 0..1_000).device(0).kernel("a", 0..100).kernel("a", 50..150).kernel("b", 100..150);
        trace.metric("Tensor FLOPs", &[(0, 100.0), (100, 60.0), (150, 8.0)]);
        trace.metric("DRAM bytes", &[(0, 10.0), (100, 10.0), (150, 8.0)]);
        let section = trace.section(roofline);
        let (a, b) = (row(&section, "kernel_name", "a"), row(&section, "kernel_name", "b"));
        assert_eq!((number(a, "flops"), number(b, "flops")), (130.0, 30.0));
        assert_eq!((number(a, "bytes"), number(b, "bytes")), (15.0, 5.0));
        assert_eq!((number(a, "total_time_ms"), number(a, "call_count")), (1_150.0 / 1e6, 3.0));
    }

    #[test]
    fn throughput_in_per_cent_gives_no_roofline_points() {
        let mut trace = TestTrace::nsys();
        trace.kernel("gemm", 0..100).metric("FLOP [Throughput %]", &[(0, 50.0), (50, 50.0)]);
        let section = trace.metric("DRAM bytes [Throughput %]", &[(0, 50.0), (50, 50.0)]).section(roofline);
        assert!(section.rows.is_empty() && section.missing.unwrap().why.contains("percent"));
    }

    proptest! {
        #[test]
        fn all_counted_operations_are_split_among_the_running_kernels(ops in grid_ops()) {
            let samples: Vec<(i64, f64)> = (0..TICKS).step_by(4).map(|time| (time, 12.0)).collect();
            let mut trace = grid_trace(&ops);
            let section = trace.device(0).metric("flop", &samples).metric("dram bytes", &samples).section(roofline);
            let ours: f64 = section.rows.iter().map(|row| number(row, "flops")).sum();
            let is_kernel = |kind: &usize| [COMPUTE, ALLREDUCE, ALLGATHER].contains(kind);
            let runs = |tick| running(&ops, 0, tick).iter().enumerate().any(|(kind, &count)| is_kernel(&kind) && count > 0);
            let samples = (0..TICKS).step_by(4).filter(|&start| (start..start + 4).any(runs)).count();
            prop_assert!((ours - 12.0 * samples as f64).abs() < 1e-9, "{} of {}", ours, samples);
        }
    }
}
