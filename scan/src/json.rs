//! A pull parser for the members of one JSON object: no tree, no copies, O(bytes).
//!
//! Callers read the few members they need and stop early. Invalid JSON ends in [`Step::Damaged`], never in a panic. Text is
//! converted to UTF-8 lossily, because traces contain invalid bytes.

use memchr::memchr;
use std::borrow::Cow;

/// A raw value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value<'a> {
    /// A string, without its quotes, still escaped.
    Text(&'a [u8]),
    /// A number or a literal.
    Bare(&'a [u8]),
    /// An object or array, including its brackets.
    Container(&'a [u8]),
}

impl<'a> Value<'a> {
    /// Returns the bytes of a string, number or literal. Kineto writes ids and times as strings or as numbers.
    pub fn scalar(self) -> Option<&'a [u8]> {
        match self {
            Self::Text(bytes) | Self::Bare(bytes) => Some(bytes),
            Self::Container(_) => None,
        }
    }
}

/// The next token in an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// The key of a member; read its value next.
    Key(&'a [u8]),
    /// The end of the object.
    End,
    /// Invalid JSON.
    Damaged,
}

/// The parser: a position in the text of an object.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Creates a parser before the opening brace of the object.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Returns the number of bytes read.
    pub fn at(&self) -> usize {
        self.at
    }

    #[inline(always)]
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.get(self.at)?;
            if !matches!(byte, b' ' | b'\n' | b'\t' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    #[inline(always)]
    fn take(&mut self, wanted: u8) -> bool {
        let is_next = self.peek() == Some(wanted);
        self.at += usize::from(is_next);
        is_next
    }

    /// Consumes the opening brace; returns false if there is none.
    pub fn enter(&mut self) -> bool {
        self.take(b'{')
    }

    /// Returns the next key of the object entered last. After [`Step::End`], the enclosing object continues.
    pub fn key(&mut self) -> Step<'a> {
        let mut next = self.peek();
        if next == Some(b',') {
            self.at += 1;
            next = self.peek();
        } else if next == Some(b'}') {
            self.at += 1;
            return Step::End;
        }
        self.at += 1;
        let key = if next == Some(b'"') { self.string() } else { None };
        match key {
            Some(key) if self.take(b':') => Step::Key(key),
            _ => Step::Damaged,
        }
    }

    /// Returns the value of the key just read; `None` if it is not valid JSON.
    pub fn value(&mut self) -> Option<Value<'a>> {
        match self.peek()? {
            b'"' => {
                self.at += 1;
                self.string().map(Value::Text)
            }
            b'{' | b'[' => self.container().map(Value::Container),
            _ => self.bare().map(Value::Bare),
        }
    }

    /// Skips white space and commas; returns true if nothing is left.
    pub fn at_end(&mut self) -> bool {
        while self.take(b',') {}
        self.peek().is_none()
    }

    /// Returns a string after its opening quote was consumed. The first 24 bytes are searched inline: most strings are so short
    /// that the call of memchr would dominate.
    fn string(&mut self) -> Option<&'a [u8]> {
        let rest = self.text.get(self.at..)?;
        for (word, bytes) in rest.as_chunks::<8>().0.iter().take(3).enumerate() {
            let special = quotes_or_backslashes(u64::from_le_bytes(*bytes));
            if special != 0 {
                let end = word * 8 + (special.trailing_zeros() / 8) as usize;
                if rest.get(end) != Some(&b'"') {
                    break;
                }
                self.at += end + 1;
                return rest.get(..end);
            }
        }
        self.long_string(rest)
    }

    fn long_string(&mut self, rest: &'a [u8]) -> Option<&'a [u8]> {
        let mut from = 0;
        loop {
            let quote = from + memchr(b'"', rest.get(from..)?)?;
            let before = rest.get(..quote)?;
            let slashes = before.iter().rev().take_while(|&&byte| byte == b'\\').count();
            if slashes % 2 == 0 {
                self.at += quote + 1;
                return Some(before);
            }
            from = quote + 1;
        }
    }

    fn bare(&mut self) -> Option<&'a [u8]> {
        let rest = self.text.get(self.at..)?;
        let end =
            rest.iter().position(|byte| !matches!(byte, b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' | b'.' | b'-' | b'+'));
        let bare = rest.get(..end.unwrap_or(rest.len()))?;
        self.at += bare.len();
        (!bare.is_empty()).then_some(bare)
    }

    fn container(&mut self) -> Option<&'a [u8]> {
        let start = self.at;
        let mut depth = 0_u32;
        loop {
            let byte = *self.text.get(self.at)?;
            self.at += 1;
            match byte {
                b'"' => {
                    self.string()?;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return self.text.get(start..self.at);
            }
        }
    }
}

/// Returns a mask whose lowest set bit marks the first `"` or `\` of eight bytes; higher bits may be false positives. This is the
/// SWAR test for a zero byte, after XOR with the wanted byte.
#[inline(always)]
fn quotes_or_backslashes(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let zeros = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
    zeros(word ^ (ONES * b'"' as u64)) | zeros(word ^ (ONES * b'\\' as u64))
}

/// Returns true if the text is a prefix of a valid JSON value. The splitter checks suspiciously long events: if an event swallowed
/// its neighbours because a quote or brace is lost, its text is soon invalid.
pub fn is_valid_prefix(text: &[u8]) -> bool {
    let mut cursor = Cursor::new(text);
    let mut open: Vec<u8> = Vec::new();
    loop {
        if !is_valid_value(&mut cursor, &mut open) {
            return cursor.peek().is_none() || is_cut_in_string(&cursor);
        }
        loop {
            match (open.last(), cursor.peek()) {
                (None, rest) => return rest.is_none(),
                (_, None) => return true,
                (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']')) => {
                    open.pop();
                    cursor.at += 1;
                }
                (_, Some(b',')) => {
                    cursor.at += 1;
                    break;
                }
                _ => return false,
            }
        }
    }
}

