//! The model every format becomes: interned names, integer nanoseconds, columns of GPU ops, devices.
//!
//! A [`Trace`] knows no file format. Readers fill a [`TraceBuilder`]; [`TraceBuilder::finish`] sorts the ops once,
//! by start and among equal starts by their place in the file, and nothing changes them afterwards.

mod names;
mod ops;
mod problems;
mod time;

pub use names::{NameId, Names};
pub use ops::{DeviceId, GpuOp, GpuOps, OpKind, is_plausible};
pub use problems::{Problem, ProblemKind, Problems};
pub use time::Ns;

use serde::{Deserialize, Serialize};

/// The formats a trace can come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// torch.profiler (Kineto) JSON.
    TorchProfiler,
    /// The CSV of `nsys stats -r cuda_gpu_trace`.
    NsysGpuTraceCsv,
}

/// One GPU, as the trace numbers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// `0`, or `[TP00] 0` in a file of merged ranks.
    pub id: String,
    /// The product name; empty where the trace does not tell.
    pub name: String,
}

/// How many events of the kinds that are counted, not kept, a trace holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventCounts {
    /// CPU ops, runtime and driver calls, annotations and Python frames; only what has a duration.
    pub cpu: u64,
    /// Python frames alone.
    pub python_frames: u64,
    /// Everything else: metadata, flows, instants, counters.
    pub other: u64,
}

/// One trace in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// What to call it: the file's base name.
    pub label: String,
    /// What it was read from.
    pub format: Format,
    /// Distinct op names.
    pub names: Names,
    /// Kernels, copies and sets, sorted by start, then by place in the file.
    pub gpu_ops: GpuOps,
    /// Indexed by [`DeviceId`], sorted by id.
    pub devices: Vec<Device>,
    /// Events that were counted and not kept.
    pub events: EventCounts,
    /// Names that tell which serving engine ran: distinct annotations and Python frames, a bounded sample.
    pub clues: Clues,
    /// What the reader met.
    pub problems: Problems,
}

/// A bounded sample of names that tell which serving engine ran.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Clues {
    /// Distinct names of annotations (`step[DECODE bs=16]`).
    pub annotations: Names,
    /// Distinct names of Python frames (`vllm/v1/worker/gpu_worker.py(12): load`).
    pub python_frames: Names,
}

/// A trace while it is read.
#[derive(Debug)]
pub struct TraceBuilder {
    /// The trace so far; ops unsorted, devices in order of appearance.
    pub trace: Trace,
    device_ids: Names,
}

impl TraceBuilder {
    /// An empty trace of this format.
    pub fn new(label: &str, format: Format) -> Self {
        Self {
            trace: Trace {
                label: label.to_owned(),
                format,
                names: Names::default(),
                gpu_ops: GpuOps::default(),
                devices: Vec::new(),
                events: EventCounts::default(),
                clues: Clues::default(),
                problems: Problems::default(),
            },
            device_ids: Names::default(),
        }
    }

    /// The device with this id, new or known.
    pub fn device(&mut self, id: &str, name: &str) -> DeviceId {
        let NameId(index) = self.device_ids.intern(id);
        if index as usize == self.trace.devices.len() {
            self.trace.devices.push(Device { id: id.to_owned(), name: name.to_owned() });
        }
        DeviceId(index)
    }

    /// Sorts ops and devices; the trace is complete.
    pub fn finish(mut self) -> Trace {
        let mut order: Vec<usize> = (0..self.trace.devices.len()).collect();
        let key = |index: &usize| self.trace.devices.get(*index).map(|device| natural_key(&device.id));
        order.sort_by_key(key);
        let mut rank = vec![DeviceId(0); order.len()];
        for (new, &old) in order.iter().enumerate() {
            if let Some(slot) = rank.get_mut(old) {
                *slot = DeviceId(u32::try_from(new).unwrap_or(u32::MAX));
            }
        }
        self.trace.devices = order.iter().filter_map(|&old| self.trace.devices.get(old).cloned()).collect();
        self.trace.gpu_ops.renumber_devices(&rank);
        self.trace.gpu_ops.sort_by_start();
        self.trace
    }
}

/// Sorts `2` before `10`: text with its last run of digits as a number.
fn natural_key(id: &str) -> (String, u64) {
    let digits = id.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (head, tail) = id.split_at(id.len() - digits);
    (head.to_owned(), tail.parse().unwrap_or(u64::MAX))
}
