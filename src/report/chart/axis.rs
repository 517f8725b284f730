//! The axes of a bar chart: time from zero with round ticks, and rows from top to bottom.
//!
//! Ticks are chosen by integer arithmetic. plotters' own choice goes through `log10` and `powf`, whose last bits differ
//! between native and wasm.

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// A unit of time, by its length in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unit {
    name: &'static str,
    ns: i64,
}

const UNITS: [Unit; 4] = [
    Unit { name: "s", ns: 1_000_000_000 },
    Unit { name: "ms", ns: 1_000_000 },
    Unit { name: "us", ns: 1_000 },
    Unit { name: "ns", ns: 1 },
];

impl Unit {
    /// The largest unit of which `time_ns` holds at least one.
    pub(in crate::report) fn of(time_ns: i64) -> Self {
        let fits = |unit: &&Unit| unit.ns <= time_ns;
        *UNITS.iter().find(fits).unwrap_or(&Unit { name: "ns", ns: 1 })
    }

    pub(in crate::report) fn name(self) -> &'static str {
        self.name
    }

    /// Its length.
    pub(in crate::report) fn ns(self) -> i64 {
        self.ns
    }

    /// The unit at the end of a key such as `total_time_ms`, and what stands before it.
    pub(in crate::report) fn split_suffix(key: &str) -> Option<(&str, Self)> {
        let (stem, name) = key.rsplit_once('_')?;
        // `launches_per_s` is a rate.
        let unit = UNITS.iter().find(|unit| unit.name == name && !stem.ends_with("_per"))?;
        Some((stem, *unit))
    }

    /// `time_ns` in this unit, to `step_ns` and no digit further: 1_500_000 in ms by 500_000 is `1.5`.
    pub(super) fn number(self, time_ns: i64, step_ns: i64) -> String {
        let mut decimals = 0_usize;
        let mut grain = self.ns;
        while grain > 1 && step_ns % grain != 0 {
            grain /= 10;
            decimals += 1;
        }
        decimal(time_ns / grain.max(1), decimals)
    }
}

/// `value` with the last `decimals` digits after the point.
fn decimal(value: i64, decimals: usize) -> String {
    let digits = format!("{value:0>width$}", width = decimals + 1);
    let (whole, part) = digits.split_at(digits.len() - decimals);
    if part.is_empty() { whole.to_owned() } else { format!("{whole}.{part}") }
}

/// The smallest of 1, 2, 5 times a power of ten that cuts `max_ns` into at most `most` parts.
fn step(max_ns: i64, most: i64) -> i64 {
    let need = max_ns / most.max(1) + i64::from(max_ns % most.max(1) != 0);
    let mut power = 1_i64;
    loop {
        for factor in [1, 2, 5] {
            match power.checked_mul(factor) {
                Some(step) if step >= need => return step,
                Some(_) => {}
                None => return i64::MAX,
            }
        }
        power = power.saturating_mul(10);
    }
}

/// Time from zero to `max_ns`, with ticks no closer than asked.
#[derive(Debug, Clone)]
pub(super) struct TimeAxis {
    max_ns: i64,
    step_ns: i64,
    unit: Unit,
}

impl TimeAxis {
    /// An axis up to `max_ns` (at least 1) in at most `most` steps.
    pub(super) fn new(max_ns: i64, most: i64) -> Self {
        let max_ns = max_ns.max(1);
        Self { max_ns, step_ns: step(max_ns, most), unit: Unit::of(max_ns) }
    }

    pub(super) fn unit(&self) -> Unit {
        self.unit
    }

    pub(super) fn ticks(&self) -> Vec<i64> {
        let count = self.max_ns / self.step_ns;
        (0..=count).map(|at| at.saturating_mul(self.step_ns)).collect()
    }
}

impl Ranged for TimeAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = i64;

    fn map(&self, time_ns: &i64, (from, to): (i32, i32)) -> i32 {
        let (max, span) = (i128::from(self.max_ns), i128::from(to) - i128::from(from));
        let along = (i128::from(*time_ns) * span * 2 + max) / (max * 2);
        i32::try_from(i128::from(from) + along).unwrap_or(to)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<i64> {
        // plotters asks twice, for labels and for light lines between them; there are none between.
        if hint.weight().allow_light_points() { Vec::new() } else { self.ticks() }
    }

    fn range(&self) -> Range<i64> {
        0..self.max_ns
    }
}

impl ValueFormatter<i64> for TimeAxis {
    fn format_ext(&self, time_ns: &i64) -> String {
        self.unit.number(*time_ns, self.step_ns)
    }
}

/// Distance from the top of the plot, in the backend's own units.
#[derive(Debug, Clone)]
pub(super) struct RowAxis {
    pub(super) height: i32,
}

impl Ranged for RowAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = i32;

    fn map(&self, down: &i32, (_, top): (i32, i32)) -> i32 {
        top.saturating_add(*down)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<i32> {
        Vec::new()
    }

    fn range(&self) -> Range<i32> {
        0..self.height
    }
}

impl ValueFormatter<i32> for RowAxis {
    fn format_ext(&self, _: &i32) -> String {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let labels = |max_ns, most| {
            let axis = TimeAxis::new(max_ns, most);
            let texts: Vec<String> = axis.ticks().iter().map(|tick| axis.format_ext(tick)).collect();
            format!("{} {}", texts.join(" "), axis.unit().name())
        };
        assert_eq!(labels(31_900_000, 8), "0 5 10 15 20 25 30 ms");
        assert_eq!(labels(1_200_000, 6), "0.0 0.2 0.4 0.6 0.8 1.0 1.2 ms");
        assert_eq!(labels(2_000_000_000, 4), "0.0 0.5 1.0 1.5 2.0 s");
        assert_eq!(labels(0, 6), "0 1 ns");
        assert!(TimeAxis::new(i64::MAX, 6).ticks().len() <= 7);
    }
}
