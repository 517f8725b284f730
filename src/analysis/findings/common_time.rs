//! Findings that cost the same time: the idle time after blocking calls, in which the host works, is also time of what it does then, such as
//! compilation or allocations. The one that names what the host does comes first and has the advice. O(findings squared), of at most five.
//!
//! Two costs share time for certain as far as their sum is more than the GPU waited for the host. If that is nearly all of one of them, it
//! is the same time.

use super::finding::{Finding, FindingId};
use super::situation::Situation;
use crate::ordering;
use crate::trace::Ms;
use crate::words::findings as words;

/// The part of a cost that is time of another finding, from which it is the same time. The rest is jitter and returns of calls.
const SAME: f64 = 0.8;

/// Whether a finding is about all idle time in which the host works, whatever it does.
fn is_general(id: FindingId) -> bool {
    matches!(id, FindingId::HostLate | FindingId::ReplayPreparation | FindingId::SyncDrain)
}

/// Whether a finding names what the host does in such time.
fn is_specific(id: FindingId) -> bool {
    matches!(id, FindingId::Compilation | FindingId::Allocations | FindingId::HostWaits)
}

/// Tells which findings share time. Of two that are the same time, the general one follows the other one, without advice of its own. The
/// findings are sorted by cost.
pub(super) fn tell(situation: &Situation, mut findings: Vec<Finding>) -> Vec<Finding> {
    let Some(waited) = situation.waited_part() else { return findings };
    let costs: Vec<(FindingId, f64)> =
        findings.iter().map(|finding| (finding.id, situation.cost_part(finding))).collect();
    let costs_of = |id: FindingId| costs.iter().find(|(other, _)| *other == id).map_or(0.0, |(_, cost)| *cost);
    // The general findings so far, with the one that has the advice for each.
    let mut before: Vec<(FindingId, FindingId)> = Vec::new();
    for finding in findings.iter_mut().filter(|finding| is_general(finding.id)) {
        let cost = situation.cost_part(finding);
        let common = |other: f64| (cost + other - waited).min(other).min(cost);
        let specific = costs.iter().find(|(id, other)| is_specific(*id) && common(*other) >= SAME * cost);
        let general = costs.iter().find(|(id, _)| before.first().is_some_and(|(first, _)| first == id));
        if let Some((id, common)) = specific.or(general).map(|(id, other)| (*id, common(*other)))
            && common > 0.0
        {
            finding.evidence += &words::common_time(Ms(finding.cost_ms * common / cost), id.word());
            let first = before.iter().find(|(other, _)| *other == id).map_or(id, |(_, first)| *first);
            // Of two general ones, each has advice for the rest of its time.
            let least = if is_general(id) { cost.max(costs_of(id)) } else { cost };
            if common >= SAME * least {
                finding.action = words::same_time(first.word());
                finding.same_as = Some(first);
            }
        }
        before.push((finding.id, finding.same_as.unwrap_or(finding.id)));
    }
    behind_the_same(findings)
}

/// The finding with the advice for the time of a finding.
pub(super) fn first_of_same<'a>(findings: &'a [Finding], finding: &'a Finding) -> &'a Finding {
    findings.iter().find(|other| Some(other.id) == finding.same_as).unwrap_or(finding)
}

/// Each finding behind that of the same time.
fn behind_the_same(findings: Vec<Finding>) -> Vec<Finding> {
    let position = |id: FindingId| findings.iter().position(|finding| finding.id == id);
    let first = |finding: &Finding| (position(first_of_same(&findings, finding).id), finding.same_as.is_some());
    let places: Vec<(Option<usize>, bool)> = findings.iter().map(first).collect();
    let mut placed: Vec<((Option<usize>, bool), Finding)> = places.into_iter().zip(findings).collect();
    ordering::sort_by_key(&mut placed, |(place, _)| *place);
    placed.into_iter().map(|(_, finding)| finding).collect()
}

#[cfg(test)]
mod tests {
    use crate::analysis::findings::testing::findings_of;
    use crate::analysis::testing::rows_of;
    use crate::trace::testing::TestTrace;

    /// Forty steps with a kernel of 100 us and a read of its result; then a call of `us` before the next launch.
    fn read_and_call(call: &str, us: i64) -> TestTrace {
        let mut trace = TestTrace::new();
        trace.in_us();
        for start in (0..40).map(|step| step * (110 + us)) {
            trace.range("step[DECODE bs=2]", start..start + 108 + us);
            trace.launch(start..start + 2).launches("gemm", start + 5..start + 105);
            trace.call("cudaStreamSynchronize", start + 3..start + 106).call(call, start + 107..start + 107 + us);
        }
        trace
    }

    #[test]
    fn allocations_after_a_blocking_call_come_before_the_call_and_have_the_advice() {
        let section = findings_of(&mut read_and_call("cudaMalloc", 80));
        let ids = rows_of(&section, &["id"]);
        assert_eq!(ids[0], "allocations", "{section:?}");
        assert!(ids.len() > 1, "{ids:?}");
        for row in &section.rows[1..] {
            assert!(row.text("action").starts_with("This is the same time as `allocations`"), "{row:?}");
        }
    }
}
