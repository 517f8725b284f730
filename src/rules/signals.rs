//! What names of calls, kernels, ranges and counters say, and the thresholds of findings (`patterns/signals.json`).

use crate::json::{self, from_json};

/// What a call of the CUDA or HIP API does to the GPU and to the thread that makes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// Launches a kernel.
    Launch,
    /// Launches a whole graph.
    GraphLaunch,
    /// Copies and returns at once.
    CopyAsync,
    /// Copies and returns when done.
    CopyBlocking,
    /// Sets memory.
    Set,
    /// Blocks its thread until GPU work is done.
    Synchronize,
    /// Sounds like waiting and does not block its thread: `cudaStreamWaitEvent`, `cudaEventQuery`.
    DoesNotBlock,
    /// Allocates or frees memory, which may block.
    Allocation,
    /// Says nothing about GPU time.
    Other,
}
from_json!(CallKind =
    "launch" => Launch,
    "graph_launch" => GraphLaunch,
    "copy_async" => CopyAsync,
    "copy_blocking" => CopyBlocking,
    "set" => Set,
    "synchronize" => Synchronize,
    "does_not_block" => DoesNotBlock,
    "allocation" => Allocation,
    "other" => Other
);

/// See the module's head.
#[derive(Debug, Clone)]
pub struct Signals {
    calls: Vec<CallRule>,
    host_waits: Vec<String>,
    collectives: Vec<Collective>,
    /// Words of phases, in the order in which they are tried.
    pub phases: Vec<Phase>,
    /// Words of NVLink counters.
    pub nvlink: Vec<String>,
    /// Words of counters of floating point operations.
    pub flops: Vec<String>,
    /// Words of counters of bytes moved to and from device memory.
    pub dram_bytes: Vec<String>,
    /// Words of kernels that move memory.
    pub memory_kernels: Vec<String>,
    /// From where on something is a finding.
    pub thresholds: Thresholds,
}
from_json!(strict Signals {
    calls, host_waits, collectives, phases, nvlink, flops, dram_bytes, memory_kernels, thresholds
});

#[derive(Debug, Clone)]
struct CallRule {
    kind: CallKind,
    has: Vec<String>,
}
from_json!(strict CallRule { kind, has });

#[derive(Debug, Clone)]
struct Collective {
    operation: String,
    words: Vec<String>,
}
from_json!(strict Collective { operation, words });

/// The words of one phase of serving.
#[derive(Debug, Clone)]
pub struct Phase {
    /// `prefill`, `decode` or `sampling`.
    pub phase: String,
    /// Any of these in a range's name means this phase.
    pub words: Vec<String>,
    /// Words too common to mean it unless no range of the trace has a better one.
    pub weak_words: Vec<String>,
}
from_json!(strict Phase { phase, words, weak_words });

/// From where on something is a finding; shares are parts of one.
#[derive(Debug, Clone)]
pub struct Thresholds {
    /// Either is a storm: at least so many launches a second of kernels with at most this median duration.
    pub launch_storm: Vec<LaunchStorm>,
    /// Fewer launches than this are no storm.
    pub launch_storm_least: f64,
    /// A kernel up to this long is tiny.
    pub tiny_kernel_us: f64,
    /// A thread that launches nothing for so long leaves a gap.
    pub launcher_gap_us: f64,
    /// One that launches nothing for longer has nothing to launch: a server without requests.
    pub launcher_idle_us: f64,
    /// Less kernel time than this under any range is worth a warning.
    pub nvtx_coverage: f64,
    /// One kernel with this share of kernel time is a finding of high severity.
    pub top_kernel_high: f64,
    /// The same of medium severity.
    pub top_kernel_medium: f64,
    /// Copies in one direction with this share of busy time are a finding of high severity.
    pub copies_high: f64,
    /// The same of medium severity.
    pub copies_medium: f64,
    /// So much time in synchronising calls is of medium severity.
    pub synchronize_medium_ms: f64,
    /// Less time in which the host waits and no GPU works is no finding.
    pub synchronize_least_ms: f64,
    /// This share of a device's window idle is of medium severity.
    pub idle_medium: f64,
    /// The same of high severity.
    pub idle_high: f64,
    /// A phase with this share dominates.
    pub phase_dominates: f64,
    /// A rank this far from the median is a straggler.
    pub skew: f64,
    /// This share of a window in communication that hides behind nothing is a finding.
    pub exposed_communication: f64,
}
from_json!(strict Thresholds {
    launch_storm, launch_storm_least, tiny_kernel_us, launcher_gap_us, launcher_idle_us, nvtx_coverage,
    top_kernel_high, top_kernel_medium, copies_high, copies_medium, synchronize_medium_ms, synchronize_least_ms, idle_medium, idle_high, phase_dominates, skew,
    exposed_communication
});

