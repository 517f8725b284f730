//! The layers of a model: their order and roles in words, and what limits their figures. From letters, counts and shares.

use super::percent_0;
use crate::trace::Fraction;

/// Kinds of layers in order, as run lengths: `A48`, `A3M58`; `(AB)12` if the runs are repeated.
pub(crate) fn pattern(runs: &[(&str, usize)], repeats: usize) -> String {
    let run =
        |(letter, count): &(&str, usize)| if *count > 1 { format!("{letter}{count}") } else { (*letter).to_owned() };
    let runs: String = runs.iter().map(run).collect();
    if repeats > 1 { format!("({runs}){repeats}") } else { runs }
}

/// A role in another pass of a training step: `backward gate/up`.
pub(crate) fn role_in_pass(pass: &str, role: &str) -> String {
    format!("{pass} {role}")
}

/// The reduction of a matrix product: `o split-K`.
pub(crate) fn reduction(product: &str, reduction: &str) -> String {
    format!("{product} {reduction}")
}

/// Which layers are equal. `outlier`: from this difference on, a layer is one.
pub(crate) fn equal_layers(outlier: Fraction) -> String {
    format!(
        "Equal layers have the most frequent sequence of kernels. An outlier differs by more than {} from the median; the first \
         layer has number 0.",
        percent_0(outlier)
    )
}

/// What an outlier is in the list of layers.
pub(crate) fn outliers(outlier: Fraction) -> String {
    let outlier = percent_0(outlier);
    format!("An outlier differs by more than {outlier} from the median of its kind. The first layer has number 0.")
}

/// Steps that are no repeated layers. `least`: the share of a step that layers need.
pub(crate) fn no_layers(least: Fraction) -> String {
    format!("Less than {} of a step consists of repeated layers with attention kernels.", percent_0(least))
}
