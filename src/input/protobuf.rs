//! The wire format of protocol buffers, read by hand: a walk over the fields of a message, and a splitter of a stream into the
//! messages of its outermost level. The rules are in <https://protobuf.dev/programming-guides/encoding/>.
//!
//! Two formats need some forty fields of four wire types. Generated code would own a string or a list for each of millions of
//! events; this walk borrows the bytes. Cost: O(bytes); memory for one outermost message, and no more than was read of it.
//!
//! Damage is a wire type that does not exist or is not used (groups), a length beyond its parent, or a number of more than ten
//! bytes. Nothing after it in the same message can be found, because a field has no mark of its own.

use std::borrow::Cow;

/// The part of the file where a message has damage: its byte offset in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Damaged {
    pub(crate) at: u64,
}

type Result<T> = std::result::Result<T, Damaged>;

/// Protocol buffers limit a message to this size, so a longer one is damage.
const MAX_MESSAGE_BYTES: u64 = (1 << 31) - 1;
/// A number has seven bits a byte.
const MAX_VARINT_BYTES: usize = 10;

/// The bytes of a message, a text or packed numbers, and their offset in the file.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Message<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: u64,
}

/// The value of a field.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Value<'a> {
    /// A number of variable or fixed length.
    Number(u64),
    /// A message, a text or bytes.
    Message(Message<'a>),
}

impl<'a> Value<'a> {
    pub(crate) fn number(self) -> u64 {
        if let Self::Number(number) = self { number } else { 0 }
    }

    pub(crate) fn signed(self) -> i64 {
        self.number().cast_signed()
    }

    pub(crate) fn message(self) -> Message<'a> {
        if let Self::Message(message) = self { message } else { Message::default() }
    }
}

impl<'a> Message<'a> {
    pub(crate) fn fields(self) -> Fields<'a> {
        Fields { rest: self.bytes, end: self.at + self.bytes.len() as u64 }
    }

    /// The bytes as text; what is not UTF-8 is replaced.
    pub(crate) fn text(self) -> Cow<'a, str> {
        String::from_utf8_lossy(self.bytes)
    }

    /// The last value of a field, as the rules say for one that is repeated by mistake.
    pub(crate) fn last(self, number: u32) -> Result<Option<Value<'a>>> {
        let mut found = None;
        for field in self.fields() {
            let (other, value) = field?;
            if other == number {
                found = Some(value);
            }
        }
        Ok(found)
    }
}

/// The beginning of a text, up to a limit. Many events may share one text, so what is done for each event must not grow with it.
pub(crate) fn beginning(raw: &[u8], max_bytes: usize) -> &[u8] {
    let is_inside = |at: &usize| raw.get(*at).is_some_and(|byte| byte & 0xc0 == 0x80);
    let end = (max_bytes.saturating_sub(3)..=max_bytes).rev().find(|at| !is_inside(at)).unwrap_or(max_bytes);
    raw.get(..end).unwrap_or(raw)
}

/// Iterates over the fields of a message: number and value. Ends at the first damage.
#[derive(Debug, Clone)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
    /// Offset of the end in the file.
    end: u64,
}

impl<'a> Fields<'a> {
    /// Offset of the next byte in the file.
    #[inline]
    fn at(&self) -> u64 {
        self.end - self.rest.len() as u64
    }

