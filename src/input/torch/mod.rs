//! torch.profiler (Kineto) JSON: which events are GPU ops, and what is read of them.
//!
//! Most of a trace are CPU ops, Python frames and flows; their category stands near the front of the event, so they cost
//! a few bytes each. Read are GPU ops, the calls that launch them or wait for them, and the annotations of the program;
//! CPU ops and frames only where the trace is to keep its code (`code`).
//! Dialects: torch 1.x writes `Kernel` for `kernel` and string thread ids; times are numbers or strings; AMD writes the
//! same categories as NVIDIA. Merged ranks carry pids such as `[TP00] 3`.

mod code;
#[cfg(test)]
mod code_tests;
mod templates;

use super::Detail;
use crate::json::Json;
use crate::trace::{
    Collective, DeviceId, Format, GpuOp, Job, NameId, Names, Ns, OpKind, ProblemKind, ProcessGroup, ProcessId, Span,
    ThreadId, Trace, TraceBuilder, is_plausible,
};
use foldhash::fast::RandomState;
use gpuprism_scan::json::{Cursor, Step, Value, unescape};
use gpuprism_scan::split::Sink;
use memchr::memmem::Finder;
use serde::Deserialize;
use std::collections::HashMap;
use std::sync::LazyLock;

/// Kineto's times are microseconds: three digits above a nanosecond.
const MICROSECONDS: u32 = 3;
/// So many Python frames are looked at, and so many distinct names kept, to tell the serving engine.
const MAX_FRAMES_FOR_HINTS: u64 = 50_000;
const MAX_HINTS: usize = 4_096;

/// A call whose name holds one of these launches, moves, sets or waits; others say nothing about GPU time.
static CALLS_READ: LazyLock<[Finder<'static>; 6]> =
    LazyLock::new(|| ["aunch", "emcpy", "emset", "ynchronize", "Malloc", "Free"].map(Finder::new));

/// Builds a trace from the events and members that the splitter cuts out.
#[derive(Debug)]
pub(super) struct TorchReader {
    builder: TraceBuilder,
    /// Names as they stand in the file, so that a known one is neither checked nor unescaped again.
    names: HashMap<Box<[u8]>, NameId, RandomState>,
    call_names: HashMap<Box<[u8]>, NameId, RandomState>,
    devices: HashMap<Place, (DeviceId, ProcessId), RandomState>,
    last_device: Option<(Place, (DeviceId, ProcessId))>,
    threads: HashMap<Place, ThreadId, RandomState>,
    last_thread: Option<(Place, ThreadId)>,
    properties: Vec<DeviceProperties>,
    openings: Openings,
    code: Option<code::CodeNames>,
    gpu_ops_only: bool,
    /// Elements of the list that have a `ph`: without a single one this is no trace.
    events: u64,
}

/// The pid of an event and its `args.device` or its tid, as they stand in the file: together they name a device or a
/// thread.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    pid: Box<[u8]>,
    number: Box<[u8]>,
}

/// One entry of `deviceProperties`.
#[derive(Debug, Deserialize)]
struct DeviceProperties {
    id: serde_json::Value,
    #[serde(default)]
    name: String,
}

/// What an event's category says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Gpu(OpKind),
    PythonFrame,
    Annotation { on_gpu: bool },
    Call,
    CpuOp,
    OtherCpu,
    Other,
}

impl Class {
    fn of(category: &[u8]) -> Self {
        match category {
            b"python_function" => Self::PythonFrame,
            b"cpu_op" | b"Operator" => Self::CpuOp,
            b"cuda_runtime" | b"cuda_driver" | b"Runtime" => Self::Call,
            b"kernel" | b"Kernel" => Self::Gpu(OpKind::Kernel),
            b"gpu_memcpy" | b"Memcpy" => Self::Gpu(OpKind::Copy),
            b"gpu_memset" | b"Memset" => Self::Gpu(OpKind::Set),
            b"user_annotation" => Self::Annotation { on_gpu: false },
            b"gpu_user_annotation" => Self::Annotation { on_gpu: true },
            b"ac2g" | b"fwdbwd" | b"async_cpu_to_gpu" | b"async" | b"Trace" => Self::Other,
            b"cpu_instant_event" | b"overhead" => Self::OtherCpu,
            other if other.ends_with(b"_runtime") || other.ends_with(b"_driver") => Self::Call,
            other if other.eq_ignore_ascii_case(b"kernel") => Self::Gpu(OpKind::Kernel),
            other if other.eq_ignore_ascii_case(b"memcpy") => Self::Gpu(OpKind::Copy),
            other if other.eq_ignore_ascii_case(b"memset") => Self::Gpu(OpKind::Set),
            _ => Self::Other,
        }
    }
}

