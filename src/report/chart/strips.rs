//! Overview strips: a row a device or stream, a column a pixel of time, stacked by category to the height of its busy part.

use super::axis::TimeAxis;
use super::{Chart, Node, glyphs};
use crate::analysis::time::strips::{Strip, Strips};
use crate::report::format::{duration, percent};
use crate::report::palette;
use crate::trace::{Ns, Window};
use plotters::coord::ranged1d::ValueFormatter;
use std::fmt::Write;

const TOP: i64 = 4;
const RIGHT: i64 = 8;
const AXIS: i64 = 20;
const GAP: i64 = 4;
const DEVICE: i64 = 26;
const STREAM: i64 = 14;
const TEXT: i64 = 12;
/// Below this width labels get less room.
const NARROW: u32 = 520;

/// How many columns a drawing of this width (in pixels) has room for.
pub fn strip_columns(width: u32) -> usize {
    usize::try_from(i64::from(wide(width)) - left(width) - RIGHT).unwrap_or(1)
}

pub(super) fn wide(width: u32) -> u32 {
    width.clamp(240, 4_000)
}

fn left(width: u32) -> i64 {
    if width < NARROW { 76 } else { 132 }
}

/// Draws strips of [`strip_columns`] columns.
pub fn overview(strips: &Strips, width: u32) -> Chart {
    let (left, columns) = (left(width), strip_columns(width) as i64);
    let mut nodes = Vec::new();
    let mut top = TOP;
    let order = places(strips);
    for strip in &strips.strips {
        let height = tall(strip);
        let place = Place { left, top, width: columns, height };
        row(strips, strip, &order, &place, &mut nodes);
        top += height + GAP;
    }
    axis(strips, &Place { left, top, width: columns, height: AXIS }, &mut nodes);
    if strips.streams_left_out > 0 {
        let more = format!("{} more streams, in their device's strip alone", strips.streams_left_out);
        top += AXIS;
        nodes.push(word(&more, "chart-note", "start", left, top + 12));
    }
    Chart { width: wide(width), height: u32::try_from(top + AXIS).unwrap_or(0), summary: summary(strips), nodes }
}

/// What lies over the strips; `picked` is the window that tables show, all else is dimmed.
///
/// The last node is the plot as a whole, with `plot` as its key: where in its width a pointer is, there it is in time.
pub fn overview_frame(strips: &Strips, picked: Option<Window>, width: u32) -> Vec<Node> {
    let height = strips.strips.iter().map(|strip| tall(strip) + GAP).sum::<i64>() - GAP;
    let plot = Place { left: left(width), top: TOP, width: strip_columns(width) as i64, height };
    let mut nodes = picked.map_or_else(Vec::new, |window| dimmed(strips, window, &plot));
    nodes.push(Node { class: "strip-plot".to_owned(), key: "plot".to_owned(), ..plot.rect() });
    nodes
}

fn tall(strip: &Strip) -> i64 {
    if strip.stream.is_some() { STREAM } else { DEVICE }
}

/// A rectangle, in pixels.
pub(super) struct Place {
    pub(super) left: i64,
    pub(super) top: i64,
    pub(super) width: i64,
    pub(super) height: i64,
}

impl Place {
    pub(super) fn rect(&self) -> Node {
        let Self { left, top, width, height } = self;
        let sizes = [("x", left), ("y", top), ("width", width), ("height", height)];
        Node { tag: "rect", attrs: sizes.map(|(name, size)| (name, size.to_string())).to_vec(), ..Node::default() }
    }
}

/// The places of the categories in the order in which they are stacked.
fn places(strips: &Strips) -> Vec<usize> {
    let order = palette::order(strips.categories.iter().map(String::as_str));
    order.iter().filter_map(|name| strips.categories.iter().position(|known| known == name)).collect()
}

