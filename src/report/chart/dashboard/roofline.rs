//! Panel: roofline. Arithmetic intensity against throughput with the ceilings of the hardware: kernels from counters, or else
//! framework ops from the shapes of their arguments.
//!
//! Without a matching preset there are no ceilings.

use super::super::layout::{self, SMALL, UNIT};
use super::super::{first_few, glyphs};
use super::plot::{Mark, Plot, Scale, Shape};
use super::{PanelResult, View, ceilings, exact, hidden_note, no_data, short};
use crate::analysis::dashboard::{Limit, Point, Preset, points, preset};
use crate::report::format::{counted, digits};
use crate::report::palette;

const HEIGHT: i32 = 340 * UNIT;
const RADIUS: i32 = 5 * UNIT;
/// The maximum number of points with a label.
const MAX_LABELS: usize = 5;

pub(super) fn draw(view: &View) -> PanelResult {
    let options = view.options;
    let preset = preset(view.run, options.hardware.as_deref());
    let mut points = points(view.run, view.baseline, preset, options.communication);
    let all = points.len();
    points.retain(|point| !view.is_hidden(point.category));
    let hidden = hidden_note(all - points.len(), "point", "points");
    let Some(first) = points.first() else {
        view.section("roofline")?;
        if all > 0 {
            return Err(no_data(format!("No point to show.{hidden}")));
        }
        return Err(no_data("No kernel has counters for both operations and bytes above zero."));
    };
    let source = match first.op {
        Some(_) => {
            "Points are ops; their operations and bytes come from the shapes of their arguments, not from counters."
        }
        None => "Points come from counters only.",
    };
    let baseline = view.baseline.map(|run| format!(" Hollow: {}.", run.label)).unwrap_or_default();
    let note = format!("Both axes are logarithmic. {source} {}{hidden}{baseline}", ceilings(view.run, options));
    let plot = plot(&points, preset, options.width);
    let nodes = plot.draw(marks(view, &points, preset, &plot));
    let parts: Vec<String> = points
        .iter()
        .map(|point| {
            format!(
                "{} {} FLOP per byte, {} TFLOP/s",
                short(&name(view, point)),
                digits(point.flop_per_byte),
                digits(point.tflops)
            )
        })
        .collect();
    let what = if first.op.is_some() { "ops" } else { "kernels" };
    let summary = format!("Roofline of {} {what}: {}.", points.len(), first_few(&parts, "; "));
    Ok((note, plot.chart(summary, nodes)))
}

fn name(view: &View, point: &Point) -> String {
    point.op.clone().unwrap_or_else(|| view.short_names.short(point.kernel))
}

fn plot(points: &[Point], preset: Option<&Preset>, width: u32) -> Plot {
    let coordinates =
        || points.iter().flat_map(|point| [Some((point.flop_per_byte, point.tflops)), point.baseline]).flatten();
    let range = |coordinate: &dyn Fn((f64, f64)) -> f64, ceiling: Option<f64>| {
        let values = coordinates().map(coordinate).chain(ceiling);
        values.fold((f64::MAX, f64::MIN_POSITIVE), |(low, high), value| (low.min(value), high.max(value)))
    };
    let (left, right) = range(&|(x, _)| x, preset.map(Preset::ridge_flop_per_byte));
    let x = Scale::log(left, right * 2.0);
    let (bottom, top) = range(&|(_, y)| y, preset.map(|preset| preset.peak_tflops));
    let lowest = preset.map_or(bottom, |preset| preset.roof_tflops(x.range().start));
    let bottom = bottom.min(lowest);
    let y = Scale::log(bottom, top);
    Plot {
        width: layout::width(width),
        height: HEIGHT,
        left: 52 * UNIT,
        right: 16 * UNIT,
        top: 22 * UNIT,
        x,
        y,
        x_name: "FLOP per byte of device memory (logarithmic)".to_owned(),
        y_name: "TFLOP/s (logarithmic)".to_owned(),
    }
}

