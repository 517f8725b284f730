//! Shares, amounts and bytes in texts, from typed numbers; no cost worth naming. Whole numbers: [`grouped`].

use crate::digits::grouped;
use crate::trace::{Fraction, Pct};

/// A fraction in per cent: `61.2 %`.
///
/// ```
/// use gpuprism::report::format::percent;
/// assert_eq!((percent(0.61234), percent(1.0), percent(0.0)), ("61.2 %".into(), "100 %".into(), "0 %".into()));
/// ```
pub fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

/// Three significant digits, at most three decimals, all integer digits in groups of three: `1,234`, `12.3`, `0.012`,
/// `<0.001`.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size < 0.0005 => "<0.001".to_owned(),
        size if size < 0.9995 => format!("{value:.3}"),
        size if size < 9.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        size if size < 999.5 => format!("{value:.0}"),
        size => format!("{}{}", if value < 0.0 { "-" } else { "" }, grouped(size.round() as u64)),
    }
}

/// A share that sentences state.
pub(crate) trait Share {
    /// In per cent.
    fn pct(self) -> f64;
}

impl Share for Pct {
    fn pct(self) -> f64 {
        self.0
    }
}

impl Share for Fraction {
    fn pct(self) -> f64 {
        100.0 * self.0
    }
}

/// A share with one decimal: `61.2 %`.
pub(crate) fn percent_1(share: impl Share) -> String {
    format!("{:.1} %", share.pct())
}

/// A share without decimals: `61 %`.
pub(crate) fn percent_0(share: impl Share) -> String {
    format!("{:.0} %", share.pct())
}

/// A range of shares with one decimal: `40.1 to 53.2 %`.
pub(crate) fn percents_1(least: impl Share, most: impl Share) -> String {
    format!("{:.1} to {}", least.pct(), percent_1(most))
}

/// A mean of counts: whole, or with one decimal: `8,192`, `31.5`.
pub(crate) fn mean_count(mean: f64) -> String {
    if mean.fract() == 0.0 { grouped(mean as u64) } else { format!("{mean:.1}") }
}

/// A number with one decimal below 10, else without: `2.5`, `62`.
pub(crate) fn short(value: f64) -> String {
    if value < 9.95 { format!("{value:.1}") } else { grouped(value.round() as u64) }
}

/// A part of a time: two decimals below 1, else one: `0.45`, `1.5`.
pub(crate) fn short_part(value: f64) -> String {
    if value < 0.995 { format!("{value:.2}") } else { format!("{value:.1}") }
}

/// A number with at most two decimals, without trailing zeros: `3.35`, `8`.
pub(crate) fn trimmed(value: f64) -> String {
    format!("{value:.2}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The smallest and the largest of some counts: `1-4`.
pub(crate) fn range(min: u64, max: u64) -> String {
    format!("{min}-{max}")
}

/// A number of bytes: `24.6 kB`.
pub(crate) fn bytes(bytes: f64) -> String {
    match bytes {
        bytes if bytes >= 1e9 => format!("{:.1} GB", bytes / 1e9),
        bytes if bytes >= 1e6 => format!("{:.1} MB", bytes / 1e6),
        bytes if bytes >= 1e3 => format!("{:.1} kB", bytes / 1e3),
        bytes => format!("{bytes:.0} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_reads_the_same_as_a_fraction_and_in_per_cent() {
        assert_eq!((percent_1(Fraction(0.612)), percent_1(Pct(61.2))), ("61.2 %".into(), "61.2 %".into()));
        assert_eq!((percent_0(Pct(61.5)), percents_1(Pct(1.0), Pct(100.0))), ("62 %".into(), "1.0 to 100.0 %".into()));
    }

    #[test]
    fn amounts_have_as_many_digits_as_they_need() {
        assert_eq!([8_192.0, 31.5].map(mean_count), ["8,192", "31.5"]);
        assert_eq!([9.94, 9.95, 1_204.4].map(short), ["9.9", "10", "1,204"]);
        assert_eq!([0.994, 1.5].map(short_part), ["0.99", "1.5"]);
        assert_eq!([3.35, 8.0, 2.5].map(trimmed), ["3.35", "8", "2.5"]);
        assert_eq!([12.0, 24_600.0, 2e6, 3.5e9].map(bytes), ["12 bytes", "24.6 kB", "2.0 MB", "3.5 GB"]);
    }

    #[test]
    fn digits_keeps_three_significant_digits_and_all_integer_digits() {
        for (value, want) in [
            (0.0, "0"),
            (0.0001, "<0.001"),
            (0.0123, "0.012"),
            (0.9996, "1.00"),
            (1.234, "1.23"),
            (9.996, "10.0"),
            (12.34, "12.3"),
            (99.96, "100"),
            (123.4, "123"),
            (98_765.4, "98,765"),
            (-1234.0, "-1,234"),
            (-12.34, "-12.3"),
        ] {
            assert_eq!(digits(value), want, "{value}");
        }
    }
}
