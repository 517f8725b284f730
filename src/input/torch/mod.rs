//! Reader of torch.profiler (Kineto) JSON: builds a trace from the events that `gpuprism_scan::split` cuts out of the stream.
//!
//! It stores GPU ops, the API calls that launch or wait for them, and user annotations. CPU ops and Python frames are most of a
//! trace; they are stored compressed (`packing`), or whole if [`crate::trace::HostCode`] is requested (`code`). Shapes are stored
//! if they are of use (`shaped_ops`). All work is linear in the bytes.
//!
//! Three techniques make it fast:
//! - Prefix filter (`SkippedPrefixes`): a file has a handful of event beginnings such as `{"ph": "X", "cat": "cpu_op"`. An event
//!   that begins like one that was skipped before is counted and not parsed.
//! - Early exit: of other events, members are parsed only up to the last one needed. The category is near the front.
//! - Event templates (`templates`): a million frames and CPU ops are written alike. The reader learns the text between their
//!   values and parses only the values; an event that differs by one byte is parsed member by member.
//!
//! Damage: an event that is not valid JSON, or that swallowed its neighbours (it is long or has two `"ph"`), is counted as
//! unreadable, and splitting resumes at the next `}, {"`. That depends only on the bytes, not on chunk boundaries. A GPU op without
//! usable times, or with a negative or absurd duration, is counted and skipped.
//!
//! Times are fixed point in microseconds. Digits below a nanosecond are truncated, never rounded or converted to floating point.
//!
//! Dialects: torch 1.x writes `Kernel` for `kernel`, and thread ids as strings. Times are numbers or strings. AMD uses
//! the categories of NVIDIA. Files of merged ranks have pids such as `[TP00] 3`, or pids of several
//! processes (`crate::trace::OpSources`). PyTorch's new exporter of CUPTI names
//! the direction of a copy only in its `args`; its flows from 2^40 on join nodes of graphs. Flows are not read: ops
//! and calls have correlation ids. Other writers split an event into its beginning and its end (`slices`). Annotations
//! of graph nodes follow in `args` (`node_notes`), and the configuration of the launch (`launch_configs`).

mod code;
#[cfg(test)]
mod code_tests;
mod device_entries;
mod file_threads;
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
mod launch_configs;
mod memory;
#[cfg(test)]
mod merged_tests;
mod messages;
#[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
mod node_notes;
mod packing;
mod shaped_ops;
mod templates;
mod tensors;

use super::Detail;
use super::known_formats::Other;
use super::slices::OpenSlices;
use crate::json::Json;
use crate::rules::signals::Signals;
use crate::trace::{
    CODE_IS_BUILT, Collective, DeviceId, Format, GpuOp, Job, LaunchConfigs, NameId, Names, Ns, OpKind, OpSources,
    ProblemKind, ProcessGroup, ProcessId, Span, ThreadId, Trace, TraceBuilder, is_plausible,
};
use foldhash::fast::RandomState;
use gpuprism_scan::json::{Cursor, Step, Value, unescape};
use gpuprism_scan::split::Sink;
use memchr::memmem::Finder;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use templates::{EventTemplates, Values};

/// The unit of Kineto's times as a power of ten in ns.
const MICROSECONDS: u32 = 3;
/// Limits of engine hints: Python frames looked at, and distinct names stored.
const MAX_FRAMES_FOR_HINTS: u64 = 50_000;
const MAX_HINTS: usize = 4_096;

/// Calls whose name contains one of these are stored: they launch, copy, set, synchronize, allocate, record a graph, load code or
/// initialise the GPU. The most frequent come first, because they are searched in this order.
static STORED_CALLS: LazyLock<[Finder<'static>; 22]> = LazyLock::new(|| STORED_WORDS.map(Finder::new));
const STORED_WORDS: [&str; 22] = [
    "aunch",
    "emcpy",
    "emset",
    "ynchronize",
    "Malloc",
    "Free",
    "BeginCapture",
    "EndCapture",
    "ModuleLoad",
    "LibraryLoad",
    "LoadingMode",
    "Init",
    "CtxCreate",
    "PrimaryCtx",
    "Link",
    "FatBinary",
    "Instantiate",
    "HostAlloc",
    "HostRegister",
    "ontextCreate",
    "CreateContext",
    "ModuleCreate",
];
/// Calls that wait for an event or ask for it.
static EVENT: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("Event"));
static EVENT_CALLS: LazyLock<[Finder<'static>; 2]> = LazyLock::new(|| ["WaitEvent", "EventQuery"].map(Finder::new));

/// What is stored of an API call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CallUse {
    Stored,
    /// It starts no GPU work, so nobody looks for its correlation id, the last member of a long event.
    StoredWithoutId,
    Skipped,
}

impl CallUse {
    fn of(name: &[u8]) -> Self {
        let has_one_of = |words: &[Finder]| words.iter().any(|word| word.find(name).is_some());
        if EVENT.find(name).is_some() && has_one_of(&*EVENT_CALLS) {
            Self::StoredWithoutId
        } else if has_one_of(&*STORED_CALLS) {
            Self::Stored
        } else {
            Self::Skipped
        }
    }
}

