//! The code that ran on a launching thread while a GPU waited for its next launch.
//!
//! Like [`super::BlockingSites`] it is found in [`super::PackedCode`] when the file is read. Memory is bounded by [`MAX_LATE_INTERVALS`]. Windows of the trace share the result.

use super::{HostInterval, NameId, Names, Ns};
use crate::ordering::partition_point_near;

/// The maximum number of intervals whose code is looked up.
pub const MAX_LATE_INTERVALS: usize = 6_000;

/// The self time of one function and CPU op in an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeTime {
    /// The innermost Python function with a line, in [`LateCode::functions`]; `None` outside of such functions.
    pub function: Option<NameId>,
    /// The innermost CPU op in that function, in [`LateCode::ops`]; `None` outside of CPU ops.
    pub op: Option<NameId>,
    /// The time in which they were innermost.
    pub time: Ns,
}

/// The code in intervals of host threads.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LateCode {
    /// Python functions: `sglang/srt/managers/scheduler.py(812): event_loop_overlap`.
    pub functions: Names,
    /// CPU ops: `aten::item`.
    pub ops: Names,
    /// Sorted by interval.
    intervals: Vec<(HostInterval, Vec<CodeTime>)>,
}

impl LateCode {
    pub(crate) fn new(functions: Names, ops: Names) -> Self {
        Self { functions, ops, intervals: Vec::new() }
    }

    /// Adds the code of an interval. Intervals must be added sorted.
    pub(crate) fn add(&mut self, interval: HostInterval, code: Vec<CodeTime>) {
        self.intervals.push((interval, code));
    }

    /// Whether no interval was looked up.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// All intervals that were looked up, sorted, with their code.
    pub fn iter(&self) -> impl Iterator<Item = (HostInterval, &[CodeTime])> {
        self.intervals.iter().map(|(interval, code)| (*interval, code.as_slice()))
    }

    /// The code of an interval that was looked up.
    pub fn of(&self, interval: HostInterval) -> Option<&[CodeTime]> {
        self.of_next(interval, &mut 0)
    }

    /// The same in O(1) if the intervals are asked for in their order. `next` is a place in the list, at first 0.
    pub(crate) fn of_next(&self, interval: HostInterval, next: &mut usize) -> Option<&[CodeTime]> {
        let index = partition_point_near(&self.intervals, *next, |(known, _)| *known < interval);
        let found = self.intervals.get(index).filter(|(known, _)| *known == interval);
        *next = index + usize::from(found.is_some());
        found.map(|(_, code)| code.as_slice())
    }
}
