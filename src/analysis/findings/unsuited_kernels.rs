//! `unsuited-kernels`: kernels whose names prove that others would take less time.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::{DeviceTimes, Situation};
use crate::analysis::inference::unsuited_kernels::{Hit, hits};
use crate::analysis::labels::format_time;
use crate::digits::grouped;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    // A row needs less time than the finding, and names are not searched again without one.
    situation.section("unsuited_kernels").filter(|section| !section.rows.is_empty())?;
    let hits = hits(situation.context);
    let costs = hits.iter().filter_map(|hit| Some((hit, saved_ms(hit)?)));
    let (hit, cost_ms) = costs.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let device = device_of(situation, hit)?;
    let notable_share = situation.context.signals.thresholds.medium_severity_share;
    // Where the host is late, faster kernels only lengthen the gaps.
    if situation.share(cost_ms) < notable_share || situation.share(device.host_late_ms) >= notable_share {
        return None;
    }
    let evidence = format!(
        "{}: {} kernels take {}. {}",
        situation.amount(device, cost_ms),
        grouped(hit.launches),
        format_time(hit.total.0 as f64 / 1e6),
        hit.test.basis.as_deref().unwrap_or_default(),
    );
    Some(Finding {
        id: FindingId::UnsuitedKernels,
        confidence: Confidence::Medium,
        title: &hit.test.problem,
        cost_ms,
        evidence,
        action: hit.test.advice.clone(),
        section: "unsuited_kernels",
    })
}

/// The time that a change saves at least; `None` if that is unknown.
fn saved_ms(hit: &Hit) -> Option<f64> {
    hit.test.saved_share.map(|share| share * hit.total.0 as f64 / 1e6)
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
    fn small_costs_late_hosts_and_uncertain_problems_are_no_finding() {
        assert!(finding(&mut products("ampere_sgemm_128x128_tn", 0, 5_000), "unsuited-kernels").is_none());
        assert!(finding(&mut products("ampere_sgemm_128x128_tn", 50, 500), "unsuited-kernels").is_none());
        assert!(finding(&mut products("sm80_xmma_gemm_bf16", 0, 500), "unsuited-kernels").is_none());
    }
}
