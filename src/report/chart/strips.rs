//! Overview strips: one row per device or stream, one column per pixel of time. The height of a column is its busy share,
//! stacked by category.
//!
//! The strips cover the whole trace; another window only needs another [`overview_frame`]. Sizes are in pixels.

use super::axis::TimeAxis;
use super::{Chart, Node, glyphs, layout};
use crate::analysis::time::strips::{Strip, Strips};
use crate::digits::grouped;
use crate::report::format::{duration, percent};
use crate::report::palette;
use crate::trace::{Ns, Window};
use std::fmt::Write;

const TOP: i64 = 4;
const RIGHT: i64 = 8;
const AXIS: i64 = 16;
const NOTE: i64 = 20;
const GAP: i64 = 4;
const DEVICE: i64 = 26;
const STREAM: i64 = 14;
const TEXT: i64 = 12;
/// Below this width, labels are narrower; in pixels.
const NARROW: u32 = 520;

/// The number of columns in a chart of this width in pixels.
pub fn strip_columns(width: u32) -> usize {
    usize::try_from(i64::from(chart_width(width)) - left(width) - RIGHT).unwrap_or(1)
}

pub(super) fn chart_width(width: u32) -> u32 {
    width.clamp(240, 4_000)
}

fn left(width: u32) -> i64 {
    if width < NARROW { 76 } else { 132 }
}

/// The columns that strips have: [`strip_columns`], or fewer of a trace that is shorter than another one on the same scale.
fn columns_of(strips: &Strips, width: u32) -> i64 {
    strips.strips.first().map_or(strip_columns(width), |strip| strip.columns.len().min(strip_columns(width))) as i64
}

/// Draws strips of at most [`strip_columns`] columns, without their axis.
pub fn overview(strips: &Strips, width: u32) -> Chart {
    let (left, columns) = (left(width), columns_of(strips, width));
    let mut nodes = Vec::new();
    let mut top = TOP;
    let order = stacking_order(strips);
    for strip in &strips.strips {
        let height = strip_height(strip);
        let rect = Rect { left, top, width: columns, height };
        row(strips, strip, &order, &rect, &mut nodes);
        top += height + GAP;
    }
    for note in left_out(strips) {
        nodes.push(text(&note, "chart-note", "start", left, top + 12));
        top += NOTE;
    }
    Chart { width: chart_width(width), height: u32::try_from(top).unwrap_or(0), summary: summary(strips), nodes }
}

/// A note for streams and for devices without a strip.
fn left_out(strips: &Strips) -> impl Iterator<Item = String> {
    let (streams, devices) = (strips.streams_left_out, strips.devices_left_out);
    let streams = (streams > 0).then(|| format!("{streams} more streams are shown only in the strip of their device"));
    let devices = (devices > 0).then(|| format!("{} devices with less work have no strip", grouped(devices as u64)));
    streams.into_iter().chain(devices)
}

/// The axis below the strips, a chart of its own: it stays in sight while many strips are scrolled.
pub fn overview_axis(strips: &Strips, width: u32) -> Chart {
    let mut nodes = Vec::new();
    let rect = Rect { left: left(width), top: 0, width: columns_of(strips, width), height: AXIS };
    axis(strips, &rect, &mut nodes);
    Chart { width: chart_width(width), height: u32::try_from(AXIS).unwrap_or(0), summary: String::new(), nodes }
}

/// The strips with their axis and the frame around the window, as one chart for a file.
pub fn overview_picture(strips: &Strips, window: Option<Window>, width: u32) -> Chart {
    let mut picture = overview(strips, width);
    let mut frame = overview_frame(strips, window, width);
    // Its last node receives the pointer.
    frame.pop();
    picture.nodes.extend(frame);
    let top = i64::from(picture.height);
    let rect = Rect { left: left(width), top, width: columns_of(strips, width), height: AXIS };
    axis(strips, &rect, &mut picture.nodes);
    picture.height = u32::try_from(top + AXIS).unwrap_or(picture.height);
    picture
}

