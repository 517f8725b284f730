//! The Chrome JSON of rocprof, the predecessor of rocprofv3. Its list starts with an empty object, like that of rocmProfileData;
//! the arguments of its events have nanoseconds, the device, the stream and the process, all as texts.
//!
//! The name of an event's process says what it is: `GPU2` a kernel, `COPY` a copy, `CPU HIP API` a call, `Markers and Ranges` a
//! range. A flow `DataFlow` joins a call with its op (`flows`). The size of a copy is in the arguments of its call. `otherData` lists
//! what rocminfo says of each agent, which is a CPU or GPU. O(n log n) for n calls, ops and flows.

use super::flows::{Flows, JoinedCall, JoinedOp, key};
use super::{ChromeReader, Dialect, Event, Output};
use crate::input::Detail;
use crate::input::rocm::{copy_name, kernel_name, op_kind, size_in_call};
use crate::input::torch::is_stored_call;
use crate::trace::{Format, GpuOp, Ns, OpKind, ProblemKind, Span, is_plausible};
use gpuprism_scan::json::{Cursor, Step, unescape};
use std::collections::BTreeMap;

pub(crate) fn reader(label: &str, detail: Detail) -> ChromeReader<RocprofV1> {
    ChromeReader::new(label, detail, Format::RocprofV1Json, RocprofV1::default())
}

#[derive(Debug, Default)]
pub(crate) struct RocprofV1 {
    /// What the events of each process are, by its pid as text; the names come first.
    roles: BTreeMap<Vec<u8>, Role>,
    flows: Flows,
    /// By the number of the agent, which counts from one.
    agents: BTreeMap<u32, Agent>,
}

/// What rocminfo says of an agent.
#[derive(Debug, Default)]
struct Agent {
    /// That of the architecture.
    name: String,
    marketing_name: String,
    /// Its number on the machine, by which ops name it.
    node: Option<u32>,
    is_cpu: bool,
}

impl Agent {
    fn set(&mut self, property: &str, value: String) {
        match property {
            "Name" => self.name = value,
            "MarketingName" => self.marketing_name = value,
            "Node" => self.node = value.trim().parse().ok(),
            "DeviceType" => self.is_cpu = value == "CPU",
            _ => {}
        }
    }

    fn title(&self) -> &str {
        if self.marketing_name.is_empty() { &self.name } else { &self.marketing_name }
    }
}

/// What the events of a process are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Kernels,
    Copies,
    HipCalls,
    /// Calls that HIP calls make; they would count twice.
    InnerCalls,
    Ranges,
}

impl Role {
    fn named(process: &str) -> Option<Self> {
        match process {
            "COPY" => Some(Self::Copies),
            "CPU HIP API" => Some(Self::HipCalls),
            "CPU HSA API" => Some(Self::InnerCalls),
            "Markers and Ranges" => Some(Self::Ranges),
            gpu if gpu.starts_with("GPU") => Some(Self::Kernels),
            _ => None,
        }
    }
}

/// The arguments of an event that count.
#[derive(Debug, Default)]
struct Args {
    begin: Option<Ns>,
    end: Option<Ns>,
    device: Option<String>,
    stream: Option<i64>,
    queue: Option<i64>,
    pid: Option<i64>,
    tid: Option<i64>,
    /// The bytes in the arguments of a call.
    size: Option<u64>,
}

impl Args {
    fn read(event: &Event<'_>) -> Self {
        let mut args = Self::default();
        event.each_arg(&mut |key, value| {
            let Some(raw) = value.scalar() else { return };
            let number = || Ns::from_decimal(raw.trim_ascii(), 0);
            let id = || number().map(|number| number.0);
            match key {
                b"BeginNs" => args.begin = number(),
                b"EndNs" => args.end = number(),
                b"dev-id" => args.device = Some(unescape(raw).trim().to_owned()),
                b"stream-id" => args.stream = id(),
                b"queue-id" => args.queue = id(),
                b"pid" => args.pid = id(),
                b"tid" => args.tid = id(),
                b"args" => args.size = size_in_call(&unescape(raw)),
                _ => {}
            }
        });
        args
    }

