//! `steps-without-work`: steps are marked on the host while no GPU op of the file runs. From the steps; O(steps).

use super::row::{TrustId, TrustRow};
use crate::analysis::context::Context;
use crate::analysis::recapture::{self, MissingData};
use crate::analysis::structure::stages::Basis;
use crate::words::trust::{self as words, Side};

pub(super) fn find(context: &Context) -> Option<TrustRow> {
    let steps = &context.measured_steps().steps;
    // The work of a step may be outside of the window, or in a graph that was traced as a whole.
    if context.trace.cut.is_some() || !context.trace.graph_replays.is_empty() {
        return None;
    }
    if steps.iter().any(|measured| measured.step.basis != Basis::Host) {
        return None;
    }
    let extents = steps.iter().map(|measured| (measured.step.start, measured.step.end));
    let (first, last) = extents.reduce(|(first, last), (start, end)| (first.min(start), last.max(end)))?;
    let work = context.trace.span()?;
    if work.overlaps(first, last) {
        return None;
    }
    let (distance, side) = if work.end <= first {
        (first.since(work.end), Side::AfterTheLast)
    } else {
        (work.start.since(last), Side::BeforeTheFirst)
    };
    let command = recapture::command(context.trace, MissingData::Kernels);
    let limit = words::steps_without_work(steps.len() as u64, distance, side, &command);
    Some(TrustRow::new(TrustId::StepsWithoutWork, limit))
}
