//! One bar of the timeline in detail: what it is, what came before and after it in its lane, and the call or op at the other end of
//! its launch. Cost: a pass over the names of all ops for the median of an op, otherwise a search for its neighbours.

use super::idle_bars::IdleBar;
use super::layers::LayerBar;
use super::table_row::TableRow;
use super::{LaneKind, Stage, StepBar, Timeline, code, counters};
use crate::analysis::categories::Categories;
use crate::analysis::classified::ClassifiedTrace;
use crate::analysis::communication::operations::Operations;
use crate::analysis::labels;
use crate::analysis::measure::percentiles::of_sorted;
use crate::analysis::section::{Section, Value};
use crate::rules::RuleSet;
use crate::rules::names::demangle;
use crate::rules::signals::{CallKind, Signals};
use crate::trace::{
    Argument, CallId, CapturedOp, Element, GpuOp, GraphReplay, LaunchConfig, NameId, NodeNote, Ns, OpShape, ShapedOps,
    Span, Spans, ThreadId, Trace,
};
use crate::words;

/// A bar of one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The index of its lane.
    pub lane: usize,
    /// Its row in the table of the lane.
    pub row: usize,
    /// Its start.
    pub start: Ns,
    /// Its end.
    pub end: Ns,
}

/// A bar in detail.
#[derive(Debug, Clone, PartialEq)]
pub struct Moment {
    /// Where it is.
    pub place: Place,
    /// Its full name.
    pub name: String,
    /// Whether `name` is that of a GPU op.
    pub is_op: bool,
    /// Figures, and for a late host the code that ran meanwhile.
    pub section: Section,
    /// The bars before and after it in its lane, at its nesting depth.
    pub neighbours: Neighbours,
    /// The call that launched the op; the first op that the call launched; the work after the gap.
    pub launch: Option<Place>,
    /// Where else a person may go from here, in the order of time.
    pub links: Vec<Link>,
    /// The ids of the findings about such bars, whether or not the trace has them.
    pub findings: Vec<&'static str>,
    /// The row of a table that has the numbers of such bars.
    pub row: Option<TableRow>,
    /// The launches of the same kernel before and after it, on any stream.
    pub same_name: Neighbours,
}

impl Moment {
    /// Adds the way to a bar, if there is one.
    pub(super) fn link(&mut self, kind: LinkKind, to: Option<Place>) {
        self.links.extend(to.map(|to| Link { kind, to }));
    }
}

/// The way to another bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// What it is.
    pub kind: LinkKind,
    /// Where it is.
    pub to: Place,
}

/// What another bar is to a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkKind {
    /// The call that launched an op.
    Launch,
    /// The first op that a call launched.
    FirstOp,
    /// The work that ended when a gap began.
    OpBefore,
    /// The call that launched the work after a gap too late.
    LateCall,
    /// The call that launched the work after a gap in time.
    CallOfOpAfter,
    /// The work after a gap.
    OpAfter,
    /// The step in which a gap begins.
    Step,
}

/// The bars before and after a bar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Neighbours {
    /// The one before.
    pub before: Option<Place>,
    /// The one after.
    pub after: Option<Place>,
}

/// Innermost functions and ops around a launch.
const MAX_STACK_ROWS: usize = 24;