    #[inline]
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }

    /// Most numbers are keys and lengths of one byte.
    #[inline(always)]
    fn varint(&mut self) -> Option<u64> {
        let (first, rest) = self.rest.split_first()?;
        if *first < 0x80 {
            self.rest = rest;
            return Some(u64::from(*first));
        }
        let (value, length) = varint(self.rest)?;
        self.take(length)?;
        Some(value)
    }

    /// The next field like [`Iterator::next`], and its bytes as the file has them.
    pub(crate) fn next_with_bytes(&mut self) -> Option<Result<(u32, Value<'a>, &'a [u8])>> {
        let before = self.rest;
        let field = self.next()?;
        let bytes = before.get(..before.len() - self.rest.len()).unwrap_or_default();
        Some(field.map(|(number, value)| (number, value, bytes)))
    }

    /// Called for each of hundreds of millions of fields, from few places.
    #[inline(always)]
    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let key = self.varint()?;
        let number = u32::try_from(key >> 3).ok().filter(|number| *number != 0)?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => Value::Number(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                let at = self.at();
                Value::Message(Message { bytes: self.take(length)?, at })
            }
            5 => Value::Number(u64::from(u32::from_le_bytes(self.take(4)?.try_into().ok()?))),
            _ => return None,
        };
        Some((number, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>)>;

    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let at = self.at();
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field.ok_or(Damaged { at }))
    }
}

/// The number at the start of these bytes and its length in bytes. Times have eight or nine bytes, so eight are read at once.
#[inline]
fn varint(bytes: &[u8]) -> Option<(u64, usize)> {
    const CONTINUES: u64 = 0x8080_8080_8080_8080;
    let Some(eight) = bytes.first_chunk() else { return long_varint(bytes) };
    let word = u64::from_le_bytes(*eight);
    let ends = !word & CONTINUES;
    if ends == 0 {
        return long_varint(bytes);
    }
    let length = ends.trailing_zeros() / 8 + 1;
    Some((join_sevens(word & (u64::MAX >> (64 - 8 * length))), length as usize))
}

/// The lower seven bits of each byte, side by side.
#[inline]
fn join_sevens(word: u64) -> u64 {
    let pairs = (word & 0x007f_007f_007f_007f) | ((word & 0x7f00_7f00_7f00_7f00) >> 1);
    let quads = (pairs & 0x0000_3fff_0000_3fff) | ((pairs & 0x3fff_0000_3fff_0000) >> 2);
    (quads & 0x0fff_ffff) | ((quads & 0x0fff_ffff_0000_0000) >> 4)
}

/// The same byte by byte.
fn long_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0_u64;
    for (index, byte) in bytes.iter().take(MAX_VARINT_BYTES).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if *byte < 0x80 {
            return Some((value, index + 1));
        }
    }
    None
}

/// The start of a field of the outermost message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Head {
    /// The number of the field, whether it is a message, the length of its value and that of the head itself.
    Whole {
        number: u32,
        is_message: bool,
        value_bytes: usize,
        head_bytes: usize,
    },
    /// More bytes are needed.
    Cut,
    Damaged,
}

fn head(bytes: &[u8]) -> Head {
    let cut = |rest: &[u8]| if rest.len() < MAX_VARINT_BYTES { Head::Cut } else { Head::Damaged };
    let Some((key, key_bytes)) = varint(bytes) else { return cut(bytes) };
    let Some(number) = u32::try_from(key >> 3).ok().filter(|number| *number != 0) else { return Head::Damaged };
    let rest = bytes.get(key_bytes..).unwrap_or_default();
    let whole = |is_message, value_bytes, length_bytes| {
        let head_bytes = key_bytes + length_bytes;
        Head::Whole { number, is_message, value_bytes, head_bytes }
    };
    match key & 7 {
        0 => varint(rest).map_or_else(|| cut(rest), |(_, length)| whole(false, 0, length)),
        1 => whole(false, 8, 0),
        2 => match varint(rest) {
            Some((length, _)) if length > MAX_MESSAGE_BYTES => Head::Damaged,
            Some((length, length_bytes)) => {
                usize::try_from(length).map_or(Head::Damaged, |length| whole(true, length, length_bytes))
            }
            None => cut(rest),
        },
        5 => whole(false, 4, 0),
        _ => Head::Damaged,
    }
}

