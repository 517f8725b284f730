//! Steps of the serving engine by stage: number, time, its parts, and interval. From the
//! [`MeasuredSteps`](super::measured_steps::MeasuredSteps), and one pass over the ops before the first and after the last
//! step.

use super::measured_steps::MeasuredStep;
use crate::analysis::context::Context;
use crate::analysis::host::unseen::{MIN_UNSEEN, first_row};
use crate::analysis::measure::percentiles::of_sorted;
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Answer, MeanNs, Pct, Sections, Stated, TypedSection, section};
use crate::analysis::structure::ranges::no_ranges;
use crate::analysis::structure::stages::{Basis, Form, Step, representative};
use crate::analysis::triage::Stage;
use crate::ordering::VecMap;
use crate::rules::inference::thresholds;
use crate::trace::{DeviceId, Fraction, Ns, ProcessId, Trace, Window};
use crate::words::steps as words;
use std::ops::Range;

section! {
    /// Number, time and interval of the steps of each stage.
    pub(crate) struct Steps("steps", "Steps by stage");
    row StepRow {
        stage: Stage,
        steps: usize,
        /// A mean, as `tokens`.
        batch: Option<f64> = "Batch size",
        tokens: Option<f64>,
        median_ns: Option<MeanNs>,
        busy_median_ns: Option<MeanNs> = "Busy, median",
        host_late_median_ns: Option<MeanNs> = "Host late, median",
        other_idle_median_ns: Option<MeanNs> = "Other idle, median",
        /// Late or other idle time before the first op of the next step.
        between_median_ns: Option<MeanNs> = "Between steps, median",
        p10_ns: Option<MeanNs> = "p10",
        p90_ns: Option<MeanNs> = "p90",
        max_ns: Option<Ns>,
        long_steps: usize = "Longer than twice the median",
        long_ns: Ns = "Time of those",
        total_ns: Ns,
        mean_interval_ns: Option<MeanNs>,
        stdev_interval_ns: Option<MeanNs> = "Interval deviation",
        busy_pct: Option<Pct> = "GPU busy",
        found_by: String,
        confidence: String,
    }
    figures StepFigures {
        steps: usize,
        /// Devices with steps.
        devices: u64,
        work_outside_pct: Pct,
        idle_outside_ns: Ns,
        late_outside_ns: Ns,
        busy_outside_ns: Ns,
        /// Between steps that the program does other work between; see `phase_ends`. The mean of the devices. In no step.
        between_phases_ns: Stated<Ns>,
        /// From the begin of the annotation of the first step to its first launch, if nothing ran on its device before; the longest
        /// time of a device. Not in the length of the step.
        before_first_launch_ns: Stated<Ns>,
        /// If several devices have equally many steps of each stage: those of one device.
        steps_of_each_device: Stated<usize>,
        /// Steps that begin while their process starts. No other figure has them.
        steps_in_start_up: Stated<usize>,
    }
}

