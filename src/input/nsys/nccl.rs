//! Reads the messages of NCCL calls from NVTX payloads (exports made with `--include-json true`) and assigns them to kernels.
//!
//! Field names are those of NCCL's `nvtx_payload_schemas.h` and of other tools. NCCL records the size of one rank's part: what each
//! rank receives in a reduce-scatter, or sends to each rank in an all-to-all. So the total sizes of all-gather, reduce-scatter and
//! all-to-all need the number of ranks, which the call that created the communicator records.
//!
//! A kernel belongs to the NCCL call whose range contains its launch. Calls in a group launch nothing: `ncclGroupEnd` launches all
//! of them, and may merge them into one kernel. One kernel for several messages gets their sum; as many kernels as equal messages
//! get one each; otherwise the assignment is uncertain and the kernels get none.

use super::scanner::{Cells, Lookup};
use crate::trace::{Collective, NameId, Names, Ns, OpKind, Span, ThreadId, Trace};
use foldhash::fast::RandomState;
use gpuprism_scan::json::{Cursor, Step};
use std::collections::HashMap;
use std::ops::Range;

const SIZE: &[&str] = &["Message size [bytes]", "Message size", "size", "bytes"];
const COMMUNICATOR: &[&str] = &["NCCL communicator ID", "Communicator ID", "commHash", "comm"];
const RANKS: &[&str] = &["No. of ranks", "nRanks", "Ranks"];

/// NCCL's payloads have a dozen fields at most; longer texts are not from NCCL.
const MAX_TEXT_BYTES: usize = 4_096;
/// Limit of cached payloads: more than a program has messages of different sizes.
const MAX_CACHED_TEXTS: usize = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Payload {
    bytes: Option<u64>,
    communicator: Option<NameId>,
    ranks: Option<u64>,
}

pub(super) struct Payloads<'a> {
    texts: Option<Lookup<'a>>,
    by_text_id: HashMap<i64, Option<Payload>, RandomState>,
    communicators: Names,
    /// Row in the table of ranges, in the order of the file, and payload.
    of_ranges: Vec<(u32, Payload)>,
}

impl<'a> Payloads<'a> {
    /// `texts` looks up texts by id, if the file has such a table.
    pub(super) fn new(texts: Option<Lookup<'a>>) -> Self {
        Self { texts, by_text_id: HashMap::default(), communicators: Names::default(), of_ranges: Vec::new() }
    }

    /// Stores the payload of a range, if it is NCCL's. `text` and `text_id` are the columns of the JSON text and of its string id.
    pub(super) fn add(&mut self, range: usize, cells: &Cells<'_>, [text, text_id]: [usize; 2]) {
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
        if let Some(cached) = self.by_text_id.get(&id) {
            return *cached;
        }
        let text = self.texts.as_mut()?.text(id);
        let payload = text.and_then(|text| Payload::read(&text, &mut self.communicators));
        if self.by_text_id.len() < MAX_CACHED_TEXTS {
            self.by_text_id.insert(id, payload);
        }
        payload
    }

    /// Assigns messages to kernels. Call it after ops are joined with calls and ranges have names, and before ranges are sorted.
    pub(super) fn join(self, trace: &mut Trace) {
        if self.of_ranges.is_empty() {
            return;
        }
        let batches = Batches::of(trace, &self);
        let mut kernels = batches.kernels(trace);
        kernels.sort_by_key(|(batch, _)| *batch);
        trace.collectives.reserve_exact(kernels.len());
        for kernels in kernels.chunk_by(|a, b| a.0 == b.0) {
            let Some((batch, _)) = kernels.first() else { continue };
            if let Some(message) = batches.message(*batch, kernels.len()) {
                let collective = message.collective(trace, &self.communicators);
                trace.collectives.extend(kernels.iter().map(|(_, op)| (*op, collective.clone())));
            }
        }
        trace.collectives.sort_by_key(|(op, _)| *op);
    }

    /// Returns the number of ranks of each communicator that the trace creates or destroys.
    fn ranks(&self) -> HashMap<NameId, u64, RandomState> {
        self.of_ranges.iter().filter_map(|(_, payload)| payload.communicator.zip(payload.ranks)).collect()
    }
}