fn marks(view: &View, points: &[Point], preset: Option<&Preset>, plot: &Plot) -> Vec<Mark> {
    let mut marks = preset.map(|preset| roof(preset, plot)).unwrap_or_default();
    for point in points {
        marks.extend(point.baseline.map(|(x, y)| {
            let title = format!("Baseline: {}: {} FLOP per byte, {} TFLOP/s", full_name(point), x, y);
            Mark::new(Shape::Dot(RADIUS), vec![(x, y)], "dash-hollow", &title)
        }));
    }
    // In reverse, so that the kernels with the most time are drawn on top.
    for point in points.iter().rev() {
        let class = format!("dash-dot {}", palette::class(point.category));
        let position = vec![(point.flop_per_byte, point.tflops)];
        let mut mark = Mark::new(Shape::Dot(RADIUS), position, &class, &tooltip(point));
        mark.node.attrs.push(("data-kernel", point.kernel.to_owned()));
        marks.push(mark);
    }
    let mut used_heights = Vec::new();
    marks.extend(points.iter().take(MAX_LABELS).filter_map(|point| label(view, point, plot, &mut used_heights)));
    marks
}

/// The label of a point, unless another label is at the same height.
fn label(view: &View, point: &Point, plot: &Plot, used_heights: &mut Vec<i32>) -> Option<Mark> {
    let inner = plot.inner_width();
    let text = glyphs::shorten(&name(view, point), SMALL, inner / 3);
    let x = plot.x.position(point.flop_per_byte, (0, inner));
    let height = plot.y.position(point.tflops, (plot.height, 0));
    if used_heights.iter().any(|other| (other - height).abs() < 14 * UNIT) {
        return None;
    }
    used_heights.push(height);
    let fits = x + 10 * UNIT + glyphs::width(&text, SMALL) < inner;
    let (offset_x, anchor) = if fits { (8 * UNIT, "start") } else { (-8 * UNIT, "end") };
    let shape = Shape::Text { offset: (offset_x, 4 * UNIT), size: SMALL, anchor };
    Some(Mark::new(shape, vec![(point.flop_per_byte, point.tflops)], "delta-name", "").with_text(text))
}

/// Both ceilings as one line with labels.
fn roof(preset: &Preset, plot: &Plot) -> Vec<Mark> {
    let range = plot.x.range();
    let (ridge, peak) = (preset.ridge_flop_per_byte(), preset.peak_tflops);
    let points = vec![(range.start, preset.roof_tflops(range.start)), (ridge, peak), (range.end, peak)];
    let halfway = (range.start * ridge).sqrt();
    let title = format!(
        "{}: {} TB/s up to {ridge} FLOP per byte, then {peak} TFLOP/s {}",
        preset.title, preset.memory_tb_per_s, preset.precision
    );
    let label = |text: String, position: (f64, f64), offset: (i32, i32), anchor: &'static str| {
        Mark::new(Shape::Text { offset, size: SMALL, anchor }, vec![position], "chart-note", "").with_text(text)
    };
    let memory = format!("{} TB/s", preset.memory_tb_per_s);
    vec![
        Mark::new(Shape::Path, points, "dash-roof", &title),
        label(format!("{peak} TFLOP/s"), (range.end, peak), (0, -8 * UNIT), "end"),
        label(memory, (halfway, preset.roof_tflops(halfway)), (10 * UNIT, 12 * UNIT), "start"),
    ]
}

fn tooltip(point: &Point) -> String {
    let row = point.row;
    let limit = match point.limit {
        Some((Limit::Memory, share)) => format!("; {share:.1} % of the memory bandwidth limit"),
        Some((Limit::Arithmetic, share)) => format!("; {share:.1} % of the peak"),
        None => String::new(),
    };
    if point.op.is_some() {
        return format!(
            "{} {}: {} FLOP per byte, {} TFLOP/s, {} ms in {}{limit}",
            full_name(point),
            row.text("dtype"),
            digits(point.flop_per_byte),
            digits(point.tflops),
            exact(row, "total_ms"),
            counted(&exact(row, "count"), "op", "ops"),
        );
    }
    format!(
        "{}: {} FLOP per byte, {} TFLOP/s, {} ms in {}{limit}",
        point.kernel,
        exact(row, "arithmetic_intensity"),
        exact(row, "achieved_tflops"),
        exact(row, "total_time_ms"),
        counted(&exact(row, "call_count"), "launch", "launches"),
    )
}

fn full_name<'a>(point: &'a Point) -> &'a str {
    point.op.as_deref().unwrap_or(point.kernel)
}
