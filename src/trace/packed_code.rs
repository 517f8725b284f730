//! CPU ops and Python functions as a compressed list: about 8 bytes each instead of 24.
//!
//! A torch trace has millions of them and lists them before the GPU work, so its reader cannot know which ones matter. It keeps
//! this list until the file is read. Then [`crate::analysis::host::code_search`] takes the code around blocking calls and late
//! launches. The command line drops the list; the page draws it in its timeline.
//!
//! An event is four numbers of variable length: its name with two flags, the thread if it is another one than before, the
//! distance of its start to that of the event before, and its duration.

use super::{HostInterval, NameId, Names, Ns, ThreadId};
use crate::ordering;

/// The maximum size of the list. At 250 bytes of JSON an event, that is a file of 16 GB.
const MAX_BYTES: usize = 512 << 20;
/// The list grows by blocks, so that it is never copied. A block has some 500 events, so that one of them is found in
/// microseconds.
const BLOCK_BYTES: usize = 1 << 12;
/// The longest event: three numbers of 64 bits and one of 32.
const MAX_EVENT_BYTES: usize = 3 * 10 + 5;
/// More long events are not kept apart.
const MAX_LONGEST: usize = 200_000;

/// The kind of a [`CodeEvent`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeKind {
    /// A CPU op. Its name is in [`PackedCode::ops`].
    Op,
    /// A Python function. Its name is in [`PackedCode::functions`].
    Function,
}

/// One call of a CPU op or a Python function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeEvent {
    /// CPU op or function.
    pub kind: CodeKind,
    /// Its name.
    pub name: NameId,
    /// Its thread, start and end.
    pub time: HostInterval,
}

/// The longest of many events, with their positions: all of at least [`Self::least`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LongestCode {
    /// While events are added, in their order; [`PackedCode`] sorts them in the end.
    pub events: Vec<(usize, CodeEvent)>,
    /// No longer event was dropped.
    pub least: Ns,
}

impl LongestCode {
    /// Adds an event unless it is too short. If there are more than `max`, drops the shorter ones: amortized O(1), because a
    /// duration has 63 bits.
    #[inline]
    pub(crate) fn add(&mut self, max: usize, position: usize, event: CodeEvent) {
        if event.duration() < self.least {
            return;
        }
        self.events.push((position, event));
        while self.events.len() > max {
            self.least = Ns(self.least.0.saturating_mul(2).max(1));
            self.events.retain(|(_, event)| event.duration() >= self.least);
            if self.least.0 == i64::MAX {
                return;
            }
        }
    }

    /// Sorts by thread and start; what is around other code comes before it.
    pub(crate) fn sort(&mut self) {
        ordering::sort_by_key(&mut self.events, |(_, event)| event.nesting_order());
    }
}

impl CodeEvent {
    /// How long it ran.
    pub fn duration(self) -> Ns {
        self.time.end.since(self.time.start)
    }

    /// Sorts by thread and start. A function that begins with the op that it calls is around it.
    pub fn nesting_order(self) -> (ThreadId, Ns, i64, bool) {
        (self.time.thread, self.time.start, -self.time.end.0, self.kind == CodeKind::Op)
    }
}

/// A compressed list of [`CodeEvent`]s, in the order of the file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PackedCode {
    /// Names of CPU ops: `aten::item`.
    pub ops: Names,
    /// Names of Python functions: `sglang/srt/managers/scheduler.py(812): event_loop_overlap`.
    pub functions: Names,
    blocks: Vec<Block>,
    last: Last,
    /// By number of the reader; `None` for a thread that launched nothing.
    threads: Vec<Option<ThreadId>>,
    /// Until [`PackedCode::set_threads`], with the numbers of the reader as threads.
    longest: LongestCode,
    is_too_long: bool,
}

/// A part of the list that can be read alone.
#[derive(Debug, Clone, PartialEq)]
struct Block {
    bytes: Vec<u8>,
    /// The event before its first one.
    before: Last,
    /// The earliest start and the latest end of its events.
    from: i64,
    to: i64,
}

/// The event before.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Last {
    start: i64,
    thread: u32,
}

const IS_FUNCTION: u64 = 1;
const IS_NEW_THREAD: u64 = 2;
const FLAG_BITS: u32 = 2;

