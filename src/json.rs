//! JSON as one value, and how types are read from it.
//!
//! serde's derived readers are compiled anew for every type, one to six kilobytes each; with fifty types that was a tenth
//! of the page's first load. Here the text is read by one reader, and a type says in a line what its members are. The
//! value keeps what a map forgets: the order of keys and the keys given twice.

use serde::Serialize;
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::ser::{Formatter, Serializer};
use std::collections::{BTreeMap, HashSet};
use std::{fmt, io};

/// Any JSON value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Int(i64),
    /// A whole number above those of [`Json::Int`].
    Large(u64),
    Float(f64),
    String(String),
    Array(Vec<Json>),
    /// Keys and values in the order of the text, repeated keys included.
    Object(Vec<(String, Json)>),
}

impl Json {
    pub(crate) fn parse(text: &str) -> serde_json::Result<Self> {
        // As bytes, like all JSON of traces: serde_json's reader of text would be compiled beside its reader of bytes.
        serde_json::from_slice(text.as_bytes())
    }

    /// What a person would call it.
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

    /// The member that these keys lead to, from object to object.
    pub(crate) fn get_path(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |json, key| json.members().find(|(name, _)| name == key).map(|(_, value)| value))
    }

    /// Keys and values of an object; nothing of anything else.
    pub(crate) fn members(&self) -> impl Iterator<Item = (&str, &Self)> {
        let members = if let Self::Object(members) = self { members.as_slice() } else { &[] };
        members.iter().map(|(key, value)| (key.as_str(), value))
    }

    /// The elements of an array; nothing of anything else.
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
        deserializer.deserialize_any(InOrder)
    }
}

struct InOrder;

impl<'de> Visitor<'de> for InOrder {
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

/// Why a text or value is not what was asked for, and where in it: `runs / 0 / label: expected a string, found null`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JsonError {
    place: String,
    why: String,
}

impl JsonError {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self { place: String::new(), why: why.into() }
    }

    fn missing() -> Self {
        Self::new("it is missing")
    }

    pub(crate) fn expected(what: &str, found: &Json) -> Self {
        Self::new(format!("expected {what}, found {}", found.kind()))
    }

    #[inline(never)]
    fn within(self, place: &str) -> Self {
        let place = if self.place.is_empty() { place.to_owned() } else { format!("{place} / {}", self.place) };
        Self { place, ..self }
    }
}

impl fmt::Display for JsonError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.why)
    }
}

/// What was read, or why it could not be.
pub(crate) type JsonResult<T> = std::result::Result<T, JsonError>;

/// What can be read from a JSON value.
pub(crate) trait FromJson: Sized {
    fn from_json(json: Json) -> JsonResult<Self>;

    /// What stands for a member that is not there.
    fn absent() -> Option<Self> {
        None
    }
}

/// Reads a text.
pub(crate) fn read<T: FromJson>(text: &str) -> JsonResult<T> {
    T::from_json(Json::parse(text).map_err(|error| JsonError::new(error.to_string()))?)
}

/// The members of an object, to be taken one by one.
pub(crate) struct Members(Vec<(String, Json)>);

impl Members {
    pub(crate) fn of(json: Json) -> JsonResult<Self> {
        if let Json::Object(members) = json { Ok(Self(members)) } else { Err(JsonError::expected("an object", &json)) }
    }

    /// Refuses an object that has other members than these.
    pub(crate) fn no_others(&self, known: &[&str]) -> JsonResult<()> {
        match self.0.iter().find(|(key, _)| !known.contains(&key.as_str())) {
            Some((key, _)) => Err(JsonError::new("nothing has this name").within(key)),
            None => Ok(()),
        }
    }

    fn find(&mut self, key: &str) -> Option<Json> {
        let (_, value) = self.0.iter_mut().find(|(name, _)| name == key)?;
        Some(std::mem::replace(value, Json::Null))
    }

    pub(crate) fn take<T: FromJson>(&mut self, key: &str) -> JsonResult<T> {
        let read = match self.find(key) {
            Some(json) => T::from_json(json),
            None => T::absent().ok_or_else(JsonError::missing),
        };
        read.map_err(|error| error.within(key))
    }

    /// Shows all of them, in the order of the text.
    pub(crate) fn each(self, take: &mut dyn FnMut(String, Json) -> JsonResult<()>) -> JsonResult<()> {
        for (key, value) in self.0 {
            let place = key.clone();
            take(key, value).map_err(|error| error.within(&place))?;
        }
        Ok(())
    }

