//! Sizes and small marks that all charts share.
//!
//! Charts that plotters lays out count in hundredths of a pixel ([`UNIT`]), the strips and those of one kernel in pixels.

use super::Node;
use super::backend::{UNIT, pixels, words};

/// Sizes of text, in hundredths of a pixel.
pub(super) const TEXT: i32 = 12 * UNIT;
pub(super) const SMALL: i32 = 11 * UNIT;
/// Labels of runs are bold, which runs wider than the glyph widths say: the size to measure them with.
pub(super) const BOLD: i32 = TEXT * 112 / 100;
/// Above the first row.
pub(super) const TOP: i32 = 2 * UNIT;
/// Between the drawing and its edges.
pub(super) const EDGE: i32 = 8 * UNIT;
/// Below this width the name of a row stands above its bar instead of beside it.
pub(super) const NARROW: i32 = 520 * UNIT;

/// The width of a chart in hundredths of a pixel: at least 240 pixels, and no more than a screen has.
pub(super) fn width(pixels: u32) -> i32 {
    i32::try_from(pixels.clamp(240, 10_000)).unwrap_or(960) * UNIT
}

/// Hundredths of a pixel as the whole pixels of a chart's size.
pub(super) fn whole(units: i32) -> u32 {
    units.unsigned_abs() / UNIT.unsigned_abs()
}

/// The baseline of text of this size whose middle is at `middle`.
pub(super) fn baseline(middle: i32, size: i32) -> i32 {
    middle.saturating_add(size * 7 / 20)
}

/// Words of a class.
pub(super) fn word(text: &str, class: &str, at: (i32, i32), size: i32, aligned: &str) -> Node {
    Node { class: class.to_owned(), ..words(text, at, size, aligned) }
}

/// A line from place to place.
pub(super) fn line(class: &str, (x1, y1): (i32, i32), (x2, y2): (i32, i32)) -> Node {
    let attrs = [("x1", x1), ("y1", y1), ("x2", x2), ("y2", y2)];
    let attrs = attrs.map(|(name, value)| (name, pixels(value))).to_vec();
    Node { tag: "line", attrs, class: class.to_owned(), ..Node::default() }
}

/// Where a rectangle stands.
pub(super) fn rect((x, y): (i32, i32), (width, height): (i32, i32)) -> Vec<(&'static str, String)> {
    let place = [("x", x), ("y", y), ("width", width), ("height", height)];
    place.map(|(name, value)| (name, pixels(value))).to_vec()
}

const HATCH: i32 = 7 * UNIT;

/// Rising strokes across a rectangle, cut at its edges by construction: no pattern, no clip path, one flat node.
pub(super) fn hatch((left, top): (i32, i32), (right, bottom): (i32, i32)) -> String {
    let tall = bottom - top;
    let mut strokes = Vec::new();
    let mut foot = left - tall + HATCH;
    while foot < right {
        let (from, to) = (foot.max(left), (foot + tall).min(right));
        let height_at = |x: i32| bottom - (x - foot);
        if from < to {
            strokes.push(format!(
                "M{},{}L{},{}",
                pixels(from),
                pixels(height_at(from)),
                pixels(to),
                pixels(height_at(to))
            ));
        }
        foot += HATCH;
    }
    strokes.concat()
}
