//! `exposed-communication`: communication runs without compute for a part of the time, and it is not mostly waiting.

use super::communication_waits::exposed_waiting_ms;
use super::finding::{Confidence, Finding, FindingId};
use super::situation::{Cost, DeviceTimes, Situation};
use crate::analysis::classified::KernelKind;
use crate::analysis::communication::waiting::{DeviceWaiting, Evidence};
use crate::analysis::replay::cause::Cause;
use crate::trace::{Ms, Ns};
use crate::words::findings::exposed_communication as words;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    if situation.has_shifted_durations() || situation.sends_only() {
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
    let waiting = Some(exposed_waiting_ms(device)).filter(|ms| *ms > 0.0).map(Ms);
    let knows_waiting = knows_waiting(device);
    Some(Finding {
        id: FindingId::ExposedCommunication,
        confidence: if knows_waiting { Confidence::High } else { Confidence::Medium },
        title: words::TITLE,
        cost_ms,
        evidence: words::evidence(
            situation.cost_of_work(device, (cost_ms, exposed_ms), what_if.as_ref()),
            waiting,
            knows_waiting,
        ),
        action: words::action(situation.framework, knows_waiting, gathers(situation)),
        same_as: None,
        what_if,
        section: "nccl_ops",
    })
}

/// Whether all-gathers take more than half of the time of communication kernels.
fn gathers(situation: &Situation) -> bool {
    let context = situation.context;
    let (mut gathers, mut all) = (Ns::ZERO, Ns::ZERO);
    for group in context.groups().iter() {
        if let KernelKind::Communication(operation) = context.kernel_kind(group.name) {
            all += group.total;
            gathers += if operation == "allgather" { group.total } else { Ns::ZERO };
        }
    }
    gathers.0 > all.0 / 2
}

/// True if the file contains the other ranks.
fn knows_waiting(device: &DeviceTimes) -> bool {
    matches!(device.waits, Some(DeviceWaiting { evidence: Evidence::Ranks { .. }, .. }))
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
    fn all_gathers_of_a_training_are_told_to_be_fetched_ahead() {
        let mut trace = TestTrace::new();
        trace.in_us().kernel(KINDS[ALLGATHER], 0..1_000).kernel("at::native::gemm", 1_000..4_000);
        assert!(finding(&mut trace, "exposed-communication").unwrap().action.contains("forward_prefetch"));
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
