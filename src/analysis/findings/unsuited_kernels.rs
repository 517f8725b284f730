//! `unsuited-kernels`: kernels whose names prove that others would take less time.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::{Cost, DeviceTimes, Situation};
use crate::analysis::context::Context;
use crate::analysis::inference::unsuited_kernels::{Hit, hits};
use crate::analysis::replay::cause::{Cause, CauseId};
use crate::ordering;
use crate::trace::{DeviceId, GpuOp, Ns};
use crate::words::findings::unsuited_kernels as words;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    // A row needs less time than the finding, and names are not searched again without one.
    situation.section("unsuited_kernels").filter(|section| !section.rows.is_empty())?;
    let hits = hits(situation.context);
    let costs = hits.iter().filter_map(|hit| {
        let counted = Counted::of(situation.context, hit);
        let late_share = device_of(situation, hit).map_or(0.0, |device| situation.share(device.host_late_ms));
        let saved_ms = hit.test.saved_share? * counted.recoverable.0 as f64 / 1e6;
        let id = CauseId { cause: Cause::Unsuited, subject: hit.test.problem.clone() };
        let cost = situation.cost(id, saved_ms * share_of_gpu(late_share));
        Some((hit, counted, cost))
    });
    let (hit, counted, Cost { ms: cost_ms, what_if }) = costs.max_by(|a, b| a.2.ms.total_cmp(&b.2.ms))?;
    let device = device_of(situation, hit)?;
    let basis = hit.test.basis.as_deref().unwrap_or_default();
    let evidence = words::evidence(
        situation.amount_of_cost(device, cost_ms, what_if.as_ref()),
        counted.launches,
        counted.total,
        basis,
    );
    let finding = Finding {
        id: FindingId::UnsuitedKernels,
        confidence: Confidence::Medium,
        title: &hit.test.problem,
        cost_ms,
        evidence,
        action: hit.test.advice.clone(),
        same_as: None,
        what_if,
        section: "unsuited_kernels",
    };
    let least = situation.context.signals.thresholds.medium_severity_share;
    (situation.counted_share(&finding) >= least).then_some(finding)
}

/// The kernels of a problem in the steps; in a trace without steps, all of them.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    launches: u64,
    total: Ns,
    /// The part that faster kernels can save. A kernel that was launched late, and whose next one is launched late too, only gives a
    /// longer gap when it is faster.
    recoverable: Ns,
}

/// The part of a saving on the GPU that shortens a step whose host is late for this share: all of it to 10 %, none from 25 % on,
/// where the host decides how long a step takes.
fn share_of_gpu(late_share: f64) -> f64 {
    const FULL: f64 = 0.10;
    const NONE: f64 = 0.25;
    ((NONE - late_share) / (NONE - FULL)).clamp(0.0, 1.0)
}

/// A kernel counts in full if it, or the launch of the next one, was ahead by a quarter of its time.
const QUEUED: i64 = 4;
/// A launch takes up to this long, so that an op which starts later waited in the queue.
const LAUNCH: Ns = Ns(20_000);

impl Counted {
    /// One pass over the ops of the device, with a binary search for each kernel.
    fn of(context: &Context, hit: &Hit) -> Self {
        let steps = step_times(context, hit.device);
        let is_in_step = |op: &GpuOp| {
            let after = steps.partition_point(|(start, _)| *start <= op.start);
            let step = after.checked_sub(1).and_then(|step| steps.get(step));
            steps.is_empty() || step.is_some_and(|(_, until)| op.start < *until)
        };
        let ops = &context.trace.gpu_ops;
        let launch = |row: usize| context.trace.calls.start(ops.launch(row)?.0 as usize);
        let (mut counted, mut before): (Self, Option<(GpuOp, Ns)>) = (Self::default(), None);
        for (row, op) in ops.iter().enumerate().filter(|(_, op)| op.device == hit.device) {
            let launched = launch(row);
            if let Some((before, queued)) = before.take() {
                let ahead = launched.map_or(before.duration, |launched| before.end().since(launched));
                counted.recoverable += before.duration.min(Ns(QUEUED * ahead.max(queued).0)).max(Ns::ZERO);
            }
            if hit.contains(op.name) && is_in_step(&op) {
                let queued = launched.map_or(op.duration, |launched| op.start.since(launched).since(LAUNCH));
                counted.launches += 1;
                counted.total += op.duration;
                before = Some((op, queued));
            }
        }
        counted.recoverable += before.map_or(Ns::ZERO, |(last, _)| last.duration);
        counted
    }
}

