//! `pageable-copies`: copies from or to pageable host memory, which block the host and cannot overlap.

use super::finding::{Confidence, Finding};
use super::situation::{Situation, counted};

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    // Copies that run together with other work cost no GPU time.
    let (device, cost_ms) = situation.worst(|device| device.copies.pageable.total_ms.min(device.exposed_copies_ms))?;
    Some(Finding {
        id: "pageable-copies",
        confidence: Confidence::High,
        title: "Copies from or to pageable memory",
        cost_ms,
        evidence: format!(
            "{}: no kernel runs during these copies; {} use pageable host memory",
            situation.amount(device, cost_ms),
            counted(device.copies.pageable.count, "copy").replace("copys", "copies"),
        ),
        action: "Pin the host memory (`pin_memory=True` in the DataLoader, `tensor.pin_memory()`) and copy with \
                 `non_blocking=True` on a stream of its own."
            .to_owned(),
        section: "copy_engine_events",
    })
}

#[cfg(test)]
mod tests {
    use crate::analysis::findings::testing::finding;
    use crate::trace::testing::TestTrace;

    fn copies(name: &str, kernel_start: i64) -> TestTrace {
        let mut trace = TestTrace::new();
        trace.in_us().kernel(name, 0..500).stream(8).kernel("gemm", kernel_start..kernel_start + 9_500);
        trace
    }

    #[test]
    fn pageable_copies_without_kernels_are_a_finding() {
        let found = finding(&mut copies("Memcpy HtoD (Pageable -> Device)", 500), "pageable-copies").unwrap();
        assert_eq!(found.cost_ms, 0.5);
        assert!(found.action.contains("pin_memory"));
    }

    #[test]
    fn pinned_copies_and_hidden_copies_are_no_finding() {
        assert!(finding(&mut copies("Memcpy HtoD (Pinned -> Device)", 500), "pageable-copies").is_none());
        assert!(finding(&mut copies("Memcpy HtoD (Pageable -> Device)", 0), "pageable-copies").is_none());
    }
}
