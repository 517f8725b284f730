//! `host-copies`: only copies between host and device run for a large part of the time.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::{Framework, Situation, format_bytes};

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    let (device, cost_ms) = situation.worst(|device| device.copies.host.total_ms.min(device.exposed_copies_ms))?;
    if situation.share(cost_ms) < situation.context.signals.thresholds.min_copy_share {
        return None;
    }
    let bytes = |direction: &str| {
        let figure = format!("{direction}_bytes");
        situation.section("copy_engine_events").map_or(0.0, |section| section.summary.amount(&figure))
    };
    let all_bytes = bytes("h2d") + bytes("d2h");
    let directions = ["h2d", "d2h"].into_iter().filter_map(|direction| {
        let summary = &situation.section("copy_engine_events")?.summary;
        let rate = summary.number(&format!("{direction}_gb_per_s"))?;
        let bytes = bytes(direction);
        let words = if direction == "h2d" { "to the GPU" } else { "to the host" };
        (bytes > 0.0 && bytes >= 0.01 * all_bytes)
            .then(|| format!("{} {words} at {}/s per copy", format_bytes(bytes), format_bytes(1e9 * rate)))
    });
    let rates: Vec<String> = directions.collect();
    // The bytes are a sum over the GPUs, which copy at the same time; the rate is that of one copy.
    let rates = match (rates.is_empty(), situation.context.trace.devices.len()) {
        (true, _) => String::new(),
        (false, 0..=1) => format!("; {}", rates.join(", ")),
        (false, _) => format!("; all GPUs together: {}", rates.join(", ")),
    };
    let action = match situation.framework {
        Framework::Xla => {
            "Keep arrays on the device between steps (`donate_argnums` of `jax.jit` for those that a step replaces), and bring \
             the next batch there while the step runs (`jax.device_put`)."
        }
        Framework::Program => {
            "Keep data on the GPU between kernels, and copy the next part on a stream of its own while kernels run."
        }
        Framework::SgLang | Framework::Vllm | Framework::TensorRtLlm | Framework::OtherEngine => {
            "Keep weights and KV cache on the GPU instead of offloading them, or copy them ahead of use on a stream of \
             their own."
        }
        Framework::Training => {
            "Keep weights, gradients and the state of the optimizer on the GPU instead of offloading them to the host, and copy the \
             next batch on a stream of its own while the current one computes (`pin_memory=True` in the DataLoader, \
             `non_blocking=True`)."
        }
        Framework::Transformers | Framework::Torch => {
            "Keep weights on the GPU instead of offloading them to the host. If they do not fit, copy the next layer on a \
             stream of its own while the current one computes."
        }
    };
    Some(Finding {
        id: FindingId::HostCopies,
        confidence: Confidence::High,
        title: "Copies between host and GPU without kernels",
        cost_ms,
        evidence: format!("{}: only copies between host and GPU run{rates}", situation.amount(device, cost_ms)),
        action: action.to_owned(),
        what_if: None,
        section: "copy_engine_events",
    })
}

#[cfg(test)]
mod tests {
    use crate::analysis::findings::testing::finding;
    use crate::trace::testing::TestTrace;

    fn copies(kernel_start: i64) -> TestTrace {
        let mut trace = TestTrace::nsys();
        trace.in_us().kernel("[CUDA memcpy Host-to-Device]", 0..1_000).bytes(20_000_000);
        trace.stream(8).kernel("saxpy", kernel_start..kernel_start + 9_000);
        trace
    }

    #[test]
    fn copies_without_kernels_are_a_finding_that_does_not_say_to_pin() {
        let found = finding(&mut copies(1_000), "host-copies").unwrap();
        assert_eq!(found.cost_ms, 1.0);
        assert!(found.evidence.ends_with("; 20.0 MB to the GPU at 20.0 GB/s per copy"), "{found:?}");
        assert!(!found.action.contains("pin"), "{found:?}");
    }

    #[test]
    fn the_bytes_are_those_of_all_gpus_and_the_rate_is_that_of_one_copy() {
        // Each of two GPUs copies 20 MB in the same millisecond: 40 MB, but no link is faster than 20 GB/s.
        let mut trace = copies(1_000);
        trace.device(1).stream(7).kernel("[CUDA memcpy Host-to-Device]", 0..1_000).bytes(20_000_000);
        let found = finding(trace.kernel("saxpy", 1_000..10_000), "host-copies").unwrap();
        let words = "; all GPUs together: 40.0 MB to the GPU at 20.0 GB/s per copy";
        assert!(found.evidence.ends_with(words), "{found:?}");
    }

    #[test]
    fn copies_of_unknown_size_have_no_rate() {
        let mut trace = TestTrace::nsys();
        trace.in_us().kernel("[CUDA memcpy Host-to-Device]", 0..1_000);
        trace.stream(8).kernel("saxpy", 1_000..9_000);
        let found = finding(&mut trace, "host-copies").unwrap();
        assert!(!found.evidence.contains("B/s"), "{found:?}");
    }

    #[test]
    fn copies_under_kernels_are_no_finding() {
        assert!(finding(&mut copies(0), "host-copies").is_none());
    }
}