/// Builds a trace from events and top-level members.
#[derive(Debug, Default)]
pub(super) struct TorchReader {
    builder: TraceBuilder,
    /// Ids by the raw bytes of the name, so that UTF-8 check and unescaping run once per name.
    names: HashMap<Box<[u8]>, NameId, RandomState>,
    call_names: HashMap<Box<[u8]>, NameId, RandomState>,
    devices: RawIds<DeviceId>,
    /// By the raw pid alone.
    processes: RawIds<u32>,
    sources: OpSources,
    threads: RawIds<ThreadId>,
    file_threads: file_threads::FileThreads,
    device_entries: Vec<device_entries::DeviceEntry>,
    skipped_prefixes: SkippedPrefixes,
    templates: EventTemplates,
    /// Set unless host code is kept whole or not at all.
    packer: Option<packing::CodePacker>,
    code: Option<code::CodeNames>,
    message_ranges: Vec<messages::MessageRange>,
    /// Not in the page's first module, which has no notes.
    #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
    known_notes: node_notes::KnownNotes,
    /// Not in the page's first module either.
    #[cfg(any(not(target_arch = "wasm32"), feature = "full"))]
    known_configs: launch_configs::KnownConfigs,
    memory: Vec<memory::DeviceMemory>,
    gpu_ops_only: bool,
    shapes: shaped_ops::ShapeReader,
    slices: OpenSlices,
    /// The tool that wrote the file, if events say that it is another one.
    foreign: Option<Other>,
    /// Number of list elements that have a `ph`. If there are none, the file is not a trace.
    pub(super) events: u64,
}

/// Devices or threads by the raw bytes of an event's pid and of its `args.device` or tid.
#[derive(Debug, Default)]
struct RawIds<T> {
    ids: HashMap<RawKey, T, RandomState>,
    /// The previous result, because consecutive events often have the same device or thread.
    last: Option<(RawKey, T)>,
}

type RawKey = (Box<[u8]>, Box<[u8]>);

impl<T: Copy> RawIds<T> {
    fn find(&mut self, pid: &[u8], number: &[u8]) -> Option<T> {
        if let Some(((last_pid, last_number), id)) = &self.last
            && (&**last_pid, &**last_number) == (pid, number)
        {
            return Some(*id);
        }
        let key = (pid.into(), number.into());
        let id = *self.ids.get(&key)?;
        self.last = Some((key, id));
        Some(id)
    }

    fn insert(&mut self, pid: &[u8], number: &[u8], id: T) {
        self.ids.insert((pid.into(), number.into()), id);
    }
}

/// Beginning of the names of the profiler's step annotations.
const STEP_PREFIX: &[u8] = b"ProfilerStep#";

/// The class of an event, from its category.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Gpu(OpKind),
    PythonFrame,
    Annotation {
        on_gpu: bool,
    },
    Call,
    CpuOp,
    /// Torch 1.9 and earlier write CPU ops and user annotations with this one category.
    Operator,
    OtherCpu,
    /// A node of a CUDA graph that is no GPU work: a host function or an event.
    GraphNode,
    /// A GPU op of Intel's unitrace.
    ForeignOp,
    /// The time that the profiler recorded.
    Recorded,
    /// Time that the profiler took for itself.
    Overhead,
    Other,
    /// A category that no known profiler uses for work of a GPU or host.
    Unknown,
}

impl Class {
    fn of(category: &[u8]) -> Self {
        match category {
            b"python_function" => Self::PythonFrame,
            b"cpu_op" => Self::CpuOp,
            b"Operator" => Self::Operator,
            b"cuda_runtime" | b"cuda_driver" | b"Runtime" => Self::Call,
            b"kernel" | b"Kernel" => Self::Gpu(OpKind::Kernel),
            b"gpu_memcpy" | b"Memcpy" => Self::Gpu(OpKind::Copy),
            b"gpu_memset" | b"Memset" => Self::Gpu(OpKind::Set),
            b"user_annotation" => Self::Annotation { on_gpu: false },
            b"gpu_user_annotation" => Self::Annotation { on_gpu: true },
            b"ac2g" | b"fwdbwd" | b"async_cpu_to_gpu" | b"async" => Self::Other,
            b"cuda_sync" | b"cuda_event" | b"cuda_profiler_range" | b"external_correlation" => Self::Other,
            b"Trace" => Self::Recorded,
            b"overhead" if CODE_IS_BUILT => Self::Overhead,
            b"cpu_instant_event" | b"overhead" => Self::OtherCpu,
            b"gpu_op" => Self::ForeignOp,
            b"graph_host_node" | b"graph_event_node" => Self::GraphNode,
            other if other.ends_with(b"_runtime") || other.ends_with(b"_driver") => Self::Call,
            other if other.eq_ignore_ascii_case(b"kernel") => Self::Gpu(OpKind::Kernel),
            other if other.eq_ignore_ascii_case(b"memcpy") => Self::Gpu(OpKind::Copy),
            other if other.eq_ignore_ascii_case(b"memset") => Self::Gpu(OpKind::Set),
            b"" => Self::Other,
            _ => Self::Unknown,
        }
    }
}

