//! Reader of the JSON of rocprofv3: one object per process, with a list of records per kind of event.
//!
//! The file is streamed: only the record being read is kept, and the tables of names (kernels, agents, operations). Names may
//! come after the records that use them, so records get the name of their number until the end. One pass.

use super::counted::{CountedKernels, Counter, bytes};
use super::{Domain, copy_name, times};
use crate::input::Detail;
use crate::input::elements::{Action, ElementSplitter, Key};
use crate::input::stream_reader::StreamReader;
use crate::input::torch::is_stored_call;
use crate::json::Json;
use crate::trace::{
    DeviceProperties, Format, GpuOp, ImportProblem, NameId, Names, Ns, OpKind, ProblemKind, ProcessId, Span, Trace,
    TraceBuilder,
};
use crate::{Error, Result};
use gpuprism_scan::json::{Cursor, Step, Value, unescape};
use std::collections::BTreeMap;

/// Reads the file chunk by chunk.
#[derive(Debug)]
pub(crate) struct RocprofJson {
    splitter: ElementSplitter,
    records: Records,
}

#[derive(Debug)]
struct Records {
    label: String,
    builder: TraceBuilder,
    is_gpu_only: bool,
    /// The object of a process in the file: its number, its pid, and its process in the trace.
    tool: u64,
    process: ProcessId,
    /// Names by process of the file and by kernel, or by kind and operation of a call, or by correlation id of a marker.
    kernels: BTreeMap<(u64, u64), String>,
    operations: BTreeMap<(u64, u64, u64), (String, String)>,
    markers: BTreeMap<(u64, u64), String>,
    agents: BTreeMap<String, Agent>,
    /// Counters of bytes by process of the file and handle.
    counters: BTreeMap<(u64, u64), Option<Counter>>,
    counted: CountedKernels,
    has_kernel_list: bool,
    /// Placeholders of names, in the order of their ids.
    op_names: Pending,
    call_names: Pending,
    range_names: Pending,
}

#[derive(Debug)]
struct Agent {
    is_gpu: bool,
    name: String,
    node: Option<u64>,
    compute_units: Option<u32>,
}

/// Ids of names whose texts are looked up at the end.
#[derive(Debug, Default)]
struct Pending {
    ids: BTreeMap<Placeholder, NameId>,
    placeholders: Vec<Placeholder>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Placeholder {
    Kernel { tool: u64, kernel: u64 },
    Operation { tool: u64, kind: u64, operation: u64 },
    Copy { tool: u64, kind: u64, operation: u64 },
    Marker { tool: u64, kind: u64, operation: u64, correlation: u64 },
}

impl Pending {
    fn id(&mut self, placeholder: Placeholder) -> NameId {
        *self.ids.entry(placeholder).or_insert_with(|| {
            self.placeholders.push(placeholder);
            NameId(u32::try_from(self.placeholders.len() - 1).unwrap_or(u32::MAX))
        })
    }

    /// Returns the names, the new id of each old one, and the number of names without a text.
    fn resolve(self, text: &mut dyn FnMut(Placeholder) -> Option<String>) -> (Names, Vec<NameId>, u64) {
        let (mut names, mut missing) = (Names::default(), 0);
        let new_ids = self.placeholders.into_iter().map(|placeholder| {
            let text = text(placeholder).unwrap_or_else(|| {
                missing += 1;
                match placeholder {
                    Placeholder::Kernel { kernel, .. } => format!("(name {kernel} is missing)"),
                    Placeholder::Operation { operation, .. }
                    | Placeholder::Copy { operation, .. }
                    | Placeholder::Marker { operation, .. } => format!("(name {operation} is missing)"),
                }
            });
            names.intern(&text)
        });
        let new_ids = new_ids.collect();
        (names, new_ids, missing)
    }
}

/// The lists of records that are read.
const LISTS: [&[u8]; 6] = [b"kernel_dispatch", b"memory_copy", b"hip_api", b"rccl_api", b"marker_api", b"hsa_api"];

/// Decides what happens to a list or object at this path.
fn action(path: &[Key]) -> Action {
    let key = |level: usize| path.get(level).map(Key::as_bytes);
    match path.len() {
        // The list of processes and its elements.
        1 if key(0) == Some(b"rocprofiler-sdk-tool") => Action::Enter,
        2 => Action::Enter,
        3 => match key(2) {
            Some(b"metadata" | b"strings") => Action::Take,
            Some(b"agents" | b"kernel_symbols" | b"counters" | b"buffer_records" | b"callback_records") => {
                Action::Enter
            }
            _ => Action::Skip,
        },
        4 if key(2) == Some(b"buffer_records") => {
            if LISTS.iter().any(|list| key(3) == Some(*list)) {
                Action::Enter
            } else {
                Action::Skip
            }
        }
        4 if key(2) == Some(b"callback_records") => {
            if key(3) == Some(b"counter_collection") {
                Action::Enter
            } else {
                Action::Skip
            }
        }
        4 | 5 => Action::Take,
        _ => Action::Skip,
    }
}

impl RocprofJson {
    pub(crate) fn new(label: &str, detail: Detail) -> Self {
        let mut builder = TraceBuilder::new(label, Format::RocprofJson);
        let process = builder.process(-1, "");
        let records = Records {
            label: label.to_owned(),
            builder,
            is_gpu_only: detail == Detail::GpuOps,
            tool: 0,
            process,
            kernels: BTreeMap::new(),
            operations: BTreeMap::new(),
            markers: BTreeMap::new(),
            agents: BTreeMap::new(),
            counters: BTreeMap::new(),
            counted: CountedKernels::default(),
            has_kernel_list: false,
            op_names: Pending::default(),
            call_names: Pending::default(),
            range_names: Pending::default(),
        };
        Self { splitter: ElementSplitter::new(action), records }
    }
}

impl StreamReader for RocprofJson {
    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        let records = &mut self.records;
        self.splitter.feed(bytes, &mut |path, element, at| records.element(path, element, at));
        Ok(())
    }