/// The overlay of the strips: a frame around the window, and everything outside it dimmed.
///
/// The last node covers the whole plot, has the key `plot` and receives the pointer: its x range is the time range.
pub fn overview_frame(strips: &Strips, window: Option<Window>, width: u32) -> Vec<Node> {
    let height = strips.strips.iter().map(|strip| strip_height(strip) + GAP).sum::<i64>() - GAP;
    let plot = Rect { left: left(width), top: TOP, width: columns_of(strips, width), height };
    let mut nodes = window.map_or_else(Vec::new, |window| window_frame(strips, window, &plot));
    nodes.push(Node { class: "strip-plot".to_owned(), key: "plot".to_owned(), ..plot.node() });
    nodes
}

fn strip_height(strip: &Strip) -> i64 {
    if strip.stream.is_some() { STREAM } else { DEVICE }
}

/// A rectangle, in pixels.
pub(super) struct Rect {
    pub(super) left: i64,
    pub(super) top: i64,
    pub(super) width: i64,
    pub(super) height: i64,
}

impl Rect {
    pub(super) fn node(&self) -> Node {
        let Self { left, top, width, height } = self;
        let sizes = [("x", left), ("y", top), ("width", width), ("height", height)];
        Node { tag: "rect", attrs: sizes.map(|(name, size)| (name, size.to_string())).to_vec(), ..Node::default() }
    }
}

/// The indices of the categories in stacking order.
fn stacking_order(strips: &Strips) -> Vec<usize> {
    let order = palette::order(strips.categories.iter().map(String::as_str));
    order.iter().filter_map(|name| strips.categories.iter().position(|category| category == name)).collect()
}

fn row(strips: &Strips, strip: &Strip, order: &[usize], rect: &Rect, nodes: &mut Vec<Node>) {
    let name = name_of(strip);
    let share = percent(strip.busy_share);
    let busy = format!("{name}: busy {share} of {}", duration(strips.whole.length().0));
    nodes.push(Node { class: "strip-idle".to_owned(), title: busy, ..rect.node() });
    let class = if strip.stream.is_some() { "chart-note" } else { "chart-label" };
    let max_width = i32::try_from(rect.left - 8).unwrap_or(0) * layout::UNIT;
    let with_share = format!("{name} {share}");
    let fits = strip.stream.is_none() && glyphs::width(&with_share, layout::BOLD) <= max_width;
    let label = if fits { with_share } else { name };
    let baseline = rect.top + rect.height / 2 + 4;
    nodes.push(text(&glyphs::shorten(&label, layout::TEXT, max_width), class, "start", 0, baseline));
    for (below, &index) in order.iter().enumerate() {
        let (Some(category), Some(time)) = (strips.categories.get(index), strip.times.get(index)) else { continue };
        let path = outline(strips, strip, rect, (order.get(..below).unwrap_or_default(), index));
        if !path.is_empty() {
            nodes.push(Node {
                tag: "path",
                attrs: vec![("d", path)],
                class: format!("strip {}", palette::class(category)),
                title: format!("{category}: {}", duration(time.0)),
                key: category.clone(),
                text: String::new(),
            });
        }
    }
}

/// The path of one category on top of the categories `below`. Adjacent columns with equal height form one box.
fn outline(strips: &Strips, strip: &Strip, rect: &Rect, (below, category): (&[usize], usize)) -> String {
    let height_of = |time: i64| height_in_pixels(time, strips, rect);
    let mut path = String::new();
    let mut open: Option<(i64, i64, i64)> = None;
    for (x, column) in (rect.left..).zip(&strip.columns) {
        let time = |index: usize| column.get(index).map_or(0, |time| time.0);
        let base: i64 = below.iter().map(|index| time(*index)).sum();
        let (low, high) = (height_of(base), height_of(base + time(category)));
        if let Some((from, low_before, high_before)) = open
            && (low, high) != (low_before, high_before)
        {
            add_box(&mut path, rect, (from, x), (low_before, high_before));
            open = None;
        }
        if high > low && open.is_none() {
            open = Some((x, low, high));
        }
    }
    if let Some((from, low, high)) = open {
        add_box(&mut path, rect, (from, rect.left + strip.columns.len() as i64), (low, high));
    }
    path
}

