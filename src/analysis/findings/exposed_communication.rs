//! `exposed-communication`: communication runs without compute for a part of the time, and it is not mostly waiting.

use super::communication_waits::exposed_waiting_ms;
use super::finding::{Confidence, Finding, FindingId};
use super::situation::{Cost, DeviceTimes, Framework, Situation};
use crate::analysis::communication::waiting::{DeviceWaiting, Evidence};
use crate::analysis::labels::format_time;
use crate::analysis::replay::cause::Cause;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    if situation.has_shifted_durations() {
        return None;
    }
    // The waiting is a finding of its own, and no overlap saves it.
    let transfer_ms = |device: &DeviceTimes| {
        let waiting_ms = exposed_waiting_ms(device);
        let is_undecided = waiting_ms > 0.0 && device.waits.is_some_and(|waits| waits.evidence.is_undecided());
        if is_undecided || 2.0 * waiting_ms >= device.exposed_communication_ms {
            0.0
        } else {
            device.exposed_communication_ms - waiting_ms
        }
    };
    let (device, exposed_ms) = situation.worst(transfer_ms)?;
    let Cost { ms: cost_ms, what_if } = situation.cost(Cause::Communication, exposed_ms);
    if situation.share(cost_ms) < situation.context.signals.thresholds.exposed_communication {
        return None;
    }
    let waiting = match exposed_waiting_ms(device) {
        ms if ms > 0.0 => format!("; at least another {} is waiting for other ranks", format_time(ms)),
        _ => String::new(),
    };
    let unknown = if knows_waiting(device) { "" } else { "; one rank alone does not show how much of it is waiting" };
    Some(Finding {
        id: FindingId::ExposedCommunication,
        confidence: if knows_waiting(device) { Confidence::High } else { Confidence::Medium },
        title: "Communication without compute",
        cost_ms,
        evidence: format!(
            "{}: communication runs without compute{waiting}{unknown}",
            situation.amount(device, exposed_ms)
        ),
        action: action(situation, device),
        what_if,
        section: "nccl_ops",
    })
}

/// True if the file contains the other ranks.
fn knows_waiting(device: &DeviceTimes) -> bool {
    matches!(device.waits, Some(DeviceWaiting { evidence: Evidence::Ranks { .. }, .. }))
}

fn action(situation: &Situation, device: &DeviceTimes) -> String {
    let first = if knows_waiting(device) {
        ""
    } else {
        "First compare the traces of all ranks with `gpuprism ranks`: waiting for another rank is not transfer. "
    };
    let rest = match situation.framework {
        Framework::SgLang => {
            "Fuse the all-reduce with the norm (`--enable-flashinfer-allreduce-fusion`). With expert parallelism \
             (`--moe-a2a-backend` other than none), overlap two batches (`--enable-two-batch-overlap`)."
        }
        Framework::Vllm => {
            "Fuse the all-reduce with the norm (`fuse_allreduce_rms` in `pass_config` of `--compilation-config`). \
             With data and expert parallelism over DeepEP, overlap two batches (`--enable-dbo`)."
        }
        Framework::TensorRtLlm => {
            "Choose the algorithm for the message size (`allreduce_strategy`), or overlap it with compute."
        }
        Framework::OtherEngine => "Overlap it with compute of another batch, or use a fused collective.",
        Framework::Xla => {
            "Let XLA schedule collectives ahead of their use (on GPUs `--xla_gpu_enable_latency_hiding_scheduler=true` in \
             `XLA_FLAGS`), or shard the arrays so that fewer are needed."
        }
        Framework::Transformers | Framework::Training | Framework::Torch | Framework::Program => {
            "Start the collectives earlier on a stream of their own, so that they overlap compute: for gradients, tune the \
             bucket size (`bucket_cap_mb` of DistributedDataParallel)."
        }
    };
    format!("{first}{rest}")
}

#[cfg(test)]
mod tests {
    use crate::analysis::findings::testing::{finding, findings_of};
    use crate::analysis::testing::{ALLGATHER, ALLREDUCE, KINDS, number, row};
    use crate::trace::testing::TestTrace;

    #[test]
    fn exposed_time_of_overlapping_collectives_counts_once() {
        let mut trace = TestTrace::nsys();
        trace.in_us().kernel(KINDS[ALLREDUCE], 0..1_000).kernel(KINDS[ALLGATHER], 0..1_000);
        let section = findings_of(trace.kernel("gemm", 1_000..4_000));
        assert_eq!(number(row(&section, "id", "exposed-communication"), "cost_ms"), 1.0);
    }

    #[test]
    fn hidden_communication_is_no_problem() {
        let mut trace = TestTrace::nsys();
        trace.in_us().kernel(KINDS[ALLREDUCE], 0..1_000).stream(8).kernel("gemm", 0..4_000);
        assert!(finding(&mut trace, "exposed-communication").is_none());
    }

    #[test]
    fn one_rank_without_sizes_is_told_to_compare_ranks_first() {
        let mut trace = TestTrace::new();
        trace.in_us().kernel(KINDS[ALLREDUCE], 0..1_000).kernel("gemm", 1_000..4_000);
        let found = finding(&mut trace, "exposed-communication").unwrap();
        assert_eq!(found.confidence, "medium");
        assert!(found.action.starts_with("First compare the traces of all ranks"), "{found:?}");
    }
}