    fn gpu_ops(&self) -> usize {
        self.records.builder.trace.gpu_ops.len() + self.records.counted.len()
    }

    fn finish(mut self: Box<Self>) -> Result<Trace> {
        if let Some(at) = self.splitter.open_at_end() {
            self.records.builder.trace.problems.add(ProblemKind::Truncated, 1, at);
        }
        let unread = self.splitter.too_long();
        if unread > 0 {
            let place = ImportProblem::UNKNOWN_PLACE;
            self.records.builder.trace.problems.add(ProblemKind::EventTooLarge, unread, place);
        }
        self.records.finish()
    }
}

/// The members of a record.
#[derive(Debug, Default)]
struct Record {
    start: Option<i64>,
    end: Option<i64>,
    thread: Option<i64>,
    correlation: Option<u64>,
    kind: u64,
    operation: u64,
    agent: Option<u64>,
    queue: Option<u64>,
    stream: Option<u64>,
    kernel: Option<u64>,
    dispatch: Option<u64>,
    source: Option<u64>,
    destination: Option<u64>,
    bytes: Option<u64>,
}

fn integer(value: Value<'_>) -> Option<i64> {
    Ns::from_decimal(value.scalar()?, 0).map(|number| number.0)
}

fn unsigned(value: Value<'_>) -> Option<u64> {
    std::str::from_utf8(value.scalar()?).ok()?.parse().ok()
}

/// Calls `each` with the members of an object; `None` if it is damaged.
fn members<'a>(object: &'a [u8], each: &mut dyn FnMut(&'a [u8], Value<'a>)) -> Option<()> {
    let mut cursor = Cursor::new(object);
    if !cursor.enter() {
        return None;
    }
    loop {
        match cursor.key() {
            Step::Key(key) => each(key, cursor.value()?),
            Step::End => return Some(()),
            Step::Damaged => return None,
        }
    }
}

/// The value of one member of an object.
fn member<'a>(value: Value<'a>, name: &[u8]) -> Option<u64> {
    let Value::Container(object) = value else { return unsigned(value) };
    let mut found = None;
    members(object, &mut |key, value: Value<'a>| {
        if key == name {
            found = unsigned(value);
        }
    });
    found
}

/// Adds the handle and value of each counter in a list; `None` if the list is damaged.
fn counter_values(list: &[u8], values: &mut Vec<(u64, f64)>) -> Option<()> {
    let mut cursor = Cursor::new(list.strip_prefix(b"[")?.strip_suffix(b"]")?);
    while !cursor.at_end() {
        let Value::Container(object) = cursor.value()? else { return None };
        let (mut handle, mut number) = (None, None);
        members(object, &mut |key, value| match key {
            b"counter_id" => handle = member(value, b"handle"),
            b"value" => number = value.scalar().and_then(|text| std::str::from_utf8(text).ok()?.parse().ok()),
            _ => {}
        })?;
        values.push((handle?, number?));
    }
    Some(())
}

