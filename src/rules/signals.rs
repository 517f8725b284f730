//! Classifies API calls, collectives and counters by their names, and holds the thresholds of findings.
//!
//! The data is in `patterns/signals.json`. A lookup costs one substring search per word of the list.

use crate::json::{self, embedded, from_json};
use crate::trace::Ns;

/// The effect of a CUDA or HIP API call on the GPU and on the calling thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallKind {
    /// Launches a kernel.
    Launch,
    /// Launches a CUDA graph.
    GraphLaunch,
    /// Starts a copy and returns at once.
    CopyAsync,
    /// Copies and returns when the copy is done.
    CopyBlocking,
    /// Sets memory.
    Set,
    /// Blocks the calling thread until GPU work is done.
    Synchronize,
    /// Does not block the calling thread, although its name suggests it: `cudaStreamWaitEvent`, `cudaEventQuery`.
    DoesNotBlock,
    /// Allocates or frees memory, which may block.
    Allocation,
    /// Begins to record the following launches into a graph: they run nothing.
    BeginCapture,
    /// Ends that.
    EndCapture,
    /// Any other call.
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
    "begin_capture" => BeginCapture,
    "end_capture" => EndCapture,
    "other" => Other
);

/// The word lists and thresholds of `patterns/signals.json`.
#[derive(Debug, Clone)]
pub struct Signals {
    calls: Vec<CallRule>,
    host_waits: Vec<String>,
    collectives: Vec<Collective>,
    /// Phases and their words, in the order in which they are tried.
    pub phases: Vec<Phase>,
    /// Words in names, in lower case, of the sampled counters that are read. Each word in `nvlink`, `flops` and `dram_bytes` contains one
    /// of them.
    pub kept_counters: Vec<String>,
    /// Ends of names of sampled counters that a short title leaves out.
    pub counter_endings: Vec<String>,
    /// Words in names of NVLink counters.
    pub nvlink: Vec<String>,
    /// Words in names of counters of floating-point operations.
    pub flops: Vec<String>,
    /// Words in names of counters of bytes transferred to and from device memory.
    pub dram_bytes: Vec<String>,
    /// Ends of the names of CPU ops in which code is compiled. PyTorch records each of its compiler's phases with such a name.
    pub compilations: Vec<String>,
    /// Parts of the names of Python functions that compile code.
    pub compiling_code: Vec<String>,
    /// Kinds of the profiler's own work that hold the thread whose call is recorded.
    pub profiler_pauses: Vec<String>,
    /// Words in names of kernels that move memory.
    pub memory_kernels: Vec<String>,
    /// The thresholds of findings.
    pub thresholds: Thresholds,
    /// The thresholds of the verdict.
    pub verdict: VerdictThresholds,
    /// How waiting in communication is estimated from one rank.
    pub waiting: WaitingRules,
}
from_json!(strict Signals {
    calls, host_waits, collectives, phases, kept_counters, counter_endings, nvlink, flops, dram_bytes, compilations, compiling_code, profiler_pauses, memory_kernels, thresholds,
    verdict, waiting
});

