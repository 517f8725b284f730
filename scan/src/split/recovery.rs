//! Where splitting resumes after damage, and how often bytes are read again for it. O(bytes); no bytes are kept but
//! the beginning of a match.

use memchr::{memchr, memmem};
use std::ops::Range;

/// White space between `{` and `"` of an event that is longer is no beginning of an event: it would have to be kept.
const MAX_SPACE_BYTES: usize = 64 << 10;
const KEY: &[u8] = b"\"traceEvents\"";

/// A search, with what the bytes before matched.
#[derive(Debug, Clone, Copy)]
pub(super) enum Search {
    /// For an event: a `{` that follows `},` (or a comma at the very beginning) and precedes `"`, with white space
    /// between.
    Event(EventPart),
    /// For the list: `"traceEvents": [`.
    List(ListPart),
}

/// The part of `} , { "` that the bytes before match.
#[derive(Debug, Clone, Copy)]
pub(super) enum EventPart {
    /// Nothing but white space was read.
    Beginning,
    None,
    Close,
    Comma,
    /// The length of the text from `{` on.
    Open(usize),
}

/// The part of `"traceEvents" : [` that the bytes before match.
#[derive(Debug, Clone, Copy)]
pub(super) enum ListPart {
    /// The last bytes, as many as this, may be a part of the key.
    None(usize),
    Key,
    Colon,
}

/// The result of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// An event begins here.
    Event(usize),
    /// The list begins here, after its bracket.
    List(usize),
    /// The bytes before this place are not needed any more.
    Nothing { keep_from: usize },
}

impl Search {
    pub(super) fn new(is_for_event: bool) -> Self {
        if is_for_event { Self::Event(EventPart::Beginning) } else { Self::List(ListPart::None(0)) }
    }

    /// Continues at `from`, up to the end of the buffer.
    pub(super) fn next(&mut self, buffer: &[u8], from: usize) -> Found {
        match self {
            Self::Event(part) => part.next(buffer, from),
            Self::List(part) => part.next(buffer, from),
        }
    }
}

impl EventPart {
    fn next(&mut self, buffer: &[u8], mut at: usize) -> Found {
        while let Some(&byte) = buffer.get(at) {
            if let Self::None = self {
                let close = memchr(b'}', buffer.get(at..).unwrap_or_default());
                let Some(close) = close else { return Found::Nothing { keep_from: buffer.len() } };
                at += close + 1;
                *self = Self::Close;
                continue;
            }
            *self = match (byte, *self) {
                (b'"', Self::Open(length)) => return Found::Event(at - length),
                (_, Self::Open(MAX_SPACE_BYTES..)) => Self::None,
                (byte, Self::Open(length)) if byte.is_ascii_whitespace() => Self::Open(length + 1),
                (byte, part) if byte.is_ascii_whitespace() => part,
                (b',', Self::Close | Self::Beginning) => Self::Comma,
                (b'{', Self::Comma) => Self::Open(1),
                (b'}', _) => Self::Close,
                _ => Self::None,
            };
            at += 1;
        }
        let kept = if let Self::Open(length) = self { *length } else { 0 };
        Found::Nothing { keep_from: buffer.len() - kept }
    }
}

impl ListPart {
    fn next(&mut self, buffer: &[u8], mut at: usize) -> Found {
        loop {
            if let Self::None(kept) = *self {
                let from = at - kept;
                let Some(key) = memmem::find(buffer.get(from..).unwrap_or_default(), KEY) else {
                    let kept = (buffer.len() - from).min(KEY.len() - 1);
                    *self = Self::None(kept);
                    return Found::Nothing { keep_from: buffer.len() - kept };
                };
                at = from + key + KEY.len();
                *self = Self::Key;
            }
            let rest = buffer.get(at..).unwrap_or_default().trim_ascii_start();
            at = buffer.len() - rest.len();
            *self = match (rest.first(), *self) {
                (None, _) => return Found::Nothing { keep_from: buffer.len() },
                (Some(b'['), Self::Colon) => return Found::List(at + 1),
                (Some(b':'), Self::Key) => {
                    at += 1;
                    Self::Colon
                }
                _ => Self::None(0),
            };
        }
    }
}

