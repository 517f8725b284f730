//! Spans of the host as columns: API calls, and ranges that the program or its framework marked.

use super::columns::{Durations, KeptRows, index, order_by_start, renumber, reorder, reorder_times};
use super::names::NameRemap;
use super::{NameId, Names, Ns, ThreadId, Window};

/// Something that a thread of the host did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When it began, on the clock of the GPU ops.
    pub start: Ns,
    /// How long it took; zero is legal.
    pub duration: Ns,
    /// Its name, in [`Spans::names`].
    pub name: NameId,
    /// Who did it.
    pub thread: ThreadId,
}

impl Span {
    /// When it ended.
    pub fn end(&self) -> Ns {
        self.start.after(self.duration)
    }
}

/// Columns of spans; in a finished trace sorted by start.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Spans {
    /// Distinct names of these spans.
    pub names: Names,
    start: Vec<Ns>,
    duration: Durations,
    name: Vec<NameId>,
    thread: Vec<ThreadId>,
}

impl Spans {
    /// Makes room for so many more, exactly.
    pub fn reserve(&mut self, more: usize) {
        self.start.reserve_exact(more);
        self.duration.reserve(more);
        self.name.reserve_exact(more);
        self.thread.reserve_exact(more);
    }

    /// Adds one at the end.
    pub fn push(&mut self, span: Span) {
        self.start.push(span.start);
        self.duration.push(span.duration);
        self.name.push(span.name);
        self.thread.push(span.thread);
    }

    /// Gives every span the name that stands at its name's place in `now`.
    pub fn rename(&mut self, now: &[NameId]) {
        renumber(&mut self.name, now);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// True where there are none.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// The span at this place.
    pub fn get(&self, at: usize) -> Option<Span> {
        let (start, name, thread) = (*self.start.get(at)?, *self.name.get(at)?, *self.thread.get(at)?);
        Some(Span { start, duration: self.duration.get(at), name, thread })
    }

    /// When the span at this place began.
    pub fn start(&self, at: usize) -> Option<Ns> {
        self.start.get(at).copied()
    }

    /// The name of the span at this place.
    pub fn name(&self, at: usize) -> Option<NameId> {
        self.name.get(at).copied()
    }

    /// When the span at this place ended.
    pub fn end(&self, at: usize) -> Option<Ns> {
        Some(self.start(at)?.after(self.duration.get(at)))
    }

    /// How many begin before this time.
    pub fn count_starting_before(&self, time: Ns) -> usize {
        self.start.partition_point(|start| *start < time)
    }

    /// All spans in order.
    pub fn iter(&self) -> impl Iterator<Item = Span> + Clone {
        let columns = self.start.iter().zip(&self.name).zip(&self.thread).enumerate();
        columns.map(|(at, ((&start, &name), &thread))| Span { start, duration: self.duration.get(at), name, thread })
    }

    /// Those of which something lies in the window, kept whole.
    pub(super) fn rows_overlapping(&self, window: Window) -> KeptRows {
        KeptRows::overlapping(window, &self.start, &self.duration)
    }

    /// The spans of these rows.
    pub(super) fn whole_part(&self, rows: &KeptRows) -> Self {
        self.named_part(rows, &[])
    }

    /// The spans of these rows, cut at the window's ends where they do not have to stay whole. Names are numbered in the
    /// order in which the rows `first` and then all have them.
    pub(super) fn part(&self, rows: &KeptRows, window: Window, first: &[u32], is_whole: &dyn Fn(u32) -> bool) -> Self {
        let mut part = self.named_part(rows, first);
        rows.clip_times(&mut part.start, &mut part.duration, window, is_whole);
        part
    }

    fn named_part(&self, rows: &KeptRows, first: &[u32]) -> Self {
        let mut remap = NameRemap::new(&self.names);
        first.iter().filter_map(|&at| self.name.get(at as usize)).for_each(|name| _ = remap.new_id(*name));
        let mut name = rows.take(&self.name);
        name.iter_mut().for_each(|name| *name = remap.new_id(*name));
        Self {
            names: remap.names,
            start: rows.take(&self.start),
            duration: self.duration.take(rows),
            thread: rows.take(&self.thread),
            name,
        }
    }

    /// Sorts by start, of equal starts the longer first, and tells the order it took.
    pub(super) fn sort_outer_first(&mut self) -> Option<Vec<u32>> {
        let key = |at: usize| (self.start.get(at).copied(), std::cmp::Reverse(self.duration.get(at)));
        let neighbours = self.start.iter().zip(self.start.iter().skip(1)).enumerate();
        if neighbours.into_iter().all(|(at, (one, next))| one < next || key(at) <= key(at + 1)) {
            return None;
        }
        let mut order: Vec<u32> = (0..index(self.len())).collect();
        order.sort_by_key(|&at| key(at as usize));
        self.reorder(&order);
        Some(order)
    }

    /// Sorts by start and tells the order it took.
    pub(super) fn sort_by_start(&mut self) -> Option<Vec<u32>> {
        let order = order_by_start(&self.start)?;
        self.reorder(&order);
        Some(order)
    }

    fn reorder(&mut self, order: &[u32]) {
        reorder_times(&mut self.start, order);
        self.duration.reorder(order);
        reorder(&mut self.name, order);
        reorder(&mut self.thread, order);
    }
}
