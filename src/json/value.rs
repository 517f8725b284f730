//! A value of a JSON document as a part of its text: nothing is built, and members are read when they are asked for.
//!
//! A tree costs up to 46 times its text (`[0],` is four bytes, and two values with a list). Here a document costs its
//! text, whatever it contains. [`Json::parse`] checks the whole text once, in O(text), so that no part of it is
//! invalid. A reader scans each level again that it enters: O(text * levels), and the check refuses more than 128
//! levels.

use gpuprism_scan::json::{Cursor, Step, Value, unescape};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Any JSON value. Objects preserve the order of keys and repeated keys.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// A whole number too large for [`Json::Int`].
    Large(u64),
    Float(f64),
    String(Text<'a>),
    Array(Container<'a>),
    Object(Container<'a>),
}

/// A string as it is written, without its quotes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    /// The string itself. It is only copied if it has escapes.
    pub(crate) fn unescaped(self) -> Cow<'a, str> {
        unescape(self.0)
    }
}

/// The text of a list or object, with its brackets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Container<'a>(&'a [u8]);

impl Container<'_> {
    pub(crate) fn is_empty(self) -> bool {
        self.0.get(1..).is_none_or(|inside| matches!(inside.trim_ascii_start(), [b']' | b'}']))
    }
}

impl<'a> Json<'a> {
    /// Checks the text.
    pub(crate) fn parse(text: &'a str) -> serde_json::Result<Self> {
        // Parse bytes, like all other callers: otherwise serde_json's parser would be compiled twice, for text and for
        // bytes.
        let Checked(scalar) = serde_json::from_slice(text.as_bytes())?;
        Ok(Cursor::new(text.as_bytes()).value().map_or(scalar, Self::of))
    }

    /// The value of a part of checked text.
    fn of(value: Value<'a>) -> Self {
        match value {
            Value::Text(text) => Self::String(Text(text)),
            Value::Container(text) if text.first() == Some(&b'[') => Self::Array(Container(text)),
            Value::Container(text) => Self::Object(Container(text)),
            Value::Bare(text) => serde_json::from_slice(text).map_or(Self::Null, |Checked(scalar)| scalar),
        }
    }

    /// Returns the type name for error messages.
    pub(crate) fn kind(self) -> &'static str {
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
    pub(crate) fn get_path(self, path: &[&str]) -> Option<Self> {
        path.iter().try_fold(self, |json, key| json.members().find(|(name, _)| name == key).map(|(_, value)| value))
    }

    /// Iterates over the members of an object; empty for other values.
    pub(crate) fn members(self) -> impl Iterator<Item = (Cow<'a, str>, Self)> {
        let mut cursor = Cursor::new(if let Self::Object(Container(text)) = self { text } else { b"{}" });
        cursor.enter();
        std::iter::from_fn(move || {
            let Step::Key(key) = cursor.key() else { return None };
            Some((unescape(key), Self::of(cursor.value()?)))
        })
    }

    /// Iterates over the elements of an array; empty for other values.
    pub(crate) fn elements(self) -> impl Iterator<Item = Self> {
        let text = if let Self::Array(Container(text)) = self { text } else { b"[]" };
        let inside = text.get(1..text.len().saturating_sub(1)).unwrap_or_default();
        let mut cursor = Cursor::new(inside);
        std::iter::from_fn(move || if cursor.at_end() { None } else { cursor.value().map(Self::of) })
    }

    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        if let Self::String(text) = self { Some(text.unescaped()) } else { None }
    }

    pub(crate) fn number(self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(number as f64),
            Self::Large(number) => Some(number as f64),
            Self::Float(number) => Some(number),
            _ => None,
        }
    }
}

/// The places of the members of an object: four bytes for each, of which the text has at least five.
pub(super) struct Places<'a> {
    text: &'a [u8],
    starts: Vec<u32>,
}

impl<'a> Places<'a> {
    /// The members of an object; `None` for other values.
    pub(super) fn of(json: Json<'a>) -> Option<Self> {
        let Json::Object(Container(text)) = json else { return None };
        let mut cursor = Cursor::new(text);
        cursor.enter();
        let mut starts = Vec::new();
        loop {
            let start = u32::try_from(cursor.at()).ok()?;
            let Step::Key(_) = cursor.key() else { return Some(Self { text, starts }) };
            cursor.value()?;
            starts.push(start);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The keys as they are written, and the cursor before the value of each.
    fn keys(&self) -> impl Iterator<Item = (&'a [u8], Cursor<'a>)> {
        self.starts.iter().filter_map(|start| {
            let mut cursor = Cursor::new(self.text.get(*start as usize..)?);
            if let Step::Key(key) = cursor.key() { Some((key, cursor)) } else { None }
        })
    }

    /// The value of the first member with this key.
    pub(super) fn find(&self, key: &str) -> Option<Json<'a>> {
        let (_, mut cursor) = self.keys().find(|(name, _)| is_key(name, key))?;
        cursor.value().map(Json::of)
    }

    /// The first key that is not one of these.
    pub(super) fn unknown(&self, known: &[&str]) -> Option<Cow<'a, str>> {
        let is_unknown = |name: &&[u8]| !known.iter().any(|key| is_key(name, key));
        self.keys().map(|(name, _)| name).find(is_unknown).map(unescape)
    }
}

/// Whether a key as it is written is this one.
fn is_key(written: &[u8], key: &str) -> bool {
    written == key.as_bytes() || written.contains(&b'\\') && unescape(written) == key
}

/// The result of a check: the value of a number or literal, null for all others.
struct Checked(Json<'static>);

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Check)
    }
}

struct Check;

impl<'de> Visitor<'de> for Check {
    type Value = Checked;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Checked, A::Error> {
        while map.next_entry::<Checked, Checked>()?.is_some() {}
        Ok(Checked(Json::Null))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Checked, A::Error> {
        while seq.next_element::<Checked>()?.is_some() {}
        Ok(Checked(Json::Null))
    }

    fn visit_str<E>(self, _: &str) -> Result<Checked, E> {
        Ok(Checked(Json::Null))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Checked, E> {
        Ok(Checked(Json::Bool(value)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Checked, E> {
        Ok(Checked(Json::Int(number)))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Checked, E> {
        Ok(Checked(i64::try_from(number).map_or(Json::Large(number), Json::Int)))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Checked, E> {
        Ok(Checked(Json::Float(number)))
    }

    fn visit_unit<E>(self) -> Result<Checked, E> {
        Ok(Checked(Json::Null))
    }
}
