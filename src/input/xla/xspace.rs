//! Reader of XSpace, the protobuf of XLA's profiler: one message per plane, which is a GPU, a TPU or the host.
//!
//! A plane has its lines before the names of their events and stats, so a plane is kept while it is read and walked twice: names
//! first, then events. No message of protobuf is longer than 2 GiB, and the planes follow one another, so memory is that of
//! the longest plane and of the rows. A plane that the file cuts is not read: without the names nobody can tell a kernel from
//! an allocation. Cost: O(bytes).
//!
//! Times are picoseconds after the start of the line, which has nanoseconds; both ends of an event are cut to nanoseconds, so that
//! events that touch still do. Planes and lines that repeat others (HLO protos, ops derived from streams) are counted at most.
//!
//! A file may be the profiles of several machines one after the other, as protobuf merges messages. The planes of a machine have names
//! of their own, and come before all other fields.

use super::host::{HostEvent, HostWriter, MAX_STEP_NAME_BYTES};
use super::{DeviceLine, MAX_SITE_BYTES, OpWriter, Plane, Site, Stat, StatValue, Stats, Work, op_name};
use crate::input::Detail;
use crate::input::id_table::IdTable;
use crate::input::machines::on_machine;
use crate::input::nsys::diagnostics;
use crate::input::protobuf::{Broken, Damaged, Message, MessageSplitter, Value, beginning, first_message};
use crate::input::stream_reader::StreamReader;
use crate::trace::{
    DeviceId, DeviceProperties, Format, GpuOp, NameId, Ns, OpKind, ProblemKind, ProcessId, ThreadId, Trace,
    TraceBuilder, is_plausible,
};
use crate::{Error, Result};
use std::borrow::Cow;
use std::collections::BTreeSet;

/// Whether a file with this beginning is an XSpace: its first field is a plane, whose name comes before all but its number.
pub(crate) fn is_xspace(head: &[u8]) -> bool {
    const NAMES: [&[u8]; 6] = [b"/host:", b"/device:", b"Task Environment", b"#Chip", b"Host CPUs", b"Syscalls"];
    // The plane may be longer than the head.
    let Some((1, plane)) = first_message(head) else { return false };
    let name = plane.fields().take(2).find_map(|field| field.ok().filter(|(number, _)| *number == 2));
    name.is_some_and(|(_, name)| NAMES.iter().any(|start| name.message().bytes.starts_with(start)))
}

/// Reads the file chunk by chunk.
#[derive(Debug)]
pub(crate) struct XSpaceReader {
    label: String,
    splitter: MessageSplitter,
    space: Space,
}

impl XSpaceReader {
    pub(crate) fn new(label: &str, detail: Detail) -> Self {
        let mut builder = TraceBuilder::new(label, Format::XlaXspace);
        let process = builder.process(-1, "");
        let (ops, host, machine) = (OpWriter::default(), HostWriter::new(detail), Machine::default());
        let space = Space { builder, process, ops, host, planes: 0, machine };
        Self { label: label.to_owned(), splitter: MessageSplitter::default(), space }
    }
}

impl StreamReader for XSpaceReader {
    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        let space = &mut self.space;
        self.splitter.feed(bytes, &mut |number, message| space.message(number, message));
        Ok(())
    }

    fn gpu_ops(&self) -> usize {
        self.space.builder.trace.gpu_ops.len()
    }

    fn finish(self: Box<Self>) -> Result<Trace> {
        let Self { label, splitter, mut space } = *self;
        let broken = splitter.finish();
        // Its buffer is as large as the longest plane, and ordering the rows needs memory of its own.
        drop(splitter);
        if space.planes == 0 {
            let why = match broken {
                Some(Broken::Cut { at, .. }) => format!("cut short in its first plane, which starts at byte {at}"),
                Some(Broken::Damaged(Damaged { at })) => format!("damaged at byte {at}, before its first plane"),
                None => "without a plane".to_owned(),
            };
            return Err(Error::refused(&label, format!("an XLA profile {why}: copy or capture it again")));
        }
        match broken {
            Some(Broken::Cut { length, .. }) => space.problem(ProblemKind::Truncated, length),
            Some(Broken::Damaged(Damaged { at })) => space.problem(ProblemKind::Damaged, at),
            None => {}
        }
        Ok(space.finish())
    }
}

