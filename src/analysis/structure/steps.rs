//! Steps of the serving engine by stage: number, length and interval. From the ranges that mark steps and the
//! GPU ops launched in them. One pass over the steps, and one over the ops to find work before the first and
//! after the last step.

use crate::analysis::context::Context;
use crate::analysis::measure::percentiles::interpolate;
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Section, Value};
use crate::analysis::structure::ranges::no_ranges;
use crate::analysis::structure::stages::{Basis, Form, Step, steps_from_ranges};
use crate::analysis::time::work::each_work;
use crate::analysis::triage::Stage;
use crate::digits::grouped;
use crate::trace::{Ns, Trace, Window};
use std::ops::Range;

const TITLE: &str = "Engine steps";
const COLUMNS: [&str; 10] = [
    "stage",
    "steps",
    "mean_batch_size",
    "mean_tokens",
    "median_ns",
    "p10_ns",
    "p90_ns",
    "mean_interval_ns",
    "stdev_interval_ns",
    "busy_pct",
];

/// One row per stage. The interval of a step is the time from its start to the start of the next step on its
/// device. The last step has none; if no step of a stage has one, the length of the step is used instead.
pub(crate) fn steps(context: &Context) -> Section {
    let trace = context.trace;
    let mut steps = steps_from_ranges(trace);
    // If other steps launched work, a step without work is the last one, cut short by the end of the profile.
    if steps.iter().any(|step| step.basis != Basis::Host) {
        steps.retain(|step| step.basis != Basis::Host);
    }
    let found = steps.len();
    steps.retain(|step| is_whole(step, trace));
    let cut = found - steps.len();
    let Some(first) = steps.first() else {
        return if cut > 0 {
            Section::missing(TITLE, &COLUMNS, "No step is completely inside the window.", "")
        } else if trace.ranges.is_empty() {
            no_ranges(context, TITLE, &COLUMNS)
        } else {
            let why = "The trace has no step annotations of SGLang, vLLM or TensorRT-LLM and no ProfilerStep# ranges.";
            context.missing(TITLE, &COLUMNS, why, MissingData::Ranges)
        };
    };
    let mut section = Section::new(TITLE, "ranges that mark steps, and the GPU ops launched in them", &COLUMNS)
        .limit("A step lasts from its first to its last GPU op and counts once per device.")
        .limit("An interval is the time from the start of a step to the start of the next step on its device.");
    if cut > 0 {
        let steps = if cut == 1 { "step is" } else { "steps are" };
        section = section.limit(format!("{} {steps} cut by the window and excluded.", grouped(cut as u64)));
    }
    if first.basis == Basis::Host {
        section = section.limit("The trace does not link steps to GPU ops. Step times are those of the host ranges.");
    }
    if first.info.form == Form::Word {
        section = section.limit("Steps are ranges whose names contain the word prefill, extend or decode.");
    }
    let mut rows = Stage::ALL.map(|_| Row::default());
    // From the last step to the first, because the interval needs the start of the next step.
    let mut next: Vec<Option<Ns>> = vec![None; trace.devices.len() + 1];
    let busy = busy_in_steps(&steps, context);
    for (step, busy) in steps.iter().zip(busy).rev() {
        let lane = step.device.map_or(trace.devices.len(), |device| device.0 as usize);
        let (Some(next), Some(row)) = (next.get_mut(lane), rows.get_mut(step.info.stage as usize)) else { continue };
        let length = step.end.since(step.start);
        row.lengths.push(length.0);
        if step.device.is_some() {
            row.length += length;
            row.busy += busy;
        }
        match next {
            Some(next) => row.intervals.add(next.since(step.start).0 as u64),
            None => row.last_lengths.add(length.0 as u64),
        }
        step.info.batch_size.into_iter().for_each(|count| row.batch_size.add(count));
        step.info.tokens.into_iter().for_each(|count| row.tokens.add(count));
        *next = Some(step.start);
    }
    for (row, stage) in rows.iter_mut().zip(Stage::ALL).filter(|(row, _)| !row.lengths.is_empty()) {
        section.row(row.values(stage));
    }
    section.figure("steps", steps.len());
    let outside = Outside::of(&steps, context);
    section.figure("devices", outside.devices);
    section.figure("work_outside_pct", Value::pct(outside.work, outside.all_work));
    section.figure("idle_outside_ns", outside.idle);
    section
}