impl Record {
    fn read(text: &[u8]) -> Option<Self> {
        let mut record = Self::default();
        members(text, &mut |key, value| match key {
            b"start_timestamp" => record.start = integer(value),
            b"end_timestamp" => record.end = integer(value),
            b"thread_id" => record.thread = integer(value),
            b"correlation_id" => record.correlation = member(value, b"internal"),
            b"kind" => record.kind = unsigned(value).unwrap_or_default(),
            b"operation" => record.operation = unsigned(value).unwrap_or_default(),
            b"stream_id" => record.stream = member(value, b"handle"),
            b"src_agent_id" => record.source = member(value, b"handle"),
            b"dst_agent_id" => record.destination = member(value, b"handle"),
            b"bytes" => record.bytes = unsigned(value),
            b"dispatch_info" => {
                let Value::Container(info) = value else { return };
                members(info, &mut |key, value| match key {
                    b"agent_id" => record.agent = member(value, b"handle"),
                    b"queue_id" => record.queue = member(value, b"handle"),
                    b"kernel_id" => record.kernel = unsigned(value),
                    b"dispatch_id" => record.dispatch = unsigned(value),
                    _ => {}
                });
            }
            _ => {}
        })?;
        Some(record)
    }

    fn correlation(&self) -> Option<u32> {
        self.correlation.and_then(|id| u32::try_from(id).ok()).filter(|id| *id != 0)
    }
}

impl Records {
    fn element(&mut self, path: &[Key], element: &[u8], at: u64) {
        let key = |level: usize| path.get(level).map(Key::as_bytes).unwrap_or_default();
        let tool = path.get(1).map_or(0, |key| key.index);
        if tool != self.tool {
            self.tool = tool;
            self.process = self.builder.process(-1, &format!("process {tool}"));
        }
        match (path.len(), key(2)) {
            (3, b"metadata") => self.metadata(element),
            (3, b"strings") => self.strings(element),
            (4, b"agents") => self.agent(element),
            (4, b"kernel_symbols") => self.kernel_symbol(element),
            (4, b"counters") => self.counter(element),
            (5, b"callback_records") => self.counted_dispatch(element, at),
            (5, _) => self.record(key(3), element, at),
            _ => {}
        }
    }

    fn metadata(&mut self, text: &[u8]) {
        let number = |key| member(Value::Container(text), key).and_then(|number| i64::try_from(number).ok());
        if let (Some(start), Some(end)) = (number(b"init_time"), number(b"fini_time")) {
            self.builder.add_recorded(Ns(start), Ns(end));
        }
        let pid = number(b"pid");
        if let (Some(pid), Some(process)) = (pid, self.builder.trace.processes.get_mut(self.process.0 as usize)) {
            process.pid = pid;
        }
    }

    fn strings(&mut self, text: &[u8]) {
        let Some(json) = std::str::from_utf8(text).ok().and_then(|text| Json::parse(text).ok()) else { return };
        let lists = json.get_path(&["buffer_records"]).into_iter().flat_map(Json::elements);
        for (kind, entry) in (0..).zip(lists) {
            let kind_name = entry.get_path(&["kind"]).and_then(Json::text).unwrap_or_default();
            let operations = entry.get_path(&["operations"]).into_iter().flat_map(Json::elements);
            for (operation, name) in (0..).zip(operations) {
                let names = (kind_name.clone().into_owned(), name.text().unwrap_or_default().into_owned());
                self.operations.insert((self.tool, kind, operation), names);
            }
        }
        for marker in json.get_path(&["marker_api"]).into_iter().flat_map(Json::elements) {
            let id = marker.get_path(&["key"]).and_then(Json::number);
            let text = marker.get_path(&["value"]).and_then(Json::text);
            if let (Some(id), Some(text)) = (id, text) {
                self.markers.insert((self.tool, id as u64), text.into_owned());
            }
        }
    }

    fn agent(&mut self, text: &[u8]) {
        let (mut handle, mut is_gpu, mut name, mut node, mut compute_units) = (None, false, String::new(), None, None);
        members(text, &mut |key, value| match key {
            b"id" => handle = member(value, b"handle"),
            b"type" => is_gpu = unsigned(value) == Some(2),
            b"product_name" => name = value.scalar().map(|text| unescape(text).into_owned()).unwrap_or_default(),
            b"node_id" => node = unsigned(value),
            b"cu_count" => compute_units = unsigned(value).and_then(|count| u32::try_from(count).ok()),
            _ => {}
        });
        if let Some(handle) = handle {
            self.agents.insert(handle.to_string(), Agent { is_gpu, name, node, compute_units });
        }
    }

