//! Cuts a stream of JSON text into the elements of `traceEvents`, without building a tree and without holding the text.
//!
//! Bytes come in chunks of any size. Sixty-four at a time, masks of quotes and brackets (`blocks`) tell where an
//! element of the list begins and ends; the element is handed to the [`Sink`] as one slice. Kept between chunks is only
//! the element (or top-level member) that has not ended yet.
//!
//! A damaged file does not end the reading. A lost quote or brace makes one event swallow what follows; such an event
//! is recognised (it is long or holds a second `"ph"`, and breaks JSON's grammar), counted as unreadable, and the
//! splitter goes on at the next `}, {"`. All decisions depend on the bytes alone, never on where a chunk ended.

mod blocks;

use crate::json::{Cursor, Step, sound_prefix};
use blocks::{Block, Phases, Strings, masks};
use memchr::memmem;

/// Receives what the splitter cuts out. `at` is the byte offset in the whole text.
pub trait Sink {
    /// One element of the event list.
    fn event(&mut self, text: &[u8], at: u64);
    /// One member of the top-level object that is not the event list; strings come with their quotes.
    fn member(&mut self, key: &[u8], value: &[u8]);
    /// A part of the event list that is not readable.
    fn unreadable(&mut self, at: u64);
}

/// How the text ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With its closing bracket; `trailing` bytes that are no white space followed.
    Complete {
        /// So many bytes.
        trailing: u64,
    },
    /// Between two elements of a bare array, which the trace event format allows.
    Unclosed {
        /// The text's length.
        at: u64,
    },
    /// In the middle, at this byte.
    CutShort {
        /// The text's length.
        at: u64,
    },
}

/// A top-level member (or the gap between two) longer than this is not looked at.
const MEMBER_LIMIT: usize = 16 << 20;
/// An event longer than this is not one.
const EVENT_LIMIT: usize = 64 << 20;
/// From this length on an event's grammar is checked while it is still open, and again at each doubling.
const FIRST_CHECK: usize = 16 << 10;
/// The same after an event was lost, until a sound one came: damage often comes in numbers.
const WARY_CHECK: usize = 256;
/// Shorter elements are not searched for a second `"ph"`: no two events fit of which one is a GPU op.
const TWO_EVENTS: usize = 144;

/// See the module's head.
#[derive(Debug)]
pub struct Splitter {
    buffer: Vec<u8>,
    /// The offset of `buffer[0]` in the whole text.
    base: u64,
    /// Up to here masks were taken.
    scanned: usize,
    strings: Strings,
    phases: Phases,
    /// How many were counted where the current item begins.
    phases_before: u32,
    place: Place,
    /// Open brackets of the current item; zero between items.
    depth: u32,
    /// Where the current item, or the gap between two, begins.
    begin: usize,
    /// The length at which the open event, or the gap, is checked next.
    next_check: usize,
    /// An event was lost and no sound one came since.
    wary: bool,
    /// The key of the open top-level member.
    key: Vec<u8>,
    found_events: bool,
    /// The event list is a member of an object, not the document itself.
    nested: bool,
    trailing: u64,
}

/// Where in the document the splitter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Before the first bracket.
    Start,
    /// Among the members of the top-level object.
    Members,
    /// Inside the event list.
    Events,
    /// Lost: looking for the next plausible event, or for the list if it was not seen yet.
    Lost,
    /// After the document's closing bracket.
    After,
}

/// Why scanning paused.
enum Pause {
    /// All whole blocks are scanned.
    NeedMore,
    /// The place changed so that scanning must start again at `begin`.
    Restart,
}

impl Default for Splitter {
    fn default() -> Self {
        Self {
            buffer: Vec::new(),
            base: 0,
            scanned: 0,
            strings: Strings::default(),
            phases: Phases::default(),
            phases_before: 0,
            place: Place::Start,
            depth: 0,
            begin: 0,
            next_check: FIRST_CHECK,
            wary: false,
            key: Vec::new(),
            found_events: false,
            nested: false,
            trailing: 0,
        }
    }
}

impl Splitter {
    /// True once the event list was entered.
    pub fn found_events(&self) -> bool {
        self.found_events
    }

    /// True where the event list is a member of an object, not the document itself.
    pub fn is_nested(&self) -> bool {
        self.nested
    }

    /// Takes the next bytes of the text.
    pub fn feed(&mut self, chunk: &[u8], sink: &mut dyn Sink) {
        self.forget_consumed();
        self.buffer.extend_from_slice(chunk);
        self.run(false, sink);
    }

