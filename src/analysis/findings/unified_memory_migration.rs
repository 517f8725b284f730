//! `unified-memory-migration`: pages of unified memory move between host and GPU when a kernel touches them.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::{Situation, counted};
use crate::trace::Vendor;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    let (device, cost_ms) = situation.worst(|device| device.copies.migration.total_ms)?;
    let prefetch = match situation.vendor {
        Vendor::Nvidia => "`cudaMemPrefetchAsync`",
        Vendor::Amd => "`hipMemPrefetchAsync`",
        Vendor::Intel => "`queue.prefetch`",
        Vendor::Huawei | Vendor::Google => "a copy to the device",
    };
    let advise =
        if situation.vendor == Vendor::Nvidia { " Set `cudaMemAdvise` for data that one side only reads." } else { "" };
    Some(Finding {
        id: FindingId::UnifiedMemoryMigration,
        confidence: Confidence::High,
        title: "Migration of unified memory",
        cost_ms,
        evidence: format!(
            "{} in {} of pages between host and GPU",
            situation.amount(device, cost_ms),
            counted(device.copies.migration.count, "migration"),
        ),
        action: format!("Prefetch the data with {prefetch} before the kernel that uses it.{advise}"),
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
