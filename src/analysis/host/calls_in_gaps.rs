//! The API calls in idle gaps: how long the process of a gap was in calls, and the longest of them. The rest of a gap is host code
//! outside of recorded calls. One pass over the calls; each is compared with the gaps that are open at its start.

use crate::ordering;
use crate::trace::{NameId, Ns, ProcessId, Span, Trace};

/// A gap of a process.
#[derive(Debug, Clone, Copy)]
pub(super) struct ProcessGap {
    pub(super) start: Ns,
    pub(super) end: Ns,
    pub(super) process: ProcessId,
}

/// The calls of the process in a gap.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CallsInGap {
    /// Time in which at least one thread is in a call.
    pub(super) in_calls: Ns,
    /// The call with most time in the gap.
    pub(super) longest: Option<(NameId, Ns)>,
    /// The end of the calls so far.
    until: Option<Ns>,
}

impl CallsInGap {
    fn add(&mut self, gap: &ProcessGap, call: Span) {
        let (start, end) = (call.start.max(gap.start), call.end().min(gap.end));
        let in_gap = end.since(start);
        if in_gap <= Ns::ZERO {
            return;
        }
        let new_from = self.until.map_or(start, |until| until.max(start));
        self.in_calls += end.since(new_from).max(Ns::ZERO);
        self.until = self.until.max(Some(end));
        if self.longest.is_none_or(|(_, longest)| in_gap > longest) {
            self.longest = Some((call.name, in_gap));
        }
    }
}

/// The calls in each gap, in the order of the gaps.
pub(super) fn calls_in_gaps(trace: &Trace, gaps: &[ProcessGap]) -> Vec<CallsInGap> {
    let order = ordering::sorted_indices(gaps.len(), &|a, b| {
        gaps.get(a).map(|gap| gap.start).cmp(&gaps.get(b).map(|gap| gap.start))
    });
    let mut found = vec![CallsInGap::default(); gaps.len()];
    let mut open = order.as_slice();
    for call in trace.calls.iter() {
        while let Some((first, rest)) = open.split_first()
            && gaps.get(*first).is_none_or(|gap| gap.end <= call.start)
        {
            open = rest;
        }
        if open.is_empty() {
            break;
        }
        let process = || trace.threads.get(call.thread.0 as usize).map(|thread| thread.process);
        for index in open {
            let (Some(gap), Some(found)) = (gaps.get(*index), found.get_mut(*index)) else { continue };
            if gap.start >= call.end() {
                break;
            }
            if process() == Some(gap.process) {
                found.add(gap, call);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::TestTrace;
    use proptest::prelude::*;

    fn gap(start: i64, end: i64) -> ProcessGap {
        ProcessGap { start: Ns(start), end: Ns(end), process: ProcessId(0) }
    }

    #[test]
    fn overlapping_calls_count_once_and_only_within_the_gap() {
        let mut trace = TestTrace::nsys();
        trace.call("cudaFree", 90..120).call("cudaMalloc", 130..150).thread(2).call("cudaMalloc", 140..170);
        trace.call("cudaFree", 300..400);
        let trace = trace.finish();
        let found = calls_in_gaps(&trace, &[gap(200, 250), gap(100, 200)]);
        assert_eq!(found.first().map(|found| (found.in_calls, found.longest)), Some((Ns::ZERO, None)));
        let of_second = found.get(1).copied().unwrap_or_default();
        let longest = of_second.longest.map(|(name, length)| (trace.calls.names.get(name), length));
        assert_eq!((of_second.in_calls, longest), (Ns(20 + 40), Some(("cudaMalloc", Ns(30)))));
    }

    proptest! {
        #[test]
        fn time_in_calls_equals_a_count_of_every_tick(
            calls in prop::collection::vec((0_i64..100, 1_i64..40), 0..12),
            gaps in prop::collection::vec((0_i64..100, 1_i64..60), 1..5),
        ) {
            let mut trace = TestTrace::nsys();
            for (start, length) in &calls {
                trace.call("cudaMalloc", *start..*start + *length);
            }
            let trace = trace.finish();
            let gaps: Vec<ProcessGap> = gaps.iter().map(|(start, length)| gap(*start, *start + *length)).collect();
            for (gap, found) in gaps.iter().zip(calls_in_gaps(&trace, &gaps)) {
                let is_in_call = |tick: &i64| calls.iter().any(|(start, length)| (*start..*start + *length).contains(tick));
                let ticks = (gap.start.0..gap.end.0).filter(is_in_call).count() as i64;
                prop_assert_eq!(found.in_calls, Ns(ticks));
            }
        }
    }
}
