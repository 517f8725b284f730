//! Steps of the serving engine by stage: how many, how long, and how regular. From the ranges that mark steps and the GPU ops
//! launched in them; one pass over the steps, and one over the ops to find work outside all steps.

use crate::analysis::context::Context;
use crate::analysis::measure::percentiles::interpolate;
use crate::analysis::recapture;
use crate::analysis::recapture::Lacks;
use crate::analysis::section::{Section, Value};
use crate::analysis::structure::phases;
use crate::analysis::structure::stages::{Basis, Form, Step, steps_from_ranges};
use crate::analysis::triage::Stage;
use crate::digits::grouped;
use crate::trace::{Ns, Trace, Window};
use std::ops::Range;

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

/// One row per stage. The interval of a step is the time from its start to the start of the next step on its device. The last step
/// has none; if no step of a stage has one, the length of the step is used instead.
pub(crate) fn steps(context: &Context) -> Section {
    let trace = context.trace;
    let mut steps = steps_from_ranges(trace);
    // If other steps launched work, a step without work is the last one of the profiler, cut short.
    if steps.iter().any(|step| step.basis != Basis::Host) {
        steps.retain(|step| step.basis != Basis::Host);
    }
    let all = steps.len();
    steps.retain(|step| is_whole(step, trace));
    let cut = all - steps.len();
    let Some(first) = steps.first() else {
        return if cut > 0 {
            Section::missing(TITLE, &COLUMNS, "No step lies whole in the window.", "")
        } else if trace.ranges.is_empty() {
            phases::no_ranges(trace, TITLE, &COLUMNS)
        } else {
            let why = "No range has the form of a step: none of SGLang's, vLLM's or TensorRT-LLM's, no ProfilerStep#.";
            Section::missing(TITLE, &COLUMNS, why, &recapture::command(trace.format, Lacks::Ranges))
        };
    };
    let mut section = Section::new(TITLE, "ranges that mark steps, and the GPU ops launched in them", &COLUMNS)
        .limit("A step lasts from its first to its last GPU op, and counts once on each device.")
        .limit("Interval: from the start of a step to the start of the next step on its device.");
    if cut > 0 {
        let steps = if cut == 1 { "step is" } else { "steps are" };
        section = section.limit(format!("{} {steps} cut by the window and left out.", grouped(cut as u64)));
    }
    if first.basis == Basis::Host {
        section = section.limit("The trace does not tell what steps launched: they last as long as on the host.");
    }
    if first.info.form == Form::Word {
        section = section.limit("Steps are ranges that hold the word prefill, extend or decode.");
    }
    let mut rows: Vec<Row> = Stage::ALL.map(|stage| Row { stage, ..Row::default() }).into();
    // From the last step to the first, because the interval needs the start of the next step.
    let mut next: Vec<Option<Ns>> = vec![None; trace.devices.len() + 1];
    for step in steps.iter().rev() {
        let lane = step.device.map_or(trace.devices.len(), |device| device.0 as usize);
        let (Some(next), Some(row)) = (next.get_mut(lane), rows.get_mut(step.info.stage as usize)) else { continue };
        let length = step.end.since(step.start);
        row.lengths.push(length.0);
        match next {
            Some(next) => row.intervals.add(next.since(step.start).0 as u64),
            None => row.last.add(length.0 as u64),
        }
        step.info.batch_size.into_iter().for_each(|count| row.batch_size.add(count));
        step.info.tokens.into_iter().for_each(|count| row.tokens.add(count));
        *next = Some(step.start);
    }
    for row in &mut rows {
        if !row.lengths.is_empty() {
            section.row(row.values());
        }
    }
    section.figure("steps", steps.len());
    let outside = Outside::of(&steps, context);
    section.figure("devices", outside.devices);
    section.figure("work_outside_pct", Value::pct(outside.work, outside.all_work));
    section.figure("idle_outside_ns", outside.idle);
    section
}

/// Is everything that the step launched in the window? Without a window always true.
fn is_whole(step: &Step, trace: &Trace) -> bool {
    let (Some(cut), Some(kept)) = (&trace.cut, &trace.kept) else { return true };
    let (start, end) = step.annotation_range;
    if step.basis == Basis::Host {
        return start >= cut.window.start && end <= cut.window.end;
    }
    !kept.neighbours().iter().any(|other| {
        let is_its_own = (other.process, Some(other.device)) == (step.process, step.device);
        is_its_own && (start..end).contains(&other.time)
    })
}

/// The steps of one stage.
#[derive(Debug)]
struct Row {
    stage: Stage,
    lengths: Vec<i64>,
    intervals: Mean,
    /// Lengths of the last steps of their devices.
    last: Mean,
    batch_size: Mean,
    tokens: Mean,
}

