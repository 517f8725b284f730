//! Charts of one kernel: a histogram of its durations with percentiles, and its launches over time. Sizes are in pixels.

use super::axis::TimeAxis;
use super::strips::{Rect, chart_width, text};
use super::{Chart, Node};
use crate::analysis::kernels::one_kernel::{Bin, Column, Histogram, OneKernel, OverTime};
use crate::digits::{grouped, grouped_text};
use crate::report::format::{duration, percent};
use crate::report::palette;

const LEFT: i64 = 64;
const RIGHT: i64 = 36;
const PLOT: i64 = 120;
const ROW: i64 = 56;
const AXIS: i64 = 40;
const LINE: i64 = 15;
/// Height of the labels of the percentiles, one line each.
const MARKS: i64 = 3 * LINE + 4;
/// Width of a column in the chart over time.
const COLUMN: i64 = 4;
/// Minimum distance of labels on an axis.
const MIN_LABEL_DISTANCE: i64 = 78;

fn plot_width(width: u32) -> i64 {
    i64::from(chart_width(width)) - LEFT - RIGHT
}

/// The number of columns in a chart of [`launches`] of this width.
pub fn launch_columns(width: u32) -> usize {
    usize::try_from(plot_width(width) / COLUMN).unwrap_or(1)
}

/// Draws a histogram of durations with p50, p90 and p99. All bins have the same width in the chart.
pub fn durations(kernel: &OneKernel, width: u32) -> Chart {
    let Histogram { bins, is_logarithmic, percentiles } = &kernel.histogram;
    let plot = Rect { left: LEFT, top: MARKS, width: plot_width(width), height: PLOT };
    let all: u64 = bins.iter().map(|bin| bin.count).sum();
    let max_count = bins.iter().map(|bin| bin.count).max().unwrap_or(0);
    let mut nodes = Vec::new();
    frame(&plot, &grouped(max_count), "launches", &mut nodes);
    for (index, bin) in bins.iter().enumerate().filter(|(_, bin)| bin.count > 0) {
        let (from, to) = (bin_left(&plot, bins, index), bin_left(&plot, bins, index + 1));
        let title = format!(
            "{} to {} ({} to {} ns): {} launches, {}",
            duration(bin.from.0),
            duration(bin.to.0),
            bin.from.0,
            bin.to.0.saturating_sub(1),
            grouped(bin.count),
            percent(bin.share)
        );
        nodes.push(bar(&plot, (from, to), (bin.count, max_count), &kernel.category, title));
    }
    for (line, (percentile, ns)) in (1..).zip(percentiles) {
        percentile_line(&plot, bins, line, *percentile, *ns, &mut nodes);
    }
    bin_labels(&plot, bins, &mut nodes);
    let scale = if *is_logarithmic {
        "Duration of a launch; each bin is a quarter wider than the previous one"
    } else {
        "Duration of a launch"
    };
    nodes.push(text(scale, "chart-axis", "middle", plot.left + plot.width / 2, plot.top + plot.height + 34));
    let marks: Vec<String> =
        percentiles.iter().map(|(percentile, ns)| format!("p{percentile} {}", duration(ns.round() as i64))).collect();
    Chart {
        width: chart_width(width),
        height: u32::try_from(plot.top + plot.height + AXIS).unwrap_or(0),
        summary: format!("Durations of {} launches: {}.", grouped(all), marks.join(", ")),
        nodes,
    }
}

/// The left edge of the bin with this index.
fn bin_left(plot: &Rect, bins: &[Bin], index: usize) -> i64 {
    plot.left + plot.width * index as i64 / (bins.len().max(1) as i64)
}

fn percentile_line(plot: &Rect, bins: &[Bin], line: i64, percentile: u64, ns: f64, nodes: &mut Vec<Node>) {
    let index = bins.iter().position(|bin| (bin.to.0 as f64) > ns).unwrap_or(bins.len().saturating_sub(1));
    let Some(bin) = bins.get(index) else { return };
    let (from, to) = (bin_left(plot, bins, index), bin_left(plot, bins, index + 1));
    let fraction = (ns - bin.from.0 as f64) / (bin.to.since(bin.from).0.max(1) as f64);
    let x = from + ((to - from) as f64 * fraction.clamp(0.0, 1.0)) as i64;
    let baseline = line * LINE - 3;
    let title = format!("p{percentile}: {} ns", grouped_text(&ns.to_string()));
    nodes.push(line_of("chart-mark", (x, baseline - 9), (x, plot.top + plot.height), title));
    let (anchor, offset) = if x > plot.left + plot.width * 2 / 3 { ("end", -4) } else { ("start", 4) };
    let label = format!("p{percentile} {}", duration(ns.round() as i64));
    nodes.push(text(&label, "delta-name", anchor, x + offset, baseline));
}

