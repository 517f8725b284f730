//! The timeline of Proton, the profiler of Triton: one object per line and stream. The event of a kernel has its scopes and
//! Python frames in `call_stack`. Neither devices nor calls of the host are recorded, and times start at zero.

use super::{ChromeReader, Dialect, Event, Output};
use crate::input::Detail;
use crate::trace::{Format, GpuOp, OpKind};

pub(crate) fn reader(label: &str, detail: Detail) -> ChromeReader<Proton> {
    ChromeReader::new(label, detail, Format::ProtonTrace, Proton).by_line()
}

#[derive(Debug)]
pub(crate) struct Proton;

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
    }
}
