//! What makes the slowest step of a stage slower than the median step: kernels, late launches of the host, other idle time. From the
//! [`MeasuredSteps`](super::measured_steps::MeasuredSteps) and one sweep over the GPU work.
//!
//! Where ops overlap, the one that started first owns the time. So the parts of a step add up to its time exactly.

use super::measured_steps::MeasuredStep;
use super::stages::Stage;
use super::steps::no_steps;
use crate::analysis::context::Context;
use crate::analysis::labels;
use crate::analysis::section::{Answer, Ms, TypedSection, Value, section};
use crate::analysis::time::work::{Work, each_work};
use crate::ordering::{self, VecMap};
use crate::rules::names;
use crate::trace::{NameId, Ns};

section! {
    /// The parts of the slowest and of the median step of each stage.
    pub(crate) struct SlowestStep("slowest_step", "Slowest step against the median step");
    row SlowestStepRow {
        stage: Stage,
        device_id: Value = "Device",
        part: String,
        in_slowest_ms: Ms = "In the slowest step",
        in_median_ms: Ms = "In the median step",
        more_ms: Ms = "Longer by",
        launches_in_slowest: Option<u64> = "Launches, slowest step",
        launches_in_median: Option<u64> = "Launches, median step",
        slowest_step: usize,
        median_step: usize,
    }
}

/// Fewer steps have no typical one.
const MIN_STEPS: usize = 3;
/// The number of kernels of a stage that have a row of their own.
const MAX_KERNELS: usize = 20;

/// For each stage with at least three steps: the parts of its slowest step and of the median step of the same device, those
/// with the largest differences first, and their sum.
pub(crate) fn slowest_step(context: &Context) -> Answer<SlowestStep> {
    if context.measured_steps().steps.is_empty() {
        return no_steps(context);
    }
    let pairs: Vec<Pair> = Stage::ALL.into_iter().filter_map(|stage| Pair::of(context, stage)).collect();
    if pairs.is_empty() {
        return SlowestStep::missing("No device has three steps of one stage that differ in their duration.", "");
    }
    let works = works_of(context, &pairs);
    SlowestStep::answer("the steps and the GPU ops in them")
        .limit("Two steps of one stage and device: the longest one, and the one with the median duration. Steps over time has both by their number.")
        .limit("Where ops overlap, the one that started first owns the time, so that the parts add up to the steps.")
        .limit("One step shows what was different that time, not what is usual.")
        .with_rows(pairs.iter().zip(works).flat_map(|(pair, works)| rows(context, pair, works)))
}

/// A step with its number in the list of steps.
#[derive(Debug, Clone, Copy)]
struct Numbered {
    number: usize,
    step: MeasuredStep,
}

#[derive(Debug, Clone, Copy)]
struct Pair {
    stage: Stage,
    /// The slowest step and the median step, both on this device.
    steps: [Numbered; 2],
    device: usize,
}

impl Pair {
    /// `None` if the device of the slowest step has fewer than three steps of the stage, or all last equally long.
    fn of(context: &Context, stage: Stage) -> Option<Self> {
        let numbered = context.measured_steps().steps.iter().map(|step| Numbered { number: step.number, step: *step });
        let of_stage =
            numbered.filter(|Numbered { step, .. }| step.step.info.stage == stage && step.step.device.is_some());
        let mut steps: Vec<Numbered> = of_stage.collect();
        ordering::sort_by_key(&mut steps, |numbered| (numbered.step.time, numbered.number));
        let slowest = *steps.last()?;
        steps.retain(|numbered| numbered.step.step.device == slowest.step.step.device);
        let median = *steps.get((steps.len() - 1) / 2)?;
        let is_comparable = steps.len() >= MIN_STEPS && median.step.time < slowest.step.time;
        let device = slowest.step.step.device?.0 as usize;
        is_comparable.then_some(Self { stage, steps: [slowest, median], device })
    }
}

