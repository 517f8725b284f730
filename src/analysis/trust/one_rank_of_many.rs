//! `one-rank-of-many`: the file has one rank of a job. From the metadata of the trace; O(processes).

use super::row::{TrustId, TrustRow};
use crate::trace::Trace;
use crate::words;

pub(super) fn find(trace: &Trace) -> Option<TrustRow> {
    let job = trace.job.as_deref().filter(|job| job.world_size > 1)?;
    // A file of merged ranks has one named process for each rank.
    let labelled = trace.processes.iter().filter(|process| !process.name.is_empty()).count();
    let ranks = labelled.max(trace.merged_ranks());
    let limit = || words::trust::one_rank_of_many(job.rank, job.world_size);
    (ranks <= 1).then(|| TrustRow::new(TrustId::OneRankOfMany, limit()))
}
