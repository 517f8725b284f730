//! Work per byte against work per second, both counted, under the ceilings of the hardware.

use super::super::backend::UNIT;
use super::super::layout::{self, SMALL};
use super::super::{Chart, Node, glyphs};
use super::plot::{AXIS, Mark, Plot, Scale, Shape, wide};
use super::{Drawn, View, ceilings, exact, first_few, short};
use crate::analysis::dashboard::{Limit, Point, Preset, points, preset};
use crate::report::format::{counted, measure};
use crate::report::palette;
use crate::rules::names;
use plotters::coord::ranged1d::Ranged;

const HEIGHT: i32 = 340 * UNIT;
const RADIUS: i32 = 5 * UNIT;
/// Points that have their name beside them.
const NAMED: usize = 5;

pub(super) fn draw(view: &View) -> Drawn {
    view.section("roofline")?;
    let options = view.options;
    let preset = preset(view.run, options.hardware.as_deref());
    let points = points(view.run, view.baseline, preset, options.communication);
    if points.is_empty() {
        return Err(("No kernel has counted operations and bytes, both above zero.".to_owned(), String::new()));
    }
    let baseline = view.baseline.map(|run| format!(" Hollow: {}.", run.label)).unwrap_or_default();
    let note = format!(
        "Both axes are logarithmic. Points come from counters alone. {}{baseline}",
        ceilings(view.run, options)
    );
    let plot = plot(&points, preset, options.width);
    let nodes = plot.draw(marks(&points, preset, &plot));
    let told: Vec<String> = points
        .iter()
        .map(|point| {
            format!(
                "{} {} FLOP per byte, {} TFLOP/s",
                short(&name(point)),
                measure(point.flop_per_byte),
                measure(point.tflops)
            )
        })
        .collect();
    let summary = format!("Roofline of {} kernels: {}.", points.len(), first_few(&told));
    Ok((note, Chart { width: layout::whole(plot.width), height: layout::whole(plot.height), summary, nodes }))
}

fn name(point: &Point) -> String {
    names::short(point.row.text("kernel_name"))
}

fn plot(points: &[Point], preset: Option<&Preset>, width: u32) -> Plot {
    let places =
        || points.iter().flat_map(|point| [Some((point.flop_per_byte, point.tflops)), point.baseline]).flatten();
    let ends = |of: &dyn Fn((f64, f64)) -> f64, more: Option<f64>| {
        let all = places().map(of).chain(more);
        all.fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), value| (low.min(value), high.max(value)))
    };
    let (left, right) = ends(&|place| place.0, preset.map(Preset::ridge_flop_per_byte));
    let x = Scale::log(left, right * 2.0);
    let (bottom, top) = ends(&|place| place.1, preset.map(|preset| preset.peak_tflops));
    let lowest = preset.map_or(bottom, |preset| preset.roof_tflops(x.range().start));
    let bottom = bottom.min(lowest);
    let y = Scale::log(bottom, top);
    Plot {
        width: layout::width(width),
        height: HEIGHT,
        left: 52 * UNIT,
        right: 16 * UNIT,
        top: 22 * UNIT,
        bottom: AXIS,
        x,
        y,
        x_name: "FLOP per byte of device memory (logarithmic)".to_owned(),
        y_name: "TFLOP/s (logarithmic)".to_owned(),
    }
}

fn marks(points: &[Point], preset: Option<&Preset>, plot: &Plot) -> Vec<Mark> {
    let mut marks = preset.map(|preset| roof(preset, plot)).unwrap_or_default();
    for point in points {
        marks.extend(point.baseline.map(|at| {
            let title =
                format!("Baseline: {}: {} FLOP per byte, {} TFLOP/s", point.row.text("kernel_name"), at.0, at.1);
            Mark {
                at: vec![at],
                shape: Shape::Dot(RADIUS),
                node: Node { class: "dash-hollow".to_owned(), title, ..Node::default() },
            }
        }));
    }
    // The longest kernels lie on top.
    for point in points.iter().rev() {
        let attrs = vec![("data-kernel", point.row.text("kernel_name").to_owned())];
        let class = format!("dash-dot {}", palette::class(point.category));
        let node = Node { class, title: tooltip(point), attrs, ..Node::default() };
        marks.push(Mark { at: vec![(point.flop_per_byte, point.tflops)], shape: Shape::Dot(RADIUS), node });
    }
    let mut heights = Vec::new();
    marks.extend(points.iter().take(NAMED).filter_map(|point| named(point, plot, &mut heights)));
    marks
}

/// The name beside a point, where none stands at that height already.
fn named(point: &Point, plot: &Plot, heights: &mut Vec<i32>) -> Option<Mark> {
    let inner = plot.inner_width();
    let text = glyphs::shorten(&name(point), i64::from(SMALL), i64::from(inner / 3));
    let across = plot.x.map(&point.flop_per_byte, (0, inner));
    let height = plot.y.map(&point.tflops, (plot.height, 0));
    if heights.iter().any(|other| (other - height).abs() < 14 * UNIT) {
        return None;
    }
    heights.push(height);
    let fits = across + 10 * UNIT + wide(&text, SMALL) < inner;
    let (by, aligned) = if fits { (8 * UNIT, "start") } else { (-8 * UNIT, "end") };
    let shape = Shape::Words { by: (by, 4 * UNIT), size: SMALL, aligned };
    let at = vec![(point.flop_per_byte, point.tflops)];
    Some(Mark { at, shape, node: Node { class: "delta-name".to_owned(), text, ..Node::default() } })
}

/// Both ceilings as one line, with its words.
fn roof(preset: &Preset, plot: &Plot) -> Vec<Mark> {
    let range = plot.x.range();
    let (ridge, peak) = (preset.ridge_flop_per_byte(), preset.peak_tflops);
    let at = vec![(range.start, preset.roof_tflops(range.start)), (ridge, peak), (range.end, peak)];
    let halfway = (range.start * ridge).sqrt();
    let title = format!(
        "{}: {} TB/s up to {ridge} FLOP per byte, then {peak} TFLOP/s {}",
        preset.title, preset.memory_tb_per_s, preset.precision
    );
    let node = Node { class: "dash-roof".to_owned(), title, ..Node::default() };
    let words = |text: String, at: (f64, f64), by: (i32, i32), aligned: &'static str| Mark {
        at: vec![at],
        shape: Shape::Words { by, size: SMALL, aligned },
        node: Node { class: "chart-note".to_owned(), text, ..Node::default() },
    };
    let memory = format!("{} TB/s", preset.memory_tb_per_s);
    vec![
        Mark { at, shape: Shape::Path, node },
        words(format!("{peak} TFLOP/s"), (range.end, peak), (0, -8 * UNIT), "end"),
        words(memory, (halfway, preset.roof_tflops(halfway)), (10 * UNIT, 12 * UNIT), "start"),
    ]
}

fn tooltip(point: &Point) -> String {
    let row = point.row;
    let limit = match point.limit {
        Some((Limit::Memory, share)) => format!("; {share:.1} % of what the memory's bandwidth allows"),
        Some((Limit::Arithmetic, share)) => format!("; {share:.1} % of the peak"),
        None => String::new(),
    };
    format!(
        "{}: {} FLOP per byte, {} TFLOP/s, {} ms in {}{limit}",
        row.text("kernel_name"),
        exact(row, "arithmetic_intensity"),
        exact(row, "achieved_tflops"),
        exact(row, "total_time_ms"),
        counted(&exact(row, "call_count"), "launch", "launches"),
    )
}