fn add_box(path: &mut String, rect: &Rect, (from, to): (i64, i64), (low, high): (i64, i64)) {
    let (bottom, width, height) = (rect.top + rect.height - low, to - from, high - low);
    let _ = write!(path, "M{from} {bottom}h{width}v-{height}h-{width}z");
}

/// The height of this much time in one column, in pixels.
fn height_in_pixels(time: i64, strips: &Strips, rect: &Rect) -> i64 {
    let (time, length) = (i128::from(time), i128::from(strips.whole.length().0.max(1)));
    let full = i128::from(rect.height) * i128::from(rect.width);
    i64::try_from((time * full * 2 + length) / (length * 2)).unwrap_or(0).min(rect.height)
}

fn axis(strips: &Strips, rect: &Rect, nodes: &mut Vec<Node>) {
    let length = strips.whole.length().0.max(1);
    let time = TimeAxis::new(length, (rect.width / 90).clamp(2, 12));
    let baseline = rect.top + 12;
    for tick in time.ticks() {
        let x = rect.left + i64::try_from(i128::from(tick) * i128::from(rect.width) / i128::from(length)).unwrap_or(0);
        let number = time.label(tick);
        let label = if tick == 0 { format!("{number} {}", time.unit().name()) } else { number };
        let anchor = if tick == 0 { "start" } else { "middle" };
        if x < rect.left + rect.width - 12 {
            nodes.push(text(&label, "chart-tick", anchor, x, baseline));
        }
    }
}

/// A frame around the window, and dimmed rectangles left and right of it.
fn window_frame(strips: &Strips, window: Window, plot: &Rect) -> Vec<Node> {
    let x = |time: Ns| {
        let (time, length) = (i128::from(time.since(strips.whole.start).0), i128::from(strips.whole.length().0.max(1)));
        i64::try_from(time * i128::from(plot.width) / length).unwrap_or(0).clamp(0, plot.width)
    };
    let (from, to) = (x(window.start), x(window.end).max(x(window.start) + 1).min(plot.width));
    let part = |left: i64, width: i64| Rect { left: plot.left + left, width, ..*plot };
    let sides = [part(0, from), part(to, plot.width - to)];
    let sides = sides.iter().map(|side| Node { class: "strip-outside".to_owned(), ..side.node() });
    let frame = Node { class: "strip-window".to_owned(), ..part(from, (to - from).max(1)).node() };
    sides.chain([frame]).collect()
}

pub(super) fn text(text: &str, class: &str, anchor: &str, x: i64, y: i64) -> Node {
    let attrs = vec![
        ("x", x.to_string()),
        ("y", y.to_string()),
        ("font-size", TEXT.to_string()),
        ("text-anchor", anchor.to_owned()),
    ];
    Node { tag: "text", attrs, class: class.to_owned(), text: text.to_owned(), ..Node::default() }
}

fn name_of(strip: &Strip) -> String {
    match strip.stream {
        Some(stream) => format!("stream {stream}"),
        None => format!("GPU {}", strip.device),
    }
}

