//! `pageable-copies`: copies from or to pageable host memory, which block the host and cannot overlap. They cost at most their time without
//! other work. The replay returns from their calls at once and keeps their time: pinned memory also makes them faster, which the trace does
//! not show.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::{Cost, Situation};
use crate::analysis::replay::cause::Cause;
use crate::words::findings::pageable_copies as words;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    // Copies that run together with other work cost no GPU time.
    let (device, cost_ms) = situation.worst(|device| device.copies.pageable.total_ms.min(device.exposed_copies_ms))?;
    let Cost { ms: cost_ms, what_if } = situation.measured_cost(Cause::Pinned, cost_ms);
    Some(Finding {
        id: FindingId::PageableCopies,
        confidence: Confidence::Medium,
        title: words::TITLE,
        cost_ms,
        evidence: words::evidence(
            situation.amount_of_cost(device, cost_ms, what_if.as_ref()),
            device.copies.pageable.count,
        ),
        action: words::action(situation.framework, situation.vendor).to_owned(),
        same_as: None,
        what_if,
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
    }

    /// Uploads of 9 ms before three steps of 100 us, each with a copy of 20 us that nothing hides.
    #[test]
    fn uploads_before_the_first_step_are_no_cost_of_the_steps() {
        let mut trace = TestTrace::new();
        let pageable = "Memcpy HtoD (Pageable -> Device)";
        trace.in_us().launch(0..9_000).launches(pageable, 10..9_000);
        for start in (100_000..100_300).step_by(100) {
            trace.range("step[DECODE bs=2]", start..start + 50);
            trace.launch(start..start + 20).launches(pageable, start..start + 20);
            trace.launch(start + 20..start + 22).launches("gemm", start + 22..start + 95);
        }
        let found = finding(&mut trace, "pageable-copies").unwrap();
        assert!(found.cost_ms <= 0.06 + 1e-9, "{}", found.cost_ms);
    }

    #[test]
    fn pinned_copies_and_hidden_copies_are_no_finding() {
        assert!(finding(&mut copies("Memcpy HtoD (Pinned -> Device)", 500), "pageable-copies").is_none());
        assert!(finding(&mut copies("Memcpy HtoD (Pageable -> Device)", 0), "pageable-copies").is_none());
    }
}
