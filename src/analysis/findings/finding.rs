//! One finding, its certainty and its severity.

/// How certain a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Confidence {
    /// The capture itself may cause it, or another cause is as likely.
    Low,
    /// An estimate, or seen in few repetitions.
    Medium,
    /// The trace shows it directly.
    High,
}

impl Confidence {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

/// How much of the time a finding costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Severity {
    Low,
    Medium,
    High,
}

impl Severity {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Low => "low",
            Self::Medium => "medium",
            Self::High => "high",
        }
    }
}

#[derive(Debug)]
pub(super) struct Finding {
    /// Stable identifier in kebab-case.
    pub(super) id: &'static str,
    pub(super) confidence: Confidence,
    /// A noun phrase.
    pub(super) title: &'static str,
    pub(super) cost_ms: f64,
    pub(super) evidence: String,
    pub(super) action: String,
    /// The section with the evidence.
    pub(super) section: &'static str,
}
