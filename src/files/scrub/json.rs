//! Scrubs JSON as a stream: numbers and structure stay byte for byte, private words of texts are replaced, and what a key such as
//! `env` holds is left out. Needs the memory of one text. JSON that is damaged or cut is scrubbed up to its last byte.

use super::removal::{Removal, kind_of_key};
use std::borrow::Cow;

/// Words outside of quotes.
const LITERALS: [&[u8]; 6] = [b"true", b"false", b"null", b"NaN", b"Infinity", b"-Infinity"];

/// The state between two chunks.
#[derive(Debug, Default)]
pub(super) struct JsonScrubber {
    /// The text in quotes that is being read, with its first quote; or the word outside of quotes.
    unfinished: Vec<u8>,
    state: State,
    /// The last text, which is a key if a colon follows.
    last_text: String,
    key: Option<String>,
    depth: usize,
    /// What is left out.
    left_out: Option<LeftOut>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Outside,
    Word,
    Text,
    Escape,
}

/// A list or object without its elements.
#[derive(Debug)]
struct LeftOut {
    /// The depth of its brackets.
    depth: usize,
    kind: &'static str,
    is_empty: bool,
}

impl JsonScrubber {
    /// Scrubs the next bytes.
    pub(super) fn push(&mut self, bytes: &[u8], removal: &mut Removal, out: &mut Vec<u8>) {
        for &byte in bytes {
            match self.state {
                State::Escape => {
                    self.unfinished.push(byte);
                    self.state = State::Text;
                }
                State::Text => self.in_text(byte, removal, out),
                State::Word if is_of_word(byte) => self.unfinished.push(byte),
                State::Word => {
                    self.end_word(removal, out);
                    self.outside(byte, removal, out);
                }
                State::Outside => self.outside(byte, removal, out),
            }
        }
    }

    /// Scrubs what is unfinished at the end of the file.
    pub(super) fn finish(&mut self, removal: &mut Removal, out: &mut Vec<u8>) {
        match self.state {
            State::Outside => {}
            State::Word => self.end_word(removal, out),
            State::Text | State::Escape if self.left_out.is_none() => {
                out.extend(scrubbed_string(&self.unfinished, removal))
            }
            State::Text | State::Escape => {}
        }
    }

    fn in_text(&mut self, byte: u8, removal: &mut Removal, out: &mut Vec<u8>) {
        self.unfinished.push(byte);
        match byte {
            b'\\' => self.state = State::Escape,
            b'"' => self.end_text(removal, out),
            _ => {}
        }
    }

    fn outside(&mut self, byte: u8, removal: &mut Removal, out: &mut Vec<u8>) {
        self.state = State::Outside;
        match byte {
            b'"' => {
                self.state = State::Text;
                self.unfinished.push(byte);
                return;
            }
            _ if is_of_word(byte) => {
                self.state = State::Word;
                self.unfinished.push(byte);
                return;
            }
            b':' => self.key = Some(std::mem::take(&mut self.last_text)),
            b'{' | b'[' => {
                self.put(byte, out);
                return self.open();
            }
            b'}' | b']' => self.close(removal),
            b',' => self.comma(removal),
            _ => {}
        }
        self.put(byte, out);
    }

    fn open(&mut self) {
        self.depth += 1;
        let kind = self.key.take().and_then(|key| kind_of_key(&key));
        if let (None, Some(kind)) = (&self.left_out, kind) {
            self.left_out = Some(LeftOut { depth: self.depth, kind, is_empty: true });
        }
    }

    fn close(&mut self, removal: &mut Removal) {
        if let Some(left_out) = self.left_out.take_if(|left_out| left_out.depth == self.depth) {
            removal.add(left_out.kind, u64::from(!left_out.is_empty));
        }
        self.depth = self.depth.saturating_sub(1);
        self.key = None;
    }

    fn comma(&mut self, removal: &mut Removal) {
        self.key = None;
        if let Some(left_out) = self.left_out.as_ref().filter(|left_out| left_out.depth == self.depth) {
            removal.add(left_out.kind, 1);
        }
    }

    /// Writes a sign between texts, except in what is left out.
    fn put(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.left_out.is_none() {
            // Other bytes are no JSON.
            out.push(if byte.is_ascii() { byte } else { b'?' });
        }
    }

    fn end_word(&mut self, removal: &mut Removal, out: &mut Vec<u8>) {
        let word = std::mem::take(&mut self.unfinished);
        self.state = State::Outside;
        match &mut self.left_out {
            Some(left_out) => left_out.is_empty = false,
            None if LITERALS.contains(&&*word) => out.extend_from_slice(&word),
            None => out.extend_from_slice(removal.text(&String::from_utf8_lossy(&word)).as_bytes()),
        }
    }

