//! The timeline: its lanes as an object, its tiles as typed arrays. Times are nanoseconds since the first GPU op, which a number of
//! JavaScript has exactly: no trace lasts 104 days.

use super::super::view::{PagedTable, TableView};
use super::super::{Imported, JsResult, to_js, to_js_error};
use crate::analysis::structure::stages::Stage;
use crate::analysis::timeline::{Example, FirstStep, Layer, Link, Neighbours, Place, TableRow, Tile, Timeline, Toward};
use crate::digits::grouped;
use crate::json;
use crate::report::timeline::{LaneText, StyleIndex, StyleText, Tick, lanes, link_title, marks, notes, styles, ticks};
use crate::report::{TableRequest, section_table};
use crate::session::{Choices, OpenTimeline, window};
use crate::trace::{Ns, Trace, Window};
use crate::words::stages;
use js_sys::{Int32Array, Object, Reflect, Uint32Array};
use serde::Serialize;
use std::collections::BTreeMap;
use wasm_bindgen::prelude::*;

/// What the page needs to draw a timeline, besides its tiles.
#[derive(Debug, Serialize)]
struct TimelineView {
    lanes: Vec<LaneText>,
    styles: Vec<StyleText>,
    /// What is left out.
    notes: Vec<String>,
    /// First and last event.
    from: f64,
    to: f64,
    /// The last GPU op.
    gpu_to: f64,
    /// What is in view first, if not all GPU ops.
    opens_at: Option<[f64; 2]>,
    /// The chosen window, if there is one.
    window: Option<[f64; 2]>,
}

/// Two steps of a stage.
#[derive(Debug, Serialize)]
struct StepPairView {
    /// What to call them: `median step of decode`.
    titles: [String; 2],
    median: PlaceView,
    slowest: PlaceView,
}

/// The first step of a stage.
#[derive(Debug, Serialize)]
struct FirstStepView {
    /// The same word in all traces: `decode`.
    stage: &'static str,
    /// What to call it: `first decode step`.
    title: String,
    place: PlaceView,
}

/// What a search found.
#[derive(Debug, Serialize)]
struct SearchView {
    /// How many ops, and the number of the one that it leads to.
    text: String,
    place: Option<PlaceView>,
}

/// A bar and its neighbours.
#[derive(Debug, Serialize)]
struct MomentView {
    place: PlaceView,
    name: String,
    is_op: bool,
    /// The text for screen readers.
    spoken: String,
    table: TableView,
    before: Option<ButtonView>,
    after: Option<ButtonView>,
    /// The bar at the other end of its launch; of a gap, the work after it.
    launch: Option<PlaceView>,
    /// Other bars to go to, in the order of time.
    links: Vec<ButtonView>,
    same_before: Option<ButtonView>,
    same_after: Option<ButtonView>,
    /// The ids of the findings about such bars, whether or not the trace has them.
    findings: Vec<&'static str>,
    /// The row of a table that has the numbers of such bars.
    numbers: Option<RowView>,
}

/// A row of a table of the report.
#[derive(Debug, Serialize)]
struct RowView {
    table: &'static str,
    title: &'static str,
    /// What a request for the table looks for.
    find: Vec<CellValueView>,
}

#[derive(Debug, Serialize)]
struct CellValueView {
    key: &'static str,
    value: String,
}

impl RowView {
    fn of(TableRow { table, title, cells }: TableRow) -> Self {
        Self { table, title, find: cells.into_iter().map(|(key, value)| CellValueView { key, value }).collect() }
    }
}

/// A bar to go to.
#[derive(Debug, Serialize)]
struct ButtonView {
    /// Its name and duration, after what it is to the selected bar if its place in the panel does not say so.
    text: String,
    lane: usize,
    row: usize,
    from: f64,
    to: f64,
}

#[derive(Debug, Serialize)]
struct PlaceView {
    lane: usize,
    row: usize,
    from: f64,
    to: f64,
}