    /// Start and duration in nanoseconds.
    fn times(&self) -> Option<(Ns, Ns)> {
        let (begin, end) = (self.begin?, self.end?);
        Some((begin, Ns(end.0.checked_sub(begin.0)?)))
    }
}

impl Dialect for RocprofV1 {
    fn event(&mut self, out: &mut Output, event: &Event<'_>) {
        match event.phase {
            b"M" => {
                if event.name() == "process_name"
                    && let Some(role) = event.arg("name").and_then(|name| Role::named(&name))
                {
                    self.roles.insert(event.pid.to_owned(), role);
                }
                out.builder.trace.events.other += 1;
            }
            b"s" | b"t" | b"f" => {
                self.flows.flow(event, event.phase == b"s");
                out.builder.trace.events.other += 1;
            }
            b"X" => self.row(out, event),
            _ => out.builder.trace.events.other += 1,
        }
    }

    fn member(&mut self, key: &[u8], value: &[u8]) {
        if key != b"otherData" {
            return;
        }
        let mut cursor = Cursor::new(value);
        let mut is_inside = cursor.enter();
        while is_inside && let Step::Key(key) = cursor.key() {
            let Some(value) = cursor.value() else { return };
            is_inside = self.agents.len() < MAX_AGENTS;
            value.scalar().into_iter().for_each(|value| self.add_agent(&unescape(key), &unescape(value)));
        }
    }

    fn finish(&mut self, out: &mut Output) {
        self.flows.finish(out);
        self.name_devices(out);
    }
}

/// No machine has as many.
const MAX_AGENTS: usize = 4_096;

impl RocprofV1 {
    /// Takes a property such as `Agent4.MarketingName` or, of other versions, `Agent4_MarketingName`.
    fn add_agent(&mut self, key: &str, value: &str) {
        let property = key.strip_prefix("Agent").and_then(|rest| rest.split_once(['.', '_']));
        if let Some((agent, property)) = property
            && let Ok(agent) = agent.parse()
        {
            self.agents.entry(agent).or_default().set(property, value.to_owned());
        }
    }

    fn name_devices(&self, out: &mut Output) {
        let node = |(number, agent): (&u32, &Agent)| agent.node.or_else(|| number.checked_sub(1));
        for device in &mut out.builder.trace.devices {
            let number = device.id.parse::<u32>().ok();
            let agent = self.agents.iter().find(|agent| node(*agent) == number && number.is_some());
            if let Some((_, agent)) = agent.filter(|(_, agent)| !agent.is_cpu) {
                agent.title().clone_into(&mut device.name);
            }
        }
    }

    fn row(&mut self, out: &mut Output, event: &Event<'_>) {
        match self.roles.get(event.pid) {
            Some(Role::Kernels) => self.op(out, event, false),
            Some(Role::Copies) => self.op(out, event, true),
            Some(Role::HipCalls) => self.call(out, event),
            Some(Role::Ranges) => range(out, event),
            Some(Role::InnerCalls) => out.builder.trace.events.cpu += 1,
            None => {
                out.builder.trace.events.other += 1;
                out.problem(ProblemKind::UnknownCategory);
            }
        }
    }

    fn op(&mut self, out: &mut Output, event: &Event<'_>, is_copy: bool) {
        let args = Args::read(event);
        let Some((start, duration)) = op_times(out, event, &args) else { return };
        let text = event.name();
        let kind = match op_kind(&text) {
            Some(OpKind::Set) if is_copy => OpKind::Set,
            _ if is_copy => OpKind::Copy,
            _ => OpKind::Kernel,
        };
        let name = if kind == OpKind::Copy { copy_name(&text) } else { kernel_name(&text).to_owned() };
        let op = GpuOp {
            start,
            duration,
            name: out.builder.trace.names.intern(&name),
            device: out.builder.device(args.device.as_deref().unwrap_or("0"), ""),
            stream: args.stream.or(args.queue).unwrap_or(-1),
            process: out.builder.process(args.pid.unwrap_or(-1), ""),
            kind,
        };
        self.flows.ops.push(JoinedOp { op, key: key(event), flow: None, rank: None, bytes: None });
    }

