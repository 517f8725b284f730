//! The rows of the trace, from slices and render stages.
//!
//! | writer | ops | device and stream |
//! |---|---|---|
//! | rocprofv3 (Perfetto SDK) | categories `kernel_dispatch`, `memory_copy` | annotations `agent`, `stream_ID` or `queue` |
//! | PyTorch's CUPTI monitor | render stages `Kernel`, `Memcpy`, `Memset` | `gpu_id`, extra data `stream id` |
//! | unitrace | category `gpu_op` | the track's process `DEVICE<host>29:0:0 #0`, its thread `... L0 Engine<0,0>` |
//! | Proton | category `kernel` on a track `GPU Stream 7`, but for its own kernel `<metric>` | no device |

use super::machines::Machines;
use super::sequences::{List, Sequence};
use super::slices::{Notes, Slice, Track, last_number};
use super::vocabulary::Category;
use crate::input::Detail;
use crate::input::machines::on_machine;
use crate::input::protobuf::{Damaged, Message};
use crate::input::rocm::{copy_name, kernel_name};
use crate::input::torch::is_stored_call;
use crate::input::unitrace::{self, OpName};
use crate::trace::{
    CodeKind, DeviceId, Format, GpuOp, LaunchConfig, LaunchConfigs, NameId, Names, NodeNote, Ns, OpKind, PackedCode,
    ProblemKind, ProcessId, Span, ThreadId, Trace, TraceBuilder, is_plausible,
};
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};

type Read<T> = std::result::Result<T, Damaged>;

/// Chains of parents are short; a longer one may be a circle.
const MAX_PARENTS: usize = 8;

/// The trace while packets are read.
#[derive(Debug)]
pub(super) struct Rows {
    builder: TraceBuilder,
    detail: Detail,
    /// Who wrote the file, once an event tells.
    writer: Option<Format>,
    /// Texts of the file: names, categories, annotations.
    pub(super) texts: Names,
    tracks: HashMap<u64, Track, RandomState>,
    /// Where the rows of a track go, for tracks with rows.
    places: HashMap<u64, (u64, Place), RandomState>,
    /// How often a descriptor changed a track. Places of before hold no more: the parents of a track tell its place, too.
    changes: u64,
    /// Slices whose track is not described yet.
    waiting: Vec<Slice>,
    /// Ids of names in the tables of the trace, by kind of table and text.
    op_names: HashMap<(OpKind, NameId), NameId, RandomState>,
    call_names: HashMap<NameId, NameId, RandomState>,
    range_names: HashMap<NameId, NameId, RandomState>,
    /// Notes by call stack of Proton.
    stacks: HashMap<NameId, Option<u32>, RandomState>,
    /// The machine of the rows that are read.
    pub(super) machines: Machines,
    /// Devices by the place of their machine and the number of the GPU.
    devices: BTreeMap<(usize, u64), DeviceId>,
    /// Those of unitrace, whose names say their machine.
    engine_devices: unitrace::Devices,
    /// Streams of unitrace by the name of their engine or queue.
    engines: Names,
    /// Pids of the processes of unitrace by their rank.
    pid_of_rank: BTreeMap<String, i64>,
    code: PackedCode,
}

/// The track of a slice, resolved.
#[derive(Debug, Clone, Copy)]
struct Place {
    process: ProcessId,
    thread: ThreadId,
    lane: Lane,
}

/// What a track shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// A thread of the host.
    Host,
    /// A thread of the host, by unitrace.
    UnitraceHost,
    /// Ops of rocprofv3 or Proton; the stream is in the name of Proton's.
    Stream(i64),
    /// Ops of unitrace.
    Engine { device: DeviceId, stream: i64 },
    /// Scopes that Proton derived from the kernels.
    Derived,
}

impl Rows {
    pub(super) fn new(label: &str, detail: Detail) -> Self {
        Self {
            builder: TraceBuilder::new(label, Format::RocprofPerfetto),
            detail,
            writer: None,
            texts: Names::default(),
            tracks: HashMap::default(),
            places: HashMap::default(),
            changes: 0,
            waiting: Vec::new(),
            op_names: HashMap::default(),
            call_names: HashMap::default(),
            range_names: HashMap::default(),
            stacks: HashMap::default(),
            machines: Machines::default(),
            devices: BTreeMap::new(),
            engine_devices: unitrace::Devices::default(),
            engines: Names::default(),
            pid_of_rank: BTreeMap::new(),
            code: if detail == Detail::Host { PackedCode::default() } else { PackedCode::too_long() },
        }
    }

