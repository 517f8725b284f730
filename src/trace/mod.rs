//! The data model: column tables of GPU ops, API calls and ranges, with interned names and integer nanoseconds.
//!
//! A [`Trace`] is independent of the file format. A reader fills a [`TraceBuilder`]. [`TraceBuilder::finish`] sorts each table
//! by start, stably, and joins every GPU op with the call that launched it; after that the trace is immutable. Cost: O(n) for
//! sorted input, O(n log n) otherwise. A GPU op takes 24 bytes, 28 with its [`LaunchConfig`], a call or range 20.

mod blocking_sites;
mod captured_graphs;
mod category_evidence;
mod clock_lag;
mod clock_leads;
mod code;
mod code_timelines;
mod columns;
mod correlation;
mod database_info;
mod duplicates;
mod first_launches;
mod format;
mod host_times;
mod import_problems;
mod impossible_times;
mod late_code;
mod launch_code;
mod launch_configs;
mod merged_processes;
mod names;
mod node_notes;
mod op_rows;
mod ops;
mod optional_tables;
mod packed_code;
mod request_waits;
mod shaped_ops;
mod spans;
mod start_ups;
#[cfg(test)]
pub(crate) mod testing;
mod time;
mod training_code;
mod units;
mod unrecorded_work;
mod window;

pub(crate) use blocking_sites::without_install_folder;
pub use blocking_sites::{BlockingSite, BlockingSites, HostInterval, MAX_LOCATED_CALLS, SiteId};
pub use captured_graphs::{
    CaptureOutcome, CaptureProof, Captured, CapturedExecution, CapturedGraphs, CapturedOp, CapturedSite, JoinedCapture,
    Unjoined, UnjoinedReplays, UnusableCapture,
};
pub use category_evidence::{CategoryEvidence, CategorySource, EvidenceByName};
pub use clock_leads::ClockLead;
pub use code::{Annotation, FrameIds, HostCode, NONE};
pub use code_timelines::{CodeTimeline, CodeTimelines, RunningCode};
pub use database_info::{DatabaseInfo, TableInfo};
pub use first_launches::{FirstLaunches, SLOW_FIRST_LAUNCH};
pub use format::{Format, Profiler, Vendor};
pub use host_times::HostTimes;
pub(crate) use host_times::HostTimesCursor;
pub use import_problems::{ImportProblem, ImportProblems, ProblemKind};
pub use late_code::{CodeTime, LateCode, MAX_LATE_INTERVALS};
pub use launch_code::{CodeOfLaunch, LaunchCode};
pub use launch_configs::{LaunchConfig, LaunchConfigs};
pub use merged_processes::OpSources;
pub use names::{NameId, Names};
pub use node_notes::{NodeNote, NodeNotes};
pub use op_rows::{DeviceId, OpRows};
pub use ops::{GpuOp, GpuOps, GroupedOp, OpKind, is_plausible};
pub use optional_tables::{
    ALLOCATED_MEMORY, Collective, GraphReplay, HostWait, Job, MemoryTraffic, MetricSeries, NO_SOURCE, ProcessGroup,
};
pub use packed_code::{CodeEvent, CodeKind, LongestCode, PackedCode};
pub use request_waits::RequestWaits;
pub use shaped_ops::{Argument, Element, MAX_SHAPED_OPS, MAX_SHAPES, OpShape, ShapedOp, ShapedOps};
pub use spans::{Span, Spans};
pub use start_ups::{LoadSum, StartUp, StartUps};
pub(crate) use time::leading_integer;
pub use time::{Ns, Window};
pub use training_code::TrainingCode;
pub use units::{AtMs, Fraction, MeanNs, Ms, Pct, Seconds, Us};
pub use unrecorded_work::{
    CallRole, LostLaunches, OutlastingWait, OutlastingWaits, USUAL_RETURN, UnrecordedWork, WaitEnd, may_wait_for_host,
};
pub use window::{Cut, Kept};

