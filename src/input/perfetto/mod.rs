//! Reader of the protobuf of Perfetto that profilers of GPUs write: rocprofv3, PyTorch's CUPTI monitor, Intel's unitrace, Proton.
//! The messages are those of `protos/perfetto/trace` of google/perfetto; `vocabulary` says what each profiler writes into them.
//!
//! A file is a list of packets, each read when it is whole and then dropped. What later packets refer to is kept: per sequence the
//! interned names, the default clock and track and the last time of a clock that counts from packet to packet (`sequences`),
//! and of all the tracks and the open slices. Packets are not in the order of time. A file may be the traces of several machines, one
//! after the other (`machines`). Cost: O(bytes); memory for the names, the tracks, the open slices and the rows.
//!
//! A slice whose track is not described yet waits for the end of the file: descriptors come first, but nothing says that they must.

pub(crate) mod inflate;
mod machines;
mod rows;
mod sequences;
mod slices;
mod vocabulary;

use super::Detail;
use super::known_formats::{Other, not_read};
use super::protobuf::{Broken, Damaged, Message, MessageSplitter, Value, first_message};
use super::stream_reader::StreamReader;
use crate::trace::{ProblemKind, Trace};
use crate::{Error, Result};
use inflate::Inflater;
use machines::Clues;
use rows::Rows;
use sequences::{Sequence, Stamp};
use slices::{Slices, Taken, Track, TrackEvent};
use std::collections::HashMap;

use foldhash::fast::RandomState;

/// The fields of a packet.
pub(crate) mod packet {
    pub(super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(crate) const SEQUENCE: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(crate) const INTERNED: u32 = 12;
    pub(crate) const FLAGS: u32 = 13;
    pub(crate) const STATE_CLEARED: u32 = 41;
    pub(super) const PREVIOUS_DROPPED: u32 = 42;
    pub(crate) const COMPRESSED: u32 = 50;
    pub(super) const RENDER_STAGE: u32 = 53;
    pub(super) const CLOCK: u32 = 58;
    pub(super) const DEFAULTS: u32 = 59;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
    pub(super) const FIRST_OF_SEQUENCE: u32 = 87;
    /// Packets that are compressed with zstd.
    pub(super) const ZSTD: u32 = 133;
    /// The id of the trace.
    pub(super) const TRACE_ID: u32 = 89;
    /// The bit of the flags that ends the interned names of a sequence.
    pub(crate) const STATE_CLEARED_FLAG: u64 = 1;
    /// Fields with which packets begin; other files do not have them in a first field 1.
    pub(super) const KNOWN: [u32; 18] = [
        1,
        2,
        3,
        CLOCK_SNAPSHOT,
        TIMESTAMP,
        SEQUENCE,
        TRACK_EVENT,
        INTERNED,
        FLAGS,
        // Trace configuration, markers of services and streams, system information.
        33,
        36,
        45,
        COMPRESSED,
        CLOCK,
        DEFAULTS,
        TRACK_DESCRIPTOR,
        79,
        TRACE_ID,
    ];
}

/// Whether a file with this beginning is a trace of Perfetto: its first field is a packet with known fields.
pub(crate) fn is_perfetto(head: &[u8]) -> bool {
    // A text may begin with an empty line, and the letters after it may look like fields.
    const FIRST_BYTES: usize = 64;
    let is_control = |byte: &u8| *byte < b' ' && !byte.is_ascii_whitespace();
    if !head.iter().take(FIRST_BYTES).any(is_control) {
        return false;
    }
    let Some((1, packet)) = first_message(head) else { return false };
    let is_cut = packet.at as usize + packet.bytes.len() == head.len();
    let mut fields = packet.fields();
    let Some(Ok((first, _))) = fields.next() else {
        // A first packet that is longer than the beginning has one long field.
        return is_cut && starts_with_long_field(packet.bytes);
    };
    packet::KNOWN.contains(&first) && fields.all(|field| field.map_or(is_cut, |(number, _)| number < 1 << 12))
}

fn starts_with_long_field(packet: &[u8]) -> bool {
    first_message(packet).is_some_and(|(number, _)| packet::KNOWN.contains(&number))
}

/// Reads the file chunk by chunk.
#[derive(Debug)]
pub(super) struct PerfettoReader {
    label: String,
    splitter: MessageSplitter,
    packets: Packets,
}

/// What the packets so far say.
#[derive(Debug)]
struct Packets {
    sequences: HashMap<u64, Sequence, RandomState>,
    slices: Slices,
    rows: Rows,
    inflater: Option<Inflater>,
    packets: u64,
}

/// The parts of a packet that count.
#[derive(Debug, Default)]
struct Parts<'a> {
    timestamp: u64,
    clock: Option<u64>,
    sequence: u64,
    is_cleared: bool,
    needs_state: bool,
    is_first: bool,
    has_dropped: bool,
    snapshot: Option<Message<'a>>,
    defaults: Option<Message<'a>>,
    interned: Option<Message<'a>>,
    descriptor: Option<Message<'a>>,
    event: Option<Message<'a>>,
    stage: Option<Message<'a>>,
    compressed: Option<Message<'a>>,
    is_zstd: bool,
    trace_id: Option<Message<'a>>,
}