#[wasm_bindgen]
impl Imported {
    /// Opens the timeline under these choices. Null if the trace has no GPU ops.
    ///
    /// # Errors
    /// Those of [`Imported::analyze`].
    pub fn timeline(&self, choices: &str) -> JsResult<JsValue> {
        let Some(trace) = self.trace() else { return Ok(JsValue::NULL) };
        let choices: Choices = json::read(choices).map_err(to_js_error)?;
        let opened = self.timeline_cache.open(trace, &choices)?;
        let Some(OpenTimeline { timeline, .. }) = &*opened else { return Ok(JsValue::NULL) };
        let since_zero = |time: Ns| time.since(timeline.zero).0 as f64;
        // An invalid window is an error of the analysis.
        let picked = window(trace, choices.window.as_deref().unwrap_or_default()).ok().flatten();
        to_js(&TimelineView {
            lanes: lanes(trace, timeline),
            styles: styles(timeline),
            notes: notes(timeline),
            from: since_zero(timeline.extent.start),
            to: since_zero(timeline.extent.end),
            gpu_to: since_zero(timeline.gpu.end),
            opens_at: timeline.opens_at(trace).map(|window| [since_zero(window.start), since_zero(window.end)]),
            window: picked.map(|window| [since_zero(window.start), since_zero(window.end)]),
        })
    }

    /// The bars of a layer in one tile of the timeline that was opened last:
    /// `{bars: Int32Array, ends: Uint32Array, labels: string[], ticks: {unit, text}[]}`. A bar is eight numbers: start, end, depth,
    /// style, row, count, filled, label. `ends` has for each lane the number of bars up to its last one. A label is an index
    /// in `labels`, which are distinct, or -1. Null if there is no such tile.
    pub fn timeline_tile(&self, layer: &str, level: u32, index: f64) -> JsResult<JsValue> {
        let Some(trace) = self.trace() else { return Ok(JsValue::NULL) };
        let opened = self.timeline_cache.last();
        let Some(open) = &*opened else { return Ok(JsValue::NULL) };
        let Some(layer) = Layer::ALL.into_iter().find(|known| known.word() == layer) else { return Ok(JsValue::NULL) };
        let tile = open.tile(trace, layer, level, index as i64);
        tile.map_or(Ok(JsValue::NULL), |tile| tile_view(trace, open, &tile))
    }

    /// The first launch of a kernel from a time on, or else before it, in the timeline that was opened last. Null if there is none.
    pub fn timeline_kernel(&self, name: &str, from: f64) -> JsResult<JsValue> {
        let Some(trace) = self.trace() else { return Ok(JsValue::NULL) };
        let opened = self.timeline_cache.last();
        let Some(OpenTimeline { timeline, .. }) = &*opened else { return Ok(JsValue::NULL) };
        let place = timeline.launch_of(trace, name, timeline.zero + Ns(from as i64));
        place.map_or(Ok(JsValue::NULL), |place| to_js(&place_view(timeline, place)))
    }

    /// The bar that the first of the times of a row of a table belongs to, in the timeline that was opened last. Null if there is none.
    pub fn timeline_item(&self, table: &str, times: &[f64]) -> JsResult<JsValue> {
        let Some(trace) = self.trace() else { return Ok(JsValue::NULL) };
        let opened = self.timeline_cache.last();
        let Some(OpenTimeline { timeline, .. }) = &*opened else { return Ok(JsValue::NULL) };
        let times: Vec<Ns> = times.iter().map(|time| timeline.zero + Ns(*time as i64)).collect();
        let place = timeline.item_of_row(trace, table, &times);
        place.map_or(Ok(JsValue::NULL), |place| to_js(&place_view(timeline, place)))
    }

    /// One case of a clause or finding that starts between two times, in the timeline that was opened last; see
    /// [`Example`]. Null if there is none.
    pub fn timeline_example(&self, example: &str, from: f64, to: f64) -> JsResult<JsValue> {
        let Some(trace) = self.trace() else { return Ok(JsValue::NULL) };
        let opened = self.timeline_cache.last();
        let Some(OpenTimeline { timeline, .. }) = &*opened else { return Ok(JsValue::NULL) };
        let at = |time: f64| timeline.zero + Ns(time as i64);
        let within = Window { start: at(from), end: at(to) };
        let place = Example::parse(example).and_then(|example| timeline.example(trace, &example, within));
        place.map_or(Ok(JsValue::NULL), |place| to_js(&place_view(timeline, place)))
    }

