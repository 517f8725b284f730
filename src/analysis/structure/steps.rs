//! Steps of the serving engine by stage: number, time and interval. From the ranges that mark steps and the
//! GPU ops launched in them. One pass over the steps, and one over the ops to find work before the first and
//! after the last step.
//!
//! A step lasts until the next step of its device starts, so that the host work between two steps counts. Time in which
//! the device executes work that the trace does not contain is left out. See [`timed`].

use crate::analysis::context::Context;
use crate::analysis::measure::percentiles::interpolate;
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Section, Value};
use crate::analysis::structure::ranges::no_ranges;
use crate::analysis::structure::stages::{Basis, Form, Step, StepTimes, TimedStep, timed};
use crate::analysis::time::work::each_work;
use crate::analysis::triage::Stage;
use crate::digits::grouped;
use crate::ordering;
use crate::trace::{Ns, Trace, Window};
use std::ops::Range;

const TITLE: &str = "Engine steps";
const COLUMNS: [&str; 12] = [
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
    "found_by",
    "confidence",
];

/// One row per stage. The interval of a step is the time from its start to the start of the next step on its
/// device, with pauses. The last step has none; if no step of a stage has one, the time of the step is used instead.
pub(crate) fn steps(context: &Context) -> Section {
    let trace = context.trace;
    let mut steps = context.steps().to_vec();
    if steps.is_empty() {
        steps = context.passes().inferred_steps(trace);
    }
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
    let mut section = Section::new(TITLE, source_of(first.info.form), &COLUMNS)
        .limit(
            "A step lasts from its first GPU op to the first op of the next step on its device, and counts once per \
             device. The last step, and a serving step before a pause longer than the step, lasts to its last op; the \
             median and the percentiles leave such steps out if there are two others.",
        )
        .limit("Time in which the GPU executes work that the trace does not contain is not part of a step.")
        .limit("An interval is the time from the start of a step to the start of the next step, with pauses.");
    if cut > 0 {
        let steps = if cut == 1 { "step is" } else { "steps are" };
        section = section.limit(format!("{} {steps} cut by the window and excluded.", grouped(cut as u64)));
    }
    if first.basis == Basis::Host {
        section = section.limit("The trace does not link steps to GPU ops. Step times are those of the host ranges.");
    }
    if first.info.form == Form::Inferred {
        section = section.limit(
            "No annotation marks steps. They are inferred from the order of the kernels: two of LM head, sampling, copy of \
             the tokens to the host, and embedding mark the end of a step, and at least 80 % of the steps have the same \
             number of layers. The stage follows from the names of the attention kernels.",
        );
    }
    if first.info.form == Form::Word {
        section = section.limit("Steps are ranges whose names contain the word prefill, extend or decode.");
    }
    let mut rows = Stage::ALL.map(|_| Row::default());
    let unseen: Vec<Vec<(Ns, Ns)>> = context.survey().idle.iter().map(|idle| idle.unseen.clone()).collect();
    let timed = timed(steps.iter(), &unseen);
    for (step, busy) in timed.iter().zip(busy_in_steps(&timed, context)) {
        if let Some(row) = rows.get_mut(step.step.info.stage as usize) {
            row.add(step, busy);
        }
    }
    for (row, stage) in rows.iter().zip(Stage::ALL).filter(|(row, _)| row.times.count() > 0) {
        section.row(row.values(stage, first.info.form));
    }
    section.figure("steps", steps.len());
    let outside = Outside::of(&steps, context);
    section.figure("devices", outside.devices);
    section.figure("work_outside_pct", Value::pct(outside.work, outside.all_work));
    section.figure("idle_outside_ns", outside.idle);
    section
}

fn source_of(form: Form) -> &'static str {
    match form {
        Form::Inferred => "the order of the kernels",
        _ => "ranges that mark steps, and the GPU ops launched in them",
    }
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
fn busy_in_steps(steps: &[TimedStep], context: &Context) -> Vec<Ns> {
    /// The sweep over one device.
    #[derive(Default)]
    struct BusySweep {
        /// Starts and ends of steps: time, index of the step, true for an end. Sorted from last to first.
        boundaries: Vec<(Ns, usize, bool)>,
        busy: Ns,
        busy_until: Ns,
    }
    let mut lanes: Vec<BusySweep> = context.trace.devices.iter().map(|_| BusySweep::default()).collect();
    for (index, &TimedStep { step, until, .. }) in steps.iter().enumerate() {
        let Some(lane) = step.device.and_then(|device| lanes.get_mut(device.0 as usize)) else { continue };
        lane.boundaries.extend([(step.start, index, false), (until, index, true)]);
    }
    lanes.iter_mut().for_each(|lane| ordering::sort_by(&mut lane.boundaries, |a, b| b.cmp(a)));
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
    times: StepTimes,
    intervals: Mean,
    /// Times of steps that are the last on their device.
    last_times: Mean,
    batch_size: Mean,
    tokens: Mean,
    /// Sum of the times of steps with a device, and the part of it in which the device works.
    time: Ns,
    busy: Ns,
}

