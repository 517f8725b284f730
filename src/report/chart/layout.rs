//! Sizes and elements that several charts share, in hundredths of a pixel ([`UNIT`]).
//!
//! The overview strips and the charts of one kernel use whole pixels instead.

use super::{Chart, Node};

/// Units per pixel.
pub(super) const UNIT: i32 = 100;
/// Font size of normal text.
pub(super) const TEXT: i32 = 12 * UNIT;
/// Font size of small text.
pub(super) const SMALL: i32 = 11 * UNIT;
/// The size for measuring bold text, which is wider than the widths in `glyphs`.
pub(super) const BOLD: i32 = TEXT * 112 / 100;
/// Margin above the first row.
pub(super) const TOP: i32 = 2 * UNIT;
/// Height of the ticks and the name of an x axis.
pub(super) const AXIS: i32 = 40 * UNIT;
/// Margin at the left and right edges.
pub(super) const EDGE: i32 = 8 * UNIT;
/// Below this width the name of a row is above its bar instead of to its left.
pub(super) const NARROW: i32 = 520 * UNIT;

/// The width of a chart in units, limited to 240 to 10,000 pixels.
pub(super) fn width(pixels: u32) -> i32 {
    i32::try_from(pixels.clamp(240, 10_000)).unwrap_or(960) * UNIT
}

/// A chart of this size in units.
pub(super) fn chart(width: i32, height: i32, summary: String, nodes: Vec<Node>) -> Chart {
    let whole_pixels = |units: i32| units.unsigned_abs() / UNIT.unsigned_abs();
    Chart { width: whole_pixels(width), height: whole_pixels(height), summary, nodes }
}

/// Units in pixels without trailing zeros: 1250 is `12.5`.
pub(super) fn pixels(units: i32) -> String {
    let (sign, size) = (if units < 0 { "-" } else { "" }, units.unsigned_abs());
    let (whole, part) = (size / UNIT.unsigned_abs(), size % UNIT.unsigned_abs());
    match part {
        0 => format!("{sign}{whole}"),
        part if part % 10 == 0 => format!("{sign}{whole}.{}", part / 10),
        part => format!("{sign}{whole}.{part:02}"),
    }
}

/// The baseline of text that is vertically centred at `middle`.
pub(super) fn baseline(middle: i32, size: i32) -> i32 {
    middle.saturating_add(size * 7 / 20)
}

/// A text with a CSS class. `anchor` is the SVG attribute `text-anchor`.
pub(super) fn text(text: &str, class: &str, (x, baseline): (i32, i32), size: i32, anchor: &str) -> Node {
    let mut attrs = vec![("x", pixels(x)), ("y", pixels(baseline)), ("font-size", pixels(size))];
    if anchor != "start" {
        attrs.push(("text-anchor", anchor.to_owned()));
    }
    Node { tag: "text", attrs, class: class.to_owned(), text: text.to_owned(), ..Node::default() }
}

/// A text of which only `shown` fits. The tooltip then has the full text.
pub(super) fn short_text(full: &str, shown: &str, class: &str, position: (i32, i32), size: i32, anchor: &str) -> Node {
    let title = if shown == full { String::new() } else { full.to_owned() };
    Node { title, ..text(shown, class, position, size, anchor) }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pixels_have_at_most_two_decimals() {
        let texts: Vec<String> = [0, 5, 50, 100, 1234, -1250].into_iter().map(pixels).collect();
        assert_eq!(texts, ["0", "0.05", "0.5", "1", "12.34", "-12.5"]);
    }
}
