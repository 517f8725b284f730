//! Times in texts, from typed times; no cost worth naming. Three forms:
//!
//! - [`time`]: sentences about a trace, where a glance is enough: `1.2 ms`, `120 us`.
//! - [`duration`], [`change`] and [`range`]: three significant digits, beside charts and tables.
//! - [`SentenceUnit`]: all numbers of one sentence in the unit of its first.

use super::numbers::{digits, short};
use crate::digits::grouped;
use crate::trace::{MeanNs, Ms, Ns};

/// A time in s, ms or us: `2.10 s`, `1.2 ms`, `120 us`.
pub(crate) fn time(Ms(ms): Ms) -> String {
    match ms {
        ms if ms >= 1e3 => format!("{:.2} s", ms / 1e3),
        ms if ms >= 1.0 => format!("{ms:.1} ms"),
        ms => format!("{:.0} us", ms * 1e3),
    }
}

/// The same of whole nanoseconds.
pub(crate) fn time_of(time_ns: Ns) -> String {
    time(time_ns.into())
}

/// `1.2 ms a step`.
pub(crate) fn time_per_step(per_step: Ms) -> String {
    format!("{} a step", time(per_step))
}

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
    pub(crate) fn of(time_ns: i64) -> Self {
        let fits = |unit: &&Unit| unit.ns <= time_ns;
        *UNITS.iter().find(fits).unwrap_or(&Unit { name: "ns", ns: 1 })
    }

    pub(crate) fn name(self) -> &'static str {
        self.name
    }

    /// Length in nanoseconds.
    pub(crate) fn ns(self) -> i64 {
        self.ns
    }

    /// Splits a key such as `total_time_ms` into its stem and its unit.
    pub(crate) fn split_suffix(key: &str) -> Option<(&str, Self)> {
        let (stem, name) = key.rsplit_once('_')?;
        // `launches_per_s` is a rate.
        let unit = UNITS.iter().find(|unit| unit.name == name && !stem.ends_with("_per"))?;
        Some((stem, *unit))
    }

    /// `time_ns` in this unit with the decimals that `step_ns` needs: 1_500_000 in ms with a step of 500_000 is `1.5`.
    pub(crate) fn number(self, time_ns: i64, step_ns: i64) -> String {
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
    format!("{sign}{}{part}", grouped(whole))
}

/// A duration with its unit: `31.9 ms`.
///
/// ```
/// use gpuprism::report::format::duration;
/// assert_eq!(duration(31_905_483), "31.9 ms");
/// assert_eq!(duration(0), "0 ns");
/// assert_eq!(duration(7_200_000_000_000), "7,200 s");
/// ```
pub fn duration(ns: i64) -> String {
    let unit = Unit::of(ns);
    format!("{} {}", digits(ns as f64 / unit.ns() as f64), unit.name())
}

/// A time range, in the unit of its length and with three digits of it: a short range late in a trace has two different ends.
///
/// ```
/// use gpuprism::report::format::range;
/// assert_eq!(range(1_203_457_120, 1_203_857_120), "1,203,457 to 1,203,857 us");
/// assert_eq!(range(0, 2_500_000_000), "0 to 2.50 s");
/// ```
pub fn range(from_ns: i64, to_ns: i64) -> String {
    let length = to_ns.saturating_sub(from_ns);
    format!("{} to {} {}", digits_like(from_ns, length), digits_like(to_ns, length), Unit::of(length).name())
}

/// A time with the digits that a difference of this length has: `1,203,457 us` for 400 us.
pub fn time_like(ns: i64, length_ns: i64) -> String {
    format!("{} {}", digits_like(ns, length_ns), Unit::of(length_ns).name())
}

/// The digits of a time in the unit of a length, as many after the point as give the length three digits.
fn digits_like(ns: i64, length_ns: i64) -> String {
    let unit = Unit::of(length_ns);
    let step_ns = match length_ns / unit.ns() {
        ..10 => unit.ns() / 100,
        10..100 => unit.ns() / 10,
        _ => unit.ns(),
    };
    if ns == 0 { "0".to_owned() } else { unit.number(ns, step_ns.max(1)) }
}

