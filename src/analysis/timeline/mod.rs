//! The timeline: what ran when, as lanes of bars. A lane is a stream, a host thread, or the steps, the layers of the model or the
//! idle time of a device.
//!
//! [`Timeline::of`] finds the lanes of a trace once. After that a [`Tile`] has the bars of a part of it: [`TILE_UNITS`] units of
//! 2^level ns. The page asks for the tiles in view, at the level at which a unit is about one pixel. A tile therefore has a bounded
//! number of bars, whatever the trace: shorter ops of one unit become one bar that says how many they are and how much of it they
//! fill. Cost of a tile: the ops that overlap it, and a binary search. The steps, the idle gaps and the nesting depths
//! are computed when a tile first needs them, each in one pass over the trace.

mod bars;
mod call_tree;
mod cases;
mod code;
mod counters;
mod example;
mod gap;
mod idle_bars;
mod items;
mod layers;
mod moment;
mod search;
mod step_pair;
mod table_row;
mod tile;
mod work_cases;

pub use bars::{Bar, TILE_UNITS, TileRange};
pub use code::code_name;
pub use example::{Example, LayerChoice};
pub(crate) use moment::shape_of_launch;
pub use moment::{Link, LinkKind, Moment, Neighbours, Place};
pub use search::{Hit, HitSpan, Hits, Toward};
pub use step_pair::{FirstStep, StepPair};
pub use table_row::TableRow;
pub use tile::Tile;

use code::CodeBars;
use idle_bars::IdleBars;
use layers::{LayerBar, layer_bars};

use super::host::idle_cause::IdleCause;
use super::inference::passes::{may_have_steps, steps_on_devices};
use super::structure::stages::{Basis, Stage, TimedStep, time_between, timed};
use super::time::strips::categories;
use crate::ordering;
use crate::rules::RuleSet;
use crate::trace::{DeviceId, Ns, Spans, ThreadId, Trace, Window};
use std::cell::OnceCell;
use std::collections::BTreeSet;

/// More host threads are left out: those with the fewest spans.
const MAX_THREADS: usize = 48;

/// The kind of a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LaneKind {
    /// The steps of the serving engine on a device. Without bars in a trace with attention kernels in which no steps are found.
    Steps(Option<DeviceId>),
    /// The layers of the model on a device, and the roles of the kernels in them.
    Layers(DeviceId),
    /// The time in which a device was idle, by cause, without the usual delay between two ops.
    Idle(DeviceId),
    /// The ops of a stream of a device.
    Stream(DeviceId, i64),
    /// CUDA graphs that were traced as a whole.
    Graphs(DeviceId),
    /// A counter of a device: the index of its series in [`Trace::metrics`].
    Counter(DeviceId, usize),
    /// Ranges that the program marked on a host thread.
    Ranges(ThreadId),
    /// Calls of the CUDA or HIP API on a host thread.
    Calls(ThreadId),
    /// Python functions and CPU ops on a host thread.
    Code(ThreadId),
}

/// The tiles of a lane come in layers, because their data costs differently much to compute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layer {
    /// Streams, graphs and counters.
    Device,
    /// Calls and ranges.
    Host,
    /// Steps, layers and idle time.
    Derived,
    /// Python functions and CPU ops.
    Code,
}

impl Layer {
    /// All layers, in the order in which the page should ask for them.
    pub const ALL: [Self; 4] = [Self::Device, Self::Host, Self::Code, Self::Derived];

    /// Its name: `device`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Host => "host",
            Self::Derived => "derived",
            Self::Code => "code",
        }
    }
}

impl LaneKind {
    /// The layer that has its bars.
    pub fn layer(self) -> Layer {
        match self {
            Self::Stream(..) | Self::Graphs(_) | Self::Counter(..) => Layer::Device,
            Self::Ranges(_) | Self::Calls(_) => Layer::Host,
            Self::Steps(_) | Self::Layers(_) | Self::Idle(_) => Layer::Derived,
            Self::Code(_) => Layer::Code,
        }
    }
}

/// One lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lane {
    /// What it shows.
    pub kind: LaneKind,
    /// The number of nested rows.
    pub depth: usize,
}

/// What the colour of a bar stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// An index in [`Timeline::categories`].
    Category(usize),
    /// A CUDA graph.
    Graph,
    /// The value of a counter; the bar is as high as its share of 100 %, or of the highest value.
    Counter,
    /// A step of this stage.
    Stage(Stage),
    /// A layer of the model.
    Layer,
    /// Idle time with this cause.
    Idle(GapCause),
    /// A marked range.
    Range,
    /// A call that launches work.
    Launch,
    /// A call that waits for the GPU.
    Wait,
    /// Any other call.
    Call,
    /// A Python function.
    Function,
    /// A CPU op.
    CpuOp,
}

