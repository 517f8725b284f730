//! The row of a limit, and the ids of all limits.

use crate::analysis::section::{Sections, TypedSection, section, words};
use crate::words::trust::Limit;

section! {
    /// Each reason to trust some results less.
    pub(crate) struct Trust("trust", "Limits of this trace");
    row TrustRow {
        id: TrustId,
        text: String,
        /// The results that it affects.
        affects: String,
    }
}

/// A reason to trust some results less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum TrustId {
    UnseenWork,
    GraphWorkMissing,
    /// The file has several captures.
    RecordingHoles,
    /// Launches of kernels, and maybe of graphs, have no op.
    LaunchWorkMissing,
    /// The last launches of kernels have no op.
    LaunchesAtEnd,
    /// Calls waited for the device for longer than its ops ran.
    WaitsOutlastWork,
    /// The capture contains launches that load kernels.
    FirstLaunches,
    /// The program starts in the capture, without such launches.
    StartUp,
    /// The program records graphs, whose work runs only when they are replayed.
    GraphsRecorded,
    /// No step has GPU work.
    StepsWithoutWork,
    DurationsShifted,
    GraphsTracedWhole,
    ClockSkew,
    /// The profiler ran the kernels one at a time.
    CounterRun,
    CaptureOverhead,
    /// The profiler held host threads.
    ProfilerPauses,
    SingleStep,
    OneRankOfMany,
    /// A word of another version.
    #[default]
    Other,
}

words!(
    TrustId:
    UnseenWork = "unseen-work",
    GraphWorkMissing = "graph-work-missing",
    RecordingHoles = "recording-holes",
    LaunchWorkMissing = "launch-work-missing",
    LaunchesAtEnd = "launches-at-end",
    WaitsOutlastWork = "waits-outlast-work",
    FirstLaunches = "first-launches",
    StartUp = "start-up",
    GraphsRecorded = "graphs-recorded",
    StepsWithoutWork = "steps-without-work",
    DurationsShifted = "durations-shifted",
    GraphsTracedWhole = "graphs-traced-whole",
    ClockSkew = "clock-skew",
    CounterRun = "counter-run",
    CaptureOverhead = "capture-overhead",
    ProfilerPauses = "profiler-pauses",
    SingleStep = "single-step",
    OneRankOfMany = "one-rank-of-many",
    Other = "",
);

impl Trust {
    /// Whether the section has a row with this id.
    pub(crate) fn has(sections: &Sections, id: TrustId) -> bool {
        Self::rows(sections).iter().any(|row| row.id == id)
    }
}

impl TrustRow {
    pub(super) fn new(id: TrustId, Limit { text, affects }: Limit) -> Self {
        Self { id, text, affects: affects.to_owned() }
    }
}