impl Timeline {
    /// The bar in this row of a lane; `None` if there is no such bar.
    pub fn moment(&self, trace: &Trace, rules: &RuleSet, lane: usize, row: usize) -> Option<Moment> {
        let place = self.place(trace, lane, row)?;
        let mut moment = Moment {
            place,
            name: String::new(),
            is_op: false,
            section: Section::new("", "", &[]),
            neighbours: Neighbours {
                before: self.neighbour(trace, place, false),
                after: self.neighbour(trace, place, true),
            },
            launch: None,
            links: Vec::new(),
            findings: Vec::new(),
            row: None,
            same_name: Neighbours::default(),
        };
        moment.section.figure("starts_after_first_op_ns", place.start.since(self.zero));
        let duration = match self.lanes.get(lane)?.kind {
            LaneKind::Steps(_) => self.steps(trace).get(row)?.time,
            _ => place.end.since(place.start),
        };
        moment.section.figure("duration_ns", duration);
        match self.lanes.get(lane)?.kind {
            LaneKind::Stream(..) => self.describe_op(trace, rules, trace.gpu_ops.get(row)?, &mut moment),
            LaneKind::Graphs(_) => self.describe_replay(trace, trace.graph_replays.get(row)?, &mut moment),
            LaneKind::Counter(_, index) => {
                let series = trace.metrics.get(index)?;
                series.name.clone_into(&mut moment.name);
                counters::describe(series, row, &mut moment.section);
            }
            LaneKind::Calls(_) => self.describe_call(trace, trace.calls.get(row)?, &mut moment),
            LaneKind::Ranges(_) => {
                let range = trace.ranges.get(row)?;
                trace.ranges.names.get(range.name).clone_into(&mut moment.name);
                moment.row = Some(TableRow::new("nvtx_ranges", "Ranges", "range_name", &moment.name));
                describe_thread(trace, range.thread, &mut moment.section);
            }
            LaneKind::Code(thread) => {
                let event = code::event(trace, row)?;
                code::name(trace, event).clone_into(&mut moment.name);
                describe_thread(trace, thread, &mut moment.section);
                let mut caller = code::stack(trace, thread, event.time.start).into_iter().filter(|around| {
                    (around.time.start, around.time.end) != (event.time.start, event.time.end)
                        && around.time.end >= event.time.end
                });
                let caller = caller.next_back().map_or(Value::Null, |caller| code::name(trace, caller).into());
                moment.section.figure("called_by", caller);
            }
            LaneKind::Layers(_) => self.describe_layer(trace, self.layers.get(row)?, &mut moment),
            LaneKind::Steps(_) => describe_step(self.steps(trace).get(row)?, row, &mut moment),
            LaneKind::Idle(device) => {
                self.describe_gap(trace, device, self.gaps(trace).of_device(device).get(row)?, &mut moment)
            }
        }
        Some(moment)
    }

    /// Where a bar is; `None` if the lane has no such row.
    pub fn place(&self, trace: &Trace, lane: usize, row: usize) -> Option<Place> {
        let of_span = |span: Span, thread: ThreadId| (span.thread == thread).then(|| (span.start, span.end()));
        let (start, end) = match self.lanes.get(lane)?.kind {
            LaneKind::Stream(device, stream) => {
                let op = trace.gpu_ops.get(row).filter(|op| (op.device, op.stream) == (device, stream))?;
                (op.start, op.end())
            }
            LaneKind::Graphs(device) => {
                let replay = trace.graph_replays.get(row).filter(|replay| replay.device == device)?;
                (replay.start, replay.end())
            }
            LaneKind::Counter(_, index) => counters::place(trace.metrics.get(index)?, row)?,
            LaneKind::Calls(thread) => of_span(trace.calls.get(row)?, thread)?,
            LaneKind::Ranges(thread) => of_span(trace.ranges.get(row)?, thread)?,
            LaneKind::Code(thread) => {
                let event = code::event(trace, row).filter(|event| event.time.thread == thread)?;
                (event.time.start, event.time.end)
            }
            LaneKind::Steps(device) => {
                let step = self.steps(trace).get(row).filter(|step| step.device == device)?;
                (step.start, step.until)
            }
            LaneKind::Layers(device) => {
                let layer = self.layers.get(row).filter(|layer| layer.device == device)?;
                (layer.start, layer.end)
            }
            LaneKind::Idle(device) => {
                let gap = self.gaps(trace).of_device(device).get(row)?;
                (gap.start, gap.end)
            }
        };
        Some(Place { lane, row, start, end })
    }

    /// The name of a bar, of an op as in the file; empty if there is no such bar.
    pub fn name_of(&self, trace: &Trace, place: Place) -> String {
        let row = place.row;
        let of_span = |spans: &Spans| spans.get(row).map(|span| spans.names.get(span.name).to_owned());
        let name = self.lanes.get(place.lane).and_then(|lane| match lane.kind {
            LaneKind::Stream(..) => trace.gpu_ops.get(row).map(|op| trace.names.get(op.name).to_owned()),
            LaneKind::Graphs(_) => Some("CUDA graph".to_owned()),
            LaneKind::Counter(_, index) => trace.metrics.get(index).map(|series| series.name.clone()),
            LaneKind::Calls(_) => of_span(&trace.calls),
            LaneKind::Ranges(_) => of_span(&trace.ranges),
            LaneKind::Code(_) => code::event(trace, row).map(|event| code::name(trace, event).to_owned()),
            LaneKind::Layers(_) => self.layers.get(row).map(|layer| words::capitalize(layer.name.clone())),
            LaneKind::Steps(_) => self.steps(trace).get(row).map(step_name),
            LaneKind::Idle(device) => self.gaps(trace).of_device(device).get(row).map(IdleBar::name),
        });
        name.unwrap_or_default()
    }

