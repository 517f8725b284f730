//! Idle gaps of each device. One pass over the work sorted by start, O(n).

use super::work::Work;
use crate::trace::{Ns, Trace};

/// Time in which a device ran nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) device: usize,
    pub(crate) start: Ns,
    pub(crate) end: Ns,
    /// [`Work::row`] of the work that ended last before it; the later row if two ended at the same time. `None` at
    /// the start of a window.
    pub(crate) previous_row: Option<usize>,
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
    /// By device: the row of the work that ended last.
    last_rows: Vec<usize>,
}

impl GapSweep {
    pub(crate) fn new(trace: &Trace) -> Self {
        let devices = trace.devices.len();
        Self { devices: vec![None; devices], last_rows: vec![0; devices] }
    }

    /// Adds the next work and returns the gap before it, which has no length if the device was busy; `None` for the
    /// first work of a device.
    pub(crate) fn add(&mut self, work: &Work) -> Option<Gap> {
        let (device, last_row) = (self.devices.get_mut(work.device)?, self.last_rows.get_mut(work.device)?);
        let Some(device) = device else {
            *device = Some(Busy { first: work.start, last: work.end, busy: work.end.since(work.start) });
            *last_row = work.row;
            return None;
        };
        let previous_row = Some(*last_row);
        let gap = Gap { device: work.device, start: device.last, end: work.start, previous_row, next_row: work.row };
        device.busy += work.end.since(work.start.max(device.last)).max(Ns::ZERO);
        if work.end >= device.last {
            (device.last, *last_row) = (work.end, work.row);
        }
        Some(gap)
    }

    /// The row of the work of this device that ended last.
    pub(crate) fn last_row(&self, device: usize) -> usize {
        self.last_rows.get(device).copied().unwrap_or_default()
    }
}