use crate::ordering;
use code::CodeBuilder;
use columns::{index, reorder};
use correlation::CallsByCorrelation;
use foldhash::fast::RandomState;
use impossible_times::{Evidence, ImpossibleOps, begins_at_zero};
use names::NameRemap;
use ops::UNLINKED;
use std::collections::HashMap;
use std::sync::Arc;
use time::is_zero;

/// True if this build keeps host code. The page's first WebAssembly module does not, because it has to be small and computes no
/// sections.
pub(crate) const CODE_IS_BUILT: bool = cfg!(any(not(target_arch = "wasm32"), feature = "full"));

/// The index of a process in [`Trace::processes`]. If a trace does not record processes, all rows belong to one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ProcessId(pub u32);

/// The index of a thread in [`Trace::threads`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ThreadId(pub u32);

/// The index of a call in [`Trace::calls`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u32);

/// One process of the capture; in a file of merged ranks, one rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// Process id of the operating system; -1 if not recorded.
    pub pid: i64,
    /// Name of the program or label of the rank; empty if not recorded.
    pub name: String,
}

/// One thread of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Thread {
    /// The process of the thread.
    pub process: ProcessId,
    /// Thread id of the operating system; -1 if not recorded.
    pub tid: i64,
}

/// One GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Device {
    /// Id in the trace: `0`, or `[TP00] 0` or `[1000] 0` in a file of merged ranks.
    pub id: String,
    /// Product name; empty if not recorded.
    pub name: String,
    /// Figures of the hardware.
    pub properties: DeviceProperties,
}

/// Figures of a GPU, as far as the trace records them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DeviceProperties {
    /// CUDA compute capability, ten times the major number plus the minor one: 90 for 9.0. `None` for GPUs of other makers.
    pub capability: Option<u32>,
    /// Number of streaming multiprocessors or compute units.
    pub multiprocessors: Option<u32>,
    /// Size of the memory.
    pub memory_bytes: Option<u64>,
}

/// Numbers of events that are counted but not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventCounts {
    /// Host events with a duration: CPU ops, runtime and driver calls, annotations and Python frames.
    pub cpu: u64,
    /// Python frames, which `cpu` includes.
    pub python_frames: u64,
    /// All other events: metadata, flows, instants, counters.
    pub other: u64,
    /// Calls that begin to capture a CUDA graph, which `cpu` includes. Equal ones are counted once.
    pub graph_captures: u64,
}

