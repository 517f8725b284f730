//! `communication-waits`: collectives wait for other ranks instead of transferring data.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::{Cost, DeviceTimes, Situation, ms};
use crate::analysis::communication::waiting::{DeviceWaiting, Evidence, Size};
use crate::analysis::replay::cause::Cause;
use crate::trace::Ns;
use crate::words::findings::communication_waits::{self as words, Reason};

/// The waiting of a device that no other work hides.
pub(super) fn exposed_waiting_ms(device: &DeviceTimes) -> f64 {
    let Some(DeviceWaiting { whole, waiting, .. }) = device.waits else { return 0.0 };
    let exposed = (device.exposed_communication_ms / ms(whole)).min(1.0);
    if whole > Ns::ZERO { ms(waiting) * exposed } else { 0.0 }
}

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    // Between the stages of a pipeline, a rank waits for the work of another one: no rank is late.
    if situation.has_shifted_durations() || situation.sends_only() {
        return None;
    }
    let (device, waiting_ms) = situation.worst(exposed_waiting_ms)?;
    let Cost { ms: cost_ms, what_if } = situation.cost_at_most(Cause::Communication, waiting_ms);
    let waits = device.waits?;
    let (confidence, reason) = reason(waits.evidence);
    let may_wait = confidence == Confidence::Low;
    Some(Finding {
        id: FindingId::CommunicationWaits,
        confidence,
        title: if may_wait { words::UNSURE_TITLE } else { words::TITLE },
        cost_ms,
        evidence: words::evidence(
            situation.amount_of_cost(device, cost_ms, what_if.as_ref()),
            waits.waiting,
            waits.total,
            may_wait,
            reason,
        ),
        action: words::action(last_to_arrive(situation, waits.evidence)),
        same_as: None,
        what_if,
        section: "nccl_ops",
    })
}

/// The device that waits least, if the file has all ranks that are compared: the others wait for it.
fn last_to_arrive<'a>(situation: &'a Situation, evidence: Evidence) -> Option<&'a str> {
    let is_of_ranks = matches!(evidence, Evidence::Ranks { .. });
    let waiting = |device: &DeviceTimes| device.waits.map(|waits| waits.waiting);
    let ranks = situation.devices.iter().filter(|device| is_of_ranks && device.waits.is_some());
    ranks.min_by_key(|device| waiting(device)).map(|device| device.label.as_str())
}

