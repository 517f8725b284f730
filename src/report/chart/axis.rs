//! Units of time, and the time axis of bar charts: from zero, with round ticks.
//!
//! Ticks and positions are computed with integers: the last bits of `log10` and `powf` differ between native code and
//! WebAssembly.

/// A unit of time: s, ms, us or ns.
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
    /// The largest unit that is not longer than `time_ns`; `ns` for zero and negative times.
    pub(in crate::report) fn of(time_ns: i64) -> Self {
        let fits = |unit: &&Unit| unit.ns <= time_ns;
        *UNITS.iter().find(fits).unwrap_or(&Unit { name: "ns", ns: 1 })
    }

    pub(in crate::report) fn name(self) -> &'static str {
        self.name
    }

    /// Length in nanoseconds.
    pub(in crate::report) fn ns(self) -> i64 {
        self.ns
    }

    /// Splits a key such as `total_time_ms` into its stem and its unit.
    pub(in crate::report) fn split_suffix(key: &str) -> Option<(&str, Self)> {
        let (stem, name) = key.rsplit_once('_')?;
        // `launches_per_s` is a rate.
        let unit = UNITS.iter().find(|unit| unit.name == name && !stem.ends_with("_per"))?;
        Some((stem, *unit))
    }

    /// `time_ns` in this unit with the decimals that `step_ns` needs: 1_500_000 in ms with a step of 500_000 is `1.5`.
    pub(in crate::report) fn number(self, time_ns: i64, step_ns: i64) -> String {
        let mut decimals = 0_usize;
        let mut grain = self.ns;
        while grain > 1 && step_ns % grain != 0 {
            grain /= 10;
            decimals += 1;
        }
        decimal(time_ns / grain.max(1), decimals)
    }
}

/// `value` divided by ten to the power of `decimals`, with its digits in groups: `-1,234.5`.
fn decimal(value: i64, decimals: usize) -> String {
    let sign = if value < 0 { "-" } else { "" };
    let scale = u32::try_from(decimals).ok().and_then(|decimals| 10_u64.checked_pow(decimals)).unwrap_or(u64::MAX);
    let (whole, part) = (value.unsigned_abs() / scale, value.unsigned_abs() % scale);
    let part = if decimals == 0 { String::new() } else { format!(".{part:0>decimals$}") };
    format!("{sign}{}{part}", crate::digits::grouped(whole))
}

/// The smallest 1, 2 or 5 times a power of ten that divides `max_ns` into at most `max_steps` parts.
fn step(max_ns: i64, max_steps: i64) -> i64 {
    let min_step = max_ns / max_steps.max(1) + i64::from(max_ns % max_steps.max(1) != 0);
    let mut power = 1_i64;
    loop {
        for factor in [1, 2, 5] {
            match power.checked_mul(factor) {
                Some(step) if step >= min_step => return step,
                Some(_) => {}
                None => return i64::MAX,
            }
        }
        power = power.saturating_mul(10);
    }
}

/// A time axis from zero to `max_ns` with round ticks.
#[derive(Debug, Clone)]
pub(super) struct TimeAxis {
    max_ns: i64,
    step_ns: i64,
    unit: Unit,
}

impl TimeAxis {
    /// An axis up to `max_ns` (at least 1) with at most `max_steps` steps.
    pub(super) fn new(max_ns: i64, max_steps: i64) -> Self {
        let max_ns = max_ns.max(1);
        Self { max_ns, step_ns: step(max_ns, max_steps), unit: Unit::of(max_ns) }
    }

    pub(super) fn unit(&self) -> Unit {
        self.unit
    }

    pub(super) fn ticks(&self) -> Vec<i64> {
        let count = self.max_ns / self.step_ns;
        (0..=count).map(|step| step.saturating_mul(self.step_ns)).collect()
    }

    pub(super) fn label(&self, tick_ns: i64) -> String {
        self.unit.number(tick_ns, self.step_ns)
    }

    /// The position of a time on an axis between these positions.
    pub(super) fn position(&self, time_ns: i64, ends: (i32, i32)) -> i32 {
        position(time_ns.into(), self.max_ns.into(), ends)
    }
}

/// The position of `value` between `from`, the position of 0, and `to`, the position of `length`.
pub(super) fn position(value: i128, length: i128, (from, to): (i32, i32)) -> i32 {
    let span = i128::from(to) - i128::from(from);
    let offset = (value * span * 2 + length) / (length * 2);
    i32::try_from(i128::from(from) + offset).unwrap_or(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_few_round_numbers() {
        let labels = |max_ns, max_steps| {
            let axis = TimeAxis::new(max_ns, max_steps);
            let texts: Vec<String> = axis.ticks().iter().map(|tick| axis.label(*tick)).collect();
            format!("{} {}", texts.join(" "), axis.unit().name())
        };
        assert_eq!(labels(31_900_000, 8), "0 5 10 15 20 25 30 ms");
        assert_eq!(labels(1_200_000, 6), "0.0 0.2 0.4 0.6 0.8 1.0 1.2 ms");
        assert_eq!(labels(2_000_000_000, 4), "0.0 0.5 1.0 1.5 2.0 s");
        assert_eq!(labels(0, 6), "0 1 ns");
        assert!(TimeAxis::new(i64::MAX, 6).ticks().len() <= 7);
    }
}
