//! The sampled hardware counters by stage of serving: whether prefill keeps the tensor cores busy, and decode the memory.
//!
//! A sample belongs to the step that its time is in, and to the busy time if its device runs work then. Cost: one pass over the
//! GPU work for the busy intervals, and one over the samples, with a binary search among the steps for each.

use crate::analysis::context::Context;
use crate::analysis::labels;
use crate::analysis::section::{Answer, TypedSection, Value, section};
use crate::analysis::structure::stages::Stage;
use crate::analysis::time::work::{Intervals, add_interval, each_work};
use crate::trace::{ALLOCATED_MEMORY, DeviceId, MetricSeries, Ns, Trace};
use crate::words::hardware as words;

section! {
    /// The sampled hardware counters of each device by stage.
    pub(crate) struct StageCounters("gpu_counters", "Hardware counters by stage");
    row StageCounterRow {
        device_id: Value = "Device",
        stage: Stage,
        metric_name: String = "Counter",
        counter_samples: u64 = "Samples",
        mean_value: Option<f64> = "Mean",
        busy_samples: u64 = "Samples while busy",
        mean_value_busy: Option<f64> = "Mean while busy",
        highest_value: Option<f64> = "Highest",
    }
}

/// The steps of a device: start, end and stage, sorted by start.
type StageIntervals = Vec<(Ns, Ns, Stage)>;

/// Sums of the samples of a counter.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    samples: u64,
    sum: f64,
    busy_samples: u64,
    busy_sum: f64,
    highest: Option<f64>,
}

impl Sums {
    fn add(&mut self, value: f64, is_busy: bool) {
        self.samples += 1;
        self.sum += value;
        if is_busy {
            self.busy_samples += 1;
            self.busy_sum += value;
        }
        self.highest = Some(self.highest.map_or(value, |highest| highest.max(value)));
    }

    fn mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum / self.samples as f64)
    }

    fn busy_mean(&self) -> Option<f64> {
        (self.busy_samples > 0).then(|| self.busy_sum / self.busy_samples as f64)
    }
}

/// A row for each device, stage and counter. `None` for a trace without samples of hardware counters.
pub(crate) fn gpu_counters(context: &Context) -> Option<Answer<StageCounters>> {
    let trace = context.trace;
    let span = trace.span()?;
    let series: Vec<(DeviceId, &MetricSeries)> = sampled_series(trace).collect();
    if series.is_empty() {
        return None;
    }
    let (busy, steps) = (busy_intervals(context), stage_intervals(context));
    let mut rows: Vec<(DeviceId, Stage, &MetricSeries, Sums)> = Vec::new();
    let mut unusable = 0;
    for (device, series) in series {
        let of_device = device.0 as usize;
        let (busy, steps) = (busy.get(of_device), steps.get(of_device));
        let within = series.samples.iter().filter(|(time, _)| (span.start..span.end).contains(time));
        let mut sums = Stage::ALL.map(|_| Sums::default());
        let mut busy = busy.map_or(&[][..], Vec::as_slice);
        for &(time, value) in within {
            if !value.is_finite() {
                unusable += 1;
                continue;
            }
            while let [(_, end), rest @ ..] = busy
                && *end <= time
            {
                busy = rest;
            }
            let is_busy = busy.first().is_some_and(|(start, _)| *start <= time);
            let stage = steps.and_then(|steps| stage_at(steps, time)).filter(|stage| *stage != Stage::All);
            for stage in [Some(Stage::All), stage].into_iter().flatten() {
                sums.get_mut(stage as usize).into_iter().for_each(|sums| sums.add(value, is_busy));
            }
        }
        let stages = Stage::ALL.into_iter().zip(sums).filter(|(_, sums)| sums.samples > 0);
        rows.extend(stages.map(|(stage, sums)| (device, stage, series, sums)));
    }
    // A stable sort: counters stay in the order of their names.
    rows.sort_by_key(|(device, stage, ..)| (*device, *stage));
    Some(answer(trace, rows, unusable))
}

fn answer(trace: &Trace, rows: Vec<(DeviceId, Stage, &MetricSeries, Sums)>, unusable: u64) -> Answer<StageCounters> {
    let mut answer = StageCounters::answer("sampled hardware counters, the GPU work and the steps")
        .limit("Values are in the unit given in the counter's name. Means count each sample once.")
        .limit("A sample belongs to the step and to the busy time that its timestamp is in. Its value covers the time since the sample before, so that kernels shorter than that are not told apart.")
        .limit("The stage all is the time from the first GPU op to the last, with what is outside of the steps.");
    if unusable > 0 {
        answer.limits.push(words::unusable_samples(unusable));
    }
    answer.with_rows(rows.into_iter().map(|(device, stage, series, sums)| StageCounterRow {
        device_id: labels::device(trace, device),
        stage,
        metric_name: series.name.clone(),
        counter_samples: sums.samples,
        mean_value: sums.mean(),
        busy_samples: sums.busy_samples,
        mean_value_busy: sums.busy_mean(),
        highest_value: sums.highest,
    }))
}

