//! The idle time between two steps: from the last op of a step to the first op of the next one, by what the launching thread did. From
//! the steps and the sums of [`blamed_code`](super::blamed_code), without another pass over the ops.

use super::blamed_code::{Blame, CodeKey, Place};
use crate::analysis::context::Context;
use crate::analysis::recapture::MissingData;
use crate::analysis::section::{Answer, Ms, Pct, TypedSection, section};
use crate::analysis::structure::stages::Stage;
use crate::ordering::{self, VecMap};
use crate::trace::{LateCode, Ns};

section! {
    /// The parts of the idle time between the steps of each stage. The rows of a stage add up to that time.
    pub(crate) struct BetweenSteps("between_steps", "Between two steps");
    row BetweenRow {
        /// That of the step before.
        stage: Stage,
        function: String,
        file: String,
        line: Option<u64>,
        cpu_op: String,
        total_ms: Ms,
        ms_per_step: f64,
        share_pct: Pct,
        gaps: u64,
    }
}

/// The number of rows that are shown.
const MAX_ROWS: usize = 200;
/// The function of the time of other causes than a late launch.
const NOT_LATE: &str = "(no late launch)";

/// The idle time after the steps of a stage.
#[derive(Debug, Clone, Copy, Default)]
struct OfStage {
    idle: Ns,
    /// The steps that reach to a next one.
    steps: u64,
    /// Those with idle time.
    gaps: u64,
}

/// One row per stage and function, and rows for the time that no function explains.
pub(crate) fn between_steps(context: &Context) -> Answer<BetweenSteps> {
    let mut stages: VecMap<Stage, OfStage> = VecMap::new();
    let steps = context.measured_steps().steps.iter();
    for step in steps.filter(|step| step.reaches_next && step.step.device.is_some()) {
        stages.update(step.step.info.stage, OfStage::default(), |stage| {
            stage.idle += step.between;
            stage.steps += 1;
            stage.gaps += u64::from(step.between > Ns::ZERO);
        });
    }
    let stages = stages.into_vec();
    if stages.is_empty() {
        let why = "No two steps follow each other on one GPU.";
        let has_steps = !context.measured_steps().steps.is_empty();
        return if has_steps { BetweenSteps::missing(why, "") } else { context.lacks(why, MissingData::Ranges) };
    }
    let code = &context.trace.late_code;
    let mut rows: Vec<BetweenRow> =
        stages.iter().flat_map(|(stage, of_stage)| rows(context, *stage, of_stage)).collect();
    ordering::sort_by_key(&mut rows, |row| (row.stage, std::cmp::Reverse((row.total_ms.0 * 1e6) as i64)));
    let mut answer = BetweenSteps::answer("the idle time before the first op of each next step, and the code of the launching thread")
        .limit("A function has the time in which it was innermost while the GPU waited for its launch. Time without a late launch has another cause, see the table of idle time: the thread loads or compiles code, the delay of the hardware, work that the trace lacks, or none that is known.")
        .with_rows(rows);
    if code.is_empty() {
        answer = answer.limit(
            "The code of the host is not known: capture with stacks, torch.profiler.profile(..., with_stack=True).",
        );
    }
    answer.truncate(MAX_ROWS);
    answer
}

fn rows(context: &Context, stage: Stage, of_stage: &OfStage) -> Vec<BetweenRow> {
    let code = &context.trace.late_code;
    let blamed = context.blamed_code().between_steps.iter().filter(|((own, _), _)| *own == stage);
    let late = blamed.clone().fold(Ns::ZERO, |sum, (_, blame)| sum + blame.time);
    let rest = of_stage.idle.since(late).max(Ns::ZERO);
    let not_late = BetweenRow { function: NOT_LATE.to_owned(), ..empty_row(stage, of_stage, rest, of_stage.gaps) };
    let of_code = blamed.map(|((_, key), blame)| row_of_code(*key, blame, code, stage, of_stage));
    of_code.chain((rest > Ns::ZERO).then_some(not_late)).collect()
}

fn row_of_code(key: CodeKey, blame: &Blame, code: &LateCode, stage: Stage, of_stage: &OfStage) -> BetweenRow {
    let place = Place::of(key, code);
    BetweenRow {
        function: place.function.to_owned(),
        file: place.file.to_owned(),
        line: place.line,
        cpu_op: blame.main_op(code).unwrap_or_default().to_owned(),
        ..empty_row(stage, of_stage, blame.time, blame.gaps)
    }
}

fn empty_row(stage: Stage, of_stage: &OfStage, time: Ns, gaps: u64) -> BetweenRow {
    BetweenRow {
        stage,
        function: String::new(),
        file: String::new(),
        line: None,
        cpu_op: String::new(),
        total_ms: time.into(),
        ms_per_step: time.0 as f64 / 1e6 / of_stage.steps.max(1) as f64,
        share_pct: Pct::of(time, of_stage.idle),
        gaps,
    }
}