    pub(super) fn gpu_ops(&self) -> usize {
        self.builder.trace.gpu_ops.len()
    }

    pub(super) fn problem(&mut self, kind: ProblemKind, count: u64, at: u64) {
        self.builder.trace.problems.add(kind, count, at);
    }

    pub(super) fn count_other(&mut self) {
        self.builder.trace.events.other += 1;
    }

    /// Counts an event of a GPU whose track or stage is not known.
    fn unknown(&mut self, at: u64) {
        self.count_other();
        self.problem(ProblemKind::UnknownCategory, 1, at);
    }

    /// Whether this description of a track names another process than the one before.
    pub(super) fn has_other_process(&self, id: u64, track: &Track) -> bool {
        let known = self.tracks.get(&id).and_then(|known| known.pid);
        known.zip(track.pid).is_some_and(|(known, pid)| known != pid)
    }

    /// Begins the rows of a machine. Its tracks are others, although they may have the ids of those before.
    pub(super) fn begin_machine(&mut self, place: usize) {
        self.machines.begin(place);
        self.tracks.clear();
        self.places.clear();
        self.pid_of_rank.clear();
    }

    pub(super) fn track(&mut self, id: u64, track: Track) {
        if let (true, Some(pid)) = (unitrace::is_host(&track.name), track.pid) {
            self.pid_of_rank.insert(unitrace::rank(&track.name).unwrap_or_default().to_owned(), pid);
        }
        // A later descriptor may say less.
        let known = self.tracks.entry(id).or_default();
        let merged = Track {
            parent: track.parent.or(known.parent),
            pid: track.pid.or(known.pid),
            tid: track.tid.or(known.tid),
            name: if track.name.is_empty() { known.name.clone() } else { track.name },
        };
        if *known != merged {
            *known = merged;
            self.changes += 1;
        }
    }

    /// Takes the slices whose tracks were not described before.
    pub(super) fn take_waiting(&mut self) {
        for slice in std::mem::take(&mut self.waiting) {
            self.row(&slice);
        }
    }

    fn process(&mut self, pid: i64) -> ProcessId {
        match self.machines.current() {
            0 => self.builder.process(pid, ""),
            place => self.builder.process(pid, &on_machine(place, "")),
        }
    }

    /// Takes a whole slice.
    pub(super) fn slice(&mut self, slice: Slice) {
        if self.known_place(slice.track).is_some() || self.is_described(slice.track) {
            self.row(&slice);
        } else {
            self.waiting.push(slice);
        }
    }

    fn is_described(&self, track: u64) -> bool {
        let Some(track) = self.tracks.get(&track) else { return false };
        track.parent.is_none_or(|parent| self.tracks.contains_key(&parent))
    }

    /// The place of a track with rows, unless a descriptor changed a track since. Most slices have one.
    fn known_place(&self, track: u64) -> Option<Place> {
        self.places.get(&track).filter(|(changes, _)| *changes == self.changes).map(|(_, place)| *place)
    }

    fn place(&mut self, track: u64) -> Place {
        if let Some(known) = self.known_place(track) {
            return known;
        }
        let none = Track::default();
        let own = self.tracks.get(&track).unwrap_or(&none);
        let (mut root, mut pid) = (own, own.pid);
        for _ in 0..MAX_PARENTS {
            let Some(parent) = root.parent.and_then(|parent| self.tracks.get(&parent)) else { break };
            pid = pid.or(parent.pid);
            root = parent;
        }
        let (own, root) = (own.clone(), root.clone());
        let lane = self.lane(&own, &root);
        // unitrace gives a device a pid that no process has: its ops are those of the process of its rank.
        let process = match lane {
            Lane::Engine { .. } => {
                let rank = unitrace::rank(&root.name).unwrap_or_default();
                let pid = self.pid_of_rank.get(rank).or_else(|| self.pid_of_rank.values().next()).copied();
                pid.map_or_else(ProcessId::default, |pid| self.process(pid))
            }
            _ => self.process(pid.unwrap_or(-1)),
        };
        let thread = if matches!(lane, Lane::Host | Lane::UnitraceHost) {
            let tid = own.tid.or_else(|| last_number(own.name.as_bytes()).and_then(|tid| i64::try_from(tid).ok()));
            self.builder.thread(process, tid.unwrap_or(-1))
        } else {
            ThreadId::default()
        };
        let place = Place { process, thread, lane };
        self.places.insert(track, (self.changes, place));
        place
    }

