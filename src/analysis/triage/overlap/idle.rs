//! How long the devices wait, by the stage whose op ends the gap, and for what.

use super::rules::Rules;
use crate::analysis::host::idle::Cause;
use crate::analysis::time::intervals::each_gap;
use crate::analysis::triage::{Stage, View};
use crate::trace::{NameId, Ns};

/// The gaps that the ops of one stage end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Idle {
    pub(super) gaps: u64,
    pub(super) idle_ns: i64,
    /// By [`Cause::ALL`].
    by_cause: [i64; Cause::ALL.len()],
    /// The longest, and the name of the op that ended it.
    pub(super) longest: Option<(Ns, NameId)>,
    /// Gaps so long that the work before and after is not one piece: not idle time of the stage.
    pub(super) pauses_ns: i64,
}

impl Idle {
    pub(super) fn of(&self, cause: Cause) -> i64 {
        self.by_cause.get(cause as usize).copied().unwrap_or(0)
    }
}

/// The idle time of each stage, by [`Stage::ALL`], and of every op whether its device ran dry before it.
pub(super) fn idle(view: &View, rules: &Rules) -> ([Idle; Stage::ALL.len()], Vec<bool>) {
    let mut stages = [Idle::default(); Stage::ALL.len()];
    let mut dry = vec![false; view.trace.gpu_ops.len()];
    each_gap(&view.context, &mut |gap| {
        if let Some(dry) = dry.get_mut(gap.next) {
            *dry = true;
        }
        let (stage, op) = (view.stages.get(gap.next).copied().flatten(), view.trace.gpu_ops.get(gap.next));
        let stage = stage.and_then(|stage| stages.get_mut(stage as usize));
        let (Some(stage), Some(op)) = (stage, op) else { return };
        let length = gap.end.since(gap.start);
        if length.0 as f64 >= rules.thresholds.pause_us * 1e3 {
            stage.pauses_ns = stage.pauses_ns.saturating_add(length.0);
            return;
        }
        stage.gaps += 1;
        stage.idle_ns = stage.idle_ns.saturating_add(length.0);
        for (cause, part) in Cause::parts(&view.context, &gap) {
            let time = stage.by_cause.get_mut(cause as usize);
            time.into_iter().for_each(|time| *time = time.saturating_add(part.0));
        }
        if stage.longest.is_none_or(|(longest, _)| length > longest) {
            stage.longest = Some((length, op.name));
        }
    });
    (stages, dry)
}
