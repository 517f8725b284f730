//! What some traces tell beside ops, calls and ranges.

use super::{DeviceId, Ns, ProcessId};

/// What a trace tells of the distributed job of which one rank wrote it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Job {
    /// The rank's number.
    pub rank: u32,
    /// How many ranks there are.
    pub world_size: u32,
    /// What moves messages: `nccl`; empty where the trace does not tell.
    pub backend: String,
    /// The process groups of the rank, where the trace tells them.
    pub groups: Vec<ProcessGroup>,
}

/// Ranks that exchange messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessGroup {
    /// As collectives name it in [`Collective::communicator`].
    pub name: String,
    /// The numbers of its ranks; empty where the trace does not tell.
    pub ranks: Vec<u32>,
}

/// The message of a collective.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Collective {
    /// What it does: `allreduce`, `_allgather_base`, as the trace writes it.
    pub operation: String,
    /// Bytes that each rank puts in.
    pub bytes_in: Option<u64>,
    /// Bytes that each rank gets out.
    pub bytes_out: Option<u64>,
    /// How many ranks take part.
    pub ranks: Option<u64>,
    /// The communicator or process group.
    pub communicator: String,
    /// The algorithm and protocol, where the trace tells.
    pub algorithm: String,
    /// The element type.
    pub element: String,
}

/// One run of a CUDA graph that was traced as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphReplay {
    /// When it began.
    pub start: Ns,
    /// How long it ran.
    pub duration: Ns,
    /// Where it ran.
    pub device: DeviceId,
}

/// Waiting in one operating system call, summed over a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostWait {
    /// Who waited.
    pub process: ProcessId,
    /// The call: `poll`, `futex`, ...
    pub name: String,
    /// How often.
    pub count: u64,
    /// How long in all.
    pub total: Ns,
    /// The longest wait.
    pub longest: Ns,
}

/// The samples of one hardware counter on one device.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSeries {
    /// What was sampled, as the trace numbers its sources; two GPUs are two sources.
    pub source: i64,
    /// The GPU that the source stands for, where the trace tells.
    pub device: Option<DeviceId>,
    /// The counter's name with its unit, as the trace writes it.
    pub name: String,
    /// Time and value, by time.
    pub samples: Vec<(Ns, f64)>,
}