/// One trace in memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trace {
    /// Base name of the file.
    pub label: String,
    /// Format of the file.
    pub format: Format,
    /// Distinct names of GPU ops.
    pub names: Names,
    /// How far ops start before their launch, by device. A window has those of the whole trace.
    pub clock_leads: Vec<ClockLead>,
    /// By how much the ops were moved back, because the clock of their device was late. A window has that of the whole trace.
    pub clock_lag: Ns,
    /// Kernels, copies and sets, sorted by start; equal starts keep the order of the file.
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
    /// Size of copies and sets, if recorded: row of the op and bytes, sorted by row.
    pub bytes: Vec<(u32, u64)>,
    /// Messages of collectives, if recorded: row of the op and its message, sorted by row.
    pub collectives: Vec<(u32, Collective)>,
    /// Memory traffic of kernels, if it was counted for each: row of the op and traffic, sorted by row.
    pub memory_traffic: Vec<(u32, MemoryTraffic)>,
    /// What the program wrote about the nodes of graphs that the ops replay, if recorded.
    pub node_notes: NodeNotes,
    /// How the kernels were launched, if recorded and read by this build.
    pub launch_configs: LaunchConfigs,
    /// CUDA graphs that were traced as a whole, without their kernels; sorted by start.
    pub graph_replays: Vec<GraphReplay>,
    /// Waits in the operating system, summed by process and call.
    pub host_waits: Vec<HostWait>,
    /// Sampled counters: those of the hardware that `patterns/signals.json` lists, and the memory that torch's allocator had handed out.
    pub metrics: Vec<MetricSeries>,
    /// The distributed job and the rank that wrote the trace, if recorded.
    pub job: Option<Box<Job>>,
    /// The code that launched the GPU work, if it was requested.
    pub code: Option<Box<HostCode>>,
    /// All CPU ops and Python functions, compressed, until [`crate::session::open`] has taken what reports need; in the page, as
    /// long as the trace.
    pub packed_code: Option<Box<PackedCode>>,
    /// The code around the blocking calls that drained a GPU, if it was looked up.
    pub blocking_sites: Arc<BlockingSites>,
    /// When host threads compiled code, if it was looked up.
    pub compilations: Arc<HostTimes>,
    /// Times in which the profiler worked for itself, of kinds that hold a thread, until [`Self::profiler_pauses`] is looked up.
    pub profiler_overheads: Vec<(Ns, Ns)>,
    /// When the profiler held host threads, if it was looked up. A window has the pauses of the whole trace.
    pub profiler_pauses: Arc<HostTimes>,
    /// When nothing was recorded, as between two captures in one file: sorted and disjoint, if it was looked up. A window has those of the
    /// whole trace.
    pub recording_holes: Arc<Vec<(Ns, Ns)>>,
    /// When a serving engine had no request, if it was looked up.
    pub request_waits: Arc<RequestWaits>,
    /// When host threads ran the parts of a training step, if CPU ops tell and it was looked up. A window has those of the whole trace.
    pub training: Arc<TrainingCode>,
    /// Work that the trace does not contain, if it was looked up.
    pub unrecorded_work: UnrecordedWork,
    /// The calls whose op was taken out because its time cannot be true, sorted. Not in a part of the trace.
    pub launches_of_dropped_ops: Vec<CallId>,
    /// Launches that loaded code or initialised a device.
    pub first_launches: FirstLaunches,
    /// The processes that are seen starting, if it was looked up. A window has those of the whole trace.
    pub start_ups: Option<Arc<StartUps>>,
    /// Python frames in which a serving engine runs one step, sorted by start. A window has those of the whole trace.
    pub step_frames: Arc<Spans>,
    /// The code on launching threads while a GPU waited, if it was looked up.
    pub late_code: Arc<LateCode>,
    /// The code around launches of kernels whose names do not tell their category, if it was looked up. A window has that of the
    /// whole trace.
    pub launch_code: Arc<LaunchCode>,
    /// Which code runs when on launching threads, in the part of the trace that is replayed, if it was looked up.
    pub code_timelines: Option<Arc<CodeTimelines>>,
    /// The framework ops with known shapes, if the profiler recorded them.
    pub shaped_ops: Arc<ShapedOps>,
    /// The ops that graphs replay, if the traces of their captures were read too.
    pub captured_graphs: CapturedGraphs,
    /// Events that were counted but not stored.
    pub events: EventCounts,
    /// Evidence of the serving engine.
    pub engine_hints: EngineHints,
    /// Evidence of the categories of GPU ops.
    pub category_evidence: CategoryEvidence,
    /// The variables of the environment in the file.
    pub environment: Environment,
    /// Input that the reader could not use.
    pub problems: ImportProblems,
    /// Warnings and errors that the profiler wrote into the file, if it has no GPU op.
    pub diagnostics: Vec<String>,
    /// For a part of a trace: the time window and what it cut.
    pub cut: Option<Cut>,
    /// For a part of a trace: the rows of the whole trace that it keeps.
    pub kept: Option<Box<Kept>>,
}

/// How many variables of the environment a file contains: whoever shares it shares their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Environment {
    /// The number of variables.
    pub variables: u64,
    /// Those with a name such as `TOKEN` or `PASSWORD`.
    pub like_secrets: u64,
}

impl std::ops::AddAssign for Environment {
    fn add_assign(&mut self, other: Self) {
        self.variables += other.variables;
        self.like_secrets += other.like_secrets;
    }
}

/// A bounded sample of names from which the serving engine is guessed.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct EngineHints {
    /// Distinct names of annotations (`step[DECODE bs=16]`).
    pub annotations: Names,
    /// Distinct names of Python frames (`vllm/v1/worker/gpu_worker.py(12): load`).
    pub python_frames: Names,
}