impl Default for Row {
    fn default() -> Self {
        let none = Mean::default();
        Self { stage: Stage::All, lengths: Vec::new(), intervals: none, last: none, batch_size: none, tokens: none }
    }
}

impl Row {
    fn values(&mut self) -> [Value; 9] {
        self.lengths.sort();
        let length =
            |percent| Value::from(interpolate(self.lengths.len(), percent, &|at| self.lengths.get(at).copied()));
        let intervals = if self.intervals.count > 0.0 { self.intervals } else { self.last };
        [
            self.stage.label().into(),
            self.lengths.len().into(),
            self.batch_size.value(),
            self.tokens.value(),
            length(50),
            length(10),
            length(90),
            intervals.value(),
            intervals.deviation(),
        ]
    }
}

/// A mean and what it takes to tell the deviation from it, value by value (Welford).
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Mean {
    fn add(&mut self, value: u64) {
        self.count += 1.0;
        let from_mean = value as f64 - self.mean;
        self.mean += from_mean / self.count;
        self.squares += from_mean * (value as f64 - self.mean);
    }

    fn value(&self) -> Value {
        if self.count > 0.0 { Value::Float(self.mean) } else { Value::Null }
    }

    /// The standard deviation of a sample; one value has none.
    fn deviation(&self) -> Value {
        if self.count > 1.0 { Value::Float((self.squares / (self.count - 1.0)).sqrt()) } else { Value::Null }
    }
}

/// What lies before the first step of a device and behind its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Outside {
    /// Devices with steps.
    devices: u64,
    /// Durations of ops that begin outside.
    work: Ns,
    /// Durations of all ops.
    all_work: Ns,
    /// Time without work, within the trace's window.
    idle: Ns,
}

/// One device on the way through its ops.
#[derive(Debug, Clone, Copy)]
struct Lane {
    /// Where its first step begins and its last one ends; a device without steps is outside as a whole.
    filled: Option<(Ns, Ns)>,
    /// How far its work reaches so far.
    reach: Ns,
}

impl Outside {
    fn of(steps: &[Step], context: &Context) -> Self {
        let trace = context.trace;
        let mut outside = Self::default();
        let Some(Window { start: begin, end }) = trace.span() else { return outside };
        let mut lanes = vec![Lane { filled: None, reach: begin }; trace.devices.len()];
        for step in steps {
            let Some(lane) = step.device.and_then(|device| lanes.get_mut(device.0 as usize)) else { continue };
            outside.devices += u64::from(lane.filled.is_none());
            let (first, last) = lane.filled.unwrap_or((step.start, step.end));
            lane.filled = Some((first.min(step.start), last.max(step.end)));
        }
        outside.all_work = context.duration_of_all_ops();
        let inside = inside_of_all(&lanes, trace);
        for op in (0..inside.start).chain(inside.end..trace.gpu_ops.len()).filter_map(|at| trace.gpu_ops.get(at)) {
            let Some(lane) = lanes.get_mut(op.device.0 as usize) else { continue };
            outside.idle += lane.idle_until(op.start);
            lane.reach = lane.reach.max(op.end());
            if lane.filled.is_none_or(|(first, last)| op.start < first || op.start > last) {
                outside.work += op.duration;
            }
        }
        for lane in &lanes {
            outside.idle += lane.idle_until(end);
        }
        outside
    }
}

/// The places of ops that begin behind the first step of every device and end before its last: nothing there lies outside.
fn inside_of_all(lanes: &[Lane], trace: &Trace) -> Range<usize> {
    let ops = &trace.gpu_ops;
    let filled: Option<Vec<(Ns, Ns)>> = lanes.iter().map(|lane| lane.filled).collect();
    let filled = filled.unwrap_or_default();
    let (first, last) = (filled.iter().map(|steps| steps.0).max(), filled.iter().map(|steps| steps.1).min());
    let from = first.map_or(ops.len(), |first| ops.count_starting_before(Ns(first.0.saturating_add(1))));
    from..last.map_or(ops.len(), |last| ops.first_reaching(last)).max(from)
}