/// The raw values of the members of an event.
#[derive(Debug, Default)]
struct Fields<'a> {
    phase: Option<&'a [u8]>,
    class: Option<Class>,
    name: Option<&'a [u8]>,
    /// Set for a call after class and name are parsed.
    call: Option<CallUse>,
    pid: Option<&'a [u8]>,
    tid: Option<&'a [u8]>,
    start: Option<&'a [u8]>,
    duration: Option<&'a [u8]>,
    device: Option<&'a [u8]>,
    stream: Option<&'a [u8]>,
    correlation: Option<&'a [u8]>,
    bytes: Option<&'a [u8]>,
    copy: CopyKind<'a>,
    message: Message<'a>,
    memory: memory::MemoryFields<'a>,
    code: code::CodeFields<'a>,
}

/// Optional data to parse.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    /// Names for [`crate::trace::EngineHints`].
    engine_hints: bool,
    /// Data for [`crate::trace::HostCode`].
    code: bool,
    /// Names and times of CPU ops and Python frames.
    packed_code: bool,
    /// Memory that the allocator had handed out.
    memory: bool,
}

/// The direction and memories of a copy, in the `args` of PyTorch's new exporter of CUPTI, which names every copy `Memcpy`.
#[derive(Debug, Default)]
struct CopyKind<'a> {
    direction: Option<&'a [u8]>,
    from: Option<&'a [u8]>,
    to: Option<&'a [u8]>,
}

/// The name of a copy whose direction is only in its `args`.
const COPY_WITHOUT_DIRECTION: &[u8] = b"Memcpy";

impl CopyKind<'_> {
    fn is_complete(&self) -> bool {
        self.direction.is_some() && self.from.is_some() && self.to.is_some()
    }

    /// The name of the copy as Kineto writes it: `Memcpy HtoD (Pinned -> Device)`. `None` if the direction is unknown.
    fn name(&self) -> Option<Vec<u8>> {
        let direction = self.direction?;
        let mut name = [COPY_WITHOUT_DIRECTION, b" ", direction].concat();
        if let (Some(from), Some(to)) = (self.from, self.to) {
            name.extend([b" (", &*capitalized(from), b" -> ", &*capitalized(to), b")"].concat());
        }
        Some(name)
    }
}

fn capitalized(word: &[u8]) -> Vec<u8> {
    let mut word = word.to_owned();
    if let Some(first) = word.first_mut() {
        first.make_ascii_uppercase();
    }
    word
}

/// The message of a collective, in the `args` of an NCCL kernel or of the annotation around its launch.
#[derive(Debug, Default)]
struct Message<'a> {
    input_dims: Option<&'a [u8]>,
    input_types: Option<&'a [u8]>,
    operation: Option<&'a [u8]>,
    elements_in: Option<&'a [u8]>,
    elements_out: Option<&'a [u8]>,
    element: Option<&'a [u8]>,
    ranks: Option<&'a [u8]>,
    group: Option<&'a [u8]>,
    sequence: Option<&'a [u8]>,
}

