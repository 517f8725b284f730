//! `far-from-roof`: the kernels of an op take much more time than the GPU needs for their operations and bytes.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::{Cost, Situation};
use crate::words::findings::far_from_roof as words;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    if situation.has_shifted_durations() {
        return None;
    }
    let (row, Cost { ms: cost_ms, what_if }) = situation.far_from_roof()?;
    let (device, _) = situation.worst(|_| cost_ms)?;
    let finding = Finding {
        id: FindingId::FarFromRoof,
        confidence: Confidence::Medium,
        title: words::TITLE,
        cost_ms,
        evidence: words::evidence(situation.amount_in_whole_steps(device, cost_ms), &row.subject, &row.basis),
        action: words::action(situation.framework, &row.subject),
        same_as: None,
        what_if,
        section: "op_costs",
    };
    let least = situation.context.signals.thresholds.medium_severity_share;
    (situation.counted_share(&finding) >= least).then_some(finding)
}

#[cfg(test)]
mod tests {
    use crate::analysis::findings::testing::finding;
    use crate::trace::Element;
    use crate::trace::testing::TestTrace;

    /// Ten products of 8192^3 on an H100, of which each takes this long, launched ahead.
    fn products(us: i64) -> TestTrace {
        let mut trace = TestTrace::new();
        let operands: [(&[u64], Element); 2] = [(&[8192, 8192], Element::Bf16), (&[8192, 8192], Element::Bf16)];
        trace.in_us().named_device(0, "NVIDIA H100 80GB HBM3");
        for index in 0..10 {
            let start = 20 * index;
            trace.shaped_op("aten::mm", &operands, start..start + 10).launch(start + 1..start + 3);
            trace.launches("gemm", 30 + us * index..30 + us * (index + 1));
        }
        trace
    }

    #[test]
    fn an_op_far_from_its_roof_costs_what_is_above_a_usual_rate() {
        // 1,099.5 GFLOP at 989 TFLOP/s take 1,112 us, at half of that 2,224 us.
        let found = finding(&mut products(8_000), "far-from-roof").unwrap();
        assert!((found.cost_ms - 10.0 * (8.0 - 2.224)).abs() < 0.1, "{found:?}");
        assert!(
            found.evidence.contains("aten::mm: its kernels take 80.0 ms, at 14 % of the arithmetic peak"),
            "{found:?}"
        );
        assert!(found.action.contains("other kernels"), "{found:?}");
    }

    #[test]
    fn a_usual_rate_is_no_finding() {
        assert!(finding(&mut products(2_200), "far-from-roof").is_none());
    }
}
