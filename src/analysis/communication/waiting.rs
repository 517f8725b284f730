//! Estimates from one rank how much of its communication is waiting for other ranks. Two passes over the messages, O(n).
//!
//! The fastest large message of an operation shows the bandwidth that the links reach at least. A call that takes several times
//! as long as its bytes need at this bandwidth mostly waits. The estimate is a lower bound if the fastest message waits as well.
//! The traces of the other ranks decide (`gpuprism ranks`).

use super::operations::{Operations, bus_bytes};
use crate::analysis::classified::ClassifiedTrace;
use crate::ordering::VecMap;
use crate::rules::signals::WaitingRules;
use crate::trace::{NameId, Ns};

/// The waiting in the large messages of one operation.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct WaitingEstimate {
    /// The number of large messages with a known size.
    pub(crate) messages: u64,
    /// The highest bandwidth of one of them over the busiest link, in bytes per nanosecond.
    pub(crate) best_bytes_per_ns: f64,
    /// Time of slow messages beyond the estimated transfer.
    pub(crate) waiting: Ns,
}

/// Returns the estimate for each operation with enough large messages.
pub(crate) fn waiting_by_operation(
    classified: &ClassifiedTrace,
    rules: &WaitingRules,
) -> Vec<(String, WaitingEstimate)> {
    let operations = Operations::new(classified);
    let mut found: VecMap<NameId, WaitingEstimate> = VecMap::new();
    each_large_message(classified, &operations, rules, &mut |operation, bytes, duration| {
        found.update(operation, WaitingEstimate::default(), |sum| {
            sum.messages += 1;
            sum.best_bytes_per_ns = sum.best_bytes_per_ns.max(bytes / duration.0 as f64);
        });
    });
    found.0.retain(|(_, sum)| sum.messages >= rules.min_messages);
    each_large_message(classified, &operations, rules, &mut |operation, bytes, duration| {
        let Some(best) = found.get(&operation).map(|sum| sum.best_bytes_per_ns) else { return };
        let transfer_ns = bytes / best + 1e3 * rules.latency_us;
        if duration.0 as f64 > rules.slow_factor * transfer_ns {
            let waiting = duration.since(Ns(transfer_ns as i64));
            found.update(operation, WaitingEstimate::default(), |sum| sum.waiting += waiting);
        }
    });
    found.0.into_iter().map(|(id, sum)| (operations.names().get(id).to_owned(), sum)).collect()
}

/// Visits operation, bytes over the busiest link, and duration of each large message with a plausible bandwidth.
fn each_large_message(
    classified: &ClassifiedTrace,
    operations: &Operations,
    rules: &WaitingRules,
    visit: &mut dyn FnMut(NameId, f64, Ns),
) {
    let trace = classified.trace;
    for (row, message) in &trace.collectives {
        let row = *row as usize;
        let Some(op) = trace.gpu_ops.get(row).filter(|op| op.duration > Ns::ZERO) else { continue };
        let Some((operation, _)) = operations.of(row, op.name) else { continue };
        let Some(bytes) = bus_bytes(operations.names().get(operation), message) else { continue };
        if bytes >= rules.min_bytes && bytes / op.duration.0 as f64 <= rules.max_link_gb_per_s {
            visit(operation, bytes, op.duration);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::analysis::communication::collectives::nccl_ops;
    use crate::analysis::context::Context;
    use crate::analysis::section::Value;
    use crate::analysis::testing::{number, row, torch};
    use crate::trace::Collective;
    use crate::trace::testing::TestTrace;

    /// All-reduces of two ranks, each with its size in MB and its duration in microseconds.
    fn waiting_ms(messages: &[(u64, i64)]) -> Option<f64> {
        let mut trace = TestTrace::new();
        for (index, (mb, us)) in (0..).zip(messages) {
            let bytes = Some(mb * 1_000_000);
            let (start, operation) = (index * 100_000_000, "allreduce".to_owned());
            trace.kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", start..start + us * 1_000);
            trace.message(Collective {
                operation,
                bytes_in: bytes,
                bytes_out: bytes,
                ranks: Some(2),
                ..Collective::default()
            });
        }
        trace.section(nccl_ops).rows[0].get("waiting_estimate_ms").and_then(Value::number)
    }

    #[test]
    fn a_call_that_is_much_slower_than_the_fastest_one_waits() {
        // 10 MB in 1,000 us are 10 GB/s. 20 MB need 2,000 us and the latency of 10 us.
        let even = [(10, 1_000), (10, 1_100), (10, 1_200), (10, 1_900), (20, 2_100)];
        assert_eq!(waiting_ms(&even), Some(0.0));
        assert_eq!(waiting_ms(&[&even[..], &[(20, 8_010)]].concat()), Some(6.0));
        assert_eq!(waiting_ms(&[&even[..], &[(20, 6_000)]].concat()), Some(0.0), "less than three times as long");
    }

    #[test]
    fn few_or_small_messages_give_no_estimate() {
        assert_eq!(waiting_ms(&[(10, 1_000), (10, 1_000), (10, 1_000), (10, 9_000)]), None);
        assert_eq!(waiting_ms(&[(0, 10), (0, 10), (0, 10), (0, 10), (0, 10), (0, 9_000)]), None);
        // A duration that no link allows is no reference.
        let glitch = [(10, 1_000), (10, 1_100), (10, 1_200), (10, 1_900), (20, 2_100), (10, 1)];
        assert_eq!(waiting_ms(&glitch), Some(0.0));
    }

    /// The best of 15 all-reduces reaches 13.0 GB/s; messages of 8.2 MB take 2.5 to 6.0 ms instead of 0.63 ms.
    #[test]
    fn waiting_in_a_real_trace_is_estimated() {
        let Some(trace) = torch("nccl_metadata_a100.trace.json.gz") else { return };
        let section = nccl_ops(&Context::new(&trace, 30));
        let waiting = number(row(&section, "op_name", "allreduce"), "waiting_estimate_ms");
        assert!((waiting - WAITING_MS).abs() < 0.01, "{waiting}");
        assert_eq!(row(&section, "op_name", "broadcast").get("waiting_estimate_ms"), Some(&Value::Null));
    }

    const WAITING_MS: f64 = 9.9;
}