    /// The next bar in the lane at the same depth, or the one before.
    fn neighbour(&self, trace: &Trace, place: Place, is_after: bool) -> Option<Place> {
        if let Some(LaneKind::Code(thread)) = self.lanes.get(place.lane).map(|lane| lane.kind) {
            let (row, time) = self.code.neighbour(trace, thread, place.row, is_after)?;
            return Some(Place { lane: place.lane, row, start: time.start, end: time.end });
        }
        let depth = |row: usize| match self.lanes.get(place.lane).map(|lane| lane.kind) {
            Some(LaneKind::Calls(_)) => self.call_depths.get(row).copied(),
            Some(LaneKind::Ranges(_)) => self.range_depths.get(row).copied(),
            Some(LaneKind::Layers(_)) => self.layers.get(row).map(|layer| layer.depth),
            _ => Some(0),
        };
        let own = depth(place.row);
        let rows = self.rows_of(trace, place.lane);
        let mut others: Box<dyn Iterator<Item = usize>> =
            if is_after { Box::new(place.row + 1..rows) } else { Box::new((0..place.row).rev()) };
        others.find_map(|row| self.place(trace, place.lane, row).filter(|_| depth(row) == own))
    }

    /// The length of the table that has the items of a lane.
    fn rows_of(&self, trace: &Trace, lane: usize) -> usize {
        match self.lanes.get(lane).map(|lane| lane.kind) {
            Some(LaneKind::Stream(..)) => trace.gpu_ops.len(),
            Some(LaneKind::Graphs(_)) => trace.graph_replays.len(),
            Some(LaneKind::Counter(_, index)) => trace.metrics.get(index).map_or(0, |series| series.samples.len()),
            Some(LaneKind::Calls(_)) => trace.calls.len(),
            Some(LaneKind::Ranges(_)) => trace.ranges.len(),
            Some(LaneKind::Layers(_)) => self.layers.len(),
            Some(LaneKind::Steps(_)) => self.steps(trace).len(),
            Some(LaneKind::Idle(device)) => self.gaps(trace).of_device(device).len(),
            Some(LaneKind::Code(_)) | None => 0,
        }
    }

    fn describe_op(&self, trace: &Trace, rules: &RuleSet, op: GpuOp, moment: &mut Moment) {
        let raw = trace.names.get(op.name);
        let full = demangle(raw).into_owned();
        let (category, source) = Categories::new(trace, rules).of(raw, &full);
        let section = &mut moment.section;
        let durations = durations_of(trace, op.name);
        section.figure("median_ns", of_sorted(&durations, 50).map_or(Value::Null, |ns| Ns(ns as i64).into()));
        let until = trace.gpu_ops.iter().take(moment.place.row.saturating_add(1));
        section.figure("launch", until.filter(|other| other.name == op.name).count());
        section.figure("launches", durations.len());
        section.figure("category", category);
        section.figure("category_source", source.word());
        section.figure("device_id", labels::device(trace, op.device));
        section.figure("stream_id", labels::stream(&op));
        if let Some(config) = trace.launch_configs.of_row(moment.place.row) {
            describe_config(config, section);
        }
        if let Some(note) = trace.node_notes.of_row(moment.place.row) {
            describe_note(note, section);
        }
        if let Some(op) = u32::try_from(moment.place.row).ok().and_then(|row| trace.captured_graphs.of_row(row)) {
            describe_captured(trace, op, section);
        }
        self.describe_launch(trace, trace.gpu_ops.launch(moment.place.row), op.start, moment);
        let row = moment.place.row;
        let communicates =
            Categories::by_default_rules(trace).is_some_and(|default| default.of(raw, &full).0 == "communication");
        let operation = communicates.then(|| {
            let operations = Operations::new(&ClassifiedTrace::new(trace));
            operations.name_of(row, op).map(str::to_owned)
        });
        moment.row = Some(match operation.flatten() {
            Some(operation) => TableRow::new("nccl_ops", "Collectives", "op_name", operation),
            None => TableRow::new("kernels", "Kernels", "name", &full),
        });
        (moment.name, moment.is_op) = (full, true);
        let is_same = |row: &usize| trace.gpu_ops.get(*row).is_some_and(|other| other.name == op.name);
        moment.same_name = Neighbours {
            before: (0..row).rev().find(is_same).and_then(|row| self.place_of_op(trace, row)),
            after: (row + 1..trace.gpu_ops.len()).find(is_same).and_then(|row| self.place_of_op(trace, row)),
        };
    }