/// The trace while planes are read.
#[derive(Debug)]
struct Space {
    builder: TraceBuilder,
    process: ProcessId,
    ops: OpWriter,
    host: HostWriter,
    planes: u64,
    machine: Machine,
}

/// More machines count as the last one.
const MAX_MACHINES: usize = 4_096;

/// The machine whose planes are read.
#[derive(Debug, Default)]
struct Machine {
    place: usize,
    planes: BTreeSet<String>,
    /// A field after its planes was read.
    is_complete: bool,
    /// The number of devices of the first machine, when there is another.
    devices_of_first: usize,
}

/// The tables of a plane.
#[derive(Debug, Default)]
struct Tables<'a> {
    lines: Vec<Message<'a>>,
    events: IdTable<EventName<'a>>,
    /// For all events whose name the plane lacks.
    unknown: EventName<'a>,
    stats: IdTable<(Stat, &'a [u8])>,
    /// Stats of the plane itself.
    own_stats: Vec<Message<'a>>,
}

/// The name of events, and what was found out about it.
#[derive(Debug, Default)]
struct EventName<'a> {
    name: &'a [u8],
    display_name: &'a [u8],
    /// The stats that hold for every event of the name.
    stats: Stats<'a>,
    op: Option<NameId>,
    /// The name of its last copy, by what its details say.
    copy: Option<(&'a [u8], NameId)>,
    /// The note of its last call site. Most events of a name have one.
    note: Option<(Site<'a>, Option<u32>)>,
    call: Option<HostEvent>,
    range: Option<HostEvent>,
}

/// An event of a line.
#[derive(Debug, Default)]
struct Event<'a> {
    name: u64,
    offset_ps: Option<i64>,
    duration_ps: i64,
    /// Its own and, where it has none, those of its name.
    stats: Stats<'a>,
}

/// What a line says about all of its events.
#[derive(Debug, Default)]
struct Line<'a> {
    id: i64,
    name: Cow<'a, str>,
    start_ns: i64,
}

type Read<T> = std::result::Result<T, Damaged>;

/// The texts of a protobuf have no escapes.
fn plain(raw: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(raw)
}

impl<'a> Tables<'a> {
    fn read(plane: Message<'a>) -> Read<Self> {
        let (mut tables, mut names, mut stats) = (Self::default(), Vec::new(), Vec::new());
        for field in plane.fields() {
            match field? {
                (3, line) => tables.lines.push(line.message()),
                (4, entry) => names.push(entry.message()),
                (5, entry) => stats.push(entry.message()),
                (6, stat) => tables.own_stats.push(stat.message()),
                _ => {}
            }
        }
        tables.stats = IdTable::with_expected(stats.len());
        for entry in stats {
            tables.stat_name(entry)?;
        }
        tables.events = IdTable::with_expected(names.len());
        for entry in names {
            tables.event_name(entry)?;
        }
        Ok(tables)
    }

    fn stat_name(&mut self, entry: Message<'a>) -> Read<()> {
        let (id, metadata) = map_entry(entry)?;
        let name = metadata.last(2)?.map_or(&[][..], |name| beginning(name.message().bytes, MAX_SITE_BYTES));
        self.stats.insert(id, (Stat::named(name), name));
        Ok(())
    }

    fn event_name(&mut self, entry: Message<'a>) -> Read<()> {
        let (id, metadata) = map_entry(entry)?;
        let mut name = EventName::default();
        for field in metadata.fields() {
            match field? {
                (2, value) => name.name = value.message().bytes,
                (4, value) => name.display_name = value.message().bytes,
                (5, value) => self.stat(value.message(), &mut name.stats)?,
                _ => {}
            }
        }
        self.events.insert(id, name);
        Ok(())
    }

