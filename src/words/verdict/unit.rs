//! The clauses of the verdict about its unit: the steps of a stage, or the GPU work of a capture without steps. From their times, counts
//! and shares.

use crate::digits::grouped;
use crate::trace::{Fraction, Ms};
use crate::words::numbers::mean_count;
use crate::words::{or_nothing, percent_1, stages, time};

/// The steps of a stage.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StageSteps<'a> {
    /// The label of the stage.
    pub(crate) stage: &'a str,
    pub(crate) place: Place,
    pub(crate) count: u64,
    pub(crate) median: Ms,
    /// The longest step, if the others are short beside it.
    pub(crate) longest: Option<Ms>,
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
}

/// `, 5 of them 19.0 ms on average and 55.1 % of the time`
fn long_steps(long: LongSteps) -> String {
    let (length, share) = (time(long.mean), percent_1(long.share));
    match long.count {
        1 => format!(", one of them {length} and {share} of the time"),
        several => format!(", {} of them {length} on average and {share} of the time", grouped(several)),
    }
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
        1 => format!("1 step of {length}"),
        several => format!("{} steps, median {length}", grouped(several)),
    };
    let on_average = if steps.count == 1 { "" } else { "mean " };
    let longest = or_nothing(steps.longest, |longest| format!(", the longest {}", time(longest)));
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