fn row(strips: &Strips, strip: &Strip, order: &[usize], place: &Place, nodes: &mut Vec<Node>) {
    let name = name_of(strip);
    let share = percent(strip.busy_share);
    let busy = format!("{name}: busy {share} of {}", duration(strips.whole.length().0));
    nodes.push(Node { class: "strip-idle".to_owned(), title: busy, ..place.rect() });
    let class = if strip.stream.is_some() { "chart-note" } else { "chart-label" };
    let room = (place.left - 8) * 100;
    let with_share = format!("{name} {share}");
    let is_whole = strip.stream.is_none() && glyphs::width(&with_share, TEXT * 112) <= room;
    let label = if is_whole { with_share } else { name };
    let baseline = place.top + place.height / 2 + 4;
    nodes.push(word(&glyphs::shorten(&label, TEXT * 100, room), class, "start", 0, baseline));
    for (above, &at) in order.iter().enumerate() {
        let (Some(category), Some(time)) = (strips.categories.get(at), strip.times.get(at)) else { continue };
        let path = outline(strips, strip, place, (order.get(..above).unwrap_or_default(), at));
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

/// The boxes of one category, which stand on those below it; neighbours of one height are one.
fn outline(strips: &Strips, strip: &Strip, place: &Place, (below, category): (&[usize], usize)) -> String {
    let height_of = |time: i64| pixels(time, strips, place);
    let mut path = String::new();
    let mut open: Option<(i64, i64, i64)> = None;
    for (x, column) in (place.left..).zip(&strip.columns) {
        let time = |at: usize| column.get(at).map_or(0, |time| time.0);
        let under: i64 = below.iter().map(|at| time(*at)).sum();
        let (low, high) = (height_of(under), height_of(under + time(category)));
        if let Some((from, low_before, high_before)) = open
            && (low, high) != (low_before, high_before)
        {
            close(&mut path, place, (from, x), (low_before, high_before));
            open = None;
        }
        if high > low && open.is_none() {
            open = Some((x, low, high));
        }
    }
    if let Some((from, low, high)) = open {
        close(&mut path, place, (from, place.left + strip.columns.len() as i64), (low, high));
    }
    path
}

fn close(path: &mut String, place: &Place, (from, to): (i64, i64), (low, high): (i64, i64)) {
    let (bottom, wide, tall) = (place.top + place.height - low, to - from, high - low);
    let _ = write!(path, "M{from} {bottom}h{wide}v-{tall}h-{wide}z");
}

/// How high so much time of one column stands.
fn pixels(time: i64, strips: &Strips, place: &Place) -> i64 {
    let (time, length) = (i128::from(time), i128::from(strips.whole.length().0.max(1)));
    let full = i128::from(place.height) * i128::from(place.width);
    i64::try_from((time * full * 2 + length) / (length * 2)).unwrap_or(0).min(place.height)
}

fn axis(strips: &Strips, place: &Place, nodes: &mut Vec<Node>) {
    let length = strips.whole.length().0.max(1);
    let time = TimeAxis::new(length, (place.width / 90).clamp(2, 12));
    let baseline = place.top + 12;
    for tick in time.ticks() {
        let x =
            place.left + i64::try_from(i128::from(tick) * i128::from(place.width) / i128::from(length)).unwrap_or(0);
        let text = time.format_ext(&tick);
        let unit = if tick == 0 { format!("{text} {}", time.unit().name()) } else { text };
        let aligned = if tick == 0 { "start" } else { "middle" };
        if x < place.left + place.width - 12 {
            nodes.push(word(&unit, "chart-tick", aligned, x, baseline));
        }
    }
}

/// What is not in the window.
fn dimmed(strips: &Strips, window: Window, plot: &Place) -> Vec<Node> {
    let along = |time: Ns| {
        let (time, length) = (i128::from(time.since(strips.whole.start).0), i128::from(strips.whole.length().0.max(1)));
        i64::try_from(time * i128::from(plot.width) / length).unwrap_or(0).clamp(0, plot.width)
    };
    let (from, to) = (along(window.start), along(window.end).max(along(window.start) + 1).min(plot.width));
    let part = |left: i64, width: i64| Place { left: plot.left + left, width, ..*plot };
    let sides = [part(0, from), part(to, plot.width - to)];
    let sides = sides.iter().map(|side| Node { class: "strip-outside".to_owned(), ..side.rect() });
    let frame = Node { class: "strip-window".to_owned(), ..part(from, (to - from).max(1)).rect() };
    sides.chain([frame]).collect()
}

pub(super) fn word(text: &str, class: &str, anchor: &str, x: i64, y: i64) -> Node {
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
        let half = |at: usize| if at < columns / 2 { vec![Ns(5), Ns(5)] } else { vec![Ns(0), Ns(10)] };
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
        }
    }

    #[test]
    fn a_category_is_one_outline_a_strip_and_neighbours_of_one_height_are_one_box() {
        let chart = overview(&strips(), 240);
        let paths: Vec<(&str, &str)> = chart
            .nodes
            .iter()
            .filter(|node| node.tag == "path")
            .map(|node| (node.key.as_str(), node.attrs[0].1.as_str()))
            .collect();
        assert_eq!(paths.len(), 4);
        let (left, half, all) = (left(240), strip_columns(240) as i64 / 2, strip_columns(240) as i64);
        // 26 pixels high: communication stands below in the first half, gemm on it, then gemm alone.
        let gemm = format!("M{left} 17h{half}v-13h-{half}zM{0} 30h{1}v-26h-{1}z", left + half, all - half);
        assert_eq!(paths[0], ("communication", format!("M{left} 30h{half}v-13h-{half}z").as_str()));
        assert_eq!(paths[1], ("gemm", gemm.as_str()));
    }

    #[test]
    fn what_lies_outside_of_the_window_is_dimmed_and_the_plot_takes_the_pointer() {
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
