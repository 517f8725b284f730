//! Steps of the engine, as ranges of the host tell them: how many of each stage, how long, and how steadily they come.

use super::intervals::interpolate;
use super::recapture::{self, Lacks};
use super::{Context, phases};
use crate::analysis::section::{Section, Value};
use crate::analysis::triage::Stage;
use crate::analysis::triage::stages::{Basis, Form, Step, steps_of_ranges};
use crate::ordering::InOrder;
use crate::trace::{DeviceId, Ns, Trace};

const TITLE: &str = "Steps of the engine";
const COLUMNS: [&str; 9] = [
    "stage",
    "steps",
    "mean_batch_size",
    "mean_tokens",
    "median_ns",
    "p10_ns",
    "p90_ns",
    "mean_interval_ns",
    "stdev_interval_ns",
];

/// A row a stage. The interval of a step is the time from its start to that of the next one on its device, of the last
/// its own length: intervals add up to the time that the steps fill.
pub(super) fn steps(context: &Context) -> Section {
    let trace = context.trace;
    let mut steps = steps_of_ranges(trace);
    // Beside steps that launched work, one without is a profiler's last, cut short.
    if steps.iter().any(|step| step.basis != Basis::Host) {
        steps.retain(|step| step.basis != Basis::Host);
    }
    let Some(first) = steps.first() else {
        return if trace.ranges.is_empty() {
            phases::no_ranges(trace, TITLE, &COLUMNS)
        } else {
            let why = "No range has the form of a step: none of SGLang's, vLLM's or TensorRT-LLM's, no ProfilerStep#.";
            Section::missing(TITLE, &COLUMNS, why, &recapture::command(trace.format, Lacks::Ranges))
        };
    };
    let mut section = Section::new(TITLE, "ranges that mark steps, and the GPU ops launched in them", &COLUMNS)
        .limit("A step lasts from its first to its last GPU op, and counts once on each device.")
        .limit("To the next: from the start of a step to that of the next one on its device.");
    if first.basis == Basis::Host {
        section = section.limit("The trace does not tell what steps launched: they last as long as on the host.");
    }
    if first.info.form == Form::Word {
        section = section.limit("Steps are ranges that hold the word prefill, extend or decode.");
    }
    let intervals = intervals(&steps, trace);
    for stage in Stage::ALL {
        let own: Vec<(&Step, i64)> =
            steps.iter().zip(&intervals).filter(|(step, _)| step.info.stage == stage).map(|(a, b)| (a, *b)).collect();
        if !own.is_empty() {
            section.row(row(stage, &own));
        }
    }
    section.figure("steps", steps.len());
    section.figure("devices", devices(&steps));
    let outside = outside(&steps, trace);
    section.figure("work_outside_pct", Value::pct(outside.work, outside.all_work));
    section.figure("idle_outside_ns", outside.idle);
    section
}

/// What lies before the first step of a device and behind its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Outside {
    /// Durations of ops that begin there.
    work: Ns,
    /// Durations of all ops.
    all_work: Ns,
    /// Time without work, within the trace's window.
    idle: Ns,
}

/// One device on the way through its ops.
#[derive(Debug, Clone, Copy)]
struct Lane {
    /// Where its first step begins and its last one ends.
    filled: (Ns, Ns),
    /// How far its work reaches so far.
    reach: Ns,
}

fn outside(steps: &[Step], trace: &Trace) -> Outside {
    let mut outside = Outside::default();
    let ends = trace.gpu_ops.iter().map(|op| (op.start, op.end()));
    let Some((begin, end)) = ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) else { return outside };
    let lane = |device: DeviceId| {
        let own = steps.iter().filter(|step| step.device == Some(device)).map(|step| (step.start, step.end));
        // A device without steps is outside as a whole.
        Lane { filled: own.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unwrap_or((end, end)), reach: begin }
    };
    let mut lanes: Vec<Lane> = (0..trace.devices.len()).map(|id| lane(DeviceId(id as u32))).collect();
    for op in trace.gpu_ops.iter() {
        let Some(lane) = lanes.get_mut(op.device.0 as usize) else { continue };
        outside.idle += lane.idle_until(op.start);
        lane.reach = lane.reach.max(op.end());
        outside.all_work += op.duration;
        let is_outside = op.start < lane.filled.0 || op.start > lane.filled.1;
        outside.work += if is_outside { op.duration } else { Ns::ZERO };
    }
    lanes.iter().for_each(|lane| outside.idle += lane.idle_until(end));
    outside
}

impl Lane {
    /// The part of the gap up to there that lies before the first step or behind the last.
    fn idle_until(&self, end: Ns) -> Ns {
        let before = end.min(self.filled.0).since(self.reach);
        let behind = end.since(self.reach.max(self.filled.1));
        before.max(Ns::ZERO) + behind.max(Ns::ZERO)
    }
}

/// On how many devices steps are known.
fn devices(steps: &[Step]) -> usize {
    let mut devices: Vec<DeviceId> = steps.iter().filter_map(|step| step.device).collect();
    devices.order_by(|a, b| a.cmp(b));
    devices.dedup();
    devices.len()
}

