//! `unified-memory-migration`: pages of unified memory move between host and GPU when a kernel touches them.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::Situation;
use crate::words::findings::unified_memory_migration as words;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    let (device, cost_ms) = situation.worst(|device| device.copies.migration.total_ms)?;
    Some(Finding {
        id: FindingId::UnifiedMemoryMigration,
        confidence: Confidence::High,
        title: words::TITLE,
        cost_ms,
        evidence: words::evidence(situation.amount(device, cost_ms), device.copies.migration.count),
        action: words::action(situation.vendor),
        same_as: None,
        what_if: None,
        section: "copy_engine_events",
    })
}

#[cfg(test)]
mod tests {
    use crate::analysis::findings::testing::finding;
    use crate::trace::testing::TestTrace;

    #[test]
    fn migrations_want_prefetch_and_not_pinning() {
        let mut trace = TestTrace::nsys();
        trace.in_us().kernel("[CUDA memcpy Unified Host-to-Device]", 0..500).kernel("saxpy", 500..9_500);
        let found = finding(&mut trace, "unified-memory-migration").unwrap();
        assert_eq!(found.cost_ms, 0.5);
        assert!(found.action.contains("cudaMemPrefetchAsync") && !found.action.contains("in_memory"), "{found:?}");
    }

    #[test]
    fn explicit_copies_are_no_migration() {
        let mut trace = TestTrace::nsys();
        trace.in_us().kernel("[CUDA memcpy Host-to-Device]", 0..500).kernel("saxpy", 500..9_500);
        assert!(finding(&mut trace, "unified-memory-migration").is_none());
    }
}
