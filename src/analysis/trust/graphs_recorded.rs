//! `graphs-recorded`: the program records graphs, whose work runs only when they are replayed. From the times of stream captures.

use super::row::{TrustId, TrustRow};
use crate::analysis::context::Context;
use crate::analysis::graph_captures::capture_times;
use crate::trace::Ns;
use crate::words;

pub(super) fn find(context: &Context) -> Option<TrustRow> {
    let times = capture_times(context);
    let sum = times.iter().fold(Ns::ZERO, |sum, time| sum + *time);
    let limit = || words::trust::graphs_recorded(times.len() as u64, sum);
    (!times.is_empty()).then(|| TrustRow::new(TrustId::GraphsRecorded, limit()))
}