fn summary(strips: &Strips) -> String {
    let devices = strips.strips.iter().filter(|strip| strip.stream.is_none());
    let busy: Vec<String> =
        devices.map(|strip| format!("{} busy {}", name_of(strip), percent(strip.busy_share))).collect();
    format!("Work over {}: {}.", duration(strips.whole.length().0), busy.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strips() -> Strips {
        let columns = strip_columns(240);
        let half = |column: usize| if column < columns / 2 { vec![Ns(5), Ns(5)] } else { vec![Ns(0), Ns(10)] };
        let strip = |stream| Strip {
            device: "0".to_owned(),
            stream,
            busy: Ns(10 * columns as i64),
            busy_share: 1.0,
            times: vec![Ns(5 * (columns / 2) as i64), Ns(7 * columns as i64)],
            columns: (0..columns).map(half).collect(),
        };
        Strips {
            whole: Window { start: Ns(100), end: Ns(100 + 10 * columns as i64) },
            categories: vec!["communication".to_owned(), "gemm".to_owned()],
            strips: vec![strip(None), strip(Some(7))],
            streams_left_out: 0,
            devices_left_out: 0,
        }
    }

    #[test]
    fn a_category_is_one_path_per_strip_and_equal_columns_are_one_box() {
        let chart = overview(&strips(), 240);
        let paths: Vec<(&str, &str)> = chart
            .nodes
            .iter()
            .filter(|node| node.tag == "path")
            .map(|node| (node.key.as_str(), node.attrs[0].1.as_str()))
            .collect();
        assert_eq!(paths.len(), 4);
        let (left, half, all) = (left(240), strip_columns(240) as i64 / 2, strip_columns(240) as i64);
        // 26 pixels high: in the first half communication below gemm, in the second half gemm alone.
        let gemm = format!("M{left} 17h{half}v-13h-{half}zM{0} 30h{1}v-26h-{1}z", left + half, all - half);
        assert_eq!(paths[0], ("communication", format!("M{left} 30h{half}v-13h-{half}z").as_str()));
        assert_eq!(paths[1], ("gemm", gemm.as_str()));
    }

    #[test]
    fn the_axis_has_the_width_of_the_strips_and_a_tick_at_their_begin() {
        let (chart, axis) = (overview(&strips(), 240), overview_axis(&strips(), 240));
        assert!(chart.nodes.iter().all(|node| node.class != "chart-tick"), "the axis is no part of the strips");
        assert_eq!((axis.width, axis.nodes[0].text.as_str()), (chart.width, "0 us"));
        assert_eq!(axis.nodes[0].attrs[0].1, left(240).to_string());
    }

    #[test]
    fn fewer_columns_are_a_shorter_plot_with_its_axis_and_frame() {
        let mut short = strips();
        let half = strip_columns(240) / 2;
        short.strips.iter_mut().for_each(|strip| strip.columns.truncate(half));
        let width_of = |node: &Node| node.number("width");
        let chart = overview(&short, 240);
        assert_eq!((chart.width, width_of(&chart.nodes[0])), (overview(&strips(), 240).width, half as f64));
        assert_eq!(width_of(overview_frame(&short, None, 240).last().unwrap()), half as f64);
        let last = |strips: &Strips| overview_axis(strips, 240).nodes.last().unwrap().number("x");
        assert!(last(&short) < left(240) as f64 + half as f64);
    }

    #[test]
    fn time_outside_the_window_is_dimmed_and_the_plot_is_the_last_node() {
        let strips = strips();
        let length = strips.whole.length();
        let window =
            Window { start: strips.whole.start + Ns(length.0 / 4), end: strips.whole.start + Ns(length.0 / 2) };
        let frame = overview_frame(&strips, Some(window), 240);
        let widths: Vec<i64> = frame
            .iter()
            .filter(|node| node.class == "strip-outside")
            .map(|node| node.attrs[2].1.parse().unwrap())
            .collect();
        let all = strip_columns(240) as i64;
        assert_eq!(widths, [all / 4, all - all / 2]);
        let (plot, chart) = (frame.last().unwrap(), overview(&strips, 240));
        assert_eq!((plot.key.as_str(), plot.attrs[0].1.as_str()), ("plot", left(240).to_string().as_str()));
        assert!(chart.summary.contains("GPU 0 busy 100 %"), "{}", chart.summary);
    }
}
