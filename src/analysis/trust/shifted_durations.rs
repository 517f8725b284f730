//! `durations-shifted`: the durations of graph replays belong to neighbouring kernels. From the comparison of the context.

use super::row::{TrustId, TrustRow};
use crate::analysis::context::Context;
use crate::analysis::structure::shifted_durations::ShiftedDurations;
use crate::words;

pub(super) fn find(context: &Context) -> Option<TrustRow> {
    let &ShiftedDurations { layers, shifted, .. } = context.shifted_durations();
    let limit = || words::trust::durations_shifted(shifted as u64, layers as u64);
    (shifted > 0).then(|| TrustRow::new(TrustId::DurationsShifted, limit()))
}