impl<'a> Fields<'a> {
    /// Parses the members that the event's class needs. Also returns the number of bytes parsed; `None` if it is not JSON.
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
            if fields.class == Some(Class::Operator) && fields.name.is_some_and(|name| name.starts_with(STEP_PREFIX)) {
                fields.class = Some(Class::Annotation { on_gpu: false });
            }
            if fields.class == Some(Class::Call) && fields.call.is_none() {
                fields.call = fields.name.map(CallUse::of);
            }
            if fields.is_complete(wanted) {
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
            b"pid" => self.pid = value.scalar(),
            b"tid" => self.tid = value.scalar(),
            _ => {}
        }
    }

    /// Parses `args` until nothing more is needed. Returns false, and consumes nothing, if they are not an object.
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
            if self.is_complete(Wanted { engine_hints: false, ..wanted }) {
                return Some(true);
            }
        }
    }

    /// Stores the value of a needed key; returns false for other keys.
    fn take_arg(&mut self, key: &[u8], value: Value<'a>) -> bool {
        let slot = match key {
            b"device" => &mut self.device,
            b"stream" => &mut self.stream,
            b"correlation" => &mut self.correlation,
            b"bytes" => &mut self.bytes,
            b"copy kind" => &mut self.copy.direction,
            b"src kind" => &mut self.copy.from,
            b"dst kind" => &mut self.copy.to,
            b"Collective name" => &mut self.message.operation,
            b"In msg nelems" => &mut self.message.elements_in,
            b"Out msg nelems" => &mut self.message.elements_out,
            b"dtype" => &mut self.message.element,
            b"Group size" => &mut self.message.ranks,
            b"Process Group Name" => &mut self.message.group,
            b"Seq" => &mut self.message.sequence,
            b"Device Type" => &mut self.memory.device_type,
            b"Device Id" => &mut self.memory.device,
            b"Total Allocated" => &mut self.memory.allocated,
            b"Input Dims" | b"Input type" if self.is_collective_range() => {
                let Value::Container(list) = value else { return true };
                let slot =
                    if key == b"Input Dims" { &mut self.message.input_dims } else { &mut self.message.input_types };
                *slot = Some(list);
                return true;
            }
            _ => return false,
        };
        *slot = value.scalar();
        true
    }

    /// True for an annotation of torch around the launch of a collective.
    fn is_collective_range(&self) -> bool {
        self.class == Some(Class::Annotation { on_gpu: false }) && self.name.is_some_and(messages::is_collective)
    }

    fn has_message_or_needs_none(&self) -> bool {
        let Message { input_dims, input_types, .. } = self.message;
        input_dims.is_some() && input_types.is_some() || !self.is_collective_range()
    }

    /// Returns true if the event needs no further members. The class matters only for complete events (`ph` is `X`).
    fn is_complete(&self, wanted: Wanted) -> bool {
        let (phase, class) = match (self.phase, self.class) {
            (None, _) | (Some(b"X"), None) => return false,
            (Some(phase), class) => (phase, class.unwrap_or(Class::Other)),
        };
        if phase == b"i" && wanted.memory {
            return self.is_instant_complete();
        }
        if is_asynchronous(phase) {
            return self.class.is_some();
        }
        if phase != b"X" {
            return true;
        }
        if wanted.code && !self.is_code_complete(class) {
            return false;
        }
        match class {
            Class::PythonFrame | Class::CpuOp | Class::Operator if wanted.packed_code => self.is_span_complete(),
            Class::Gpu(kind) => self.is_gpu_op_complete(kind),
            Class::Recorded => self.start.is_some() && self.duration.is_some(),
            Class::Overhead => self.name.is_some() && self.start.is_some() && self.duration.is_some(),
            Class::Annotation { on_gpu: false } => self.is_span_complete() && self.has_message_or_needs_none(),
            Class::Call => match self.call {
                Some(CallUse::Stored) => self.is_span_complete() && self.correlation.is_some(),
                Some(CallUse::StoredWithoutId) => self.is_span_complete(),
                Some(CallUse::Skipped) => true,
                None => false,
            },
            Class::Operator => self.name.is_some(),
            Class::PythonFrame | Class::Annotation { .. } if wanted.engine_hints => self.name.is_some(),
            _ => true,
        }
    }
}

/// The beginnings of skipped events, up to the member that decided it: `{"ph": "X", "cat": "cpu_op"`.
#[derive(Debug, Default)]
struct SkippedPrefixes(Vec<Prefix>);

#[derive(Debug)]
struct Prefix {
    text: Box<[u8]>,
    /// The last bytes of `text`, which differ most between prefixes, for a fast comparison.
    tail: [u8; SkippedPrefixes::TAIL_BYTES],
    class: Class,
}

impl SkippedPrefixes {
    /// Comparing with more prefixes is not worth the time.
    const MAX_PREFIXES: usize = 16;
    /// Longer prefixes contain ids or names, so they do not repeat.
    const MAX_BYTES: usize = 112;
    const TAIL_BYTES: usize = 8;

    #[inline]
    fn class_of(&self, event: &[u8]) -> Option<Class> {
        let matches = |prefix: &&Prefix| {
            let head = event.get(..prefix.text.len());
            head.is_some_and(|head| head.last_chunk() == Some(&prefix.tail) && *head == *prefix.text)
        };
        self.0.iter().find(matches).map(|prefix| prefix.class)
    }

    fn learn(&mut self, prefix: &[u8], class: Class) {
        let fits =
            self.0.len() < Self::MAX_PREFIXES && prefix.len() <= Self::MAX_BYTES && self.class_of(prefix).is_none();
        if let (true, Some(tail)) = (fits, prefix.last_chunk()) {
            self.0.push(Prefix { text: prefix.into(), tail: *tail, class });
        }
    }
}

