//! `unsuited-kernels`: its evidence. Titles and actions are those of the patterns.

use super::Amount;
use crate::digits::grouped;
use crate::trace::Ns;
use crate::words::time_of;

/// `basis`: a sentence of the pattern. The evidence ends without a point, because sentences about the replay may follow.
pub(crate) fn evidence(amount: Amount, kernels: u64, total: Ns, basis: &str) -> String {
    let basis = basis.trim_end_matches('.');
    format!("{amount}: {} kernels take {}. {basis}", grouped(kernels), time_of(total))
}
