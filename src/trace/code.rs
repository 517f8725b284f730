//! The code that launched GPU work: CPU ops, Python frames, annotations, and the ids that join them with GPU ops.
//!
//! A reader fills this only on request (`Reader::with_code`): it is most of a torch trace, and most analyses do not use it.
//! Times are on the clock of the GPU ops. A frame or op takes about 28 bytes.

use super::columns::{index, reorder};
use super::{CallId, DeviceId, NameId, Names, Ns, ProcessId, Span, Spans, Thread};
use crate::ordering;

/// The value of an id column that has no id, or of a parent column that has no parent.
pub const NONE: u32 = u32::MAX;

/// Host-side code of a trace. A column "parallel" to a table has one entry for each row of the table.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HostCode {
    /// Framework ops on the host (`aten::mm`), sorted by start, outer before inner.
    pub cpu_ops: Spans,
    /// Parallel to `cpu_ops`: external id, or [`NONE`].
    pub cpu_op_ids: Vec<u32>,
    /// Python frames (`vllm/v1/worker/gpu_worker.py(12): load`), sorted by start, outer before inner.
    pub frames: Spans,
    /// Parallel to `frames`: row of the calling frame, or [`NONE`] if not recorded.
    pub frame_parents: Vec<u32>,
    /// Parallel to the GPU ops of the trace: external id of the op, or of its launching call, or [`NONE`].
    pub op_ids: Vec<u32>,
    /// Annotations of host and device, sorted by start.
    pub annotations: Vec<Annotation>,
    /// Texts of the annotations.
    pub annotation_names: Names,
    /// Parallel to the calls of the trace: the kernel that the call launches, an index into `kernel_names`, or [`NONE`]. Empty
    /// if no call names its kernel; AMD's do. A call during graph capture names a kernel that does not run then.
    pub call_kernels: Vec<u32>,
    /// Names of kernels as the calls spell them.
    pub kernel_names: Names,
}

/// A range that the program or its framework marked: `step[DECODE bs=16]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Annotation {
    /// Start.
    pub start: Ns,
    /// Duration.
    pub duration: Ns,
    /// Text, in [`HostCode::annotation_names`].
    pub name: NameId,
    /// External id, or [`NONE`].
    pub id: u32,
    /// The device, if this is the copy of an annotation on the device timeline; `None` on the host.
    pub device: Option<DeviceId>,
    /// The process. Ids, names and times of two ranks in one file are unrelated.
    pub process: ProcessId,
}

impl Annotation {
    /// Returns the end time.
    pub fn end(&self) -> Ns {
        self.start.after(self.duration)
    }
}

/// The code of a trace while it is read: rows in the order of the file, joined by ids.
#[derive(Debug, Default)]
pub(super) struct CodeBuilder {
    pub(super) code: HostCode,
    /// Parallel to the calls: external id, or [`NONE`].
    pub(super) call_ids: Vec<u32>,
    /// Parallel to the frames: the id of the frame in the trace, or [`NONE`].
    frame_ids: Vec<u32>,
}

/// The ids of a Python frame in the trace, or [`NONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameIds {
    /// The frame's own id.
    pub id: u32,
    /// The id of its caller.
    pub parent: u32,
}

impl CodeBuilder {
    pub(super) fn frame(&mut self, frame: Span, ids: FrameIds) {
        self.code.frames.push(frame);
        self.code.frame_parents.push(ids.parent);
        self.frame_ids.push(ids.id);
    }

    /// Sorts the tables and replaces ids by rows. `launches` yields the call that launched each GPU op.
    pub(super) fn finish(mut self, launches: impl Iterator<Item = Option<CallId>>, threads: &[Thread]) -> HostCode {
        for (id, call) in self.code.op_ids.iter_mut().zip(launches).filter(|(id, _)| **id == NONE) {
            *id = call.and_then(|call| self.call_ids.get(call.0 as usize)).copied().unwrap_or(NONE);
        }
        self.call_ids = Vec::new();
        let code = &mut self.code;
        if let Some(order) = code.cpu_ops.sort_outer_first() {
            reorder(&mut code.cpu_op_ids, &order);
        }
        ordering::sort_by_key(&mut code.annotations, |annotation| annotation.start);
        if code.call_kernels.iter().all(|name| *name == NONE) {
            code.call_kernels = Vec::new();
        }
        self.finish_frames(threads);
        self.code
    }

