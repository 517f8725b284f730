//! Events that are written alike: between their values the same text stands at every one, so that only the values need be
//! read. A trace has a million Python frames of one shape.
//!
//! A shape is learnt from an event that was read member by member. An event that differs from it in one byte outside of
//! its values, or whose values hold anything unusual, is read member by member as well.

use super::{Class, Fields};
use gpuprism_scan::json::Value;

/// The shapes of a file.
#[derive(Debug, Default)]
pub(super) struct Shapes(Vec<Shape>);

#[derive(Debug)]
struct Shape {
    class: Class,
    /// The text up to the first value, then the text from each value to the next; behind the last one byte.
    texts: Vec<Box<[u8]>>,
    values: Vec<Slot>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Slot {
    Name,
    Pid,
    Tid,
    Start,
    Duration,
    ExternalId,
    PythonId,
    PythonParent,
}

impl Shapes {
    /// CPU ops and frames, with some room for threads that are written otherwise.
    const KEPT: usize = 4;

    /// The values of an event of a known shape.
    pub(super) fn read<'a>(&self, event: &'a [u8]) -> Option<Fields<'a>> {
        self.0.iter().find_map(|shape| shape.read(event))
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
            Class::PythonFrame => vec![(Slot::PythonId, code.python_id?), (Slot::PythonParent, code.python_parent?)],
            _ => vec![(Slot::ExternalId, code.external_id?)],
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
        let mut texts = Vec::with_capacity(values.len() + 1);
        let mut at = 0;
        for (from, to, _) in &values {
            texts.push(event.get(at..*from).filter(|text| !text.is_empty())?.into());
            at = *to;
        }
        texts.push(event.get(at..at + 1)?.into());
        Some(Self { class, texts, values: values.into_iter().map(|(.., slot)| slot).collect() })
    }

    fn read<'a>(&self, event: &'a [u8]) -> Option<Fields<'a>> {
        let mut texts = self.texts.iter();
        let mut rest = event.strip_prefix(&**texts.next()?)?;
        let mut fields = Fields { phase: Some(b"X"), class: Some(self.class), ..Fields::default() };
        for (slot, text) in self.values.iter().zip(texts) {
            let is_text = text.first() == Some(&b'"');
            let length = if is_text { text_length(rest)? } else { bare_length(rest) };
            let (value, after) = rest.split_at_checked(length)?;
            rest = after.strip_prefix(&**text)?;
            match slot {
                Slot::Name => fields.name = Some(value),
                Slot::Pid => fields.pid = Some(if is_text { Value::Text(value) } else { Value::Bare(value) }),
                Slot::Tid => fields.tid = Some(value),
                Slot::Start => fields.start = Some(value),
                Slot::Duration => fields.duration = Some(value),
                Slot::ExternalId => fields.code.external_id = Some(value),
                Slot::PythonId => fields.code.python_id = Some(value),
                Slot::PythonParent => fields.code.python_parent = Some(value),
            }
        }
        Some(fields)
    }
}

/// How long a text is that holds no escape.
fn text_length(rest: &[u8]) -> Option<usize> {
    let at = memchr::memchr2(b'"', b'\\', rest)?;
    (rest.get(at) == Some(&b'"')).then_some(at)
}

/// How long a number or `null` is.
fn bare_length(rest: &[u8]) -> usize {
    let is_bare = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-') || byte.is_ascii_lowercase();
    rest.iter().take_while(|byte| is_bare(byte)).count()
}