    fn kernel_symbol(&mut self, text: &[u8]) {
        let (mut id, mut names) = (None, [None, None, None]);
        members(text, &mut |key, value| {
            let slot = match key {
                b"kernel_id" => return id = unsigned(value),
                b"formatted_kernel_name" => 0,
                b"demangled_kernel_name" => 1,
                b"kernel_name" => 2,
                _ => return,
            };
            if let (Some(slot), Some(text)) = (names.get_mut(slot), value.scalar()) {
                *slot = Some(unescape(text).into_owned()).filter(|text| !text.is_empty());
            }
        });
        if let (Some(id), Some(name)) = (id, names.into_iter().flatten().next()) {
            self.kernels.insert((self.tool, id), name);
        }
    }

    /// The list of counters comes before their values.
    fn counter(&mut self, text: &[u8]) {
        let (mut handle, mut counter) = (None, None);
        members(text, &mut |key, value| match key {
            b"id" => handle = member(value, b"handle"),
            b"name" => counter = value.scalar().and_then(Counter::named),
            _ => {}
        });
        if let Some(handle) = handle {
            self.counters.insert((self.tool, handle), counter);
        }
    }

    /// A kernel with the values of its counters, which may have several instances each.
    fn counted_dispatch(&mut self, text: &[u8], at: u64) {
        self.builder.trace.events.other += 1;
        let (mut record, mut values, mut stream, mut is_intact) = (None, Vec::new(), None, true);
        let read = members(text, &mut |key, value| match (key, value) {
            (b"dispatch_data", Value::Container(data)) => record = Record::read(data),
            (b"stream_id", value) => stream = member(value, b"handle"),
            (b"records", Value::Container(list)) => is_intact = counter_values(list, &mut values).is_some(),
            _ => {}
        });
        let problems = &mut self.builder.trace.problems;
        let Some(record) = record.filter(|_| read.is_some() && is_intact) else {
            return problems.add(ProblemKind::UnreadableEvent, 1, at);
        };
        let Some(time) = record.start.zip(record.end).and_then(|(start, end)| times(start, end)) else {
            return problems.add(ProblemKind::ImpossibleDuration, 1, at);
        };
        let record = Record { stream: record.stream.or(stream), ..record };
        let op = self.kernel_of(&record, time);
        let traffic = self.counted.traffic(record.dispatch.unwrap_or_default(), op, record.correlation());
        for (handle, value) in values {
            match (self.counters.get(&(self.tool, handle)), bytes(value)) {
                (Some(Some(counter)), Some(bytes)) => counter.add(bytes, traffic),
                (Some(None), _) => {}
                (None, _) | (_, None) => self.builder.trace.problems.add(ProblemKind::UnknownCounter, 1, at),
            }
        }
    }

    fn record(&mut self, list: &[u8], text: &[u8], at: u64) {
        let is_op = matches!(list, b"kernel_dispatch" | b"memory_copy");
        let problems = &mut self.builder.trace.problems;
        let Some(record) = Record::read(text) else { return problems.add(ProblemKind::UnreadableEvent, 1, at) };
        let (Some(start), Some(end)) = (record.start, record.end) else {
            let kind = if is_op { ProblemKind::OpWithoutTime } else { ProblemKind::HostRowWithoutTime };
            return problems.add(kind, 1, at);
        };
        let Some(time) = times(start, end) else {
            let kind = if is_op { ProblemKind::ImpossibleDuration } else { ProblemKind::HostRowWithoutTime };
            return problems.add(kind, 1, at);
        };
        match list {
            b"kernel_dispatch" => self.kernel(&record, time),
            b"memory_copy" => self.copy(&record, time),
            b"hsa_api" => self.builder.trace.events.cpu += 1,
            list => self.call(list, &record, time, at),
        }
    }

    fn kernel(&mut self, record: &Record, time: (Ns, Ns)) {
        self.has_kernel_list = true;
        let op = self.kernel_of(record, time);
        self.builder.trace.gpu_ops.push(op, record.correlation());
    }

    fn kernel_of(&mut self, record: &Record, (start, duration): (Ns, Ns)) -> GpuOp {
        let (tool, kernel) = (self.tool, record.kernel.unwrap_or(u64::MAX));
        let stream = record.stream.or(record.queue).and_then(|stream| i64::try_from(stream).ok());
        GpuOp {
            start,
            duration,
            name: self.op_names.id(Placeholder::Kernel { tool, kernel }),
            device: self.builder.device(&record.agent.unwrap_or_default().to_string(), ""),
            stream: stream.unwrap_or(-1),
            process: self.process,
            kind: OpKind::Kernel,
        }
    }

