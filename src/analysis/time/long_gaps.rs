//! The gaps of each device that may hide work that the trace does not contain. One pass over the ops; mergeable.
//!
//! The first results of a run need this time, before the survey of all gaps is computed.

use crate::analysis::host::idle_cause::without_requests;
use crate::analysis::host::unseen::{MIN_UNSEEN, UnseenWork, unseen_in_gap};
use crate::analysis::index::{IdMap, Merge};
use crate::analysis::time::busy::length;
use crate::analysis::time::gaps::Gap;
use crate::rules::signals::{CallKind, Signals};
use crate::trace::{GpuOp, NameId, Ns, Trace};

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
        let shortest = trace.unrecorded_work.shortest_gap().unwrap_or(MIN_UNSEEN);
        Self { devices: vec![None; trace.devices.len()], shortest }
    }

    /// Those of all ops.
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut gaps = Self::new(trace);
        trace.gpu_ops.iter().enumerate().for_each(|(row, op)| gaps.add(row, &op));
        gaps
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
        self.unseen_intervals(trace).iter().map(length).collect()
    }

    /// The intervals that belong to no step, sorted: of work that had been launched before the capture, and without requests of a serving
    /// engine.
    pub(crate) fn of_no_step(&self, trace: &Trace) -> Vec<Vec<(Ns, Ns)>> {
        self.intervals(trace, &|gap, call_kind| {
            let of_before = unseen_intervals(trace, gap, call_kind, &|work| work == UnseenWork::OfBefore);
            of_before.into_iter().chain(without_requests(trace, gap, call_kind)).collect()
        })
    }

    /// The intervals of work that had been launched before the capture, sorted.
    pub(crate) fn of_before(&self, trace: &Trace) -> Vec<Vec<(Ns, Ns)>> {
        self.intervals(trace, &|gap, call_kind| {
            unseen_intervals(trace, gap, call_kind, &|work| work == UnseenWork::OfBefore)
        })
    }

    fn unseen_intervals(&self, trace: &Trace) -> Vec<Vec<(Ns, Ns)>> {
        self.intervals(trace, &|gap, call_kind| unseen_intervals(trace, gap, call_kind, &|_| true))
    }

    /// The intervals in the gaps of each device.
    fn intervals(&self, trace: &Trace, in_gap: &InGap) -> Vec<Vec<(Ns, Ns)>> {
        let has_first_gaps = trace.cut.is_some() || !trace.graph_replays.is_empty();
        let signals = self.devices.iter().flatten().any(|device| !device.gaps.is_empty() || has_first_gaps);
        let signals = signals.then(Signals::embedded);
        let graphs = GraphEnds::of(trace);
        let unseen_of = |(device, gaps): (usize, &Option<DeviceGaps>)| {
            let (Some(gaps), Some(signals)) = (gaps, &signals) else { return Vec::new() };
            let first_start = trace.cut.map(|cut| cut.window.start).or_else(|| graphs.last_before(device, gaps.first));
            let at_start = first_start.map(|start| (start, gaps.first_row));
            let gaps = at_start.into_iter().chain(gaps.gaps.iter().copied());
            let unseen = gaps.flat_map(|(start, next_row)| {
                let end = trace.gpu_ops.get(next_row).map_or(start, |op| op.start);
                let start = graphs.last_before(device, end).map_or(start, |graph_end| graph_end.max(start));
                let gap = Gap { device, start, end, previous_row: None, next_row };
                let call_kind = |name| signals.call(trace.calls.names.get(name));
                in_gap(&gap, &call_kind)
            });
            unseen.collect()
        };
        self.devices.iter().enumerate().map(unseen_of).collect()
    }
}

/// The intervals of unseen work in a gap, of the wanted kinds.
fn unseen_intervals(
    trace: &Trace,
    gap: &Gap,
    call_kind: &dyn Fn(NameId) -> CallKind,
    is_wanted: &dyn Fn(UnseenWork) -> bool,
) -> Vec<(Ns, Ns)> {
    let unseen = unseen_in_gap(trace, gap, call_kind).intervals(gap);
    unseen.filter(|(.., work)| is_wanted(*work)).map(|(start, end, _)| (start, end)).collect()
}

/// Finds intervals in a gap. The function has the kind of each call.
type InGap<'a> = dyn Fn(&Gap, &dyn Fn(NameId) -> CallKind) -> Vec<(Ns, Ns)> + 'a;

/// Graphs that were traced as a whole, which are not in the table of ops and shorten its gaps. By device: start, and the latest end so
/// far, sorted by start.
struct GraphEnds(Vec<Vec<(Ns, Ns)>>);

impl GraphEnds {
    fn of(trace: &Trace) -> Self {
        let mut ends: Vec<Vec<(Ns, Ns)>> = vec![Vec::new(); trace.devices.len()];
        for replay in &trace.graph_replays {
            if let Some(ends) = ends.get_mut(replay.device.0 as usize) {
                let latest = ends.last().map_or(replay.end(), |(_, end)| replay.end().max(*end));
                ends.push((replay.start, latest));
            }
        }
        Self(ends)
    }

    /// The latest end of the graphs that start no later than `time`.
    fn last_before(&self, device: usize, time: Ns) -> Option<Ns> {
        let ends = self.0.get(device)?;
        let started = ends.partition_point(|(start, _)| *start <= time);
        ends.get(started.checked_sub(1)?).map(|(_, end)| *end)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::context::Context;
    use crate::trace::testing::TestTrace;

    /// Ops of 0..1 ms and 9..10 ms, the second launched at 2 ms. A graph of 1..4 ms, traced as a whole, leaves 5 ms in which nothing
    /// visible ran; one that runs until 9 ms leaves none.
    #[test]
    fn a_graph_that_was_traced_as_a_whole_shortens_the_time_of_unseen_work() {
        let unseen = |graph_end| {
            let mut trace = TestTrace::nsys();
            trace.in_us().kernel("gemm_kernel", 0..1_000).replay(1_000..graph_end);
            let trace = trace.launch(1_900..2_000).launches("gemm_kernel", 9_000..10_000).finish();
            let gaps = LongGaps::of(&trace);
            let survey_has = Context::new(&trace, 30).survey().idle[0].unseen.clone();
            assert_eq!(gaps.unseen_intervals(&trace), [survey_has]);
            gaps.unseen(&trace)[0]
        };
        assert_eq!((unseen(4_000), unseen(9_000)), (Ns(5_000_000), Ns::ZERO));
    }
}
