//! The gaps of each device that may hide work that the trace does not contain. One pass over the ops; mergeable.
//!
//! The first results of a run need this time, before the survey of all gaps is computed.

use crate::analysis::host::idle_cause::{MIN_UNSEEN, unseen_in_gap};
use crate::analysis::index::{IdMap, Merge};
use crate::analysis::time::gaps::Gap;
use crate::rules::signals::Signals;
use crate::trace::{GpuOp, Ns, Trace};

/// The gaps that are long enough, by device; `None` for a device without ops.
#[derive(Debug)]
pub(crate) struct LongGaps {
    devices: Vec<Option<DeviceGaps>>,
    shortest: Ns,
}

#[derive(Debug, Clone)]
struct DeviceGaps {
    first: Ns,
    first_row: usize,
    last: Ns,
    /// Start, and the row of the op that ends the gap.
    gaps: Vec<(Ns, usize)>,
}

impl DeviceGaps {
    fn add_gap(&mut self, end: Ns, next_row: usize, shortest: Ns) {
        if end.since(self.last) > shortest {
            self.gaps.push((self.last, next_row));
        }
    }
}

impl LongGaps {
    pub(crate) fn new(trace: &Trace) -> Self {
        let shortest = trace.unrecorded_graphs.shortest_gap().unwrap_or(MIN_UNSEEN);
        Self { devices: vec![None; trace.devices.len()], shortest }
    }

    /// Adds the next op. Ops must arrive sorted by start.
    pub(crate) fn add(&mut self, row: usize, op: &GpuOp) {
        match self.devices.get_mut(op.device.0 as usize) {
            Some(Some(device)) => {
                device.add_gap(op.start, row, self.shortest);
                device.last = device.last.max(op.end());
            }
            Some(device) => {
                *device = Some(DeviceGaps { first: op.start, first_row: row, last: op.end(), gaps: Vec::new() });
            }
            None => {}
        }
    }

    /// Returns for each device the time in which it executed work that the trace does not contain, between its first
    /// and its last op, in a window from the start of the window.
    pub(crate) fn unseen(&self, trace: &Trace) -> Vec<Ns> {
        let sum = |intervals: Vec<(Ns, Ns)>| intervals.iter().fold(Ns::ZERO, |sum, (from, to)| sum + to.since(*from));
        self.unseen_intervals(trace).into_iter().map(sum).collect()
    }

    /// The intervals of that time, sorted.
    pub(crate) fn unseen_intervals(&self, trace: &Trace) -> Vec<Vec<(Ns, Ns)>> {
        let signals = self.devices.iter().flatten().any(|device| !device.gaps.is_empty() || trace.cut.is_some());
        let signals = signals.then(Signals::embedded);
        let unseen_of = |(device, gaps): (usize, &Option<DeviceGaps>)| {
            let (Some(gaps), Some(signals)) = (gaps, &signals) else { return Vec::new() };
            let at_start = trace.cut.map(|cut| (cut.window.start, gaps.first_row));
            let gaps = at_start.into_iter().chain(gaps.gaps.iter().copied());
            let unseen = gaps.filter_map(|(start, next_row)| {
                let end = trace.gpu_ops.get(next_row).map_or(start, |op| op.start);
                let gap = Gap { device, start, end, previous_row: None, next_row };
                let call_kind = |name| signals.call(trace.calls.names.get(name));
                unseen_in_gap(trace, &gap, &call_kind)
            });
            unseen.collect()
        };
        // Graphs that were traced as a whole are not in the table of ops.
        if !trace.graph_replays.is_empty() {
            return vec![Vec::new(); self.devices.len()];
        }
        self.devices.iter().enumerate().map(unseen_of).collect()
    }
}

impl Merge for LongGaps {
    fn merge(&mut self, later: &Self, ids: &IdMap) {
        for (sum, more) in self.devices.iter_mut().zip(&later.devices) {
            let Some(more) = more else { continue };
            let mapped = more.gaps.iter().map(|&(start, row)| (start, ids.row(row)));
            let first_row = ids.row(more.first_row);
            match sum {
                Some(sum) => {
                    sum.add_gap(more.first, first_row, self.shortest);
                    sum.gaps.extend(mapped);
                    sum.last = sum.last.max(more.last);
                }
                None => *sum = Some(DeviceGaps { first_row, gaps: mapped.collect(), ..*more }),
            }
        }
    }
}