/// The members of an event that matter, as they stand in the file.
#[derive(Debug, Default)]
struct Fields<'a> {
    phase: Option<&'a [u8]>,
    class: Option<Class>,
    name: Option<&'a [u8]>,
    /// A call that says something about GPU time; known once class and name are.
    is_call_read: Option<bool>,
    pid: Option<Value<'a>>,
    tid: Option<&'a [u8]>,
    start: Option<&'a [u8]>,
    duration: Option<&'a [u8]>,
    device: Option<&'a [u8]>,
    stream: Option<&'a [u8]>,
    correlation: Option<&'a [u8]>,
    bytes: Option<&'a [u8]>,
    message: Message<'a>,
    code: code::CodeFields<'a>,
}

/// What is read of an event beyond what every analysis needs.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    /// Names that tell the serving engine.
    engine_hints: bool,
    /// Which code launched what.
    code: bool,
}

/// What torch writes beside an NCCL kernel.
#[derive(Debug, Default)]
struct Message<'a> {
    operation: Option<&'a [u8]>,
    elements_in: Option<&'a [u8]>,
    elements_out: Option<&'a [u8]>,
    element: Option<&'a [u8]>,
    ranks: Option<&'a [u8]>,
    group: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    /// Reads as much of the event as its class asks for, and tells how far that was; `None` for what is no JSON object.
    fn read(event: &'a [u8], wanted: Wanted) -> Option<(Self, usize)> {
        let mut fields = Self::default();
        let mut cursor = Cursor::new(event);
        if !cursor.enter() {
            return None;
        }
        loop {
            let key = match cursor.key() {
                Step::Key(key) => key,
                Step::End => return Some((fields, cursor.at())),
                Step::Damaged => return None,
            };
            if key != b"args" || !fields.read_args(&mut cursor, wanted)? {
                fields.take(key, cursor.value()?);
            }
            if fields.class == Some(Class::Call) && fields.is_call_read.is_none() {
                fields.is_call_read = fields.name.map(is_call_read);
            }
            if fields.is_enough(wanted) {
                return Some((fields, cursor.at()));
            }
        }
    }

    fn take(&mut self, key: &[u8], value: Value<'a>) {
        match key {
            b"ph" => self.phase = value.scalar(),
            b"cat" => self.class = value.scalar().map(Class::of),
            b"name" => self.name = value.scalar(),
            b"ts" => self.start = value.scalar(),
            b"dur" => self.duration = value.scalar(),
            b"pid" => self.pid = Some(value),
            b"tid" => self.tid = value.scalar(),
            _ => {}
        }
    }

    /// Walks through `args`, to their end or to where nothing more is wanted; false where they are no object and the
    /// value is still to be read.
    fn read_args(&mut self, cursor: &mut Cursor<'a>, wanted: Wanted) -> Option<bool> {
        if !cursor.enter() {
            return Some(false);
        }
        loop {
            match cursor.key() {
                Step::Key(key) => {
                    let value = cursor.value()?;
                    let taken = self.take_arg(key, value) || (wanted.code && self.code.take(key, value));
                    if !taken {
                        continue;
                    }
                }
                Step::End => return Some(true),
                Step::Damaged => return None,
            }
            if self.is_enough(Wanted { engine_hints: false, ..wanted }) {
                return Some(true);
            }
        }
    }

    /// False for what nobody asks for.
    fn take_arg(&mut self, key: &[u8], value: Value<'a>) -> bool {
        let slot = match key {
            b"device" => &mut self.device,
            b"stream" => &mut self.stream,
            b"correlation" => &mut self.correlation,
            b"bytes" => &mut self.bytes,
            b"Collective name" => &mut self.message.operation,
            b"In msg nelems" => &mut self.message.elements_in,
            b"Out msg nelems" => &mut self.message.elements_out,
            b"dtype" => &mut self.message.element,
            b"Group size" => &mut self.message.ranks,
            b"Process Group Name" => &mut self.message.group,
            _ => return false,
        };
        *slot = value.scalar();
        true
    }

    /// Only complete events (`X`) have a class that matters.
    fn is_enough(&self, wanted: Wanted) -> bool {
        let (phase, class) = match (self.phase, self.class) {
            (None, _) | (Some(b"X"), None) => return false,
            (Some(phase), class) => (phase, class.unwrap_or(Class::Other)),
        };
        if phase != b"X" {
            return true;
        }
        if wanted.code && !self.is_code_whole(class) {
            return false;
        }
        match class {
            Class::Gpu(kind) => self.is_whole(kind),
            Class::Annotation { on_gpu: false } => self.is_whole_span(),
            Class::Call => match self.is_call_read {
                Some(true) => self.is_whole_span() && self.correlation.is_some(),
                Some(false) => true,
                None => false,
            },
            Class::PythonFrame | Class::Annotation { .. } if wanted.engine_hints => self.name.is_some(),
            _ => true,
        }
    }
}

