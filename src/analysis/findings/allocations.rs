//! `allocations`: calls that allocate or free GPU memory within the steps hold up the launches, or wait for the GPU.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::{Cost, Framework, Situation};
use crate::analysis::replay::cause::Cause;
use crate::trace::Vendor;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    // Outside of steps nothing shows that they come again.
    let Cost { ms: cost_ms, what_if } = situation.replayed_cost(Cause::Allocations).filter(|_| situation.steps > 2)?;
    if !situation.is_notable_host_delay(cost_ms) {
        return None;
    }
    let (device, _) = situation.worst(|_| cost_ms)?;
    Some(Finding {
        id: FindingId::Allocations,
        confidence: Confidence::High,
        title: "Allocations of GPU memory",
        cost_ms,
        evidence: format!(
            "{}: calls that allocate or free GPU memory are on the critical path of the steps",
            situation.amount(device, cost_ms)
        ),
        action: action(situation.framework, situation.vendor).to_owned(),
        what_if,
        section: "critical_path",
    })
}

fn action(framework: Framework, vendor: Vendor) -> &'static str {
    match (framework, vendor) {
        (Framework::Program, Vendor::Nvidia) => {
            "Allocate before the loop and reuse the memory, or allocate from a pool with `cudaMallocAsync`."
        }
        (Framework::Program, Vendor::Amd) => {
            "Allocate before the loop and reuse the memory, or allocate from a pool with `hipMallocAsync`."
        }
        (Framework::Program, Vendor::Intel | Vendor::Huawei) => "Allocate before the loop and reuse the memory.",
        _ => {
            "The caching allocator gives memory back and asks for it again. Remove `torch.cuda.empty_cache()` from the loop, leave more \
             memory free, and try `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`."
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::analysis::findings::testing::finding;
    use crate::trace::testing::TestTrace;

    /// Forty steps with a kernel of 100 us, and before each launch an allocation that takes `us`.
    fn with_allocations(us: i64) -> TestTrace {
        let mut trace = TestTrace::new();
        trace.in_us();
        for start in (0..40).map(|index| index * (110 + us)) {
            trace.range("step[DECODE bs=2]", start..start + us + 6);
            trace.call("cudaMalloc", start..start + us);
            trace.launch(start + us..start + us + 5).launches("gemm", start + us + 5..start + us + 105);
        }
        trace
    }

    #[test]
    fn allocations_that_hold_up_launches_are_a_finding() {
        let found = finding(&mut with_allocations(200), "allocations").unwrap();
        // Without them the launches come 10 us apart at least, and the kernels of 100 us follow each other.
        assert!((found.cost_ms - 40.0 * 0.2).abs() < 0.5, "{found:?}");
        assert!(found.action.contains("empty_cache"), "{found:?}");
    }

    #[test]
    fn allocations_ahead_of_the_gpu_cost_nothing() {
        let mut trace = TestTrace::new();
        trace.in_us();
        for index in 0..40 {
            trace.range("step[DECODE bs=2]", 20 * index..20 * index + 16);
            trace.call("cudaMalloc", 20 * index..20 * index + 10);
            trace.launch(20 * index + 10..20 * index + 15).launches("gemm", 100 * index + 20..100 * index + 120);
        }
        assert!(finding(&mut trace, "allocations").is_none());
    }
}
