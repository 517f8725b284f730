//! The Chrome JSON of rocmProfileData. A row whose process is named `GPU2` is an op of that GPU; its `desc` is the kind of
//! op. All other rows are API calls or markers. Times are cut to whole microseconds.

use super::{ChromeReader, Dialect, Event, Output};
use crate::input::Detail;
use crate::input::rocm::op_kind;
use crate::input::torch::is_stored_call;
use crate::trace::{Format, GpuOp, Span};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn reader(label: &str, detail: Detail) -> ChromeReader<Rpd> {
    ChromeReader::new(label, detail, Format::RpdChromeJson, Rpd::default())
}

#[derive(Debug, Default)]
pub(crate) struct Rpd {
    gpus: BTreeSet<Vec<u8>>,
    /// Flows join a call with its op: their id by process, thread and start of the end point.
    flows: BTreeMap<(Vec<u8>, Vec<u8>, i64), u32>,
    ops: Vec<(GpuOp, Key)>,
    calls: Vec<(Span, Key)>,
}

type Key = (Vec<u8>, Vec<u8>, i64);

fn key(event: &Event<'_>) -> Key {
    (event.pid.to_owned(), event.tid.to_owned(), event.start().map_or(0, |start| start.0))
}

impl Dialect for Rpd {
    fn event(&mut self, out: &mut Output, event: &Event<'_>) {
        match event.phase {
            b"M" if event.name() == "process_name" && event.arg("name").is_some_and(|name| name.starts_with("GPU")) => {
                self.gpus.insert(event.pid.to_owned());
                out.builder.trace.events.other += 1;
            }
            b"s" | b"f" => {
                if let Some(id) = super::number(event.id).and_then(|id| u32::try_from(id).ok()) {
                    self.flows.insert(key(event), id);
                }
                out.builder.trace.events.other += 1;
            }
            b"X" if self.gpus.contains(event.pid) => self.op(out, event),
            b"X" => self.call(out, event),
            _ => out.builder.trace.events.other += 1,
        }
    }

    fn finish(&mut self, out: &mut Output) {
        for (op, key) in self.ops.drain(..) {
            out.builder.trace.gpu_ops.push(op, self.flows.get(&key).copied());
        }
        for (call, key) in self.calls.drain(..) {
            out.builder.add_call(call, self.flows.get(&key).copied());
        }
    }
}

impl Rpd {
    fn op(&mut self, out: &mut Output, event: &Event<'_>) {
        let description = event.arg("desc").unwrap_or_default();
        let Some(kind) = op_kind(&description) else {
            out.builder.trace.events.other += 1;
            return;
        };
        let Some((start, duration)) = out.op_times(event) else { return };
        let op = GpuOp {
            start,
            duration,
            name: out.builder.trace.names.intern(&event.name()),
            device: out.builder.device(&String::from_utf8_lossy(event.pid), ""),
            stream: event.tid_number().unwrap_or(-1),
            process: out.builder.process(-1, ""),
            kind,
        };
        self.ops.push((op, key(event)));
    }

    fn call(&mut self, out: &mut Output, event: &Event<'_>) {
        out.builder.trace.events.cpu += 1;
        let name = event.name();
        let is_marker = name == "UserMarker";
        if !is_marker && !is_stored_call(name.as_bytes()) {
            return;
        }
        let Some((start, duration)) = out.host_times(event) else { return };
        if is_marker {
            let message = event.arg("desc").filter(|text| !text.is_empty()).unwrap_or(name);
            return out.range(event, &message, (start, duration));
        }
        // The ops have no process, so the calls belong to the same one.
        let process = out.builder.process(-1, "");
        let thread = out.builder.thread(process, event.tid_number().unwrap_or(-1));
        let name = out.builder.trace.calls.names.intern(&name);
        self.calls.push((Span { start, duration, name, thread }, key(event)));
    }
}