    /// Reads a stat if it is one that says something.
    fn stat(&self, message: Message<'a>, stats: &mut Stats<'a>) -> Read<()> {
        let (mut stat, mut value) = (Stat::Other, StatValue::default());
        for field in message.fields() {
            match field? {
                (1, id) => match self.stats.get(id.number()) {
                    None | Some((Stat::Other, _)) => return Ok(()),
                    Some((known, _)) => stat = *known,
                },
                (3 | 4, number) => value.number = Some(number.signed()),
                (5, text) => value.text = beginning(text.message().bytes, MAX_SITE_BYTES),
                (7, reference) => value.text = self.stats.get(reference.number()).map_or(&[][..], |(_, name)| name),
                _ => {}
            }
        }
        stats.add(stat, value);
        Ok(())
    }

    /// Reads an event into `event`, whatever was in it. The stats of its name hold where it has none of its own.
    fn event(&self, message: Message<'a>, event: &mut Event<'a>) -> Read<()> {
        *event = Event::default();
        let (mut is_named, mut has_stats, mut is_aggregate) = (false, false, false);
        for field in message.fields() {
            match field? {
                // Writers begin with the name, so its stats are copied and the event's written over them.
                (1, id) => {
                    event.name = id.number();
                    let stats = self.stats_of_name(event.name);
                    event.stats = if has_stats { event.stats.or(stats) } else { *stats };
                    is_named = true;
                }
                (2, offset) => event.offset_ps = Some(offset.signed()),
                (3, duration) => event.duration_ps = duration.signed(),
                (4, stat) => {
                    self.stat(stat.message(), &mut event.stats)?;
                    has_stats = true;
                }
                (5, _) => is_aggregate = true,
                _ => {}
            }
        }
        if !is_named {
            event.stats = event.stats.or(self.stats_of_name(event.name));
        }
        // An offset of zero is not written.
        if !is_aggregate {
            event.offset_ps = event.offset_ps.or(Some(0));
        }
        Ok(())
    }

    fn stats_of_name(&self, id: u64) -> &Stats<'a> {
        self.events.get(id).map_or(&self.unknown.stats, |name| &name.stats)
    }

    /// The stats of the plane, by name.
    fn own_stat(&self, wanted: &[u8]) -> Option<StatValue<'a>> {
        let of_stat = |stat: &Message<'a>| {
            let id = stat.last(1).ok()??.number();
            if self.stats.get(id)?.1 != wanted {
                return None;
            }
            let number = [3, 4].into_iter().find_map(|field| stat.last(field).ok().flatten()).map(Value::signed);
            let text = stat.last(5).ok().flatten().map(|text| text.message().bytes);
            let reference = || self.stats.get(stat.last(7).ok()??.number()).map(|(_, name)| *name);
            Some(StatValue { text: text.or_else(reference).unwrap_or_default(), number })
        };
        self.own_stats.iter().find_map(of_stat)
    }
}

/// Key and value of an entry of a map.
fn map_entry(entry: Message<'_>) -> Read<(u64, Message<'_>)> {
    let value = entry.last(2)?.map(Value::message).unwrap_or_default();
    let key = match entry.last(1)? {
        Some(key) => Some(key),
        None => value.last(1)?,
    };
    Ok((key.map_or(0, Value::number), value))
}

impl<'a> Line<'a> {
    fn read(message: Message<'a>) -> Read<Self> {
        let mut line = Line::default();
        for field in message.fields() {
            match field? {
                (1, id) => line.id = id.signed(),
                (2, name) => line.name = name.message().text(),
                (3, start) => line.start_ns = start.signed(),
                _ => {}
            }
        }
        Ok(line)
    }

