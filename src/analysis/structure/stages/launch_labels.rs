//! In which of many ranges each GPU op was launched. One binary search per op, mostly none, because the next op is mostly launched in the
//! range of the one before.

use super::timeline::{Segment, Timeline};
use crate::trace::{Ns, ProcessId, Trace};

/// The timeline of each process. The label of a range is its index in `ranges`.
pub(super) fn timelines_by_process(trace: &Trace, ranges: impl Iterator<Item = (ProcessId, Ns, Ns)>) -> Vec<Timeline> {
    let mut segments = vec![Vec::new(); trace.processes.len()];
    for ((process, start, end), label) in ranges.zip(0..) {
        let own = segments.get_mut(process.0 as usize);
        own.into_iter().for_each(|own| own.push(Segment { start, end, label }));
    }
    segments.into_iter().map(Timeline::new).collect()
}

/// Finds the labels at the launches of ops.
pub(super) struct LaunchLabels<'a> {
    trace: &'a Trace,
    /// One timeline per process.
    timelines: &'a [Timeline],
    /// By process: the segment of its last launch, which mostly contains the next launch too.
    last_segment: Vec<Segment>,
}

impl<'a> LaunchLabels<'a> {
    pub(super) fn new(trace: &'a Trace, timelines: &'a [Timeline]) -> Self {
        Self { trace, timelines, last_segment: vec![Segment::default(); timelines.len()] }
    }

    /// The label at the launch of the op in this row, in its process.
    pub(super) fn of_op(&mut self, row: usize, process: ProcessId) -> Option<u32> {
        let launch = self.trace.gpu_ops.launch(row)?;
        let time = self.trace.calls.start(launch.0 as usize)?;
        let timeline = self.timelines.get(process.0 as usize)?;
        let last = self.last_segment.get_mut(process.0 as usize)?;
        if !(last.start..last.end).contains(&time) {
            *last = timeline.segment_at(time).unwrap_or_default();
        }
        if (last.start..last.end).contains(&time) { Some(last.label) } else { timeline.label_at(time) }
    }
}
