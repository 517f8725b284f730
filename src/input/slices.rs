//! Joins slices that are written as two events, their beginning (`ph` `B`) and their end (`E`), to whole events (`X`).
//! O(bytes); the texts of open beginnings are kept.
//!
//! An end belongs to the last open beginning of its name on its thread, so that kernels that overlap on a stream, and
//! ends that are missing, do not shift the others. An end without a name belongs to the last open beginning.

use crate::ordering;
use crate::trace::Ns;
use foldhash::fast::RandomState;
use gpuprism_scan::json::{Cursor, Step, Value};
use std::collections::HashMap;
use std::ops::Range;

/// The unit of times as a power of ten in ns.
const MICROSECONDS: u32 = 3;

/// The beginnings without an end so far.
#[derive(Debug, Default)]
pub(super) struct OpenSlices {
    threads: HashMap<ThreadKey, OpenOfThread, RandomState>,
}

/// The raw bytes of `pid` and `tid`.
type ThreadKey = (Box<[u8]>, Box<[u8]>);

#[derive(Debug, Default)]
struct OpenOfThread {
    /// In the order of the file; `None` for those that have ended before a later one. The last one is open.
    slices: Vec<Option<Open>>,
    /// The places in `slices` by name, as it is written, with the offset in the file. Some may have ended.
    by_name: HashMap<Box<[u8]>, Vec<(usize, u64)>, RandomState>,
}

#[derive(Debug)]
struct Open {
    text: Box<[u8]>,
    at: u64,
}

/// What an event is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Slice {
    /// No beginning and no end, or not valid JSON.
    Other,
    /// A beginning: the slice is complete with its end.
    Begun,
    /// An end: the text of the whole slice as one event, if it has a beginning.
    Ended(Option<Vec<u8>>),
}

/// The members that count.
#[derive(Debug, Default)]
struct Parts<'a> {
    phase: Option<&'a [u8]>,
    phase_at: Range<usize>,
    name: Option<&'a [u8]>,
    pid: &'a [u8],
    tid: &'a [u8],
    start: Option<&'a [u8]>,
    args_at: Option<Range<usize>>,
    /// The place of the last bracket.
    end: usize,
}

impl<'a> Parts<'a> {
    fn read(event: &'a [u8]) -> Option<Self> {
        let (mut parts, mut cursor) = (Self::default(), Cursor::new(event));
        if !cursor.enter() {
            return None;
        }
        while let Step::Key(key) = cursor.key() {
            let value = cursor.value()?;
            let end = cursor.at();
            match (key, value) {
                (b"ph", Value::Text(phase)) => {
                    parts.phase = Some(phase);
                    parts.phase_at = end - 1 - phase.len()..end - 1;
                }
                (b"args", Value::Container(args)) => parts.args_at = Some(end - args.len()..end),
                (b"name", value) => parts.name = value.scalar(),
                (b"pid", value) => parts.pid = value.scalar().unwrap_or_default(),
                (b"tid", value) => parts.tid = value.scalar().unwrap_or_default(),
                (b"ts", value) => parts.start = value.scalar(),
                _ => {}
            }
        }
        parts.end = cursor.at().checked_sub(1).filter(|end| event.get(*end) == Some(&b'}'))?;
        Some(parts)
    }

    fn time(&self) -> Option<Ns> {
        Ns::from_decimal(self.start?.trim_ascii(), MICROSECONDS)
    }
}

impl OpenSlices {
    /// Takes an event. `at` is its offset in the file.
    pub(super) fn take(&mut self, event: &[u8], at: u64) -> Slice {
        let Some(parts) = Parts::read(event) else { return Slice::Other };
        match parts.phase {
            Some(b"B") => {
                let thread = self.threads.entry((parts.pid.into(), parts.tid.into())).or_default();
                thread.begin(parts.name.unwrap_or_default(), Open { text: event.into(), at });
                Slice::Begun
            }
            Some(b"E") => {
                let thread = self.threads.get_mut(&(parts.pid.into(), parts.tid.into()));
                let open = thread.and_then(|thread| thread.end(parts.name.unwrap_or_default()));
                Slice::Ended(open.and_then(|open| whole(&open.text, event, &parts)))
            }
            _ => Slice::Other,
        }
    }

    /// The number of beginnings without an end, and the offset of the first one.
    pub(super) fn left(&self) -> Option<(u64, u64)> {
        let open = || self.threads.values().flat_map(|thread| thread.slices.iter().flatten());
        Some((open().count() as u64, open().map(|open| open.at).min()?))
    }
}

impl OpenOfThread {
    fn begin(&mut self, name: &[u8], open: Open) {
        let place = (self.slices.len(), open.at);
        self.slices.push(Some(open));
        match self.by_name.get_mut(name) {
            Some(places) => places.push(place),
            None => drop(self.by_name.insert(name.into(), vec![place])),
        }
    }

    /// Takes the last open slice of this name. One without a name ends with any name, and any ends with an end without
    /// one.
    fn end(&mut self, name: &[u8]) -> Option<Open> {
        let ended = if name.is_empty() {
            self.slices.pop().flatten()
        } else {
            self.last_of(name).or_else(|| self.last_of(b""))
        };
        while let Some(None) = self.slices.last() {
            self.slices.pop();
        }
        ended
    }

