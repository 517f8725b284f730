//! Rows of the tables that only some formats fill: the distributed job, collectives, graph replays, host waits, counters.

use super::{CallId, DeviceId, Ns, ProcessId};

/// The distributed job of a trace that one rank wrote.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Job {
    /// Number of the rank that wrote the trace.
    pub rank: u32,
    /// Number of ranks in the job.
    pub world_size: u32,
    /// The communication library: `nccl`; empty if not recorded.
    pub backend: String,
    /// The process groups of the rank; empty if not recorded.
    pub groups: Vec<ProcessGroup>,
}

/// A set of ranks that communicate with each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessGroup {
    /// Name, equal to [`Collective::communicator`] of its collectives.
    pub name: String,
    /// Numbers of its ranks; empty if not recorded.
    pub ranks: Vec<u32>,
}

/// The message of a collective operation.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Collective {
    /// Operation as the trace spells it: `allreduce`, `_allgather_base`.
    pub operation: String,
    /// Bytes that each rank sends.
    pub bytes_in: Option<u64>,
    /// Bytes that each rank receives.
    pub bytes_out: Option<u64>,
    /// Number of ranks that take part.
    pub ranks: Option<u64>,
    /// The communicator or process group.
    pub communicator: String,
    /// Its number among the collectives of the group, the same on all ranks.
    pub sequence: Option<u64>,
    /// Algorithm and protocol; empty if not recorded.
    pub algorithm: String,
    /// Element type.
    pub element: String,
}

/// Bytes that a kernel moved between the GPU and its memory, by hardware counters. What was not counted is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryTraffic {
    /// Bytes read.
    pub read: Option<u64>,
    /// Bytes written.
    pub written: Option<u64>,
}

/// One launch of a CUDA graph that was traced as a whole, without its kernels.
///
/// Its time is busy time of the device. Nothing else is known of its kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GraphReplay {
    /// Start on the clock of the trace.
    pub start: Ns,
    /// Duration.
    pub duration: Ns,
    /// The device it ran on.
    pub device: DeviceId,
    /// The process that launched it.
    pub process: ProcessId,
    /// The number of the graph in its process, if recorded.
    pub graph: Option<u32>,
    /// The call that launched it, if known. [`super::TraceBuilder::link`] sets it.
    pub launch: Option<CallId>,
}

impl GraphReplay {
    /// Returns the end time.
    pub fn end(&self) -> Ns {
        self.start.after(self.duration)
    }
}

/// Time that a process waited in one operating system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostWait {
    /// The process that waited.
    pub process: ProcessId,
    /// The call: `poll`, `futex`, ...
    pub name: String,
    /// Number of waits.
    pub count: u64,
    /// Sum of all waits.
    pub total: Ns,
    /// The longest wait.
    pub longest: Ns,
}

/// The name of the series with the bytes that torch's allocator had handed out.
pub const ALLOCATED_MEMORY: &str = "GPU memory allocated (bytes)";

/// [`MetricSeries::source`] of a counter whose source is not recorded.
pub const NO_SOURCE: i64 = -1;

/// The samples of one counter of one device: of the hardware, or of torch's allocator.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSeries {
    /// Number of the sampled unit in the trace; two GPUs are two sources. [`NO_SOURCE`] if it is not recorded.
    pub source: i64,
    /// The GPU of the source, if known.
    pub device: Option<DeviceId>,
    /// Name and unit of the counter as the trace spells them.
    pub name: String,
    /// Time and value, sorted by time.
    pub samples: Vec<(Ns, f64)>,
}

impl MetricSeries {
    /// The GPU that it counts, of a trace with so many. A counter without a source counts the only GPU. One with a source but without a
    /// device counts a GPU that ran no work.
    pub fn device_among(&self, devices: usize) -> Option<DeviceId> {
        self.device.or((devices == 1 && self.source == NO_SOURCE).then_some(DeviceId(0)))
    }

    /// Whether the values are in per cent.
    pub fn is_per_cent(&self) -> bool {
        self.name.contains('%')
    }
}
