//! `graph-work-missing`: graph launches have no work in the file, although later ones have. From the launches without ops; O(devices).

use super::row::{TrustId, TrustRow};
use super::unseen_time::longest_unseen;
use crate::analysis::context::Context;
use crate::analysis::recapture::{self, MissingData};
use crate::words;

pub(super) fn find(context: &Context) -> Option<TrustRow> {
    let launches = &context.trace.unrecorded_work.launches;
    if launches.graphs == 0 || launches.kernels > 0 {
        return None;
    }
    let unknown = longest_unseen(context, |time| time.after_a_lost_launch);
    let command = recapture::command(context.trace, MissingData::Kernels);
    let limit = words::trust::graph_work_missing(launches.graphs, launches.of_graphs, unknown, &command);
    Some(TrustRow::new(TrustId::GraphWorkMissing, limit))
}