/// Bounds how often the same bytes are read as parts of events that turn out to be damaged. Brackets nest: without a
/// bound, each level of a damaged event would be read to the same damage, in quadratic time.
#[derive(Debug, Default)]
pub(super) struct Reread {
    /// Bytes that were read as parts of damaged events whose ranges overlap.
    damaged: Range<u64>,
    /// The sum of the lengths of these events.
    read: u64,
}

impl Reread {
    /// Each byte is read as often as this on average. Damage of real files costs two or three times.
    const MAX_TIMES: u64 = 8;

    /// Adds the bytes that were read of a damaged event. Returns false if reading has to continue after them.
    pub(super) fn allows(&mut self, bytes: Range<u64>) -> bool {
        if bytes.start >= self.damaged.end {
            *self = Self { damaged: bytes.clone(), read: 0 };
        }
        self.damaged.end = self.damaged.end.max(bytes.end);
        self.read = self.read.saturating_add(bytes.end.saturating_sub(bytes.start));
        self.read <= Self::MAX_TIMES * (self.damaged.end - self.damaged.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds chunks of a size and returns what is found, as an offset in the whole text.
    fn find(is_for_event: bool, text: &[u8], chunk_bytes: usize) -> Option<usize> {
        let (mut search, mut buffer, mut base) = (Search::new(is_for_event), Vec::new(), 0);
        for chunk in text.chunks(chunk_bytes) {
            let from = buffer.len();
            buffer.extend_from_slice(chunk);
            match search.next(&buffer, from) {
                Found::Event(at) | Found::List(at) => return Some(base + at),
                Found::Nothing { keep_from } => {
                    buffer.drain(..keep_from);
                    base += keep_from;
                    assert!(buffer.len() <= MAX_SPACE_BYTES + 1, "the buffer is bounded");
                }
            }
        }
        None
    }

    #[test]
    fn a_place_to_resume_is_found_wherever_chunks_end() {
        for (is_for_event, text, want) in [
            (true, &b"x}, {\"ph\""[..], Some(4)),
            (true, b" , { \"ph\"", Some(3)),
            (true, b"x, {\"ph\"", None),
            (true, b"}},{}, \n{\"a\"", Some(8)),
            (true, b"},{1},{\"a\"", Some(6)),
            (false, b"{\"traceEvents\" : [", Some(18)),
            (false, b"\"traceEvents\":{\"traceEvents\":[", Some(30)),
            (false, b"\"traceEvents\",\"traceEvents\"\n:\n[", Some(31)),
            (false, b"\"traceEvent\": [", None),
        ] {
            for chunk_bytes in 1..=text.len() {
                assert_eq!(find(is_for_event, text, chunk_bytes), want, "{} {chunk_bytes}", text.escape_ascii());
            }
        }
    }

    #[test]
    fn white_space_is_not_kept() {
        let space = vec![b' '; 10 * MAX_SPACE_BYTES];
        for (is_for_event, before, after, is_found) in
            [(true, "},", "{\"", true), (true, "},{", "\"", false), (false, "\"traceEvents\":", "[", true)]
        {
            let text = [before.as_bytes(), &space, after.as_bytes()].concat();
            assert_eq!(find(is_for_event, &text, 1 << 12).is_some(), is_found, "{before}");
        }
    }

    #[test]
    fn nested_damage_is_read_a_bounded_number_of_times() {
        let (mut reread, mut read, mut at) = (Reread::default(), 0, 0);
        // Each level begins one byte later and reaches to the same damage.
        while at < 1_000_000 {
            read += 1_000_000 - at;
            at = if reread.allows(at..1_000_000) { at + 1 } else { 1_000_000 };
        }
        assert!(read <= 10_000_000, "{read}");
    }
}