impl Style {
    /// All styles but the categories.
    pub fn others() -> Vec<Self> {
        let stages = Stage::ALL.into_iter().map(Self::Stage);
        let causes = IdleCause::ALL.into_iter().map(|cause| Self::Idle(GapCause(cause)));
        let others = [
            Self::Graph,
            Self::Counter,
            Self::Layer,
            Self::Range,
            Self::Launch,
            Self::Wait,
            Self::Call,
            Self::Function,
            Self::CpuOp,
        ];
        others.into_iter().chain(stages).chain(causes).collect()
    }
}

/// Why a device was idle, or that it ran work which the trace does not contain; see the section `gpu_idle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GapCause(pub(crate) IdleCause);

impl GapCause {
    /// The word of the reports: `host_late`.
    pub fn word(self) -> &'static str {
        self.0.word()
    }

    /// What its bars are called: `idle: host late`. Time of unseen work is not idle.
    pub fn title(self) -> String {
        match self.0 {
            IdleCause::Unseen => "not traced".to_owned(),
            cause => crate::words::timeline::idle(cause.word()),
        }
    }
}

/// See [`Timeline::opens_at`].
const MAX_OPS_TO_FIND_A_START: usize = 100_000;

/// A step as a bar.
#[derive(Debug, Clone, Copy)]
struct StepBar {
    start: Ns,
    until: Ns,
    /// From `start` to `until`, without the time in which the device executed work that the trace does not contain.
    time: Ns,
    /// The same until its last op ends.
    to_last_op: Ns,
    /// Time of such work between `start` and `until`.
    unseen: Ns,
    stage: Stage,
    device: Option<DeviceId>,
}

/// The lanes of a trace, and what their bars are computed from.
#[derive(Debug)]
pub struct Timeline {
    /// Time zero: the start of the first GPU work, as in all reports.
    pub zero: Ns,
    /// From the first event to the last, of device and host.
    pub extent: Window,
    /// From the first GPU op or whole graph to the last.
    pub gpu: Window,
    /// The lanes, from top to bottom.
    pub lanes: Vec<Lane>,
    /// Host threads without lanes.
    pub threads_left_out: usize,
    /// Host threads without calls and ranges, whose code has no lanes.
    pub code_threads_left_out: usize,
    /// Whether the trace has too many ops to search for layers.
    pub layers_left_out: bool,
    /// The functions and CPU ops without a row, because they run around all GPU work and around other such code: outermost first, by
    /// thread.
    pub outer_code: Vec<Vec<String>>,
    /// Whether the trace has too many CPU ops and Python functions to keep them; see [`crate::trace::PackedCode::is_too_long`].
    pub code_left_out: bool,
    /// The categories of the ops.
    pub categories: Vec<String>,
    category_of_name: Vec<usize>,
    call_depths: Vec<u8>,
    range_depths: Vec<u8>,
    /// By counter; see [`counters::full_height`].
    full_heights: Vec<f64>,
    layers: Vec<LayerBar>,
    steps: OnceCell<Vec<StepBar>>,
    gaps: OnceCell<IdleBars>,
    code: CodeBars,
    /// See [`search`].
    search_texts: OnceCell<Vec<String>>,
}

impl Timeline {
    /// Finds the lanes of a trace; `None` without GPU ops.
    pub fn of(trace: &Trace, rules: &RuleSet) -> Option<Self> {
        let gpu = trace.span()?;
        let (categories, category_of_name) = categories(trace, rules);
        let (calls, ranges) =
            (Nesting::of(&trace.calls, trace.threads.len()), Nesting::of(&trace.ranges, trace.threads.len()));
        let code = CodeBars::of(trace, gpu);
        let (threads, threads_left_out) = threads(&calls, &ranges, &code);
        let (layers, layers_left_out) = layer_bars(trace, &categories);
        let mut lanes = device_lanes(trace, &layers);
        for thread in threads {
            let kinds = [
                (LaneKind::Ranges(thread), ranges.rows_of(thread)),
                (LaneKind::Calls(thread), calls.rows_of(thread)),
                (LaneKind::Code(thread), code.depth(thread)),
            ];
            let kinds = kinds.into_iter();
            lanes.extend(kinds.filter(|(_, depth)| *depth > 0).map(|(kind, depth)| Lane { kind, depth }));
        }
        let first_starts = [trace.calls.start(0), trace.ranges.start(0)].into_iter().flatten();
        let start = first_starts.fold(gpu.start, Ns::min);
        Some(Self {
            zero: gpu.start,
            extent: Window { start, end: gpu.end.max(calls.last_end).max(ranges.last_end) },
            gpu,
            lanes,
            threads_left_out,
            layers_left_out,
            code_threads_left_out: trace.packed_code.as_ref().map_or(0, |code| code.threads_left_out()),
            outer_code: code.outer_names(trace),
            code_left_out: trace.packed_code.as_ref().is_some_and(|code| code.is_too_long()),
            categories,
            category_of_name,
            call_depths: calls.depths,
            range_depths: ranges.depths,
            full_heights: trace.metrics.iter().map(counters::full_height).collect(),
            layers,
            steps: OnceCell::new(),
            gaps: OnceCell::new(),
            code,
            search_texts: OnceCell::new(),
        })
    }

