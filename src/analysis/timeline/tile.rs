//! The bars of one tile.

use super::bars::{Bar, Item, Merger, TileRange};
use super::{GapCause, Lane, LaneKind, Layer, Style, Timeline, counters};
use crate::ordering;
use crate::rules::signals::{CallKind, Signals};
use crate::trace::{CodeKind, DeviceId, NameId, Ns, Spans, ThreadId, Trace};

/// The bars of all lanes of a layer in a range of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tile {
    /// The time range.
    pub range: TileRange,
    /// By lane: its bars, sorted by start. Empty for lanes of other layers.
    pub bars: Vec<Vec<Bar<Style>>>,
}

impl Timeline {
    /// The bars of the lanes of a layer.
    pub fn tile(&self, trace: &Trace, layer: Layer, range: TileRange) -> Tile {
        let mut builder = TileBuilder::new(&self.lanes, range);
        match layer {
            Layer::Device => {
                self.add_ops(trace, &mut builder);
                self.add_counters(trace, &mut builder);
            }
            Layer::Host => self.add_spans(trace, &mut builder),
            Layer::Derived => self.add_derived(trace, &mut builder),
            Layer::Code => self.add_code(trace, &mut builder),
        }
        builder.finish()
    }

    fn add_ops(&self, trace: &Trace, builder: &mut TileBuilder) {
        let (start, end) = (builder.range.start(), builder.range.end());
        let streams = trace.gpu_ops.streams().map(|(device, stream)| self.lane(LaneKind::Stream(device, stream)));
        let lanes: Vec<Option<usize>> = streams.collect();
        for row in trace.gpu_ops.first_reaching(start)..trace.gpu_ops.count_starting_before(end) {
            let Some(op) = trace.gpu_ops.get(row) else { break };
            let lane = trace.gpu_ops.stream_index(row).and_then(|index| lanes.get(index).copied().flatten());
            let category = self.category_of_name.get(op.name.0 as usize).copied().unwrap_or(0);
            builder.add(
                lane,
                Item { start: op.start, end: op.end(), depth: 0, style: Style::Category(category), row, name: op.name },
            );
        }
        for (row, replay) in trace.graph_replays.iter().enumerate() {
            let (end, name) = (replay.end(), NameId(0));
            let lane = self.lane(LaneKind::Graphs(replay.device));
            builder.add(lane, Item { start: replay.start, end, depth: 0, style: Style::Graph, row, name });
        }
    }

    fn add_counters(&self, trace: &Trace, builder: &mut TileBuilder) {
        for ((index, series), full_height) in trace.metrics.iter().enumerate().zip(&self.full_heights) {
            let lane = series.device.and_then(|device| self.lane(LaneKind::Counter(device, index)));
            if let Some(lane) = lane.and_then(|lane| builder.lanes.get_mut(lane)) {
                counters::add_bars(series, *full_height, builder.range, &mut lane.bars);
            }
        }
    }

    fn add_spans(&self, trace: &Trace, builder: &mut TileBuilder) {
        let signals = Signals::embedded();
        let styles: Vec<Style> = trace.calls.names.iter().map(|name| style_of_call(signals.call(name))).collect();
        let of_call = |name: usize| styles.get(name).copied().unwrap_or(Style::Call);
        let lanes = |kind| self.lanes_of_threads(trace, kind);
        add_each(&trace.ranges, &self.range_depths, &lanes(LaneKind::Ranges), &|_| Style::Range, builder);
        add_each(&trace.calls, &self.call_depths, &lanes(LaneKind::Calls), &of_call, builder);
    }

    fn add_derived(&self, trace: &Trace, builder: &mut TileBuilder) {
        let (start, end) = (builder.range.start(), builder.range.end());
        let name = NameId(0);
        // Steps are few, so all before the end are visited.
        for (row, step) in self.steps(trace).iter().enumerate().take_while(|(_, step)| step.start < end) {
            let lane = self.lane(LaneKind::Steps(step.device));
            let item =
                Item { start: step.start, end: step.until, depth: 0, style: Style::Stage(step.stage), row, name };
            builder.add(lane, item);
        }
        let layers = self.layers.iter().enumerate().take_while(|(_, layer)| layer.start < end);
        for (row, layer) in layers {
            let lane = self.lane(LaneKind::Layers(layer.device));
            let (start, end, depth, style) = (layer.start, layer.end, layer.depth, layer.style);
            builder.add(lane, Item { start, end, depth, style, row, name });
        }
        for device in (0..).map(DeviceId).take(trace.devices.len()) {
            let (lane, gaps) = (self.lane(LaneKind::Idle(device)), self.gaps(trace).of_device(device));
            let first = gaps.partition_point(|gap| gap.end <= start);
            for (row, gap) in gaps.iter().enumerate().skip(first).take_while(|(_, gap)| gap.start < end) {
                let style = Style::Idle(GapCause(gap.cause));
                builder.add(lane, Item { start: gap.start, end: gap.end, depth: 0, style, row, name });
            }
        }
    }

