//! The clauses of the verdict about its unit: the steps of a stage, or the GPU work of a capture without steps. From their times, counts
//! and shares.

use crate::digits::grouped;
use crate::trace::{Fraction, Ms, Pct};
use crate::words::numbers::mean_count;
use crate::words::steps::StepCount;
use crate::words::{or_nothing, percent_1, stages, time};

/// The steps of a stage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StageSteps<'a> {
    /// The label of the stage.
    pub(crate) stage: &'a str,
    pub(crate) place: Place,
    pub(crate) count: StepCount,
    pub(crate) median: Ms,
    /// The longest step, if the others are short beside it, and what its time beyond the median is.
    pub(crate) longest: Option<(Ms, Option<Excess>)>,
    /// Steps much longer than the median, if they take a notable part of the time.
    pub(crate) long: Option<LongSteps>,
    pub(crate) mean_batch: Option<f64>,
    /// Left out if they are the batch: in decode, each request has one token.
    pub(crate) mean_tokens: Option<f64>,
}

/// Steps much longer than the median.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LongSteps {
    pub(crate) count: u64,
    pub(crate) mean: Ms,
    /// Their part of the time of all steps.
    pub(crate) share: Fraction,
    pub(crate) excess: Option<Excess>,
}

/// The time of long steps beyond the median.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Excess {
    /// The number of the longest step.
    pub(crate) longest_step: usize,
    pub(crate) time: Ms,
    /// The largest part of it.
    pub(crate) part: ExcessPart,
    pub(crate) share: Fraction,
}

/// A part of the time of long steps.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ExcessPart {
    Busy,
    HostLate,
    OtherIdle,
    /// Idle time of a trace that lacks work.
    IdleOrNotRecorded,
}

/// `38.7 ms beyond the median, 99.1 % of it waiting for the host`
fn beyond_median(excess: Excess) -> String {
    let part = match excess.part {
        ExcessPart::Busy => "GPU work",
        ExcessPart::HostLate => "waiting for the host",
        ExcessPart::OtherIdle => "idle time without a late launch",
        ExcessPart::IdleOrNotRecorded => "idle time or work that is not recorded",
    };
    format!("{} beyond the median, {} of it {part}", time(excess.time), percent_1(excess.share))
}

/// How the changes of the kernels of a step look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DriftPattern {
    /// All large categories change by about the same share, in steps of the same batch and tokens.
    Alike,
    /// The same, and the trace does not state batch or tokens.
    AlikeUnknownLoad,
    /// Attention has nearly all of the change.
    Attention,
}

/// By how much the kernels of the last step take longer than those of the first.
#[derive(Debug, Clone)]
pub(crate) struct Drift {
    pub(crate) change: Pct,
    /// The categories with the largest changes.
    pub(crate) categories: Vec<(String, Pct)>,
    /// `None` if it shows no cause.
    pub(crate) pattern: Option<DriftPattern>,
}

/// `, the same kernels take 20.0 % longer in the last step than in the first (gemm +20.0 %, attention +19.8 %), as with a falling clock of
/// the GPU`
pub(crate) fn drift(drift: &Drift) -> String {
    let is_longer = drift.change.0 > 0.0;
    let (longer, grows, falls) =
        if is_longer { ("longer", "growing", "falling") } else { ("shorter", "shrinking", "rising") };
    let signed = |change: Pct| format!("{}{}", if change.0 < 0.0 { "-" } else { "+" }, percent_1(Pct(change.0.abs())));
    let of_category = |(category, change): &(String, Pct)| format!("{} {}", super::category(category), signed(*change));
    let categories: Vec<String> = drift.categories.iter().map(of_category).collect();
    let like = match drift.pattern {
        None => String::new(),
        Some(DriftPattern::Alike) => format!(", as with a {falls} clock of the GPU"),
        Some(DriftPattern::AlikeUnknownLoad) => format!(", as with a {falls} clock of the GPU or a {grows} batch"),
        Some(DriftPattern::Attention) => format!(", as with a {grows} context"),
    };
    let change = percent_1(Pct(drift.change.0.abs()));
    format!(
        ", the same kernels take {change} {longer} in the last step than in the first ({}){like}",
        categories.join(", ")
    )
}

/// `, 5 of them 19.0 ms on average and 55.1 % of the time (the longest is step 6; together 45.0 ms beyond the median, 98.0 % of it GPU
/// work)`
fn long_steps(long: LongSteps) -> String {
    let (length, share) = (time(long.mean), percent_1(long.share));
    let (count, excess) = (long.count, long.excess);
    let step = |excess: Excess| {
        let (step, beyond) = (grouped(excess.longest_step as u64), beyond_median(excess));
        if count == 1 {
            format!(" (step {step}; {beyond})")
        } else {
            format!(" (the longest is step {step}; together {beyond})")
        }
    };
    let step = or_nothing(excess, step);
    match count {
        1 => format!(", one of them {length} and {share} of the time{step}"),
        several => format!(", {} of them {length} on average and {share} of the time{step}", grouped(several)),
    }
}

/// `, the longest 445.6 ms (step 4; 400.5 ms beyond the median, 75.2 % of it waiting for the host)`
fn longest_step(longest: Ms, excess: Option<Excess>) -> String {
    let step = or_nothing(excess, |excess| {
        format!(" (step {}; {})", grouped(excess.longest_step as u64), beyond_median(excess))
    });
    format!(", the longest {}{step}", time(longest))
}

/// Where a clause stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// At the beginning of the verdict.
    Beginning,
    /// After the start of the program.
    AfterStart,
    /// After the clause of another stage.
    AfterStage,
}

