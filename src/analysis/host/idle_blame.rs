//! What the launching thread did while a GPU waited for its next launch: self time by Python function, with the CPU op that took
//! most of it. From the sums of [`blamed_code`](super::blamed_code).

use super::blamed_code::{Blame, CodeKey, Key, Place};
use super::idle_cause::IdleCause;
use super::idle_code_rules::{Kind, op_rule, rule};
use crate::analysis::context::Context;
use crate::analysis::section::{Answer, Ms, Pct, TypedSection, section};
use crate::ordering;
use crate::trace::{Format, LateCode, Ns};

section! {
    /// The functions in which the host was while a GPU waited for it. The rows add up to the late time.
    pub(crate) struct IdleBlame("idle_blame", "Host code while the GPU waited");
    row BlameRow {
        function: String,
        file: String,
        line: Option<u64>,
        cpu_op: String,
        class: IdleCause,
        total_ms: Ms,
        /// The part of it in gaps before the first op of a next step.
        between_steps_ms: Option<Ms> = "Between steps",
        ms_per_step: Option<f64>,
        share_pct: Pct,
        gaps: u64,
        placement: Option<Kind>,
        change: Option<String> = "What to change",
    }
    figures BlameFigures {
        late_ms: Ms,
        late_in_steps_ms: Ms,
        steps: usize,
    }
}

/// The number of rows that are shown.
const MAX_ROWS: usize = 200;
/// One row per function and class of gap, and rows for the time that no function explains. They add up to the late time.
pub(crate) fn idle_blame(context: &Context) -> Answer<IdleBlame> {
    let code = &context.trace.late_code;
    if code.is_empty() {
        return missing(context);
    }
    let blamed = context.blamed_code();
    let mut rows: Vec<&(Key, Blame)> = blamed.by_cause.iter().collect();
    let all = rows.iter().fold(Ns::ZERO, |sum, (_, blame)| sum + blame.time);
    ordering::sort_by_key(&mut rows, |(key, blame)| (std::cmp::Reverse(blame.time), *key));
    let measured = &context.measured_steps().steps;
    let steps = measured.len();
    let in_steps = measured.iter().fold(Ns::ZERO, |sum, step| sum + step.host_late);
    let mut answer = IdleBlame::answer("idle gaps before late launches, and the Python functions and CPU ops of the launching thread")
        .limit("A function has the time in which it was innermost. Built-in functions count for their caller. The CPU op is the one that took most of that time.")
        .limit("host_late: the host launched the next op too late. drained: it did so after a call that had waited until the GPU was empty.")
        .limit("Placement: the engine can overlap the function with work of the GPU, another thread can do it, or it must stay before the launch; blank where that is not known. Waiting until the GPU was empty is no work of a function: drained rows name only a mode of the engine that waits elsewhere.")
        .limit("The time per step divides by the number of steps; late launches outside of the steps count, too.")
        .limit("Between steps: the time before the first op of a next step.")
        .limit("Profiling slows Python, with stacks in particular: without the profiler these times are shorter. Compare with a capture without stacks before changing code.")
        .with_figures(BlameFigures { late_ms: all.into(), late_in_steps_ms: in_steps.into(), steps })
        .with_rows(rows.iter().map(|(key, blame)| row(blame, *key, code, all, steps)));
    answer.truncate(MAX_ROWS);
    answer
}

fn missing(context: &Context) -> Answer<IdleBlame> {
    if context.trace.format != Format::TorchProfiler {
        let why = "This format does not record the code of the host.";
        return IdleBlame::missing(why, "torch.profiler.profile(..., with_stack=True)");
    }
    let why = "The GPU waited less than 5 % of the time for late launches, or the file contains no host code.";
    IdleBlame::missing(why, "")
}

fn row(blame: &Blame, key: Key, code: &LateCode, all: Ns, steps: usize) -> BlameRow {
    let (place, op) = (Place::of(key.code, code), blame.main_op(code));
    let by_function = || rule(place.file, place.function).map(|rule| (rule.kind, rule.change.as_str()));
    let known = match key.code {
        CodeKey::Op(_) => op.and_then(op_rule),
        _ => by_function(),
    };
    // Before a drained gap the host waited for the GPU, so that no code held up the launch by itself.
    let known = known.filter(|(kind, _)| !key.is_drained || *kind == Kind::Overlaps);
    let per_step = (steps > 0).then(|| blame.time.0 as f64 / 1e6 / steps as f64);
    BlameRow {
        function: place.function.to_owned(),
        file: place.file.to_owned(),
        line: place.line,
        cpu_op: op.unwrap_or_default().to_owned(),
        class: if key.is_drained { IdleCause::Drained } else { IdleCause::HostLate },
        total_ms: blame.time.into(),
        between_steps_ms: (steps > 0).then(|| blame.between_steps.into()),
        ms_per_step: per_step,
        share_pct: Pct::of(blame.time, all),
        gaps: blame.gaps,
        placement: known.map(|(kind, _)| kind),
        change: known.map(|(_, change)| change.to_owned()),
    }
}
