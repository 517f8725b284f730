//! The Chrome JSON of Intel's unitrace: ops (`cat` `gpu_op`) on processes that are devices, calls (`cat` `cpu_op`) on those of
//! the host. What the names mean is in `input::unitrace`.
//!
//! The names of processes and threads may come last, so ops wait for the end of the file. A flow `Flow_H2D_...` joins a call
//! with its op (`flows`); an op also has the id of its flow in its arguments. Times may be whole microseconds, so that a short
//! kernel lasts no time. O(n log n) for n calls, ops and flows.

use super::flows::{Flows, JoinedCall, JoinedOp, key};
use super::{ChromeReader, Dialect, Event, Output, number};
use crate::input::Detail;
use crate::input::unitrace::{self, OpName};
use crate::trace::{DeviceId, Format, GpuOp, Names, ProcessId, Span};
use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;

pub(crate) fn reader(label: &str, detail: Detail) -> ChromeReader<Unitrace> {
    ChromeReader::new(label, detail, Format::UnitraceJson, Unitrace::default())
}

/// Where the ops of a lane ran.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    device: DeviceId,
    stream: i64,
    process: ProcessId,
    rank: Option<i64>,
}

/// Process and thread of an event as the file writes them.
type LaneKey = (Box<[u8]>, Box<[u8]>);

#[derive(Debug, Default)]
pub(crate) struct Unitrace {
    /// Names of processes and of their threads.
    processes: BTreeMap<Box<[u8]>, String>,
    threads: HashMap<LaneKey, String, RandomState>,
    /// The threads with ops. Until the end, the device of an op is the number of its thread here.
    lanes: HashMap<LaneKey, u32, RandomState>,
    flows: Flows,
}

impl Dialect for Unitrace {
    fn event(&mut self, out: &mut Output, event: &Event<'_>) {
        match (event.phase, event.category) {
            (b"X", b"gpu_op") => self.op(out, event),
            (b"X", b"cpu_op") => self.call(out, event),
            (b"s" | b"t" | b"f", category) if category.starts_with(b"Flow_H2D") => {
                self.flows.flow(event, event.phase == b"s");
                out.builder.trace.events.other += 1;
            }
            (b"M", _) => {
                self.name(event);
                out.builder.trace.events.other += 1;
            }
            _ => out.builder.trace.events.other += 1,
        }
    }

    fn finish(&mut self, out: &mut Output) {
        let places = self.places(out);
        // A file without calls may name no process of the host.
        if out.builder.trace.processes.is_empty() {
            out.builder.process(-1, "");
        }
        for joined in &mut self.flows.ops {
            let place = places.get(joined.op.device.0 as usize).copied().unwrap_or_default();
            (joined.op.device, joined.op.stream, joined.op.process) = (place.device, place.stream, place.process);
            joined.rank = place.rank;
        }
        self.flows.finish(out);
    }
}

impl Unitrace {
    fn name(&mut self, event: &Event<'_>) {
        let Some(name) = event.arg("name") else { return };
        match event.raw_name {
            b"process_name" => drop(self.processes.insert(event.pid.into(), name.into_owned())),
            b"thread_name" => drop(self.threads.insert((event.pid.into(), event.tid.into()), name.into_owned())),
            _ => {}
        }
    }

    fn op(&mut self, out: &mut Output, event: &Event<'_>) {
        let Some((start, duration)) = out.op_times(event) else { return };
        let text = event.name();
        let name = OpName::read(&text);
        let next = u32::try_from(self.lanes.len()).unwrap_or(u32::MAX);
        let lane = *self.lanes.entry((event.pid.into(), event.tid.into())).or_insert(next);
        let op = GpuOp {
            start,
            duration,
            name: out.builder.trace.names.intern(name.name),
            device: DeviceId(lane),
            stream: -1,
            // A device has a pid that no process has: its ops are those of the process of its rank.
            process: ProcessId::default(),
            kind: name.kind,
        };
        let flow = event.int_arg("id");
        self.flows.ops.push(JoinedOp { op, key: key(event), flow, rank: None, bytes: name.bytes });
    }

