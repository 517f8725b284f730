//! By how much the mean step of a stage changes, and whether that is more than noise. A few long steps, such as pauses of a garbage
//! collector, move the mean and not the median: the throughput falls although the usual step takes as long. From the sorted durations of
//! the steps; n log n.

use super::shift::Shift;
use crate::analysis::measure::moments::{mean, robust_squared_error_of_mean, squared_error_of_mean};

/// The change of the mean step of a stage.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeanChange {
    /// The mean duration in the baseline.
    pub baseline_ns: f64,
    /// The difference of the mean durations.
    pub delta_ns: f64,
    /// The largest difference that counts as noise: a multiple of the standard error of the difference of two means, whose variances may
    /// differ (Welch). `None` if one of the runs has a single step.
    pub noise_ns: Option<f64>,
    /// The same, from the spread of the usual steps: long steps do not widen it.
    usual_noise_ns: f64,
    /// Steps of the run that last longer than every step of the baseline.
    pub longer_than_all: usize,
    /// Steps of the baseline that last longer than every step of the run.
    pub baseline_longer_than_all: usize,
}

impl MeanChange {
    /// `before` and `after` are sorted; `None` if one of them is empty.
    pub(super) fn of(before: &[i64], after: &[i64], noise_standard_errors: f64) -> Option<Self> {
        let (longest_before, longest_after) = (*before.last()?, *after.last()?);
        let (baseline_ns, mean_ns) = (mean(before)?, mean(after)?);
        let noise = |(before, after)| noise_of_difference(noise_standard_errors, before, after);
        let noise_ns = squared_error_of_mean(before).zip(squared_error_of_mean(after)).map(noise);
        let usual_noise_ns =
            robust_squared_error_of_mean(before).zip(robust_squared_error_of_mean(after)).map(noise)?;
        let longer = |times: &[i64], than: i64| times.len() - times.partition_point(|time| *time <= than);
        Some(Self {
            baseline_ns,
            delta_ns: mean_ns - baseline_ns,
            noise_ns,
            usual_noise_ns,
            longer_than_all: longer(after, longest_before),
            baseline_longer_than_all: longer(before, longest_after),
        })
    }

    /// The difference in percent of the baseline's mean; `None` if that is zero.
    pub fn pct(&self) -> Option<f64> {
        (self.baseline_ns > 0.0).then(|| 100.0 * self.delta_ns / self.baseline_ns)
    }

    /// The same change without this part of it.
    pub(super) fn without(self, part_ns: f64) -> Self {
        Self { delta_ns: self.delta_ns - part_ns, ..self }
    }

    /// Whether the difference is more than noise, as far as noise is known.
    pub fn is_proven(&self) -> bool {
        self.noise_ns.is_some_and(|noise| self.delta_ns.abs() > noise)
    }

    /// Whether the mean changes otherwise than the usual step: the changes differ by more than the noise of usual steps, and by at least a
    /// share of the mean. The interval of the usual step's change is no measure of that: long steps widen it, the more the fewer steps
    /// there are.
    pub(super) fn is_apart_from(&self, usual: &Shift, negligible_share: f64) -> bool {
        (self.delta_ns - usual.median).abs() > self.usual_noise_ns.max(negligible_share * self.baseline_ns)
    }
}

/// The largest difference of two means that counts as noise, from the squares of their standard errors.
pub(super) fn noise_of_difference(standard_errors: f64, before: f64, after: f64) -> f64 {
    standard_errors * (before + after).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::compare::shift::shift;

    #[test]
    fn noise_is_twice_the_standard_error_of_the_difference_of_the_means() {
        // Variances 2 and 8 of two values each: the squared errors are 1 and 4.
        let change = MeanChange::of(&[9, 11], &[18, 22], 2.0).unwrap();
        assert_eq!((change.baseline_ns, change.delta_ns, change.pct()), (10.0, 10.0, Some(100.0)));
        assert_eq!(change.noise_ns, Some(2.0 * 5_f64.sqrt()));
        assert_eq!((change.longer_than_all, change.baseline_longer_than_all), (2, 0));
        assert_eq!(MeanChange::of(&[9], &[18, 22], 2.0).unwrap().noise_ns, None);
        assert_eq!(MeanChange::of(&[], &[1], 2.0), None);
    }

    /// Fifty steps of 100, the last of which take so many instead.
    fn with_long_steps(long: &[i64]) -> Vec<i64> {
        [vec![100; 50 - long.len()], long.to_vec()].concat()
    }

    #[test]
    fn repeated_long_steps_change_the_mean_beyond_noise_and_a_single_one_does_not() {
        let usual = with_long_steps(&[]);
        let [one, five] = [&[900][..], &[900; 5]].map(with_long_steps);
        let [of_one, of_five] = [&one, &five].map(|steps| MeanChange::of(&usual, steps, 2.0).unwrap());
        assert_eq!((of_one.delta_ns, of_one.longer_than_all, of_one.is_proven()), (16.0, 1, false));
        assert_eq!((of_five.delta_ns, of_five.longer_than_all, of_five.is_proven()), (80.0, 5, true));
        let is_apart = |steps: &[i64], change: MeanChange| change.is_apart_from(&shift(&usual, steps).unwrap(), 0.005);
        assert!(is_apart(&one, of_one) && is_apart(&five, of_five));
    }

    #[test]
    fn a_change_of_all_steps_is_that_of_the_usual_one() {
        let (before, after) = ([90, 100, 110, 120], [99, 110, 121, 132]);
        let change = MeanChange::of(&before, &after, 2.0).unwrap();
        assert!(!change.is_apart_from(&shift(&before, &after).unwrap(), 0.005), "{change:?}");
    }

    #[test]
    fn long_steps_are_told_although_so_few_steps_prove_nothing() {
        // The mean grows by a quarter through two steps of six.
        let (before, after) = ([998, 999, 1000, 1001, 1002, 1003], [999, 1000, 1001, 1002, 1750, 1752]);
        let change = MeanChange::of(&before, &after, 2.0).unwrap();
        assert!(change.is_apart_from(&shift(&before, &after).unwrap(), 0.005), "{change:?}");
        assert!(!change.is_proven() && change.longer_than_all == 2, "{change:?}");
    }
}
