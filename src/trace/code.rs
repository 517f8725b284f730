//! Which code launched what: CPU ops, Python frames, annotations, and the ids that lead from a GPU op to them.
//!
//! A reader fills this only when asked to (`Reader::with_code`), because most analyses do without and most of a torch
//! trace is this. Times are on the clock of the GPU ops. About 28 bytes a frame or op.

use super::columns::{index, reorder};
use super::{CallId, DeviceId, NameId, Names, Ns, ProcessId, Span, Spans, Thread};
use crate::ordering::StableSort;

/// No id, no parent.
pub const NONE: u32 = u32::MAX;

/// See the module's head. Tables that are "parallel" have one entry for each entry of the other.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Code {
    /// Ops of the framework on the host (`aten::mm`), sorted by start, of equal starts the longer first.
    pub cpu_ops: Spans,
    /// Parallel to `cpu_ops`: the external id of each, or [`NONE`].
    pub cpu_op_ids: Vec<u32>,
    /// Python frames (`vllm/v1/worker/gpu_worker.py(12): load`), sorted by start, of equal starts the longer first.
    pub frames: Spans,
    /// Parallel to `frames`: the place of the calling frame where the trace tells it, or [`NONE`].
    pub frame_parents: Vec<u32>,
    /// Parallel to the GPU ops of the trace: the external id of each, its own or that of the call with its correlation
    /// id, or [`NONE`].
    pub op_ids: Vec<u32>,
    /// Annotations of host and device, sorted by start.
    pub annotations: Vec<Annotation>,
    /// Texts of the annotations.
    pub annotation_names: Names,
    /// Parallel to the calls of the trace where any of them names the kernel it launches (AMD's do), empty otherwise: that
    /// name in `kernel_names`, or [`NONE`]. While a graph is captured such a call launches nothing that runs.
    pub call_kernels: Vec<u32>,
    /// Names of kernels as calls tell them.
    pub kernel_names: Names,
}

/// What a program or its framework marked: `step[DECODE bs=16]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Annotation {
    /// When it began.
    pub start: Ns,
    /// How long it took.
    pub duration: Ns,
    /// Its text, in [`Code::annotation_names`].
    pub name: NameId,
    /// Its external id, or [`NONE`].
    pub id: u32,
    /// The device for the device's twin of an annotation, `None` for the host's.
    pub device: Option<DeviceId>,
    /// Whose it is: ids, names and times of two ranks in one file have nothing to do with each other.
    pub process: ProcessId,
}

impl Annotation {
    /// When it ended.
    pub fn end(&self) -> Ns {
        self.start.after(self.duration)
    }
}

/// The code of a trace while it is read: what ids link, and rows in any order.
#[derive(Debug, Default)]
pub(super) struct CodeBuilder {
    pub(super) code: Code,
    /// Parallel to the calls.
    pub(super) call_ids: Vec<u32>,
    /// Parallel to the frames: the id of each and of its caller as the trace numbers them.
    frame_ids: Vec<u32>,
}

/// A Python frame's ids as the trace numbers them, or [`NONE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameIds {
    /// Its own.
    pub id: u32,
    /// Its caller's.
    pub parent: u32,
}

impl CodeBuilder {
    pub(super) fn frame(&mut self, frame: Span, ids: FrameIds) {
        self.code.frames.push(frame);
        self.code.frame_parents.push(ids.parent);
        self.frame_ids.push(ids.id);
    }

    /// Sorts the tables and puts places in the place of ids; `launches` gives the call that launched each GPU op.
    pub(super) fn finish(mut self, launches: impl Iterator<Item = Option<CallId>>, threads: &[Thread]) -> Code {
        for (id, call) in self.code.op_ids.iter_mut().zip(launches).filter(|(id, _)| **id == NONE) {
            *id = call.and_then(|call| self.call_ids.get(call.0 as usize)).copied().unwrap_or(NONE);
        }
        self.call_ids = Vec::new();
        let code = &mut self.code;
        if let Some(order) = code.cpu_ops.sort_outer_first() {
            reorder(&mut code.cpu_op_ids, &order);
        }
        code.annotations.order_by_key(|annotation| annotation.start);
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
        let places = Places::new(&code.frames, std::mem::take(&mut self.frame_ids), threads);
        for (at, (parent, frame)) in code.frame_parents.iter_mut().zip(code.frames.iter()).enumerate() {
            if *parent != NONE {
                *parent = places.near(at, frame, *parent).unwrap_or_else(|| places.of(frame, *parent));
            }
        }
    }
}

/// Where the frame of an id stands. Each process numbers its own; ids mostly count up in the order of starts, and then
/// need no table of their own.
struct Places<'a> {
    frames: &'a Spans,
    ids: Vec<u32>,
    /// Empty where all are of one process.
    threads: &'a [Thread],
    /// Empty where `ids` count up.
    by_id: Vec<u32>,
}

impl<'a> Places<'a> {
    fn new(frames: &'a Spans, ids: Vec<u32>, threads: &'a [Thread]) -> Self {
        let is_one_process = threads.windows(2).all(|pair| pair.first().map(process_of) == pair.last().map(process_of));
        let threads = if is_one_process { &[] } else { threads };
        let mut places = Self { frames, ids, threads, by_id: Vec::new() };
        let count = index(places.ids.len());
        if !(0..count).is_sorted_by_key(|at| places.key(at)) {
            let mut by_id: Vec<u32> = (0..count).collect();
            by_id.sort_unstable_by_key(|at| (places.key(*at), *at));
            places.by_id = by_id;
        }
        places
    }

    /// Process and id of the frame at this place.
    fn key(&self, at: u32) -> (Option<ProcessId>, u32) {
        let id = self.ids.get(at as usize).copied().unwrap_or(NONE);
        if self.threads.is_empty() {
            return (None, id);
        }
        (self.frames.get(at as usize).and_then(|frame| self.process(frame)), id)
    }

    fn process(&self, frame: Span) -> Option<ProcessId> {
        self.threads.get(frame.thread.0 as usize).map(process_of)
    }

    /// The place of the caller where all ids between it and this frame are counted without a gap, as most are.
    fn near(&self, at: usize, frame: Span, caller: u32) -> Option<u32> {
        let above = self.ids.get(at)?.checked_sub(caller)?;
        let found = index(at).checked_sub(above).filter(|_| self.by_id.is_empty())?;
        let wanted = (self.process(frame), caller);
        let is_first = found.checked_sub(1).is_none_or(|before| self.key(before) < wanted);
        (is_first && self.key(found) == wanted).then_some(found)
    }

    /// The place of the caller with this id of a frame, or [`NONE`].
    fn of(&self, frame: Span, caller: u32) -> u32 {
        let wanted = (self.process(frame), caller);
        let place = |rank: u32| {
            if self.by_id.is_empty() { rank } else { self.by_id.get(rank as usize).copied().unwrap_or(NONE) }
        };
        let (mut low, mut high) = (0, index(self.ids.len()));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.key(place(middle)) < wanted {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        let found = place(low);
        if self.key(found) == wanted { found } else { NONE }
    }
}

fn process_of(thread: &Thread) -> ProcessId {
    thread.process
}
