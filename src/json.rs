//! Parses JSON to a [`Json`] value, converts it to types ([`from_json`]), and writes JSON. Linear in the text; a struct finds
//! each of its members by linear search.
//!
//! serde would compile a parser of one to six KB for each type; for fifty types that was a tenth of the page's first download.
//! Here all types share one parser, and the macro only generates the conversion of the value.

use crate::plain::is_plain;
use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::ser::{Formatter, Serializer};
use std::collections::{BTreeMap, HashSet};
use std::{fmt, io};

/// Any JSON value. Unlike a map, it preserves the order of keys and repeated keys.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Int(i64),
    /// A whole number too large for [`Json::Int`].
    Large(u64),
    Float(f64),
    String(String),
    Array(Vec<Json>),
    /// Keys and values in the order of the text.
    Object(Vec<(String, Json)>),
}

impl Json {
    pub(crate) fn parse(text: &str) -> serde_json::Result<Self> {
        // Parse bytes, like all other callers: otherwise serde_json's parser would be compiled twice, for text and for bytes.
        serde_json::from_slice(text.as_bytes())
    }

    /// Returns the type name for error messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Large(_) | Self::Float(_) => "a number",
            Self::String(_) => "a string",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }

    /// Returns the member at a path of keys through nested objects.
    pub(crate) fn get_path(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |json, key| json.members().find(|(name, _)| name == key).map(|(_, value)| value))
    }

    /// Iterates over the members of an object; empty for other values.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, &Self)> {
        let members = if let Self::Object(members) = self { members.as_slice() } else { &[] };
        members.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// Returns the elements of an array; empty for other values.
    pub(crate) fn elements(&self) -> &[Self] {
        if let Self::Array(elements) = self { elements } else { &[] }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    pub(crate) fn number(&self) -> Option<f64> {
        match *self {
            Self::Int(number) => Some(number as f64),
            Self::Large(number) => Some(number as f64),
            Self::Float(number) => Some(number),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(JsonVisitor)
    }
}

struct JsonVisitor;

impl<'de> Visitor<'de> for JsonVisitor {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Json::Object(entries))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element()? {
            elements.push(element);
        }
        Ok(Json::Array(elements))
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::String(text.to_owned()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Json, E> {
        Ok(Json::Int(number))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Json, E> {
        Ok(i64::try_from(number).map_or(Json::Large(number), Json::Int))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Json, E> {
        Ok(Json::Float(number))
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }
}

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

    pub(crate) fn expected(what: &str, found: &Json) -> Self {
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
    fn from_json(json: Json) -> JsonResult<Self>;

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
pub(crate) struct Members(Vec<(String, Json)>);

impl Members {
    pub(crate) fn of(json: Json) -> JsonResult<Self> {
        if let Json::Object(members) = json { Ok(Self(members)) } else { Err(JsonError::expected("an object", &json)) }
    }

    /// Returns an error if the object has other members than these.
    pub(crate) fn reject_unknown(&self, known: &[&str]) -> JsonResult<()> {
        match self.0.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            Some((key, _)) => Err(JsonError::new("unknown name").within(key)),
            None => Ok(()),
        }
    }

    /// Moves the value of the first member with this key out and leaves null.
    fn take_json(&mut self, key: &str) -> Option<Json> {
        let (_, value) = self.0.iter_mut().find(|(name, _)| name == key)?;
        Some(std::mem::replace(value, Json::Null))
    }

    pub(crate) fn take<T: FromJson>(&mut self, key: &str) -> JsonResult<T> {
        let value = match self.take_json(key) {
            Some(json) => T::from_json(json),
            None => T::if_missing().ok_or_else(JsonError::missing),
        };
        value.map_err(|error| error.within(key))
    }

    /// Calls `visit` for each member, in the order of the text.
    pub(crate) fn for_each(self, visit: &mut dyn FnMut(String, Json) -> JsonResult<()>) -> JsonResult<()> {
        for (key, value) in self.0 {
            let path = key.clone();
            visit(key, value).map_err(|error| error.within(&path))?;
        }
        Ok(())
    }

    /// Takes a member; a missing member has the default value of its type.
    pub(crate) fn take_or_default<T: FromJson + Default>(&mut self, key: &str) -> JsonResult<T> {
        self.take_json(key).map_or_else(|| Ok(T::default()), T::from_json).map_err(|error| error.within(key))
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
            fn from_json(json: $crate::json::Json) -> $crate::json::JsonResult<Self> {
                let mut members = $crate::json::Members::of(json)?;
                let check: fn(&$crate::json::Members) -> $crate::json::JsonResult<()> = $check;
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
            fn from_json(json: $crate::json::Json) -> $crate::json::JsonResult<Self> {
                match json.text() {
                    $(Some($word) => Ok(Self::$variant),)*
                    Some(other) => Err($crate::json::JsonError::new(format!("unknown word `{other}`"))),
                    None => Err($crate::json::JsonError::expected("a string", &json)),
                }
            }
        }
    };
}
pub(crate) use from_json;

impl FromJson for String {
    fn from_json(json: Json) -> JsonResult<Self> {
        if let Json::String(text) = json { Ok(text) } else { Err(JsonError::expected("a string", &json)) }
    }
}

impl FromJson for bool {
    fn from_json(json: Json) -> JsonResult<Self> {
        if let Json::Bool(value) = json { Ok(value) } else { Err(JsonError::expected("true or false", &json)) }
    }
}

impl FromJson for f64 {
    fn from_json(json: Json) -> JsonResult<Self> {
        json.number().ok_or_else(|| JsonError::expected("a number", &json))
    }
}

impl FromJson for i64 {
    fn from_json(json: Json) -> JsonResult<Self> {
        if let Json::Int(number) = json { Ok(number) } else { Err(JsonError::expected("a whole number", &json)) }
    }
}

impl FromJson for u64 {
    fn from_json(json: Json) -> JsonResult<Self> {
        let number = match json {
            Json::Int(number) => Self::try_from(number).ok(),
            Json::Large(number) => Some(number),
            _ => None,
        };
        number.ok_or_else(|| JsonError::expected("a count", &json))
    }
}

impl FromJson for usize {
    fn from_json(json: Json) -> JsonResult<Self> {
        Self::try_from(u64::from_json(json)?).map_err(|_| JsonError::new("a count that is too large"))
    }
}

impl<T: FromJson> FromJson for Option<T> {
    fn from_json(json: Json) -> JsonResult<Self> {
        if json == Json::Null { Ok(None) } else { T::from_json(json).map(Some) }
    }

    fn if_missing() -> Option<Self> {
        Some(None)
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn from_json(json: Json) -> JsonResult<Self> {
        let mut list = Self::with_capacity(json.elements().len());
        for_each_element(json, &mut |element| {
            list.push(T::from_json(element)?);
            Ok(())
        })?;
        Ok(list)
    }
}

/// Calls `visit` for each element of an array. Not generic, so that it is compiled once.
fn for_each_element(json: Json, visit: &mut dyn FnMut(Json) -> JsonResult<()>) -> JsonResult<()> {
    let Json::Array(elements) = json else { return Err(JsonError::expected("an array", &json)) };
    for (index, element) in elements.into_iter().enumerate() {
        visit(element).map_err(|error| error.within(&index.to_string()))?;
    }
    Ok(())
}

impl FromJson for HashSet<String> {
    fn from_json(json: Json) -> JsonResult<Self> {
        Ok(Vec::from_json(json)?.into_iter().collect())
    }
}

impl<T: FromJson> FromJson for BTreeMap<String, T> {
    fn from_json(json: Json) -> JsonResult<Self> {
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
                prop_assert_eq!(Json::parse(&write(&number)).unwrap(), expected);
            }
        }
    }

    #[test]
    fn values_preserve_key_order_and_repeated_keys() {
        let json = Json::parse(r#"{"z": 1, "a": {"b": [true]}, "z": 2}"#).unwrap();
        assert_eq!(json.members().map(|(key, _)| key).collect::<Vec<_>>(), ["z", "a", "z"]);
        assert_eq!(json.get_path(&["a", "b"]).map(Json::elements), Some(&[Json::Bool(true)][..]));
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
            let text = match &read {
                Json::Array(list) => list[0].text(),
                Json::Object(members) => Some(members[0].0.as_str()),
                other => other.text(),
            };
            assert_eq!(text, Some(hostile));
        }
        assert!(write(&"é字😀").contains("é字😀"), "other characters stay");
    }
}