/// A difference of durations with its sign: `+31.9 ms`.
///
/// ```
/// use gpuprism::report::format::change;
/// assert_eq!((change(12_000_000), change(-500), change(0)), ("+12.0 ms".into(), "-500 ns".into(), "0 ns".into()));
/// ```
pub fn change(ns: i64) -> String {
    let sign = match ns {
        ..0 => "-",
        0 => "",
        1.. => "+",
    };
    format!("{sign}{}", duration(ns.saturating_abs()))
}

/// The unit of a sentence. All its numbers have the unit of the first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SentenceUnit {
    name: &'static str,
    ns: f64,
}

impl SentenceUnit {
    /// The unit of a sentence that begins with this time.
    pub(crate) fn of(first: impl Into<MeanNs>) -> Self {
        match first.into().0 {
            ns if ns >= 1e9 => Self { name: "s", ns: 1e9 },
            ns if ns >= 1e6 => Self { name: "ms", ns: 1e6 },
            _ => Self { name: "us", ns: 1e3 },
        }
    }

    /// Parts of a layer are short: microseconds up to 10 ms.
    pub(crate) fn of_layer(layer: impl Into<MeanNs>) -> Self {
        let layer = layer.into();
        if layer.0 < 1e7 { Self { name: "us", ns: 1e3 } } else { Self::of(layer) }
    }

    /// A time in this unit.
    pub(crate) fn amount(self, time: impl Into<MeanNs>) -> f64 {
        time.into().0 / self.ns
    }

    /// A time with this unit: `18.9 ms`, `198 us`.
    pub(crate) fn text(self, time: impl Into<MeanNs>) -> String {
        match self.name {
            "us" => format!("{} us", short(self.amount(time))),
            name => format!("{:.1} {name}", self.amount(time)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::Us;

    #[test]
    fn a_time_in_a_sentence_has_the_digits_of_a_glance() {
        let times = [2_104.0, 1_000.0, 999.96, 1.25, 0.12, 0.0].map(|ms| time(Ms(ms)));
        assert_eq!(times, ["2.10 s", "1.00 s", "1000.0 ms", "1.2 ms", "120 us", "0 us"]);
        assert_eq!((time_of(Ns(1_500_000)), time_per_step(Ms(1.5))), ("1.5 ms".into(), "1.5 ms a step".into()));
    }

    #[test]
    fn all_numbers_of_a_sentence_have_the_unit_of_its_first() {
        let step = SentenceUnit::of(Ms(18.9));
        assert_eq!((step.text(Ms(18.9)), step.amount(Us(450.0))), ("18.9 ms".into(), 0.45));
        let layer = SentenceUnit::of_layer(Us(9_999.0));
        assert_eq!((layer.text(Us(9_999.0)), layer.text(Us(5.0))), ("9,999 us".into(), "5.0 us".into()));
        assert_eq!(SentenceUnit::of_layer(Us(10_000.0)).text(Us(10_000.0)), "10.0 ms");
    }

    #[test]
    fn the_ends_of_a_range_have_three_digits_of_its_length() {
        for (from, to, want) in [
            (70_000, 110_000, "70.0 to 110.0 us"),
            (-500, 400, "-500 to 400 ns"),
            (999_996, 1_000_005, "999,996 to 1,000,005 ns"),
            (-1_500_000, 7_000_000, "-1.50 to 7.00 ms"),
            (3_600_000_000_000, 3_600_000_040_000, "3,600,000,000.0 to 3,600,000,040.0 us"),
            (i64::MIN, i64::MAX, "-9,223,372,036 to 9,223,372,036 s"),
            (5, 5, "5 to 5 ns"),
        ] {
            assert_eq!(range(from, to), want);
        }
        assert_eq!(time_like(70_004, 5_000), "70.00 us");
    }
}
