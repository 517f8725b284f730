//! `allocations`: calls that allocate or free GPU memory within the steps hold up the launches, or wait for the GPU.

use super::finding::{Confidence, Finding, FindingId};
use super::situation::{Cost, Situation};
use crate::analysis::context::Context;
use crate::analysis::replay::cause::Cause;
use crate::rules::signals::CallKind;
use crate::trace::{NameId, Ns};
use crate::words::findings::allocations as words;

pub(super) fn find(situation: &Situation) -> Option<Finding> {
    // Outside of steps nothing shows that they come again.
    let Cost { ms: cost_ms, what_if } = situation.replayed_cost(Cause::Allocations).filter(|_| situation.steps > 2)?;
    let calls = CallsInSteps::of(situation.context);
    // A first step that fills the pool of an allocator is no cost of the others.
    if !situation.is_notable_host_delay(cost_ms) || 2 * calls.steps <= situation.steps {
        return None;
    }
    let (device, _) = situation.worst(|_| cost_ms)?;
    Some(Finding {
        id: FindingId::Allocations,
        confidence: Confidence::High,
        title: words::TITLE,
        cost_ms,
        evidence: words::evidence(situation.amount_in_whole_steps(device, cost_ms), calls.allocate, calls.free),
        action: words::action(situation.framework, situation.vendor, calls.free > 0).to_owned(),
        same_as: None,
        what_if,
        section: "critical_path",
    })
}

/// What a call does with memory.
#[derive(Debug, Clone, Copy)]
enum Allocation {
    Allocates,
    Frees,
}

impl Allocation {
    fn of(context: &Context, id: NameId, name: &str) -> Option<Self> {
        let is_allocation = context.call_kind(id) == CallKind::Allocation;
        is_allocation.then(|| if name.to_ascii_lowercase().contains("free") { Self::Frees } else { Self::Allocates })
    }
}

/// The calls within the steps.
#[derive(Debug, Default)]
struct CallsInSteps {
    allocate: u64,
    free: u64,
    /// Steps with such a call.
    steps: u64,
}

impl CallsInSteps {
    /// One pass over the calls, with a binary search for those that allocate or free.
    fn of(context: &Context) -> Self {
        let calls = &context.trace.calls;
        let are_allocations: Vec<Option<Allocation>> =
            (0..).zip(calls.names.iter()).map(|(id, name)| Allocation::of(context, NameId(id), name)).collect();
        let mut steps: Vec<(Ns, Ns)> =
            context.measured_steps().steps.iter().map(|step| step.step.annotation_range).collect();
        steps.sort_unstable();
        let (mut found, mut last) = (Self::default(), None);
        for call in calls.iter() {
            let Some(allocation) = are_allocations.get(call.name.0 as usize).copied().flatten() else { continue };
            let step = steps.partition_point(|(start, _)| *start <= call.start).checked_sub(1);
            let Some(step) = step.filter(|step| steps.get(*step).is_some_and(|(_, end)| call.start < *end)) else {
                continue;
            };
            match allocation {
                Allocation::Allocates => found.allocate += 1,
                Allocation::Frees => found.free += 1,
            }
            found.steps += u64::from(last != Some(step));
            last = Some(step);
        }
        found
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
        assert!(found.evidence.contains("40 that allocate and 0 that free"), "{found:?}");
        assert!(found.action.contains("still grows") && !found.action.contains("empty_cache"), "{found:?}");
        let mut frees = with_allocations(200);
        frees.call("cudaFree", 5_000..5_010);
        let found = finding(&mut frees, "allocations").unwrap();
        assert!(found.action.contains("empty_cache"), "{found:?}");
    }

    #[test]
    fn a_first_step_that_allocates_is_no_cost_of_the_others() {
        let mut slow = TestTrace::new();
        slow.in_us();
        for step in 0..6 {
            let start = 1_000 * step + if step > 0 { 20_000 } else { 0 };
            let until = if step > 0 { start } else { 20_000 };
            slow.range("step[DECODE bs=2]", start..until + 900);
            if step == 0 {
                slow.call("cudaMalloc", 100..until);
            }
            slow.launch(until..until + 5).launches("gemm", until + 5..until + 905);
        }
        assert!(finding(&mut slow, "allocations").is_none());
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
