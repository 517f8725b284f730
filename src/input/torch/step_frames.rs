//! Finds the Python frames in which a serving engine runs one step. Of the other frames only the name is looked at.

use super::{Fields, TorchReader, Wanted};
use crate::rules::is_step_frame;
use crate::trace::{HostInterval, TraceBuilder};
use gpuprism_scan::json::unescape;
use memchr::{memchr, memmem};

/// Adds a frame if it runs a step. `name` is its raw JSON text.
pub(super) fn add(builder: &mut TraceBuilder, name: &[u8], time: HostInterval) {
    if is_step_frame(name) {
        builder.add_step_frame(&unescape(name), time);
    }
}

impl TorchReader {
    /// Adds the frame of an event if it runs a step. The name is searched from `from` on. One without usable times is left
    /// out, as everywhere.
    pub(super) fn step_frame(&mut self, event: &[u8], from: usize) {
        let name = event.get(from..).and_then(name_in);
        if self.gpu_ops_only || !name.is_some_and(is_step_frame) {
            return;
        }
        let wanted = Wanted { engine_hints: false, code: false, sites: true };
        let Some((fields, _)) = Fields::read(event, wanted) else { return };
        let (Some((start, duration)), Some(name)) = (fields.plausible_times(), fields.name) else { return };
        let time = HostInterval { thread: self.thread_of(&fields), start, end: start.after(duration) };
        add(&mut self.builder, name, time);
    }
}

/// The raw value of the first member `name`. Names of frames contain no quotes.
fn name_in(event: &[u8]) -> Option<&[u8]> {
    const KEY: &[u8] = b"\"name\"";
    let after = event.get(memmem::find(event, KEY)? + KEY.len()..)?;
    let value = after.get(memchr(b'"', after)? + 1..)?;
    value.get(..memchr(b'"', value)?)
}