/// The number and the first bytes of the first field, if it is a message: all of it, or what the file's beginning has of it.
pub(crate) fn first_message(beginning: &[u8]) -> Option<(u32, Message<'_>)> {
    let Head::Whole { number, is_message: true, value_bytes, head_bytes } = head(beginning) else { return None };
    let value = beginning.get(head_bytes..)?;
    Some((number, Message { bytes: value.get(..value_bytes).unwrap_or(value), at: head_bytes as u64 }))
}

/// Why a stream ended before its last message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// It ends inside the field that starts at this offset.
    Cut {
        at: u64,
        length: u64,
    },
    Damaged(Damaged),
}

/// Cuts a stream into the messages of its outermost level.
#[derive(Debug, Default)]
pub(crate) struct MessageSplitter {
    /// The bytes of a head or value that a chunk cuts.
    unfinished: Vec<u8>,
    /// The value that `unfinished` is a part of.
    open: Option<Open>,
    /// Offset of the next byte.
    at: u64,
    damaged: Option<Damaged>,
    /// A longer value is damage.
    max_value_bytes: Option<usize>,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    number: u32,
    is_message: bool,
    value_bytes: usize,
    /// Offset of the field.
    field_at: u64,
}

impl MessageSplitter {
    /// A splitter for which values of more bytes are damage.
    pub(crate) fn with_limit(max_value_bytes: usize) -> Self {
        Self { max_value_bytes: Some(max_value_bytes), ..Self::default() }
    }

    /// Whether nothing more can be found.
    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.is_some()
    }

    /// Takes the next bytes; `each` gets every whole message with the number of its field.
    pub(crate) fn feed(&mut self, bytes: &[u8], each: &mut dyn FnMut(u32, Message<'_>)) {
        let mut rest = bytes;
        while !rest.is_empty() && self.damaged.is_none() {
            rest = match self.open {
                Some(open) => self.value(open, rest, each),
                None => self.head(rest),
            };
        }
    }

    /// Reads a head, which seldom is cut; returns the bytes after it.
    fn head<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        let before = self.unfinished.len();
        let found = if before == 0 {
            head(bytes)
        } else {
            let missing = (2 * MAX_VARINT_BYTES).saturating_sub(before);
            self.unfinished.extend_from_slice(bytes.get(..missing).unwrap_or(bytes));
            head(&self.unfinished)
        };
        let field_at = self.at - before as u64;
        match found {
            Head::Whole { value_bytes, .. } if self.max_value_bytes.is_some_and(|max| value_bytes > max) => {
                self.damaged = Some(Damaged { at: field_at });
                &[]
            }
            Head::Whole { number, is_message, value_bytes, head_bytes } => {
                self.unfinished.clear();
                let read = head_bytes.saturating_sub(before);
                self.at += read as u64;
                self.open = Some(Open { number, is_message, value_bytes, field_at });
                bytes.get(read..).unwrap_or_default()
            }
            Head::Cut => {
                if before == 0 {
                    self.unfinished.extend_from_slice(bytes);
                }
                self.at += bytes.len() as u64;
                &[]
            }
            Head::Damaged => {
                self.damaged = Some(Damaged { at: field_at });
                &[]
            }
        }
    }

    fn value<'a>(&mut self, open: Open, bytes: &'a [u8], each: &mut dyn FnMut(u32, Message<'_>)) -> &'a [u8] {
        let missing = open.value_bytes - self.unfinished.len();
        let (part, after) = bytes.split_at_checked(missing).unwrap_or((bytes, &[]));
        let is_whole = part.len() == missing;
        let start = self.at - self.unfinished.len() as u64;
        self.at += part.len() as u64;
        if is_whole && self.unfinished.is_empty() {
            self.open = None;
            if open.is_message {
                each(open.number, Message { bytes: part, at: start });
            }
            return after;
        }
        // The length is a claim: memory grows with the bytes that are there, and never beyond the claim.
        let room = self.unfinished.len().max(part.len()).min(missing);
        self.unfinished.reserve_exact(room);
        self.unfinished.extend_from_slice(part);
        if is_whole {
            self.open = None;
            if open.is_message {
                each(open.number, Message { bytes: &self.unfinished, at: start });
            }
            self.unfinished.clear();
        }
        after
    }

    /// Ends the stream; what broke it, if anything did.
    pub(crate) fn finish(&self) -> Option<Broken> {
        if let Some(damaged) = self.damaged {
            return Some(Broken::Damaged(damaged));
        }
        let at = match self.open {
            // An empty value needs no byte after its head.
            Some(open) if open.value_bytes == 0 => return None,
            Some(open) => open.field_at,
            None if self.unfinished.is_empty() => return None,
            None => self.at - self.unfinished.len() as u64,
        };
        Some(Broken::Cut { at, length: self.at })
    }
}

