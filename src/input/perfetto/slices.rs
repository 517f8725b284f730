//! Slices: begin and end of an event on a track, joined. The one that was opened last is closed first.
//!
//! rocprofv3 puts ops of several GPUs on one track, where they cross; it also writes their times as annotations, which count.

use super::number;
use super::sequences::{List, Sequence};
use super::vocabulary::{Category, Key};
use crate::input::protobuf::{Damaged, Message, Value, beginning};
use crate::trace::{NameId, Names};
use foldhash::fast::RandomState;
use std::collections::HashMap;

type Read<T> = std::result::Result<T, Damaged>;

/// The annotations of a slice that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Notes {
    pub(super) begin_ns: Option<i64>,
    pub(super) end_ns: Option<i64>,
    /// Numbers of GPUs.
    pub(super) agent: Option<u64>,
    pub(super) source: Option<u64>,
    pub(super) target: Option<u64>,
    pub(super) queue: Option<i64>,
    pub(super) stream: Option<i64>,
    pub(super) correlation: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) call_stack: Option<NameId>,
}

/// A slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) track: u64,
    pub(super) category: Category,
    /// In the texts of the reader.
    pub(super) name: Option<NameId>,
    pub(super) notes: Notes,
    pub(super) flow: Option<u64>,
    /// Offset in the file.
    pub(super) at: u64,
}

/// An event on a track.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "half of the events are beginnings, and none is kept in this form")]
pub(super) enum TrackEvent {
    /// The beginning of a slice; times follow.
    Begin(Slice),
    End {
        track: u64,
    },
    /// An instant or the value of a counter.
    Other,
}

impl TrackEvent {
    pub(super) fn read(message: Message<'_>, sequence: &Sequence, texts: &mut Names) -> Read<Self> {
        const BEGIN: u64 = 1;
        const END: u64 = 2;
        let (mut kind, mut track) = (0, sequence.track.unwrap_or(0));
        let (mut name, mut category, mut flow, mut notes) = (None, None, None, Notes::default());
        for field in message.fields() {
            match field? {
                (9, value) => kind = value.number(),
                (11, value) => track = value.number(),
                (10, id) => name = name.or(sequence.text(List::Events, id.number())),
                (23, text) => name = Some(texts.intern(&text.message().text())),
                (3, id) => category = category.or(sequence.categories.get(id.number()).copied()),
                (22, text) => category = Some(Category::named(text.message().bytes)),
                (4, annotation) => notes.add(annotation.message(), sequence, texts)?,
                (47, id) => flow = flow.or(Some(id.number())),
                _ => {}
            }
        }
        match kind {
            BEGIN => {}
            END => return Ok(Self::End { track }),
            _ => return Ok(Self::Other),
        }
        let category = category.unwrap_or(Category::Other);
        Ok(Self::Begin(Slice { start: 0, end: 0, track, category, name, notes, flow, at: message.at }))
    }
}

impl Notes {
    fn add(&mut self, annotation: Message<'_>, sequence: &Sequence, texts: &mut Names) -> Read<()> {
        let (mut key, mut number, mut text) = (None, None, None);
        for field in annotation.fields() {
            match field? {
                (1, id) => {
                    key = key.or(sequence.keys.get(id.number()).copied());
                    if key == Some(Key::Other) {
                        return Ok(());
                    }
                }
                (10, name) => key = Some(Key::named(name.message().bytes)),
                (3 | 4, value) => number = Some(value.number()),
                (6, value) => text = Some(value.message()),
                (17, id) => {
                    let interned = sequence.text(List::Strings, id.number());
                    notes_of_interned(interned, &mut number, texts);
                }
                _ => {}
            }
        }
        let number = number.or_else(|| last_number(text?.bytes));
        let signed = number.map(u64::cast_signed);
        match key.unwrap_or(Key::Other) {
            Key::Begin => self.begin_ns = signed,
            Key::End => self.end_ns = signed,
            Key::Agent => self.agent = number,
            Key::Source => self.source = number,
            Key::Target => self.target = number,
            Key::Queue => self.queue = signed,
            Key::Stream => self.stream = signed,
            Key::Correlation => self.correlation = number,
            Key::Bytes => self.bytes = number,
            Key::CallStack => self.call_stack = text.map(|text| texts.intern(&text.text())),
            Key::Other => {}
        }
        Ok(())
    }
}

