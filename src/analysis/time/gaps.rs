//! Idle gaps of each device. One pass over the work sorted by start, O(n).

use super::work::{Work, each_work};
use crate::analysis::classified::ClassifiedTrace;
use crate::trace::{Ns, Trace};

/// Time in which a device ran nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) device: usize,
    pub(crate) start: Ns,
    pub(crate) end: Ns,
    /// [`Work::row`] of the work that ended it. A value of [`Gap::first_window_end`] or more: the end of the
    /// window ended it.
    pub(crate) next_row: usize,
}

impl Gap {
    /// `next_row` of the gap at the end of a window is this value plus the index of the device.
    pub(crate) fn first_window_end(trace: &Trace) -> usize {
        trace.gpu_ops.len() + trace.graph_replays.len()
    }

    pub(crate) fn length(&self) -> Ns {
        self.end.since(self.start)
    }
}

/// First start and last end of the work of one device, and its busy time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Busy {
    pub(crate) first: Ns,
    pub(crate) last: Ns,
    pub(crate) busy: Ns,
}

/// The sweep that finds the gaps of all devices.
#[derive(Debug)]
pub(crate) struct GapSweep {
    /// By device; `None` for a device without work.
    pub(crate) devices: Vec<Option<Busy>>,
}

impl GapSweep {
    pub(crate) fn new(trace: &Trace) -> Self {
        Self { devices: vec![None; trace.devices.len()] }
    }

    /// Adds the next work and returns the gap that it ends.
    pub(crate) fn add(&mut self, work: &Work) -> Option<Gap> {
        let device = self.devices.get_mut(work.device)?;
        let device = device.get_or_insert(Busy { first: work.start, last: work.start, busy: Ns::ZERO });
        let gap = Gap { device: work.device, start: device.last, end: work.start, next_row: work.row };
        device.busy += work.end.since(work.start.max(device.last)).max(Ns::ZERO);
        device.last = device.last.max(work.end);
        (gap.end > gap.start).then_some(gap)
    }
}

/// Visits the gaps of all devices. Returns the busy time of each device; `None` for a device without work.
pub(crate) fn each_gap(trace: &ClassifiedTrace, visit: &mut dyn FnMut(Gap)) -> Vec<Option<Busy>> {
    let mut sweep = GapSweep::new(trace.trace);
    each_work(trace, &mut |work| sweep.add(&work).into_iter().for_each(&mut *visit));
    sweep.devices
}
