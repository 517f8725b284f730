//! The time axis of bar charts: from zero, with round ticks.
//!
//! Ticks and positions are computed with integers: the last bits of `log10` and `powf` differ between native code and
//! WebAssembly.

pub use crate::words::times::Unit;

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