    /// The step of a device around a time and its row. Steps of one device are disjoint, so only the last that started can be it: a
    /// binary search, and then back over the steps of other devices.
    fn step_around(&self, trace: &Trace, device: DeviceId, time: Ns) -> Option<(usize, &StepBar)> {
        let steps = self.steps(trace);
        let started = steps.get(..steps.partition_point(|step| step.start <= time))?;
        let (row, step) = started.iter().enumerate().rfind(|(_, step)| step.device == Some(device))?;
        (time < step.until).then_some((row, step))
    }

    fn step_bar(&self, trace: &Trace, timed: &TimedStep) -> StepBar {
        let TimedStep { step, until, time, .. } = *timed;
        let device = step.device.map(|device| device.0 as usize);
        let left_out = |intervals: &[Vec<(Ns, Ns)>], end: Ns| {
            let of_device = device.and_then(|device| intervals.get(device));
            of_device.map_or(Ns::ZERO, |intervals| time_between(intervals, step.start, end))
        };
        let gaps = self.gaps(trace);
        StepBar {
            start: step.start,
            until,
            time,
            to_last_op: step.end.since(step.start).since(left_out(gaps.of_no_step(), step.end)),
            unseen: left_out(gaps.of_before(), until),
            stage: step.info.stage,
            device: step.device,
        }
    }

    /// Where the timeline opens, if not at all ops: beside the work that the trace lacks, if that takes most of the time of its only device.
    /// `None` also for a large trace, in which it takes long to find and would delay the first bars.
    pub fn opens_at(&self, trace: &Trace) -> Option<Window> {
        let [device] = self.gaps_of_small(trace)? else { return None };
        let (from, to) = *device.iter().max_by_key(|(from, to)| to.since(*from))?;
        let Window { start, end } = self.gpu;
        let (before, after) = (Window { start, end: from }, Window { start: to, end });
        let is_most = to.since(from).0 * 2 > end.since(start).0;
        let is_after = after.end.since(after.start) >= before.end.since(before.start);
        is_most.then_some(if is_after { after } else { before })
    }

    fn gaps_of_small(&self, trace: &Trace) -> Option<&[Vec<(Ns, Ns)>]> {
        (trace.gpu_ops.len() <= MAX_OPS_TO_FIND_A_START).then(|| self.gaps(trace).of_before())
    }

    /// How long a bar lasts: a step without the time in which the trace lacks its work.
    pub fn duration_of(&self, trace: &Trace, place: Place) -> Ns {
        let is_step = matches!(self.lanes.get(place.lane).map(|lane| lane.kind), Some(LaneKind::Steps(_)));
        let step = if is_step { self.steps(trace).get(place.row) } else { None };
        step.map_or(place.end.since(place.start), |step| step.time)
    }

    /// Sorted by start.
    fn steps(&self, trace: &Trace) -> &[StepBar] {
        self.steps.get_or_init(|| {
            let mut steps = steps_on_devices(trace);
            // As in the list of steps: if others launched work, a step without work was cut short by the end of the profile.
            if steps.iter().any(|step| step.basis != Basis::Host) {
                steps.retain(|step| step.basis != Basis::Host);
            }
            let timed = timed(steps.iter(), self.gaps(trace).of_no_step()).into_iter();
            let mut bars: Vec<StepBar> = timed.map(|timed| self.step_bar(trace, &timed)).collect();
            ordering::sort_by_key(&mut bars, |bar| bar.start);
            bars
        })
    }
}