    fn add_code(&self, trace: &Trace, builder: &mut TileBuilder) {
        let lanes = self.lanes_of_threads(trace, LaneKind::Code);
        self.code.each(trace, builder.range, &mut |bar| {
            let lane = lanes.get(bar.time.thread.0 as usize).copied().flatten();
            let style = if bar.kind == CodeKind::Function { Style::Function } else { Style::CpuOp };
            let (start, end) = (bar.time.start, bar.time.end);
            builder.add(lane, Item { start, end, depth: bar.depth, style, row: bar.row, name: bar.name });
        });
    }

    /// The lanes of a kind, by thread.
    fn lanes_of_threads(&self, trace: &Trace, kind: fn(ThreadId) -> LaneKind) -> Vec<Option<usize>> {
        (0..).map(ThreadId).take(trace.threads.len()).map(|thread| self.lane(kind(thread))).collect()
    }

    pub(super) fn lane(&self, kind: LaneKind) -> Option<usize> {
        self.lanes.iter().position(|lane| lane.kind == kind)
    }
}

fn add_each(
    spans: &Spans,
    depths: &[u8],
    lanes: &[Option<usize>],
    style: &dyn Fn(usize) -> Style,
    builder: &mut TileBuilder,
) {
    for row in spans.first_reaching(builder.range.start())..spans.count_starting_before(builder.range.end()) {
        let (Some(span), Some(depth)) = (spans.get(row), depths.get(row)) else { break };
        let lane = lanes.get(span.thread.0 as usize).copied().flatten();
        let style = style(span.name.0 as usize);
        builder.add(lane, Item { start: span.start, end: span.end(), depth: *depth, style, row, name: span.name });
    }
}

fn style_of_call(kind: CallKind) -> Style {
    match kind {
        CallKind::Launch | CallKind::GraphLaunch | CallKind::CopyAsync | CallKind::Set => Style::Launch,
        CallKind::Synchronize | CallKind::CopyBlocking => Style::Wait,
        CallKind::DoesNotBlock
        | CallKind::Allocation
        | CallKind::BeginCapture
        | CallKind::EndCapture
        | CallKind::Other => Style::Call,
    }
}

/// Sorts items into lanes and nesting depths.
struct TileBuilder {
    range: TileRange,
    lanes: Vec<LaneBuilder>,
}

#[derive(Default)]
struct LaneBuilder {
    /// By nesting depth.
    mergers: Vec<Merger<Style>>,
    bars: Vec<Bar<Style>>,
}

impl TileBuilder {
    fn new(lanes: &[Lane], range: TileRange) -> Self {
        let lane = |lane: &Lane| LaneBuilder {
            mergers: (0..lane.depth).map(|_| Merger::default()).collect(),
            bars: Vec::new(),
        };
        Self { range, lanes: lanes.iter().map(lane).collect() }
    }

    /// Adds an item if it overlaps the tile. An item without a length counts where it starts.
    fn add(&mut self, lane: Option<usize>, item: Item<Style>) {
        let is_inside = item.start < self.range.end() && item.end.max(item.start + Ns(1)) > self.range.start();
        let lane = lane.filter(|_| is_inside).and_then(|lane| self.lanes.get_mut(lane));
        let Some(LaneBuilder { mergers, bars }) = lane else { return };
        if let Some(merger) = mergers.get_mut(usize::from(item.depth)) {
            merger.add(self.range, &item, bars);
        }
    }

    fn finish(self) -> Tile {
        let range = self.range;
        let bars = self.lanes.into_iter().map(|LaneBuilder { mut mergers, mut bars }| {
            mergers.iter_mut().for_each(|merger| merger.close(range, &mut bars));
            ordering::sort_by_key(&mut bars, |bar| (bar.start, bar.depth));
            bars
        });
        Tile { range, bars: bars.collect() }
    }
}