    /// What a track of these names shows. The host's name is in the name of unitrace's processes, and private.
    fn lane(&mut self, own: &Track, root: &Track) -> Lane {
        if let Some(device) = self.engine_devices.device(&mut self.builder, &root.name) {
            let stream = i64::from(self.engines.intern(unitrace::engine(&own.name)).0);
            return Lane::Engine { device, stream };
        }
        if unitrace::is_host(&root.name) {
            return Lane::UnitraceHost;
        }
        if own.name.starts_with("Graph:") {
            return Lane::Derived;
        }
        match own.name.strip_prefix("GPU Stream") {
            Some(stream) => Lane::Stream(stream.trim().parse().unwrap_or(-1)),
            None if ["STREAM", "COMPUTE", "COPY"].iter().any(|start| own.name.starts_with(start)) => Lane::Stream(-1),
            None => Lane::Host,
        }
    }

    fn row(&mut self, slice: &Slice) {
        let writer = match slice.category {
            Category::Dispatch | Category::Copy | Category::HipCall | Category::InnerCall | Category::Marker => {
                Some(Format::RocprofPerfetto)
            }
            Category::GpuOp => Some(Format::UnitracePerfetto),
            Category::CudaCall | Category::Annotation | Category::Python => Some(Format::TorchPerfetto),
            Category::Kernel | Category::Scope => Some(Format::ProtonPerfetto),
            Category::CpuOp | Category::Other => None,
        };
        self.writer = self.writer.or(writer);
        match slice.category {
            Category::Dispatch => self.dispatch(slice),
            Category::Copy => self.copy(slice),
            Category::GpuOp => self.unitrace_op(slice),
            Category::Kernel => self.proton_kernel(slice),
            Category::Other => self.count_other(),
            _ => self.host(slice),
        }
    }

    fn times(&mut self, slice: &Slice, kind: ProblemKind) -> Option<(Ns, Ns)> {
        let duration = slice.end.checked_sub(slice.start).map(Ns);
        let times = duration.map(|duration| (Ns(slice.start), duration));
        let times = times.filter(|(start, duration)| is_plausible(*start, *duration));
        if times.is_none() {
            self.problem(kind, 1, slice.at);
        }
        times
    }

    /// The name of an op in the trace; `change` makes it that of other profilers.
    fn op_name(&mut self, kind: OpKind, name: Option<NameId>, at: u64, change: &dyn Fn(&str) -> String) -> NameId {
        let Some(name) = name else {
            self.problem(ProblemKind::MissingName, 1, at);
            return self.builder.trace.names.intern("(a name is missing)");
        };
        if let Some(known) = self.op_names.get(&(kind, name)) {
            return *known;
        }
        let id = self.builder.trace.names.intern(&change(self.texts.get(name)));
        self.op_names.insert((kind, name), id);
        id
    }

    fn device(&mut self, number: u64) -> DeviceId {
        let (builder, place) = (&mut self.builder, self.machines.current());
        *self.devices.entry((place, number)).or_insert_with(|| match place {
            0 => builder.device(&number.to_string(), ""),
            place => builder.device(&on_machine(place, &number.to_string()), ""),
        })
    }

    /// Says where the devices and processes of the first machine are, if there are several machines.
    fn name_first_machine(&mut self) {
        if self.machines.count() == 1 {
            return;
        }
        let trace = &mut self.builder.trace;
        for ((place, _), device) in &self.devices {
            let device = trace.devices.get_mut(device.0 as usize).filter(|_| *place == 0);
            device.into_iter().for_each(|device| device.id = on_machine(0, &device.id));
        }
        let first = trace.processes.iter_mut().filter(|process| process.name.is_empty());
        first.for_each(|process| process.name = on_machine(0, ""));
    }