/// `Decode: 9 steps, median 10.4 ms, mean batch 31.5`
pub(crate) fn steps(steps: &StageSteps) -> String {
    let head = match steps.place {
        Place::Beginning => stages::heading(steps.stage),
        Place::AfterStart => stages::heading_within(steps.stage),
        Place::AfterStage => format!("; {}", stages::heading_within(steps.stage)),
    };
    let length = time(steps.median);
    let length = match steps.count {
        StepCount::OfOne(1) => format!("1 step of {length}"),
        several => format!("{}, median {length}", several.words()),
    };
    let on_average = if steps.count == StepCount::OfOne(1) { "" } else { "mean " };
    let longest = or_nothing(steps.longest, |(longest, excess)| longest_step(longest, excess));
    let long = or_nothing(steps.long, long_steps);
    let batch = or_nothing(steps.mean_batch, |batch| format!(", {on_average}batch {}", mean_count(batch)));
    let tokens = or_nothing(steps.mean_tokens, |tokens| format!(", {on_average}{} tokens", mean_count(tokens)));
    format!("{head}{length}{longest}{long}{batch}{tokens}")
}

/// `, floor 4.1 ms`. Of a mixture of experts `, floor 895 us to 5.3 ms by the routing of experts`: from the experts of one token to those of
/// uniform routing.
pub(crate) fn floor(least: Ms, uniform: Option<Ms>) -> String {
    let least = time(least);
    match uniform.map(time).filter(|most| *most != least) {
        Some(most) => format!(", floor {least} to {most} by the routing of experts"),
        None => format!(", floor {least}"),
    }
}

/// `, GPU busy 93.5 %`; at least, if some work is not recorded.
pub(crate) fn busy_of_steps(busy: Fraction, is_least: bool) -> String {
    format!(", GPU busy {}{}", if is_least { "at least " } else { "" }, percent_1(busy))
}

/// `GPU busy 93.5 % of the wall time`
pub(crate) fn busy_of_wall(busy: Fraction, is_given: bool) -> String {
    format!("GPU busy {} of the {}", percent_1(busy), if is_given { "given wall time" } else { "wall time" })
}

/// The GPU work of a capture without steps.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CoveredWork {
    pub(crate) work: Ms,
    pub(crate) devices: usize,
    pub(crate) is_window: bool,
    /// The work is that of all devices after the start of the program; else that of the busiest.
    pub(crate) is_after_start: bool,
}

/// `The capture covers 8.0 ms of GPU work on the busiest of 8 GPUs`
pub(crate) fn covered(covered: CoveredWork) -> String {
    let article = if covered.is_after_start { "the" } else { "The" };
    let extent = if covered.is_window { "window" } else { "capture" };
    let on = match covered.devices {
        0 | 1 => String::new(),
        several if covered.is_after_start => format!(" on {several} GPUs"),
        several => format!(" on the busiest of {several} GPUs"),
    };
    format!("{article} {extent} covers {} of GPU work{on}", time(covered.work))
}

/// `; other work of the program between them takes 312.4 ms, 77.6 % of the capture`
pub(crate) fn other_work(time_of_work: Ms, of_capture: Fraction) -> String {
    format!(
        "; other work of the program between them takes {}, {} of the capture",
        time(time_of_work),
        percent_1(of_capture)
    )
}

/// `; the first step has 12.0 ms before its first launch, which are not in its length`
pub(crate) fn before_first_launch(before: Ms) -> String {
    format!("; the first step has {} before its first launch, which are not in its length", time(before))
}

/// `; the server had no batch to run for 1.37 s, 86.9 % of the capture`
pub(crate) fn no_requests(idle: Ms, of_capture: Fraction) -> String {
    format!("; the server had no batch to run for {}, {} of the capture", time(idle), percent_1(of_capture))
}

/// `; pauses of the profiler leave the GPU idle for 25.5 ms, 20.1 % of the capture`
pub(crate) fn profiler(idle: Ms, of_capture: Fraction) -> String {
    format!("; pauses of the profiler leave the GPU idle for {}, {} of the capture", time(idle), percent_1(of_capture))
}

/// `; the GPUs take turns: each waits 46.3 % of the time for another one of the process, and at least one works 94.2 % of the time`
pub(crate) fn take_turns(waits: Fraction, any_busy: Fraction) -> String {
    format!(
        "; the GPUs take turns: each waits {} of the time for another one of the process, and at least one works {} of the time",
        percent_1(waits),
        percent_1(any_busy)
    )
}

/// `; Send/Recv runs alone for 43.6 % of the time: the rank exchanges data by nothing else, and a stage of a pipeline waits in it for the work of
/// another stage`
pub(crate) fn stages(exposed: Fraction) -> String {
    format!(
        "; Send/Recv runs alone for {} of the time: the rank exchanges data by nothing else, and a stage of a pipeline waits in it \
         for the work of another stage",
        percent_1(exposed)
    )
}

/// How busy the GPU was in a capture without steps.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Busy {
    /// Some work is not recorded.
    Between(Fraction, Fraction),
    /// Of several devices.
    OnAverage(Fraction),
    Exactly(Fraction),
}

/// `, GPU busy 93.5 % on average`
pub(crate) fn busy(busy: Busy) -> String {
    match busy {
        Busy::Between(least, most) => {
            format!(", GPU busy for {} to {} of the time", percent_1(least), percent_1(most))
        }
        Busy::OnAverage(share) => format!(", GPU busy {} on average", percent_1(share)),
        Busy::Exactly(share) => format!(", GPU busy {}", percent_1(share)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_of_a_mixture_of_experts_is_a_range_and_says_what_decides_it() {
        assert_eq!(floor(Ms(0.895), Some(Ms(5.27))), ", floor 895 us to 5.3 ms by the routing of experts");
        assert_eq!(floor(Ms(0.895), Some(Ms(0.895))), ", floor 895 us");
    }
}