/// One way to be a launch storm.
#[derive(Debug, Clone)]
pub struct LaunchStorm {
    /// At least so many launches a second.
    pub launches_per_s: f64,
    /// A median kernel duration of at most this.
    pub median_us: f64,
}
from_json!(strict LaunchStorm { launches_per_s, median_us });

impl Signals {
    /// The list of `patterns/signals.json`.
    ///
    /// # Panics
    /// Never: the file is part of the program, and a test holds that it parses.
    #[allow(clippy::expect_used, reason = "the file is part of the program, and a test holds that it parses")]
    pub fn embedded() -> Self {
        json::read(include_str!("../../patterns/signals.json")).expect("patterns/signals.json parses")
    }

    /// What the call of this name does.
    ///
    /// ```
    /// use gpuprism::rules::signals::{CallKind, Signals};
    /// let signals = Signals::embedded();
    /// assert_eq!(signals.call("cudaMemcpyAsync_v3020"), CallKind::CopyAsync);
    /// assert_eq!(signals.call("cudaStreamWaitEvent_v3020"), CallKind::DoesNotBlock);
    /// assert_eq!(signals.call("hipGraphLaunch"), CallKind::GraphLaunch);
    /// ```
    pub fn call(&self, name: &str) -> CallKind {
        let name = name.to_ascii_lowercase();
        let rule = self.calls.iter().find(|rule| rule.has.iter().all(|word| name.contains(word.as_str())));
        rule.map_or(CallKind::Other, |rule| rule.kind)
    }

    /// Does a thread do nothing but wait in this call of the operating system?
    pub fn is_host_wait(&self, name: &str) -> bool {
        self.host_waits.iter().any(|wait| wait == name)
    }

    /// The collective that a name speaks of: `allreduce`, ...; `None` where it names none.
    pub fn collective(&self, name: &str) -> Option<&str> {
        let name = name.to_ascii_lowercase();
        let said = |collective: &&Collective| collective.words.iter().any(|word| name.contains(word.as_str()));
        self.collectives.iter().find(said).map(|collective| collective.operation.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_known_with_and_without_versions_on_cuda_and_hip() {
        let signals = Signals::embedded();
        for (name, want) in [
            ("cudaLaunchKernel_v7000", CallKind::Launch),
            ("cuLaunchKernelEx", CallKind::Launch),
            ("hipModuleLaunchKernel", CallKind::Launch),
            ("cudaGraphLaunch_v10000", CallKind::GraphLaunch),
            ("cudaLaunchHostFunc", CallKind::Other),
            ("cudaMemcpy_v3020", CallKind::CopyBlocking),
            ("cuMemcpyHtoDAsync_v2", CallKind::CopyAsync),
            ("cudaMemsetAsync", CallKind::Set),
            ("cudaStreamSynchronize", CallKind::Synchronize),
            ("hipDeviceSynchronize", CallKind::Synchronize),
            ("cudaEventQuery", CallKind::DoesNotBlock),
            ("cudaFree_v3020", CallKind::Allocation),
            ("cuMemAlloc_v2", CallKind::Allocation),
            ("cudaGetDevice", CallKind::Other),
        ] {
            assert_eq!(signals.call(name), want, "{name}");
        }
    }

    #[test]
    fn collectives_are_told_from_kernels_that_only_share_a_word() {
        let signals = Signals::embedded();
        for (name, want) in [
            ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", Some("allreduce")),
            ("void sglang::cross_device_reduce_2stage<__nv_bfloat16, 2>", Some("allreduce")),
            ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", Some("reducescatter")),
            ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", Some("sendrecv")),
            ("ncclDevKernel_Broadcast_RING_LL", Some("broadcast")),
            ("nccl:all_gather", Some("allgather")),
            ("void at::native::elementwise_kernel<broadcast>", None),
            ("void at::native::reduce_kernel<512, 1>", None),
        ] {
            assert_eq!(signals.collective(name), want, "{name}");
        }
    }
}