/// A trace while it is read.
#[derive(Debug, Default)]
pub struct TraceBuilder {
    /// The rows read so far: ops in the order of the file, devices in the order of appearance.
    pub trace: Trace,
    device_ids: Names,
    process_ids: HashMap<(i64, String), ProcessId, RandomState>,
    thread_ids: HashMap<Thread, ThreadId, RandomState>,
    /// Parallel to the calls: correlation id.
    correlations: Vec<u32>,
    /// Parallel to the graph replays: process and correlation id.
    replay_ids: Vec<(ProcessId, u32)>,
    code: Option<Box<CodeBuilder>>,
    /// The time that the profiler recorded, if the file says it.
    recorded: Option<Window>,
    is_linked: bool,
    has_dropped_ops: bool,
}

impl TraceBuilder {
    /// Creates an empty trace of this format.
    pub fn new(label: &str, format: Format) -> Self {
        Self { trace: Trace { label: label.to_owned(), format, ..Trace::default() }, ..Self::default() }
    }

    /// Adds a time that the profiler recorded, as the file says it: nothing can be far outside of all of them.
    pub fn add_recorded(&mut self, start: Ns, end: Ns) {
        if start < end && is_plausible(start, end.since(start)) {
            let recorded = self.recorded.get_or_insert(Window { start, end });
            *recorded = Window { start: recorded.start.min(start), end: recorded.end.max(end) };
        }
    }

    /// Returns the device with this id, adding it if it is new.
    pub fn device(&mut self, id: &str, name: &str) -> DeviceId {
        let NameId(index) = self.device_ids.intern(id);
        if index as usize == self.trace.devices.len() {
            let (id, name) = (id.to_owned(), name.to_owned());
            self.trace.devices.push(Device { id, name, properties: DeviceProperties::default() });
        }
        DeviceId(index)
    }

    /// The device with this id, if it was added.
    pub fn existing_device(&self, id: &str) -> Option<DeviceId> {
        self.device_ids.find(id).map(|NameId(index)| DeviceId(index))
    }

    /// Sets the hardware figures of a device.
    pub fn set_properties(&mut self, device: DeviceId, properties: DeviceProperties) {
        let device = self.trace.devices.get_mut(device.0 as usize);
        device.into_iter().for_each(|device| device.properties = properties);
    }

    /// Returns the process with this pid and name, adding it if it is new.
    pub fn process(&mut self, pid: i64, name: &str) -> ProcessId {
        let processes = &mut self.trace.processes;
        *self.process_ids.entry((pid, name.to_owned())).or_insert_with(|| {
            processes.push(Process { pid, name: name.to_owned() });
            ProcessId(index(processes.len() - 1))
        })
    }

    /// Returns the thread with this tid of `process`, adding it if it is new.
    pub fn thread(&mut self, process: ProcessId, tid: i64) -> ThreadId {
        let (threads, thread) = (&mut self.trace.threads, Thread { process, tid });
        *self.thread_ids.entry(thread).or_insert_with(|| {
            threads.push(thread);
            ThreadId(index(threads.len() - 1))
        })
    }

    /// Reserves memory for exactly this many additional calls.
    pub fn reserve_calls(&mut self, additional: usize) {
        self.trace.calls.reserve(additional);
        self.correlations.reserve_exact(additional);
    }

    /// Adds a call. It launched the ops of the same process with the same correlation id.
    pub fn add_call(&mut self, call: Span, correlation: Option<u32>) {
        self.trace.calls.push(call);
        self.correlations.push(correlation.unwrap_or(UNLINKED));
    }

    /// Adds a range that the program marked.
    pub fn add_range(&mut self, name: &str, (thread, start, duration): (ThreadId, Ns, Ns)) {
        self.trace.engine_hints.annotations.intern(name);
        let name = self.trace.ranges.names.intern(name);
        self.trace.ranges.push(Span { start, duration, name, thread });
    }