    /// Takes the end of the text.
    pub fn finish(&mut self, sink: &mut dyn Sink) -> End {
        loop {
            self.run(true, sink);
            let rest = self.buffer.get(self.begin..).unwrap_or_default();
            match (self.place, self.depth) {
                (Place::Events, 0) if !is_separator(rest) => self.lose_gap(sink),
                (Place::Events, 1..) if !sound_prefix(rest) => self.lose_event(sink),
                _ => break,
            };
        }
        let at = self.base + self.buffer.len() as u64;
        match self.place {
            Place::After => End::Complete { trailing: self.trailing },
            Place::Events if !self.nested && self.depth == 0 => End::Unclosed { at },
            _ => End::CutShort { at },
        }
    }

    fn forget_consumed(&mut self) {
        let keep = match self.place {
            Place::Members if self.depth > 0 && self.scanned - self.begin > MEMBER_LIMIT => self.scanned,
            _ => self.begin,
        };
        self.buffer.drain(..keep);
        self.base += keep as u64;
        self.scanned -= keep;
        self.begin = 0;
    }

    fn run(&mut self, last: bool, sink: &mut dyn Sink) {
        let buffer = std::mem::take(&mut self.buffer);
        loop {
            let pause = match self.place {
                Place::Start => self.start(&buffer),
                Place::Members | Place::Events => self.scan(&buffer, last, sink),
                Place::Lost => self.search(&buffer),
                Place::After => self.count_trailing(&buffer),
            };
            if matches!(pause, Pause::NeedMore) {
                break;
            }
        }
        self.buffer = buffer;
    }

    fn start(&mut self, buffer: &[u8]) -> Pause {
        let begin = buffer.iter().position(|byte| matches!(byte, b'{' | b'[')).unwrap_or(buffer.len());
        self.restart_at(begin + 1);
        match buffer.get(begin) {
            Some(b'{') => self.place = Place::Members,
            Some(_) => self.enter_events(false),
            None => {
                self.restart_at(begin);
                return Pause::NeedMore;
            }
        }
        Pause::Restart
    }

    fn enter_events(&mut self, nested: bool) {
        self.place = Place::Events;
        self.nested = nested;
        self.found_events = true;
    }

    fn restart_at(&mut self, at: usize) {
        self.begin = at;
        self.scanned = at;
        self.depth = 0;
        self.strings = Strings::default();
        self.phases = Phases::default();
        self.phases_before = 0;
        self.next_check = self.first_check();
    }

    fn first_check(&self) -> usize {
        if self.wary { WARY_CHECK } else { FIRST_CHECK }
    }

    fn scan(&mut self, buffer: &[u8], last: bool, sink: &mut dyn Sink) -> Pause {
        let (blocks, rest) = buffer.get(self.scanned..).unwrap_or_default().as_chunks::<64>();
        for block in blocks {
            if let Pause::Restart = self.scan_block(buffer, block, 64, sink) {
                return Pause::Restart;
            }
        }
        if last && !rest.is_empty() {
            let mut block = [b' '; 64];
            for (slot, byte) in block.iter_mut().zip(rest) {
                *slot = *byte;
            }
            return self.scan_block(buffer, &block, rest.len(), sink);
        }
        Pause::NeedMore
    }

    #[inline(always)]
    fn scan_block(&mut self, buffer: &[u8], block: &Block, length: usize, sink: &mut dyn Sink) -> Pause {
        let masks = masks(block);
        let outside = !self.strings.inside(&masks);
        let (open, close) = (masks.open & outside, masks.close & outside);
        self.phases.take(&masks);
        let block_at = self.scanned;
        self.scanned += length;
        let mut brackets = open | close;
        while brackets != 0 {
            let bit = brackets.trailing_zeros();
            brackets &= brackets - 1;
            let at = block_at + bit as usize;
            let restart =
                if open >> bit & 1 == 1 { self.open(buffer, at, bit, sink) } else { self.close(buffer, at, bit, sink) };
            if restart {
                return Pause::Restart;
            }
        }
        if self.scanned - self.begin >= self.next_check {
            return self.check_length(buffer, sink);
        }
        Pause::NeedMore
    }

    /// A `{` or `[` outside strings; true where scanning must start again.
    #[inline(always)]
    fn open(&mut self, buffer: &[u8], at: usize, bit: u32, sink: &mut dyn Sink) -> bool {
        if self.depth > 0 {
            self.depth += 1;
            return false;
        }
        let gap = buffer.get(self.begin..at).unwrap_or_default();
        if self.place == Place::Members {
            let Some(Some(key)) = read_members(gap, sink).filter(|_| gap.len() <= MEMBER_LIMIT) else {
                return self.lose_gap(sink);
            };
            if key == b"traceEvents" && buffer.get(at) == Some(&b'[') {
                self.enter_events(true);
                self.restart_item(at + 1);
                return false;
            }
            self.key = key.to_vec();
        } else if !is_separator(gap) {
            if !are_scalars(gap) {
                return self.lose_gap(sink);
            }
            // No events, and no harm to the next one.
            sink.unreadable(self.base + self.begin as u64);
        }
        self.restart_item(at);
        self.phases_before = self.phases.until(bit);
        self.depth = 1;
        false
    }

