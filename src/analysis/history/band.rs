//! The step times that are noise for a run: around the median of the runs before it. From the median of each of these runs and the
//! uncertainty that its own steps give it; O(n log n) in a bounded number of runs.
//!
//! The medians of the runs scatter by their standard deviation. Runs that are outliers, by the median absolute deviation, are left out of
//! it: the deviation of few runs that contains one is many times too large. Student's t tells how many standard deviations the next run
//! may be away. The scatter is at least what the steps of the runs let expect, and a run whose own median is less certain than theirs,
//! because it has few steps, has a wider band.

use super::{Measured, THRESHOLDS};
use crate::analysis::measure::moments::variance;
use crate::analysis::measure::percentiles::median;
use crate::json::from_json;

/// The step times that are noise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Band {
    /// The lowest.
    pub low_ns: i64,
    /// The median of the earlier runs.
    pub middle_ns: i64,
    /// The highest.
    pub high_ns: i64,
    /// The number of earlier runs.
    pub runs: usize,
}

/// What the number of runs tells about the noise that is estimated from them.
#[derive(Debug)]
pub(super) struct Sample {
    /// From this number of runs on.
    pub(super) runs: usize,
    /// Standard deviations that the next run is away from them at most.
    pub(super) sigmas: f64,
    /// Standard deviations, as the median absolute deviation estimates them, that one of them is away from their median at most.
    pub(super) outlier_sigmas: f64,
}
from_json!(Sample { runs, sigmas, outlier_sigmas });

/// The standard deviation of normal noise is this multiple of its median absolute deviation.
const SIGMAS_PER_DEVIATION: f64 = 1.4826;
/// The 10th and the 90th percentile of normal noise are so many standard deviations apart.
const SIGMAS_FROM_P10_TO_P90: f64 = 2.5631;
/// The variance of the median of normal noise is this multiple of that of the mean.
const MEDIAN_VARIANCE: f64 = std::f64::consts::FRAC_PI_2;

/// The standard error of the median of steps, from the spread of the steps; `None` if they are too few to show one.
pub fn median_error_ns(p10_ns: f64, p90_ns: f64, steps: i64) -> Option<f64> {
    let deviation_ns = (p90_ns - p10_ns) / SIGMAS_FROM_P10_TO_P90;
    let error_ns = deviation_ns * (MEDIAN_VARIANCE / steps as f64).sqrt();
    Some(error_ns).filter(|error| steps > 2 && error.is_finite() && *error >= 0.0)
}

/// The band of a run with this standard error of its median; `None` if there are too few runs before it.
pub(super) fn band(before: &[Measured], error_ns: Option<f64>) -> Option<Band> {
    let sample = sample(before.len())?;
    let mut times: Vec<i64> = before.iter().map(|run| run.median_ns).collect();
    times.sort_unstable();
    let middle = median(&times)?;
    let steps_ns = THRESHOLDS.sigmas_of_steps * usual_error_ns(before);
    let least_ns = steps_ns.max(middle * THRESHOLDS.min_relative_change);
    let usual = without_outliers(&times, middle, least_ns, sample)?;
    // Of the fewest runs, one that differs may be noise: all of them tell how wide it is.
    let (usual, sample) = self::sample(usual.len()).map_or((times, sample), |sample| (usual, sample));
    let scatter_ns = sample.sigmas * variance(&usual)?.sqrt();
    let of_middle = MEDIAN_VARIANCE / usual.len() as f64;
    let of_runs = scatter_ns.max(steps_ns).powi(2) * (1.0 + of_middle);
    let own_ns = THRESHOLDS.sigmas_of_steps * error_ns.unwrap_or(0.0);
    let of_own_steps = (own_ns.powi(2) - steps_ns.powi(2)).max(0.0);
    let half_ns = (of_runs + of_own_steps).sqrt().max(middle * THRESHOLDS.min_relative_change).round() as i64;
    let middle_ns = middle.round() as i64;
    Some(Band {
        low_ns: middle_ns.saturating_sub(half_ns).max(0),
        middle_ns,
        high_ns: middle_ns.saturating_add(half_ns),
        runs: before.len(),
    })
}

/// What is known of samples of this size; `None` if they are too small for a band.
fn sample(runs: usize) -> Option<&'static Sample> {
    THRESHOLDS.samples.iter().rev().find(|sample| sample.runs <= runs)
}

/// The median of the standard errors of the medians of these runs; 0 if none is known.
fn usual_error_ns(runs: &[Measured]) -> f64 {
    super::middle(runs.iter().filter_map(|run| run.error_ns).collect()).unwrap_or(0.0)
}

/// The times that are no outliers. Within `least_ns` of the middle no time is one: times of equal runs have no deviation.
fn without_outliers(times: &[i64], middle: f64, least_ns: f64, sample: &Sample) -> Option<Vec<i64>> {
    let away_ns = |time: i64| (time as f64 - middle).abs();
    let mut deviations: Vec<i64> = times.iter().map(|time| away_ns(*time).round() as i64).collect();
    deviations.sort_unstable();
    let limit_ns = (median(&deviations)? * SIGMAS_PER_DEVIATION * sample.outlier_sigmas).max(least_ns);
    Some(times.iter().copied().filter(|time| away_ns(*time) <= limit_ns).collect())
}
