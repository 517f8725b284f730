//! By how much the values of one sample exceed those of another: the Hodges-Lehmann estimate, the median of all differences, with the
//! interval of the Mann-Whitney test at 95 % (Hollander, Wolfe: Nonparametric Statistical Methods, section 4.3). A few outliers change
//! neither. Samples are thinned evenly to a bounded size, so the cost is bounded.

use crate::analysis::measure::percentiles;

/// An estimated difference, in the unit of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shift {
    pub(super) median: f64,
    /// The interval that contains the difference with 95 %; `None` if the samples are too small for one.
    pub(super) interval: Option<(i64, i64)>,
}

/// The values of a sample that are used at most.
const MAX_VALUES: usize = 300;

/// Standard errors of the normal distribution on each side of 95 %.
const STANDARD_ERRORS: f64 = 1.96;

/// How much larger the values of `after` are than those of `before`; `None` if one of them is empty.
pub(super) fn shift(before: &[i64], after: &[i64]) -> Option<Shift> {
    let (before, after) = (thinned(before), thinned(after));
    let of_one = |before: &i64| after.iter().map(|after| after.saturating_sub(*before)).collect::<Vec<_>>();
    let mut differences: Vec<i64> = before.iter().flat_map(of_one).collect();
    differences.sort_unstable();
    let median = percentiles::median(&differences)?;
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

fn thinned(values: &[i64]) -> Vec<i64> {
    if values.len() <= MAX_VALUES {
        return values.to_vec();
    }
    (0..MAX_VALUES).filter_map(|index| values.get(index * values.len() / MAX_VALUES).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    #[test]
    fn the_shift_is_the_median_of_all_differences() {
        // Differences: 9, 10, 11, 8, 9, 10, 7, 8, 9.
        assert_eq!(shift(&[1, 2, 3], &[10, 11, 12]), Some(Shift { median: 9.0, interval: None }));
        assert_eq!(shift(&[], &[1]), None);
    }

    #[test]
    fn four_against_four_values_have_the_range_of_all_differences_as_interval() {
        let found = shift(&[1, 2, 3, 4], &[11, 12, 13, 14]).unwrap();
        assert_eq!(found, Shift { median: 10.0, interval: Some((7, 13)) });
    }

    #[test]
    fn one_outlier_changes_nothing() {
        let usual: Vec<i64> = (0..10).map(|step| 18_900 + 10 * step).collect();
        let slower: Vec<i64> = usual.iter().map(|time| time + 600).chain([89_000]).collect();
        let (low, high) = shift(&usual, &slower).unwrap().interval.unwrap();
        assert!(500 < low && high < 700, "{low} {high}");
    }

    /// Twenty times with uniform noise of 5 %.
    fn noisy(runner: &mut TestRunner) -> Vec<i64> {
        prop::collection::vec(95_000_i64..105_000, 20).new_tree(runner).unwrap().current()
    }

    #[test]
    fn equal_runs_differ_in_about_five_per_cent_of_cases() {
        let mut runner = TestRunner::deterministic();
        let excludes_zero = |_: &u32| {
            let (low, high) = shift(&noisy(&mut runner), &noisy(&mut runner)).unwrap().interval.unwrap();
            low > 0 || high < 0
        };
        // Of 1,000 fair trials of 5 %, three standard deviations are 21.
        let wrong = (0..1_000).filter(excludes_zero).count();
        assert!((29..=71).contains(&wrong), "{wrong} of 1,000");
    }

    #[test]
    fn a_difference_of_one_per_cent_that_each_step_has_is_found() {
        let before: Vec<i64> = noisy(&mut TestRunner::deterministic()).iter().map(|time| 900_000 + time).collect();
        let after: Vec<i64> = before.iter().map(|time| time + time / 100).collect();
        let (low, high) = shift(&before, &after).unwrap().interval.unwrap();
        assert!(0 < low && low <= 10_050 && high >= 9_950, "{low} {high}");
    }

    proptest! {
        #[test]
        fn exchanged_samples_have_the_opposite_shift(
            before in prop::collection::vec(0_i64..1_000, 1..40), after in prop::collection::vec(0_i64..1_000, 1..40), by in 0_i64..1_000,
        ) {
            let (found, opposite) = (shift(&before, &after).unwrap(), shift(&after, &before).unwrap());
            prop_assert_eq!(found.median, -opposite.median);
            prop_assert_eq!(found.interval, opposite.interval.map(|(low, high)| (-high, -low)));
            let moved = shift(&before, &after.iter().map(|value| value + by).collect::<Vec<_>>()).unwrap();
            prop_assert_eq!(moved.median, found.median + by as f64);
        }
    }
}