/// One row per stage. The interval of a step is the time from its start to the start of the next step of its process on its
/// device. The last step has none; if no step of a stage has one, the time of the step is used instead.
pub(crate) fn steps(context: &Context) -> Answer<Steps> {
    let measured = context.measured_steps();
    let Some(first) = measured.steps.first() else { return no_steps(context) };
    let form = first.step.info.form;
    let mut answer = Steps::answer(source_of(form))
        .limit(
            "A step lasts from its first GPU op to the first op of the next step of its process on its device, pauses included, \
             and counts once per device. The last step lasts to its last op; the median, the percentiles and the busy \
             share leave it out if there are two others.",
        )
        .limit("Between steps is the idle time from the last op of a step to the first op of the next one; it is part of the late and the other idle time.")
        .limit("Host late is the idle time of a step in which the host launched the next op too late, also after a blocking call. Time in which the GPU executes work that the trace does not contain is not part of a step.")
        .limit("An interval is the time from the start of a step to the start of the next step. Batch size and tokens are means.");
    if measured.cut_by_window > 0 {
        answer = answer.limit(words::cut(measured.cut_by_window as u64));
    }
    if !measured.starting.is_empty() {
        answer = answer.limit(words::starting(measured.starting.len() as u64));
    }
    // The profile usually ends within a step of each process.
    if measured.without_work > context.trace.processes.len() {
        answer = answer.limit(words::without_work(measured.without_work as u64));
    }
    if first.step.basis == Basis::Host {
        answer = answer.limit("The trace does not link steps to GPU ops. Step times are those of the host ranges.");
    }
    if measured.has_tokens_by_shapes {
        let equal = Fraction(thresholds().work.min_equal_rows_share.value);
        answer = answer.limit(words::tokens_by_shapes(equal));
    }
    if let Some(limit) = limit_of(form) {
        answer = answer.limit(limit);
    }
    let mut stages = Stage::ALL.map(|_| OfStage::default());
    for step in &measured.steps {
        stages.get_mut(step.step.info.stage as usize).into_iter().for_each(|stage| stage.add(*step));
    }
    let filled = stages.iter().zip(Stage::ALL).filter(|(steps, _)| !steps.steps.is_empty());
    let all = measured.all();
    let outside = Outside::of(all.iter().map(|measured| &measured.step), context);
    answer.with_rows(filled.map(|(steps, stage)| steps.row(stage, form))).with_figures(StepFigures {
        steps: measured.steps.len(),
        devices: outside.devices,
        work_outside_pct: Pct::of(outside.work, outside.all_work),
        idle_outside_ns: outside.idle,
        late_outside_ns: outside.late,
        busy_outside_ns: outside.busy,
        between_phases_ns: Stated(
            Some(between_phases(&measured.steps, outside.devices)).filter(|time| *time > Ns::ZERO),
        ),
        before_first_launch_ns: Stated(before_first_launch(&measured.steps, context)),
        steps_of_each_device: Stated(steps_of_each_device(&measured.steps, outside.devices)),
        steps_in_start_up: Stated(Some(measured.starting.len()).filter(|steps| *steps > 0)),
    })
}

impl Steps {
    /// How many steps there are of a stage, which has this many on all devices. Of several stages it is not known here which devices have
    /// them, unless all have equally many.
    pub(crate) fn count(sections: &Sections, of_stage: usize) -> words::StepCount {
        let steps = of_stage as u64;
        let is_only_stage = Self::rows(sections).len() == 1;
        match Self::figures(sections).filter(|figures| figures.devices > 1) {
            Some(StepFigures { devices: gpus, steps_of_each_device: Stated(Some(_)), .. }) => {
                words::StepCount::OfEach { steps: steps / gpus, gpus }
            }
            Some(StepFigures { devices: gpus, .. }) if is_only_stage => words::StepCount::Together { steps, gpus },
            _ => words::StepCount::OfOne(steps),
        }
    }
}

/// The steps of one device, if several devices have equally many of each stage. A step of several devices counts on each.
fn steps_of_each_device(steps: &[MeasuredStep], devices: u64) -> Option<usize> {
    let mut counts: VecMap<(Stage, Option<DeviceId>), usize> = VecMap::new();
    for MeasuredStep { step, .. } in steps {
        counts.update((step.info.stage, step.device), 0, |count| *count += 1);
    }
    let counts = counts.into_vec();
    let is_equal = counts.chunk_by(|((a, _), _), ((b, _), _)| a == b).all(|of_stage| {
        let of_devices = || of_stage.iter().map(|(_, count)| count);
        of_stage.len() as u64 == devices && of_devices().min() == of_devices().max()
    });
    let devices = usize::try_from(devices).ok().filter(|devices| *devices > 1 && is_equal)?;
    Some(steps.len() / devices)
}

/// The time from each step that ends a phase of the program to the next step of its process on its device, as the mean of the devices.
fn between_phases(steps: &[MeasuredStep], devices: u64) -> Ns {
    let mut ended: VecMap<(ProcessId, Option<DeviceId>), Option<Ns>> = VecMap::new();
    let mut sum = Ns::ZERO;
    for MeasuredStep { step, .. } in steps {
        let end = step.ends_phase.then_some(step.end);
        let before = ended.update((step.process, step.device), None, |ended| std::mem::replace(ended, end));
        sum += before.map_or(Ns::ZERO, |before| step.start.since(before).max(Ns::ZERO));
    }
    Ns(sum.0 / i64::try_from(devices.max(1)).unwrap_or(1))
}

