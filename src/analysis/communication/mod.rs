//! The time that GPUs spend on communication with each other.
//!
//! - [`collectives`]: time, overlap, message sizes and stragglers of each collective operation in one trace.
//! - [`operations`]: which operation each communication kernel belongs to.
//! - [`waiting`]: how much of one rank's communication is waiting, an estimate.
//! - [`costs`]: time by operation, algorithm and message size; `algorithms`: the algorithm of a kernel.
//! - [`ranks`]: which rank of a job the others wait for, from the traces of several ranks.

mod algorithms;
pub mod collectives;
pub mod costs;
pub mod operations;
pub mod ranks;
pub mod waiting;

use super::measure::percentiles;

/// The median of numbers; zero if there are none.
fn median(mut values: Vec<i64>) -> f64 {
    values.sort_unstable();
    percentiles::median(&values).unwrap_or(0.0)
}

/// `part` in percent of `whole`; zero if `whole` is not positive.
fn percent(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { 100.0 * part / whole } else { 0.0 }
}

/// The difference of each value from the median of all in percent; of two values, from the other one.
fn skews_pct(values: &[i64]) -> Vec<f64> {
    let skew = |own: i64, reference: f64| percent(own as f64 - reference, reference);
    if let [first, second] = *values {
        return vec![skew(first, second as f64), skew(second, first as f64)];
    }
    let median = median(values.to_vec());
    values.iter().map(|own| skew(*own, median)).collect()
}