    /// Start and duration of an event; `None` without them or if they are impossible.
    fn times(&self, event: &Event<'_>) -> Option<(Ns, Ns)> {
        let offset_ps = event.offset_ps?;
        let end_ps = offset_ps.checked_add(event.duration_ps)?;
        let at = |ps: i64| self.start_ns.checked_add(ps.div_euclid(1_000)).map(Ns);
        let (start, end) = (at(offset_ps)?, at(end_ps)?);
        let duration = end.since(start);
        is_plausible(start, duration).then_some((start, duration))
    }

    /// The thread id in the name, `Host Threads/4242`, or the number of the line.
    fn tid(&self) -> i64 {
        self.name.rsplit_once('/').and_then(|(_, tid)| tid.parse().ok()).unwrap_or(self.id)
    }
}

/// The events of a line.
fn events(line: Message<'_>) -> impl Iterator<Item = Read<Message<'_>>> {
    line.fields().filter_map(|field| match field {
        Ok((4, event)) => Some(Ok(event.message())),
        Ok(_) => None,
        Err(damaged) => Some(Err(damaged)),
    })
}

impl Space {
    fn problem(&mut self, kind: ProblemKind, at: u64) {
        self.builder.trace.problems.add(kind, 1, at);
    }

    /// Takes a field of the outermost message. The names of hosts (4) are private.
    fn message(&mut self, number: u32, message: Message<'_>) {
        match number {
            1 => {
                self.planes += 1;
                if let Err(damaged) = self.plane(message) {
                    self.problem(ProblemKind::Damaged, damaged.at);
                }
            }
            2 | 3 => {
                self.machine.is_complete = true;
                diagnostics::add(&mut self.builder.trace.diagnostics, &message.text());
            }
            _ => self.machine.is_complete = true,
        }
    }

    /// Begins the next machine if this plane is not of the last one.
    fn find_machine(&mut self, plane: &str) {
        if !self.machine.is_complete && self.machine.planes.insert(plane.to_owned()) {
            return;
        }
        let place = (self.machine.place + 1).min(MAX_MACHINES);
        let devices_of_first =
            if place == 1 { self.builder.trace.devices.len() } else { self.machine.devices_of_first };
        self.machine = Machine { place, devices_of_first, ..Machine::default() };
        self.machine.planes.insert(plane.to_owned());
        self.process = self.builder.process(-1, &on_machine(place, ""));
    }

    /// Says where the devices and the process of the first machine are, if there are several machines.
    fn name_first_machine(&mut self) {
        if self.machine.place == 0 {
            return;
        }
        let trace = &mut self.builder.trace;
        for device in trace.devices.iter_mut().take(self.machine.devices_of_first) {
            device.id = on_machine(0, &device.id);
        }
        trace.processes.iter_mut().take(1).for_each(|process| process.name = on_machine(0, &process.name));
    }

    fn plane(&mut self, message: Message<'_>) -> Read<()> {
        let name = name_of_plane(message)?;
        self.find_machine(&name);
        let plane = Plane::named(&name);
        if plane == Plane::Other {
            return Ok(());
        }
        let mut tables = Tables::read(message)?;
        let lines = std::mem::take(&mut tables.lines);
        if plane == Plane::Host {
            self.name_process(&tables);
            for line in lines {
                self.host_line(line, &mut tables)?;
            }
            Ok(())
        } else {
            self.device(&plane, &lines, &mut tables)
        }
    }

    fn name_process(&mut self, tables: &Tables<'_>) {
        let pid = tables.own_stat(b"process_id").and_then(|pid| pid.number);
        if let (Some(pid), Some(process)) = (pid, self.builder.trace.processes.get_mut(self.process.0 as usize)) {
            process.pid = pid;
        }
    }

    fn device<'a>(&mut self, plane: &Plane, lines: &[Message<'a>], tables: &mut Tables<'a>) -> Read<()> {
        let is_amd = tables.own_stat(b"device_vendor").is_some_and(|vendor| vendor.text == b"AMD");
        let mut device = None;
        for &message in lines {
            let line = Line::read(message)?;
            let stream = match plane.line(&line.name) {
                DeviceLine::Stream(stream) => stream,
                DeviceLine::TpuOps => -1,
                DeviceLine::Other => {
                    self.builder.trace.events.other += events(message).count() as u64;
                    continue;
                }
            };
            let device = *device.get_or_insert_with(|| self.add_device(plane, tables, is_amd));
            let lane = Lane { device, stream, is_tpu: matches!(plane, Plane::Tpu(_)) };
            self.stream_line((message, &line), lane, tables)?;
        }
        Ok(())
    }

    /// Old profilers write no name of a GPU.
    fn add_device(&mut self, plane: &Plane, tables: &Tables<'_>, is_amd: bool) -> DeviceId {
        let number = |name: &[u8]| tables.own_stat(name).and_then(|stat| stat.number);
        let text = |name: &[u8]| tables.own_stat(name).map(|stat| plain(stat.text)).filter(|text| !text.is_empty());
        let capability = number(b"compute_cap_major").zip(number(b"compute_cap_minor"));
        // ROCm's number is that of the architecture: 9.4 is gfx94x.
        let architecture =
            capability.filter(|_| is_amd).map(|(major, minor)| Cow::from(format!("AMD gfx{major}{minor}x")));
        let name = text(b"gpu_device_name").or_else(|| text(b"device_type_string")).or(architecture);
        let id = match self.machine.place {
            0 => plane.device_id(),
            place => on_machine(place, &plane.device_id()),
        };
        let device = self.builder.device(&id, &name.unwrap_or_default());
        let small = |number: i64| u32::try_from(number).ok();
        let capability = capability.filter(|_| !is_amd);
        let properties = DeviceProperties {
            capability: capability.and_then(|(major, minor)| small(major.checked_mul(10)?.checked_add(minor)?)),
            multiprocessors: number(b"core_count").and_then(small),
            memory_bytes: number(b"memory_size").and_then(|bytes| u64::try_from(bytes).ok()),
        };
        self.builder.set_properties(device, properties);
        device
    }

    fn stream_line<'a>(
        &mut self,
        (message, line): (Message<'a>, &Line<'a>),
        lane: Lane,
        tables: &mut Tables<'a>,
    ) -> Read<()> {
        let mut event = Event::default();
        for found in events(message) {
            let message = found?;
            match tables.event(message, &mut event) {
                Ok(()) => self.op(line, lane, &event, (tables, message.at)),
                Err(damaged) => self.problem(ProblemKind::UnreadableEvent, damaged.at),
            }
        }
        Ok(())
    }

    fn op<'a>(&mut self, line: &Line<'_>, lane: Lane, event: &Event<'a>, (tables, at): (&mut Tables<'a>, u64)) {
        let (id, name) = match tables.events.get_mut(event.name) {
            Some(name) => (Some(event.name), name),
            None => (None, &mut tables.unknown),
        };
        let stats = &event.stats;
        let work = if lane.is_tpu { Work::Op(OpKind::Kernel) } else { stats.work(name.name) };
        if work == Work::None {
            self.builder.trace.events.other += 1;
            return;
        }
        let Some((start, duration)) = line.times(event) else {
            let kind =
                if event.offset_ps.is_none() { ProblemKind::OpWithoutTime } else { ProblemKind::ImpossibleDuration };
            return self.problem(kind, at);
        };
        let kind = if let Work::Op(kind) = work { kind } else { OpKind::Kernel };
        let op = GpuOp {
            start,
            duration,
            name: NameId::default(),
            device: lane.device,
            stream: lane.stream,
            process: self.process,
            kind,
        };
        if work == Work::WholeGraph {
            return OpWriter::whole_graph(&mut self.builder, &op, stats);
        }
        let op = GpuOp { name: name_of_op(&mut self.builder, (id, name), stats.copy, at), ..op };
        let known = name.note.filter(|(site, _)| *site == stats.site).map(|(_, note)| note);
        let note = known.unwrap_or_else(|| self.ops.note(&mut self.builder, &stats.site, &plain));
        name.note = Some((stats.site, note));
        OpWriter::op(&mut self.builder, op, stats, note);
    }

    fn host_line<'a>(&mut self, message: Message<'a>, tables: &mut Tables<'a>) -> Read<()> {
        let line = Line::read(message)?;
        let thread = self.builder.thread(self.process, line.tid());
        let mut event = Event::default();
        for found in events(message) {
            let message = found?;
            match tables.event(message, &mut event) {
                Ok(()) => self.host_event(&line, thread, &event, (tables, message.at)),
                Err(damaged) => self.problem(ProblemKind::UnreadableEvent, damaged.at),
            }
        }
        Ok(())
    }

    fn host_event(
        &mut self,
        line: &Line<'_>,
        thread: ThreadId,
        event: &Event<'_>,
        (tables, at): (&mut Tables<'_>, u64),
    ) {
        let Some(times) = line.times(event) else {
            self.builder.trace.events.cpu += 1;
            return self.problem(ProblemKind::HostRowWithoutTime, at);
        };
        let name = tables.events.get_mut(event.name).unwrap_or(&mut tables.unknown);
        let stats = &event.stats;
        let correlation = stats.correlation;
        let own;
        let found = match (stats.step, correlation) {
            (Some(number), _) => {
                own = HostWriter::step(&mut self.builder, &plain(beginning(name.name, MAX_STEP_NAME_BYTES)), number);
                &own
            }
            (None, Some(_)) => name.call.get_or_insert_with(|| HostWriter::call(&mut self.builder, &plain(name.name))),
            (None, None) => name.range.get_or_insert_with(|| self.host.classify(&mut self.builder, &plain(name.name))),
        };
        self.host.add(&mut self.builder, found, (thread, correlation), times, at);
    }

    fn finish(mut self) -> Trace {
        self.name_first_machine();
        self.host.finish(&mut self.builder);
        self.builder.finish()
    }
}