/// The host's time in an annotation before the launch of the first op of its device, the longest one of the devices: a step lasts from its
/// first op, so that the length of the first step lacks what the host did for it before. `None` if that is no time, if the window begins
/// later than the trace, or if the op waited for work from before the capture: then the host may have worked beside that.
fn before_first_launch(steps: &[MeasuredStep], context: &Context) -> Option<Ns> {
    let trace = context.trace;
    if trace.cut.is_some() {
        return None;
    }
    let launched = |step: &Step| {
        let device = step.device?;
        let busy = context.survey().busy.get(device.0 as usize)?.as_ref()?;
        if step.start != busy.first {
            return None;
        }
        let row = first_row(trace, device, busy.first)?;
        let call = trace.calls.get(trace.gpu_ops.launch(row)?.0 as usize)?;
        (busy.first.since(call.end()) <= MIN_UNSEEN).then_some(call.start)
    };
    let marked = steps.iter().map(|measured| &measured.step).filter(|step| step.basis == Basis::Launches);
    let times = marked.filter_map(|step| Some(launched(step)?.since(step.annotation_range.0)));
    times.max().filter(|longest| *longest > Ns::ZERO)
}

/// The answer of a trace in which no whole step was found.
pub(crate) fn no_steps<S: TypedSection>(context: &Context) -> Answer<S> {
    if context.measured_steps().cut_by_window > 0 {
        S::missing("No step is completely inside the window.", "")
    } else if context.trace.ranges.is_empty() {
        no_ranges(context)
    } else {
        let why = if context.trace.training.backward.is_empty() {
            "The trace has no step annotations of SGLang, vLLM or TensorRT-LLM and no ProfilerStep# ranges."
        } else {
            "The trace has no ProfilerStep# ranges, no numbered ranges, and no kernels that show the steps of the training."
        };
        context.lacks(why, MissingData::Ranges)
    }
}

/// How steps of this form were found, and how sure that is.
pub(crate) fn evidence(form: Form) -> [&'static str; 2] {
    match form {
        Form::Inferred => ["kernel order", "inferred"],
        Form::Period => ["repeated kernels", "guess"],
        Form::Replay => ["graph replays", "inferred"],
        Form::Optimizer => ["optimizer calls", "inferred"],
        Form::Frame => ["host frame", "proven"],
        Form::Engine | Form::Word | Form::Numbered | Form::Profiler => ["annotation", "proven"],
    }
}

fn limit_of(form: Form) -> Option<String> {
    let covered = Fraction(thresholds().ranges.min_covered_launches_share.value);
    match form {
        Form::Inferred => Some(words::inferred(Fraction(thresholds().steps_by_kernels.min_equal_steps_share.value))),
        Form::Period | Form::Replay => {
            let even = Fraction(thresholds().steps_by_period.min_even_share.value);
            Some(words::periods(form == Form::Replay, even))
        }
        Form::Optimizer => Some(words::OPTIMIZER.to_owned()),
        Form::Frame => Some(words::FRAMES.to_owned()),
        Form::Word => Some(words::word_ranges(covered)),
        Form::Numbered => Some(words::numbered_ranges(covered)),
        Form::Engine | Form::Profiler => None,
    }
}

/// How steps of this form are found, for every output.
pub(crate) fn source_of(form: Form) -> &'static str {
    match form {
        Form::Frame => "Python frames that run a step, and the GPU ops launched in them",
        Form::Inferred => "the order of the kernels",
        Form::Period => "kernels that repeat at an even distance",
        Form::Replay => "graphs that are replayed at an even distance",
        Form::Optimizer => "calls of the optimizer",
        _ => "ranges that mark steps, and the GPU ops launched in them",
    }
}

/// The steps of one stage.
#[derive(Debug, Default)]
struct OfStage {
    steps: Vec<MeasuredStep>,
    intervals: Mean,
    /// Times of steps that are the last on their device.
    last_times: Mean,
    batch_size: Mean,
    tokens: Mean,
}

impl OfStage {
    fn add(&mut self, step: MeasuredStep) {
        self.steps.push(step);
        match step.interval() {
            Some(interval) => self.intervals.add(interval.0 as u64),
            None => self.last_times.add(step.time.0 as u64),
        }
        step.step.info.batch_size.into_iter().for_each(|count| self.batch_size.add(count));
        step.step.info.tokens.into_iter().for_each(|count| self.tokens.add(count));
    }

