//! A plot with axes and marks. All panels use it.

use super::super::axes::{Tick, axes};
use super::super::axis::Unit;
use super::super::layout::{self, AXIS, SMALL, UNIT, hatch, pixels};
use super::super::{Chart, Node};
use crate::digits::grouped_text;
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

    /// The position of a value on an axis between these positions.
    pub(super) fn position(&self, value: f64, (from, to): (i32, i32)) -> i32 {
        match self {
            // The axis goes from bottom to top; rows are measured from the top.
            Self::Rows(_) => to.saturating_add(value as i32),
            _ => from.saturating_add((self.fraction(value) * f64::from(to.saturating_sub(from))).round() as i32),
        }
    }

    pub(super) fn range(&self) -> Range<f64> {
        match self {
            Self::Linear { low, high, .. } => *low..*high,
            Self::Log { low, high } => power_of_ten(*low)..power_of_ten(*high),
            Self::Rows(height) => 0.0..f64::from(*height),
        }
    }

    fn label(&self, tick: f64) -> String {
        match self {
            Self::Linear { step, unit: Some(unit), .. } => unit.number(tick.round() as i64, step.round() as i64),
            Self::Linear { step, .. } => plain(tick, *step),
            Self::Log { .. } => plain(tick, tick),
            Self::Rows(_) => String::new(),
        }
    }

    /// Position and label of each tick on an axis between these positions.
    fn positioned_ticks(&self, ends: (i32, i32)) -> Vec<Tick> {
        self.ticks().into_iter().map(|tick| (self.position(tick, ends), self.label(tick))).collect()
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
    grouped_text(&format!("{value:.decimals$}"))
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
    let series = (0..12).rev().fold(0.0, |sum, index| sum * square + 1.0 / f64::from(2 * index + 1));
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
    pub(super) x: Scale,
    pub(super) y: Scale,
    /// Label below the x axis.
    pub(super) x_name: String,
    /// Label above the y axis; may be empty.
    pub(super) y_name: String,
}

/// Narrower columns have no gap between them; in hundredths of a pixel.
const MIN_GAP_WIDTH: i32 = 5 * UNIT;

/// The class, after a blank, that separates columns of this width. The gap would hide narrow ones.
pub(super) fn gap_class(width: i32) -> &'static str {
    if width >= MIN_GAP_WIDTH { " dash-column" } else { "" }
}

impl Plot {
    /// The width between the margins.
    pub(super) fn inner_width(&self) -> i32 {
        self.width - self.left - self.right
    }

    /// Draws grid and axes, then the marks in order.
    pub(super) fn draw(&self, marks: Vec<Mark>) -> Vec<Node> {
        let mut nodes = Vec::new();
        if !self.y_name.is_empty() {
            nodes.push(layout::text(&self.y_name, "chart-axis", (0, 12 * UNIT), SMALL, "start"));
        }
        let (right, bottom) = (self.width - self.right, self.height - AXIS);
        // The last position of an axis is inside the plot.
        let (x_ends, y_ends) = ((self.left, right - 1), (bottom - 1, self.top));
        let (x_ticks, y_ticks) = (self.x.positioned_ticks(x_ends), self.y.positioned_ticks(y_ends));
        nodes.extend(axes((self.left, self.top), (right, bottom), &self.x_name, x_ticks, y_ticks));
        let position = |&(x, y): &(f64, f64)| {
            let (x, y) = (self.x.position(x, x_ends), self.y.position(y, y_ends));
            (x.min(right).max(self.left), y.min(bottom).max(self.top))
        };
        nodes.extend(marks.into_iter().filter_map(|Mark { points, shape, node }| {
            let positions: Vec<(i32, i32)> = points.iter().map(position).collect();
            let (tag, mut attrs) = shape.element(&positions)?;
            attrs.extend(node.attrs);
            Some(Node { tag, attrs, ..node })
        }));
        nodes
    }

    /// The chart with these nodes.
    pub(super) fn chart(&self, summary: String, nodes: Vec<Node>) -> Chart {
        layout::chart(self.width, self.height, summary, nodes)
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

impl Mark {
    pub(super) fn new(shape: Shape, points: Vec<(f64, f64)>, class: &str, title: &str) -> Self {
        let node = Node { class: class.to_owned(), title: title.to_owned(), ..Node::default() };
        Self { points, shape, node }
    }

    pub(super) fn with_text(mut self, text: String) -> Self {
        self.node.text = text;
        self
    }
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
    /// The hatching of the rectangle between two corners.
    HatchBox,
    /// A line through all points.
    Path,
    /// A vertical line between two points, extended upwards by this length.
    VerticalLine(i32),
    /// A circle with this radius.
    Dot(i32),
    /// Text at an offset from a point.
    Text { offset: (i32, i32), size: i32, anchor: &'static str },
}

/// Tag and attributes of a node.
type Element = (&'static str, Vec<(&'static str, String)>);

impl Shape {
    fn element(self, points: &[(i32, i32)]) -> Option<Element> {
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
            Self::HatchBox => {
                let (top, bottom) = (first.1.min(last.1), first.1.max(last.1));
                ("path", vec![("d", hatch((left, top), (right, bottom)))])
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
        let texts: Vec<String> = scale.ticks().iter().map(|tick| scale.label(*tick)).collect();
        format!("{} {}", texts.join(" "), scale.unit())
    }

    #[test]
    fn ticks_are_few_round_numbers_and_include_zero() {
        assert_eq!(labels(&Scale::time(31_900_000.0, 8)), "0 5 10 15 20 25 30 ms");
        assert_eq!(labels(&Scale::linear(-34.0, 52.0, 6)), "-20 0 20 40 ");
        assert_eq!(labels(&Scale::linear(0.0, 0.0, 4)), "0.0 0.5 1.0 ");
        assert_eq!(labels(&Scale::linear(0.0, 2.5e9, 5)), "0 500 M 1.0 G 1.5 G 2.0 G 2.5 G ");
        assert!(Scale::linear(f64::MIN, f64::MAX, 6).ticks().len() < 10);
    }

    #[test]
    fn a_logarithmic_scale_has_ticks_at_powers_of_ten() {
        assert_eq!(labels(&Scale::log(0.3, 295.0)), "0.1 1 10 100 1,000 ");
        assert_eq!(labels(&Scale::log(10.0, 10.0)), "10 100 ");
        let scale = Scale::log(1.0, 10_000.0);
        let positions: Vec<i32> = scale.ticks().iter().map(|tick| scale.position(*tick, (0, 400))).collect();
        assert_eq!(positions, [0, 100, 200, 300, 400]);
        assert!(Scale::log(1e-30, 1e30).ticks().len() <= 9);
    }
}
