//! Messages of NCCL calls, which stand as NVTX payloads in exports that were made with `--include-json true`, and the
//! kernels that move them.
//!
//! Names of fields are those of NCCL's own `nvtx_payload_schemas.h`, and what other tools call them. NCCL gives the size
//! of one rank's part: what every rank gets in a reduce-scatter, what goes to each rank in an all-to-all.
//!
//! A kernel belongs to the call that holds its launch. Calls in a group launch nothing: `ncclGroupEnd` launches for all of
//! them, and may merge them into one kernel. Where it is not certain which messages a kernel moves, it has none.

use super::scan::{Cells, Lookup};
use crate::ordering::StableSort;
use crate::trace::{Collective, NameId, Names, Ns, OpKind, Span, ThreadId, Trace};
use foldhash::fast::RandomState;
use gpuprism_scan::json::{Cursor, Step};
use std::collections::HashMap;
use std::ops::Range;

const SIZE: &[&str] = &["Message size [bytes]", "Message size", "size", "bytes"];
const COMMUNICATOR: &[&str] = &["NCCL communicator ID", "Communicator ID", "commHash", "comm"];
const RANKS: &[&str] = &["No. of ranks", "nRanks", "Ranks"];

/// NCCL's payloads have a dozen fields at most; longer texts are not its own.
const LONGEST_TEXT: usize = 4_096;
/// More distinct texts than any program has messages of different sizes.
const TEXTS_KEPT: usize = 1 << 16;

/// What the payload of one range says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Payload {
    bytes: Option<u64>,
    communicator: Option<NameId>,
    ranks: Option<u64>,
}

/// The payloads that were met while ranges were read.
pub(super) struct Payloads<'a> {
    texts: Option<Lookup<'a>>,
    by_text_id: HashMap<i64, Option<Payload>, RandomState>,
    communicators: Names,
    /// By place in the table of ranges, while that is in the order of the file.
    of_ranges: Vec<(u32, Payload)>,
}

impl<'a> Payloads<'a> {
    /// `texts` finds texts by id, where the file has such a table.
    pub(super) fn new(texts: Option<Lookup<'a>>) -> Self {
        Self { texts, by_text_id: HashMap::default(), communicators: Names::default(), of_ranges: Vec::new() }
    }

    /// Keeps what the columns of the JSON text and of its id say of a range, where that may be NCCL's.
    pub(super) fn see(&mut self, range: usize, cells: &Cells<'_>, [text, text_id]: [usize; 2]) {
        let payload = match (cells.text(text), cells.int(text_id)) {
            (Some(text), _) => Payload::read(&text, &mut self.communicators),
            (None, Some(id)) => self.of_text_id(id),
            (None, None) => None,
        };
        if let (Some(payload), Ok(range)) = (payload, u32::try_from(range)) {
            self.of_ranges.push((range, payload));
        }
    }

    fn of_text_id(&mut self, id: i64) -> Option<Payload> {
        if let Some(known) = self.by_text_id.get(&id) {
            return *known;
        }
        let text = self.texts.as_mut()?.text(id);
        let payload = text.and_then(|text| Payload::read(&text, &mut self.communicators));
        if self.by_text_id.len() < TEXTS_KEPT {
            self.by_text_id.insert(id, payload);
        }
        payload
    }

    /// Gives each kernel its message. Ops and calls are joined and ranges have their names, but not yet their order.
    pub(super) fn join(self, trace: &mut Trace) {
        if self.of_ranges.is_empty() {
            return;
        }
        let batches = Batches::of(trace, &self);
        let mut moved = batches.kernels(trace);
        moved.order_by_key(|(batch, _)| *batch);
        trace.collectives.reserve_exact(moved.len());
        for kernels in moved.chunk_by(|a, b| a.0 == b.0) {
            let Some((batch, _)) = kernels.first() else { continue };
            if let Some(message) = batches.message(*batch, kernels.len()) {
                let collective = message.collective(trace, &self.communicators);
                trace.collectives.extend(kernels.iter().map(|(_, op)| (*op, collective.clone())));
            }
        }
        trace.collectives.order_by_key(|(op, _)| *op);
    }

    /// How many ranks each communicator has, where the call that made or ended it is in the trace.
    fn ranks(&self) -> HashMap<NameId, u64, RandomState> {
        let known = self.of_ranges.iter().filter_map(|(_, payload)| payload.communicator.zip(payload.ranks));
        known.collect()
    }
}

