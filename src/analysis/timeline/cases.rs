//! Finds the case of an [`Example`] in the timeline: the longest one, and of steps and layers mostly the one with the median length. A
//! pass over the ops, calls, ranges, gaps, layers or steps of the trace.

use super::example::{Example, LayerChoice};
use super::idle_bars::IdleBar;
use super::layers::LayerBar;
use super::moment::Place;
use super::{LaneKind, Timeline};
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::communication::operations::{self, Call, each_call};
use crate::analysis::labels;
use crate::analysis::section::Value;
use crate::analysis::time::streams::class_of;
use crate::ordering;
use crate::rules::names::demangle;
use crate::rules::{CPU, GRAPHS};
use crate::trace::{CodeTime, DeviceId, Ns, OpKind, ProcessId, Spans, ThreadId, Trace, Window, without_install_folder};

impl Timeline {
    /// The case of a statement that starts within a window; `None` if there is none.
    pub fn example(&self, trace: &Trace, example: &Example, within: Window) -> Option<Place> {
        match example {
            Example::Idle(causes) => self.longest_gap(trace, within, &|_, gap| gap.is_of(causes)),
            Example::IdleInSteps(causes) => {
                let extents = self.extents_of_steps(trace, within);
                let is_in_steps = |device: DeviceId, start: Ns| {
                    extents.get(device.0 as usize).is_some_and(|(first, last)| (*first..*last).contains(&start))
                };
                self.longest_gap(trace, within, &|device, gap| gap.is_of(causes) && is_in_steps(device, gap.start))
            }
            Example::Step(stage) => self.median_step(trace, stage, within),
            Example::Category(category) if category == CPU => self.longest_gap(trace, within, &|_, gap| gap.is_idle()),
            Example::Category(category) if category == GRAPHS => self.longest_graph(trace, within),
            Example::Category(category) => {
                let index = self.categories.iter().position(|known| known == category)?;
                let is_category: Vec<bool> = self.category_of_name.iter().map(|of_name| *of_name == index).collect();
                self.longest_row(trace, within, &|_, op| is_category.get(op.name.0 as usize) == Some(&true))
            }
            Example::Kernel(name) => {
                let is_name: Vec<bool> = trace.names.iter().map(|raw| raw == name || demangle(raw) == *name).collect();
                self.longest_row(trace, within, &|_, op| is_name.get(op.name.0 as usize) == Some(&true))
            }
            Example::Copy(words) => {
                let has_word = |raw: &str| {
                    let name = raw.to_ascii_lowercase();
                    words.iter().any(|word| name.contains(word))
                };
                let has_word: Vec<bool> = trace.names.iter().map(has_word).collect();
                self.longest_row(trace, within, &|_, op| {
                    op.kind == OpKind::Copy && has_word.get(op.name.0 as usize) == Some(&true)
                })
            }
            Example::Communication => {
                let classified = ClassifiedTrace::new(trace);
                self.longest_row(trace, within, &|_, op| classified.is_communication(op.name))
            }
            Example::IdleOn(cause, device) => {
                let is_device = |id: DeviceId| label_text(&labels::device(trace, id)) == *device;
                let main = self.longest_gap(trace, within, &|id, gap| is_device(id) && gap.cause.word() == cause);
                main.or_else(|| {
                    self.longest_gap(trace, within, &|id, gap| is_device(id) && gap.lesser_cause.word() == cause)
                })
            }
            Example::IdleCode(cause, function) => {
                let functions = trace.late_code.functions.iter();
                let is_function: Vec<bool> = functions.map(|name| without_install_folder(name) == function).collect();
                let is_case =
                    |time: &CodeTime| time.function.is_some_and(|id| is_function.get(id.0 as usize) == Some(&true));
                self.gap_with_code(trace, cause, within, &is_case)
            }
            Example::IdleCpuOp(cause, op) => {
                let op = trace.late_code.ops.find(op)?;
                self.gap_with_code(trace, cause, within, &|time| time.function.is_none() && time.op == Some(op))
            }
            Example::StepAt(ns) => self.item_of_row(trace, "step_list", &[self.zero + Ns(*ns)]),
            Example::Layer(choice) => self.layer(trace, choice, within),
            Example::Collective(operation) => self.longest_collective(trace, within, operation, &|_| true),
            Example::CollectiveOfSize(operation, bytes) => {
                self.longest_collective(trace, within, operation, &|call| call.bytes == Some(*bytes))
            }
            Example::CollectiveOn(operation, rank) => {
                let labels = operations::rank_labels(&ClassifiedTrace::new(trace));
                self.longest_collective(trace, within, operation, &|call| {
                    labels.get(&(call.op.process, call.op.device)) == Some(rank)
                })
            }
            Example::CommunicationOf(process) => {
                let classified = ClassifiedTrace::new(trace);
                self.longest_row(trace, within, &|_, op| {
                    classified.is_communication(op.name) && is_process(trace, op.process, process)
                })
            }
            Example::Call(name) => self.longest_span(trace, (&trace.calls, LaneKind::Calls), within, name, None),
            Example::CallOf(process, name) => {
                self.longest_span(trace, (&trace.calls, LaneKind::Calls), within, name, Some(process))
            }
            Example::Range(name) => self.longest_span(trace, (&trace.ranges, LaneKind::Ranges), within, name, None),
            Example::RangeOf(process, name) => {
                self.longest_span(trace, (&trace.ranges, LaneKind::Ranges), within, name, Some(process))
            }
            Example::Counter(device, stage, name) => self.highest_sample(trace, (device, stage, name), within),
            Example::GraphOp(stage) => self.longest_of_graph(trace, stage, within),
            Example::EagerOp(stage) => self.longest_of_eager_steps(trace, stage, within),
            Example::OpOutsideSteps => self.longest_outside_steps(trace, within),
            Example::Overlap(label) => self.longest_overlap(trace, class_of(label)?, within),
        }
    }

