//! What limits the figures of kernels and copies, from counts.

use crate::digits::grouped;

/// Copies without a number of bytes.
pub(crate) fn copies_without_bytes(without: u64, copies: u64) -> String {
    format!("{} of {} copies do not record how many bytes they moved.", grouped(without), grouped(copies))
}

/// What counts as a launch storm: rates per second, each with the median that kernels have at most, in microseconds.
pub(crate) fn launch_storm(storms: &[(f64, f64)]) -> String {
    let storms = storms.iter().map(|(per_s, median_us)| {
        let per_s = grouped(per_s.round() as u64);
        format!("{per_s} kernels per second with a median of at most {median_us} us")
    });
    format!("A launch storm is at least {}.", storms.collect::<Vec<_>>().join(", or at least "))
}

/// No op has the name that is looked for.
pub(crate) fn no_such_kernel(is_window: bool) -> String {
    let scope = if is_window { "the selected window of this trace" } else { "this trace" };
    format!("No GPU op in {scope} has this name.")
}

/// Launches whose call is not known.
pub(crate) fn launches_without_call(launches: usize) -> String {
    format!("{launches} launches have no known call.")
}

/// `108 x 1 x 1`: the thread blocks of a launch.
pub(crate) fn grid<N: std::fmt::Display>([x, y, z]: [N; 3]) -> String {
    format!("{x} x {y} x {z}")
}

/// `grid 108 x 1 x 1`: the property that tells some launches from others, and its values.
pub(crate) fn told_by(property: &str, values: &str) -> String {
    format!("{property} {values}")
}
