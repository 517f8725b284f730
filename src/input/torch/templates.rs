//! Events that are written alike: between their values the same text stands at every one, so that only the values need be
//! read. A trace has a million Python frames of one shape.
//!
//! A shape is learnt from an event that was read member by member. An event that differs from it in one byte outside of
//! its values, or whose values hold anything unusual, is read member by member as well.

use super::{Class, Fields, MICROSECONDS};
use crate::trace::{NONE, Ns, ThreadId, leading_integer};

/// The shapes of a file.
#[derive(Debug, Default)]
pub(super) struct EventTemplates(Vec<EventTemplate>);

/// What is kept of a CPU op or a Python frame.
#[derive(Debug)]
pub(super) struct TemplateEvent<'a> {
    pub(super) class: Class,
    pub(super) name: &'a [u8],
    pub(super) owner: Owner<'a>,
    pub(super) start: Ns,
    pub(super) duration: Ns,
    /// The external id of a CPU op, a frame's own id.
    pub(super) id: u32,
    /// A frame's caller.
    pub(super) parent: u32,
}

/// Whose event it is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Owner<'a> {
    /// The same as that of the last event of this shape.
    Last(ThreadId),
    /// Another: to be told to [`EventTemplates::remember`].
    Other { pid: &'a [u8], tid: &'a [u8], text: &'a [u8], shape: usize },
    /// That of an event which was read member by member.
    Unshaped { pid: &'a [u8], tid: &'a [u8] },
}

#[derive(Debug)]
struct EventTemplate {
    class: Class,
    /// In the order of the file.
    parts: Vec<Part>,
    /// Stands behind the last value.
    end: u8,
    /// Stand behind pid and tid.
    behind_pid: Text,
    behind_tid: Text,
    /// Whose the last event was: pid and tid with the texts behind them, which tell `25` from `251`.
    last: Option<(Text, ThreadId)>,
}

/// A value and the text in front of it, if that is not part of the owner's.
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
    /// CPU ops and frames, with some room for threads that are written otherwise.
    const KEPT: usize = 4;

    /// The values of an event of a known shape.
    pub(super) fn read<'a>(&self, event: &'a [u8]) -> Option<TemplateEvent<'a>> {
        self.0.iter().enumerate().find_map(|(at, shape)| shape.read(event, at))
    }

    /// Remembers whose the last event was.
    pub(super) fn remember(&mut self, owner: Owner<'_>, thread: ThreadId) {
        if let Owner::Other { text, shape, .. } = owner
            && let Some(shape) = self.0.get_mut(shape)
        {
            shape.last = Some((Text::of(text), thread));
        }
    }

    /// Remembers how this event is written.
    pub(super) fn learn(&mut self, event: &[u8], fields: &Fields<'_>, class: Class) {
        if self.0.len() < Self::KEPT
            && self.read(event).is_none()
            && let Some(shape) = EventTemplate::of(event, fields, class)
        {
            self.0.push(shape);
        }
    }
}

impl EventTemplate {
    fn of(event: &[u8], fields: &Fields<'_>, class: Class) -> Option<Self> {
        let code = &fields.code;
        let ids = match class {
            Class::PythonFrame => vec![(Slot::Id, code.python_id?), (Slot::Parent, code.python_parent?)],
            _ => vec![(Slot::Id, code.external_id?)],
        };
        let members = [
            (Slot::Name, fields.name?),
            (Slot::Owner, fields.pid?.scalar()?),
            (Slot::Owner, fields.tid?),
            (Slot::Start, fields.start?),
            (Slot::Duration, fields.duration?),
        ];
        let place = |value: &[u8]| (value.as_ptr() as usize).checked_sub(event.as_ptr() as usize);
        if place(fields.tid?)? < place(fields.pid?.scalar()?)? {
            return None;
        }
        let mut values = Vec::new();
        for (slot, value) in members.into_iter().chain(ids) {
            let from = place(value)?;
            values.push((from, from.checked_add(value.len())?, slot));
        }
        values.sort_unstable_by_key(|(from, ..)| *from);
        let between = |from: usize, to: usize| event.get(from..to).filter(|text| !text.is_empty()).map(Text::of);
        let pid = values.iter().position(|(.., slot)| *slot == Slot::Owner)?;
        // Pid and tid are neighbours, and not at the end.
        let [(_, pid_end, _), (tid, tid_end, Slot::Owner), (next, ..), ..] = *values.get(pid..)? else { return None };
        let (behind_pid, behind_tid) = (between(pid_end, tid)?, between(tid_end, next)?);
        values.remove(pid + 1);
        let (mut parts, mut at, mut is_behind_owner) = (Vec::with_capacity(values.len()), 0, false);
        for (from, to, slot) in values {
            let before = if is_behind_owner { Text::of(&[]) } else { between(at, from)? };
            is_behind_owner = slot == Slot::Owner;
            parts.push(Part { before, slot });
            at = to;
        }
        Some(Self { class, parts, end: *event.get(at)?, behind_pid, behind_tid, last: None })
    }