/// How certain the waiting is, and why it counts as waiting.
fn reason(evidence: Evidence) -> (Confidence, Reason) {
    match evidence {
        Evidence::Ranks { shortest, longest } => (Confidence::High, Reason::Ranks { shortest, longest }),
        Evidence::Calls { calls, shortest, longest, size } => match size {
            Size::Bytes(_) => (Confidence::Medium, Reason::OneSize { calls, shortest, longest }),
            Size::Place(_) => (Confidence::Medium, Reason::OnePlace { calls, shortest, longest }),
            Size::Unknown => (Confidence::Low, Reason::OneKernel { calls, shortest, longest }),
        },
        Evidence::Larger { bytes, duration, larger_bytes, larger_duration } => {
            (Confidence::Medium, Reason::Larger { bytes, duration, larger_bytes, larger_duration })
        }
        Evidence::Bandwidth { bytes, duration, transfer } => {
            (Confidence::Medium, Reason::Bandwidth { bytes, duration, transfer })
        }
        Evidence::SlowNetwork { bytes, duration, transfer } => {
            (Confidence::Medium, Reason::SlowNetwork { bytes, duration, transfer })
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::analysis::findings::testing::finding;
    use crate::trace::Collective;
    use crate::trace::testing::TestTrace;

    const ALL_REDUCE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL";

    /// All-reduces of these durations and sizes, one per millisecond, with compute before each.
    fn all_reduces(calls: &[(i64, u64)]) -> TestTrace {
        let mut trace = TestTrace::new();
        trace.in_us();
        for (start, &(duration, bytes)) in (0..).step_by(1_000).zip(calls) {
            trace.kernel("gemm", start..start + 1_000 - duration);
            let bytes_in = Some(bytes).filter(|bytes| *bytes > 0);
            let message = Collective { operation: "allreduce".to_owned(), bytes_in, ..Collective::default() };
            trace.kernel(ALL_REDUCE, start + 1_000 - duration..start + 1_000).message(message);
        }
        trace
    }

    #[test]
    fn calls_of_one_size_with_very_different_durations_wait() {
        let mut trace = all_reduces(&[(50, 8), (50, 8), (50, 8), (50, 8), (50, 8), (650, 8)]);
        let found = finding(&mut trace, "communication-waits").unwrap();
        assert!((found.cost_ms - 0.6).abs() < 1e-9, "{found:?}");
        assert!(found.evidence.contains("6 calls of one size take 50 us to 650 us"), "{found:?}");
        assert!(found.action.contains("gpuprism ranks") && !found.action.contains("verlap"), "{found:?}");
        assert!(finding(&mut trace, "exposed-communication").is_none(), "the time is mostly waiting");
    }

    #[test]
    fn calls_of_different_sizes_or_steady_durations_do_not_wait() {
        for calls in [
            [(50, 1), (50, 1), (50, 1), (50, 1), (50, 1), (650, 9)],
            [(200, 1), (210, 2), (220, 3), (205, 4), (390, 5), (602, 6)],
            [(200, 8), (210, 8), (220, 8), (205, 8), (390, 8), (202, 8)],
            // Sizes and steps are unknown, and the durations are similar.
            [(200, 0), (210, 0), (220, 0), (205, 0), (500, 0), (202, 0)],
        ] {
            assert!(finding(&mut all_reduces(&calls), "communication-waits").is_none(), "{calls:?}");
        }
    }

    #[test]
    fn a_small_message_that_takes_longer_than_a_large_one_waits() {
        let found = finding(&mut all_reduces(&[(50, 1_500_000), (650, 448)]), "communication-waits").unwrap();
        assert!((found.cost_ms - 0.6).abs() < 1e-9, "{found:?}");
        let expected = "A call that sends 448 bytes takes 650 us, one that sends 1.5 MB only 50 us";
        assert!(found.evidence.contains(expected), "{found:?}");
        assert_eq!(found.confidence, "medium");
        assert!(finding(&mut all_reduces(&[(50, 448), (650, 1_500_000)]), "communication-waits").is_none());
    }

    #[test]
    fn the_waiting_of_the_finding_is_that_of_the_section_of_collectives() {
        let mut trace = all_reduces(&[(50, 8), (50, 8), (650, 8)]);
        trace.in_us().kernel("ncclDevKernel_AllGather_RING_LL", 3_000..3_100);
        trace.kernel("ncclDevKernel_AllGather_RING_LL", 4_000..4_900);
        let sections = trace.sections();
        let waiting: f64 = sections["nccl_ops"].rows.iter().map(|row| row.amount("waiting_estimate_ms")).sum();
        let evidence =
            crate::analysis::testing::row(&sections["findings"], "id", "communication-waits").words("evidence");
        assert!((waiting - 0.6).abs() < 1e-9 && evidence.contains("600 us of the 1.8 ms"), "{waiting} {evidence}");
    }

    /// A barrier of 20 ms while the program starts, then six steps of 1 ms with a call each, of which one waits for 600 us. The last step
    /// reaches no other one, so the cost is that of five: 500 us of 5 ms, as 600 us of 6 ms.
    #[test]
    fn what_waits_before_the_first_step_is_not_in_the_cost() {
        let mut trace = TestTrace::new();
        trace.in_us().launch(0..5).launches(ALL_REDUCE, 10..20_010);
        for (index, duration) in [50, 50, 50, 50, 50, 650].into_iter().enumerate() {
            let start = 30_000 + 1_000 * index as i64;
            trace.range("step[DECODE bs=2]", start..start + 900);
            trace.launch(start..start + 5).launches("gemm", start + 5..start + 1_000 - duration);
            trace.launch(start + 10..start + 15).launches(ALL_REDUCE, start + 1_000 - duration..start + 1_000);
        }
        let found = finding(&mut trace, "communication-waits").unwrap();
        assert!(found.evidence.contains("of the 900 us in communication kernels"), "{found:?}");
        assert!((found.cost_ms - 0.5).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn a_stage_of_a_pipeline_waits_for_work_and_for_no_late_rank() {
        let stage = || {
            let mut trace = TestTrace::new();
            trace.in_us();
            for (start, duration) in (0..).step_by(1_000).zip([150, 150, 150, 150, 150, 750]) {
                trace.kernel("gemm", start..start + 1_000 - duration);
                trace.kernel("ncclDevKernel_SendRecv", start + 1_000 - duration..start + 1_000);
            }
            trace
        };
        for id in ["communication-waits", "exposed-communication"] {
            assert!(finding(&mut stage(), id).is_none(), "{id}");
        }
        let run = crate::analysis::testing::analyze(&stage().finish());
        assert!(run.verdict.text.contains("Send/Recv runs alone for 25.0 % of the time"), "{}", run.verdict.text);
    }

    #[test]
    fn very_different_calls_of_unknown_size_may_wait() {
        let mut trace = all_reduces(&[(50, 0), (50, 0), (50, 0), (50, 0), (50, 0), (650, 0)]);
        let found = finding(&mut trace, "communication-waits").unwrap();
        assert_eq!(found.confidence, "low");
        assert!(
            found.evidence.contains("may be waiting") && found.evidence.contains("does not know their sizes"),
            "{found:?}"
        );
        assert!(finding(&mut trace, "exposed-communication").is_none(), "nobody knows whether an overlap helps");
    }

    #[test]
    fn without_sizes_calls_at_one_place_of_the_step_are_compared() {
        let mut trace = TestTrace::new();
        trace.in_us();
        for (start, wait) in (0..).step_by(1_000).zip([0, 0, 600, 0, 0]) {
            trace.range("ProfilerStep#1", start..start + 999);
            trace.launch(start..start + 1).launches("gemm", start + 1..start + 300);
            trace.launch(start + 1..start + 2).launches(ALL_REDUCE, start + 300..start + 350 + wait);
        }
        let found = finding(&mut trace, "communication-waits").unwrap();
        assert!(found.evidence.contains("5 calls at one place of the step"), "{found:?}");
    }

    #[test]
    fn ranks_in_one_file_are_compared_with_each_other() {
        let ranks = |second: i64| {
            let mut trace = TestTrace::nsys();
            trace.in_us();
            for (device, duration) in [(0, 500), (1, second)] {
                trace.device(device).process(10 + device).kernel("gemm", 0..9_500 - duration);
                trace.kernel(ALL_REDUCE, 9_500 - duration..9_500);
            }
            finding(&mut trace, "communication-waits")
        };
        let found = ranks(2_500).unwrap();
        assert_eq!((found.cost_ms, found.confidence.as_str()), (2.0, "high"));
        assert!(ranks(510).is_none());
    }
}
