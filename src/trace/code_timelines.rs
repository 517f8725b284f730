//! Which code runs on each launching thread at each moment of a part of the trace.
//!
//! Found in [`super::PackedCode`] when the file is read, for the replay of host and GPU. A change of the code takes 12 bytes; a lookup
//! is a binary search. Windows of the trace share the result.

use super::{NameId, Names, Ns, ThreadId};

/// The code that runs at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct RunningCode {
    /// The innermost Python function with a line; in a thread without such functions the innermost CPU op or range.
    pub function: Option<NameId>,
    /// The innermost CPU op or range.
    pub op: Option<NameId>,
    /// It waits for another thread or process.
    pub waits: bool,
}

/// The code of one thread over time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CodeTimeline {
    /// When the code changes, sorted.
    from: Vec<Ns>,
    /// Parallel to `from`: an index in [`CodeTimelines::codes`].
    code: Vec<u32>,
}

/// The code of all launching threads.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CodeTimelines {
    /// Names of functions, CPU ops and ranges.
    pub names: Names,
    /// Distinct codes.
    pub codes: Vec<RunningCode>,
    /// Sorted by thread.
    threads: Vec<(ThreadId, CodeTimeline)>,
}

impl CodeTimeline {
    /// Sets the code from this time on. Times must ascend; of equal ones the last counts.
    pub(crate) fn push(&mut self, from: Ns, code: u32) {
        let from = self.from.last().map_or(from, |last| from.max(*last));
        if self.from.last() == Some(&from) {
            self.from.pop();
            self.code.pop();
        }
        if self.code.last() != Some(&code) {
            self.from.push(from);
            self.code.push(code);
        }
    }

    fn code_at(&self, time: Ns) -> Option<u32> {
        let after = self.from.partition_point(|from| *from <= time);
        self.code.get(after.checked_sub(1)?).copied()
    }

    /// Calls `visit` with the parts of an interval, in their order; `None` where no code is known. O(log n + parts).
    fn each_part(&self, start: Ns, end: Ns, visit: &mut dyn FnMut(Option<u32>, Ns)) {
        let mut next = self.from.partition_point(|from| *from <= start);
        let mut at = start;
        while at < end {
            let code = next.checked_sub(1).and_then(|index| self.code.get(index)).copied();
            let until = self.from.get(next).map_or(end, |from| (*from).min(end));
            if until > at {
                visit(code, until.since(at));
                at = until;
            }
            next += 1;
        }
    }
}

impl CodeTimelines {
    pub(crate) fn new(names: Names, codes: Vec<RunningCode>, mut threads: Vec<(ThreadId, CodeTimeline)>) -> Self {
        crate::ordering::sort_by_key(&mut threads, |(thread, _)| *thread);
        Self { names, codes, threads }
    }

    fn of(&self, thread: ThreadId) -> Option<&CodeTimeline> {
        let found = self.threads.binary_search_by_key(&thread, |(thread, _)| *thread);
        found.ok().and_then(|index| self.threads.get(index)).map(|(_, timeline)| timeline)
    }

    /// The code of a thread at a time.
    pub fn at(&self, thread: ThreadId, time: Ns) -> Option<RunningCode> {
        self.codes.get(self.of(thread)?.code_at(time)? as usize).copied()
    }

    /// Calls `visit` with the parts of an interval of a thread, in their order; `None` where no code is known.
    pub fn each_part(&self, thread: ThreadId, start: Ns, end: Ns, visit: &mut dyn FnMut(Option<RunningCode>, Ns)) {
        let code = |index: Option<u32>| index.and_then(|index| self.codes.get(index as usize)).copied();
        match self.of(thread) {
            Some(timeline) => timeline.each_part(start, end, &mut |index, time| visit(code(index), time)),
            None if end > start => visit(None, end.since(start)),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_an_interval_add_up_and_have_the_code_of_their_time() {
        let mut timeline = CodeTimeline::default();
        [(10, 0), (20, 1), (20, 2), (30, 0)].into_iter().for_each(|(from, code)| timeline.push(Ns(from), code));
        let code = |name| RunningCode { function: Some(NameId(name)), ..RunningCode::default() };
        let codes = vec![code(0), code(1), code(2)];
        let timelines = CodeTimelines::new(Names::default(), codes, vec![(ThreadId(3), timeline)]);
        let parts = |thread, start, end| {
            let mut parts = Vec::new();
            timelines.each_part(ThreadId(thread), Ns(start), Ns(end), &mut |code, time| {
                parts.push((code.and_then(|code| code.function).map(|name| name.0), time.0));
            });
            parts
        };
        assert_eq!(parts(3, 5, 40), [(None, 5), (Some(0), 10), (Some(2), 10), (Some(0), 10)]);
        assert_eq!(parts(3, 22, 25), [(Some(2), 3)]);
        assert_eq!((parts(1, 0, 7), parts(3, 9, 9)), (vec![(None, 7)], vec![]));
        assert_eq!(timelines.at(ThreadId(3), Ns(20)).and_then(|code| code.function), Some(NameId(2)));
    }
}