    fn call(&mut self, out: &mut Output, event: &Event<'_>) {
        out.builder.trace.events.cpu += 1;
        let Some((start, duration)) = out.host_times(event) else { return };
        let process = out.builder.process(event.pid_number(), "");
        let thread = out.builder.thread(process, event.tid_number().unwrap_or(-1));
        let name = out.builder.trace.calls.names.intern(&event.name());
        let span = Span { start, duration, name, thread };
        self.flows.calls.push(JoinedCall { key: key(event), span, bytes: None });
    }

    /// The place of each lane. Those of a file that is cut before its names are told apart by their numbers.
    fn places(&self, out: &mut Output) -> Vec<Place> {
        let mut lanes: Vec<(&LaneKey, u32)> = self.lanes.iter().map(|(key, lane)| (key, *lane)).collect();
        crate::ordering::sort_by_key(&mut lanes, |(_, lane)| *lane);
        let (mut engines, mut devices, hosts) = (Names::default(), unitrace::Devices::default(), self.hosts(out));
        let place = |(key, _): (&LaneKey, u32)| {
            let process = self.processes.get(&key.0).map(String::as_str).unwrap_or_default();
            let device = devices.device(&mut out.builder, process);
            let device = device.unwrap_or_else(|| out.builder.device(&String::from_utf8_lossy(&key.0), ""));
            let rank = unitrace::rank(process);
            let engine = self.threads.get(key).map(|thread| unitrace::engine(thread));
            let stream = match engine {
                Some(engine) => i64::from(engines.intern(engine).0),
                None => number(&key.1).unwrap_or(-1),
            };
            let process = hosts.get(rank.unwrap_or_default()).copied().unwrap_or_default();
            Place { device, stream, process, rank: rank.and_then(|rank| rank.parse().ok()) }
        };
        let places = lanes.into_iter().map(place).collect();
        devices.name(&mut out.builder);
        places
    }