/// What owns time of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Op(NameId),
    /// Kernels whose durations may belong to other kernels, see [`shifted_durations`](super::shifted_durations).
    Shifted,
    /// CUDA graphs that were traced as a whole.
    Replays,
}

impl Part {
    fn of(context: &Context, work: &Work) -> Self {
        match context.trace.gpu_ops.get(work.row) {
            Some(op) if context.shifted_durations().affects(op.name) => Self::Shifted,
            Some(op) => Self::Op(op.name),
            None => Self::Replays,
        }
    }

    fn name(self, context: &Context) -> String {
        match self {
            Self::Op(name) => names::demangle(context.trace.names.get(name)).into_owned(),
            Self::Shifted => "(kernels with durations of other kernels)".to_owned(),
            Self::Replays => "(graph replays)".to_owned(),
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Owned {
    time: Ns,
    /// Ops that start in the step.
    launches: u64,
}

/// The work of one step.
#[derive(Debug, Default)]
struct StepWork {
    parts: VecMap<Part, Owned>,
    busy_until: Ns,
}

impl StepWork {
    fn add(&mut self, context: &Context, step: &MeasuredStep, work: &Work) {
        if work.end <= step.step.start || work.start >= step.until {
            return;
        }
        let from = work.start.max(self.busy_until).max(step.step.start);
        let until = work.end.min(step.until);
        self.busy_until = self.busy_until.max(until);
        self.parts.update(Part::of(context, work), Owned::default(), |owned| {
            owned.time += until.since(from).max(Ns::ZERO);
            owned.launches += u64::from(work.start >= step.step.start);
        });
    }

    fn busy(&self) -> Ns {
        self.parts.iter().fold(Ns::ZERO, |sum, (_, owned)| sum + owned.time)
    }
}

/// The work of the slowest and the median step of each pair.
fn works_of(context: &Context, pairs: &[Pair]) -> Vec<[StepWork; 2]> {
    let mut works: Vec<[StepWork; 2]> = pairs.iter().map(|_| Default::default()).collect();
    each_work(context, &mut |work| {
        for (pair, works) in pairs.iter().zip(&mut works).filter(|(pair, _)| pair.device == work.device) {
            for (numbered, step_work) in pair.steps.iter().zip(works) {
                step_work.add(context, &numbered.step, &work);
            }
        }
    });
    works
}

/// A part in the slowest and in the median step.
#[derive(Debug)]
struct Compared {
    name: String,
    times: [Ns; 2],
    /// `None` for idle time.
    launches: Option<[u64; 2]>,
}

impl Compared {
    fn idle(name: &str, times: [Ns; 2]) -> Self {
        Self { name: name.to_owned(), times, launches: None }
    }

    /// How much longer it takes in the slowest step; negative if it is shorter there.
    fn more(&self) -> Ns {
        let [slowest, median] = self.times;
        slowest.since(median)
    }
}

fn rows(context: &Context, pair: &Pair, works: [StepWork; 2]) -> Vec<SlowestStepRow> {
    let steps = pair.steps.map(|numbered| numbered.step);
    let late = steps.map(|step| step.host_late);
    let [slowest, median] = pair.steps;
    let [slowest_work, median_work] = works;
    let other = |step: &MeasuredStep, work: &StepWork| step.time.since(work.busy()).since(step.host_late);
    let others = [other(&slowest.step, &slowest_work), other(&median.step, &median_work)];
    let mut parts = kernels(context, slowest_work, median_work);
    parts.push(Compared::idle("(host late)", late));
    parts.push(Compared::idle("(other idle time)", others));
    ordering::sort_by_key(&mut parts, |part| std::cmp::Reverse(part.more().0.unsigned_abs()));
    parts.push(Compared::idle("total", steps.map(|step| step.time)));
    let device = slowest.step.step.device.map_or(Value::Null, |device| labels::device(context.trace, device));
    let row = |part: Compared| SlowestStepRow {
        stage: pair.stage,
        device_id: device.clone(),
        in_slowest_ms: part.times[0].into(),
        in_median_ms: part.times[1].into(),
        more_ms: part.more().into(),
        launches_in_slowest: part.launches.map(|[slowest, _]| slowest),
        launches_in_median: part.launches.map(|[_, median]| median),
        slowest_step: slowest.number,
        median_step: median.number,
        part: part.name,
    };
    parts.into_iter().map(row).collect()
}

/// The kernels with the largest differences, and one row with the sum of the others.
fn kernels(context: &Context, slowest: StepWork, median: StepWork) -> Vec<Compared> {
    let mut by_part: VecMap<Part, [Owned; 2]> = VecMap::new();
    for (part, owned) in slowest.parts.into_vec() {
        by_part.update(part, Default::default(), |[slowest, _]| *slowest = owned);
    }
    for (part, owned) in median.parts.into_vec() {
        by_part.update(part, Default::default(), |[_, median]| *median = owned);
    }
    let mut parts: Vec<Compared> =
        by_part.into_vec().into_iter().map(|(part, owned)| compared(part.name(context), owned)).collect();
    ordering::sort_by_key(&mut parts, |part| std::cmp::Reverse(part.more().0.unsigned_abs()));
    let others = parts.split_off(parts.len().min(MAX_KERNELS));
    if !others.is_empty() {
        parts.push(others.into_iter().fold(compared("(other kernels)".to_owned(), Default::default()), with));
    }
    parts
}

fn compared(name: String, owned: [Owned; 2]) -> Compared {
    Compared { name, times: owned.map(|owned| owned.time), launches: Some(owned.map(|owned| owned.launches)) }
}

/// A part with the time and launches of another one.
fn with(sum: Compared, other: Compared) -> Compared {
    let [slowest, median] = sum.times;
    let [more_slowest, more_median] = other.times;
    let launches = sum.launches.zip(other.launches);
    Compared {
        name: sum.name,
        times: [slowest + more_slowest, median + more_median],
        launches: launches
            .map(|([slowest, median], [more_slowest, more_median])| [slowest + more_slowest, median + more_median]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::testing::rows_of;
    use crate::trace::testing::TestTrace;

    /// Decode steps of 100 us: a kernel of 40 us, one of 30 us that overlaps it by 10 us, then the host is late. In one step the
    /// first kernel takes 60 us and a copy kernel is added.
    fn steps(slow: bool) -> TestTrace {
        let mut trace = TestTrace::new();
        let mut from = 0;
        for step in 0..5 {
            let is_slow = slow && step == 3;
            let more = if is_slow { 20 } else { 0 };
            trace.in_us().range("step[DECODE bs=1]", from..from + 95 + more).launch(from..from + 1);
            trace.stream(7).launches("gemm", from + 2..from + 42 + more).launch(from + 1..from + 2);
            trace.stream(8).launches("norm", from + 32 + more..from + 62 + more);
            if is_slow {
                trace.launch(from + 2..from + 3).launches("copy", from + 82..from + 92);
                from += 15;
            }
            from += 100 + more;
        }
        trace
    }

    #[test]
    fn the_parts_of_both_steps_add_up_and_the_largest_difference_is_first() {
        let section = steps(true).section(slowest_step);
        assert_eq!(
            rows_of(
                &section,
                &["part", "in_slowest_ms", "in_median_ms", "more_ms", "launches_in_slowest", "launches_in_median"]
            ),
            [
                "gemm 0.06 0.04 0.02 1 1",
                "copy 0.01 0 0.01 1 0",
                "(host late) 0.045 0.04 0.005 - -",
                "norm 0.02 0.02 0 1 1",
                "(other idle time) 0 0 0 - -",
                "total 0.135 0.1 0.035 - -",
            ]
        );
        assert_eq!(rows_of(&section, &["stage", "slowest_step", "median_step"])[0], "decode 4 2");
    }

    #[test]
    fn steps_of_equal_duration_are_not_compared() {
        let section = steps(false).section(slowest_step);
        assert!(section.rows.is_empty() && section.missing.is_some(), "{section:?}");
    }
}
