//! [`Recorder`], a plotters backend that records drawing calls as [`Node`]s.
//!
//! Plotters uses integer coordinates. One pixel is 100 units ([`UNIT`]), so positions are exact to a hundredth of a pixel.
//! Plotters passes colours, not CSS classes, so each [`Role`] has a colour that is mapped back to its class.

use super::{Node, glyphs};
use plotters::style::{FontFamily, IntoFont, RGBColor, TextStyle};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind};
use std::convert::Infallible;

/// Backend units per pixel.
pub(super) const UNIT: i32 = 100;

type DrawResult = Result<(), DrawingErrorKind<Infallible>>;

/// The role of an element that plotters draws by itself; it decides the CSS class.
#[derive(Debug, Clone, Copy)]
pub(super) enum Role {
    Grid,
    Tick,
    Axis,
}

impl Role {
    const ALL: [Self; 3] = [Self::Grid, Self::Tick, Self::Axis];

    pub(super) fn colour(self) -> &'static RGBColor {
        match self {
            Self::Grid => &RGBColor(0, 0, 1),
            Self::Tick => &RGBColor(0, 0, 2),
            Self::Axis => &RGBColor(0, 0, 3),
        }
    }

    pub(super) fn text(self, size: i32) -> TextStyle<'static> {
        // A generic family: a font name would be lower-cased, which adds Unicode tables of 8 KB to the module.
        TextStyle::from((FontFamily::SansSerif, size).into_font()).color(self.colour())
    }

    fn class(self) -> &'static str {
        match self {
            Self::Grid => "chart-grid",
            Self::Tick => "chart-tick",
            Self::Axis => "chart-axis",
        }
    }

    fn class_of(colour: BackendColor) -> String {
        let same = |role: &Self| {
            let RGBColor(r, g, b) = role.colour();
            (*r, *g, *b) == colour.rgb
        };
        Self::ALL.into_iter().find(same).map_or("", Self::class).to_owned()
    }
}

/// Appends all drawing calls to a list of nodes.
pub(super) struct Recorder<'a> {
    size: (u32, u32),
    nodes: &'a mut Vec<Node>,
}

impl<'a> Recorder<'a> {
    /// A canvas of `size` backend units.
    pub(super) fn new(size: (u32, u32), nodes: &'a mut Vec<Node>) -> Self {
        Self { size, nodes }
    }

    pub(super) fn push(&mut self, node: Node) {
        self.nodes.push(node);
    }

    fn shape(&mut self, tag: &'static str, attrs: Vec<(&'static str, String)>, colour: BackendColor) -> DrawResult {
        if colour.alpha > 0.0 {
            self.push(Node { tag, attrs, class: Role::class_of(colour), ..Node::default() });
        }
        Ok(())
    }
}

/// Backend units in pixels without trailing zeros: 1250 is `12.5`.
pub(super) fn pixels(units: i32) -> String {
    let (sign, size) = (if units < 0 { "-" } else { "" }, units.unsigned_abs());
    let (whole, part) = (size / UNIT.unsigned_abs(), size % UNIT.unsigned_abs());
    match part {
        0 => format!("{sign}{whole}"),
        part if part % 10 == 0 => format!("{sign}{whole}.{}", part / 10),
        part => format!("{sign}{whole}.{part:02}"),
    }
}

fn points(path: impl IntoIterator<Item = BackendCoord>) -> String {
    let all: Vec<String> = path.into_iter().map(|(x, y)| format!("{},{}", pixels(x), pixels(y))).collect();
    all.join(" ")
}

impl DrawingBackend for Recorder<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> DrawResult {
        Ok(())
    }

    fn present(&mut self) -> DrawResult {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, colour: BackendColor) -> DrawResult {
        let attrs = vec![("x", pixels(x)), ("y", pixels(y)), ("width", "1".to_owned()), ("height", "1".to_owned())];
        self.shape("rect", attrs, colour)
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> DrawResult {
        let attrs = vec![("x1", pixels(from.0)), ("y1", pixels(from.1)), ("x2", pixels(to.0)), ("y2", pixels(to.1))];
        self.shape("line", attrs, style.color())
    }

    fn draw_rect<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S, _: bool) -> DrawResult {
        let (width, height) = (to.0.saturating_sub(from.0), to.1.saturating_sub(from.1));
        let attrs =
            vec![("x", pixels(from.0)), ("y", pixels(from.1)), ("width", pixels(width)), ("height", pixels(height))];
        self.shape("rect", attrs, style.color())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> DrawResult {
        self.shape("polyline", vec![("points", points(path)), ("fill", "none".to_owned())], style.color())
    }

    fn draw_circle<S: BackendStyle>(&mut self, centre: BackendCoord, radius: u32, style: &S, _: bool) -> DrawResult {
        let radius = i32::try_from(radius).unwrap_or(i32::MAX);
        let (left, y, r) = (pixels(centre.0.saturating_sub(radius)), pixels(centre.1), pixels(radius));
        let across = pixels(radius.saturating_mul(2));
        let d = format!("M{left},{y}a{r},{r} 0 1 0 {across},0a{r},{r} 0 1 0 -{across},0z");
        self.shape("path", vec![("d", d)], style.color())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        corners: I,
        style: &S,
    ) -> DrawResult {
        self.shape("path", vec![("d", format!("M{}z", points(corners)))], style.color())
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, (x, y): BackendCoord) -> DrawResult {
        let (size, anchor) = (font_size(style), style.anchor());
        let baseline = match anchor.v_pos {
            VPos::Top => y.saturating_add(size * 4 / 5),
            VPos::Center => y.saturating_add(size * 7 / 20),
            VPos::Bottom => y.saturating_sub(size / 5),
        };
        let text_anchor = match anchor.h_pos {
            HPos::Left => "start",
            HPos::Center => "middle",
            HPos::Right => "end",
        };
        if style.color().alpha > 0.0 {
            let node = text_node(text, (x, baseline), size, text_anchor);
            self.push(Node { class: Role::class_of(style.color()), ..node });
        }
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        let size = font_size(style);
        let width = glyphs::width(text, i64::from(size));
        Ok((u32::try_from(width).unwrap_or(u32::MAX), size.unsigned_abs()))
    }
}

/// A text node. `size` is in backend units; `anchor` is the SVG attribute `text-anchor`.
pub(super) fn text_node(text: &str, (x, baseline): BackendCoord, size: i32, anchor: &str) -> Node {
    let mut attrs = vec![("x", pixels(x)), ("y", pixels(baseline)), ("font-size", pixels(size))];
    if anchor != "start" {
        attrs.push(("text-anchor", anchor.to_owned()));
    }
    Node { tag: "text", attrs, text: text.to_owned(), ..Node::default() }
}

#[expect(clippy::cast_possible_truncation, reason = "font sizes are small whole numbers that we set ourselves")]
fn font_size<S: BackendTextStyle>(style: &S) -> i32 {
    style.size() as i32
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