    /// The median and the slowest step of the stage that takes the most time, in the timeline that was opened last:
    /// `{titles, median, slowest}`. Null if no stage has three steps that differ.
    pub fn timeline_step_pair(&self) -> JsResult<JsValue> {
        let Some(trace) = self.trace() else { return Ok(JsValue::NULL) };
        let opened = self.timeline_cache.last();
        let Some(OpenTimeline { timeline, .. }) = &*opened else { return Ok(JsValue::NULL) };
        let Some(pair) = timeline.step_pair(trace) else { return Ok(JsValue::NULL) };
        let [median, slowest] = [pair.median, pair.slowest].map(|place| place_view(timeline, place));
        let stage = if pair.stage == Stage::All { String::new() } else { format!(" of {}", pair.stage.label()) };
        to_js(&StepPairView {
            titles: ["median", "slowest"].map(|which| format!("{which} step{stage}")),
            median,
            slowest,
        })
    }

    /// The first step of each stage, that of the stage with the most time first, in the timeline that was opened last:
    /// `{stage, title, place}[]`.
    pub fn timeline_first_steps(&self) -> JsResult<JsValue> {
        let Some(trace) = self.trace() else { return Ok(JsValue::NULL) };
        let opened = self.timeline_cache.last();
        let Some(OpenTimeline { timeline, .. }) = &*opened else { return Ok(JsValue::NULL) };
        let view = |FirstStep { stage, place }: FirstStep| FirstStepView {
            stage: stage.label(),
            title: format!("first {}", stages::step(stage.label())),
            place: place_view(timeline, place),
        };
        to_js(&timeline.first_steps(trace).into_iter().map(view).collect::<Vec<_>>())
    }

    /// The ops between two times whose name or category contains each word of a text, in the timeline that was opened last, and the one
    /// `toward` (`next` or `previous`, or none) the op in this row: `{text, place}`. Null without a timeline.
    pub fn timeline_search(&self, text: &str, from: f64, to: f64, row: Option<u32>, toward: &str) -> JsResult<JsValue> {
        let Some(trace) = self.trace() else { return Ok(JsValue::NULL) };
        let opened = self.timeline_cache.last();
        let Some(OpenTimeline { timeline, .. }) = &*opened else { return Ok(JsValue::NULL) };
        let hits = timeline.search(trace, text, part_of(timeline, from, to));
        let toward = match toward {
            "next" => Some(Toward::Next),
            "previous" => Some(Toward::Previous),
            _ => None,
        };
        let hit = toward.and_then(|toward| timeline.hit(trace, &hits, row.map(|row| row as usize), toward));
        to_js(&SearchView {
            text: hits_in_words(hits.count(trace), hit.map(|hit| hit.number)),
            place: hit.map(|hit| place_view(timeline, hit.place)),
        })
    }

    /// Where such ops are between two times: for each its lane, its start and its end. Those of a lane that are nearer than `least` are one.
    pub fn timeline_hits(&self, text: &str, from: f64, to: f64, least: f64) -> Vec<f64> {
        let Some(trace) = self.trace() else { return Vec::new() };
        let opened = self.timeline_cache.last();
        let Some(OpenTimeline { timeline, .. }) = &*opened else { return Vec::new() };
        let since_zero = |time: Ns| time.since(timeline.zero).0 as f64;
        let hits = timeline.search(trace, text, timeline.gpu);
        let spans = timeline.hit_spans(trace, &hits, part_of(timeline, from, to), Ns(least as i64)).into_iter();
        spans.flat_map(|span| [span.lane as f64, since_zero(span.start), since_zero(span.end)]).collect()
    }

    /// The texts of marks at these times, in the order of time: `{at, name, text, exact, distance, spoken}[]`.
    pub fn timeline_marks(&self, times: &[f64]) -> JsResult<JsValue> {
        to_js(&marks(times.iter().map(|time| *time as i64).collect()))
    }

