//! `host-copies`: only copies between host and device, or between devices, run for a large part of the time.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::{DeviceTimes, Situation};
use crate::words::findings::host_copies as words;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    let (device, cost_ms) = situation.worst(|device| copies_ms(device).min(device.exposed_copies_ms))?;
    if situation.share(cost_ms) < situation.context.signals.thresholds.min_copy_share {
        return None;
    }
    let amount = situation.amount(device, cost_ms);
    let (title, evidence, action) = match device.copies.peer.total_ms > device.copies.host.total_ms {
        true => (words::PEER_TITLE, words::peer_evidence(amount), words::PEER_ACTION),
        false => {
            let devices = situation.context.trace.devices.len();
            (words::TITLE, words::evidence(amount, &directions(situation), devices), words::action(situation.framework))
        }
    };
    Some(Finding {
        id: FindingId::HostCopies,
        confidence: Confidence::High,
        title,
        cost_ms,
        evidence,
        action: action.to_owned(),
        same_as: None,
        what_if: None,
        section: "copy_engine_events",
    })
}

fn copies_ms(device: &DeviceTimes) -> f64 {
    device.copies.host.total_ms + device.copies.peer.total_ms
}

/// The directions with a notable part of the bytes, and the rate of a copy in each.
fn directions(situation: &Situation) -> Vec<words::Direction> {
    let Some(section) = situation.section("copy_engine_events") else { return Vec::new() };
    let of = |is_to_gpu: bool, bytes: &str, rate: &str| {
        let rate = section.summary.number(rate)?;
        Some(words::Direction { is_to_gpu, bytes: section.summary.amount(bytes), bytes_per_s: 1e9 * rate })
    };
    let all_bytes = section.summary.amount("h2d_bytes") + section.summary.amount("d2h_bytes");
    let both = [of(true, "h2d_bytes", "h2d_gb_per_s"), of(false, "d2h_bytes", "d2h_gb_per_s")];
    both.into_iter().flatten().filter(|of| of.bytes > 0.0 && of.bytes >= 0.01 * all_bytes).collect()
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
    fn copies_between_gpus_that_no_kernel_hides_are_a_finding() {
        let mut trace = TestTrace::new();
        trace.in_us().kernel("Memcpy PtoP (Device -> Device)", 0..1_000).stream(8).kernel("attention", 1_000..4_000);
        let found = finding(&mut trace, "host-copies").unwrap();
        assert_eq!(found.cost_ms, 1.0);
        assert!(found.evidence.ends_with("only copies between GPUs run"), "{found:?}");
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