    /// A `}` or `]` outside strings; true where scanning must start again.
    #[inline(always)]
    fn close(&mut self, buffer: &[u8], at: usize, bit: u32, sink: &mut dyn Sink) -> bool {
        if self.depth > 1 {
            self.depth -= 1;
            return false;
        }
        if self.depth == 0 {
            return self.close_list(buffer, at, sink);
        }
        let text = buffer.get(self.begin..=at).unwrap_or_default();
        if self.place == Place::Members {
            if text.len() <= MEMBER_LIMIT {
                sink.member(&self.key, text);
            }
        } else if text.last() != Some(&b'}') || (self.is_suspicious(text, bit) && !sound_prefix(text)) {
            if !is_list(text) {
                return self.lose_event(sink);
            }
            // No event, and no harm to the next one.
            sink.unreadable(self.base + self.begin as u64);
        } else {
            self.wary = false;
            sink.event(text, self.base + self.begin as u64);
        }
        self.depth = 0;
        self.restart_item(at + 1);
        false
    }

    /// Long, or with two `"ph"` keys: perhaps it swallowed its neighbours.
    #[inline]
    fn is_suspicious(&self, text: &[u8], bit: u32) -> bool {
        let phases = self.phases.until(bit).wrapping_sub(self.phases_before);
        let two_events = || phases > 1 && memmem::find_iter(text, b"\"ph\"").nth(1).is_some();
        text.len() >= self.first_check() || (text.len() >= TWO_EVENTS && two_events())
    }

    /// The end of the event list or of the document, if the bracket is of the right kind.
    #[cold]
    fn close_list(&mut self, buffer: &[u8], at: usize, sink: &mut dyn Sink) -> bool {
        let gap = buffer.get(self.begin..at).unwrap_or_default();
        let right = match self.place {
            Place::Events => buffer.get(at) == Some(&b']'),
            _ => buffer.get(at) == Some(&b'}') && read_members(gap, sink) == Some(None),
        };
        if !right {
            sink.unreadable(self.base + at as u64);
            return self.lose(at);
        }
        if self.place == Place::Events && !is_separator(gap) {
            sink.unreadable(self.base + self.begin as u64);
        }
        let nested = self.place == Place::Events && self.nested;
        self.place = if nested { Place::Members } else { Place::After };
        self.restart_item(at + 1);
        if self.place == Place::After {
            self.restart_at(at + 1);
        }
        self.place == Place::After
    }

    /// The next item or gap begins here; strings and depth go on.
    #[inline(always)]
    fn restart_item(&mut self, begin: usize) {
        self.begin = begin;
        self.next_check = self.first_check();
    }

    /// An item or gap has become long. What is decided hangs on its first `next_check` bytes alone.
    #[cold]
    fn check_length(&mut self, buffer: &[u8], sink: &mut dyn Sink) -> Pause {
        let prefix = buffer.get(self.begin..self.begin + self.next_check).unwrap_or_default();
        let sound = match (self.place, self.depth) {
            (Place::Members, 0) => self.next_check < MEMBER_LIMIT,
            (Place::Members, _) => true,
            (_, 0) if is_separator(prefix) => {
                self.restart_item(self.begin + self.next_check);
                return Pause::NeedMore;
            }
            (_, 0) => false,
            _ => self.next_check < EVENT_LIMIT && sound_prefix(prefix),
        };
        if sound {
            self.next_check = self.next_check.saturating_mul(2);
            return Pause::NeedMore;
        }
        if self.depth > 0 {
            self.lose_event(sink);
        } else {
            self.lose_gap(sink);
        }
        Pause::Restart
    }

    /// What stands between two items is damaged: the way on is looked for from its beginning.
    #[cold]
    fn lose_gap(&mut self, sink: &mut dyn Sink) -> bool {
        sink.unreadable(self.base + self.begin as u64);
        self.lose(self.begin)
    }

    fn lose_event(&mut self, sink: &mut dyn Sink) -> bool {
        sink.unreadable(self.base + self.begin as u64);
        self.lose(self.begin + 1)
    }