    fn call(&mut self, out: &mut Output, event: &Event<'_>) {
        out.builder.trace.events.cpu += 1;
        let name = event.name();
        if !is_stored_call(name.as_bytes()) {
            return;
        }
        let args = Args::read(event);
        let Some((start, duration)) = host_times(out, event, &args) else { return };
        let process = out.builder.process(args.pid.unwrap_or(-1), "");
        let thread = out.builder.thread(process, args.tid.or(event.tid_number()).unwrap_or(-1));
        let name = out.builder.trace.calls.names.intern(&name);
        let span = Span { start, duration, name, thread };
        self.flows.calls.push(JoinedCall { key: key(event), span, bytes: args.size });
    }
}

fn range(out: &mut Output, event: &Event<'_>) {
    out.builder.trace.events.cpu += 1;
    let args = Args::read(event);
    if let Some(times) = host_times(out, event, &args) {
        let process = out.builder.process(args.pid.unwrap_or(-1), "");
        out.range_in(process, event, &event.name(), times);
    }
}

/// The times of an op in nanoseconds; those of the event, which are whole microseconds, if the arguments have none.
fn op_times(out: &mut Output, event: &Event<'_>, args: &Args) -> Option<(Ns, Ns)> {
    let Some((start, duration)) = args.times() else { return out.op_times(event) };
    if !is_plausible(start, duration) {
        out.problem(ProblemKind::ImpossibleDuration);
        return None;
    }
    Some((start, duration))
}

/// Like [`op_times`], of a call or range.
fn host_times(out: &mut Output, event: &Event<'_>, args: &Args) -> Option<(Ns, Ns)> {
    // Counts what is missing and what is left out.
    let times = out.host_times(event)?;
    Some(args.times().filter(|(start, duration)| is_plausible(*start, *duration)).unwrap_or(times))
}

#[cfg(test)]
mod tests {
    use crate::input::Importer;
    use crate::input::tests::{problems, read_trace};
    use crate::trace::{Format, OpKind, ProblemKind, Trace};

    const NAMES: &str = r#"{ "traceEvents":[{}
,{"args":{"name":"CPU HIP API"},"ph":"M","pid":2,"name":"process_name","sort_index":0}
,{"args":{"name":"COPY"},"ph":"M","pid":1,"name":"process_name","sort_index":1}
,{"args":{"name":"GPU3"},"ph":"M","pid":9,"name":"process_name","sort_index":2}
,{"args":{"name":"Markers and Ranges"},"ph":"M","pid":3,"name":"process_name","sort_index":3}"#;