    fn end_text(&mut self, removal: &mut Removal, out: &mut Vec<u8>) {
        self.state = State::Outside;
        let raw = std::mem::take(&mut self.unfinished);
        self.last_text = decoded(&raw).unwrap_or_default();
        let key = self.key.take();
        if let Some(key) = &key {
            removal.learn(key, &self.last_text);
        }
        if let Some(left_out) = &mut self.left_out {
            left_out.is_empty = false;
            return;
        }
        match key.and_then(|key| kind_of_key(&key)) {
            Some(kind) => {
                removal.add(kind, 1);
                out.extend_from_slice(b"\"\"");
            }
            None => out.extend(scrubbed_string(&raw, removal)),
        }
    }
}

/// Whether the byte is a part of a number or of a word such as `true`.
fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'+' | b'-' | b'_') || !byte.is_ascii()
}

/// A text of another format without its private words: the values in it, if the text is JSON.
pub(super) fn scrubbed_text(text: &str, removal: &mut Removal) -> String {
    if !text.starts_with(['{', '[']) || serde_json::from_str::<serde::de::IgnoredAny>(text).is_err() {
        return removal.text(text).into_owned();
    }
    let (mut scrubber, mut out) = (JsonScrubber::default(), Vec::new());
    scrubber.push(text.as_bytes(), removal, &mut out);
    scrubber.finish(removal, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn decoded(raw: &[u8]) -> Option<String> {
    serde_json::from_slice(raw).ok()
}

/// The text in quotes without private words.
fn scrubbed_string(raw: &[u8], removal: &mut Removal) -> Vec<u8> {
    if let Some(text) = decoded(raw) {
        return match removal.text(&text) {
            Cow::Borrowed(_) => raw.to_vec(),
            Cow::Owned(masked) if masked == text => raw.to_vec(),
            Cow::Owned(masked) => serde_json::to_vec(&masked).unwrap_or_default(),
        };
    }
    // Profilers write some texts that are no JSON. Their escapes stay, and divide words.
    let text = String::from_utf8_lossy(raw);
    let mut out = String::with_capacity(text.len());
    for (index, part) in text.split('\\').enumerate() {
        let letter = part.chars().next().filter(|_| index > 0).map_or(0, char::len_utf8);
        let (escape, rest) = part.split_at(letter);
        out += if index > 0 { "\\" } else { "" };
        out += escape;
        out += &removal.text(rest);
    }
    out.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrubbed(text: &str, chunk: usize) -> (String, Vec<(String, u64)>) {
        let (mut removal, mut out) = (Removal::default(), Vec::new());
        JsonScrubber::default().push(text.as_bytes(), &mut removal, &mut out);
        removal.end_learning();
        out.clear();
        let mut scrubber = JsonScrubber::default();
        text.as_bytes().chunks(chunk).for_each(|chunk| scrubber.push(chunk, &mut removal, &mut out));
        scrubber.finish(&mut removal, &mut out);
        (String::from_utf8(out).unwrap(), removal.counts())
    }

    #[test]
    fn public_json_stays_byte_for_byte_in_chunks_of_any_size() {
        let text = "{\"name\": \"gemm_kernel\\n\", \"ts\": 1704161511420000100.25, \"a\":[1e5,-2, true,null ,NaN] }\n";
        for chunk in 1..text.len() {
            assert_eq!(scrubbed(text, chunk), (text.to_owned(), Vec::new()));
        }
    }

    #[test]
    fn what_keys_hold_is_left_out_and_counted() {
        let text = r#"{"env": {"A": "x", "B": {"c": [1, "d"]}, "e": 4}, "argv": ["a", "b"], "env": {}, "hostname": "h", "k": 1}"#;
        let (out, counts) = scrubbed(text, 7);
        assert_eq!(out, r#"{"env": {}, "argv": [], "env": {}, "hostname": "", "k": 1}"#);
        let counts: Vec<u64> = counts.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [2, 3, 1], "arguments, variables, a host");
    }

    #[test]
    fn a_host_that_a_later_member_names_is_removed_from_all_texts() {
        let (out, _) = scrubbed(
            r#"[{"name": "gemm_gpu_copy_7"}, {"env": {"LOGNAME": "copy-kernel"}, "hostname": "gpu-copy-7"}, "copy-kernel"]"#,
            9,
        );
        assert!(!out.contains("copy") && !out.contains("kernel") && out.contains("gemm_zq"), "{out}");
    }

    #[test]
    fn damaged_and_escaped_texts_lose_their_private_words() {
        for text in [
            "[\"zorblax",
            "[zorblax",
            "{\"a\": \"\\x zorblax\\nzorblax\\",
            "[\"\\u007aorblax\"]",
            "'zorblax'",
            "[\"\\zorblax zorblax\"]",
        ] {
            let (out, _) = scrubbed(text, 3);
            assert!(!out.contains("zorblax"), "{text}: {out}");
        }
    }
}