    fn lose(&mut self, at: usize) -> bool {
        self.wary = true;
        self.restart_at(at);
        self.place = Place::Lost;
        true
    }

    /// Finds the next place to go on from; keeps what could be the beginning of one.
    fn search(&mut self, buffer: &[u8]) -> Pause {
        let from = buffer.get(self.begin..).unwrap_or_default();
        let found = if self.found_events { next_event(from) } else { event_list(from) };
        match found {
            Search::Found(at) if self.found_events => {
                self.restart_at(self.begin + at);
                self.place = Place::Events;
                Pause::Restart
            }
            Search::Found(at) => {
                self.restart_at(self.begin + at);
                self.enter_events(true);
                Pause::Restart
            }
            Search::KeepFrom(at) => {
                self.restart_at(self.begin + at);
                Pause::NeedMore
            }
        }
    }

    fn count_trailing(&mut self, buffer: &[u8]) -> Pause {
        let rest = buffer.get(self.begin..).unwrap_or_default();
        self.trailing += rest.iter().filter(|byte| !byte.is_ascii_whitespace() && **byte != 0).count() as u64;
        self.restart_at(buffer.len());
        Pause::NeedMore
    }
}

/// What a search for a way on found.
enum Search {
    /// Go on here.
    Found(usize),
    /// Nothing yet; everything before this can go.
    KeepFrom(usize),
}

/// The next `{` that follows `},`, or a comma at the very beginning, and precedes `"`, white space allowed between.
fn next_event(text: &[u8]) -> Search {
    for at in memchr::memchr_iter(b'{', text) {
        let before = text.get(..at).unwrap_or_default().trim_ascii_end();
        let Some(before) = before.strip_suffix(b",").map(<[u8]>::trim_ascii_end) else { continue };
        if !(before.is_empty() || before.ends_with(b"}")) {
            continue;
        }
        match text.get(at + 1..).unwrap_or_default().trim_ascii_start().first() {
            Some(b'"') => return Search::Found(at),
            Some(_) => {}
            None => return Search::KeepFrom(before.len().saturating_sub(1)),
        }
    }
    // The end of the text may be the beginning of what is looked for. The byte before it stays as well: without it a
    // comma in the middle of the text would look like one at its very beginning.
    let end = text.trim_ascii_end();
    let end = end.strip_suffix(b",").unwrap_or(end).trim_ascii_end();
    Search::KeepFrom(end.len().saturating_sub(1))
}

/// The place after `"traceEvents": [`.
fn event_list(text: &[u8]) -> Search {
    const KEY: &[u8] = b"\"traceEvents\"";
    let mut keep = text.len().saturating_sub(KEY.len());
    for at in memmem::find_iter(text, KEY) {
        let rest = text.get(at + KEY.len()..).unwrap_or_default().trim_ascii_start();
        let inside = rest.strip_prefix(b":").map(<[u8]>::trim_ascii_start);
        if rest.is_empty() || inside.is_some_and(<[u8]>::is_empty) {
            keep = at;
        } else if let Some(events) = inside.and_then(|rest| rest.strip_prefix(b"[")) {
            return Search::Found(text.len() - events.len());
        }
    }
    Search::KeepFrom(keep)
}

/// Reads the scalar members in the text between two containers. Inside is the key that the next container belongs to,
/// if there is one; `None` where the text is no JSON.
fn read_members<'a>(gap: &'a [u8], sink: &mut dyn Sink) -> Option<Option<&'a [u8]>> {
    let mut cursor = Cursor::new(gap);
    while !cursor.at_end() {
        let Step::Key(key) = cursor.key() else { return None };
        if cursor.at_end() {
            return Some(Some(key));
        }
        sink.member(key, cursor.value()?.scalar()?);
    }
    Some(None)
}

/// Numbers, literals and strings with commas between them. Without those they are members of a lost event, or what a stray
/// quote has made of some.
#[cold]
fn are_scalars(gap: &[u8]) -> bool {
    let mut cursor = Cursor::new(gap);
    while !cursor.at_end() {
        let value = cursor.value();
        let behind = gap.get(cursor.at()..).unwrap_or_default().trim_ascii_start();
        if value.is_none() || !(behind.is_empty() || behind.starts_with(b",")) {
            return false;
        }
    }
    true
}

/// A sound list in which no event is lost.
#[cold]
fn is_list(text: &[u8]) -> bool {
    text.first() == Some(&b'[') && sound_prefix(text) && memmem::find(text, b"\"ph\"").is_none()
}

/// Commas and white space.
#[inline]
fn is_separator(gap: &[u8]) -> bool {
    gap.iter().all(|byte| *byte == b',' || byte.is_ascii_whitespace())
}
