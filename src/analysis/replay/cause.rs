//! The id of a row of `what_if`: what is different, and of which code, op or kernel. It is written as `host` or `code:_prepare_inputs`,
//! and read back from an earlier report. O(length of the id).

use crate::analysis::section::{ColumnKind, Plain, Value, words};
use std::fmt;

/// What is different in a row of `what_if`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Cause {
    /// Code and calls take no time.
    Host,
    /// Code between calls takes no time.
    BetweenCalls,
    /// One function takes no time.
    Code,
    /// One function in which the host waits for another thread or process takes no time.
    Wait,
    /// Kernels, copies and memory sets take no time.
    GpuWork,
    /// Communication of all ranks takes no time.
    Communication,
    /// The blocking calls of one place do not block.
    Blocking,
    AllBlocking,
    Graph,
    /// One group of kernels is twice as fast.
    Kernel,
    /// Kernels are faster by a factor that the user gives.
    Speed,
    /// Kernels with a known problem are replaced.
    Unsuited,
    /// The kernels of an op run at a usual rate of the GPU.
    Roof,
    /// One kernel computes what a run of elementwise kernels does.
    Unfused,
    Pinned,
    Allocations,
    StartUp,
    Turnaround,
    /// The profiler holds no thread.
    Profiler,
    /// All changes that are asked for.
    Together,
    /// Of a report by another version.
    #[default]
    Unknown,
}

words! {
    Cause:
    Host = "host",
    BetweenCalls = "between_calls",
    Code = "code",
    Wait = "wait",
    GpuWork = "gpu",
    Communication = "communication",
    Blocking = "blocking",
    AllBlocking = "all_blocking",
    Graph = "graph",
    Kernel = "kernel",
    Speed = "speed",
    Unsuited = "unsuited",
    Roof = "roof",
    Unfused = "unfused",
    Pinned = "pinned",
    Allocations = "allocations",
    StartUp = "start_up",
    Turnaround = "turnaround",
    Profiler = "profiler",
    Together = "together",
    Unknown = "unknown",
}

/// A cause, and what it is about if there are several of the kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct CauseId {
    pub(crate) cause: Cause,
    /// A function, an op, a kernel or a problem; empty for a cause of which there is one.
    pub(crate) subject: String,
}

impl From<Cause> for CauseId {
    fn from(cause: Cause) -> Self {
        Self { cause, subject: String::new() }
    }
}

impl fmt::Display for CauseId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.cause.word())?;
        if self.subject.is_empty() { Ok(()) } else { write!(out, ":{}", self.subject) }
    }
}

impl Plain for CauseId {
    const KIND: ColumnKind = ColumnKind::Text;

    fn value(self) -> Value {
        self.to_string().into()
    }

    fn of_value(value: &Value) -> Option<Self> {
        let text = value.text()?;
        let (cause, subject) = text.split_once(':').unwrap_or((text, ""));
        let cause = Cause::of_value(&cause.into()).unwrap_or_default();
        Some(Self { cause, subject: subject.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_read_as_it_is_written() {
        for (cause, subject, text) in [
            (Cause::Host, "", "host"),
            (Cause::Code, "std::sort", "code:std::sort"),
            (Cause::AllBlocking, "", "all_blocking"),
        ] {
            let id = CauseId { cause, subject: subject.to_owned() };
            assert_eq!((id.to_string().as_str(), CauseId::of_value(&text.into())), (text, Some(id)));
        }
        assert_eq!(CauseId::of_value(&"of a later version".into()), Some(Cause::Unknown.into()));
    }
}
