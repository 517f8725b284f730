//! A plot with axes and marks, laid out by plotters. All panels use it with one type of scale, [`Scale`], so that
//! plotters' generic code is compiled once.

use super::super::axis::Unit;
use super::super::backend::{Recorder, Role, UNIT, pixels};
use super::super::layout::{self, SMALL, hatch};
use super::super::{Node, glyphs};
use plotters::chart::ChartBuilder;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::drawing::{DrawingAreaErrorKind, IntoDrawingArea};
use plotters::element::{Drawable, PointCollection};
use plotters::style::TRANSPARENT;
use plotters_backend::{BackendCoord, DrawingErrorKind};
use std::convert::Infallible;
use std::ops::Range;

/// Maps values to positions.
#[derive(Debug, Clone)]
pub(super) enum Scale {
    /// A linear scale; `unit` is set if values are nanoseconds.
    Linear { low: f64, high: f64, step: f64, unit: Option<Unit> },
    /// A logarithmic scale between two powers of ten.
    Log { low: i32, high: i32 },
    /// Rows: values are distances from the top; the field is the height. Both in hundredths of a pixel.
    Rows(i32),
}

/// Larger values are clamped; a report from elsewhere can contain any number.
const LARGEST: f64 = 1e30;

impl Scale {
    /// A linear scale that includes zero, with at most `max_steps` round steps.
    pub(super) fn linear(low: f64, high: f64, max_steps: i32) -> Self {
        let (low, high) = (low.clamp(-LARGEST, 0.0), high.clamp(0.0, LARGEST));
        let high = if high > low { high } else { 1.0 };
        Self::Linear { low, high, step: step(high - low, max_steps), unit: None }
    }

    /// Time from zero, in nanoseconds.
    pub(super) fn time(high_ns: f64, max_steps: i32) -> Self {
        let high = high_ns.clamp(1.0, 9e18);
        Self::Linear { low: 0.0, high, step: step(high, max_steps).max(1.0), unit: Some(Unit::of(high as i64)) }
    }

    /// A logarithmic scale from the power of ten below `low` to the one above `high`; both must be positive.
    pub(super) fn log(low: f64, high: f64) -> Self {
        let low = log10(low.clamp(1.0 / LARGEST, LARGEST)).floor() as i32;
        let high = log10(high.clamp(1.0 / LARGEST, LARGEST)).ceil() as i32;
        Self::Log { low, high: high.max(low + 1) }
    }

    /// The unit of the values; may be empty.
    pub(super) fn unit(&self) -> &'static str {
        if let Self::Linear { unit: Some(unit), .. } = self { unit.name() } else { "" }
    }

    fn ticks(&self) -> Vec<f64> {
        match self {
            Self::Linear { low, high, step, .. } => {
                let (from, to) = ((low / step).ceil() as i64, (high / step).floor() as i64);
                (from..=to).take(100).map(|index| index as f64 * step).collect()
            }
            Self::Log { low, high } => {
                let every = usize::try_from((high - low) / 8 + 1).unwrap_or(1);
                (*low..=*high).step_by(every).map(power_of_ten).collect()
            }
            Self::Rows(_) => Vec::new(),
        }
    }

    /// The relative position of a value: 0 at the start, 1 at the end.
    fn fraction(&self, value: f64) -> f64 {
        let fraction = match self {
            Self::Linear { low, high, .. } => (value - low) / (high - low),
            Self::Log { low, high } => (log10(value) - f64::from(*low)) / f64::from(high - low),
            Self::Rows(height) => value / f64::from((*height).max(1)),
        };
        if fraction.is_finite() { fraction.clamp(-0.5, 1.5) } else { 0.0 }
    }
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        match self {
            // The range goes from bottom to top; rows are measured from the top.
            Self::Rows(_) => to.saturating_add(*value as i32),
            _ => from.saturating_add((self.fraction(*value) * f64::from(to.saturating_sub(from))).round() as i32),
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // plotters calls this twice: for labels, and for light lines between them, which these charts do not have.
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks() }
    }

    fn range(&self) -> Range<f64> {
        match self {
            Self::Linear { low, high, .. } => *low..*high,
            Self::Log { low, high } => power_of_ten(*low)..power_of_ten(*high),
            Self::Rows(height) => 0.0..f64::from(*height),
        }
    }
}