    /// One bar of the timeline that was opened last. Null if there is none in this row of the lane.
    pub fn timeline_moment(&self, lane: usize, row: usize) -> JsResult<JsValue> {
        let Some(trace) = self.trace() else { return Ok(JsValue::NULL) };
        let opened = self.timeline_cache.last();
        let Some(open) = &*opened else { return Ok(JsValue::NULL) };
        let Some(moment) = open.moment(trace, lane, row) else { return Ok(JsValue::NULL) };
        let view = |place: Place| place_view(&open.timeline, place);
        let button = |place: Place| button_view(trace, open, "", place);
        let link = |Link { kind, to }: &Link| button_view(trace, open, link_title(*kind), *to);
        let request = TableRequest::default();
        let Neighbours { before, after } = moment.neighbours;
        let table = PagedTable::new(section_table("timeline_moment", &moment.section), &request, true).view(&request);
        let lane_title = lanes(trace, &open.timeline).into_iter().nth(lane).map(|lane| lane.title).unwrap_or_default();
        to_js(&MomentView {
            spoken: format!(
                "{}, {}, {lane_title}",
                moment.name,
                crate::report::format::duration(moment.place.end.since(moment.place.start).0)
            ),
            place: view(moment.place),
            name: moment.name,
            is_op: moment.is_op,
            table,
            before: before.map(button),
            after: after.map(button),
            launch: moment.launch.map(view),
            links: moment.links.iter().map(link).collect(),
            same_before: moment.same_name.before.map(button),
            same_after: moment.same_name.after.map(button),
            findings: moment.findings,
            numbers: moment.row.map(RowView::of),
        })
    }
}

/// The time between two numbers of the page.
fn part_of(timeline: &Timeline, from: f64, to: f64) -> Window {
    Window { start: timeline.zero + Ns(from as i64), end: timeline.zero + Ns(to as i64) }
}

/// `3 of 73`, or without the number of one: `73 ops`.
fn hits_in_words(count: usize, number: Option<usize>) -> String {
    let all = grouped(count as u64);
    match (number, count) {
        (Some(number), _) => format!("{} of {all}", grouped(number as u64)),
        (None, 0) => "no GPU op".to_owned(),
        (None, 1) => "1 GPU op".to_owned(),
        (None, _) => format!("{all} GPU ops"),
    }
}

fn place_view(timeline: &Timeline, place: Place) -> PlaceView {
    PlaceView {
        lane: place.lane,
        row: place.row,
        from: place.start.since(timeline.zero).0 as f64,
        to: place.end.since(timeline.zero).0 as f64,
    }
}

fn button_view(trace: &Trace, open: &OpenTimeline, title: &str, place: Place) -> ButtonView {
    let PlaceView { lane, row, from, to } = place_view(&open.timeline, place);
    let bar = open.texts.button(trace, &open.timeline, place);
    let text = if title.is_empty() { bar } else { format!("{title}: {bar}") };
    ButtonView { text, lane, row, from, to }
}

fn tile_view(trace: &Trace, open: &OpenTimeline, tile: &Tile) -> JsResult<JsValue> {
    let (mut numbers, mut ends): (Vec<i32>, Vec<u32>) = Default::default();
    // Most bars have the name of another one.
    let mut labels: BTreeMap<String, i32> = BTreeMap::new();
    let style_index = StyleIndex::of(&open.timeline);
    let mut bars = 0;
    for (lane, lane_bars) in open.timeline.lanes.iter().zip(&tile.bars) {
        for bar in lane_bars {
            let text = open.texts.label(trace, &open.timeline, lane, bar);
            let next = whole(labels.len());
            let label = if text.is_empty() { -1 } else { *labels.entry(text).or_insert(next) };
            let (style, row) = (style_index.get(bar.style), bar.row);
            let [depth, filled] = [bar.depth, bar.filled].map(i32::from);
            let count = i32::try_from(bar.count).unwrap_or(i32::MAX);
            numbers.extend([bar.start, bar.end, depth, whole(style), whole(row), count, filled, label]);
        }
        bars += lane_bars.len() as u32;
        ends.push(bars);
    }
    let object = Object::new();
    let set = |name: &str, value: &JsValue| Reflect::set(&object, &JsValue::from_str(name), value).map(|_| ());
    set("bars", &Int32Array::from(numbers.as_slice()))?;
    set("ends", &Uint32Array::from(ends.as_slice()))?;
    let mut texts = vec![""; labels.len()];
    for (text, index) in &labels {
        texts.get_mut(*index as usize).into_iter().for_each(|place| *place = text);
    }
    set("labels", &to_js(&texts)?)?;
    let ticks: Vec<Tick> = ticks(&open.timeline, tile.range);
    set("ticks", &to_js(&ticks)?)?;
    Ok(object.into())
}

fn whole(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