    /// By device: the start of its first step inside of a window and the end of its last one. Empty for a device without such steps.
    fn extents_of_steps(&self, trace: &Trace, within: Window) -> Vec<(Ns, Ns)> {
        let mut extents = vec![(Ns(i64::MAX), Ns(i64::MIN)); trace.devices.len()];
        let is_inside = |step: &&super::StepBar| step.start >= within.start && step.until <= within.end;
        for step in self.steps(trace).iter().filter(is_inside) {
            let of_device = step.device.and_then(|device| extents.get_mut(device.0 as usize));
            of_device
                .into_iter()
                .for_each(|(first, last)| (*first, *last) = (step.start.min(*first), step.until.max(*last)));
        }
        extents
    }

    /// A graph that was traced as a whole.
    fn longest_graph(&self, trace: &Trace, within: Window) -> Option<Place> {
        let graphs = trace.graph_replays.iter().enumerate();
        let cases = graphs.filter(|(_, replay)| within.overlaps(replay.start, replay.start));
        let longest = cases.reduce(|longest, next| if next.1.duration > longest.1.duration { next } else { longest });
        self.place_of_work(trace, trace.gpu_ops.len() + longest?.0)
    }

    fn longest_gap(
        &self,
        trace: &Trace,
        within: Window,
        is_case: &dyn Fn(DeviceId, &IdleBar) -> bool,
    ) -> Option<Place> {
        let gaps = self.gaps(trace).iter();
        let cases = gaps.filter(|(device, _, gap)| within.overlaps(gap.start, gap.start) && is_case(*device, gap));
        let length = |(_, _, gap): &(DeviceId, usize, &IdleBar)| gap.length();
        let longest = cases.reduce(|longest, next| if length(&next) > length(&longest) { next } else { longest });
        let (device, row, _) = longest?;
        self.place(trace, self.lane(LaneKind::Idle(device))?, row)
    }

    fn median_step(&self, trace: &Trace, stage: &str, within: Window) -> Option<Place> {
        let steps = self.steps(trace).iter().enumerate();
        let is_case = |step: &super::StepBar| stage.is_empty() || step.stage.label() == stage;
        let mut cases: Vec<(usize, &super::StepBar)> =
            steps.filter(|(_, step)| within.overlaps(step.start, step.start) && is_case(step)).collect();
        ordering::sort_by_key(&mut cases, |(_, step)| step.time);
        let (row, step) = cases.get(cases.len().checked_sub(1)? / 2)?;
        self.place(trace, self.lane(LaneKind::Steps(step.device))?, *row)
    }

