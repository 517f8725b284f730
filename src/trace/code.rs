//! Which code launched what: CPU ops, Python frames, annotations, and the ids that lead from a GPU op to them.
//!
//! A reader fills this only when asked to (`Reader::with_code`), because most analyses do without and most of a torch
//! trace is this. Times are on the clock of the GPU ops. About 28 bytes a frame or op.

use super::{DeviceId, NameId, Names, Ns, Spans};

/// No id, no parent.
pub const NONE: u32 = u32::MAX;

/// See the module's head. Tables that are "parallel" have one entry for each entry of the other.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Code {
    /// Ops of the framework on the host (`aten::mm`), sorted by start.
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
    /// name in the trace's names, or [`NONE`]. While a graph is captured such a call launches nothing that runs.
    pub call_kernels: Vec<u32>,
    /// What `distributedInfo` says.
    pub rank: Option<Rank>,
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
}

impl Annotation {
    /// When it ended.
    pub fn end(&self) -> Ns {
        self.start + self.duration
    }
}

/// Which process of a distributed job wrote the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rank {
    /// Its number.
    pub rank: u32,
    /// How many there are.
    pub world_size: u32,
}
