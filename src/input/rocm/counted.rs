//! The bytes that the counters `FETCH_SIZE` and `WRITE_SIZE` of rocprofv3 give for each kernel.
//!
//! rocprofv3 counts per dispatch. With `--kernel-trace` in the same run, the table of kernels has the same dispatches with the
//! same times, to the nanosecond: then the bytes belong to its kernels. More often counters come from a run of their own,
//! because counting slows the kernels down. Ids of dispatches start at 1 in every run, so they prove nothing: a dispatch with
//! other times, name or GPU is counted as one of another run and joined with nothing. Without a table of kernels, the counted
//! dispatches are the kernels.
//!
//! O(n log n) in the dispatches; a hundred bytes for each while the file is read.

use crate::trace::{DeviceId, GpuOp, GpuOps, MemoryTraffic, NameId, Ns, OpKind, ProblemKind, TraceBuilder};
use foldhash::fast::RandomState;
use std::collections::HashMap;

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counter {
    Read,
    Written,
}

impl Counter {
    /// The counter with this name; rocprofv3 knows both spellings. `None` for all other counters.
    pub(super) fn named(name: &[u8]) -> Option<Self> {
        match name {
            b"FETCH_SIZE" | b"FetchSize" => Some(Self::Read),
            b"WRITE_SIZE" | b"WriteSize" => Some(Self::Written),
            _ => None,
        }
    }

    pub(super) fn add(self, bytes: u64, traffic: &mut MemoryTraffic) {
        let sum = match self {
            Self::Read => &mut traffic.read,
            Self::Written => &mut traffic.written,
        };
        *sum = Some(sum.unwrap_or_default().saturating_add(bytes));
    }
}

/// The bytes of a counter's value, which is in kilobytes of 1024 bytes; `None` if it is no amount of memory.
pub(super) fn bytes(kilobytes: f64) -> Option<u64> {
    const MAX_BYTES: f64 = (1_u64 << 53) as f64;
    let bytes = (kilobytes * 1024.0).round();
    (0.0..MAX_BYTES).contains(&bytes).then_some(bytes as u64)
}

/// Tells the dispatches of a file apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Dispatch {
    id: u64,
    kernel: Kernel,
}

/// Tells the kernels of a table apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Kernel {
    start: Ns,
    duration: Ns,
    name: NameId,
    device: DeviceId,
}

impl Kernel {
    fn of(op: &GpuOp) -> Self {
        Self { start: op.start, duration: op.duration, name: op.name, device: op.device }
    }
}

/// The counted dispatches of a file.
#[derive(Debug, Default)]
pub(super) struct CountedKernels {
    dispatches: HashMap<Dispatch, (GpuOp, Option<u32>, MemoryTraffic), RandomState>,
}

impl CountedKernels {
    pub(super) fn len(&self) -> usize {
        self.dispatches.len()
    }

    /// The bytes of a dispatch. The correlation id is that of the call that launched it.
    pub(super) fn traffic(&mut self, id: u64, op: GpuOp, correlation: Option<u32>) -> &mut MemoryTraffic {
        let dispatch = Dispatch { id, kernel: Kernel::of(&op) };
        &mut self.dispatches.entry(dispatch).or_insert((op, correlation, MemoryTraffic::default())).2
    }

    /// Gives the bytes to the kernels of the trace, or adds the dispatches as kernels if the files have no table of kernels.
    pub(super) fn finish(self, has_kernel_table: bool, builder: &mut TraceBuilder) {
        let trace = &mut builder.trace;
        let mut dispatches: Vec<Counted> = self.dispatches.into_iter().collect();
        dispatches
            .sort_unstable_by_key(|(dispatch, (op, ..))| (op.start, dispatch.id, op.device, op.name, op.duration));
        if has_kernel_table {
            let other_run = &mut |count| trace.problems.add(ProblemKind::CounterOfOtherRun, count, 0);
            trace.memory_traffic = join(&dispatches, &trace.gpu_ops, other_run);
            return;
        }
        trace.problems.add(ProblemKind::KernelOfCounterRun, dispatches.len() as u64, 0);
        for (_, (op, correlation, traffic)) in dispatches {
            if traffic != MemoryTraffic::default() {
                trace.memory_traffic.push((trace.gpu_ops.len() as u32, traffic));
            }
            trace.gpu_ops.push(op, correlation);
        }
    }
}

/// A dispatch with its kernel, the correlation id of the call that launched it, and its bytes.
type Counted = (Dispatch, (GpuOp, Option<u32>, MemoryTraffic));

/// The bytes by row, sorted. `other_run` gets the number of counted dispatches that are not, or not alone, one kernel.
fn join(dispatches: &[Counted], kernels: &GpuOps, other_run: &mut dyn FnMut(u64)) -> Vec<(u32, MemoryTraffic)> {
    let mut counted: HashMap<Kernel, Join, RandomState> = HashMap::default();
    for (dispatch, (.., traffic)) in dispatches {
        counted.entry(dispatch.kernel).and_modify(|join| *join = Join::Ambiguous).or_insert(Join::Counted(*traffic));
    }
    for (op, row) in kernels.iter().zip(0_u32..).filter(|(op, _)| op.kind == OpKind::Kernel) {
        let Some(join) = counted.get_mut(&Kernel::of(&op)) else { continue };
        *join = match *join {
            Join::Counted(traffic) => Join::Kernel(row, traffic),
            Join::Kernel(..) | Join::Ambiguous => Join::Ambiguous,
        };
    }
    let all = counted.len();
    let kernel = |join| if let Join::Kernel(row, traffic) = join { Some((row, traffic)) } else { None };
    let mut joined: Vec<(u32, MemoryTraffic)> = counted.into_values().filter_map(kernel).collect();
    if joined.len() < all {
        other_run((all - joined.len()) as u64);
    }
    joined.retain(|(_, traffic)| *traffic != MemoryTraffic::default());
    joined.sort_unstable_by_key(|(row, _)| *row);
    joined
}

/// What is known of a counted dispatch.
#[derive(Debug, Clone, Copy)]
enum Join {
    Counted(MemoryTraffic),
    /// It is the kernel in this row.
    Kernel(u32, MemoryTraffic),
    /// Several dispatches or kernels look the same.
    Ambiguous,
}
