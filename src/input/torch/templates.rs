//! Event templates: a fast parser of CPU ops and Python frames, for events that differ only in their values.
//!
//! A profiler writes a million frames with the same text between the values. A template has these constant texts. It is learnt from
//! an event that was parsed member by member; later events are compared with the texts, 16 bytes at a time, and only their
//! values are parsed. An event that differs in one byte outside its values, or has an unusual value (an escaped string, an
//! exponent), is parsed member by member.

use super::{Class, Fields, MICROSECONDS};
use crate::trace::{NONE, Ns, ThreadId, leading_integer};

/// The templates of a file.
#[derive(Debug, Default)]
pub(super) struct EventTemplates {
    values: Values,
    templates: Vec<EventTemplate>,
}

/// The values that a template parses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Values {
    /// Name, thread, start and duration. Ids stay empty.
    #[default]
    NameAndTime,
    /// Also the ids that join events.
    WithIds,
}

/// The stored values of a CPU op or a Python frame.
#[derive(Debug)]
pub(super) struct TemplateEvent<'a> {
    pub(super) class: Class,
    pub(super) name: &'a [u8],
    pub(super) owner: Owner<'a>,
    pub(super) start: Ns,
    pub(super) duration: Ns,
    /// External id of a CPU op, or own id of a frame.
    pub(super) id: u32,
    /// Id of the calling frame.
    pub(super) parent: u32,
}

/// The thread of an event.
#[derive(Debug, Clone, Copy)]
pub(super) enum Owner<'a> {
    /// The thread of the previous event of this template, as passed to [`EventTemplates::remember`].
    Last(ThreadId),
    /// Another thread. The caller resolves it and passes it to [`EventTemplates::remember`]. `text` is the text from pid to tid.
    Other { pid: &'a [u8], tid: &'a [u8], text: &'a [u8], template: usize },
    /// The thread of an event that was parsed member by member.
    Parsed { pid: &'a [u8], tid: &'a [u8] },
}

#[derive(Debug)]
struct EventTemplate {
    class: Class,
    /// In the order of the file.
    parts: Vec<Part>,
    /// The byte after the last value.
    end: u8,
    /// The texts after pid and tid.
    after_pid: Text,
    after_tid: Text,
    /// The thread of the previous event: pid and tid with the texts after them, which distinguish `25` from `251`.
    last: Option<(Text, ThreadId)>,
}

/// A value and the text before it. The text after the tid is part of the owner, not of the next value.
#[derive(Debug)]
struct Part {
    before: Text,
    slot: Slot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Name,
    /// Pid and tid.
    Owner,
    Start,
    Duration,
    Id,
    Parent,
}

impl EventTemplates {
    /// One for CPU ops and one for frames, and two more for threads that are written differently.
    const MAX_TEMPLATES: usize = 4;

    pub(super) fn new(values: Values) -> Self {
        Self { values, templates: Vec::new() }
    }

    /// Parses an event by a known template; `None` if no template matches.
    pub(super) fn read<'a>(&self, event: &'a [u8]) -> Option<TemplateEvent<'a>> {
        self.templates.iter().enumerate().find_map(|(index, template)| template.read(event, index))
    }

    /// Stores the thread of the previous event.
    pub(super) fn remember(&mut self, owner: Owner<'_>, thread: ThreadId) {
        if let Owner::Other { text, template, .. } = owner
            && let Some(template) = self.templates.get_mut(template)
        {
            template.last = Some((Text::of(text), thread));
        }
    }

    /// Learns a template from an event that was parsed member by member.
    pub(super) fn learn(&mut self, event: &[u8], fields: &Fields<'_>, class: Class) {
        if self.templates.len() < Self::MAX_TEMPLATES
            && self.read(event).is_none()
            && let Some(template) = EventTemplate::learn(event, fields, class, self.values)
        {
            self.templates.push(template);
        }
    }
}

impl EventTemplate {
    /// Cuts an event into values and the texts between them. `None` unless the event has all values, and tid directly after pid.
    fn learn(event: &[u8], fields: &Fields<'_>, class: Class, values: Values) -> Option<Self> {
        let code = &fields.code;
        let ids = match class {
            _ if values == Values::NameAndTime => Vec::new(),
            Class::PythonFrame => vec![(Slot::Id, code.python_id?), (Slot::Parent, code.python_parent?)],
            _ => vec![(Slot::Id, code.external_id?)],
        };
        let members = [
            (Slot::Name, fields.name?),
            (Slot::Owner, fields.pid?),
            (Slot::Owner, fields.tid?),
            (Slot::Start, fields.start?),
            (Slot::Duration, fields.duration?),
        ];
        let offset = |value: &[u8]| (value.as_ptr() as usize).checked_sub(event.as_ptr() as usize);
        if offset(fields.tid?)? < offset(fields.pid?)? {
            return None;
        }
        let mut values = Vec::new();
        for (slot, value) in members.into_iter().chain(ids) {
            let from = offset(value)?;
            values.push((from, from.checked_add(value.len())?, slot));
        }
        values.sort_unstable_by_key(|(from, ..)| *from);
        let between = |from: usize, to: usize| event.get(from..to).filter(|text| !text.is_empty()).map(Text::of);
        let pid = values.iter().position(|(.., slot)| *slot == Slot::Owner)?;
        // Require tid directly after pid, and another value after tid.
        let [(_, pid_end, _), (tid, tid_end, Slot::Owner), (next, ..), ..] = *values.get(pid..)? else { return None };
        let (after_pid, after_tid) = (between(pid_end, tid)?, between(tid_end, next)?);
        values.remove(pid + 1);
        let (mut parts, mut at, mut is_after_owner) = (Vec::with_capacity(values.len()), 0, false);
        for (from, to, slot) in values {
            let before = if is_after_owner { Text::of(&[]) } else { between(at, from)? };
            is_after_owner = slot == Slot::Owner;
            parts.push(Part { before, slot });
            at = to;
        }
        Some(Self { class, parts, end: *event.get(at)?, after_pid, after_tid, last: None })
    }

