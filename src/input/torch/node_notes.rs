//! Reads what PyTorch's exporters write about nodes of CUDA graphs: the annotation of `torch.cuda.graph_annotations.mark_kernels`
//! (`"name"`, or `"annotation"` if it is no object), and streams: `"original_stream"` if the op is written on a lane that an
//! annotation names, `"annotated_stream"` if it is not. Other keys of an annotation are not read.
//!
//! They follow `"graph node id"` in the `args` of an op. Cost: one substring search for each GPU op; for those of such a graph also
//! the members after that key and a hash lookup.

use super::{TorchReader, number};
use crate::trace::NodeNote;
use foldhash::fast::RandomState;
use gpuprism_scan::json::{Cursor, Step, unescape};
use memchr::memmem::Finder;
use std::collections::HashMap;
use std::sync::LazyLock;

static NODE_ID: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"graph node id\":"));

/// Notes by the text of the members after the id of the node, which is the same in each replay; `None` for members without a note.
pub(super) type KnownNotes = HashMap<Box<[u8]>, Option<u32>, RandomState>;

impl TorchReader {
    /// Gives the GPU op that was pushed last the note in its event, if there is one.
    pub(super) fn note_of_last_op(&mut self, event: &[u8]) {
        let Some(members) = NODE_ID.find(event).and_then(|at| event.get(at..)).and_then(members_after_id) else {
            return;
        };
        let note = match self.known_notes.get(members) {
            Some(known) => *known,
            None => {
                let note = note_in(members).map(|note| self.builder.trace.node_notes.add_note(note));
                self.known_notes.insert(members.into(), note);
                note
            }
        };
        note.into_iter().for_each(|note| self.builder.set_note_of_last_op(note));
    }
}

/// Returns the members between the one that the text begins with and the end of their object; `None` if there are none.
fn members_after_id(text: &[u8]) -> Option<&[u8]> {
    let mut cursor = Cursor::new(text);
    cursor.key();
    cursor.value()?;
    let (first, mut end) = (cursor.at(), cursor.at());
    while let Step::Key(_) = cursor.key() {
        cursor.value()?;
        end = cursor.at();
    }
    text.get(first..end).filter(|members| !members.is_empty())
}

fn note_in(members: &[u8]) -> Option<NodeNote> {
    let (mut cursor, mut note, mut annotation) = (Cursor::new(members), NodeNote::default(), None);
    while let Step::Key(key) = cursor.key() {
        let Some(value) = cursor.value()?.scalar() else { continue };
        match key {
            b"name" => annotation = Some(value),
            b"annotation" => annotation = annotation.or(Some(value)),
            b"original_stream" => note.original_stream = number(value),
            b"annotated_stream" => note.chosen_stream = number(value),
            _ => {}
        }
    }
    note.annotation = annotation.map(|text| unescape(text).into_owned()).unwrap_or_default();
    (note != NodeNote::default()).then_some(note)
}