    fn describe_replay(&self, trace: &Trace, replay: &GraphReplay, moment: &mut Moment) {
        "CUDA graph, traced as a whole".clone_into(&mut moment.name);
        self.describe_launch(trace, replay.launch, replay.start, moment);
    }

    /// The call that launched the work of a bar, with its CPU op and its Python stack.
    fn describe_launch(&self, trace: &Trace, launch: Option<CallId>, start: Ns, moment: &mut Moment) {
        let Some(CallId(call)) = launch else { return };
        let Some(span) = trace.calls.get(call as usize) else { return };
        let section = &mut moment.section;
        section.figure("launch_call", trace.calls.names.get(span.name));
        section.figure("launch_to_start_ns", start.since(span.start));
        if let Some(shape) = shape_around(trace, span) {
            section.figure("cpu_op", shape.op.as_str());
            section.figure("arguments", arguments(shape));
        }
        let lane = self.lane(LaneKind::Calls(span.thread));
        moment.launch = lane.and_then(|lane| self.place(trace, lane, call as usize));
        moment.link(LinkKind::Launch, moment.launch);
        let stack = code::stack(trace, span.thread, span.start);
        if !stack.is_empty() {
            let mut section = Section::new("Code that launched it, innermost first", "", &["code"]);
            section.summary = std::mem::take(&mut moment.section.summary);
            for event in stack.iter().rev().take(MAX_STACK_ROWS) {
                section.row([code::name(trace, *event).into()]);
            }
            section.rows_in_all = stack.len() as u64;
            moment.section = section;
        }
    }

    pub(super) fn place_of_op(&self, trace: &Trace, row: usize) -> Option<Place> {
        let op = trace.gpu_ops.get(row)?;
        self.place(trace, self.lane(LaneKind::Stream(op.device, op.stream))?, row)
    }

    fn describe_layer(&self, trace: &Trace, layer: &LayerBar, moment: &mut Moment) {
        moment.name = words::capitalize(layer.name.clone());
        moment.row = Some(layer.table_row(self.stage_at(trace, layer.device, layer.start)));
        let (median, alike) = self.median_of_layers(layer);
        moment.section.figure("median_ns", median.map_or(Value::Null, Value::from));
        moment.section.figure("equal_parts", alike);
        moment.section.figure("kernels", layer.kernels);
    }

    fn describe_call(&self, trace: &Trace, call: Span, moment: &mut Moment) {
        trace.calls.names.get(call.name).clone_into(&mut moment.name);
        describe_thread(trace, call.thread, &mut moment.section);
        moment.row = match Signals::embedded().call(&moment.name) {
            CallKind::Synchronize => Some(TableRow::new("sync", "Synchronizing calls", "api_name", &moment.name)),
            CallKind::CopyBlocking => Some(TableRow::new("barriers", "Barriers", "api_name", &moment.name)),
            _ => None,
        };
        let own = CallId(u32::try_from(moment.place.row).unwrap_or(u32::MAX));
        let launched = trace.gpu_ops.launches().enumerate().filter(|(_, call)| *call == Some(own));
        let rows: Vec<usize> = launched.map(|(row, _)| row).collect();
        moment.section.figure("launched_ops", rows.len());
        if let Some(op) = rows.first().and_then(|row| trace.gpu_ops.get(*row)) {
            moment.section.figure("first_op_starts_after_ns", op.start.since(call.start));
            moment.launch = rows.first().and_then(|row| self.place_of_op(trace, *row));
            moment.link(LinkKind::FirstOp, moment.launch);
        } else if let Some(replay) = trace.graph_replays.iter().position(|replay| replay.launch == Some(own)) {
            moment.launch = self.place_of_work(trace, trace.gpu_ops.len() + replay);
            moment.link(LinkKind::FirstOp, moment.launch);
        }
    }
}