fn bin_labels(plot: &Rect, bins: &[Bin], nodes: &mut Vec<Node>) {
    let max_labels = (plot.width / MIN_LABEL_DISTANCE).max(1) as usize;
    let every = bins.len().div_ceil(max_labels).max(1);
    let starts = bins.iter().map(|bin| bin.from).chain(bins.last().map(|bin| bin.to)).enumerate();
    for (index, start) in starts.filter(|(index, _)| index % every == 0) {
        let x = bin_left(plot, bins, index);
        nodes.push(text(&duration(start.0), "chart-tick", "middle", x, plot.top + plot.height + 15));
    }
}

/// Draws the launches over time: the number of launches per column above, the longest launch per column below.
pub fn launches(kernel: &OneKernel, width: u32) -> Chart {
    let OverTime { window, is_part, columns } = &kernel.over_time;
    let count = Rect { left: LEFT, top: LINE, width: plot_width(width), height: ROW };
    let longest = Rect { top: count.top + ROW + LINE + 6, ..count };
    let max_count = columns.iter().map(|column| column.count).max().unwrap_or(0);
    let slowest = columns.iter().map(|column| column.longest.0).max().unwrap_or(0);
    let mut nodes = Vec::new();
    frame(&count, &grouped(max_count), "launches", &mut nodes);
    frame(&longest, &duration(slowest), "longest", &mut nodes);
    let all = columns.len().max(1) as i64;
    let since =
        |index: i64| i64::try_from(i128::from(window.length().0) * i128::from(index) / i128::from(all)).unwrap_or(0);
    for (index, column) in (0..).zip(columns).filter(|(_, column)| column.count > 0) {
        let span = (count.left + count.width * index / all, count.left + count.width * (index + 1) / all);
        let title = tooltip(column, since(index), since(index + 1));
        nodes.push(bar(&count, span, (column.count, max_count), &kernel.category, title.clone()));
        let lengths = (column.longest.0.unsigned_abs(), slowest.unsigned_abs());
        nodes.push(bar(&longest, span, lengths, &kernel.category, title));
    }
    let bottom = longest.top + longest.height;
    let time = TimeAxis::new(window.length().0, (count.width / MIN_LABEL_DISTANCE).clamp(2, 12));
    for tick in time.ticks() {
        let along = i128::from(tick) * i128::from(count.width) / i128::from(window.length().0.max(1));
        let x = count.left + i64::try_from(along).unwrap_or(0);
        nodes.push(text(&time.label(tick), "chart-tick", "middle", x, bottom + 15));
    }
    let from = if *is_part { "the start of the window" } else { "the first GPU op" };
    let axis_name = format!("Time from {from} ({})", time.unit().name());
    nodes.push(text(&axis_name, "chart-axis", "middle", count.left + count.width / 2, bottom + 34));
    let launched: u64 = columns.iter().map(|column| column.count).sum();
    Chart {
        width: chart_width(width),
        height: u32::try_from(bottom + AXIS).unwrap_or(0),
        summary: format!(
            "{} launches over {}: at most {} in {}, the longest {}.",
            grouped(launched),
            duration(window.length().0),
            grouped(max_count),
            duration(since(1)),
            duration(slowest)
        ),
        nodes,
    }
}

fn tooltip(column: &Column, from_ns: i64, to_ns: i64) -> String {
    let Column { count, total, longest } = column;
    format!(
        "{} to {}: {} launches, total {} ({} ns), longest {} ({} ns)",
        duration(from_ns),
        duration(to_ns),
        grouped(*count),
        duration(total.0),
        total.0,
        duration(longest.0),
        longest.0
    )
}

/// The bottom and top lines of a plot, with the value of the top line.
fn frame(plot: &Rect, top: &str, what: &str, nodes: &mut Vec<Node>) {
    let (right, bottom) = (plot.left + plot.width, plot.top + plot.height);
    nodes.push(line_of("chart-grid", (plot.left, plot.top), (right, plot.top), String::new()));
    nodes.push(line_of("chart-zero", (plot.left, bottom), (right, bottom), String::new()));
    nodes.push(text(top, "chart-tick", "end", plot.left - 6, plot.top + 4));
    nodes.push(text(what, "chart-note", "end", plot.left - 6, plot.top + 18));
    nodes.push(text("0", "chart-tick", "end", plot.left - 6, bottom + 4));
}

/// A bar with a height proportional to `value / max`, index least one pixel.
fn bar(plot: &Rect, (from, to): (i64, i64), (value, max): (u64, u64), category: &str, title: String) -> Node {
    let scaled = i128::from(value) * i128::from(plot.height) / i128::from(max.max(1));
    let height = i64::try_from(scaled).unwrap_or(plot.height).clamp(1, plot.height);
    let gap = i64::from(to - from > 3);
    let rect = Rect { left: from, top: plot.top + plot.height - height, width: (to - from - gap).max(1), height };
    Node { class: format!("seg {}", palette::class(category)), title, ..rect.node() }
}

fn line_of(class: &str, (x1, y1): (i64, i64), (x2, y2): (i64, i64), title: String) -> Node {
    let ends = [("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2)];
    let attrs = ends.map(|(name, position)| (name, position.to_string())).to_vec();
    Node { tag: "line", attrs, class: class.to_owned(), title, ..Node::default() }
}
