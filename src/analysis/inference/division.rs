//! How the traced model is divided over GPUs: as the user or the arguments of the server say, or one GPU if the trace shows no other. In constant time.

use super::floor::Parallel;
use super::served_model::ServedModel;
use crate::analysis::context::Context;
use crate::words::step_floor as words;

/// The division of a model over GPUs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Division {
    pub(super) parallel: Parallel,
    /// In words; `None` if it is not known.
    pub(super) words: Option<String>,
    /// Whether nothing about it is assumed.
    pub(super) is_certain: bool,
}

impl Division {
    pub(super) const UNKNOWN: &str = "The trace shows several GPUs or ranks, and how they share the model is not known: give --tp, \
         --ep, --pp and --dp.";

    pub(super) fn of(context: &Context, model: &ServedModel) -> Self {
        let trace = context.trace;
        let ranks = trace.job.as_ref().map(|job| job.world_size);
        let has_many =
            ranks.is_some_and(|ranks| ranks > 1) || trace.devices.len() > 1 || context.collectives().is_some();
        let Parallel { tp, ep, pp, dp } = model.parallel.unwrap_or_default();
        let words = match (model.parallel, ranks) {
            (Some(_), _) => Some(words::division([tp, ep, pp, dp], model.is_by_server)),
            (None, _) if has_many => None,
            (None, Some(_)) => Some("one rank".to_owned()),
            (None, None) => Some("one GPU assumed".to_owned()),
        };
        Self {
            parallel: model.parallel.unwrap_or_default(),
            words,
            is_certain: model.parallel.is_some() || ranks == Some(1) && !has_many,
        }
    }
}