impl Payload {
    /// Parses a payload; `None` if it has neither a message size nor a number of ranks.
    fn read(text: &str, communicators: &mut Names) -> Option<Self> {
        if text.len() > MAX_TEXT_BYTES {
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

fn number(text: &[u8]) -> Option<u64> {
    let mut value: Option<u64> = None;
    for byte in text.iter().filter(|byte| **byte != b',') {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value = Some(value.unwrap_or(0).checked_mul(10)?.checked_add(digit)?);
    }
    value
}

/// The message of an NCCL call, with the bytes that one rank sends and receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Message {
    call: Call,
    name: NameId,
    bytes_in: Option<u64>,
    bytes_out: Option<u64>,
    communicator: Option<NameId>,
    ranks: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    GroupStart,
    GroupEnd,
    Send,
    Receive,
    /// All-gather: each rank sends one part and receives the parts of all ranks.
    Gather,
    /// Reduce-scatter: each rank sends a part for every rank and receives one.
    Scatter,
    /// All-to-all: each rank sends and receives one part per rank.
    Exchange,
    Other,
}

impl Call {
    /// Returns the kind by the name of the range; `None` if it is not NCCL's.
    fn of(name: &str) -> Option<Self> {
        let lower = name.to_ascii_lowercase();
        let function = lower.get(lower.find("nccl")?..)?;
        Some(match function {
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

    /// Returns the bytes that one rank sends and receives, from the size that NCCL records.
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
    /// Merges the messages of one kernel; `None` if one kernel cannot transfer both.
    fn merge(self, other: Self) -> Option<Self> {
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

/// Messages that are launched together: those of a group, or a single one.
struct Batch {
    thread: ThreadId,
    start: Ns,
    end: Ns,
    messages: Range<usize>,
}

/// All batches, sorted by thread and start.
struct Batches {
    messages: Vec<Message>,
    batches: Vec<Batch>,
}

impl Batches {
    fn of(trace: &Trace, payloads: &Payloads<'_>) -> Self {
        let mut batches = Self { messages: Vec::new(), batches: Vec::new() };
        let mut open = Group::default();
        for (range, call, payload) in nccl_ranges(trace, payloads) {
            if open.thread != Some(range.thread) {
                open = Group { thread: Some(range.thread), ..Group::default() };
            }
            let message_count = batches.messages.len();
            let first = match (call, payload) {
                (Call::GroupStart, _) => {
                    open.start(message_count);
                    continue;
                }
                (Call::GroupEnd, _) => open.end(),
                (_, Some(message)) => {
                    batches.messages.push(message);
                    Some(message_count)
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

    /// Returns batch and op row of each kernel that a batch launched.
    fn kernels(&self, trace: &Trace) -> Vec<(usize, u32)> {
        let mut found = Vec::new();
        for ((op, launch), row) in trace.gpu_ops.iter().zip(trace.gpu_ops.launches()).zip(0..) {
            let call = launch.filter(|_| op.kind == OpKind::Kernel).and_then(|call| trace.calls.get(call.0 as usize));
            if let Some(batch) = call.and_then(|call| self.enclosing(call)) {
                found.push((batch, row));
            }
        }
        found
    }

    /// Returns the batch whose range contains the call: the last to start among nested ones.
    fn enclosing(&self, call: Span) -> Option<usize> {
        let after = self.batches.partition_point(|batch| (batch.thread, batch.start) <= (call.thread, call.start));
        let index = after.checked_sub(1)?;
        let batch = self.batches.get(index)?;
        (batch.thread == call.thread && call.end() <= batch.end).then_some(index)
    }

    /// Returns the message of each of the `kernels` of a batch, if the assignment is certain.
    fn message(&self, batch: usize, kernels: usize) -> Option<Message> {
        let messages = self.messages.get(self.batches.get(batch)?.messages.clone())?;
        let (first, others) = messages.split_first()?;
        if kernels == messages.len() && others.iter().all(|other| other == first) {
            return Some(*first);
        }
        (kernels == 1).then_some(())?;
        others.iter().try_fold(*first, |sum, other| sum.merge(*other))
    }
}

/// The open group of a thread. Groups nest; only the end of the outermost one launches.
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

    /// Ends a group. Returns its first message if it was the outermost; `None` for a group that started before the trace.
    fn end(&mut self) -> Option<usize> {
        self.depth = self.depth.checked_sub(1)?;
        (self.depth == 0).then_some(self.first)
    }
}

/// Returns the ranges of NCCL groups and of calls with a message, sorted by thread and start.
fn nccl_ranges(trace: &Trace, payloads: &Payloads<'_>) -> impl Iterator<Item = (Span, Call, Option<Message>)> {
    let calls: Vec<Option<Call>> = trace.ranges.names.iter().map(Call::of).collect();
    let call = move |range: Span| calls.get(range.name.0 as usize).copied().flatten();
    let groups = (0..).zip(trace.ranges.iter()).filter(|(_, range)| call(*range).is_some_and(Call::is_of_group));
    // The row of each NCCL range, and the index of its payload.
    let mut rows: Vec<(u32, Option<u32>)> = groups.map(|(range, _)| (range, None)).collect();
    rows.extend((0..).zip(&payloads.of_ranges).map(|(at, (range, _))| (*range, Some(at))));
    let range = |at: u32| trace.ranges.get(at as usize);
    rows.sort_by_key(|(at, _)| range(*at).map(|range| (range.thread, range.start)));
    let ranks = payloads.ranks();
    rows.into_iter().filter_map(move |(at, payload)| {
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
