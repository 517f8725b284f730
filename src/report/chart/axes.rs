//! The grid, the tick labels and the name of the x axis of a plot, laid out by plotters.
//!
//! Scales compute the positions of their ticks themselves ([`Tick`]): with integers for times, because the last bits of
//! `log10` and `powf` differ between native code and WebAssembly. Plotters passes colours, not CSS classes, so the name of
//! the axis has a colour of its own, from which [`Recorder`] gets the class of a text.

use super::layout::{AXIS, SMALL, UNIT, line, text};
use super::{Node, glyphs};
use plotters::chart::ChartBuilder;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::drawing::{DrawingAreaErrorKind, IntoDrawingArea};
use plotters::style::{FontFamily, IntoFont, RGBColor, TRANSPARENT, TextStyle};
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind};
use std::convert::Infallible;
use std::ops::Range;

/// Position and label of a tick. Positions here are in hundredths of a pixel.
pub(super) type Tick = (i32, String);

/// Draws the axes of a plot between two corners. A plot without y ticks has no y axis.
pub(super) fn axes(
    left_top: (i32, i32),
    right_bottom: (i32, i32),
    x_name: &str,
    x_ticks: Vec<Tick>,
    y_ticks: Vec<Tick>,
) -> Vec<Node> {
    let mut nodes = Vec::new();
    // The recorder cannot fail, and every area has a positive size.
    let _ = draw(left_top, right_bottom, x_name, (Ticks(x_ticks), Ticks(y_ticks)), &mut nodes);
    nodes
}

fn draw(
    (left, top): (i32, i32),
    (right, bottom): (i32, i32),
    x_name: &str,
    (x, y): (Ticks, Ticks),
    nodes: &mut Vec<Node>,
) -> Result<(), DrawingAreaErrorKind<Infallible>> {
    let size = (right.unsigned_abs(), bottom.saturating_add(AXIS).unsigned_abs());
    let area = Recorder { size, nodes }.into_drawing_area();
    let (x_count, y_count) = (x.0.len(), y.0.len());
    let mut builder = ChartBuilder::on(&area);
    builder.margin_top(top).x_label_area_size(AXIS).y_label_area_size(left);
    let mut chart = builder.build_cartesian_2d(x, y)?;
    let mut mesh = chart.configure_mesh();
    if y_count == 0 {
        mesh.disable_y_mesh().disable_y_axis();
    }
    mesh.x_labels(x_count).y_labels(y_count).set_all_tick_mark_size(3 * UNIT).axis_style(TRANSPARENT);
    // A generic font family: a font's name would be lower-cased, which adds Unicode tables of 8 KB to the module.
    let text = TextStyle::from((FontFamily::SansSerif, SMALL).into_font());
    mesh.bold_line_style(TICK).label_style(text.color(TICK)).axis_desc_style(text.color(AXIS_NAME));
    mesh.x_desc(x_name).draw()
}

const TICK: &RGBColor = &RGBColor(0, 0, 1);
const AXIS_NAME: &RGBColor = &RGBColor(0, 0, 2);

/// An axis whose values are the positions of its ticks.
#[derive(Clone)]
struct Ticks(Vec<Tick>);

impl Ranged for Ticks {
    type FormatOption = NoDefaultFormatting;
    type ValueType = i32;

    fn map(&self, position: &i32, _: (i32, i32)) -> i32 {
        *position
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<i32> {
        // plotters calls this twice: for labels, and for light lines between them, which these charts do not have.
        if hint.weight().allow_light_points() {
            Vec::new()
        } else {
            self.0.iter().map(|(position, _)| *position).collect()
        }
    }

    fn range(&self) -> Range<i32> {
        0..i32::MAX
    }
}

impl ValueFormatter<i32> for Ticks {
    fn format_ext(&self, position: &i32) -> String {
        self.0.iter().find(|(known, _)| known == position).map(|(_, label)| label.clone()).unwrap_or_default()
    }
}

/// A plotters backend that appends lines and texts to a list of nodes.
struct Recorder<'a> {
    size: (u32, u32),
    nodes: &'a mut Vec<Node>,
}

type DrawResult<T = ()> = Result<T, DrawingErrorKind<Infallible>>;

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

    /// Plotters draws single pixels only for shapes that axes do not have.
    fn draw_pixel(&mut self, _: BackendCoord, _: BackendColor) -> DrawResult {
        Ok(())
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> DrawResult {
        if style.color().alpha > 0.0 {
            self.nodes.push(line("chart-grid", from, to));
        }
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(&mut self, label: &str, style: &S, (x, y): BackendCoord) -> DrawResult {
        let baseline = match style.anchor().v_pos {
            VPos::Top => y.saturating_add(SMALL * 4 / 5),
            VPos::Center => y.saturating_add(SMALL * 7 / 20),
            VPos::Bottom => y.saturating_sub(SMALL / 5),
        };
        let anchor = match style.anchor().h_pos {
            HPos::Left => "start",
            HPos::Center => "middle",
            HPos::Right => "end",
        };
        let RGBColor(red, green, blue) = *AXIS_NAME;
        let class = if style.color().rgb == (red, green, blue) { "chart-axis" } else { "chart-tick" };
        self.nodes.push(text(label, class, (x, baseline), SMALL, anchor));
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(&self, text: &str, _: &S) -> DrawResult<(u32, u32)> {
        Ok((glyphs::width(text, SMALL).unsigned_abs(), SMALL.unsigned_abs()))
    }
}
