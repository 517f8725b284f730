//! The recording backend: what plotters draws becomes nodes.
//!
//! plotters counts whole pixels; this backend tells it that a pixel is a hundred units ([`UNIT`]), so that bars end
//! where the numbers say, to a hundredth of a pixel. plotters knows colours only, so a colour stands for a class ([`Role`]).

use super::{Node, glyphs};
use plotters::style::{FontFamily, IntoFont, RGBColor, TextStyle};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind};
use std::convert::Infallible;

/// Backend units a pixel.
pub(super) const UNIT: i32 = 100;

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

/// What a thing drawn by plotters itself is; its colour for plotters, its class in the node.
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
        // A name of a font would be looked up in small letters, and Unicode's tables of them with it.
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

/// Records into a list that outlives it.
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

    fn shape(&mut self, tag: &'static str, attrs: Vec<(&'static str, String)>, colour: BackendColor) -> Drawn {
        if colour.alpha > 0.0 {
            self.push(Node { tag, attrs, class: Role::class_of(colour), ..Node::default() });
        }
        Ok(())
    }
}

/// Backend units as pixels, without needless zeros: 1250 is `12.5`.
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

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, (x, y): BackendCoord, colour: BackendColor) -> Drawn {
        let dot = ("1".to_owned(), "1".to_owned());
        self.shape("rect", vec![("x", pixels(x)), ("y", pixels(y)), ("width", dot.0), ("height", dot.1)], colour)
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        let attrs = vec![("x1", pixels(from.0)), ("y1", pixels(from.1)), ("x2", pixels(to.0)), ("y2", pixels(to.1))];
        self.shape("line", attrs, style.color())
    }

    fn draw_rect<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S, _: bool) -> Drawn {
        let (width, height) = (to.0.saturating_sub(from.0), to.1.saturating_sub(from.1));
        let attrs =
            vec![("x", pixels(from.0)), ("y", pixels(from.1)), ("width", pixels(width)), ("height", pixels(height))];
        self.shape("rect", attrs, style.color())
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn {
        self.shape("polyline", vec![("points", points(path)), ("fill", "none".to_owned())], style.color())
    }

    fn draw_circle<S: BackendStyle>(&mut self, centre: BackendCoord, radius: u32, style: &S, _: bool) -> Drawn {
        let radius = i32::try_from(radius).unwrap_or(i32::MAX);
        let (left, y, r) = (pixels(centre.0.saturating_sub(radius)), pixels(centre.1), pixels(radius));
        let across = pixels(radius.saturating_mul(2));
        let d = format!("M{left},{y}a{r},{r} 0 1 0 {across},0a{r},{r} 0 1 0 -{across},0z");
        self.shape("path", vec![("d", d)], style.color())
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, corners: I, style: &S) -> Drawn {
        self.shape("path", vec![("d", format!("M{}z", points(corners)))], style.color())
    }

    fn draw_text<S: BackendTextStyle>(&mut self, text: &str, style: &S, (x, y): BackendCoord) -> Drawn {
        let (size, anchor) = (font_size(style), style.anchor());
        let baseline = match anchor.v_pos {
            VPos::Top => y.saturating_add(size * 4 / 5),
            VPos::Center => y.saturating_add(size * 7 / 20),
            VPos::Bottom => y.saturating_sub(size / 5),
        };
        let aligned = match anchor.h_pos {
            HPos::Left => "start",
            HPos::Center => "middle",
            HPos::Right => "end",
        };
        if style.color().alpha > 0.0 {
            let node = words(text, (x, baseline), size, aligned);
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

/// A text node: `size` in backend units, `aligned` as in `text-anchor`.
pub(super) fn words(text: &str, (x, baseline): BackendCoord, size: i32, aligned: &str) -> Node {
    let mut attrs = vec![("x", pixels(x)), ("y", pixels(baseline)), ("font-size", pixels(size))];
    if aligned != "start" {
        attrs.push(("text-anchor", aligned.to_owned()));
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
