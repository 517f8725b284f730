//! Joins slices that are written as two events, their beginning (`ph` `B`) and their end (`E`), to whole events (`X`).
//! O(n log n) for n events; the texts of open beginnings and of the last whole slices are kept, and all of a thread whose events are
//! not in the order of time.
//!
//! An end belongs to the last open beginning of its name on its thread, so that kernels that overlap on a stream, and
//! ends that are missing, do not shift the others. An end without a name belongs to the last open beginning. Asynchronous slices
//! (`b` and `e`, or `S` and `F`) have an id in place of a thread.
//!
//! The reader of this format has to sort. Most files are sorted, so slices are joined as they come, and whole ones wait a while. The
//! first event of a thread that is earlier than one before takes those of its thread back: its events are then sorted at the end of
//! the file. Whole slices of before, a megabyte or more ago, stay joined as they are. The page's first module does not sort.

use crate::ordering;
use crate::trace::{CODE_IS_BUILT, Ns};
use foldhash::fast::RandomState;
use gpuprism_scan::json::{Cursor, Step, Value};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// The unit of times as a power of ten in ns.
const MICROSECONDS: u32 = 3;

/// Whole slices wait as long as their texts have no more than these bytes together.
const MAX_WAITING_BYTES: usize = 1 << 20;

/// The slices of a file while it is read.
#[derive(Debug, Default)]
pub(super) struct OpenSlices {
    /// In the order in which they appear.
    threads: Vec<Thread>,
    numbers: HashMap<ThreadKey, usize, RandomState>,
    waiting: VecDeque<Pair>,
    waiting_bytes: usize,
    is_at_end: bool,
}

/// The raw bytes of `pid` and `tid`, or of the category and the id of asynchronous slices; the phase tells these apart.
type ThreadKey = (bool, Box<[u8]>, Box<[u8]>);

#[derive(Debug, Default)]
struct Thread {
    open: OpenOfThread,
    /// Ends without a beginning so far.
    unpaired: Vec<Half>,
    /// The time of the last event.
    last: Option<Ns>,
    /// All events since the order of time was broken, and those before it that could be taken back.
    unsorted: Option<Vec<Half>>,
}

/// A whole slice: its beginning and end.
#[derive(Debug)]
struct Pair {
    thread: usize,
    beginning: Half,
    end: Half,
}

impl Pair {
    fn bytes(&self) -> usize {
        self.beginning.text.len() + self.end.text.len()
    }
}

/// The beginning or the end of a slice.
#[derive(Debug)]
struct Half {
    text: Box<[u8]>,
    at: u64,
    time: Option<Ns>,
    is_beginning: bool,
}

#[derive(Debug, Default)]
struct OpenOfThread {
    /// In the order of the file; `None` for those that have ended before a later one. The last one is open.
    slices: Vec<Option<Half>>,
    /// The places in `slices` by name, as it is written, with the offset in the file. Some may have ended.
    by_name: HashMap<Box<[u8]>, Vec<(usize, u64)>, RandomState>,
}

