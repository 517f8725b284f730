//! The idle gaps of each device as bars. One pass over the work of the trace, when a tile or a bar first needs them; 32 bytes a gap.

use super::{GapCause, Timeline};
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::host::idle_cause::{IdleCause, IdleTimes, each_gap};
use crate::analysis::time::work::launch_of;
use crate::trace::{DeviceId, Ns, Trace};

/// An idle gap.
#[derive(Debug, Clone, Copy)]
pub(super) struct IdleBar {
    pub(super) start: Ns,
    pub(super) end: Ns,
    /// The cause of its longer part.
    pub(super) cause: IdleCause,
    /// The cause of its shorter part; mostly the same.
    pub(super) lesser_cause: IdleCause,
    /// Whether the host launched the next work after the gap began.
    is_late: bool,
    /// Rows of the work before and after it; those of graph replays follow those of the ops.
    previous_row: u32,
    next_row: u32,
}

impl IdleBar {
    /// `idle: host late`.
    pub(super) fn name(&self) -> String {
        GapCause(self.cause).title()
    }

    /// Whether the device ran nothing, and not work that the trace does not contain.
    pub(super) fn is_idle(&self) -> bool {
        self.cause != IdleCause::Unseen
    }

    /// Whether one of these words is its cause.
    pub(super) fn is_of(&self, causes: &[String]) -> bool {
        causes.iter().any(|cause| cause == self.cause.word())
    }

    pub(super) fn length(&self) -> Ns {
        self.end.since(self.start)
    }

    pub(super) fn previous_row(&self) -> usize {
        self.previous_row as usize
    }

    pub(super) fn next_row(&self) -> usize {
        self.next_row as usize
    }

    /// When the launch of the next work returned, if the host was late.
    pub(super) fn late_until(&self, trace: &Trace) -> Option<Ns> {
        let call = launch_of(trace, self.next_row()).and_then(|call| trace.calls.get(call.0 as usize));
        call.filter(|_| self.is_late).map(|call| call.end().clamp(self.start, self.end))
    }
}

/// The gaps by device, in the order of time, without the usual delays between ops, which would be most of them.
#[derive(Debug)]
pub(super) struct IdleBars {
    bars: Vec<Vec<IdleBar>>,
    /// The intervals of each device in which it executed work that was launched before the capture.
    of_before: Vec<Vec<(Ns, Ns)>>,
    /// See [`IdleTimes::of_no_step`].
    of_no_step: Vec<Vec<(Ns, Ns)>>,
}

impl IdleBars {
    fn of(trace: &Trace) -> Self {
        let mut bars = vec![Vec::new(); trace.devices.len()];
        let idle = each_gap(&ClassifiedTrace::new(trace), &mut |gap, parts| {
            let (cause, (first_cause, ..)) = (parts.main(), parts.before_launch(&gap));
            let row = |row: usize| u32::try_from(row).unwrap_or(u32::MAX);
            if let Some(bars) = bars.get_mut(gap.device).filter(|_| cause != IdleCause::Turnaround) {
                bars.push(IdleBar {
                    start: gap.start,
                    end: gap.end,
                    cause,
                    lesser_cause: parts.lesser(),
                    is_late: matches!(first_cause, IdleCause::HostLate | IdleCause::Drained),
                    previous_row: gap.previous_row.map_or(u32::MAX, row),
                    next_row: row(gap.next_row),
                });
            }
        });
        // A host that is never ahead is late, with or without the blocking calls.
        for (bars, _) in bars.iter_mut().zip(&idle).filter(|(_, idle)| !idle.is_host_ever_ahead()) {
            let causes = bars.iter_mut().flat_map(|bar| [&mut bar.cause, &mut bar.lesser_cause]);
            causes.filter(|cause| **cause == IdleCause::Drained).for_each(|cause| *cause = IdleCause::HostLate);
        }
        Self {
            bars,
            of_no_step: idle.iter().map(IdleTimes::of_no_step).collect(),
            of_before: idle.into_iter().map(|idle| idle.of_before).collect(),
        }
    }

    /// Those of a device. They do not overlap.
    pub(super) fn of_device(&self, device: DeviceId) -> &[IdleBar] {
        self.bars.get(device.0 as usize).map_or(&[], Vec::as_slice)
    }

    /// By device: the intervals in which it executed work that was launched before the capture.
    pub(super) fn of_before(&self) -> &[Vec<(Ns, Ns)>] {
        &self.of_before
    }

    /// By device: the intervals that belong to no step, see [`IdleTimes::of_no_step`].
    pub(super) fn of_no_step(&self) -> &[Vec<(Ns, Ns)>] {
        &self.of_no_step
    }

    /// All with their devices and their rows in the lanes of these.
    pub(super) fn iter(&self) -> impl Iterator<Item = (DeviceId, usize, &IdleBar)> {
        let devices = (0..).map(DeviceId).zip(&self.bars);
        devices.flat_map(|(device, bars)| bars.iter().enumerate().map(move |(row, bar)| (device, row, bar)))
    }
}

impl Timeline {
    pub(super) fn gaps(&self, trace: &Trace) -> &IdleBars {
        self.gaps.get_or_init(|| IdleBars::of(trace))
    }
}
