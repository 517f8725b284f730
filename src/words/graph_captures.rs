//! The message about the captures of graphs beside a trace, from the outcome of joining them.

use super::notices::Told;
use crate::digits::grouped;
use crate::trace::{CaptureOutcome, CaptureProof, JoinedCapture, Unjoined, UnjoinedReplays};
use crate::words::counted;

/// The notice about the captures.
pub(crate) fn notice(outcome: &CaptureOutcome) -> Told {
    let advice = if outcome.joined.is_empty() {
        "The report is that of the trace alone. Put the captures of the same run and rank beside the trace."
    } else {
        "Shapes, modules and code of these ops are those of the capture, whose batch is padded."
    };
    Told { message: message(outcome), advice }
}

fn message(outcome: &CaptureOutcome) -> String {
    let sum = |of: fn(&JoinedCapture) -> u64| outcome.joined.iter().map(of).sum::<u64>();
    let left_out = outcome.unjoined.iter().map(|unjoined| unjoined.ops).sum::<u64>();
    let all = grouped(sum(|joined| joined.ops) + left_out);
    let mut parts = vec![match sum(|joined| joined.joined_ops) {
        0 => format!("none of the {all} ops that graphs replay could be joined with the traces of graph captures"),
        ops => {
            format!("{} of the {all} ops that graphs replay are joined with the traces of graph captures", grouped(ops))
        }
    }];
    parts.extend(some_of(&outcome.joined, joined_words));
    parts.extend(outcome.unjoined.iter().map(unjoined_words));
    parts.extend(some_of(&outcome.unusable, |unusable| format!("{} is not used: {}", unusable.file, unusable.why)));
    parts.join("; ")
}

/// The words of the first few, and how many more there are.
fn some_of<T>(all: &[T], words: impl Fn(&T) -> String) -> Vec<String> {
    const MAX_SHOWN: usize = 4;
    let more = all.len().saturating_sub(MAX_SHOWN);
    let more = (more > 0).then(|| format!("and {more} more files"));
    all.iter().take(MAX_SHOWN).map(words).chain(more).collect()
}

fn joined_words(joined: &JoinedCapture) -> String {
    let JoinedCapture { file, batch_size, step_sizes: (least, most), .. } = joined;
    let of_steps = match (least == most, least == batch_size) {
        (true, true) => String::new(),
        (true, false) => format!(" for steps of {least}"),
        (false, _) => format!(" for steps of {least} to {most}"),
    };
    let proof = match joined.proof {
        CaptureProof::Names => "by kernel names",
        CaptureProof::Order => "by order only, not proven: the calls of the capture name no kernels",
    };
    let (ops, all) = (grouped(joined.joined_ops), grouped(joined.ops));
    let launches = counted(joined.launches, "launch", "launches");
    format!("{file} (batch {batch_size}{of_steps}): {ops} of {all} ops of {launches}, {proof}")
}

fn unjoined_words(unjoined: &UnjoinedReplays) -> String {
    let why = match unjoined.why {
        Unjoined::NoSize => "no annotation states the batch of their step",
        Unjoined::NoCapture => "no capture has a batch as large as their step",
        Unjoined::LaunchesDiffer => "their step has another number of graph launches than the file has captures",
        Unjoined::NamesDiffer => "they ran other kernels than the capture",
        Unjoined::CountsDiffer => "they have another number of ops than the capture, whose calls name no kernels",
        Unjoined::OrderDiffers => {
            "their copies and sets are at other places, or they ran on several streams, and the calls of the capture name no kernels"
        }
    };
    let (launches, ops) = (counted(unjoined.launches, "launch", "launches"), counted(unjoined.ops, "op", "ops"));
    format!("{launches} with {ops} not joined: {why}")
}