/// Where the ops of a line ran.
#[derive(Debug, Clone, Copy)]
struct Lane {
    device: DeviceId,
    stream: i64,
    is_tpu: bool,
}

/// The name of a plane, which comes before its lines.
fn name_of_plane(plane: Message<'_>) -> Read<Cow<'_, str>> {
    for field in plane.fields() {
        if let (2, name) = field? {
            return Ok(name.message().text());
        }
    }
    Ok(Cow::default())
}

/// The name of an op; counts one that the plane lacks. Names of TPU ops are lines of HLO, so their short form is taken.
fn name_of_op<'a>(
    builder: &mut TraceBuilder,
    (id, name): (Option<u64>, &mut EventName<'a>),
    copy: Option<&'a [u8]>,
    at: u64,
) -> NameId {
    let Some(id) = id else {
        builder.trace.problems.add(ProblemKind::MissingName, 1, at);
        return *name.op.get_or_insert_with(|| builder.trace.names.intern("(a name is missing)"));
    };
    let raw = if name.display_name.is_empty() { name.name } else { name.display_name };
    if raw.is_empty() {
        return *name.op.get_or_insert_with(|| {
            builder.trace.problems.add(ProblemKind::MissingName, 1, at);
            builder.trace.names.intern(&format!("(name {} is missing)", id.cast_signed()))
        });
    }
    let names = &mut builder.trace.names;
    let Some(details) = copy else {
        return *name.op.get_or_insert_with(|| names.intern(&op_name(&plain(raw), copy)));
    };
    if let Some((known, id)) = name.copy
        && known == details
    {
        return id;
    }
    let id = names.intern(&op_name(&plain(raw), copy));
    name.copy = Some((details, id));
    id
}
