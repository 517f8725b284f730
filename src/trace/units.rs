//! Numbers with their unit in the type: results of an analysis that are not whole nanoseconds. The sections write them as columns, and
//! `words` writes them in sentences.

use super::Ns;

macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
        pub struct $name(pub f64);
    )* };
}

numbers! {
    /// A time in nanoseconds that may be fractional, such as a mean.
    MeanNs;
    /// A time in microseconds.
    Us;
    /// A time in milliseconds.
    Ms;
    /// A time in seconds.
    Seconds;
    /// A point in time in milliseconds on the clock of the trace.
    AtMs;
    /// A part of a whole in per cent, 0 to 100.
    Pct;
    /// A part of a whole, 0 to 1.
    Fraction;
}

impl From<Ns> for Ms {
    fn from(time: Ns) -> Self {
        Self(time.0 as f64 / 1e6)
    }
}

impl From<MeanNs> for Ms {
    fn from(time: MeanNs) -> Self {
        Self(time.0 / 1e6)
    }
}

impl From<Ms> for MeanNs {
    fn from(time: Ms) -> Self {
        Self(time.0 * 1e6)
    }
}

impl From<Us> for MeanNs {
    fn from(time: Us) -> Self {
        Self(time.0 * 1e3)
    }
}

impl From<Ns> for Us {
    fn from(time: Ns) -> Self {
        Self(time.0 as f64 / 1e3)
    }
}

impl From<Pct> for Fraction {
    fn from(share: Pct) -> Self {
        Self(share.0 / 100.0)
    }
}

impl Pct {
    /// `part / whole` in per cent; zero if `whole` is zero.
    pub fn of(part: Ns, whole: Ns) -> Self {
        Self(if whole == Ns::ZERO { 0.0 } else { 100.0 * part.0 as f64 / whole.0 as f64 })
    }
}