/// Parallel to the steps, which are in order of start.
fn intervals(steps: &[Step], trace: &Trace) -> Vec<i64> {
    let mut intervals: Vec<i64> = steps.iter().map(|step| step.end.since(step.start).0).collect();
    for device in (0..trace.devices.len()).map(|id| Some(DeviceId(id as u32))).chain([None]) {
        let own = || steps.iter().enumerate().filter(|(_, step)| step.device == device);
        for ((at, step), (_, next)) in own().zip(own().skip(1)) {
            if let Some(interval) = intervals.get_mut(at) {
                *interval = next.start.since(step.start).0;
            }
        }
    }
    intervals
}

fn row(stage: Stage, steps: &[(&Step, i64)]) -> [Value; 9] {
    let mut lengths: Vec<i64> = steps.iter().map(|(step, _)| step.end.since(step.start).0).collect();
    lengths.order_by(|a, b| a.cmp(b));
    let length = |percent| Value::from(interpolate(lengths.len(), percent, &|at| lengths.get(at).copied()));
    let intervals: Vec<f64> = steps.iter().map(|(_, interval)| *interval as f64).collect();
    let interval = mean(&intervals);
    [
        stage.label().into(),
        steps.len().into(),
        mean(&told(steps, |step| step.info.batch_size)).into(),
        mean(&told(steps, |step| step.info.tokens)).into(),
        length(50),
        length(10),
        length(90),
        interval.into(),
        interval.and_then(|mean| deviation(&intervals, mean)).into(),
    ]
}

fn told(steps: &[(&Step, i64)], what: fn(&Step) -> Option<u64>) -> Vec<f64> {
    steps.iter().filter_map(|(step, _)| what(step)).map(|count| count as f64).collect()
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().fold(0.0, |sum, value| sum + value) / values.len() as f64)
}

/// The standard deviation of a sample; one value has none.
fn deviation(values: &[f64], mean: f64) -> Option<f64> {
    let squares = values.iter().fold(0.0, |sum, value| sum + (value - mean) * (value - mean));
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}

#[cfg(test)]
mod tests {
    use super::super::explain;
    use super::super::test_traces::{Small, figure, rows};
    use super::*;

    const THREAD: (i64, i64) = (1, 1);

    /// A step of the host at `at` that launches one kernel `late` later, with this duration.
    fn step(small: &mut Small, name: &str, id: u32, (at, late, duration): (i64, i64, i64)) {
        small.range(name, THREAD, (at, at + 10));
        small.call("cudaLaunchKernel", THREAD, (at + 1, at + 2), Some(id));
        small.kernel("k", 1, (at + late, at + late + duration), Some(id));
    }

    #[test]
    fn steps_last_as_long_as_their_kernels_and_fill_the_time_to_the_next() {
        let mut small = Small::new();
        step(&mut small, "step[EXTEND bs=2 toks=30]", 1, (0, 5, 50));
        step(&mut small, "step[DECODE bs=2]", 2, (100, 5, 20));
        step(&mut small, "step[DECODE bs=4]", 3, (130, 5, 30));
        small.range("ProfilerStep#1", THREAD, (0, 200)).range("decode attention", THREAD, (101, 103));
        small.range("step[DECODE bs=4]", THREAD, (190, 195));
        let trace = small.finish();
        let sections = explain(&Context::new(&trace, 30));
        // Starts on the device: 5, 105, 135; the last lasts 30.
        assert_eq!(
            rows(&sections, "steps", &COLUMNS),
            ["extend/prefill 1 2 30 50 50 50 100 -", "decode 2 3 3 25 21 29 30 0"]
        );
        assert_eq!(figure(&sections, "steps", "idle_outside_ns") + figure(&sections, "steps", "work_outside_pct"), 0.0);
    }

    #[test]
    fn what_lies_before_the_first_step_and_behind_the_last_is_told() {
        let mut small = Small::new();
        small.kernel("warm up", 1, (0, 40), None);
        step(&mut small, "step[DECODE bs=2]", 1, (100, 0, 50));
        step(&mut small, "step[DECODE bs=2]", 2, (200, 0, 50));
        small.kernel("flush", 1, (400, 460), None);
        let trace = small.finish();
        let sections = explain(&Context::new(&trace, 30));
        assert_eq!(figure(&sections, "steps", "idle_outside_ns"), 210.0, "40 to 100 and 250 to 400");
        assert_eq!(figure(&sections, "steps", "work_outside_pct"), 50.0, "100 of 200 ns");
    }

    #[test]
    fn without_an_engine_s_form_the_profiler_s_steps_count_and_without_those_plain_words() {
        let of = |names: &[&str]| {
            let mut small = Small::new();
            names.iter().zip(0..).for_each(|(name, at)| step(&mut small, name, at, (i64::from(at) * 100, 5, 10)));
            let trace = small.finish();
            rows(&explain(&Context::new(&trace, 30)), "steps", &["stage", "steps"])
        };
        assert_eq!(of(&["ProfilerStep#1", "ProfilerStep#2", "decode"]), ["all 2"]);
        assert_eq!(of(&["decode", "prefill", "decode", "layer"]), ["extend/prefill 1", "decode 2"]);
        assert_eq!(of(&["layer"]), [""; 0]);
    }
}