/// Writes messages, for tests.
#[cfg(test)]
pub(crate) mod testing {
    /// A message while it is written.
    #[derive(Debug, Default, Clone)]
    pub(crate) struct Writer(pub(crate) Vec<u8>);

    impl Writer {
        fn varint(&mut self, mut number: u64) {
            while number >= 0x80 {
                self.0.push(number as u8 | 0x80);
                number >>= 7;
            }
            self.0.push(number as u8);
        }

        pub(crate) fn number(mut self, field: u32, number: i64) -> Self {
            self.varint(u64::from(field) << 3);
            self.varint(number.cast_unsigned());
            self
        }

        pub(crate) fn fixed(mut self, field: u32, number: u64) -> Self {
            self.varint(u64::from(field) << 3 | 1);
            self.0.extend(number.to_le_bytes());
            self
        }

        pub(crate) fn bytes(mut self, field: u32, bytes: impl AsRef<[u8]>) -> Self {
            self.varint(u64::from(field) << 3 | 2);
            self.varint(bytes.as_ref().len() as u64);
            self.0.extend(bytes.as_ref());
            self
        }

        pub(crate) fn message(self, field: u32, message: Self) -> Self {
            self.bytes(field, message.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::Writer;
    use super::*;
    use proptest::prelude::*;

    /// Each field as `number: value`.
    fn shown(bytes: &[u8]) -> Vec<String> {
        let show = |field: Result<(u32, Value<'_>)>| match field {
            Ok((number, Value::Number(value))) => format!("{number}: {value}"),
            Ok((number, Value::Message(message))) => format!("{number}: {:?} at {}", message.text(), message.at),
            Err(damaged) => format!("damaged at {}", damaged.at),
        };
        Message { bytes, at: 100 }.fields().map(show).collect()
    }

    /// The bytes are those of the encoding guide: 150 is 96 01, "testing" has the key 12.
    #[test]
    fn fields_of_the_four_wire_types_are_read() {
        assert_eq!(shown(b"\x08\x96\x01\x12\x07testing"), ["1: 150", "2: \"testing\" at 105"]);
        assert_eq!(shown(b"\x09\x01\0\0\0\0\0\0\x80\x15\x02\0\0\0"), ["1: 9223372036854775809", "2: 2"]);
        let minus_one = b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
        assert_eq!(shown(minus_one), ["1: 18446744073709551615"]);
        assert_eq!(Message { bytes: minus_one, at: 0 }.last(1).unwrap().unwrap().signed(), -1);
        assert_eq!(shown(b"\x9a\x3f\x00"), ["1011: \"\" at 103"]);
    }

    #[test]
    fn damage_ends_the_message_at_its_field() {
        for damage in [
            &b"\x12\x08testing"[..],
            b"\x0b\x08",
            b"\x0c",
            b"\x0e",
            b"\x0f",
            b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x08",
            b"\x00\x01",
            b"\x15\x02\0",
            b"\x12\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        ] {
            assert_eq!(shown(&[b"\x08\x01", damage].concat()), ["1: 1", "damaged at 102"], "{damage:?}");
        }
    }

    /// Number, bytes and offset of each message.
    type Messages = Vec<(u32, Vec<u8>, u64)>;

    fn split(bytes: &[u8], chunk: usize) -> (Messages, Option<Broken>) {
        let (mut splitter, mut found) = (MessageSplitter::default(), Vec::new());
        for part in bytes.chunks(chunk) {
            splitter.feed(part, &mut |number, message| found.push((number, message.bytes.to_vec(), message.at)));
        }
        (found, splitter.finish())
    }

    #[test]
    fn a_stream_is_cut_into_its_messages_and_other_fields_are_skipped() {
        let stream =
            Writer::default().bytes(1, "abc").number(7, 300).fixed(8, 5).bytes(1, "").bytes(4, "x".repeat(200)).0;
        let expected = vec![(1, b"abc".to_vec(), 2), (4, vec![b'x'; 200], stream.len() as u64 - 200)];
        for chunk in 1..stream.len() {
            let (mut found, broken) = split(&stream, chunk);
            found.retain(|(_, bytes, _)| !bytes.is_empty());
            assert_eq!((found, broken), (expected.clone(), None), "{chunk}");
        }
    }

    #[test]
    fn a_cut_or_damaged_stream_says_where() {
        let stream = Writer::default().bytes(1, "abc").bytes(1, "defg").0;
        for (kept, at) in [(4, 0), (6, 5), (8, 5), (10, 5)] {
            let kept = &stream[..kept];
            assert_eq!(split(kept, 3).1, Some(Broken::Cut { at, length: kept.len() as u64 }), "{kept:?}");
        }
        for chunk in [1, 2, 99] {
            let damaged = [&stream[..5], b"\x0b\x0a\x00"].concat();
            let (found, broken) = split(&damaged, chunk);
            assert_eq!((found.len(), broken), (1, Some(Broken::Damaged(Damaged { at: 5 }))));
        }
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        for (text, cut) in [("abcdef", "abcd"), ("abc", "abc"), ("abc\u{e9}", "abc"), ("a\u{1f600}", "a"), ("", "")] {
            assert_eq!(beginning(text.as_bytes(), 4), cut.as_bytes(), "{text}");
        }
    }

    #[test]
    fn a_value_beyond_the_limit_is_damage() {
        for (length, is_damaged) in [(8, false), (9, true)] {
            let mut splitter = MessageSplitter::with_limit(8);
            splitter.feed(&Writer::default().bytes(1, vec![0; length]).0, &mut |_, _| {});
            assert_eq!(splitter.is_damaged(), is_damaged, "{length}");
        }
    }

    #[test]
    fn memory_grows_with_the_bytes_that_are_there_and_not_with_a_claim() {
        let mut splitter = MessageSplitter::default();
        splitter.feed(b"\x0a\xff\xff\xff\xff\x07few bytes", &mut |_, _| panic!("no message"));
        splitter.feed(b"and some more", &mut |_, _| panic!("no message"));
        assert!(splitter.unfinished.capacity() < 100);
    }

    proptest! {
        /// The writer encodes seven bits after the other; numbers of all lengths, with other fields after them and without.
        #[test]
        fn numbers_of_all_lengths_are_read(number in any::<u64>(), shift in 0_u32..64, after in 0_usize..3) {
            let number = (number >> shift).cast_signed();
            let bytes = (0..after).fold(Writer::default().number(1, number), |writer, _| writer.fixed(2, u64::MAX)).0;
            let first = Message { bytes: &bytes, at: 0 }.fields().next().unwrap().unwrap();
            prop_assert_eq!((first.0, first.1.signed()), (1, number));
            prop_assert_eq!(shown(&bytes).len(), 1 + after);
        }

        #[test]
        fn chunks_do_not_change_what_is_found(bytes in prop::collection::vec(any::<u8>(), 1..300), chunk in 1_usize..20) {
            prop_assert_eq!(split(&bytes, chunk), split(&bytes, bytes.len()));
        }
    }
}
