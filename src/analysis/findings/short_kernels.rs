//! `short-kernels`: the turnaround between many short eager kernels adds up.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::{Cost, Situation};
use crate::analysis::replay::cause::Cause;
use crate::trace::Us;
use crate::words::findings::short_kernels as words;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    let thresholds = &situation.context.signals.thresholds;
    let (device, gaps_ms) = situation.worst(|device| device.gaps.turnaround.total.0 as f64 / 1e6)?;
    let Cost { ms: cost_ms, what_if } = situation.cost_at_most(Cause::Turnaround, gaps_ms);
    let gaps = &device.gaps;
    let is_short = gaps.short_kernels as f64 >= thresholds.min_short_kernels
        && gaps.short_kernels.saturating_mul(2) >= gaps.eager_kernels;
    if !is_short || situation.share(cost_ms) < thresholds.min_turnaround_share {
        return None;
    }
    let kernels = words::ShortKernels {
        gap: Us(gaps.turnaround.total.0 as f64 / 1e3 / gaps.turnaround.count.max(1) as f64),
        short: gaps.short_kernels,
        eager: gaps.eager_kernels,
        limit: Us(thresholds.short_kernel_us),
    };
    Some(Finding {
        id: FindingId::ShortKernels,
        confidence: Confidence::High,
        title: words::TITLE,
        cost_ms,
        evidence: words::evidence(situation.amount_of_cost(device, cost_ms, what_if.as_ref()), kernels),
        action: words::action(situation.framework, situation.vendor, situation.has_fused_optimizer()),
        same_as: None,
        what_if,
        section: "launch_storm",
    })
}

#[cfg(test)]
mod tests {
    use crate::analysis::findings::testing::finding;
    use crate::trace::testing::TestTrace;

    /// 200 kernels that start `gap` us after each other and were launched long before.
    fn kernels(busy_us: i64, gap_us: i64, call: &str) -> TestTrace {
        let mut trace = TestTrace::new();
        trace.in_us();
        (0..200).for_each(|index| {
            let start = 100 + index * (busy_us + gap_us);
            trace.call(call, index / 2..index / 2).launches("triton_k", start..start + busy_us);
        });
        trace
    }

    #[test]
    fn gaps_between_many_short_kernels_add_up() {
        let found = finding(&mut kernels(5, 1, "cudaLaunchKernel"), "short-kernels").unwrap();
        assert!((found.cost_ms - 0.199).abs() < 0.01, "{found:?}");
        assert!(found.evidence.contains("200 of 200 eager kernels"), "{found:?}");
    }

    #[test]
    fn long_kernels_and_replayed_kernels_are_no_finding() {
        assert!(finding(&mut kernels(20, 1, "cudaLaunchKernel"), "short-kernels").is_none());
        assert!(finding(&mut kernels(5, 1, "cudaGraphLaunch"), "short-kernels").is_none());
    }
}
