//! The timeline of Proton, the profiler of Triton: one object per line and stream. The event of a kernel has its scopes and
//! Python frames in `call_stack`, which become the annotation of the kernel: `decode/layer.0`. Neither devices nor calls of the
//! host are recorded, and times start at zero.

use super::{ChromeReader, Dialect, Event, Output};
use crate::input::Detail;
use crate::trace::{Format, GpuOp, NodeNote, OpKind};
use std::collections::HashMap;

pub(crate) fn reader(label: &str, detail: Detail) -> ChromeReader<Proton> {
    ChromeReader::new(label, detail, Format::ProtonTrace, Proton::default()).by_line()
}

#[derive(Debug, Default)]
pub(crate) struct Proton {
    /// The annotation of each call stack; `None` for those without a scope.
    known_stacks: HashMap<Box<[u8]>, Option<u32>>,
}

impl Dialect for Proton {
    fn event(&mut self, out: &mut Output, event: &Event<'_>) {
        if event.phase != b"X" || event.category != b"kernel" {
            out.builder.trace.events.other += 1;
            return;
        }
        let Some((start, duration)) = out.op_times(event) else { return };
        let op = GpuOp {
            start,
            duration,
            name: out.builder.trace.names.intern(&event.name()),
            device: out.builder.device("0", ""),
            stream: event.tid_number().unwrap_or(-1),
            process: out.builder.process(-1, ""),
            kind: OpKind::Kernel,
        };
        out.builder.trace.gpu_ops.push(op, None);
        let stack = event.container_arg("call_stack").unwrap_or_default();
        let note = match self.known_stacks.get(stack) {
            Some(known) => *known,
            None => {
                let annotation = scopes(stack, &event.name());
                let note = annotation.map(|annotation| NodeNote { annotation, ..NodeNote::default() });
                let note = note.map(|note| out.builder.trace.node_notes.add_note(note));
                self.known_stacks.insert(stack.into(), note);
                note
            }
        };
        note.into_iter().for_each(|note| out.builder.set_note_of_last_op(note));
    }
}

/// The parts of a call stack (`["ROOT", "decode", "layer.0", "gemm"]`) between its root and the kernel, outermost first, with slashes.
fn scopes(stack: &[u8], kernel: &str) -> Option<String> {
    let stack: Vec<String> = serde_json::from_slice(stack).ok()?;
    let inside = stack.strip_prefix(&["ROOT".to_owned()]).unwrap_or(&stack);
    let inside = inside.split_last().filter(|(last, _)| *last == kernel).map_or(inside, |(_, scopes)| scopes);
    (!inside.is_empty()).then(|| inside.join("/"))
}
