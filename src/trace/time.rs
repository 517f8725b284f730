//! Time as integer nanoseconds. No time of a file passes through floating point: a double cannot hold epoch time in ns exactly.
//! Only results, such as means, are floating-point numbers.

use crate::json::{FromJson, Json, JsonResult, from_json};
use serde::Serialize;
use std::ops::{Add, AddAssign, Sub};

/// A point in time or a duration, in nanoseconds.
///
/// ```
/// use gpuprism::trace::Ns;
/// assert_eq!(Ns::from_decimal(b"4206692863482.654", 3), Some(Ns(4_206_692_863_482_654)));
/// assert_eq!(Ns::from_decimal(b"-1.9996", 3), Some(Ns(-1_999)));
/// assert_eq!(Ns::from_decimal(b"1.5e3", 3), Some(Ns(1_500_000)));
/// assert_eq!(Ns::from_decimal(b"NaN", 3), None);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash, Serialize)]
pub struct Ns(pub i64);

impl FromJson for Ns {
    fn from_json(json: Json<'_>) -> JsonResult<Self> {
        i64::from_json(json).map(Self)
    }
}

impl Ns {
    /// The duration zero.
    pub const ZERO: Self = Self(0);

    /// Parses decimal text in units of 10^`digits` ns (microseconds: 3). Digits below one nanosecond are truncated, not
    /// rounded. Returns `None` if the text is not a number or does not fit 64 bits.
    pub fn from_decimal(text: &[u8], digits: u32) -> Option<Self> {
        let (negative, text) = match text.split_first()? {
            (b'-', rest) => (true, rest),
            (b'+', rest) => (false, rest),
            _ => (false, text),
        };
        let magnitude = plain(text, digits).or_else(|| scientific(text, digits))?;
        Some(Self(if negative { -magnitude } else { magnitude }))
    }

    /// Parses the number at the start of `text`, like [`Self::from_decimal`] but without an exponent. Also returns the rest.
    pub(crate) fn leading_decimal(text: &[u8], digits: u32) -> Option<(Self, &[u8])> {
        let (negative, text) = match text.split_first()? {
            (b'-', rest) => (true, rest),
            _ => (false, text),
        };
        let (magnitude, rest) = leading(text, digits)?;
        Some((Self(if negative { -magnitude } else { magnitude }), rest))
    }

    /// Returns `self - earlier`. Unchecked, because it is the most frequent operation of the analyses: times that passed
    /// [`is_plausible`](super::is_plausible) cannot overflow.
    pub fn since(self, earlier: Self) -> Self {
        Self(self.0.wrapping_sub(earlier.0))
    }

    /// Returns `self + duration`, unchecked like [`Ns::since`].
    pub fn after(self, duration: Self) -> Self {
        Self(self.0.wrapping_add(duration.0))
    }
}

/// The result of a saturating operation that overflowed. WebAssembly has no saturating instruction; one branch that is never
/// taken is faster than the compiler's replacement for it.
#[cold]
fn out_of_range(is_above: bool) -> i64 {
    if is_above { i64::MAX } else { i64::MIN }
}

/// Parses `digits[.digits]`.
fn plain(text: &[u8], digits: u32) -> Option<i64> {
    let (value, rest) = leading(text, digits)?;
    rest.is_empty().then_some(value)
}

/// Parses the `digits[.digits]` at the start of `text`; also returns the rest.
fn leading(text: &[u8], digits: u32) -> Option<(i64, &[u8])> {
    let (whole, after_whole) = append_digits(0, text)?;
    if after_whole.len() == text.len() {
        return None;
    }
    let Some(fraction) = after_whole.strip_prefix(b".") else {
        return Some((scaled(whole, digits)?, after_whole));
    };
    if let Some((read, count)) = fraction.first_chunk().map(|eight| up_to_eight_digits(*eight))
        && let Some(missing) = digits.checked_sub(count as u32).filter(|_| count < 8)
    {
        let value = whole.checked_mul(*TENS.get(count)?)?.checked_add(read)?;
        return Some((scaled(value, missing)?, fraction.get(count..)?));
    }
    let wanted = fraction.get(..digits as usize).unwrap_or(fraction);
    let (value, unread) = append_digits(whole, wanted)?;
    let read = wanted.len() - unread.len();
    let missing = digits.checked_sub(u32::try_from(read).ok()?)?;
    let mut rest = fraction.get(read..)?;
    while let Some((b'0'..=b'9', after)) = rest.split_first() {
        rest = after;
    }
    Some((scaled(value, missing)?, rest))
}

fn scaled(value: i64, digits: u32) -> Option<i64> {
    if digits == 0 { Some(value) } else { value.checked_mul(10_i64.checked_pow(digits)?) }
}

/// Appends the decimal digits at the start of `text` to those of `value`; also returns the rest.
fn append_digits(mut value: i64, mut text: &[u8]) -> Option<(i64, &[u8])> {
    while let Some(eight) = text.first_chunk() {
        let (read, count) = up_to_eight_digits(*eight);
        value = value.checked_mul(*TENS.get(count)?)?.checked_add(read)?;
        text = text.get(count..)?;
        if count < 8 {
            return Some((value, text));
        }
    }
    while let Some((byte @ b'0'..=b'9', rest)) = text.split_first() {
        value = value.checked_mul(10)?.checked_add(i64::from(byte - b'0'))?;
        text = rest;
    }
    Some((value, text))
}