    fn finish_frames(&mut self, threads: &[Thread]) {
        let code = &mut self.code;
        if let Some(order) = code.frames.sort_outer_first() {
            reorder(&mut code.frame_parents, &order);
            reorder(&mut self.frame_ids, &order);
        }
        let rows = FrameRows::new(&code.frames, std::mem::take(&mut self.frame_ids), threads);
        for (row, (parent, frame)) in code.frame_parents.iter_mut().zip(code.frames.iter()).enumerate() {
            if *parent != NONE {
                *parent = rows.near(row, frame, *parent).unwrap_or_else(|| rows.find(frame, *parent));
            }
        }
    }
}

/// Finds the row of a frame by process and id. Each process numbers its own frames. Ids usually ascend with the start time,
/// so that the frame table itself is sorted by id and needs no index.
struct FrameRows<'a> {
    frames: &'a Spans,
    /// Parallel to `frames`.
    ids: Vec<u32>,
    /// Empty if all threads belong to one process.
    threads: &'a [Thread],
    /// Rows sorted by process and id; empty if `frames` are already in that order.
    sorted_rows: Vec<u32>,
}

impl<'a> FrameRows<'a> {
    fn new(frames: &'a Spans, ids: Vec<u32>, threads: &'a [Thread]) -> Self {
        let is_one_process = threads.windows(2).all(|pair| pair.first().map(process_of) == pair.last().map(process_of));
        let threads = if is_one_process { &[] } else { threads };
        let mut rows = Self { frames, ids, threads, sorted_rows: Vec::new() };
        let count = index(rows.ids.len());
        if !(0..count).is_sorted_by_key(|row| rows.key(row)) {
            let mut sorted_rows: Vec<u32> = (0..count).collect();
            sorted_rows.sort_unstable_by_key(|row| (rows.key(*row), *row));
            rows.sorted_rows = sorted_rows;
        }
        rows
    }

    fn key(&self, row: u32) -> (Option<ProcessId>, u32) {
        let id = self.ids.get(row as usize).copied().unwrap_or(NONE);
        if self.threads.is_empty() {
            return (None, id);
        }
        (self.frames.get(row as usize).and_then(|frame| self.process(frame)), id)
    }

    fn process(&self, frame: Span) -> Option<ProcessId> {
        self.threads.get(frame.thread.0 as usize).map(process_of)
    }

    /// Fast path of [`FrameRows::find`]: guesses that the ids between caller and frame are consecutive, as most are, and
    /// returns the guessed row if it is right.
    fn near(&self, row: usize, frame: Span, caller: u32) -> Option<u32> {
        let distance = self.ids.get(row)?.checked_sub(caller)?;
        let found = index(row).checked_sub(distance).filter(|_| self.sorted_rows.is_empty())?;
        let wanted = (self.process(frame), caller);
        let is_first = found.checked_sub(1).is_none_or(|before| self.key(before) < wanted);
        (is_first && self.key(found) == wanted).then_some(found)
    }

    /// Returns the row of the frame with id `caller` in the process of `frame`, or [`NONE`]. Binary search.
    fn find(&self, frame: Span, caller: u32) -> u32 {
        let wanted = (self.process(frame), caller);
        let row = |rank: u32| self.sorted_rows.get(rank as usize).copied().unwrap_or(rank);
        let (mut low, mut high) = (0, index(self.ids.len()));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.key(row(middle)) < wanted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let found = row(low);
        if self.key(found) == wanted { found } else { NONE }
    }
}

fn process_of(thread: &Thread) -> ProcessId {
    thread.process
}
