//! Reads [`crate::trace::HostCode`]: CPU ops, Python frames, annotations, external ids. Only if requested.

use super::templates::{Owner, TemplateEvent, folded_id};
use super::{CallUse, Class, Fields, NameId, TorchReader, intern_raw, keep_hint, number};
use crate::rules::is_step_frame;
use crate::trace::{Annotation, CODE_IS_BUILT, FrameIds, HostInterval, NONE, ProcessId, Span, is_plausible};
use foldhash::fast::RandomState;
use gpuprism_scan::json::{Value, unescape};
use std::collections::HashMap;

/// Ids by the raw bytes of the name, so that UTF-8 check and unescaping run once per name.
#[derive(Debug, Default)]
pub(super) struct CodeNames {
    cpu_ops: HashMap<Box<[u8]>, NameId, RandomState>,
    frames: HashMap<Box<[u8]>, NameId, RandomState>,
    kernels: HashMap<Box<[u8]>, NameId, RandomState>,
}

/// The `args` that join events.
#[derive(Debug, Default)]
pub(super) struct CodeFields<'a> {
    pub(super) external_id: Option<&'a [u8]>,
    pub(super) python_id: Option<&'a [u8]>,
    pub(super) python_parent: Option<&'a [u8]>,
    kernel: Option<&'a [u8]>,
}

impl<'a> CodeFields<'a> {
    /// Stores the value of a needed key; returns false for other keys.
    pub(super) fn take(&mut self, key: &[u8], value: Value<'a>) -> bool {
        let slot = match key {
            b"External id" | b"external id" => &mut self.external_id,
            b"Python id" => &mut self.python_id,
            b"Python parent id" => &mut self.python_parent,
            b"kernel" => &mut self.kernel,
            _ => return false,
        };
        *slot = value.scalar();
        true
    }

    pub(super) fn id(&self) -> u32 {
        id_of(self.external_id)
    }
}

fn id_of(text: Option<&[u8]>) -> u32 {
    text.and_then(number::<u64>).map_or(NONE, folded_id)
}

impl Fields<'_> {
    /// Returns true if all members for [`crate::trace::HostCode`] are parsed.
    pub(super) fn is_code_complete(&self, class: Class) -> bool {
        match class {
            Class::PythonFrame => {
                self.is_span_complete() && self.code.python_id.is_some() && self.code.python_parent.is_some()
            }
            Class::CpuOp | Class::Operator | Class::Annotation { .. } => {
                self.is_span_complete() && self.code.external_id.is_some()
            }
            Class::Gpu(_) => self.code.external_id.is_some(),
            Class::Call if matches!(self.call, Some(CallUse::Stored | CallUse::StoredWithoutId)) => {
                self.code.external_id.is_some() && self.code.kernel.is_some()
            }
            _ => true,
        }
    }
}

impl TorchReader {
    pub(super) fn keeps_code(&self) -> bool {
        CODE_IS_BUILT && self.code.is_some()
    }

    /// Adds a CPU op or Python frame if a template matches; otherwise returns false.
    pub(super) fn read_by_template(&mut self, text: &[u8]) -> bool {
        if !CODE_IS_BUILT {
            return false;
        }
        let Some(parsed) = self.templates.read(text) else { return false };
        if parsed.class == Class::CpuOp && !self.shaped_op(text, parsed.name) {
            return false;
        }
        self.events += 1;
        self.count_code(parsed.class, Some(parsed.name));
        self.store(&parsed);
        true
    }

    /// Adds a CPU op or Python frame that was parsed member by member. One without usable times or a name is only counted.
    pub(super) fn code_event(&mut self, fields: &Fields<'_>) {
        let class = fields.class.unwrap_or(Class::Other);
        self.count_code(class, fields.name);
        let (Some((start, duration)), Some(name)) = (fields.plausible_times(), fields.name) else { return };
        let owner = Owner::Parsed { pid: fields.pid.unwrap_or_default(), tid: fields.tid.unwrap_or_default() };
        let id = if class == Class::PythonFrame { fields.code.python_id } else { fields.code.external_id };
        let (id, parent) = (id_of(id), id_of(fields.code.python_parent));
        self.store(&TemplateEvent { class, name, owner, start, duration, id, parent });
    }

    fn count_code(&mut self, class: Class, name: Option<&[u8]>) {
        if class == Class::PythonFrame && self.wants_hints() {
            keep_hint(&mut self.builder.trace.engine_hints.python_frames, name);
        }
        self.count(class);
    }

    fn store(&mut self, event: &TemplateEvent<'_>) {
        let TemplateEvent { start, duration, id, parent, .. } = *event;
        if !is_plausible(start, duration) {
            return;
        }
        if !self.keeps_code() {
            return self.pack(event);
        }
        let thread = match event.owner {
            Owner::Last(thread) => thread,
            Owner::Other { pid, tid, .. } | Owner::Parsed { pid, tid } => self.thread(pid, tid),
        };
        self.templates.remember(event.owner, thread);
        if event.class == Class::PythonFrame && is_step_frame(event.name) {
            let time = HostInterval { thread, start, end: start.after(duration) };
            self.builder.add_step_frame(&unescape(event.name), time);
        }
        let (Some(known), Some(code)) = (&mut self.code, self.builder.code()) else { return };
        if event.class == Class::PythonFrame {
            let name = intern_raw(&mut known.frames, &mut code.frames.names, event.name);
            self.builder.add_frame(Span { start, duration, name, thread }, FrameIds { id, parent });
        } else {
            let name = intern_raw(&mut known.cpu_ops, &mut code.cpu_ops.names, event.name);
            self.builder.add_cpu_op(Span { start, duration, name, thread }, id);
        }
    }

    pub(super) fn annotation(&mut self, fields: &Fields<'_>, on_gpu: bool) {
        let (Some((start, duration)), Some(raw)) = (fields.plausible_times(), fields.name) else { return };
        let (device, process) = if on_gpu {
            (Some(self.device(fields)), Some(ProcessId::default()))
        } else {
            let thread = self.thread_of(fields);
            (None, self.builder.trace.threads.get(thread.0 as usize).map(|thread| thread.process))
        };
        let (Some(code), Some(process)) = (self.builder.code(), process) else { return };
        let name = code.annotation_names.intern(&unescape(raw));
        code.annotations.push(Annotation { start, duration, name, id: fields.code.id(), device, process });
    }

    pub(super) fn code_of_call(&mut self, fields: &Fields<'_>) {
        let (Some(known), Some(code)) = (&mut self.code, self.builder.code()) else { return };
        let kernel = fields.code.kernel.map(|raw| intern_raw(&mut known.kernels, &mut code.kernel_names, raw));
        self.builder.set_code_of_last_call(fields.code.id(), kernel);
    }
}
