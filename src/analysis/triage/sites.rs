//! Which code launched an op: GPU op -> external id or correlation -> CPU op -> Python frames of its thread, with the
//! launching call as fallback and the mapping traces for graph replays.

use crate::trace::Trace;

/// Where a group of ops comes from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// The place in the code: `python/sglang/srt/models/qwen3.py:310 forward`; empty where none is known.
    pub location: String,
    /// The place to show, where the frames around tell a better one.
    pub display: String,
    /// The last frames that lead there, outermost first.
    pub stack: Vec<String>,
    /// The CPU op or call: `aten::mm`; empty where none is known.
    pub cpu_op: String,
    /// How it was found.
    pub found: Found,
}

/// How the code of an op was found, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Found {
    /// By the CPU op with the op's external id.
    Exact,
    /// By the call that launched it.
    ByLaunch,
    /// From a mapping trace, by the kernel's exact name.
    BorrowedExact,
    /// From a mapping trace, by a name much like the kernel's.
    BorrowedRelaxed,
    /// By the call that replayed its graph: the kernel's own place is not known.
    Replay,
    /// Not at all.
    Unknown,
}

impl Found {
    /// As tables say it.
    pub fn label(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::ByLaunch => "by launch",
            Self::BorrowedExact => "borrowed, exact name",
            Self::BorrowedRelaxed => "borrowed, similar name",
            Self::Replay => "graph replay",
            Self::Unknown => "unresolved",
        }
    }
}

/// The sites of a trace.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sites {
    /// Distinct sites.
    pub sites: Vec<Site>,
    /// Of every GPU op, in the order of the trace's ops: its place in `sites`, or [`crate::trace::NONE`].
    pub of_op: Vec<u32>,
}

impl Sites {
    /// Finds the site of every op; `mapping` tells where kernels of graph replays come from.
    pub fn new(_trace: &Trace, _mapping: &[&Trace]) -> Self {
        Self::default()
    }

    /// The site of the op at this place.
    pub fn of(&self, op: usize) -> Option<&Site> {
        self.sites.get(*self.of_op.get(op)? as usize)
    }
}
