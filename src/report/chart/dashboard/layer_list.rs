//! Panel: all layers of a step, a column each, with the median of their kind. Outliers have a ring.

use super::super::layout::{self, UNIT};
use super::plot::{Mark, Plot, Scale, Shape, gap_class};
use super::{PanelResult, View, WORK, no_data};
use crate::analysis::dashboard::{LayerColumn, layer_columns, layer_stage};
use crate::analysis::inference::layers::Layers;
use crate::analysis::section::TypedSection;
use crate::report::format::duration;

const HEIGHT: i32 = 150 * UNIT;
const RING: i32 = 3 * UNIT;

pub(super) fn draw(view: &View) -> PanelResult {
    view.section("layer_list")?;
    let columns = layer_columns(view.run);
    if columns.is_empty() {
        return Err(no_data("The trace has no such data."));
    }
    let plot = plot(&columns, view.options.width);
    let mut marks: Vec<Mark> = columns.iter().map(|column| bar(column, columns.len(), &plot)).collect();
    marks.extend(medians(view, columns.len()));
    marks.extend(columns.iter().filter(|column| column.is_outlier).map(ring));
    let nodes = plot.draw(marks);
    let outliers = columns.iter().filter(|column| column.is_outlier).count();
    let kinds = if has_kinds(&columns) { " Paler columns are layers of other kinds than A." } else { "" };
    let note = format!(
        "One column per layer of a step, from first to last. Dashed: the median of its kind. Ring: more than 20 % from that \
         median.{kinds} In a model with experts, times that fall or rise over the layers can come from routing."
    );
    let summary = match outliers {
        0 => format!("{} layers, none of them an outlier.", columns.len()),
        1 => format!("{} layers, 1 of them an outlier.", columns.len()),
        more => format!("{} layers, {more} of them outliers.", columns.len()),
    };
    Ok((note, plot.chart(summary, nodes)))
}

fn has_kinds(columns: &[LayerColumn]) -> bool {
    columns.iter().any(|column| column.kind != "A")
}

fn plot(columns: &[LayerColumn], width: u32) -> Plot {
    let longest_ns = columns.iter().map(|column| column.us * 1e3).fold(0.0, f64::max);
    let y = Scale::time(longest_ns * 1.08, 3);
    let y_name = format!("Time of a layer ({})", y.unit());
    let width = layout::width(width);
    let count = columns.len() as f64;
    let most_ticks = (width / (60 * UNIT)).clamp(2, 16);
    Plot {
        width,
        height: HEIGHT + 40 * UNIT,
        left: 48 * UNIT,
        right: 28 * UNIT,
        top: 22 * UNIT,
        x: Scale::linear(0.0, count, most_ticks.min(i32::try_from(columns.len()).unwrap_or(2)).max(1)),
        y,
        x_name: "Layer".to_owned(),
        y_name,
    }
}

fn bar(column: &LayerColumn, columns: usize, plot: &Plot) -> Mark {
    let gap = gap_class(plot.inner_width() / i32::try_from(columns.max(1)).unwrap_or(i32::MAX));
    let other = if column.kind == "A" { "" } else { " dash-pale" };
    let outlier = if column.is_outlier { ", an outlier" } else { "" };
    let time = duration((column.us * 1e3).round() as i64);
    let title = format!("layer {} ({}): {time}{outlier}", column.layer, column.kind);
    let corners = vec![(column.layer, column.us * 1e3), (column.layer + 1.0, 0.0)];
    Mark::new(Shape::Box, corners, &format!("{WORK}{gap}{other}"), &title)
}

fn ring(column: &LayerColumn) -> Mark {
    let top = (column.layer + 0.5, column.us * 1e3);
    Mark::new(Shape::Dot(RING), vec![top], "dash-hollow dash-ring", "")
}

/// A line at the median of each kind.
fn medians(view: &View, columns: usize) -> impl Iterator<Item = Mark> + use<> {
    let stage = layer_stage(view.run);
    let own = Layers::rows(&view.run.sections).into_iter().filter(move |row| Some(row.stage) == stage);
    own.filter_map(move |row| {
        let us = row.median_us?.0;
        let title = format!("median of {}: {}", row.kind, duration((us * 1e3).round() as i64));
        Some(Mark::new(Shape::Path, vec![(0.0, us * 1e3), (columns as f64, us * 1e3)], "chart-mark", &title))
    })
}