    /// Sets the compressed code of the host, whose threads have the ids of this trace.
    pub fn set_packed_code(&mut self, mut code: PackedCode) {
        if code.is_empty() && !code.is_too_long() {
            return;
        }
        let threads = 0..u32::try_from(self.trace.threads.len()).unwrap_or(u32::MAX);
        code.set_threads(threads.map(|thread| Some(ThreadId(thread))).collect());
        self.trace.packed_code = Some(Box::new(code));
    }

    /// Sets the size of the copy or set that was pushed last.
    pub fn set_bytes_of_last_op(&mut self, bytes: u64) {
        let last = index(self.trace.gpu_ops.len().saturating_sub(1));
        self.trace.bytes.push((last, bytes));
    }

    /// Sets the message of the collective whose kernel was pushed last.
    pub fn set_collective_of_last_op(&mut self, collective: Collective) {
        let last = index(self.trace.gpu_ops.len().saturating_sub(1));
        self.trace.collectives.push((last, collective));
    }

    /// Gives the GPU op that was pushed last the note with this index in [`Trace::node_notes`].
    pub fn set_note_of_last_op(&mut self, note: u32) {
        let last = index(self.trace.gpu_ops.len().saturating_sub(1));
        self.trace.node_notes.add_row(last, note);
    }

    /// Adds a CUDA graph that was traced as a whole. Its launch is the call of the same process with the same correlation id.
    pub fn add_graph_replay(&mut self, replay: GraphReplay, correlation: Option<u32>) {
        self.trace.graph_replays.push(replay);
        self.replay_ids.push((replay.process, correlation.unwrap_or(UNLINKED)));
    }

    /// Sets how the kernel that was pushed last was launched.
    pub fn set_launch_config_of_last_op(&mut self, config: LaunchConfig) {
        if let Some(id) = self.trace.launch_configs.add(config) {
            self.set_launch_config_id_of_last_op(id);
        }
    }

    /// The same for the index of a configuration in [`Trace::launch_configs`].
    pub fn set_launch_config_id_of_last_op(&mut self, id: u32) {
        self.trace.launch_configs.set(self.trace.gpu_ops.len().saturating_sub(1), id);
    }

    /// Adds a Python frame in which a serving engine runs one step.
    pub fn add_step_frame(&mut self, name: &str, HostInterval { thread, start, end }: HostInterval) {
        let frames = Arc::make_mut(&mut self.trace.step_frames);
        let name = frames.names.intern(name);
        frames.push(Span { start, duration: end.since(start), name, thread });
    }

    /// Starts to collect [`HostCode`]. Must be called before the first op and call are added.
    pub fn keep_code(&mut self) {
        self.code = Some(Box::default());
    }

    /// Sets the external id of the GPU op that was pushed last.
    pub fn set_external_id_of_last_op(&mut self, id: u32) {
        if let Some(code) = &mut self.code {
            code.code.op_ids.resize(self.trace.gpu_ops.len(), NONE);
            code.code.op_ids.last_mut().into_iter().for_each(|last| *last = id);
        }
    }

    /// Sets the external id of the call that was pushed last, and the kernel that it names.
    pub fn set_code_of_last_call(&mut self, id: u32, kernel: Option<NameId>) {
        if let Some(code) = &mut self.code {
            for (column, value) in
                [(&mut code.call_ids, id), (&mut code.code.call_kernels, kernel.map_or(NONE, |name| name.0))]
            {
                column.resize(self.trace.calls.len(), NONE);
                column.last_mut().into_iter().for_each(|last| *last = value);
            }
        }
    }

    /// Adds a framework op on the host. Its name is in the names of [`HostCode::cpu_ops`].
    pub fn add_cpu_op(&mut self, op: Span, id: u32) {
        if let Some(code) = &mut self.code {
            code.code.cpu_ops.push(op);
            code.code.cpu_op_ids.push(id);
        }
    }

    /// Adds a Python frame. Its name is in the names of [`HostCode::frames`].
    pub fn add_frame(&mut self, frame: Span, ids: FrameIds) {
        if let Some(code) = &mut self.code {
            code.frame(frame, ids);
        }
    }