/// Start and end of the steps of a device, sorted.
fn step_times(context: &Context, device: DeviceId) -> Vec<(Ns, Ns)> {
    let steps = context.measured_steps().steps.iter().filter(|measured| measured.step.device == Some(device));
    let mut times: Vec<(Ns, Ns)> = steps.map(|measured| (measured.step.start, measured.until)).collect();
    ordering::sort_by_key(&mut times, |time| *time);
    times
}

fn device_of<'a>(situation: &'a Situation, hit: &Hit) -> Option<&'a DeviceTimes> {
    let id = &situation.context.trace.devices.get(hit.device.0 as usize)?.id;
    situation.devices.iter().find(|device| device.label == *id)
}

#[cfg(test)]
mod tests {
    use crate::analysis::findings::testing::finding;
    use crate::trace::testing::TestTrace;

    /// Ten products of 50 us, each `gap` us after the one before it. With a gap they are launched late. Other work follows.
    fn products(name: &str, gap: i64, other: i64) -> TestTrace {
        let mut trace = TestTrace::new();
        trace.in_us().capability(90);
        let mut end = 10;
        for _ in 0..10 {
            let launch = if gap > 0 { end + gap } else { 0 };
            trace.launch(launch..launch).launches(name, end + gap..end + gap + 50);
            end += gap + 50;
        }
        trace.launch(0..0).launches("k", end..end + other);
        trace
    }

    #[test]
    fn fp32_products_on_cuda_cores_cost_half_of_their_time() {
        let found = finding(&mut products("ampere_sgemm_128x128_tn", 0, 500), "unsuited-kernels").unwrap();
        assert_eq!((found.cost_ms, found.confidence.as_str()), (0.25, "medium"));
        assert!(found.evidence.contains("10 kernels take 500 us"), "{found:?}");
        assert!(found.action.contains("TF32"), "{found:?}");
    }

    #[test]
    fn only_kernels_in_steps_count_also_those_before_a_late_step() {
        // A kernel of an earlier step, then three steps of two products of 100 us, launched together 11 us after the step before.
        let mut trace = TestTrace::new();
        trace.in_us().capability(90).kernel("ampere_sgemm_128x128_tn", 0..90);
        for start in [100, 320, 540] {
            trace.range("step[DECODE bs=2]", start..start + 40).launch(start + 1..start + 2);
            trace.launches("ampere_sgemm_128x128_tn", start + 10..start + 110);
            trace.launch(start + 3..start + 4).launches("ampere_sgemm_128x128_tn", start + 110..start + 210);
        }
        let found = finding(&mut trace, "unsuited-kernels").unwrap();
        assert!(found.evidence.contains("6 kernels take 600 us"), "{found:?}");
        // Half of those in the two whole steps, if the host waits for the GPU in the gaps of 217 us before its steps. Short waits count
        // in part.
        assert!((0.13..=0.2).contains(&found.cost_ms), "{found:?}");
    }

    #[test]
    fn small_costs_late_hosts_and_uncertain_problems_are_no_finding() {
        assert!(finding(&mut products("ampere_sgemm_128x128_tn", 0, 5_000), "unsuited-kernels").is_none());
        assert!(finding(&mut products("ampere_sgemm_128x128_tn", 50, 500), "unsuited-kernels").is_none());
        assert!(finding(&mut products("sm80_xmma_gemm_bf16", 0, 500), "unsuited-kernels").is_none());
    }
}
