//! Panel: the longest single events over time, with one lane per stream or thread.

use super::super::layout::{self, AXIS, EDGE, NARROW, SMALL, TOP, UNIT, baseline, short_text};
use super::super::{first_few, glyphs};
use super::plot::{Mark, Plot, Scale, Shape};
use super::{COMMUNICATION, FAINT, PanelResult, View, exact, no_data, short, time};
use crate::analysis::CPU;
use crate::analysis::dashboard::{Categories, is_communication};
use crate::analysis::section::Record;
use crate::ordering;
use crate::report::palette;

const LANE: i32 = 22 * UNIT;
const BAR: i32 = 14 * UNIT;

pub(super) fn draw(view: &View) -> PanelResult {
    let section = view.section("timeline_events")?;
    let is_shown = |row: &&Record| view.options.communication || !is_communication_event(row);
    let events: Vec<&Record> = section.rows.iter().filter(is_shown).collect();
    if events.is_empty() {
        return Err(no_data("All of the longest events are communication, which is switched off."));
    }
    let left_out = section.rows.len() - events.len();
    let lanes = lanes(&events);
    let (plot, names) = plot(&events, &lanes, view.options.width);
    let categories = Categories::of(view.run);
    let mut nodes = plot.draw(marks(view, &events, &lanes, &categories, &plot));
    for (index, lane) in (0..).zip(&lanes) {
        let shown = glyphs::shorten(lane, SMALL, names);
        let y = baseline(TOP + LANE * index + LANE / 2, SMALL);
        nodes.push(short_text(lane, &shown, "delta-name", (0, y), SMALL, "start"));
    }
    let switched_off =
        if left_out > 0 { format!(" {left_out} communication events are switched off.") } else { String::new() };
    let note = format!(
        "The longest kernels, copies, blocking calls and idle gaps. Time without a bar is not necessarily idle: \
         shorter events are not shown. Hatched: idle time, or a call that blocks the host.{switched_off}"
    );
    let parts: Vec<String> = events
        .iter()
        .filter_map(|row| Some(format!("{} {}", short(&name(view, row)), time(row, "duration_ms")?.text)))
        .collect();
    let summary = format!("The {} longest events in {} lanes: {}.", events.len(), lanes.len(), first_few(&parts, "; "));
    Ok((note, plot.chart(summary, nodes)))
}

fn is_communication_event(row: &Record) -> bool {
    row.text("event_class") == "nccl" || is_communication(row.text("event_name"))
}

fn name(view: &View, row: &Record) -> String {
    view.short_names.short(row.text("event_name"))
}

/// The lanes in display order: GPUs and their streams, copies, host threads.
fn lanes<'a>(events: &[&'a Record]) -> Vec<&'a str> {
    let mut lanes: Vec<&str> = events.iter().map(|row| row.text("lane")).collect();
    let kind = |lane: &str| ["GPU", "Copy", "CPU"].iter().position(|head| lane.starts_with(head)).unwrap_or(3);
    ordering::sort_by(&mut lanes, |a, b| (kind(a), a.len(), a).cmp(&(kind(b), b.len(), b)));
    lanes.dedup();
    lanes
}

/// The plot, and the width of the names of the lanes.
fn plot(events: &[&Record], lanes: &[&str], width: u32) -> (Plot, i32) {
    let width = layout::width(width);
    let max_width = if width < NARROW { width * 30 / 100 } else { width * 24 / 100 };
    let names = lanes.iter().map(|lane| glyphs::width(lane, SMALL)).max().unwrap_or(0).min(max_width);
    let last = events.iter().filter_map(|row| time(row, "end_ms")).fold(0.0_f64, |last, time| last.max(time.ns));
    let height = LANE.saturating_mul(i32::try_from(lanes.len()).unwrap_or(0));
    let left = names + EDGE;
    let x = Scale::time(last, ((width - left - 28 * UNIT) / (76 * UNIT)).clamp(2, 12));
    let x_name = format!("Time from the earliest of these events ({})", x.unit());
    let plot = Plot {
        width,
        height: TOP + height + AXIS,
        left,
        right: 28 * UNIT,
        top: TOP,
        x,
        y: Scale::Rows(height),
        x_name,
        y_name: String::new(),
    };
    (plot, names)
}

fn marks(view: &View, events: &[&Record], lanes: &[&str], categories: &Categories, plot: &Plot) -> Vec<Mark> {
    let mut marks = Vec::new();
    for row in events {
        let (Some(start), Some(end)) = (time(row, "start_ms"), time(row, "end_ms")) else { continue };
        let lane = lanes.iter().position(|lane| *lane == row.text("lane")).unwrap_or(0);
        let top = f64::from(i32::try_from(lane).unwrap_or(0) * LANE + (LANE - BAR) / 2);
        let points = vec![(start.ns, top), (end.ns.max(start.ns), top)];
        let (class, is_hatched, is_hidden) = style_of(view, row, categories);
        let faint = if is_hidden { FAINT } else { "" };
        let title = format!(
            "{}: {} ns from {} to {}, {}",
            row.text("event_name"),
            exact(row, "duration_ns"),
            start.exact,
            end.exact,
            row.text("lane")
        );
        marks.push(Mark::new(Shape::Bar(BAR), points.clone(), &format!("seg {class}{faint}"), &title));
        if is_hatched {
            marks.push(Mark::new(Shape::Hatch(BAR), points.clone(), &format!("hatch {class}{faint}"), ""));
        }
        if !is_hidden {
            marks.extend(label(view, row, &class, &points, plot));
        }
    }
    marks
}

/// The CSS class of an event, whether it is idle or blocked time, which is hatched, and whether its category is hidden. A call of the host
/// has no category.
fn style_of(view: &View, row: &Record, categories: &Categories) -> (String, bool, bool) {
    let of_kind = |kind: &str, is_hatched: bool| (palette::class(kind), is_hatched, view.is_kind_hidden(kind));
    match row.text("event_class") {
        "nccl" => of_kind(COMMUNICATION, false),
        "memcpy" => of_kind("memory", false),
        "gpu_idle" => of_kind(CPU, true),
        "sync_api" | "blocking_memcpy" => (palette::class(CPU), true, false),
        _ => {
            let category = categories.get(row.text("event_name"));
            (palette::class(category), false, view.is_hidden(category))
        }
    }
}

/// The name of an event, if its bar is wide enough.
fn label(view: &View, row: &Record, class: &str, points: &[(f64, f64)], plot: &Plot) -> Option<Mark> {
    let (from, to) = (points.first()?, points.last()?);
    let x = |value: f64| plot.x.position(value, (0, plot.inner_width()));
    let (left, right) = (x(from.0), x(to.0));
    let text = name(view, row);
    if glyphs::width(&text, SMALL) > right - left - 8 * UNIT {
        return None;
    }
    let shape = Shape::Text { offset: ((right - left) / 2, baseline(BAR / 2, SMALL)), size: SMALL, anchor: "middle" };
    Some(Mark::new(shape, vec![*from], &format!("seg-label {class}"), "").with_text(text))
}