/// The members that count.
#[derive(Debug, Default)]
struct Parts<'a> {
    phase: Option<&'a [u8]>,
    phase_at: Range<usize>,
    name: Option<&'a [u8]>,
    pid: &'a [u8],
    tid: &'a [u8],
    category: &'a [u8],
    id: &'a [u8],
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
                (b"cat", value) => parts.category = value.scalar().unwrap_or_default(),
                (b"id", value) => parts.id = value.scalar().unwrap_or_default(),
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
    /// Takes the beginning or end of a slice; returns false for any other event. `at` is its offset in the file.
    pub(super) fn take(&mut self, event: &[u8], at: u64) -> bool {
        let Some(parts) = Parts::read(event) else { return false };
        let (is_beginning, is_asynchronous) = match parts.phase {
            Some(b"B") => (true, false),
            Some(b"E") => (false, false),
            Some(b"b" | b"S") => (true, true),
            Some(b"e" | b"F") => (false, true),
            _ => return false,
        };
        let key = if is_asynchronous {
            (true, parts.category.into(), parts.id.into())
        } else {
            (false, parts.pid.into(), parts.tid.into())
        };
        let next = self.threads.len();
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.threads.push(Thread::default());
        }
        let half = Half { text: event.into(), at, time: parts.time(), is_beginning };
        self.add(number, half, parts.name.unwrap_or_default());
        true
    }

    fn add(&mut self, number: usize, half: Half, name: &[u8]) {
        let Some(thread) = self.threads.get_mut(number) else { return };
        if CODE_IS_BUILT && thread.unsorted.is_none() && half.time.is_some_and(|time| Some(time) < thread.last) {
            self.take_back(number);
        }
        let Some(thread) = self.threads.get_mut(number) else { return };
        match &mut thread.unsorted {
            Some(unsorted) => unsorted.push(half),
            None => {
                thread.last = half.time.or(thread.last);
                let pair = thread.join(number, half, name);
                self.wait(pair);
            }
        }
    }

    fn wait(&mut self, pair: Option<Pair>) {
        self.waiting_bytes += pair.as_ref().map_or(0, Pair::bytes);
        self.waiting.extend(pair);
    }

    /// Collects the open and unpaired events of a thread to sort them at the end; its whole slices follow when they are next.
    fn take_back(&mut self, number: usize) {
        let Some(thread) = self.threads.get_mut(number) else { return };
        let OpenOfThread { slices, .. } = std::mem::take(&mut thread.open);
        thread.unsorted = Some(slices.into_iter().flatten().chain(thread.unpaired.drain(..)).collect());
    }

    /// Ends the file: what waits is complete.
    pub(super) fn end(&mut self) {
        self.is_at_end = true;
        if !CODE_IS_BUILT {
            return;
        }
        let waiting = std::mem::take(&mut self.waiting);
        let kept = waiting.into_iter().filter_map(|pair| self.unless_unsorted(pair)).collect();
        self.waiting = kept;
        for number in 0..self.threads.len() {
            let Some(thread) = self.threads.get_mut(number) else { continue };
            let pairs = thread.sort_and_join(number);
            pairs.into_iter().for_each(|pair| self.wait(Some(pair)));
        }
    }

    /// Returns a pair; that of a thread whose events have to be sorted goes to those.
    fn unless_unsorted(&mut self, pair: Pair) -> Option<Pair> {
        let thread = self.threads.get_mut(pair.thread).filter(|_| CODE_IS_BUILT);
        match thread.and_then(|thread| thread.unsorted.as_mut()) {
            Some(unsorted) => {
                self.waiting_bytes -= pair.bytes();
                unsorted.extend([pair.beginning, pair.end]);
                None
            }
            None => Some(pair),
        }
    }

    /// The text of the next whole slice as one event, and its offset in the file.
    pub(super) fn next_whole(&mut self) -> Option<(Vec<u8>, u64)> {
        while self.is_at_end || self.waiting_bytes > MAX_WAITING_BYTES {
            let pair = self.waiting.pop_front()?;
            let Some(pair) = self.unless_unsorted(pair) else { continue };
            self.waiting_bytes -= pair.bytes();
            let whole = Parts::read(&pair.end.text).and_then(|end| whole(&pair.beginning.text, &pair.end.text, &end));
            if let Some(whole) = whole {
                return Some((whole, pair.end.at));
            }
        }
        None
    }

    /// The number of beginnings without an end and of ends without a beginning, and the offset of the first one.
    pub(super) fn left(&self) -> Option<(u64, u64)> {
        let open =
            || self.threads.iter().flat_map(|thread| thread.open.slices.iter().flatten().chain(&thread.unpaired));
        Some((open().count() as u64, open().map(|open| open.at).min()?))
    }
}

impl Thread {
    /// Takes an event that follows those before in time. Returns the slice that it completes.
    fn join(&mut self, thread: usize, half: Half, name: &[u8]) -> Option<Pair> {
        if half.is_beginning {
            self.open.begin(name, half);
            return None;
        }
        match self.open.end(name) {
            Some(beginning) => Some(Pair { thread, beginning, end: half }),
            None => {
                self.unpaired.push(half);
                None
            }
        }
    }

    /// Joins the events that were not in the order of time, sorted; those of one time in the order of the file, but ends first: a
    /// slice ends before the next one begins. An end at the time of its own beginning waits for that.
    fn sort_and_join(&mut self, thread: usize) -> Vec<Pair> {
        let Some(mut unsorted) = self.unsorted.take() else { return Vec::new() };
        // One without a time comes first, and has the order of the file.
        ordering::sort_by_key(&mut unsorted, |half| (half.time, half.is_beginning, half.at));
        let (mut pairs, mut halves) = (Vec::new(), unsorted.into_iter().peekable());
        while let Some(first) = halves.next() {
            let time = first.time;
            let mut group = vec![first];
            while let Some(next) = halves.next_if(|next| next.time == time) {
                group.push(next);
            }
            self.join_at_one_time(thread, group, &mut pairs);
        }
        pairs
    }

    fn join_at_one_time(&mut self, thread: usize, group: Vec<Half>, pairs: &mut Vec<Pair>) {
        let mut own_ends = Vec::new();
        for half in group {
            let name = name_of(&half.text);
            if half.is_beginning {
                self.open.begin(&name, half);
            } else if let Some(beginning) = self.open.end(&name) {
                pairs.push(Pair { thread, beginning, end: half });
            } else {
                own_ends.push((name, half));
            }
        }
        pairs.extend(own_ends.into_iter().filter_map(|(name, half)| self.join(thread, half, &name)));
    }
}

