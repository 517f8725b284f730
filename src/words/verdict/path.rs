//! The clause of the verdict about the critical path: what a step is made of, and how much shorter it is without what bounds it. From
//! shares of the step.

use crate::trace::{Fraction, Ms};
use crate::words::numbers::percents_1;
use crate::words::{listed, or_nothing, percent_1, stages, time};

/// What the clause is about.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path<'a> {
    pub(crate) first_uses: Option<FirstUses>,
    /// The label of the stage, if the steps are of several.
    pub(crate) stage: Option<&'a str>,
    /// Whether the path is that of a step.
    pub(crate) is_step: bool,
}

/// The time of first uses, and of what follows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FirstUses {
    pub(crate) first_uses: Ms,
    pub(crate) rest: Ms,
}

/// What bounds the path, and the part that is saved without it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum BoundOfPath {
    /// One step that is captured alone with Python stacks proves no bound by the host.
    InflatedHost(Shorter),
    Host(Shorter),
    /// One rank does not show whether the others have the same cause: what is saved if only this one changes.
    HostOfOneRank(Shorter, Fraction),
    /// Communication may wait for other ranks.
    WaitingCommunication(Shorter),
    Communication(Shorter),
}

/// How much shorter a step is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shorter {
    pub(crate) median: Range,
    /// The mean step, if it says something else than the median one.
    pub(crate) mean: Option<Range>,
}

impl Shorter {
    /// `53.2 % shorter`, or `20.1 % shorter (the mean step 53.2 %)`
    fn words(self) -> String {
        let mean = or_nothing(self.mean, |mean| format!(" (the mean step {})", mean.words()));
        format!("{} shorter{mean}", self.median.words())
    }
}

/// A share, as far as the trace decides it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Range {
    Exactly(Fraction),
    Between(Fraction, Fraction),
}

impl Range {
    /// `53.2 %`, or `40.1 to 53.2 %`
    fn words(self) -> String {
        match self {
            Self::Exactly(share) => percent_1(share),
            Self::Between(least, most) => percents_1(least, most),
        }
    }
}

/// Communication of which the file does not show how much waits.
pub(crate) const COMMUNICATION_OR_WAITS: &str = "communication or waits for other ranks";

/// What takes no time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Without {
    Host,
    Communication,
    GpuWork,
}

impl Without {
    fn words(self) -> &'static str {
        match self {
            Self::Host => "the host",
            Self::Communication => "communication",
            Self::GpuWork => "GPU work",
        }
    }
}

/// `; bound by the host, without which a step is 53.2 % shorter: the critical path is 61.3 % host and 38.7 % GPU work`
pub(crate) fn parts(path: Path, bound: Option<BoundOfPath>, parts: &[(&str, Fraction)]) -> String {
    let parts: Vec<String> = parts.iter().map(|(group, share)| format!("{} {group}", percent_1(*share))).collect();
    format!(
        "; {}{}the critical path{} is {}",
        or_nothing(path.first_uses, first_uses),
        or_nothing(bound, |bound| bound_by(bound, path)),
        of_stage(path),
        listed(&parts),
    )
}

/// Host and GPU are on the path by turns, so that the parts of the path say little: what is saved at most without each.
pub(crate) fn host_and_gpu(path: Path, without_host: Fraction, without_gpu: Fraction, is_equal: bool) -> String {
    format!(
        "; {}{}{}{} is at most {} shorter without GPU work, and at most {} without the host",
        or_nothing(path.first_uses, first_uses),
        if is_equal { "host and GPU are about equally fast: " } else { "" },
        work(path),
        of_stage(path),
        percent_1(without_gpu),
        percent_1(without_host),
    )
}

/// A few long steps have another cause than the usual one: what is saved at most without each of both, of the median step and of the mean
/// step.
pub(crate) fn uneven(path: Path, causes: [Without; 2], median: [Fraction; 2], mean: [Fraction; 2]) -> String {
    let [[a, b], [mean_a, mean_b]] = [median, mean].map(|shares| shares.map(percent_1));
    let [without_a, without_b] = causes.map(Without::words);
    format!(
        "; {}the median step{} is at most {a} shorter without {without_a} and at most {b} without {without_b}, the mean step at most \
         {mean_a} and {mean_b}",
        or_nothing(path.first_uses, first_uses),
        of_stage(path),
    )
}

fn bound_by(bound: BoundOfPath, path: Path) -> String {
    let what = work(path);
    match bound {
        BoundOfPath::InflatedHost(shorter) => format!(
            "without the host, whose time a short capture with Python stacks inflates, {what} is {}: ",
            shorter.words()
        ),
        BoundOfPath::HostOfOneRank(shorter, alone) => format!(
            "bound by the host: without it {what} is {} if the other ranks arrive at least as much earlier{}: ",
            shorter.words(),
            of_this_rank_alone(alone)
        ),
        BoundOfPath::Host(shorter) => {
            format!("bound by the host, without which {what} is {}: ", shorter.words())
        }
        BoundOfPath::WaitingCommunication(shorter) => {
            format!("without communication, which may wait for other ranks, {what} is {}: ", shorter.words())
        }
        BoundOfPath::Communication(shorter) => {
            format!("bound by communication, without which {what} is {}: ", shorter.words())
        }
    }
}

/// A collective ends no earlier than measured here, as if another rank arrived as late as this one. Whether one does, only the files of the
/// other ranks show, so nothing is said of a rank that saves nothing then.
fn of_this_rank_alone(at_least: Fraction) -> String {
    match percent_1(at_least) {
        none if none == percent_1(Fraction(0.0)) => String::new(),
        share => format!(", and at least {share} if only this one does"),
    }
}

/// The capture has more than the replayed window, which begins after the first uses.
fn first_uses(FirstUses { first_uses, rest }: FirstUses) -> String {
    format!("first uses, such as loading code, end after {}; in the {} from then on ", time(first_uses), time(rest))
}

/// ` of decode`
fn of_stage(path: Path) -> String {
    match path.stage.map(stages::stage) {
        None | Some("") => String::new(),
        Some(stage) => format!(" of {stage}"),
    }
}

fn work(path: Path) -> &'static str {
    if path.is_step { "a step" } else { "the work" }
}