impl ValueFormatter<f64> for Scale {
    fn format_ext(&self, value: &f64) -> String {
        match self {
            Self::Linear { step, unit: Some(unit), .. } => unit.number(value.round() as i64, step.round() as i64),
            Self::Linear { step, .. } => plain(*value, *step),
            Self::Log { .. } => plain(*value, *value),
            Self::Rows(_) => String::new(),
        }
    }
}

/// A multiple of `step` with the decimals of the step.
fn plain(value: f64, step: f64) -> String {
    for (size, name) in [(1e12, "T"), (1e9, "G"), (1e6, "M")] {
        if value.abs() >= size && value.abs() < size * 1e3 {
            return format!("{} {name}", plain(value / size, step / size));
        }
    }
    if value.abs() >= 1e15 || (value != 0.0 && value.abs() < 1e-6) {
        return format!("{value:e}");
    }
    let mut decimals = 0_usize;
    let mut grain = step;
    while decimals < 6 && (grain - grain.round()).abs() > 1e-6 * grain {
        grain *= 10.0;
        decimals += 1;
    }
    format!("{value:.decimals$}")
}

/// The smallest 1, 2 or 5 times a power of ten that divides this length into at most `max_steps` parts.
fn step(length: f64, max_steps: i32) -> f64 {
    let min_step = length / f64::from(max_steps.max(1));
    let mut power = power_of_ten(log10(min_step.max(1.0 / LARGEST)).floor() as i32);
    loop {
        for factor in [1.0, 2.0, 5.0] {
            if power * factor >= min_step {
                return power * factor;
            }
        }
        power *= 10.0;
    }
}

fn power_of_ten(exponent: i32) -> f64 {
    let size = (0..exponent.unsigned_abs().min(300)).fold(1.0, |power: f64, _| power * 10.0);
    if exponent < 0 { 1.0 / size } else { size }
}

/// The decimal logarithm, computed with the four basic operations: the last bits of `f64::log10` differ between native
/// code and WebAssembly.
pub(super) fn log10(value: f64) -> f64 {
    const LN_2: f64 = std::f64::consts::LN_2;
    if !(value.is_normal() && value > 0.0) {
        return -300.0;
    }
    let bits = value.to_bits();
    let exponent = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0) - 1023;
    let mantissa = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    // Between sqrt(1/2) and sqrt(2) the series below is exact to 15 digits.
    let (mantissa, exponent) =
        if mantissa > std::f64::consts::SQRT_2 { (mantissa / 2.0, exponent + 1) } else { (mantissa, exponent) };
    let ratio = (mantissa - 1.0) / (mantissa + 1.0);
    let square = ratio * ratio;
    let series = (0..12).rev().fold(0.0, |sum, at| sum * square + 1.0 / f64::from(2 * at + 1));
    let exact = (f64::from(exponent) * LN_2 + 2.0 * ratio * series) / std::f64::consts::LN_10;
    // Exact for powers of ten, or a tick could be outside its scale.
    if (exact - exact.round()).abs() < 1e-12 { exact.round() } else { exact }
}

/// A drawing area with its scales. Sizes and margins are in hundredths of a pixel.
#[derive(Debug)]
pub(super) struct Plot {
    pub(super) width: i32,
    pub(super) height: i32,
    pub(super) left: i32,
    pub(super) right: i32,
    pub(super) top: i32,
    pub(super) bottom: i32,
    pub(super) x: Scale,
    pub(super) y: Scale,
    /// Label below the x axis.
    pub(super) x_name: String,
    /// Label above the y axis; may be empty.
    pub(super) y_name: String,
}

/// Height of the ticks and the label of an x axis.
pub(super) const AXIS: i32 = 40 * UNIT;

