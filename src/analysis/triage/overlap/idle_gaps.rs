//! Idle time of the devices by cause, assigned to the stage of the op that ends each gap. One pass over the ops.

use super::rules::Rules;
use crate::analysis::host::idle_cause::{IdleCause, each_gap};
use crate::analysis::triage::{Stage, View};
use crate::trace::{NameId, Ns};

/// The idle gaps that end with an op of one stage.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct IdleTime {
    pub(super) gaps: u64,
    pub(super) idle_ns: i64,
    /// Indexed by [`IdleCause::ALL`].
    by_cause: [i64; IdleCause::ALL.len()],
    /// The longest gap and the name of the op that ended it.
    pub(super) longest: Option<(Ns, NameId)>,
    /// Compilation, and gaps of at least `pause_us`, which separate unrelated work. They do not count as idle time.
    pub(super) pauses_ns: i64,
}

impl IdleTime {
    pub(super) fn of_cause(&self, cause: IdleCause) -> i64 {
        self.by_cause.get(cause as usize).copied().unwrap_or(0)
    }

    /// Time in which the host launched the next op too late, also after a call that had waited for the device.
    pub(super) fn launched_late(&self) -> i64 {
        self.of_cause(IdleCause::HostLate).saturating_add(self.of_cause(IdleCause::Drained))
    }
}

fn is_pause(cause: IdleCause) -> bool {
    matches!(cause, IdleCause::Compiling | IdleCause::StartUp | IdleCause::Profiler)
}

/// The idle time of each stage, indexed by [`Stage::ALL`]; and for each op whether its device was idle before it.
pub(super) fn idle_by_stage(view: &View, rules: &Rules) -> ([IdleTime; Stage::ALL.len()], Vec<bool>) {
    let mut stages = [IdleTime::default(); Stage::ALL.len()];
    let mut follows_idle = vec![false; view.trace.gpu_ops.len()];
    each_gap(&view.context, &mut |gap, parts| {
        if let Some(flag) = follows_idle.get_mut(gap.next_row) {
            *flag = true;
        }
        let (stage, op) = (view.stages.get(gap.next_row).copied().flatten(), view.trace.gpu_ops.get(gap.next_row));
        let stage = stage.and_then(|stage| stages.get_mut(stage as usize));
        let (Some(stage), Some(op)) = (stage, op) else { return };
        // Work that the trace does not contain is no idle time; compilation, loading and the profiler are pauses.
        let preparing = parts.0.iter().filter(|(cause, _)| is_pause(*cause)).fold(Ns::ZERO, |sum, part| sum + part.1);
        stage.pauses_ns = stage.pauses_ns.saturating_add(preparing.0);
        let length = gap.length().since(parts.length_of(IdleCause::Unseen)).since(preparing);
        if length == Ns::ZERO {
            return;
        }
        if length.0 as f64 >= rules.thresholds.pause_us * 1e3 {
            stage.pauses_ns = stage.pauses_ns.saturating_add(length.0);
            return;
        }
        stage.gaps += 1;
        stage.idle_ns = stage.idle_ns.saturating_add(length.0);
        let is_delay = |cause: IdleCause| cause != IdleCause::Unseen && !is_pause(cause);
        for (cause, part) in parts.0.into_iter().filter(|(cause, _)| is_delay(*cause)) {
            let time = stage.by_cause.get_mut(cause as usize);
            time.into_iter().for_each(|time| *time = time.saturating_add(part.0));
        }
        if stage.longest.is_none_or(|(longest, _)| length > longest) {
            stage.longest = Some((length, op.name));
        }
    });
    (stages, follows_idle)
}
