//! A plot as plotters lays it out, with one kind of scale either way, and the marks in it. All panels are drawn by it, so
//! that plotters' generic code is compiled once.

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

/// How values become places.
#[derive(Debug, Clone)]
pub(super) enum Scale {
    /// Evenly; `unit` where they are nanoseconds.
    Linear { low: f64, high: f64, step: f64, unit: Option<Unit> },
    /// By powers of ten, from one to another.
    Log { low: i32, high: i32 },
    /// Rows: distance from the top, in hundredths of a pixel.
    Rows(i32),
}

/// No larger figure is drawn: what a file of somebody's may hold beyond it tells nothing.
const LARGEST: f64 = 1e30;

impl Scale {
    /// From the lowest to the highest, with zero between them, in at most `most` round steps.
    pub(super) fn linear(low: f64, high: f64, most: i32) -> Self {
        let (low, high) = (low.clamp(-LARGEST, 0.0), high.clamp(0.0, LARGEST));
        let high = if high > low { high } else { 1.0 };
        Self::Linear { low, high, step: step(high - low, most), unit: None }
    }

    /// Time from zero, in nanoseconds.
    pub(super) fn time(high_ns: f64, most: i32) -> Self {
        let high = high_ns.clamp(1.0, 9e18);
        Self::Linear { low: 0.0, high, step: step(high, most).max(1.0), unit: Some(Unit::of(high as i64)) }
    }

    /// Powers of ten around the lowest and the highest, both above zero.
    pub(super) fn log(low: f64, high: f64) -> Self {
        let low = log10(low.clamp(1.0 / LARGEST, LARGEST)).floor() as i32;
        let high = log10(high.clamp(1.0 / LARGEST, LARGEST)).ceil() as i32;
        Self::Log { low, high: high.max(low + 1) }
    }

    /// The unit of its values; empty where it has none.
    pub(super) fn unit(&self) -> &'static str {
        if let Self::Linear { unit: Some(unit), .. } = self { unit.name() } else { "" }
    }

    fn ticks(&self) -> Vec<f64> {
        match self {
            Self::Linear { low, high, step, .. } => {
                let (from, to) = ((low / step).ceil() as i64, (high / step).floor() as i64);
                (from..=to).take(100).map(|at| at as f64 * step).collect()
            }
            Self::Log { low, high } => {
                let every = usize::try_from((high - low) / 8 + 1).unwrap_or(1);
                (*low..=*high).step_by(every).map(power_of_ten).collect()
            }
            Self::Rows(_) => Vec::new(),
        }
    }

    /// Where a value is between the ends, from zero to one.
    fn along(&self, value: f64) -> f64 {
        let along = match self {
            Self::Linear { low, high, .. } => (value - low) / (high - low),
            Self::Log { low, high } => (log10(value) - f64::from(*low)) / f64::from(high - low),
            Self::Rows(height) => value / f64::from((*height).max(1)),
        };
        if along.is_finite() { along.clamp(-0.5, 1.5) } else { 0.0 }
    }
}

impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        match self {
            // plotters counts from the bottom; rows stand below each other.
            Self::Rows(_) => to.saturating_add(*value as i32),
            _ => from.saturating_add((self.along(*value) * f64::from(to.saturating_sub(from))).round() as i32),
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        // plotters asks twice, for labels and for light lines between them; there are none between.
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

/// A round number with the digits that its step has.
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

/// The smallest of 1, 2, 5 times a power of ten that cuts this length into at most so many parts.
fn step(length: f64, most: i32) -> f64 {
    let need = length / f64::from(most.max(1));
    let mut power = power_of_ten(log10(need.max(1.0 / LARGEST)).floor() as i32);
    loop {
        for factor in [1.0, 2.0, 5.0] {
            if power * factor >= need {
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

/// The common logarithm by the four operations alone: a library's last bits differ between native and wasm.
pub(super) fn log10(value: f64) -> f64 {
    const LN_2: f64 = std::f64::consts::LN_2;
    if !(value.is_normal() && value > 0.0) {
        return -300.0;
    }
    let bits = value.to_bits();
    let exponent = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0) - 1023;
    let part = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
    // From the square root of a half to that of two, the series below has fifteen digits.
    let (part, exponent) = if part > std::f64::consts::SQRT_2 { (part / 2.0, exponent + 1) } else { (part, exponent) };
    let ratio = (part - 1.0) / (part + 1.0);
    let square = ratio * ratio;
    let series = (0..12).rev().fold(0.0, |sum, at| sum * square + 1.0 / f64::from(2 * at + 1));
    let exact = (f64::from(exponent) * LN_2 + 2.0 * ratio * series) / std::f64::consts::LN_10;
    // Powers of ten are whole, or a tick would fall out of its own scale.
    if (exact - exact.round()).abs() < 1e-12 { exact.round() } else { exact }
}

/// A drawing area with its scales. Sizes in hundredths of a pixel.
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
    /// Under the x axis.
    pub(super) x_name: String,
    /// Above the y axis; empty where it needs none.
    pub(super) y_name: String,
}

/// Room for ticks and the name of an x axis.
pub(super) const AXIS: i32 = 40 * UNIT;

impl Plot {
    /// How wide the inner part is.
    pub(super) fn inner_width(&self) -> i32 {
        self.width - self.left - self.right
    }

    /// Grid and axes, then the marks in their order.
    pub(super) fn draw(&self, marks: Vec<Mark>) -> Vec<Node> {
        let mut nodes = Vec::new();
        // The recorder cannot fail, and the layout leaves every area a positive size.
        let _ = self.draw_into(&mut nodes, marks);
        nodes
    }

    fn draw_into(&self, nodes: &mut Vec<Node>, marks: Vec<Mark>) -> Result<(), DrawingAreaErrorKind<Infallible>> {
        if !self.y_name.is_empty() {
            nodes.push(layout::word(&self.y_name, "chart-axis", (0, 12 * UNIT), SMALL, "start"));
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

/// Something in a plot: a node without its place, which follows from `at`.
#[derive(Debug)]
pub(super) struct Mark {
    pub(super) at: Vec<(f64, f64)>,
    pub(super) shape: Shape,
    pub(super) node: Node,
}

/// What becomes of a mark's places.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    /// A bar from one place to another to its right or left, so tall.
    Bar(i32),
    /// The strokes of a bar.
    Hatch(i32),
    /// The box between two corners.
    Box,
    /// A line through all places.
    Path,
    /// A line between two places, and so far on above the upper one.
    Upright(i32),
    /// A circle of so large a radius.
    Dot(i32),
    /// Words beside a place, so far away, of a size, aligned.
    Words { by: (i32, i32), size: i32, aligned: &'static str },
}

impl<'a> PointCollection<'a, (f64, f64)> for &'a Mark {
    type Point = &'a (f64, f64);
    type IntoIter = std::slice::Iter<'a, (f64, f64)>;

    fn point_iter(self) -> Self::IntoIter {
        self.at.iter()
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
        if let Some((tag, mut place)) = self.shape.place(&points) {
            place.extend(self.node.attrs.iter().cloned());
            recorder.push(Node { tag, attrs: place, ..self.node.clone() });
        }
        Ok(())
    }
}

type Placed = (&'static str, Vec<(&'static str, String)>);

impl Shape {
    fn place(self, points: &[BackendCoord]) -> Option<Placed> {
        let (&first, &last) = (points.first()?, points.last()?);
        let (left, right) = (first.0.min(last.0), first.0.max(last.0));
        Some(match self {
            // A bar that stands for anything is seen.
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
            Self::Upright(above) => {
                let (top, bottom) = (first.1.min(last.1).saturating_sub(above), first.1.max(last.1));
                ("line", layout::line("", (left, top), (left, bottom)).attrs)
            }
            Self::Dot(radius) => {
                let (r, across) = (pixels(radius), pixels(2 * radius));
                let (x, y) = (pixels(first.0 - radius), pixels(first.1));
                ("path", vec![("d", format!("M{x},{y}a{r},{r} 0 1 0 {across},0a{r},{r} 0 1 0 -{across},0z"))])
            }
            Self::Words { by: (right, down), size, aligned } => {
                let at = (first.0.saturating_add(right), first.1.saturating_add(down));
                ("text", layout::word("", "", at, size, aligned).attrs)
            }
        })
    }
}

/// How wide words are, in hundredths of a pixel.
pub(super) fn wide(text: &str, size: i32) -> i32 {
    i32::try_from(glyphs::width(text, i64::from(size))).unwrap_or(i32::MAX / 4).min(i32::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_logarithm_is_that_of_the_library() {
        for value in [1e-29, 3.3e-7, 0.1, 0.5, 1.0, 1.41, 1.42, 2.0, 9.99, 989.0, 1e15, 7.7e29] {
            assert!((log10(value) - value.log10()).abs() < 1e-13 * value.log10().abs().max(1.0), "{value}");
        }
        for exponent in -12..=12 {
            assert_eq!(log10(power_of_ten(exponent)), f64::from(exponent), "powers of ten are whole");
        }
        assert!(log10(0.0) < -100.0 && log10(-1.0) < -100.0 && log10(f64::NAN) < -100.0);
    }

    fn labels(scale: &Scale) -> String {
        let texts: Vec<String> = scale.ticks().iter().map(|tick| scale.format_ext(tick)).collect();
        format!("{} {}", texts.join(" "), scale.unit())
    }

    #[test]
    fn ticks_are_round_and_few_and_hold_zero() {
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
    fn a_logarithmic_scale_has_a_tick_at_each_power_of_ten_around_its_values() {
        assert_eq!(labels(&Scale::log(0.3, 295.0)), "0.1 1 10 100 1000 ");
        assert_eq!(labels(&Scale::log(10.0, 10.0)), "10 100 ");
        let scale = Scale::log(1.0, 10_000.0);
        let at: Vec<i32> = scale.ticks().iter().map(|tick| scale.map(tick, (0, 400))).collect();
        assert_eq!(at, [0, 100, 200, 300, 400]);
        assert!(Scale::log(1e-30, 1e30).ticks().len() <= 9);
    }
}
