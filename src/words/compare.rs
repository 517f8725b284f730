//! The comparison of runs: the unit of its times, and why steps are on no common line. From counts and names. Other sentences are
//! templates in `patterns/compare.json`, whose numbers are formatted here.

use super::Share;
use crate::trace::Fraction;

/// The unit of the times of a comparison.
#[derive(Debug, Clone, Copy)]
pub(crate) enum UnitOfWork<'a> {
    Step,
    /// With the work around the steps.
    StepAndWorkAround,
    Token,
    Range(&'a str),
    Launches,
    Total,
}

/// The unit as a phrase. Times are never summed over devices without the word device time.
pub(crate) fn per_unit(unit: UnitOfWork, has_several_devices: bool) -> String {
    let mean = if has_several_devices { ", mean over the devices" } else { "" };
    match unit {
        UnitOfWork::StepAndWorkAround => format!("per step of the engine, with the work around the steps{mean}"),
        UnitOfWork::Step => format!("per step of the engine{mean}"),
        UnitOfWork::Token => format!("per 1,000 tokens{mean}"),
        UnitOfWork::Range(range) if has_several_devices => {
            format!("per range `{range}`, as device time summed over the devices")
        }
        UnitOfWork::Range(range) => format!("per range `{range}`"),
        UnitOfWork::Launches => format!("for as many launches as in the baseline{mean}"),
        UnitOfWork::Total => format!("of the whole runs{mean}"),
    }
}

/// The source of a table of elapsed times.
pub(crate) fn elapsed_times(unit: &str) -> String {
    format!("elapsed time {unit}")
}

/// The source of a table of wall times.
pub(crate) fn wall_times(unit: &str) -> String {
    format!("wall time {unit}")
}

/// The steps of a run that are on a line. `batch`: their batch size, if it is one; else the number of sizes.
pub(crate) fn steps_of_run(run: &str, steps: usize, batch: Result<u64, usize>) -> String {
    let sizes = match batch {
        Ok(batch) => format!("batch {batch}"),
        Err(sizes) => format!("{sizes} batch sizes"),
    };
    format!("{run} ({steps} steps, {sizes})")
}

/// Too few steps for a line.
pub(crate) fn few_steps(min_steps: usize, min_sizes: usize) -> String {
    format!("it needs at least {min_steps} decode steps of {min_sizes} batch sizes")
}

/// Why there is no line.
pub(crate) fn no_line(why: &str) -> String {
    format!("no line: {why}")
}

/// What differs between two runs, with the value and the name of each.
pub(crate) fn differs(what: &str, (a, first): (&str, &str), (b, other): (&str, &str)) -> String {
    format!("{what} differs: {a} in {first}, {b} in {other}")
}

/// A ratio in a template: `1.25`
pub(crate) fn ratio(ratio: f64) -> String {
    format!("{ratio:.2}")
}

/// A share in a template, without its sign: `61`
pub(crate) fn pct_0(share: Fraction) -> String {
    format!("{:.0}", share.pct())
}

/// The same with one decimal, of a change: `3.5`
pub(crate) fn pct_1(pct: f64) -> String {
    format!("{pct:.1}")
}

/// A change in a template, with plus or minus: `+12`
pub(crate) fn change_pct(change: Fraction) -> String {
    format!("{:+.0}", change.pct())
}

/// A mean in a template: `32`
pub(crate) fn mean(mean: f64) -> String {
    format!("{mean:.0}")
}

/// Why the layers of two runs are compared alone.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct OtherLayers<'a> {
    /// The numbers of layers in both, and their kind.
    pub(crate) counts: Option<(u64, u64, &'a str)>,
    /// The batch sizes of both.
    pub(crate) batches: Option<(f64, f64)>,
}

/// A limit of the comparison of layers.
pub(crate) fn per_layer_only(run: &str, stage: &str, other: OtherLayers) -> String {
    let counts = other.counts.map(|(before, after, kind)| format!("{before} and {after} layers of kind {kind}"));
    let batches = other.batches.map(|(before, after)| format!("batches of {before} and {after}"));
    let reasons: Vec<String> = counts.into_iter().chain(batches).collect();
    format!("The baseline and {run} have {} in {stage}: times are per layer only.", reasons.join(" and "))
}

/// A GPU that only the names of kernels show.
pub(crate) fn gpu_by_names(vendor: &str) -> String {
    format!("an {vendor} GPU (according to its kernel names)")
}