impl PackedCode {
    /// A list that stays empty, as if there were too many events.
    pub(crate) fn too_long() -> Self {
        Self { is_too_long: true, ..Self::default() }
    }

    /// Adds an event. `thread` is a number that the reader gave the thread. If the list gets too long it is emptied, because
    /// a part of the events would blame the wrong code.
    pub(crate) fn push(&mut self, kind: CodeKind, name: NameId, thread: u32, start: Ns, duration: Ns) {
        if self.is_too_long || self.blocks.len() * BLOCK_BYTES >= MAX_BYTES {
            (self.blocks, self.longest, self.is_too_long) = (Vec::new(), LongestCode::default(), true);
            return;
        }
        let has_room = |block: &&mut Block| block.bytes.len() + MAX_EVENT_BYTES <= BLOCK_BYTES;
        if self.blocks.last_mut().filter(has_room).is_none() {
            let bytes = Vec::with_capacity(BLOCK_BYTES);
            self.blocks.push(Block { bytes, before: self.last, from: i64::MAX, to: i64::MIN });
        }
        let first_of_block = self.blocks.len().saturating_sub(1) * BLOCK_BYTES;
        let Some(Block { bytes: block, from, to, .. }) = self.blocks.last_mut() else { return };
        let time = HostInterval { thread: ThreadId(thread), start, end: start.after(duration) };
        (*from, *to) = ((*from).min(start.0), (*to).max(time.end.0));
        self.longest.add(MAX_LONGEST, first_of_block + block.len(), CodeEvent { kind, name, time });
        let is_new_thread = self.last.thread != thread;
        let flags = if kind == CodeKind::Function { IS_FUNCTION } else { 0 };
        let flags = flags | if is_new_thread { IS_NEW_THREAD } else { 0 };
        write(block, u64::from(name.0) << FLAG_BITS | flags);
        if is_new_thread {
            write(block, u64::from(thread));
        }
        write(block, zigzag(start.0.wrapping_sub(self.last.start)));
        write(block, duration.0.cast_unsigned());
        self.last = Last { start: start.0, thread };
    }

    /// Sets the threads of the trace by the numbers that were given to [`PackedCode::push`].
    pub(crate) fn set_threads(&mut self, threads: Vec<Option<ThreadId>>) {
        self.threads = threads;
        let longest = std::mem::take(&mut self.longest);
        let on_thread = |(row, event): (usize, CodeEvent)| Some((row, self.on_thread(event, event.time.thread.0)?));
        let events = longest.events.into_iter().filter_map(on_thread).collect();
        self.longest = LongestCode { events, ..longest };
        self.longest.sort();
    }

    /// The longest events, sorted by thread and start.
    pub fn longest(&self) -> &LongestCode {
        &self.longest
    }

    /// The number of threads whose events are left out, because they launched nothing.
    pub fn threads_left_out(&self) -> usize {
        self.threads.iter().filter(|thread| thread.is_none()).count()
    }

    /// Whether there were too many events, so that none is left.
    pub fn is_too_long(&self) -> bool {
        self.is_too_long
    }

    /// Whether there is no event.
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Calls `visit` with each event of a thread that launched something.
    pub fn each(&self, visit: &mut dyn FnMut(CodeEvent)) {
        self.each_in(Ns(i64::MIN), Ns(i64::MAX), &mut |_, event| visit(event));
    }

    /// Calls `visit` with the position and the value of each event that overlaps a time range, and of some others near them. Costs
    /// as much as the blocks that overlap the range are long.
    pub fn each_in(&self, from: Ns, to: Ns, visit: &mut dyn FnMut(usize, CodeEvent)) {
        for (index, block) in self.blocks.iter().enumerate() {
            if block.from <= to.0 && block.to >= from.0 {
                block.each(&mut |offset, event, thread| {
                    if let Some(event) = self.on_thread(event, thread) {
                        visit(index * BLOCK_BYTES + offset, event);
                    }
                });
            }
        }
    }

    /// The event at this position. O(1): reads a block.
    pub fn get(&self, position: usize) -> Option<CodeEvent> {
        let mut found = None;
        self.blocks.get(position / BLOCK_BYTES)?.each(&mut |offset, event, thread| {
            if offset == position % BLOCK_BYTES {
                found = self.on_thread(event, thread);
            }
        });
        found
    }

