//! Whether the values of a sequence grow or fall from its beginning to its end: the line of Theil and Sen through them, which a few
//! outliers do not move, and the rank test of Mann and Kendall. Long sequences are thinned evenly, so the cost is bounded.

/// A line through a sequence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trend {
    /// Its value at the first position.
    pub(crate) first: f64,
    /// Its value at the last position.
    pub(crate) last: f64,
    /// How many standard deviations the number of growing pairs is away from that of a random order. Negative if the values fall.
    pub(crate) sigmas: f64,
}

/// The values that are used at most.
const MAX_VALUES: usize = 300;

/// The trend of values at even distances; `None` for fewer than two.
pub(crate) fn trend(values: &[i64]) -> Option<Trend> {
    let count = values.len().min(MAX_VALUES);
    let at = |index: usize| Some(*values.get(index * values.len() / count)? as f64);
    let values: Vec<f64> = (0..count).filter_map(at).collect();
    let pairs = || {
        let of_one = |(index, value)| {
            values.iter().enumerate().skip(index + 1).map(move |(at, later)| (at - index, later - value))
        };
        values.iter().enumerate().flat_map(of_one)
    };
    let slope = middle(pairs().map(|(distance, growth)| growth / distance as f64).collect())?;
    let first = middle(values.iter().enumerate().map(|(index, value)| value - slope * index as f64).collect())?;
    let score: i64 = pairs().map(|(_, growth)| i64::from(growth > 0.0) - i64::from(growth < 0.0)).sum();
    let n = count as f64;
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    Some(Trend { first, last: first + slope * (n - 1.0), sigmas: score as f64 / deviation })
}

/// The median; `None` without values.
fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = |index: usize| values.get(index).copied();
    Some(f64::midpoint(middle(values.len().checked_sub(1)? / 2)?, middle(values.len() / 2)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_outlier_does_not_move_the_line() {
        let mut values: Vec<i64> = (0..20).map(|index| 100 + index).collect();
        values[7] = 9_000;
        let found = trend(&values).unwrap();
        assert!((found.first - 100.0).abs() < 0.5 && (found.last - 119.0).abs() < 0.5, "{found:?}");
    }

    #[test]
    fn the_test_counts_growing_pairs() {
        // By hand: six growing pairs of four values, and the deviation is sqrt(4 * 3 * 13 / 18).
        let found = trend(&[1, 2, 3, 4]).unwrap();
        assert_eq!((found.first, found.last), (1.0, 4.0));
        assert!((found.sigmas - 6.0 / (26.0_f64 / 3.0).sqrt()).abs() < 1e-9);
        assert_eq!(trend(&[5, 5, 5]), Some(Trend { first: 5.0, last: 5.0, sigmas: 0.0 }));
        assert_eq!(trend(&[1]), None);
    }

    #[test]
    fn a_long_sequence_keeps_its_ends() {
        let found = trend(&(0..10_000).collect::<Vec<_>>()).unwrap();
        assert!(found.first.abs() < 1.0 && found.last > 9_900.0, "{found:?}");
    }

    proptest! {
        #[test]
        fn the_reverse_has_the_opposite_trend(values in prop::collection::vec(0_i64..1_000, 2..60)) {
            let reversed: Vec<i64> = values.iter().rev().copied().collect();
            let [found, opposite] = [&values, &reversed].map(|values| trend(values).unwrap());
            prop_assert!((found.sigmas + opposite.sigmas).abs() < 1e-9);
            prop_assert!((found.first - opposite.last).abs() < 1e-6 && (found.last - opposite.first).abs() < 1e-6);
        }
    }
}