/// How the events that nobody reads on begin: `{"ph": "X", "cat": "cpu_op"`. A file has a handful of such openings, and
/// an event that begins like one of them need not be read at all.
#[derive(Debug, Default)]
struct Openings(Vec<Opening>);

#[derive(Debug)]
struct Opening {
    text: Box<[u8]>,
    /// The last bytes of `text`, which openings differ in.
    tail: [u8; Openings::TAIL],
    class: Class,
}

impl Openings {
    /// More are not worth comparing with.
    const KEPT: usize = 16;
    /// Longer ones hold ids or names.
    const LONGEST: usize = 112;
    const TAIL: usize = 8;

    #[inline]
    fn class_of(&self, event: &[u8]) -> Option<Class> {
        let matches = |opening: &&Opening| {
            let head = event.get(..opening.text.len());
            head.is_some_and(|head| head.last_chunk() == Some(&opening.tail) && *head == *opening.text)
        };
        self.0.iter().find(matches).map(|opening| opening.class)
    }

    fn learn(&mut self, opening: &[u8], class: Class) {
        let fits = self.0.len() < Self::KEPT && opening.len() <= Self::LONGEST && self.class_of(opening).is_none();
        if let (true, Some(tail)) = (fits, opening.last_chunk()) {
            self.0.push(Opening { text: opening.into(), tail: *tail, class });
        }
    }
}

impl Fields<'_> {
    /// Everything that is read of a GPU op is there. A collective's message stands at the end of its event.
    fn is_whole(&self, kind: OpKind) -> bool {
        let times = self.start.is_some() && self.duration.is_some() && self.correlation.is_some();
        let place = self.device.is_some() && self.stream.is_some() && self.pid.is_some();
        let named = match (kind, self.name) {
            (_, None) => false,
            (OpKind::Kernel, Some(name)) => !name.starts_with(b"nccl"),
            (OpKind::Copy | OpKind::Set, Some(_)) => self.bytes.is_some(),
        };
        times && place && named
    }

    /// Everything that is read of a call or an annotation, but for the correlation id.
    fn is_whole_span(&self) -> bool {
        let times = self.start.is_some() && self.duration.is_some();
        times && self.name.is_some() && self.pid.is_some() && self.tid.is_some()
    }
}

fn is_call_read(name: &[u8]) -> bool {
    CALLS_READ.iter().any(|word| word.find(name).is_some())
}

