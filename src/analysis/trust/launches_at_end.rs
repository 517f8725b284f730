//! `launches-at-end`: the launches at the end of the capture have no op. From the launches without ops, and the calls once.

use super::row::{TrustId, TrustRow};
use crate::analysis::context::Context;
use crate::analysis::recapture::{self, MissingData};
use crate::words;

pub(super) fn find(context: &Context) -> Option<TrustRow> {
    let launches = &context.trace.unrecorded_work.launches;
    let from = launches.unfinished_from?;
    let last = context.trace.calls.iter().map(|call| call.end()).max()?;
    let command = recapture::command(context.trace, MissingData::Kernels);
    let limit = words::trust::launches_at_end(launches.unfinished, launches.of_kernels, last.since(from), &command);
    Some(TrustRow::new(TrustId::LaunchesAtEnd, limit))
}