    fn read<'a>(&self, event: &'a [u8], index: usize) -> Option<TemplateEvent<'a>> {
        let mut parsed = TemplateEvent {
            class: self.class,
            name: &[],
            owner: Owner::Last(ThreadId(0)),
            start: Ns::ZERO,
            duration: Ns::ZERO,
            id: NONE,
            parent: NONE,
        };
        let mut rest = event;
        for Part { before, slot } in &self.parts {
            rest = before.strip(rest)?;
            match slot {
                Slot::Name => (parsed.name, rest) = text(rest)?,
                Slot::Owner => (parsed.owner, rest) = self.owner(rest, index)?,
                Slot::Start => (parsed.start, rest) = Ns::leading_decimal(rest, MICROSECONDS)?,
                Slot::Duration => (parsed.duration, rest) = Ns::leading_decimal(rest, MICROSECONDS)?,
                Slot::Id => (parsed.id, rest) = id(rest)?,
                Slot::Parent => (parsed.parent, rest) = id(rest)?,
            }
        }
        (rest.first() == Some(&self.end)).then_some(parsed)
    }

    /// Parses pid and tid and the texts after them.
    fn owner<'a>(&self, from: &'a [u8], template: usize) -> Option<(Owner<'a>, &'a [u8])> {
        if let Some((text, thread)) = &self.last
            && let Some(rest) = text.strip(from)
        {
            return Some((Owner::Last(*thread), rest));
        }
        let value = |from: &'a [u8], after: &Text| {
            let (value, rest) = if after.is_quote() { text(from)? } else { bare(from) };
            Some((value, after.strip(rest)?))
        };
        let (pid, rest) = value(from, &self.after_pid)?;
        let (tid, rest) = value(rest, &self.after_tid)?;
        let text = from.get(..from.len() - rest.len())?;
        Some((Owner::Other { pid, tid, text, template }, rest))
    }
}

/// A constant text of a template, as words of 16 bytes and a remainder.
#[derive(Debug)]
struct Text {
    words: Box<[[u8; Text::WORD]]>,
    tail: [u8; Text::WORD],
    tail_bytes: usize,
    /// One bits for the valid bytes of `tail`.
    mask: u128,
}

impl Text {
    const WORD: usize = 16;

    fn of(bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks();
        let mut tail = [0; Self::WORD];
        let mut mask = [0; Self::WORD];
        for ((slot, mask), byte) in tail.iter_mut().zip(&mut mask).zip(rest) {
            (*slot, *mask) = (*byte, u8::MAX);
        }
        Self { words: words.into(), tail, tail_bytes: rest.len(), mask: u128::from_ne_bytes(mask) }
    }

    /// Returns true if the text begins with the closing quote of the value before it.
    fn is_quote(&self) -> bool {
        self.words.first().unwrap_or(&self.tail).first() == Some(&b'"')
    }

    /// Returns the rest of `from` after this text; `None` if `from` does not start with it.
    #[inline]
    fn strip<'a>(&self, mut from: &'a [u8]) -> Option<&'a [u8]> {
        for word in &self.words {
            let (here, rest) = from.split_first_chunk()?;
            if here != word {
                return None;
            }
            from = rest;
        }
        let is_here = match from.first_chunk() {
            // One masked comparison of 16 bytes; nearly always that many bytes are left in the event.
            Some(here) => (u128::from_ne_bytes(*here) ^ u128::from_ne_bytes(self.tail)) & self.mask == 0,
            None => from.get(..self.tail_bytes) == self.tail.get(..self.tail_bytes),
        };
        if is_here { from.get(self.tail_bytes..) } else { None }
    }
}

/// Splits off a string value at its closing quote; `None` if it has an escape.
fn text(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr2(b'"', b'\\', rest)?;
    (rest.get(at) == Some(&b'"')).then(|| rest.split_at_checked(at))?
}

/// Splits off a number or `null`.
fn bare(rest: &[u8]) -> (&[u8], &[u8]) {
    let is_bare = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-') || byte.is_ascii_lowercase();
    rest.split_at_checked(rest.iter().take_while(|byte| is_bare(byte)).count()).unwrap_or((rest, &[]))
}

/// Folds an id of 64 bits into 32. Ids count up from an arbitrary number, so that folding keeps them distinct.
pub(super) fn folded_id(id: u64) -> u32 {
    let folded = (id ^ (id >> 32).wrapping_mul(0x9e37_79b9)) as u32;
    if folded == NONE { NONE - 1 } else { folded }
}

/// Parses an id or `null`; also returns the rest.
fn id(rest: &[u8]) -> Option<(u32, &[u8])> {
    match leading_integer(rest) {
        Some((id, rest)) => Some((folded_id(id), rest)),
        None => Some((NONE, rest.strip_prefix(b"null")?)),
    }
}
