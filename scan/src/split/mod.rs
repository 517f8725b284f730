//! Splits a stream of JSON text into the elements of `traceEvents`, without building a tree. O(bytes); memory for one element.
//!
//! Bytes come in chunks of any size. Bit masks of quotes and brackets, 64 bytes at a time (`blocks`), give the nesting depth. Each
//! element is passed to the [`Sink`] as one slice. Between chunks only the incomplete element (or top-level member) is kept.
//!
//! Error recovery: a lost quote or brace makes one event swallow the following ones. Such an event is long or has a
//! second `"ph"`, and is not valid JSON. It is reported as unreadable, and splitting resumes at the next `}, {"`. All
//! decisions depend only on the bytes, never on chunk boundaries. Brackets nest, so a place to resume may lie inside
//! an event that is damaged later; `recovery` bounds how often the same bytes are read again.

mod blocks;
mod recovery;

use crate::json::{Cursor, Step, is_valid_prefix};
use blocks::{Block, Phases, Strings, masks};
use memchr::memmem;
use recovery::{Found, Reread, Search};

/// Receives the output of the splitter. `at` is the byte offset in the whole text.
pub trait Sink {
    /// One element of the event list.
    fn event(&mut self, text: &[u8], at: u64);
    /// One member of the top-level object other than the event list. A string value has no quotes.
    fn member(&mut self, key: &[u8], value: &[u8]);
    /// An unreadable part of the event list.
    fn unreadable(&mut self, at: u64);
    /// An event that is longer than [`MAX_EVENT_BYTES`] and no damage up to there.
    fn too_large(&mut self, at: u64);
}

/// The end of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// The text is complete.
    Complete {
        /// Number of bytes after the closing bracket that are not white space.
        trailing: u64,
    },
    /// The text ends between two elements of a top-level array, which the trace event format allows.
    Unclosed {
        /// Length of the text.
        at: u64,
    },
    /// No event was found after one that is too large.
    InLargeEvent,
    /// The text ends elsewhere.
    CutShort {
        /// Length of the text.
        at: u64,
    },
}

/// A top-level member (or the gap between two) longer than this is skipped.
const MAX_MEMBER_BYTES: usize = 16 << 20;
/// A longer event is not read.
const MAX_EVENT_BYTES: usize = 64 << 20;
/// An incomplete event of this length is checked for valid JSON, and again each time its length doubles.
const FIRST_CHECK_BYTES: usize = 16 << 10;
/// The same after an unreadable event, until a valid one: damage often affects several events.
const WARY_CHECK_BYTES: usize = 256;
/// Shorter elements are not searched for a second `"ph"`: they cannot contain two events of which one is a GPU op.
const MIN_TWO_EVENTS_BYTES: usize = 144;

/// The splitter; see the module.
#[derive(Debug)]
pub struct Splitter {
    buffer: Vec<u8>,
    /// The offset of `buffer[0]` in the whole text.
    base: u64,
    /// End of the scanned part of `buffer`.
    scanned: usize,
    strings: Strings,
    phases: Phases,
    /// Value of `phases` at the start of the current item.
    phases_before: u32,
    state: State,
    /// Number of open brackets of the current item; zero between items.
    depth: u32,
    /// Start of the current item, or of the gap between two.
    begin: usize,
    /// Length at which the open event or gap is checked next.
    next_check: usize,
    /// True from an unreadable event until the next valid one.
    is_wary: bool,
    /// Key of the open top-level member.
    key: Vec<u8>,
    found_events: bool,
    /// True if the event list is a member of an object; false if it is the document.
    is_nested: bool,
    /// Bytes after the document that are not white space.
    trailing: u64,
    /// Whether the search for a place to resume began in an event that is too large.
    is_in_large_event: bool,
    /// The search for a place to resume, in [`State::Lost`].
    search: Search,
    reread: Reread,
}

/// The position in the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Before the first bracket.
    Start,
    /// Among the members of the top-level object.
    Members,
    /// Inside the event list.
    Events,
    /// After damage: searching for the next plausible event, or for the list if it was not found yet.
    Lost,
    /// After the document's closing bracket.
    After,
}

/// The reason to stop scanning.
enum Pause {
    /// All complete blocks are scanned.
    NeedMore,
    /// The state changed; scan again from `begin`.
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
            state: State::Start,
            depth: 0,
            begin: 0,
            next_check: FIRST_CHECK_BYTES,
            is_wary: false,
            key: Vec::new(),
            found_events: false,
            is_nested: false,
            trailing: 0,
            is_in_large_event: false,
            search: Search::new(false),
            reread: Reread::default(),
        }
    }
}

impl Splitter {
    /// Returns true if the event list was found.
    pub fn found_events(&self) -> bool {
        self.found_events
    }

    /// Returns true if the event list is a member of an object; false if it is the document itself.
    pub fn is_nested(&self) -> bool {
        self.is_nested
    }