    fn longest_collective(
        &self,
        trace: &Trace,
        within: Window,
        operation: &str,
        is_case: &dyn Fn(&Call) -> bool,
    ) -> Option<Place> {
        let mut longest: Option<(Ns, usize)> = None;
        each_call(&ClassifiedTrace::new(trace), &mut |call| {
            let is_longer = longest.is_none_or(|(duration, _)| call.op.duration > duration);
            let is_inside = within.overlaps(call.op.start, call.op.start);
            if is_longer && is_inside && call.operation == operation && is_case(&call) {
                longest = Some((call.op.duration, call.row));
            }
        });
        self.place_of_op(trace, longest?.1)
    }

    /// The longest call or range of a name, in any process or in the one with this id.
    fn longest_span(
        &self,
        trace: &Trace,
        (spans, lane): (&Spans, fn(ThreadId) -> LaneKind),
        within: Window,
        name: &str,
        process: Option<&str>,
    ) -> Option<Place> {
        let name = spans.names.find(name)?;
        let rows = spans.count_starting_before(within.start)..spans.count_starting_before(within.end);
        let of_process = |thread: ThreadId| {
            let of_thread = trace.threads.get(thread.0 as usize).map(|thread| thread.process);
            process.is_none_or(|wanted| of_thread.is_some_and(|id| is_process(trace, id, wanted)))
        };
        let cases = rows.filter_map(|row| Some((row, spans.get(row)?)));
        let cases = cases.filter(|(_, span)| span.name == name && of_process(span.thread));
        let longest = cases.reduce(|longest, next| if next.1.duration > longest.1.duration { next } else { longest });
        let (row, span) = longest?;
        self.place(trace, self.lane(lane(span.thread))?, row)
    }

    /// The gap with this cause in which the launching thread ran certain code longest.
    fn gap_with_code(
        &self,
        trace: &Trace,
        cause: &str,
        within: Window,
        is_case: &dyn Fn(&CodeTime) -> bool,
    ) -> Option<Place> {
        let in_code =
            |code: &[CodeTime]| code.iter().filter(|time| is_case(time)).fold(Ns::ZERO, |sum, time| sum + time.time);
        let gaps = self
            .gaps(trace)
            .iter()
            .filter(|(_, _, gap)| gap.cause.word() == cause && within.overlaps(gap.start, gap.start));
        let mut starts: Vec<(Ns, DeviceId, usize)> = gaps.map(|(device, row, gap)| (gap.start, device, row)).collect();
        starts.sort_unstable();
        let mut longest: Option<(Ns, DeviceId, usize)> = None;
        for (interval, code) in trace.late_code.iter() {
            let first = starts.partition_point(|(start, ..)| *start < interval.start);
            let Some((_, device, row)) = starts.get(first).filter(|(start, ..)| *start == interval.start) else {
                continue;
            };
            let time = in_code(code);
            if time > longest.map_or(Ns::ZERO, |(time, ..)| time) {
                longest = Some((time, *device, *row));
            }
        }
        let (_, device, row) = longest?;
        self.place(trace, self.lane(LaneKind::Idle(device))?, row)
    }

    fn layer(&self, trace: &Trace, choice: &LayerChoice, within: Window) -> Option<Place> {
        let is_in_stage = |bar: &LayerBar| self.stage_at(trace, bar.device, bar.start) == choice.stage;
        let cases = self.layers.iter().enumerate().filter(|(_, bar)| {
            within.overlaps(bar.start, bar.start) && bar.is_chosen_by(&choice.of) && is_in_stage(bar)
        });
        let mut cases: Vec<(usize, &LayerBar)> = cases.collect();
        ordering::sort_by_key(&mut cases, |(_, bar)| bar.end.since(bar.start));
        let last = cases.len().checked_sub(1)?;
        let (row, bar) = cases.get(if choice.is_longest { last } else { last / 2 })?;
        self.place(trace, self.lane(LaneKind::Layers(bar.device))?, *row)
    }
}

impl Timeline {
    /// The stage of the step of a device at a time; empty between steps.
    pub(super) fn stage_at(&self, trace: &Trace, device: DeviceId, time: Ns) -> &'static str {
        self.step_around(trace, device, time).map_or("", |(_, step)| step.stage.label())
    }
}

/// Whether a process has this id in the tables.
fn is_process(trace: &Trace, id: ProcessId, wanted: &str) -> bool {
    label_text(&labels::pid(trace, id)) == wanted
}

/// The text of a label in the tables; empty for any other value.
pub(super) fn label_text(label: &Value) -> String {
    match label {
        Value::Text(text) => text.clone(),
        Value::Int(number) => number.to_string(),
        _ => String::new(),
    }
}