    fn dispatch(&mut self, slice: &Slice) {
        let Some((start, duration)) = self.times(slice, ProblemKind::ImpossibleDuration) else { return };
        let Notes { agent, stream, queue, correlation, .. } = slice.notes;
        let op = GpuOp {
            start,
            duration,
            name: self.op_name(OpKind::Kernel, slice.name, slice.at, &|name| kernel_name(name).to_owned()),
            device: self.device(agent.unwrap_or_default()),
            stream: stream.or(queue).unwrap_or(-1),
            process: self.place(slice.track).process,
            kind: OpKind::Kernel,
        };
        self.builder.trace.gpu_ops.push(op, id(correlation));
    }

    fn copy(&mut self, slice: &Slice) {
        let Some((start, duration)) = self.times(slice, ProblemKind::ImpossibleDuration) else { return };
        let Notes { source, target, stream, correlation, bytes, .. } = slice.notes;
        let is_to_host = slice.name.is_some_and(|name| self.texts.get(name).contains("DEVICE_TO_HOST"));
        let agent = if is_to_host { source.or(target) } else { target.or(source) };
        let op = GpuOp {
            start,
            duration,
            name: self.op_name(OpKind::Copy, slice.name, slice.at, &copy_name),
            device: self.device(agent.unwrap_or_default()),
            stream: stream.unwrap_or(-1),
            process: self.place(slice.track).process,
            kind: OpKind::Copy,
        };
        self.builder.trace.gpu_ops.push(op, id(correlation));
        bytes.into_iter().for_each(|bytes| self.builder.set_bytes_of_last_op(bytes));
    }

    fn unitrace_op(&mut self, slice: &Slice) {
        let Some((start, duration)) = self.times(slice, ProblemKind::ImpossibleDuration) else { return };
        let Place { lane: Lane::Engine { device, stream }, process, .. } = self.place(slice.track) else {
            return self.unknown(slice.at);
        };
        let text = slice.name.map(|name| self.texts.get(name).to_owned()).unwrap_or_default();
        let OpName { kind, bytes, .. } = OpName::read(&text);
        let op = GpuOp {
            start,
            duration,
            name: self.op_name(kind, slice.name, slice.at, &|name| OpName::read(name).name.to_owned()),
            device,
            stream,
            process,
            kind,
        };
        self.builder.trace.gpu_ops.push(op, id(slice.flow));
        bytes.into_iter().for_each(|bytes| self.builder.set_bytes_of_last_op(bytes));
    }

    fn proton_kernel(&mut self, slice: &Slice) {
        let place = self.place(slice.track);
        let is_own = slice.name.is_some_and(|name| self.texts.get(name) == "<metric>");
        if is_own || place.lane == Lane::Derived {
            return self.count_other();
        }
        let Lane::Stream(stream) = place.lane else { return self.unknown(slice.at) };
        let Some((start, duration)) = self.times(slice, ProblemKind::ImpossibleDuration) else { return };
        let op = GpuOp {
            start,
            duration,
            name: self.op_name(OpKind::Kernel, slice.name, slice.at, &str::to_owned),
            device: self.device(0),
            stream,
            process: place.process,
            kind: OpKind::Kernel,
        };
        self.builder.trace.gpu_ops.push(op, None);
        let note = slice.notes.call_stack.and_then(|stack| self.note(stack));
        note.into_iter().for_each(|note| self.builder.set_note_of_last_op(note));
    }

    fn note(&mut self, stack: NameId) -> Option<u32> {
        let (texts, notes) = (&self.texts, &mut self.builder.trace.node_notes);
        *self.stacks.entry(stack).or_insert_with(|| {
            let annotation = scopes(texts.get(stack))?;
            Some(notes.add_note(NodeNote { annotation, ..NodeNote::default() }))
        })
    }

