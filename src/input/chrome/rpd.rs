//! The Chrome JSON of rocmProfileData. A row whose process is named `GPU2` is an op of that GPU; its `desc` is the kind of
//! op. All other rows are API calls or markers. Times are cut to whole microseconds.

use super::{ChromeReader, Dialect, Event, Output};
use crate::input::Detail;
use crate::input::rocm::op_kind;
use crate::input::torch::is_stored_call;
use crate::trace::{DeviceId, Format, GpuOp, OpSources, ProcessId, Span};
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
    /// The GPUs by pid, and the processes of the calls: the file does not name the process of an op.
    devices: BTreeMap<Vec<u8>, DeviceId>,
    processes: BTreeMap<i64, ProcessId>,
    sources: OpSources,
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
        out.builder.assign_sources(&self.sources);
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
        let sources = &mut self.sources;
        let device = *self.devices.entry(event.pid.to_owned()).or_insert_with(|| {
            let gpu = String::from_utf8_lossy(event.pid);
            sources.add("", &gpu, gpu.to_string(), 0)
        });
        let op = GpuOp {
            start,
            duration,
            name: out.builder.trace.names.intern(&event.name()),
            device,
            stream: event.tid_number().unwrap_or(-1),
            process: ProcessId::default(),
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
        let process = *self.processes.entry(event.pid_number()).or_insert_with(|| {
            let text = String::from_utf8_lossy(event.pid);
            self.sources.add_process(&mut out.builder, "", Some(event.pid_number()), &text)
        });
        if is_marker {
            let message = event.arg("desc").filter(|text| !text.is_empty()).unwrap_or(name);
            return out.range_in(process, event, &message, (start, duration));
        }
        let thread = out.builder.thread(process, event.tid_number().unwrap_or(-1));
        let name = out.builder.trace.calls.names.intern(&name);
        self.calls.push((Span { start, duration, name, thread }, key(event)));
    }
}

#[cfg(test)]
mod tests {
    use crate::input::Importer;
    use crate::input::tests::read_trace;
    use crate::trace::Format;

    /// The processes 11 and 12 launch in turn, on a GPU each; the marker of each is around its launches.
    #[test]
    fn ops_and_markers_belong_to_the_process_of_the_call_that_a_flow_joins_with_the_op() {
        let mut events: Vec<String> = ["0", "1"]
            .map(|gpu| format!(r#"{{"name":"process_name","ph":"M","pid":"{gpu}","args":{{"name":"GPU{gpu}"}}}}"#))
            .into();
        for (number, (pid, gpu)) in [(11, 0), (12, 1), (12, 1), (11, 0)].into_iter().enumerate() {
            let (start, begin) = (100 + 50 * number, 120 + 50 * number);
            events.extend([
                format!(r#"{{"pid": "{pid}", "tid": "{pid}", "name": "UserMarker", "ts": "{start}", "dur": "9", "ph": "X", "args": {{"desc": "step {pid}"}}}}"#),
                format!(r#"{{"pid": "{pid}", "tid": "{pid}", "name": "hipLaunchKernel", "ts": "{start}", "dur": "5", "ph": "X", "args": {{"desc": ""}}}}"#),
                format!(r#"{{"pid": "{gpu}", "tid": "0", "name": "kernel of {pid}", "ts": "{begin}", "dur": "10", "ph": "X", "args": {{"desc": "KernelExecution"}}}}"#),
                format!(r#"{{"pid": "{pid}", "tid": "{pid}", "cat": "api_op", "name": "api_op", "ts": "{start}", "id": "{number}", "ph": "s"}}"#),
                format!(r#"{{"pid": "{gpu}", "tid": "0", "cat": "api_op", "name": "api_op", "ts": "{begin}", "id": "{number}", "ph": "f", "bp": "e"}}"#),
            ]);
        }
        let trace = read_trace(Importer::new("rpd.json"), [&format!("[ {{}}\n,{}\n]", events.join("\n,"))]);
        assert_eq!((trace.format, trace.gpu_ops.len(), trace.devices.len()), (Format::RpdChromeJson, 4, 2));
        let pid = |process: usize| trace.processes[process].pid;
        for (op, launch) in trace.gpu_ops.iter().zip(trace.gpu_ops.launches()) {
            assert_eq!(trace.names.get(op.name), format!("kernel of {}", pid(op.process.0 as usize)));
            assert!(launch.is_some());
        }
        for range in trace.ranges.iter() {
            let process = trace.threads[range.thread.0 as usize].process;
            assert_eq!(trace.ranges.names.get(range.name), format!("step {}", pid(process.0 as usize)));
        }
    }
}