/// How waiting in communication is estimated from one rank.
#[derive(Debug, Clone)]
pub struct WaitingRules {
    /// Messages with fewer bytes over the busiest link are dominated by latency and not judged.
    pub min_bytes: f64,
    /// Minimum number of larger messages of an operation.
    pub min_messages: u64,
    /// Latency of a message.
    pub latency_us: f64,
    /// A message that takes this many times as long as its transfer mostly waits.
    pub slow_factor: f64,
    /// A higher bandwidth is a wrong duration.
    pub max_link_gb_per_s: f64,
    /// Bandwidth of a slow network between nodes.
    pub slow_network_gb_per_s: f64,
    /// Latency of a collective on it, by rank.
    pub slow_latency_us_per_rank: f64,
    /// The part of a link's bandwidth that collectives reach.
    pub reachable_share: f64,
    /// A call that takes this many times as long as one that sends as much or more waits.
    pub ratio: f64,
    /// Minimum number of calls of one size, or of steps, from which the shortest shows the transfer.
    pub min_calls: u64,
    /// A call of unknown size that takes this many times as long as the shortest one of its kernel may wait.
    pub unknown_size_ratio: f64,
    /// Minimum number of such calls.
    pub min_calls_of_unknown_size: u64,
    /// So many calls of unknown size are transfers if less than half of their time exceeds the shortest.
    pub min_steady_calls: u64,
}
from_json!(strict WaitingRules {
    min_bytes, min_messages, latency_us, slow_factor, max_link_gb_per_s, slow_network_gb_per_s,
    slow_latency_us_per_rank, reachable_share, ratio, min_calls,
    unknown_size_ratio, min_calls_of_unknown_size, min_steady_calls
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

/// The words of one serving phase.
#[derive(Debug, Clone)]
pub struct Phase {
    /// `prefill`, `decode` or `sampling`.
    pub phase: String,
    /// Any of these words in a range name indicates this phase.
    pub words: Vec<String>,
    /// Common words, used only if no range of the trace matches one of the `words` of any phase.
    pub weak_words: Vec<String>,
}
from_json!(strict Phase { phase, words, weak_words });

/// The thresholds of findings. Shares are fractions of 1.
#[derive(Debug, Clone)]
pub struct Thresholds {
    /// A launch storm is a run that meets any of these conditions.
    pub launch_storm: Vec<LaunchStorm>,
    /// Minimum number of launches for a launch storm.
    pub launch_storm_min: f64,
    /// Maximum duration of a tiny kernel.
    pub tiny_kernel_us: f64,
    /// Minimum time without a launch of a thread that counts as `cpu_launcher_gap`.
    pub launcher_gap_us: f64,
    /// Maximum of the same. A thread that launches nothing for longer is idle, for example a server without requests.
    pub launcher_idle_us: f64,
    /// Minimum share of kernel time under any range; a lower share is a warning.
    pub nvtx_coverage: f64,
    /// Minimum cost of a finding as a share of the captured time.
    pub min_finding_share: f64,
    /// The same for host delays that the capture itself may cause.
    pub min_uncertain_share: f64,
    /// Minimum time of a host delay for a finding.
    pub min_host_delay_ms: f64,
    /// Minimum busy share of the GPU in a capture without steps, for claims about host and GPU.
    pub min_busy_share: f64,
    /// Minimum share of the cost in the captured time for medium severity.
    pub medium_severity_share: f64,
    /// The same for high severity.
    pub high_severity_share: f64,
    /// Minimum idle time after blocking calls for a finding.
    pub min_drained_ms: f64,
    /// Minimum share of the captured time in which only copies between host and device run, for a finding.
    pub min_copy_share: f64,
    /// Minimum share of the captured time in which communication runs without compute, for a finding.
    pub exposed_communication: f64,
    /// Maximum duration of a short kernel.
    pub short_kernel_us: f64,
    /// The share of the nearer limit of the GPU that real kernels reach. Products of large matrices reach 54 % of the peak of an MI300X
    /// (AMD, max-achievable FLOPS of BF16) and 70 to 80 % of that of an H100, copies of large tensors more.
    pub roof_efficiency: f64,
    /// No kernel takes less, however little it does.
    pub least_kernel_us: f64,
    /// Minimum number of short eager kernels for a finding.
    pub min_short_kernels: f64,
    /// Minimum share of the turnaround between eager ops in the captured time for a finding.
    pub min_turnaround_share: f64,
    /// Maximum number of eager kernels between two graph replays that prepare the second one.
    pub max_preparation_kernels: f64,
    /// Minimum number of graph launches in a capture without steps, for claims about the replay of graphs.
    pub min_replays: u64,
    /// A late gap of this length or more is a pause of the host program, not a slow launch.
    pub long_gap_ms: f64,
    /// Minimum share of such gaps in the time of all late gaps, from which a finding is about the pauses.
    pub min_pause_share: f64,
    /// Minimum share of possible waits in the replayed window: less changes no saving by more than a hundredth of itself.
    pub min_possible_wait_share: f64,
    /// Known waits of this share of the replayed window, or more, leave a saving open in full.
    pub full_known_wait_share: f64,
}
from_json!(strict Thresholds {
    launch_storm, launch_storm_min, tiny_kernel_us, launcher_gap_us, launcher_idle_us, nvtx_coverage, min_finding_share,
    min_uncertain_share, min_host_delay_ms, min_busy_share, medium_severity_share, high_severity_share, min_drained_ms, min_copy_share,
    exposed_communication, short_kernel_us, roof_efficiency, least_kernel_us, min_short_kernels, min_turnaround_share, max_preparation_kernels, min_replays, long_gap_ms, min_pause_share,
    min_possible_wait_share, full_known_wait_share
});

/// The thresholds of the verdict. Shares are fractions of 1.
#[derive(Debug, Clone)]
pub struct VerdictThresholds {
    /// Maximum number of stages in the first sentence.
    pub max_stages: usize,
    /// Maximum number of other categories in the second sentence.
    pub max_other_categories: usize,
    /// Minimum share of wall time of each of them.
    pub min_other_category_share: f64,
    /// Minimum share of busy time of work that is neither compute nor communication, from which it is stated.
    pub min_other_work_share: f64,
    /// Minimum share of one step in the time of its stage, from which the step is stated.
    pub min_longest_step_share: f64,
    /// Minimum share of the steps that are longer than twice the median in the time of their stage, from which they are stated.
    pub min_long_steps_share: f64,
    /// Minimum share of idle time outside of steps, from which the verdict is about the steps: the capture was longer than the work.
    pub min_outside_share: f64,
    /// Minimum ratio of the time of the host before the first launch of the first step to the time of the steps, from which it is stated:
    /// with it the mean length of the steps would be greater by so much.
    pub min_before_first_launch_share: f64,
    /// Minimum share of idle time without a known cause, from which it is stated.
    pub min_unknown_share: f64,
    /// Minimum share of the longest idle gap in a capture without steps, from which it is stated.
    pub min_longest_gap_share: f64,
    /// Minimum share of the busy time in which communication and compute overlap, from which the verdict states compute
    /// alone, exposed communication and both together.
    pub communication_overlap: f64,
    /// Maximum ratio of the mean length of steps to the median. A larger mean comes from a few long steps.
    pub max_mean_to_median: f64,
}
from_json!(strict VerdictThresholds {
    max_stages, max_other_categories, min_other_category_share, min_other_work_share, min_longest_step_share, min_long_steps_share,
    min_outside_share, min_before_first_launch_share,
    min_unknown_share, min_longest_gap_share, communication_overlap, max_mean_to_median
});

/// One condition for a launch storm: many launches of short kernels.
#[derive(Debug, Clone)]
pub struct LaunchStorm {
    /// Minimum number of launches per second.
    pub launches_per_s: f64,
    /// Maximum median kernel duration.
    pub median_us: f64,
}
from_json!(strict LaunchStorm { launches_per_s, median_us });

impl Thresholds {
    /// `long_gap_ms` as a duration.
    pub(crate) fn long_gap(&self) -> Ns {
        Ns((self.long_gap_ms * 1e6).round() as i64)
    }
}

impl Signals {
    /// The built-in data of `patterns/signals.json`.
    pub fn embedded() -> Self {
        embedded(json::read(include_str!("../../patterns/signals.json")))
    }

    /// Classifies an API call by its name.
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

    /// Returns true if a thread only waits during this operating system call.
    pub fn is_host_wait(&self, name: &str) -> bool {
        self.host_waits.iter().any(|wait| wait == name)
    }

    /// Whether work of the profiler of this name holds a thread of the program.
    pub fn holds_thread(&self, name: &str) -> bool {
        self.profiler_pauses.iter().any(|pause| pause == name)
    }

    /// The collective operation in a name (`allreduce`, ...), if there is one.
    pub fn collective(&self, name: &str) -> Option<&str> {
        let name = name.to_ascii_lowercase();
        let is_match = |collective: &&Collective| collective.words.iter().any(|word| name.contains(word.as_str()));
        self.collectives.iter().find(is_match).map(|collective| collective.operation.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_that_an_analysis_looks_for_is_read() {
        let signals = Signals::embedded();
        for word in signals.nvlink.iter().chain(&signals.flops).chain(&signals.dram_bytes) {
            assert!(signals.kept_counters.iter().any(|kept| word.contains(kept.as_str())), "{word}");
        }
    }

    #[test]
    fn calls_are_classified_with_and_without_version_suffix_on_cuda_and_hip() {
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
    fn collectives_are_distinguished_from_kernels_that_share_a_word() {
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