/// Consumes one member or element, or the start of a container and its first member; returns false if it is invalid.
fn is_valid_value(cursor: &mut Cursor<'_>, open: &mut Vec<u8>) -> bool {
    loop {
        if open.last() == Some(&b'{') {
            if cursor.peek() == Some(b'}') {
                return true;
            }
            if !(cursor.take(b'"') && cursor.string().is_some() && cursor.take(b':')) {
                return false;
            }
        }
        match cursor.peek() {
            Some(b'"') => {
                cursor.at += 1;
                return cursor.string().is_some();
            }
            Some(bracket @ (b'{' | b'[')) => {
                cursor.at += 1;
                open.push(bracket);
                if cursor.peek() == Some(bracket + 2) {
                    return true;
                }
            }
            Some(_) => return cursor.bare().is_some(),
            None => return false,
        }
    }
}

/// Returns true if the cursor stopped in a string that the end of the text cuts.
fn is_cut_in_string(cursor: &Cursor<'_>) -> bool {
    let before = cursor.at.checked_sub(1).and_then(|at| cursor.text.get(at));
    let rest = cursor.text.get(cursor.at..).unwrap_or_default();
    before == Some(&b'"') && Cursor { text: rest, at: 0 }.string().is_none()
}

/// Unescapes the inside of a JSON string. Invalid UTF-8 and invalid escapes become U+FFFD.
pub fn unescape(raw: &[u8]) -> Cow<'_, str> {
    let lossy = std::str::from_utf8(raw).map_or_else(|_| String::from_utf8_lossy(raw), Cow::Borrowed);
    if memchr(b'\\', raw).is_none() {
        return lossy;
    }
    let mut text = String::with_capacity(lossy.len());
    let mut rest = lossy.chars();
    while let Some(next) = rest.next() {
        text.push(if next == '\\' { escaped(&mut rest) } else { next });
    }
    Cow::Owned(text)
}

fn escaped(rest: &mut std::str::Chars<'_>) -> char {
    match rest.next() {
        Some('n') => '\n',
        Some('t') => '\t',
        Some('r') => '\r',
        Some('b') => '\u{8}',
        Some('f') => '\u{c}',
        Some('u') => unicode(rest),
        Some(plain @ ('"' | '\\' | '/')) => plain,
        _ => char::REPLACEMENT_CHARACTER,
    }
}