/// The CPU op that launched a replayed op in the capture of its graph.
fn describe_captured(trace: &Trace, op: &CapturedOp, section: &mut Section) {
    let shape = op.execution.and_then(|execution| trace.captured_graphs.shapes().get(execution.shape as usize));
    if let Some(shape) = shape {
        section.figure("cpu_op", shape.op.as_str());
        section.figure("arguments", arguments(shape));
    } else if let Some(site) = trace.captured_graphs.site(op).filter(|site| !site.cpu_op.is_empty()) {
        section.figure("cpu_op", site.cpu_op.as_str());
    }
}

/// How a kernel was launched.
fn describe_config(config: &LaunchConfig, section: &mut Section) {
    section.figure("grid", words::kernels::grid(config.grid));
    section.figure("block", words::kernels::grid(config.block));
    let figures = [
        ("registers_per_thread", config.registers),
        ("shared_memory_per_block_bytes", config.shared_bytes),
        // A kernel that ran occupied something: profilers write 0 for what they could not estimate.
        ("estimated_occupancy_pct", config.occupancy_pct.filter(|pct| *pct > 0)),
    ];
    for (name, value) in figures {
        value.into_iter().for_each(|value| section.figure(name, i64::from(value)));
    }
}

/// The arguments of the framework op around a launch call; `None` if their shapes are not known.
pub(crate) fn shape_of_launch(trace: &Trace, call: Span) -> Option<String> {
    shape_around(trace, call).map(arguments)
}

/// The innermost framework op with known shapes around a call. Searches back from it by the longest duration of such an op.
fn shape_around(trace: &Trace, call: Span) -> Option<&OpShape> {
    let ShapedOps { ops, shapes, longest, .. } = &*trace.shaped_ops;
    let earlier = ops.get(..ops.partition_point(|op| op.start <= call.start))?.iter().rev();
    let mut near = earlier.take_while(|op| op.start.0 >= call.start.0.saturating_sub(longest.0));
    let op = near.find(|op| op.thread == call.thread && op.end() > call.start)?;
    shapes.get(op.shape as usize)
}

/// `BF16 [128, 4096], BF16 [4096, 512], True`; an argument that is no tensor and has no value is left out.
fn arguments(shape: &OpShape) -> String {
    let argument = |argument: &Argument| match argument.element {
        Element::Other if argument.lengths.is_empty() => argument.value.clone(),
        element => words::timeline::tensor(element.label(), &argument.lengths),
    };
    let known = shape.arguments.iter().map(argument).filter(|text| !text.is_empty());
    known.collect::<Vec<_>>().join(", ")
}

/// What the program wrote about the node of a graph that an op replays.
fn describe_note(note: &NodeNote, section: &mut Section) {
    if !note.annotation.is_empty() {
        section.figure("annotation", note.annotation.as_str());
    }
    for (name, stream) in [("original_stream_id", note.original_stream), ("chosen_stream_id", note.chosen_stream)] {
        stream.into_iter().for_each(|stream| section.figure(name, stream));
    }
}

/// Sorted, in nanoseconds.
fn durations_of(trace: &Trace, name: NameId) -> Vec<i64> {
    let mut durations: Vec<i64> = trace.gpu_ops.iter().filter(|op| op.name == name).map(|op| op.duration.0).collect();
    durations.sort_unstable();
    durations
}

fn step_name(step: &StepBar) -> String {
    words::timeline::step(Some(step.stage).filter(|stage| *stage != Stage::All).map(Stage::label))
}

fn describe_step(step: &StepBar, row: usize, moment: &mut Moment) {
    moment.name = step_name(step);
    moment.row = Some(TableRow::new("step_list", "Steps over time", "start_ns", step.start.0));
    // The duration leaves this time out, as in the tables.
    if step.unseen > Ns::ZERO {
        moment.section.figure("not_traced_ns", step.unseen);
    }
    moment.section.figure("to_last_op_ns", step.to_last_op);
    moment.section.figure("step", row + 1);
    if step.stage != Stage::All {
        moment.section.figure("stage", step.stage.label());
    }
}

fn describe_thread(trace: &Trace, thread: ThreadId, section: &mut Section) {
    let Some(thread) = trace.threads.get(thread.0 as usize) else { return };
    section.figure("pid", labels::pid(trace, thread.process));
    section.figure("tid", Value::from((thread.tid >= 0).then_some(thread.tid)));
}
