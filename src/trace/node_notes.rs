//! What the program wrote about nodes of CUDA graphs when it captured them, for the ops of each replay.
//!
//! A graph is replayed many times, so a note is stored once and an op takes 8 bytes.

use super::columns::KeptRows;
use super::renumber_rows;

/// A note about a node of a graph.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeNote {
    /// The name of the annotated part of the program; empty if it has none.
    pub annotation: String,
    /// The stream on which the work ran, if the trace shows it on a lane that the program chose.
    pub original_stream: Option<i64>,
    /// The lane that the program chose, if the trace shows the work on the stream on which it ran.
    pub chosen_stream: Option<i64>,
}

/// The notes of the GPU ops of a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeNotes {
    notes: Vec<NodeNote>,
    /// Row of the op and index of its note, sorted by row.
    rows: Vec<(u32, u32)>,
}

impl NodeNotes {
    /// Returns true if no op has a note.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a note that ops can have, and returns its index.
    pub fn add_note(&mut self, note: NodeNote) -> u32 {
        self.notes.push(note);
        super::columns::index(self.notes.len() - 1)
    }

    /// Gives the op in this row the note with this index.
    pub fn add_row(&mut self, row: u32, note: u32) {
        self.rows.push((row, note));
    }

    /// Returns the note of the op in this row.
    pub fn of_row(&self, row: usize) -> Option<&NodeNote> {
        let found = self.rows.binary_search_by_key(&row, |(row, _)| *row as usize).ok()?;
        self.note(self.rows.get(found)?.1)
    }

    /// Iterates over the rows of ops with a note, ascending, and their notes.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &NodeNote)> {
        self.between(0..usize::MAX)
    }

    /// The same for these rows.
    pub fn between(&self, rows: std::ops::Range<usize>) -> impl Iterator<Item = (usize, &NodeNote)> {
        let first = self.rows.partition_point(|(row, _)| (*row as usize) < rows.start);
        let from_first = self.rows.get(first..).unwrap_or_default().iter();
        let wanted = from_first.take_while(move |(row, _)| (*row as usize) < rows.end);
        wanted.filter_map(|(row, note)| Some((*row as usize, self.note(*note)?)))
    }

    fn note(&self, index: u32) -> Option<&NodeNote> {
        self.notes.get(index as usize)
    }

    pub(super) fn renumber(&mut self, new_rows: &[u32]) {
        renumber_rows(&mut self.rows, new_rows);
    }

    /// Keeps only the notes of these ops, whose rows ascend.
    pub(super) fn select(&mut self, kept: &[u32]) {
        super::select_rows(&mut self.rows, kept);
    }

    pub(super) fn part(&self, kept: &KeptRows) -> Self {
        let rows = self.rows.iter().filter_map(|(row, note)| Some((kept.new_index(*row)?, *note)));
        Self { notes: self.notes.clone(), rows: rows.collect() }
    }
}