impl Row {
    fn add(&mut self, timed: &TimedStep, busy: Ns) {
        let step = timed.step;
        self.times.add(timed);
        if step.device.is_some() {
            self.time += timed.time;
            self.busy += busy;
        }
        match timed.interval {
            Some(interval) => self.intervals.add(interval.0 as u64),
            None => self.last_times.add(timed.time.0 as u64),
        }
        step.info.batch_size.into_iter().for_each(|count| self.batch_size.add(count));
        step.info.tokens.into_iter().for_each(|count| self.tokens.add(count));
    }

    fn values(&self, stage: Stage, form: Form) -> [Value; COLUMNS.len()] {
        let times = self.times.representative();
        let time = |percent| Value::from(interpolate(times.len(), percent, &|index| times.get(index).copied()));
        // One step has no percentiles.
        let percentile = |percent| if times.len() > 1 { time(percent) } else { Value::Null };
        let intervals = if self.intervals.count > 0.0 { self.intervals } else { self.last_times };
        [
            stage.label().into(),
            self.times.count().into(),
            self.batch_size.value(),
            self.tokens.value(),
            time(50),
            percentile(10),
            percentile(90),
            intervals.value(),
            intervals.deviation(),
            if self.time > Ns::ZERO { Value::pct(self.busy, self.time) } else { Value::Null },
            if form == Form::Inferred { "kernel order" } else { "annotation" }.into(),
            if form == Form::Inferred { "inferred" } else { "proven" }.into(),
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
    fn a_step_lasts_until_the_next_step_and_the_last_step_until_its_last_op() {
        let mut trace = TestTrace::nsys();
        step(&mut trace, "step[EXTEND bs=2 toks=30]", 0, 5..55);
        step(&mut trace, "step[DECODE bs=2]", 100, 105..125);
        step(&mut trace, "step[DECODE bs=4]", 130, 135..165);
        trace.range("ProfilerStep#1", 0..200).range("decode attention", 101..103);
        let sections = trace.range("step[DECODE bs=4]", 190..195).sections();
        // On the device: 5 to 55, 105 to 125, 135 to 165; the last step has no interval.
        assert_eq!(
            rows(&sections, "steps", &COLUMNS),
            [
                "extend/prefill 1 2 30 100 - - 100 - 50 annotation proven",
                "decode 2 3 3 30 30 30 30 - 83.333 annotation proven"
            ]
        );
        assert_eq!(figure(&sections, "steps", "idle_outside_ns") + figure(&sections, "steps", "work_outside_pct"), 0.0);
    }

    #[test]
    fn without_annotations_the_order_of_the_kernels_shows_the_steps() {
        let layer = ["rms_norm", "gemm_qkv", "paged_attention", "gemm_o", "silu", "gemm_down"];
        let mut trace = TestTrace::new();
        for step in 0..5 {
            let names = [&["embedding"][..], &layer.repeat(6), &["rms_norm", "gemm_head", "argmax"]].concat();
            for (index, name) in names.iter().enumerate() {
                let start = step * 500 + index as i64 * 10;
                trace.kernel(name, start..start + 8);
            }
        }
        let sections = trace.sections();
        // 40 ops of 8 ns in each step of 500 ns; the last step lasts to its last op, 398 ns: 1,600 / 2,398 ns.
        let columns = ["stage", "steps", "median_ns", "busy_pct", "found_by", "confidence"];
        let expected = "decode 5 500 66.722 kernel order inferred";
        assert_eq!(rows(&sections, "steps", &columns), [expected]);
        assert_eq!(rows(&sections, "layers", &["stage", "count", "kernels", "steps"]), ["decode 6 6 5"]);
    }

    /// Three steps of 20 ns with 10 ns between them, then a pause, then one step of 21 ns.
    #[test]
    fn a_long_pause_belongs_to_a_profiler_step_and_not_to_a_serving_step() {
        let found = |name: &str, pause: i64| {
            let mut trace = TestTrace::nsys();
            for start in [0, 30, 60] {
                step(&mut trace, name, start, start + 5..start + 25);
            }
            let sections = step(&mut trace, name, 80 + pause, 85 + pause..106 + pause).sections();
            rows(&sections, "steps", &["steps", "median_ns", "p90_ns"]).remove(0)
        };
        // Two steps of 30 ns reach to the next; the others do not count in the median.
        assert_eq!(found("step[DECODE bs=2]", 21), "4 30 30");
        assert_eq!(found("step[DECODE bs=2]", 20), "4 30 38", "30, 30 and 40 ns");
        assert_eq!(found("ProfilerStep#7", 70), "4 30 78", "30, 30 and 90 ns");
    }

    #[test]
    fn work_that_the_trace_does_not_contain_is_not_part_of_a_step() {
        let found = |launched_us: i64| {
            let mut trace = TestTrace::new();
            // A copy in an outer annotation, then the kernels of the step.
            trace
                .in_us()
                .range("execute_2_context_0()_generation_2(sq2)", 0..9_000)
                .launch(0..1)
                .launches("copy", 1..5);
            trace.range("step[DECODE bs=2]", launched_us..launched_us + 10);
            trace.launch(launched_us..launched_us + 1).launches("gemm", 5_000..6_000);
            rows(&trace.sections(), "steps", &["steps", "median_ns", "busy_pct"]).remove(0)
        };
        // The kernel waits from 11 us to 5,000 us in a queue without visible work, so the step lasts 10 us and 1,000 us.
        assert_eq!(found(10), "1 1010000 99.406");
        assert_eq!(found(4_999), "1 5999000 16.736", "launched just before it starts: the host was late");
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
