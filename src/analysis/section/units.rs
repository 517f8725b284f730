//! The types of columns and figures. The type of a column decides its unit, its form in JSON and how it is shown.
//!
//! | type | JSON | suffix of the key |
//! |---|---|---|
//! | [`Ns`] | whole nanoseconds, a duration | `_ns` |
//! | [`At`] | whole nanoseconds on the clock of the trace | `_ns` |
//! | [`MeanNs`], [`Us`], [`Ms`], [`Seconds`] | fractional time | `_ns`, `_us`, `_ms`, `_s` |
//! | [`AtMs`] | milliseconds on the clock of the trace | `_ms` |
//! | [`Pct`], [`Fraction`] | 0 to 100, 0 to 1 | `_pct`, `_fraction` |
//! | `u64`, `usize`, `i64`, `f64`, [`MeanCount`] | a number | |
//! | `String`, `&'static str`, [`KernelName`], [`CategoryName`], [`Place`] | text | |
//! | [`Value`] | an id, a number in one trace and text in another | |
//!
//! `Option<T>` is null if it is `None`; [`Stated<T>`] is left out.

use super::{Record, Value};
use crate::trace::Ns;
pub use crate::trace::{AtMs, Fraction, MeanNs, Ms, Pct, Seconds, Us};

/// How the values of a column are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnKind {
    /// Words.
    Text,
    /// The name of a kernel.
    Kernel,
    /// The name of a category of kernels.
    Category,
    /// Places in the code, one per line.
    CodeLocation,
    /// A number or a name that identifies something.
    Id,
    /// A count or another plain number.
    Number,
    /// A part of a whole, in per cent or as a fraction.
    Share,
    /// A duration.
    Time,
    /// A point in time on the clock of the trace.
    Timestamp,
}