/// Parses `XXXX`, or a surrogate pair `XXXX\uXXXX`.
fn unicode(rest: &mut std::str::Chars<'_>) -> char {
    let Some(first) = four_digits(rest) else { return char::REPLACEMENT_CHARACTER };
    if let Some(single) = char::from_u32(first) {
        return single;
    }
    let mut ahead = rest.clone();
    if (ahead.next(), ahead.next()) != (Some('\\'), Some('u')) {
        return char::REPLACEMENT_CHARACTER;
    }
    let second = four_digits(&mut ahead).unwrap_or_default();
    match char::decode_utf16([first, second].map(|unit| u16::try_from(unit).unwrap_or_default())).next() {
        Some(Ok(pair)) => {
            *rest = ahead;
            pair
        }
        _ => char::REPLACEMENT_CHARACTER,
    }
}

fn four_digits(rest: &mut std::str::Chars<'_>) -> Option<u32> {
    let digits = rest.as_str().get(..4)?;
    let value = u32::from_str_radix(digits, 16).ok()?;
    *rest = rest.as_str().get(4..)?.chars();
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members(text: &str) -> Vec<(String, Value<'_>)> {
        let mut cursor = Cursor::new(text.as_bytes());
        assert!(cursor.enter());
        let mut found = Vec::new();
        while let Step::Key(key) = cursor.key() {
            found.push((String::from_utf8_lossy(key).into_owned(), cursor.value().unwrap()));
        }
        found
    }

    #[test]
    fn members_of_all_kinds_are_parsed() {
        let text = r#"{"a" : "x\"}", "b":-1.5e3,"c":[1,{"d":"]"}] , "e":{}, "f":null}"#;
        let names: Vec<_> = members(text).into_iter().map(|(key, _)| key).collect();
        assert_eq!(names, ["a", "b", "c", "e", "f"]);
        assert_eq!(members(text)[0].1, Value::Text(br#"x\"}"#));
        assert_eq!(members(text)[1].1, Value::Bare(b"-1.5e3"));
        assert_eq!(members(text)[2].1, Value::Container(br#"[1,{"d":"]"}]"#));
    }

    #[test]
    fn a_cut_text_is_a_valid_prefix_but_one_without_a_quote_or_brace_is_not() {
        let event = r#"{"ph": "X", "name": "a{b", "args": {"grid": [1, 2], "none": {}, "x": []}}"#;
        for end in 1..=event.len() {
            assert!(is_valid_prefix(&event.as_bytes()[..end]), "cut at {end}");
        }
        for broken in [
            r#"{"ph": "X, "name": "a"}"#,
            r#"{"ph": "X", name": "a"}"#,
            r#"{"ph": "X", "args": {"a": 1}, {"ph": "X"}"#,
            r#"{"ph": "X", "args": "a": 1}, "#,
            r#"{"ph": "X"]"#,
            r#"{"ph" "X"}"#,
            r#"{"ph": "X"} x"#,
        ] {
            assert!(!is_valid_prefix(broken.as_bytes()), "{broken}");
        }
    }

    proptest! {
        #[test]
        fn unescape_agrees_with_serde_json(text in any::<String>()) {
            let json = serde_json::to_string(&text).unwrap();
            prop_assert_eq!(unescape(&json.as_bytes()[1..json.len() - 1]), text);
        }

        #[test]
        fn no_input_panics(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = is_valid_prefix(&bytes);
            let _ = unescape(&bytes);
            let mut cursor = Cursor::new(&bytes);
            cursor.enter();
            while let Step::Key(_) = cursor.key() {
                if cursor.value().is_none() {
                    break;
                }
            }
        }
    }

    #[test]
    fn surrogate_pairs_are_joined_and_lone_surrogates_replaced() {
        assert_eq!(unescape(br"\ud83d\ude00"), "\u{1f600}");
        assert_eq!(unescape(br"\ud83d!"), "\u{fffd}!");
        assert_eq!(unescape(br"\u12"), "\u{fffd}12");
        assert_eq!(unescape(b"\xffa"), "\u{fffd}a");
    }
}