impl Payload {
    /// `None` for a text without a size of a message or a number of ranks.
    fn read(text: &str, communicators: &mut Names) -> Option<Self> {
        if text.len() > LONGEST_TEXT {
            return None;
        }
        let mut payload = Self { bytes: None, communicator: None, ranks: None };
        let mut cursor = Cursor::new(text.as_bytes());
        cursor.enter().then_some(())?;
        while let Step::Key(key) = cursor.key() {
            let value = cursor.value()?.scalar();
            let is = |names: &[&str]| names.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(key));
            let Some(value) = value else { continue };
            if is(SIZE) {
                payload.bytes = number(value);
            } else if is(RANKS) {
                payload.ranks = number(value);
            } else if is(COMMUNICATOR) {
                payload.communicator = std::str::from_utf8(value).ok().map(|id| communicators.intern(id));
            }
        }
        (payload.bytes.is_some() || payload.ranks.is_some()).then_some(payload)
    }
}

/// A number, which may be written as text and with commas between its digits.
fn number(text: &[u8]) -> Option<u64> {
    let mut value: Option<u64> = None;
    for byte in text.iter().filter(|byte| **byte != b',') {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value = Some(value.unwrap_or(0).checked_mul(10)?.checked_add(digit)?);
    }
    value
}

/// What moves a message: what goes into a kernel and what comes out of it, of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Message {
    call: Call,
    /// Which of the ranges' names it has.
    name: NameId,
    bytes_in: Option<u64>,
    bytes_out: Option<u64>,
    communicator: Option<NameId>,
    ranks: Option<u64>,
}

/// What a range of NCCL stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    GroupStart,
    GroupEnd,
    Send,
    Receive,
    /// Every rank's part goes to all: out come the parts of all ranks.
    Gather,
    /// The opposite: in go the parts of all ranks.
    Scatter,
    /// A part for and from every rank.
    Exchange,
    Other,
}

impl Call {
    /// `None` for what is not NCCL's.
    fn of(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let of_nccl = lower.get(lower.find("nccl")?..)?;
        Some(match of_nccl {
            "ncclgroupstart" => Self::GroupStart,
            "ncclgroupend" => Self::GroupEnd,
            "ncclsend" => Self::Send,
            "ncclrecv" => Self::Receive,
            "ncclallgather" => Self::Gather,
            "ncclreducescatter" => Self::Scatter,
            "ncclalltoall" => Self::Exchange,
            _ => Self::Other,
        })
    }

    /// Bytes in and out of one rank, from the size that NCCL gives.
    fn bytes(self, part: u64, ranks: Option<u64>) -> (Option<u64>, Option<u64>) {
        let (one, all) = (Some(part), ranks.and_then(|ranks| part.checked_mul(ranks)));
        match self {
            Self::Send => (one, None),
            Self::Receive => (None, one),
            Self::Gather => (one, all),
            Self::Scatter => (all, one),
            Self::Exchange => (all, all),
            Self::GroupStart | Self::GroupEnd | Self::Other => (one, one),
        }
    }

    fn is_of_group(self) -> bool {
        matches!(self, Self::GroupStart | Self::GroupEnd)
    }

    fn is_point_to_point(self) -> bool {
        matches!(self, Self::Send | Self::Receive)
    }
}

impl Message {
    /// One kernel that moves this message and another.
    fn and(self, other: Self) -> Option<Self> {
        let both = self.call.is_point_to_point() && other.call.is_point_to_point();
        if !(both || self.name == other.name) || self.communicator != other.communicator {
            return None;
        }
        let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) => a.checked_add(b),
            (one, None) | (None, one) if both => one,
            _ => None,
        };
        let (bytes_in, bytes_out) = (sum(self.bytes_in, other.bytes_in), sum(self.bytes_out, other.bytes_out));
        Some(Self { bytes_in, bytes_out, ..self })
    }

    fn collective(self, trace: &Trace, communicators: &Names) -> Collective {
        let exchanges = self.call.is_point_to_point() && self.bytes_in.is_some() && self.bytes_out.is_some();
        let operation = if exchanges { "ncclSendRecv" } else { trace.ranges.names.get(self.name) };
        Collective {
            operation: operation.to_owned(),
            bytes_in: self.bytes_in,
            bytes_out: self.bytes_out,
            ranks: self.ranks,
            communicator: self.communicator.map(|id| communicators.get(id).to_owned()).unwrap_or_default(),
            ..Collective::default()
        }
    }
}

/// Messages that are launched together: those of a group, or one alone.
struct Batch {
    thread: ThreadId,
    start: Ns,
    end: Ns,
    messages: Range<usize>,
}

/// All batches, by thread and start.
struct Batches {
    messages: Vec<Message>,
    batches: Vec<Batch>,
}