    /// Returns the code collected so far; `None` unless [`TraceBuilder::keep_code`] was called.
    pub fn code(&mut self) -> Option<&mut HostCode> {
        self.code.as_mut().map(|code| &mut code.code)
    }

    /// Joins ops with their launching calls; call it when all ops and calls are added. [`TraceBuilder::finish`] does it, but a
    /// reader with other large tables to read calls it before them, because it frees the correlation ids.
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
        if CODE_IS_BUILT {
            self.drop_calls_without_time();
        }
        if CODE_IS_BUILT {
            self.drop_duplicates();
        }
        let (threads, processes) = (&self.trace.threads, self.trace.processes.len());
        let mut calls = CallsByCorrelation::new(&self.trace.calls, &self.correlations, threads, processes);
        self.correlations = Vec::new();
        if calls.has_repeated() {
            self.trace.gpu_ops.correlated().for_each(|(process, id)| calls.count_op(process, id));
        }
        let correlations = self.trace.gpu_ops.correlations();
        self.trace.gpu_ops.link(|process, id, start| calls.call_of_op(process, id, start));
        let replay_ids = std::mem::take(&mut self.replay_ids);
        for (replay, (process, id)) in self.trace.graph_replays.iter_mut().zip(replay_ids) {
            let call = calls.call_before(process, id, replay.start);
            replay.launch = Some(call).filter(|call| *call != UNLINKED).map(CallId);
        }
        let ambiguous = calls.ambiguous;
        self.count(ProblemKind::AmbiguousLaunch, ambiguous);
        self.drop_impossible_ops(&correlations);
        self.is_linked = true;
    }

    /// Counts problems that were found after reading, so that their place in the file is not known.
    fn count(&mut self, kind: ProblemKind, count: u64) {
        if count > 0 {
            self.trace.problems.add(kind, count, ImportProblem::UNKNOWN_PLACE);
        }
    }

    /// Takes out what the file has twice.
    fn drop_duplicates(&mut self) {
        if let Some(kept) = duplicates::distinct_calls(&self.trace.calls, &self.correlations) {
            self.count(ProblemKind::RepeatedEvent, (self.trace.calls.len() - kept.len()) as u64);
            self.select_calls(&kept);
        }
        let correlations = self.trace.gpu_ops.correlations();
        if let Some(kept) = duplicates::distinct_ops(&self.trace.gpu_ops, &correlations) {
            self.count(ProblemKind::RepeatedEvent, (self.trace.gpu_ops.len() - kept.len()) as u64);
            self.select_ops(&kept);
        }
    }

    /// Keeps only the calls in these rows, which ascend.
    fn select_calls(&mut self, kept: &[u32]) {
        self.trace.calls.select(kept);
        reorder(&mut self.correlations, kept);
        if let Some(code) = &mut self.code {
            reorder(&mut code.call_ids, kept);
            reorder(&mut code.code.call_kernels, kept);
        }
    }

    fn drop_calls_without_time(&mut self) {
        let Some(kept) = self.trace.calls.rows_with_time() else { return };
        if begins_at_zero(&self.trace.gpu_ops) {
            return;
        }
        self.count(ProblemKind::HostRowWithoutTime, (self.trace.calls.len() - kept.len()) as u64);
        self.select_calls(&kept);
    }

    fn drop_ranges_without_time(&mut self) {
        let Some(kept) = self.trace.ranges.rows_with_time() else { return };
        if begins_at_zero(&self.trace.gpu_ops) {
            return;
        }
        self.count(ProblemKind::HostRowWithoutTime, (self.trace.ranges.len() - kept.len()) as u64);
        self.trace.ranges.select(&kept);
    }

    /// Takes the ops out whose time cannot be true: they would stretch windows and make idle time. `correlations` are those of the ops.
    fn drop_impossible_ops(&mut self, correlations: &[u32]) {
        let trace = &self.trace;
        // These formats have one process, or name each, even without its pid.
        let has_own_ids = matches!(trace.format, Format::TorchProfiler | Format::XlaXspace | Format::XlaTraceViewer);
        let is_one_process = |process: &Process| process.pid >= 0 || has_own_ids;
        let evidence = Evidence {
            ops: &trace.gpu_ops,
            correlations,
            calls: &trace.calls,
            recorded: self.recorded,
            is_one_process: trace.processes.iter().map(is_one_process).collect(),
        };
        let ImpossibleOps { without_time, contradictory } = evidence.impossible_ops();
        let replays = trace.graph_replays.len();
        let begins_at_zero = begins_at_zero(&self.trace.gpu_ops);
        self.trace.graph_replays.retain(|replay| begins_at_zero || !is_zero(replay.start, replay.duration));
        let replays = replays - self.trace.graph_replays.len();
        self.count(ProblemKind::OpWithoutTime, (without_time.len() + replays) as u64);
        self.count(ProblemKind::ImpossibleDuration, contradictory.len() as u64);
        if without_time.is_empty() && contradictory.is_empty() {
            return;
        }
        let is_dropped =
            |row: &u32| without_time.binary_search(row).is_ok() || contradictory.binary_search(row).is_ok();
        let dropped = without_time.iter().chain(&contradictory);
        let launches = dropped.filter_map(|row| self.trace.gpu_ops.launch(*row as usize));
        self.trace.launches_of_dropped_ops = launches.collect();
        ordering::sort_by_key(&mut self.trace.launches_of_dropped_ops, |call| *call);
        let kept: Vec<u32> = (0..index(self.trace.gpu_ops.len())).filter(|row| !is_dropped(row)).collect();
        self.select_ops(&kept);
        self.has_dropped_ops = true;
    }

    /// Drops the names of ops that were taken out. Readers may set the names after the ops are joined.
    fn drop_unused_names(&mut self) {
        let mut remap = NameRemap::new(&self.trace.names);
        let mut new_ids: Vec<NameId> = (0..index(self.trace.names.len())).map(NameId).collect();
        for op in self.trace.gpu_ops.iter() {
            let new_id = remap.new_id(op.name);
            new_ids.get_mut(op.name.0 as usize).into_iter().for_each(|id| *id = new_id);
        }
        self.trace.names = remap.names;
        self.trace.gpu_ops.rename(&new_ids);
    }

    /// Keeps only the ops in these rows, which ascend.
    fn select_ops(&mut self, kept: &[u32]) {
        let trace = &mut self.trace;
        trace.gpu_ops.select(kept);
        if let Some(code) = &mut self.code {
            reorder(&mut code.code.op_ids, kept);
        }
        if LaunchConfigs::ARE_READ {
            trace.launch_configs.reorder(kept);
        }
        select_rows(&mut trace.bytes, kept);
        select_rows(&mut trace.collectives, kept);
        select_rows(&mut trace.memory_traffic, kept);
        if CODE_IS_BUILT {
            trace.node_notes.select(kept);
        }
    }

    /// Sorts the tables and devices, joins ops with their launching calls and returns the trace.
    pub fn finish(mut self) -> Trace {
        if !self.is_linked {
            self.link();
        }
        self.trace.code = self
            .code
            .take()
            .filter(|_| CODE_IS_BUILT)
            .map(|code| Box::new(code.finish(self.trace.gpu_ops.launches(), &self.trace.threads)));
        self.count_long_names();
        self.sort_devices();
        self.trace.clock_leads =
            clock_leads::clock_leads(&self.trace.gpu_ops, &self.trace.calls, self.trace.devices.len());
        if self.has_dropped_ops {
            self.drop_unused_names();
        }
        self.trace.ranges.sort_by_start();
        if CODE_IS_BUILT {
            self.drop_ranges_without_time();
        }
        Arc::make_mut(&mut self.trace.step_frames).sort_by_start();
        ordering::sort_by_key(&mut self.trace.graph_replays, |replay| replay.start);
        self.trace
    }

    /// Tells of names that were shortened.
    fn count_long_names(&mut self) {
        let Trace { names, calls, ranges, code, packed_code, .. } = &self.trace;
        let of_code = code.iter().flat_map(|code| [&code.cpu_ops.names, &code.frames.names]);
        let of_packed = packed_code.iter().flat_map(|code| [&code.ops, &code.functions]);
        let all = [names, &calls.names, &ranges.names].into_iter().chain(of_code).chain(of_packed);
        let count = all.map(Names::shortened).sum();
        if count > 0 {
            self.trace.problems.add(ProblemKind::LongName, count, 0);
        }
    }

    /// Sorts the ops; call it when all ops are added. [`TraceBuilder::finish`] does it, but a reader with other large tables to
    /// read calls it before them, to reduce the peak of memory.
    pub fn sort_ops(&mut self) {
        let Some(order) = self.trace.gpu_ops.sort_by_start() else { return };
        if let Some(code) = &mut self.code {
            reorder(&mut code.code.op_ids, &order);
        }
        let trace = &mut self.trace;
        if LaunchConfigs::ARE_READ {
            trace.launch_configs.reorder(&order);
        }
        let has_bytes = !trace.bytes.is_empty() || !trace.memory_traffic.is_empty();
        if !has_bytes && trace.collectives.is_empty() && trace.node_notes.is_empty() {
            return;
        }
        let new_rows = inverse(&order);
        drop(order);
        renumber_rows(&mut trace.bytes, &new_rows);
        renumber_rows(&mut trace.collectives, &new_rows);
        renumber_rows(&mut trace.memory_traffic, &new_rows);
        if CODE_IS_BUILT {
            trace.node_notes.renumber(&new_rows);
        }
    }

    fn sort_devices(&mut self) {
        let devices = &self.trace.devices;
        let mut order: Vec<u32> = (0..index(devices.len())).collect();
        ordering::sort_by_key(&mut order, |old| devices.get(*old as usize).map(|device| natural_key(&device.id)));
        let new_ids: Vec<DeviceId> = inverse(&order).into_iter().map(DeviceId).collect();
        self.trace.devices = order.iter().filter_map(|&old| devices.get(old as usize).cloned()).collect();
        let renumbered = |device: DeviceId| new_ids.get(device.0 as usize).copied().unwrap_or(device);
        self.trace.gpu_ops.renumber_devices(&new_ids);
        self.trace.graph_replays.iter_mut().for_each(|replay| replay.device = renumbered(replay.device));
        self.trace.metrics.iter_mut().for_each(|series| series.device = series.device.map(renumbered));
        let annotations = self.trace.code.iter_mut().flat_map(|code| &mut code.annotations);
        annotations.for_each(|annotation| annotation.device = annotation.device.map(renumbered));
    }
}