    fn host(&mut self, slice: &Slice) {
        self.builder.trace.events.cpu += 1;
        self.builder.trace.events.python_frames += u64::from(slice.category == Category::Python);
        let Some((start, duration)) = self.times(slice, ProblemKind::HostRowWithoutTime) else { return };
        if self.detail == Detail::GpuOps {
            return self.problem(ProblemKind::LeftOut, 1, slice.at);
        }
        let Some(name) = slice.name else { return };
        let place = self.place(slice.track);
        let thread = place.thread;
        match slice.category {
            Category::HipCall | Category::CudaCall if is_stored_call(self.texts.get(name).as_bytes()) => {
                self.call(name, (thread, id(slice.notes.correlation)), (start, duration));
            }
            Category::CpuOp if place.lane == Lane::UnitraceHost => {
                self.call(name, (thread, id(slice.flow)), (start, duration))
            }
            Category::Marker | Category::Annotation | Category::Scope if place.lane == Lane::Host => {
                let (texts, trace) = (&self.texts, &mut self.builder.trace);
                let name = *self.range_names.entry(name).or_insert_with(|| {
                    trace.engine_hints.annotations.intern(texts.get(name));
                    trace.ranges.names.intern(texts.get(name))
                });
                trace.ranges.push(Span { start, duration, name, thread });
            }
            Category::CpuOp => {
                let name = self.code.ops.intern(self.texts.get(name));
                self.code.push(CodeKind::Op, name, thread.0, start, duration);
            }
            Category::Python => {
                let name = self.code.functions.intern(self.texts.get(name));
                self.code.push(CodeKind::Function, name, thread.0, start, duration);
            }
            _ => {}
        }
    }

    fn call(&mut self, name: NameId, (thread, correlation): (ThreadId, Option<u32>), (start, duration): (Ns, Ns)) {
        let (texts, trace) = (&self.texts, &mut self.builder.trace);
        let name = *self.call_names.entry(name).or_insert_with(|| trace.calls.names.intern(texts.get(name)));
        self.builder.add_call(Span { start, duration, name, thread }, correlation);
    }

    /// Takes an op of PyTorch's CUPTI monitor.
    pub(super) fn render_stage(
        &mut self,
        message: Message<'_>,
        sequence: &Sequence,
        (time, at): (i64, u64),
    ) -> Read<()> {
        let stage = Stage::read(message, sequence)?;
        let stage_name = stage.stage.map(|stage| self.texts.get(stage)).unwrap_or_default();
        let kind = match stage_name {
            "Annotation" | "EventRecord" | "HostNode" => {
                self.count_other();
                return Ok(());
            }
            "Kernel" => OpKind::Kernel,
            "Memcpy" => OpKind::Copy,
            "Memset" => OpKind::Set,
            _ => {
                self.unknown(at);
                return Ok(());
            }
        };
        self.writer = self.writer.or(Some(Format::TorchPerfetto));
        let slice = Slice {
            start: time,
            end: time.wrapping_add(stage.duration),
            track: 0,
            category: Category::Kernel,
            name: stage.kernel.or(stage.event).or(stage.stage),
            notes: Notes::default(),
            flow: None,
            at,
        };
        let Some((start, duration)) = self.times(&slice, ProblemKind::ImpossibleDuration) else { return Ok(()) };
        let name = match stage.name {
            Some(name) if slice.name == stage.stage => Some(self.texts.intern(&name.text())),
            _ => slice.name,
        };
        let op = GpuOp {
            start,
            duration,
            name: self.op_name(kind, name, at, &str::to_owned),
            device: self.device(stage.gpu),
            stream: stage.stream.unwrap_or(-1),
            process: self.process(stage.pid.unwrap_or(-1)),
            kind,
        };
        self.builder.trace.gpu_ops.push(op, id(stage.correlation));
        stage.bytes.into_iter().for_each(|bytes| self.builder.set_bytes_of_last_op(bytes));
        if let Some(launch) = stage.launch.filter(|_| LaunchConfigs::ARE_READ)
            && let Some(config) = launch_config(launch, sequence, &self.texts)?
        {
            self.builder.set_launch_config_of_last_op(config);
        }
        Ok(())
    }

    /// The trace; `None` if no event is of a profiler of GPUs.
    pub(super) fn finish(mut self) -> Option<Trace> {
        self.take_waiting();
        self.builder.trace.format = self.writer?;
        let shortened = self.texts.shortened();
        if shortened > 0 {
            self.problem(ProblemKind::LongName, shortened, 0);
        }
        if self.builder.trace.processes.is_empty() {
            self.builder.process(-1, "");
        }
        self.name_first_machine();
        self.engine_devices.name(&mut self.builder);
        if self.detail == Detail::Host {
            self.builder.set_packed_code(self.code);
        }
        Some(self.builder.finish())
    }
}