/// The type of a column or figure.
pub trait Field: Sized {
    /// How values are shown.
    const KIND: ColumnKind;
    /// Appends the value under its key.
    fn write(self, key: &'static str, record: &mut Record);
    /// Reads the value, or its default if there is none or if it has another type.
    fn read(key: &'static str, record: &Record) -> Self;
}

/// A type with one value in JSON.
pub trait Plain: Default {
    /// How values are shown.
    const KIND: ColumnKind;
    /// The value in JSON.
    fn value(self) -> Value;
    /// Reads a value; `None` if it has another type.
    fn of_value(value: &Value) -> Option<Self>;
}

impl<T: Plain> Field for T {
    const KIND: ColumnKind = T::KIND;

    fn write(self, key: &'static str, record: &mut Record) {
        record.0.push((key.into(), self.value()));
    }

    fn read(key: &'static str, record: &Record) -> Self {
        record.get(key).and_then(T::of_value).unwrap_or_default()
    }
}

/// Null if unknown.
impl<T: Plain> Field for Option<T> {
    const KIND: ColumnKind = T::KIND;

    fn write(self, key: &'static str, record: &mut Record) {
        record.0.push((key.into(), self.map_or(Value::Null, T::value)));
    }

    fn read(key: &'static str, record: &Record) -> Self {
        record.get(key).and_then(T::of_value)
    }
}

/// A figure that is left out if it is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stated<T>(pub Option<T>);

impl<T: Field + Plain> Field for Stated<T> {
    const KIND: ColumnKind = <T as Plain>::KIND;

    fn write(self, key: &'static str, record: &mut Record) {
        if let Some(value) = self.0 {
            value.write(key, record);
        }
    }

    fn read(key: &'static str, record: &Record) -> Self {
        Self(record.get(key).and_then(T::of_value))
    }
}

/// A figure that is left out if it is not asked for, and null if it is unknown.
impl<T: Plain> Field for Stated<Option<T>> {
    const KIND: ColumnKind = <T as Plain>::KIND;

    fn write(self, key: &'static str, record: &mut Record) {
        if let Some(value) = self.0 {
            value.write(key, record);
        }
    }

    fn read(key: &'static str, record: &Record) -> Self {
        Self(record.get(key).map(T::of_value))
    }
}

/// A point in time on the clock of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct At(pub Ns);

macro_rules! whole {
    ($($type:ty, $kind:ident, $to:expr, $from:expr;)*) => { $(
        impl Plain for $type {
            const KIND: ColumnKind = ColumnKind::$kind;
            fn value(self) -> Value {
                let to: fn(Self) -> Value = $to;
                to(self)
            }
            fn of_value(value: &Value) -> Option<Self> {
                let from: fn(f64) -> Self = $from;
                match value {
                    // No digits are lost in most values: a float has 53 bits.
                    Value::Int(whole) if (*whole as f64) as i64 != *whole => Self::of_whole(*whole),
                    value => value.number().map(from),
                }
            }
        }
    )* };
}

/// A number that is read from a whole number without a float between.
trait Whole: Sized {
    fn of_whole(whole: i64) -> Option<Self>;
}

impl Whole for Ns {
    fn of_whole(whole: i64) -> Option<Self> {
        Some(Self(whole))
    }
}

impl Whole for At {
    fn of_whole(whole: i64) -> Option<Self> {
        Some(Self(Ns(whole)))
    }
}

impl Whole for i64 {
    fn of_whole(whole: i64) -> Option<Self> {
        Some(whole)
    }
}

impl Whole for u64 {
    fn of_whole(whole: i64) -> Option<Self> {
        Self::try_from(whole).ok()
    }
}

impl Whole for usize {
    fn of_whole(whole: i64) -> Option<Self> {
        Self::try_from(whole).ok()
    }
}

whole! {
    Ns, Time, |ns| ns.into(), |number| Self(number as i64);
    At, Timestamp, |at| at.0.into(), |number| Self(Ns(number as i64));
    i64, Number, |number| number.into(), |number| number as i64;
    u64, Number, |number| number.into(), |number| number as u64;
    usize, Number, |number| number.into(), |number| number as usize;
}

macro_rules! fractional {
    ($($name:ident, $kind:ident;)*) => { $(
        impl Plain for $name {
            const KIND: ColumnKind = ColumnKind::$kind;
            fn value(self) -> Value {
                self.0.into()
            }
            fn of_value(value: &Value) -> Option<Self> {
                value.number().map(Self)
            }
        }
    )* };
}

fractional! {
    MeanNs, Time;
    Us, Time;
    Ms, Time;
    Seconds, Time;
    AtMs, Timestamp;
    Pct, Share;
    Fraction, Share;
}

/// A mean of counts. A whole one is a whole number in JSON, like a count.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct MeanCount(pub f64);

impl Plain for MeanCount {
    const KIND: ColumnKind = ColumnKind::Number;
    fn value(self) -> Value {
        if self.0.fract() == 0.0 { Value::Int(self.0 as i64) } else { self.0.into() }
    }
    fn of_value(value: &Value) -> Option<Self> {
        value.number().map(Self)
    }
}

impl Plain for f64 {
    const KIND: ColumnKind = ColumnKind::Number;
    fn value(self) -> Value {
        self.into()
    }
    fn of_value(value: &Value) -> Option<Self> {
        value.number()
    }
}

impl Plain for bool {
    const KIND: ColumnKind = ColumnKind::Text;
    fn value(self) -> Value {
        self.into()
    }
    fn of_value(value: &Value) -> Option<Self> {
        if let Value::Bool(value) = value { Some(*value) } else { None }
    }
}

/// An id: a number in one trace and text in another; null if unknown.
impl Plain for Value {
    const KIND: ColumnKind = ColumnKind::Id;
    fn value(self) -> Value {
        self
    }
    fn of_value(value: &Value) -> Option<Self> {
        Some(value.clone())
    }
}

impl Plain for String {
    const KIND: ColumnKind = ColumnKind::Text;
    fn value(self) -> Value {
        Value::Text(self)
    }
    fn of_value(value: &Value) -> Option<Self> {
        value.text().map(str::to_owned)
    }
}

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident, $kind:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
        pub struct $name(pub String);

        impl Plain for $name {
            const KIND: ColumnKind = ColumnKind::$kind;
            fn value(self) -> Value {
                Value::Text(self.0)
            }
            fn of_value(value: &Value) -> Option<Self> {
                value.text().map(|text| Self(text.to_owned()))
            }
        }

        impl<T: Into<String>> From<T> for $name {
            fn from(name: T) -> Self {
                Self(name.into())
            }
        }
    )* };
}

names! {
    /// The full name of a kernel or another op.
    KernelName, Kernel;
    /// The name of a category of kernels.
    CategoryName, Category;
    /// Places in the code, one per line.
    Place, CodeLocation;
}

/// Implements [`Plain`] for an enum by its words: `words!(Cause: HostLate = "host_late", ...)`. The enum needs a default, which
/// stands for words of other versions; its function `word` returns the words.
macro_rules! words {
    ($type:ty: $($variant:ident = $word:literal),* $(,)?) => {
        impl $type {
            /// The text in JSON and tables.
            pub(crate) fn word(self) -> &'static str {
                match self { $( Self::$variant => $word, )* }
            }
        }
        impl $crate::analysis::section::Plain for $type {
            const KIND: $crate::analysis::section::ColumnKind = $crate::analysis::section::ColumnKind::Text;
            fn value(self) -> $crate::analysis::section::Value {
                self.word().into()
            }
            fn of_value(value: &$crate::analysis::section::Value) -> Option<Self> {
                match value.text()? {
                    $( $word => Some(Self::$variant), )*
                    _ => None,
                }
            }
        }
    };
}

pub(crate) use words;
