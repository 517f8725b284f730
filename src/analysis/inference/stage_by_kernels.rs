//! The stage of a step that no annotation states, from the names of its attention kernels. O(names + ops).

use super::kernel_roles::NameRoles;
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::structure::stages::Stage;
use crate::rules::signals::CallKind;
use crate::trace::{NameId, Trace};

/// Which stages run an attention kernel of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct NameStages {
    is_attention: bool,
    prefill: bool,
    decode: bool,
}

/// The stages that the names of a trace belong to.
#[derive(Debug)]
pub(crate) struct AttentionStages(Vec<NameStages>);

impl AttentionStages {
    pub(crate) fn of(trace: &Trace, roles: &NameRoles) -> Self {
        let stages = |(name, id)| {
            let is_attention = roles.get(id).is_attention();
            NameStages {
                is_attention,
                prefill: is_attention && NameRoles::is_prefill_attention(name),
                decode: is_attention && NameRoles::is_decode_attention(name),
            }
        };
        Self(trace.names.iter().zip((0..).map(NameId)).map(stages).collect())
    }

    /// The stage of a step with ops in these rows. A kernel that prefill alone runs tells nothing in a graph replay, because
    /// engines replay it for decode.
    pub(crate) fn of_step(&self, classified: &ClassifiedTrace, rows: &[u32]) -> Stage {
        let ops = &classified.trace.gpu_ops;
        let stages = |row: &u32| {
            let name = ops.get(*row as usize)?.name;
            self.0.get(name.0 as usize).filter(|stages| stages.is_attention).map(|stages| (*row, *stages))
        };
        let attention = || rows.iter().filter_map(stages);
        let is_replay = attention().next().is_some_and(|(row, _)| is_replayed(classified, row));
        match (attention().any(|(_, name)| name.prefill), attention().any(|(_, name)| name.decode)) {
            (true, false) if !is_replay => Stage::Prefill,
            (false, true) => Stage::Decode,
            _ => Stage::All,
        }
    }
}

fn is_replayed(classified: &ClassifiedTrace, row: u32) -> bool {
    let trace = classified.trace;
    let call = trace.gpu_ops.launch(row as usize).and_then(|call| trace.calls.get(call.0 as usize));
    call.is_some_and(|call| classified.call_kind(call.name) == CallKind::GraphLaunch)
}