/// The series of hardware counters, each with its device.
fn sampled_series(trace: &Trace) -> impl Iterator<Item = (DeviceId, &MetricSeries)> {
    let hardware = trace.metrics.iter().filter(|series| series.name != ALLOCATED_MEMORY);
    hardware.filter_map(|series| Some((series.device_among(trace.devices.len())?, series)))
}

/// The time in which each device runs work.
fn busy_intervals(context: &Context) -> Vec<Intervals> {
    let mut intervals = vec![Intervals::new(); context.trace.devices.len()];
    each_work(context, &mut |work| {
        if work.end > work.start {
            let union = intervals.get_mut(work.device);
            union.into_iter().for_each(|union| add_interval(union, (work.start, work.end)));
        }
    });
    intervals
}

fn stage_intervals(context: &Context) -> Vec<StageIntervals> {
    let mut intervals = vec![StageIntervals::new(); context.trace.devices.len()];
    for measured in &context.measured_steps().steps {
        let of_device = measured.step.device.and_then(|device| intervals.get_mut(device.0 as usize));
        let interval = (measured.step.start, measured.until, measured.step.info.stage);
        of_device.into_iter().for_each(|steps| steps.push(interval));
    }
    intervals
}

/// The stage of the last step that starts before or at a time, if it has not ended.
fn stage_at(steps: &StageIntervals, time: Ns) -> Option<Stage> {
    let before = steps.partition_point(|(start, ..)| *start <= time);
    let (_, end, stage) = steps.get(before.checked_sub(1)?)?;
    (time < *end).then_some(*stage)
}

#[cfg(test)]
mod tests {
    use super::StageCounters;
    use crate::analysis::testing::{keys, rows_of};
    use crate::trace::ALLOCATED_MEMORY;
    use crate::trace::testing::TestTrace;

    const SM: &str = "SM Active [Throughput %]";

    #[test]
    fn samples_are_told_apart_by_step_and_busy_time() {
        let mut trace = TestTrace::nsys();
        trace.range("prefill", 0..100).launch(10..11).launches("gemm", 100..200);
        trace.range("decode", 200..300).launch(210..211).launches("gemv", 300..340);
        trace.range("decode", 340..370).launch(350..351).launches("gemv", 370..410);
        // Two before the first op and after the last, two in prefill, and of those in the decode steps one while the GPU is idle.
        trace.metric(SM, &[(50, 99.0), (100, 80.0), (150, 90.0), (310, 20.0), (360, 0.0), (380, 25.0), (410, 99.0)]);
        let section = trace.sections().remove("gpu_counters").unwrap();
        assert_eq!(
            rows_of(&section, &keys::<StageCounters>()),
            [
                format!("0 extend/prefill {SM} 2 85 2 85 90"),
                format!("0 decode {SM} 3 15 2 22.5 25"),
                format!("0 all {SM} 5 43 4 53.75 90"),
            ]
        );
    }

    #[test]
    fn each_device_has_its_own_counters_and_other_series_have_none() {
        let mut trace = TestTrace::nsys();
        trace.device(0).kernel("a", 0..100).metric(SM, &[(10, 10.0), (20, f64::NAN)]);
        trace.device(1).kernel("a", 0..100).metric(SM, &[(10, 30.0)]);
        // Its GPU ran no work.
        trace.metric_of(None, "PCIe RX Throughput [Throughput %]", &[(10, 1.0)]);
        trace.metric(ALLOCATED_MEMORY, &[(10, 1e9)]);
        let section = trace.sections().remove("gpu_counters").unwrap();
        assert_eq!(
            rows_of(&section, &keys::<StageCounters>()),
            [format!("0 all {SM} 1 10 1 10 10"), format!("1 all {SM} 1 30 1 30 30")]
        );
        assert!(section.limits.iter().any(|limit| limit.starts_with("1 samples have no numeric value")));
        // On one GPU, too, a counter with a source of its own is that of another GPU.
        let mut alone = TestTrace::nsys();
        alone.kernel("a", 0..100).metric(SM, &[(10, 10.0)]).metric_of(None, SM, &[(10, 0.0)]);
        assert_eq!(
            rows_of(&alone.sections()["gpu_counters"], &keys::<StageCounters>()),
            [format!("0 all {SM} 1 10 1 10 10")]
        );
        assert!(!TestTrace::nsys().kernel("a", 0..1).sections().contains_key("gpu_counters"));
    }
}
