//! The items of the timeline that names and rows of tables stand for. A search costs a pass over the items of its kind.

use super::moment::Place;
use super::{LaneKind, Timeline};
use crate::rules::names::demangle;
use crate::trace::{Ns, Spans, ThreadId, Trace};

impl Timeline {
    /// The first launch of a kernel from `from` on, or else before it; `None` if the trace has no kernel of this name. The name may be demangled.
    pub fn launch_of(&self, trace: &Trace, name: &str, from: Ns) -> Option<Place> {
        let is_name: Vec<bool> = trace.names.iter().map(|raw| raw == name || demangle(raw) == name).collect();
        let is_same = |row: &usize| {
            let op = trace.gpu_ops.get(*row);
            op.and_then(|op| is_name.get(op.name.0 as usize)).copied().unwrap_or(false)
        };
        let first = trace.gpu_ops.count_starting_before(from);
        let row = (first..trace.gpu_ops.len()).find(is_same).or_else(|| (0..first).find(is_same))?;
        self.place_of_op(trace, row)
    }

    /// The item that the first of the times of a row of a table belongs to: one that begins and ends with times of the row, else one that
    /// begins or else ends at the time. `None` without such an item: a window cut it, or it is a gap that has no bar. Two times
    /// are the ends of one item, so its neighbours, which begin and end with it, do not count.
    pub fn item_of_row(&self, trace: &Trace, table: &str, times: &[Ns]) -> Option<Place> {
        let (time, from, to) = (*times.first()?, *times.iter().min()?, *times.iter().max()?);
        let are_ends = from < to && times.iter().all(|time| [from, to].contains(time));
        let find = |matches: &dyn Fn(Ns, Ns) -> bool| self.item_of_table(trace, table, matches);
        let whole = find(&|start, end| [start, end].contains(&time) && times.contains(&start) && times.contains(&end));
        if whole.is_some() || are_ends {
            return whole;
        }
        find(&|start, _| start == time).or_else(|| find(&|_, end| end == time))
    }

    /// The first item of the kind that a table lists whose start and end match.
    fn item_of_table(&self, trace: &Trace, table: &str, matches: &dyn Fn(Ns, Ns) -> bool) -> Option<Place> {
        match table {
            "gpu_idle_gaps" => self.gap_that(trace, matches),
            "step_list" => {
                let row = self.steps(trace).iter().position(|step| matches(step.start, step.until))?;
                self.place(trace, self.lane(LaneKind::Steps(self.steps(trace).get(row)?.device))?, row)
            }
            "timeline_events" => self.event_that(trace, matches).or_else(|| self.gap_that(trace, matches)),
            _ => self.event_that(trace, matches),
        }
    }

    fn gap_that(&self, trace: &Trace, matches: &dyn Fn(Ns, Ns) -> bool) -> Option<Place> {
        let (device, row, _) = self.gaps(trace).iter().find(|(.., gap)| matches(gap.start, gap.end))?;
        self.place(trace, self.lane(LaneKind::Idle(device))?, row)
    }

    /// An op, a call or a range.
    fn event_that(&self, trace: &Trace, matches: &dyn Fn(Ns, Ns) -> bool) -> Option<Place> {
        let of_spans = |spans: &Spans, kind: fn(ThreadId) -> LaneKind| {
            let is_match = |row: &usize| spans.get(*row).is_some_and(|span| matches(span.start, span.end()));
            let row = (0..spans.len()).find(is_match)?;
            self.place(trace, self.lane(kind(spans.get(row)?.thread))?, row)
        };
        let op = trace.gpu_ops.iter().position(|op| matches(op.start, op.end()));
        op.and_then(|row| self.place_of_op(trace, row))
            .or_else(|| of_spans(&trace.calls, LaneKind::Calls))
            .or_else(|| of_spans(&trace.ranges, LaneKind::Ranges))
    }
}
