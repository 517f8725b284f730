//! Panel: NVLink counters over time, shaded while collectives run.
//!
//! A line is thinned to the lowest and highest sample of each column, at most 3,000 points in all.

use super::super::layout::{self, SMALL, UNIT, line as stroke, short_text};
use super::super::{Node, first_few, glyphs};
use super::plot::{Mark, Plot, Scale, Shape};
use super::{COMMUNICATION, PanelResult, View, no_data, short};
use crate::analysis::dashboard::{CounterLines, HoverInterval, Line, counter_lines};
use crate::digits::grouped;
use crate::report::format::duration;
use crate::report::palette;

/// The maximum number of points of all lines together.
const MAX_POINTS: usize = 3_000;
/// The number of time intervals with a tooltip.
const HOVER_INTERVALS: usize = 96;
const HEIGHT: i32 = 240 * UNIT;
const LEGEND: i32 = 18 * UNIT;
/// The categories whose colours the lines use, distinguishable with colour blindness; further lines are dashed.
const LINE_COLOURS: [&str; 6] = ["gemm", "norm", "attention", "memory", "conv", "misc"];

pub(super) fn draw(view: &View) -> PanelResult {
    let section = view.section("nvlink_timeseries")?;
    let links = counter_lines(section, MAX_POINTS, HOVER_INTERVALS);
    if links.lines.is_empty() {
        return Err(no_data("No counter has a valid sample."));
    }
    let is_hidden = view.is_kind_hidden(COMMUNICATION);
    let shades = view.options.communication && !is_hidden;
    let (plot, lines) = plot(&links, view.options.width);
    let mut nodes = plot.draw(marks(&links, shades, &plot));
    nodes.extend(legend(&links.lines, &plot, lines));
    let parts: Vec<String> =
        links.lines.iter().map(|line| format!("{} up to {}", short(&name(line, &links.lines)), line.highest)).collect();
    let summary = format!("{} over {}: {}.", count(&links), duration(links.length_ns), first_few(&parts, "; "));
    let shading = match (shades, links.active_ns.is_empty()) {
        (false, _) if is_hidden => "Communication is hidden: nothing is shaded.",
        (false, _) => "Communication is switched off: nothing is shaded.",
        (true, true) => "No sample was taken during a collective.",
        (true, false) => "Shaded: samples taken during a collective.",
    };
    let thinned = if links.left_out > 0 {
        format!(
            " The counters have {} samples; {} are drawn: the lowest and the highest of each column.",
            grouped(links.samples as u64),
            grouped((links.samples - links.left_out) as u64)
        )
    } else {
        String::new()
    };
    let limits: String = section.limits.iter().map(|limit| format!(" {limit}")).collect();
    let note = format!("{shading}{thinned}{limits}");
    Ok((note, layout::chart(plot.width, plot.height + LEGEND * lines, summary, nodes)))
}

fn count(links: &CounterLines) -> String {
    let several = if links.lines.len() == 1 { "" } else { "s" };
    format!("{} NVLink counter{several}", links.lines.len())
}

/// The name of the counter, with its source if several counters have this name.
fn name(line: &Line, lines: &[Line]) -> String {
    let same_name = lines.iter().filter(|other| other.name == line.name).count();
    if same_name > 1 { format!("{}, source {}", line.name, line.source) } else { line.name.clone() }
}

/// The plot, and the number of lines in its legend.
fn plot(links: &CounterLines, width: u32) -> (Plot, i32) {
    let width = layout::width(width);
    let values = || links.lines.iter().flat_map(|line| line.points.iter().map(|point| point.1));
    let (low, high) = values().fold((0.0_f64, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
    let (left, right) = (64 * UNIT, 28 * UNIT);
    let x = Scale::time(links.length_ns as f64, ((width - left - right) / (78 * UNIT)).clamp(2, 10));
    let x_name = format!("Time from the first sample ({})", x.unit());
    let lines = i32::try_from(links.lines.len()).unwrap_or(i32::MAX).min(40);
    let plot = Plot {
        width,
        height: HEIGHT,
        left,
        right,
        top: 22 * UNIT,
        x,
        y: Scale::linear(low, high, 5),
        x_name,
        y_name: "Value in the unit given in the counter's name".to_owned(),
    };
    (plot, lines)
}

/// The CSS classes of the line with this index.
fn line_class(index: usize) -> String {
    let colour = LINE_COLOURS.get(index % LINE_COLOURS.len()).copied().unwrap_or_default();
    let dashed = if index >= LINE_COLOURS.len() { " dash-dashed" } else { "" };
    format!("dash-line {}{dashed}", palette::class(colour))
}

fn marks(links: &CounterLines, shades: bool, plot: &Plot) -> Vec<Mark> {
    let (low, high) = (plot.y.range().start, plot.y.range().end);
    let across = |(from, to): (i64, i64)| vec![(from as f64, high), (to as f64, low)];
    let mut marks = Vec::new();
    if shades {
        for &(from, to) in &links.active_ns {
            let title = format!("Communication: {from} to {to} ns from the first sample");
            marks.push(Mark::new(Shape::Box, across((from, to)), "dash-active", &title));
        }
    }
    for (index, line) in links.lines.iter().enumerate() {
        let points = line.points.iter().map(|(time, value)| (*time as f64, *value)).collect();
        marks.push(Mark::new(Shape::Path, points, &line_class(index), &name(line, &links.lines)));
    }
    for interval in links.hover.iter().filter(|interval| interval.highest.iter().any(Option::is_some)) {
        let corners = across((interval.from_ns, interval.to_ns));
        marks.push(Mark::new(Shape::Box, corners, "dash-hover", &tooltip(interval, &links.lines)));
    }
    marks
}

/// The highest value of each counter in a time interval.
fn tooltip(interval: &HoverInterval, lines: &[Line]) -> String {
    const MAX_LINES: usize = 16;
    let values = interval.highest.iter().zip(lines).filter_map(|(value, line)| Some((value.as_ref()?, line)));
    let parts: Vec<String> =
        values.take(MAX_LINES).map(|(value, line)| format!("{}: {value}", name(line, lines))).collect();
    format!("{} to {}, highest values:\n{}", duration(interval.from_ns), duration(interval.to_ns), parts.join("\n"))
}

/// The legend below the plot.
fn legend(lines: &[Line], plot: &Plot, shown: i32) -> Vec<Node> {
    let mut nodes = Vec::new();
    for (index, (line, row)) in lines.iter().zip(0..shown).enumerate() {
        let y = plot.height + LEGEND * row + LEGEND / 2;
        nodes.push(stroke(&line_class(index), (plot.left, y), (plot.left + 24 * UNIT, y)));
        let name = name(line, lines);
        let shown = glyphs::shorten(&name, SMALL, plot.width - plot.left - 40 * UNIT);
        let position = (plot.left + 32 * UNIT, y + 4 * UNIT);
        nodes.push(short_text(&name, &shown, "delta-name", position, SMALL, "start"));
    }
    nodes
}
