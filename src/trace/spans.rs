//! The column table of host spans: API calls, marked ranges (NVTX, user annotations), CPU ops and Python frames.

use super::columns::{Durations, KeptRows, first_reaching, index, order_by_start, renumber, reorder, reorder_times};
use super::names::NameRemap;
use super::time::is_zero;
use super::{NameId, Names, Ns, ThreadId, Window};
use crate::ordering;

/// A named time interval of one host thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Start on the clock of the GPU ops.
    pub start: Ns,
    /// Duration; may be zero.
    pub duration: Ns,
    /// Name, in [`Spans::names`].
    pub name: NameId,
    /// The thread that ran it.
    pub thread: ThreadId,
}

impl Span {
    /// Returns the end time.
    pub fn end(&self) -> Ns {
        self.start.after(self.duration)
    }
}

/// The columns of spans. A finished trace has them sorted by start.
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
    /// Reserves memory for exactly this many additional spans.
    pub fn reserve(&mut self, additional: usize) {
        self.start.reserve_exact(additional);
        self.duration.reserve(additional);
        self.name.reserve_exact(additional);
        self.thread.reserve_exact(additional);
    }

    /// Appends a span.
    pub fn push(&mut self, span: Span) {
        self.start.push(span.start);
        self.duration.push(span.duration);
        self.name.push(span.name);
        self.thread.push(span.thread);
    }

    /// Replaces each name id `n` by `new_ids[n]`.
    pub fn rename(&mut self, new_ids: &[NameId]) {
        renumber(&mut self.name, new_ids);
    }

    /// Returns the number of spans.
    pub fn len(&self) -> usize {
        self.start.len()
    }

    /// Returns true if there are no spans.
    pub fn is_empty(&self) -> bool {
        self.start.is_empty()
    }

    /// Returns the span in this row.
    pub fn get(&self, row: usize) -> Option<Span> {
        let (start, name, thread) = (*self.start.get(row)?, *self.name.get(row)?, *self.thread.get(row)?);
        Some(Span { start, duration: self.duration.get(row), name, thread })
    }

    /// Returns the start of the span in this row.
    pub fn start(&self, row: usize) -> Option<Ns> {
        self.start.get(row).copied()
    }

    /// Returns the name of the span in this row.
    pub fn name(&self, row: usize) -> Option<NameId> {
        self.name.get(row).copied()
    }

    /// Returns the end of the span in this row.
    pub fn end(&self, row: usize) -> Option<Ns> {
        Some(self.start(row)?.after(self.duration.get(row)))
    }

    /// Returns the number of spans that start before `time`: also the row of the first span that does not.
    pub fn count_starting_before(&self, time: Ns) -> usize {
        self.start.partition_point(|start| *start < time)
    }

    /// Returns a row such that all earlier spans end before `time`. Not always the last such row.
    pub fn first_reaching(&self, time: Ns) -> usize {
        first_reaching(&self.start, self.duration.longest, time)
    }

    /// Iterates over all spans in order.
    pub fn iter(&self) -> impl Iterator<Item = Span> + Clone {
        let columns = self.start.iter().zip(&self.name).zip(&self.thread).enumerate();
        columns.map(|(row, ((&start, &name), &thread))| Span { start, duration: self.duration.get(row), name, thread })
    }

    pub(super) fn rows_overlapping(&self, window: Window) -> KeptRows {
        KeptRows::overlapping(window, &self.start, &self.duration)
    }

    pub(super) fn whole_part(&self, rows: &KeptRows) -> Self {
        self.renamed_part(rows, &[])
    }

    /// Returns the spans in these rows, clipped to the window unless `is_whole`. Names get new ids in the order of first use,
    /// by the rows in `first` and then by all others.
    pub(super) fn part(&self, rows: &KeptRows, window: Window, first: &[u32], is_whole: &dyn Fn(u32) -> bool) -> Self {
        let mut part = self.renamed_part(rows, first);
        rows.clip_times(&mut part.start, &mut part.duration, window, is_whole);
        part
    }

    fn renamed_part(&self, rows: &KeptRows, first: &[u32]) -> Self {
        let mut remap = NameRemap::new(&self.names);
        first.iter().filter_map(|&row| self.name.get(row as usize)).for_each(|name| _ = remap.new_id(*name));
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

    /// Sorts by start, spans of equal start by descending duration, so that outer spans precede inner ones. Returns the
    /// permutation, or `None` if the spans were sorted.
    pub(super) fn sort_outer_first(&mut self) -> Option<Vec<u32>> {
        let key = |row: usize| (self.start.get(row).copied(), std::cmp::Reverse(self.duration.get(row)));
        let neighbours = self.start.iter().zip(self.start.iter().skip(1)).enumerate();
        if neighbours.into_iter().all(|(row, (one, next))| one < next || key(row) <= key(row + 1)) {
            return None;
        }
        let order = ordering::sorted_rows(self.len(), &|a, b| key(a).cmp(&key(b)));
        self.reorder(&order);
        Some(order)
    }

    pub(super) fn sort_by_start(&mut self) -> Option<Vec<u32>> {
        let order = order_by_start(&self.start)?;
        self.reorder(&order);
        Some(order)
    }

    /// Keeps only the spans in these rows, which ascend.
    pub(super) fn select(&mut self, rows: &[u32]) {
        reorder(&mut self.start, rows);
        self.duration.reorder(rows);
        reorder(&mut self.name, rows);
        reorder(&mut self.thread, rows);
    }

    /// The rows of the spans that have a time; `None` if all have. Profilers write zero for a time that they did not collect.
    pub(super) fn rows_with_time(&self) -> Option<Vec<u32>> {
        let has_time = |row: usize| self.start(row).is_some_and(|start| !is_zero(start, self.duration.get(row)));
        if (0..self.len()).all(has_time) {
            return None;
        }
        Some((0..self.len()).filter(|row| has_time(*row)).map(index).collect())
    }

    fn reorder(&mut self, order: &[u32]) {
        reorder_times(&mut self.start, order);
        self.duration.reorder(order);
        reorder(&mut self.name, order);
        reorder(&mut self.thread, order);
    }
}
