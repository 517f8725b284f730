//! Events that are written alike: between their values the same text stands at every one, so that only the values need be
//! read. A trace has a million Python frames of one shape.
//!
//! A shape is learnt from an event that was read member by member. An event that differs from it in one byte outside of
//! its values, or whose values hold anything unusual, is read member by member as well.

use super::{Class, Fields, MICROSECONDS, code};
use crate::trace::{NONE, Ns, ThreadId, leading_whole};

/// The shapes of a file.
#[derive(Debug, Default)]
pub(super) struct Shapes(Vec<Shape>);

/// What is read of an event of a known shape.
#[derive(Debug)]
pub(super) struct Shaped<'a> {
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
    /// Another: to be told to [`Shapes::remember`].
    Other { pid: &'a [u8], tid: &'a [u8], text: &'a [u8], shape: usize },
}

#[derive(Debug)]
struct Shape {
    class: Class,
    /// In the order of the file.
    parts: Vec<Part>,
    /// Stands behind the last value.
    end: u8,
    /// Stands between pid and tid.
    between: Text,
    /// A thread's pid, `between`, its tid and the text behind it, which tells `25` from `251`.
    last: Option<(Text, ThreadId)>,
}

/// A value and the text in front of it.
#[derive(Debug)]
struct Part {
    before: Text,
    slot: Slot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Name,
    Pid,
    Tid,
    Start,
    Duration,
    Id,
    Parent,
}

impl Shapes {
    /// CPU ops and frames, with some room for threads that are written otherwise.
    const KEPT: usize = 4;

    /// The values of an event of a known shape.
    pub(super) fn read<'a>(&self, event: &'a [u8]) -> Option<Shaped<'a>> {
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
            && let Some(shape) = Shape::of(event, fields, class)
        {
            self.0.push(shape);
        }
    }
}

impl Shape {
    fn of(event: &[u8], fields: &Fields<'_>, class: Class) -> Option<Self> {
        let code = &fields.code;
        let ids = match class {
            Class::PythonFrame => vec![(Slot::Id, code.python_id?), (Slot::Parent, code.python_parent?)],
            _ => vec![(Slot::Id, code.external_id?)],
        };
        let members = [
            (Slot::Name, fields.name?),
            (Slot::Pid, fields.pid?.scalar()?),
            (Slot::Tid, fields.tid?),
            (Slot::Start, fields.start?),
            (Slot::Duration, fields.duration?),
        ];
        let place = |value: &[u8]| (value.as_ptr() as usize).checked_sub(event.as_ptr() as usize);
        let mut values = Vec::new();
        for (slot, value) in members.into_iter().chain(ids) {
            let from = place(value)?;
            values.push((from, from.checked_add(value.len())?, slot));
        }
        values.sort_unstable_by_key(|(from, ..)| *from);
        let (mut parts, mut between, mut at) = (Vec::with_capacity(values.len()), None, 0);
        for (from, to, slot) in values {
            let before = Text::of(event.get(at..from).filter(|text| !text.is_empty())?);
            let is_behind_pid = parts.last().is_some_and(|part: &Part| part.slot == Slot::Pid);
            match slot {
                Slot::Tid if is_behind_pid => between = Some(before),
                Slot::Tid => return None,
                _ => parts.push(Part { before, slot }),
            }
            at = to;
        }
        Some(Self { class, parts, end: *event.get(at)?, between: between?, last: None })
    }

    fn read<'a>(&self, event: &'a [u8], place: usize) -> Option<Shaped<'a>> {
        let mut shaped = Shaped {
            class: self.class,
            name: &[],
            owner: Owner::Last(ThreadId(0)),
            start: Ns::ZERO,
            duration: Ns::ZERO,
            id: NONE,
            parent: NONE,
        };
        let mut rest = event;
        let mut parts = self.parts.iter().peekable();
        // What stands in front of a value was looked at with the owner, who stands before it.
        let mut is_seen = false;
        while let Some(Part { before, slot }) = parts.next() {
            if !is_seen {
                rest = before.strip(rest)?;
            }
            is_seen = false;
            match slot {
                Slot::Name => (shaped.name, rest) = text(rest)?,
                Slot::Pid => {
                    let behind = parts.peek().map(|part| &part.before);
                    (shaped.owner, rest) = self.owner(rest, behind, place)?;
                    is_seen = behind.is_some();
                }
                Slot::Tid => {}
                Slot::Start => (shaped.start, rest) = Ns::leading_decimal(rest, MICROSECONDS)?,
                Slot::Duration => (shaped.duration, rest) = Ns::leading_decimal(rest, MICROSECONDS)?,
                Slot::Id => (shaped.id, rest) = id(rest)?,
                Slot::Parent => (shaped.parent, rest) = id(rest)?,
            }
        }
        (rest.first() == Some(&self.end)).then_some(shaped)
    }

    /// Reads pid and tid and the text behind them.
    fn owner<'a>(&self, from: &'a [u8], behind: Option<&Text>, shape: usize) -> Option<(Owner<'a>, &'a [u8])> {
        if let Some((text, thread)) = &self.last
            && let Some(rest) = text.strip(from)
        {
            return Some((Owner::Last(*thread), rest));
        }
        let is_text = self.between.first() == Some(&b'"');
        let (pid, rest) = if is_text { text(from)? } else { bare(from) };
        let rest = self.between.strip(rest)?;
        let is_text = behind.map_or(Some(&self.end), Text::first) == Some(&b'"');
        let (tid, rest) = if is_text { text(rest)? } else { bare(rest) };
        let rest = match behind {
            Some(behind) => behind.strip(rest)?,
            None => rest.strip_prefix(&[self.end])?,
        };
        let text = from.get(..from.len() - rest.len())?;
        let rest = if behind.is_some() { rest } else { from.get(text.len() - 1..)? };
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

    fn first(&self) -> Option<&u8> {
        self.words.first().unwrap_or(&self.left).first()
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

/// An id or `null`, and what stands behind it.
fn id(rest: &[u8]) -> Option<(u32, &[u8])> {
    match leading_whole(rest) {
        Some((id, rest)) => Some((code::folded(id), rest)),
        None => Some((NONE, rest.strip_prefix(b"null")?)),
    }
}
