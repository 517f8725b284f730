//! The k longest of many events, in one pass: a bounded min-heap, O(n log k).

use crate::trace::Ns;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The kind of an event in [`Longest`]; it defines the table that the row refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EventKind {
    /// A GPU op; the row is that of the op.
    Op,
    /// An API call; the row is that of the call.
    Call,
    /// An idle gap; the row is that of the work that ends it.
    Gap,
}

/// One event. Longer events compare as greater; if durations are equal, earlier ones do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Event {
    pub(crate) duration: Ns,
    start: Reverse<Ns>,
    kind_and_row: Reverse<(EventKind, u32)>,
    /// A property of the event that its table shows. Two events never differ in it alone.
    tag: u8,
}

impl Event {
    fn new(duration: Ns, start: Ns, kind: EventKind, row: usize) -> Self {
        Self { duration, start: Reverse(start), kind_and_row: Reverse((kind, row as u32)), tag: 0 }
    }

    /// The event with this tag.
    fn tagged(self, tag: u8) -> Self {
        Self { tag, ..self }
    }

    pub(crate) fn tag(&self) -> u8 {
        self.tag
    }

    pub(crate) fn start(&self) -> Ns {
        self.start.0
    }

    pub(crate) fn kind(&self) -> EventKind {
        self.kind_and_row.0.0
    }

    pub(crate) fn row(&self) -> usize {
        self.kind_and_row.0.1 as usize
    }
}

/// The longest events so far; if durations are equal, the earliest are kept.
#[derive(Debug, Clone)]
pub(crate) struct Longest {
    capacity: usize,
    /// The shortest of the kept events is on top.
    kept: BinaryHeap<Reverse<Event>>,
    /// Events offered, kept or not.
    pub(crate) offered: u64,
}

impl Longest {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, kept: BinaryHeap::with_capacity(capacity + 1), offered: 0 }
    }

    /// Keeps the event if it is one of the longest.
    pub(crate) fn offer(&mut self, duration: Ns, start: Ns, kind: EventKind, row: usize) {
        self.offer_tagged(duration, start, kind, row, 0);
    }

    /// Keeps the event with this tag if it is one of the longest.
    pub(crate) fn offer_tagged(&mut self, duration: Ns, start: Ns, kind: EventKind, row: usize, tag: u8) {
        self.offered += 1;
        // Most events are too short: compare the duration alone first.
        let is_full = self.kept.len() >= self.capacity;
        if is_full && self.kept.peek().is_none_or(|Reverse(shortest)| duration < shortest.duration) {
            return;
        }
        self.keep(Event::new(duration, start, kind, row).tagged(tag));
    }

    /// Adds the events that `other` kept. `row_of` maps a row of the trace of `other` to the same row in this
    /// trace.
    pub(crate) fn merge(&mut self, other: &Self, row_of: &dyn Fn(usize) -> usize) {
        self.offered += other.offered;
        for Reverse(event) in &other.kept {
            let row = row_of(event.row());
            self.keep(Event::new(event.duration, event.start(), event.kind(), row).tagged(event.tag));
        }
    }

    /// Replaces the tags of kept events: `tag_of` returns the new tag for a row and its tag.
    pub(crate) fn retag(&mut self, tag_of: &dyn Fn(usize, u8) -> u8) {
        let kept = std::mem::take(&mut self.kept).into_iter();
        self.kept = kept.map(|Reverse(event)| Reverse(event.tagged(tag_of(event.row(), event.tag)))).collect();
    }

    fn keep(&mut self, event: Event) {
        let is_full = self.kept.len() >= self.capacity;
        if is_full && self.kept.peek().is_none_or(|Reverse(shortest)| event < *shortest) {
            return;
        }
        self.kept.push(Reverse(event));
        if is_full {
            self.kept.pop();
        }
    }

    /// The kept events, the longest first.
    pub(crate) fn ranked(self) -> impl Iterator<Item = Event> {
        self.kept.into_sorted_vec().into_iter().map(|Reverse(event)| event)
    }
}