impl Batches {
    fn of(trace: &Trace, payloads: &Payloads<'_>) -> Self {
        let mut batches = Self { messages: Vec::new(), batches: Vec::new() };
        let mut open = Group::default();
        for (range, call, payload) in of_nccl(trace, payloads) {
            if open.thread != Some(range.thread) {
                open = Group { thread: Some(range.thread), ..Group::default() };
            }
            let known = batches.messages.len();
            let first = match (call, payload) {
                (Call::GroupStart, _) => {
                    open.start(known);
                    continue;
                }
                (Call::GroupEnd, _) => open.end(),
                (_, Some(message)) => {
                    batches.messages.push(message);
                    Some(known)
                }
                (_, None) => None,
            };
            if let Some(first) = first {
                let messages = first..batches.messages.len();
                batches.batches.push(Batch { thread: range.thread, start: range.start, end: range.end(), messages });
            }
        }
        batches
    }

    /// The kernels that were launched in each batch, by place.
    fn kernels(&self, trace: &Trace) -> Vec<(usize, u32)> {
        let mut found = Vec::new();
        for ((op, launch), at) in trace.gpu_ops.iter().zip(trace.gpu_ops.launches()).zip(0..) {
            let call = launch.filter(|_| op.kind == OpKind::Kernel).and_then(|call| trace.calls.get(call.0 as usize));
            if let Some(batch) = call.and_then(|call| self.around(call)) {
                found.push((batch, at));
            }
        }
        found
    }

    /// The batch whose range holds the call: of nested ones, the last to begin.
    fn around(&self, call: Span) -> Option<usize> {
        let after = self.batches.partition_point(|batch| (batch.thread, batch.start) <= (call.thread, call.start));
        let at = after.checked_sub(1)?;
        let batch = self.batches.get(at)?;
        (batch.thread == call.thread && call.end() <= batch.end).then_some(at)
    }

    /// The message of each of the kernels of a batch, where that is certain.
    fn message(&self, batch: usize, kernels: usize) -> Option<Message> {
        let messages = self.messages.get(self.batches.get(batch)?.messages.clone())?;
        let (first, others) = messages.split_first()?;
        if kernels == messages.len() && others.iter().all(|other| other == first) {
            return Some(*first);
        }
        (kernels == 1).then_some(())?;
        others.iter().try_fold(*first, |sum, other| sum.and(*other))
    }
}

/// The group that is open on a thread, whose innermost end launches nothing.
#[derive(Default)]
struct Group {
    thread: Option<ThreadId>,
    depth: u32,
    first: usize,
}

impl Group {
    fn start(&mut self, first: usize) {
        if self.depth == 0 {
            self.first = first;
        }
        self.depth = self.depth.saturating_add(1);
    }

    /// The first message of the group that is over; `None` for one that began before the trace.
    fn end(&mut self) -> Option<usize> {
        self.depth = self.depth.checked_sub(1)?;
        (self.depth == 0).then_some(self.first)
    }
}

/// A range of NCCL by its place, and the place of its payload.
type Place = (u32, Option<u32>);

/// The ranges of NCCL's groups and of calls with a message, by thread and start.
fn of_nccl(trace: &Trace, payloads: &Payloads<'_>) -> impl Iterator<Item = (Span, Call, Option<Message>)> {
    let calls: Vec<Option<Call>> = trace.ranges.names.iter().map(Call::of).collect();
    let call = move |range: Span| calls.get(range.name.0 as usize).copied().flatten();
    let groups = (0..).zip(trace.ranges.iter()).filter(|(_, range)| call(*range).is_some_and(Call::is_of_group));
    let mut places: Vec<Place> = groups.map(|(range, _)| (range, None)).collect();
    places.extend((0..).zip(&payloads.of_ranges).map(|(at, (range, _))| (*range, Some(at))));
    let range = |at: u32| trace.ranges.get(at as usize);
    places.order_by_key(|(at, _)| range(*at).map(|range| (range.thread, range.start)));
    let ranks = payloads.ranks();
    places.into_iter().filter_map(move |(at, payload)| {
        let (range, call) = range(at).and_then(|range| Some((range, call(range)?)))?;
        let Some(payload) = payload else { return Some((range, call, None)) };
        let (_, payload) = payloads.of_ranges.get(payload as usize)?;
        let part = payload.bytes.filter(|_| !call.is_of_group())?;
        let ranks = payload.ranks.or_else(|| ranks.get(&payload.communicator?).copied());
        let (bytes_in, bytes_out) = call.bytes(part, ranks);
        let communicator = payload.communicator;
        Some((range, call, Some(Message { call, name: range.name, bytes_in, bytes_out, communicator, ranks })))
    })
}