/// Keeps the entries of a table by row that belong to these rows, which ascend, and renumbers them.
fn select_rows<T>(table: &mut Vec<(u32, T)>, kept: &[u32]) {
    table.retain_mut(|(row, _)| {
        let new_row = kept.binary_search(row).ok();
        new_row.into_iter().for_each(|new_row| *row = index(new_row));
        new_row.is_some()
    });
}

/// Gives the entries of a table by row their new rows, and sorts them.
fn renumber_rows<T>(table: &mut Vec<(u32, T)>, new_rows: &[u32]) {
    table.iter_mut().for_each(|(row, _)| *row = new_rows.get(*row as usize).copied().unwrap_or(*row));
    ordering::sort_by_key(table, |(row, _)| *row);
}

/// Returns the new index of each old one: `order[new]` is the old index.
fn inverse(order: &[u32]) -> Vec<u32> {
    let mut new_indices = vec![0; order.len()];
    for (new, &old) in order.iter().enumerate() {
        new_indices.get_mut(old as usize).into_iter().for_each(|slot| *slot = index(new));
    }
    new_indices
}

/// Splits off the digits at the end as a number, so that `2` sorts before `10`.
fn natural_key(id: &str) -> (String, u64) {
    let digits = id.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (head, tail) = id.split_at(id.len() - digits);
    (head.to_owned(), tail.parse().unwrap_or(u64::MAX))
}
