//! The model every format becomes: interned names, integer nanoseconds, columns of GPU ops, API calls and ranges, the
//! devices, processes and threads they belong to.
//!
//! A [`Trace`] knows no file format. Readers fill a [`TraceBuilder`]; [`TraceBuilder::finish`] sorts each table once,
//! by start and among equal starts by their place in the file, joins every op with the call that launched it, and
//! nothing changes them afterwards. Columns cost 24 bytes a GPU op, 20 a call or range.

mod code;
mod columns;
mod correlation;
mod database_info;
mod import_problems;
mod names;
mod ops;
mod optional_tables;
mod places;
mod spans;
#[cfg(test)]
pub(crate) mod testing;
mod time;
mod window;

pub use code::{Annotation, Code, FrameIds, NONE};
pub use database_info::{DatabaseInfo, TableInfo};
pub use import_problems::{ImportProblem, ImportProblems, ProblemKind};
pub use names::{NameId, Names};
pub use ops::{GpuOp, GpuOps, GroupedOp, OpKind, is_plausible};
pub use optional_tables::{Collective, GraphReplay, HostWait, Job, MetricSeries, ProcessGroup};
pub use places::{DeviceId, Places};
pub use spans::{Span, Spans};
pub(crate) use time::leading_whole;
pub use time::{Ns, Window};
pub use window::{Cut, Kept};

use crate::json::from_json;
use crate::ordering::StableSort;
use code::CodeBuilder;
use columns::{index, reorder};
use correlation::CallsByCorrelation;
use foldhash::fast::RandomState;
use ops::UNLINKED;
use serde::Serialize;
use std::collections::HashMap;

/// Whether this build can keep the code that launched the work: the page's first module cannot.
pub(crate) const CODE_IS_BUILT: bool = cfg!(any(not(target_arch = "wasm32"), feature = "desk"));

/// The formats a trace can come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// torch.profiler (Kineto) JSON.
    TorchProfiler,
    /// The CSV of `nsys stats -r cuda_gpu_trace`.
    NsysGpuTraceCsv,
    /// The SQLite export of an Nsight Systems report.
    NsysSqlite,
    /// The report of nsys-llm-explainer: tables without a trace.
    NsysLlmExplainer,
}
from_json!(Format =
    "torch_profiler" => TorchProfiler,
    "nsys_gpu_trace_csv" => NsysGpuTraceCsv,
    "nsys_sqlite" => NsysSqlite,
    "nsys_llm_explainer" => NsysLlmExplainer
);

/// The index of a process in a trace. A trace that does not tell processes apart has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ProcessId(pub u32);

/// The index of a thread in a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId(pub u32);

/// The index of a call in [`Trace::calls`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u32);

/// One process of the capture; in a file of merged ranks, one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// As the operating system numbers it; -1 where the trace does not tell.
    pub pid: i64,
    /// The program's name or the rank's label; empty where the trace does not tell.
    pub name: String,
}

/// One thread of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Thread {
    /// Whose it is.
    pub process: ProcessId,
    /// As the operating system numbers it.
    pub tid: i64,
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
    /// Indexed by [`ProcessId`], in order of appearance.
    pub processes: Vec<Process>,
    /// Indexed by [`ThreadId`], in order of appearance.
    pub threads: Vec<Thread>,
    /// Calls of the CUDA or HIP runtime and driver, indexed by [`CallId`].
    pub calls: Spans,
    /// Ranges that the program marked: NVTX ranges, torch's user annotations.
    pub ranges: Spans,
    /// Bytes moved by copies and sets that tell: index of the op and bytes, by index.
    pub bytes: Vec<(u32, u64)>,
    /// What is known of collectives beyond their kernels: index of the op and its message, by index.
    pub collectives: Vec<(u32, Collective)>,
    /// CUDA graphs that were traced as a whole, which hides their kernels; sorted by start.
    pub graph_replays: Vec<GraphReplay>,
    /// Waiting in the operating system, summed per process and call.
    pub host_waits: Vec<HostWait>,
    /// Sampled hardware counters that an analysis asks for.
    pub metrics: Vec<MetricSeries>,
    /// Which rank of which job wrote it, where it tells.
    pub job: Option<Box<Job>>,
    /// Which code launched what, where the reader was asked for it.
    pub code: Option<Box<Code>>,
    /// Events that were counted and not kept.
    pub events: EventCounts,
    /// Names that tell which serving engine ran: distinct annotations and Python frames, a bounded sample.
    pub engine_hints: EngineHints,
    /// What the reader met.
    pub problems: ImportProblems,
    /// Where this is a part of a trace: which.
    pub cut: Option<Cut>,
    /// And what it keeps of it.
    pub kept: Option<Box<Kept>>,
}

