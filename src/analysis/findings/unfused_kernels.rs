//! `unfused-kernels`: elementwise kernels of PyTorch run one after the other, and each reads what the one before wrote.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::{Cost, Situation};
use crate::words::findings::unfused_kernels as words;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    if situation.has_shifted_durations() {
        return None;
    }
    let (row, Cost { ms: cost_ms, what_if }) = situation.unfused()?;
    let (device, _) = situation.worst(|_| cost_ms)?;
    let finding = Finding {
        id: FindingId::UnfusedKernels,
        confidence: Confidence::Medium,
        title: words::TITLE,
        cost_ms,
        evidence: words::evidence(situation.amount_in_whole_steps(device, cost_ms), &row.basis),
        action: words::action(situation.framework).to_owned(),
        same_as: None,
        what_if,
        section: "kernels",
    };
    let least = situation.context.signals.thresholds.medium_severity_share;
    (situation.counted_share(&finding) >= least).then_some(finding)
}

#[cfg(test)]
mod tests {
    use crate::analysis::findings::testing::finding;
    use crate::trace::testing::TestTrace;

    const MUL: &str = "void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor>(int)";

    /// Ten times a product of 100 us and these kernels of 20 us, all launched ahead.
    fn loop_of(kernels: &[&str]) -> TestTrace {
        let mut trace = TestTrace::new();
        trace.in_us();
        let length = 100 + 20 * kernels.len() as i64;
        for index in 0..10 {
            let (mut start, call) = (100 + length * index, 5 * index);
            trace.launch(call..call + 1).launches("gemm_kernel", start..start + 100);
            start += 100;
            for (at, kernel) in (1..).zip(kernels) {
                trace.launch(call + at..call + at + 1).launches(kernel, start..start + 20);
                start += 20;
            }
        }
        trace
    }

    #[test]
    fn runs_of_elementwise_kernels_cost_at_most_what_is_beyond_the_longest_of_each() {
        let found = finding(&mut loop_of(&[MUL, MUL, MUL]), "unfused-kernels").unwrap();
        // 40 of 60 us in each of ten runs.
        assert!((found.cost_ms - 0.4).abs() < 1e-9, "{found:?}");
        assert!(found.evidence.contains("30 kernels in 10 runs of two or more take 600 us"), "{found:?}");
        assert!(found.action.contains("torch.compile"), "{found:?}");
    }

    #[test]
    fn single_elementwise_kernels_and_those_of_a_compiler_are_no_finding() {
        assert!(finding(&mut loop_of(&[MUL]), "unfused-kernels").is_none());
        let compiled = ["triton_poi_fused_add_mul_0"; 3];
        assert!(finding(&mut loop_of(&compiled), "unfused-kernels").is_none());
    }
}
