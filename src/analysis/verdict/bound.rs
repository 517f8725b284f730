//! What takes most of the time: by the measured times, and by the critical path if the replay says something. O(rows).

use super::sentences::Subject;
use crate::analysis::key_figures::is_almost_empty;
use crate::analysis::replay::cause::Cause;
use crate::analysis::replay::costs::{Costs, PathGroup};
use crate::analysis::results::{Run, WallSource};
use crate::analysis::trust::{Trust, TrustId};
use crate::analysis::unit::Unit;
use crate::trace::CODE_IS_BUILT;

/// What takes most of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    /// The GPU waits for launches or for blocking calls.
    Host,
    /// Communication runs without compute.
    Communication,
    /// Communication and compute overlap too much for shares of categories.
    Overlap,
    /// The launching thread waits for another thread or process.
    Waiting,
    /// Delays between host and GPU.
    Delays,
    /// The usual step and the mean step are bound by different causes: a few long steps have a cause of their own.
    Uneven,
    /// Idle time without a known cause.
    UnknownIdle,
    /// The GPU idles while code is compiled.
    Compilation,
    /// The GPU idles while kernels are launched for the first time.
    Loading,
    /// The GPU works almost never, and no steps are marked.
    Nothing,
    /// No GPU op of the file runs while the marked steps run.
    StepsWithoutWork,
    /// The durations of graph replays do not belong to their kernel names, so no category can be named.
    ShiftedDurations,
    /// Work without records may have taken more time than what is recorded.
    Unrecorded,
    Compute,
}

impl Bound {
    pub(super) fn of(subject: &Subject) -> Self {
        if !CODE_IS_BUILT {
            return Self::Compute;
        }
        let Subject { run, thresholds, times } = subject;
        let compute = times.busy - times.exposed;
        if Trust::has(&run.sections, TrustId::StepsWithoutWork) {
            return Self::StepsWithoutWork;
        }
        if times.window == 0.0 {
            return Self::Compute;
        }
        if let Some(idle) = Self::of_idle_time(subject) {
            idle
        } else if run.has_shifted_durations() {
            Self::ShiftedDurations
        } else if times.unrecorded > 0.0 && !leads_by(run, times.unrecorded) {
            Self::Unrecorded
        } else if times.overlapped > thresholds.communication_overlap * times.busy {
            Self::Overlap
        } else if times.exposed > compute {
            Self::Communication
        } else {
            Self::Compute
        }
    }

    /// What keeps the GPU idle for most of the time. A given wall time is not that of the trace.
    fn of_idle_time(subject: &Subject) -> Option<Self> {
        let Subject { run, times, .. } = subject;
        let (unknown, busy) = times.unknown_and_busy();
        if run.wall.source != WallSource::Window {
            None
        } else if times.is_compiling() {
            Some(Self::Compilation)
        } else if is_almost_empty(run) {
            Some(Self::Nothing)
        } else if times.is_loading() {
            Some(Self::Loading)
        } else if times.is_host_bound() {
            Some(Self::Host)
        } else {
            (unknown > busy + times.unrecorded).then_some(Self::UnknownIdle)
        }
    }

    /// What the critical path says instead, if the replay of the whole run says something. A part of the time, a given wall time and
    /// work without records leave it to the measured times.
    pub(super) fn of_path(self, subject: &Subject) -> Option<(Self, Costs)> {
        let Subject { run, thresholds, .. } = subject;
        let is_of_path = matches!(
            self,
            Self::Host | Self::Loading | Self::Communication | Self::Overlap | Self::UnknownIdle | Self::Compute
        );
        if !CODE_IS_BUILT || !is_of_path || run.wall.source != WallSource::Window {
            return None;
        }
        let costs = Costs::of(&run.sections, Unit::of(&run.sections, thresholds))?;
        let (largest, _) = *costs.groups().first()?;
        let bound = match largest {
            PathGroup::Open => return None,
            PathGroup::Waiting => Self::Waiting,
            PathGroup::Delays => Self::Delays,
            _ => match costs.lead() {
                lead if lead != costs.lead_of_mean() => Self::Uneven,
                Cause::Host => Self::Host,
                Cause::Communication => Self::Communication,
                _ => Self::Compute,
            },
        };
        // A host that launches kernels for the first time in the replayed window loads code.
        let is_loading = self == Self::Loading && bound == Self::Host && !costs.has_first_uses();
        (!is_loading).then_some((bound, costs))
    }
}

/// Whether the first category leads by more than this time of all devices.
fn leads_by(run: &Run, ms: f64) -> bool {
    let mut times = run.categories.iter().map(|category| category.elapsed_ns as f64 / 1e6);
    let (first, second) = (times.next().unwrap_or_default(), times.next().unwrap_or_default());
    first - second > ms
}
