//! Cases of tables about samples and GPU work: the highest sample of a counter, the longest op of a graph, of a step without graphs
//! or outside of steps, the longest overlap. One
//! pass over the samples, ops or work; a binary search among the steps for each.

use super::moment::Place;
use super::{LaneKind, Timeline};
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::inference::passes::StepsOfOps;
use crate::analysis::labels;
use crate::analysis::structure::stages::Stage;
use crate::analysis::time::work::{Class, Work, each_work};
use crate::rules::signals::CallKind;
use crate::trace::{DeviceId, GpuOp, MetricSeries, NONE, Ns, Trace, Window};

impl Timeline {
    /// The highest sample of a counter in the steps of a stage; of the stage `all`, in all of the GPU's time.
    pub(super) fn highest_sample(
        &self,
        trace: &Trace,
        (device, stage, counter): (&str, &str, &str),
        within: Window,
    ) -> Option<Place> {
        let is_counter = |id: DeviceId, series: &MetricSeries| {
            series.name == counter && super::cases::label_text(&labels::device(trace, id)) == device
        };
        let (lane, id, series) = self.lanes.iter().enumerate().find_map(|(lane, kind)| match kind.kind {
            LaneKind::Counter(id, index) => {
                Some((lane, id, trace.metrics.get(index).filter(|series| is_counter(id, series))?))
            }
            _ => None,
        })?;
        let is_in_stage = |time: Ns| stage == Stage::All.label() || self.stage_at(trace, id, time) == stage;
        let samples = series.samples.iter().enumerate().filter(|(_, (time, value))| {
            value.is_finite() && within.overlaps(*time, *time) && self.gpu.overlaps(*time, *time) && is_in_stage(*time)
        });
        let highest = samples.reduce(|highest, next| if next.1.1 > highest.1.1 { next } else { highest });
        self.place(trace, lane, highest?.0)
    }

    /// The longest op that the launch of a graph started in the steps of a stage.
    pub(super) fn longest_of_graph(&self, trace: &Trace, stage: &str, within: Window) -> Option<Place> {
        let classified = ClassifiedTrace::new(trace);
        self.longest_row(trace, within, &|row, op| {
            is_of_graph(&classified, row) && self.stage_at(trace, op.device, op.start) == stage
        })
    }

    /// The longest op of the steps of a stage that launched no graph.
    pub(super) fn longest_of_eager_steps(&self, trace: &Trace, stage: &str, within: Window) -> Option<Place> {
        let (classified, found) = (ClassifiedTrace::new(trace), StepsOfOps::of_trace(trace));
        let step_of = |row: usize| found.step_of_op.get(row).map(|step| *step as usize);
        let mut is_eager: Vec<bool> = found.steps.iter().map(|step| step.stage.label() == stage).collect();
        for row in (0..trace.gpu_ops.len()).filter(|row| is_of_graph(&classified, *row)) {
            step_of(row).and_then(|step| is_eager.get_mut(step)).into_iter().for_each(|is_eager| *is_eager = false);
        }
        self.longest_row(trace, within, &|row, _| step_of(row).and_then(|step| is_eager.get(step)) == Some(&true))
    }

    /// The longest op that no step launched.
    pub(super) fn longest_outside_steps(&self, trace: &Trace, within: Window) -> Option<Place> {
        let found = StepsOfOps::of_trace(trace);
        self.longest_row(trace, within, &|row, _| found.step_of_op.get(row) == Some(&NONE))
    }

    /// The longest op of those that are a case; `is_case` has the row and the op.
    pub(super) fn longest_row(
        &self,
        trace: &Trace,
        within: Window,
        is_case: &dyn Fn(usize, &GpuOp) -> bool,
    ) -> Option<Place> {
        let rows = trace.gpu_ops.count_starting_before(within.start)..trace.gpu_ops.count_starting_before(within.end);
        let cases = rows.filter_map(|row| Some((row, trace.gpu_ops.get(row)?))).filter(|(row, op)| is_case(*row, op));
        let (row, _) =
            cases.reduce(|longest, next| if next.1.duration > longest.1.duration { next } else { longest })?;
        self.place_of_op(trace, row)
    }

    /// The work of a class that ran longest at the same time as one other work of its device, of another class.
    pub(super) fn longest_overlap(&self, trace: &Trace, class: Class, within: Window) -> Option<Place> {
        // By device and class: the work that ends last of what has started.
        let mut open: Vec<[Option<Work>; Class::ALL.len()]> = vec![Default::default(); trace.devices.len()];
        let mut longest: Option<(Ns, usize)> = None;
        each_work(&ClassifiedTrace::new(trace), &mut |work| {
            let Some(open) = open.get_mut(work.device) else { return };
            for other in open.iter().flatten().filter(|other| other.class != work.class) {
                let overlap = work.end.min(other.end).since(work.start);
                let of_class = [work, *other].into_iter().find(|one| one.class == class);
                let Some(one) = of_class.filter(|one| within.overlaps(one.start, one.start)) else { continue };
                if overlap > longest.map_or(Ns::ZERO, |(longest, _)| longest) {
                    longest = Some((overlap, one.row));
                }
            }
            if let Some(last) = open.get_mut(work.class as usize)
                && last.is_none_or(|last| work.end > last.end)
            {
                *last = Some(work);
            }
        });
        self.place_of_work(trace, longest?.1)
    }
}

/// Whether the launch of a graph started this op.
fn is_of_graph(classified: &ClassifiedTrace, row: usize) -> bool {
    let trace = classified.trace;
    let call = trace.gpu_ops.launch(row).and_then(|launch| trace.calls.name(launch.0 as usize));
    call.is_some_and(|name| classified.call_kind(name) == CallKind::GraphLaunch)
}