impl<'a> Parts<'a> {
    fn read(packet: Message<'a>) -> std::result::Result<Self, Damaged> {
        const NEEDS_STATE_FLAG: u64 = 2;
        let mut parts = Self::default();
        for field in packet.fields() {
            let (number, value) = field?;
            let message = || Some(value.message());
            match number {
                packet::TIMESTAMP => parts.timestamp = value.number(),
                packet::CLOCK => parts.clock = Some(value.number()),
                packet::SEQUENCE => parts.sequence = value.number(),
                packet::FLAGS => {
                    parts.is_cleared |= value.number() & packet::STATE_CLEARED_FLAG != 0;
                    parts.needs_state = value.number() & NEEDS_STATE_FLAG != 0;
                }
                packet::STATE_CLEARED => parts.is_cleared |= value.number() != 0,
                packet::PREVIOUS_DROPPED => parts.has_dropped = value.number() != 0,
                packet::FIRST_OF_SEQUENCE => parts.is_first = value.number() != 0,
                packet::CLOCK_SNAPSHOT => parts.snapshot = message(),
                packet::DEFAULTS => parts.defaults = message(),
                packet::INTERNED => parts.interned = message(),
                packet::TRACK_DESCRIPTOR => parts.descriptor = message(),
                packet::TRACK_EVENT => parts.event = message(),
                packet::RENDER_STAGE => parts.stage = message(),
                packet::COMPRESSED => parts.compressed = message(),
                packet::ZSTD => parts.is_zstd = true,
                packet::TRACE_ID => parts.trace_id = message(),
                _ => {}
            }
        }
        Ok(parts)
    }
}

impl PerfettoReader {
    pub(super) fn new(label: &str, detail: Detail) -> Self {
        let packets = Packets {
            sequences: HashMap::default(),
            slices: Slices::default(),
            rows: Rows::new(label, detail),
            inflater: None,
            packets: 0,
        };
        Self { label: label.to_owned(), splitter: MessageSplitter::default(), packets }
    }
}

impl StreamReader for PerfettoReader {
    fn feed(&mut self, bytes: &[u8]) -> Result<()> {
        let packets = &mut self.packets;
        self.splitter.feed(bytes, &mut |number, message| {
            if number == 1 {
                packets.packet(message, true);
            }
        });
        Ok(())
    }

    fn gpu_ops(&self) -> usize {
        self.packets.rows.gpu_ops()
    }

    fn finish(self: Box<Self>) -> Result<Trace> {
        let Self { label, splitter, packets } = *self;
        let Packets { slices, mut rows, packets, .. } = packets;
        let broken = splitter.finish();
        match broken {
            Some(Broken::Cut { length, .. }) => rows.problem(ProblemKind::Truncated, 1, length),
            Some(Broken::Damaged(Damaged { at })) => rows.problem(ProblemKind::Damaged, 1, at),
            None => {}
        }
        if let (0, Some(Broken::Cut { at, .. } | Broken::Damaged(Damaged { at }))) = (packets, broken) {
            let why = format!(
                "a Perfetto trace that is cut short or damaged at byte {at}, before its first packet ends: copy or capture it again"
            );
            return Err(Error::refused(&label, why));
        }
        end_slices(&slices, &mut rows);
        rows.finish().ok_or_else(|| not_read(&label, Other::Perfetto))
    }
}

