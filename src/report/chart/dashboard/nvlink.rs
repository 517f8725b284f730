//! NVLink counters over time, shaded while the GPUs communicate.

use super::super::backend::UNIT;
use super::super::layout::{self, SMALL, line as stroke, word};
use super::super::{Chart, Node, glyphs};
use super::plot::{AXIS, Mark, Plot, Scale, Shape};
use super::{Drawn, View};
use crate::analysis::dashboard::{Line, Links, Tick, links};
use crate::digits::grouped;
use crate::report::format::duration;
use crate::report::palette;

/// Points of all lines together.
const MOST: usize = 3_000;
/// Parts of the time that have a tooltip.
const TICKS: usize = 96;
const HEIGHT: i32 = 240 * UNIT;
const LEGEND: i32 = 18 * UNIT;
/// The looks of lines: colours that differ for every eye, then the same ones dashed.
const LOOKS: [&str; 6] = ["gemm", "norm", "attention", "memory", "conv", "misc"];

pub(super) fn draw(view: &View) -> Drawn {
    let section = view.section("nvlink_timeseries")?;
    let links = links(section, MOST, TICKS);
    if links.lines.is_empty() {
        return Err(("No sample of a counter can be read.".to_owned(), String::new()));
    }
    let (plot, lines) = plot(&links, view.options.width);
    let mut nodes = plot.draw(marks(&links, view.options.communication, &plot));
    nodes.extend(legend(&links.lines, &plot, lines));
    let told: Vec<String> = links
        .lines
        .iter()
        .map(|line| format!("{} up to {}", super::short(&named(line, &links.lines)), line.highest))
        .collect();
    let summary = format!("{} over {}: {}.", count(&links), duration(links.length_ns), super::first_few(&told));
    let shading = match (view.options.communication, links.active_ns.is_empty()) {
        (false, _) => "Communication is switched off: nothing is shaded.",
        (true, true) => "No sample falls into a collective.",
        (true, false) => "Shaded: samples that fall into a collective.",
    };
    let thinned = if links.left_out > 0 {
        format!(
            " Of {} samples {} are drawn: the lowest and the highest of every column.",
            grouped(links.samples as u64),
            grouped((links.samples - links.left_out) as u64)
        )
    } else {
        String::new()
    };
    let limits: String = section.limits.iter().map(|limit| format!(" {limit}")).collect();
    let note = format!("{shading}{thinned}{limits}");
    Ok((
        note,
        Chart { width: layout::whole(plot.width), height: layout::whole(plot.height + LEGEND * lines), summary, nodes },
    ))
}

fn count(links: &Links) -> String {
    let several = if links.lines.len() == 1 { "" } else { "s" };
    format!("{} NVLink counter{several}", links.lines.len())
}

/// The counter's name, with its source where several have the name.
fn named(line: &Line, lines: &[Line]) -> String {
    let alike = lines.iter().filter(|other| other.name == line.name).count();
    if alike > 1 { format!("{}, source {}", line.name, line.source) } else { line.name.clone() }
}

/// The plot, and how many lines its legend has.
fn plot(links: &Links, width: u32) -> (Plot, i32) {
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
        bottom: AXIS,
        x,
        y: Scale::linear(low, high, 5),
        x_name,
        y_name: "Value, in the unit of the counter's name".to_owned(),
    };
    (plot, lines)
}

fn look(at: usize) -> String {
    let colour = LOOKS.get(at % LOOKS.len()).copied().unwrap_or_default();
    let dashed = if at >= LOOKS.len() { " dash-dashed" } else { "" };
    format!("dash-line {}{dashed}", palette::class(colour))
}

fn marks(links: &Links, communication: bool, plot: &Plot) -> Vec<Mark> {
    use plotters::coord::ranged1d::Ranged;
    let (low, high) = (plot.y.range().start, plot.y.range().end);
    let across = |(from, to): (i64, i64)| vec![(from as f64, high), (to as f64, low)];
    let mut marks = Vec::new();
    if communication {
        for &(from, to) in &links.active_ns {
            let title = format!("Communication: {from} to {to} ns from the first sample");
            let node = Node { class: "dash-active".to_owned(), title, ..Node::default() };
            marks.push(Mark { at: across((from, to)), shape: Shape::Box, node });
        }
    }
    for (at, line) in links.lines.iter().enumerate() {
        let points = line.points.iter().map(|(time, value)| (*time as f64, *value)).collect();
        let node = Node { class: look(at), title: named(line, &links.lines), ..Node::default() };
        marks.push(Mark { at: points, shape: Shape::Path, node });
    }
    for tick in links.ticks.iter().filter(|tick| tick.highest.iter().any(Option::is_some)) {
        let node = Node { class: "dash-hover".to_owned(), title: told(tick, &links.lines), ..Node::default() };
        marks.push(Mark { at: across((tick.from_ns, tick.to_ns)), shape: Shape::Box, node });
    }
    marks
}

/// The highest values of a part of the time.
fn told(tick: &Tick, lines: &[Line]) -> String {
    const LINES: usize = 16;
    let values = tick.highest.iter().zip(lines).filter_map(|(value, line)| Some((value.as_ref()?, line)));
    let told: Vec<String> =
        values.take(LINES).map(|(value, line)| format!("{}: {value}", named(line, lines))).collect();
    format!("{} to {}, highest:\n{}", duration(tick.from_ns), duration(tick.to_ns), told.join("\n"))
}

/// What each line is, below the plot.
fn legend(lines: &[Line], plot: &Plot, shown: i32) -> Vec<Node> {
    let mut nodes = Vec::new();
    for (at, (line, place)) in lines.iter().zip(0..shown).enumerate() {
        let y = plot.height + LEGEND * place + LEGEND / 2;
        nodes.push(stroke(&look(at), (plot.left, y), (plot.left + 24 * UNIT, y)));
        let name = named(line, lines);
        let room = i64::from(plot.width - plot.left - 40 * UNIT);
        let text = glyphs::shorten(&name, i64::from(SMALL), room);
        let title = if text == name { String::new() } else { name };
        nodes.push(Node { title, ..word(&text, "delta-name", (plot.left + 32 * UNIT, y + 4 * UNIT), SMALL, "start") });
    }
    nodes
}
