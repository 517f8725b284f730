//! torch.profiler (Kineto) JSON: which events are GPU ops, and what is read of them.
//!
//! Over nine tenths of a trace are CPU ops, Python frames and flows; their category stands near the front of the event,
//! so they cost a few bytes each. Dialects: torch 1.x writes `Kernel` for `kernel` and string thread ids; times are
//! numbers or strings; AMD writes the same categories as NVIDIA. Merged ranks carry pids such as `[TP00] 3`.

use crate::trace::{
    DeviceId, Format, GpuOp, NameId, Names, Ns, OpKind, ProblemKind, Trace, TraceBuilder, is_plausible,
};
use foldhash::fast::RandomState;
use gpuprism_scan::json::{Cursor, Step, Value, unescape};
use gpuprism_scan::split::Sink;
use serde::Deserialize;
use std::collections::HashMap;

/// Kineto's times are microseconds: three digits above a nanosecond.
const MICROSECONDS: u32 = 3;
/// So many Python frames are looked at, and so many distinct names kept, to tell the serving engine.
const FRAMES_LOOKED_AT: u64 = 50_000;
const CLUES_KEPT: usize = 4_096;

/// Builds a trace from the events and members that the splitter cuts out.
#[derive(Debug)]
pub(super) struct TorchReader {
    builder: TraceBuilder,
    /// Names as they stand in the file, so that a known one is neither checked nor unescaped again.
    names: HashMap<Box<[u8]>, NameId, RandomState>,
    devices: HashMap<Place, DeviceId, RandomState>,
    last_device: Option<(Place, DeviceId)>,
    properties: Vec<DeviceProperties>,
    openings: Openings,
    /// Elements of the list that have a `ph`: without a single one this is no trace.
    events: u64,
}

/// The pid and `args.device` of an event, as they stand in the file: together they name a device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Place {
    pid: Box<[u8]>,
    device: Box<[u8]>,
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
    OtherCpu,
    Other,
}