/// Checks whether the window contains everything that the step launched. True if there is no window.
fn is_whole(step: &Step, trace: &Trace) -> bool {
    let (Some(cut), Some(kept)) = (&trace.cut, &trace.kept) else { return true };
    let (start, end) = step.annotation_range;
    if step.basis == Basis::Host {
        return start >= cut.window.start && end <= cut.window.end;
    }
    !kept.neighbours().iter().any(|other| {
        let is_same_device = (other.process, Some(other.device)) == (step.process, step.device);
        is_same_device && (start..end).contains(&other.time)
    })
}

/// The time in each step in which its device works; zero for steps without a device. One sweep over the work: the busy
/// time up to the end of a step minus that up to its start.
fn busy_in_steps(steps: &[Step], context: &Context) -> Vec<Ns> {
    /// The sweep over one device.
    #[derive(Default)]
    struct BusySweep {
        /// Starts and ends of steps: time, index of the step, true for an end. Sorted from last to first.
        boundaries: Vec<(Ns, usize, bool)>,
        busy: Ns,
        busy_until: Ns,
    }
    let mut lanes: Vec<BusySweep> = context.trace.devices.iter().map(|_| BusySweep::default()).collect();
    for (index, step) in steps.iter().enumerate() {
        let Some(lane) = step.device.and_then(|device| lanes.get_mut(device.0 as usize)) else { continue };
        lane.boundaries.extend([(step.start, index, false), (step.end, index, true)]);
    }
    lanes.iter_mut().for_each(|lane| lane.boundaries.sort_by(|a, b| b.cmp(a)));
    let mut busy = vec![Ns::ZERO; steps.len()];
    let mut add_until = |lane: &mut BusySweep, time: Ns| {
        while let Some((at, index, is_end)) = lane.boundaries.pop_if(|boundary| boundary.0 <= time) {
            // The work so far may reach beyond the boundary.
            let so_far = lane.busy.since(lane.busy_until.since(at).max(Ns::ZERO));
            let Some(busy) = busy.get_mut(index) else { continue };
            *busy = if is_end { *busy + so_far } else { busy.since(so_far) };
        }
    };
    each_work(context, &mut |work| {
        let Some(lane) = lanes.get_mut(work.device) else { return };
        add_until(lane, work.start);
        lane.busy += work.end.since(work.start.max(lane.busy_until)).max(Ns::ZERO);
        lane.busy_until = lane.busy_until.max(work.end);
    });
    lanes.iter_mut().for_each(|lane| add_until(lane, Ns(i64::MAX)));
    busy
}

/// The steps of one stage.
#[derive(Debug, Default)]
struct Row {
    lengths: Vec<i64>,
    intervals: Mean,
    /// Lengths of steps that are the last on their device.
    last_lengths: Mean,
    batch_size: Mean,
    tokens: Mean,
    /// Sum of the lengths of steps with a device, and the part of it in which the device works.
    length: Ns,
    busy: Ns,
}

impl Row {
    fn values(&mut self, stage: Stage) -> [Value; COLUMNS.len()] {
        self.lengths.sort();
        let length =
            |percent| Value::from(interpolate(self.lengths.len(), percent, &|index| self.lengths.get(index).copied()));
        let intervals = if self.intervals.count > 0.0 { self.intervals } else { self.last_lengths };
        [
            stage.label().into(),
            self.lengths.len().into(),
            self.batch_size.value(),
            self.tokens.value(),
            length(50),
            length(10),
            length(90),
            intervals.value(),
            intervals.deviation(),
            if self.length > Ns::ZERO { Value::pct(self.busy, self.length) } else { Value::Null },
        ]
    }
}

/// Running mean and standard deviation (Welford's algorithm).
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    count: f64,
    mean: f64,
    /// Sum of squared differences from the mean.
    squares: f64,
}

impl Mean {
    fn add(&mut self, value: u64) {
        self.count += 1.0;
        let difference = value as f64 - self.mean;
        self.mean += difference / self.count;
        self.squares += difference * (value as f64 - self.mean);
    }

    fn value(&self) -> Value {
        if self.count > 0.0 { Value::Float(self.mean) } else { Value::Null }
    }

