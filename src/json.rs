//! Reads JSON as a [`Json`] value, converts it to types ([`from_json`]), and writes JSON. Linear in the text and in
//! the levels that are read; a struct finds each of its members by linear search. Memory grows with what is converted,
//! never with a number that the text only promises.
//!
//! serde would compile a parser of one to six KB for each type; for fifty types that was a tenth of the page's first download.
//! Here all types share one parser, and the macro only generates the conversion of the value.

mod value;

pub(crate) use value::Json;

use crate::plain::is_plain;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::collections::{BTreeMap, HashSet};
use std::{fmt, io};

/// A parse error with the path of the value: `runs / 0 / label: expected a string, found null`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonError {
    path: String,
    why: String,
}

impl JsonError {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self { path: String::new(), why: why.into() }
    }

    fn missing() -> Self {
        Self::new("missing")
    }

    pub(crate) fn expected(what: &str, found: Json<'_>) -> Self {
        Self::new(format!("expected {what}, found {}", found.kind()))
    }

    /// Prepends `key` to the path. Not inlined, because every parsed member calls it.
    #[inline(never)]
    fn within(self, key: &str) -> Self {
        let path = if self.path.is_empty() { key.to_owned() } else { format!("{key} / {}", self.path) };
        Self { path, ..self }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.why)
    }
}

/// The result of parsing.
pub(crate) type JsonResult<T> = std::result::Result<T, JsonError>;

/// A type that can be parsed from JSON.
pub(crate) trait FromJson: Sized {
    fn from_json(json: Json<'_>) -> JsonResult<Self>;

    /// Returns the value of a missing member; `None` if the member is required.
    fn if_missing() -> Option<Self> {
        None
    }
}

/// Parses a value from text.
pub(crate) fn read<T: FromJson>(text: &str) -> JsonResult<T> {
    T::from_json(Json::parse(text).map_err(|error| JsonError::new(error.to_string()))?)
}

/// Unwraps the parsed content of a file that is compiled into the program, such as `patterns/ranks.json`.
#[allow(clippy::expect_used, reason = "the tests read every embedded file")]
pub(crate) fn embedded<T, E: fmt::Debug>(parsed: Result<T, E>) -> T {
    parsed.expect("an embedded file")
}

/// The members of an object, from which a parser takes one value at a time.
pub(crate) struct Members<'a> {
    json: Json<'a>,
    places: value::Places<'a>,
}

