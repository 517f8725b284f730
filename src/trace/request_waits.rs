//! When a serving engine had no request: its thread waited in a queue for one, or called a function that it calls only without requests.
//!
//! Like [`super::HostTimes`] it is found in [`super::PackedCode`] when the file is read, and windows of the trace share it.

use super::{HostInterval, Ns};

/// Times in which threads waited for requests.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestWaits {
    /// Sorted by thread and start. Those of one thread are disjoint.
    waits: Vec<HostInterval>,
}

impl RequestWaits {
    /// From calls of functions that wait or that run only without requests, and from the blocking calls in functions that take requests:
    /// only as long as one of those blocks, the function waits. O(n log n).
    pub(crate) fn new(
        without_requests: Vec<HostInterval>,
        takes_requests: Vec<HostInterval>,
        blocks: Vec<HostInterval>,
    ) -> Self {
        let (takes_requests, blocks) = (union_of(takes_requests), union_of(blocks));
        let mut waits = without_requests;
        let mut takers = takes_requests.iter().peekable();
        for block in blocks {
            while takers.next_if(|taker| (taker.thread, taker.end) <= (block.thread, block.start)).is_some() {}
            // A blocking call is within the function that it blocks.
            let taker = takers
                .peek()
                .filter(|taker| taker.thread == block.thread && taker.start <= block.start && taker.end >= block.end);
            waits.extend(taker.map(|_| block));
        }
        Self { waits: union_of(waits) }
    }

    /// Whether no thread is known to wait for requests.
    pub fn is_empty(&self) -> bool {
        self.waits.is_empty()
    }

    /// From the first to the last moment of an interval at which its thread had no request; what it does between two waits is to look for
    /// one. `None` if it always had one. O(log n).
    pub fn within(&self, interval: HostInterval) -> Option<(Ns, Ns)> {
        let HostInterval { thread, start, end } = interval;
        let first = self.waits.partition_point(|wait| (wait.thread, wait.end) <= (thread, start));
        let after = self.waits.partition_point(|wait| (wait.thread, wait.start) < (thread, end));
        let inside = self.waits.get(first..after)?;
        let (from, until) = (inside.first()?.start.max(start), inside.last()?.end.min(end));
        (from < until).then_some((from, until))
    }
}

fn union_of(mut intervals: Vec<HostInterval>) -> Vec<HostInterval> {
    intervals.sort_unstable();
    intervals.dedup_by(|next, kept| {
        let overlaps = next.thread == kept.thread && next.start <= kept.end;
        kept.end = if overlaps { kept.end.max(next.end) } else { kept.end };
        overlaps
    });
    intervals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::ThreadId;

    fn at(thread: u32, start: i64, end: i64) -> HostInterval {
        HostInterval { thread: ThreadId(thread), start: Ns(start), end: Ns(end) }
    }

    #[test]
    fn a_function_that_takes_requests_waits_only_while_it_blocks() {
        let waits = RequestWaits::new(
            vec![],
            vec![at(0, 10, 100), at(0, 200, 210)],
            vec![at(0, 20, 90), at(0, 150, 160), at(1, 30, 40)],
        );
        assert_eq!(waits.within(at(0, 0, 300)), Some((Ns(20), Ns(90))));
        assert_eq!(waits.within(at(0, 50, 60)), Some((Ns(50), Ns(60))));
        assert_eq!(waits.within(at(0, 90, 300)), None);
        assert_eq!(waits.within(at(1, 0, 300)), None);
    }

    #[test]
    fn a_loop_without_requests_has_none_from_its_first_look_to_its_last() {
        let waits = RequestWaits::new(vec![at(0, 10, 11), at(0, 20, 21), at(0, 30, 31)], vec![], vec![]);
        assert_eq!(waits.within(at(0, 0, 300)), Some((Ns(10), Ns(31))));
        assert_eq!(waits.within(at(0, 11, 20)), None);
        assert!(!waits.is_empty() && RequestWaits::default().is_empty());
    }
}