    /// The sample standard deviation; `Null` for fewer than two values.
    fn deviation(&self) -> Value {
        if self.count > 1.0 { Value::Float((self.squares / (self.count - 1.0)).sqrt()) } else { Value::Null }
    }
}

/// Work and idle time before the first step of each device and after its last step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Outside {
    /// Devices with steps.
    devices: u64,
    /// Durations of ops that start outside.
    work: Ns,
    /// Durations of all ops.
    all_work: Ns,
    /// Time without work, within the trace's window.
    idle: Ns,
}

/// The state of one device in the sweep over the ops.
#[derive(Debug, Clone, Copy)]
struct Lane {
    /// Start of its first step and end of its last one; `None` for a device without steps, whose time is all
    /// outside.
    steps: Option<(Ns, Ns)>,
    /// The latest end of its ops so far.
    busy_until: Ns,
}

impl Outside {
    fn of(steps: &[Step], context: &Context) -> Self {
        let trace = context.trace;
        let mut outside = Self::default();
        let Some(Window { start, end }) = trace.span() else { return outside };
        let mut lanes = vec![Lane { steps: None, busy_until: start }; trace.devices.len()];
        for step in steps {
            let Some(lane) = step.device.and_then(|device| lanes.get_mut(device.0 as usize)) else { continue };
            outside.devices += u64::from(lane.steps.is_none());
            let (first, last) = lane.steps.unwrap_or((step.start, step.end));
            lane.steps = Some((first.min(step.start), last.max(step.end)));
        }
        outside.all_work = context.duration_of_all_ops();
        let inside = rows_inside_steps(&lanes, trace);
        for op in (0..inside.start).chain(inside.end..trace.gpu_ops.len()).filter_map(|row| trace.gpu_ops.get(row)) {
            let Some(lane) = lanes.get_mut(op.device.0 as usize) else { continue };
            outside.idle += lane.idle_until(op.start);
            lane.busy_until = lane.busy_until.max(op.end());
            if lane.steps.is_none_or(|(first, last)| op.start < first || op.start > last) {
                outside.work += op.duration;
            }
        }
        for lane in &lanes {
            outside.idle += lane.idle_until(end);
        }
        outside
    }
}

/// Returns the rows of ops that start after the start of the first step and end before the end of the last
/// step on every device. The sweep skips them, because they and the gaps between them are not outside.
fn rows_inside_steps(lanes: &[Lane], trace: &Trace) -> Range<usize> {
    let ops = &trace.gpu_ops;
    let extents: Option<Vec<(Ns, Ns)>> = lanes.iter().map(|lane| lane.steps).collect();
    let extents = extents.unwrap_or_default();
    let (first, last) = (extents.iter().map(|steps| steps.0).max(), extents.iter().map(|steps| steps.1).min());
    let from = first.map_or(ops.len(), |first| ops.count_starting_before(Ns(first.0.saturating_add(1))));
    from..last.map_or(ops.len(), |last| ops.first_reaching(last)).max(from)
}

impl Lane {
    /// Returns the part of the gap from `busy_until` to `end` that is before the first step or after the last.
    fn idle_until(&self, end: Ns) -> Ns {
        let (first, last) = self.steps.unwrap_or((end, end));
        let before = end.min(first).since(self.busy_until);
        let after = end.since(self.busy_until.max(last));
        before.max(Ns::ZERO) + after.max(Ns::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::structure::stages::StepInfo;
    use crate::analysis::testing::{figure, rows, rows_of};
    use crate::trace::testing::TestTrace;
    use crate::trace::{DeviceId, NameId, ProcessId};
    use proptest::prelude::*;

    /// Adds a step that starts on the host at `start` and launches one kernel.
    fn step<'a>(trace: &'a mut TestTrace, name: &str, start: i64, kernel: Range<i64>) -> &'a mut TestTrace {
        trace.range(name, start..start + 10).launch(start + 1..start + 2).launches("k", kernel)
    }

