//! Long times in which a torch trace with Python stacks has no event of any kind: nothing was recorded, as between two captures. While a
//! capture runs, the functions that wait or work span its whole time. One pass over all events, with a binary search for each function and CPU op.

use crate::trace::{CodeEvent, Format, Ns, Trace};

/// To stop a profiler and start it again takes longer.
const MIN_HOLE: Ns = Ns(10_000_000);

/// The times without an event so far.
#[derive(Debug, Default)]
pub(super) struct HoleSearch {
    /// Sorted and disjoint: between calls, ops and ranges.
    holes: Vec<(Ns, Ns)>,
    /// How many events begin to cover all holes from here on, minus those that end to.
    covers: Vec<i64>,
    /// The first end and the last begin of a function or CPU op: before and after them nothing was recorded of the host, as when the GPU
    /// works on after the end of a capture.
    recorded: Option<(Ns, Ns)>,
}

impl HoleSearch {
    pub(super) fn new(trace: &Trace) -> Self {
        if trace.format != Format::TorchProfiler || trace.events.python_frames == 0 || trace.gpu_ops.is_empty() {
            return Self::default();
        }
        let ops = trace.gpu_ops.times().map(|(start, duration)| (start, start.after(duration)));
        let calls = trace.calls.iter().map(|call| (call.start, call.end()));
        let ranges = trace.ranges.iter().map(|range| (range.start, range.end()));
        let mut times: Vec<(Ns, Ns)> = ops.chain(calls).chain(ranges).collect();
        times.sort_unstable();
        let mut holes = Vec::new();
        let mut until = times.first().map_or(Ns::ZERO, |(start, _)| *start);
        for (start, end) in times {
            if start > until {
                holes.push((until, start));
            }
            until = until.max(end);
        }
        Self { covers: vec![0; holes.len() + 1], holes, recorded: None }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.holes.is_empty()
    }

    /// Takes a CPU op or a function. What begins or ends in a hole makes it shorter.
    pub(super) fn add(&mut self, event: CodeEvent) {
        let (start, end) = (event.time.start, event.time.end);
        let (first_end, last_start) = self.recorded.unwrap_or((end, start));
        self.recorded = Some((first_end.min(end), last_start.max(start)));
        let first = self.holes.partition_point(|(_, until)| *until <= start);
        let after = self.holes.partition_point(|(from, _)| *from < end);
        let (mut first_whole, mut after_whole) = (first, after);
        if let Some((from, until)) = self.holes.get_mut(first).filter(|(from, _)| *from < start) {
            *until = (*until).min(start).max(*from);
            first_whole = first + 1;
        }
        let last = after.checked_sub(1).filter(|last| *last >= first_whole);
        if let Some((from, until)) = last.and_then(|last| self.holes.get_mut(last)).filter(|(_, until)| *until > end) {
            *from = (*from).max(end).min(*until);
            after_whole = after - 1;
        }
        if after_whole > first_whole {
            self.covers.get_mut(first_whole).into_iter().for_each(|count| *count += 1);
            self.covers.get_mut(after_whole).into_iter().for_each(|count| *count -= 1);
        }
    }

    /// The times without an event, sorted and disjoint.
    pub(super) fn finish(self) -> Vec<(Ns, Ns)> {
        let Some((first_end, last_start)) = self.recorded else { return Vec::new() };
        let mut covered = 0;
        let holes = self.holes.into_iter().zip(self.covers).filter(|(_, change)| {
            covered += *change;
            covered == 0
        });
        holes
            .map(|(hole, _)| hole)
            .filter(|(from, until)| until.since(*from) >= MIN_HOLE && *from >= first_end && *until <= last_start)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::TestTrace;
    use crate::trace::{CodeKind, HostInterval, NameId, ThreadId};

    /// The holes of two captures with a kernel each, at 10 to 20 ms and at 100 to 110 ms, with these functions.
    fn holes(functions: &[(i64, i64)]) -> Vec<(i64, i64)> {
        let ms = |time: i64| 1_000_000 * time;
        let mut trace = TestTrace::new();
        trace.launch(0..ms(5)).launches("k", ms(10)..ms(20)).launch(ms(90)..ms(95)).launches("k", ms(100)..ms(110));
        let mut trace = trace.finish();
        trace.events.python_frames = functions.len() as u64;
        let mut search = HoleSearch::new(&trace);
        for (start, end) in functions {
            let time = HostInterval { thread: ThreadId(0), start: Ns(ms(*start)), end: Ns(ms(*end)) };
            search.add(CodeEvent { kind: CodeKind::Function, name: NameId(0), time });
        }
        search.finish().into_iter().map(|(start, end)| (start.0 / ms(1), end.0 / ms(1))).collect()
    }

    #[test]
    fn what_no_event_covers_was_not_recorded() {
        assert_eq!(holes(&[(0, 25), (80, 120)]), [(25, 80)]);
        assert_eq!(holes(&[(80, 120), (0, 25), (1, 12)]), [(25, 80)]);
        assert_eq!(holes(&[(0, 120)]), []);
        assert_eq!(holes(&[(0, 50), (50, 120)]), []);
        assert_eq!(holes(&[(0, 50), (55, 120)]), [], "a profiler does not start again so soon");
    }

    #[test]
    fn after_the_last_function_the_gpu_works_on_and_before_the_first_nothing_is_known() {
        assert_eq!(holes(&[(0, 25)]), []);
        assert_eq!(holes(&[(85, 120)]), []);
    }

    #[test]
    fn without_functions_nobody_knows_whether_the_program_waited() {
        assert_eq!(holes(&[]), []);
    }
}
