//! Findings: causes of lost GPU time that the trace proves, each with its cost, its evidence and an action in the words
//! of the framework that wrote the trace. Cost: O(rows of the sections).
//!
//! Each finding is a file with its condition, cost and tests; [`crate::words::findings`] has a file for each with its words. To add one,
//! write both and add its function to [`FINDINGS`]. The cost is the recoverable time on the device where it is largest, never a sum over
//! devices. Two findings can include the same time, so their costs do not add up.

mod allocations;
mod common_time;
mod communication_waits;
mod compilation;
mod exposed_communication;
mod far_from_roof;
mod finding;
mod host_copies;
mod host_late;
mod host_waits;
mod pageable_copies;
mod replay_preparation;
mod short_kernels;
mod situation;
mod start_up;
mod sync_drain;
#[cfg(test)]
pub(crate) mod testing;
mod unfused_kernels;
mod unified_memory_migration;
mod unsuited_kernels;

pub use finding::{Confidence, FindingId, Severity};
pub(crate) use situation::counts_steps_only;

use crate::analysis::context::Context;
use crate::analysis::section::{Answer, Ms, Pct, Sections, TypedSection, section};
use crate::analysis::structure::start_up::SaidStart;
use crate::analysis::unit::Unit;
use crate::ordering;
use crate::words::{findings as words, or_nothing};
use finding::Finding;
use situation::Situation;
use std::cmp::Reverse;

/// All findings. A function returns `None` if the trace does not prove its finding.
const FINDINGS: [fn(&Situation) -> Option<Finding>; 16] = [
    host_late::find,
    compilation::find,
    replay_preparation::find,
    sync_drain::find,
    pageable_copies::find,
    unified_memory_migration::find,
    host_copies::find,
    exposed_communication::find,
    communication_waits::find,
    short_kernels::find,
    unsuited_kernels::find,
    host_waits::find,
    allocations::find,
    far_from_roof::find,
    unfused_kernels::find,
    start_up::find,
];

/// The largest number of findings in a report.
const MAX_FINDINGS: usize = 5;

section! {
    /// The causes of lost GPU time, by severity and then by cost.
    pub(crate) struct Findings("findings", "Findings");
    row FindingRow {
        id: FindingId,
        severity: Severity,
        confidence: Confidence,
        title: String,
        /// At most.
        cost_ms: Ms,
        /// In the steps, or in the capture; if it was replayed in a capture without steps, in the replayed part.
        share_pct: Pct,
        /// At least, where it was replayed, also by a replay that abstains.
        proven_ms: Option<Ms> = "Proven cost",
        evidence: String,
        action: String,
        /// The name of the section with the evidence.
        section: String,
        /// The id of its row in the section `what_if`.
        what_if: Option<String> = "Replayed as",
    }
}

impl FindingRow {
    /// Whether its time is that of another finding, which has the advice.
    pub(crate) fn is_same_time(&self) -> bool {
        words::is_same_time(&self.action)
    }

    /// The middle of what it costs at least and at most, as a part of the steps that it is about: so a cost of all steps is compared with
    /// one of whole steps, which may be one step less.
    pub(crate) fn middle_part(&self, unit: Unit) -> f64 {
        let unit = if self.id.is_of_whole_steps(self.what_if.is_some()) { unit.whole() } else { unit };
        unit.part(finding::middle_ms(self.cost_ms.0, self.proven_ms.map(|Ms(least)| least)))
    }
}

