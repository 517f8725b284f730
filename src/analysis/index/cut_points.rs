//! Finds the points that cut a trace into independent segments: no op runs across a cut point, and no call
//! has ops on both sides. One sweep over the ops, O(n) for a fixed number of devices.
//!
//! A device is cut while it is idle. If all devices are idle at the same row, that row is the cut point of
//! all. Otherwise each device is cut at the last row since the previous cut at which it was idle.

use crate::trace::{DeviceId, Ns, OpRows, Trace};

/// The cut points of a trace; the first is before all ops, the last after all ops. A cut point is one row per
/// device: the ops of the device from this row on are after the cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutPoints(Vec<Vec<usize>>);

/// Traces with more devices are not cut: no machine has so many, and the sweep checks all devices at every op.
const MAX_DEVICES: usize = 256;

impl CutPoints {
    /// Cut points that are at least `min_ops` ops apart; `None` if there is nothing to cut.
    pub fn of(trace: &Trace, min_ops: usize) -> Option<Self> {
        let (op_count, device_count) = (trace.gpu_ops.len(), trace.devices.len());
        if device_count > MAX_DEVICES {
            return None;
        }
        let mut cuts = vec![vec![0; device_count]];
        let mut search = Search::of(trace);
        let mut last_cut = 0;
        for (row, op) in trace.gpu_ops.iter().enumerate() {
            if row - last_cut >= min_ops
                && op_count - row >= min_ops
                && let Some(cut) = search.cut_at(row, op.start)
            {
                cuts.push(cut);
                last_cut = row;
            }
            search.add(row, op.device, op.end(), trace);
        }
        cuts.push(vec![op_count; device_count]);
        (cuts.len() > 2).then_some(Self(cuts))
    }

    /// The rows of each segment.
    pub fn segments(&self) -> impl Iterator<Item = OpRows> {
        self.0.iter().zip(self.0.iter().skip(1)).map(|(from, to)| OpRows::between(from, to))
    }

    /// All ops before this row are before the cut.
    pub(super) fn first_row(&self, cut: usize) -> usize {
        self.0.get(cut).and_then(|rows| rows.iter().copied().min()).unwrap_or_default()
    }

    /// All ops from this row on are after the cut.
    pub(super) fn last_row(&self, cut: usize) -> usize {
        self.0.get(cut).and_then(|rows| rows.iter().copied().max()).unwrap_or_default()
    }

    /// Returns the rows of a window before the cut `first` and after the cut `last`. Adding `row_offset`
    /// (wrapping) turns a row of the trace into a row of the window, which has `op_count` ops.
    pub(super) fn around(&self, first: usize, last: usize, row_offset: usize, op_count: usize) -> [OpRows; 2] {
        let rows = |cut: usize| -> Vec<usize> {
            let rows = self.0.get(cut).into_iter().flatten();
            rows.map(|row| row.wrapping_add(row_offset)).collect()
        };
        let (first, last) = (rows(first), rows(last));
        let (start, end) = (vec![0; first.len()], vec![op_count; last.len()]);
        [OpRows::between(&start, &first), OpRows::between(&last, &end)]
    }
}

/// For each call: the row after the last op that it launched, and whether it launched ops on several devices.
struct LaunchedOps(Vec<u32>);

/// Set in [`LaunchedOps`] next to the row if the call launched ops on several devices.
const SEVERAL_DEVICES: u32 = 1 << 31;

impl LaunchedOps {
    fn of(trace: &Trace) -> Self {
        let mut ends: Vec<u32> = vec![0; trace.calls.len()];
        for ((end, op), call) in (1..).zip(trace.gpu_ops.iter()).zip(trace.gpu_ops.launches()) {
            let Some(entry) = call.and_then(|call| ends.get_mut(call.0 as usize)) else { continue };
            let previous = (*entry & !SEVERAL_DEVICES).checked_sub(1).and_then(|row| trace.gpu_ops.get(row as usize));
            let is_other_device = previous.is_some_and(|previous| previous.device != op.device);
            *entry = end | *entry & SEVERAL_DEVICES | if is_other_device { SEVERAL_DEVICES } else { 0 };
        }
        Self(ends)
    }

