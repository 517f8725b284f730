//! `graphs-traced-whole`: graphs have one record each, without their kernels. O(graph replays).

use super::row::{TrustId, TrustRow};
use crate::trace::{Ns, Trace};
use crate::words;

pub(super) fn find(trace: &Trace) -> Option<TrustRow> {
    let replays = trace.graph_replays.len();
    let total = || trace.graph_replays.iter().fold(Ns::ZERO, |sum, replay| sum + replay.duration);
    let limit = || words::trust::graphs_traced_whole(replays as u64, total());
    (replays > 0).then(|| TrustRow::new(TrustId::GraphsTracedWhole, limit()))
}