    fn read<'a>(&self, event: &'a [u8], place: usize) -> Option<TemplateEvent<'a>> {
        let mut shaped = TemplateEvent {
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
                Slot::Name => (shaped.name, rest) = text(rest)?,
                Slot::Owner => (shaped.owner, rest) = self.owner(rest, place)?,
                Slot::Start => (shaped.start, rest) = Ns::leading_decimal(rest, MICROSECONDS)?,
                Slot::Duration => (shaped.duration, rest) = Ns::leading_decimal(rest, MICROSECONDS)?,
                Slot::Id => (shaped.id, rest) = id(rest)?,
                Slot::Parent => (shaped.parent, rest) = id(rest)?,
            }
        }
        (rest.first() == Some(&self.end)).then_some(shaped)
    }

    /// Reads pid and tid and the texts behind them.
    fn owner<'a>(&self, from: &'a [u8], shape: usize) -> Option<(Owner<'a>, &'a [u8])> {
        if let Some((text, thread)) = &self.last
            && let Some(rest) = text.strip(from)
        {
            return Some((Owner::Last(*thread), rest));
        }
        let value = |from: &'a [u8], behind: &Text| {
            let (value, rest) = if behind.is_quote() { text(from)? } else { bare(from) };
            Some((value, behind.strip(rest)?))
        };
        let (pid, rest) = value(from, &self.behind_pid)?;
        let (tid, rest) = value(rest, &self.behind_tid)?;
        let text = from.get(..from.len() - rest.len())?;
        Some((Owner::Other { pid, tid, text, shape }, rest))
    }
}

/// A text that stands at every event of a shape: whole words of sixteen bytes, and what is left of it.
#[derive(Debug)]
struct Text {
    words: Box<[[u8; Text::WORD]]>,
    left: [u8; Text::WORD],
    left_length: usize,
    /// Ones where `left` has bytes.
    mask: u128,
}

impl Text {
    const WORD: usize = 16;

    fn of(bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks();
        let mut left = [0; Self::WORD];
        let mut mask = [0; Self::WORD];
        for ((left, mask), byte) in left.iter_mut().zip(&mut mask).zip(rest) {
            (*left, *mask) = (*byte, u8::MAX);
        }
        Self { words: words.into(), left, left_length: rest.len(), mask: u128::from_ne_bytes(mask) }
    }

    /// Does it end a quoted value?
    fn is_quote(&self) -> bool {
        self.words.first().unwrap_or(&self.left).first() == Some(&b'"')
    }

    /// What stands behind this text.
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
            // One comparison for bytes that are nearly always fewer than the event has left.
            Some(here) => (u128::from_ne_bytes(*here) ^ u128::from_ne_bytes(self.left)) & self.mask == 0,
            None => from.get(..self.left_length) == self.left.get(..self.left_length),
        };
        if is_here { from.get(self.left_length..) } else { None }
    }
}

/// A text that holds no escape, and what stands behind it.
fn text(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = memchr::memchr2(b'"', b'\\', rest)?;
    (rest.get(at) == Some(&b'"')).then(|| rest.split_at_checked(at))?
}

/// A number or `null`, and what stands behind it.
fn bare(rest: &[u8]) -> (&[u8], &[u8]) {
    let is_bare = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-') || byte.is_ascii_lowercase();
    rest.split_at_checked(rest.iter().take_while(|byte| is_bare(byte)).count()).unwrap_or((rest, &[]))
}

/// Folds an id of 64 bits into 32. Ids count up from an arbitrary number, so that folding keeps them distinct.
pub(super) fn folded_id(id: u64) -> u32 {
    let folded = (id ^ (id >> 32).wrapping_mul(0x9e37_79b9)) as u32;
    if folded == NONE { NONE - 1 } else { folded }
}

/// An id or `null`, and what stands behind it.
fn id(rest: &[u8]) -> Option<(u32, &[u8])> {
    match leading_integer(rest) {
        Some((id, rest)) => Some((folded_id(id), rest)),
        None => Some((NONE, rest.strip_prefix(b"null")?)),
    }
}
