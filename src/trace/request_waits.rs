//! When a serving engine had no request: its thread waited in a queue for one, or an iteration of its loop found no batch to run.
//!
//! Like [`super::HostTimes`] it is found in [`super::PackedCode`] when the file is read, and windows of the trace share it.

use super::{HostInterval, HostTimes, Ns, ThreadId};

use std::collections::{BTreeMap, BTreeSet};

/// Times in which threads waited for requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestWaits {
    waits: HostTimes,
}

impl RequestWaits {
    /// From calls of functions that take requests and of functions that block: only as long as one of these blocks, the other one waits.
    /// O(n log n).
    pub(crate) fn new(takes_requests: Vec<HostInterval>, blocks: Vec<HostInterval>) -> Self {
        let (takes_requests, blocks) = (HostTimes::union_of(takes_requests), HostTimes::union_of(blocks));
        let mut waits = Vec::new();
        let mut takers = takes_requests.iter().peekable();
        for block in blocks.iter() {
            while takers.next_if(|taker| (taker.thread, taker.end) <= (block.thread, block.start)).is_some() {}
            // A blocking call is within the function that it blocks.
            let taker = takers
                .peek()
                .filter(|taker| taker.thread == block.thread && taker.start <= block.start && taker.end >= block.end);
            waits.extend(taker.map(|_| *block));
        }
        Self { waits: HostTimes::union_of(waits) }
    }

    /// Adds the iterations of the loops of engines that ran no batch. `chooses`: calls of a function that each iteration calls once; `runs`:
    /// calls with which an iteration runs its batch. Only where a loop is seen to run batches is one without a batch known.
    /// O(n log n).
    pub(crate) fn with_loops(self, chooses: Vec<HostInterval>, runs: &[HostInterval]) -> Self {
        let mut starts: BTreeMap<ThreadId, BTreeSet<Ns>> = BTreeMap::new();
        for run in runs {
            starts.entry(run.thread).or_default().insert(run.start);
        }
        let mut iterations: BTreeMap<ThreadId, BTreeSet<Ns>> = BTreeMap::new();
        for choice in chooses {
            iterations.entry(choice.thread).or_default().insert(choice.start);
        }
        let mut waits: Vec<HostInterval> = self.waits.iter().copied().collect();
        for (thread, begins) in iterations {
            let Some(runs) = starts.get(&thread) else { continue };
            for (start, end) in begins.iter().zip(begins.iter().skip(1)) {
                if runs.range(*start..*end).next().is_none() {
                    waits.push(HostInterval { thread, start: *start, end: *end });
                }
            }
        }
        Self { waits: HostTimes::union_of(waits) }
    }

    /// Whether no thread is known to wait for requests.
    pub fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    /// From the first to the last moment of an interval at which its thread had no request; what it does between two waits is to look for
    /// one. `None` if it always had one. O(log n).
    pub fn within(&self, interval: HostInterval) -> Option<(Ns, Ns)> {
        let inside = self.waits.in_interval(interval);
        let from = inside.first()?.start.max(interval.start);
        let until = inside.last()?.end.min(interval.end);
        (from < until).then_some((from, until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(thread: u32, start: i64, end: i64) -> HostInterval {
        HostInterval { thread: ThreadId(thread), start: Ns(start), end: Ns(end) }
    }

    #[test]
    fn a_function_that_takes_requests_waits_only_while_it_blocks() {
        let waits = RequestWaits::new(
            vec![at(0, 10, 100), at(0, 200, 210)],
            vec![at(0, 20, 90), at(0, 150, 160), at(1, 30, 40)],
        );
        assert_eq!(waits.within(at(0, 0, 300)), Some((Ns(20), Ns(90))));
        assert_eq!(waits.within(at(0, 50, 60)), Some((Ns(50), Ns(60))));
        assert_eq!(waits.within(at(0, 90, 300)), None);
        assert_eq!(waits.within(at(1, 0, 300)), None);
    }

    #[test]
    fn an_iteration_of_a_loop_without_a_batch_has_no_request() {
        let chooses = || vec![at(0, 10, 12), at(0, 50, 52), at(0, 60, 62), at(0, 70, 72)];
        let waits = RequestWaits::default().with_loops(chooses(), &[at(0, 13, 40), at(0, 73, 90)]);
        assert_eq!(waits.within(at(0, 40, 75)), Some((Ns(50), Ns(70))));
        assert_eq!(waits.within(at(0, 10, 50)), None, "this iteration runs a batch");
        // A loop that is not seen to run batches, or runs them on another thread.
        assert!(RequestWaits::default().with_loops(chooses(), &[at(1, 13, 40)]).is_empty());
    }
}