/// Ids of correlations have 32 bits in the trace, and zero is none.
fn id(number: Option<u64>) -> Option<u32> {
    number.and_then(|number| u32::try_from(number).ok()).filter(|number| *number != 0)
}

/// The scopes in a call stack of Proton, `ROOT->decode-><captured_at>->layer0->matmul`, outermost first, with slashes.
fn scopes(stack: &str) -> Option<String> {
    let (outer, _) = stack.rsplit_once("->")?;
    let is_scope = |name: &&str| *name != "ROOT" && !(name.starts_with('<') && name.ends_with('>'));
    let scopes: Vec<&str> = outer.split("->").filter(is_scope).collect();
    (!scopes.is_empty()).then(|| scopes.join("/"))
}

/// The fields of a render stage.
#[derive(Debug, Default)]
struct Stage<'a> {
    duration: i64,
    gpu: u64,
    stage: Option<NameId>,
    kernel: Option<NameId>,
    event: Option<NameId>,
    name: Option<Message<'a>>,
    launch: Option<Message<'a>>,
    stream: Option<i64>,
    correlation: Option<u64>,
    bytes: Option<u64>,
    pid: Option<i64>,
}

impl<'a> Stage<'a> {
    fn read(message: Message<'a>, sequence: &Sequence) -> Read<Self> {
        let mut stage = Self::default();
        for field in message.fields() {
            match field? {
                (2, value) => stage.duration = value.signed(),
                (6, value) => stage.extra(value.message())?,
                (11, value) => stage.gpu = value.number(),
                (14, id) => stage.stage = sequence.text(List::Stages, id.number()),
                (17, value) => stage.name = Some(value.message()),
                (19, id) => stage.kernel = sequence.text(List::Kernels, id.number()),
                (20, id) => stage.event = sequence.text(List::Events, id.number()),
                (21, value) => stage.launch = Some(value.message()),
                _ => {}
            }
        }
        Ok(stage)
    }

    fn extra(&mut self, message: Message<'_>) -> Read<()> {
        let (mut name, mut value) = (Message::default(), Message::default());
        for field in message.fields() {
            match field? {
                (1, text) => name = text.message(),
                (2, text) => value = text.message(),
                _ => {}
            }
        }
        let number = || std::str::from_utf8(value.bytes).ok()?.parse::<i64>().ok();
        let unsigned = || number().and_then(|number| u64::try_from(number).ok());
        match name.bytes {
            b"stream id" => self.stream = number(),
            b"correlation" => self.correlation = unsigned(),
            b"bytes" => self.bytes = unsigned(),
            b"process_id" => self.pid = number(),
            _ => {}
        }
        Ok(())
    }
}

/// Grid and block of a launch, and the arguments that count.
fn launch_config(launch: Message<'_>, sequence: &Sequence, texts: &Names) -> Read<Option<LaunchConfig>> {
    let size = |message: Message<'_>| -> Read<[u32; 3]> {
        let mut size = [1; 3];
        for field in message.fields() {
            let (axis, value) = field?;
            let slot = (axis as usize).checked_sub(1).and_then(|axis| size.get_mut(axis));
            slot.into_iter().for_each(|slot| *slot = u32::try_from(value.number()).unwrap_or(u32::MAX));
        }
        Ok(size)
    };
    let (mut grid, mut block, mut config) = (None, None, LaunchConfig::default());
    for field in launch.fields() {
        match field? {
            (1, value) => grid = Some(size(value.message())?),
            (2, value) => block = Some(size(value.message())?),
            (3, value) => {
                let argument = value.message();
                let name = super::number(argument, 1)?.and_then(|id| sequence.text(List::Arguments, id));
                let value = super::number(argument, 4)?.and_then(|value| u32::try_from(value).ok());
                match name.map(|name| texts.get(name)) {
                    Some("registers_per_thread") => config.registers = value,
                    Some("shared_mem_static" | "shared_mem_dynamic") => {
                        let sum = value.map(|value| config.shared_bytes.unwrap_or(0).saturating_add(value));
                        config.shared_bytes = sum.or(config.shared_bytes);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }
    Ok(grid.zip(block).map(|(grid, block)| LaunchConfig { grid, block, ..config }))
}