impl<'a> Members<'a> {
    pub(crate) fn of(json: Json<'a>) -> JsonResult<Self> {
        let places = value::Places::of(json).ok_or_else(|| JsonError::expected("an object", json))?;
        Ok(Self { json, places })
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns an error if the object has other members than these.
    pub(crate) fn reject_unknown(&self, known: &[&str]) -> JsonResult<()> {
        self.places.unknown(known).map_or(Ok(()), |key| Err(JsonError::new("unknown name").within(&key)))
    }

    /// Converts the value of the first member with this key.
    pub(crate) fn take<T: FromJson>(&self, key: &str) -> JsonResult<T> {
        let value = match self.places.find(key) {
            Some(json) => T::from_json(json),
            None => T::if_missing().ok_or_else(JsonError::missing),
        };
        value.map_err(|error| error.within(key))
    }

    /// Calls `visit` for each member, in the order of the text.
    pub(crate) fn for_each(self, visit: &mut dyn FnMut(String, Json<'_>) -> JsonResult<()>) -> JsonResult<()> {
        for (key, value) in self.json.members() {
            visit(key.clone().into_owned(), value).map_err(|error| error.within(&key))?;
        }
        Ok(())
    }

    /// Converts a member; a missing member has the default value of its type.
    pub(crate) fn take_or_default<T: FromJson + Default>(&self, key: &str) -> JsonResult<T> {
        self.places.find(key).map_or_else(|| Ok(T::default()), T::from_json).map_err(|error| error.within(key))
    }
}

/// Serializes to JSON without line breaks. A written float parses back to the same number. Safe to print: see
/// [`printable`].
pub(crate) fn write(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    let written = value.serialize(&mut Serializer::with_formatter(&mut bytes, Compact));
    // This cannot fail: all keys of maps are strings.
    printable(written.ok().and_then(|()| String::from_utf8(bytes).ok()).unwrap_or_default())
}

/// Serializes to JSON indented by two blanks, with a line end. Safe to print: see [`printable`].
pub(crate) fn write_indented(value: &impl Serialize) -> String {
    // Serializing strings, numbers and lists under string keys cannot fail.
    printable(serde_json::to_string_pretty(value).unwrap_or_default() + "\n")
}

/// The same JSON without a character that controls a terminal or reverses the direction of text. Such characters occur
/// only in strings, where an escape is the same character; JSON itself demands escapes only for those below U+0020.
pub(crate) fn printable(json: String) -> String {
    let needs_escape = |character: char| !is_plain(character) && !character.is_ascii_whitespace();
    if !json.contains(needs_escape) {
        return json;
    }
    let mut escaped = String::with_capacity(json.len() + 64);
    for character in json.chars() {
        if needs_escape(character) {
            // None of them is beyond U+FFFF.
            let _ = fmt::Write::write_fmt(&mut escaped, format_args!("\\u{:04x}", u32::from(character)));
        } else {
            escaped.push(character);
        }
    }
    escaped
}

/// Formats floats with the standard library, because serde_json's own function needs a table of 10 KB that hardly compresses.
struct Compact;

impl Formatter for Compact {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        write!(writer, "{value:?}")
    }
}

/// Implements [`FromJson`] for a struct (`Name { a, b; c }`: a missing `c` has its default value; `strict` rejects unknown
/// members) or for an enum (`Name = "a" => A, "b" => B`: the string `"a"` is the variant `A`).
macro_rules! from_json {
    ($name:ident { $($member:ident),* $(; $($optional:ident),*)? }) => {
        $crate::json::from_json!(@ $name { $($member),* ; $($($optional),*)? } |_members| Ok(()));
    };
    (strict $name:ident { $($member:ident),* $(; $($optional:ident),*)? }) => {
        $crate::json::from_json!(@ $name { $($member),* ; $($($optional),*)? }
            |members| members.reject_unknown(&[$(stringify!($member),)* $($(stringify!($optional)),*)?]));
    };
    (@ $name:ident { $($member:ident),* ; $($optional:ident),* } $check:expr) => {
        impl $crate::json::FromJson for $name {
            fn from_json(json: $crate::json::Json<'_>) -> $crate::json::JsonResult<Self> {
                let members = $crate::json::Members::of(json)?;
                let check: fn(&$crate::json::Members<'_>) -> $crate::json::JsonResult<()> = $check;
                check(&members)?;
                Ok(Self {
                    $($member: members.take(stringify!($member))?,)*
                    $($optional: members.take_or_default(stringify!($optional))?,)*
                })
            }
        }
    };
    ($name:ident = $($word:literal => $variant:ident),*) => {
        impl $crate::json::FromJson for $name {
            fn from_json(json: $crate::json::Json<'_>) -> $crate::json::JsonResult<Self> {
                match json.text().as_deref() {
                    $(Some($word) => Ok(Self::$variant),)*
                    Some(other) => Err($crate::json::JsonError::new(format!("unknown word `{other}`"))),
                    None => Err($crate::json::JsonError::expected("a string", json)),
                }
            }
        }
    };
}
pub(crate) use from_json;

impl FromJson for String {
    fn from_json(json: Json<'_>) -> JsonResult<Self> {
        if let Json::String(text) = json {
            Ok(text.unescaped().into_owned())
        } else {
            Err(JsonError::expected("a string", json))
        }
    }
}

impl FromJson for bool {
    fn from_json(json: Json<'_>) -> JsonResult<Self> {
        if let Json::Bool(value) = json { Ok(value) } else { Err(JsonError::expected("true or false", json)) }
    }
}

impl FromJson for f64 {
    fn from_json(json: Json<'_>) -> JsonResult<Self> {
        json.number().ok_or_else(|| JsonError::expected("a number", json))
    }
}

impl FromJson for i64 {
    fn from_json(json: Json<'_>) -> JsonResult<Self> {
        if let Json::Int(number) = json { Ok(number) } else { Err(JsonError::expected("a whole number", json)) }
    }
}

impl FromJson for u64 {
    fn from_json(json: Json<'_>) -> JsonResult<Self> {
        let number = match json {
            Json::Int(number) => Self::try_from(number).ok(),
            Json::Large(number) => Some(number),
            _ => None,
        };
        number.ok_or_else(|| JsonError::expected("a count", json))
    }
}

impl FromJson for usize {
    fn from_json(json: Json<'_>) -> JsonResult<Self> {
        Self::try_from(u64::from_json(json)?).map_err(|_| JsonError::new("a count that is too large"))
    }
}

impl<T: FromJson> FromJson for Option<T> {
    fn from_json(json: Json<'_>) -> JsonResult<Self> {
        if json == Json::Null { Ok(None) } else { T::from_json(json).map(Some) }
    }

    fn if_missing() -> Option<Self> {
        Some(None)
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn from_json(json: Json<'_>) -> JsonResult<Self> {
        // Nothing is reserved: an element of two bytes may be a struct of hundreds, and the first one may be
        // unreadable.
        let mut list = Self::new();
        for_each_element(json, &mut |element| {
            list.push(T::from_json(element)?);
            Ok(())
        })?;
        Ok(list)
    }
}

/// Calls `visit` for each element of an array. Not generic, so that it is compiled once.
fn for_each_element(json: Json<'_>, visit: &mut dyn FnMut(Json<'_>) -> JsonResult<()>) -> JsonResult<()> {
    let Json::Array(_) = json else { return Err(JsonError::expected("an array", json)) };
    for (index, element) in json.elements().enumerate() {
        visit(element).map_err(|error| error.within(&index.to_string()))?;
    }
    Ok(())
}

impl FromJson for HashSet<String> {
    fn from_json(json: Json<'_>) -> JsonResult<Self> {
        Ok(Vec::from_json(json)?.into_iter().collect())
    }
}

impl<T: FromJson> FromJson for BTreeMap<String, T> {
    fn from_json(json: Json<'_>) -> JsonResult<Self> {
        let mut map = Self::new();
        // Not `collect`, which sorts first: one more sort function would be compiled.
        Members::of(json)?.for_each(&mut |key, value| {
            map.insert(key, T::from_json(value)?);
            Ok(())
        })?;
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, PartialEq)]
    struct Ship {
        name: String,
        length_m: f64,
        built: Option<i64>,
        crew: Vec<u64>,
    }
    from_json!(strict Ship { name, length_m, built; crew });

    #[test]
    fn members_may_come_in_any_order() {
        let text = r#"{"length_m": 12, "crew": [18446744073709551615, 0], "name": "\u00e9\ud83d\ude00"}"#;
        let ship = Ship { name: "é😀".into(), length_m: 12.0, built: None, crew: vec![u64::MAX, 0] };
        assert_eq!(read::<Ship>(text), Ok(ship));
    }

    #[test]
    fn errors_have_the_path_of_the_value() {
        for (text, expected) in [
            (r#"{"name": "a"}"#, "length_m: missing"),
            (r#"{"name": null, "length_m": 1}"#, "name: expected a string, found null"),
            (r#"{"name": "a", "length_m": 1, "crew": [1, -1]}"#, "crew / 1: expected a count, found a number"),
            (r#"{"name": "a", "length_m": 1, "built": 1.5}"#, "built: expected a whole number, found a number"),
            (r#"{"name": "a", "length_m": 1, "sails": 2}"#, "sails: unknown name"),
            ("[]", "expected an object, found an array"),
            (r#"{"name": "#, "EOF while parsing a value at line 1 column 9"),
        ] {
            assert_eq!(read::<Ship>(text).unwrap_err().to_string(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn floats_round_trip_exactly(bits in any::<u64>(), small in -1e-3..1e-3_f64) {
            for number in [f64::from_bits(bits), small, small * 1e9] {
                let expected = if number.is_finite() { Json::Float(number) } else { Json::Null };
                let text = write(&number);
                prop_assert_eq!(Json::parse(&text).unwrap(), expected);
            }
        }
    }

    #[test]
    fn values_preserve_key_order_and_repeated_keys() {
        let json = Json::parse(r#"{"z": 1, "a": {"b": [true]}, "z": 2}"#).unwrap();
        assert_eq!(json.members().map(|(key, _)| key).collect::<Vec<_>>(), ["z", "a", "z"]);
        assert_eq!(json.get_path(&["a", "b"]).unwrap().elements().collect::<Vec<_>>(), [Json::Bool(true)]);
        assert_eq!((json.get_path(&["a", "c"]), json.get_path(&["z", "c"])), (None, None));
    }

    #[test]
    fn written_json_controls_no_terminal_and_is_the_same_text() {
        let hostile = "a\u{1b}[31m\u{7}\u{7f}\u{85}\u{9b}32m\u{200f}\u{202e}\u{2066}\u{2028}é字😀\n\t\"\\";
        for written in
            [write(&hostile), write_indented(&vec![hostile]), write_indented(&BTreeMap::from([(hostile, 1)]))]
        {
            assert!(written.chars().all(|character| character == '\n' || is_plain(character)), "{written:?}");
            let read = Json::parse(&written).unwrap();
            let text = match read {
                Json::Array(_) => read.elements().next().unwrap().text(),
                Json::Object(_) => read.members().next().map(|(key, _)| key),
                other => other.text(),
            };
            assert_eq!(text.as_deref(), Some(hostile));
        }
        assert!(write(&"é字😀").contains("é字😀"), "other characters stay");
    }
}