impl Fields<'_> {
    /// Returns true if all members of a GPU op are parsed. NCCL kernels are parsed to the end, where their message is.
    fn is_gpu_op_complete(&self, kind: OpKind) -> bool {
        let has_times = self.start.is_some() && self.duration.is_some() && self.correlation.is_some();
        let has_stream = self.device.is_some() && self.stream.is_some() && self.pid.is_some();
        let has_details = match (kind, self.name) {
            (_, None) => false,
            (OpKind::Kernel, Some(name)) => !name.starts_with(b"nccl"),
            (OpKind::Copy, Some(COPY_WITHOUT_DIRECTION)) => self.bytes.is_some() && self.copy.is_complete(),
            (OpKind::Copy | OpKind::Set, Some(_)) => self.bytes.is_some(),
        };
        has_times && has_stream && has_details
    }

    /// Returns start and duration; `None` if one is missing or not a number.
    fn times(&self) -> Option<(Ns, Ns)> {
        let time = |text: Option<&[u8]>| Ns::from_decimal(text?, MICROSECONDS);
        Some((time(self.start)?, time(self.duration)?))
    }

    /// Tools that merge the files of ranks multiply ids, beyond 32 bits.
    fn correlation(&self) -> Option<u32> {
        self.correlation.and_then(number::<u64>).map(templates::folded_id)
    }

    fn plausible_times(&self) -> Option<(Ns, Ns)> {
        self.times().filter(|(start, duration)| is_plausible(*start, *duration))
    }

    /// True for an instant of torch's allocator; other instants are only counted.
    fn is_memory_instant(&self) -> bool {
        self.phase == Some(b"i") && self.class == Some(Class::OtherCpu) && self.name == Some(memory::NAME)
    }

    /// Returns true if all members of an instant are parsed. Its category and name follow its phase.
    fn is_instant_complete(&self) -> bool {
        match (self.class, self.name) {
            (None, _) | (Some(Class::OtherCpu), None) => false,
            _ if self.is_memory_instant() => self.memory.is_complete() && self.pid.is_some() && self.start.is_some(),
            _ => true,
        }
    }

    /// The time of an event without a duration.
    fn instant(&self) -> Option<Ns> {
        Ns::from_decimal(self.start?, MICROSECONDS)
    }

    /// Returns true if all members of a call or annotation are parsed, except the correlation id.
    fn is_span_complete(&self) -> bool {
        let times = self.start.is_some() && self.duration.is_some();
        times && self.name.is_some() && self.pid.is_some() && self.tid.is_some()
    }
}

/// Phases of slices that events of several threads describe. Only those of ops are read.
fn is_asynchronous(phase: &[u8]) -> bool {
    matches!(phase, b"b" | b"e" | b"n" | b"S" | b"T" | b"F")
}

/// Whether a call begins to capture a CUDA graph: launches that follow run nothing until the graph is launched.
pub(super) fn begins_capture(name: &[u8]) -> bool {
    memchr::memmem::find(name, b"BeginCapture").is_some()
}

pub(super) fn is_stored_call(name: &[u8]) -> bool {
    CallUse::of(name) != CallUse::Skipped
}

impl Sink for TorchReader {
    fn event(&mut self, text: &[u8], at: u64) {
        if self.read_by_template(text) {
            return;
        }
        if let Some(class) = self.skipped_prefixes.class_of(text) {
            self.events += 1;
            return self.count(class);
        }
        let wants_hints = self.wants_hints();
        let memory = memory::IS_READ && !self.gpu_ops_only;
        let packed_code = self.packer.is_some();
        let wanted = Wanted { engine_hints: wants_hints, code: self.keeps_code(), packed_code, memory };
        let stores_code = wanted.code || wanted.packed_code;
        let Some((fields, read)) = Fields::read(text, wanted) else { return self.unreadable(at) };
        let Some(phase) = fields.phase else {
            if !is_empty_object(text) {
                self.unreadable(at);
            }
            return;
        };
        let is_async_op = matches!(fields.class, Some(Class::Gpu(_))) && matches!(phase, b"b" | b"e" | b"S" | b"F");
        if matches!(phase, b"B" | b"E") || is_async_op {
            return self.slice(text, at);
        }
        let class = if phase == b"X" { fields.class.unwrap_or(Class::Other) } else { Class::Other };
        if let (Class::CpuOp | Class::Operator, Some(name)) = (class, fields.name)
            && !self.shaped_op(text, name)
        {
            return self.unreadable(at);
        }
        self.events += 1;
        let engine_hints = &mut self.builder.trace.engine_hints;
        if let (Class::Annotation { .. }, true) = (class, wants_hints) {
            keep_hint(&mut engine_hints.annotations, fields.name);
        }
        match class {
            Class::ForeignOp => self.foreign = Some(Other::Unitrace),
            Class::Call if fields.name.is_some_and(begins_capture) => self.builder.trace.events.graph_captures += 1,
            _ if phase == b"M" => self.foreign = self.foreign.or_else(|| writer_of_metadata(text)),
            _ => {}
        }
        match class {
            Class::Gpu(kind) => return self.gpu_op(&fields, kind, text, (read, at)),
            Class::Call if matches!(fields.call, Some(CallUse::Stored | CallUse::StoredWithoutId)) => {
                self.span(&fields, class, at);
            }
            Class::Annotation { on_gpu } => {
                if wanted.code {
                    self.annotation(&fields, on_gpu);
                }
                if !on_gpu {
                    self.span(&fields, class, at);
                } else if !wants_hints && !wanted.code {
                    self.skipped_prefixes.learn(text.get(..read).unwrap_or_default(), class);
                }
            }
            Class::PythonFrame | Class::CpuOp if stores_code => {
                self.templates.learn(text, &fields, class);
                return self.code_event(&fields);
            }
            // Neither a template nor the prefix table gets such an event, because step annotations begin in the same way.
            Class::Operator if stores_code => return self.code_event(&fields),
            Class::Operator => {}
            Class::Recorded => {
                if let Some((start, duration)) = fields.plausible_times() {
                    self.builder.add_recorded(start, start.after(duration));
                }
            }
            Class::Overhead => self.overhead(&fields),
            Class::PythonFrame if wants_hints => keep_hint(&mut engine_hints.python_frames, fields.name),
            _ if wanted.memory && fields.is_memory_instant() => self.memory_sample(&fields),
            // Metadata: one event per process or thread, at the start of merged files, would fill the prefix table.
            _ if phase == b"M" => {}
            _ => self.skipped_prefixes.learn(text.get(..read).unwrap_or_default(), class),
        }
        self.count(class);
    }

