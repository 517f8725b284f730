//! One finding, its certainty and its severity.

use crate::analysis::host::idle_cause::IdleCause;
use crate::analysis::replay::costs::Saving;
use crate::analysis::section::words;
use serde::Serialize;

/// The identifier of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the files of the same names describe them")]
pub enum FindingId {
    HostLate,
    Compilation,
    ReplayPreparation,
    SyncDrain,
    PageableCopies,
    UnifiedMemoryMigration,
    HostCopies,
    ExposedCommunication,
    CommunicationWaits,
    ShortKernels,
    UnsuitedKernels,
    HostWaits,
    Allocations,
    FarFromRoof,
    UnfusedKernels,
    StartUp,
    /// A finding of another tool or version.
    #[default]
    #[serde(rename = "")]
    Other,
}

words!(
    FindingId:
    HostLate = "host-late",
    Compilation = "compilation",
    ReplayPreparation = "replay-preparation",
    SyncDrain = "sync-drain",
    PageableCopies = "pageable-copies",
    UnifiedMemoryMigration = "unified-memory-migration",
    HostCopies = "host-copies",
    ExposedCommunication = "exposed-communication",
    CommunicationWaits = "communication-waits",
    ShortKernels = "short-kernels",
    UnsuitedKernels = "unsuited-kernels",
    HostWaits = "host-waits",
    Allocations = "allocations",
    FarFromRoof = "far-from-roof",
    UnfusedKernels = "unfused-kernels",
    StartUp = "start-up",
    Other = "",
);

impl FindingId {
    /// The cause of the idle time that the finding is about; `None` if it is about something else.
    pub(crate) fn idle_cause(self) -> Option<IdleCause> {
        match self {
            Self::HostLate | Self::ReplayPreparation => Some(IdleCause::HostLate),
            Self::SyncDrain => Some(IdleCause::Drained),
            Self::Compilation => Some(IdleCause::Compiling),
            Self::StartUp => Some(IdleCause::StartUp),
            _ => None,
        }
    }

    /// Whether the cost is the time in whole steps: it is replayed, or idle time for which the host is late.
    pub(crate) fn is_of_whole_steps(self, is_replayed: bool) -> bool {
        is_replayed || matches!(self.idle_cause(), Some(IdleCause::HostLate | IdleCause::Drained))
    }

    /// The findings about a cause of idle time.
    pub(crate) fn of_cause(cause: IdleCause) -> impl Iterator<Item = Self> {
        let all = [Self::HostLate, Self::ReplayPreparation, Self::SyncDrain, Self::Compilation, Self::StartUp];
        all.into_iter().filter(move |id| id.idle_cause() == Some(cause))
    }
}

/// How certain a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Confidence {
    /// A report of another tool, which does not state it.
    #[default]
    #[serde(rename = "")]
    Unknown,
    /// The capture itself may cause it, or another cause is as likely.
    Low,
    /// An estimate, or seen in few repetitions.
    Medium,
    /// The trace shows it directly.
    High,
}

words!(Confidence: Unknown = "", Low = "low", Medium = "medium", High = "high");

/// How much of the time a finding costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// A word of another tool.
    #[default]
    #[serde(rename = "")]
    Unknown,
    /// Little.
    Low,
    /// A notable part.
    Medium,
    /// A large part, with a certain cause.
    High,
}

words!(Severity: Unknown = "", Low = "low", Medium = "medium", High = "high");

#[derive(Debug)]
pub(super) struct Finding {
    pub(super) id: FindingId,
    pub(super) confidence: Confidence,
    /// A noun phrase, as within a sentence.
    pub(super) title: &'static str,
    pub(super) cost_ms: f64,
    pub(super) evidence: String,
    pub(super) action: String,
    /// The finding that costs the same time and has the advice for it.
    pub(super) same_as: Option<FindingId>,
    /// What a step would take without it; `None` if it was not replayed.
    pub(super) what_if: Option<Saving>,
    /// The section with the evidence.
    pub(super) section: &'static str,
}

/// The middle of what a finding costs at most, and at least where that is known.
pub(super) fn middle_ms(most_ms: f64, least_ms: Option<f64>) -> f64 {
    (most_ms + least_ms.unwrap_or(most_ms)) / 2.0
}

impl Finding {
    /// Whether the cost is the time in whole steps; else that in all steps. See [`crate::analysis::unit`].
    pub(super) fn is_of_whole_steps(&self) -> bool {
        self.id.is_of_whole_steps(self.what_if.is_some())
    }

    /// The part of the cost that the replay proves; `None` if it was not replayed.
    pub(super) fn proven_ms(&self) -> Option<f64> {
        self.what_if.as_ref().map(|saving| saving.proven_ms().min(self.cost_ms))
    }

    /// The replay, if it saves what the finding costs. A replay without all communication says nothing of its waits alone.
    pub(super) fn replayed(&self) -> Option<&Saving> {
        /// Waits of the host, which are no part of the cost, may be a small part of what the replay saves.
        const SAME: f64 = 0.05;
        self.what_if.as_ref().filter(|saving| (saving.high_ms - self.cost_ms).abs() <= SAME * self.cost_ms)
    }
}