/// The name of an event as it is written.
fn name_of(event: &[u8]) -> Box<[u8]> {
    Parts::read(event).and_then(|parts| parts.name).unwrap_or_default().into()
}

impl OpenOfThread {
    fn begin(&mut self, name: &[u8], open: Half) {
        let place = (self.slices.len(), open.at);
        self.slices.push(Some(open));
        match self.by_name.get_mut(name) {
            Some(places) => places.push(place),
            None => drop(self.by_name.insert(name.into(), vec![place])),
        }
    }

    /// Takes the last open slice of this name. One without a name ends with any name, and any ends with an end without
    /// one.
    fn end(&mut self, name: &[u8]) -> Option<Half> {
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

    fn last_of(&mut self, name: &[u8]) -> Option<Half> {
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

    /// The whole slices of these events, at the end of the file.
    fn wholes(open: &mut OpenSlices) -> Vec<String> {
        open.end();
        let next = |_| open.next_whole().map(|(whole, _)| String::from_utf8(whole).unwrap());
        (0..).map_while(next).collect()
    }

    #[test]
    fn an_end_completes_the_last_beginning_of_its_thread() {
        let mut open = OpenSlices::default();
        for text in [
            r#"{"ph":"B","name":"a","tid":1,"ts":1,"args":{"x":1}}"#,
            r#"{"name":"b","tid":1,"ts":"2.5","ph":"B"}"#,
            r#"{"ph":"B","name":"c","tid":2,"ts":2}"#,
            r#"{"ph":"E","tid":1,"ts":3.001,"args":{"y":2}}"#,
            r#"{"ph":"E","name":"a","tid":1,"ts":3.5,"args":{"y":2}}"#,
            r#"{"ph":"E","name":"a","tid":1,"ts":9}"#,
            r#"{"ph":"E","name":"a","tid":3,"ts":9}"#,
        ] {
            assert!(open.take(text.as_bytes(), 0));
        }
        assert!(!open.take(br#"{"ph":"X","name":"a"}"#, 0));
        let whole = [
            r#"{"name":"b","tid":1,"ts":"2.5","ph":"X","args":{"y":2},"dur":0.501}"#,
            r#"{"ph":"X","name":"a","tid":1,"ts":1,"args":{"x":1,"y":2},"dur":2.500}"#,
        ];
        assert_eq!(wholes(&mut open), whole);
        assert_eq!(open.left(), Some((3, 0)), "c is open, and two ends have no beginning");
    }

    #[test]
    fn lost_and_crossing_ends_do_not_shift_those_of_other_slices() {
        let mut open = OpenSlices::default();
        for name in ["a", "lost", "b", "c"] {
            assert!(open.take(format!(r#"{{"ph":"B","name":"{name}","ts":1}}"#).as_bytes(), 7));
        }
        for name in ["b", "a", "c", "other"] {
            assert!(open.take(format!(r#"{{"ph":"E","name":"{name}","ts":2}}"#).as_bytes(), 8));
        }
        let whole = ["b", "a", "c"].map(|name| format!(r#"{{"ph":"X","name":"{name}","ts":1,"dur":1.000}}"#));
        assert_eq!((wholes(&mut open), open.left()), (whole.to_vec(), Some((2, 7))));
    }

    /// Two slices of the same name one after the other, and one without a duration, with their events backwards.
    #[test]
    fn events_of_one_time_end_slices_before_they_begin_others() {
        let mut open = OpenSlices::default();
        for (phase, ts) in [("E", 9), ("B", 9), ("E", 5), ("B", 3), ("E", 3), ("B", 1)] {
            assert!(open.take(format!(r#"{{"ph":"{phase}","name":"k","ts":{ts}}}"#).as_bytes(), 0));
        }
        let whole = [(1, "2.000"), (3, "2.000"), (9, "0.000")]
            .map(|(ts, duration)| format!(r#"{{"ph":"X","name":"k","ts":{ts},"dur":{duration}}}"#));
        assert_eq!((wholes(&mut open), open.left()), (whole.to_vec(), None));
    }

    #[test]
    fn slices_that_wait_take_a_bounded_part_of_memory() {
        let (mut open, args) = (OpenSlices::default(), "x".repeat(1_000));
        let mut given = 0;
        for ts in 0..4_000 {
            let phase = if ts % 2 == 0 { "B" } else { "E" };
            open.take(format!(r#"{{"ph":"{phase}","name":"k","ts":{ts},"args":{{"a":"{args}"}}}}"#).as_bytes(), ts);
            given += std::iter::from_fn(|| open.next_whole()).count();
            assert!(open.waiting_bytes <= MAX_WAITING_BYTES);
        }
        assert!(given > 1_000, "{given} of 2,000");
        assert_eq!(given + wholes(&mut open).len(), 2_000);
    }
}