impl Lane {
    /// The part of the gap up to there that lies before the first step or behind the last.
    fn idle_until(&self, end: Ns) -> Ns {
        let (first, last) = self.filled.unwrap_or((end, end));
        let before = end.min(first).since(self.reach);
        let behind = end.since(self.reach.max(last));
        before.max(Ns::ZERO) + behind.max(Ns::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::sections::explain;
    use crate::analysis::structure::stages::StepInfo;
    use crate::analysis::testing::{Small, figure, rows};
    use crate::trace::{DeviceId, NameId, ProcessId};
    use proptest::prelude::*;

    const THREAD: (i64, i64) = (1, 1);

    /// A step of the host at `at` that launches one kernel `late` later, with this duration.
    fn step(small: &mut Small, name: &str, id: u32, (at, late, duration): (i64, i64, i64)) {
        small.range(name, THREAD, (at, at + 10));
        small.call_on(THREAD, "cudaLaunchKernel", (at + 1, at + 2), Some(id));
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
        // Starts on the device: 5, 105, 135; nothing comes behind the last.
        assert_eq!(
            rows(&sections, "steps", &COLUMNS),
            ["extend/prefill 1 2 30 50 50 50 100 -", "decode 2 3 3 25 21 29 30 -"]
        );
        assert_eq!(figure(&sections, "steps", "idle_outside_ns") + figure(&sections, "steps", "work_outside_pct"), 0.0);
    }

    #[test]
    fn steps_that_a_window_cuts_are_left_out_and_a_last_step_alone_has_its_own_length_for_an_interval() {
        let mut small = Small::new();
        for (at, id) in [(0, 1), (100, 3), (200, 5)] {
            step(&mut small, "step[DECODE bs=2]", id, (at, 5, 20));
            small.call_on(THREAD, "cudaLaunchKernel", (at + 3, at + 4), Some(id + 1));
            small.kernel("k", 1, (at + 40, at + 60), Some(id + 1));
        }
        let trace = small.finish();
        let of = |start, end| {
            let part = trace.within(Window { start: Ns(start), end: Ns(end) });
            let found = super::steps(&Context::new(&part, 30));
            let rows: Vec<Option<f64>> = found
                .rows
                .iter()
                .flat_map(|row| ["steps", "mean_interval_ns"].map(|key| row.get(key).and_then(Value::number)))
                .collect();
            (rows, found.limits.iter().any(|limit| limit.contains("cut by the window")))
        };
        assert_eq!(of(0, 300), (vec![Some(3.0), Some(100.0)], false));
        // In the middle of the second: its first kernel is over, its second is not.
        assert_eq!(of(0, 135), (vec![Some(1.0), Some(55.0)], true));
        assert_eq!(of(130, 300), (vec![Some(1.0), Some(55.0)], true));
        // A kernel is cut, or none is.
        assert_eq!(of(150, 300), (vec![Some(1.0), Some(55.0)], true));
        assert_eq!(of(165, 300), (vec![Some(1.0), Some(55.0)], false));
        assert_eq!(of(106, 150), (vec![], false));
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

    proptest! {
        /// Some ops are steps of their own, each on its device.
        #[test]
        fn work_and_idle_time_outside_are_what_counting_every_nanosecond_gives(
            ops in prop::collection::vec((0_i64..60, 1_i64..12, 0_u32..3, any::<bool>()), 1..20),
        ) {
            let mut small = Small::new();
            for &(start, duration, device, _) in &ops {
                small.op(device, "k", start, start + duration);
            }
            let trace = small.finish();
            let device = |id: u32| trace.devices.iter().position(|device| device.id == id.to_string()).unwrap() as u32;
            let info = StepInfo::parse("step[DECODE bs=2]").unwrap();
            let step = |&(start, duration, id, _): &(i64, i64, u32, bool)| Step {
                info,
                name: NameId(0),
                start: Ns(start),
                end: Ns(start + duration),
                device: Some(DeviceId(device(id))),
                basis: Basis::Launches,
                process: ProcessId(0),
                annotation_range: (Ns(start), Ns(start + duration)),
            };
            let steps: Vec<Step> = ops.iter().filter(|op| op.3).map(step).collect();
            let begin = ops.iter().map(|op| op.0).min().unwrap();
            let end = ops.iter().map(|op| op.0 + op.1).max().unwrap();
            let (mut work, mut idle) = (0, 0);
            for id in 0..trace.devices.len() as u32 {
                let own = || ops.iter().filter(|op| device(op.2) == id);
                let first = own().filter(|op| op.3).map(|op| op.0).min().unwrap_or(end);
                let last = own().filter(|op| op.3).map(|op| op.0 + op.1).max().unwrap_or(end);
                let has_steps = own().any(|op| op.3);
                work += own().filter(|op| !has_steps || op.0 < first || op.0 > last).map(|op| op.1).sum::<i64>();
                let is_outside = |now: i64| !has_steps || now < first || now >= last;
                let is_idle = |now: i64| own().all(|op| now < op.0 || now >= op.0 + op.1);
                idle += (begin..end).filter(|now| is_outside(*now) && is_idle(*now)).count() as i64;
            }
            let found = Outside::of(&steps, &Context::new(&trace, 1));
            prop_assert_eq!((found.work, found.idle), (Ns(work), Ns(idle)));
            prop_assert_eq!(found.all_work, Ns(ops.iter().map(|op| op.1).sum()));
        }
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