    fn last_of(&mut self, name: &[u8]) -> Option<Open> {
        let places = self.by_name.get_mut(name)?;
        loop {
            let (place, at) = places.pop()?;
            // An end without a name may have taken it, and a later slice its place.
            if let Some(slot) = self.slices.get_mut(place)
                && slot.as_ref().is_some_and(|open| open.at == at)
            {
                return slot.take();
            }
        }
    }
}

/// The text of the whole slice: the beginning with the phase `X`, a duration and the arguments of both. Without usable
/// times it has no duration, and the reader counts it as an op without one.
fn whole(beginning: &[u8], end_text: &[u8], end: &Parts<'_>) -> Option<Vec<u8>> {
    let begin = Parts::read(beginning)?;
    let inside = |text: &'_ [u8], at: &Range<usize>| text.get(at.start + 1..at.end - 1).unwrap_or_default().to_vec();
    let mut edits: Vec<(Range<usize>, Vec<u8>)> = vec![(begin.phase_at.clone(), b"X".to_vec())];
    let end_args = end.args_at.as_ref().map(|at| inside(end_text, at)).filter(|args| !args.trim_ascii().is_empty());
    match (&begin.args_at, end_args) {
        (Some(at), Some(args)) => {
            let comma: &[u8] = if inside(beginning, at).trim_ascii().is_empty() { b"" } else { b"," };
            edits.push((at.end - 1..at.end - 1, [comma, &args].concat()));
        }
        (None, Some(args)) => edits.push((begin.end..begin.end, [b",\"args\":{", &*args, b"}"].concat())),
        (_, None) => {}
    }
    if let Some(duration) = begin.time().zip(end.time()).and_then(|(start, end)| end.0.checked_sub(start.0)) {
        let (sign, ns) = (if duration < 0 { "-" } else { "" }, duration.unsigned_abs());
        let member = format!(",\"dur\":{sign}{}.{:03}", ns / 1_000, ns % 1_000);
        edits.push((begin.end..begin.end, member.into_bytes()));
    }
    ordering::sort_by_key(&mut edits, |(at, _)| at.start);
    let (mut text, mut from) = (Vec::new(), 0);
    for (at, new) in edits {
        text.extend_from_slice(beginning.get(from..at.start)?);
        text.extend(new);
        from = at.end;
    }
    text.extend_from_slice(beginning.get(from..)?);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(whole: &str) -> Slice {
        Slice::Ended(Some(whole.as_bytes().to_vec()))
    }

    #[test]
    fn an_end_completes_the_last_beginning_of_its_thread() {
        let mut open = OpenSlices::default();
        let mut take = |text: &str| open.take(text.as_bytes(), 0);
        assert_eq!(take(r#"{"ph":"B","name":"a","tid":1,"ts":1,"args":{"x":1}}"#), Slice::Begun);
        assert_eq!(take(r#"{"name":"b","tid":1,"ts":"2.5","ph":"B"}"#), Slice::Begun);
        assert_eq!(take(r#"{"ph":"B","name":"c","tid":2,"ts":2}"#), Slice::Begun);
        let whole = r#"{"name":"b","tid":1,"ts":"2.5","ph":"X","args":{"y":2},"dur":0.501}"#;
        assert_eq!(take(r#"{"ph":"E","tid":1,"ts":3.001,"args":{"y":2}}"#), ended(whole));
        let whole = r#"{"ph":"X","name":"a","tid":1,"ts":1,"args":{"x":1,"y":2},"dur":-0.500}"#;
        assert_eq!(take(r#"{"ph":"E","name":"a","tid":1,"ts":0.5,"args":{"y":2}}"#), ended(whole));
        assert_eq!(take(r#"{"ph":"E","name":"a","tid":1,"ts":9}"#), Slice::Ended(None));
        assert_eq!(take(r#"{"ph":"E","name":"a","tid":3,"ts":9}"#), Slice::Ended(None));
        assert_eq!(take(r#"{"ph":"X","name":"a"}"#), Slice::Other);
        assert_eq!(open.left(), Some((1, 0)));
    }

    #[test]
    fn lost_and_crossing_ends_do_not_shift_those_of_other_slices() {
        let mut open = OpenSlices::default();
        for name in ["a", "lost", "b", "c"] {
            assert_eq!(open.take(format!(r#"{{"ph":"B","name":"{name}","ts":1}}"#).as_bytes(), 7), Slice::Begun);
        }
        let mut end = |name: &str| open.take(format!(r#"{{"ph":"E","name":"{name}","ts":2}}"#).as_bytes(), 8);
        for name in ["b", "a", "c"] {
            assert_eq!(end(name), ended(&format!(r#"{{"ph":"X","name":"{name}","ts":1,"dur":1.000}}"#)));
        }
        assert_eq!(end("other"), Slice::Ended(None));
        assert_eq!(open.left(), Some((1, 7)));
    }
}
