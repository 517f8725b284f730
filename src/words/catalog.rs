//! The table of known fusions and overlaps: what the trace shows of a family, what to do, the states of its switches, and the note on a
//! family that the run resembles. From names, counts and shares.

use super::{or_nothing, percent_1};
use crate::digits::grouped;
use crate::trace::Pct;

/// What the table is taken from.
pub(crate) fn source(families: usize) -> String {
    format!("the catalog of {families} known families of fused kernels and overlaps")
}

/// What the trace shows of a family.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Evidence<'a> {
    Kernels,
    CpuOp,
    Function,
    FusedKernel,
    /// The parts run one after the other.
    SeparateParts,
    /// Functions of the family launched its parts.
    Chain {
        parts: &'a [String],
        times: u64,
        /// The time of copies between the parts, as a share of the stage.
        copies: Option<Pct>,
    },
    /// Separate kernels do the work of the family.
    Unfused {
        kernels: usize,
        /// They are those of plain PyTorch, not of the framework.
        are_plain: bool,
        times: u64,
    },
}

/// `12.3 % of the stage: its kernels run`. Without a share if durations do not belong to the names of kernels.
pub(crate) fn evidence(evidence: Evidence, share: Option<Pct>) -> String {
    let share = or_nothing(share, |share| format!("{} of the stage: ", percent_1(share)));
    share + &evidence_words(evidence)
}

fn evidence_words(evidence: Evidence) -> String {
    match evidence {
        Evidence::Kernels => "its kernels run".to_owned(),
        Evidence::CpuOp => "its CPU op runs".to_owned(),
        Evidence::Function => "its function runs".to_owned(),
        Evidence::FusedKernel => "its fused kernel runs".to_owned(),
        Evidence::SeparateParts => "its parts run separately, one after the other".to_owned(),
        Evidence::Chain { parts, times, copies } => {
            let copies =
                or_nothing(copies, |copies| format!(", with copies of another {} between them", percent_1(copies)));
            format!(
                "{} follow each other {} times{copies}; no kernel of the family runs",
                parts.join(", "),
                grouped(times)
            )
        }
        Evidence::Unfused { kernels, are_plain, times } => {
            let source = if are_plain { " of plain PyTorch" } else { "" };
            format!("{kernels} kernels{source} run instead, {} times", grouped(times))
        }
    }
}

/// A row of the evidence: `rms_norm: 3.1 %, 96 launches`.
pub(crate) fn evidence_row(kernel: &str, share: Option<Pct>, launches: u64) -> String {
    let share = or_nothing(share, |share| format!("{}, ", percent_1(share)));
    format!("{kernel}: {share}{launches} launches")
}

/// The rows that are not listed.
pub(crate) fn more_rows(more: usize) -> String {
    format!("and {more} more")
}

/// What to do about a family.
#[derive(Debug, Clone)]
pub(crate) enum Advice<'a> {
    /// The path is active.
    Keep,
    /// These switches disable it.
    Enable { framework: &'a str, switches: Vec<&'a str> },
    /// The framework has it, and it does not run.
    FindOut { framework: &'a str },
    /// It is proposed.
    Follow(Requests<'a>),
    /// Another project has it.
    Port { framework: &'a str, requests: Requests<'a> },
}

/// The pull requests of a family in its project.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requests<'a> {
    pub(crate) project: &'a str,
    pub(crate) numbers: &'a [u32],
}

/// The advice on a family. `note`: the sentence of the catalog.
pub(crate) fn advice(advice: &Advice, note: &str) -> String {
    match advice {
        Advice::Keep => format!("This path is active. {note}"),
        Advice::Enable { framework, switches } => {
            let off = switches.join(", ");
            format!("{framework} has this path, but {off} disables it: change that setting and measure again. {note}")
        }
        Advice::FindOut { framework } => format!(
            "{framework} has this path: find out why it does not run here (shape, data type, backend, version) before you write \
             a new kernel. {note}"
        ),
        Advice::Follow(of) => format!("This path is proposed{}: follow or try it. {note}", requests(*of)),
        Advice::Port { framework, requests: of } => format!(
            "{} has this path{}. {framework} is not known to have it: consider proposing a port. {note}",
            of.project,
            requests(*of)
        ),
    }
}