    fn row(name: &str, (pid, tid): (i64, i64), (begin, end): (i64, i64), more: &str) -> String {
        format!(
            r#",{{"ph":"X","name":"{name}","pid":"{pid}","tid":"{tid}","ts":"{}","dur":"{}",
  "args":{{"BeginNs":"{begin}","EndNs":"{end}","pid":"4711","tid":"4712"{more}}}}}
"#,
            begin / 1_000,
            (end - begin) / 1_000
        )
    }

    fn flow(phase: char, id: i64, (pid, tid): (i64, i64), us: i64) -> String {
        format!(r#",{{"ts":{us},"ph":"{phase}","cat":"DataFlow","id":{id},"pid":{pid},"tid":{tid},"name":"dep"}}"#)
    }

    fn read(rows: &[String]) -> Trace {
        read_trace(Importer::new("results.json"), [&format!("{NAMES}{}]}}", rows.concat())])
    }

    /// A copy of 8,123 ns launched by a call of 1 us before it, and a kernel of 40,007 ns on another stream without a flow.
    #[test]
    fn copies_and_kernels_have_nanoseconds_devices_streams_and_their_calls() {
        let place = r#","dev-id":"3","queue-id":"0","stream-id":"5""#;
        let trace = read(&[
            row("CopyHostToDevice", (1, 0), (4_000, 12_123), place),
            row("hipMemcpyAsync", (2, 4712), (1_000, 9_000), r#","args":"( dst(0x1) sizeBytes(4096) kind(1))""#),
            row("void k(float*) [clone .kd]", (9, 1), (20_001, 60_008), &place.replace("\"5\"", "\"1\"")),
            row("step 1", (3, 4712), (500, 70_000), ""),
            flow('s', 0, (2, 4712), 1),
            flow('t', 0, (1, 0), 4),
        ]);
        let ops: Vec<_> = trace
            .gpu_ops
            .iter()
            .map(|op| (trace.names.get(op.name), op.kind, op.start.0, op.duration.0, op.stream))
            .collect();
        let copy = ("Memcpy HtoD", OpKind::Copy, 4_000, 8_123, 5);
        assert_eq!(ops, [copy, ("void k(float*)", OpKind::Kernel, 20_001, 40_007, 1)]);
        assert_eq!((trace.format, trace.devices.len(), trace.devices[0].id.as_str()), (Format::RocprofV1Json, 1, "3"));
        assert_eq!(trace.gpu_ops.launches().map(|call| call.map(|call| call.0)).collect::<Vec<_>>(), [Some(0), None]);
        assert_eq!(trace.bytes, [(0, 4_096)], "the call says the size");
        assert_eq!((trace.processes[0].pid, trace.threads[0].tid), (4_711, 4_712));
        assert_eq!(trace.ranges.names.iter().collect::<Vec<_>>(), ["step 1"]);
        assert_eq!(problems(&trace), []);
    }

    /// Agents count from one, and their numbers on the machine from zero.
    #[test]
    fn gpus_have_the_names_of_their_agents() {
        let other = r#""otherData": {"Agent3_Name": "gfx90a", "Agent4.Name": "gfx942", "Agent4.MarketingName": "AMD Instinct MI300X",
            "Agent9_Node": "0", "Agent9_Name": "gfx1100", "Agent6_DeviceType": "CPU", "Agent6_Name": "EPYC", "HSARuntime": "1"}"#;
        let kernel = |device| row("k", (9, 1), (1_000, 2_000), &format!(r#","dev-id":"{device}""#));
        let text = format!("{NAMES}{}],\n{other}}}", [2, 3, 0, 5, 7].map(kernel).concat());
        let trace = read_trace(Importer::new("results.json"), [&text]);
        let names: Vec<_> = trace.devices.iter().map(|device| (device.id.as_str(), device.name.as_str())).collect();
        assert_eq!(names, [("0", "gfx1100"), ("2", "gfx90a"), ("3", "AMD Instinct MI300X"), ("5", ""), ("7", "")]);
    }

    #[test]
    fn rows_without_usable_times_or_of_unknown_processes_are_counted() {
        let trace = read(&[
            row("k", (9, 1), (50_000, 20_000), ""),
            row("k", (77, 1), (1_000, 2_000), ""),
            r#",{"ph":"X","name":"k","pid":"9","tid":"1","args":{}}"#.to_owned(),
            row("k", (9, 1), (1_000, 2_000), ""),
        ]);
        assert_eq!(trace.gpu_ops.len(), 1);
        let mut found = problems(&trace);
        found.sort();
        let expected = [ProblemKind::OpWithoutTime, ProblemKind::ImpossibleDuration, ProblemKind::UnknownCategory];
        assert_eq!(found, expected.map(|kind| (kind, 1)));
    }
}
