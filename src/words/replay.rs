//! The replay: what its savings rest on, from sums of kernels, and why it says nothing, from shares.

use crate::digits::grouped;
use crate::trace::{Fraction, MeanNs, Ms, Ns, Pct};
use crate::words::{percent_0, percent_1, time, time_of};

/// The kernels of an op, compared with the roof of its GPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FarFromRoof<'a> {
    pub(crate) time: MeanNs,
    /// The share of the roof that they reach.
    pub(crate) reached: Pct,
    pub(crate) is_arithmetic: bool,
    pub(crate) gpu: &'a str,
    /// The share of the roof that counts as usual.
    pub(crate) usual: Fraction,
}

/// `its kernels take 1.2 ms, at 20 % of the memory bandwidth of H200; saved is what is above 70 % of it`
pub(crate) fn far_from_roof(kernels: FarFromRoof) -> String {
    format!(
        "its kernels take {}, at {} of the {} of {}; saved is what is above {} of it",
        time(Ms::from(kernels.time)),
        percent_0(kernels.reached),
        if kernels.is_arithmetic { "arithmetic peak" } else { "memory bandwidth" },
        kernels.gpu,
        percent_0(kernels.usual),
    )
}

/// Runs of elementwise kernels.
pub(crate) fn unfused(kernels: u64, runs: u64, time: Ns) -> String {
    format!(
        "{} kernels in {} runs of two or more take {}; at most all but the longest of each run are saved, with their launches",
        grouped(kernels),
        grouped(runs),
        time_of(time),
    )
}

/// A part of the path whose code is a range: it says when, and not what runs.
pub(crate) fn in_range(range: &str) -> String {
    format!("(in {range})")
}

/// The range of the name of a part, if its code is one.
pub(crate) fn range_of(part: &str) -> Option<&str> {
    part.strip_prefix("(in ")?.strip_suffix(')')
}

/// The parts of the path that are not listed.
pub(crate) fn shorter_parts(parts: u64) -> String {
    format!("{parts}{WITH_LESS_TIME}")
}

const WITH_LESS_TIME: &str = " with less time";

/// Whether the name is that of several parts that are not listed.
pub(crate) fn is_shorter_parts(name: &str) -> bool {
    name.ends_with(WITH_LESS_TIME)
}

/// A cause that the trace does not have.
pub(crate) fn nothing_to_change(cause: &str) -> String {
    format!("This trace has nothing to change for {cause}.")
}

/// Too few ops have a launch.
pub(crate) fn few_launches(linked: Fraction) -> String {
    format!("Only {} of the GPU ops have a launch call.", percent_0(linked))
}

/// First uses are most of the trace.
pub(crate) const COLD_START: &str = "First uses are most of the trace: no steady step to speak of.";

/// Little work follows the first uses.
pub(crate) fn little_work_follows(share: Pct) -> String {
    format!("Less than half of the GPU work, {}, comes after the first uses: it may be other work.", percent_1(share))
}

/// The GPU may have worked on what is not in the file.
pub(crate) fn unrecorded(share: Fraction) -> String {
    format!(
        "For {} of the replayed time the GPU worked, or may have, on what is not in the file: savings are ranges.",
        percent_0(share)
    )
}

/// The trace leaves open what decides the path.
pub(crate) fn undecided(share: Fraction) -> String {
    format!("The trace leaves open what decides {} of the critical path: savings are ranges.", percent_0(share))
}

/// The trace leaves open whether the host works.
pub(crate) const HOST_IS_OPEN: &str = "The trace does not show whether the host works or waits for the GPU, and what costs most depends \
     on it: savings are ranges.";

/// No stage has the label that is asked for.
pub(crate) fn no_such_stage(known: &[&str]) -> String {
    format!("no such stage: give one of {}", known.join(", "))
}