impl Sink for TorchReader {
    fn event(&mut self, text: &[u8], at: u64) {
        if self.keeps_code() && self.read_by_template(text) {
            return;
        }
        if let Some(class) = self.openings.class_of(text) {
            self.events += 1;
            return self.count(class);
        }
        let wants_hints = self.wants_hints();
        let wanted = Wanted { engine_hints: wants_hints, code: self.keeps_code() };
        let Some((fields, read)) = Fields::read(text, wanted) else { return self.unreadable(at) };
        let Some(phase) = fields.phase else { return self.unreadable(at) };
        self.events += 1;
        let class = if phase == b"X" { fields.class.unwrap_or(Class::Other) } else { Class::Other };
        let engine_hints = &mut self.builder.trace.engine_hints;
        if let (Class::Annotation { .. }, true) = (class, wants_hints) {
            keep_hint(&mut engine_hints.annotations, fields.name);
        }
        match class {
            Class::Gpu(kind) => return self.gpu_op(&fields, kind, at),
            Class::Call if fields.is_call_read == Some(true) => self.span(&fields, SpanKind::Call, at),
            Class::Annotation { on_gpu } => {
                if wanted.code {
                    self.annotation(&fields, on_gpu);
                }
                if !on_gpu {
                    self.span(&fields, SpanKind::Range, at);
                } else if !wants_hints && !wanted.code {
                    self.openings.learn(text.get(..read).unwrap_or_default(), class);
                }
            }
            Class::PythonFrame | Class::CpuOp if wanted.code => {
                if let Some(code) = &mut self.code {
                    code.templates.learn(text, &fields, class);
                }
                return self.code_event(&fields);
            }
            Class::PythonFrame if wants_hints => keep_hint(&mut engine_hints.python_frames, fields.name),
            // One a process or thread: they stand in front of a merged trace and would take all places.
            _ if phase == b"M" => {}
            _ => self.openings.learn(text.get(..read).unwrap_or_default(), class),
        }
        self.count(class);
    }

    fn member(&mut self, key: &[u8], value: &[u8]) {
        match key {
            // Nothing but names of devices hangs on this member: one that is unreadable leaves them empty.
            b"deviceProperties" => self.properties = serde_json::from_slice(value).unwrap_or_default(),
            b"distributedInfo" => self.builder.trace.job = job(value).map(Box::new),
            _ => {}
        }
    }

    fn unreadable(&mut self, at: u64) {
        self.builder.trace.problems.add(ProblemKind::UnreadableEvent, 1, at);
    }
}

/// What `distributedInfo` says; `None` where it tells no rank.
fn job(text: &[u8]) -> Option<Job> {
    let info = Json::parse(std::str::from_utf8(text).ok()?).ok()?;
    let number = |json: &Json| if let Json::Int(number) = json { u32::try_from(*number).ok() } else { None };
    let word = |json: Option<&Json>| json.and_then(Json::text).unwrap_or_default().to_owned();
    let group = |group: &Json| ProcessGroup {
        name: word(group.get_path(&["pg_name"])),
        ranks: group.get_path(&["ranks"]).map_or(&[][..], Json::elements).iter().filter_map(number).collect(),
    };
    Some(Job {
        rank: number(info.get_path(&["rank"])?)?,
        world_size: number(info.get_path(&["world_size"])?)?,
        backend: word(info.get_path(&["backend"])),
        groups: info.get_path(&["pg_config"]).map_or(&[][..], Json::elements).iter().map(group).collect(),
    })
}

fn keep_hint(kept: &mut Names, name: Option<&[u8]>) {
    if let (Some(name), true) = (name, kept.len() < MAX_HINTS) {
        kept.intern(&unescape(name));
    }
}

impl TorchReader {
    pub(super) fn new(label: &str, detail: Detail) -> Self {
        let mut builder = TraceBuilder::new(label, Format::TorchProfiler);
        let code = (detail == Detail::Code && code::IS_BUILT).then(code::CodeNames::default);
        if code.is_some() {
            builder.keep_code();
        }
        Self {
            builder,
            names: HashMap::default(),
            call_names: HashMap::default(),
            devices: HashMap::default(),
            last_device: None,
            threads: HashMap::default(),
            last_thread: None,
            properties: Vec::new(),
            openings: Openings::default(),
            code,
            gpu_ops_only: detail == Detail::GpuOps,
            events: 0,
        }
    }

    /// How many GPU ops were read so far.
    pub(super) fn gpu_ops(&self) -> usize {
        self.builder.trace.gpu_ops.len()
    }

    /// How many trace events, of any kind, were read so far.
    pub(super) fn events(&self) -> u64 {
        self.events
    }

    pub(super) fn problem(&mut self, kind: ProblemKind, count: u64, at: u64) {
        self.builder.trace.problems.add(kind, count, at);
    }

    pub(super) fn finish(mut self) -> Trace {
        let names: HashMap<i64, &str> = self
            .properties
            .iter()
            .filter_map(|properties| Some((properties.id.as_i64()?, &*properties.name)))
            .collect();
        for device in &mut self.builder.trace.devices {
            let number = device.id.rsplit(' ').next().and_then(|number| number.parse().ok());
            device.name =
                number.and_then(|number: i64| names.get(&number)).map(|name| (*name).to_owned()).unwrap_or_default();
        }
        self.builder.finish()
    }