    fn row(&self, stage: Stage, form: Form) -> StepRow {
        let representative = || representative(&self.steps, |step| step.reaches_next);
        let on_device = || representative().filter(|step| step.step.device.is_some());
        let sum = |time: fn(&MeasuredStep) -> Ns| on_device().fold(Ns::ZERO, |sum, step| sum + time(step));
        let (time, busy) = (sum(|step| step.time), sum(|step| step.busy));
        let times = sorted(&self.steps, |step| step.time);
        // One step has no percentiles.
        let percentile = |percent| if times.len() > 1 { at(&times, percent) } else { None };
        let part = |part: fn(&MeasuredStep) -> Ns| {
            if time > Ns::ZERO { at(&sorted(&self.steps, part), 50) } else { None }
        };
        let median = at(&times, 50).map_or(f64::INFINITY, |MeanNs(median)| median);
        let long = || self.steps.iter().filter(|step| step.time.0 as f64 > LONG * median);
        let intervals = if self.intervals.count > 0.0 { self.intervals } else { self.last_times };
        let [found_by, confidence] = evidence(form).map(str::to_owned);
        StepRow {
            stage,
            steps: self.steps.len(),
            batch: self.batch_size.value(),
            tokens: self.tokens.value(),
            median_ns: at(&times, 50),
            busy_median_ns: part(|step| step.busy),
            host_late_median_ns: part(|step| step.host_late),
            other_idle_median_ns: part(MeasuredStep::other_idle),
            between_median_ns: part(|step| step.between).filter(|_| self.intervals.count > 0.0),
            p10_ns: percentile(10),
            p90_ns: percentile(90),
            max_ns: self.steps.iter().map(|step| step.time).max(),
            long_steps: long().count(),
            long_ns: long().fold(Ns::ZERO, |sum, step| sum + step.time),
            total_ns: self.steps.iter().fold(Ns::ZERO, |sum, step| sum + step.time),
            mean_interval_ns: intervals.value().map(MeanNs),
            stdev_interval_ns: intervals.deviation().map(MeanNs),
            busy_pct: (time > Ns::ZERO).then(|| Pct::of(busy, time)),
            found_by,
            confidence,
        }
    }
}

/// A step that takes this many times the median is long.
pub(crate) const LONG: f64 = 2.0;

/// A part of the time of the representative steps, sorted.
fn sorted(steps: &[MeasuredStep], part: fn(&MeasuredStep) -> Ns) -> Vec<i64> {
    let mut times: Vec<i64> = representative(steps, |step| step.reaches_next).map(|step| part(step).0).collect();
    times.sort_unstable();
    times
}