    #[test]
    fn a_step_lasts_as_long_as_its_kernels_and_its_interval_until_the_next_step() {
        let mut trace = TestTrace::nsys();
        step(&mut trace, "step[EXTEND bs=2 toks=30]", 0, 5..55);
        step(&mut trace, "step[DECODE bs=2]", 100, 105..125);
        step(&mut trace, "step[DECODE bs=4]", 130, 135..165);
        trace.range("ProfilerStep#1", 0..200).range("decode attention", 101..103);
        let sections = trace.range("step[DECODE bs=4]", 190..195).sections();
        // Starts on the device: 5, 105, 135; the last step has no interval.
        assert_eq!(
            rows(&sections, "steps", &COLUMNS),
            ["extend/prefill 1 2 30 50 50 50 100 - 100", "decode 2 3 3 25 21 29 30 - 100"]
        );
        assert_eq!(figure(&sections, "steps", "idle_outside_ns") + figure(&sections, "steps", "work_outside_pct"), 0.0);
    }

    #[test]
    fn steps_cut_by_the_window_are_left_out_and_a_single_step_uses_its_length_as_interval() {
        let mut trace = TestTrace::nsys();
        for start in [0, 100, 200] {
            step(&mut trace, "step[DECODE bs=2]", start, start + 5..start + 25);
            trace.launch(start + 3..start + 4).launches("k", start + 40..start + 60);
        }
        let trace = trace.finish();
        for (start, end, expected, has_cut_steps) in [
            (0, 300, &["3 100"][..], false),
            // The window ends or starts between the two kernels of the second step.
            (0, 135, &["1 55"], true),
            (130, 300, &["1 55"], true),
            // The window starts within the last kernel of the second step, then after it.
            (150, 300, &["1 55"], true),
            (165, 300, &["1 55"], false),
            (106, 150, &[], false),
        ] {
            let part = trace.within(Window { start: Ns(start), end: Ns(end) });
            let found = super::steps(&Context::new(&part, 30));
            assert_eq!(rows_of(&found, &["steps", "mean_interval_ns"]), expected, "{start} to {end}");
            let has_limit = found.limits.iter().any(|limit| limit.contains("cut by the window"));
            assert_eq!(has_limit, has_cut_steps, "{start} to {end}");
        }
    }

    #[test]
    fn work_and_idle_time_before_the_first_step_and_after_the_last_are_reported() {
        let mut trace = TestTrace::nsys();
        trace.kernel("warm up", 0..40).kernel("flush", 400..460);
        step(&mut trace, "step[DECODE bs=2]", 100, 100..150);
        let sections = step(&mut trace, "step[DECODE bs=2]", 200, 200..250).sections();
        assert_eq!(figure(&sections, "steps", "idle_outside_ns"), 210.0, "40 to 100 and 250 to 400");
        assert_eq!(figure(&sections, "steps", "work_outside_pct"), 50.0, "100 of 200 ns");
    }

    proptest! {
        /// Some of the ops are steps; `true` marks them.
        #[test]
        fn work_and_idle_time_outside_steps_equal_a_count_of_every_nanosecond(
            ops in prop::collection::vec((0_i64..60, 1_i64..12, 0_u32..3, any::<bool>()), 1..20),
        ) {
            let mut trace = TestTrace::nsys();
            for &(start, duration, device, _) in &ops {
                trace.device(device).kernel("k", start..start + duration);
            }
            let trace = trace.finish();
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
            let start = ops.iter().map(|op| op.0).min().unwrap();
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
                idle += (start..end).filter(|now| is_outside(*now) && is_idle(*now)).count() as i64;
            }
            let found = Outside::of(&steps, &Context::new(&trace, 1));
            prop_assert_eq!((found.work, found.idle), (Ns(work), Ns(idle)));
            prop_assert_eq!(found.all_work, Ns(ops.iter().map(|op| op.1).sum()));
        }
    }

    #[test]
    fn profiler_steps_and_then_plain_words_are_used_if_no_engine_steps_exist() {
        let stages = |names: &[&str]| {
            let mut trace = TestTrace::nsys();
            for (name, start) in names.iter().zip((0..).step_by(100)) {
                step(&mut trace, name, start, start + 5..start + 15);
            }
            rows(&trace.sections(), "steps", &["stage", "steps"])
        };
        assert_eq!(stages(&["ProfilerStep#1", "ProfilerStep#2", "decode"]), ["all 2"]);
        assert_eq!(stages(&["decode", "prefill", "decode", "layer"]), ["extend/prefill 1", "decode 2"]);
        assert_eq!(stages(&["layer"]), [""; 0]);
    }
}