    /// The default of its type where it is not there.
    pub(crate) fn take_or_default<T: FromJson + Default>(&mut self, key: &str) -> JsonResult<T> {
        self.find(key).map_or_else(|| Ok(T::default()), T::from_json).map_err(|error| error.within(key))
    }
}

/// JSON without line breaks. Its floats read back as the same numbers, but may be spelt otherwise than in a file.
pub(crate) fn write(value: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    let written = value.serialize(&mut Serializer::with_formatter(&mut bytes, Compact));
    // Strings, numbers and lists under string keys always serialise.
    written.ok().and_then(|()| String::from_utf8(bytes).ok()).unwrap_or_default()
}

/// serde_json's own way with floats has a table of ten kilobytes that hardly compresses.
struct Compact;

impl Formatter for Compact {
    fn write_f64<W: ?Sized + io::Write>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        write!(writer, "{value:?}")
    }
}

/// How a type is read: a struct by its members, those after the semicolon with a default; an enum by its words. A `strict`
/// struct refuses members that it does not know.
macro_rules! from_json {
    ($name:ident { $($member:ident),* $(; $($optional:ident),*)? }) => {
        $crate::json::from_json!(@ $name { $($member),* ; $($($optional),*)? } |_members| Ok(()));
    };
    (strict $name:ident { $($member:ident),* $(; $($optional:ident),*)? }) => {
        $crate::json::from_json!(@ $name { $($member),* ; $($($optional),*)? }
            |members| members.no_others(&[$(stringify!($member),)* $($(stringify!($optional)),*)?]));
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
                    Some(other) => Err($crate::json::JsonError::new(format!("there is no `{other}`"))),
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

    fn absent() -> Option<Self> {
        Some(None)
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn from_json(json: Json) -> JsonResult<Self> {
        let mut list = Self::with_capacity(json.elements().len());
        each(json, &mut |element| {
            list.push(T::from_json(element)?);
            Ok(())
        })?;
        Ok(list)
    }
}

/// Shows every element of an array. Not generic, so that the page's module holds it once.
fn each(json: Json, take: &mut dyn FnMut(Json) -> JsonResult<()>) -> JsonResult<()> {
    let Json::Array(elements) = json else { return Err(JsonError::expected("an array", &json)) };
    for (at, element) in elements.into_iter().enumerate() {
        take(element).map_err(|error| error.within(&at.to_string()))?;
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
        // One by one: collecting would sort them first, by a sort of its own.
        Members::of(json)?.each(&mut |key, value| {
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
    fn a_struct_is_read_by_its_members_in_any_order() {
        let text = r#"{"length_m": 12, "crew": [18446744073709551615, 0], "name": "\u00e9\ud83d\ude00"}"#;
        let ship = Ship { name: "é😀".into(), length_m: 12.0, built: None, crew: vec![u64::MAX, 0] };
        assert_eq!(read::<Ship>(text), Ok(ship));
    }

    #[test]
    fn what_does_not_fit_is_named_by_its_place() {
        for (text, told) in [
            (r#"{"name": "a"}"#, "length_m: it is missing"),
            (r#"{"name": null, "length_m": 1}"#, "name: expected a string, found null"),
            (r#"{"name": "a", "length_m": 1, "crew": [1, -1]}"#, "crew / 1: expected a count, found a number"),
            (r#"{"name": "a", "length_m": 1, "built": 1.5}"#, "built: expected a whole number, found a number"),
            (r#"{"name": "a", "length_m": 1, "sails": 2}"#, "sails: nothing has this name"),
            ("[]", "expected an object, found an array"),
            (r#"{"name": "#, "EOF while parsing a value at line 1 column 9"),
        ] {
            assert_eq!(read::<Ship>(text).unwrap_err().to_string(), told, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_float_that_was_written_reads_back_to_the_last_bit(bits in any::<u64>(), small in -1e-3..1e-3_f64) {
            for number in [f64::from_bits(bits), small, small * 1e9] {
                let wanted = if number.is_finite() { Json::Float(number) } else { Json::Null };
                prop_assert_eq!(Json::parse(&write(&number)).unwrap(), wanted);
            }
        }
    }

    #[test]
    fn a_value_keeps_the_order_of_keys_and_those_given_twice() {
        let json = Json::parse(r#"{"z": 1, "a": {"b": [true]}, "z": 2}"#).unwrap();
        assert_eq!(json.members().map(|(key, _)| key).collect::<Vec<_>>(), ["z", "a", "z"]);
        assert_eq!(json.get_path(&["a", "b"]).map(Json::elements), Some(&[Json::Bool(true)][..]));
        assert_eq!((json.get_path(&["a", "c"]), json.get_path(&["z", "c"])), (None, None));
    }
}
