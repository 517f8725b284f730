//! `short-kernels`: the turnaround between many short eager kernels adds up.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::{Cost, Framework, Situation};
use crate::analysis::replay::cause::Cause;
use crate::digits::grouped;

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
    let action = match situation.framework {
        Framework::Xla => {
            "XLA fuses ops within a compiled function: put more of the step into one `jax.jit`, or use larger batches."
                .to_owned()
        }
        Framework::Program => format!("Fuse consecutive kernels, or replay the sequence with {}.", situation.graphs()),
        Framework::Training => format!(
            "Fuse elementwise kernels with `torch.compile`, {}or use larger batches so that each kernel does more work.",
            situation.fused_optimizer()
        ),
        Framework::Transformers | Framework::Torch => {
            "Fuse elementwise kernels with `torch.compile`, or use larger batches so that each kernel does more work."
                .to_owned()
        }
        _ => "Use fused kernels: `gpuprism triage` lists the sequences that have one.".to_owned(),
    };
    Some(Finding {
        id: FindingId::ShortKernels,
        confidence: Confidence::High,
        title: "Gaps between short kernels",
        cost_ms,
        evidence: format!(
            "{}: the usual gaps between ops that were launched in time, {:.1} us each; {} of {} eager kernels take less than {:.0} us",
            situation.amount(device, cost_ms),
            gaps.turnaround.total.0 as f64 / 1e3 / gaps.turnaround.count.max(1) as f64,
            grouped(gaps.short_kernels),
            grouped(gaps.eager_kernels),
            thresholds.short_kernel_us,
        ),
        action,
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