    /// `None` for a thread that launched nothing.
    fn on_thread(&self, event: CodeEvent, thread: u32) -> Option<CodeEvent> {
        let thread = self.threads.get(thread as usize).copied().flatten()?;
        Some(CodeEvent { time: HostInterval { thread, ..event.time }, ..event })
    }
}

impl Block {
    /// Calls `visit` with offset, event and the reader's number of its thread.
    fn each(&self, visit: &mut dyn FnMut(usize, CodeEvent, u32)) {
        let (mut rest, mut last) = (self.bytes.as_slice(), self.before);
        while !rest.is_empty() {
            let offset = self.bytes.len() - rest.len();
            let Some((kind, name, duration)) = read_event(&mut rest, &mut last) else { return };
            let start = Ns(last.start);
            let time = HostInterval { thread: ThreadId::default(), start, end: start.after(duration) };
            visit(offset, CodeEvent { kind, name, time }, last.thread);
        }
    }
}

/// Reads an event; its start and thread go to `last`. `None` never occurs in a list that [`PackedCode::push`] wrote.
fn read_event(rest: &mut &[u8], last: &mut Last) -> Option<(CodeKind, NameId, Ns)> {
    let head = read(rest)?;
    let kind = if head & IS_FUNCTION != 0 { CodeKind::Function } else { CodeKind::Op };
    if head & IS_NEW_THREAD != 0 {
        last.thread = u32::try_from(read(rest)?).ok()?;
    }
    last.start = last.start.wrapping_add(unzigzag(read(rest)?));
    let name = NameId(u32::try_from(head >> FLAG_BITS).ok()?);
    Some((kind, name, Ns(read(rest)?.cast_signed())))
}

/// Seven bits a byte, the lowest first. The highest bit of a byte is set if another one follows.
#[inline]
fn write(block: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        block.push(number as u8 | 0x80);
        number >>= 7;
    }
    block.push(number as u8);
}

#[inline]
fn read(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// Maps numbers of small magnitude to small numbers: 0, -1, 1, -2 to 0, 1, 2, 3.
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn events_come_back_as_they_were_added(
            events in prop::collection::vec((any::<bool>(), 0..1_u32 << 30, 0..3_u32, any::<i32>(), 0..i64::MAX >> 1), 0..3_000)
        ) {
            let mut code = PackedCode::default();
            let kind = |is_function| if is_function { CodeKind::Function } else { CodeKind::Op };
            for (is_function, name, thread, start, duration) in &events {
                code.push(kind(*is_function), NameId(*name), *thread, Ns(i64::from(*start) << 20), Ns(*duration));
            }
            code.set_threads(vec![Some(ThreadId(7)), None, Some(ThreadId(5))]);
            let mut found = Vec::new();
            code.each(&mut |event| found.push(event));
            let of_launching_threads = events.iter().filter(|(_, _, thread, ..)| *thread != 1);
            let expected: Vec<CodeEvent> = of_launching_threads
                .map(|(is_function, name, thread, start, duration)| {
                    let (thread, start) = (ThreadId(if *thread == 0 { 7 } else { 5 }), Ns(i64::from(*start) << 20));
                    let time = HostInterval { thread, start, end: start.after(Ns(*duration)) };
                    CodeEvent { kind: kind(*is_function), name: NameId(*name), time }
                })
                .collect();
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!((code.threads_left_out(), code.is_too_long()), (1, false));
            // A part of the list has the same events at positions that lead to them.
            let (from, to) = (Ns(-(1 << 50)), Ns(1 << 49));
            let overlaps = |event: &CodeEvent| event.time.start <= to && event.time.end >= from;
            let mut part = Vec::new();
            let mut are_found = true;
            code.each_in(from, to, &mut |position, event| {
                if part.len() % 500 == 0 {
                    are_found &= code.get(position) == Some(event);
                }
                part.push(event);
            });
            part.retain(overlaps);
            prop_assert!(are_found);
            prop_assert_eq!(part, found.into_iter().filter(overlaps).collect::<Vec<_>>());
        }
    }
}