    fn member(&mut self, key: &[u8], value: &[u8]) {
        match key {
            b"deviceProperties" => match device_entries::read(value) {
                Some(entries) => self.device_entries = entries,
                None => self.problem(ProblemKind::UnreadableMember, 1, 0),
            },
            b"distributedInfo" => match job(value) {
                Some(job) => self.builder.trace.job = job.map(Box::new),
                None => self.problem(ProblemKind::UnreadableMember, 1, 0),
            },
            _ => {}
        }
    }

    fn unreadable(&mut self, at: u64) {
        self.builder.trace.problems.add(ProblemKind::UnreadableEvent, 1, at);
    }

    fn too_large(&mut self, at: u64) {
        self.builder.trace.problems.add(ProblemKind::EventTooLarge, 1, at);
    }
}

/// Parses `distributedInfo`: a job only if it has a rank; `None` if the text is not JSON.
fn job(text: &[u8]) -> Option<Option<Job>> {
    let info = Json::parse(std::str::from_utf8(text).ok()?).ok()?;
    let number = |json: Json| if let Json::Int(number) = json { u32::try_from(number).ok() } else { None };
    let word = |json: Option<Json>| json.and_then(Json::text).unwrap_or_default().into_owned();
    let group = |group: Json| ProcessGroup {
        name: word(group.get_path(&["pg_name"])),
        ranks: group.get_path(&["ranks"]).into_iter().flat_map(Json::elements).filter_map(number).collect(),
    };
    let count = |key: &str| info.get_path(&[key]).and_then(number);
    Some(count("rank").zip(count("world_size")).map(|(rank, world_size)| Job {
        rank,
        world_size,
        backend: word(info.get_path(&["backend"])),
        groups: info.get_path(&["pg_config"]).into_iter().flat_map(Json::elements).map(group).collect(),
    }))
}

/// The other tool that writes such names of processes.
fn writer_of_metadata(event: &[u8]) -> Option<Other> {
    const NAMES: &[(Other, &[&[u8]])] =
        &[(Other::XlaTrace, &[b"\"/host:", b"\"/device:"]), (Other::Unitrace, &[b"\"HOST<", b" HOST<", b"\"DEVICE<"])];
    let has = |word: &&[u8]| memchr::memmem::find(event, word).is_some();
    let named = NAMES.iter().filter(|_| has(&&b"process_name"[..])).find(|(_, words)| words.iter().any(has));
    named.map(|(tool, _)| *tool)
}

/// Some writers end or begin the list with an empty object, to write a comma at each event.
pub(super) fn is_empty_object(text: &[u8]) -> bool {
    text.iter().all(|byte| matches!(byte, b'{' | b'}') || byte.is_ascii_whitespace())
}

fn keep_hint(kept: &mut Names, name: Option<&[u8]>) {
    if let (Some(name), true) = (name, kept.len() < MAX_HINTS) {
        kept.intern(&unescape(name));
    }
}

#[cfg(all(target_arch = "wasm32", not(feature = "full")))]
impl TorchReader {
    /// The page's first module has no notes.
    fn note_of_last_op(&mut self, _: &[u8]) {}

    /// It has no configurations.
    fn launch_config_of_last_op(&mut self, _: &[u8], _: usize, _: NameId) {}
}

impl TorchReader {
    pub(super) fn new(label: &str, detail: Detail) -> Self {
        let mut builder = TraceBuilder::new(label, Format::TorchProfiler);
        let code = (detail == Detail::Code && CODE_IS_BUILT).then(code::CodeNames::default);
        if code.is_some() {
            builder.keep_code();
        }
        let packer = match detail {
            Detail::Host if CODE_IS_BUILT => Some(packing::CodePacker::default()),
            Detail::Calls if CODE_IS_BUILT => Some(packing::CodePacker::without_events()),
            _ => None,
        };
        let templates = EventTemplates::new(if code.is_some() { Values::WithIds } else { Values::NameAndTime });
        Self { builder, templates, packer, code, gpu_ops_only: detail == Detail::GpuOps, ..Self::default() }
    }

