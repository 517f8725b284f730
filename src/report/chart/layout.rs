//! Sizes and elements that several charts share, in backend units (hundredths of a pixel, [`UNIT`]).
//!
//! The overview strips and the charts of one kernel use whole pixels instead.

use super::Node;
use super::backend::{UNIT, pixels, text_node};

/// Font size of normal text.
pub(super) const TEXT: i32 = 12 * UNIT;
/// Font size of small text.
pub(super) const SMALL: i32 = 11 * UNIT;
/// The size for measuring bold text, which is wider than the widths in `glyphs`.
pub(super) const BOLD: i32 = TEXT * 112 / 100;
/// Margin above the first row.
pub(super) const TOP: i32 = 2 * UNIT;
/// Margin at the left and right edges.
pub(super) const EDGE: i32 = 8 * UNIT;
/// Below this width the name of a row is above its bar instead of to its left.
pub(super) const NARROW: i32 = 520 * UNIT;

/// The width of a chart in units, limited to 240 to 10,000 pixels.
pub(super) fn width(pixels: u32) -> i32 {
    i32::try_from(pixels.clamp(240, 10_000)).unwrap_or(960) * UNIT
}

/// Units in whole pixels, for the size of a chart.
pub(super) fn to_pixels(units: i32) -> u32 {
    units.unsigned_abs() / UNIT.unsigned_abs()
}

/// The baseline of text that is vertically centred at `middle`.
pub(super) fn baseline(middle: i32, size: i32) -> i32 {
    middle.saturating_add(size * 7 / 20)
}

/// A text with a CSS class.
pub(super) fn text(text: &str, class: &str, position: (i32, i32), size: i32, anchor: &str) -> Node {
    Node { class: class.to_owned(), ..text_node(text, position, size, anchor) }
}

/// A line between two points.
pub(super) fn line(class: &str, (x1, y1): (i32, i32), (x2, y2): (i32, i32)) -> Node {
    let attrs = [("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2)];
    let attrs = attrs.map(|(name, value)| (name, pixels(value))).to_vec();
    Node { tag: "line", attrs, class: class.to_owned(), ..Node::default() }
}

/// The attributes of a rectangle.
pub(super) fn rect((x, y): (i32, i32), (width, height): (i32, i32)) -> Vec<(&'static str, String)> {
    let attrs = [("x", x), ("y", y), ("width", width), ("height", height)];
    attrs.map(|(name, value)| (name, pixels(value))).to_vec()
}

/// Horizontal distance of hatching lines.
const HATCH: i32 = 7 * UNIT;

/// The path of rising hatching lines inside a rectangle. The lines are clipped by computation, so that the node needs no
/// SVG pattern or clip path.
pub(super) fn hatch((left, top): (i32, i32), (right, bottom): (i32, i32)) -> String {
    let height = bottom - top;
    let mut strokes = Vec::new();
    let mut start = left - height + HATCH;
    while start < right {
        let (from, to) = (start.max(left), (start + height).min(right));
        let y_at = |x: i32| bottom - (x - start);
        if from < to {
            strokes.push(format!("M{},{}L{},{}", pixels(from), pixels(y_at(from)), pixels(to), pixels(y_at(to))));
        }
        start += HATCH;
    }
    strokes.concat()
}