/// The number in an interned text such as `Agent-4`.
fn notes_of_interned(text: Option<NameId>, number: &mut Option<u64>, texts: &Names) {
    *number = number.or_else(|| last_number(texts.get(text?).as_bytes()));
}

/// The last number in a text: `Agent-4`.
pub(super) fn last_number(text: &[u8]) -> Option<u64> {
    crate::input::chrome::number(text).and_then(|number| u64::try_from(number).ok())
}

/// The open slices of each track.
#[derive(Debug, Default)]
pub(super) struct Slices {
    open: HashMap<u64, Vec<Open>, RandomState>,
}

/// A slice that has begun. Of those of unknown categories only the place counts.
#[derive(Debug)]
enum Open {
    Known(Box<Slice>),
    Other { at: u64 },
}

impl Open {
    fn at(&self) -> u64 {
        match self {
            Self::Known(slice) => slice.at,
            Self::Other { at } => *at,
        }
    }
}

/// What an event of a track gives.
pub(super) enum Taken {
    /// A slice has begun.
    Begun,
    /// A slice of a known category has ended.
    Ended(Box<Slice>),
    /// An event that is no slice, or a slice of another category.
    Other,
    /// The end of a slice that has not begun.
    Unpaired,
}

impl Slices {
    /// Takes an event at this time and offset.
    pub(super) fn take(&mut self, event: TrackEvent, (time, at): (i64, u64)) -> Taken {
        match event {
            TrackEvent::Begin(slice) => {
                let open = match slice.category {
                    Category::Other => Open::Other { at },
                    _ => Open::Known(Box::new(Slice { start: time, at, ..slice })),
                };
                self.open.entry(slice.track).or_default().push(open);
                Taken::Begun
            }
            TrackEvent::End { track } => match self.open.get_mut(&track).and_then(Vec::pop) {
                Some(Open::Other { .. }) => Taken::Other,
                Some(Open::Known(mut slice)) => {
                    slice.start = slice.notes.begin_ns.unwrap_or(slice.start);
                    slice.end = slice.notes.end_ns.unwrap_or(time);
                    Taken::Ended(slice)
                }
                None => Taken::Unpaired,
            },
            TrackEvent::Other => Taken::Other,
        }
    }

    /// The number of slices that are still open, and where the first one begins.
    pub(super) fn left(&self) -> Option<(u64, u64)> {
        let open = self.open.values().flatten();
        let first = open.clone().map(Open::at).min()?;
        Some((open.count() as u64, first))
    }
}

/// The name, the process and the parent of a track.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Track {
    pub(super) name: String,
    pub(super) parent: Option<u64>,
    pub(super) pid: Option<i64>,
    pub(super) tid: Option<i64>,
}

/// Longer names of tracks are cut.
const MAX_TRACK_NAME_BYTES: usize = 1 << 10;

impl Track {
    /// Reads a descriptor: the id of the track and what it says.
    pub(super) fn read(message: Message<'_>) -> Read<(u64, Self)> {
        let (mut id, mut track, mut own_name, mut other_name) = (0, Self::default(), None, None);
        for field in message.fields() {
            let (field, value) = field?;
            match (field, value) {
                (1, value) => id = value.number(),
                (2 | 10, name) => own_name = Some(name.message()),
                (5, parent) => track.parent = Some(parent.number()),
                (3, Value::Message(process)) => {
                    track.pid = number(process, 1)?.map(u64::cast_signed);
                    other_name = process.last(6)?.map(Value::message);
                }
                (4, Value::Message(thread)) => {
                    track.pid = number(thread, 1)?.map(u64::cast_signed);
                    track.tid = number(thread, 2)?.map(u64::cast_signed);
                    other_name = thread.last(5)?.map(Value::message);
                }
                _ => {}
            }
        }
        if let Some(name) = own_name.or(other_name) {
            track.name = String::from_utf8_lossy(beginning(name.bytes, MAX_TRACK_NAME_BYTES)).into_owned();
        }
        Ok((id, track))
    }
}