impl Packets {
    fn packet(&mut self, packet: Message<'_>, may_be_compressed: bool) {
        self.packets += 1;
        if let Err(damaged) = self.read(packet, may_be_compressed) {
            self.rows.problem(ProblemKind::UnreadableEvent, 1, damaged.at);
        }
    }

    fn read(&mut self, packet: Message<'_>, may_be_compressed: bool) -> std::result::Result<(), Damaged> {
        let parts = Parts::read(packet)?;
        if let Some(compressed) = parts.compressed.filter(|_| may_be_compressed) {
            return self.compressed(compressed);
        }
        if parts.is_zstd || parts.compressed.is_some() {
            return Err(Damaged { at: packet.at });
        }
        let described = parts.descriptor.map(Track::read).transpose()?;
        self.find_machine(&parts, described.as_ref())?;
        if let Some((id, track)) = described {
            self.rows.track(id, track);
        }
        if parts.has_dropped && !parts.is_first {
            self.rows.problem(ProblemKind::UnreadableEvent, 1, packet.at);
        }
        let sequence = self.sequences.entry(parts.sequence).or_default();
        sequence.is_valid &= !parts.has_dropped;
        if parts.is_cleared {
            *sequence = Sequence::cleared();
        }
        if parts.needs_state && !sequence.is_valid {
            return Err(Damaged { at: packet.at });
        }
        if let Some(defaults) = parts.defaults {
            sequence.defaults(defaults)?;
        }
        if let Some(snapshot) = parts.snapshot {
            sequence.snapshot(snapshot)?;
        }
        if let Some(interned) = parts.interned {
            sequence.intern(interned, &mut self.rows.texts)?;
        }
        let Stamp(time) = sequence.time(parts.timestamp, parts.clock);
        if let Some(event) = parts.event {
            let event = TrackEvent::read(event, sequence, &mut self.rows.texts)?;
            match self.slices.take(event, (time, packet.at)) {
                Taken::Begun => {}
                Taken::Ended(slice) => self.rows.slice(*slice),
                Taken::Other => self.rows.count_other(),
                Taken::Unpaired => self.rows.problem(ProblemKind::UnpairedSlice, 1, packet.at),
            }
        }
        match parts.stage {
            Some(stage) => self.rows.render_stage(stage, sequence, (time, packet.at)),
            None => Ok(()),
        }
    }

    /// Begins the next machine if this packet is not of the last one.
    fn find_machine(
        &mut self,
        parts: &Parts<'_>,
        described: Option<&(u64, Track)>,
    ) -> std::result::Result<(), Damaged> {
        let clues = Clues {
            start_ns: parts.snapshot.map(machines::start_ns).transpose()?.flatten(),
            trace: parts.trace_id.map(machines::trace_id).transpose()?,
            has_content: described.is_some() || parts.event.is_some() || parts.stage.is_some(),
            has_other_process: described.is_some_and(|(id, track)| self.rows.has_other_process(*id, track)),
        };
        if let Some(place) = self.rows.machines.next(clues) {
            self.rows.take_waiting();
            end_slices(&self.slices, &mut self.rows);
            self.slices = Slices::default();
            self.rows.begin_machine(place);
        }
        Ok(())
    }

    /// Reads packets that the service compressed. The buffers are used again for each: a file may have millions of short ones.
    fn compressed(&mut self, message: Message<'_>) -> std::result::Result<(), Damaged> {
        let mut inflater = self.inflater.take().unwrap_or_default();
        let result = inflater.each_packet(message, &mut |inner| self.packet(inner, false));
        self.inflater = Some(inflater);
        result
    }
}

/// Counts the slices that do not end.
fn end_slices(slices: &Slices, rows: &mut Rows) {
    if let Some((count, at)) = slices.left() {
        rows.problem(ProblemKind::UnpairedSlice, count, at);
    }
}

/// A number in a message that is read only for it.
fn number(message: Message<'_>, field: u32) -> std::result::Result<Option<u64>, Damaged> {
    Ok(message.last(field)?.map(Value::number))
}

#[cfg(test)]
mod tests;