/// For each device its steps, layers, idle time, streams and graphs.
fn device_lanes(trace: &Trace, layers: &[LayerBar]) -> Vec<Lane> {
    let mut streams: Vec<(DeviceId, i64)> = trace.gpu_ops.streams().collect();
    streams.sort_unstable();
    streams.dedup();
    let (mut kinds, has_steps) = (Vec::new(), may_have_steps(trace));
    let with_graphs: BTreeSet<DeviceId> = trace.graph_replays.iter().map(|replay| replay.device).collect();
    let with_layers: BTreeSet<DeviceId> = layers.iter().map(|bar| bar.device).collect();
    let series = trace.metrics.iter().enumerate();
    let counters: BTreeSet<_> = series.filter_map(|(index, series)| Some((series.device?, index))).collect();
    for device in (0..).map(DeviceId).take(trace.devices.len()) {
        let has_graphs = with_graphs.contains(&device);
        let rest = streams.partition_point(|stream| stream.0 < device);
        let own = streams.iter().skip(rest).take_while(|stream| stream.0 == device);
        let own: Vec<LaneKind> = own.map(|stream| LaneKind::Stream(device, stream.1)).collect();
        if own.is_empty() && !has_graphs {
            continue;
        }
        kinds.extend(has_steps.then_some(LaneKind::Steps(Some(device))));
        kinds.extend(with_layers.contains(&device).then_some(LaneKind::Layers(device)));
        kinds.push(LaneKind::Idle(device));
        kinds.extend(own);
        kinds.extend(has_graphs.then_some(LaneKind::Graphs(device)));
        let own = counters.range((device, 0)..=(device, usize::MAX));
        kinds.extend(own.map(|(_, index)| LaneKind::Counter(device, *index)));
    }
    let depth = |kind: LaneKind| if matches!(kind, LaneKind::Layers(_)) { 2 } else { 1 };
    kinds.into_iter().map(|kind| Lane { kind, depth: depth(kind) }).collect()
}

/// The threads with lanes, by the number of their spans, and the number of those left out. Threads with code alone come last, those with
/// the deepest code first.
fn threads(calls: &Nesting, ranges: &Nesting, code: &CodeBars) -> (Vec<ThreadId>, usize) {
    let counts = calls.threads.iter().zip(&ranges.threads).map(|(calls, ranges)| calls.count + ranges.count);
    let ranks = counts.zip((0..).map(ThreadId)).map(|(count, thread)| ((count, code.depth(thread)), thread));
    let mut threads: Vec<((usize, usize), ThreadId)> = ranks.filter(|(rank, _)| *rank != (0, 0)).collect();
    ordering::sort_by_key(&mut threads, |(rank, _)| std::cmp::Reverse(if rank.0 > 0 { (rank.0, 0) } else { *rank }));
    let left_out = threads.len().saturating_sub(MAX_THREADS);
    threads.truncate(MAX_THREADS);
    (threads.into_iter().map(|(_, thread)| thread).collect(), left_out)
}

/// How spans are nested on their threads.
struct Nesting {
    /// By span.
    depths: Vec<u8>,
    threads: Vec<ThreadNesting>,
    last_end: Ns,
}

#[derive(Default, Clone)]
struct ThreadNesting {
    /// The number of rows.
    rows: usize,
    /// The number of spans.
    count: usize,
    /// The ends of the spans that are open.
    open: Vec<Ns>,
}

impl Nesting {
    /// One pass.
    fn of(spans: &Spans, threads: usize) -> Self {
        let (mut threads, mut last_end) = (vec![ThreadNesting::default(); threads], Ns(i64::MIN));
        let depths = spans.iter().map(|span| {
            last_end = last_end.max(span.end());
            let Some(thread) = threads.get_mut(span.thread.0 as usize) else { return 0 };
            // Deeper ones share the last row.
            let depth = nest(&mut thread.open, span.start, span.end()).min(MAX_DEPTH - 1);
            thread.rows = thread.rows.max(depth + 1);
            thread.count += 1;
            u8::try_from(depth).unwrap_or(u8::MAX)
        });
        let depths = depths.collect();
        Self { depths, threads, last_end }
    }

    fn rows_of(&self, thread: ThreadId) -> usize {
        self.threads.get(thread.0 as usize).map_or(0, |thread| thread.rows)
    }
}

/// The number of open intervals around the next one, which becomes open. `open` has their ends.
fn nest(open: &mut Vec<Ns>, start: Ns, end: Ns) -> usize {
    while open.pop_if(|end| *end <= start).is_some() {}
    open.push(end);
    open.len() - 1
}

/// The most rows of a lane of calls or ranges.
const MAX_DEPTH: usize = 12;

#[cfg(test)]
mod tests;
