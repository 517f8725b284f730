//! Reads [`PackedCode`]: the CPU ops and Python functions of a trace, compressed; and the Python frames that run one step.
//!
//! A function without a line, such as a built-in one, is left out: it counts for its caller. Those in which a thread only waits are
//! kept, under the begin of their name, which is the same for all objects.

use super::intern_raw;
use super::templates::{Owner, TemplateEvent};
use super::{Class, NameId, TorchReader};
use crate::rules::{is_step_frame, waiting_function};
use crate::trace::{CodeKind, HostInterval, PackedCode, ThreadId};
use foldhash::fast::RandomState;
use gpuprism_scan::json::unescape;
use memchr::memmem;
use std::collections::HashMap;

/// The list so far, with ids by the raw bytes of the names.
#[derive(Debug, Default)]
pub(super) struct CodePacker {
    pub(super) code: PackedCode,
    ops: HashMap<Box<[u8]>, NameId, RandomState>,
    functions: HashMap<Box<[u8]>, NameId, RandomState>,
}

impl CodePacker {
    /// A list that takes no events, as if there were too many.
    pub(super) fn without_events() -> Self {
        Self { code: PackedCode::too_long(), ..Self::default() }
    }

    /// The list; `threads` are those of the trace by number. `None` if there was no event.
    pub(super) fn finish(mut self, threads: Vec<Option<ThreadId>>) -> Option<Box<PackedCode>> {
        self.code.set_threads(threads);
        (!self.code.is_empty() || self.code.is_too_long()).then(|| Box::new(self.code))
    }

    fn push(&mut self, event: &TemplateEvent<'_>, thread: u32) {
        let Self { code, ops, functions } = self;
        if code.is_too_long() {
            return;
        }
        let (kind, name) = match event.class {
            Class::PythonFrame if is_without_line(event.name) => match waiting_function(event.name) {
                Some(name) => (CodeKind::Function, intern_raw(functions, &mut code.functions, name.as_bytes())),
                None => return,
            },
            Class::PythonFrame => (CodeKind::Function, intern_raw(functions, &mut code.functions, event.name)),
            _ => (CodeKind::Op, intern_raw(ops, &mut code.ops, event.name)),
        };
        code.push(kind, name, thread, event.start, event.duration);
    }
}

/// Whether a frame is a built-in function, such as `<built-in method item of Tensor object at 0x7f>`.
fn is_without_line(name: &[u8]) -> bool {
    name.starts_with(b"<") && memmem::find(name, b"): ").is_none()
}

impl TorchReader {
    /// Adds a CPU op or Python frame with plausible times.
    pub(super) fn pack(&mut self, event: &TemplateEvent<'_>) {
        let number = match event.owner {
            Owner::Last(number) => number.0,
            Owner::Other { pid, tid, .. } | Owner::Parsed { pid, tid } => self.file_threads.number(pid, tid),
        };
        self.templates.remember(event.owner, ThreadId(number));
        if let Some(packer) = &mut self.packer {
            packer.push(event, number);
        }
        if event.class == Class::PythonFrame && is_step_frame(event.name) {
            self.step_frame(event, number);
        }
    }

    fn step_frame(&mut self, event: &TemplateEvent<'_>, number: u32) {
        let Some((pid, tid)) = self.file_threads.key(number) else { return };
        let thread = self.thread(&pid, &tid);
        let time = HostInterval { thread, start: event.start, end: event.start.after(event.duration) };
        self.builder.add_step_frame(&unescape(event.name), time);
    }
}
