//! The algorithm of a communication kernel, by its name (`patterns/collective_algorithms.json`). A name costs one substring
//! search per word of the list.

use crate::json::{self, embedded, from_json};
use crate::rules::names;
use std::sync::LazyLock;

/// One algorithm.
#[derive(Debug)]
pub(super) struct Algorithm {
    /// Displayed name.
    pub(super) name: String,
    any: Vec<String>,
    all: Vec<String>,
    /// The time of an empty message; `None` if it is not known.
    pub(super) latency_us: Option<f64>,
    /// The kernel transfers no data.
    pub(super) waits_only: bool,
    /// Equal copies before and after the kernel have the size of its message.
    pub(super) copies_around: bool,
    /// Each rank reads the data of all others.
    pub(super) reads_all: bool,
    limits: Vec<SizeLimit>,
}
from_json!(strict Algorithm { name, any, all; latency_us, waits_only, copies_around, reads_all, limits });

/// A size from which another algorithm takes less time.
#[derive(Debug)]
struct SizeLimit {
    ranks: u64,
    max_bytes: u64,
    fitting: String,
}
from_json!(strict SizeLimit { ranks, max_bytes, fitting });

#[derive(Debug)]
struct AlgorithmFile {
    min_calls: u64,
    algorithms: Vec<Algorithm>,
}
from_json!(AlgorithmFile { min_calls, algorithms });

static FILE: LazyLock<AlgorithmFile> =
    LazyLock::new(|| embedded(json::read(include_str!("../../../patterns/collective_algorithms.json"))));

/// The number of calls of one size from which the shortest shows the time of the transfer.
pub(super) fn min_calls() -> u64 {
    FILE.min_calls
}

/// The algorithm with this number.
pub(super) fn get(index: usize) -> Option<&'static Algorithm> {
    FILE.algorithms.get(index)
}

/// The number of the algorithm of kernels with this name; `None` if the name does not state it.
pub(super) fn of_kernel(name: &str) -> Option<usize> {
    let name = names::demangle(name).to_ascii_lowercase();
    let contains = |word: &String| name.contains(word.as_str());
    FILE.algorithms
        .iter()
        .position(|algorithm| algorithm.any.iter().any(contains) && algorithm.all.iter().all(contains))
}

impl Algorithm {
    /// The algorithm that takes less time for this size and number of ranks; `None` if none is known.
    pub(super) fn fitting(&self, bytes: u64, ranks: u64) -> Option<&str> {
        let limit = self.limits.iter().find(|limit| limit.ranks == ranks && bytes > limit.max_bytes);
        limit.map(|limit| limit.fitting.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kernels_state_the_algorithm() {
        for (name, expected) in [
            ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", Some("NCCL")),
            ("ncclKernel_AllReduce_TREE_LL_Sum_float(ncclWorkElem)", Some("NCCL tree")),
            ("ncclSymkDevKernel_AllReduce_AGxLL_R_sum", Some("NCCL, symmetric memory")),
            ("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>", Some("multicast (NVLS)")),
            ("void sglang::cross_device_reduce_1stage<__nv_bfloat16, 8>", Some("custom, one stage")),
            ("void vllm::cross_device_reduce_2stage<half, 4>", Some("custom, two stages")),
            ("void (anonymous namespace)::two_shot_all_reduce_kernel<float>", Some("two shots")),
            (
                "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport",
                Some("fused with norm, one shot"),
            ),
            ("void deep_ep::intranode::notify_dispatch<8>", Some("DeepEP notify")),
            ("void deep_ep::internode_ll::dispatch<true, 3, 10, 7168>", Some("DeepEP dispatch, low latency")),
            ("void deep_ep::intranode::combine<__nv_bfloat16, 8, 768>", Some("DeepEP combine")),
            ("triton_red_fused_all_reduce_add_mean_mul_pow_rsqrt_1", None),
        ] {
            assert_eq!(of_kernel(name).and_then(get).map(|algorithm| algorithm.name.as_str()), expected, "{name}");
        }
    }

    #[test]
    fn one_stage_fits_small_messages_only() {
        let one_stage = get(of_kernel("cross_device_reduce_1stage").unwrap()).unwrap();
        assert_eq!(one_stage.fitting(512 << 10, 4), None);
        assert_eq!(one_stage.fitting((512 << 10) + 1, 4), Some("two stages or NCCL"));
        assert_eq!(one_stage.fitting(256 << 10, 8), None);
        assert_eq!(one_stage.fitting((256 << 10) + 1, 8), Some("two stages or NCCL"));
        assert_eq!(one_stage.fitting(1 << 30, 2), None, "no rule");
    }

    #[test]
    fn every_algorithm_is_well_formed() {
        for algorithm in &FILE.algorithms {
            let mut words = algorithm.any.iter().chain(&algorithm.all);
            assert!(!algorithm.any.is_empty() && words.all(|word| *word == word.to_lowercase()), "{algorithm:?}");
            assert!(algorithm.latency_us.is_none_or(|us| us > 0.0 && us < 50.0), "{algorithm:?}");
        }
    }
}