    /// Takes the next bytes of the text.
    pub fn feed(&mut self, chunk: &[u8], sink: &mut dyn Sink) {
        self.drop_consumed();
        self.buffer.extend_from_slice(chunk);
        self.run(false, sink);
    }

    /// Ends the text.
    pub fn finish(&mut self, sink: &mut dyn Sink) -> End {
        loop {
            self.run(true, sink);
            let rest = self.buffer.get(self.begin..).unwrap_or_default();
            match (self.state, self.depth) {
                (State::Events, 0) if !is_separator(rest) => self.lose_gap(self.buffer.len(), sink),
                (State::Events, 1..) if !is_valid_prefix(rest) => self.lose_event(self.buffer.len(), sink),
                _ => break,
            };
        }
        let at = self.base + self.buffer.len() as u64;
        match self.state {
            State::After => End::Complete { trailing: self.trailing },
            State::Events if !self.is_nested && self.depth == 0 => End::Unclosed { at },
            State::Lost if self.is_in_large_event => End::InLargeEvent,
            _ => End::CutShort { at },
        }
    }

    fn drop_consumed(&mut self) {
        let keep = match self.state {
            State::Members if self.depth > 0 && self.scanned - self.begin > MAX_MEMBER_BYTES => self.scanned,
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
            let pause = match self.state {
                State::Start => self.start(&buffer),
                State::Members | State::Events => self.scan(&buffer, last, sink),
                State::Lost => self.search(&buffer),
                State::After => self.count_trailing(&buffer),
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
            Some(b'{') => self.state = State::Members,
            Some(_) => self.enter_events(false),
            None => {
                self.restart_at(begin);
                return Pause::NeedMore;
            }
        }
        Pause::Restart
    }

    fn enter_events(&mut self, nested: bool) {
        self.state = State::Events;
        self.is_nested = nested;
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
        if self.is_wary { WARY_CHECK_BYTES } else { FIRST_CHECK_BYTES }
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
        self.phases.add_block(&masks);
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

    /// Handles a `{` or `[` outside strings; returns true if scanning must restart.
    #[inline(always)]
    fn open(&mut self, buffer: &[u8], at: usize, bit: u32, sink: &mut dyn Sink) -> bool {
        if self.depth > 0 {
            self.depth += 1;
            return false;
        }
        let gap = buffer.get(self.begin..at).unwrap_or_default();
        if self.state == State::Members {
            let Some(Some(key)) = read_members(gap, sink).filter(|_| gap.len() <= MAX_MEMBER_BYTES) else {
                return self.lose_gap(at, sink);
            };
            if key == b"traceEvents" && buffer.get(at) == Some(&b'[') {
                self.enter_events(true);
                self.restart_item(at + 1);
                return false;
            }
            self.key = key.to_vec();
        } else if !is_separator(gap) {
            if !are_scalars(gap) {
                return self.lose_gap(at, sink);
            }
            // Scalars are not events, but the next event is intact.
            sink.unreadable(self.base + self.begin as u64);
        }
        self.restart_item(at);
        self.phases_before = self.phases.count_before(bit);
        self.depth = 1;
        false
    }

    /// Handles a `}` or `]` outside strings; returns true if scanning must restart.
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
        if self.state == State::Members {
            if text.len() <= MAX_MEMBER_BYTES {
                sink.member(&self.key, text);
            }
        } else if text.last() != Some(&b'}') || (self.is_suspicious(text, bit) && !is_valid_prefix(text)) {
            if !is_list(text) {
                return self.lose_event(at + 1, sink);
            }
            // A list is not an event, but the next event is intact.
            sink.unreadable(self.base + self.begin as u64);
        } else {
            self.is_wary = false;
            sink.event(text, self.base + self.begin as u64);
        }
        self.depth = 0;
        self.restart_item(at + 1);
        false
    }

    /// Returns true if the event may have swallowed its neighbours: it is long or has two `"ph"` keys.
    #[inline]
    fn is_suspicious(&self, text: &[u8], bit: u32) -> bool {
        let phases = self.phases.count_before(bit).wrapping_sub(self.phases_before);
        let two_events = || phases > 1 && memmem::find_iter(text, b"\"ph\"").nth(1).is_some();
        text.len() >= self.first_check() || (text.len() >= MIN_TWO_EVENTS_BYTES && two_events())
    }

    /// Ends the event list or the document if the bracket has the right kind; otherwise starts recovery.
    #[cold]
    fn close_list(&mut self, buffer: &[u8], at: usize, sink: &mut dyn Sink) -> bool {
        let gap = buffer.get(self.begin..at).unwrap_or_default();
        let right = match self.state {
            State::Events => buffer.get(at) == Some(&b']'),
            _ => buffer.get(at) == Some(&b'}') && read_members(gap, sink) == Some(None),
        };
        if !right {
            sink.unreadable(self.base + at as u64);
            return self.lose(at);
        }
        if self.state == State::Events && !is_separator(gap) {
            sink.unreadable(self.base + self.begin as u64);
        }
        let nested = self.state == State::Events && self.is_nested;
        self.state = if nested { State::Members } else { State::After };
        self.restart_item(at + 1);
        if self.state == State::After {
            self.restart_at(at + 1);
        }
        self.state == State::After
    }

    /// Starts the next item or gap here. The state of strings and depth continues.
    #[inline(always)]
    fn restart_item(&mut self, begin: usize) {
        self.begin = begin;
        self.next_check = self.first_check();
    }

    /// Checks a long item or gap. The decision uses only its first `next_check` bytes, so it does not depend on chunk boundaries.
    #[cold]
    fn check_length(&mut self, buffer: &[u8], sink: &mut dyn Sink) -> Pause {
        let prefix = buffer.get(self.begin..self.begin + self.next_check).unwrap_or_default();
        let is_plausible = match (self.state, self.depth) {
            (State::Members, 0) => self.next_check < MAX_MEMBER_BYTES,
            (State::Members, _) => true,
            (_, 0) if is_separator(prefix) => {
                self.restart_item(self.begin + self.next_check);
                return Pause::NeedMore;
            }
            (_, 0) => false,
            _ if is_valid_prefix(prefix) => {
                if self.next_check >= MAX_EVENT_BYTES {
                    return self.skip_event(sink);
                }
                true
            }
            _ => false,
        };
        if is_plausible {
            self.next_check = self.next_check.saturating_mul(2);
            return Pause::NeedMore;
        }
        let end = self.begin + self.next_check;
        if self.depth > 0 {
            self.lose_event(end, sink);
        } else {
            self.lose_gap(end, sink);
        }
        Pause::Restart
    }

    /// Starts recovery at the beginning of a damaged gap that was looked at up to `end`.
    #[cold]
    fn lose_gap(&mut self, end: usize, sink: &mut dyn Sink) -> bool {
        sink.unreadable(self.base + self.begin as u64);
        self.lose_within(self.begin, end)
    }

    /// Starts recovery inside a damaged event that was looked at up to `end`.
    #[cold]
    fn lose_event(&mut self, end: usize, sink: &mut dyn Sink) -> bool {
        sink.unreadable(self.base + self.begin as u64);
        self.lose_within(self.begin + 1, end)
    }

    /// Searches for the event after one that is too large.
    #[cold]
    fn skip_event(&mut self, sink: &mut dyn Sink) -> Pause {
        sink.too_large(self.base + self.begin as u64);
        self.lose_within(self.begin + 1, self.begin + self.next_check);
        self.is_in_large_event = true;
        Pause::Restart
    }

    fn lose_within(&mut self, at: usize, end: usize) -> bool {
        let bytes = self.base + self.begin as u64..self.base + end as u64;
        let at = if self.reread.allows(bytes) { at } else { end.max(at) };
        self.lose(at)
    }

    fn lose(&mut self, at: usize) -> bool {
        self.is_wary = true;
        self.is_in_large_event = false;
        self.restart_at(at);
        self.state = State::Lost;
        self.search = Search::new(self.found_events);
        true
    }

    /// Searches for a place to resume. Keeps only the beginning of a match.
    fn search(&mut self, buffer: &[u8]) -> Pause {
        let found = self.search.next(buffer, self.scanned);
        match found {
            Found::Event(at) => {
                self.restart_at(at);
                self.state = State::Events;
                Pause::Restart
            }
            Found::List(at) => {
                self.restart_at(at);
                self.enter_events(true);
                Pause::Restart
            }
            Found::Nothing { keep_from } => {
                self.begin = keep_from;
                self.scanned = buffer.len();
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

/// Parses the scalar members between two containers. Returns the key of the next container, if there is one; the outer `None`
/// means invalid JSON.
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

/// Returns true if the text is a list of numbers, literals and strings with commas between them. Otherwise it is the remainder of
/// a damaged event.
#[cold]
fn are_scalars(gap: &[u8]) -> bool {
    let mut cursor = Cursor::new(gap);
    while !cursor.at_end() {
        let value = cursor.value();
        let rest = gap.get(cursor.at()..).unwrap_or_default().trim_ascii_start();
        if value.is_none() || !(rest.is_empty() || rest.starts_with(b",")) {
            return false;
        }
    }
    true
}

/// Returns true for a valid list that contains no event.
#[cold]
fn is_list(text: &[u8]) -> bool {
    text.first() == Some(&b'[') && is_valid_prefix(text) && memmem::find(text, b"\"ph\"").is_none()
}

/// Returns true for commas and white space only.
#[inline]
fn is_separator(gap: &[u8]) -> bool {
    gap.iter().all(|byte| *byte == b',' || byte.is_ascii_whitespace())
}