/// A bounded sample of names that tell which serving engine ran.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EngineHints {
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
    process_ids: HashMap<(i64, String), ProcessId, RandomState>,
    thread_ids: HashMap<Thread, ThreadId, RandomState>,
    /// Parallel to the calls.
    correlations: Vec<u32>,
    code: Option<Box<CodeBuilder>>,
    is_linked: bool,
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
                processes: Vec::new(),
                threads: Vec::new(),
                calls: Spans::default(),
                ranges: Spans::default(),
                bytes: Vec::new(),
                collectives: Vec::new(),
                graph_replays: Vec::new(),
                host_waits: Vec::new(),
                metrics: Vec::new(),
                job: None,
                code: None,
                events: EventCounts::default(),
                engine_hints: EngineHints::default(),
                problems: ImportProblems::default(),
                cut: None,
                kept: None,
            },
            device_ids: Names::default(),
            process_ids: HashMap::default(),
            thread_ids: HashMap::default(),
            correlations: Vec::new(),
            code: None,
            is_linked: false,
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

    /// The process of this number and name, new or known.
    pub fn process(&mut self, pid: i64, name: &str) -> ProcessId {
        let processes = &mut self.trace.processes;
        *self.process_ids.entry((pid, name.to_owned())).or_insert_with(|| {
            processes.push(Process { pid, name: name.to_owned() });
            ProcessId(index(processes.len() - 1))
        })
    }

    /// The thread of this process and number, new or known.
    pub fn thread(&mut self, process: ProcessId, tid: i64) -> ThreadId {
        let (threads, thread) = (&mut self.trace.threads, Thread { process, tid });
        *self.thread_ids.entry(thread).or_insert_with(|| {
            threads.push(thread);
            ThreadId(index(threads.len() - 1))
        })
    }

    /// Makes room for so many more calls, exactly.
    pub fn reserve_calls(&mut self, more: usize) {
        self.trace.calls.reserve(more);
        self.correlations.reserve_exact(more);
    }

    /// Adds a call; ops of the same process and correlation id are its work.
    pub fn call(&mut self, call: Span, correlation: Option<u32>) {
        self.trace.calls.push(call);
        self.correlations.push(correlation.unwrap_or(UNLINKED));
    }

    /// Adds what moved the bytes of the op that was pushed last.
    pub fn bytes_of_last_op(&mut self, bytes: u64) {
        let last = index(self.trace.gpu_ops.len().saturating_sub(1));
        self.trace.bytes.push((last, bytes));
    }

    /// Adds what is known of the collective whose kernel was pushed last.
    pub fn collective_of_last_op(&mut self, collective: Collective) {
        let last = index(self.trace.gpu_ops.len().saturating_sub(1));
        self.trace.collectives.push((last, collective));
    }

    /// Keeps which code launched what. To be called before the first op and call, of which ids are kept from then on.
    pub fn keep_code(&mut self) {
        self.code = Some(Box::default());
    }

    /// Sets the external id of the GPU op that was pushed last.
    pub fn code_of_last_op(&mut self, id: u32) {
        if let Some(code) = &mut self.code {
            code.code.op_ids.resize(self.trace.gpu_ops.len(), NONE);
            code.code.op_ids.last_mut().into_iter().for_each(|last| *last = id);
        }
    }

    /// Sets the external id of the call that was pushed last, and the kernel it says it launches.
    pub fn code_of_last_call(&mut self, id: u32, kernel: Option<NameId>) {
        if let Some(code) = &mut self.code {
            for (column, value) in
                [(&mut code.call_ids, id), (&mut code.code.call_kernels, kernel.map_or(NONE, |name| name.0))]
            {
                column.resize(self.trace.calls.len(), NONE);
                column.last_mut().into_iter().for_each(|last| *last = value);
            }
        }
    }

    /// Adds an op of the framework on the host; its name is in the names of [`Code::cpu_ops`].
    pub fn cpu_op(&mut self, op: Span, id: u32) {
        if let Some(code) = &mut self.code {
            code.code.cpu_ops.push(op);
            code.code.cpu_op_ids.push(id);
        }
    }

    /// Adds a Python frame; its name is in the names of [`Code::frames`].
    pub fn frame(&mut self, frame: Span, ids: FrameIds) {
        if let Some(code) = &mut self.code {
            code.frame(frame, ids);
        }
    }

    /// The code so far, where it is kept.
    pub fn code(&mut self) -> Option<&mut Code> {
        self.code.as_mut().map(|code| &mut code.code)
    }

    /// Joins ops with their launches. To be called once all ops and calls are there: a reader that has much else to read
    /// does it early, because it needs memory and frees some.
    pub fn link(&mut self) {
        self.sort_ops();
        let calls = &mut self.trace.calls;
        if let Some(order) = calls.sort_by_start() {
            reorder(&mut self.correlations, &order);
            if let Some(code) = &mut self.code {
                reorder(&mut code.call_ids, &order);
                reorder(&mut code.code.call_kernels, &order);
            }
        }
        let (threads, processes) = (&self.trace.threads, self.trace.processes.len());
        let launches = CallsByCorrelation::new(&self.trace.calls, &self.correlations, threads, processes);
        self.correlations = Vec::new();
        self.trace.gpu_ops.link(|process, id| launches.call(process, id));
        self.is_linked = true;
    }

    /// Sorts the tables and the devices and joins ops with their launches; the trace is complete.
    pub fn finish(mut self) -> Trace {
        if !self.is_linked {
            self.link();
        }
        self.trace.code = self
            .code
            .take()
            .filter(|_| CODE_IS_BUILT)
            .map(|code| Box::new(code.finish(self.trace.gpu_ops.launches(), &self.trace.threads)));
        self.sort_devices();
        self.trace.ranges.sort_by_start();
        self.trace.graph_replays.order_by_key(|replay| replay.start);
        self.trace
    }

    /// Sorts the ops once all are there: a reader that has much else to read may do it early, while memory is free.
    pub fn sort_ops(&mut self) {
        let Some(order) = self.trace.gpu_ops.sort_by_start() else { return };
        if let Some(code) = &mut self.code {
            reorder(&mut code.code.op_ids, &order);
        }
        if self.trace.bytes.is_empty() && self.trace.collectives.is_empty() {
            return;
        }
        let mut place = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            if let Some(slot) = place.get_mut(old as usize) {
                *slot = index(new);
            }
        }
        drop(order);
        let now = |old: u32| place.get(old as usize).copied().unwrap_or(old);
        self.trace.bytes.iter_mut().for_each(|entry| entry.0 = now(entry.0));
        self.trace.bytes.order_by_key(|entry| entry.0);
        self.trace.collectives.iter_mut().for_each(|entry| entry.0 = now(entry.0));
        self.trace.collectives.order_by_key(|entry| entry.0);
    }

    fn sort_devices(&mut self) {
        let mut order: Vec<usize> = (0..self.trace.devices.len()).collect();
        let key = |index: &usize| self.trace.devices.get(*index).map(|device| natural_key(&device.id));
        order.order_by_key(key);
        let mut rank = vec![DeviceId(0); order.len()];
        for (new, &old) in order.iter().enumerate() {
            if let Some(slot) = rank.get_mut(old) {
                *slot = DeviceId(index(new));
            }
        }
        self.trace.devices = order.iter().filter_map(|&old| self.trace.devices.get(old).cloned()).collect();
        let renumbered = |device: DeviceId| rank.get(device.0 as usize).copied().unwrap_or(device);
        self.trace.gpu_ops.renumber_devices(&rank);
        self.trace.graph_replays.iter_mut().for_each(|replay| replay.device = renumbered(replay.device));
        self.trace.metrics.iter_mut().for_each(|series| series.device = series.device.map(renumbered));
        let annotations = self.trace.code.iter_mut().flat_map(|code| &mut code.annotations);
        annotations.for_each(|annotation| annotation.device = annotation.device.map(renumbered));
    }
}

/// Sorts `2` before `10`: text with its last run of digits as a number.
fn natural_key(id: &str) -> (String, u64) {
    let digits = id.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (head, tail) = id.split_at(id.len() - digits);
    (head.to_owned(), tail.parse().unwrap_or(u64::MAX))
}