    /// The process of each rank. Calls were read before the names, so that it is known.
    fn hosts(&self, out: &mut Output) -> BTreeMap<&str, ProcessId> {
        let hosts = self.processes.iter().filter(|(_, name)| unitrace::is_host(name));
        let pid = |pid: &[u8]| number(pid).unwrap_or(-1);
        hosts.map(|(key, name)| (unitrace::rank(name).unwrap_or_default(), out.builder.process(pid(key), ""))).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::input::Importer;
    use crate::input::tests::{problems, read_trace};
    use crate::trace::{Format, OpKind, Trace};

    fn read(events: &[&str]) -> Trace {
        read_trace(Importer::new("app.4711.json"), [&format!("{{ \"traceEvents\":[\n{}\n]}}", events.join(",\n"))])
    }

    const LAUNCH: &str = r#"{"ph": "X", "tid": 12, "pid": 11, "name": "zeCommandListAppendLaunchKernel", "cat": "cpu_op", "ts": 100, "dur": 5, "id": 0}"#;
    const BEGIN: &str = r#"{"ph": "s", "tid": 12, "pid": 11, "cat": "Flow_H2D_7_0", "ts": 101, "id": 7}"#;
    const KERNEL: &str = r#"{"ph": "X", "tid": 4294967295, "pid": 4294967295, "name": "gemm[SIMD16 {56; 1; 1} {64; 8; 1}]", "cat": "gpu_op", "ts": 110, "dur": 40, "args": {"id": "7"}}"#;
    const END: &str = r#"{"ph": "t", "tid": 4294967295, "pid": 4294967295, "cat": "Flow_H2D_7_0", "ts": 110, "id": 7}"#;
    const BACK: &str =
        r#"{"ph": "s", "tid": 4294967295, "pid": 4294967295, "cat": "Flow_D2H_7_0", "ts": 110, "id": 7}"#;
    const COPY: &str = r#"{"ph": "X", "tid": 4294967293, "pid": 4294967293, "name": "zeCommandListAppendMemoryCopy(M2D)[4096]", "cat": "gpu_op", "ts": 160.5, "dur": 8.25, "args": {"id": "9"}}"#;
    const NAMES: [&str; 4] = [
        r#"{"ph": "M", "name": "process_name", "pid": 11, "ts": 1, "args": {"name": "HOST<zorblax>"}}"#,
        r#"{"ph": "M", "name": "process_name", "pid": 4294967295, "ts": 1, "args": {"name": "DEVICE<zorblax>0:29:0:0 #0"}}"#,
        r#"{"ph": "M", "name": "process_name", "pid": 4294967293, "ts": 1, "args": {"name": "DEVICE<zorblax>0:3a:0:0 #1.1"}}"#,
        r#"{"ph": "M", "name": "thread_name", "pid": 4294967295, "tid": 4294967295, "ts": 1, "args": {"name": "Thread 12 L0 Engine<0,0>"}}"#,
    ];

    #[test]
    fn ops_have_the_devices_and_engines_that_are_named_at_the_end_and_their_launches() {
        let events = [&[LAUNCH, BEGIN, KERNEL, END, BACK, COPY], &NAMES[..]].concat();
        let trace = read(&events);
        assert_eq!(trace.format, Format::UnitraceJson);
        let ops: Vec<_> = trace
            .gpu_ops
            .iter()
            .map(|op| {
                let device = trace.devices[op.device.0 as usize].id.as_str();
                (trace.names.get(op.name), op.kind, op.start.0, op.duration.0, device)
            })
            .collect();
        let copy = ("zeCommandListAppendMemoryCopy(M2D)", OpKind::Copy, 160_500, 8_250, "1.1");
        assert_eq!(ops, [("gemm", OpKind::Kernel, 110_000, 40_000, "0"), copy]);
        assert_eq!(trace.gpu_ops.launches().map(|call| call.map(|call| call.0)).collect::<Vec<_>>(), [Some(0), None]);
        assert_eq!((trace.bytes.as_slice(), problems(&trace)), (&[(1, 4_096)][..], vec![]));
        assert_eq!((trace.processes.len(), trace.processes[0].pid, trace.threads[0].tid), (1, 11, 12));
        assert!(!format!("{trace:?}").contains("zorblax"), "the host's name is private");
    }

    /// Each rank counts its flows from the same number, on a GPU of its own with the number 0.
    #[test]
    fn ranks_have_devices_processes_and_launches_of_their_own() {
        let of_rank = |rank: i64| {
            let (host, device) = (11 + rank, 4_294_967_295 - rank * 8_192);
            [
                format!(
                    r#"{{"ph": "X", "tid": {host}, "pid": {host}, "name": "zeCommandListAppendLaunchKernel", "cat": "cpu_op", "ts": 100, "dur": 5}}"#
                ),
                format!(
                    r#"{{"ph": "s", "tid": {host}, "pid": {host}, "cat": "Flow_H2D_7_{rank}", "ts": 101, "id": 7}}"#
                ),
                format!(
                    r#"{{"ph": "X", "tid": {device}, "pid": {device}, "name": "gemm", "cat": "gpu_op", "ts": 110, "dur": 40, "args": {{"id": "7"}}}}"#
                ),
                format!(
                    r#"{{"ph": "M", "name": "process_name", "pid": {host}, "ts": 1, "args": {{"name": "RANK {rank} HOST<zorblax>"}}}}"#
                ),
                format!(
                    r#"{{"ph": "M", "name": "process_name", "pid": {device}, "ts": 1, "args": {{"name": "RANK {rank} DEVICE<zorblax>0:{rank}9:0:0 #0"}}}}"#
                ),
            ]
        };
        let events = [of_rank(0), of_rank(1)].concat();
        let trace = read(&events.iter().map(String::as_str).collect::<Vec<_>>());
        let mut ops: Vec<_> = trace
            .gpu_ops
            .iter()
            .zip(trace.gpu_ops.launches())
            .map(|(op, launch)| {
                let pid = trace.processes[op.process.0 as usize].pid;
                let call = trace.calls.get(launch.unwrap().0 as usize).unwrap();
                let caller = trace.threads[call.thread.0 as usize].process;
                (trace.devices[op.device.0 as usize].id.clone(), pid, trace.processes[caller.0 as usize].pid)
            })
            .collect();
        ops.sort();
        assert_eq!(ops, [("[rank 0] 0".to_owned(), 11, 11), ("[rank 1] 0".to_owned(), 12, 12)]);
        assert!(!format!("{trace:?}").contains("zorblax"));
    }

    #[test]
    fn a_file_cut_before_its_names_tells_devices_apart() {
        let trace = read(&[KERNEL, COPY]);
        let ids: Vec<_> = trace.devices.iter().map(|device| device.id.as_str()).collect();
        assert_eq!(ids, ["4294967293", "4294967295"]);
    }
}