impl Class {
    fn of(category: &[u8]) -> Self {
        match category {
            b"python_function" => Self::PythonFrame,
            b"cpu_op" | b"cuda_runtime" | b"cuda_driver" | b"Operator" | b"Runtime" => Self::OtherCpu,
            b"kernel" | b"Kernel" => Self::Gpu(OpKind::Kernel),
            b"gpu_memcpy" | b"Memcpy" => Self::Gpu(OpKind::Copy),
            b"gpu_memset" | b"Memset" => Self::Gpu(OpKind::Set),
            b"user_annotation" => Self::Annotation { on_gpu: false },
            b"gpu_user_annotation" => Self::Annotation { on_gpu: true },
            b"ac2g" | b"fwdbwd" | b"async_cpu_to_gpu" | b"async" | b"Trace" => Self::Other,
            b"cpu_instant_event" | b"overhead" => Self::OtherCpu,
            other if other.ends_with(b"_runtime") || other.ends_with(b"_driver") => Self::OtherCpu,
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
    pid: Option<Value<'a>>,
    tid: Option<&'a [u8]>,
    start: Option<&'a [u8]>,
    duration: Option<&'a [u8]>,
    device: Option<&'a [u8]>,
    stream: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    /// Reads as much of the event as its class asks for, and tells how far that was; `None` for what is no JSON object.
    fn read(event: &'a [u8], want_clues: bool) -> Option<(Self, usize)> {
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
            if key != b"args" || !fields.read_args(&mut cursor)? {
                fields.take(key, cursor.value()?);
            }
            if fields.is_enough(want_clues) {
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
    fn read_args(&mut self, cursor: &mut Cursor<'a>) -> Option<bool> {
        if !cursor.enter() {
            return Some(false);
        }
        loop {
            match cursor.key() {
                Step::Key(b"device") => self.device = cursor.value()?.scalar(),
                Step::Key(b"stream") => self.stream = cursor.value()?.scalar(),
                Step::Key(_) => {
                    cursor.value()?;
                    continue;
                }
                Step::End => return Some(true),
                Step::Damaged => return None,
            }
            if self.is_enough(false) {
                return Some(true);
            }
        }
    }

    /// Only complete events (`X`) have a class that matters.
    fn is_enough(&self, want_clues: bool) -> bool {
        match (self.phase, self.class) {
            (None, _) | (Some(b"X"), None) => false,
            (Some(b"X"), Some(Class::Gpu(_))) => self.is_whole(),
            (Some(b"X"), Some(Class::PythonFrame | Class::Annotation { .. })) if want_clues => self.name.is_some(),
            (Some(_), _) => true,
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
    const KEPT: usize = 12;
    /// Longer ones hold ids or names.
    const LONGEST: usize = 64;
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
    /// Everything that is read of a GPU op is there.
    fn is_whole(&self) -> bool {
        let times = self.start.is_some() && self.duration.is_some();
        let place = self.device.is_some() && self.stream.is_some() && self.pid.is_some();
        self.phase.is_some() && self.name.is_some() && times && place
    }
}

impl Sink for TorchReader {
    fn event(&mut self, text: &[u8], at: u64) {
        if let Some(class) = self.openings.class_of(text) {
            self.events += 1;
            return self.count(class);
        }
        let want_clues = self.builder.trace.events.python_frames < FRAMES_LOOKED_AT;
        let Some((fields, read)) = Fields::read(text, want_clues) else { return self.unreadable(at) };
        let Some(phase) = fields.phase else { return self.unreadable(at) };
        self.events += 1;
        let class = if phase == b"X" { fields.class.unwrap_or(Class::Other) } else { Class::Other };
        let clues = &mut self.builder.trace.clues;
        match class {
            Class::Gpu(kind) => return self.gpu_op(&fields, kind, at),
            Class::PythonFrame if want_clues => keep_clue(&mut clues.python_frames, fields.name),
            Class::Annotation { .. } if want_clues => keep_clue(&mut clues.annotations, fields.name),
            // One a process or thread: they stand in front of a merged trace and would take all places.
            _ if phase == b"M" => {}
            _ => self.openings.learn(text.get(..read).unwrap_or_default(), class),
        }
        self.count(class);
    }

    fn member(&mut self, key: &[u8], value: &[u8]) {
        if key == b"deviceProperties" {
            // Nothing but names of devices hangs on this member: one that is unreadable leaves them empty.
            self.properties = serde_json::from_slice(value).unwrap_or_default();
        }
    }

    fn unreadable(&mut self, at: u64) {
        self.builder.trace.problems.add(ProblemKind::UnreadableEvent, 1, at);
    }
}

fn keep_clue(kept: &mut Names, name: Option<&[u8]>) {
    if let (Some(name), true) = (name, kept.len() < CLUES_KEPT) {
        kept.intern(&unescape(name));
    }
}

impl TorchReader {
    pub(super) fn new(label: &str) -> Self {
        Self {
            builder: TraceBuilder::new(label, Format::TorchProfiler),
            names: HashMap::default(),
            devices: HashMap::default(),
            last_device: None,
            properties: Vec::new(),
            openings: Openings::default(),
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

    fn count(&mut self, class: Class) {
        let events = &mut self.builder.trace.events;
        match class {
            Class::PythonFrame => {
                events.python_frames += 1;
                events.cpu += 1;
            }
            Class::OtherCpu | Class::Annotation { on_gpu: false } => events.cpu += 1,
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
        let name = self.name(fields.name.unwrap_or_default());
        let device = self.device(fields);
        let stream = fields.stream.or(fields.tid).and_then(stream_number).unwrap_or(-1);
        self.builder.trace.gpu_ops.push(GpuOp { start, duration, name, device, stream, kind });
    }

    fn name(&mut self, raw: &[u8]) -> NameId {
        if let Some(&id) = self.names.get(raw) {
            return id;
        }
        let id = self.builder.trace.names.intern(&unescape(raw));
        self.names.insert(raw.into(), id);
        id
    }

    fn device(&mut self, fields: &Fields<'_>) -> DeviceId {
        let pid = fields.pid.and_then(Value::scalar).unwrap_or_default();
        let number = fields.device.unwrap_or_default();
        if let Some((last, id)) = &self.last_device
            && *last.pid == *pid
            && *last.device == *number
        {
            return *id;
        }
        let place = Place { pid: pid.into(), device: number.into() };
        let id = match self.devices.get(&place) {
            Some(&id) => id,
            None => {
                let id = self.builder.device(&device_id(fields), "");
                self.devices.insert(place.clone(), id);
                id
            }
        };
        self.last_device = Some((place, id));
        id
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