    /// Returns both values for the call that launched the op in this row; zero and `false` if the call is
    /// unknown.
    fn end_and_several(&self, trace: &Trace, row: usize) -> (usize, bool) {
        let end = trace.gpu_ops.launch(row).and_then(|call| self.0.get(call.0 as usize)).copied().unwrap_or(0);
        ((end & !SEVERAL_DEVICES) as usize, end & SEVERAL_DEVICES != 0)
    }
}

/// The search for the next cut point during the sweep over the ops.
struct Search {
    launched: LaunchedOps,
    devices: Vec<Device>,
    /// The row after the last op of all visited calls that launched ops on several devices.
    several_devices_until: usize,
}

#[derive(Clone, Copy)]
struct Device {
    busy_until: Ns,
    /// The row after the last op of all visited calls that launched ops on it.
    launched_until: usize,
    /// The last row since the previous cut at which the device was idle.
    idle_row: Option<usize>,
}

impl Search {
    fn of(trace: &Trace) -> Self {
        let device = Device { busy_until: Ns(i64::MIN), launched_until: 0, idle_row: None };
        let devices = vec![device; trace.devices.len()];
        Self { launched: LaunchedOps::of(trace), devices, several_devices_until: 0 }
    }

    fn add(&mut self, row: usize, device: DeviceId, end: Ns, trace: &Trace) {
        let (launched_until, on_several_devices) = self.launched.end_and_several(trace, row);
        if on_several_devices {
            self.several_devices_until = self.several_devices_until.max(launched_until);
        }
        let Some(device) = self.devices.get_mut(device.0 as usize) else { return };
        device.busy_until = device.busy_until.max(end);
        device.launched_until = device.launched_until.max(launched_until);
    }

    /// Records which devices are idle when the op in this row starts. Returns a cut point once every device
    /// was idle.
    fn cut_at(&mut self, row: usize, start: Ns) -> Option<Vec<usize>> {
        let is_idle = |device: &&mut Device| device.busy_until <= start && device.launched_until <= row;
        self.devices.iter_mut().filter(is_idle).for_each(|device| device.idle_row = Some(row));
        let can_cut = |device: &Device| device.idle_row.is_some_and(|idle| self.several_devices_until <= idle);
        if !self.devices.iter().all(can_cut) {
            return None;
        }
        self.devices.iter_mut().map(|device| device.idle_row.take()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::testing::TestTrace;

    /// Ops as (start, duration, device, the call that launched it).
    fn trace(ops: &[(i64, i64, u32, u32)]) -> Trace {
        let mut trace = TestTrace::nsys();
        let mut last_call = 0;
        for &(start, duration, device, call) in ops {
            if call != last_call {
                trace.call_with_id("cudaLaunchKernel", start..start + 1, call);
            }
            last_call = call;
            trace.device(device).launches("k", start..start + duration);
        }
        trace.finish()
    }

    fn cuts(ops: &[(i64, i64, u32, u32)]) -> Vec<Vec<usize>> {
        CutPoints::of(&trace(ops), 1).map_or_else(Vec::new, |cuts| cuts.0)
    }

    #[test]
    fn devices_are_cut_at_a_common_idle_row_or_else_at_the_last_idle_row_of_each() {
        assert_eq!(cuts(&[(0, 5, 0, 1), (1, 3, 1, 2), (10, 5, 0, 3), (11, 3, 1, 4)]), [[0, 0], [2, 2], [4, 4]]);
        // Device 0 is idle from 12 to 14, device 1 before 5 and from 15 to 18.
        let staggered = cuts(&[(0, 12, 0, 1), (5, 10, 1, 2), (14, 10, 0, 3), (18, 9, 1, 4), (28, 1, 0, 5)]);
        assert_eq!(staggered, [[0, 0], [2, 1], [4, 4], [5, 5]]);
    }

    #[test]
    fn ops_of_one_call_on_several_devices_are_not_separated() {
        let graph = cuts(&[(0, 1, 0, 1), (5, 1, 1, 2), (10, 1, 0, 2), (20, 1, 1, 3)]);
        assert_eq!(graph, [[0, 0], [1, 1], [3, 3], [4, 4]]);
    }

    #[test]
    fn a_trace_with_too_many_devices_is_not_cut() {
        let ops: Vec<_> = (0..300).map(|id| (i64::from(id) * 10, 1, id, id)).collect();
        assert!(cuts(&ops).is_empty());
    }
}