    fn wants_hints(&self) -> bool {
        self.builder.trace.events.python_frames < MAX_FRAMES_FOR_HINTS
    }

    fn count(&mut self, class: Class) {
        let events = &mut self.builder.trace.events;
        match class {
            Class::PythonFrame => {
                events.python_frames += 1;
                events.cpu += 1;
            }
            Class::Call | Class::CpuOp | Class::OtherCpu | Class::Annotation { on_gpu: false } => events.cpu += 1,
            Class::Gpu(_) | Class::Annotation { on_gpu: true } | Class::Other => events.other += 1,
        }
    }

    fn gpu_op(&mut self, fields: &Fields<'_>, kind: OpKind, at: u64) {
        let time = |text: Option<&[u8]>| Ns::from_decimal(text?, MICROSECONDS);
        let (Some(start), Some(duration)) = (time(fields.start), time(fields.duration)) else {
            return self.problem(ProblemKind::OpWithoutTime, 1, at);
        };
        if !is_plausible(start, duration) {
            return self.problem(ProblemKind::ImpossibleDuration, 1, at);
        }
        let name = known_name(&mut self.names, &mut self.builder.trace.names, fields.name.unwrap_or_default());
        let (device, process) = self.device(fields);
        let stream = fields.stream.or(fields.tid).and_then(stream_number).unwrap_or(-1);
        let op = GpuOp { start, duration, name, device, stream, process, kind };
        self.builder.trace.gpu_ops.push(op, fields.correlation.and_then(number));
        if self.keeps_code() {
            self.builder.set_external_id_of_last_op(fields.code.id());
        }
        if let Some(bytes) = fields.bytes.and_then(number).filter(|_| kind != OpKind::Kernel) {
            self.builder.set_bytes_of_last_op(bytes);
        }
        if let Some(collective) = fields.message.collective() {
            self.builder.set_collective_of_last_op(collective);
        }
    }

    /// A call or an annotation: what has no usable times or thread is counted among the others and helps nobody.
    fn span(&mut self, fields: &Fields<'_>, kind: SpanKind, at: u64) {
        let time = |text: Option<&[u8]>| Ns::from_decimal(text?, MICROSECONDS);
        let (Some(start), Some(duration)) = (time(fields.start), time(fields.duration)) else { return };
        if !is_plausible(start, duration) {
            return;
        }
        if self.gpu_ops_only {
            return self.problem(ProblemKind::LeftOut, 1, at);
        }
        let (thread, name) = (self.thread_of(fields), fields.name.unwrap_or_default());
        match kind {
            SpanKind::Call => {
                let name = known_name(&mut self.call_names, &mut self.builder.trace.calls.names, name);
                let correlation = fields.correlation.and_then(number);
                self.builder.add_call(Span { start, duration, name, thread }, correlation);
                if self.keeps_code() {
                    self.code_of_call(fields);
                }
            }
            SpanKind::Range => {
                let name = self.builder.trace.ranges.names.intern(&unescape(name));
                self.builder.trace.ranges.push(Span { start, duration, name, thread });
            }
        }
    }

    fn device(&mut self, fields: &Fields<'_>) -> (DeviceId, ProcessId) {
        let pid = fields.pid.and_then(Value::scalar).unwrap_or_default();
        let number = fields.device.unwrap_or_default();
        if let Some((last, found)) = &self.last_device
            && last.is(pid, number)
        {
            return *found;
        }
        let place = Place { pid: pid.into(), number: number.into() };
        let found = match self.devices.get(&place) {
            Some(&found) => found,
            None => {
                let process = self.builder.process(UNKNOWN_PID, rank_label(&unescape(pid)));
                let found = (self.builder.device(&device_id(fields), ""), process);
                self.devices.insert(place.clone(), found);
                found
            }
        };
        self.last_device = Some((place, found));
        found
    }

    fn thread_of(&mut self, fields: &Fields<'_>) -> ThreadId {
        self.thread(fields.pid.and_then(Value::scalar).unwrap_or_default(), fields.tid.unwrap_or_default())
    }