/// ` (SGLang #1234, #5678)`; empty without numbers.
fn requests(Requests { project, numbers }: Requests) -> String {
    let numbers: Vec<String> = numbers.iter().map(|number| format!("#{number}")).collect();
    if numbers.is_empty() { String::new() } else { format!(" ({project} {})", numbers.join(", ")) }
}

/// What a switch does to a family when it is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SwitchEffect {
    TurnsOn,
    TurnsOff,
    Changes,
}

/// `--enable-x: not set, off by default (what it does; turns this off when on)`. `is_on`: `None` if it is not known.
pub(crate) fn switch(name: &str, is_on: Option<bool>, is_default: bool, what: &str, effect: SwitchEffect) -> String {
    let state = match (is_on, is_default) {
        (Some(true), false) => "on",
        (Some(false), false) => "off",
        (Some(true), true) => "not set, on by default",
        (Some(false), true) => "not set, off by default",
        (None, _) => "unknown",
    };
    let effect = match effect {
        SwitchEffect::TurnsOn => "",
        SwitchEffect::TurnsOff => "; turns this off when on",
        SwitchEffect::Changes => "; changes how this runs",
    };
    format!("{name}: {state} ({what}{effect})")
}

/// What a chain of kernels and a family share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal<'a> {
    /// The categories of the family run in this order on one stream.
    Chain(&'a [String]),
    Function,
    File(&'a str),
    CpuOp(&'a str),
    TensorParallelism,
    Model,
}

/// The shared signals with their points.
pub(crate) fn signals(signals: &[Signal], points: u32) -> String {
    let words = signals.iter().map(|signal| match signal {
        Signal::Chain(categories) => format!("on one stream {}", chain(categories)),
        Signal::Function => "a function of the family in the stack".to_owned(),
        Signal::File(file) => format!("its source file {file}"),
        Signal::CpuOp(op) => format!("the CPU op {op}"),
        Signal::TensorParallelism => "the tensor parallelism that it needs".to_owned(),
        Signal::Model => "its model".to_owned(),
    });
    let words = words.collect::<Vec<_>>().join("; ");
    format!("{words} ({points} points from {} kinds of signals)", signals.len())
}

/// Names that follow each other, with arrows.
pub(crate) fn chain(names: &[impl AsRef<str>]) -> String {
    names.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" -> ")
}

/// A chain of kernels that resembles a family.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Resemblance<'a> {
    pub(crate) kernels: &'a [&'a str],
    /// The share of the stage.
    pub(crate) share: Pct,
    pub(crate) stage: &'a str,
    pub(crate) family: &'a str,
    pub(crate) project: &'a str,
    /// The level of the catalog.
    pub(crate) level: &'a str,
}

/// `a -> b (3.1 % of decode) resembles fused norm of SGLang: several signals agree, but an important one is missing.`
pub(crate) fn resemblance(of: Resemblance) -> String {
    let meaning = match of.level {
        "high" => "very likely the same family; the name or a small part of the structure may have changed",
        "medium" => "several signals agree, but an important one is missing",
        _ => "a weak resemblance that is worth checking",
    };
    format!(
        "{} ({} of {}) resembles {} of {}: {meaning}.",
        chain(of.kernels),
        percent_1(of.share),
        of.stage,
        of.family,
        of.project,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_and_advice_name_only_what_is_known() {
        let parts = ["norm".to_owned(), "rope".to_owned()];
        let chain = |copies| Evidence::Chain { parts: &parts, times: 2_000, copies };
        assert_eq!(
            evidence(chain(Some(Pct(1.5))), Some(Pct(10.0))),
            "10.0 % of the stage: norm, rope follow each other 2,000 times, with copies of another 1.5 % between them; no kernel \
             of the family runs"
        );
        assert_eq!(
            evidence(chain(None), None),
            "norm, rope follow each other 2,000 times; no kernel of the family runs"
        );
        let follow = |numbers| advice(&Advice::Follow(Requests { project: "SGLang", numbers }), "Note.");
        assert_eq!(follow(&[]), "This path is proposed: follow or try it. Note.");
        assert_eq!(follow(&[1, 2]), "This path is proposed (SGLang #1, #2): follow or try it. Note.");
    }
}