impl Plot {
    /// The width between the margins.
    pub(super) fn inner_width(&self) -> i32 {
        self.width - self.left - self.right
    }

    /// Draws grid and axes, then the marks in order.
    pub(super) fn draw(&self, marks: Vec<Mark>) -> Vec<Node> {
        let mut nodes = Vec::new();
        // The recorder cannot fail, and every area has a positive size.
        let _ = self.draw_into(&mut nodes, marks);
        nodes
    }

    fn draw_into(&self, nodes: &mut Vec<Node>, marks: Vec<Mark>) -> Result<(), DrawingAreaErrorKind<Infallible>> {
        if !self.y_name.is_empty() {
            nodes.push(layout::text(&self.y_name, "chart-axis", (0, 12 * UNIT), SMALL, "start"));
        }
        let area = Recorder::new((self.width.unsigned_abs(), self.height.unsigned_abs()), nodes).into_drawing_area();
        let mut builder = ChartBuilder::on(&area);
        builder.margin_top(self.top).margin_right(self.right);
        builder.x_label_area_size(self.bottom).y_label_area_size(self.left);
        let mut chart = builder.build_cartesian_2d(self.x.clone(), self.y.clone())?;
        let (tick, axis) = (Role::Tick.text(SMALL), Role::Axis.text(SMALL));
        let mut mesh = chart.configure_mesh();
        if matches!(self.y, Scale::Rows(_)) {
            mesh.disable_y_mesh().disable_y_axis();
        }
        mesh.x_labels(self.x.ticks().len()).y_labels(self.y.ticks().len());
        mesh.axis_style(TRANSPARENT).bold_line_style(Role::Grid.colour()).label_style(tick).axis_desc_style(axis);
        mesh.set_all_tick_mark_size(3 * UNIT).x_desc(&self.x_name).draw()?;
        chart.draw_series(marks)?;
        Ok(())
    }
}

/// A shape in a plot.
#[derive(Debug)]
pub(super) struct Mark {
    /// Points in data coordinates.
    pub(super) points: Vec<(f64, f64)>,
    pub(super) shape: Shape,
    /// Class, tooltip and text; tag and position follow from the shape.
    pub(super) node: Node,
}

/// The shape drawn at the points of a mark. Sizes are in hundredths of a pixel.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// A horizontal bar between two points, with this height.
    Bar(i32),
    /// The hatching of a bar with this height.
    Hatch(i32),
    /// The rectangle between two corners.
    Box,
    /// A line through all points.
    Path,
    /// A vertical line between two points, extended upwards by this length.
    VerticalLine(i32),
    /// A circle with this radius.
    Dot(i32),
    /// Text at an offset from a point.
    Text { offset: (i32, i32), size: i32, anchor: &'static str },
}

impl<'a> PointCollection<'a, (f64, f64)> for &'a Mark {
    type Point = &'a (f64, f64);
    type IntoIter = std::slice::Iter<'a, (f64, f64)>;

    fn point_iter(self) -> Self::IntoIter {
        self.points.iter()
    }
}

impl Drawable<Recorder<'_>> for Mark {
    fn draw<I: Iterator<Item = BackendCoord>>(
        &self,
        points: I,
        recorder: &mut Recorder<'_>,
        _: (u32, u32),
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        let points: Vec<BackendCoord> = points.collect();
        if let Some((tag, mut attrs)) = self.shape.element(&points) {
            attrs.extend(self.node.attrs.iter().cloned());
            recorder.push(Node { tag, attrs, ..self.node.clone() });
        }
        Ok(())
    }
}

/// Tag and attributes of a node.
type Element = (&'static str, Vec<(&'static str, String)>);

