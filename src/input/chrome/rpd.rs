//! The Chrome JSON of rocmProfileData. A row whose process is named `GPU2` is an op of that GPU; its `desc` is the kind of
//! op. All other rows are API calls or markers. Times are cut to whole microseconds.
//! A flow `api_op` joins a call with its op (`flows`). O(n log n) for n calls, ops and flows.

use super::flows::{Flows, JoinedCall, JoinedOp, key};
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
    flows: Flows,
    /// The GPUs by pid, and the processes of the calls: the file does not name the process of an op.
    devices: BTreeMap<Vec<u8>, DeviceId>,
    processes: BTreeMap<i64, ProcessId>,
    sources: OpSources,
}

impl Dialect for Rpd {
    fn event(&mut self, out: &mut Output, event: &Event<'_>) {
        match event.phase {
            b"M" if event.name() == "process_name" && event.arg("name").is_some_and(|name| name.starts_with("GPU")) => {
                self.gpus.insert(event.pid.to_owned());
                out.builder.trace.events.other += 1;
            }
            b"s" | b"f" => {
                self.flows.flow(event, event.phase == b"s");
                out.builder.trace.events.other += 1;
            }
            b"X" if self.gpus.contains(event.pid) => self.op(out, event),
            b"X" => self.call(out, event),
            _ => out.builder.trace.events.other += 1,
        }
    }

    fn finish(&mut self, out: &mut Output) {
        self.flows.finish(out);
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
        self.flows.ops.push(JoinedOp { op, key: key(event), flow: None, rank: None, bytes: None });
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
        let span = Span { start, duration, name, thread };
        self.flows.calls.push(JoinedCall { key: key(event), span, bytes: None });
    }
}

#[cfg(test)]
mod tests {
    use crate::input::Importer;
    use crate::input::tests::read_trace;
    use crate::trace::Format;

    /// A flow begins at the copy's start, 7 us after the start of its call; one call launches two ops.
    #[test]
    fn a_flow_that_begins_within_a_call_joins_it_with_its_ops() {
        let mut events = vec![r#"{"name":"process_name","ph":"M","pid":"2","args":{"name":"GPU2"}}"#.to_owned()];
        for (start, name) in [(100, "hipMemcpyWithStream"), (120, "hipGraphLaunch"), (140, "hipMemcpyWithStream")] {
            events.push(format!(r#"{{"pid": "7", "tid": "7", "name": "{name}", "ts": "{start}", "dur": "12", "ph": "X", "args": {{"desc": ""}}}}"#));
        }
        for (id, (in_call, begin)) in
            [(107, 107), (121, 125), (121, 135), (147, 147), (160, 170)].into_iter().enumerate()
        {
            events.extend([
                format!(r#"{{"pid": "2", "tid": "0", "name": "op {id}", "ts": "{begin}", "dur": "3", "ph": "X", "args": {{"desc": "KernelExecution"}}}}"#),
                format!(r#"{{"pid": "7", "tid": "7", "cat": "api_op", "name": "api_op", "ts": "{in_call}", "id": "{id}", "ph": "s"}}"#),
                format!(r#"{{"pid": "2", "tid": "0", "cat": "api_op", "name": "api_op", "ts": "{begin}", "id": "{id}", "ph": "f", "bp": "e"}}"#),
            ]);
        }
        let trace = read_trace(Importer::new("rpd.json"), [&format!("[ {{}}\n,{}\n]", events.join("\n,"))]);
        let call_start = |op| Some(trace.calls.get(trace.gpu_ops.launch(op)?.0 as usize)?.start.0 / 1_000);
        let starts: Vec<_> = (0..5).map(call_start).collect();
        assert_eq!(starts, [Some(100), Some(120), Some(120), Some(140), None]);
    }

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