    fn thread(&mut self, pid: &[u8], tid: &[u8]) -> ThreadId {
        if let Some((last, found)) = &self.last_thread
            && last.is(pid, tid)
        {
            return *found;
        }
        let place = Place { pid: pid.into(), number: tid.into() };
        let found = match self.threads.get(&place) {
            Some(&found) => found,
            None => {
                let found = self.new_thread(pid, tid);
                self.threads.insert(place.clone(), found);
                found
            }
        };
        self.last_thread = Some((place, found));
        found
    }

    /// Threads and GPU ops of one rank are one process, though an op's pid is its device.
    fn new_thread(&mut self, pid: &[u8], tid: &[u8]) -> ThreadId {
        let pid = unescape(pid);
        let label = rank_label(&pid);
        let process = self.builder.process(UNKNOWN_PID, label);
        if let Some(process) = self.builder.trace.processes.get_mut(process.0 as usize)
            && process.pid == UNKNOWN_PID
        {
            process.pid = last_number(pid.as_bytes()).unwrap_or(UNKNOWN_PID);
        }
        self.builder.thread(process, last_number(tid).unwrap_or(-1))
    }
}

/// Which table a span goes into.
#[derive(Debug, Clone, Copy)]
enum SpanKind {
    Call,
    Range,
}

const UNKNOWN_PID: i64 = -1;

impl Place {
    fn is(&self, pid: &[u8], number: &[u8]) -> bool {
        *self.pid == *pid && *self.number == *number
    }
}

/// The id of a name by how it stands in the file, so that a known one is neither checked nor unescaped again.
fn known_name(known: &mut HashMap<Box<[u8]>, NameId, RandomState>, names: &mut Names, raw: &[u8]) -> NameId {
    if let Some(&id) = known.get(raw) {
        return id;
    }
    let id = names.intern(&unescape(raw));
    known.insert(raw.into(), id);
    id
}

impl Message<'_> {
    /// Torch counts elements; the bytes follow where the element type is known.
    fn collective(&self) -> Option<Collective> {
        let text = |raw: Option<&[u8]>| raw.map(|raw| unescape(raw).into_owned()).unwrap_or_default();
        let element = text(self.element);
        let bytes = |elements: Option<&[u8]>| number::<u64>(elements?)?.checked_mul(bytes_of(&element)?);
        Some(Collective {
            operation: text(Some(self.operation?)),
            bytes_in: bytes(self.elements_in),
            bytes_out: bytes(self.elements_out),
            ranks: self.ranks.and_then(number),
            communicator: text(self.group),
            algorithm: String::new(),
            element,
        })
    }
}

/// The size of torch's element types, by the names Kineto writes.
fn bytes_of(element: &str) -> Option<u64> {
    match element {
        "Byte" | "Char" | "Bool" | "Float8_e4m3fn" | "Float8_e5m2" | "Float8_e4m3fnuz" | "Float8_e5m2fnuz" => Some(1),
        "Half" | "BFloat16" | "Short" => Some(2),
        "Float" | "Int" | "ComplexHalf" => Some(4),
        "Double" | "Long" | "ComplexFloat" => Some(8),
        _ => None,
    }
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The last number in `783658`, `thread 783658 (python)`, `[TP00] 3`.
fn last_number(text: &[u8]) -> Option<i64> {
    let end = text.iter().rposition(u8::is_ascii_digit)? + 1;
    let digits = text.get(..end)?.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    number(text.get(end - digits..end)?)
}

/// `[TP00]` of `[TP00] 3`: ranks that were merged into one file carry it in their pids.
fn rank_label(pid: &str) -> &str {
    match pid.find(']') {
        Some(end) if pid.starts_with('[') => pid.get(..=end).unwrap_or_default(),
        _ => "",
    }
}

/// `args.device`, or the pid where there is none; ranks that were merged into one file keep their label.
fn device_id(fields: &Fields<'_>) -> String {
    let pid = unescape(fields.pid.and_then(Value::scalar).unwrap_or_default());
    let Some(number) = fields.device else { return pid.into_owned() };
    let number = unescape(number);
    match pid.split_once(']') {
        Some((rank, _)) if rank.starts_with('[') => format!("{rank}] {number}"),
        _ => number.into_owned(),
    }
}

/// `7`, or the `stream 7` of torch 1.x.
fn stream_number(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"stream ").unwrap_or(text);
    std::str::from_utf8(digits).ok()?.parse().ok()
}