impl Shape {
    fn element(self, points: &[BackendCoord]) -> Option<Element> {
        let (&first, &last) = (points.first()?, points.last()?);
        let (left, right) = (first.0.min(last.0), first.0.max(last.0));
        Some(match self {
            // At least half a pixel wide, so that every bar is visible.
            Self::Bar(height) => ("rect", layout::rect((left, first.1), ((right - left).max(UNIT / 2), height))),
            Self::Hatch(height) => ("path", vec![("d", hatch((left, first.1), (right, first.1 + height)))]),
            Self::Box => {
                let (top, bottom) = (first.1.min(last.1), first.1.max(last.1));
                ("rect", layout::rect((left, top), (right - left, bottom - top)))
            }
            Self::Path => {
                let points: Vec<String> =
                    points.iter().map(|(x, y)| format!("{},{}", pixels(*x), pixels(*y))).collect();
                ("polyline", vec![("points", points.join(" ")), ("fill", "none".to_owned())])
            }
            Self::VerticalLine(above) => {
                let (top, bottom) = (first.1.min(last.1).saturating_sub(above), first.1.max(last.1));
                ("line", layout::line("", (left, top), (left, bottom)).attrs)
            }
            Self::Dot(radius) => {
                let (r, across) = (pixels(radius), pixels(2 * radius));
                let (x, y) = (pixels(first.0 - radius), pixels(first.1));
                ("path", vec![("d", format!("M{x},{y}a{r},{r} 0 1 0 {across},0a{r},{r} 0 1 0 -{across},0z"))])
            }
            Self::Text { offset: (right, down), size, anchor } => {
                let position = (first.0.saturating_add(right), first.1.saturating_add(down));
                ("text", layout::text("", "", position, size, anchor).attrs)
            }
        })
    }
}

/// The width of a text in hundredths of a pixel.
pub(super) fn text_width(text: &str, size: i32) -> i32 {
    i32::try_from(glyphs::width(text, i64::from(size))).unwrap_or(i32::MAX / 4).min(i32::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log10_agrees_with_the_standard_library() {
        for value in [1e-29, 3.3e-7, 0.1, 0.5, 1.0, 1.41, 1.42, 2.0, 9.99, 989.0, 1e15, 7.7e29] {
            assert!((log10(value) - value.log10()).abs() < 1e-13 * value.log10().abs().max(1.0), "{value}");
        }
        for exponent in -12..=12 {
            assert_eq!(log10(power_of_ten(exponent)), f64::from(exponent), "exact for powers of ten");
        }
        assert!(log10(0.0) < -100.0 && log10(-1.0) < -100.0 && log10(f64::NAN) < -100.0);
    }

    fn labels(scale: &Scale) -> String {
        let texts: Vec<String> = scale.ticks().iter().map(|tick| scale.format_ext(tick)).collect();
        format!("{} {}", texts.join(" "), scale.unit())
    }

    #[test]
    fn ticks_are_few_round_numbers_and_include_zero() {
        assert_eq!(labels(&Scale::time(31_900_000.0, 8)), "0 5 10 15 20 25 30 ms");
        assert_eq!(labels(&Scale::linear(-34.0, 52.0, 6)), "-20 0 20 40 ");
        assert_eq!(labels(&Scale::linear(0.0, 0.0, 4)), "0.0 0.5 1.0 ");
        assert_eq!(
            labels(&Scale::linear(0.0, 2.5e9, 5)),
            "0 500 M 1 G 2 G ".replace("1 G", "1.0 G").replace("2 G", "1.5 G 2.0 G 2.5 G")
        );
        assert!(Scale::linear(f64::MIN, f64::MAX, 6).ticks().len() < 10);
    }

    #[test]
    fn a_logarithmic_scale_has_ticks_at_powers_of_ten() {
        assert_eq!(labels(&Scale::log(0.3, 295.0)), "0.1 1 10 100 1000 ");
        assert_eq!(labels(&Scale::log(10.0, 10.0)), "10 100 ");
        let scale = Scale::log(1.0, 10_000.0);
        let positions: Vec<i32> = scale.ticks().iter().map(|tick| scale.map(tick, (0, 400))).collect();
        assert_eq!(positions, [0, 100, 200, 300, 400]);
        assert!(Scale::log(1e-30, 1e30).ticks().len() <= 9);
    }
}
