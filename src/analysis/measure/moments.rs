//! Mean and variance of durations. One pass each; the robust variance sorts.

use super::percentiles::median;

/// The standard deviation of normally distributed values, as a multiple of their median distance from their median.
const DEVIATION_OF_MEDIAN_DISTANCE: f64 = 1.4826;

/// The mean; `None` without values.
pub(crate) fn mean(values: &[i64]) -> Option<f64> {
    let sum: i128 = values.iter().map(|value| i128::from(*value)).sum();
    (!values.is_empty()).then(|| sum as f64 / values.len() as f64)
}

/// The variance of the population that a sample is from; `None` for fewer than two values.
pub(crate) fn variance(values: &[i64]) -> Option<f64> {
    let degrees_of_freedom = values.len().checked_sub(1).filter(|degrees| *degrees > 0)?;
    let mean = mean(values)?;
    let squares: f64 = values.iter().map(|value| (*value as f64 - mean).powi(2)).sum();
    Some(squares / degrees_of_freedom as f64)
}

/// The square of the standard error of the mean; `None` for fewer than two values.
pub(crate) fn squared_error_of_mean(values: &[i64]) -> Option<f64> {
    Some(variance(values)? / values.len() as f64)
}

/// The same from values without the influence of a few outliers: from the median distance from the median. `values` is sorted.
pub(crate) fn robust_squared_error_of_mean(values: &[i64]) -> Option<f64> {
    let middle = median(values)?;
    let mut distances: Vec<i64> = values.iter().map(|value| (*value as f64 - middle).abs().round() as i64).collect();
    distances.sort_unstable();
    let deviation = DEVIATION_OF_MEDIAN_DISTANCE * median(&distances)?;
    Some(deviation * deviation / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variance_is_that_of_the_population_of_a_sample() {
        // By hand: the mean is 4, the squares are 4, 0 and 4, and two values are free.
        assert_eq!((mean(&[2, 4, 6]), variance(&[2, 4, 6])), (Some(4.0), Some(4.0)));
        assert_eq!(squared_error_of_mean(&[9, 11]), Some(1.0));
        assert_eq!((mean(&[]), variance(&[7])), (None, None));
    }

    #[test]
    fn an_outlier_does_not_change_the_robust_error() {
        // The median is 30; the distances are 0, 10, 10, 20 and 20, or 970 instead of a 20: their median is 10.
        let expected = Some((1.4826 * 10.0_f64).powi(2) / 5.0);
        assert_eq!(robust_squared_error_of_mean(&[10, 20, 30, 40, 50]), expected);
        assert_eq!(robust_squared_error_of_mean(&[10, 20, 30, 40, 1000]), expected);
        assert_eq!(robust_squared_error_of_mean(&[]), None);
    }
}