    /// The other tool that wrote the file; `None` for a trace of torch.profiler, which may contain events of other
    /// tools.
    pub(super) fn foreign(&self) -> Option<Other> {
        let trace = &self.builder.trace;
        self.foreign.filter(|_| trace.gpu_ops.is_empty() && trace.calls.is_empty() && trace.ranges.is_empty())
    }

    /// Returns the number of GPU ops read so far.
    pub(super) fn gpu_ops(&self) -> usize {
        self.builder.trace.gpu_ops.len()
    }

    pub(super) fn problem(&mut self, kind: ProblemKind, count: u64, at: u64) {
        self.builder.trace.problems.add(kind, count, at);
    }

    pub(super) fn finish(mut self) -> Trace {
        self.end_slices();
        if let Some((count, at)) = self.slices.left() {
            self.problem(ProblemKind::UnpairedSlice, count, at);
        }
        self.builder.assign_sources(&self.sources);
        device_entries::name_devices(&mut self.builder.trace.devices, &self.device_entries);
        let threads = self.file_threads.resolve(&mut self.threads);
        self.builder.trace.shaped_ops = Arc::new(std::mem::take(&mut self.shapes).finish(&threads));
        self.builder.trace.packed_code = self.packer.take().and_then(|packer| packer.finish(threads));
        self.add_memory();
        let mut trace = self.builder.finish();
        if !self.message_ranges.is_empty() {
            messages::join(&mut trace, self.message_ranges);
        }
        trace
    }

    /// Takes a beginning or an end of a slice.
    fn slice(&mut self, text: &[u8], at: u64) {
        if !self.slices.take(text, at) {
            return self.unreadable(at);
        }
        self.events += 1;
        self.take_whole_slices();
    }

    fn take_whole_slices(&mut self) {
        while let Some((whole, at)) = self.slices.next_whole() {
            self.event(&whole, at);
        }
    }

    /// Takes the slices that wait for the end of the file.
    pub(super) fn end_slices(&mut self) {
        self.slices.end();
        self.take_whole_slices();
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
            Class::Call
            | Class::CpuOp
            | Class::Operator
            | Class::OtherCpu
            | Class::Overhead
            | Class::Annotation { on_gpu: false } => events.cpu += 1,
            Class::GraphNode => {
                events.other += 1;
                self.builder.trace.problems.add(ProblemKind::GraphNode, 1, 0);
            }
            Class::Unknown => {
                events.other += 1;
                self.builder.trace.problems.add(ProblemKind::UnknownCategory, 1, 0);
            }
            Class::Gpu(_) | Class::Annotation { on_gpu: true } | Class::ForeignOp | Class::Recorded | Class::Other => {
                events.other += 1
            }
        }
    }

    /// `read` is the number of bytes of the event that were parsed.
    fn gpu_op(&mut self, fields: &Fields<'_>, kind: OpKind, event: &[u8], (read, at): (usize, u64)) {
        let Some((start, duration)) = fields.times() else {
            return self.problem(ProblemKind::OpWithoutTime, 1, at);
        };
        if !is_plausible(start, duration) {
            return self.problem(ProblemKind::ImpossibleDuration, 1, at);
        }
        let raw = fields.name.unwrap_or_default();
        let with_direction = if raw == COPY_WITHOUT_DIRECTION { fields.copy.name() } else { None };
        let raw = with_direction.as_deref().unwrap_or(raw);
        let name = intern_raw(&mut self.names, &mut self.builder.trace.names, raw);
        let (device, process) = (self.device(fields), ProcessId::default());
        let stream = fields.stream.or(fields.tid).and_then(stream_number).unwrap_or(-1);
        let op = GpuOp { start, duration, name, device, stream, process, kind };
        self.builder.trace.gpu_ops.push(op, fields.correlation());
        if self.keeps_code() {
            self.builder.set_external_id_of_last_op(fields.code.id());
        }
        if let Some(bytes) = fields.bytes.and_then(number).filter(|_| kind != OpKind::Kernel) {
            self.builder.set_bytes_of_last_op(bytes);
        }
        if let Some(collective) = fields.message.collective() {
            self.builder.set_collective_of_last_op(collective);
        }
        if LaunchConfigs::ARE_READ && kind == OpKind::Kernel {
            self.launch_config_of_last_op(event, read, name);
        }
        self.note_of_last_op(event);
    }

    /// Adds a call or annotation. One without usable times is only counted.
    fn span(&mut self, fields: &Fields<'_>, class: Class, at: u64) {
        let Some((start, duration)) = fields.plausible_times() else { return };
        if self.gpu_ops_only {
            return self.problem(ProblemKind::LeftOut, 1, at);
        }
        let (thread, name) = (self.thread_of(fields), fields.name.unwrap_or_default());
        if let Some(thread) = self.builder.trace.threads.get(thread.0 as usize) {
            self.sources.host_event(thread.process, self.builder.trace.gpu_ops.len());
        }
        if class != Class::Call {
            let name = self.builder.trace.ranges.names.intern(&unescape(name));
            let span = Span { start, duration, name, thread };
            if let (Some(dims), Some(types)) = (fields.message.input_dims, fields.message.input_types)
                && let Some(bytes) = messages::bytes_of(dims, types)
            {
                self.message_ranges.push(messages::MessageRange { span, bytes });
            }
            return self.builder.trace.ranges.push(span);
        }
        let name = intern_raw(&mut self.call_names, &mut self.builder.trace.calls.names, name);
        self.builder.add_call(Span { start, duration, name, thread }, fields.correlation());
        if self.keeps_code() {
            self.code_of_call(fields);
        }
    }

    /// Adds time that the profiler took for itself. Which thread it held is found when the file is read.
    fn overhead(&mut self, fields: &Fields<'_>) {
        if let (Some(name), Some((start, duration))) = (fields.name, fields.plausible_times())
            && Signals::embedded().holds_thread(&unescape(name))
        {
            self.builder.trace.profiler_overheads.push((start, start.after(duration)));
        }
    }

    /// Returns the number of the GPU of an op among [`OpSources`], adding it if it is new.
    fn device(&mut self, fields: &Fields<'_>) -> DeviceId {
        let (pid, number) = (fields.pid.unwrap_or_default(), fields.device.unwrap_or_default());
        if let Some(found) = self.devices.find(pid, number) {
            return found;
        }
        let text = unescape(pid);
        let added = self.sources.add(rank_label(&text), &text, device_id(fields), self.gpu_ops());
        self.devices.insert(pid, number, added);
        added
    }

    fn thread_of(&mut self, fields: &Fields<'_>) -> ThreadId {
        self.thread(fields.pid.unwrap_or_default(), fields.tid.unwrap_or_default())
    }

    /// Returns a thread, adding it if it is new.
    fn thread(&mut self, pid: &[u8], tid: &[u8]) -> ThreadId {
        if let Some(found) = self.threads.find(pid, tid) {
            return found;
        }
        let process = self.process(pid);
        let added = self.builder.thread(process, last_number(tid).unwrap_or(-1));
        self.threads.insert(pid, tid, added);
        added
    }

    fn process(&mut self, pid: &[u8]) -> ProcessId {
        if let Some(found) = self.processes.find(pid, b"") {
            return ProcessId(found);
        }
        let text = unescape(pid);
        let (rank, number) = (rank_label(&text), last_number(text.as_bytes()));
        let added = self.sources.add_process(&mut self.builder, rank, number, &text);
        self.processes.insert(pid, b"", added.0);
        added
    }
}