/// Lists the [`MAX_FINDINGS`] findings with the largest costs, by severity and then by the middle of what they cost at least and at most.
pub(crate) fn findings(context: &Context, sections: &Sections) -> Answer<Findings> {
    let situation = Situation::of(context, sections);
    let thresholds = &context.signals.thresholds;
    let counts = |finding: &Finding| situation.counted_share(finding);
    let is_large = |finding: &Finding| counts(finding) >= thresholds.min_finding_share;
    let mut findings: Vec<Finding> = FINDINGS.iter().filter_map(|find| find(&situation)).filter(is_large).collect();
    // What a start costs says nothing about the steps of the workload.
    if SaidStart::of(sections).is_some_and(|start| start.is_cold()) {
        findings.retain(|finding| finding.id == FindingId::StartUp);
    }
    ordering::sort_by(&mut findings, |a, b| situation.middle_part(b).total_cmp(&situation.middle_part(a)));
    findings.truncate(MAX_FINDINGS);
    let findings = common_time::tell(&situation, findings);
    // An uncertain cause is never of high severity, however large its cost.
    let own_severity = |finding: &Finding| match counts(finding) {
        share if share >= thresholds.high_severity_share && finding.confidence > Confidence::Low => Severity::High,
        share if share >= thresholds.medium_severity_share => Severity::Medium,
        _ => Severity::Low,
    };
    // Behind the finding with the advice for the same time.
    let severity =
        |finding: &Finding| own_severity(finding).min(own_severity(common_time::first_of_same(&findings, finding)));
    let severities: Vec<Severity> = findings.iter().map(severity).collect();
    let mut graded: Vec<(Severity, Finding)> = severities.into_iter().zip(findings).collect();
    // Stable, so that findings of one severity stay in their order.
    ordering::sort_by_key(&mut graded, |(severity, _)| Reverse(*severity));
    let row = |(severity, finding): (Severity, Finding)| {
        let replayed = or_nothing(finding.replayed().and_then(|saving| situation.replayed(saving)), words::replayed);
        let idle = finding.what_if.as_ref().filter(|_| finding.id.idle_cause().is_some());
        let long = idle.and_then(|saving| situation.in_long_steps_ms(saving));
        let long = or_nothing(long, |long_ms| words::in_long_steps(Ms(long_ms)));
        FindingRow {
            id: finding.id,
            severity,
            confidence: situation.confidence(&finding),
            title: words::title(finding.title),
            cost_ms: Ms(finding.cost_ms),
            share_pct: Pct(100.0 * situation.cost_share(&finding)),
            proven_ms: situation.proven_ms(&finding).map(Ms),
            evidence: [finding.evidence.as_str(), &replayed, &long].concat(),
            action: finding.action,
            section: finding.section.to_owned(),
            what_if: finding.what_if.map(|saving| saving.id.to_string()),
        }
    };
    let rows: Vec<FindingRow> = graded.into_iter().map(row).collect();
    Findings::answer("all other sections")
        .limit(
            "The cost is the time that could be saved on the device where it is largest. Two findings can include the \
             same time.",
        )
        .with_rows(rows)
}

#[cfg(test)]
mod tests {
    use super::testing::*;
    use crate::analysis::testing::{number, rows_of, words};

    #[test]
    fn findings_of_one_severity_are_sorted_by_cost_and_small_ones_are_left_out() {
        // 2 ms of unified-memory migration, 6 ms of late launches, 20 us of pageable copies.
        let mut trace = torch_loop(10, 600, 400);
        trace.kernel("[CUDA memcpy Unified Host-to-Device]", 20_000..22_000);
        trace.kernel("Memcpy HtoD (Pageable -> Device)", 22_000..22_020);
        let section = findings_of(&mut trace);
        assert_eq!(rows_of(&section, &["id"]), ["host-late", "unified-memory-migration"]);
        let row = &section.rows[1];
        assert_eq!((number(row, "cost_ms"), words(row, "severity")), (2.0, "medium"));
    }

    #[test]
    fn an_uncertain_finding_is_not_of_high_severity() {
        let grade = |message_bytes: u64| {
            let mut trace = crate::trace::testing::TestTrace::new();
            trace.in_us();
            for (start, duration) in (0..).step_by(1_000).zip([50, 50, 50, 50, 950, 950]) {
                let message = crate::trace::Collective {
                    operation: "allreduce".to_owned(),
                    bytes_in: Some(message_bytes).filter(|bytes| *bytes > 0),
                    ..crate::trace::Collective::default()
                };
                trace.kernel("gemm", start..start + 1_000 - duration);
                trace.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", start + 1_000 - duration..start + 1_000);
                trace.message(message);
            }
            let section = findings_of(&mut trace);
            let row = &section.rows[0];
            assert_eq!(words(row, "id"), "communication-waits");
            [words(row, "severity").to_owned(), words(row, "confidence").to_owned()]
        };
        assert_eq!(grade(0), ["medium", "low"], "nobody knows whether calls of unknown sizes wait");
        assert_eq!(grade(8)[0], "high");
    }

    #[test]
    fn the_cost_is_that_of_the_worst_device_and_not_a_sum() {
        let mut trace = crate::trace::testing::TestTrace::nsys();
        trace.in_us();
        for device in 0..2 {
            trace.device(device).kernel("[CUDA memcpy Unified Host-to-Device]", 0..1_000 + 1_000 * device);
            trace.kernel("k", 3_000..9_000);
        }
        let section = findings_of(&mut trace);
        assert_eq!(number(&section.rows[0], "cost_ms"), 2.0);
    }
}
