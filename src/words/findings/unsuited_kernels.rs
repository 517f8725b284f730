//! `unsuited-kernels`: its evidence. Titles and actions are those of the patterns.

use super::Amount;
use crate::digits::grouped;
use crate::trace::Ns;
use crate::words::time_of;

/// `basis`: a sentence of the pattern without its end.
pub(crate) fn evidence(amount: Amount, kernels: u64, total: Ns, basis: &str) -> String {
    format!("{amount}: {} kernels take {}. {basis}", grouped(kernels), time_of(total))
}