/// Interns a raw name. A name in `known` is neither checked nor unescaped again.
fn intern_raw(known: &mut HashMap<Box<[u8]>, NameId, RandomState>, names: &mut Names, raw: &[u8]) -> NameId {
    if let Some(&id) = known.get(raw) {
        return id;
    }
    let id = names.intern(&unescape(raw));
    known.insert(raw.into(), id);
    id
}

impl Message<'_> {
    /// Converts torch's element counts to bytes, if the size of the element type is known.
    fn collective(&self) -> Option<Collective> {
        let text = |raw: Option<&[u8]>| raw.map(|raw| unescape(raw).into_owned()).unwrap_or_default();
        let element = text(self.element);
        let bytes = |elements: Option<&[u8]>| number::<u64>(elements?)?.checked_mul(element_bytes(&element)?);
        Some(Collective {
            operation: text(Some(self.operation?)),
            bytes_in: bytes(self.elements_in),
            bytes_out: bytes(self.elements_out),
            ranks: self.ranks.and_then(number),
            communicator: text(self.group),
            sequence: self.sequence.and_then(number),
            algorithm: String::new(),
            element,
        })
    }
}

/// Returns the size of a torch element type by its name in Kineto.
fn element_bytes(element: &str) -> Option<u64> {
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

/// Returns the last number of a text: `783658`, `thread 783658 (python)`, `[TP00] 3`.
fn last_number(text: &[u8]) -> Option<i64> {
    let end = text.iter().rposition(u8::is_ascii_digit)? + 1;
    let digits = text.get(..end)?.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    number(text.get(end - digits..end)?)
}

/// Returns `[TP00]` of the pid `[TP00] 3`, the label of a rank in a file of merged ranks; otherwise an empty text.
fn rank_label(pid: &str) -> &str {
    match pid.find(']') {
        Some(end) if pid.starts_with('[') => pid.get(..=end).unwrap_or_default(),
        _ => "",
    }
}

/// Returns `args.device`, or the pid if there is none, with the label of the rank.
fn device_id(fields: &Fields<'_>) -> String {
    let pid = unescape(fields.pid.unwrap_or_default());
    let Some(number) = fields.device else { return pid.into_owned() };
    let number = unescape(number);
    match pid.split_once(']') {
        Some((rank, _)) if rank.starts_with('[') => format!("{rank}] {number}"),
        _ => number.into_owned(),
    }
}

/// Parses `7`, or `stream 7` of torch 1.x.
fn stream_number(text: &[u8]) -> Option<i64> {
    number(text.strip_prefix(b"stream ").unwrap_or(text))
}
