//! By how much the values of one sample exceed those of another: the Hodges-Lehmann estimate, the median of all differences, with the
//! interval of the Mann-Whitney test at 95 % (Hollander, Wolfe: Nonparametric Statistical Methods, section 4.3). A few outliers change
//! neither. Samples are thinned evenly to a bounded size, so the cost is bounded.

/// An estimated difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shift {
    pub(super) median: f64,
    /// The interval that contains the difference with 95 %; `None` if the samples are too small for one.
    pub(super) interval: Option<(f64, f64)>,
}

/// The values of a sample that are used at most.
const MAX_VALUES: usize = 300;

/// Standard errors of the normal distribution on each side of 95 %.
const STANDARD_ERRORS: f64 = 1.96;

/// How much larger the values of `after` are than those of `before`; `None` if one of them is empty.
pub(super) fn shift(before: &[f64], after: &[f64]) -> Option<Shift> {
    let (before, after) = (thinned(before), thinned(after));
    let mut differences: Vec<f64> =
        before.iter().flat_map(|before| after.iter().map(move |after| after - before)).collect();
    differences.sort_unstable_by(f64::total_cmp);
    let middle = differences.len() / 2;
    let upper = *differences.get(middle)?;
    let median = if differences.len().is_multiple_of(2) { (differences.get(middle - 1)? + upper) / 2.0 } else { upper };
    let outside = differences_outside(before.len() as f64, after.len() as f64);
    let interval = outside.checked_sub(1).and_then(|first| {
        let last = differences.len().checked_sub(outside)?;
        Some((*differences.get(first)?, *differences.get(last)?))
    });
    Some(Shift { median, interval })
}

/// How many differences are outside of the interval on each side, counted with its end; 0 if there is no interval.
fn differences_outside(before: f64, after: f64) -> usize {
    let deviation = (before * after * (before + after + 1.0) / 12.0).sqrt();
    (before * after / 2.0 - STANDARD_ERRORS * deviation).floor().max(0.0) as usize
}

fn thinned(values: &[f64]) -> Vec<f64> {
    if values.len() <= MAX_VALUES {
        return values.to_vec();
    }
    (0..MAX_VALUES).filter_map(|index| values.get(index * values.len() / MAX_VALUES).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_shift_is_the_median_of_all_differences() {
        // Differences: 9, 10, 11, 8, 9, 10, 7, 8, 9.
        assert_eq!(shift(&[1.0, 2.0, 3.0], &[10.0, 11.0, 12.0]), Some(Shift { median: 9.0, interval: None }));
        assert_eq!(shift(&[], &[1.0]), None);
    }

    #[test]
    fn four_against_four_values_have_the_range_of_all_differences_as_interval() {
        let found = shift(&[1.0, 2.0, 3.0, 4.0], &[11.0, 12.0, 13.0, 14.0]).unwrap();
        assert_eq!(found, Shift { median: 10.0, interval: Some((7.0, 13.0)) });
    }

    #[test]
    fn one_outlier_changes_nothing() {
        let usual: Vec<f64> = (0..10).map(|step| 18.9 + 0.01 * f64::from(step)).collect();
        let slower: Vec<f64> = usual.iter().map(|time| time + 0.6).chain([89.0]).collect();
        let (low, high) = shift(&usual, &slower).unwrap().interval.unwrap();
        assert!(0.5 < low && high < 0.7, "{low} {high}");
    }

    /// Uniform noise of 5 %, by a linear congruential generator.
    fn noisy(seed: u64, count: usize, factor: f64) -> Vec<f64> {
        let mut state = seed.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(3_037_000_493);
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / (1_u64 << 31) as f64
        };
        (0..count).map(|_| factor * (100.0 + 10.0 * (next() - 0.5))).collect()
    }

    #[test]
    fn equal_runs_differ_in_at_most_five_per_cent_of_cases() {
        let excludes_zero = |seed: &u64| {
            let found = shift(&noisy(*seed, 20, 1.0), &noisy(seed + 10_000, 20, 1.0)).unwrap().interval.unwrap();
            found.0 > 0.0 || found.1 < 0.0
        };
        let wrong = (0..1_000).filter(excludes_zero).count();
        assert!(wrong < 70, "{wrong} of 1,000");
    }

    #[test]
    fn a_difference_of_one_per_cent_that_each_step_has_is_found() {
        let before: Vec<f64> = noisy(1, 20, 0.1).iter().map(|time| 90.0 + time / 10.0).collect();
        let after: Vec<f64> = before.iter().map(|time| 1.01 * time).collect();
        let (low, high) = shift(&before, &after).unwrap().interval.unwrap();
        assert!(low > 0.0 && low <= 0.92 && high >= 0.9, "{low} {high}");
    }

    proptest! {
        #[test]
        fn exchanged_samples_have_the_opposite_shift(
            before in prop::collection::vec(0_i32..1_000, 1..40), after in prop::collection::vec(0_i32..1_000, 1..40), by in 0_i32..1_000,
        ) {
            let values = |sample: &[i32], by: i32| sample.iter().map(|value| f64::from(value + by)).collect::<Vec<_>>();
            let (a, b) = (values(&before, 0), values(&after, 0));
            let (found, opposite) = (shift(&a, &b).unwrap(), shift(&b, &a).unwrap());
            prop_assert_eq!(found.median, -opposite.median);
            prop_assert_eq!(found.interval, opposite.interval.map(|(low, high)| (-high, -low)));
            let moved = shift(&a, &values(&after, by)).unwrap();
            prop_assert_eq!(moved.median, found.median + f64::from(by));
        }
    }
}
