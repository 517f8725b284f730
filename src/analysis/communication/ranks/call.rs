//! One communication call of a rank, whole or limited to a window. O(1).

use super::log::RankWindow;
use crate::trace::Ns;
use std::ops::Range;

/// One call of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Call {
    /// Its number among the collectives of its group.
    pub(super) sequence: Option<i64>,
    pub(super) bytes: i64,
    pub(super) start_ns: i64,
    pub(super) duration_ns: i64,
    /// The part of the visible time in which it runs and no kernel computes.
    pub(super) exposed_ns: i64,
    /// The part of the whole call in which another kernel runs, whatever window is selected.
    pub(super) hidden_ns: i64,
    /// How the rank's GPU spent the time since the previous communication call.
    pub(super) before: Preparation,
    /// Start and end of the part inside the window, relative to the start of the call; `None` if the call is outside.
    pub(super) visible: Option<(i64, i64)>,
}

/// How a rank's GPU spent the time before a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Preparation {
    /// Idle, and the next op was not launched yet.
    pub(super) host_late_ns: i64,
    /// At least one op ran that is not communication.
    pub(super) work_ns: i64,
    /// In calls that were not matched.
    pub(super) communication_ns: i64,
    /// Idle after the launch of the next op, or with an unknown launch.
    pub(super) other_idle_ns: i64,
    /// At least one other kernel ran during the previous matched call; before the time that the other parts divide.
    pub(super) hidden_ns: i64,
}

impl Call {
    /// A fully visible call.
    pub(super) fn new(
        [bytes, start_ns, duration_ns, exposed_ns]: [i64; 4],
        sequence: Option<i64>,
        before: Preparation,
    ) -> Self {
        let exposed_ns = exposed_ns.clamp(0, duration_ns);
        let hidden_ns = duration_ns.saturating_sub(exposed_ns);
        let visible = Some((0, duration_ns));
        Self { sequence, bytes, start_ns, duration_ns, exposed_ns, hidden_ns, before, visible }
    }

    /// The visible part of the waiting until only this transfer remains.
    pub(super) fn waiting_ns(&self, transfer_ns: i64) -> i64 {
        self.visible_part_ns(0..self.duration_ns.saturating_sub(transfer_ns))
    }

    /// The same call limited to a window, with the exposed time inside the window.
    pub(super) fn within(self, window: &RankWindow, exposed_ns: i64) -> Self {
        let overlaps = window.window().overlaps(Ns(self.start_ns), Ns(self.end_ns()));
        let offset = |time: i64| time.saturating_sub(self.start_ns).clamp(0, self.duration_ns);
        let (from, to) = (offset(window.from_ns), offset(window.to_ns));
        let visible = (overlaps && from <= to).then_some((from, to));
        Self { visible, exposed_ns: exposed_ns.clamp(0, visible.map_or(0, |(from, to)| to - from)), ..self }
    }

    pub(super) fn end_ns(&self) -> i64 {
        self.start_ns.saturating_add(self.duration_ns)
    }

    /// The visible duration; `None` if the call is outside the window.
    pub(super) fn visible_ns(&self) -> Option<i64> {
        self.visible.map(|(from, to)| to - from)
    }

    /// The visible part of a range of times relative to the start of the call.
    pub(super) fn visible_part_ns(&self, range: Range<i64>) -> i64 {
        let (from, to) = self.visible.unwrap_or((0, 0));
        (to.min(range.end) - from.max(range.start)).max(0)
    }
}