    fn copy(&mut self, record: &Record, (start, duration): (Ns, Ns)) {
        let &Record { kind, operation, .. } = record;
        let is_gpu = |handle: &u64| self.agents.get(&handle.to_string()).is_none_or(|agent| agent.is_gpu);
        let agent = record.destination.filter(is_gpu).or(record.source).unwrap_or_default();
        let op = GpuOp {
            start,
            duration,
            name: self.op_names.id(Placeholder::Copy { tool: self.tool, kind, operation }),
            device: self.builder.device(&agent.to_string(), ""),
            stream: record.stream.and_then(|stream| i64::try_from(stream).ok()).unwrap_or(-1),
            process: self.process,
            kind: OpKind::Copy,
        };
        self.builder.trace.gpu_ops.push(op, record.correlation());
        if let Some(bytes) = record.bytes {
            self.builder.set_bytes_of_last_op(bytes);
        }
    }

    fn call(&mut self, list: &[u8], record: &Record, (start, duration): (Ns, Ns), at: u64) {
        self.builder.trace.events.cpu += 1;
        if self.is_gpu_only {
            return self.builder.trace.problems.add(ProblemKind::LeftOut, 1, at);
        }
        let (tool, &Record { kind, operation, .. }) = (self.tool, record);
        let thread = self.builder.thread(self.process, record.thread.unwrap_or(-1));
        if list == b"marker_api" {
            let correlation = record.correlation.unwrap_or_default();
            let name = self.range_names.id(Placeholder::Marker { tool, kind, operation, correlation });
            return self.builder.trace.ranges.push(Span { start, duration, name, thread });
        }
        // Calls that neither launch nor wait are dropped if their name is known already, as it is in files of rocprofv3.
        let names = self.operations.get(&(tool, kind, operation));
        if names.is_some_and(|(domain, name)| Domain::of(domain) == Domain::Inner || !is_stored_call(name.as_bytes())) {
            return;
        }
        let name = self.call_names.id(Placeholder::Operation { tool, kind, operation });
        self.builder.add_call(Span { start, duration, name, thread }, record.correlation());
    }

    fn finish(mut self) -> Result<Trace> {
        self.counted.finish(self.has_kernel_list, &mut self.builder);
        let events = self.builder.trace.events;
        if self.builder.trace.gpu_ops.is_empty() && events.cpu == 0 && self.kernels.is_empty() && self.agents.is_empty()
        {
            let why = "JSON of rocprofv3 that is cut short before its first record; copy or capture it again";
            return Err(Error::refused(&self.label, why));
        }
        let (kernels, operations, markers) = (self.kernels, self.operations, self.markers);
        let mut text = |placeholder| match placeholder {
            Placeholder::Kernel { tool, kernel } => kernels.get(&(tool, kernel)).cloned(),
            Placeholder::Operation { tool, kind, operation } => {
                operations.get(&(tool, kind, operation)).map(|(_, name)| name.clone())
            }
            Placeholder::Copy { tool, kind, operation } => {
                operations.get(&(tool, kind, operation)).map(|(_, name)| copy_name(name))
            }
            Placeholder::Marker { tool, kind, operation, correlation } => {
                let known = markers.get(&(tool, correlation)).cloned();
                known.or_else(|| operations.get(&(tool, kind, operation)).map(|(_, name)| name.clone()))
            }
        };
        let trace = &mut self.builder.trace;
        let mut missing = 0;
        let (names, new_ids, unknown) = self.op_names.resolve(&mut text);
        trace.names = names;
        trace.gpu_ops.rename(&new_ids);
        missing += unknown;
        for (spans, pending) in [(&mut trace.calls, self.call_names), (&mut trace.ranges, self.range_names)] {
            let (names, new_ids, unknown) = pending.resolve(&mut text);
            spans.names = names;
            spans.rename(&new_ids);
            missing += unknown;
        }
        for name in trace.ranges.names.iter() {
            trace.engine_hints.annotations.intern(name);
        }
        if missing > 0 {
            trace.problems.add(ProblemKind::MissingName, missing, 0);
        }
        // The handle of an agent is a number of the run; people know the node.
        for device in &mut trace.devices {
            let Some(agent) = self.agents.get(&device.id) else { continue };
            if let Some(node) = agent.node {
                device.id = node.to_string();
            }
            device.name.clone_from(&agent.name);
            device.properties =
                DeviceProperties { multiprocessors: agent.compute_units, ..DeviceProperties::default() };
        }
        Ok(self.builder.finish())
    }
}