/// Parses the whole number at the start of `text`; also returns the rest. `None` if there is no digit or it does not fit.
pub(crate) fn leading_integer(text: &[u8]) -> Option<(u64, &[u8])> {
    let (value, rest) = append_digits(0, text)?;
    if rest.len() == text.len() { None } else { Some((u64::try_from(value).ok()?, rest)) }
}

/// Powers of ten by exponent.
const TENS: [i64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// Parses the digits at the start of eight bytes; also returns their number. SWAR: digits are combined to pairs, pairs to
/// groups of four, and those to the number.
fn up_to_eight_digits(text: [u8; 8]) -> (i64, usize) {
    const EVERY: u64 = 0x0101_0101_0101_0101;
    let digits = u64::from_le_bytes(text) ^ (0x30 * EVERY);
    // Seven bits plus 0x76 do not carry into the next byte, and set bit 7 if they are ten or more: not a digit.
    let others = (((digits & (0x7f * EVERY)) + 0x76 * EVERY) | digits) & (0x80 * EVERY);
    let count = others.trailing_zeros() / 8;
    // Move the last digit into the highest byte; zero bytes precede the first digit.
    let digits = digits.checked_shl(u64::BITS - 8 * count).unwrap_or(0);
    let pairs = (digits & 0x0f0f_0f0f_0f0f_0f0f).wrapping_mul(10 * (1 << 8) + 1) >> 8;
    let fours = (pairs & 0x00ff_00ff_00ff_00ff).wrapping_mul(100 * (1 << 16) + 1) >> 16;
    let whole = (fours & 0x0000_ffff_0000_ffff).wrapping_mul(10_000 * (1 << 32) + 1) >> 32;
    (whole as i64, count as usize)
}

/// Parses `digits[.digits]e[+-]digits`: adds the exponent to the scale and parses the mantissa as plain text.
fn scientific(text: &[u8], digits: u32) -> Option<i64> {
    let split = text.iter().position(|byte| matches!(byte, b'e' | b'E'))?;
    let (mantissa, exponent) = text.split_at(split);
    let exponent: i32 = std::str::from_utf8(exponent.get(1..)?).ok()?.parse().ok()?;
    let scale = exponent.checked_add(i32::try_from(digits).ok()?)?;
    if let Ok(scale) = u32::try_from(scale) {
        return if scale > 40 { (plain(mantissa, 0)? == 0).then_some(0) } else { plain(mantissa, scale) };
    }
    let places = scale.checked_neg()?;
    let whole = plain(mantissa, 0)?;
    Some((0..places.min(20)).fold(whole, |value, _| value / 10))
}

impl Add for Ns {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.checked_add(other.0).unwrap_or_else(|| out_of_range(other.0 > 0)))
    }
}

impl Sub for Ns {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.checked_sub(other.0).unwrap_or_else(|| out_of_range(other.0 < 0)))
    }
}

impl AddAssign for Ns {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// A half-open time interval on the clock of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Window {
    /// Start, included.
    pub start: Ns,
    /// End, excluded.
    pub end: Ns,
}
from_json!(Window { start, end });

impl Window {
    /// Returns the duration.
    pub fn length(&self) -> Ns {
        self.end.since(self.start)
    }

    /// Returns true if the interval from `start` to `end` overlaps the window. An interval of zero length overlaps it if it starts
    /// in the window.
    pub fn overlaps(self, start: Ns, end: Ns) -> bool {
        start < self.end && (end > self.start || start >= self.start)
    }

    /// Clips the interval from `start` to `end` to the window. Returns start and duration; `None` if they do not overlap.
    pub fn clip(self, start: Ns, end: Ns) -> Option<(Ns, Ns)> {
        let from = start.max(self.start);
        self.overlaps(start, end).then(|| (from, end.min(self.end).since(from)))
    }
}

/// Some traces round times to microseconds, so a shorter lead shows nothing.
pub(super) const CLOCK_ROUNDING: Ns = Ns(1_000);

/// Whether a time is what profilers write if they collected none.
pub(super) fn is_zero(start: Ns, duration: Ns) -> bool {
    start == Ns::ZERO && duration == Ns::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_text_is_truncated_to_nanoseconds() {
        for (text, digits, expected) in [
            ("7", 3, Some(7_000)),
            ("0", 3, Some(0)),
            ("1.2", 3, Some(1_200)),
            ("1.2349", 3, Some(1_234)),
            ("-0.0019", 3, Some(-1)),
            ("1.", 3, Some(1_000)),
            (".5", 3, None),
            ("", 3, None),
            ("-", 3, None),
            ("12a", 3, None),
            ("1e3", 3, Some(1_000_000)),
            ("1.5E-3", 3, Some(1)),
            ("1e400", 3, None),
            ("9223372036854775807", 0, Some(i64::MAX)),
            ("9223372036854775808", 0, None),
            ("9223372036854775807", 3, None),
            ("12345678", 3, Some(12_345_678_000)),
            ("1234567:", 0, None),
            ("1234567/", 0, None),
            ("1234567?90", 0, None),
            ("99999999.99999999", 3, Some(99_999_999_999)),
            ("0.123456789012", 9, Some(123_456_789)),
            ("4206692863482.654321", 3, Some(4_206_692_863_482_654)),
            ("0.000001", 9, Some(1_000)),
        ] {
            assert_eq!(Ns::from_decimal(text.as_bytes(), digits), expected.map(Ns), "{text} in 10^{digits} ns");
        }
    }
}
