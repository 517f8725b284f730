//! Finds the Python frames in which a serving engine runs one step. Of the other frames only the name is looked at.

use super::{Fields, TorchReader, Wanted, next_name};
use crate::rules::is_step_frame;
use crate::trace::{HostInterval, TraceBuilder};
use gpuprism_scan::json::unescape;

/// Adds a frame if it runs a step. `name` is its raw JSON text.
pub(super) fn add(builder: &mut TraceBuilder, name: &[u8], time: HostInterval) {
    if is_step_frame(name) {
        builder.add_step_frame(&unescape(name), time);
    }
}

impl TorchReader {
    /// Adds the frame of an event if it runs a step. `name` is its name, if it was parsed; `read` is the number of bytes that
    /// were parsed. One without usable times is left out, as everywhere.
    pub(super) fn step_frame(&mut self, event: &[u8], name: Option<&[u8]>, read: usize) {
        let early_name = name.or_else(|| next_name(event.get(read..)?));
        if self.gpu_ops_only || early_name.is_some_and(|name| !is_step_frame(name)) {
            return;
        }
        let wanted = Wanted { engine_hints: false, code: false, sites: true };
        let Some((fields, _)) = Fields::read(event, wanted) else { return };
        let (Some((start, duration)), Some(name)) = (fields.plausible_times(), fields.name) else { return };
        let time = HostInterval { thread: self.thread_of(&fields), start, end: start.after(duration) };
        add(&mut self.builder, name, time);
    }
}