fn at(sorted: &[i64], percent: u64) -> Option<MeanNs> {
    of_sorted(sorted, percent).map(MeanNs)
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

    fn value(&self) -> Option<f64> {
        (self.count > 0.0).then_some(self.mean)
    }

    /// The sample standard deviation; `None` for fewer than two values.
    fn deviation(&self) -> Option<f64> {
        (self.count > 1.0).then(|| (self.squares / (self.count - 1.0)).sqrt())
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
    /// Time without work, within the trace's window; without time of unseen work.
    idle: Ns,
    /// The part of it in which the host was late, also after a blocking call.
    late: Ns,
    /// Time with work.
    busy: Ns,
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
    fn of<'a>(steps: impl Iterator<Item = &'a Step>, context: &Context) -> Self {
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
        for (lane, idle) in lanes.iter().zip(&context.survey().idle) {
            outside.idle += lane.idle_until(end);
            outside.late += idle.late.iter().fold(Ns::ZERO, |sum, (from, to)| sum + lane.outside(*from, *to));
            outside.busy += lane.outside(start, end);
        }
        outside.busy = outside.busy.since(outside.idle);
        let unseen = lanes
            .iter()
            .zip(&context.survey().idle)
            .flat_map(|(lane, idle)| idle.unseen.iter().map(|(from, to)| lane.outside(*from, *to)));
        outside.idle = unseen.fold(outside.idle, Ns::since);
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
        self.outside(self.busy_until, end)
    }

    /// Returns the part of an interval that is before the first step or after the last.
    fn outside(&self, start: Ns, end: Ns) -> Ns {
        let (first, last) = self.steps.unwrap_or((end, end));
        let before = end.min(first).since(start);
        let after = end.since(start.max(last));
        before.max(Ns::ZERO) + after.max(Ns::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::section::Record;
    use crate::analysis::structure::stages::StepInfo;
    use crate::analysis::testing::{analyze, figure, keys, rows, rows_of};
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
            rows(&sections, "steps", &keys::<Steps>()),
            [
                // The gaps from 55 to 105 and from 125 to 135 end with late launches: 50 ns, and 10 and 0 ns.
                "extend/prefill 1 2 30 100 50 50 0 50 - - 100 0 0 100 100 - 50 annotation proven",
                "decode 2 3 3 30 25 5 0 5 30 30 30 0 0 60 30 - 83.333 annotation proven"
            ]
        );
        assert_eq!(figure(&sections, "steps", "idle_outside_ns") + figure(&sections, "steps", "work_outside_pct"), 0.0);
    }

    #[test]
    fn each_step_is_listed_with_its_kernels_and_launches() {
        let mut trace = TestTrace::new();
        trace
            .range("step[DECODE bs=2]", 0..50)
            .call("cudaGraphLaunch", 1..2)
            .launches("a", 10..20)
            .launches("b", 20..40);
        trace.launch(3..4).launches("Memcpy DtoH", 45..50);
        trace.range("step[DECODE bs=3]", 60..80).call("cudaGraphLaunch", 61..70).launches("a", 75..80);
        let found = trace.section(super::super::listed_steps::step_list);
        let columns = ["step", "duration_ns", "busy_ns", "host_late_ns", "batch", "kernels", "graph_launches"];
        // The device is idle from 40 to 45, although the copy was launched before, and waits from 50 to 75.
        assert_eq!(rows_of(&found, &columns), ["1 65 35 25 2 2 1", "2 5 5 0 3 1 1"]);
    }

    proptest! {
        /// Busy, host late and other idle time of a step are its time.
        #[test]
        fn the_parts_of_a_step_add_up(ops in prop::collection::vec((0_i64..2_000, 1_i64..300, -50_i64..20), 4..40)) {
            let mut trace = TestTrace::new();
            trace.range("step[DECODE bs=2]", 0..1_000).range("step[DECODE bs=2]", 1_000..3_000);
            for (start, duration, launched) in ops {
                let launched = (start + launched).max(0);
                trace.launch(launched..launched + 5).launches("k", start + 30..start + 30 + duration);
            }
            for row in trace.section(super::super::listed_steps::step_list).rows {
                let [time, busy, late] = ["duration_ns", "busy_ns", "host_late_ns"].map(|column| row.number(column).unwrap());
                prop_assert!(busy >= 0.0 && late >= 0.0 && busy + late <= time, "{row:?}");
            }
        }
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
        // 40 ops of 8 ns in each step of 500 ns. The last step, which lasts to its last op, does not count.
        let columns = ["stage", "steps", "median_ns", "busy_pct", "found_by", "confidence"];
        let expected = "decode 5 500 64 kernel order inferred";
        assert_eq!(rows(&sections, "steps", &columns), [expected]);
        assert_eq!(rows(&sections, "layers", &["stage", "count", "kernels", "steps"]), ["decode 6 6 5"]);
    }

    /// Three steps of 20 ns with 10 ns between them, then a pause, then one step of 21 ns.
    #[test]
    fn a_pause_belongs_to_the_step_before_it_however_long_it_is() {
        let found = |name: &str, pause: i64| {
            let mut trace = TestTrace::nsys();
            for start in [0, 30, 60] {
                step(&mut trace, name, start, start + 5..start + 25);
            }
            let sections = step(&mut trace, name, 80 + pause, 85 + pause..106 + pause).sections();
            rows(&sections, "steps", &["steps", "median_ns", "p90_ns"]).remove(0)
        };
        // The last step reaches no other and does not count.
        assert_eq!(found("step[DECODE bs=2]", 20), "4 30 38", "30, 30 and 40 ns");
        assert_eq!(found("step[DECODE bs=2]", 21), "4 30 38.8", "30, 30 and 41 ns");
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
    fn time_before_the_first_launch_is_not_in_the_step_and_is_stated() {
        // A step of training whose data loader takes 12 ms. With `earlier`, an op of other work ran on the device before.
        let verdict = |earlier: bool| {
            let mut trace = TestTrace::new();
            trace.in_us().range("ProfilerStep#3", 1_000..57_000);
            if earlier {
                trace.launch(0..10).launches("k", 20..900);
            }
            let trace = trace.launch(13_000..13_010).launches("k", 13_000..57_000).finish();
            let run = analyze(&trace);
            let stated = Steps::figures(&run.sections).unwrap().before_first_launch_ns.0;
            (
                stated,
                run.verdict
                    .text
                    .contains("; the first step has 12.0 ms before its first launch, which are not in its length"),
            )
        };
        assert_eq!(verdict(false), (Some(Ns(12_000_000)), true));
        assert_eq!(verdict(true), (None, false));
    }

    #[test]
    fn a_short_time_before_the_first_launch_of_three_steps_is_not_in_the_verdict() {
        let mut trace = TestTrace::new();
        trace.in_us();
        for start in [0, 10_000, 20_000] {
            trace.range("ProfilerStep#3", start..start + 9_990).launch(start + 1_000..start + 1_010);
            trace.launches("k", start + 1_010..start + 9_900);
        }
        let run = analyze(&trace.finish());
        assert_eq!(Steps::figures(&run.sections).unwrap().before_first_launch_ns.0, Some(Ns(1_000_000)));
        assert!(!run.verdict.text.contains("before its first launch"), "{}", run.verdict.text);
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
            let found = super::steps(&Context::new(&part, 30)).section();
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
                ends_phase: false,
            };
            let steps: Vec<Step> = ops.iter().filter(|op| op.3).map(step).collect();
            let start = ops.iter().map(|op| op.0).min().unwrap();
            let end = ops.iter().map(|op| op.0 + op.1).max().unwrap();
            let (mut work, mut idle, mut busy) = (0, 0, 0);
            for id in 0..trace.devices.len() as u32 {
                let own = || ops.iter().filter(|op| device(op.2) == id);
                let first = own().filter(|op| op.3).map(|op| op.0).min().unwrap_or(end);
                let last = own().filter(|op| op.3).map(|op| op.0 + op.1).max().unwrap_or(end);
                let has_steps = own().any(|op| op.3);
                work += own().filter(|op| !has_steps || op.0 < first || op.0 > last).map(|op| op.1).sum::<i64>();
                let is_outside = |now: i64| !has_steps || now < first || now >= last;
                let is_idle = |now: i64| own().all(|op| now < op.0 || now >= op.0 + op.1);
                idle += (start..end).filter(|now| is_outside(*now) && is_idle(*now)).count() as i64;
                busy += (start..end).filter(|now| is_outside(*now) && !is_idle(*now)).count() as i64;
            }
            let found = Outside::of(steps.iter(), &Context::new(&trace, 1));
            prop_assert_eq!((found.work, found.idle, found.busy), (Ns(work), Ns(idle), Ns(busy)));
            prop_assert_eq!(found.all_work, Ns(ops.iter().map(|op| op.1).sum()));
        }
    }

    proptest! {
        /// Steps of 1 ms or more, busy for 5 to 99 % of their time. One kernel starts up to 1 us later.
        #[test]
        fn the_figures_of_steps_move_no_more_than_an_op_does(
            steps in prop::collection::vec((1_000_000_i64..3_000_000, 5_i64..99), 2..12),
            (moved, by) in (any::<prop::sample::Index>(), 0_i64..1_000),
        ) {
            let moved = moved.index(steps.len());
            let figures = |by: i64| {
                let (mut trace, mut at) = (TestTrace::nsys(), 0);
                for (number, (length, busy_pct)) in steps.iter().enumerate() {
                    let start = at + 10_000 + if number == moved { by } else { 0 };
                    step(&mut trace, "step[DECODE bs=2]", at, start..start + (length - 20_000) * busy_pct / 100);
                    at += length;
                }
                let found = trace.section(super::steps);
                let number = |row: &Record, key: &str| row.number(key).unwrap_or_default();
                let keys = ["median_ns", "p10_ns", "p90_ns", "busy_median_ns", "host_late_median_ns", "mean_interval_ns"];
                keys.map(|key| number(&found.rows[0], key))
            };
            for (before, after) in figures(0).into_iter().zip(figures(by)) {
                prop_assert!((before - after).abs() <= by as f64 + 0.5, "{} {} {}", before, after, by);
            }
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
