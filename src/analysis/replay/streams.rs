//! The op after which each op of a stream starts. One pass over the ops of each lane.
//!
//! An op follows the latest end before its start. If the op before still runs, but for no more than half of the shorter of the two, and
//! ends first, the op is a dependent launch (programmatic dependent launch): it may start early and ends after the other. Longer
//! overlaps are parallel branches of a graph: the op follows the latest end among the [`BRANCHES`] ops before it.

use super::ids::{Column, Id, Lane, Op};
use super::recorded::Recorded;

/// How far back a parallel branch may begin.
const BRANCHES: usize = 16;

/// What an op follows on its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Follows {
    /// It is the first.
    #[default]
    Nothing,
    /// It starts after the end of this op.
    EndOf(Op),
    /// It is a dependent launch and may start before this op ends.
    Overlaps(Op),
}

impl Follows {
    pub(super) fn op(self) -> Option<Op> {
        match self {
            Self::Nothing => None,
            Self::EndOf(op) | Self::Overlaps(op) => Some(op),
        }
    }
}

/// For each op, what it follows.
pub(super) fn followed(recorded: &Recorded) -> Column<Op, Follows> {
    let mut followed = Column::filled(recorded.ops.len(), Follows::Nothing);
    for lane in (0..recorded.lanes).map(Lane::of) {
        let ops = recorded.on_lane.of(lane);
        let mut latest: Option<Op> = None;
        for (index, id) in ops.iter().copied().enumerate() {
            let before = index.checked_sub(1).and_then(|before| ops.get(before)).copied();
            followed.set(id, follows(recorded, id, before, latest, ops.get(index.saturating_sub(BRANCHES)..index)));
            if latest.is_none_or(|latest| recorded.op(id).end > recorded.op(latest).end) {
                latest = Some(id);
            }
        }
    }
    followed
}

fn follows(recorded: &Recorded, id: Op, before: Option<Op>, latest: Option<Op>, branches: Option<&[Op]>) -> Follows {
    let op = recorded.op(id);
    if let Some(before_id) = before {
        let before = recorded.op(before_id);
        let overlap = before.end.since(op.start).0;
        let shorter = before.duration().min(op.duration()).0;
        if overlap > 0 && op.end >= before.end && overlap <= shorter / 2 {
            return Follows::Overlaps(before_id);
        }
    }
    if let Some(latest) = latest.filter(|latest| recorded.op(*latest).end <= op.start) {
        return Follows::EndOf(latest);
    }
    let ended = branches.unwrap_or_default().iter().rev().copied().filter(|id| recorded.op(*id).end <= op.start);
    ended.max_by_key(|id| recorded.op(*id).end).map_or(Follows::Nothing, Follows::EndOf)
}
